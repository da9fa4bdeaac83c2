//! The servers of a comparison, each on core 0; one that polls is stopped while others are measured.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use harness::array::free_address;
use harness::program::Running;
use harness::{Array, Value};

use super::super::subjects::cpu_seconds;
use super::tgt::Tgt;
use super::{Latency, Measured, Measurement, client};
use crate::spdk::{self, Spdk};
use crate::workspace;

/// Bytes of the LUN that is written full with data.
pub(super) const DATA_BYTES: u64 = 1 << 30;

/// Bytes of the LUN that takes copies and zeros.
pub(super) const OFFLOADS_BYTES: u64 = 1 << 30;

/// Bytes of the LUN of zeros on which COMPARE AND WRITE works.
pub(super) const LOCKS_BYTES: u64 = 1 << 26;

/// LUNs of SPDK, in the order of [`Urls`].
const SPDK_LUNS: [(&str, u64); 3] =
    [("data", DATA_BYTES), ("offloads", OFFLOADS_BYTES), ("locks", LOCKS_BYTES)];

/// Size of Gantry's pools: the LUNs, and as much again for blocks that are replaced.
const POOL_SIZE: &str = "4G";

/// How often the LUN of data is written full, so that each block of the pool was written once: the
/// engine never overwrites in place, and the first touch of a page of memory, or of a block that a
/// file system only set aside, costs the machine more than the command does. A target that
/// overwrites in place is past that with the first round.
const GANTRY_ROUNDS: u32 = 5;

/// How often a LUN is written full, and its blocks are zeroed or unmapped, in one measurement.
const PASSES: u32 = 3;

/// A LUN of every server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lun {
    /// Written full with data.
    Data,
    /// Takes copies, zeros and UNMAP.
    Offloads,
    /// Zeros.
    Locks,
}

/// Who is measured, in the order of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peer {
    GantryMemory,
    SpdkPolling,
    SpdkInterrupt,
    TgtMemory,
    Wire,
    GantryFile,
    SpdkFile,
    TgtFile,
    RawFile,
}

impl Peer {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::GantryMemory => "gantryd, memory",
            Self::SpdkPolling => "SPDK polling, malloc",
            Self::SpdkInterrupt => "SPDK interrupt mode, malloc",
            Self::TgtMemory => "tgt, file on tmpfs",
            Self::Wire => "bare wire",
            Self::GantryFile => "gantryd, file (durable)",
            Self::SpdkFile => "SPDK, uring on a file (no flush)",
            Self::TgtFile => "tgt, aio on a file (no flush)",
            Self::RawFile => "raw file, io_uring (writes with flush)",
        }
    }
}

/// URLs of a server's LUNs.
#[derive(Debug)]
pub(super) struct Urls {
    pub(super) data: String,
    pub(super) offloads: String,
    pub(super) locks: String,
}

impl Urls {
    /// Of three LUNs in this order.
    fn in_order(urls: &[String]) -> Self {
        let [data, offloads, locks] = [0, 1, 2].map(|lun| urls[lun].clone());
        Self { data, offloads, locks }
    }

    fn of(&self, lun: Lun) -> &str {
        match lun {
            Lun::Data => &self.data,
            Lun::Offloads => &self.offloads,
            Lun::Locks => &self.locks,
        }
    }
}

struct Gantry {
    array: Array,
    urls: Urls,
}

struct Wire {
    server: Running,
    address: SocketAddr,
    bytes: usize,
}

pub(super) struct Servers {
    memory: Gantry,
    file: Gantry,
    spdk: Option<[Spdk; 3]>,
    tgt: Tgt,
    wires: [Wire; 2],
    raw: PathBuf,
}

impl Servers {
    /// Starts all of them and writes their first LUN full.
    pub(super) fn start(folder: &Path, spdk: Option<&Path>) -> Result<Self> {
        let raw = folder.join("raw.img");
        let path = raw.to_str().context("a printable path")?;
        File::create(&raw)?.set_len(DATA_BYTES)?;
        client(&["raw", path, "--length", &DATA_BYTES.to_string()], 0)?;
        let device = format!("file:{}", folder.join("pool.img").display());
        let servers = Self {
            memory: Gantry::start(&folder.join("memory"), "memory:")?,
            file: Gantry::start(&folder.join("file"), &device)?,
            tgt: Tgt::start(folder)?,
            wires: [Wire::start(4096)?, Wire::start(131_072)?],
            raw,
            spdk: spdk.map(|program| Self::start_spdk(program, folder)).transpose()?,
        };
        for _ in 0..GANTRY_ROUNDS {
            fill(&servers.memory.urls.data, DATA_BYTES)?;
            fill(&servers.file.urls.data, DATA_BYTES)?;
        }
        for urls in [servers.tgt.memory(), servers.tgt.file()] {
            fill(&urls.data, DATA_BYTES)?;
        }
        for spdk in servers.spdk.iter().flatten() {
            spdk.while_awake(|| fill(&spdk.urls[0], DATA_BYTES))?;
        }
        Ok(servers)
    }

