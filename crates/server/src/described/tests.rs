use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[test]
fn what_several_ask_for_is_written_once() {
    static WRITTEN: AtomicUsize = AtomicUsize::new(0);
    let described = Described::later(|| {
        WRITTEN.fetch_add(1, Ordering::Relaxed);
        ["a", "b"]
    });
    assert_eq!(WRITTEN.load(Ordering::Relaxed), 0);
    let others: Vec<Described> = (0..3).map(|_| described.clone()).collect();
    for other in others.into_iter().chain([described]) {
        assert_eq!(other.into_value(), Some(serde_json::json!(["a", "b"])));
    }
    assert_eq!(WRITTEN.load(Ordering::Relaxed), 1);
}

#[test]
fn a_mistake_in_writing_is_known_to_all_who_asked() {
    let described = Described::later(|| -> u8 { panic!("a planted mistake") });
    assert_eq!(described.clone().into_value(), None);
    assert_eq!(described.into_value(), None);
}
