//! Commit groups: data and records of several operations, which become durable with one flush.
//!
//! There are two classes. COMPARE AND WRITE (VMware: ATS), which hosts use as their heartbeat and
//! give up after seconds, has one of its own: it is not behind the data of others in a group, and a
//! part of the journal is kept for it while others wait for a checkpoint. Operations under way
//! together do not touch the same blocks, so their order in the journal is free.

use block::{BLOCK, Rope};
use bytes::Bytes;

use crate::address::Address;
use crate::checksum::crc32c;
use crate::journal::Position;
use crate::limits::{COMMIT_BYTES_MAX, GROUP_DATA_BYTES_MAX};
use crate::operation_key::OperationKey;
use crate::record::Record;

/// Blocks that are written with one I/O at most.
const COALESCED_BLOCKS_MAX: u64 = 256;

/// Pieces that are written with one I/O at most.
const COALESCED_PIECES_MAX: usize = 128;

/// Data of the ordinary group, bytes, up to which it goes with the fast class in one commit.
const JOINT_BYTES_MAX: u64 = 1 << 20;

/// Which commit an operation goes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitClass {
    /// COMPARE AND WRITE.
    Fast,
    /// Everything else.
    Ordinary,
}

/// The groups that fill up, and who waits for room in them.
#[derive(Default)]
pub(crate) struct CommitGroups {
    fast: CommitGroup,
    ordinary: CommitGroup,
    /// Whether the last commit was of the fast class alone: then it is the other's turn.
    fast_was_last: bool,
    /// Operations that wait until a full group is on its way.
    waiting: Vec<OperationKey>,
}

/// Data and records of the next commit.
#[derive(Default)]
pub(crate) struct CommitGroup {
    pub(crate) records: Vec<Record>,
    record_bytes: usize,
    pub(crate) writes: Vec<(Address, Bytes)>,
    pub(crate) data_bytes: u64,
    pub(crate) members: Vec<OperationKey>,
}

/// A commit on its way to the device, or to the map.
pub(crate) struct Commit {
    pub(crate) sequence: u64,
    pub(crate) records: Vec<Record>,
    pub(crate) members: Vec<OperationKey>,
    /// Where the journal goes on after it.
    pub(crate) after: Position,
    pub(crate) writes_pending: usize,
    /// The devices that were written to, a bit each, and flushes of them under way.
    pub(crate) devices: u32,
    pub(crate) flushes_pending: usize,
    pub(crate) flushed: bool,
}

impl CommitGroups {
    pub(crate) fn of(&mut self, class: CommitClass) -> &mut CommitGroup {
        match class {
            CommitClass::Fast => &mut self.fast,
            CommitClass::Ordinary => &mut self.ordinary,
        }
    }

    /// An operation goes on when there is room in its group.
    pub(crate) fn wait(&mut self, operation: OperationKey) {
        self.waiting.push(operation);
    }

    /// Whether nothing waits to be committed.
    pub(crate) fn is_empty(&self) -> bool {
        self.fast.members.is_empty() && self.ordinary.members.is_empty()
    }

    /// Operations that may go on, as a full group is on its way.
    pub(crate) fn woken(&mut self) -> impl Iterator<Item = OperationKey> {
        self.waiting.drain(..)
    }

    /// Chooses the next commit: both classes together if they are small, else one of them, by turns.
    pub(crate) fn take_next(&mut self) -> CommitGroup {
        let (fast, ordinary) = (&self.fast, &self.ordinary);
        let is_little = ordinary.data_bytes <= JOINT_BYTES_MAX
            && ordinary.record_bytes + fast.record_bytes <= COMMIT_BYTES_MAX;
        let takes_fast = !fast.members.is_empty()
            && (is_little || ordinary.members.is_empty() || !self.fast_was_last);
        let mut group = if takes_fast {
            std::mem::take(&mut self.fast)
        } else {
            std::mem::take(&mut self.ordinary)
        };
        if takes_fast && is_little {
            group.append(std::mem::take(&mut self.ordinary));
        }
        self.fast_was_last = takes_fast && !is_little;
        group
    }
}

impl CommitGroup {
    /// Whether nothing more may join: a unit of the journal holds what closes a group and what one
    /// operation adds to that.
    pub(crate) fn is_full(&self) -> bool {
        self.record_bytes >= COMMIT_BYTES_MAX || self.data_bytes >= GROUP_DATA_BYTES_MAX
    }

    fn append(&mut self, other: Self) {
        self.records.extend(other.records);
        self.writes.extend(other.writes);
        self.members.extend(other.members);
        self.record_bytes += other.record_bytes;
        self.data_bytes += other.data_bytes;
    }

    /// Adds a write of data.
    pub(crate) fn write(&mut self, record: Record, start: Address, data: Bytes) {
        self.data_bytes += data.len() as u64;
        self.writes.push((start, data));
        self.record(record);
    }

    /// Adds a change of the map.
    pub(crate) fn record(&mut self, record: Record) {
        self.record_bytes += record.length();
        self.records.push(record);
    }

    /// Adds the operation that all its records belong to.
    pub(crate) fn member(&mut self, operation: OperationKey) {
        self.members.push(operation);
    }
}

/// The checksums of the blocks of `data`.
pub(crate) fn checksums(data: &[u8]) -> Vec<u32> {
    data.chunks(BLOCK as usize).map(crc32c).collect()
}

/// Joins writes to adjacent blocks.
pub(crate) fn coalesce(writes: Vec<(Address, Bytes)>) -> Vec<(Address, Rope)> {
    let mut joined: Vec<(Address, Rope)> = Vec::new();
    for (start, data) in writes {
        let blocks = data.len() as u64 / BLOCK;
        if let Some((first, rope)) = joined.last_mut() {
            let so_far = rope.len() as u64 / BLOCK;
            if *first + so_far == start
                && so_far + blocks <= COALESCED_BLOCKS_MAX
                && rope.pieces().len() < COALESCED_PIECES_MAX
            {
                rope.push(data);
                continue;
            }
        }
        joined.push((start, data.into()));
    }
    joined
}
