//! The audit log: who asked for which change, and how it ended; no bodies, which may hold secrets.
//! What the array deletes by itself is in it, too.
//!
//! A change is made, and answered, whether its entry can be written or not: nothing about a log
//! stops the array. Entries wait until they can be (`log_writer`), and every one is in the daemon's log
//! too (docs/decisions/0081).

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use api::AuditEntry;

use crate::events::now;
use crate::limits::{AUDIT_BYTES_MAX, AUDIT_SHOWN_MAX};
use crate::log_writer::{self, LogWriter};
use crate::rotating_log::RotatingLog;

const NAME: &str = "audit";

#[cfg(test)]
mod tests;

/// The log, which the HTTP thread and the reactor write to. Its lock is held for memory alone.
pub(crate) struct Audit {
    state: Mutex<State>,
}

struct State {
    writer: LogWriter<AuditEntry>,
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
        let log = RotatingLog::open(directory, NAME, AUDIT_BYTES_MAX, |entry: AuditEntry| {
            count += 1;
            push(&mut latest, AuditEntry { number: count, ..entry });
        })?;
        let writer = LogWriter::start(log, &log_writer::AUDIT)?;
        Ok(Self { state: Mutex::new(State { writer, latest, count }) })
    }

    /// Notes a change. Never waits for a file.
    pub(crate) fn note(&self, mut entry: AuditEntry) {
        tracing::info!(
            user = entry.user,
            via = entry.via,
            source = entry.source,
            method = entry.method,
            path = entry.path,
            status = entry.status,
            "change asked for"
        );
        let mut state = self.state();
        state.count += 1;
        entry.number = state.count;
        state.writer.add(entry.clone());
        push(&mut state.latest, entry);
    }

    /// Notes a change that the array made by itself.
    pub(crate) fn note_own(&self, method: &str, path: String, status: u16) {
        self.note(AuditEntry {
            number: 0,
            time: now(),
            user: "array".to_owned(),
            via: "array".to_owned(),
            source: String::new(),
            method: method.to_owned(),
            path,
            status,
        });
    }

    /// The latest entries, newest first.
    pub(crate) fn latest(&self) -> Vec<AuditEntry> {
        self.state().latest.iter().rev().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A path as entries have it. A longer one names nothing that there is.
pub(crate) fn shown_path(path: &str) -> String {
    path.chars().take(512).flat_map(char::escape_debug).collect()
}

fn push(latest: &mut VecDeque<AuditEntry>, entry: AuditEntry) {
    if latest.len() == AUDIT_SHOWN_MAX {
        latest.pop_front();
    }
    latest.push_back(entry);
}
