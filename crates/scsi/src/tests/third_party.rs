//! Third-party copies beyond what ESXi sends: bytes, names, backgrounds, aborts.

use super::extended_copy::{cdb, copy, cscd, list, segment};
use super::*;

/// A list of EXTENDED COPY (LID1) from CSCD and segment descriptors.
pub(super) fn lid1(cscds: &[[u8; 32]], segments: &[Vec<u8>]) -> Vec<u8> {
    let (cscds, segments) = (cscds.concat(), segments.concat());
    let mut list = vec![0; 16];
    list[1] = 0x18;
    list[2..4].copy_from_slice(&(cscds.len() as u16).to_be_bytes());
    list[8..12].copy_from_slice(&(segments.len() as u32).to_be_bytes());
    [list, cscds, segments].concat()
}

/// A list of EXTENDED COPY (LID4) with the same descriptors as one of LID1.
pub(super) fn lid4(list_id: u32, immediate: bool, lid1: &[u8]) -> Vec<u8> {
    let mut list = vec![0; 48];
    (list[0], list[3], list[16]) = (1, 0x20, 0xff);
    list[15] = u8::from(immediate);
    list[20..24].copy_from_slice(&list_id.to_be_bytes());
    list[42..44].copy_from_slice(&lid1[2..4]);
    list[44..46].copy_from_slice(&lid1[10..12]);
    [list, lid1[16..].to_vec()].concat()
}

pub(super) fn lid4_cdb(length: usize) -> [u8; 16] {
    let mut cdb = cdb(length);
    cdb[1] = 1;
    cdb
}

pub(super) fn status_cdb(action: u8, list_id: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[12], cdb[13]) = (0x84, action, 1, 0xff);
    match action {
        0 | 4 => cdb[2] = list_id as u8,
        _ => cdb[2..6].copy_from_slice(&list_id.to_be_bytes()),
    }
    cdb
}

pub(super) fn abort_cdb(list_id: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (0x83, 0x1c);
    cdb[2..6].copy_from_slice(&list_id.to_be_bytes());
    cdb
}

/// Bytes to copy, from byte offsets of the volumes.
#[derive(Clone, Copy)]
struct Bytes {
    from: u64,
    to: u64,
    count: u32,
}

fn byte_segment(source: u16, destination: u16, Bytes { from, to, count }: Bytes) -> Vec<u8> {
    let mut segment = vec![0x0a, 0, 0, 0x1c];
    segment.extend(source.to_be_bytes());
    segment.extend(destination.to_be_bytes());
    segment.extend(count.to_be_bytes());
    segment.extend((from / 512).to_be_bytes());
    segment.extend((to / 512).to_be_bytes());
    segment.extend(((from % 512) as u16).to_be_bytes());
    segment.extend(((to % 512) as u16).to_be_bytes());
    segment
}

pub(super) fn named_cscd(code_set: u8, kind: u8, value: &[u8]) -> [u8; 32] {
    let mut descriptor = [0; 32];
    (descriptor[0], descriptor[4], descriptor[5]) = (0xe4, code_set, kind);
    descriptor[7] = value.len() as u8;
    descriptor[8..8 + value.len()].copy_from_slice(value);
    descriptor
}

#[test]
fn bytes_are_copied_from_and_to_any_offset_and_nothing_beside_them_changes() {
    let cases = [
        Bytes { from: 0, to: 0, count: 512 },
        Bytes { from: 0, to: 0, count: 1 },
        Bytes { from: 7, to: 7, count: 5000 },
        Bytes { from: 511, to: 513, count: 2 },
        Bytes { from: 3, to: 1024, count: 1_048_576 },
        Bytes { from: 1024, to: 3, count: 3_000_001 },
        Bytes { from: 100, to: 612, count: 9_000_000 },
        Bytes { from: 0, to: 0, count: 0 },
    ];
    for (source, destination) in [(ONE, TWO), (ONE, FAR), (ONE, ONE)] {
        for bytes in cases {
            let mut world = World::new();
            world.number(source, 0, 30_000);
            world.number(destination, 0, 40_000);
            let mut wanted = world.volumes[&destination].clone();
            let (from, to, count) = (bytes.from as usize, bytes.to as usize, bytes.count as usize);
            let moved = world.volumes[&source][from..from + count].to_vec();
            wanted[to..to + count].copy_from_slice(&moved);
            let list = lid1(&[cscd(source), cscd(destination)], &[byte_segment(0, 1, bytes)]);
            assert_eq!(copy(&mut world, &list), None);
            assert!(world.volumes[&destination] == wanted, "{from} to {to}, {count}");
        }
    }
}

