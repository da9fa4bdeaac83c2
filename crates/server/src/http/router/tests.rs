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
    let open = ROUTES.iter().filter(|(.., route)| route.is_open()).map(|(_, path, _)| *path);
    assert_eq!(open.collect::<Vec<_>>(), ["/healthz", "/readyz", "/v1/login", "/v1/openapi.json"]);
}
