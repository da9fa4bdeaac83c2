//! What happened to the array.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Something that an administrator should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Counted from the array's first start, from 1. The latest 1,000 are shown.
    pub number: u64,
    /// Seconds since 1970.
    pub time: u64,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about: 'pool NAME' or 'volume POOL/NAME'.
    pub object: String,
    /// A sentence.
    pub message: String,
}

/// How bad an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Information,
    /// Something to do soon.
    Warning,
    /// Something to do now.
    Error,
}
