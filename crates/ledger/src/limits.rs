//! Limits of the ledger: how much is kept, and what happens beyond it.

use std::time::Duration;

/// Pairs of host and volume; the one that was idle longest makes room.
pub const ROWS_MAX: usize = 4096;

/// Hosts; all others are counted as one.
pub const HOSTS_MAX: usize = 1024;

/// Reasons for refusals per pair of host and volume; the one seen least recently makes room.
pub const REFUSALS_PER_ROW_MAX: usize = 8;

/// Names of commands whose latencies are told apart; others are not counted.
pub const COMMAND_NAMES_MAX: usize = 96;

/// Hosts whose reads are remembered, to find them again in writes; of others no copies are found.
pub const WATCHED_HOSTS_MAX: usize = 64;

/// Sampled reads that are remembered per host: newer ones replace older ones of a like checksum.
/// With one block in 64 sampled, that many stand for 2 GiB.
pub const READS_REMEMBERED: usize = 8192;

/// How long after a read a write of the same data counts as a copy.
pub const COPY_WINDOW: Duration = Duration::from_secs(120);

/// Sampled blocks that must have moved alike before a copy is reported: 1 MiB or so.
pub const COPY_MATCHES_MIN: u64 = 4;

/// Bytes of zeros that a host must have read and not written before its copy is said to leave them
/// out.
pub const SKIPPED_ZEROS_MIN: u64 = 1 << 20;

/// How long after data moved zeros are taken for a part of the same copy.
pub const ZEROS_WINDOW: Duration = Duration::from_secs(10);

/// Triples of host, source and destination; the one that was idle longest makes room.
pub const COPIES_MAX: usize = 256;

/// Moves of sampled blocks that are remembered per triple: a move is believed when an earlier one
/// went equally far.
pub const MOVES_REMEMBERED: usize = 8;

/// Volumes whose locks are watched; the one that was idle longest makes room.
pub const LOCK_VOLUMES_MAX: usize = 256;

/// Ranges per volume; the one with the fewest attempts makes room, and its count is inherited.
pub const LOCK_RANGES_MAX: usize = 256;

/// Attempts per volume that are kept one by one.
pub const LOCK_ATTEMPTS_MAX: usize = 64;

/// Hosts that are named per range.
pub const LOCK_HOSTS_MAX: usize = 8;

/// Series of volumes; the one that was idle longest makes room.
pub const VOLUME_SERIES_MAX: usize = 128;

/// Series of hosts, likewise.
pub const HOST_SERIES_MAX: usize = 64;

/// Series of pools; others are not kept.
pub const POOL_SERIES_MAX: usize = 64;

/// Seconds per value and number of values of each resolution, finest first; every step is a
/// multiple of the one before. The coarsest covers a week.
pub const RESOLUTIONS: [(u64, usize); 4] = [(1, 300), (10, 360), (60, 720), (600, 1008)];

/// Seconds without a tick that are filled in; what lies before them is lost from the history.
pub const GAP_SECONDS_MAX: u64 = 3600;

/// Values that a forecast needs at least.
pub const FORECAST_VALUES_MIN: usize = 30;

/// Bytes of zeros in WRITE commands before a host is said to zero by itself.
pub const ZEROED_BYTES_MIN: u64 = 16 << 20;

/// How long an EXTENDED COPY, refused or done, explains copies that the host makes itself.
pub const REFUSAL_WINDOW: Duration = Duration::from_secs(3600);
