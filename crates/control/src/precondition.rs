//! Preconditions of changes: `If-Match` (RFC 9110 13.1.1), the version of an object that an
//! administrator saw must be the one that would be changed; `If-None-Match` (13.1.2), `*` makes an
//! object only if there is none. A version covers the fields that administrators can change; a volume
//! that hosts write to would differ with every look otherwise.

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

/// What a change says about the version of the object that it is meant for: lists of ETags, or `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// The object must be one of these versions.
    pub if_match: Option<String>,
    /// The object must be none of these versions.
    pub if_none_match: Option<String>,
}

impl Preconditions {
    /// Whether the change is meant for whatever there is.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Decides whether the change may be made. `shown` is the object as it is with every change that
    /// was accepted, saved or not: of two who change the same version, or make the same object, the
    /// second is refused. It is `Ok(None)` if the object has no version.
    ///
    /// # Errors
    /// When the object is another one by now, is not there and should be, is there and should not, or
    /// has no version.
    pub fn check_shown(&self, shown: Result<Option<Value>, Problem>) -> Result<(), Problem> {
        match shown {
            Ok(Some(object)) => self.check(Some(&object)),
            Ok(None) => Err(no_version()),
            Err(problem) if problem.status == 404 => self.check(None),
            Err(problem) => Err(problem),
        }
    }

    /// The same for an object that is known.
    ///
    /// # Errors
    /// As those of [`Self::check_shown`].
    pub fn check(&self, object: Option<&Value>) -> Result<(), Problem> {
        if let Some(tags) = &self.if_match {
            let object = object.ok_or_else(not_there)?;
            if !is_among(tags, object) {
                return Err(changed());
            }
        }
        match (&self.if_none_match, object) {
            (Some(tags), Some(object)) if is_among(tags, object) => Err(already_there()),
            (Some(_) | None, _) => Ok(()),
        }
    }
}

/// Whether the object's version is one of those that a header names.
fn is_among(tags: &str, object: &Value) -> bool {
    let version = version(object);
    let fits = |tag: &str| {
        let text = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
        text.and_then(|text| text.split_once('-')).is_some_and(|(first, _)| first == version)
    };
    tags.split(',').map(str::trim).any(|tag| tag == "*" || fits(tag))
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

/// `If-None-Match: *` on what there is.
fn already_there() -> Problem {
    let detail = "it is there, and If-None-Match wants that it is not: look at it, then decide";
    problem(ProblemKind::AlreadyThere, &detail)
}

/// There is nothing to compare.
pub fn no_version() -> Problem {
    let detail =
        "nothing here has a version that If-Match or If-None-Match could name: leave it out";
    problem(ProblemKind::NoVersion, &detail)
}

#[cfg(test)]
mod tests;
