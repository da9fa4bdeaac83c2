//! Wishes to the device, and who waits for each.

use block::{BLOCK, Buffer, DeviceOperation, Rope};

use crate::map::Missing;
use crate::store::Store;

/// The engine's name for an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IoId(pub u64);

/// A wish to a device.
#[derive(Debug)]
pub struct Io {
    /// To be given back with the result.
    pub id: IoId,
    /// Which device of the pool; always 0 so far.
    pub device: u8,
    /// What to do.
    pub operation: DeviceOperation,
}

/// Who waits for an I/O.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    /// A read of an operation.
    Operation { operation: usize, read: usize, extent: usize },
    /// A page of the map.
    Page(Missing),
    /// A write of a commit group.
    Commit { sequence: u64 },
    /// The flush of a commit group.
    CommitFlush { sequence: u64 },
    /// Anything of a checkpoint.
    Checkpoint,
    /// Anything of opening or making the pool.
    Recovery { token: u64 },
}

impl Store {
    pub(crate) fn submit_read(&mut self, waiter: Waiter, block: u64, blocks: u64) {
        let buffer = Buffer::for_overwrite((blocks * BLOCK) as usize);
        self.submit_io(waiter, DeviceOperation::Read { offset: block * BLOCK, buffer });
    }

    pub(crate) fn submit_write(&mut self, waiter: Waiter, block: u64, data: Rope) {
        self.submit_io(waiter, DeviceOperation::Write { offset: block * BLOCK, data });
    }

    pub(crate) fn submit_flush(&mut self, waiter: Waiter) {
        self.submit_io(waiter, DeviceOperation::Flush);
    }

    fn submit_io(&mut self, waiter: Waiter, operation: DeviceOperation) {
        let id = IoId(self.waiters.insert(waiter) as u64);
        self.wishes.push_back(Io { id, device: 0, operation });
    }
}