    fn start_spdk(program: &Path, folder: &Path) -> Result<[Spdk; 3]> {
        let start = |mode, name: &str| -> Result<Spdk> {
            let spdk = Spdk::start(program, &folder.join(name), mode, &SPDK_LUNS)?;
            spdk.sleep()?;
            Ok(spdk)
        };
        Ok([
            start(spdk::Mode::Polling, "spdk-polling")?,
            start(spdk::Mode::Interrupt, "spdk-interrupt")?,
            start(spdk::Mode::File, "spdk-file")?,
        ])
    }

    /// Who is there.
    pub(super) fn peers(&self) -> Vec<Peer> {
        let all = [
            Peer::GantryMemory,
            Peer::SpdkPolling,
            Peer::SpdkInterrupt,
            Peer::TgtMemory,
            Peer::Wire,
            Peer::GantryFile,
            Peer::SpdkFile,
            Peer::TgtFile,
            Peer::RawFile,
        ];
        all.into_iter().filter(|peer| self.spdk.is_some() || !peer.is_spdk()).collect()
    }

    /// What the peers say of their versions.
    pub(super) fn about(&self) -> Vec<String> {
        let spdk = self.spdk.as_ref().map(|[polling, ..]| polling.version.clone());
        [Some(self.tgt.version.clone()), spdk].into_iter().flatten().collect()
    }

    /// Measures; nothing if the peer has nothing of that kind, a text if it failed.
    pub(super) fn measure(
        &mut self,
        peer: Peer,
        measurement: &Measurement,
        seconds: u32,
    ) -> Result<Option<Result<Measured, String>>> {
        let (process, words) = match peer {
            Peer::Wire => {
                let Some((words, bytes)) = measurement.wire else { return Ok(None) };
                let wire = self.wires.iter().find(|wire| wire.bytes == bytes);
                let wire = wire.context("no wire answers with so many bytes")?;
                (Some(wire.server.process_id()), wire.words(words))
            }
            Peer::RawFile => {
                let Some(words) = measurement.raw else { return Ok(None) };
                let path = self.raw.to_str().context("a printable path")?;
                (None, [&["raw", path], words].concat().iter().map(|&w| w.to_owned()).collect())
            }
            Peer::GantryMemory => {
                lean(self.memory.array.process_id()?, &self.memory.urls, measurement)
            }
            Peer::GantryFile => lean(self.file.array.process_id()?, &self.file.urls, measurement),
            Peer::TgtMemory => lean(self.tgt.process_id(), self.tgt.memory(), measurement),
            Peer::TgtFile => lean(self.tgt.process_id(), self.tgt.file(), measurement),
            Peer::SpdkPolling | Peer::SpdkInterrupt | Peer::SpdkFile => {
                let spdk = self.spdk(peer)?;
                let (process, words) =
                    lean(spdk.process_id(), &Urls::in_order(&spdk.urls), measurement);
                return spdk
                    .while_awake(|| Ok(Some(measure(process, &words, measurement, seconds))))
                    .map(flatten);
            }
        };
        Ok(flatten(Some(measure(process, &words, measurement, seconds))))
    }

    fn spdk(&self, peer: Peer) -> Result<&Spdk> {
        let all = self.spdk.as_ref().context("SPDK does not run")?;
        Ok(&all[usize::from(peer == Peer::SpdkInterrupt) + 2 * usize::from(peer == Peer::SpdkFile)])
    }
}

impl Peer {
    fn is_spdk(self) -> bool {
        matches!(self, Self::SpdkPolling | Self::SpdkInterrupt | Self::SpdkFile)
    }
}

fn flatten(measured: Option<Result<Measured>>) -> Option<Result<Measured, String>> {
    measured.map(|result| result.map_err(|error| format!("{error:#}")))
}

/// Words for a measurement at a server that speaks iSCSI.
fn lean(process: u32, urls: &Urls, measurement: &Measurement) -> (Option<u32>, Vec<String>) {
    let url = urls.of(measurement.lun);
    let mut words = vec!["lean"];
    if measurement.words.contains(&"xcopy") {
        words.extend([urls.data.as_str(), "--url2"]);
    }
    words.push(url);
    words.extend(measurement.words);
    (Some(process), words.into_iter().map(str::to_owned).collect())
}

