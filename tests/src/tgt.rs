//! Runs Debian's tgt, another array, for comparison.

use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::array::free_address;
use crate::program::{Running, run};

const NAME: &str = "iqn.2026-01.org.example:tgt";
const PATIENCE: Duration = Duration::from_secs(10);

/// A tgtd with one LUN, 1.
#[derive(Debug)]
pub struct Tgt {
    daemon: Running,
    folder: TempDir,
    control: String,
    portal: String,
}

impl Tgt {
    /// Starts it.
    ///
    /// # Errors
    /// When tgtd is missing or does not answer.
    pub fn start(size: u64) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let image = folder.path().join("lun.img");
        File::create(&image)?.set_len(size)?;
        let portal = free_address()?.to_string();
        let control = free_control_port()?;
        let address = format!("portal={portal}");
        let words = ["-f", "-C", &control, "--iscsi", &address];
        let daemon = Running::start(Path::new("tgtd"), &words)?;
        let tgt = Self { daemon, folder, control, portal };
        let image = image.to_str().context("a printable path")?;
        tgt.control(&["--op", "new", "--mode", "target", "--tid", "1", "-T", NAME])?;
        let unit = ["--mode", "logicalunit", "--tid", "1", "--lun", "1", "-b", image];
        tgt.control(&[&["--op", "new"], &unit[..]].concat())?;
        tgt.control(&["--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL"])?;
        Ok(tgt)
    }

    /// Adds a thin LUN; returns its address.
    ///
    /// # Errors
    /// When tgt refuses it.
    pub fn add_thin_lun(&self, number: u16, size: u64) -> Result<String> {
        let image = self.folder.path().join(format!("lun{number}.img"));
        File::create(&image)?.set_len(size)?;
        let image = image.to_str().context("a printable path")?;
        let text = number.to_string();
        let unit = ["--mode", "logicalunit", "--tid", "1", "--lun", &text];
        self.control(&[&["--op", "new"], &unit[..], &["-b", image]].concat())?;
        let thin = ["--params", "thin_provisioning=1"];
        self.control(&[&["--op", "update"], &unit[..], &thin].concat())?;
        Ok(format!("iscsi://{}/{NAME}/{number}", self.portal))
    }

    /// Repeats a command until the daemon takes it.
    ///
    /// # Errors
    /// When it never does.
    pub fn control(&self, words: &[&str]) -> Result<()> {
        control(&self.control, words)
    }

    /// The daemon.
    pub fn process_id(&self) -> u32 {
        self.daemon.process_id()
    }

    /// The LUN's address, with what stands before the host: `USER%PASSWORD@`, or nothing.
    pub fn url(&self, account: &str) -> String {
        format!("iscsi://{account}{}/{NAME}/1", self.portal)
    }
}

/// A control port that no other tgtd of this machine has, most likely. It is a number of tgt's own,
/// not of TCP: its socket's name ends with it.
///
/// # Errors
/// When the system has no address to give.
pub fn free_control_port() -> Result<String> {
    Ok((free_address()?.port() % 30_000 + 1000).to_string())
}

/// Repeats a command to the tgtd of a control port until it takes it.
///
/// # Errors
/// When it never does.
pub fn control(port: &str, words: &[&str]) -> Result<()> {
    let words = [&["-C", port, "--lld", "iscsi"], words].concat();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let finished = run(Path::new("tgtadm"), &words, PATIENCE)?;
        if finished.status.success() {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("tgtadm {words:?}: {}", finished.stderr);
        }
        thread::sleep(Duration::from_millis(50));
    }
}
