//! Types for scrubs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A scrub that is to begin, or another rate for the one under way.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartScrub {
    /// Bytes per second that are read at most, at least 1 MiB; 200 MiB when left out.
    #[schema(minimum = 1048576)]
    pub rate_bytes: Option<u64>,
}

/// How a pool's scrub is doing, or how the last one since the daemon started ended.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Scrub {
    /// The pool.
    pub pool: String,
    /// Whether one is under way.
    pub running: bool,
    /// Whether it has come to its end; false for one that was stopped, and before the first one.
    pub complete: bool,
    /// Bytes per second that are read at most.
    pub rate_bytes: u64,
    /// Bytes of data and maps that were compared.
    pub scanned_bytes: u64,
    /// Bytes in use when it began.
    pub total_bytes: u64,
    /// Blocks of data, 4 KiB each, that are bad.
    pub bad_blocks: u64,
    /// Pages of the map of which no copy is intact.
    pub bad_pages: u64,
    /// Pages of the map that were written again from their intact copies.
    pub repaired_pages: u64,
    /// Where volumes and snapshots are bad; the first 1,000 places.
    pub bad: Vec<BadRange>,
}

/// Logical blocks of a volume or snapshot that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BadRange {
    /// Its name.
    pub volume: String,
    /// The first one, counted as hosts do.
    pub lba: u64,
    /// How many.
    pub blocks: u64,
}
