use super::*;

const FUNCTION: TaskId = TaskId(1 << 40);

fn write(world: &mut World, nexus: NexusId, lba: u32) -> TaskId {
    world.begin(nexus, 0, &cdb10(0x2a, 0, lba, 1), &pattern(1, 1))
}

fn manage(world: &mut World, nexus: NexusId, function: TaskManagement) {
    world.target.manage(FUNCTION, nexus, emit_lun(0), function);
}

fn response(world: &mut World) -> Option<TaskManagementResponse> {
    let (id, response) = world.target.next_management_done()?;
    assert_eq!(id, FUNCTION);
    Some(response)
}

const COMPLETE: Option<TaskManagementResponse> = Some(TaskManagementResponse::FunctionComplete);

#[test]
fn abort_task_drops_what_the_engine_has_not_seen() {
    let mut world = World::new();
    let task = write(&mut world, ALICE, 0);
    manage(&mut world, ALICE, TaskManagement::AbortTask(task));
    assert_eq!(response(&mut world), COMPLETE);
    assert_eq!(world.target.next_aborted(), Some(task));
    assert!(!world.step());
    assert!(world.target.next_done().is_none());
    assert_eq!(world.target.tasks_under_way(), 0);
}

#[test]
fn abort_task_is_answered_only_when_the_engine_is_done_with_it() {
    let mut world = World::new();
    let task = write(&mut world, ALICE, 0);
    let (request, ..) = world.target.next_request().unwrap();
    manage(&mut world, ALICE, TaskManagement::AbortTask(task));
    assert_eq!(response(&mut world), None);
    world.target.completed(request, Ok(Response::Done));
    assert_eq!(response(&mut world), COMPLETE);
    assert_eq!(world.target.next_aborted(), Some(task));
    assert!(world.target.next_done().is_none());
}

// What waits before the engine is not carried out for nobody.
#[test]
fn requests_that_wait_before_the_engine_are_withdrawn_with_their_command() {
    let mut world = World::new();
    let first = write(&mut world, ALICE, 0);
    write(&mut world, BOB, 8);
    let (request, ..) = world.target.next_request().unwrap();
    let (other, ..) = world.target.next_request().unwrap();
    assert!(!world.target.take_unwanted() && world.target.is_wanted(request));
    manage(&mut world, ALICE, TaskManagement::AbortTask(first));
    assert_eq!(response(&mut world), None);
    assert!(world.target.take_unwanted() && !world.target.take_unwanted());
    assert!(!world.target.is_wanted(request) && world.target.is_wanted(other));
    world.target.withdrawn(request);
    assert_eq!(response(&mut world), COMPLETE);
    assert_eq!(world.target.next_aborted(), Some(first));
    // A session that ends does the same, and nobody hears of it.
    world.target.close_nexus(BOB);
    assert!(world.target.take_unwanted() && !world.target.is_wanted(other));
    world.target.withdrawn(other);
    assert_eq!(world.target.tasks_under_way(), 0);
    assert!(world.target.next_aborted().is_none() && world.target.next_done().is_none());
}

// Of several requests one was with the engine: the answer to the function waits for it only.
#[test]
fn what_the_engine_has_is_awaited_and_the_rest_withdrawn() {
    let mut world = World::new();
    let task = world.begin(ALICE, 0, &cdb10(0x28, 0, 0, 8192), &[]);
    let requests: Vec<_> = std::iter::from_fn(|| world.target.next_request()).collect();
    assert!(requests.len() > 1);
    manage(&mut world, ALICE, TaskManagement::AbortTask(task));
    requests[1..].iter().for_each(|(id, ..)| world.target.withdrawn(*id));
    assert_eq!(response(&mut world), None);
    let data = Response::Data(Rope::new());
    world.target.completed(requests[0].0, Ok(data));
    assert_eq!(response(&mut world), COMPLETE);
}

#[test]
fn abort_of_a_finished_or_unknown_task_is_complete() {
    let mut world = World::new();
    world.good(0, &cdb10(0x28, 0, 0, 1), &[]);
    for task in [1, 7, 999] {
        manage(&mut world, ALICE, TaskManagement::AbortTask(TaskId(task)));
        assert_eq!(response(&mut world), COMPLETE);
    }
    let task = write(&mut world, BOB, 0);
    manage(&mut world, ALICE, TaskManagement::AbortTask(task));
    assert_eq!(response(&mut world), COMPLETE);
    while world.step() {}
    assert_eq!(world.target.next_done().unwrap().0, task);
}

