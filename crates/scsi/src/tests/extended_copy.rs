use std::collections::BTreeSet;

use super::*;

#[derive(Clone)]
pub(super) struct Segment {
    source: u16,
    destination: u16,
    blocks: u16,
    from: u64,
    to: u64,
}

pub(super) fn segment(from: u64, to: u64, blocks: u16) -> Segment {
    Segment { source: 0, destination: 1, blocks, from, to }
}

pub(super) fn cscd(volume: VolumeId) -> [u8; 32] {
    let mut descriptor = [0; 32];
    (descriptor[0], descriptor[4], descriptor[5], descriptor[7]) = (0xe4, 1, 3, 16);
    descriptor[8..24].copy_from_slice(&naa(volume));
    descriptor[30] = 2;
    descriptor
}

/// What ESXi sends: no list identifier.
pub(super) fn list(cscds: &[VolumeId], segments: &[Segment]) -> Vec<u8> {
    let mut list = vec![0; 16];
    list[1] = 0x18;
    list[2..4].copy_from_slice(&(32 * cscds.len() as u16).to_be_bytes());
    list[8..12].copy_from_slice(&(28 * segments.len() as u32).to_be_bytes());
    list.extend(cscds.iter().flat_map(|volume| cscd(*volume)));
    for segment in segments {
        list.extend([2, 0, 0, 0x18]);
        list.extend(segment.source.to_be_bytes());
        list.extend(segment.destination.to_be_bytes());
        list.extend([0, 0]);
        list.extend(segment.blocks.to_be_bytes());
        list.extend(segment.from.to_be_bytes());
        list.extend(segment.to.to_be_bytes());
    }
    list
}

pub(super) fn cdb(length: usize) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[10..14].copy_from_slice(&(length as u32).to_be_bytes());
    cdb
}

pub(super) fn copy(world: &mut World, list: &[u8]) -> Option<Code> {
    let completion = world.run(ALICE, 0, &cdb(list.len()), list);
    let sense = completion.sense?;
    Some((sense.code.key as u8, sense.code.asc, sense.code.ascq))
}

#[test]
fn a_segment_of_esxi_is_one_request_on_the_destination() {
    let mut world = World::new();
    world.number(ONE, 2048, 8192);
    let list = list(&[ONE, TWO], &[segment(2048, 6144, 8192)]);
    assert_eq!(list.len(), 108);
    assert_eq!(copy(&mut world, &list), None);
    assert_eq!(world.requests, [(TWO, "Copy".to_owned())]);
    assert!(world.bytes(ONE, 2048, 8192) == world.bytes(TWO, 6144, 8192));
}

#[test]
fn the_command_may_be_sent_to_either_unit() {
    let mut world = World::new();
    world.number(ONE, 0, 8);
    for lun in [0, 1, 300] {
        let list = list(&[ONE, TWO], &[segment(0, u64::from(lun), 8)]);
        world.good(lun, &cdb(list.len()), &list);
        assert_eq!(world.bytes(TWO, u64::from(lun), 8), world.bytes(ONE, 0, 8));
    }
}

#[test]
fn all_segments_are_carried_out_in_order() {
    for count in [1, 2, 8, limits::SEGMENT_DESCRIPTORS_MAX as u64] {
        let mut world = World::new();
        world.number(ONE, 0, 16 * count);
        let segments: Vec<_> = (0..count)
            .map(|index| segment(index * 16, (count - 1 - index) * 16 + 100, 16))
            .collect();
        assert_eq!(copy(&mut world, &list(&[ONE, TWO], &segments)), None);
        for Segment { from, to, .. } in segments {
            assert_eq!(world.bytes(TWO, to, 16), world.bytes(ONE, from, 16));
        }
        assert!(world.bytes(TWO, 0, 100).iter().all(|&byte| byte == 0));
    }
}

