//! Response compression: gzip (RFC 1952) for clients that accept it (RFC 9110 12.5.3).
//!
//! An attacker who can put text beside a secret in one compressed answer, and can see how long it
//! is, learns the secret byte by byte (BREACH). So answers that may hold a secret are never
//! compressed, nor are refusals, which may repeat what was asked, nor answers to changes. The
//! stream of events, which never ends, is sent as it is.

use std::io::Write;

use api::{Method, Route};
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::sync::Semaphore;

use super::answers::refuse;
use super::page::lists;
use crate::limits::{COMPRESSED_AT_ONCE_MAX, COMPRESSED_BYTES_MAX, COMPRESSED_BYTES_MIN};

/// What the ETag of a compressed answer ends with: it is another one than the plain one's (RFC 9110
/// 8.8.3).
const SUFFIX: &str = "-gzip\"";

/// Larger ones are compressed beside the thread that serves everybody.
const AT_ONCE_BYTES_MAX: usize = 32 << 10;

/// Large answers that may be compressed now.
static ROOM: Semaphore = Semaphore::const_new(COMPRESSED_AT_ONCE_MAX);

/// Whether answers of a route may be compressed.
pub(super) fn is_compressible(method: Method, route: Route) -> bool {
    let holds_secrets =
        matches!(route, Route::ShowMe | Route::ShowConfiguration | Route::ShowAlerts);
    let goes_on = matches!(route, Route::Stream);
    let is_short = matches!(route, Route::ShowHealth | Route::ShowReadiness);
    method == Method::Get && !holds_secrets && !goes_on && !is_short
}

/// Compresses an answer, if that is understood and worth it.
pub(super) async fn compress(request: Request, next: Next) -> Response {
    let is_understood = lists(request.headers(), &header::ACCEPT_ENCODING, "gzip");
    let knows_gzip = names_suffix(request.headers());
    let is_whole = request.method() == axum::http::Method::GET;
    let mut response = next.run(request).await;
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if response.status() == StatusCode::NOT_MODIFIED && knows_gzip {
        mark(response.headers_mut());
    }
    let length =
        response.body().size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let is_worth_it = length
        .is_some_and(|length| (COMPRESSED_BYTES_MIN..=COMPRESSED_BYTES_MAX).contains(&length));
    let is_plain = !response.headers().contains_key(header::CONTENT_ENCODING);
    if response.status() != StatusCode::OK
        || !(is_understood && is_whole && is_worth_it && is_plain)
    {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(plain) = to_bytes(body, COMPRESSED_BYTES_MAX).await else {
        return refuse(api::ProblemKind::Failed, "an answer could not be read again");
    };
    let Some(compressed) = pack(plain.clone()).await else {
        return Response::from_parts(parts, plain.into());
    };
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.remove(header::CONTENT_LENGTH);
    mark(&mut parts.headers);
    Response::from_parts(parts, Body::from(compressed))
}

/// The answer in gzip; nothing while as many large ones are being compressed as may be: plain, it
/// costs less.
async fn pack(plain: Bytes) -> Option<Vec<u8>> {
    if plain.len() <= AT_ONCE_BYTES_MAX {
        return gzip(&plain);
    }
    let room = ROOM.try_acquire().ok()?;
    let packed = tokio::task::spawn_blocking(move || {
        let packed = gzip(&plain);
        drop(room);
        packed
    });
    packed.await.ok().flatten()
}

fn gzip(plain: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::fast());
    encoder.write_all(plain).ok()?;
    encoder.finish().ok()
}

fn names_suffix(headers: &HeaderMap) -> bool {
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    known.is_some_and(|known| known.contains(SUFFIX))
}

/// Gives a compressed answer an ETag of its own.
fn mark(headers: &mut HeaderMap) {
    let tag = headers.get(header::ETAG).and_then(|tag| tag.to_str().ok());
    let own = tag.and_then(|tag| tag.strip_suffix('"')).map(|tag| format!("{tag}{SUFFIX}"));
    if let Some(own) = own.and_then(|own| HeaderValue::from_str(&own).ok()) {
        headers.insert(header::ETAG, own);
    }
}

/// The ETag of the plain answer.
pub(super) fn unmarked(tag: &str) -> String {
    tag.strip_suffix(SUFFIX).map_or_else(|| tag.to_owned(), |tag| format!("{tag}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_hold_a_secret_and_what_never_ends_is_not_compressed() {
        for &api::Row { method, path, route, .. } in api::ROUTES {
            let secret = ["/v1/me", "/v1/configuration", "/v1/alerts"].contains(&path);
            let other = ["/v1/stream", "/healthz", "/readyz"].contains(&path);
            let expected = method == Method::Get && !secret && !other;
            assert_eq!(is_compressible(method, route), expected, "{path}");
        }
    }

    #[test]
    fn a_compressed_answer_has_an_etag_of_its_own() {
        let mut headers = HeaderMap::new();
        mark(&mut headers);
        assert!(headers.is_empty());
        headers.insert(header::ETAG, HeaderValue::from_static("\"1-2\""));
        mark(&mut headers);
        assert_eq!(headers[header::ETAG], "\"1-2-gzip\"");
        assert_eq!(unmarked("\"1-2-gzip\""), "\"1-2\"");
        assert_eq!(unmarked("\"1-2\""), "\"1-2\"");
    }

    #[test]
    fn what_is_compressed_is_smaller_and_whole() {
        let plain = b"{\"name\":\"v\"}".repeat(1000);
        let packed = gzip(&plain).unwrap();
        assert!(packed.len() < plain.len() / 10);
        let mut read = Vec::new();
        std::io::copy(&mut flate2::read::GzDecoder::new(&packed[..]), &mut read).unwrap();
        assert!(read == plain);
    }
}
