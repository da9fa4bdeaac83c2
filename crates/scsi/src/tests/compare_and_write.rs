use super::*;

#[test]
fn equal_blocks_are_replaced_and_different_ones_are_not() {
    let mut world = World::new();
    for count in [1u8, 8, 255] {
        let blocks = usize::from(count);
        let (old, new) = (vec![0; blocks * BLOCK], pattern(count, blocks));
        let cdb = compare_and_write_cdb(1000, count);
        world.good(0, &cdb, &[old.clone(), new.clone()].concat());
        assert_eq!(world.bytes(ONE, 1000, u64::from(count)), new);
        assert_eq!(world.fails(0, &cdb, &[old.clone(), old.clone()].concat()), (14, 0x1d, 0));
        assert_eq!(world.bytes(ONE, 1000, u64::from(count)), new);
        world.good(0, &cdb, &[new, old].concat());
    }
}

#[test]
fn a_miscompare_reports_the_offset_of_the_first_difference() {
    let mut world = World::new();
    let cdb = compare_and_write_cdb(0, 4);
    for offset in [0, 1, 511, 512, 1024, 2047] {
        let mut compare = vec![0; 4 * BLOCK];
        compare[offset] = 1;
        compare[2047] |= 1;
        let data = [compare, pattern(1, 4)].concat();
        let sense = world.run(ALICE, 0, &cdb, &data).sense.unwrap();
        assert_eq!(sense.information, Some(offset as u64));
        assert_eq!(sense.emit()[..8], [0xf0, 0, 14, 0, 0, (offset >> 8) as u8, offset as u8, 10]);
    }
    assert!(world.bytes(ONE, 0, 4).iter().all(|&byte| byte == 0));
}

#[test]
fn no_blocks_compare_nothing_and_are_good() {
    let mut world = World::new();
    world.good(0, &compare_and_write_cdb(0, 0), &[]);
    world.good(0, &compare_and_write_cdb(BLOCKS, 0), &[]);
    assert_eq!(world.fails(0, &compare_and_write_cdb(BLOCKS + 1, 0), &[]), OUT_OF_RANGE);
    assert_eq!(world.requests, []);
}

#[test]
fn another_length_of_data_than_twice_the_blocks_is_refused() {
    let mut world = World::new();
    for (count, length) in [(0, 512), (1, 0), (1, 512), (1, 1023), (1, 1025), (1, 2048), (3, 2048)]
    {
        let cdb = compare_and_write_cdb(0, count);
        assert_eq!(world.fails(0, &cdb, &vec![0; length]), INVALID_CDB, "{count} {length}");
    }
    assert_eq!(world.requests, []);
}

#[test]
fn flags_for_the_cache_are_accepted_and_others_are_not() {
    let mut world = World::new();
    let data = vec![0; 2 * BLOCK];
    for (flags, good) in [(0x08, true), (0x10, true), (0x18, true), (0x20, false), (1, false)] {
        let mut cdb = compare_and_write_cdb(0, 1);
        cdb[1] = flags;
        assert_eq!(world.run(ALICE, 0, &cdb, &data).status == Status::Good, good, "{flags:#x}");
    }
    let mut wide = compare_and_write_cdb(0, 1);
    wide[12] = 1;
    assert_eq!(world.fails(0, &wide, &data), INVALID_CDB);
}

#[test]
fn many_on_different_blocks_are_in_the_engine_at_once() {
    let mut world = World::new();
    for lba in 0..64 {
        world.begin(ALICE, 0, &compare_and_write_cdb(lba, 1), &[0; 2 * BLOCK]);
    }
    let requests: Vec<_> = std::iter::from_fn(|| world.target.next_request()).collect();
    assert_eq!(requests.len(), 64);
    for (id, ..) in requests {
        world.target.completed(id, Ok(Response::Done));
    }
    assert_eq!(std::iter::from_fn(|| world.target.next_done()).count(), 64);
}

#[test]
fn of_two_that_expect_the_same_exactly_one_wins() {
    let mut world = World::new();
    let data = [vec![0; BLOCK], pattern(1, 1)].concat();
    for nexus in [ALICE, BOB, ALICE] {
        world.begin(nexus, 0, &compare_and_write_cdb(7, 1), &data);
    }
    while world.step() {}
    let done: Vec<_> = std::iter::from_fn(|| world.target.next_done()).collect();
    let good = done.iter().filter(|(_, completion)| completion.status == Status::Good);
    assert_eq!((done.len(), good.count()), (3, 1));
}

/// Another session of the same initiator as [`ALICE`]'s.
fn alice_again(world: &mut World) -> NexusId {
    let again = NexusId(77);
    world.target.open_nexus(again, nexus_spec("alice"));
    assert_eq!(world.sense(again, 0, &[0; 6], &[]), (6, 0x29, 0));
    again
}

