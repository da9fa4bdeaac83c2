//! Group commit: data and records of several operations become durable with one flush.
//!
//! There are two lanes. COMPARE AND WRITE (VMware: ATS), which hosts use as their heartbeat and
//! give up after seconds, has one of its own: it is not behind the data of others in a group, and a
//! part of the journal is kept for it while others wait for a checkpoint. Operations under way
//! together do not touch the same blocks, so their order in the journal is free.

use block::{BLOCK, DeviceError, Rope};
use bytes::Bytes;

use crate::address::Address;
use crate::bugs::planted;
use crate::checksum::crc32c;
use crate::io::Waiter;
use crate::journal::{JOURNAL_LANE_ROOM, JOURNAL_UNIT_ROOM, Position};
use crate::layout::JOURNAL_START;
use crate::limits::{COMMIT_BYTES_MAX, GROUP_DATA_BYTES_MAX, REAP_QUEUE_MAX};
use crate::operation::OperationKey;
use crate::record::Record;
use crate::status::Health;
use crate::store::Store;

/// Commits under way at once: one is flushed while the next is written.
const IN_FLIGHT_MAX: usize = 2;

/// Blocks that are written with one I/O at most.
const COALESCED_BLOCKS_MAX: u64 = 256;

/// Pieces that are written with one I/O at most.
const COALESCED_PIECES_MAX: usize = 128;

/// Data of the ordinary group, bytes, up to which it goes with the fast lane in one commit.
const JOINT_BYTES_MAX: u64 = 1 << 20;

/// Dirty pages beyond [`Store::dirty_max`] that only the fast lane may use.
const FAST_PAGES: usize = 64;

/// Which commit an operation goes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// COMPARE AND WRITE.
    Fast,
    /// Everything else.
    Ordinary,
}

/// The groups that fill up, and who waits for room in them.
#[derive(Default)]
pub(crate) struct Groups {
    fast: Group,
    ordinary: Group,
    /// Whether the last commit was of the fast lane alone: then it is the other's turn.
    fast_was_last: bool,
    /// Operations that wait until a full group is on its way.
    waiting: Vec<OperationKey>,
}

/// Data and records of the next commit.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) records: Vec<Record>,
    record_bytes: usize,
    writes: Vec<(Address, Bytes)>,
    data_bytes: u64,
    members: Vec<OperationKey>,
}

/// A commit on its way to the device, or to the map.
pub(crate) struct Commit {
    pub(crate) sequence: u64,
    pub(crate) records: Vec<Record>,
    pub(crate) members: Vec<OperationKey>,
    /// Where the journal goes on after it.
    pub(crate) after: Position,
    writes_pending: usize,
    /// The devices that were written to, a bit each, and flushes of them under way.
    devices: u32,
    flushes_pending: usize,
    flushed: bool,
}

