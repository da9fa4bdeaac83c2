//! Checkpoints: writes the changed pages of the map and of the space maps to free places, then
//! switches over with a superblock. Nothing that the durable superblock reaches is written.
//!
//! The cut, at which everything is decided, is one step; writing goes on while new commits are
//! made.

use std::collections::VecDeque;
use std::time::Duration;

use block::{BLOCK, DeviceError, Rope};
use hashbrown::HashMap;

use crate::address::{Address, DeviceNumber};
use crate::checksum::crc32c;
use crate::entry::{Entry, Kind};
use crate::io::Waiter;
use crate::journal::JournalStart;
use crate::layout::{SUPERBLOCK_COPIES, SUPERBLOCKS};
use crate::limits::{CHECKPOINT_WRITES_MAX, FREED_DELAY, FREED_SHARE};
use crate::log::Log;
use crate::map::Missing;
use crate::operation_key::OperationKey;
use crate::pool::Pool;
use crate::space::{Preparation, SpaceWrites};
use crate::superblock::{Device, Superblock};
use crate::table::{Table, TableRoot};

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
struct Checkpoint {
    phase: Phase,
    writes: VecDeque<(Address, Rope)>,
    outstanding: usize,
    /// Content of the next superblock, except for the space maps that are not written yet.
    superblock: Superblock,
    /// Its checksum, once it is written.
    superblock_crc: Option<u32>,
    /// The pages above the groups' space maps are among the writes.
    upper_emitted: bool,
}

/// When checkpoints are written, the one under way, and who waits for which.
#[derive(Default)]
pub(crate) struct Checkpointer {
    current: Option<Checkpoint>,
    wanted: bool,
    /// There is no room for the pages of a checkpoint.
    starved: bool,
    /// Operations that wait for the checkpoint of that generation.
    waiters: Vec<(u64, OperationKey)>,
    /// Newest durable checkpoint.
    generation: u64,
    /// Checksums of the superblocks in both slots, as far as they were written since the pool was opened.
    superblocks: [Option<u32>; 2],
    /// The volume table of the newest checkpoint.
    table: Table,
    /// When the last cut was.
    last: Duration,
    /// Since when there was no commit, as far as it was looked at, and how many there were.
    quiet_since: Duration,
    commits_seen: u64,
}

/// What became of a checkpoint with an I/O that ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    UnderWay,
    /// All of it is on stable storage.
    Durable,
    Failed(DeviceError),
}

impl Checkpointer {
    /// Goes on from a checkpoint that was read.
    pub(crate) fn adopt_generation(&mut self, generation: u64) {
        self.generation = generation;
    }

    /// Goes on from a volume table that was read.
    pub(crate) fn adopt_table(&mut self, table: Table) {
        self.table = table;
    }

    /// The number of the newest durable checkpoint.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Pages of the volume table of the newest checkpoint.
    pub(crate) fn table_pages(&self) -> impl Iterator<Item = Entry> {
        self.table.pages()
    }

    /// Superblocks, and their copies, that were written since the pool was opened.
    pub(crate) fn superblocks(&self) -> impl Iterator<Item = (Address, u32)> {
        let places = SUPERBLOCKS.into_iter().zip(SUPERBLOCK_COPIES);
        let written = self.superblocks.into_iter().zip(places);
        written.flat_map(|(crc, (slot, copy))| {
            let crcs = crc.into_iter();
            crcs.flat_map(move |crc| [slot, copy].map(|at| (at.on(DeviceNumber::FIRST), crc)))
        })
    }

    /// Whether one is being written.
    pub(crate) fn is_writing(&self) -> bool {
        self.current.is_some()
    }