fn swap_data() -> Vec<u8> {
    [[0; BLOCK], [7; BLOCK]].concat()
}

#[test]
fn another_host_that_writes_the_same_bytes_is_no_retry() {
    let (mut world, data) = (World::new(), swap_data());
    let cdb = compare_and_write_cdb(40, 1);
    world.good(0, &cdb, &data);
    for nexus in [BOB, ALICE, BOB, ALICE] {
        assert_eq!(world.sense(nexus, 0, &cdb, &data), (14, 0x1d, 0));
    }
    assert_eq!(world.target.next_notice(), None);
    // Also not when the one that wrote it is gone, and another comes.
    world.target.close_nexus(ALICE);
    assert_eq!(world.sense(BOB, 0, &cdb, &data), (14, 0x1d, 0));
    assert_eq!(world.target.next_notice(), None);
    let counters = world.target.counters();
    assert_eq!(counters.compare_and_write_miscompares, 5);
    assert_eq!(counters.compare_and_write_own_found, 0);
}

#[test]
fn a_retry_after_a_session_that_ended_is_one() {
    let (mut world, data) = (World::new(), swap_data());
    let cdb = compare_and_write_cdb(40, 1);
    world.good(0, &cdb, &data);
    world.target.close_nexus(ALICE);
    let again = alice_again(&mut world);
    assert_eq!(world.sense(again, 0, &cdb, &data), (14, 0x1d, 0));
    let notice = Notice::OwnCompareAndWriteFound {
        initiator_name: "iqn.2026-01.example:alice".to_owned(),
        volume: ONE,
        lba: 40,
        blocks: 1,
        lost: LostAnswer::SessionEnded,
    };
    assert_eq!(world.target.next_notice(), Some(notice));
    // It does not if somebody else wrote there since, though it be the same.
    let back = [[7; BLOCK], [0; BLOCK]].concat();
    assert_eq!(world.run(BOB, 0, &cdb, &back).status, Status::Good);
    assert_eq!(world.run(BOB, 0, &cdb, &data).status, Status::Good);
    assert_eq!(world.sense(again, 0, &cdb, &data), (14, 0x1d, 0));
    assert_eq!(world.target.next_notice(), None);
}

#[test]
fn a_retry_of_a_command_that_was_aborted_is_one() {
    let (mut world, data) = (World::new(), swap_data());
    let cdb = compare_and_write_cdb(40, 1);
    let task = world.begin(ALICE, 0, &cdb, &data);
    let (id, volume, request) = world.target.next_request().unwrap();
    world.target.manage(TaskId(9_000), ALICE, 0, TaskManagement::AbortTask(task));
    let answer = world.apply(volume, request);
    world.target.completed(id, answer);
    assert!(world.target.next_done().is_none());
    assert_eq!(world.sense(ALICE, 0, &cdb, &data), (14, 0x1d, 0));
    let notice = world.target.next_notice();
    assert!(
        matches!(
            notice,
            Some(Notice::OwnCompareAndWriteFound { lost: LostAnswer::Aborted, lba: 40, .. })
        ),
        "{notice:?}"
    );
}

#[test]
fn no_more_notices_wait_than_may() {
    let (mut world, data) = (World::new(), swap_data());
    for lba in 0..limits::NOTICES_MAX as u64 + 3 {
        world.good(0, &compare_and_write_cdb(lba, 1), &data);
    }
    world.target.close_nexus(ALICE);
    let again = alice_again(&mut world);
    for lba in 0..limits::NOTICES_MAX as u64 + 3 {
        let cdb = compare_and_write_cdb(lba, 1);
        assert_eq!(world.sense(again, 0, &cdb, &data), (14, 0x1d, 0));
    }
    let notices: Vec<_> = std::iter::from_fn(|| world.target.next_notice()).collect();
    assert_eq!(notices.len(), limits::NOTICES_MAX);
    assert!(matches!(notices[0], Notice::OwnCompareAndWriteFound { lba: 3, .. }));
}

#[test]
fn many_on_different_blocks_are_under_way_together() {
    let mut world = World::new();
    let data = [[0; BLOCK], [7; BLOCK]].concat();
    for lba in 0..64 {
        let nexus = if lba % 2 == 0 { ALICE } else { BOB };
        world.begin(nexus, 0, &compare_and_write_cdb(lba, 1), &data);
    }
    let mut together = Vec::new();
    while let Some((id, ..)) = world.target.next_request() {
        together.push(id);
    }
    assert_eq!(together.len(), 64);
    // They end in whatever order the engine answers.
    for id in together.into_iter().rev() {
        world.target.completed(id, Ok(Response::Done));
        assert_eq!(world.target.next_done().unwrap().1.status, Status::Good);
    }
}
