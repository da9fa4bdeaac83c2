//! Types for snapshot schedules and snapshot locks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A snapshot that nobody may delete before a moment.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LockSnapshot {
    /// When the lock ends, seconds since 1970: in the future, within 100 years, and not before the
    /// end of an existing lock.
    pub until: u64,
}

/// A schedule as it is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSchedule {
    /// 1 to 256 volumes of one pool, each POOL/NAME; their snapshots are of one moment.
    #[schema(min_items = 1, max_items = 256)]
    pub volumes: Vec<String>,
    /// Seconds from one run to the next, 1 to ten years. Runs are at multiples of it, counted from
    /// 1970-01-01 00:00 UTC.
    #[schema(minimum = 1, maximum = 315_360_000_u64)]
    pub every_seconds: u64,
    /// Seconds by which runs are later than those multiples; less than `every_seconds`.
    #[serde(default)]
    pub offset_seconds: u64,
    /// Runs whose snapshots are kept, 1 to 1,000; older ones are deleted, unless they are locked or
    /// mapped.
    #[schema(minimum = 1, maximum = 1000)]
    pub keep: u32,
    /// Seconds for which new snapshots are locked, at most 100 years; not at all when left out.
    #[serde(default)]
    pub lock_seconds: Option<u64>,
    /// Whether it runs; it does when left out.
    #[serde(default = "yes")]
    pub enabled: bool,
}

/// A schedule of snapshots.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// Its name.
    pub name: String,
    /// Volumes, each POOL/NAME.
    pub volumes: Vec<String>,
    /// Seconds from one run to the next.
    pub every_seconds: u64,
    /// Seconds by which runs are later than the multiples of `every_seconds`.
    pub offset_seconds: u64,
    /// Runs whose snapshots are kept.
    pub keep: u32,
    /// Seconds for which new snapshots are locked.
    pub lock_seconds: Option<u64>,
    /// Whether it runs.
    pub enabled: bool,
    /// When it runs next, seconds since 1970.
    pub next: Option<u64>,
    /// When it last made snapshots of which there still are some, seconds since 1970.
    pub last: Option<u64>,
    /// Snapshots of it that there are.
    pub snapshots: usize,
    /// What went wrong with the last run.
    pub problem: Option<String>,
}

fn yes() -> bool {
    true
}
