//! Write-ahead log: commits groups into the journal, each with one flush, and hands durable commits
//! to the applier in the order of the journal.

use std::collections::VecDeque;

use crate::address::DeviceNumber;
use crate::applier::Applier;
use crate::commit::{Commit, CommitClass, CommitGroup, CommitGroups, coalesce};
use crate::io::Waiter;
use crate::journal::{JOURNAL_CLASS_ROOM, JOURNAL_UNIT_ROOM, Journal, JournalStart};
use crate::layout::ring_address;
use crate::limits::{DEVICES_MAX, REAP_QUEUE_MAX};
use crate::operation_key::OperationKey;
use crate::pool::Pool;

/// Commits under way at once: one is flushed while the next is written.
const IN_FLIGHT_MAX: usize = 2;

/// Dirty pages beyond [`Pool::dirty_max`] that only the fast class may use.
const FAST_PAGES: usize = 64;

/// Commits of a pool, from the groups that fill up to the map.
pub(crate) struct Log {
    pub(crate) journal: Journal,
    pub(crate) applier: Applier,
    groups: CommitGroups,
    in_flight: VecDeque<Commit>,
}

impl Log {
    /// A log in a ring of so many blocks.
    pub(crate) fn new(ring_blocks: u64, start: JournalStart) -> Self {
        Self {
            journal: Journal::new(ring_blocks, start),
            applier: Applier::new(start.next),
            groups: CommitGroups::default(),
            in_flight: VecDeque::new(),
        }
    }

    /// The group of a class that fills up.
    pub(crate) fn commit_group(&mut self, class: CommitClass) -> &mut CommitGroup {
        self.groups.of(class)
    }

    /// An operation goes on when there is room in its group.
    pub(crate) fn wait(&mut self, operation: OperationKey) {
        self.groups.wait(operation);
    }

    /// Whether nothing waits to be committed.
    pub(crate) fn has_empty_groups(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether a commit is on its way to the devices, or to the map.
    pub(crate) fn is_committing(&self) -> bool {
        !self.in_flight.is_empty() || !self.applier.is_empty()
    }

    /// Gives up every commit that is not applied.
    pub(crate) fn discard(&mut self) {
        self.in_flight.clear();
        self.applier.clear();
        self.groups = CommitGroups::default();
    }

    /// Sends the next group on its way, unless enough commits are. Operations that waited for room
    /// in it may go on.
    pub(crate) fn close_commit_group(
        &mut self,
        pool: &mut Pool,
        ready: &mut VecDeque<OperationKey>,
    ) {
        if self.groups.is_empty() || self.in_flight.len() >= IN_FLIGHT_MAX {
            return;
        }
        if self.in_flight.iter().any(|commit| commit.writes_pending > 0) {
            return;
        }
        let group = self.groups.take_next();
        ready.extend(self.groups.woken());
        let sequence = self.journal.next.sequence;
        let (at, unit) = self.journal.append(&group.records);
        pool.statistics.commits += 1;
        pool.statistics.journal_bytes += unit.len() as u64;
        pool.statistics.data_bytes_written += group.data_bytes;
        let writes = coalesce(group.writes);
        let devices = writes.iter().fold(1, |all, (start, _)| all | 1 << start.device().index());
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
            pool.io.write(Waiter::Commit { sequence }, start, data);
        }
        pool.io.write(Waiter::Commit { sequence }, ring_address(at), unit.freeze().into());
    }

    /// Whether another operation's records fit in the journal before the next checkpoint.
    pub(crate) fn has_room(&self, class: CommitClass) -> bool {
        self.journal.has_room(match class {
            CommitClass::Fast => JOURNAL_UNIT_ROOM,
            CommitClass::Ordinary => JOURNAL_UNIT_ROOM + JOURNAL_CLASS_ROOM,
        })
    }

    /// Whether nothing of a class may join a group until a checkpoint has made room.
    pub(crate) fn must_wait_for_checkpoint(&self, pool: &Pool, class: CommitClass) -> bool {
        let pages = pool.map.dirty.len();
        let (pages_max, drops_many) = match class {
            CommitClass::Fast => (pool.dirty_max() + FAST_PAGES, false),
            CommitClass::Ordinary => (pool.dirty_max(), pool.map.reap.len() >= REAP_QUEUE_MAX),
        };
        !self.has_room(class)
            || pages >= pages_max
            || drops_many
            || pool.space.has_too_many_deltas()
            || pool.space.free() < 2 * pages as u64 + 64
    }

    /// A write of a commit has ended; after the last one the devices are flushed.
    pub(crate) fn written(&mut self, pool: &mut Pool, sequence: u64) {
        let Some(commit) = self.in_flight.iter_mut().find(|commit| commit.sequence == sequence)
        else {
            return;
        };
        commit.writes_pending -= 1;
        if commit.writes_pending > 0 {
            return;
        }
        let devices = commit.devices;
        commit.flushes_pending = devices.count_ones() as usize;
        let all = (0..DEVICES_MAX).filter(|device| devices & 1 << device != 0);
        for device in all.map(DeviceNumber::at) {
            pool.io.flush(Waiter::CommitFlush { sequence }, device);
        }
    }

    /// A flush of a commit has ended. Commits become durable in order.
    pub(crate) fn flushed(&mut self, sequence: u64) {
        if let Some(commit) = self.in_flight.iter_mut().find(|commit| commit.sequence == sequence) {
            commit.flushes_pending -= 1;
            commit.flushed = commit.flushes_pending == 0;
        }
        while let Some(commit) = self.in_flight.pop_front_if(|commit| commit.flushed) {
            self.journal.durable = commit.sequence;
            self.applier.push(commit);
        }
    }
}
