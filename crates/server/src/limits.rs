//! How much the daemon takes on, and what happens beyond it.

use std::time::Duration;

/// Connections at once. One more is closed at once.
pub const CONNECTIONS_MAX: usize = 4096;

/// Bytes read from one connection before the others get their turn.
pub const RECEIVE_BUDGET: usize = 1 << 20;

/// Bytes that wait to be sent on one connection before nothing more is read from it.
pub const SEND_QUEUE_BYTES_MAX: usize = 8 << 20;

/// How long a clean stop waits for commands under way; then their connections are closed.
pub const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// How often time is told to the rooms.
pub const TICK: Duration = Duration::from_millis(100);

/// Free space of a pool, in percent of it, at which hosts are warned (38h/07h) unless they asked for
/// another threshold.
pub const SOFT_THRESHOLD_PERCENT: u64 = 20;
