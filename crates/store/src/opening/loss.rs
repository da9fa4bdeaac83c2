//! Finds what a damaged unit of the journal costs: that unit and all behind it are lost, because
//! each builds on those before.

use std::collections::BTreeSet;

use block::VolumeId;

use super::journal::Scan;
use crate::address::RingBlock;
use crate::journal::{Header, Unit};
use crate::journal_loss::JournalLoss;
use crate::limits::LOST_VOLUMES_MAX;
use crate::record::Record;

impl Scan {
    /// What is lost, if a unit is there that could only be written after the one that is missing
    /// was flushed.
    pub(super) fn loss(&self) -> Option<JournalLoss> {
        let first = self.end().sequence;
        let behind: Vec<(RingBlock, Header)> = self
            .ring_blocks()
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
        Record::CreateVolume { volume, .. } => Some(volume.spec.id),
        Record::ExtendDevice { .. } | Record::AddDevice { .. } => None,
    }
}
