//! ETags and conditional requests: `If-None-Match` and `If-Match` (RFC 9110 13).
//!
//! An ETag has two halves. The second one covers the whole answer, for `If-None-Match`. The first
//! one covers what an administrator can change, and is what `If-Match` compares
//! ([`control::precondition`]).

use control::precondition::{hash, version};
use serde_json::Value;

use super::compression::unmarked;

#[cfg(test)]
mod tests;

/// The ETag of an answer that was written as `text`.
pub(super) fn etag(value: &Value, text: &[u8]) -> String {
    format!("\"{}-{:016x}\"", version(value), hash(text))
}

/// The ETag of a long answer, of which an administrator changes no field by itself.
pub(super) fn etag_of_hash(hash: u64) -> String {
    format!("\"{hash:016x}-{hash:016x}\"")
}

/// Whether an `If-None-Match` names this ETag; weak ones match too (RFC 9110 13.1.2).
pub(super) fn is_known(if_none_match: &str, etag: &str) -> bool {
    let mut tags = if_none_match.split(',').map(str::trim);
    tags.any(|tag| tag == "*" || unmarked(tag.strip_prefix("W/").unwrap_or(tag)) == etag)
}