#[test]
fn descriptors_may_come_in_any_order_alone_or_twice() {
    let mut world = World::new();
    world.number(ONE, 0, 8);
    let backwards = Segment { source: 1, destination: 0, ..segment(0, 50, 8) };
    assert_eq!(copy(&mut world, &list(&[TWO, ONE], &[backwards])), None);
    assert_eq!(world.bytes(TWO, 50, 8), world.bytes(ONE, 0, 8));
    let within = Segment { destination: 0, ..segment(0, 60, 8) };
    assert_eq!(copy(&mut world, &list(&[ONE], &[within])), None);
    assert_eq!(world.bytes(ONE, 60, 8), world.bytes(ONE, 0, 8));
    assert_eq!(copy(&mut world, &list(&[ONE, ONE], &[segment(0, 70, 8)])), None);
    assert_eq!(world.bytes(ONE, 70, 8), world.bytes(ONE, 0, 8));
}

#[test]
fn ranges_that_overlap_copy_as_if_the_source_were_read_first() {
    for (from, to) in [(0, 2048), (2048, 0), (0, 5000), (5000, 3), (8, 8)] {
        let mut world = World::new();
        world.number(ONE, 0, 60_000);
        let before = world.bytes(ONE, from, 50_000).to_vec();
        assert_eq!(copy(&mut world, &list(&[ONE, ONE], &[segment(from, to, 50_000)])), None);
        assert!(world.bytes(ONE, to, 50_000) == before, "{from} to {to}");
        assert!(world.requests.len() > 5);
    }
}

#[test]
fn between_pools_it_is_read_and_written_and_holes_stay_holes() {
    let mut world = World::new();
    world.number(ONE, 1000, 3000);
    let there = list(&[ONE, FAR], &[segment(1000, 77, 9000), segment(1000, 20_000, 5)]);
    assert_eq!(copy(&mut world, &there), None);
    assert!(world.bytes(ONE, 1000, 9000) == world.bytes(FAR, 77, 9000));
    assert!(world.bytes(ONE, 1000, 5) == world.bytes(FAR, 20_000, 5));
    let count = |kind| world.requests.iter().filter(|(_, request)| request == kind).count();
    // Slices that were asked for before the first answer.
    assert_eq!((count("Copy"), count("Read")), (3, 6));
    assert!(count("WriteSame") >= 3);
    let back = list(&[FAR, ONE], &[segment(77, 30_000, 9000)]);
    assert_eq!(copy(&mut world, &back), None);
    assert!(world.bytes(ONE, 30_000, 9000) == world.bytes(FAR, 77, 9000));
}

#[test]
fn a_unit_that_the_nexus_does_not_see_is_out_of_reach() {
    let mut world = World::new();
    world.number(HIDDEN, 0, 8);
    let unreachable = Some((10, 0x0d, 2));
    assert_eq!(copy(&mut world, &list(&[HIDDEN, ONE], &[segment(0, 0, 8)])), unreachable);
    assert_eq!(copy(&mut world, &list(&[ONE, HIDDEN], &[segment(0, 0, 8)])), unreachable);
    assert_eq!(copy(&mut world, &list(&[ONE, VolumeId(9)], &[segment(0, 0, 8)])), unreachable);
    let mut null = list(&[ONE, TWO], &[segment(0, 0, 8)]);
    null[16 + 1] = 0x20;
    assert_eq!(copy(&mut world, &null), unreachable);
    let mut prefix = list(&[ONE, TWO], &[segment(0, 0, 8)]);
    prefix[16 + 7] = 8;
    assert_eq!(copy(&mut world, &prefix), unreachable);
    let index = Segment { destination: 2, ..segment(0, 0, 8) };
    assert_eq!(copy(&mut world, &list(&[ONE, TWO], &[index])), Some((10, 8, 4)));
    assert_eq!(world.requests, []);
}

#[test]
fn nothing_is_copied_when_a_later_segment_is_wrong() {
    let mut world = World::new();
    for wrong in [segment(BLOCKS - 1, 0, 2), segment(0, BLOCKS, 1), segment(u64::MAX, 0, 2)] {
        let told = copy(&mut world, &list(&[ONE, TWO], &[segment(0, 0, 8), wrong]));
        assert_eq!(told, Some((10, 0, 0)));
    }
    assert_eq!(world.requests, []);
    assert_eq!(copy(&mut world, &list(&[ONE, TWO], &[segment(0, 0, 0)])), None);
    assert_eq!(copy(&mut world, &list(&[ONE, TWO], &[])), None);
    assert_eq!(copy(&mut world, &[]), None);
    assert_eq!(world.requests, []);
}

