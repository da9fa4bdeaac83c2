use super::*;

const SIMPLE: Class = class(Attribute::Simple, Ordering::Simple);
const ORDERED: Class = class(Attribute::Ordered, Ordering::Simple);
const HEAD_OF_QUEUE: Class = class(Attribute::HeadOfQueue, Ordering::Simple);
const LOCK: Class = class(Attribute::Simple, Ordering::CompareAndWrite);
const RESERVE: Class = class(Attribute::Simple, Ordering::Reserve);

const fn class(attribute: Attribute, ordering: Ordering) -> Class {
    Class { attribute, ordering }
}

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
    assert!(!set.enter(1, ORDERED));
    assert!(!set.enter(2, SIMPLE));
    assert!(set.enter(3, HEAD_OF_QUEUE));
    set.leave(SIMPLE);
    assert_eq!(set.start_next(), None);
    set.leave(HEAD_OF_QUEUE);
    assert_eq!(set.start_next(), Some(1));
    assert_eq!(set.start_next(), None);
    set.leave(ORDERED);
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
    assert!(!set.enter(1, ORDERED));
    assert!(!set.enter(2, SIMPLE));
    assert!(set.withdraw(1));
    assert!(!set.withdraw(1));
    assert_eq!(set.start_next(), Some(2));
}

#[test]
fn a_reservation_at_the_head_of_the_queue_still_waits_for_compare_and_write() {
    let mut set = TaskSet::default();
    assert!(set.enter(0, LOCK));
    assert!(!set.enter(1, ORDERED));
    assert!(!set.enter(2, class(Attribute::HeadOfQueue, Ordering::Reserve)));
    assert!(!set.enter(3, LOCK));
    assert_eq!(set.start_next(), None);
    set.leave(LOCK);
    assert_eq!(set.start_next(), Some(2));
    assert_eq!(set.start_next(), None);
    set.leave(class(Attribute::HeadOfQueue, Ordering::Reserve));
    assert_eq!(set.start_next(), Some(1));
}
