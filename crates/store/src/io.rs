//! Queue of pending device I/O, with the operations that wait for each completion.

use block::{BLOCK, Buffer, DeviceOperation, Rope};

use crate::address::{Address, Run};
use crate::map::Missing;
use crate::operation::OperationKey;
use crate::recovery::Wanted;
use crate::space::{GroupId, GroupPage};
use crate::store::Store;

/// The engine's name for an I/O. Numbers are used again when their I/O has ended, so that they stay
/// small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IoId(pub u64);

/// A wish to a device.
#[derive(Debug)]
pub struct Io {
    /// To be given back with the result.
    pub id: IoId,
    /// Which device of the pool, in the order in which they joined.
    pub device: u8,
    /// The device operation.
    pub operation: DeviceOperation,
}

/// Consumer of a completed I/O.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    /// A read of an operation.
    Operation { operation: OperationKey, read: usize, extent: usize },
    /// Prefetch: no operation waits yet.
    Ahead { number: u64, run: Run },
    /// A page of the map, or its copy.
    Page { missing: Missing, attempt: u8 },
    /// A page of a group's space maps.
    GroupPage { group: GroupId, page: GroupPage, attempt: u8 },
    /// Space for a group on its device, from which blocks will be allocated.
    GroupSpace { group: GroupId },
    /// Space for a group on its device, so that it is there.
    Housing { group: GroupId },
    /// A write of a commit group.
    Commit { sequence: u64 },
    /// The flush of a commit group, on one device.
    CommitFlush { sequence: u64 },
    /// Anything of a checkpoint.
    Checkpoint,
    /// The label of a device that joins the pool, or space on one that joins or grows.
    Label { operation: OperationKey },
    /// Anything that the scrub compares.
    Scrub { read: u64 },
    /// A page that is written again where a copy of it was bad; nobody relies on it yet.
    Repair,
    /// A read of opening the pool.
    Recovery { wanted: Wanted },
    /// A write of making the pool, or space for what lies before the groups.
    Format,
}

impl Store {
    pub(crate) fn submit_read(&mut self, waiter: Waiter, run: Run) {
        let buffer = Buffer::for_overwrite((run.blocks * BLOCK) as usize);
        let offset = run.start.block().offset();
        self.submit_io(waiter, run.start.device(), DeviceOperation::Read { offset, buffer });
    }

    pub(crate) fn submit_write(&mut self, waiter: Waiter, address: Address, data: Rope) {
        let offset = address.block().offset();
        self.submit_io(waiter, address.device(), DeviceOperation::Write { offset, data });
    }

    pub(crate) fn submit_flush(&mut self, waiter: Waiter, device: usize) {
        self.submit_io(waiter, device, DeviceOperation::Flush);
    }

    pub(crate) fn submit_reserve(&mut self, waiter: Waiter, run: Run) {
        let (offset, length) = (run.start.block().offset(), run.blocks * BLOCK);
        self.submit_io(waiter, run.start.device(), DeviceOperation::Reserve { offset, length });
    }

    fn submit_io(&mut self, waiter: Waiter, device: usize, operation: DeviceOperation) {
        let id = IoId(self.waiters.insert(waiter) as u64);
        self.wishes.push_back(Io { id, device: device as u8, operation });
    }
}