#[test]
fn a_list_that_is_cut_short_is_refused_at_every_length() {
    let mut world = World::new();
    let whole = list(&[ONE, TWO], &[segment(0, 0, 8), segment(8, 8, 8)]);
    for length in 1..whole.len() {
        assert_eq!(copy(&mut world, &whole[..length]), Some(LIST_LENGTH), "{length}");
    }
    let cdb = cdb(whole.len());
    assert_eq!(world.fails(0, &cdb, &whole[..whole.len() - 1]), LIST_LENGTH);
    let longer = [whole, vec![0; 100]].concat();
    assert_eq!(copy(&mut world, &longer), None);
}

#[test]
fn the_limits_hold_exactly_and_nothing_happens_beyond_them() {
    let mut world = World::new();
    let segments = vec![segment(0, 0, 8); limits::SEGMENT_DESCRIPTORS_MAX + 1];
    let cscds = [vec![ONE; limits::CSCD_DESCRIPTORS_MAX - 1], vec![TWO]].concat();
    let last = Segment { destination: cscds.len() as u16 - 1, ..segment(0, 0, u16::MAX) };
    assert_eq!(copy(&mut world, &list(&cscds, &[last])), None);
    world.requests.clear();
    let more = [cscds, vec![TWO]].concat();
    assert_eq!(copy(&mut world, &list(&more, &segments[1..])), Some((5, 0x26, 6)));
    assert_eq!(copy(&mut world, &list(&[ONE, TWO], &segments)), Some((5, 0x26, 8)));
    let long = list(&[ONE, TWO], &vec![segment(0, 0, 8); 300]);
    assert_eq!(copy(&mut world, &long), Some((5, 0x26, 8)));
    let longest = list(&[ONE, TWO], &vec![segment(0, 0, 8); 370]);
    assert_eq!(copy(&mut world, &longest), Some(LIST_LENGTH));
    assert_eq!(world.fails(0, &cdb(1 << 20), &vec![0; 1 << 20]), LIST_LENGTH);
    assert_eq!(world.requests, []);
}

#[test]
fn descriptors_of_other_kinds_are_refused() {
    let mut world = World::new();
    let right = list(&[ONE, TWO], &[segment(0, 0, 8)]);
    let mut told = |at: usize, value: u8| {
        let mut wrong = right.clone();
        wrong[at] = value;
        copy(&mut world, &wrong)
    };
    assert_eq!(told(16, 0xe0), Some((5, 0x26, 7)));
    assert_eq!(told(80, 0x03), Some((5, 0x26, 9)));
    assert_eq!(told(17, 0x01), Some(INVALID_LIST));
    assert_eq!(told(83, 0x17), Some(INVALID_LIST));
    assert_eq!(told(46, 0x10), Some(INVALID_LIST));
    assert_eq!(told(15, 0x01), Some((5, 0x26, 0x0b)));
    assert_eq!(told(1, 0x08), Some(INVALID_LIST));
    assert_eq!(told(0, 0x01), Some(INVALID_LIST));
    assert_eq!(told(17, 0x80), None);
    assert_eq!(told(1, 0x1f), None);
}

#[test]
fn a_reservation_of_another_nexus_on_either_end_conflicts() {
    let mut world = World::new();
    world.number(ONE, 0, 8);
    for lun in [0, 1] {
        assert_eq!(world.run(BOB, lun, &[0x16, 0, 0, 0, 0, 0], &[]).status, Status::Good);
        let list = list(&[ONE, TWO], &[segment(0, 0, 8)]);
        let completion = world.run(ALICE, 300, &cdb(list.len()), &list);
        assert_eq!(completion.status, Status::ReservationConflict);
        assert_eq!(world.run(BOB, lun, &[0x17, 0, 0, 0, 0, 0], &[]).status, Status::Good);
    }
    assert_eq!(world.requests, []);
}

#[test]
fn a_destination_that_may_only_be_read_is_refused() {
    let mut world = World::new();
    world.target.set_read_only(ALICE, &BTreeSet::from([1]));
    world.sense(ALICE, 1, &[0; 6], &[]);
    let list = list(&[ONE, TWO], &[segment(0, 0, 8)]);
    assert_eq!(copy(&mut world, &list), Some((7, 0x27, 0)));
    assert!(world.requests.is_empty());
}

