//! Checkpoints: writes the changed pages of the map and of the space maps to free places, then
//! switches over with a superblock. Nothing that the durable superblock reaches is written.
//!
//! The cut, at which everything is decided, is one step; writing goes on while new commits are
//! made.

use std::collections::VecDeque;

use block::{BLOCK, DeviceError, Rope};
use hashbrown::HashMap;

use crate::address::Address;
use crate::bugs::planted;
use crate::entry::Kind;
use crate::io::Waiter;
use crate::journal::Position;
use crate::layout::{SUPERBLOCK_COPIES, SUPERBLOCKS};
use crate::limits::CHECKPOINT_WRITES_MAX;
use crate::map::Missing;
use crate::operation::OperationKey;
use crate::space::{Preparation, SpaceWrites};
use crate::status::Health;
use crate::store::{Change, Outcome, Store};
use crate::superblock::{Device, Superblock};
use crate::table::TableRoot;

/// Blocks that are written with one I/O at most.
const COALESCED_BLOCKS_MAX: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Pages,
    PagesFlush,
    Superblock,
    SuperblockFlush,
}

/// A checkpoint that is being written.
pub(crate) struct Checkpoint {
    phase: Phase,
    writes: VecDeque<(Address, Rope)>,
    outstanding: usize,
    /// Content of the next superblock, except for the space maps that are not written yet.
    superblock: Superblock,
    /// The pages above the groups' space maps are among the writes.
    upper_emitted: bool,
}

impl Store {
    /// Begins a checkpoint if one is wanted or needed, and possible now.
    pub(crate) fn start_checkpoint_if_due(&mut self) {
        let due = self.checkpoint_wanted
            || self.journal.is_half_full()
            || self.pool.map.dirty.len() >= self.pool.dirty_max() / 2
            || self.pool.space.has_too_many_deltas()
            || self.pool.space.quarantined() * 4 > self.pool.space.free().max(1024);
        // A cut lies between two commits: one that is applied in part, because a page is being
        // read or the turn ended, would be replayed as a whole.
        let between_commits =
            self.applying.is_between_commits() || planted!(self.pool.bugs, CutInsideCommit);
        if due
            && !self.is_nothing_to_cut()
            && between_commits
            && self.health == Health::Ready
            && self.checkpoint.is_none()
            && self.repairs == 0
            && self.is_prepared_for_checkpoint()
        {
            self.start_checkpoint();
        }
        if planted!(self.pool.bugs, FreedReusableAtOnce) {
            #[cfg(feature = "planted-bugs")]
            self.pool.space.release_early();
        }
    }

    /// Whether a checkpoint would be the last one again, while a commit under way will change that:
    /// an operation that waits for space then waits for the device to finish that commit, however
    /// long it takes, and not for any number of empty checkpoints.
    fn is_nothing_to_cut(&self) -> bool {
        let is_commit_under_way = !self.in_flight.is_empty() || !self.durable.is_empty();
        is_commit_under_way
            && self.journal.oldest() == Some(self.applied.sequence)
            && self.pool.map.dirty.is_empty()
            && self.pool.map.reap.is_empty()
            && self.pool.space.quarantined() == 0
            && self.pool.space.groups_with_deltas() == 0
            && self.checkpoint_waiters.is_empty()
    }

    /// Whether all pages that the cut will place have room; if not, it is being made.
    fn is_prepared_for_checkpoint(&mut self) -> bool {
        let preparation = self.preparation();
        self.starved = preparation == Preparation::NoRoom;
        match preparation {
            Preparation::Ready => return true,
            Preparation::Load(group) => self.load_group(group, None, true),
            Preparation::NoRoom => self.refuse_stalled(),
        }
        false
    }

    /// Makes room for the pages that a cut will place now.
    pub(crate) fn preparation(&mut self) -> Preparation {
        let table = self.table.pages_max(self.pool.volumes.len(), self.pool.map.dead_count());
        let wanted = 2 * self.pool.map.dirty.len() as u64 + table;
        self.pool.space.prepare_pages(wanted)
    }

    /// No checkpoint will make room for those who wait for one.
    fn refuse_stalled(&mut self) {
        let error = self.pool.budget.refusal();
        for operation in std::mem::take(&mut self.stalled) {
            self.finish(operation, Err(error.into()));
        }
    }

