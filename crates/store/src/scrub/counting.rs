//! Counts of what thick volumes share: when one begins, what makes way for it, and who waits for it.
//!
//! A volume's number of shared blocks is an upper bound. It is too high after others have let go of
//! what they shared with it, after blocks in groups whose maps are not in memory were replaced, and
//! after parts of it became holes. What is promised to the volume is then too much, and data,
//! locks and metadata find less space than there is. A count sets that right.

use std::time::Duration;

use block::VolumeId;

use super::{Purpose, Scrub, Scrubber};
use crate::address::VolumeBlock;
use crate::entry::{Entry, FANOUT, Kind};
use crate::map::FoundLeaf;
use crate::pool::Pool;
use crate::space::AllocationGroupId;

/// No count begins before so many times as long as the last one took have passed.
const REST: u32 = 8;

/// The times of counts, and whether one has ended that nobody was told of.
#[derive(Default)]
pub(super) struct Counts {
    begun: Duration,
    rest_until: Duration,
    has_ended: bool,
}

/// The shared blocks of one leaf, counted group by group: the space maps of all groups that its
/// blocks lie in need not be in memory at once.
///
/// A block is looked at once, while the maps of its group are there, although the leaf may change
/// before its other blocks are. What becomes shared after a count began is added to the volume's
/// number anyway; what is shared no longer was counted too much, which the next count sets right.
#[derive(Default)]
pub(super) struct LeafCount {
    /// The leaf: of which volume, and its first block.
    leaf: Option<(VolumeId, VolumeBlock)>,
    /// Blocks that were looked at, a bit each.
    seen: [u64; FANOUT as usize / 64],
    /// Those of them that are shared.
    shared: u64,
}

impl LeafCount {
    /// Looks at what was not looked at and has its maps in memory. Returns a group whose maps the
    /// rest needs.
    fn advance(&mut self, pool: &Pool, entries: &[Entry]) -> Option<AllocationGroupId> {
        let mut missing = None;
        for (index, entry) in entries.iter().enumerate() {
            let (word, bit) = (&mut self.seen[index / 64], 1 << (index % 64));
            if entry.kind() != Kind::Data || *word & bit != 0 {
                continue;
            }
            let group = pool.space.group_of(entry.address());
            if pool.space.is_loaded(group) {
                *word |= bit;
                self.shared += u64::from(pool.space.references(entry.address()) > 1);
            } else {
                missing = missing.or(Some(group));
            }
        }
        missing
    }
}

impl Scrub {
    /// Counts the blocks of a leaf that are shared; returns a group whose maps are needed first.
    pub(super) fn count_shared(
        &mut self,
        pool: &Pool,
        leaf: &FoundLeaf,
        entries: &[Entry],
    ) -> Option<AllocationGroupId> {
        let this = self.volume().map(|volume| (volume, leaf.first));
        if self.leaf_count.leaf != this {
            self.leaf_count = LeafCount { leaf: this, ..LeafCount::default() };
        }
        let is_shared = |&(_, entry): &(u8, Entry)| pool.map.is_shared(&pool.space, entry);
        let shared = if leaf.path.iter().any(is_shared) {
            entries.iter().filter(|entry| entry.kind() == Kind::Data).count() as u64
        } else {
            let missing = self.leaf_count.advance(pool, entries);
            if missing.is_some() {
                return missing;
            }
            self.leaf_count.shared
        };
        self.leaf_count = LeafCount::default();
        self.shared += shared;
        None
    }
}

impl Scrubber {
    /// Whether a count is under way.
    pub(super) fn is_counting(&self) -> bool {
        self.current.as_ref().is_some_and(|scrub| scrub.purpose == Purpose::Count)
    }

    /// Where a scrub goes that is not a count.
    pub(super) fn place(&mut self) -> &mut Option<Box<Scrub>> {
        if self.is_counting() { &mut self.held } else { &mut self.current }
    }

    /// Whether less may be promised to thick volumes soon: a count is under way or due.
    pub(crate) fn may_lower_owed(&self, pool: &mut Pool) -> bool {
        self.is_counting() || pool.volumes.want_count()
    }

    /// Whether a count can begin, or go on, and waits for nothing.
    pub(crate) fn can_count(&self, pool: &Pool) -> bool {
        if self.current.as_ref().is_some_and(|scrub| scrub.is_waiting()) {
            return false;
        }
        let is_due = pool.volumes.is_count_wanted() && pool.now >= self.counts.rest_until;
        self.is_counting() || is_due && pool.map.reap.is_empty()
    }

    /// Begins a count if one is due. A scrub makes way where it waits for nothing.
    pub(super) fn begin_count_if_due(&mut self, pool: &mut Pool) {
        if self.is_counting() || !self.can_count(pool) {
            return;
        }
        pool.volumes.begin_counts();
        let thick = pool.volumes.iter().filter(|volume| volume.spec.thick);
        let volumes = thick.map(|volume| volume.spec.id).collect();
        self.held = self.current.take();
        self.current = Some(Box::new(Scrub::new(Purpose::Count, volumes, 0)));
        self.counts.begun = pool.now;
    }

    /// A count is over: what made way goes on.
    pub(super) fn end_count(&mut self, now: Duration) {
        let took = now.saturating_sub(self.counts.begun);
        self.counts.rest_until = now + took.saturating_mul(REST);
        self.counts.has_ended = true;
        self.current = self.held.take();
    }

    /// Whether a count has ended since this was asked last.
    pub(crate) fn take_counted(&mut self) -> bool {
        std::mem::take(&mut self.counts.has_ended)
    }
}
