//! Preconditions of changes (`If-Match`, RFC 9110 13.1.1): the version of an object that an
//! administrator saw must be the one that would be changed. It covers the fields that
//! administrators can change; a volume that hosts write to would differ with every look otherwise.

use std::hash::{DefaultHasher, Hasher};

use api::{Problem, ProblemKind};
use serde_json::Value;

use crate::problems::problem;

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

/// The version of an object, as the first half of its ETag.
pub fn version(value: &Value) -> String {
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

/// Sixteen digits in the ETag of an answer stand for this.
pub fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Decides whether a change may be made that says which version of an object it is meant for.
/// `shown` is the object as it is with every change that was accepted, saved or not: of two who
/// change the same version the second is refused. It is `Ok(None)` if the object has no version.
///
/// # Errors
/// When the object is another one by now, is not there, or has no version.
pub fn check_shown(if_match: &str, shown: Result<Option<Value>, Problem>) -> Result<(), Problem> {
    match shown {
        Ok(Some(object)) => check(if_match, &object),
        Ok(None) => Err(no_version()),
        Err(problem) if problem.status == 404 => Err(not_there()),
        Err(problem) => Err(problem),
    }
}

/// Refuses a change of an object that is not what an `If-Match` names any more.
///
/// # Errors
/// When it is not.
pub fn check(if_match: &str, object: &Value) -> Result<(), Problem> {
    let version = version(object);
    let mut tags = if_match.split(',').map(str::trim);
    let fits = |tag: &str| {
        let text = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
        text.and_then(|text| text.split_once('-')).is_some_and(|(first, _)| first == version)
    };
    if tags.any(|tag| tag == "*" || fits(tag)) { Ok(()) } else { Err(changed()) }
}

fn changed() -> Problem {
    let detail = "somebody else changed it meanwhile: look again, then repeat";
    problem(ProblemKind::Changed, &detail)
}

/// An object that is not there has no version that could be the one named, not even `*`.
fn not_there() -> Problem {
    let detail = "there is no such object, so it is not the one that If-Match names: look again";
    problem(ProblemKind::NotThere, &detail)
}

/// There is nothing to compare.
pub fn no_version() -> Problem {
    let detail = "nothing here has a version that If-Match could name: leave it out";
    problem(ProblemKind::NoVersion, &detail)
}

#[cfg(test)]
mod tests;