    /// The cut.
    pub(crate) fn start_checkpoint(&mut self) {
        self.checkpoint_wanted = false;
        self.last_checkpoint = self.pool.now;
        self.reap_dirty();
        let mut writes = Vec::new();
        self.settle_map(&mut writes);
        let dead = match planted!(self.pool.bugs, ReaperForgets) {
            true => Vec::new(),
            false => self.pool.map.dead(),
        };
        let table =
            self.table.emit(&mut self.pool.space, self.pool.volumes.by_id(), &dead, &mut writes);
        if planted!(self.pool.bugs, CopyNotWritten) {
            writes.dedup_by(|page, copy| page.1[..] == copy.1[..]);
        }
        let in_place = planted!(self.pool.bugs, SpaceMapInPlace);
        writes.extend(self.pool.space.emit_loaded(in_place));
        self.pool.space.cut();
        let head = match planted!(self.pool.bugs, CutForgetsUnapplied) {
            true => self.journal.next,
            false => self.applied,
        };
        self.checkpoint = Some(Checkpoint {
            phase: Phase::Pages,
            writes: coalesce(writes),
            outstanding: 0,
            superblock: self.superblock(head, table),
            upper_emitted: false,
        });
        for group in self.pool.space.owing() {
            self.load_group(group, None, false);
        }
        self.continue_checkpoint();
    }

    /// The space maps of a group are in memory; what the checkpoint owes of them can be written.
    pub(crate) fn checkpoint_took_group(&mut self, writes: SpaceWrites) {
        let Some(checkpoint) = &mut self.checkpoint else { return };
        checkpoint.writes.extend(coalesce(writes));
        if checkpoint.phase == Phase::Pages {
            self.continue_pages();
        }
    }

    fn superblock(&self, head: Position, table: TableRoot) -> Superblock {
        let devices = self.pool.members.device_uuids.iter().zip(self.pool.space.layouts());
        Superblock {
            pool_uuid: self.pool.members.pool_uuid,
            epoch: self.journal.epoch,
            generation: self.generation + 1,
            devices: devices.map(|(&uuid, layout)| Device { uuid, layout }).collect(),
            journal_position: head.block,
            journal_sequence: head.sequence,
            journal_crc: head.previous_crc,
            table,
            pages: self.pool.space.pages,
            space: Vec::new(),
        }
    }

    /// Dirty pages that nobody refers to need not be written.
    fn reap_dirty(&mut self) {
        let mut kept: Vec<Missing> = Vec::new();
        while let Some(dead) = self.pool.map.reap.pop() {
            if dead.entry.kind() == Kind::Dirty {
                self.pool
                    .map
                    .reap_one(&mut self.pool.space, dead)
                    .expect("dirty pages are in memory");
            } else {
                kept.push(dead);
            }
        }
        self.pool.map.reap = kept;
        self.pool.settle_reclaimed();
    }

    fn settle_map(&mut self, writes: &mut Vec<(Address, block::Buffer)>) {
        let mut settled = HashMap::new();
        for volume in self.pool.volumes.iter_mut() {
            let (root, level) = (volume.root.entry, volume.root.levels - 1);
            volume.root.entry =
                self.pool.map.settle(&mut self.pool.space, root, level, &mut settled, writes);
        }
        assert!(self.pool.map.dirty.is_empty(), "every dirty page belongs to a volume");
    }

    fn continue_checkpoint(&mut self) {
        let Some(checkpoint) = &self.checkpoint else { return };
        match checkpoint.phase {
            Phase::Pages => self.continue_pages(),
            Phase::PagesFlush => self.write_superblock(),
            Phase::Superblock => self.flush_devices(Phase::SuperblockFlush, 1),
            Phase::SuperblockFlush => self.checkpoint_durable(),
        }
    }

    /// Writes pages, until all are written.
    fn continue_pages(&mut self) {
        self.emit_upper_if_possible();
        let Some(checkpoint) = &mut self.checkpoint else { return };
        let mut wishes = Vec::new();
        while checkpoint.outstanding < CHECKPOINT_WRITES_MAX
            && let Some(write) = checkpoint.writes.pop_front()
        {
            checkpoint.outstanding += 1;
            wishes.push(write);
        }
        let written = checkpoint.outstanding == 0 && checkpoint.upper_emitted;
        for (block, data) in wishes {
            self.pool.io.write(Waiter::Checkpoint, block, data);
        }
        if written {
            match planted!(self.pool.bugs, SwitchBeforeFlush) {
                true => self.write_superblock(),
                false => self.flush_devices(Phase::PagesFlush, self.pool.space.devices()),
            }
        }
    }

