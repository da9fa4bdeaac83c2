//! Applies durable commits to the map in order, in turns of bounded length.
//!
//! A record that fills many blocks is applied leaf by leaf, so that a turn may end within it.
//! Nobody sees such a part: its operation holds its claims until the whole commit is applied, and
//! no checkpoint cuts there (docs/decisions/0094).

use std::collections::VecDeque;

use crate::address::BlockRange;
use crate::commit::Commit;
use crate::entry::{Entry, FANOUT};
use crate::journal::Position;
use crate::map::Missing;
use crate::operation_key::OperationKey;
use crate::pool::Pool;
use crate::record::Record;

/// Durable commits that are not applied yet, and how far the first one is.
pub(crate) struct Applier {
    durable: VecDeque<Commit>,
    /// Records of the first durable commit that are applied.
    records: usize,
    /// Blocks of the next record that are applied.
    blocks: u64,
    /// Blocks that may change in this turn; `None` for as many as there are.
    blocks_left: Option<u64>,
    /// Where the journal goes on after the last unit that was applied.
    applied: Position,
}

/// What comes next.
pub(crate) enum Next {
    /// Nothing is durable and not applied, or the turn is over.
    Nothing,
    /// All of a commit is applied: these operations are done.
    Commit(Vec<OperationKey>),
    /// A page of the map is needed first.
    Page(Missing),
    /// A record, or a part of one.
    Record(Record),
}

impl Applier {
    pub(crate) fn new(applied: Position) -> Self {
        Self { durable: VecDeque::new(), records: 0, blocks: 0, blocks_left: None, applied }
    }

    /// A commit is on stable storage.
    pub(crate) fn push(&mut self, commit: Commit) {
        self.durable.push_back(commit);
    }

    /// Gives up what is not applied.
    pub(crate) fn clear(&mut self) {
        self.durable.clear();
    }

    /// Whether all durable commits are applied.
    pub(crate) fn is_empty(&self) -> bool {
        self.durable.is_empty()
    }

    /// Where the journal goes on after the last unit that was applied.
    pub(crate) fn applied(&self) -> Position {
        self.applied
    }

    /// Whether no commit is applied in part.
    pub(crate) fn is_between_commits(&self) -> bool {
        self.records == 0 && self.blocks == 0
    }

    /// Begins a turn, in which commits change so many blocks of the map at most, and what one
    /// record changes besides.
    pub(crate) fn begin_turn(&mut self, blocks_max: u64) {
        self.blocks_left = Some(blocks_max);
    }

    /// Whether there are turns.
    pub(crate) fn has_turns(&self) -> bool {
        self.blocks_left.is_some()
    }

    /// Whether the next turn has something to do.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.blocks_left == Some(0) && !self.durable.is_empty()
    }

    /// The operations of the commit that is applied now.
    pub(crate) fn members(&self) -> &[OperationKey] {
        self.durable.front().map_or(&[], |commit| &commit.members)
    }

    /// What comes next; a commit that is applied as a whole is taken out.
    pub(crate) fn next(&mut self, pool: &mut Pool) -> Next {
        let Some(commit) = self.durable.front() else { return Next::Nothing };
        let Some(record) = commit.records.get(self.records) else {
            return self.end_commit();
        };
        if self.blocks_left == Some(0) {
            return Next::Nothing;
        }
        let part = part_of(record, self.blocks);
        match pool.missing_for_record(&part) {
            Some(missing) => Next::Page(missing),
            None => Next::Record(part),
        }
    }

    fn end_commit(&mut self) -> Next {
        let Some(commit) = self.durable.pop_front() else { return Next::Nothing };
        (self.records, self.blocks) = (0, 0);
        self.applied = commit.after;
        Next::Commit(commit.members)
    }

    /// Applies a record, or the next part of one that fills many blocks.
    pub(crate) fn apply(&mut self, pool: &mut Pool, part: &Record) {
        if let Some(left) = &mut self.blocks_left {
            *left = left.saturating_sub(cost(part));
        }
        if let Record::Fill { volume, range, block, crc } = part {
            let is_first = self.blocks == 0;
            pool.fill(*volume, *range, Entry::data(*block, *crc), is_first);
            self.blocks += range.count;
            if self.blocks < self.blocks_of_record() {
                return;
            }
        } else {
            pool.apply(part);
        }
        (self.records, self.blocks) = (self.records + 1, 0);
    }

    /// Blocks that the record which is being applied fills.
    fn blocks_of_record(&self) -> u64 {
        let commit = self.durable.front();
        match commit.and_then(|commit| commit.records.get(self.records)) {
            Some(Record::Fill { range, .. }) => range.count,
            _ => 0,
        }
    }
}

/// What is to be applied next of a record of which so many blocks are: of one that fills many blocks,
/// no more than a leaf page of the map covers.
fn part_of(record: &Record, applied: u64) -> Record {
    match record {
        Record::Fill { volume, range, block, crc } => {
            let first = range.first + applied;
            let count = (range.count - applied).min(FANOUT - first.place_in_leaf());
            let range = BlockRange { first, count };
            Record::Fill { volume: *volume, range, block: *block, crc: *crc }
        }
        other => other.clone(),
    }
}

/// Entries of the map that a record changes, about: leaves that change hands as a whole count as one.
fn cost(record: &Record) -> u64 {
    let in_leaves = |count: u64| count.min(2 * FANOUT) + count / FANOUT;
    match record {
        Record::Write { crcs, .. } => crcs.len() as u64,
        Record::Fill { range, .. } => range.count,
        Record::Zero { range, .. } => in_leaves(range.count),
        Record::Clone { source_first, range, .. } => {
            if source_first.place_in_leaf() == range.first.place_in_leaf() {
                in_leaves(range.count)
            } else {
                range.count
            }
        }
        Record::CreateVolume { .. }
        | Record::DeleteVolume { .. }
        | Record::RevertVolume { .. }
        | Record::ResizeVolume { .. }
        | Record::AddDevice { .. }
        | Record::ExtendDevice { .. } => 1,
    }
}
