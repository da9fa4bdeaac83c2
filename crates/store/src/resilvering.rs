//! Tells resilvers which blocks of a device are in use: what the pool refers to or is about to, labels,
//! superblocks, and the live part of the journal.
//!
//! What is told is true of one moment between two checkpoints. That is enough, because the member that
//! is resilvered takes every write since it joined: what is put to use later reaches it by itself.

use block::BLOCK;

use crate::address::{DeviceNumber, Run};
use crate::engine::Engine;
use crate::layout::{
    DEVICE_START, JOURNAL_START, LABELS, SUPERBLOCK_COPIES, SUPERBLOCKS, ring_address,
};
use crate::limits::RESILVER_ANSWERS_MAX;
use crate::mirror::{Extent, Piece};
use crate::pool::Pool;
use crate::serving::Serving;

impl Serving {
    /// Answers what resilvers ask, as far as the space maps are in memory; others are loaded.
    pub(crate) fn advance_resilvers(&mut self) {
        self.resilver_has_more = false;
        for _ in 0..RESILVER_ANSWERS_MAX {
            self.engine.pool.io.advance_resilvers();
            // While a checkpoint is written it is open which pages of the space maps hold.
            if self.engine.checkpointer.is_writing() {
                return;
            }
            self.engine.estimate_resilvers();
            // The durable checkpoint still refers to space maps of a device that was just removed. Its
            // resilver waits, until the device is gone with the next checkpoint.
            let Pool { io, space, .. } = &mut self.engine.pool;
            let wanted = io.resilver_wants(|device| space.is_there(device));
            let Some((device, extent)) = wanted else { return };
            let run = on(extent, device);
            // A member that joined while the space of a group was being set aside was not asked for all of
            // it (81004388). When that has ended the group says so.
            if self.engine.sets_aside(run) {
                return;
            }
            for group in self.engine.pool.space.groups_touched(run) {
                if !self.engine.pool.space.knows_use(group) {
                    self.load_group(group, None, false);
                }
            }
            let space = &self.engine.pool.space;
            if !space.groups_touched(run).all(|group| space.knows_use(group)) {
                return;
            }
            let pieces = self.engine.pieces_in_use(run);
            self.engine.pool.io.resilver_uses(device, pieces);
        }
        self.resilver_has_more = true;
    }
}

impl Engine {
    /// Whether space is just being set aside for a group that these blocks touch.
    fn sets_aside(&self, run: Run) -> bool {
        let mut groups = self.pool.space.groups_touched(run);
        groups.any(|group| self.preallocation.is_under_way(group) || self.loader.sets_aside(group))
    }

    /// Tells resilvers that have just begun about how much they have to do.
    fn estimate_resilvers(&mut self) {
        let (io, space) = (&mut self.pool.io, &self.pool.space);
        if io.wants_estimates() {
            io.estimate_resilvers(|device, extent| {
                let groups = space.groups_touched(on(extent, device));
                let used: u64 = groups.map(|group| space.in_use_about(group)).sum();
                used.min(extent.blocks) * BLOCK
            });
        }
    }

    /// What a copy of these blocks must have.
    fn pieces_in_use(&self, run: Run) -> Vec<Piece> {
        let (device, of) = (run.start.device(), extent(run));
        let mut pieces: Vec<Piece> = self.pieces_before_groups(device);
        let space = &self.pool.space;
        for group in space.groups_touched(run) {
            pieces.extend(space.to_back(group).map(extent).map(Piece::Reserve));
            pieces.extend(space.in_use(group).into_iter().map(extent).map(Piece::Copy));
        }
        let pieces = pieces.into_iter().map(|piece| match piece {
            // One region that is dirty stands for all of it.
            Piece::Reserve(_) if piece.extent().overlaps(of) => piece,
            Piece::Reserve(_) | Piece::Copy(_) | Piece::Blank(_) => piece.within(of),
        });
        pieces.filter(|piece| !piece.extent().is_empty()).collect()
    }

    /// What lies before the groups: labels, superblocks, the journal. Members have blocks of their own
    /// among them, which are not copied.
    fn pieces_before_groups(&self, device: DeviceNumber) -> Vec<Piece> {
        let one = |first| Piece::Copy(Extent { first, blocks: 1 });
        let heads = Extent::between(DEVICE_START, self.pool.space.layout(device).groups_start());
        let mut pieces = vec![Piece::Reserve(heads)];
        pieces.extend(LABELS.into_iter().map(one));
        if device != DeviceNumber::FIRST {
            return pieces;
        }
        pieces.extend(SUPERBLOCKS.into_iter().chain(SUPERBLOCK_COPIES).map(one));
        let journal = &self.log.journal;
        let live =
            journal.live().map(|(at, blocks)| extent(Run { start: ring_address(at), blocks }));
        pieces.extend(live.into_iter().map(Piece::Copy));
        let ring = Extent { first: JOURNAL_START, blocks: journal.blocks };
        let mut dead = vec![ring];
        for live in live {
            dead = dead.into_iter().flat_map(|part| part.without(live)).collect();
        }
        pieces.extend(dead.into_iter().map(Piece::Blank));
        pieces
    }
}

fn extent(run: Run) -> Extent {
    Extent { first: run.start.block(), blocks: run.blocks }
}

fn on(extent: Extent, device: DeviceNumber) -> Run {
    Run { start: extent.first.on(device), blocks: extent.blocks }
}
