use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

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
        assert_eq!(other.written().unwrap().into_text(), r#"["a","b"]"#);
    }
    assert_eq!(WRITTEN.load(Ordering::Relaxed), 1);
}

#[test]
fn a_list_of_any_length_is_json() {
    for length in [0, 1, 2, 1000] {
        let list =
            Described::list(move |list| (0..length).for_each(|n| list.push(&json!({"n": n}))));
        let value = list.written().and_then(Written::into_value);
        let expected: Vec<Value> = (0..length).map(|n| json!({ "n": n })).collect();
        assert_eq!(value, Some(Value::Array(expected)));
    }
}

#[test]
fn a_mistake_in_writing_is_known_to_all_who_asked() {
    let described = Described::later(|| -> u8 { panic!("a planted mistake") });
    assert_eq!(described.clone().written(), None);
    assert_eq!(described.written(), None);
}