#[test]
fn bytes_beside_those_that_are_copied_may_change_at_the_same_time() {
    let mut world = World::new();
    world.number(ONE, 0, 2);
    let bytes = Bytes { from: 10, to: 20, count: 100 };
    let list = lid1(&[cscd(ONE), cscd(TWO)], &[byte_segment(0, 1, bytes)]);
    world.begin(ALICE, 0, &cdb(list.len()), &list);
    world.step();
    world.step();
    world.volumes.get_mut(&TWO).unwrap()[300] = 0x77;
    while world.step() {}
    assert_eq!(world.target.next_done().unwrap().1.status, Status::Good);
    assert_eq!(world.volumes[&TWO][300], 0x77);
    assert_eq!(world.volumes[&TWO][20..120], world.volumes[&ONE][10..110]);
}

#[test]
fn a_byte_offset_beyond_the_first_block_or_a_segment_beyond_the_limit_is_refused() {
    let mut world = World::new();
    let right = byte_segment(0, 1, Bytes { from: 0, to: 0, count: 512 });
    for (at, pointer) in [(28, 28), (30, 30)] {
        let mut wrong = right.clone();
        wrong[at] = 2;
        let list = lid1(&[cscd(ONE), cscd(TWO)], &[wrong]);
        let completion = world.run(ALICE, 0, &cdb(list.len()), &list);
        let sense = completion.sense.unwrap();
        assert_eq!(sense.code.asc, 0x26);
        assert_eq!(sense.field.unwrap().byte, 16 + 64 + pointer);
    }
    let longest = limits::SEGMENT_BYTES_MAX as u32;
    for (count, told) in [(longest + 1, INVALID_LIST), (longest, (10, 0, 0))] {
        let long = byte_segment(0, 1, Bytes { from: 0, to: 0, count });
        // The unit is shorter than the longest segment.
        let list = lid1(&[cscd(ONE), cscd(TWO)], &[long]);
        assert_eq!(copy(&mut world, &list), Some(told));
    }
    assert_eq!(world.requests, []);
}

#[test]
fn as_many_descriptors_as_told_are_carried_out() {
    let mut world = World::new();
    world.number(ONE, 0, 256);
    let cscds = [vec![cscd(TWO); limits::CSCD_DESCRIPTORS_MAX - 1], vec![cscd(ONE)]].concat();
    let segments: Vec<_> = (0..limits::SEGMENT_DESCRIPTORS_MAX as u64)
        .map(|at| byte_segment(63, 0, Bytes { from: at * 512, to: (255 - at) * 512, count: 512 }))
        .collect();
    let whole = lid1(&cscds, &segments);
    assert_eq!(whole.len(), 16 + limits::DESCRIPTOR_LIST_BYTES_MAX);
    assert_eq!(copy(&mut world, &whole), None);
    for at in 0..256 {
        assert_eq!(world.bytes(TWO, 255 - at, 1), world.bytes(ONE, at, 1));
    }
}

