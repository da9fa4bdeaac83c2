use super::*;

const VOLUME: VolumeId = VolumeId(7);

fn scrub(scanned_bytes: u64) -> ScrubStatus {
    ScrubStatus { running: true, scanned_bytes, total_bytes: 100, ..ScrubStatus::default() }
}

fn ended() -> ScrubStatus {
    ScrubStatus { running: false, complete: true, ..scrub(100) }
}

#[test]
fn work_that_goes_on_is_one_task_until_it_ends() {
    let mut tasks = Tasks::default();
    tasks.look_at_scrub(10, "pool p", &scrub(1));
    tasks.look_at_scrub(11, "pool p", &scrub(2));
    tasks.look_at_scrub(12, "pool q", &scrub(3));
    assert_eq!(tasks.newest_first().count(), 2);
    assert_eq!(tasks.find("1").unwrap().done, 2);
    tasks.look_at_scrub(13, "pool p", &ended());
    let task = tasks.find("1").unwrap();
    assert_eq!((task.state, task.can_cancel), (TaskState::Done, false));
    assert_eq!((task.started, task.ended), (10, Some(13)));
    tasks.look_at_scrub(14, "pool p", &scrub(0));
    assert_eq!(tasks.find("3").unwrap().state, TaskState::Running);
}

#[test]
fn the_oldest_that_have_ended_make_room_and_running_ones_stay() {
    let mut tasks = Tasks::default();
    tasks.look_at_scrub(0, "pool first", &scrub(0));
    for now in 0..TASKS_MAX as u64 + 10 {
        tasks.look_at_reaper(now, "pool p", 1);
        tasks.look_at_reaper(now, "pool p", 0);
    }
    assert_eq!(tasks.newest_first().count(), TASKS_MAX + 1);
    assert_eq!(tasks.find("1").unwrap().state, TaskState::Running);
    for id in ["0", "2", "-1", "x", "", "99999999999999999999"] {
        assert!(tasks.find(id).is_err(), "{id}");
    }
}

#[test]
fn a_reaper_whose_queue_grows_never_goes_back_and_ends_whole() {
    let mut tasks = Tasks::default();
    tasks.look_at_reaper(0, "pool p", 0);
    assert_eq!(tasks.newest_first().count(), 0);
    let mut seen = Vec::new();
    for left in [100, 60, 80, 20, 50, 0] {
        tasks.look_at_reaper(0, "pool p", left);
        let task = tasks.find("1").unwrap();
        assert!(task.done <= task.total);
        seen.push((task.done, task.total));
    }
    assert_eq!(seen, [(0, 100), (40, 100), (40, 120), (100, 120), (100, 150), (150, 150)]);
    assert_eq!(tasks.find("1").unwrap().state, TaskState::Done);
    tasks.look_at_reaper(0, "pool p", 7);
    assert_eq!(tasks.find("2").unwrap().total, 7);
}

#[test]
fn an_erasure_ends_as_its_volume_says() {
    for (erasure, state) in [(Erasure::None, TaskState::Done), (Erasure::Failed, TaskState::Failed)]
    {
        let mut tasks = Tasks::default();
        tasks.look_at_erasure(5, "volume p/v", VOLUME, Erasure::None);
        assert_eq!(tasks.newest_first().count(), 0);
        tasks.look_at_erasure(5, "volume p/v", VOLUME, Erasure::Running(3));
        tasks.end_erasures(6, |_| Erasure::Running(4));
        assert_eq!(tasks.find("1").unwrap().state, TaskState::Running);
        tasks.end_erasures(7, |_| erasure);
        let task = tasks.find("1").unwrap();
        assert_eq!((task.state, task.ended), (state, Some(7)));
        assert_eq!(task.problem.is_some(), state == TaskState::Failed);
    }
}

#[test]
fn what_goes_on_in_a_pool_ends_with_it_and_a_request_with_its_answer() {
    let mut tasks = Tasks::default();
    tasks.look_at_scrub(1, "pool p", &scrub(1));
    tasks.begun(2, TaskKind::ExtendPool, "pool p".to_owned(), WorkNumber(9));
    tasks.end_orphans(3, |object| object != "pool p");
    assert_eq!(tasks.find("1").unwrap().state, TaskState::Cancelled);
    assert_eq!(tasks.find("2").unwrap().state, TaskState::Running);
    tasks.answered(4, WorkNumber(8), None);
    assert_eq!(tasks.find("2").unwrap().state, TaskState::Running);
    tasks.answered(5, WorkNumber(9), Some(&not_found(&"gone")));
    let task = tasks.find("2").unwrap();
    assert_eq!((task.state, task.ended), (TaskState::Failed, Some(5)));
}

/// A clock that went back ends a task before it began, and nothing worse.
#[test]
fn a_clock_that_goes_back_does_no_harm() {
    let mut tasks = Tasks::default();
    tasks.look_at_scrub(100, "pool p", &scrub(1));
    tasks.look_at_scrub(50, "pool p", &ended());
    let task = tasks.find("1").unwrap();
    assert_eq!((task.started, task.ended), (100, Some(50)));
}