    /// Whether there is no room for the pages of one.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved
    }

    /// One is to be written as soon as it is possible.
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    /// An operation waits for a checkpoint whose cut comes after this.
    pub(crate) fn wait(&mut self, operation: OperationKey) {
        // One that is under way may have made its cut before this was asked for.
        let under_way = u64::from(self.current.is_some());
        self.waiters.push((self.generation + under_way + 1, operation));
        self.wanted = true;
    }

    /// Gives up the one under way.
    pub(crate) fn abort(&mut self) {
        self.current = None;
    }

    /// Nobody waits any more.
    pub(crate) fn forget_waiters(&mut self) {
        self.waiters.clear();
    }

    /// Whether time says that changes should reach a checkpoint.
    pub(crate) fn is_time(&mut self, pool: &Pool) -> bool {
        let since = pool.now.saturating_sub(self.last);
        since >= pool.options.checkpoint_interval
            || since >= FREED_DELAY && self.freed_space_is_due(pool)
    }

    /// Whether what was freed is not to wait for the next regular checkpoint.
    fn freed_space_is_due(&mut self, pool: &Pool) -> bool {
        if self.commits_seen != pool.statistics.commits {
            self.commits_seen = pool.statistics.commits;
            self.quiet_since = pool.now;
        }
        let freed = pool.space.quarantined();
        let is_quiet = pool.now.saturating_sub(self.quiet_since) >= FREED_DELAY;
        let is_much = freed * FREED_SHARE > pool.space.total();
        freed > 0 && pool.map.reap.is_empty() && (is_quiet || is_much)
    }

    /// Whether a checkpoint is wanted or needed, and its cut possible now.
    pub(crate) fn is_due(&self, pool: &Pool, log: &Log) -> bool {
        let due = self.wanted
            || log.journal.is_half_full()
            || pool.map.dirty.len() >= pool.dirty_max() / 2
            || pool.space.has_too_many_deltas()
            || pool.space.quarantined() * 4 > pool.space.free().max(1024);
        // A cut lies between two commits: one that is applied in part, because a page is being
        // read or the turn ended, would be replayed as a whole.
        due && !self.is_nothing_to_cut(pool, log)
            && log.applier.is_between_commits()
            && self.current.is_none()
    }

    /// Whether a checkpoint would be the last one again, while a commit under way will change that:
    /// an operation that waits for space then waits for the device to finish that commit, however
    /// long it takes, and not for any number of empty checkpoints.
    fn is_nothing_to_cut(&self, pool: &Pool, log: &Log) -> bool {
        log.is_committing()
            && log.journal.oldest() == Some(log.applier.applied().sequence)
            && pool.map.dirty.is_empty()
            && pool.map.reap.is_empty()
            && pool.space.quarantined() == 0
            && pool.space.groups_with_deltas() == 0
            && self.waiters.is_empty()
    }

    /// Makes room for the pages that a cut will place now.
    pub(crate) fn prepare(&mut self, pool: &mut Pool) -> Preparation {
        let table = self.table.pages_max(pool.volumes.len(), pool.map.dead_count());
        let wanted = 2 * pool.map.dirty.len() as u64 + table;
        let preparation = pool.space.prepare_pages(wanted);
        self.starved = preparation == Preparation::NoRoom;
        preparation
    }

    /// The cut. The groups that are still owing are to be loaded then, before
    /// [`Checkpointer::proceed`].
    pub(crate) fn cut(&mut self, pool: &mut Pool, log: &Log) {
        self.wanted = false;
        self.last = pool.now;
        reap_dirty(pool);
        let mut writes = Vec::new();
        settle_map(pool, &mut writes);
        let dead = pool.map.dead();
        let table = self.table.emit(&mut pool.space, pool.volumes.by_id(), &dead, &mut writes);
        writes.extend(pool.space.emit_loaded());
        pool.space.cut();
        let journal = JournalStart { epoch: log.journal.epoch, next: log.applier.applied() };
        self.current = Some(Checkpoint {
            phase: Phase::Pages,
            writes: coalesce(writes),
            outstanding: 0,
            superblock: superblock(pool, journal, self.generation + 1, table),
            superblock_crc: None,
            upper_emitted: false,
        });
    }

    /// The space maps of a group are in memory; what the checkpoint owes of them can be written.
    pub(crate) fn took_group(&mut self, pool: &mut Pool, writes: SpaceWrites) {
        let Some(checkpoint) = &mut self.current else { return };
        checkpoint.writes.extend(coalesce(writes));
        if checkpoint.phase == Phase::Pages {
            checkpoint.continue_pages(pool);
        }
    }

    /// Writes what can be written now.
    pub(crate) fn proceed(&mut self, pool: &mut Pool) -> Progress {
        let Some(checkpoint) = &mut self.current else { return Progress::UnderWay };
        match checkpoint.phase {
            Phase::Pages => checkpoint.continue_pages(pool),
            Phase::PagesFlush => checkpoint.write_superblock(pool),
            Phase::Superblock => checkpoint.flush_devices(
                pool,
                Phase::SuperblockFlush,
                [DeviceNumber::FIRST].into_iter(),
            ),
            Phase::SuperblockFlush => return Progress::Durable,
        }
        Progress::UnderWay
    }

    pub(crate) fn io_done(&mut self, pool: &mut Pool, result: Result<(), DeviceError>) -> Progress {
        if let Err(error) = result {
            return Progress::Failed(error);
        }
        let Some(checkpoint) = &mut self.current else { return Progress::UnderWay };
        checkpoint.outstanding -= 1;
        if checkpoint.outstanding == 0 || checkpoint.phase == Phase::Pages {
            return self.proceed(pool);
        }
        Progress::UnderWay
    }

    /// The checkpoint under way is durable: what was freed before it is free, and the journal
    /// before it is not needed.
    pub(crate) fn end(&mut self, pool: &mut Pool, log: &mut Log) {
        let Some(checkpoint) = self.current.take() else { return };
        self.generation = checkpoint.superblock.generation;
        self.superblocks[self.generation as usize % 2] = checkpoint.superblock_crc;
        pool.statistics.checkpoints += 1;
        pool.space.checkpoint_durable();
        log.journal.forget_before(checkpoint.superblock.journal_sequence);
        pool.map.checkpoint_durable();
    }

    /// Takes the operations whose checkpoint is durable.
    pub(crate) fn reached(&mut self) -> Vec<OperationKey> {
        let waiters = std::mem::take(&mut self.waiters);
        let (done, waiting): (Vec<_>, Vec<_>) =
            waiters.into_iter().partition(|(generation, _)| *generation <= self.generation);
        self.wanted |= !waiting.is_empty();
        self.waiters = waiting;
        done.into_iter().map(|(_, operation)| operation).collect()
    }
}