#[test]
fn a_unit_is_found_by_each_of_its_names_and_by_no_part_of_one() {
    let mut world = World::new();
    world.number(ONE, 0, 8);
    let page = world.good(0, &[0x12, 1, 0x83, 1, 0, 0], &[]);
    let vendor_length = usize::from(page[4 + 20 + 3]);
    let vendor = &page[28..28 + vendor_length];
    assert_eq!((page[24], page[25], &vendor[..8]), (2, 1, &b"GANTRY  "[..]));
    let mut eui = naa(ONE)[8..].to_vec();
    eui.extend([0x06, 0x06, 0x06, 0x00, 0x60, 0x60, 0x60, 0x60]);
    let high = u64::from_be_bytes(naa(ONE)[..8].try_into().unwrap());
    let tail = (high << 4 >> 40) << 40 | (high & 0xf_ffff_ffff);
    eui[8..].copy_from_slice(&tail.to_be_bytes());
    let one = list(&[ONE, TWO], &[segment(0, 0, 8)]);
    for (code_set, kind, value) in [(1, 3, &naa(ONE)[..]), (2, 1, vendor), (1, 2, &eui)] {
        let mut named = one.clone();
        named[16..48].copy_from_slice(&named_cscd(code_set, kind, value));
        world.volumes.get_mut(&TWO).unwrap().fill(0);
        assert_eq!(copy(&mut world, &named), None, "{kind}");
        assert_eq!(world.bytes(TWO, 0, 8), world.bytes(ONE, 0, 8));
        let part = &value[..value.len() - 1];
        let others = [(code_set, kind, part), (code_set ^ 3, kind, value), (code_set, 8, value)];
        for (code_set, kind, value) in others {
            named[16..48].copy_from_slice(&named_cscd(code_set, kind, value));
            assert_eq!(copy(&mut world, &named), Some((10, 0x0d, 2)));
        }
        // A target port has that name, not a logical unit.
        named[16..48].copy_from_slice(&named_cscd(code_set, 0x10 | kind, value));
        assert_eq!(copy(&mut world, &named), Some((10, 0x0d, 2)));
    }
    let mut long = one;
    long[16 + 7] = 21;
    assert_eq!(copy(&mut world, &long), Some(INVALID_LIST));
}

#[test]
fn the_unit_that_is_addressed_needs_no_descriptor() {
    let mut world = World::new();
    world.number(ONE, 0, 8);
    let both = lid1(&[], &[byte_segment(0xffff, 0xffff, Bytes { from: 0, to: 4096, count: 4096 })]);
    assert_eq!(copy(&mut world, &both), None);
    assert_eq!(world.bytes(ONE, 8, 8), world.bytes(ONE, 0, 8));
    let other = byte_segment(0xfffe, 0xffff, Bytes { from: 0, to: 4096, count: 4096 });
    assert_eq!(copy(&mut world, &lid1(&[], &[other])), Some((10, 8, 4)));
}

#[test]
fn segments_that_do_not_touch_run_together_and_those_that_do_in_order() {
    let mut world = World::new();
    world.number(ONE, 0, 80);
    let apart: Vec<_> = (0..20).map(|at| segment(at * 4, at * 4, 4)).collect();
    let list_apart = list(&[ONE, TWO], &apart);
    world.begin(ALICE, 0, &cdb(list_apart.len()), &list_apart);
    let mut together = 0;
    while world.target.next_request().is_some() {
        together += 1;
    }
    assert_eq!(together, limits::REQUESTS_PER_COMMAND_MAX);

    let mut world = World::new();
    world.number(ONE, 0, 80);
    let chain = list(&[ONE, ONE], &[segment(0, 8, 8), segment(8, 16, 8), segment(16, 24, 8)]);
    world.begin(ALICE, 0, &cdb(chain.len()), &chain);
    let (first, ..) = world.target.next_request().unwrap();
    assert!(world.target.next_request().is_none(), "the second reads what the first writes");
    world.target.completed(first, Ok(Response::Done));
    assert!(world.target.next_request().is_some());
    assert!(world.target.next_request().is_none());
}

