//! Runs Debian's istgt, another array, for comparison.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::array::free_address;
use crate::program::Running;

const BASE: &str = "iqn.2026-01.org.example";
const TARGET: &str = "istgt";
const PATIENCE: Duration = Duration::from_secs(10);

/// An istgt with LUNs on sparse files.
#[derive(Debug)]
pub struct Istgt {
    daemon: Running,
    _folder: TempDir,
    portal: SocketAddr,
    luns: u32,
}

impl Istgt {
    /// Starts it with LUNs of a size, whole MiB, numbered from 0.
    ///
    /// # Errors
    /// When istgt is missing or does not listen.
    pub fn start(luns: u32, bytes: u64) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let portal = free_address()?;
        let place = folder.path().to_str().context("a printable path")?;
        for lun in 0..luns {
            File::create(folder.path().join(format!("lun{lun}")))?.set_len(bytes)?;
        }
        let file = folder.path().join("istgt.conf");
        fs::write(&file, configuration(place, portal, (luns, bytes)))?;
        let file = file.to_str().context("a printable path")?;
        let mut daemon = Running::start(Path::new("istgt"), &["-D", "-c", file])?;
        listens(&mut daemon, portal)?;
        Ok(Self { daemon, _folder: folder, portal, luns })
    }

    /// The daemon.
    pub fn process_id(&self) -> u32 {
        self.daemon.process_id()
    }

    /// Addresses of its LUNs.
    pub fn urls(&self) -> Vec<String> {
        let url = |lun| format!("iscsi://{}/{BASE}:{TARGET}/{lun}", self.portal);
        (0..self.luns).map(url).collect()
    }
}

fn listens(daemon: &mut Running, portal: SocketAddr) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while TcpStream::connect(portal).is_err() {
        if !daemon.is_running()? || Instant::now() > deadline {
            bail!("istgt does not listen; is the package installed?");
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn configuration(folder: &str, portal: SocketAddr, (luns, bytes): (u32, u64)) -> String {
    let mut text = format!(
        "[Global]\n  NodeBase {BASE}\n  PidFile {folder}/pid\n  AuthFile {folder}/auth\n  \
         MediaDirectory {folder}\n  DiscoveryAuthMethod None\n  Timeout 30\n  NopInInterval 20\n  \
         MaxSessions 16\n  MaxConnections 4\n\
         [UnitControl]\n  AuthMethod None\n  Netmask 127.0.0.1\n\
         [PortalGroup1]\n  Portal P1 {portal}\n\
         [InitiatorGroup1]\n  InitiatorName \"ALL\"\n  Netmask ALL\n\
         [LogicalUnit1]\n  TargetName {TARGET}\n  Mapping PortalGroup1 InitiatorGroup1\n  \
         AuthMethod None\n  UseDigest Auto\n  UnitType Disk\n"
    );
    for lun in 0..luns {
        let size = bytes >> 20;
        let line = writeln!(text, "  LUN{lun} Storage {folder}/lun{lun} {size}MB");
        line.expect("a string takes what is written");
    }
    text
}
