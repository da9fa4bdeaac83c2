use store::{EvacuationStatus, MemberState, ResilverStatus};

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

const MEMBER: [u8; 16] = [7; 16];

fn filling() -> Filling {
    let object = "member p/file:/b.img".to_owned();
    Filling { object, pool: "p".to_owned(), member: MEMBER }
}

fn copied(copied_bytes: u64) -> Option<ResilverStatus> {
    let remaining = Some(std::time::Duration::from_secs(4));
    let member = MEMBER;
    Some(ResilverStatus {
        member,
        copied_bytes,
        total_bytes: 100,
        remaining,
        ..ResilverStatus::default()
    })
}

#[test]
fn a_member_that_is_filled_is_one_task_with_rate_and_rest_that_can_be_held_up() {
    let mut tasks = Tasks::default();
    tasks.look_at_member(1, filling(), MemberState::Current, None);
    assert_eq!(tasks.newest_first().count(), 0, "nothing is filled");
    tasks.look_at_member(2, filling(), MemberState::Resilvering, None);
    tasks.look_at_member(3, filling(), MemberState::Resilvering, copied(20));
    let task = tasks.find("1").unwrap();
    assert_eq!((task.kind, task.state), (TaskKind::Resilver, TaskState::Running));
    assert_eq!((task.done, task.total, task.unit), (20, 100, TaskUnit::Bytes));
    assert_eq!((task.rate_bytes, task.remaining_seconds), (Some(20), Some(4)));
    assert!(task.can_cancel && task.can_pause && !task.paused);
    assert_eq!(tasks.resilver("1").unwrap(), ("p".to_owned(), MEMBER));
    let rests = copied(30).map(|status| ResilverStatus { paused: true, ..status });
    tasks.look_at_member(4, filling(), MemberState::Resilvering, rests);
    let task = tasks.find("1").unwrap();
    assert_eq!((task.paused, task.remaining_seconds, task.rate_bytes), (true, None, None));
    assert_eq!(tasks.newest_first().count(), 1);
    tasks.look_at_member(5, filling(), MemberState::Current, None);
    let task = tasks.find("1").unwrap();
    assert_eq!((task.state, task.done, task.total), (TaskState::Done, 100, 100));
    assert!(!task.can_cancel && !task.can_pause && !task.paused);
    assert!(tasks.resilver("1").is_err(), "it has ended");
}

#[test]
fn a_resilver_ends_with_its_member_and_with_its_pool() {
    let mut tasks = Tasks::default();
    let fill = |tasks: &mut Tasks| {
        tasks.look_at_member(1, filling(), MemberState::Resilvering, copied(1));
    };
    fill(&mut tasks);
    tasks.look_at_member(2, filling(), MemberState::Absent, None);
    assert_eq!(tasks.find("1").unwrap().state, TaskState::Failed);
    fill(&mut tasks);
    tasks.end_resilvers(3, "q", |_| false);
    assert_eq!(tasks.find("2").unwrap().state, TaskState::Running);
    tasks.end_resilvers(3, "p", |uuid| uuid == MEMBER);
    assert_eq!(tasks.find("2").unwrap().state, TaskState::Running);
    tasks.end_resilvers(3, "p", |_| false);
    assert_eq!(tasks.find("2").unwrap().state, TaskState::Cancelled);
    fill(&mut tasks);
    tasks.end_orphans(4, |object| object == "pool p");
    assert_eq!(tasks.find("3").unwrap().state, TaskState::Running);
    tasks.end_orphans(4, |_| false);
    assert_eq!(tasks.find("3").unwrap().state, TaskState::Cancelled);
    // Blocks that no member could tell are told with the task.
    let lost = copied(9).map(|status| ResilverStatus { unreadable_blocks: 2, ..status });
    tasks.look_at_member(5, filling(), MemberState::Resilvering, lost);
    tasks.look_at_member(6, filling(), MemberState::Current, None);
    assert!(tasks.find("4").unwrap().problem.as_ref().unwrap().starts_with("2 block(s)"));
    tasks.look_at_scrub(7, "pool p", &scrub(1));
    assert!(tasks.resilver("5").is_err(), "a scrub is no resilver");
    assert!(tasks.resilver("99").is_err());
}

