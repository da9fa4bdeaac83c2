//! Space allocation for an operation's data, from one of three sources: the space that is free for
//! everybody; a loan, until a checkpoint frees what the data replaces; or the metadata reserve.

use std::time::Duration;

use block::{BLOCK, VolumeId};

use super::{OperationKey, Piece, Work, data_range};
use crate::budget::Estimate;
use crate::change::device_of_moved;
use crate::entry::FANOUT;
use crate::error::Failure;
use crate::limits::METADATA_BYTES_MAX;
use crate::map::Occupied;
use crate::serving::Serving;
use crate::space::{Allocation, AllocationGroupId, Length};

/// How often an operation waits for a checkpoint to free space before it gives up.
const SPACE_WAITS_MAX: u8 = 3;

/// The same for data that has a promise, whose space is sure to come.
const PROMISE_WAITS_MAX: u8 = 100;

/// How long an operation waits for counts of what is promised to thick volumes, and for the reaper.
const COUNT_WAIT_MAX: Duration = Duration::from_secs(4);

/// Blocks that must be free for a copy by reference, which may change pages of the map.
const CLONE_BLOCKS_MIN: u64 = 64;

/// Pages above a leaf that a change may copy.
const PAGES_ABOVE: u64 = 2;

/// Where the space of an operation's data comes from.
enum Allotment {
    /// From what is free for everybody.
    Free,
    /// From what is kept back: so much takes the place of what it replaces, so much is drawn from
    /// the metadata reserve.
    Kept { own: u64, drawn: u64 },
    /// The answer depends on a group whose maps are not in memory.
    Load(AllocationGroupId),
    /// Not before so many checkpoints at most.
    Waits(u8),
    /// Perhaps when what is promised to thick volumes has been counted, or what was unmapped is free.
    Counts,
}

impl Serving {
    /// Hands out blocks for an operation's data; `false` if it has to wait for a checkpoint.
    pub(super) fn allocate_for(&mut self, key: OperationKey) -> Result<bool, Failure> {
        let operation = &self.requests.table[key];
        let handed_out: u64 = operation.runs.iter().map(|run| run.blocks).sum();
        let clones = operation.pieces.iter().any(|piece| matches!(piece, Piece::Clone { .. }));
        let data: u64 = operation.pieces.iter().map(Piece::blocks).sum();
        let needed = data - handed_out;
        if clones && !self.has_room_for_clone(operation.volume) {
            return self.wait_for_space(key, SPACE_WAITS_MAX);
        }
        let promised = self.promise_of_clones(key);
        if promised > 0 && promised > self.engine.pool.unkept_blocks() {
            return self.wait_for_space(key, SPACE_WAITS_MAX);
        }
        let (own, drawn, kept) = match self.allot(key, needed) {
            Allotment::Free => (0, 0, self.engine.pool.kept_blocks()),
            Allotment::Kept { own, drawn } => (own, drawn, self.engine.pool.kept_for_checkpoints()),
            Allotment::Load(group) => {
                self.load_group(group, Some(key), false);
                return Ok(false);
            }
            Allotment::Waits(waits_max) => return self.wait_for_space(key, waits_max),
            Allotment::Counts => return self.wait_for_count(key),
        };
        if needed + promised > 0
            && let Some(group) = self.engine.pool.space.group_to_back(kept + needed + promised)
        {
            self.preallocate(group, key);
            return Ok(false);
        }
        let left = (drawn > 0).then(|| self.engine.pool.metadata_left());
        if !self.hand_out(key, needed)? {
            return Ok(false);
        }
        if let Some(left) = left {
            let volume = self.requests.table[key].volume;
            self.engine.pool.budget.metadata.draw(
                volume,
                drawn,
                left,
                self.engine.pool.metadata_blocks(),
            );
        }
        self.estimate(key, own);
        self.requests.table[key].promised = promised;
        self.engine.pool.budget.promise(promised);
        Ok(true)
    }

    /// Whether a copy by reference to a volume may change pages of the map.
    fn has_room_for_clone(&self, volume: VolumeId) -> bool {
        let pool = &self.engine.pool;
        pool.allowed_blocks(volume).max(pool.promised_blocks(volume)) >= CLONE_BLOCKS_MIN
    }

