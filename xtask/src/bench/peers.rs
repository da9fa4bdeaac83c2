//! Comparison benchmark: our daemon beside SPDK, tgt, the bare wire and the raw file, in one run,
//! with one client for all that behaves as a usual host: it sends each command by itself.

mod report;
mod servers;
mod tgt;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use harness::Value;
use harness::program::run as run_program;

use super::report::publish;
use crate::{setup, test, workspace};
use servers::{Lun, Peer, Servers};

const PAGE: &str = "docs/benchmarks-peers.md";

/// Beyond the measured seconds: for connecting, and for filling.
const GRACE: Duration = Duration::from_secs(600);

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Rounds over everything; medians count.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of one measurement.
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// SPDK's build/bin/iscsi_tgt; without it SPDK is left out.
    #[arg(long)]
    spdk: Option<PathBuf>,
    /// Only measurements whose name contains this, for example 'random read'.
    #[arg(long, default_value = "")]
    only: String,
    /// Measure the release binaries that are there.
    #[arg(long)]
    no_build: bool,
    /// Measure and print, but leave the page alone.
    #[arg(long)]
    dry_run: bool,
}

/// What a client does, and where.
#[derive(Clone, Copy, Debug)]
struct Measurement {
    name: &'static str,
    /// Words of 'gantry-host lean'.
    words: &'static [&'static str],
    lun: Lun,
    /// The same on the bare wire: words of 'gantry-host wire-client', and bytes of an answer.
    wire: Option<(&'static [&'static str], usize)>,
    /// The same on the raw file: words of 'gantry-host raw'.
    raw: Option<&'static [&'static str]>,
    /// Whether it uses up the data that it works on, which are written again before each pass.
    consumes: bool,
}

impl Measurement {
    const fn on(lun: Lun, name: &'static str, words: &'static [&'static str]) -> Self {
        Self { name, words, lun, wire: None, raw: None, consumes: false }
    }

    const fn wire(self, words: &'static [&'static str], bytes: usize) -> Self {
        Self { wire: Some((words, bytes)), ..self }
    }

    const fn consuming(self) -> Self {
        Self { consumes: true, ..self }
    }

    const fn raw(self, words: &'static [&'static str]) -> Self {
        Self { raw: Some(words), ..self }
    }
}

const RANDOM_READ_32: &[&str] = &["--pattern", "randread", "--queue-depth", "32"];
const RANDOM_READ_1: &[&str] = &["--pattern", "randread", "--queue-depth", "1"];
const RANDOM_WRITE_32: &[&str] = &["--pattern", "randwrite", "--queue-depth", "32"];
const RANDOM_WRITE_1: &[&str] = &["--pattern", "randwrite", "--queue-depth", "1"];

