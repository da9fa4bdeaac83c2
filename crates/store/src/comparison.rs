//! Changed-block tracking: compares the maps of two snapshots, or tells what one holds, in bounded
//! answers and bounded turns.
//!
//! Snapshots never change, so a comparison keeps no lock and no page: each turn it goes down from the
//! roots again to the block where it stopped. Comparisons are answered one after the other.

mod walk;

use std::collections::VecDeque;

use block::{BLOCK, VolumeId};

use crate::address::{Address, VolumeBlock};
use crate::change::Tag;
use crate::difference::{Comparison, Difference};
use crate::error::CompareError;
use crate::limits::{
    COMPARISON_EXTENTS_MAX, COMPARISON_PLACES_MIN, COMPARISON_PLACES_PER_TURN, COMPARISON_READS,
    COMPARISONS_MAX,
};
use crate::map::{Map, Missing, Root};
use crate::volumes::Volumes;

use walk::{Progress, Walk};

pub(crate) use walk::Advance;

/// A comparison that is not answered yet.
struct Underway {
    tag: Tag,
    base: Option<VolumeId>,
    target: VolumeId,
    progress: Progress,
}

/// Comparisons under way; the first one is being worked on.
#[derive(Default)]
pub(crate) struct Comparer {
    queue: VecDeque<Underway>,
    /// Pages that are being read for the first one.
    awaited: usize,
    /// The page without which it cannot go on.
    needed: Option<Address>,
    /// Places of the two maps that may be looked at in this turn; `None` without turns.
    places_left: Option<usize>,
    /// The turn ended before the first one's answer was complete.
    is_cut_short: bool,
}

impl Underway {
    /// The roots of the two maps, while both snapshots exist.
    fn roots(&self, volumes: &Volumes) -> Result<(Option<Root>, Root), CompareError> {
        let root = |id| volumes.shown(id).map(|volume| volume.root).ok_or(CompareError::Deleted);
        Ok((self.base.map(root).transpose()?, root(self.target)?))
    }
}

impl Comparer {
    /// Begins a turn, in which a part of the map is looked at.
    pub(crate) fn begin_turn(&mut self, blocks_max: u64) {
        let places = usize::try_from(blocks_max).unwrap_or(usize::MAX);
        self.places_left = Some(places.clamp(COMPARISON_PLACES_MIN, COMPARISON_PLACES_PER_TURN));
        self.is_cut_short = false;
    }

    /// Whether the next turn has something to do that waits for nothing else.
    pub(crate) fn has_more(&self) -> bool {
        self.is_cut_short && self.awaited == 0 && !self.queue.is_empty()
    }

    /// Whether nothing is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The snapshot for which pages are read.
    pub(crate) fn volume(&self) -> Option<VolumeId> {
        self.queue.front().map(|underway| underway.target)
    }

    /// Takes a question, if it can be answered.
    pub(crate) fn ask(
        &mut self,
        tag: Tag,
        Comparison { base, target, from, extents_max }: Comparison,
        volumes: &Volumes,
    ) -> Result<(), CompareError> {
        let snapshot = |id| {
            let volume = volumes.shown(id).ok_or(CompareError::NoSuchSnapshot)?;
            if volume.spec.snapshot { Ok(volume) } else { Err(CompareError::NotASnapshot) }
        };
        base.map(snapshot).transpose()?;
        let size_bytes = snapshot(target)?.spec.size_bytes;
        if !from.is_multiple_of(BLOCK) || from > size_bytes {
            return Err(CompareError::Offset { size_bytes });
        }
        if !(1..=COMPARISON_EXTENTS_MAX).contains(&extents_max) {
            return Err(CompareError::ExtentCount);
        }
        if self.queue.len() >= COMPARISONS_MAX {
            return Err(CompareError::Busy);
        }
        let block = |bytes| VolumeBlock::new(bytes / BLOCK);
        let progress = Progress::new(block(from), block(size_bytes), extents_max);
        self.queue.push_back(Underway { tag, base, target, progress });
        Ok(())
    }

    /// Takes the first one's comparison as far as pages in memory and the turn allow.
    pub(crate) fn advance(
        &mut self,
        map: &mut Map,
        volumes: &Volumes,
    ) -> Result<Advance, CompareError> {
        let Some(first) = self.queue.front_mut() else { return Ok(Advance::Turn) };
        let roots = first.roots(volumes)?;
        if self.awaited > 0 {
            return Ok(Advance::Turn);
        }
        let mut places = self.places_left.unwrap_or(usize::MAX);
        let reads = COMPARISON_READS.min(map.clean_max() / 8).max(1);
        let advance = Walk::new(map, &mut first.progress, &mut places, reads).run(roots);
        self.places_left = self.places_left.map(|_| places);
        self.is_cut_short = matches!(advance, Advance::Turn);
        Ok(advance)
    }

    /// The first one waits for these pages, before all for the first of them.
    pub(crate) fn wait_for(&mut self, missing: &[Missing]) {
        self.needed = missing.first().map(|missing| missing.entry.address());
        self.awaited = missing.len();
    }

    /// A page that the first one waited for is there, or cannot be read. Returns whether it needs just
    /// that one, and cannot go on; another one is tried again when its turn comes.
    pub(crate) fn took_page(&mut self, page: Missing, found: bool) -> bool {
        self.awaited -= 1;
        !found && self.needed == Some(page.entry.address())
    }

    /// The first one cannot go on: what it told so far is its answer, if there is anything.
    pub(crate) fn stop_first(&mut self) -> Result<(), CompareError> {
        let Some(first) = self.queue.front_mut() else { return Ok(()) };
        if first.progress.stop_here() {
            return Ok(());
        }
        Err(CompareError::Unreadable { offset: first.progress.offset() })
    }

    /// Takes the first one away, with what it told.
    pub(crate) fn take_first(&mut self) -> Option<(Tag, Difference)> {
        self.needed = None;
        let Underway { tag, progress, .. } = self.queue.pop_front()?;
        Some((tag, progress.into_difference()))
    }
}
