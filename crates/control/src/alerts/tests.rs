use serde_json::json;

use super::*;
use crate::change::tests::{World, empty, make, written};

fn alerts(value: serde_json::Value) -> Change {
    Change(serde_json::from_value(value).unwrap())
}

fn webhook(name: &str, more: &serde_json::Value) -> serde_json::Value {
    let mut webhook = json!({ "name": name, "url": "https://x.org/", "severity": "warning" });
    let more = more.as_object().unwrap().clone();
    webhook.as_object_mut().unwrap().extend(more);
    webhook
}

fn mail(relay: &str, more: &serde_json::Value) -> serde_json::Value {
    let mut mail = json!({
        "relay": relay, "tls": "tls", "user": "u", "from": "a@x.org", "to": ["b@x.org"],
        "severity": "error",
    });
    let more = more.as_object().unwrap().clone();
    mail.as_object_mut().unwrap().extend(more);
    mail
}

#[test]
fn receivers_are_set_without_showing_their_secrets_and_told_from_then_on() {
    let (mut draft, world) = (empty(), World::new());
    let wanted = alerts(json!({
        "webhooks": [webhook("w", &json!({ "secret": "a secret of 14" }))],
        "mail": mail("x.org:465", &json!({ "password": "pass" })),
    }));
    let applied = make(&mut draft, &world, &wanted).unwrap();
    assert_eq!(applied.effects, [Effect::ConfigureReceivers]);
    assert_eq!(applied.touched, Touched::Nobody);
    let text = written(&applied).to_string();
    assert!(!text.contains("secret of") && !text.contains("pass\""), "{text}");
    assert_eq!(written(&applied)["webhooks"][0]["signed"], json!(true));
    assert_eq!(draft.secrets.webhooks["w"].expose(), "a secret of 14");
    assert_eq!(draft.secrets.mail.as_ref().unwrap().expose(), "pass");
    assert!(make(&mut draft, &world, &alerts(json!({}))).is_ok());
    assert_eq!(draft, empty(), "whoever is not named is told no more, and nothing is kept of them");
}

/// A secret that was set a moment ago, and is not saved yet, is known.
#[test]
fn a_secret_that_is_not_sent_stays_where_nobody_else_would_see_it() {
    let (mut draft, world) = (empty(), World::new());
    let both = alerts(json!({
        "webhooks": [webhook("w", &json!({ "secret": "a secret of 14" }))],
        "mail": mail("x.org:465", &json!({ "password": "pass" })),
    }));
    make(&mut draft, &world, &both).unwrap();
    let again = alerts(json!({
        "webhooks": [webhook("w", &json!({})), webhook("new", &json!({}))],
        "mail": mail("x.org:465", &json!({ "to": ["c@x.org"] })),
    }));
    make(&mut draft, &world, &again).unwrap();
    assert_eq!(draft.secrets.webhooks.len(), 1);
    assert!(draft.secrets.mail.is_some());
    for (elsewhere, said) in [
        (json!({ "mail": mail("y.org:465", &json!({})) }), "not known"),
        (json!({ "mail": mail("x.org:465", &json!({ "user": "v" })) }), "not known"),
        (json!({ "mail": mail("x.org:465", &json!({ "tls": "starttls" })) }), "not known"),
        (json!({ "webhooks": [webhook("v", &json!({ "signed": true }))] }), "not known"),
        (
            json!({ "webhooks": [webhook("w", &json!({ "secret": "x", "signed": false }))] }),
            "no secret",
        ),
        (json!({ "webhooks": [webhook("w", &json!({})), webhook("w", &json!({}))] }), "w"),
        (json!({ "webhooks": [webhook("w", &json!({ "url": "ftp://x.org" }))] }), "http"),
        (json!({ "mail": mail("x.org:465", &json!({ "user": null, "password": "p" })) }), "user"),
    ] {
        let before = draft.clone();
        let problem = make(&mut draft, &world, &alerts(elsewhere)).unwrap_err();
        assert!(problem.detail.contains(said), "{}", problem.detail);
        assert_eq!(draft, before);
    }
    let unsigned = alerts(json!({ "webhooks": [webhook("w", &json!({ "signed": false }))] }));
    make(&mut draft, &world, &unsigned).unwrap();
    assert!(draft.secrets.webhooks.is_empty());
}
