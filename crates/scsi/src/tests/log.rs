//! LOG SENSE and LOG SELECT.

use std::time::Duration;

use super::*;

const CUMULATIVE: u8 = 0x40;

fn log_sense(page: u8, subpage: u8, pointer: u16) -> [u8; 10] {
    let [high, low] = pointer.to_be_bytes();
    [0x4d, 0, CUMULATIVE | page, subpage, 0, high, low, 4, 0, 0]
}

fn log_select(flags: u8, page: u8, subpage: u8, length: u8) -> [u8; 10] {
    [0x4c, flags, CUMULATIVE | page, subpage, 0, 0, 0, 0, length, 0]
}

/// Parameters of a page: code, control byte and value.
fn parameters(page: &[u8]) -> Vec<(u16, u8, Vec<u8>)> {
    assert_eq!(usize::from(u16::from_be_bytes([page[2], page[3]])), page.len() - 4);
    let mut at = 4;
    let mut found = Vec::new();
    while at < page.len() {
        let end = at + 4 + usize::from(page[at + 3]);
        let code = u16::from_be_bytes([page[at], page[at + 1]]);
        found.push((code, page[at + 2], page[at + 4..end].to_vec()));
        at = end;
    }
    found
}

fn counters(world: &mut World) -> Vec<u64> {
    let page = world.good(0, &log_sense(0x19, 0, 0), &[]);
    let value = &parameters(&page)[0].2;
    value.as_chunks().0.iter().map(|counter| u64::from_be_bytes(*counter)).collect()
}

#[test]
fn every_page_that_is_listed_is_there_and_no_other() {
    let mut world = World::new();
    let pages = world.good(0, &log_sense(0, 0, 0), &[]);
    assert_eq!(pages, [0x80, 0, 0, 4, 0x00, 0x0c, 0x19, 0x2f]);
    let subpages = world.good(0, &log_sense(0, 0xff, 0), &[]);
    assert_eq!(subpages[..4], [0xc0, 0xff, 0, 10]);
    assert_eq!(subpages[4..], [0, 0, 0, 0xff, 0x0c, 0, 0x19, 0, 0x2f, 0]);
    for page in 0..0x3f {
        for subpage in [0, 1, 0xff] {
            let completion = world.run(ALICE, 0, &log_sense(page, subpage, 0), &[]);
            let listed = subpages[4..].chunks(2).any(|pair| pair == [page, subpage]);
            assert_eq!(completion.status == Status::Good, listed, "{page:#x} {subpage}");
        }
    }
    for length in 0..8 {
        let cdb = [0x4d, 0, CUMULATIVE, 0, 0, 0, 0, 0, length, 0];
        assert_eq!(world.good(0, &cdb, &[]), pages[..usize::from(length)]);
    }
}

#[test]
fn provisioning_is_told_in_sets_of_4_kib() {
    let mut world = World::new();
    assert_eq!(world.good(0, &log_sense(0x0c, 0, 0), &[]).len(), 4);
    let space = UnitSpace { available_bytes: 7 << 20, used_bytes: 12_288 };
    world.target.set_space(ONE, space);
    let page = world.good(0, &log_sense(0x0c, 0, 0), &[]);
    let available = [&1792u32.to_be_bytes()[..], &[2, 0, 0, 0]].concat();
    let used = vec![0, 0, 0, 3, 1, 0, 0, 0];
    assert_eq!(parameters(&page), [(1, 3, available), (2, 3, used.clone())]);
    let page = world.good(0, &log_sense(0x0c, 0, 2), &[]);
    assert_eq!(parameters(&page), [(2, 3, used)]);
    assert_eq!(world.fails(0, &log_sense(0x0c, 0, 3), &[]), INVALID_CDB);
    world.target.set_space(ONE, UnitSpace { available_bytes: u64::MAX, ..space });
    let page = world.good(0, &log_sense(0x0c, 0, 0), &[]);
    assert_eq!(parameters(&page)[0].2[..4], [0xff; 4]);
}

