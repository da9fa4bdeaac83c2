//! Limits of a device: operations under way and sizes, and what happens beyond.

use std::time::Duration;

/// Operations that the kernel has at once. More wait, in order of submission.
pub const QUEUE_DEPTH_MAX: u32 = 256;

/// Threads of the fallback where io_uring is not allowed.
pub const THREADS: usize = 16;

/// Pieces of one vectored write that the kernel takes at once.
pub const PIECES_MAX: usize = 1024;

/// How often a block device is tried that is busy, 100 ms apart; then it is in use.
pub const BUSY_TRIES: u32 = 30;
/// See [`BUSY_TRIES`].
pub const BUSY_PAUSE: Duration = Duration::from_millis(100);
