//! Types for events.

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
    /// What kind of thing happened.
    #[serde(default)]
    pub kind: EventKind,
    /// How often it happened: equal events within five minutes are one.
    #[serde(default = "once")]
    pub count: u64,
    /// When it happened last, seconds since 1970.
    #[serde(default)]
    pub last_time: u64,
}

/// Events of before the count happened once.
fn once() -> u64 {
    1
}

/// What kind of thing happened, for programs. More kinds may be added.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// Data or maps could not be read as they were written.
    MediumError,
    /// A device failed to do something.
    DeviceError,
    /// A device does not answer, or does again.
    DeviceStall,
    /// A mirror lost a member, or has one again.
    Mirror,
    /// An initiator repeated a COMPARE AND WRITE that had been done.
    LockRetry,
    /// A log or record of the array itself cannot be written, or can again.
    Record,
    /// What has no kind of its own.
    #[default]
    #[serde(other)]
    General,
}

impl EventKind {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::General => "general",
            Self::MediumError => "medium error",
            Self::DeviceError => "device error",
            Self::DeviceStall => "device stall",
            Self::Mirror => "mirror",
            Self::LockRetry => "lock retry",
            Self::Record => "record",
        }
    }
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