#[test]
fn a_list_of_the_second_format_copies_and_tells_its_status() {
    let mut world = World::new();
    world.number(ONE, 0, 100);
    let same = list(&[ONE, TWO], &[segment(0, 0, 50), segment(50, 50, 50)]);
    let whole = lid4(0xdead_beef, false, &same);
    world.good(0, &lid4_cdb(whole.len()), &whole);
    assert_eq!(world.bytes(TWO, 0, 100), world.bytes(ONE, 0, 100));
    let status = world.good(0, &status_cdb(5, 0xdead_beef), &[]);
    assert_eq!(status.len(), 32);
    assert_eq!(status[..8], [0, 0, 0, 28, 1, 1, 0, 2]);
    assert_eq!(status[15], 0);
    assert_eq!(status[16..26], [0, 0, 0, 0, 0, 0, 200, 0, 0, 2]);
    assert_eq!(world.fails(0, &status_cdb(5, 0xdead_bee0), &[]), INVALID_CDB);
    assert_eq!(world.sense(BOB, 0, &status_cdb(5, 0xdead_beef), &[]), INVALID_CDB);
    for length in 1..whole.len() {
        let cut = &whole[..length];
        assert_eq!(world.fails(0, &lid4_cdb(length), cut), LIST_LENGTH, "{length}");
    }
    world.good(0, &lid4_cdb(0), &[]);
    let mut told = |at: usize, value: u8| {
        let mut wrong = whole.clone();
        wrong[at] = value;
        world.fails(0, &lid4_cdb(wrong.len()), &wrong)
    };
    for (at, value) in [(0, 0), (1, 0x08), (1, 0x18), (2, 1), (3, 0x1f), (15, 2), (16, 0xfe)] {
        assert_eq!(told(at, value), INVALID_LIST, "{at}");
    }
    assert_eq!(told(47, 1), (5, 0x26, 0x0b));
}

#[test]
fn a_copy_in_the_background_is_told_of_and_ended_exactly() {
    let mut world = World::new();
    world.number(ONE, 0, 50_000);
    let same = list(&[ONE, ONE], &[segment(0, 100, 50_000)]);
    let whole = lid4(7, true, &same);
    let started = world.begin(ALICE, 0, &lid4_cdb(whole.len()), &whole);
    let (done, completion) = world.target.next_done().unwrap();
    assert_eq!((done, completion.status), (started, Status::Good));
    assert!(world.step());
    let progress = world.begin(ALICE, 0, &status_cdb(5, 7), &[]);
    let (done, completion) = world.target.next_done().unwrap();
    assert_eq!(done, progress);
    let told = completion.data_in.to_vec();
    assert_eq!((told[5], told[7], told[25]), (0x12, 1, 1));
    let counted = u64::from_be_bytes(told[16..24].try_into().unwrap());
    assert!(counted > 0 && counted < 50_000 * 512);

    // The same name is taken, for this nexus only.
    let again = world.begin(ALICE, 0, &lid4_cdb(whole.len()), &whole);
    let (done, completion) = world.target.next_done().unwrap();
    let code = completion.sense.unwrap().code;
    assert_eq!((done, code.asc, code.ascq), (again, 0, 0x16));
    assert_eq!(world.sense(BOB, 0, &abort_cdb(7), &[]), INVALID_CDB);
}

#[test]
fn an_abort_is_answered_after_the_last_write_and_the_count_is_exact() {
    let mut world = World::new();
    world.number(ONE, 0, 60_000);
    let mut whole = list(&[ONE, TWO], &[segment(0, 0, 60_000), segment(0, 60_000, 60_000)]);
    (whole[0], whole[1]) = (9, 0);
    let task = world.begin(ALICE, 0, &cdb(whole.len()), &whole);
    let mut taken = Vec::new();
    for _ in 0..3 {
        taken.push(world.target.next_request().unwrap());
    }
    let abort = world.begin(ALICE, 1, &abort_cdb(9), &[]);
    assert!(world.target.next_done().is_none());
    assert!(world.target.next_request().is_none(), "nothing new is begun");
    let mut written = 0;
    for (id, _, request) in taken {
        assert!(world.target.next_done().is_none());
        let Request::Copy { length, .. } = request else { panic!("{request:?}") };
        written += length;
        world.target.completed(id, Ok(Response::Done));
    }
    let ended = [world.target.next_done().unwrap(), world.target.next_done().unwrap()];
    assert_eq!((ended[0].0, ended[0].1.status), (task, Status::TaskAborted));
    assert_eq!((ended[1].0, ended[1].1.status), (abort, Status::Good));
    let status = world.good(0, &status_cdb(5, 9), &[]);
    assert_eq!(status[5], 0x60);
    assert_eq!(status[16..24], written.to_be_bytes());
    assert_eq!(world.fails(0, &abort_cdb(9), &[]), INVALID_CDB);
}

