//! ETags and conditional requests: `If-None-Match` and `If-Match` (RFC 9110 13).
//!
//! An ETag has two halves. The second one covers the whole answer, for `If-None-Match`. The first
//! one covers what an administrator can change, and is what `If-Match` compares. With the second
//! half alone, a volume that hosts write to would change with every look, and no change of it would
//! ever match.

use std::hash::{DefaultHasher, Hasher};

use api::{Problem, ProblemKind};
use serde_json::Value;

use super::answers::problem;
use super::compression::unmarked;

#[cfg(test)]
mod tests;

/// Fields that change by themselves; lists of these names are what an administrator changes, as the
/// volumes of a schedule.
const COUNTED: [&str; 17] = [
    "state",
    "reason",
    "space",
    "fill",
    "volumes",
    "snapshots",
    "memory_bytes",
    "counters",
    "mapped_bytes",
    "shared_bytes",
    "next",
    "last",
    "problem",
    "backing_free_bytes",
    "backing_state",
    "backing_message",
    "journal_loss",
];

/// A list that changes by itself.
const COUNTED_LIST: &str = "backing";

/// The ETag of an answer that was written as `text`.
pub(super) fn etag(value: &Value, text: &[u8]) -> String {
    format!("\"{}-{:016x}\"", version(value), hash(text))
}

/// The ETag of a long answer, of which an administrator changes no field by itself.
pub(super) fn etag_of_hash(hash: u64) -> String {
    format!("\"{hash:016x}-{hash:016x}\"")
}

/// Version of the fields that an administrator can change.
fn version(value: &Value) -> String {
    let is_kept = |(name, value): &(&String, &Value)| {
        if value.is_array() { *name != COUNTED_LIST } else { !COUNTED.contains(&name.as_str()) }
    };
    let text = match value.as_object() {
        Some(fields) => fields
            .iter()
            .filter(is_kept)
            .map(|(name, value)| format!("{name}={value}\n"))
            .collect::<String>(),
        None => value.to_string(),
    };
    format!("{:016x}", hash(text.as_bytes()))
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Whether an `If-None-Match` names this ETag; weak ones match too (RFC 9110 13.1.2).
pub(super) fn is_known(if_none_match: &str, etag: &str) -> bool {
    let mut tags = if_none_match.split(',').map(str::trim);
    tags.any(|tag| tag == "*" || unmarked(tag.strip_prefix("W/").unwrap_or(tag)) == etag)
}

/// Refuses a change of an object that is not what an `If-Match` names any more.
pub(crate) fn check(if_match: &str, object: &Value) -> Result<(), Problem> {
    let version = version(object);
    let mut tags = if_match.split(',').map(str::trim);
    let fits = |tag: &str| {
        let text = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
        text.and_then(|text| text.split_once('-')).is_some_and(|(first, _)| first == version)
    };
    if tags.any(|tag| tag == "*" || fits(tag)) { Ok(()) } else { Err(changed()) }
}

fn changed() -> Problem {
    problem(ProblemKind::Changed, "somebody else changed it meanwhile: look again, then repeat")
}

/// What is answered to an `If-Match` of an object that is not there: it has no version that could be
/// the one named, not even `*` (RFC 9110 13.1.1).
pub(crate) fn not_there() -> Problem {
    let detail = "there is no such object, so it is not the one that If-Match names: look again";
    problem(ProblemKind::NotThere, detail)
}

/// What is answered to an `If-Match` where there is nothing to compare.
pub(crate) fn no_version() -> Problem {
    let detail = "nothing here has a version that If-Match could name: leave it out";
    problem(ProblemKind::NoVersion, detail)
}
