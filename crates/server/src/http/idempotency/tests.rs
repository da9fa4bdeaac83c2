use super::*;

fn key(number: usize) -> Key {
    ("ann".into(), number.to_string())
}

fn done() -> Option<(StatusCode, Bytes)> {
    Some((StatusCode::OK, Bytes::from_static(b"{}")))
}

#[test]
fn a_key_runs_a_request_once_and_fits_no_other() {
    let mut kept = Kept::default();
    assert!(matches!(kept.begin(&key(1), 7, 0), Step::Run));
    assert!(matches!(kept.begin(&key(1), 7, 0), Step::UnderWay));
    assert!(matches!(kept.begin(&("bob".into(), "1".into()), 8, 0), Step::Run));
    kept.end(&key(1), done());
    assert!(matches!(kept.begin(&key(1), 7, 1), Step::Repeat(StatusCode::OK, _)));
    assert!(matches!(kept.begin(&key(1), 8, 1), Step::AnotherRequest));
}

#[test]
fn a_request_that_came_to_nothing_may_be_tried_again() {
    let mut kept = Kept::default();
    assert!(matches!(kept.begin(&key(1), 7, 0), Step::Run));
    kept.end(&key(1), None);
    assert!(matches!(kept.begin(&key(1), 9, 0), Step::Run));
    assert_eq!(kept.order.len(), 1);
}

#[test]
fn answers_are_forgotten_after_a_day_and_when_there_are_too_many() {
    let mut kept = Kept::default();
    assert!(matches!(kept.begin(&key(1), 7, 0), Step::Run));
    kept.end(&key(1), done());
    assert!(matches!(kept.begin(&key(1), 7, ANSWERS_KEPT_SECONDS), Step::Run));
    for number in 0..2 * ANSWERS_KEPT_MAX {
        kept.begin(&key(number), 7, ANSWERS_KEPT_SECONDS);
    }
    assert_eq!(kept.answers.len(), ANSWERS_KEPT_MAX);
    assert_eq!(kept.order.len(), ANSWERS_KEPT_MAX);
}