fn measure(
    process: Option<u32>,
    words: &[String],
    measurement: &Measurement,
    seconds: u32,
) -> Result<Measured> {
    let time = seconds.to_string();
    let words: Vec<&str> = words.iter().map(String::as_str).chain(["--seconds", &time]).collect();
    if !measurement.consumes {
        return Ok(pass(process, &words, seconds)?.measured());
    }
    let (url, words) = (words[1], [&words[..], &["--once"]].concat());
    let mut sum: Option<Pass> = None;
    for _ in 0..PASSES {
        fill(url, OFFLOADS_BYTES)?;
        let pass = pass(process, &words, seconds)?;
        sum = Some(sum.map_or(pass, |sum| sum.and(pass)));
    }
    Ok(sum.context("no pass")?.measured())
}

/// A run of the client.
#[derive(Clone, Copy, Debug)]
struct Pass {
    operations: f64,
    seconds: f64,
    latency: Option<Latency>,
    spent: Option<f64>,
    client_busy: Option<f64>,
}

impl Pass {
    /// Both together; the latency is the last one's.
    fn and(self, next: Self) -> Self {
        let spent = self.spent.zip(next.spent).map(|(before, now)| before + now);
        let (operations, seconds) =
            (self.operations + next.operations, self.seconds + next.seconds);
        Self { operations, seconds, spent, ..next }
    }

    fn measured(self) -> Measured {
        Measured {
            per_second: self.operations / self.seconds,
            latency: self.latency,
            server_cpu_us: self.spent.map(|spent| spent * 1e6 / self.operations.max(1.0)),
            client_busy: self.client_busy,
        }
    }
}

fn pass(process: Option<u32>, words: &[&str], seconds: u32) -> Result<Pass> {
    let before = process.map(cpu_seconds).transpose()?;
    let answer = client(words, seconds)?;
    let after = process.map(cpu_seconds).transpose()?;
    let latency = |name| number(&answer, name);
    let latency = latency("p50_us").zip(latency("p99_us")).map(|(p50, p99)| Latency { p50, p99 });
    let per_second = number(&answer, "per_second").context("no rate")?;
    // The bare wire tells its rate alone.
    let time = number(&answer, "seconds").unwrap_or_else(|| f64::from(seconds));
    Ok(Pass {
        operations: number(&answer, "operations").unwrap_or(per_second * time),
        seconds: time,
        latency,
        spent: after.zip(before).map(|(after, before)| after - before),
        client_busy: number(&answer, "client_busy"),
    })
}

fn number(answer: &Value, name: &str) -> Option<f64> {
    answer[name].as_f64()
}

fn fill(url: &str, bytes: u64) -> Result<()> {
    client(&["fill", url, "--length", &bytes.to_string()], 0).map(drop)
}

impl Gantry {
    fn start(data: &Path, device: &str) -> Result<Self> {
        let mut array = Array::at(data, free_address()?)?
            .with_binaries(&workspace::release_folder())
            .with_words(&["taskset", "-c", "0"], &[]);
        array.restart()?;
        array.gantry(&["pool", "create", "p", "--device", device, "--size", POOL_SIZE])?;
        let lun =
            |path: &str, bytes: u64| array.lun_url(array.create_lun(path, &bytes.to_string())?);
        let urls = Urls {
            data: lun("p/data", DATA_BYTES)?,
            offloads: lun("p/offloads", OFFLOADS_BYTES)?,
            locks: lun("p/locks", LOCKS_BYTES)?,
        };
        Ok(Self { array, urls })
    }
}

impl Wire {
    fn start(bytes: usize) -> Result<Self> {
        let address = free_address()?;
        let program = workspace::release_folder().join("gantry-host");
        let program = program.to_str().context("a printable path")?;
        let (listen, size) = (address.to_string(), bytes.to_string());
        let words = ["-c", "0", program, "wire-server", "--listen", &listen, "--bytes", &size];
        Ok(Self { server: Running::start(Path::new("taskset"), &words)?, address, bytes })
    }

    fn words(&self, load: &[&str]) -> Vec<String> {
        let (address, bytes) = (self.address.to_string(), self.bytes.to_string());
        let words = ["wire-client", &address, "--bytes", &bytes, "--sends", "each"];
        words.iter().chain(load).map(|&word| word.to_owned()).collect()
    }
}
