use super::*;

fn space() -> Space {
    Space::new(Layout::new(300 << 20, 0))
}

#[test]
fn everything_can_be_handed_out_once() {
    let mut space = space();
    let total = space.total();
    let mut seen = std::collections::HashSet::new();
    while let Some(run) = space.allocate(1000) {
        assert!(run.blocks >= 1 && run.blocks <= 1000);
        for block in run.start..run.start + run.blocks {
            assert!(space.layout.locate(block).is_some() && seen.insert(block));
        }
    }
    assert_eq!((seen.len() as u64, space.free()), (total, 0));
}

#[test]
fn a_freed_block_waits_for_a_durable_checkpoint() {
    let mut space = space();
    let block = space.allocate(1).unwrap().start;
    let free = space.free();
    space.first_reference(block);
    assert_eq!(space.drop_reference(block), 0);
    assert_eq!((space.free(), space.quarantined()), (free, 1));
    space.cut();
    assert_eq!(space.free(), free);
    space.checkpoint_durable();
    assert_eq!((space.free(), space.quarantined()), (free + 1, 0));
}

#[test]
fn references_are_counted_up_and_down() {
    let mut space = space();
    let block = space.allocate(1).unwrap().start;
    space.first_reference(block);
    space.add_references(block, 1);
    space.add_references(block, 7);
    assert_eq!(space.references(block), 9);
    for left in (0..9).rev() {
        assert_eq!(space.drop_reference(block), left);
    }
    assert_eq!(space.used(), 0);
}

#[test]
fn a_short_group_grows_with_the_device() {
    let mut space = space();
    let before = space.total();
    space.extend((600 << 20) / BLOCK);
    assert_eq!(space.total() - before, space.free() - before);
    assert!(space.total() > before);
}

#[test]
fn a_run_stops_at_the_first_busy_block() {
    let mut busy = [0_u64; WORDS];
    set(&mut busy, 70);
    assert_eq!(find_run(&busy, 3, 1000), Some((3, 67)));
    assert_eq!(find_run(&busy, 70, 5), Some((71, 5)));
    assert_eq!(find_run(&busy, 71, 100_000), Some((71, GROUP_BLOCKS - 71)));
    assert_eq!(find_run(&[u64::MAX; WORDS], 0, 1), None);
    assert_eq!(find_run(&[0; WORDS], 0, 64), Some((0, 64)));
}
