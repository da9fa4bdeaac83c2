//! The audit log: who asked for which change, and how it ended. One JSON object a line, in the
//! data directory; no bodies, which may hold secrets.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use api::AuditEntry;

use crate::limits::{AUDIT_BYTES_MAX, AUDIT_SHOWN_MAX};

const NAME: &str = "audit.jsonl";
const OLD_NAME: &str = "audit.old.jsonl";

#[cfg(test)]
mod tests;

/// The log.
pub(crate) struct Audit {
    directory: PathBuf,
    file: File,
    bytes: u64,
    /// The latest entries, oldest first.
    latest: VecDeque<AuditEntry>,
    /// Entries so far, of those that are known.
    count: u64,
}

impl Audit {
    /// Opens or makes the log in the data directory.
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let path = directory.join(NAME);
        let mut file = append(&path)?;
        let bytes = file.metadata()?.len();
        let mut latest = VecDeque::new();
        let mut count = 0;
        let mut whole = true;
        for line in BufReader::new(File::open(&path)?).lines() {
            let parsed = line.ok().and_then(|line| serde_json::from_str::<AuditEntry>(&line).ok());
            whole = parsed.is_some();
            if let Some(entry) = parsed {
                count += 1;
                push(&mut latest, AuditEntry { number: count, ..entry });
            }
        }
        if !whole {
            // A crash cut the last line short; the next one begins anew.
            file.write_all(b"\n")?;
        }
        Ok(Self { directory: directory.to_owned(), file, bytes, latest, count })
    }

    /// Notes a change. A log that cannot be written is reported and stops nothing.
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
        if let Err(error) = self.write(&entry) {
            tracing::error!(%error, "the audit log cannot be written");
        }
        push(&mut self.latest, entry);
    }

    /// The latest entries, newest first.
    pub(crate) fn latest(&self) -> impl Iterator<Item = AuditEntry> {
        self.latest.iter().rev().cloned()
    }

    fn write(&mut self, entry: &AuditEntry) -> Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        if self.bytes + line.len() as u64 > AUDIT_BYTES_MAX {
            std::fs::rename(self.directory.join(NAME), self.directory.join(OLD_NAME))?;
            self.file = append(&self.directory.join(NAME))?;
            self.bytes = 0;
        }
        self.file.write_all(&line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }
}

fn push(latest: &mut VecDeque<AuditEntry>, entry: AuditEntry) {
    if latest.len() == AUDIT_SHOWN_MAX {
        latest.pop_front();
    }
    latest.push_back(entry);
}

fn append(path: &Path) -> Result<File> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    file.with_context(|| format!("cannot write {}", path.display()))
}
