//! A record of what happened: one JSON object a line, in the data directory. It has a bound, and
//! then becomes the old one, of which there is one.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

#[cfg(test)]
mod tests;

/// A record that is open for writing.
#[derive(Debug)]
pub(crate) struct Record {
    path: PathBuf,
    old_path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
}

impl Record {
    /// Opens or makes the record of that name, and tells what it holds, oldest first. A line that
    /// is none, as a crash may leave behind, is passed over.
    pub(crate) fn open<T: DeserializeOwned>(
        directory: &Path,
        name: &str,
        bytes_max: u64,
        mut each: impl FnMut(T),
    ) -> Result<Self> {
        let path = directory.join(format!("{name}.jsonl"));
        let old_path = directory.join(format!("{name}.old.jsonl"));
        let mut file = append(&path)?;
        let bytes = file.metadata()?.len();
        let mut whole = true;
        for line in BufReader::new(File::open(&path)?).lines() {
            let parsed = line.ok().and_then(|line| serde_json::from_str::<T>(&line).ok());
            whole = parsed.is_some();
            parsed.into_iter().for_each(&mut each);
        }
        if !whole {
            // A crash cut the last line short; the next one begins anew.
            file.write_all(b"\n")?;
        }
        Ok(Self { path, old_path, file, bytes, bytes_max })
    }

    /// Adds an entry.
    pub(crate) fn write(&mut self, entry: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        if self.bytes + line.len() as u64 > self.bytes_max {
            std::fs::rename(&self.path, &self.old_path)?;
            self.file = append(&self.path)?;
            self.bytes = 0;
        }
        self.file.write_all(&line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }
}

fn append(path: &Path) -> Result<File> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    file.with_context(|| format!("cannot write {}", path.display()))
}
