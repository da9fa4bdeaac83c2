use super::*;

fn amount(done: u64) -> Amount {
    Amount { done, total: 100, unit: TaskUnit::Bytes }
}

#[test]
fn work_that_goes_on_is_one_task_until_it_ends() {
    let mut tasks = Tasks::default();
    tasks.goes_on(TaskKind::Scrub, "pool p", amount(1));
    tasks.goes_on(TaskKind::Scrub, "pool p", amount(2));
    tasks.goes_on(TaskKind::Scrub, "pool q", amount(3));
    assert_eq!(tasks.known.len(), 2);
    assert_eq!(tasks.find("1").unwrap().done, 2);
    tasks.end(TaskKind::Scrub, "pool p", TaskState::Done, None);
    let ended = tasks.find("1").unwrap();
    assert_eq!((ended.state, ended.can_cancel), (TaskState::Done, false));
    assert!(ended.ended.is_some());
    tasks.goes_on(TaskKind::Scrub, "pool p", amount(0));
    assert_eq!(tasks.find("3").unwrap().state, TaskState::Running);
}

#[test]
fn the_oldest_that_have_ended_make_room_and_running_ones_stay() {
    let mut tasks = Tasks::default();
    tasks.goes_on(TaskKind::Scrub, "pool first", amount(0));
    for _ in 0..TASKS_MAX + 10 {
        tasks.goes_on(TaskKind::Delete, "pool p", amount(0));
        tasks.end(TaskKind::Delete, "pool p", TaskState::Done, None);
    }
    assert_eq!(tasks.known.len(), TASKS_MAX + 1);
    assert_eq!(tasks.find("1").unwrap().state, TaskState::Running);
    for id in ["0", "2", "-1", "x", "", "99999999999999999999"] {
        assert!(tasks.find(id).is_err(), "{id}");
    }
}

#[test]
fn a_reaper_whose_queue_grows_never_goes_back_and_ends_whole() {
    let mut tasks = Tasks::default();
    tasks.reaps("pool p", 0);
    assert_eq!(tasks.known.len(), 0);
    let mut seen = Vec::new();
    for left in [100, 60, 80, 20, 50, 0] {
        tasks.reaps("pool p", left);
        let task = tasks.find("1").unwrap();
        assert!(task.done <= task.total);
        seen.push((task.done, task.total));
    }
    assert_eq!(seen, [(0, 100), (40, 100), (40, 120), (100, 120), (100, 150), (150, 150)]);
    assert_eq!(tasks.find("1").unwrap().state, TaskState::Done);
    tasks.reaps("pool p", 7);
    assert_eq!(tasks.find("2").unwrap().total, 7);
}
