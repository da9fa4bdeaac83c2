//! Interface of a back end: the one trait behind which every kind of device stands.

use std::io;
use std::os::fd::BorrowedFd;

use block::DeviceOperation;

use crate::backing::Backing;
use crate::device::Completion;
use crate::fence::Fence;
use crate::presence::Presence;

/// Makes a device larger and returns the size that it has then, in bytes. May take as long as a
/// file system does, so it is called in another thread.
pub(crate) type Grow = Box<dyn FnOnce(u64) -> io::Result<u64> + Send>;

/// An open device of some kind. No method waits for I/O.
///
/// Reads, writes, flushes and reservations are all [`DeviceOperation`]s: each is submitted under
/// the caller's identifier, and comes back from [`Backend::reap`] once, in any order. An operation that
/// a device has no need of (a flush of memory) succeeds. When the back end is dropped, nothing
/// reads or writes the memory of its operations any more.
pub(crate) trait Backend: Send {
    /// Its size.
    fn size_bytes(&self) -> u64;

    /// Takes an operation; may keep it until [`Backend::kick`].
    fn submit(&mut self, id: u64, operation: DeviceOperation);

    /// Begins what was submitted and kept.
    fn kick(&mut self) {}

    /// Appends the results that are there.
    fn reap(&mut self, completions: &mut Vec<Completion>);

    /// To be polled edge-triggered: raises an event whenever there may be something new to reap.
    fn readiness(&self) -> BorrowedFd<'_>;

    /// What makes it larger.
    ///
    /// # Errors
    /// When no more files can be open.
    fn growth(&self) -> io::Result<Grow>;

    /// Uses what a [`Grow`] added; `size_bytes` is what that returned.
    fn take_growth(&mut self, size_bytes: u64);

    /// Has the file system under it looked at, where there is one.
    fn look_at_backing(&self) {}

    /// The file system under it, as it was last looked at; `None` where there is none.
    fn backing(&self) -> Option<Backing> {
        None
    }

    /// What became of its file, as it was last looked at.
    fn presence(&self) -> Presence {
        Presence::There
    }

    /// What keeps others from it.
    fn fence(&self) -> Fence {
        Fence::ThisMachine
    }

    /// How others see who holds it ([`crate::Holder::identity`]); `None` where they see no name.
    fn identity(&self) -> Option<String> {
        None
    }
}