#[test]
fn a_failure_is_held_with_its_sense_data() {
    let mut world = World::new();
    let mut whole = list(&[ONE, TWO], &[segment(0, 0, 8), segment(8, 8, 8)]);
    (whole[0], whole[1]) = (3, 0);
    assert_eq!(copy(&mut world, &whole), None);
    assert_eq!(world.good(0, &status_cdb(4, 3), &[]), [0; 60]);
    assert_eq!(world.fails(0, &status_cdb(4, 4), &[]), INVALID_CDB);
    world.fault = Some(BlockError::Medium { offset: 0 });
    let completion = world.run(ALICE, 0, &cdb(whole.len()), &whole);
    let sense = completion.sense.unwrap().emit();
    let details = world.good(0, &status_cdb(4, 3), &[]);
    assert_eq!(details[..4], [0, 0, 0, 74]);
    assert_eq!((details[56], details[59]), (2, 18));
    assert_eq!(details[60..], sense);
    let status = world.good(0, &status_cdb(5, 3), &[]);
    assert_eq!((status[5], status[12], status[14]), (2, 2, 18));
    assert_eq!(status[32..], sense);
}

#[test]
fn a_reset_and_the_end_of_the_nexus_end_a_copy_in_the_background() {
    for reset in [true, false] {
        let mut world = World::new();
        let whole = lid4(1, true, &list(&[ONE, TWO], &[segment(0, 0, 60_000)]));
        world.begin(ALICE, 0, &lid4_cdb(whole.len()), &whole);
        assert!(world.target.next_done().is_some());
        assert!(world.step());
        if reset {
            let function = TaskManagement::LogicalUnitReset;
            world.target.manage(TaskId(99), BOB, emit_lun(1), function);
            assert!(world.target.next_management_done().is_some());
        } else {
            world.target.close_nexus(ALICE);
        }
        assert!(!world.step());
        assert_eq!(world.target.tasks_under_way(), 0);
        assert!(world.target.next_done().is_none());
        assert!(world.target.next_aborted().is_none());
    }
}

#[test]
fn a_write_protected_destination_is_refused_and_a_write_protected_source_is_not() {
    let mut world = World::new();
    world.number(ONE, 0, 8);
    world.target.set_write_protected(TWO, true);
    assert_eq!(copy(&mut world, &list(&[ONE, TWO], &[segment(0, 0, 8)])), Some((7, 0x27, 0)));
    assert_eq!(copy(&mut world, &list(&[TWO, ONE], &[segment(0, 100, 8)])), None);
    assert!(world.bytes(ONE, 100, 8).iter().all(|&byte| byte == 0));
}

#[test]
fn every_form_of_write_of_more_than_a_slice_keeps_its_requests_under_way_together() {
    let mut world = World::new();
    let data = vec![7; 16 << 20];
    world.begin(ALICE, 0, &cdb16(0x8a, 0, 0, 32 << 10), &data);
    let mut together = Vec::new();
    while let Some((id, ..)) = world.target.next_request() {
        together.push(id);
    }
    assert_eq!(together.len(), limits::REQUESTS_PER_COMMAND_MAX);
    // The failure with the lowest address is told, when the others have been answered.
    let medium = |offset| Err(BlockError::Medium { offset });
    world.target.completed(together[5], medium(5 << 20));
    world.target.completed(together[2], medium(2 << 20));
    for at in [0, 1, 3, 4, 6, 7] {
        assert!(world.target.next_done().is_none());
        assert!(world.target.next_request().is_none());
        world.target.completed(together[at], Ok(Response::Done));
    }
    let (_, completion) = world.target.next_done().unwrap();
    assert_eq!(completion.sense.unwrap().information, Some((2 << 20) / 512));
}