#[test]
fn commands_blocks_and_times_are_counted_until_they_are_reset() {
    let mut world = World::new();
    assert_eq!(counters(&mut world), [0; 8]);
    world.good(0, &cdb10(0x2a, 0, 0, 4), &pattern(1, 4));
    world.begin(ALICE, 0, &cdb10(0x28, 0, 0, 3), &[]);
    world.target.tick(Duration::from_millis(40));
    while world.step() {}
    assert!(world.target.next_done().is_some());
    world.fails(0, &cdb10(0x28, 0, u32::MAX, 1), &[]);
    world.good(0, &[0; 6], &[]);
    assert_eq!(counters(&mut world), [1, 1, 4, 3, 40, 0, 2, 40]);
    let page = world.good(0, &log_sense(0x19, 0, 3), &[]);
    assert_eq!(parameters(&page), [(3, 3, vec![0xff, 0xff, 0xff, 0xfd, 0, 0, 0, 1])]);
    world.good(0, &log_select(0, 0, 0, 0), &[]);
    world.good(0, &log_select(2, 0x0c, 0, 0), &[]);
    assert_eq!(counters(&mut world)[0], 1);
    for page in [0x19, 0] {
        world.good(0, &log_select(2, page, 0, 0), &[]);
        assert_eq!(counters(&mut world), [0; 8]);
        assert_eq!(world.sense(BOB, 0, &[0; 6], &[]), (6, 0x2a, 2));
        assert_eq!(world.run(BOB, 0, &[0; 6], &[]).status, Status::Good);
        world.good(0, &cdb10(0x28, 0, 0, 1), &[]);
    }
}

fn idle_ms(world: &mut World) -> u64 {
    let page = world.good(0, &log_sense(0x19, 0, 2), &[]);
    let (code, _, value) = parameters(&page).remove(0);
    assert_eq!(code, 2);
    u64::from_be_bytes(value.try_into().unwrap())
}

/// sg_logs takes the page for damaged without this parameter.
#[test]
fn the_time_without_a_task_is_told() {
    let mut world = World::new();
    let tick = |world: &mut World, ms| world.target.tick(Duration::from_millis(ms));
    tick(&mut world, 10);
    assert_eq!(idle_ms(&mut world), 10);
    world.begin(ALICE, 0, &cdb10(0x28, 0, 0, 3), &[]);
    tick(&mut world, 20);
    world.begin(ALICE, 0, &cdb10(0x28, 0, 0, 3), &[]);
    tick(&mut world, 50);
    assert_eq!(idle_ms(&mut world), 10);
    while world.step() {}
    while world.target.next_done().is_some() {}
    tick(&mut world, 55);
    assert_eq!(idle_ms(&mut world), 15);
    world.good(0, &log_select(2, 0x19, 0, 0), &[]);
    assert_eq!(idle_ms(&mut world), 0);
    tick(&mut world, 58);
    assert_eq!(idle_ms(&mut world), 3);
}

#[test]
fn what_cannot_be_told_or_set_is_refused() {
    let mut world = World::new();
    let field = |byte, bit| Some(FieldPointer { in_cdb: true, byte, bit });
    let refusals: [(&[u8], _); 8] = [
        (&[0x4d, 1, CUMULATIVE, 0, 0, 0, 0, 0, 255, 0], field(1, Some(0))),
        (&[0x4d, 0, 0x19, 0, 0, 0, 0, 0, 255, 0], field(2, Some(7))),
        (&log_sense(0, 0, 1), field(5, None)),
        (&log_sense(0x3e, 0, 0), field(2, None)),
        (&log_select(1, 0, 0, 0), field(1, Some(0))),
        (&log_select(2, 0, 0, 4), field(7, None)),
        (&log_select(2, 0x19, 1, 0), field(3, None)),
        (&log_select(2, 0x18, 0, 0), field(2, None)),
    ];
    for (cdb, field) in refusals {
        let sense = world.run(ALICE, 0, cdb, &[0; 4]).sense.unwrap();
        assert_eq!((sense.code.asc, sense.field), (0x24, field), "{cdb:x?}");
    }
}
