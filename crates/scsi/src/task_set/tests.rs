use super::*;

const SIMPLE: Class = Class::Simple(Ordering::Simple);
const LOCK: Class = Class::Simple(Ordering::CompareAndWrite);
const RESERVE: Class = Class::Simple(Ordering::Reserve);

#[test]
fn simple_tasks_run_beside_each_other() {
    let mut set = TaskSet::default();
    assert!(set.enter(0, SIMPLE) && set.enter(1, SIMPLE) && set.enter(2, LOCK));
    assert_eq!(set.len(), 3);
}

#[test]
fn an_ordered_task_waits_for_older_ones_and_holds_younger_ones_back() {
    let mut set = TaskSet::default();
    assert!(set.enter(0, SIMPLE));
    assert!(!set.enter(1, Class::Ordered));
    assert!(!set.enter(2, SIMPLE));
    assert!(set.enter(3, Class::HeadOfQueue));
    set.leave(SIMPLE);
    assert_eq!(set.start_next(), None);
    set.leave(Class::HeadOfQueue);
    assert_eq!(set.start_next(), Some(1));
    assert_eq!(set.start_next(), None);
    set.leave(Class::Ordered);
    assert_eq!(set.start_next(), Some(2));
    assert_eq!(set.len(), 1);
}

#[test]
fn a_reservation_waits_for_compare_and_write_but_not_for_other_commands() {
    let mut set = TaskSet::default();
    assert!(set.enter(0, LOCK) && set.enter(1, LOCK) && set.enter(2, SIMPLE));
    assert!(!set.enter(3, RESERVE));
    assert!(!set.enter(4, LOCK));
    assert!(set.enter(5, SIMPLE));
    set.leave(LOCK);
    assert_eq!(set.start_next(), None);
    set.leave(LOCK);
    assert_eq!(set.start_next(), Some(3));
    assert_eq!(set.start_next(), None);
    set.leave(RESERVE);
    assert_eq!(set.start_next(), Some(4));
}

#[test]
fn a_withdrawn_task_holds_nobody_back() {
    let mut set = TaskSet::default();
    assert!(set.enter(0, SIMPLE));
    assert!(!set.enter(1, Class::Ordered));
    assert!(!set.enter(2, SIMPLE));
    assert!(set.withdraw(1));
    assert!(!set.withdraw(1));
    assert_eq!(set.start_next(), Some(2));
}