impl Groups {
    pub(crate) fn of(&mut self, lane: Lane) -> &mut Group {
        match lane {
            Lane::Fast => &mut self.fast,
            Lane::Ordinary => &mut self.ordinary,
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

    /// Chooses the next commit: both lanes together if they are small, else one of them, by turns.
    fn take_next(&mut self) -> Group {
        let (fast, ordinary) = (&self.fast, &self.ordinary);
        let is_little = ordinary.data_bytes <= JOINT_BYTES_MAX
            && ordinary.record_bytes + fast.record_bytes <= COMMIT_BYTES_MAX;
        let takes_fast = !fast.members.is_empty()
            && (is_little || ordinary.members.is_empty() || !self.fast_was_last);
        let mut group = match takes_fast {
            true => std::mem::take(&mut self.fast),
            false => std::mem::take(&mut self.ordinary),
        };
        if takes_fast && is_little {
            group.append(std::mem::take(&mut self.ordinary));
        }
        self.fast_was_last = takes_fast && !is_little;
        group
    }
}

impl Group {
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

impl Store {
    /// Sends the group on its way, unless enough commits are.
    pub(crate) fn close_group(&mut self) {
        let flushing = self.in_flight.iter().all(|commit| commit.writes_pending == 0);
        if self.groups.is_empty()
            || self.in_flight.len() >= IN_FLIGHT_MAX
            || !flushing
            || self.health != Health::Ready
        {
            return;
        }
        let group = self.groups.take_next();
        self.ready.extend(self.groups.waiting.drain(..));
        let sequence = self.journal.next.sequence;
        let (at, unit) = self.journal.append(&group.records);
        self.pool.statistics.commits += 1;
        self.pool.statistics.journal_bytes += unit.len() as u64;
        self.pool.statistics.data_bytes_written += group.data_bytes;
        let writes = coalesce(group.writes);
        let devices = writes.iter().fold(1, |all, (start, _)| all | 1 << start.device());
        self.in_flight.push_back(Commit {
            sequence,
            records: group.records,
            members: group.members,
            after: self.journal.next,
            writes_pending: writes.len() + 1,
            devices,
            flushes_pending: 0,
            flushed: false,
        });
        for (start, data) in writes {
            self.pool.io.write(Waiter::Commit { sequence }, start, data);
        }
        let at = (JOURNAL_START + at).on(0);
        self.pool.io.write(Waiter::Commit { sequence }, at, unit.freeze().into());
    }

    /// Whether another operation's records fit in the journal before the next checkpoint.
    pub(crate) fn journal_has_room(&self, lane: Lane) -> bool {
        self.journal.has_room(match lane {
            Lane::Fast => JOURNAL_UNIT_ROOM,
            Lane::Ordinary => JOURNAL_UNIT_ROOM + JOURNAL_LANE_ROOM,
        })
    }

    /// Whether nothing of a lane may join a group until a checkpoint has made room.
    pub(crate) fn must_wait_for_checkpoint(&self, lane: Lane) -> bool {
        let pages = self.pool.map.dirty.len();
        let (pages_max, drops_many) = match lane {
            Lane::Fast => (self.pool.dirty_max() + FAST_PAGES, false),
            Lane::Ordinary => (self.pool.dirty_max(), self.pool.map.reap.len() >= REAP_QUEUE_MAX),
        };
        !self.journal_has_room(lane)
            || pages >= pages_max
            || drops_many
            || self.pool.space.has_too_many_deltas()
            || self.pool.space.free() < 2 * pages as u64 + 64
    }

    pub(crate) fn commit_written(&mut self, sequence: u64, result: Result<(), DeviceError>) {
        if let Err(error) = result {
            return self.fail_device("a write failed", &error);
        }
        let Some(commit) = self.in_flight.iter_mut().find(|commit| commit.sequence == sequence)
        else {
            return;
        };
        commit.writes_pending -= 1;
        if commit.writes_pending > 0 {
            return;
        }
        if planted!(self.pool.bugs, AcknowledgeBeforeFlush) {
            commit.flushes_pending = 1;
            return self.commit_flushed(sequence, Ok(()));
        }
        let first_only = planted!(self.pool.bugs, FlushFirstDeviceOnly);
        let devices = if first_only { 1 } else { commit.devices };
        commit.flushes_pending = devices.count_ones() as usize;
        for device in (0..32).filter(|device| devices & 1 << device != 0) {
            self.pool.io.flush(Waiter::CommitFlush { sequence }, device);
        }
    }

    pub(crate) fn commit_flushed(&mut self, sequence: u64, result: Result<(), DeviceError>) {
        if let Err(error) = result {
            return self.fail_device("a flush failed", &error);
        }
        if let Some(commit) = self.in_flight.iter_mut().find(|commit| commit.sequence == sequence) {
            commit.flushes_pending -= 1;
            commit.flushed = commit.flushes_pending == 0;
        }
        while let Some(commit) = self.in_flight.pop_front_if(|commit| commit.flushed) {
            self.journal.durable = commit.sequence;
            self.durable.push_back(commit);
        }
    }
}

/// Joins writes to adjacent blocks.
fn coalesce(writes: Vec<(Address, Bytes)>) -> Vec<(Address, Rope)> {
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
