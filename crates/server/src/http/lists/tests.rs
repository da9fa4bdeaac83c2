use serde_json::json;

use super::*;

const BY_NAME: Listing = Listing { key: &["pool", "name"], newest_first: false };

fn select(query: &str) -> Result<Selection, Problem> {
    let fields = ["pool", "name", "number", "hosts"].map(str::to_owned);
    Selection::parse(&format!("/v1/volumes?{query}").parse().unwrap(), &fields)
}

fn names(list: &[Value]) -> Vec<&str> {
    list.iter().map(|element| element["name"].as_str().unwrap()).collect()
}

fn volumes() -> Vec<Value> {
    let volume = |name: &&str| json!({ "pool": "p", "name": name, "hosts": ["esx1", "esx2"] });
    ["c", "a", "d", "b"].iter().map(volume).collect()
}

#[test]
fn pages_cover_a_list_once_even_if_an_element_goes_in_between() {
    let (mut seen, mut query) = (Vec::new(), "limit=2&pool=p".to_owned());
    let mut removed = None;
    loop {
        let selection = select(&query).unwrap();
        let mut list = volumes();
        list.retain(|element| Some(&element["name"]) != removed.as_ref());
        let next = selection.apply(&mut list, BY_NAME);
        seen.extend(names(&list).into_iter().map(str::to_owned));
        removed = list.last().map(|element| element["name"].clone());
        match next {
            Some(key) => query = selection.next_query(&key),
            None => break,
        }
    }
    assert_eq!(seen, ["a", "b", "c", "d"]);
    assert_eq!(query, "limit=2&pool=p&after=p%2Fb");
}

#[test]
fn numbers_are_sorted_as_numbers_and_newest_first_where_that_is_so() {
    let listing = Listing { key: &["number"], newest_first: true };
    let mut list: Vec<Value> = [9, 10, 100, 2].map(|number| json!({ "number": number })).into();
    let next = select("limit=3").unwrap().apply(&mut list, listing);
    assert_eq!(list, [100, 10, 9].map(|number| json!({ "number": number })));
    assert_eq!(next.as_deref(), Some("9"));
}

#[test]
fn filters_compare_whole_fields_and_know_a_wildcard() {
    for (query, expected) in [
        ("name=a", &["a"][..]),
        ("name=%2A", &["c", "a", "d", "b"]),
        ("name=*a*", &["a"]),
        ("hosts=esx2", &["c", "a", "d", "b"]),
        ("hosts=esx", &[]),
        ("hosts=e*x*1", &["c", "a", "d", "b"]),
        ("name=a&name=b", &[]),
        ("number=", &["c", "a", "d", "b"]),
    ] {
        let mut list = volumes();
        assert_eq!(select(query).unwrap().apply(&mut list, BY_NAME), None);
        assert_eq!(names(&list), expected, "{query}");
    }
}

#[test]
fn wildcards_do_not_use_a_character_twice() {
    assert!(matches("abcabc", "a*c"));
    assert!(!matches("aba", "ab*ba"));
    assert!(matches("", "*"));
    assert!(!matches("x", ""));
}

#[test]
fn what_a_list_does_not_know_is_refused() {
    for query in ["limit=0", "limit=1001", "limit=", "limit=-1", "colour=red", "limit=1%zz=%ff"] {
        assert_eq!(select(query).unwrap_err().status, 400, "{query}");
    }
}

#[test]
fn lists_are_filtered_by_tag() {
    let fields = ["name", "tags"].map(str::to_owned);
    let select =
        |query: &str| Selection::parse(&format!("/v1/volumes?{query}").parse().unwrap(), &fields);
    let list = || {
        vec![
            json!({ "name": "a", "tags": { "env": "prod", "url": "http://x:1" } }),
            json!({ "name": "b", "tags": { "env": "test" } }),
            json!({ "name": "c", "tags": {} }),
            json!({ "name": "d" }),
        ]
    };
    for (query, expected) in [
        ("tag=env:prod", &["a"][..]),
        ("tag=env:*t*", &["b"]),
        ("tag=env", &["a", "b"]),
        ("tag=env:", &[]),
        ("tag=url:http://x:1", &["a"]),
        ("tag=env&tag=url", &["a"]),
        ("tag=env:prod&name=b", &[]),
        ("tag=", &[]),
    ] {
        let mut list = list();
        select(query).unwrap().apply(&mut list, BY_NAME);
        assert_eq!(names(&list), expected, "{query}");
    }
    assert_eq!(select("tags=x").unwrap_err().status, 400);
    let without = Selection::parse(&"/v1/groups?tag=a".parse().unwrap(), &["name".to_owned()]);
    assert_eq!(without.unwrap_err().status, 400);
}
