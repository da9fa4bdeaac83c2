//! Queue of pending device I/O, with the operations that wait for each completion.

use std::collections::VecDeque;

use block::{BLOCK, Buffer, DeviceOperation, Rope};
use slab::Slab;

use crate::address::{Address, DeviceNumber, Run};
use crate::map::Missing;
use crate::operation_key::OperationKey;
use crate::space::{AllocationGroupId, GroupPage};

/// The engine's name for an I/O. Numbers are used again when their I/O has ended, so that they stay
/// small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IoId(pub u64);

/// A pending I/O.
#[derive(Debug)]
pub struct Io {
    /// To be given back with the result.
    pub id: IoId,
    /// Which device of the pool, in the order in which they joined.
    pub device: u8,
    /// The device operation.
    pub operation: DeviceOperation,
}

/// Blocks that opening a pool has to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Which of the reads of a step of recovery.
    pub(crate) index: u64,
    pub(crate) run: Run,
    /// How often they were read already.
    pub(crate) attempt: u8,
}

/// Which extent of an operation is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtentKey {
    /// Which read of the operation, from 0 on.
    pub(crate) read: usize,
    /// Which extent of that read, from 0 on.
    pub(crate) extent: usize,
}

/// Consumer of a completed I/O.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    /// A read of an operation.
    Operation { operation: OperationKey, extent: ExtentKey },
    /// Prefetch: no operation waits yet.
    Ahead { number: u64, run: Run },
    /// A page of the map, or its copy.
    Page { missing: Missing, attempt: u8 },
    /// A page of a group's space maps.
    GroupPage { group: AllocationGroupId, page: GroupPage, attempt: u8 },
    /// Space for a group on its device, from which blocks will be allocated.
    GroupSpace { group: AllocationGroupId },
    /// Space for a group on its device, so that it is there.
    Preallocation { group: AllocationGroupId },
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
    Opening { wanted: Wanted },
    /// A write of making the pool, or space for what lies before the groups.
    Format,
}

/// I/O that is not yet handed out, and who consumes each result.
#[derive(Default)]
pub(crate) struct IoQueue {
    waiters: Slab<Waiter>,
    pending: VecDeque<Io>,
}

impl IoQueue {
    pub(crate) fn read(&mut self, waiter: Waiter, run: Run) {
        let buffer = Buffer::for_overwrite((run.blocks * BLOCK) as usize);
        let offset = run.start.block().offset();
        self.submit(waiter, run.start.device(), DeviceOperation::Read { offset, buffer });
    }

    pub(crate) fn write(&mut self, waiter: Waiter, address: Address, data: Rope) {
        let offset = address.block().offset();
        self.submit(waiter, address.device(), DeviceOperation::Write { offset, data });
    }

    pub(crate) fn flush(&mut self, waiter: Waiter, device: DeviceNumber) {
        self.submit(waiter, device, DeviceOperation::Flush);
    }

    pub(crate) fn reserve(&mut self, waiter: Waiter, run: Run) {
        let (offset, length) = (run.start.block().offset(), run.blocks * BLOCK);
        self.submit(waiter, run.start.device(), DeviceOperation::Reserve { offset, length });
    }

    fn submit(&mut self, waiter: Waiter, device: DeviceNumber, operation: DeviceOperation) {
        let id = IoId(self.waiters.insert(waiter) as u64);
        self.pending.push_back(Io { id, device: device.number(), operation });
    }

    /// Takes the consumer of an I/O that has ended.
    pub(crate) fn completed(&mut self, id: IoId) -> Option<Waiter> {
        self.waiters.try_remove(id.0 as usize)
    }

    /// The next one for a device.
    pub(crate) fn next(&mut self) -> Option<Io> {
        self.pending.pop_front()
    }

    /// Whether none waits to be handed out.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether none is under way, or waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Gives up what was not handed out.
    pub(crate) fn cancel_pending(&mut self) {
        for io in std::mem::take(&mut self.pending) {
            self.waiters.try_remove(io.id.0 as usize);
        }
    }

    /// Gives up everything; nobody consumes what is under way.
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
        self.waiters.clear();
    }

    /// The consumer of an I/O that is under way.
    #[cfg(test)]
    pub(crate) fn waiter(&self, id: IoId) -> &Waiter {
        &self.waiters[id.0 as usize]
    }
}
