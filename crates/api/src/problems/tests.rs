use std::collections::BTreeSet;

use super::*;

#[test]
fn every_type_has_a_name_of_its_own_that_is_a_urn() {
    let mut names = BTreeSet::new();
    for &kind in ProblemKind::ALL {
        let row = kind.row();
        assert!(names.insert(row.name), "{} is there twice", row.name);
        assert!(row.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'));
        assert!((400..600).contains(&row.status), "{}", row.name);
        assert!(row.meaning.ends_with('.') && !row.title.is_empty(), "{}", row.name);
        let fixed = ["type", "status", "title", "detail", "instance"];
        assert!(row.members.iter().all(|member| !fixed.contains(member)), "{}", row.name);
    }
    let statuses: Vec<u16> = ProblemKind::ALL.iter().map(|kind| kind.row().status).collect();
    assert!(statuses.is_sorted());
}

#[test]
fn a_problem_is_read_as_it_was_written() {
    let problem = Problem::new(ProblemKind::PoolNotEmpty, "delete them").with("volumes", 2);
    let text = serde_json::to_value(&problem).unwrap();
    assert_eq!(text["type"], "urn:gantry:problem:pool-not-empty");
    assert_eq!((&text["status"], &text["volumes"]), (&json!(409), &json!(2)));
    let read: Problem = serde_json::from_value(text).unwrap();
    assert_eq!(read, problem);
    assert!(read.is(ProblemKind::PoolNotEmpty) && !read.is(ProblemKind::Conflict));
}

#[test]
fn a_problem_of_another_daemon_is_read_too() {
    for text in [
        r#"{"status":409,"title":"Conflict","detail":"no"}"#,
        r#"{"type":"about:blank","status":409,"title":"Conflict","detail":"no","more":[1]}"#,
    ] {
        let problem: Problem = serde_json::from_str(text).unwrap();
        assert!(ProblemKind::ALL.iter().all(|&kind| !problem.is(kind)));
    }
}

#[test]
fn every_status_has_a_type_and_an_example_of_it() {
    for status in 400..600 {
        let kind = ProblemKind::of_status(status);
        if let Some(example) = example(status) {
            assert_eq!((kind.row().status, example.status), (status, status));
        }
    }
}

#[test]
fn every_type_is_explained_in_the_documentation() {
    let text = include_str!("../../../../docs/rest.md");
    for kind in ProblemKind::ALL {
        let row = kind.row();
        let line = format!("| `{}` | {} |", row.name, row.status);
        let found = text.lines().find(|other| other.starts_with(&line));
        let found = found.unwrap_or_else(|| panic!("docs/rest.md has no line '{line}'"));
        assert!(found.contains(row.meaning.trim_end_matches('.')), "{found}: {}", row.meaning);
        assert!(row.members.iter().all(|member| found.contains(&format!("`{member}`"))), "{found}");
    }
}
