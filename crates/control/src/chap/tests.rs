use serde_json::json;

use super::*;
use crate::change::tests::{World, empty, make, written};

fn chap(secret: &str, mutual: (Option<&str>, Option<&str>)) -> api::Chap {
    let text = |text: &str| text.to_owned();
    api::Chap {
        user: text("user"),
        secret: api::Secret(text(secret)),
        mutual_user: mutual.0.map(text),
        mutual_secret: mutual.1.map(|secret| api::Secret(text(secret))),
    }
}

#[test]
fn an_account_that_is_none_is_refused_without_its_secrets() {
    let (long, other) = ("a secret of 14", "another secret");
    for (secret, mutual, said) in [
        ("eleven char", (None, None), "12"),
        (long, (Some("array"), None), "give both"),
        (long, (None, Some(other)), "give both"),
        (long, (Some("array"), Some(long)), ""),
        (long, (Some("array"), Some("eleven char")), "12"),
        (long, (Some(""), Some(other)), ""),
    ] {
        let problem = parse(chap(secret, mutual)).unwrap_err();
        assert_eq!(problem.status, 400);
        assert!(problem.detail.contains(said), "{}", problem.detail);
        assert!(!problem.detail.contains(secret), "{}", problem.detail);
    }
}

#[test]
fn discovery_has_one_account_or_none() {
    let (mut draft, world) = (empty(), World::new());
    let mutual = chap("a secret of 14", (Some("array"), Some("another secret")));
    let set = DiscoveryChange::Set(parse(mutual).unwrap());
    let applied = make(&mut draft, &world, &set).unwrap();
    assert_eq!(*written(&applied), json!({ "chap_user": "user", "mutual": true }));
    assert_eq!(applied.touched, Touched::Nobody, "who is logged in sees what it saw");
    let applied = make(&mut draft, &world, &DiscoveryChange::Delete).unwrap();
    assert_eq!(applied.answer, Answer::DONE);
    assert_eq!(draft, empty());
}
