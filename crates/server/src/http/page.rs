//! Static files of the web page, built from `web/` and embedded in the daemon.

use std::io::Write;
use std::sync::OnceLock;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;

#[cfg(test)]
mod tests;

/// A file of the page.
struct File {
    /// Where it is asked for.
    path: &'static str,
    content_type: &'static str,
    /// Weak, because it is the same for every encoding (RFC 9110 8.8.3.3).
    etag: &'static str,
    identity: &'static [u8],
    /// Compressed when a browser first asks for it, and kept.
    gzip: OnceLock<Vec<u8>>,
}

// All of them, as FILES; written by 'cargo xtask web'.
include!("../../../../web/dist/files.rs");

/// The file in which every address of the page begins.
const INDEX: &str = "/index.html";

/// Addresses of these files hold a digest of their content.
const NAMED_BY_CONTENT: &str = "/assets/";

/// The page loads nothing from elsewhere, runs no script but its own files, and is shown in no
/// frame.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'self'; \
                                       frame-ancestors 'none'; object-src 'none'";

/// Answers for a file of the page, or for one of the page's own addresses when a browser goes
/// there; `None` for everything else.
pub(super) fn serve(method: &Method, path: &str, headers: &HeaderMap) -> Option<Response> {
    if method != Method::GET && method != Method::HEAD {
        return None;
    }
    let named = |name: &str| FILES.iter().find(|file| file.path == name);
    let file = match named(path) {
        Some(file) => file,
        None if path == "/" || is_visit(path, headers) => named(INDEX)?,
        None => return None,
    };
    Some(answer(file, headers))
}

/// Whether a browser goes to an address for a person to look at.
fn is_visit(path: &str, headers: &HeaderMap) -> bool {
    let ours = !path.starts_with("/v1/") && !path.starts_with(NAMED_BY_CONTENT);
    ours && lists(headers, &header::ACCEPT, "text/html")
}

fn answer(file: &'static File, headers: &HeaderMap) -> Response {
    let known = lists(headers, &header::IF_NONE_MATCH, file.etag);
    let (encoding, body) = encoded(file, headers);
    let mut response = if known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        Body::from(body).into_response()
    };
    let caching = if file.path.starts_with(NAMED_BY_CONTENT) {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let fields = response.headers_mut();
    protect(fields);
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.content_type));
    fields.insert(header::ETAG, HeaderValue::from_static(file.etag));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    fields.insert(header::VARY, HeaderValue::from_static("accept, accept-encoding"));
    if let Some(encoding) = encoding.filter(|_| !known) {
        fields.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    response
}

/// Adds security headers, such as the content security policy.
fn protect(fields: &mut HeaderMap) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        fields.insert(name, HeaderValue::from_static(value));
    }
}

/// The smallest form that the browser takes.
fn encoded(file: &'static File, headers: &HeaderMap) -> (Option<&'static str>, &'static [u8]) {
    if lists(headers, &header::ACCEPT_ENCODING, "gzip") {
        (Some("gzip"), file.gzip.get_or_init(|| gzip(file.identity)))
    } else {
        (None, file.identity)
    }
}

/// Compresses a file as far as gzip can: once, so time is no matter.
fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).and_then(|()| encoder.finish()).expect("a vector takes every byte")
}

/// Whether a list in a header names something, and does not rule it out by a weight of 0.
pub(super) fn lists(headers: &HeaderMap, name: &header::HeaderName, wanted: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|entry| {
        let (entry, parameters) = entry.split_once(';').unwrap_or((entry, ""));
        let weight = parameters.trim().strip_prefix("q=").and_then(|text| text.parse::<f32>().ok());
        entry.trim().eq_ignore_ascii_case(wanted) && weight != Some(0.0)
    })
}
