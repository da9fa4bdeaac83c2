use super::*;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pairs = pairs
        .iter()
        .map(|(name, value)| (header::HeaderName::from_static(name), value.parse().unwrap()));
    pairs.collect()
}

#[test]
fn pages_of_our_own_are_let_in_and_others_are_not() {
    let plain = Peer::Plain("127.0.0.1:4000".parse().unwrap());
    let tls = Peer::Tls("192.0.2.1:4000".parse().unwrap());
    for (peer, host, origin, foreign) in [
        (plain, "127.0.0.1:8480", None, false),
        (plain, "localhost:8480", Some("http://localhost:8480"), false),
        (plain, "[::1]:8480", Some("http://[::1]:8480"), false),
        (plain, "localhost:8480", Some("http://localhost:8481"), true),
        (plain, "localhost:8480", Some("https://localhost:8480"), true),
        (plain, "localhost:8480", Some("null"), true),
        (plain, "evil.example:8480", None, true),
        (plain, "evil.example:8480", Some("http://evil.example:8480"), true),
        (plain, "", None, true),
        (tls, "array.example", None, false),
        (tls, "array.example", Some("https://array.example"), false),
        (tls, "array.example", Some("http://array.example"), true),
        (tls, "array.example", Some("https://evil.example"), true),
        (tls, "array.example", Some(""), true),
        (Peer::Socket, "anything", Some("https://evil.example"), false),
    ] {
        let mut headers = headers(&[("host", host)]);
        if let Some(origin) = origin {
            headers.insert("origin", origin.parse().unwrap());
        }
        assert_eq!(is_foreign(peer, &headers), foreign, "{peer:?} {host} {origin:?}");
    }
}

#[test]
fn only_login_and_probes_are_open_to_everybody() {
    let open = ROUTES.iter().filter(|row| row.is_open).map(|row| row.path);
    assert_eq!(open.collect::<Vec<_>>(), ["/healthz", "/readyz", "/v1/login", "/v1/openapi.json"]);
}

async fn mistaken() -> Response {
    panic!("a mistake of the handler's")
}

/// The process of this very test is started again as the one whose handler panics.
#[test]
fn a_panic_of_a_handler_is_a_line_of_the_log_and_a_500_and_ends_nothing() {
    const MARK: &str = "GANTRY_TEST_HANDLER_PANICS";
    const NAME: &str =
        "http::router::tests::a_panic_of_a_handler_is_a_line_of_the_log_and_a_500_and_ends_nothing";
    if std::env::var_os(MARK).is_none() {
        let own = std::env::current_exe().unwrap();
        let arguments = [NAME, "--exact", "--nocapture"];
        let mut child = std::process::Command::new(own);
        let child = child.args(arguments).env(MARK, "1").output().unwrap();
        assert!(child.status.success(), "{child:?}");
        let said = String::from_utf8_lossy(&child.stderr);
        let is_meant = |line: &&str| line.contains("ERROR") && line.contains("a mistake of the h");
        assert_eq!(said.lines().filter(is_meant).count(), 1, "{said}");
        assert!(said.contains("router/tests.rs:"), "it says where: {said}");
        return;
    }
    let log = crate::logs::start(crate::options::LogFormat::Text, None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let router = Router::new()
        .route("/mistaken", get(mistaken))
        .route("/right", get(|| async { "right" }))
        .layer(middleware::from_fn(answered_all_the_same));
    let service = hyper_util::service::TowerToHyperService::new(router);
    let ask = |path: &str| {
        let request = http::Request::builder().uri(path).body(axum::body::Body::empty()).unwrap();
        let answer = runtime.block_on(hyper::service::Service::call(&service, request)).unwrap();
        let status = answer.status().as_u16();
        let body = runtime.block_on(to_bytes(answer.into_body(), 1 << 16)).unwrap();
        (status, String::from_utf8_lossy(&body).into_owned())
    };
    let (status, body) = ask("/mistaken");
    assert_eq!(status, 500);
    let problem: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert!(problem["detail"].as_str().unwrap().contains("a mistake in gantryd"), "{problem}");
    assert!(!body.contains("of the handler's"), "the caller is told nothing of the insides");
    assert_eq!(ask("/right"), (200, "right".to_owned()));
    drop(log);
}
