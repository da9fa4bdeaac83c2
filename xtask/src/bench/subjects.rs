//! Benchmark subjects: servers pinned to core 0, and a file.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use harness::Array;
use harness::array::free_address;
use harness::program::Running;
use harness::tgt::{control, free_control_port};

use super::Subject;
use super::client::{Client, Load, Measured, Place};
use crate::workspace;

/// The size of each LUN and file.
pub(super) const SPAN_BYTES: u64 = 1 << 30;

const POOL_SIZE: &str = "8G";
const TGT_NAME: &str = "iqn.2026-01.org.example:bench";

/// Clock ticks of /proc/PID/stat, per second; a constant of the kernel's interface.
const TICKS_PER_SECOND: f64 = 100.0;

pub(super) struct Subjects {
    memory: Daemon,
    file: Daemon,
    tgt: Tgt,
    wire: Wire,
    raw: PathBuf,
}

/// Our daemon with a LUN that has data and one that takes copies.
pub(super) struct Daemon {
    array: Array,
    url: String,
    copy_url: String,
}

struct Tgt {
    daemon: Running,
    url: String,
}

struct Wire {
    server: Running,
    address: SocketAddr,
}

impl Subjects {
    pub(super) fn start(folder: &Path, client: &Client) -> Result<Self> {
        let raw = folder.join("raw.img");
        File::create(&raw)?.set_len(SPAN_BYTES)?;
        client.prepare_file(&raw, SPAN_BYTES)?;
        let file = format!("file:{}", folder.join("pool.img").display());
        let subjects = Self {
            memory: Daemon::start(&folder.join("memory"), "memory:", &[])?,
            file: Daemon::start(&folder.join("file"), &file, &[])?,
            tgt: Tgt::start(folder)?,
            wire: Wire::start()?,
            raw,
        };
        for url in [&subjects.memory.url, &subjects.file.url, &subjects.tgt.url] {
            client.fill(url, SPAN_BYTES)?;
        }
        Ok(subjects)
    }

    pub(super) fn measure(
        &mut self,
        client: &Client,
        load: Load,
        subject: Subject,
    ) -> Result<Measured> {
        let (process, place) = match subject {
            Subject::Memory => return self.memory.measure(client, load),
            Subject::File => return self.file.measure(client, load),
            Subject::Tgt => (
                Some(self.tgt.daemon.process_id()),
                Place::Lun { data: &self.tgt.url, copy: &self.tgt.url },
            ),
            Subject::Wire => (Some(self.wire.server.process_id()), Place::Wire(self.wire.address)),
            Subject::Raw => (None, Place::File(&self.raw)),
        };
        let before = process.map(cpu_seconds).transpose()?;
        let mut measured = client.measure(load, place)?;
        if let (Some(process), Some(before)) = (process, before) {
            let spent = cpu_seconds(process)? - before;
            measured.server_cpu_us = Some(spent * 1e6 / measured.operations.max(1.0));
        }
        Ok(measured)
    }
}

impl Daemon {
    fn place(&self) -> Place<'_> {
        Place::Lun { data: &self.url, copy: &self.copy_url }
    }

    /// Measures a load, and what it costs the daemon.
    pub(super) fn measure(&self, client: &Client, load: Load) -> Result<Measured> {
        let process = self.array.process_id()?;
        let before = cpu_seconds(process)?;
        let measured = client.measure(load, self.place())?;
        let spent = cpu_seconds(process)? - before;
        Ok(Measured { server_cpu_us: Some(spent * 1e6 / measured.operations.max(1.0)), ..measured })
    }

    /// Writes data to the LUN that has data.
    pub(super) fn fill(&self, client: &Client) -> Result<()> {
        client.fill(&self.url, SPAN_BYTES)
    }

    pub(super) fn start(data: &Path, device: &str, arguments: &[&str]) -> Result<Self> {
        let mut array = Array::at(data, free_address()?)?
            .with_binaries(&workspace::release_folder())
            .with_words(&["taskset", "-c", "0"], arguments);
        array.restart()?;
        array.gantry(&["pool", "create", "p", "--device", device, "--size", POOL_SIZE])?;
        let create = |path: &str| array.lun_url(array.create_lun(path, &SPAN_BYTES.to_string())?);
        let (url, copy_url) = (create("p/data")?, create("p/copy")?);
        Ok(Self { array, url, copy_url })
    }
}

impl Tgt {
    fn start(folder: &Path) -> Result<Self> {
        let image = folder.join("tgt.img");
        File::create(&image)?.set_len(SPAN_BYTES)?;
        let portal = free_address()?;
        let address = format!("portal={portal}");
        let port = free_control_port()?;
        let words = ["-c", "0", "tgtd", "-f", "-C", &port, "--iscsi", &address];
        let daemon = Running::start(Path::new("taskset"), &words)?;
        let image = image.to_str().context("a printable path")?;
        let target = ["--mode", "target", "--tid", "1"];
        control(&port, &[&["--op", "new"], &target[..], &["-T", TGT_NAME]].concat())?;
        let unit = ["--mode", "logicalunit", "--tid", "1", "--lun", "1", "--bsoflags", "sync"];
        control(&port, &[&["--op", "new"], &unit[..], &["-b", image]].concat())?;
        control(&port, &[&["--op", "bind"], &target[..], &["-I", "ALL"]].concat())?;
        Ok(Self { daemon, url: format!("iscsi://{portal}/{TGT_NAME}/1") })
    }
}

impl Wire {
    fn start() -> Result<Self> {
        let address = free_address()?;
        let program = workspace::release_folder().join("gantry-host");
        let program = program.to_str().context("a printable path")?;
        let words = ["-c", "0", program, "wire-server", "--listen", &address.to_string()]
            .map(str::to_owned);
        Ok(Self { server: Running::start(Path::new("taskset"), &words)?, address })
    }
}

/// User and system time of a process and its threads (proc(5), fields 14 and 15 of stat).
pub(super) fn cpu_seconds(process: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in parentheses may hold blanks; field 3 follows it.
    let (_, fields) = text.rsplit_once(") ").context("stat holds a name in parentheses")?;
    let fields: Vec<_> = fields.split(' ').collect();
    ensure!(fields.len() > 12, "stat has too few fields");
    let ticks = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    Ok(ticks / TICKS_PER_SECOND)
}
