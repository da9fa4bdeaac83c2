//! Reference model of the metadata reserve: what may have been drawn since it was last whole, and
//! which writes must therefore not be refused.
//!
//! It knows nothing of the engine's accounts. It counts the places that short writes went to, each
//! once: the first write to one may need a new block, the next ones do not, unless a snapshot came
//! between, for which the reserve had to be whole. Pages of the map are counted in the same way.

use std::collections::{BTreeMap, BTreeSet};

use block::{BLOCK, ByteRange, VolumeId};
use store::{Change, Space};

use crate::action::{Action, Fill};
use crate::content::ANY;
use crate::oracle::{Oracle, Violation, violation};

/// Blocks of a mebibyte, which one leaf of the map covers.
const AREA_BLOCKS: u64 = 256;

/// The longest write that may draw, bytes (docs/semantics.md).
const SHORT_BYTES_MAX: u64 = 64 << 10;

/// The longest that is for a part of a block, bytes.
const PART_BYTES_MAX: u64 = 16 << 10;

/// Mebibytes around a lock that count as near.
const NEAR: u64 = 16;

/// Blocks that pages of the map above the leaves may newly take, for each volume, with their copies;
/// and those that the table of volumes takes.
const UPPER_BLOCKS: u64 = 8;
const TABLE_BLOCKS: u64 = 16;

/// What was touched since the reserve was whole.
#[derive(Clone, Debug, Default)]
struct Draws {
    /// Blocks that COMPARE AND WRITE and short writes near locks went to.
    deep: BTreeSet<(VolumeId, u64)>,
    /// Blocks that all short writes went to.
    all: BTreeSet<(VolumeId, u64)>,
    /// Mebibytes whose leaf may have been copied, or made.
    leaves: BTreeSet<(VolumeId, u64)>,
}

impl Draws {
    /// Blocks that pages of the map may have taken.
    fn pages(&self) -> u64 {
        let volumes: BTreeSet<VolumeId> = self.leaves.iter().map(|(volume, _)| *volume).collect();
        2 * self.leaves.len() as u64 + UPPER_BLOCKS * volumes.len() as u64 + TABLE_BLOCKS
    }
}

/// The model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reserve {
    draws: Draws,
    /// It is not known since when they count.
    blind: bool,
    /// What was submitted since a change that makes volumes share, or under way when it was.
    since: BTreeMap<u64, Draws>,
    /// Mebibytes to which COMPARE AND WRITE was sent since the pool was opened, and to which one
    /// came to its end.
    perhaps_locks: BTreeSet<(VolumeId, u64)>,
    locks: BTreeSet<(VolumeId, u64)>,
}

/// Blocks of a share of the pool.
fn share(space: &Space) -> u64 {
    let total = space.total / BLOCK;
    (total / 100).max(4096).min(total / 8)
}

/// Whether all of the reserve is there, or would be if nobody were promised anything.
fn is_whole(space: &Space) -> bool {
    space.reserve == 2 * share(space) * BLOCK
}

/// Whether a change makes volumes share what they have.
fn shares(change: &Change) -> bool {
    matches!(change, Change::CloneVolumes(_) | Change::RevertVolume { .. })
}

/// What a change that makes volumes share says of the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    /// It had to be whole.
    Whole,
    /// It did not matter: who shares is promised new blocks, or is never written.
    Promised,
    /// That depends on whether there was anything to share.
    Unknown,
}

/// What a change that came to its end says of the reserve. The volumes are as they were before.
fn sharing(change: &Change, oracle: &Oracle) -> Sharing {
    let one = |source: &VolumeId, other_needs_nothing: bool| {
        let Some(model) = oracle.volumes.get(source) else { return Sharing::Unknown };
        if other_needs_nothing && (model.spec.thick || model.spec.snapshot) {
            return Sharing::Promised;
        }
        if model.tags.iter().any(|tag| *tag != 0 && *tag != ANY) {
            Sharing::Whole
        } else {
            Sharing::Unknown
        }
    };
    let all: Vec<Sharing> = match change {
        Change::CloneVolumes(members) => {
            let all = members.iter();
            all.map(|(source, spec)| one(source, spec.snapshot || spec.thick)).collect()
        }
        Change::RevertVolume { volume, source } => {
            let thick = oracle.volumes.get(volume).is_some_and(|model| model.spec.thick);
            // One that is reverted to itself does not change.
            let changes = volume != source;
            vec![if changes { one(source, thick) } else { Sharing::Promised }]
        }
        _ => Vec::new(),
    };
    match () {
        () if all.contains(&Sharing::Whole) => Sharing::Whole,
        () if all.contains(&Sharing::Unknown) => Sharing::Unknown,
        () => Sharing::Promised,
    }
}

