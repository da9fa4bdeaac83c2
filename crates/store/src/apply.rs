//! Applies journal records to the map, after a commit and when a journal is replayed.

use crate::address::BlockRange;
use crate::entry::{Entry, FANOUT};
use crate::loading::PageWaiter;
use crate::record::Record;
use crate::store::Store;

/// How far the applier has come.
#[derive(Default)]
pub(crate) struct Applying {
    /// Records of the first durable commit that are applied.
    records: usize,
    /// Blocks of the next record that are applied.
    blocks: u64,
    /// Blocks that may change in this turn; `None` for as many as there are.
    blocks_left: Option<u64>,
}

impl Applying {
    /// Whether no commit is applied in part.
    pub(crate) fn is_between_commits(&self) -> bool {
        self.records == 0 && self.blocks == 0
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
            match source_first.place_in_leaf() == range.first.place_in_leaf() {
                true => in_leaves(range.count),
                false => range.count,
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

impl Store {
    /// Applies durable commits, as far as the pages they need are in memory and the turn lasts.
    ///
    /// A record that fills many blocks is applied leaf by leaf, so that a turn may end within it.
    /// Nobody sees such a part: its operation holds its claims until the whole commit is applied, and
    /// no checkpoint cuts there (docs/decisions/0094).
    pub(crate) fn apply_durable(&mut self) {
        while !self.applier_waits {
            let Some(commit) = self.durable.front() else { return };
            let Some(record) = commit.records.get(self.applying.records) else {
                self.commit_applied();
                // Turns may end within one commit after the other: a cut that is due comes here.
                if self.applying.blocks_left.is_some() {
                    self.start_checkpoint_if_due();
                }
                continue;
            };
            if self.applying.blocks_left == Some(0) {
                return;
            }
            let part = part_of(record, self.applying.blocks);
            match self.pool.missing_for_record(&part) {
                Some(missing) => {
                    self.applier_waits = true;
                    self.load_page(missing, PageWaiter::Applier);
                }
                None => {
                    self.settle_first_estimates();
                    self.apply_part(&part);
                }
            }
        }
    }

    /// Applies a record, or the next part of one that fills many blocks.
    fn apply_part(&mut self, part: &Record) {
        if let Some(left) = &mut self.applying.blocks_left {
            *left = left.saturating_sub(cost(part));
        }
        if let Record::Fill { volume, range, block, crc } = part {
            let is_first = self.applying.blocks == 0;
            self.pool.fill(*volume, *range, Entry::data(*block, *crc), is_first);
            self.applying.blocks += range.count;
            if self.applying.blocks < self.blocks_of_record() {
                return;
            }
        } else {
            self.pool.apply(part);
        }
        (self.applying.records, self.applying.blocks) = (self.applying.records + 1, 0);
    }

    /// Blocks that the record which is being applied fills.
    fn blocks_of_record(&self) -> u64 {
        let commit = self.durable.front();
        match commit.and_then(|commit| commit.records.get(self.applying.records)) {
            Some(Record::Fill { range, .. }) => range.count,
            _ => 0,
        }
    }

    /// Begins a turn, in which durable commits change so many blocks of the map at most, and what one
    /// record changes besides. Without turns there is no such bound.
    pub fn begin_turn(&mut self, blocks_max: u64) {
        self.applying.blocks_left = Some(blocks_max);
    }

    /// Whether the next turn has something to do that waits for nothing else.
    pub fn has_more(&self) -> bool {
        self.applying.blocks_left == Some(0) && !self.durable.is_empty() && !self.applier_waits
    }

    /// The first record of a commit is about to be applied.
    fn settle_first_estimates(&mut self) {
        if !self.applying.is_between_commits() || self.pool.budget.estimated().returning == 0 {
            return;
        }
        let members = self.durable.front().map_or(0, |commit| commit.members.len());
        for at in 0..members {
            let member = self.durable.front().map(|commit| commit.members[at]);
            member.into_iter().for_each(|member| self.settle_estimate(member));
        }
    }

    fn commit_applied(&mut self) {
        let commit = self.durable.pop_front().expect("the caller looked at it");
        (self.applying.records, self.applying.blocks) = (0, 0);
        self.applied = commit.after;
        for operation in commit.members {
            self.committed(operation);
        }
    }
}
