//! Damage report for a journal with a damaged unit: that unit and all behind it are lost, because
//! each builds on those before.

use std::collections::BTreeSet;
use std::fmt;

use block::VolumeId;

use super::journal::Scan;
use crate::journal::{Header, Unit};
use crate::limits::LOST_VOLUMES_MAX;
use crate::record::Record;

/// Commits at the end of the journal that cannot be applied, although hosts may have been told that
/// they are on stable storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalLoss {
    /// The first one: it is damaged.
    pub first_commit: u64,
    /// The newest one that was found.
    pub last_commit: u64,
    /// The newest one that is known to have been on stable storage.
    pub stable_commit: u64,
    /// How many behind the first one are intact, but build on what is lost.
    pub intact_commits: u64,
    /// Changes that those are made of.
    pub intact_changes: u64,
    /// Volumes that those changes name, at most 64.
    pub volumes: Vec<VolumeId>,
}

impl JournalLoss {
    /// How many commits are lost.
    pub fn commits(&self) -> u64 {
        self.last_commit + 1 - self.first_commit
    }
}

impl fmt::Display for JournalLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first_commit, last_commit, stable_commit, intact_commits, .. } = self;
        write!(
            f,
            "commit {first_commit} of the journal is damaged: {} commit(s), {first_commit} to \
             {last_commit}, are lost, of which those up to {stable_commit} were acknowledged; \
             {intact_commits} of them are intact, but build on what is damaged. They hold what was \
             written since the last checkpoint, which is never more than a minute older than the \
             last commit",
            self.commits()
        )
    }
}

impl Scan {
    /// What is lost, if a unit is there that could only be written after the one that is missing
    /// was flushed.
    pub(super) fn loss(&self) -> Option<JournalLoss> {
        let first = self.end().sequence;
        let behind: Vec<(u64, Header)> = (0..self.ring_blocks())
            .filter_map(|block| Some((block, self.header_at(block)?)))
            .filter(|(_, header)| header.epoch == self.epoch() && header.sequence > first)
            .collect();
        if behind.iter().all(|(_, header)| header.durable < first) {
            return None;
        }
        // The header of a damaged unit cannot be relied on.
        let units: Vec<Unit> = behind
            .iter()
            .filter_map(|(block, header)| self.whole_unit(*block, header.blocks))
            .collect();
        let last = units.iter().map(|unit| unit.sequence).max().unwrap_or(first);
        let stable = units.iter().map(|unit| unit.durable).max().unwrap_or(first);
        let records = || units.iter().flat_map(|unit| &unit.records);
        let volumes: BTreeSet<VolumeId> = records().filter_map(volume_of).collect();
        Some(JournalLoss {
            first_commit: first,
            last_commit: last,
            stable_commit: stable.clamp(first, last),
            intact_commits: units.len() as u64,
            intact_changes: records().count() as u64,
            volumes: volumes.into_iter().take(LOST_VOLUMES_MAX).collect(),
        })
    }
}

/// The volume that a record changes.
fn volume_of(record: &Record) -> Option<VolumeId> {
    match record {
        Record::Write { volume, .. }
        | Record::Fill { volume, .. }
        | Record::Zero { volume, .. }
        | Record::Clone { volume, .. }
        | Record::DeleteVolume { volume }
        | Record::ResizeVolume { volume, .. }
        | Record::RevertVolume { volume, .. } => Some(*volume),
        Record::CreateVolume { volume, .. } => Some(volume.id),
        Record::ExtendDevice { .. } | Record::AddDevice { .. } => None,
    }
}
