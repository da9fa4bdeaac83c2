//! Completion notification by eventfd: wakes the event loop when a completion can be reaped.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// A doorbell, shared by those who ring it.
#[derive(Clone, Debug)]
pub(crate) struct Notify(Arc<OwnedFd>);

impl Notify {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Raises an event. The counter is never read: a poll that is edge-triggered is told of every
    /// ring, and 64 bits do not overflow.
    pub(crate) fn ring(&self) {
        // The only error is a full counter, which takes longer than any process lives.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

impl AsFd for Notify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
