//! Checkpoints: the changed pages of the map and of the space maps are written beside the old
//! ones, then a superblock switches over. Nothing that the durable superblock reaches is written.
//!
//! The cut, at which everything is decided, is one step; writing goes on while new commits are
//! made.

use std::collections::VecDeque;

use block::{BLOCK, DeviceError, Rope};
use hashbrown::HashMap;

use crate::bugs::planted;
use crate::entry::Kind;
use crate::io::Waiter;
use crate::journal::Position;
use crate::layout::SUPERBLOCKS;
use crate::limits::CHECKPOINT_WRITES_MAX;
use crate::map::Missing;
use crate::status::Health;
use crate::store::{Change, Outcome, Store};
use crate::superblock::Superblock;
use crate::table;

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
    writes: VecDeque<(u64, Rope)>,
    outstanding: usize,
    superblock: Superblock,
}

impl Store {
    /// Begins a checkpoint if one is wanted or needed, and possible now.
    pub(crate) fn start_checkpoint_if_due(&mut self) {
        let due = self.checkpoint_wanted
            || self.journal.is_half_full()
            || self.map.dirty.len() >= self.dirty_max() / 2
            || self.space.quarantined() * 4 > self.space.free().max(1024);
        // A cut lies between two commits: one that is applied in part, because a page is being
        // read, would be replayed as a whole.
        let between_commits = self.records_applied == 0 || planted!(self.bugs, CutInsideCommit);
        if due && between_commits && self.health == Health::Ready && self.checkpoint.is_none() {
            self.start_checkpoint();
        }
        if planted!(self.bugs, FreedReusableAtOnce) {
            #[cfg(feature = "planted-bugs")]
            self.space.release_early();
        }
    }

    /// The cut.
    pub(crate) fn start_checkpoint(&mut self) {
        self.checkpoint_wanted = false;
        self.last_checkpoint = self.now;
        self.reap_dirty();
        for block in std::mem::take(&mut self.table_blocks) {
            self.space.drop_reference(block);
        }
        let mut writes = Vec::new();
        self.settle_map(&mut writes);
        let table = table::emit(&mut self.space, self.volumes.values(), &self.map.reap);
        writes.extend(table.writes);
        self.table_blocks = table.blocks;
        let in_place = planted!(self.bugs, SpaceMapInPlace);
        let (space, space_writes) = self.space.emit_changed(in_place);
        writes.extend(space_writes);
        self.space.cut();
        let head = match planted!(self.bugs, CutForgetsUnapplied) {
            true => self.journal.next,
            false => self.applied,
        };
        self.checkpoint = Some(Checkpoint {
            phase: Phase::Pages,
            writes: coalesce(writes),
            outstanding: 0,
            superblock: self.superblock(head, table.root, table.pages, space),
        });
        self.continue_checkpoint();
    }

    fn superblock(
        &self,
        head: Position,
        table: crate::entry::Entry,
        table_pages: u32,
        space: crate::space::SpaceRoot,
    ) -> Superblock {
        Superblock {
            pool_uuid: self.pool_uuid,
            epoch: self.journal.epoch,
            generation: self.generation + 1,
            layout: self.space.layout,
            journal_position: head.block,
            journal_sequence: head.sequence,
            journal_crc: head.previous_crc,
            table,
            table_pages,
            volumes: self.volumes.len() as u32,
            reap_entries: self.map.reap.len() as u32,
            space,
        }
    }

    /// Dirty pages that nobody refers to need not be written.
    fn reap_dirty(&mut self) {
        let mut kept: Vec<Missing> = Vec::new();
        while let Some(dead) = self.map.reap.pop() {
            if dead.entry.kind() == Kind::Dirty {
                self.map.reap_one(&mut self.space, dead).expect("dirty pages are in memory");
            } else {
                kept.push(dead);
            }
        }
        self.map.reap = kept;
    }

    fn settle_map(&mut self, writes: &mut Vec<(u64, block::Buffer)>) {
        let mut settled = HashMap::new();
        for volume in self.volumes.values_mut() {
            let root = volume.root.entry;
            volume.root.entry = self.map.settle(&mut self.space, root, &mut settled, writes);
        }
        assert!(self.map.dirty.is_empty(), "every dirty page belongs to a volume");
    }

    fn continue_checkpoint(&mut self) {
        let Some(checkpoint) = &mut self.checkpoint else { return };
        let mut wishes = Vec::new();
        match checkpoint.phase {
            Phase::Pages => {
                while checkpoint.outstanding < CHECKPOINT_WRITES_MAX
                    && let Some(write) = checkpoint.writes.pop_front()
                {
                    checkpoint.outstanding += 1;
                    wishes.push(write);
                }
                if checkpoint.outstanding == 0 {
                    checkpoint.phase = Phase::PagesFlush;
                    if planted!(self.bugs, SwitchBeforeFlush) {
                        return self.write_superblock();
                    }
                    checkpoint.outstanding = 1;
                    return self.submit_flush(Waiter::Checkpoint);
                }
            }
            Phase::PagesFlush => return self.write_superblock(),
            Phase::Superblock => {
                checkpoint.phase = Phase::SuperblockFlush;
                checkpoint.outstanding = 1;
                return self.submit_flush(Waiter::Checkpoint);
            }
            Phase::SuperblockFlush => return self.checkpoint_durable(),
        }
        for (block, data) in wishes {
            self.submit_write(Waiter::Checkpoint, block, data);
        }
    }

    fn write_superblock(&mut self) {
        let one_slot = planted!(self.bugs, SingleSuperblock);
        let Some(checkpoint) = &mut self.checkpoint else { return };
        checkpoint.phase = Phase::Superblock;
        checkpoint.outstanding = 1;
        let slot = if one_slot { 0 } else { checkpoint.superblock.generation % 2 };
        let bytes = checkpoint.superblock.emit().freeze();
        self.submit_write(Waiter::Checkpoint, SUPERBLOCKS[slot as usize], bytes.into());
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
        self.statistics.checkpoints += 1;
        self.space.checkpoint_durable();
        self.journal.forget_before(checkpoint.superblock.journal_sequence);
        self.map.evict();
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

    fn checkpoint_reached(&mut self, key: usize) {
        let Some(operation) = self.operations.get_mut(key) else { return };
        if operation.is_change(&Change::Close) {
            self.health = Health::Closed;
        }
        self.finish(key, Ok(Outcome::Changed));
    }
}

/// Joins writes to adjacent blocks.
fn coalesce(mut writes: Vec<(u64, block::Buffer)>) -> VecDeque<(u64, Rope)> {
    writes.sort_unstable_by_key(|(block, _)| *block);
    let mut joined: VecDeque<(u64, Rope)> = VecDeque::new();
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
