//! The audit log: who asked for which change, and how it ended; no bodies, which may hold secrets.
//!
//! A change is made, and answered, whether its entry can be written or not: nothing about a log
//! stops the array. Entries wait until they can be (`keeper`), and every one is in the daemon's log
//! too (docs/decisions/0081).

use std::collections::VecDeque;
use std::path::Path;

use anyhow::Result;
use api::AuditEntry;

use crate::keeper::{self, Keeper};
use crate::limits::{AUDIT_BYTES_MAX, AUDIT_SHOWN_MAX};
use crate::record::Record;

const NAME: &str = "audit";

#[cfg(test)]
mod tests;

/// The log.
pub(crate) struct Audit {
    keeper: Keeper<AuditEntry>,
    /// The latest entries, oldest first.
    latest: VecDeque<AuditEntry>,
    /// Entries so far, of those that are known.
    count: u64,
}

impl Audit {
    /// Opens or makes the log in the data directory.
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let mut latest = VecDeque::new();
        let mut count = 0;
        let record = Record::open(directory, NAME, AUDIT_BYTES_MAX, |entry: AuditEntry| {
            count += 1;
            push(&mut latest, AuditEntry { number: count, ..entry });
        })?;
        Ok(Self { keeper: Keeper::start(record, &keeper::AUDIT)?, latest, count })
    }

    /// Notes a change. Never waits.
    pub(crate) fn note(&mut self, mut entry: AuditEntry) {
        self.count += 1;
        entry.number = self.count;
        tracing::info!(
            user = entry.user,
            via = entry.via,
            source = entry.source,
            method = entry.method,
            path = entry.path,
            status = entry.status,
            "change asked for"
        );
        self.keeper.add(entry.clone());
        push(&mut self.latest, entry);
    }

    /// The latest entries, newest first.
    pub(crate) fn latest(&self) -> impl Iterator<Item = AuditEntry> {
        self.latest.iter().rev().cloned()
    }
}

fn push(latest: &mut VecDeque<AuditEntry>, entry: AuditEntry) {
    if latest.len() == AUDIT_SHOWN_MAX {
        latest.pop_front();
    }
    latest.push_back(entry);
}
