//! A .tar.gz of bounded size, with a manifest of what is in it, and of what is missing and why.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use super::redaction::Redaction;

/// The most that one file has, in bytes; of more only a part is taken.
pub(super) const FILE_BYTES_MAX: u64 = 8 << 20;

/// The most that all files have together, before they are compressed.
const BUNDLE_BYTES_MAX: u64 = 96 << 20;

/// A bundle that is being written.
pub(super) struct Archive {
    tar: Builder<GzEncoder<Box<dyn Write>>>,
    folder: String,
    time: u64,
    redaction: Redaction,
    bytes: u64,
    files: Vec<Value>,
    missing: Vec<(String, String)>,
}

/// What became of it.
pub(super) struct Summary {
    /// Files, with the manifest.
    pub(super) files: usize,
    /// What is missing, and why.
    pub(super) missing: Vec<(String, String)>,
}

impl Archive {
    pub(super) fn new(output: Box<dyn Write>, time: u64, redaction: Redaction) -> Self {
        let tar = Builder::new(GzEncoder::new(output, Compression::default()));
        let folder = format!("gantry-support-{time}");
        Self { tar, folder, time, redaction, bytes: 0, files: Vec::new(), missing: Vec::new() }
    }

    /// Notes that something is not in the bundle.
    pub(super) fn missing(&mut self, name: &str, reason: &str) {
        let reason = self.redaction.bytes(reason.as_bytes().to_vec());
        self.missing.push((name.to_owned(), String::from_utf8_lossy(&reason).into_owned()));
    }

    /// Adds a text, or its beginning.
    pub(super) fn add(&mut self, name: &str, mut content: Vec<u8>) -> Result<()> {
        let is_cut = content.len() as u64 > FILE_BYTES_MAX;
        content.truncate(FILE_BYTES_MAX as usize);
        self.put(name, content, is_cut)
    }

    /// Adds a value, without fields that hold secrets.
    pub(super) fn add_value(&mut self, name: &str, value: Value) -> Result<()> {
        let mut value = self.redaction.value(value);
        let mut text = format!("{value:#}\n");
        let mut is_cut = false;
        // A list loses its last elements, and stays JSON.
        while text.len() as u64 > FILE_BYTES_MAX
            && let Some(list) = value.as_array_mut().filter(|list| !list.is_empty())
        {
            list.truncate(list.len() / 2);
            is_cut = true;
            text = format!("{value:#}\n");
        }
        is_cut |= text.len() as u64 > FILE_BYTES_MAX;
        text.truncate(text.floor_char_boundary(FILE_BYTES_MAX as usize));
        self.put(name, text.into_bytes(), is_cut)
    }

    /// Adds the end of a file, from the beginning of a line, or notes why not.
    pub(super) fn add_tail(&mut self, name: &str, path: &Path) -> Result<()> {
        match tail(path) {
            Ok((content, is_cut)) => self.put(name, content, is_cut),
            Err(error) => {
                self.missing(name, &format!("{error:#}"));
                Ok(())
            }
        }
    }

    /// Adds a file of JSON objects, one a line, without fields that hold secrets.
    pub(super) fn add_records(&mut self, name: &str, path: &Path) -> Result<()> {
        let (content, is_cut) = match tail(path) {
            Ok(read) => read,
            Err(error) => {
                self.missing(name, &format!("{error:#}"));
                return Ok(());
            }
        };
        let text = String::from_utf8_lossy(&content);
        let mut lines = Vec::with_capacity(content.len());
        for line in text.lines() {
            // A line that is not a record, torn by a crash, cannot be searched by field.
            let Ok(record) = serde_json::from_str(line) else { continue };
            lines.extend(self.redaction.value(record).to_string().into_bytes());
            lines.push(b'\n');
        }
        self.put(name, lines, is_cut)
    }

    fn put(&mut self, name: &str, content: Vec<u8>, is_cut: bool) -> Result<()> {
        let content = self.redaction.bytes(content);
        if self.bytes + content.len() as u64 > BUNDLE_BYTES_MAX {
            self.missing(name, "the bundle is full");
            return Ok(());
        }
        self.bytes += content.len() as u64;
        self.files.push(json!({ "name": name, "bytes": content.len(), "is_cut": is_cut }));
        self.append(name, &content)
    }

    fn append(&mut self, name: &str, content: &[u8]) -> Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(self.time);
        let path = format!("{}/{name}", self.folder);
        self.tar.append_data(&mut header, path, content).context("the archive cannot be written")
    }

    /// Writes the manifest, and ends the archive.
    pub(super) fn finish(mut self) -> Result<Summary> {
        let missing = self.missing.iter();
        let missing: Vec<Value> =
            missing.map(|(name, reason)| json!({ "name": name, "reason": reason })).collect();
        let manifest = json!({
            "bundle": 1,
            "time": self.time,
            "gantry": env!("CARGO_PKG_VERSION"),
            "files": self.files,
            "missing": missing,
            "removed": self.redaction.count(),
        });
        self.append("manifest.json", format!("{manifest:#}\n").as_bytes())?;
        let files = self.files.len() + 1;
        self.tar.into_inner()?.finish()?.flush()?;
        Ok(Summary { files, missing: self.missing })
    }
}

/// The end of a regular file, from the beginning of a line, and whether there is more before it.
fn tail(path: &Path) -> Result<(Vec<u8>, bool)> {
    let cannot = || format!("cannot read {}", path.display());
    let length = std::fs::metadata(path).with_context(cannot)?;
    anyhow::ensure!(length.is_file(), "{} is not a file", path.display());
    let mut file = File::open(path).with_context(cannot)?;
    let skipped = length.len().saturating_sub(FILE_BYTES_MAX);
    file.seek(SeekFrom::Start(skipped)).with_context(cannot)?;
    let mut content = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut content).with_context(cannot)?;
    if skipped > 0 {
        let line =
            content.iter().position(|&byte| byte == b'\n').map_or(content.len(), |at| at + 1);
        content.drain(..line);
    }
    Ok((content, skipped > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_file_begins_with_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let line = format!("{}\n", "x".repeat(99));
        std::fs::write(&path, line.repeat(100_000)).unwrap();
        let (content, is_cut) = tail(&path).unwrap();
        assert!(is_cut && content.len() as u64 <= FILE_BYTES_MAX && content.len() % 100 == 0);
        std::fs::write(&path, "a\nb").unwrap();
        assert_eq!(tail(&path).unwrap(), (b"a\nb".to_vec(), false));
        assert!(tail(folder.path()).unwrap_err().to_string().contains("not a file"));
    }
}
