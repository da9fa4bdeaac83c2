use serde_json::json;

use super::*;
use crate::change::tests::{World, empty, make};
use crate::hosts::{Account, Change, describe_host};
use crate::problems::{conflict, not_found};

fn check_shown(if_match: &str, shown: Result<Option<Value>, Problem>) -> Result<(), Problem> {
    let if_match = Some(if_match.to_owned());
    Preconditions { if_match, if_none_match: None }.check_shown(shown)
}

#[test]
fn what_is_to_be_made_must_not_be_there() {
    let object = json!({ "name": "g" });
    let none_match = |tags: &str, shown| {
        let wanted = Preconditions { if_match: None, if_none_match: Some(tags.to_owned()) };
        wanted.check_shown(shown).map_err(|problem| problem.kind)
    };
    let refused = Err(ProblemKind::AlreadyThere.urn().to_owned());
    assert_eq!(none_match("*", Err(not_found(&"no such group"))), Ok(()));
    assert_eq!(none_match("*", Ok(Some(object.clone()))), refused);
    assert_eq!(none_match(&tag(&object), Ok(Some(object.clone()))), refused);
    assert_eq!(none_match("\"another-1\"", Ok(Some(object))), Ok(()));
    assert!(none_match("*", Ok(None)).is_err());
    assert!(none_match("*", Err(conflict(&"busy"))).is_err());
}

fn tag(object: &Value) -> String {
    format!("\"{}-0\"", version(object))
}

#[test]
fn what_changes_by_itself_stands_in_the_way_of_no_change() {
    let before = json!({ "name": "v", "size_bytes": 1, "mapped_bytes": 1, "snapshots": 1 });
    let counted = json!({ "name": "v", "size_bytes": 1, "mapped_bytes": 2, "snapshots": 2 });
    let resized = json!({ "name": "v", "size_bytes": 2, "mapped_bytes": 1, "snapshots": 1 });
    assert_eq!(check_shown(&tag(&before), Ok(Some(counted))), Ok(()));
    assert_eq!(check_shown(&tag(&before), Ok(Some(resized))).unwrap_err().status, 412);
}

#[test]
fn what_is_not_there_or_has_no_version_is_not_the_one_that_is_named() {
    let kind = |shown| check_shown("*", shown).unwrap_err().kind;
    assert_eq!(kind(Err(not_found(&"no such host"))), ProblemKind::NotThere.urn());
    assert_eq!(kind(Ok(None)), ProblemKind::NoVersion.urn());
    assert_eq!(kind(Err(conflict(&"busy"))), ProblemKind::Conflict.urn());
    assert_eq!(check_shown("*", Ok(Some(json!({})))), Ok(()));
}

/// Two administrators who saw the same host: a change that was accepted counts before it is saved,
/// and so does one that only the secrets show.
#[test]
fn of_two_who_change_the_same_version_the_second_is_refused() {
    let (mut draft, world) = (empty(), World::new());
    let account = |mutual: Option<&str>| {
        let text = |text: &str| text.to_owned();
        let chap = api::Chap {
            user: text("u"),
            secret: api::Secret(text("a secret of 14")),
            mutual_user: mutual.map(text),
            mutual_secret: mutual.map(|_| api::Secret(text("another secret"))),
        };
        crate::chap::parse(chap).unwrap()
    };
    let created = Change::CreateHost {
        name: "h".to_owned(),
        initiators: ["iqn.x:h".to_owned()].into(),
        chap: Some(account(None)),
    };
    make(&mut draft, &world, &created).unwrap();
    let shown = |array: &array::Configuration, secrets: &array::Secrets| {
        serde_json::to_value(describe_host(array, secrets, "h")).map(Some).unwrap()
    };
    let seen = tag(&shown(&draft.array, &draft.secrets).unwrap());
    let before = draft.clone();
    let mutual = Account::Set(account(Some("array")));
    let first = Change::ChangeHost { name: "h".to_owned(), initiators: None, account: mutual };
    make(&mut draft, &world, &first).unwrap();
    assert_eq!(check_shown(&seen, Ok(shown(&before.array, &before.secrets))), Ok(()));
    let refused = check_shown(&seen, Ok(shown(&draft.array, &draft.secrets))).unwrap_err();
    assert_eq!(refused.kind, ProblemKind::Changed.urn());
    assert_eq!(draft.array, before.array, "only the secrets are others");
}
