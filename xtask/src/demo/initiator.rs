//! gantry-host, as the demo uses it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use harness::program::run;

/// Long enough for a slow disk.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// An independent initiator. Ranges are in bytes.
pub(super) struct Initiator {
    program: PathBuf,
}

impl Initiator {
    pub(super) fn new(binaries: &Path) -> Self {
        Self { program: binaries.join("gantry-host") }
    }

    fn run(&self, arguments: &[&str]) -> Result<()> {
        run(&self.program, arguments, TIMEOUT)?.success().map(drop)
    }

    /// Writes the demo's pattern.
    pub(super) fn fill(&self, url: &str, offset: u64, length: u64) -> Result<()> {
        self.range("fill", url, offset, length, &[])
    }

    /// Reads, and compares with the demo's pattern as it was written at the start of the source.
    pub(super) fn check(&self, url: &str, offset: u64, length: u64) -> Result<()> {
        self.range("check", url, offset, length, &[])
    }

    /// Reads, and compares with zeroes.
    pub(super) fn check_zero(&self, url: &str, offset: u64, length: u64) -> Result<()> {
        self.range("check", url, offset, length, &["--zero"])
    }

    /// Writes zeroes.
    pub(super) fn zero(&self, url: &str, offset: u64, length: u64) -> Result<()> {
        self.range("zero", url, offset, length, &["--by-host"])
    }

    /// WRITE SAME.
    pub(super) fn zero_offloaded(&self, url: &str, offset: u64, length: u64) -> Result<()> {
        self.range("zero", url, offset, length, &[])
    }

    /// UNMAP.
    pub(super) fn unmap(&self, url: &str, offset: u64, length: u64) -> Result<()> {
        self.range("unmap", url, offset, length, &[])
    }

    /// Reads from one LUN and writes to another; both from their starts but for the offset in the
    /// destination.
    pub(super) fn copy(&self, source: &str, to: &str, offset: u64, length: u64) -> Result<()> {
        self.run(&[
            "copy",
            source,
            to,
            "--offset",
            &offset.to_string(),
            "--length",
            &length.to_string(),
            "--by-host",
        ])
    }

    /// EXTENDED COPY.
    pub(super) fn copy_offloaded(
        &self,
        source: &str,
        to: &str,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        self.run(&[
            "copy",
            source,
            to,
            "--offset",
            &offset.to_string(),
            "--length",
            &length.to_string(),
        ])
    }

    fn range(&self, work: &str, url: &str, offset: u64, length: u64, more: &[&str]) -> Result<()> {
        let (offset, length) = (offset.to_string(), length.to_string());
        self.run(&[&[work, url, "--offset", &offset, "--length", &length], more].concat())
    }
}