impl Reserve {
    /// A command is sent; `others` are under way.
    pub(crate) fn submitted<'a>(
        &mut self,
        tag: u64,
        action: &Action,
        others: impl Iterator<Item = &'a Action>,
    ) {
        if let Action::Change(change) = action
            && shares(change)
        {
            let mut draws = Draws::default();
            others.for_each(|other| self.count(&mut draws, other));
            self.since.insert(tag, draws);
        }
        self.count_everywhere(action);
    }

    /// COMPARE AND WRITE is sent: what is under way near it counts as near a lock from now on, since
    /// the engine may look at it again.
    pub(crate) fn locks<'a>(&mut self, action: &Action, others: impl Iterator<Item = &'a Action>) {
        if let Action::CompareAndWrite { volume, span, .. } = action {
            self.perhaps_locks.extend(areas(*volume, span.range()));
            others.for_each(|other| self.count_everywhere(other));
        }
    }

    fn count_everywhere(&mut self, action: &Action) {
        let mut draws = std::mem::take(&mut self.draws);
        self.count(&mut draws, action);
        self.draws = draws;
        let mut since = std::mem::take(&mut self.since);
        since.values_mut().for_each(|draws| self.count(draws, action));
        self.since = since;
    }

    /// What a command may take of the reserve.
    fn count(&self, draws: &mut Draws, action: &Action) {
        let Some(volume) = action.volume() else {
            if let Action::Change(Change::ResizeVolume { id, size_bytes }) = action {
                draws.leaves.extend(areas(*id, ByteRange::new(*size_bytes, 1)));
            }
            return;
        };
        let (range, draws_blocks) = match action {
            Action::Write { span, .. } => (span.range(), span.range().length <= SHORT_BYTES_MAX),
            Action::CompareAndWrite { span, .. } => (span.range(), true),
            Action::WriteSame { span, fill: Fill::Zero, .. } => (span.range(), true),
            Action::WriteSame { span, .. } | Action::Copy { span, .. } => (span.range(), false),
            Action::Unmap { spans, .. } => {
                for span in spans.iter().filter(|span| span.count > 0) {
                    draws.leaves.extend(areas(volume, span.range()));
                    draws.all.extend(edges(span.range()).map(|block| (volume, block)));
                }
                return;
            }
            Action::Read { .. } | Action::Flush { .. } | Action::MapStatus { .. } => return,
            Action::Compare(_) | Action::Change(_) => return,
        };
        draws.leaves.extend(areas(volume, range));
        if !draws_blocks {
            return;
        }
        let zeroes = matches!(action, Action::WriteSame { .. });
        let blocks = range.offset / BLOCK..range.end().div_ceil(BLOCK);
        let touched: Vec<u64> = if zeroes { edges(range).collect() } else { blocks.collect() };
        let is_deep = matches!(action, Action::CompareAndWrite { .. })
            || is_near(&self.perhaps_locks, volume, range);
        for block in touched {
            draws.all.insert((volume, block));
            if is_deep && !zeroes {
                draws.deep.insert((volume, block));
            }
        }
    }

    /// A command came to its end; `others` are under way.
    pub(crate) fn ended(&mut self, tag: u64, action: &Action, succeeded: bool, oracle: &Oracle) {
        if let Action::CompareAndWrite { volume, span, .. } = action
            && succeeded
        {
            self.locks.extend(areas(*volume, span.range()));
        }
        if let Some(draws) = self.since.remove(&tag)
            && let Action::Change(change) = action
            && succeeded
        {
            match sharing(change, oracle) {
                Sharing::Whole => (self.draws, self.blind) = (draws, false),
                Sharing::Promised => {}
                Sharing::Unknown => self.blind = true,
            }
        }
    }

    /// The pool becomes smaller, or larger: it is not known what was free for all.
    pub(crate) fn resized(&mut self) {
        self.blind = true;
    }

    /// The pool was opened anew: it knows no locks.
    pub(crate) fn reopened(&mut self) {
        self.perhaps_locks.clear();
        self.locks.clear();
        self.since.clear();
    }

    /// I22: no more is used than was free for all, and what may have been drawn since; of
    /// that, locks and short writes near them alone may have taken more than half of the reserve.
    pub(crate) fn check<'a>(
        &mut self,
        space: &Space,
        under_way: impl Iterator<Item = &'a Action>,
    ) -> Result<(), Violation> {
        if is_whole(space) {
            let mut draws = Draws::default();
            under_way.for_each(|action| self.count(&mut draws, action));
            (self.draws, self.blind) = (draws, false);
            return Ok(());
        }
        if self.blind {
            return Ok(());
        }
        let most = space.total / BLOCK - 2 * share(space);
        let drawn = self.draws.all.len() as u64 + self.draws.pages();
        let used = space.used / BLOCK;
        if used > most + drawn {
            return violation(format!(
                "{used} blocks are used: {most} were free for all, {drawn} may have been drawn since"
            ));
        }
        let half = share(space).div_ceil(2);
        let deep = self.draws.deep.len() as u64 + self.draws.pages();
        if used > most + half + deep {
            violation(format!(
                "{used} blocks are used: {most} were free for all, {half} for any metadata, and \
                 {deep} may have been drawn for locks and what is near them"
            ))
        } else {
            Ok(())
        }
    }

    /// I23: locks and metadata are not refused while the reserve must have space for them.
    pub(crate) fn check_refusal(&self, action: &Action, space: &Space) -> Result<(), Violation> {
        let quarter = share(space) / 4;
        let drawn = match action {
            Action::CompareAndWrite { span, .. } if span.range().length <= SHORT_BYTES_MAX => {
                self.draws.deep.len()
            }
            Action::Write { span, volume, .. } if self.is_at_lock(*volume, span.range()) => {
                self.draws.deep.len()
            }
            Action::Write { span, .. } if is_part(span.range()) => self.draws.all.len(),
            _ => return Ok(()),
        };
        let drawn = drawn as u64 + self.draws.pages();
        if drawn < quarter && !self.blind {
            violation(format!(
                "{action} found no space, although at most {drawn} blocks were drawn since the metadata reserve was whole"
            ))
        } else {
            Ok(())
        }
    }

    fn is_at_lock(&self, volume: VolumeId, range: ByteRange) -> bool {
        range.length <= SHORT_BYTES_MAX
            && areas(volume, range).all(|area| self.locks.contains(&area))
    }
}

/// The mebibytes that a range touches.
fn areas(volume: VolumeId, range: ByteRange) -> impl Iterator<Item = (VolumeId, u64)> {
    let area = |byte: u64| byte / BLOCK / AREA_BLOCKS;
    let areas = area(range.offset)..=area(range.end().saturating_sub(1).max(range.offset));
    areas.map(move |area| (volume, area))
}

fn is_near(locks: &BTreeSet<(VolumeId, u64)>, volume: VolumeId, range: ByteRange) -> bool {
    let mut near = areas(volume, range).map(|(_, area)| area.saturating_sub(NEAR)..=area + NEAR);
    near.any(|near| locks.range((volume, *near.start())..=(volume, *near.end())).next().is_some())
}

/// The blocks that a range may cover in part.
fn edges(range: ByteRange) -> impl Iterator<Item = u64> {
    let blocks = [range.offset / BLOCK, range.end().saturating_sub(1) / BLOCK];
    blocks.into_iter().filter(move |_| !range.is_aligned(BLOCK))
}

fn is_part(range: ByteRange) -> bool {
    range.length <= PART_BYTES_MAX && !range.is_aligned(BLOCK)
}