#[test]
fn two_aborts_of_one_task_are_both_answered_after_it() {
    let mut world = World::new();
    let task = write(&mut world, ALICE, 0);
    let (request, ..) = world.target.next_request().unwrap();
    manage(&mut world, ALICE, TaskManagement::AbortTask(task));
    manage(&mut world, ALICE, TaskManagement::LogicalUnitReset);
    assert_eq!(response(&mut world), None);
    world.target.completed(request, Err(BlockError::OutOfSpace));
    assert_eq!((response(&mut world), response(&mut world)), (COMPLETE, COMPLETE));
    assert_eq!(world.target.next_aborted(), Some(task));
    assert_eq!(world.target.next_aborted(), None);
}

#[test]
fn an_aborted_compare_and_write_leaves_no_lock_behind() {
    let mut world = World::new();
    let data = [vec![0; BLOCK], pattern(1, 1)].concat();
    for in_engine in [false, true] {
        let task = world.begin(ALICE, 0, &compare_and_write_cdb(0, 1), &data);
        let request = in_engine.then(|| world.target.next_request().unwrap());
        manage(&mut world, ALICE, TaskManagement::AbortTask(task));
        if let Some((id, ..)) = request {
            world.target.completed(id, Ok(Response::Done));
        }
        assert_eq!(response(&mut world), COMPLETE);
        world.good(0, &[0x16, 0, 0, 0, 0, 0], &[]);
        world.good(0, &[0x17, 0, 0, 0, 0, 0], &[]);
    }
    world.good(0, &compare_and_write_cdb(0, 1), &data);
}

#[test]
fn abort_task_set_ends_only_the_tasks_of_its_nexus() {
    let mut world = World::new();
    let mine = [write(&mut world, ALICE, 0), write(&mut world, ALICE, 1)];
    let other = write(&mut world, BOB, 2);
    manage(&mut world, ALICE, TaskManagement::AbortTaskSet);
    assert_eq!(response(&mut world), COMPLETE);
    assert_eq!([world.target.next_aborted(), world.target.next_aborted()], mine.map(Some));
    while world.step() {}
    assert_eq!(world.target.next_done().unwrap().0, other);
    assert!(world.bytes(ONE, 0, 2).iter().all(|&byte| byte == 0));
}

#[test]
fn clear_task_set_tells_the_other_nexus_task_aborted() {
    let mut world = World::new();
    let mine = write(&mut world, ALICE, 0);
    let other = write(&mut world, BOB, 1);
    manage(&mut world, ALICE, TaskManagement::ClearTaskSet);
    assert_eq!(response(&mut world), COMPLETE);
    assert_eq!(world.target.next_aborted(), Some(mine));
    let (done, completion) = world.target.next_done().unwrap();
    assert_eq!((done, completion.status), (other, Status::TaskAborted));
    assert!(!world.step());
}

#[test]
fn a_logical_unit_reset_reaches_one_unit_and_tells_every_nexus() {
    let mut world = World::new();
    write(&mut world, BOB, 0);
    let elsewhere = world.begin(BOB, 1, &cdb10(0x28, 0, 0, 1), &[]);
    manage(&mut world, ALICE, TaskManagement::LogicalUnitReset);
    assert_eq!(response(&mut world), COMPLETE);
    assert_eq!(world.target.next_done().unwrap().1.status, Status::TaskAborted);
    while world.step() {}
    assert_eq!(world.target.next_done().unwrap().0, elsewhere);
    for nexus in [ALICE, BOB] {
        assert_eq!(world.sense(nexus, 0, &[0; 6], &[]), (6, 0x29, 3));
        assert_eq!(world.run(nexus, 1, &[0; 6], &[]).status, Status::Good);
    }
}

#[test]
fn a_target_reset_reaches_every_unit_that_the_nexus_sees() {
    let mut world = World::new();
    for reset in [TaskManagement::TargetWarmReset, TaskManagement::TargetColdReset] {
        world.good(1, &[0x16, 0, 0, 0, 0, 0], &[]);
        manage(&mut world, BOB, reset);
        assert_eq!(response(&mut world), COMPLETE);
        for lun in [0, 1, 300] {
            assert_eq!(world.fails(lun, &[0; 6], &[]), (6, 0x29, 3));
            assert_eq!(world.sense(BOB, lun, &[0; 6], &[]), (6, 0x29, 3));
        }
        assert_eq!(world.run(BOB, 1, &[0; 6], &[]).status, Status::Good);
    }
}

#[test]
fn a_long_copy_stops_at_the_slice_that_is_under_way() {
    let mut world = World::new();
    let task = world.begin(ALICE, 0, &cdb16(0x88, 0, 0, 32_768), &[]);
    world.step();
    let (request, ..) = world.target.next_request().unwrap();
    manage(&mut world, ALICE, TaskManagement::AbortTask(task));
    assert_eq!(response(&mut world), None);
    world.target.completed(request, Ok(Response::Data(Rope::new())));
    assert_eq!(response(&mut world), COMPLETE);
    assert!(!world.step());
}

