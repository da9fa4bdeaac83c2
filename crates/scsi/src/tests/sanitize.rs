use super::*;

const IN_PROGRESS: Code = (2, 4, 0x1b);
const FAILED: Code = (3, 0x31, 3);

fn sanitize(flags_and_action: u8, length: u16) -> [u8; 10] {
    let mut cdb = [0; 10];
    (cdb[0], cdb[1]) = (0x48, flags_and_action);
    cdb[7..9].copy_from_slice(&length.to_be_bytes());
    cdb
}

fn overwrite_list(flags_and_count: u8, pattern: &[u8]) -> Vec<u8> {
    let mut list = vec![flags_and_count, 0];
    list.extend((pattern.len() as u16).to_be_bytes());
    list.extend(pattern);
    list
}

fn overwrite(world: &mut World, list: &[u8]) -> Option<Code> {
    let cdb = sanitize(0x01, list.len() as u16);
    let id = world.begin(ALICE, 0, &cdb, list);
    if world.target.tasks_under_way() > 0 {
        world.settle();
    }
    let (done, completion) = world.target.next_done().expect("the command ends");
    assert_eq!(done, id);
    let sense = completion.sense?.code;
    Some((sense.key as u8, sense.asc, sense.ascq))
}

#[test]
fn a_block_erase_leaves_zeros_that_occupy_nothing() {
    let mut world = World::new();
    world.number(ONE, 0, BLOCKS);
    world.good(0, &sanitize(0x02, 0), &[]);
    assert!(world.volumes[&ONE].iter().all(|&byte| byte == 0));
    assert!(world.requests.iter().all(|(volume, request)| *volume == ONE && request == "Unmap"));
    world.good(0, &[0; 6], &[]);
}

#[test]
fn an_overwrite_leaves_the_pattern_in_every_block() {
    for (flags_and_count, pattern, wanted) in [
        (1, vec![0xa5], vec![0xa5; BLOCK]),
        (2, vec![0], vec![0; BLOCK]),
        (0x82, vec![0], vec![0xff; BLOCK]),
        (0x83, vec![0x0f], vec![0x0f; BLOCK]),
        (1, pattern(3, 1), pattern(3, 1)),
    ] {
        let mut world = World::new();
        assert_eq!(overwrite(&mut world, &overwrite_list(flags_and_count, &pattern)), None);
        assert!(world.volumes[&ONE].chunks(BLOCK).all(|block| block == wanted));
    }
    let mut world = World::new();
    let three = [1, 2, 3];
    assert_eq!(overwrite(&mut world, &overwrite_list(1, &three)), None);
    assert_eq!(world.bytes(ONE, BLOCKS - 1, 1)[..4], [1, 2, 3, 1]);
}

#[test]
fn what_is_not_right_is_refused_and_nothing_is_erased() {
    let mut world = World::new();
    let right = overwrite_list(1, &[1, 2]);
    for (at, value) in [(0, 0), (0, 0x21), (0, 0x41), (3, 0), (3, 1), (3, 3)] {
        let mut wrong = right.clone();
        wrong[at] = value;
        assert_eq!(overwrite(&mut world, &wrong), Some(INVALID_LIST), "{at} {value}");
    }
    for length in 0..=4 {
        assert_eq!(overwrite(&mut world, &right[..length]), Some(INVALID_CDB));
    }
    assert_eq!(overwrite(&mut world, &overwrite_list(1, &[1; BLOCK + 1])), Some(INVALID_CDB));
    assert_eq!(world.fails(0, &sanitize(0x01, 6), &right[..5]), LIST_LENGTH);
    assert_eq!(world.fails(0, &sanitize(0x02, 6), &right), INVALID_CDB);
    assert_eq!(world.fails(0, &sanitize(0x1f, 6), &right), INVALID_CDB);
    // Cryptographic erase, and what is reserved.
    for action in [0x00, 0x03, 0x04, 0x1e] {
        assert_eq!(world.fails(0, &sanitize(action, 0), &[]), INVALID_CDB);
    }
    assert_eq!(world.requests, []);
    world.good(0, &sanitize(0x1f, 0), &[]);
}

