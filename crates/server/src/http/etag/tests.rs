use api::Problem;
use control::precondition::Preconditions;
use serde_json::json;

use super::*;

fn tag(value: &Value) -> String {
    etag(value, value.to_string().as_bytes())
}

fn check(if_match: &str, object: &Value) -> Result<(), Problem> {
    let if_match = Some(if_match.to_owned());
    Preconditions { if_match, if_none_match: None }.check(Some(object))
}

#[test]
fn counters_change_what_is_looked_at_but_not_what_may_be_changed() {
    let before = json!({ "name": "v", "size_bytes": 1, "mapped_bytes": 1, "snapshots": 1 });
    let counted = json!({ "name": "v", "size_bytes": 1, "mapped_bytes": 2, "snapshots": 2 });
    let resized = json!({ "name": "v", "size_bytes": 2, "mapped_bytes": 1, "snapshots": 1 });
    assert!(is_known(&tag(&before), &tag(&before)));
    assert!(!is_known(&tag(&before), &tag(&counted)));
    assert!(check(&tag(&before), &counted).is_ok());
    assert_eq!(check(&tag(&before), &resized).unwrap_err().status, 412);
}

#[test]
fn what_a_file_system_has_left_stands_in_the_way_of_no_change() {
    let pool = |free: u64| {
        let backing = json!([{ "file_system": "/srv", "free_bytes": free }]);
        json!({ "name": "p", "backing": backing, "backing_free_bytes": free })
    };
    assert!(check(&tag(&pool(1)), &pool(2)).is_ok());
}

#[test]
fn a_list_of_volumes_is_no_counter() {
    let (one, two) = (json!({ "volumes": ["p/a"] }), json!({ "volumes": ["p/b"] }));
    assert!(check(&tag(&one), &two).is_err());
}

#[test]
fn several_tags_weak_tags_and_any_tag_are_understood() {
    let value = json!({ "name": "v" });
    let known = tag(&value);
    for sent in ["*".to_owned(), format!("\"a-b\", {known}"), format!("W/{known}")] {
        assert!(is_known(&sent, &known), "{sent}");
    }
    assert!(check(&format!("\"a-b\",{known}"), &value).is_ok());
    assert!(check("*", &value).is_ok());
    for sent in ["", "\"", "\"\"", "x", "\"a-b\"", &format!("W/{known}"), known.trim_matches('"')] {
        assert!(check(sent, &value).is_err(), "{sent}");
        assert!(!is_known(sent, "\"0-0\""), "{sent}");
    }
}