#[test]
fn between_units_of_different_block_length_bytes_are_copied_if_they_fit() {
    let mut world = World::new();
    let block_length = LogicalBlockLength::B4096;
    world.target.add_unit(TWO, LogicalUnitSpec { block_length, ..spec(TWO) });
    let mut list = list(&[ONE, TWO], &[segment(0, 0, 8)]);
    assert_eq!(copy(&mut world, &list), Some(INVALID_LIST));
    list[16 + 32 + 30] = 0x10;
    world.number(ONE, 0, 16);
    assert_eq!(copy(&mut world, &list), None);
    assert_eq!(world.bytes(TWO, 0, 8), world.bytes(ONE, 0, 8));
    // DC: the count is in blocks of the destination.
    list[81] = 0x02;
    list[91] = 1;
    list[107] = 1;
    assert_eq!(copy(&mut world, &list), None);
    assert_eq!(world.bytes(TWO, 8, 8), world.bytes(ONE, 0, 8));
    // Nine blocks of 512 bytes leave the second block of the destination in part: PAD fills it.
    list[81] = 0;
    list[91] = 9;
    world.number(TWO, 8, 16);
    let before = world.volumes[&TWO].clone();
    assert_eq!(copy(&mut world, &list), Some((10, 0x26, 0x0a)));
    assert!(world.volumes[&TWO] == before);
    list[16 + 32 + 28] = 0x04;
    assert_eq!(copy(&mut world, &list), None);
    assert_eq!(world.bytes(TWO, 8, 9), world.bytes(ONE, 0, 9));
    assert!(world.bytes(TWO, 17, 7).iter().all(|&byte| byte == 0));
    assert_eq!(world.bytes(TWO, 24, 8), &before[24 * BLOCK..32 * BLOCK]);
}

#[test]
fn an_engine_error_stops_the_copy_and_is_told() {
    for (error, code) in [
        (BlockError::OutOfSpace, (7, 0x27, 7)),
        (BlockError::Medium { offset: 0 }, (10, 0x0d, 1)),
        (BlockError::Closed, (2, 4, 1)),
    ] {
        let mut world = World::new();
        world.fault = Some(error);
        let segments = [segment(0, 0, 8), segment(8, 8, 8)];
        assert_eq!(copy(&mut world, &list(&[ONE, TWO], &segments)), Some(code));
        assert_eq!(world.requests.len(), 2, "those that were under way");
    }
}

#[test]
fn an_abort_stops_the_copy() {
    let mut world = World::new();
    let list = list(&[ONE, TWO], &[segment(0, 0, 65_535)]);
    let task = world.begin(ALICE, 0, &cdb(list.len()), &list);
    world.step();
    world.target.manage(TaskId(99), ALICE, 0, TaskManagement::AbortTask(task));
    assert!(world.target.next_management_done().is_some());
    assert!(!world.step());
    assert_eq!(world.target.next_aborted(), Some(task));
}

#[test]
fn a_reset_of_the_destination_stops_a_copy_that_another_unit_carries_out() {
    let mut world = World::new();
    let list = list(&[ONE, TWO], &[segment(0, 0, 65_535)]);
    let task = world.begin(ALICE, 0, &cdb(list.len()), &list);
    world.step();
    let (request, ..) = world.target.next_request().unwrap();
    world.target.manage(TaskId(99), ALICE, emit_lun(1), TaskManagement::LogicalUnitReset);
    assert!(world.target.next_management_done().is_none());
    world.target.completed(request, Ok(Response::Done));
    assert!(world.target.next_management_done().is_some());
    assert!(!world.step());
    assert_eq!(world.target.next_aborted(), Some(task));
    assert_eq!(world.target.tasks_under_way(), 0);
}

#[test]
fn more_copies_at_once_than_told_are_refused() {
    let mut world = World::new();
    let list = list(&[ONE, TWO], &[segment(0, 0, 8)]);
    for _ in 0..limits::CONCURRENT_COPIES_MAX {
        world.begin(ALICE, 0, &cdb(list.len()), &list);
    }
    let refused = world.begin(ALICE, 0, &cdb(list.len()), &list);
    let (done, completion) = world.target.next_done().unwrap();
    let code = completion.sense.unwrap().code;
    assert_eq!((done, code.asc, code.ascq), (refused, 0x55, 3));
    while world.step() {}
    while world.target.next_done().is_some() {}
    assert_eq!(copy(&mut world, &list), None);
}