    /// Hands out so many blocks; `false` if they are not all there yet.
    fn hand_out(&mut self, key: OperationKey, needed: u64) -> Result<bool, Failure> {
        let (mut left, length) = (needed, Length::of(needed));
        while left > 0 {
            match self.engine.pool.space.allocate(left, length) {
                Allocation::Run(run) => {
                    left -= run.blocks;
                    self.engine.pool.budget.hand_out(run.blocks);
                    self.requests.table[key].runs.push(run);
                }
                Allocation::Load(group) => {
                    self.load_group(group, Some(key), true);
                    return Ok(false);
                }
                Allocation::Full => return self.wait_for_space(key, SPACE_WAITS_MAX),
            }
        }
        Ok(true)
    }

    /// Where the space for so many blocks comes from.
    fn allot(&mut self, key: OperationKey, needed: u64) -> Allotment {
        let volume = self.requests.table[key].volume;
        let allowed = self.engine.pool.allowed_blocks(volume);
        if needed <= allowed {
            return Allotment::Free;
        }
        if device_of_moved(volume).is_some() {
            let fits = needed <= self.engine.pool.promised_blocks(volume);
            let kept = Allotment::Kept { own: 0, drawn: 0 };
            return if fits { kept } else { Allotment::Waits(SPACE_WAITS_MAX) };
        }
        let occupied = if self.engine.pool.volumes.is_thick(volume) {
            Occupied { own: needed, shared: 0 }
        } else {
            match self.occupied(key) {
                Ok(occupied) => occupied,
                Err(group) => return Allotment::Load(group),
            }
        };
        let own = occupied.own;
        match needed.saturating_sub(own) > allowed {
            true => self.allot_metadata(key, needed, occupied),
            // What it overwrites returns with the next checkpoint, so half of the reserve lends it
            // the space until then; the other half is for the checkpoint.
            false if needed > self.engine.pool.lent_blocks() => Allotment::Waits(PROMISE_WAITS_MAX),
            false => Allotment::Kept { own, drawn: 0 },
        }
    }

    /// Whether what an operation newly occupies may come from the metadata reserve.
    fn allot_metadata(&mut self, key: OperationKey, needed: u64, occupied: Occupied) -> Allotment {
        let refused = Allotment::Waits(SPACE_WAITS_MAX);
        let operation = &self.requests.table[key];
        let Work::Request(request) = &operation.work else { return refused };
        let data: u64 = operation.pieces.iter().map(Piece::blocks).sum();
        let replaces_data = occupied.own + occupied.shared == data;
        let volume = operation.volume;
        let standing = self.engine.pool.budget.metadata.standing(volume, request, replaces_data);
        let drawn = needed.saturating_sub(occupied.own);
        let Some(standing) = standing.filter(|_| drawn <= METADATA_BYTES_MAX / BLOCK + 1) else {
            return refused;
        };
        let (reserve, left) =
            (self.engine.pool.metadata_blocks(), self.engine.pool.metadata_left());
        let leaves = standing.leaves(reserve);
        if drawn + leaves > left + self.engine.pool.budget.estimated().growing
            || !self.engine.pool.budget.metadata.may_draw(volume, drawn, left, reserve)
        {
            let may_be_less = self.scrubber.may_lower_owed(&mut self.engine.pool);
            // A thick volume is owed what was unmapped there at once, and the reaper frees it later (85003069).
            let is_coming = !self.engine.pool.map.reap.is_empty();
            return if may_be_less || is_coming { Allotment::Counts } else { refused };
        }
        let lacks = drawn + leaves > left
            || needed + self.engine.pool.kept_for_checkpoints() > self.engine.pool.space.free();
        if lacks {
            Allotment::Waits(PROMISE_WAITS_MAX)
        } else {
            Allotment::Kept { own: occupied.own, drawn }
        }
    }

    /// Blocks of thick volumes that an operation will share, so that they are owed new ones.
    fn promise_of_clones(&self, key: OperationKey) -> u64 {
        let pieces = self.requests.table[key].pieces.iter();
        let shared = pieces.filter_map(|piece| match piece {
            Piece::Clone { source, range, .. } => {
                Some((self.engine.pool.volumes.get(*source)?, range.count))
            }
            _ => None,
        });
        let owing = shared.filter(|(source, _)| source.spec.thick && !source.spec.snapshot);
        owing.map(|(source, count)| count.min(source.unshared_blocks())).sum()
    }