#[test]
fn rate_and_rest_are_estimated_from_what_was_seen() {
    let mut tasks = Tasks::default();
    tasks.look_at_scrub(10, "pool p", &scrub(20));
    assert_eq!(tasks.find("1").unwrap().remaining_seconds, None);
    tasks.look_at_scrub(14, "pool p", &scrub(60));
    let task = tasks.find("1").unwrap();
    assert_eq!((task.rate_bytes, task.remaining_seconds), (Some(10), Some(4)));
    // A clock that goes back, and work that stands still, estimate nothing.
    tasks.look_at_scrub(5, "pool p", &scrub(60));
    assert_eq!(tasks.find("1").unwrap().remaining_seconds, None);
    tasks.look_at_scrub(20, "pool p", &ended());
    assert_eq!(tasks.find("1").unwrap().rate_bytes, None);
}

fn leaves(left_bytes: u64) -> EvacuationStatus {
    EvacuationStatus {
        device: 1,
        paused: false,
        left_bytes,
        copied_bytes: 0,
        copying_bytes: 0,
        rate: u64::MAX,
        unreadable_blocks: 0,
        waits_for_space: false,
        is_empty: left_bytes == 0,
        remaining: Some(std::time::Duration::from_secs(9)),
    }
}

fn departing() -> Departing {
    Departing { pool: "p".to_owned(), device: MEMBER }
}

#[test]
fn a_device_that_leaves_is_a_task_until_the_pool_has_it_no_more() {
    let mut tasks = Tasks::default();
    tasks.look_at_departure(10, departing(), &leaves(100));
    tasks.look_at_departure(20, departing(), &leaves(40));
    let task = tasks.find("1").unwrap();
    assert_eq!((task.kind, task.object.as_str()), (TaskKind::RemoveDevice, "device p/1"));
    assert_eq!((task.done, task.total, task.rate_bytes), (60, 100, Some(6)));
    assert_eq!((task.can_pause, task.can_cancel, task.remaining_seconds), (true, true, Some(9)));
    tasks.look_at_departure(21, departing(), &EvacuationStatus { paused: true, ..leaves(40) });
    let task = tasks.find("1").unwrap();
    assert_eq!((task.paused, task.rate_bytes, task.remaining_seconds), (true, None, None));
    assert_eq!(tasks.departure("1").unwrap().as_deref(), Some("p"));
    // After a crash some of it is to be moved again.
    tasks.look_at_departure(22, departing(), &leaves(90));
    let task = tasks.find("1").unwrap();
    assert_eq!(task.total - task.done, 90);
    tasks.end_departures(23, "q", |_| Whereabouts::Gone);
    tasks.end_departures(23, "p", |_| Whereabouts::Leaving);
    assert_eq!(tasks.find("1").unwrap().state, TaskState::Running);
    tasks.end_departures(24, "p", |_| Whereabouts::Gone);
    let task = tasks.find("1").unwrap();
    assert_eq!((task.state, task.done), (TaskState::Done, task.total));
    assert!(tasks.departure("1").is_err(), "it has ended");
}

#[test]
fn a_device_that_stays_was_cancelled_and_what_keeps_one_is_told() {
    let mut tasks = Tasks::default();
    let full = EvacuationStatus { waits_for_space: true, ..leaves(4096) };
    tasks.look_at_departure(10, departing(), &full);
    let problem = tasks.find("1").unwrap().problem.clone().unwrap();
    assert!(problem.contains("no room"), "{problem}");
    let bad = EvacuationStatus { unreadable_blocks: 3, ..leaves(4096) };
    tasks.look_at_departure(11, departing(), &bad);
    let problem = tasks.find("1").unwrap().problem.clone().unwrap();
    assert!(problem.contains("3 block(s)"), "{problem}");
    tasks.end_departures(12, "p", |_| Whereabouts::Stays);
    assert_eq!(tasks.find("1").unwrap().state, TaskState::Cancelled);
    tasks.look_at_departure(13, departing(), &leaves(8192));
    assert_eq!(tasks.find("2").unwrap().state, TaskState::Running);
    tasks.look_at_scrub(14, "pool p", &scrub(0));
    assert_eq!(tasks.departure("3").unwrap(), None);
    tasks.end_orphans(15, |_| false);
    assert_eq!(tasks.find("2").unwrap().state, TaskState::Cancelled);
}

#[test]
fn the_number_of_a_task_says_which_controller_has_it() {
    for number in [0, 1, 2, 256] {
        let mut tasks = Tasks::of_controller(number);
        tasks.begun(10, TaskKind::CreatePool, "pool p".to_owned(), WorkNumber(1));
        let id = tasks.newest_first().next().unwrap().id.to_string();
        assert_eq!(controller_of(&id), number, "{id}");
        assert!(tasks.find(&id).is_ok());
    }
    assert_eq!(controller_of("none"), 0);
    assert_eq!(controller_of(&u64::MAX.to_string()), 0);
}
