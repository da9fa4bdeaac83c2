//! Limits of a device: operations under way and sizes, and what happens beyond.

/// Operations that the kernel has at once. More wait, in order of submission.
pub const QUEUE_DEPTH_MAX: u32 = 256;

/// Threads of the fallback where io_uring is not allowed.
pub const THREADS: usize = 16;

/// Pieces of one vectored write that the kernel takes at once.
pub const PIECES_MAX: usize = 1024;
