//! A size-capped log of JSON objects, one a line, in the data directory; rotated once, to
//! `NAME.old.jsonl`.
//!
//! A file that cannot be opened or written is opened again at the next entry, so that a full or
//! failing file system neither keeps the daemon from starting nor ends the log for good.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits::RECORD_LINE_BYTES_MAX;

#[cfg(test)]
mod tests;

/// The log, open for writing.
#[derive(Debug)]
pub(crate) struct RotatingLog {
    path: PathBuf,
    old_path: PathBuf,
    /// `None` after it failed.
    file: Option<File>,
    /// Whether the last line may be there in part.
    is_torn: bool,
    bytes: u64,
    bytes_max: u64,
}

impl RotatingLog {
    /// Opens or makes the log of that name, and tells what it holds, oldest first. A line that
    /// is none, as a crash or a full file system may leave behind, is passed over.
    ///
    /// # Errors
    /// When there is something of that name that cannot be read.
    pub(crate) fn open<T: DeserializeOwned>(
        directory: &Path,
        name: &str,
        bytes_max: u64,
        mut each: impl FnMut(T),
    ) -> Result<Self> {
        let path = directory.join(format!("{name}.jsonl"));
        let old_path = directory.join(format!("{name}.old.jsonl"));
        let mut is_torn = false;
        if path.exists() {
            is_torn = read_lines(&path, bytes_max, &mut each)
                .with_context(|| format!("cannot read {}", path.display()))?;
        }
        let mut log = Self { path, old_path, file: None, is_torn, bytes: 0, bytes_max };
        if let Err(error) = log.reopen() {
            tracing::error!(error = format!("{error:#}"), "a record cannot be written");
        }
        Ok(log)
    }

    /// Opens the file again, or makes it.
    pub(crate) fn reopen(&mut self) -> Result<()> {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(0o600).open(&self.path);
        let file = file.with_context(|| format!("cannot write {}", self.path.display()))?;
        self.bytes = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// When it is not in the file, or only a part of it.
    pub(crate) fn write(&mut self, entry: &impl Serialize) -> Result<()> {
        let mut line = if self.is_torn { b"\n".to_vec() } else { Vec::new() };
        serde_json::to_writer(&mut line, entry)?;
        line.push(b'\n');
        if self.file.is_none() {
            self.reopen()?;
        }
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.bytes_max {
            std::fs::rename(&self.path, &self.old_path)?;
            self.reopen()?;
        }
        let Some(file) = &mut self.file else { bail!("the log is not open") };
        if let Err(error) = file.write_all(&line) {
            self.is_torn = true;
            self.file = None;
            return Err(error).with_context(|| format!("cannot write {}", self.path.display()));
        }
        self.is_torn = false;
        self.bytes += line.len() as u64;
        Ok(())
    }
}

/// Tells what a file holds; returns whether its last line is none.
fn read_lines<T: DeserializeOwned>(
    path: &Path,
    bytes_max: u64,
    each: &mut impl FnMut(T),
) -> Result<bool> {
    if !path.metadata()?.is_file() {
        bail!("it is not a file");
    }
    // A line that another program added may be of any length.
    let mut lines = BufReader::new(File::open(path)?.take(2 * bytes_max));
    let (mut line, mut is_torn) = (Vec::new(), false);
    loop {
        line.clear();
        let length = (&mut lines).take(RECORD_LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if length == 0 {
            return Ok(is_torn);
        }
        let parsed = serde_json::from_slice::<T>(&line).ok();
        is_torn = parsed.is_none() || !line.ends_with(b"\n");
        parsed.into_iter().for_each(&mut *each);
    }
}
