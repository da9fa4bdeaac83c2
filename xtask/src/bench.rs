//! Measures the data path: one run, interleaved rounds, server on one core and client on another.

mod ceph;
mod client;
mod engine;
mod host_kit;
mod latency;
mod limits;
mod management;
mod mirror;
mod peers;
mod report;
mod statistics;
mod subjects;

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};

use crate::{setup, test, workspace};
use client::{Client, Load, Measured};
pub(crate) use statistics::run as run_statistics;
use subjects::Subjects;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    part: Option<Part>,
    /// Rounds over everything; the median of them counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of one measurement.
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Measure gantry-host against libiscsi's iscsi-perf instead.
    #[arg(long)]
    host_kit: bool,
    /// Measure the release binaries that are there.
    #[arg(long, requires = "host_kit")]
    no_build: bool,
    /// Measure and print, but leave docs/benchmarks.md and .json alone.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Measure the pool engine on an image of a Ceph cluster beside fio, and write docs/benchmarks-ceph.md.
    Ceph(ceph::Options),
    /// Measure the pool engine alone, against the raw file, and write docs/benchmarks-engine.md.
    Engine(engine::Options),
    /// Measure reads, writes and locks beside offloads, and write docs/benchmarks-latency.md.
    Latency(latency::Options),
    /// Measure a victim's reads beside a neighbour with a limit (QoS) and without, and write
    /// docs/benchmarks-limits.md.
    Limits(limits::Options),
    /// Measure a host's reads while clients repeat each route of the management interface.
    Management(management::Options),
    /// Measure durable writes to mirrors, and a resilver, and write docs/benchmarks-mirror.md.
    Mirror(mirror::Options),
    /// Measure our daemon beside SPDK, tgt, the wire and the raw file, one usual session.
    Peers(peers::Options),
}

/// Where a load runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// Our daemon on a memory device.
    Memory,
    /// Our daemon on a file.
    File,
    /// tgt of the distribution on a file, opened with O_SYNC.
    Tgt,
    /// A minimal TCP server: 48 bytes there, 4 KiB back.
    Wire,
    /// The file through io_uring, with the daemon's flush discipline.
    Raw,
}

/// What is measured where, in the order of the report.
const MEASUREMENTS: [(Load, &[Subject]); 4] = [
    (
        Load::RandomRead,
        &[Subject::Memory, Subject::File, Subject::Tgt, Subject::Wire, Subject::Raw],
    ),
    (Load::DurableRandomWrite, &[Subject::Memory, Subject::File, Subject::Tgt, Subject::Raw]),
    (Load::ExtendedCopy, &[Subject::Memory, Subject::File]),
    (Load::WriteSame, &[Subject::Memory, Subject::File]),
];

/// All measurements of one load on one subject.
pub(crate) type Results = BTreeMap<(Load, Subject), Vec<Measured>>;

/// Measures, prints, and writes the page.
pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.part {
        Some(Part::Ceph(options)) => return ceph::run(options),
        Some(Part::Engine(options)) => return engine::run(options),
        Some(Part::Latency(options)) => return latency::run(options),
        Some(Part::Limits(options)) => return limits::run(options),
        Some(Part::Management(options)) => return management::run(options),
        Some(Part::Mirror(options)) => return mirror::run(options),
        Some(Part::Peers(options)) => return peers::run(options),
        None => {}
    }
    ensure!(options.rounds > 0 && options.seconds > 0, "nothing to measure");
    if options.host_kit {
        return host_kit::measure(options);
    }
    setup::run()?;
    test::build()?;
    let folder = tempfile::Builder::new().prefix("gantry-bench-").tempdir()?;
    let client = Client::new(&workspace::release_folder(), options.seconds);
    let mut subjects = Subjects::start(folder.path(), &client)?;
    let mut results = Results::new();
    for round in 1..=options.rounds {
        for (load, where_) in MEASUREMENTS {
            for &subject in where_ {
                eprint!("round {round} of {}: {load:?} on {subject:?}: ", options.rounds);
                let measured = subjects
                    .measure(&client, load, subject)
                    .with_context(|| format!("{load:?} on {subject:?}"))?;
                terminal::complain!("{:.0} per second", measured.per_second);
                results.entry((load, subject)).or_default().push(measured);
            }
        }
    }
    let page = report::page(&results, options);
    terminal::say!("{page}");
    if !options.dry_run {
        fs::write(workspace::root().join("docs/benchmarks.md"), &page)?;
        let json = serde_json::to_string_pretty(&report::json(&results))? + "\n";
        fs::write(workspace::root().join("docs/benchmarks.json"), json)?;
    }
    Ok(())
}