#[test]
fn the_outcome_is_held_under_its_list_identifier() {
    let mut world = World::new();
    let status = |list_id| {
        let mut cdb = [0; 16];
        (cdb[0], cdb[2], cdb[13]) = (0x84, list_id, 255);
        cdb
    };
    assert_eq!(world.fails(0, &status(1), &[]), INVALID_CDB);
    for usage in [0x00, 0x10] {
        let mut list = list(&[ONE, TWO], &[segment(0, 0, 8), segment(8, 8, 8)]);
        (list[0], list[1]) = (1, usage);
        assert_eq!(copy(&mut world, &list), None);
        assert_eq!(world.good(0, &status(1), &[]), [0, 0, 0, 8, 1, 0, 2, 0, 0, 0, 32, 0]);
        world.fault = Some(BlockError::OutOfSpace);
        assert!(copy(&mut world, &list).is_some());
        assert_eq!(world.good(0, &status(1), &[])[4], 2);
    }
    assert_eq!(world.sense(BOB, 0, &status(1), &[]), INVALID_CDB);
    world.target.tick(limits::COPY_RESULT_HELD_FOR);
    world.good(0, &status(1), &[]);
    world.target.tick(2 * limits::COPY_RESULT_HELD_FOR);
    assert_eq!(world.fails(0, &status(1), &[]), INVALID_CDB);
}

#[test]
fn copies_that_share_an_identifier_are_all_done_if_their_outcome_need_not_be_held() {
    let mut world = World::new();
    world.number(ONE, 0, 64);
    let of_usage = |usage, from| {
        let mut list = list(&[ONE, TWO], &[segment(from, from, 8)]);
        (list[0], list[1]) = (1, usage);
        list
    };
    let named = of_usage(0x10, 0);
    let first = world.begin(ALICE, 0, &cdb(named.len()), &named);
    let refused = of_usage(0x00, 8);
    let refused = world.begin(ALICE, 0, &cdb(refused.len()), &refused);
    let (done, completion) = world.target.next_done().unwrap();
    let code = completion.sense.unwrap().code;
    assert_eq!((done, code.asc, code.ascq), (refused, 0x00, 0x16));
    let unnamed = of_usage(0x10, 16);
    let second = world.begin(ALICE, 0, &cdb(unnamed.len()), &unnamed);
    while world.step() {}
    let mut good = BTreeSet::new();
    while let Some((done, completion)) = world.target.next_done() {
        assert_eq!(completion.status, Status::Good);
        good.insert(done);
    }
    assert_eq!(good, BTreeSet::from([first, second]));
    assert!(world.bytes(TWO, 0, 8) == world.bytes(ONE, 0, 8));
    assert!(world.bytes(TWO, 16, 8) == world.bytes(ONE, 16, 8));
}

#[test]
fn operating_parameters_tell_the_limits() {
    let mut world = World::new();
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[12]) = (0x84, 3, 1);
    let data = world.good(0, &cdb, &[]);
    assert_eq!(data.len(), 47);
    assert_eq!(data[..5], [0, 0, 0, 43, 1]);
    assert_eq!(data[8..20], [0, 64, 1, 0, 0, 0, 0x28, 0, 0x0f, 0xff, 0xf0, 0]);
    assert_eq!(data[34..38], [1, 0, 255, 0]);
    assert_eq!(data[43..], [3, 0x02, 0x0a, 0xe4]);
}

#[test]
fn a_copy_has_no_deadline() {
    let mut world = World::new();
    world.number(ONE, 0, 60_000);
    let list = list(&[ONE, TWO], &[segment(0, 0, 60_000)]);
    let task = world.begin(ALICE, 0, &cdb(list.len()), &list);
    for hour in 1..=24 {
        world.target.tick(std::time::Duration::from_secs(3600 * hour));
        assert!(world.target.next_done().is_none());
    }
    while world.step() {}
    let (done, completion) = world.target.next_done().unwrap();
    assert_eq!((done, completion.status), (task, Status::Good));
    assert!(world.bytes(TWO, 0, 60_000) == world.bytes(ONE, 0, 60_000));
}
