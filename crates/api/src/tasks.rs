//! Types for tasks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Work that takes long, or took long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Task {
    /// Counted since the daemon started, from 1; of several controllers each counts from its number times
    /// 100,000,000. The daemon keeps the latest 256 that have ended.
    pub id: u64,
    /// What is done.
    pub kind: TaskKind,
    /// What it is done to: 'pool NAME', 'volume POOL/NAME', 'member POOL/DEVICE' or 'device POOL/NUMBER'.
    pub object: String,
    /// How far it is.
    pub state: TaskState,
    /// How much is done, in `unit`.
    pub done: u64,
    /// How much there is to do; it may grow. 0 if nobody knows.
    pub total: u64,
    /// What is counted.
    pub unit: TaskUnit,
    /// Seconds since 1970.
    pub started: u64,
    /// Seconds since 1970.
    pub ended: Option<u64>,
    /// What went wrong, or was found.
    pub problem: Option<String>,
    /// Whether it can be cancelled now.
    pub can_cancel: bool,
    /// Whether it rests until it is resumed; it counts as running.
    pub paused: bool,
    /// Whether it can be paused, or resumed, now.
    pub can_pause: bool,
    /// Bytes per second so far, while it runs and as far as it is known.
    pub rate_bytes: Option<u64>,
    /// Seconds that it will take yet if it goes on as so far; not while it rests.
    pub remaining_seconds: Option<u64>,
}

/// Kinds of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TaskKind {
    /// A pool's content is compared with its checksums.
    Scrub,
    /// Space of deleted volumes and snapshots, and of large unmapped ranges, returns to a pool.
    Delete,
    /// A host's SANITIZE.
    Sanitize,
    /// A member of a mirror is filled: a new one with everything, one that was away with what it
    /// lacks.
    Resilver,
    /// A pool is made.
    CreatePool,
    /// A device of a pool grows.
    ExtendPool,
    /// A device joins a pool.
    AddDevice,
    /// A device leaves a pool: what is on it moves to the others.
    RemoveDevice,
    /// A pool is closed and forgotten.
    DeletePool,
}

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    /// It goes on.
    Running,
    /// It has come to its end.
    Done,
    /// Somebody ended it.
    Cancelled,
    /// It could not be done.
    Failed,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TaskUnit {
    /// Bytes.
    Bytes,
    /// Parts of a whole.
    Parts,
}
