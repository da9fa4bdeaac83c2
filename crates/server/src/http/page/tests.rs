use super::*;

fn headers(fields: &[(header::HeaderName, &'static str)]) -> HeaderMap {
    fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
}

fn get(path: &str, fields: &[(header::HeaderName, &'static str)]) -> Option<Response> {
    serve(&Method::GET, path, &headers(fields))
}

fn field<'a>(response: &'a Response, name: &header::HeaderName) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

fn asset(extension: &str) -> &'static File {
    let fits =
        |file: &&File| file.path.starts_with(NAMED_BY_CONTENT) && file.path.ends_with(extension);
    FILES.iter().find(fits).unwrap()
}

const BROWSER: (header::HeaderName, &str) =
    (header::ACCEPT, "text/html,application/xhtml+xml,*/*;q=0.8");

#[test]
fn every_address_of_the_page_is_answered_with_the_page() {
    for path in ["/", "/index.html", "/pools", "/volumes/p/a", "/offload/why", "/no/such/page"] {
        let response = get(path, &[BROWSER]).unwrap();
        assert_eq!(
            field(&response, &header::CONTENT_TYPE),
            Some("text/html; charset=utf-8"),
            "{path}"
        );
        assert_eq!(field(&response, &header::CACHE_CONTROL), Some("no-cache"), "{path}");
    }
}

#[test]
fn what_is_not_of_the_page_is_left_to_others() {
    let script = asset(".js").path;
    for path in ["/v1/nothing", "/v1/", "/assets/gone.js", "/assets/"] {
        assert!(get(path, &[BROWSER]).is_none(), "{path}");
    }
    assert!(get("/pools", &[]).is_none(), "a program gets no page in place of an error");
    assert!(get("/pools", &[(header::ACCEPT, "application/json")]).is_none());
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        assert!(serve(&method, "/", &headers(&[BROWSER])).is_none(), "{method}");
        assert!(serve(&method, script, &headers(&[])).is_none(), "{method}");
    }
}

#[test]
fn the_page_may_load_only_its_own_files_and_sits_in_no_frame() {
    for path in ["/", asset(".js").path, asset(".css").path, asset(".svg").path] {
        let response = get(path, &[]).unwrap();
        let policy = field(&response, &header::CONTENT_SECURITY_POLICY).unwrap();
        assert!(policy.starts_with("default-src 'self';"), "{path}");
        assert!(policy.contains("frame-ancestors 'none'"), "{path}");
        assert!(!policy.contains("unsafe"), "{path}");
        assert_eq!(field(&response, &header::X_CONTENT_TYPE_OPTIONS), Some("nosniff"), "{path}");
        assert_eq!(field(&response, &header::REFERRER_POLICY), Some("no-referrer"), "{path}");
    }
    let index = FILES.iter().find(|file| file.path == INDEX).unwrap();
    let text = str::from_utf8(index.identity).unwrap();
    assert!(!text.contains("http:") && !text.contains("https:"), "no other origin");
    assert!(!text.contains("<script>") && !text.contains("style="), "nothing inline");
}

#[test]
fn the_smallest_form_that_the_browser_takes_is_sent() {
    let script = asset(".js");
    let cases = [
        ("gzip, deflate, br, zstd", Some("gzip"), gzip(script.identity).len()),
        ("GZIP;q=0.5", Some("gzip"), gzip(script.identity).len()),
        ("br; q=0, gzip;q=0.0", None, script.identity.len()),
        ("br", None, script.identity.len()),
        ("", None, script.identity.len()),
    ];
    for (accepted, encoding, length) in cases {
        let fields = headers(&[(header::ACCEPT_ENCODING, accepted)]);
        assert_eq!(encoded(script, &fields).0, encoding, "{accepted}");
        assert_eq!(encoded(script, &fields).1.len(), length, "{accepted}");
        let response = get(script.path, &[(header::ACCEPT_ENCODING, accepted)]).unwrap();
        assert_eq!(field(&response, &header::CONTENT_ENCODING), encoding, "{accepted}");
        assert_eq!(field(&response, &header::VARY), Some("accept, accept-encoding"));
    }
}

#[test]
fn what_is_compressed_unpacks_to_the_file() {
    for file in &FILES {
        let (_, packed) = encoded(file, &headers(&[(header::ACCEPT_ENCODING, "gzip")]));
        let mut plain = Vec::new();
        std::io::copy(&mut flate2::read::GzDecoder::new(packed), &mut plain).unwrap();
        assert!(plain == file.identity, "{}", file.path);
    }
}

#[test]
fn what_the_browser_has_is_not_sent_again() {
    let script = asset(".js");
    let response = get(script.path, &[(header::IF_NONE_MATCH, script.etag)]).unwrap();
    assert_eq!(response.status(), StatusCode::NOT_MODIFIED);
    assert_eq!(field(&response, &header::ETAG), Some(script.etag));
    let response = get(script.path, &[(header::IF_NONE_MATCH, "W/\"0123456789abcdef\"")]).unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let caching = field(&response, &header::CACHE_CONTROL).unwrap();
    assert!(caching.contains("immutable"), "{caching}");
}

#[test]
fn all_compressed_script_is_below_100_kilobytes() {
    let scripts = FILES.iter().filter(|file| file.path.ends_with(".js"));
    let bytes: usize = scripts.map(|file| gzip(file.identity).len()).sum();
    assert!(bytes < 100_000, "{bytes}");
}