#[test]
fn functions_that_cannot_be_carried_out_say_so() {
    use TaskManagementResponse::*;
    let mut world = World::new();
    manage(&mut world, ALICE, TaskManagement::ClearAca);
    assert_eq!(response(&mut world), Some(FunctionRejected));
    world.target.manage(FUNCTION, ALICE, emit_lun(9), TaskManagement::LogicalUnitReset);
    assert_eq!(response(&mut world), Some(IncorrectLogicalUnitNumber));
    let task = write(&mut world, ALICE, 0);
    manage(&mut world, ALICE, TaskManagement::QueryTask(task));
    assert_eq!(response(&mut world), Some(FunctionSucceeded));
    manage(&mut world, BOB, TaskManagement::QueryTask(task));
    assert_eq!(response(&mut world), COMPLETE);
}

#[test]
fn a_lost_nexus_leaves_nothing_behind_but_what_the_engine_has() {
    let mut world = World::new();
    write(&mut world, ALICE, 0);
    let (request, ..) = world.target.next_request().unwrap();
    write(&mut world, ALICE, 1);
    let ordered = cdb10(0x2a, 0, 2, 1);
    world.begin_as(TaskAttribute::Ordered, ALICE, 0, &ordered, &pattern(1, 1));
    let waits = write(&mut world, BOB, 3);
    world.target.close_nexus(ALICE);
    while world.step() {}
    assert_eq!(world.target.next_done().unwrap().0, waits);
    world.target.completed(request, Ok(Response::Done));
    assert!(world.target.next_done().is_none());
    assert_eq!(world.target.next_aborted(), None);
    assert_eq!(world.target.tasks_under_way(), 0);
}

#[test]
fn an_ordered_command_runs_between_older_and_younger_ones() {
    let mut world = World::new();
    let first = write(&mut world, ALICE, 0);
    let cdb = cdb10(0x28, 0, 0, 2);
    let ordered = world.begin_as(TaskAttribute::Ordered, ALICE, 0, &cdb, &[]);
    let last = write(&mut world, ALICE, 1);
    let head = world.begin_as(TaskAttribute::HeadOfQueue, ALICE, 0, &cdb, &[]);
    while world.step() {}
    let order: Vec<_> = std::iter::from_fn(|| world.target.next_done()).map(|(id, _)| id).collect();
    assert_eq!(order, [first, head, ordered, last]);
    let aca = world.begin_as(TaskAttribute::Aca, ALICE, 0, &cdb, &[]);
    let (done, completion) = world.target.next_done().unwrap();
    assert_eq!((done, completion.sense.unwrap().code.asc), (aca, 0x49));
}

#[test]
fn a_removed_unit_ends_what_waits_and_a_new_one_starts_afresh() {
    let mut world = World::new();
    write(&mut world, ALICE, 0);
    let (request, ..) = world.target.next_request().unwrap();
    let cdb = cdb10(0x28, 0, 0, 1);
    let waits = world.begin_as(TaskAttribute::Ordered, ALICE, 0, &cdb, &[]);
    world.target.remove_unit(ONE);
    let (done, completion) = world.target.next_done().unwrap();
    assert_eq!((done, completion.sense.unwrap().code.asc), (waits, 0x25));
    world.target.add_unit(ONE, spec(ONE));
    world.target.completed(request, Ok(Response::Done));
    assert_eq!(world.target.next_done().unwrap().1.status, Status::Good);
    world.good(0, &cdb, &[]);
}

#[test]
fn a_full_task_set_says_so() {
    let mut world = World::new();
    for lba in 0..limits::TASKS_PER_UNIT_MAX as u32 {
        write(&mut world, ALICE, lba);
    }
    let refused = write(&mut world, ALICE, 9);
    let (done, completion) = world.target.next_done().unwrap();
    assert_eq!((done, completion.status), (refused, Status::TaskSetFull));
    world.begin(ALICE, 1, &cdb10(0x28, 0, 0, 1), &[]);
    assert!(world.target.next_done().is_none());
}

#[test]
fn queries_tell_what_is_there() {
    use TaskManagementResponse::FunctionSucceeded;
    let mut world = World::new();
    for query in [TaskManagement::QueryTaskSet, TaskManagement::QueryAsynchronousEvent] {
        manage(&mut world, ALICE, query);
        assert_eq!(response(&mut world), COMPLETE);
        world.target.manage(FUNCTION, ALICE, emit_lun(9), query);
        let none = Some(TaskManagementResponse::IncorrectLogicalUnitNumber);
        assert_eq!(response(&mut world), none);
    }
    write(&mut world, ALICE, 0);
    manage(&mut world, ALICE, TaskManagement::QueryTaskSet);
    assert_eq!(response(&mut world), Some(FunctionSucceeded));
    manage(&mut world, BOB, TaskManagement::QueryTaskSet);
    assert_eq!(response(&mut world), COMPLETE);
    world.target.resize_unit(ONE, 1 << 30);
    manage(&mut world, BOB, TaskManagement::QueryAsynchronousEvent);
    assert_eq!(response(&mut world), Some(FunctionSucceeded));
    assert_eq!(world.sense(BOB, 0, &[0; 6], &[]), (6, 0x2a, 9));
}