    /// Once no group is owing, the pages above the groups say what is now in the groups.
    fn emit_upper_if_possible(&mut self) {
        let Some(checkpoint) = &mut self.checkpoint else { return };
        if checkpoint.upper_emitted || self.pool.space.next_owing().is_some() {
            return;
        }
        let devices = checkpoint.superblock.devices.iter();
        let layouts: Vec<_> = devices.map(|device| device.layout).collect();
        let (root, writes) = self.pool.space.emit_upper(&layouts);
        checkpoint.superblock.space = root;
        checkpoint.writes.extend(coalesce(writes));
        checkpoint.upper_emitted = true;
    }

    fn flush_devices(&mut self, phase: Phase, devices: usize) {
        let Some(checkpoint) = &mut self.checkpoint else { return };
        checkpoint.phase = phase;
        checkpoint.outstanding = devices;
        for device in 0..devices {
            self.pool.io.flush(Waiter::Checkpoint, device);
        }
    }

    /// Writes the superblock and its copy.
    fn write_superblock(&mut self) {
        let one_slot = planted!(self.pool.bugs, SingleSuperblock);
        let Some(checkpoint) = &mut self.checkpoint else { return };
        checkpoint.phase = Phase::Superblock;
        checkpoint.outstanding = 2;
        let slot = if one_slot { 0 } else { checkpoint.superblock.generation as usize % 2 };
        let bytes = checkpoint.superblock.emit().freeze();
        for block in [SUPERBLOCKS[slot], SUPERBLOCK_COPIES[slot]] {
            self.pool.io.write(Waiter::Checkpoint, block.on(0), bytes.clone().into());
        }
    }

    pub(crate) fn checkpoint_io_done(&mut self, result: Result<(), DeviceError>) {
        if let Err(error) = result {
            return self.checkpoint_failed(&error);
        }
        let Some(checkpoint) = &mut self.checkpoint else { return };
        checkpoint.outstanding -= 1;
        if checkpoint.outstanding == 0 || checkpoint.phase == Phase::Pages {
            self.continue_checkpoint();
        }
    }

    fn checkpoint_failed(&mut self, error: &DeviceError) {
        match self.recovery {
            Some(_) => self.recovery_failed(error.clone().into()),
            None => self.fail_device("a checkpoint failed", error),
        }
    }

    fn checkpoint_durable(&mut self) {
        let Some(checkpoint) = self.checkpoint.take() else { return };
        self.generation = checkpoint.superblock.generation;
        self.pool.statistics.checkpoints += 1;
        self.pool.space.checkpoint_durable();
        self.journal.forget_before(checkpoint.superblock.journal_sequence);
        self.pool.map.checkpoint_durable();
        self.ready.extend(self.stalled.drain(..));
        if self.recovery.is_some() {
            return self.recovered();
        }
        let reached = self.generation;
        let waiters = std::mem::take(&mut self.checkpoint_waiters);
        let (done, waiting): (Vec<_>, Vec<_>) =
            waiters.into_iter().partition(|(generation, _)| *generation <= reached);
        self.checkpoint_wanted |= !waiting.is_empty();
        self.checkpoint_waiters = waiting;
        for (_, operation) in done {
            self.checkpoint_reached(operation);
        }
    }

    fn checkpoint_reached(&mut self, key: OperationKey) {
        let Some(operation) = self.operations.get_mut(key) else { return };
        if operation.is_change(&Change::Close) {
            self.health = Health::Closed;
        }
        self.finish(key, Ok(Outcome::Changed));
    }
}

/// Joins writes to adjacent blocks.
fn coalesce(mut writes: Vec<(Address, block::Buffer)>) -> VecDeque<(Address, Rope)> {
    writes.sort_unstable_by_key(|(block, _)| *block);
    let mut joined: VecDeque<(Address, Rope)> = VecDeque::new();
    for (block, bytes) in writes {
        if let Some((first, rope)) = joined.back_mut() {
            let blocks = rope.len() as u64 / BLOCK;
            if *first + blocks == block && blocks < COALESCED_BLOCKS_MAX {
                rope.push(bytes.freeze());
                continue;
            }
        }
        joined.push_back((block, bytes.freeze().into()));
    }
    joined
}
