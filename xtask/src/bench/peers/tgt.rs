//! tgt of the distribution: one daemon with LUNs on tmpfs and on the disk.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use harness::array::free_address;
use harness::program::{Running, run};
use harness::tgt::{control, free_control_port};
use tempfile::TempDir;

use super::servers::{DATA_BYTES, LOCKS_BYTES, OFFLOADS_BYTES, Urls};

const TARGET: &str = "iqn.2026-01.org.example:peers";
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Tgt {
    daemon: Running,
    memory: Urls,
    file: Urls,
    pub(super) version: String,
    /// Held for as long as the daemon has files there.
    _tmpfs: TempDir,
}

impl Tgt {
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let tmpfs = tempfile::Builder::new().prefix("gantry-bench-").tempdir_in("/dev/shm")?;
        let portal = free_address()?;
        let address = format!("portal={portal}");
        let port = free_control_port()?;
        let words = ["-c", "0", "tgtd", "-f", "-C", &port, "--iscsi", &address];
        let daemon = Running::start(Path::new("taskset"), &words)?;
        let target = ["--mode", "target", "--tid", "1"];
        control(&port, &[&["--op", "new"], &target[..], &["-T", TARGET]].concat())?;
        let memory = units((portal, &port), tmpfs.path(), 1, "rdwr")?;
        let file = units((portal, &port), folder, 4, "aio")?;
        control(&port, &[&["--op", "bind"], &target[..], &["-I", "ALL"]].concat())?;
        let version = run(Path::new("tgtd"), &["--version"], PATIENCE)?.stdout;
        let version = format!("tgt {}", version.trim());
        Ok(Self { daemon, memory, file, version, _tmpfs: tmpfs })
    }

    pub(super) fn memory(&self) -> &Urls {
        &self.memory
    }

    pub(super) fn file(&self) -> &Urls {
        &self.file
    }

    pub(super) fn process_id(&self) -> u32 {
        self.daemon.process_id()
    }
}

/// Makes three LUNs on files in a folder, from a number on.
fn units(
    (portal, port): (SocketAddr, &str),
    folder: &Path,
    first: u16,
    store: &str,
) -> Result<Urls> {
    let unit = |lun: u16, name: &str, bytes: u64| -> Result<String> {
        let path: PathBuf = folder.join(format!("tgt-{name}.img"));
        File::create(&path)?.set_len(bytes)?;
        let (lun, path) = (lun.to_string(), path.to_str().context("a printable path")?);
        let words = ["--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", &lun];
        control(port, &[&words[..], &["--bstype", store, "-b", path]].concat())?;
        let thin = ["--op", "update", "--mode", "logicalunit", "--tid", "1", "--lun", &lun];
        control(port, &[&thin[..], &["--params", "thin_provisioning=1"]].concat())?;
        Ok(format!("iscsi://{portal}/{TARGET}/{lun}"))
    };
    Ok(Urls {
        data: unit(first, "data", DATA_BYTES)?,
        offloads: unit(first + 1, "offloads", OFFLOADS_BYTES)?,
        locks: unit(first + 2, "locks", LOCKS_BYTES)?,
    })
}