#[test]
fn a_nexus_reset_ends_all_tasks_and_reservations_of_one_nexus() {
    let mut world = World::new();
    let here = write(&mut world, ALICE, 0);
    let there = world.begin(ALICE, 1, &cdb10(0x28, 0, 0, 1), &[]);
    let other = write(&mut world, BOB, 1);
    world.begin(ALICE, 300, &[0x16, 0, 0, 0, 0, 0], &[]);
    assert_eq!(world.target.next_done().unwrap().1.status, Status::Good);
    manage(&mut world, ALICE, TaskManagement::ItNexusReset);
    assert_eq!(response(&mut world), COMPLETE);
    assert_eq!(world.target.next_aborted(), Some(here));
    assert_eq!(world.target.next_aborted(), Some(there));
    while world.step() {}
    assert_eq!(world.target.next_done().unwrap().0, other);
    assert_eq!(world.run(BOB, 300, &[0; 6], &[]).status, Status::Good);
    for lun in [0, 1, 300] {
        assert_eq!(world.fails(lun, &[0; 6], &[]), (6, 0x29, 7));
    }
    world.good(0, &[0; 6], &[]);
}

#[test]
fn without_tas_a_unit_attention_says_what_became_of_the_tasks() {
    let mut world = World::new();
    let mut control = world.good(0, &[0x1a, 8, 0x0a, 0, 255, 0], &[])[4..].to_vec();
    control[5] &= !0x40;
    let list = [&[0; 4], &control[..]].concat();
    world.good(0, &[0x15, 0x10, 0, 0, list.len() as u8, 0], &list);
    assert_eq!(world.sense(BOB, 0, &[0; 6], &[]), (6, 0x2a, 1));
    for (function, attention) in [
        (TaskManagement::ClearTaskSet, (6, 0x2f, 0)),
        (TaskManagement::LogicalUnitReset, (6, 0x29, 3)),
    ] {
        let other = write(&mut world, BOB, 1);
        manage(&mut world, ALICE, function);
        assert_eq!(response(&mut world), COMPLETE);
        assert!(world.target.next_done().is_none());
        assert_eq!(world.target.next_aborted(), Some(other));
        assert_eq!(world.sense(BOB, 0, &[0; 6], &[]), attention);
        assert_eq!(world.run(BOB, 0, &[0; 6], &[]).status, Status::Good);
    }
}

#[test]
fn a_command_that_still_collects_data_ends_as_others_do() {
    let mut world = World::new();
    let (one, two) = (emit_lun(0), emit_lun(1));
    let mut fate = |function, lun, owner, owner_lun| match world.target.collecting(
        (ALICE, lun),
        function,
        (owner, owner_lun),
    ) {
        Collecting::GoesOn => "goes on",
        Collecting::Ends(completion) => {
            assert_eq!(completion.status, Status::TaskAborted);
            "ends"
        }
        Collecting::IsForgotten => "is forgotten",
    };
    for function in [TaskManagement::ClearTaskSet, TaskManagement::LogicalUnitReset] {
        assert_eq!(fate(function, one, BOB, one), "ends");
        assert_eq!(fate(function, one, BOB, two), "goes on");
        // On another connection of the same session.
        assert_eq!(fate(function, one, ALICE, one), "is forgotten");
        assert_eq!(fate(function, one, ALICE, two), "goes on");
        assert_eq!(fate(function, emit_lun(9), BOB, one), "goes on");
    }
    assert_eq!(fate(TaskManagement::TargetWarmReset, one, BOB, two), "ends");
    assert_eq!(fate(TaskManagement::AbortTaskSet, one, BOB, one), "goes on");
    assert_eq!(fate(TaskManagement::AbortTaskSet, one, ALICE, one), "is forgotten");
    assert_eq!(fate(TaskManagement::ItNexusReset, one, ALICE, two), "is forgotten");
    assert_eq!(fate(TaskManagement::ItNexusReset, one, BOB, two), "goes on");
    let only_two = BTreeMap::from([(1, TWO)]);
    world.target.set_luns(ALICE, only_two);
    let told = world.target.collecting((ALICE, two), TaskManagement::TargetWarmReset, (BOB, one));
    assert!(matches!(told, Collecting::GoesOn), "a unit that ALICE does not see");
}