impl Checkpoint {
    /// Writes pages, until all are written.
    fn continue_pages(&mut self, pool: &mut Pool) {
        self.emit_upper_if_possible(pool);
        while self.outstanding < CHECKPOINT_WRITES_MAX
            && let Some((block, data)) = self.writes.pop_front()
        {
            self.outstanding += 1;
            pool.io.write(Waiter::Checkpoint, block, data);
        }
        if self.outstanding == 0 && self.upper_emitted {
            let devices = pool.space.devices();
            self.flush_devices(pool, Phase::PagesFlush, devices);
        }
    }

    /// Once no group is owing, the pages above the groups say what is now in the groups.
    fn emit_upper_if_possible(&mut self, pool: &mut Pool) {
        if self.upper_emitted || pool.space.next_owing().is_some() {
            return;
        }
        let layouts: Vec<_> = self.superblock.devices.iter().map(|device| device.layout).collect();
        let (root, writes) = pool.space.emit_upper(&layouts);
        self.superblock.space = root;
        self.writes.extend(coalesce(writes));
        self.upper_emitted = true;
    }

    fn flush_devices(
        &mut self,
        pool: &mut Pool,
        phase: Phase,
        devices: impl ExactSizeIterator<Item = DeviceNumber>,
    ) {
        self.phase = phase;
        self.outstanding = devices.len();
        for device in devices {
            pool.io.flush(Waiter::Checkpoint, device);
        }
    }

    /// Writes the superblock and its copy.
    fn write_superblock(&mut self, pool: &mut Pool) {
        self.phase = Phase::Superblock;
        self.outstanding = 2;
        let slot = self.superblock.generation as usize % 2;
        let bytes = self.superblock.emit().freeze();
        self.superblock_crc = Some(crc32c(&bytes));
        for block in [SUPERBLOCKS[slot], SUPERBLOCK_COPIES[slot]] {
            pool.io.write(Waiter::Checkpoint, block.on(DeviceNumber::FIRST), bytes.clone().into());
        }
    }
}

/// The superblock of a checkpoint, but for the space maps.
fn superblock(pool: &Pool, journal: JournalStart, generation: u64, table: TableRoot) -> Superblock {
    let devices = pool.members.device_uuids.iter().zip(pool.space.layouts());
    Superblock {
        pool_uuid: pool.members.pool_uuid,
        epoch: journal.epoch,
        generation,
        devices: devices.map(|(&uuid, layout)| Device { uuid, layout }).collect(),
        journal_position: journal.next.block,
        journal_sequence: journal.next.sequence,
        journal_crc: journal.next.previous_crc,
        table,
        pages: pool.space.pages,
        space: Vec::new(),
    }
}

/// Dirty pages that nobody refers to need not be written.
fn reap_dirty(pool: &mut Pool) {
    let mut kept: Vec<Missing> = Vec::new();
    while let Some(dead) = pool.map.reap.pop() {
        if dead.entry.kind() == Kind::Dirty {
            pool.map.reap_one(&mut pool.space, dead).expect("dirty pages are in memory");
        } else {
            kept.push(dead);
        }
    }
    pool.map.reap = kept;
    pool.settle_reclaimed();
}

fn settle_map(pool: &mut Pool, writes: &mut Vec<(Address, block::Buffer)>) {
    let mut settled = HashMap::new();
    for volume in pool.volumes.iter_mut() {
        let (root, level) = (volume.root.entry, volume.root.levels - 1);
        volume.root.entry = pool.map.settle(&mut pool.space, root, level, &mut settled, writes);
    }
    assert!(pool.map.dirty.is_empty(), "every dirty page belongs to a volume");
    pool.map.moved.settled(&settled);
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
