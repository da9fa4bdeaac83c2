use super::group::WORDS;
use super::*;
use crate::checksum::crc32c;

fn space() -> Space {
    space_of(300 << 20)
}

/// All of its groups are in memory and have their space.
pub(super) fn space_of(bytes: u64) -> Space {
    let mut space = Space::new(&[Layout::new(bytes, 0)], 100);
    for id in space.ids().collect::<Vec<_>>() {
        space.insert_group(id, &[]);
        space.group_backed(id);
    }
    space
}

pub(super) fn allocate(space: &mut Space, blocks: u64) -> Option<Run> {
    match space.allocate(blocks, Length::of(blocks)) {
        Allocation::Run(run) => Some(run),
        Allocation::Full => None,
        Allocation::Load(group) => panic!("{group:?} is in memory"),
    }
}

#[test]
fn everything_can_be_handed_out_once() {
    let mut space = space();
    let total = space.total();
    let mut seen = std::collections::HashSet::new();
    while let Some(run) = allocate(&mut space, 1000) {
        assert!(run.blocks >= 1 && run.blocks <= 1000);
        for block in run.addresses() {
            assert!(space.holds(block) && seen.insert(block));
        }
    }
    assert_eq!((seen.len() as u64, space.free()), (total, 0));
}

#[test]
fn a_freed_block_waits_for_a_durable_checkpoint() {
    let mut space = space();
    let block = allocate(&mut space, 1).unwrap().start;
    let free = space.free();
    space.first_reference(block);
    space.drop_reference(block);
    assert_eq!((space.free(), space.quarantined()), (free, 1));
    space.cut();
    assert_eq!(space.free(), free);
    space.checkpoint_durable();
    assert_eq!((space.free(), space.quarantined()), (free + 1, 0));
}

#[test]
fn references_are_counted_up_and_down() {
    let mut space = space();
    let block = allocate(&mut space, 1).unwrap().start;
    space.first_reference(block);
    space.add_references(block, 1);
    space.add_references(block, 7);
    assert_eq!(space.references(block), 9);
    for left in (0..9).rev() {
        space.drop_reference(block);
        assert_eq!(space.references(block), left);
    }
    assert_eq!(space.used(), 0);
}

#[test]
fn references_too_many_to_count_stay_for_good() {
    let mut space = space();
    let block = allocate(&mut space, 1).unwrap().start;
    space.first_reference(block);
    space.add_references(block, REFERENCES_MAX);
    assert_eq!(space.references(block), STUCK);
    space.drop_reference(block);
    assert_eq!(space.references(block), STUCK);
}

#[test]
fn a_group_out_of_memory_notes_changes_and_makes_them_when_it_is_loaded() {
    let mut space = space();
    let run = allocate(&mut space, 3).unwrap();
    run.addresses().for_each(|block| space.first_reference(block));
    let id = space.group_of(run.start);
    let writes = space.emit_loaded();
    space.cut();
    space.emit_upper(&[space.layout(DeviceNumber::FIRST)]);
    space.checkpoint_durable();
    space.group_mut(id).body = None;
    space.drop_reference(run.start);
    space.add_references(run.start + 1, 1);
    assert_eq!((space.groups_with_deltas(), space.used()), (1, 3));
    space.emit_loaded();
    space.cut();
    space.drop_reference(run.start + 2);
    assert_eq!(space.owing(), [id]);
    let wanted = space.group_pages(id);
    let page = |page: GroupPage| {
        let found = writes.iter().find(|(address, _)| *address == page.address);
        (page.page, block::Buffer::copy_of(&found.unwrap().1))
    };
    let pages: Vec<_> = wanted.into_iter().map(page).collect();
    let owed = space.insert_group(id, &pages);
    assert_eq!(owed.len(), 2, "the bitmap and one page of counts");
    assert_eq!(space.references(run.start + 1), 2);
    assert_eq!((space.used(), space.quarantined()), (1, 2));
    space.checkpoint_durable();
    assert_eq!(space.quarantined(), 1, "what was freed after the cut waits for the next one");
}

/// Nobody reads it, but each copy of a mirror has it, and a scrub compares it (80004400).
#[test]
fn the_bitmap_of_a_group_that_became_empty_is_written_and_not_needed() {
    let mut space = space();
    let block = allocate(&mut space, 1).unwrap().start;
    let id = space.group_of(block);
    space.first_reference(block);
    space.emit_loaded();
    assert_eq!(space.group_pages(id), space.written_pages(id));
    space.drop_reference(block);
    let writes = space.emit_loaded();
    assert!(space.group_pages(id).is_empty());
    let [bitmap] = space.written_pages(id)[..] else { panic!("the bitmap alone") };
    let (_, bytes) = writes.iter().find(|(address, _)| *address == bitmap.address).unwrap();
    assert!(bytes.iter().all(|&byte| byte == 0));
    assert_eq!(bitmap.crc, crc32c(bytes));
}

#[test]
fn a_page_and_its_copy_lie_apart_and_go_together() {
    let mut space = space();
    let before = space.free();
    assert_eq!(space.prepare_pages(10), Preparation::Ready);
    let (page, distance) = space.allocate_page(true);
    assert!(distance >= TWIN_DISTANCE);
    assert_eq!((space.used(), space.pages), (2, 2));
    space.drop_page_reference(page, distance);
    space.cut();
    space.checkpoint_durable();
    assert_eq!((space.used(), space.pages, space.free()), (0, 0, before));
}

#[test]
fn a_short_group_grows_with_the_device() {
    let mut space = space();
    let before = space.total();
    space.extend(DeviceNumber::FIRST, (600 << 20) / BLOCK);
    assert_eq!(space.total() - before, space.free() - before);
    assert!(space.total() > before);
}

#[test]
fn a_run_stops_at_the_first_busy_block() {
    let mut busy = [0_u64; WORDS];
    let at = GroupBlock::new;
    set(&mut busy, at(70));
    assert_eq!(find_run(&busy, at(3), 1000), Some((at(3), 67)));
    assert_eq!(find_run(&busy, at(70), 5), Some((at(71), 5)));
    assert_eq!(find_run(&busy, at(71), 100_000), Some((at(71), GROUP_BLOCKS - 71)));
    assert_eq!(find_run(&[u64::MAX; WORDS], at(0), 1), None);
    assert_eq!(find_run(&[0; WORDS], at(0), 64), Some((at(0), 64)));
}

/// Only a checkpoint made room: what only looked at groups filled the memory.
#[test]
fn maps_that_nobody_changes_do_not_pile_up() {
    let mut space = Space::new(&[Layout::new(8 << 30, 0)], 4);
    for id in space.ids().collect::<Vec<_>>() {
        space.insert_group(id, &[]);
        space.group_arrived();
        assert!(space.is_loaded(id), "what was asked for is there");
        assert!(space.groups_loaded() <= 9);
    }
}

/// The next device's group pushed out the one that had just come, and so on without an end.
#[test]
fn a_group_that_was_loaded_for_a_request_is_the_one_that_it_meets() {
    let layouts = vec![Layout::new(300 << 20, 0); 6];
    let mut space = Space::new(&layouts, 2);
    for _ in 0..layouts.len() {
        let Allocation::Load(group) = space.allocate(8, Length::Short) else {
            panic!("no group is in memory");
        };
        space.insert_group(group, &[]);
        space.group_backed(group);
        space.group_arrived();
        let run = allocate(&mut space, 8).unwrap();
        assert_eq!(space.group_of(run.start), group);
    }
}
