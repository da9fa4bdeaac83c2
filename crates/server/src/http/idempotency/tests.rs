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
    assert!(matches!(kept.begin(&key(1), 7, 0), Verdict::Run));
    assert!(matches!(kept.begin(&key(1), 7, 0), Verdict::UnderWay));
    assert!(matches!(kept.begin(&("bob".into(), "1".into()), 8, 0), Verdict::Run));
    kept.end(&key(1), done());
    assert!(matches!(kept.begin(&key(1), 7, 1), Verdict::Repeat(StatusCode::OK, _)));
    assert!(matches!(kept.begin(&key(1), 8, 1), Verdict::AnotherRequest));
}

#[test]
fn a_request_that_came_to_nothing_may_be_tried_again() {
    let mut kept = Kept::default();
    assert!(matches!(kept.begin(&key(1), 7, 0), Verdict::Run));
    kept.end(&key(1), None);
    assert!(matches!(kept.begin(&key(1), 9, 0), Verdict::Run));
    assert_eq!(kept.order.len(), 1);
}

#[test]
fn answers_are_forgotten_after_a_day_and_when_there_are_too_many() {
    let mut kept = Kept::default();
    assert!(matches!(kept.begin(&key(1), 7, 0), Verdict::Run));
    kept.end(&key(1), done());
    assert!(matches!(kept.begin(&key(1), 7, ANSWERS_KEPT_SECONDS), Verdict::Run));
    kept.end(&key(1), done());
    for number in 2..2 * ANSWERS_KEPT_MAX {
        assert!(matches!(kept.begin(&key(number), 7, ANSWERS_KEPT_SECONDS), Verdict::Run));
        kept.end(&key(number), done());
    }
    assert_eq!(kept.answers.len(), ANSWERS_KEPT_MAX);
    assert_eq!(kept.order.len(), ANSWERS_KEPT_MAX);
    assert_eq!(kept.bytes, 2 * ANSWERS_KEPT_MAX);
}

#[test]
fn what_is_under_way_and_what_others_did_is_not_forgotten_for_one_user() {
    let mut kept = Kept::default();
    let of_ann = ("ann".to_owned(), "x".to_owned());
    let bobs = |number: usize| ("bob".to_owned(), number.to_string());
    assert!(matches!(kept.begin(&of_ann, 7, 0), Verdict::Run));
    kept.end(&of_ann, done());
    assert!(matches!(kept.begin(&bobs(0), 7, 0), Verdict::Run));
    for number in 1..2 * ANSWERS_KEPT_MAX {
        assert!(matches!(kept.begin(&bobs(number), 7, 0), Verdict::Run));
        kept.end(&bobs(number), done());
    }
    assert!(matches!(kept.begin(&of_ann, 7, 1), Verdict::Repeat(..)));
    assert!(matches!(kept.begin(&bobs(0), 7, 1), Verdict::UnderWay));
}

#[test]
fn the_bytes_of_all_answers_and_the_requests_under_way_are_bounded() {
    let mut kept = Kept::default();
    let large = Bytes::from(vec![0; ANSWERS_KEPT_BYTES_MAX / 4]);
    for number in 0..10 {
        assert!(matches!(kept.begin(&key(number), 7, 0), Verdict::Run));
        kept.end(&key(number), Some((StatusCode::OK, large.clone())));
    }
    assert_eq!((kept.answers.len(), kept.bytes), (4, ANSWERS_KEPT_BYTES_MAX));
    let mut kept = Kept::default();
    (0..ANSWERS_KEPT_MAX).for_each(|number| drop(kept.begin(&key(number), 7, 0)));
    assert!(matches!(kept.begin(&key(ANSWERS_KEPT_MAX), 7, 0), Verdict::Full));
}

fn identity(role: api::Role, token: Option<&str>) -> Identity {
    let token = token.map(str::to_owned);
    let via = access::Via::Token;
    Identity { user: "ann".into(), role, via, token, must_change_password: false }
}

fn asked(uri: &str, if_match: Option<&str>, body: &[u8], identity: &Identity) -> u64 {
    let mut request = Request::builder().method("POST").uri(uri);
    if let Some(if_match) = if_match {
        request = request.header("If-Match", if_match);
    }
    let (parts, _) = request.body(axum::body::Body::empty()).unwrap().into_parts();
    fingerprint(&parts, body, identity, Route::CloneVolume)
}

/// An import of `dry_run=true` was answered again to the real one.
#[test]
fn another_path_query_precondition_body_or_role_is_another_request() {
    use api::Role::{Admin, Viewer};
    let admin = identity(Admin, Some("a"));
    let mut seen = std::collections::BTreeSet::new();
    for (uri, if_match, body) in [
        ("/v1/x", None, "{}"),
        ("/v1/y", None, "{}"),
        ("/v1/x/", None, "{}"),
        ("/v1/x%2F", None, "{}"),
        ("/v1/x?dry_run=true", None, "{}"),
        ("/v1/x?dry_run=false", None, "{}"),
        ("/v1/x?dry_run=true&dry_run=false", None, "{}"),
        ("/v1/x?dry_run=false&dry_run=true", None, "{}"),
        ("/v1/x", Some("\"1-1\""), "{}"),
        ("/v1/x", Some("*"), "{}"),
        ("/v1/x", None, "{ }"),
        ("/v1/x", None, ""),
    ] {
        assert!(seen.insert(asked(uri, if_match, body.as_bytes(), &admin)), "{uri} {body}");
    }
    assert!(seen.insert(asked("/v1/x", None, b"{}", &identity(Viewer, Some("a")))));
    // Written otherwise, and the same.
    let same = |one: &str, other: &str| {
        assert_eq!(asked(one, None, b"{}", &admin), asked(other, None, b"{}", &admin), "{one}");
    };
    same("/v1/x", "/v1/%78");
    same("/v1/x?a=1&b=2", "/v1/x?b=%32&a=1");
    same("/v1/x?a=b+c", "/v1/x?a=b%20c");
    assert_eq!(
        asked("/v1/x", None, b"{}", &admin),
        asked("/v1/x", None, b"{}", &identity(Admin, Some("b")))
    );
}

#[test]
fn the_secret_of_a_new_token_is_told_to_nobody_but_its_maker() {
    let asked = |token: Option<&str>| {
        let request = Request::builder().method("POST").uri("/v1/tokens");
        let (parts, _) = request.body(axum::body::Body::empty()).unwrap().into_parts();
        fingerprint(&parts, b"{}", &identity(api::Role::Viewer, token), Route::CreateToken)
    };
    assert_ne!(asked(Some("a")), asked(Some("b")));
    assert_eq!(asked(Some("a")), asked(Some("a")));
}