#[test]
fn while_it_runs_in_the_background_the_medium_is_out_of_reach_and_progress_is_told() {
    let mut world = World::new();
    world.number(ONE, 0, 8);
    let task = world.begin(ALICE, 0, &sanitize(0x81, 6), &overwrite_list(1, &[5, 5]));
    let (done, completion) = world.target.next_done().unwrap();
    assert_eq!((done, completion.status), (task, Status::Good));
    assert!(!world.step(), "it waits for time to pass");
    for tenth in 0..=2 {
        world.target.tick(std::time::Duration::from_millis(100 * tenth));
        while world.step() {}
    }
    let done = 2 * limits::SANITIZE_BYTES_PER_SECOND / 10 / limits::SLICE_BYTES;
    let mut answer = |nexus, cdb: &[u8], data: &[u8]| {
        world.begin(nexus, 0, cdb, data);
        world.target.next_done().expect("it is answered at once").1
    };
    let refused: [&[u8]; 6] = [
        &[0; 6],
        &cdb10(0x28, 0, 0, 1),
        &cdb10(0x2a, 0, 0, 1),
        &compare_and_write_cdb(0, 1),
        &sanitize(0x02, 0),
        &sanitize(0x1f, 0),
    ];
    for cdb in refused {
        for nexus in [ALICE, BOB] {
            let sense = answer(nexus, cdb, &[0; 2 * BLOCK]).sense.unwrap();
            assert_eq!((sense.code.key as u8, sense.code.asc, sense.code.ascq), IN_PROGRESS);
            assert_eq!(sense.progress, Some((done * 65_535 / 96) as u16));
        }
    }
    let told = answer(BOB, &[0x03, 0, 0, 0, 18, 0], &[]).data_in.to_vec();
    assert_eq!((told[2], told[12], told[13]), (2, 4, 0x1b));
    assert_eq!(told[15..18], [0x80, 0x65, 0x54]);
    for cdb in [&[0x12, 0, 0, 0, 96, 0][..], &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0]] {
        assert_eq!(answer(BOB, cdb, &[]).status, Status::Good);
    }
    let copy = extended_copy::list(&[TWO, ONE], &[extended_copy::segment(0, 0, 8)]);
    let cdb = extended_copy::cdb(copy.len());
    world.begin(ALICE, 1, &cdb, &copy);
    let sense = world.target.next_done().unwrap().1.sense.unwrap();
    assert_eq!((sense.code.asc, sense.code.ascq), (4, 0x1b));
    world.settle();
    assert!(world.target.next_done().is_none());
    world.good(0, &[0; 6], &[]);
    assert!(world.volumes[&ONE].iter().all(|&byte| byte == 5));
}

#[test]
fn it_waits_for_older_writes_and_younger_ones_wait_for_nothing() {
    let mut world = World::new();
    let write = world.begin(ALICE, 0, &cdb10(0x2a, 0, 0, 1), &[1; BLOCK]);
    let (request, _, Request::Write { range, data }) = world.target.next_request().unwrap() else {
        panic!("a write")
    };
    let erase = world.begin(BOB, 0, &sanitize(0x02, 0), &[]);
    assert!(world.target.next_request().is_none());
    world.volumes.get_mut(&ONE).unwrap()[..range.length as usize].copy_from_slice(&data);
    world.target.completed(request, Ok(Response::Done));
    assert_eq!(world.target.next_done().unwrap().0, write);
    assert!(world.step());
    let late = world.begin(ALICE, 0, &cdb10(0x2a, 0, 0, 1), &[1; BLOCK]);
    assert_eq!(world.target.next_done().unwrap().0, late);
    while world.step() {}
    assert_eq!(world.target.next_done().unwrap().0, erase);
    assert!(world.volumes[&ONE].iter().all(|&byte| byte == 0));
}

#[test]
fn neither_aborts_nor_resets_nor_the_end_of_the_session_stop_it() {
    let mut world = World::new();
    world.number(ONE, 0, BLOCKS);
    let task = world.begin(ALICE, 0, &sanitize(0x02, 0), &[]);
    world.step();
    world.target.manage(TaskId(90), ALICE, 0, TaskManagement::AbortTask(task));
    assert_eq!(world.target.next_aborted(), Some(task));
    assert_eq!(world.target.next_management_done().unwrap().0, TaskId(90));
    world.target.manage(TaskId(91), ALICE, 0, TaskManagement::LogicalUnitReset);
    assert_eq!(world.target.next_management_done().unwrap().0, TaskId(91));
    world.target.close_nexus(ALICE);
    while world.step() {}
    assert_eq!(world.target.tasks_under_way(), 0);
    assert!(world.target.next_done().is_none());
    assert!(world.volumes[&ONE].iter().all(|&byte| byte == 0));
    assert_eq!(world.sense(BOB, 0, &[0; 6], &[]), (6, 0x29, 3));
    assert_eq!(world.run(BOB, 0, &[0; 6], &[]).status, Status::Good);
}

#[test]
fn a_failure_is_told_until_it_is_exited_or_mended() {
    for (flags, exit) in [(0x20, true), (0, false)] {
        let mut world = World::new();
        world.fault = Some(BlockError::Medium { offset: 0 });
        assert_eq!(world.fails(0, &sanitize(flags | 0x02, 0), &[]), FAILED);
        assert_eq!(world.fails(0, &cdb10(0x28, 0, 0, 1), &[]), FAILED);
        assert_eq!(world.sense(BOB, 0, &[0; 6], &[]), FAILED);
        if exit {
            world.good(0, &sanitize(0x1f, 0), &[]);
        } else {
            assert_eq!(world.fails(0, &sanitize(0x1f, 0), &[]), INVALID_CDB);
            assert_eq!(world.fails(0, &sanitize(0x22, 0), &[]), INVALID_CDB);
            world.good(0, &sanitize(0x02, 0), &[]);
        }
        world.good(0, &cdb10(0x28, 0, 0, 1), &[]);
    }
}
