//! An eventfd that tells the event loop that something may be reaped.

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

    /// Makes the descriptor readable.
    pub(crate) fn ring(&self) {
        // A full counter is readable already.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    /// Makes it unreadable until the next ring.
    pub(crate) fn clear(&self) {
        // An empty counter is what is wanted.
        let _ = rustix::io::read(&*self.0, &mut [0_u8; 8]);
    }
}

impl AsFd for Notify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