const MEASUREMENTS: [Measurement; 14] = [
    Measurement::on(Lun::Data, "4 KiB random read, 1 × 32", RANDOM_READ_32)
        .wire(&["--queue-depth", "32"], 4096)
        .raw(RANDOM_READ_32),
    Measurement::on(Lun::Data, "4 KiB random read, 1 × 1", RANDOM_READ_1)
        .wire(&["--queue-depth", "1"], 4096)
        .raw(RANDOM_READ_1),
    Measurement::on(
        Lun::Data,
        "4 KiB random read, 4 × 32",
        &["--pattern", "randread", "--queue-depth", "32", "--sessions", "4"],
    )
    .wire(&["--queue-depth", "128", "--connections", "4"], 4096),
    Measurement::on(
        Lun::Data,
        "4 KiB random read, 64 × 4",
        &["--pattern", "randread", "--queue-depth", "4", "--sessions", "64"],
    ),
    Measurement::on(
        Lun::Data,
        "4 KiB random read with digests, 1 × 32",
        &["--pattern", "randread", "--queue-depth", "32", "--digests"],
    ),
    Measurement::on(Lun::Data, "4 KiB random write, 1 × 32", RANDOM_WRITE_32).raw(RANDOM_WRITE_32),
    Measurement::on(Lun::Data, "4 KiB random write, 1 × 1", RANDOM_WRITE_1).raw(RANDOM_WRITE_1),
    Measurement::on(
        Lun::Data,
        "4 KiB mixed 70/30, 4 × 32",
        &["--pattern", "mixed", "--queue-depth", "32", "--sessions", "4"],
    ),
    Measurement::on(
        Lun::Data,
        "128 KiB sequential read, 1 × 8",
        &["--pattern", "read", "--queue-depth", "8"],
    )
    .wire(&["--queue-depth", "8"], 131_072),
    Measurement::on(
        Lun::Data,
        "128 KiB sequential write, 1 × 8",
        &["--pattern", "write", "--queue-depth", "8"],
    ),
    Measurement::on(
        Lun::Locks,
        "COMPARE AND WRITE of 512 bytes, 1 × 8",
        &["--pattern", "caw", "--queue-depth", "8", "--span", "64M"],
    ),
    Measurement::on(
        Lun::Offloads,
        "EXTENDED COPY of 4 MiB, 1 × 4",
        &["--pattern", "xcopy", "--queue-depth", "4", "--span", "256M"],
    ),
    Measurement::on(
        Lun::Offloads,
        "WRITE SAME of zeros, 1 MiB of data, 1 × 4",
        &["--pattern", "writesame", "--queue-depth", "4", "--span", "1G"],
    )
    .consuming(),
    Measurement::on(
        Lun::Offloads,
        "UNMAP of 1 MiB of data, 1 × 4",
        &["--pattern", "unmap", "--queue-depth", "4", "--span", "1G"],
    )
    .consuming(),
];

/// One measurement.
#[derive(Clone, Copy, Debug)]
struct Measured {
    per_second: f64,
    /// Microseconds; the wire and the raw file do not tell them.
    latency: Option<Latency>,
    /// User and system time of the server per command, microseconds.
    server_cpu_us: Option<f64>,
    /// Share of its processor that the client used.
    client_busy: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Latency {
    p50: f64,
    p99: f64,
}

/// What came of a measurement at a peer, round by round: figures, or why there are none.
type Results = BTreeMap<(usize, Peer), Vec<Result<Measured, String>>>;

/// Measures, prints, and writes the page.
pub(super) fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0 && options.seconds > 0, "nothing to measure");
    setup::run()?;
    if !options.no_build {
        test::build()?;
    }
    let folder = tempfile::Builder::new().prefix("gantry-bench-").tempdir()?;
    let mut servers = Servers::start(folder.path(), options.spdk.as_deref())?;
    let mut results = Results::new();
    for round in 1..=options.rounds {
        for (number, measurement) in MEASUREMENTS.iter().enumerate() {
            if !measurement.name.contains(&options.only) {
                continue;
            }
            for peer in servers.peers() {
                let measured = servers.measure(peer, measurement, options.seconds)?;
                terminal::complain!(
                    "round {round} of {}: {} on {}: {measured:?}",
                    options.rounds,
                    measurement.name,
                    peer.words(),
                );
                if let Some(measured) = measured {
                    results.entry((number, peer)).or_default().push(measured);
                }
            }
        }
    }
    let page = report::page(&results, &servers.about(), options);
    publish(&page, PAGE, options.dry_run)
}

/// Runs gantry-host on core 1.
fn client(words: &[&str], seconds: u32) -> Result<Value> {
    let program = workspace::release_folder().join("gantry-host");
    let program = program.to_str().context("a printable path")?;
    let words = [&["-c", "1", program], words, &["--json"]].concat();
    let timeout = GRACE + Duration::from_secs(seconds.into());
    let printed = run_program(Path::new("taskset"), &words, timeout)?.success()?;
    serde_json::from_str(&printed).with_context(|| format!("not JSON: {printed}"))
}