    /// Blocks that the data of an operation replaces.
    fn occupied(&mut self, key: OperationKey) -> Result<Occupied, AllocationGroupId> {
        let root = self.engine.pool.volumes[&self.requests.table[key].volume].root;
        let pieces = std::mem::take(&mut self.requests.table[key].pieces);
        let ranges = pieces.iter().filter_map(|piece| match piece {
            Piece::Data { first, data } => Some(data_range(*first, data)),
            _ => None,
        });
        let counts =
            ranges.map(|range| self.engine.pool.map.occupied(&self.engine.pool.space, root, range));
        let occupied = counts.sum();
        self.requests.table[key].pieces = pieces;
        occupied
    }

    /// Notes what an operation will do to the space, when it has all that it needs.
    fn estimate(&mut self, key: OperationKey, own: u64) {
        let operation = &mut self.requests.table[key];
        let pages = operation.pieces.iter().map(Piece::pages).sum::<u64>();
        // A page has a copy.
        operation.estimate = Estimate { returning: own, growing: 2 * pages };
        self.engine.pool.budget.expect(operation.estimate);
    }

    /// The records of an operation are about to be applied: what they free is freed now.
    pub(crate) fn settle_estimate(&mut self, key: OperationKey) {
        let Some(operation) = self.requests.table.get_mut(key) else { return };
        let returning = std::mem::take(&mut operation.estimate.returning);
        self.engine.pool.budget.forget(Estimate { returning, growing: 0 });
    }

    /// Removes an operation from the estimate: its effect on the space is done, or will not
    /// happen.
    pub(super) fn forget_estimate(&mut self, key: OperationKey) {
        let Some(operation) = self.requests.table.get_mut(key) else { return };
        let estimate = std::mem::take(&mut operation.estimate);
        self.engine.pool.budget.forget(estimate);
    }

    /// What an operation promised to thick volumes is owed to them now, or will not be.
    pub(super) fn end_promise(&mut self, key: OperationKey) {
        let Some(operation) = self.requests.table.get_mut(key) else { return };
        let promised = std::mem::take(&mut operation.promised);
        self.engine.pool.budget.end_promise(promised);
    }

    /// Waits for a count of what is promised to thick volumes, or for the reaper, for a while.
    fn wait_for_count(&mut self, key: OperationKey) -> Result<bool, Failure> {
        let now = self.engine.pool.now;
        let until = &mut self.requests.table[key].counts_until;
        let until = *until.get_or_insert(now + COUNT_WAIT_MAX);
        if now >= until {
            return self.wait_for_space(key, SPACE_WAITS_MAX);
        }
        self.requests.count_until.get_or_insert(until);
        self.requests.stalled.push_back(key);
        Ok(false)
    }

    fn wait_for_space(&mut self, key: OperationKey, waits_max: u8) -> Result<bool, Failure> {
        let coming = self.engine.pool.space.quarantined() > 0
            || self.engine.pool.space.groups_with_deltas() > 0
            || !self.engine.pool.map.reap.is_empty()
            || !self.engine.log.journal.is_empty()
            || !self.engine.log.has_empty_groups()
            || self.engine.checkpointer.is_writing();
        let operation = &mut self.requests.table[key];
        operation.space_waits += 1;
        if !coming || operation.space_waits > waits_max {
            self.engine.pool.volumes.want_count();
            return Err(self.engine.pool.budget.refusal().into());
        }
        self.stall(key);
        Ok(false)
    }
}

impl Piece {
    /// Blocks of new data.
    fn blocks(&self) -> u64 {
        match self {
            Self::Data { data, .. } => data.len() as u64 / BLOCK,
            Self::Fill { .. } => 1,
            Self::Zero { .. } | Self::Clone { .. } => 0,
        }
    }

    /// Pages of the map that it may copy, at most.
    fn pages(&self) -> u64 {
        let leaves = |count: u64| count / FANOUT + 2;
        let leaves = match self {
            Self::Data { data, .. } => leaves(data.len() as u64 / BLOCK),
            Self::Fill { range, .. } | Self::Clone { range, .. } => leaves(range.count),
            // Leaves that become holes as a whole are not copied.
            Self::Zero { .. } => 2,
        };
        leaves + PAGES_ABOVE
    }
}
