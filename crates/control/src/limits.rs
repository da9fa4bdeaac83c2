//! Limits of what the array does by itself, and what happens at each.

/// Snapshots of one schedule that are deleted after one of its runs; further ones after the next.
pub const EXPIRED_PER_RUN_MAX: usize = 512;

/// Snapshots that are looked at, at most, in one look for the oldest one that may be deleted where a
/// pool is at its hard threshold; further ones in the next look.
pub const SNAPSHOTS_SEARCHED_PER_LOOK: usize = 512;

/// Looks until such a deletion that failed is tried again.
pub const DELETION_RETRY_LOOKS: u32 = 60;

/// LUN numbers that sessions held which ended a short while ago. With more of them the oldest is
/// forgotten, and may go to another volume earlier.
pub const HELD_BY_ENDED_MAX: usize = 65_536;

/// Reasons that are named when an import is refused; of further ones the number.
pub const IMPORT_PROBLEMS_MAX: usize = 20;

/// Tasks that have ended and are kept for queries; the oldest one makes room.
pub const TASKS_MAX: usize = 256;

/// Volumes that the configuration knows something of and that are looked up in the pools, at most,
/// in one look for those that no pool holds; further ones in the next look.
pub const KNOWN_VOLUMES_PER_LOOK: usize = 512;
