//! Engine on an image of a Ceph cluster that is started for it, beside fio (`gantry-bench --ceph`).

use anyhow::{Result, ensure};
use clap::Args;

use super::report::{machine, publish};
use crate::ceph_cluster::Cluster;
use crate::{process, setup, workspace};

const PAGE: &str = "docs/benchmarks-ceph.md";

/// The pool of the cluster.
const POOL: &str = "rbd";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rounds; medians count.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of one measurement.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Measure and print, but leave the page alone.
    #[arg(long)]
    dry_run: bool,
}

/// Measures, prints, and writes the page.
pub(super) fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0 && options.seconds > 0, "nothing to measure");
    setup::for_ceph()?;
    setup::for_fio()?;
    let build = ["build", "--quiet", "--release", "--package", "bench"];
    process::run(&process::cargo(), &build)?;
    let cluster = Cluster::start()?;
    // The engine has none.
    cluster.configure("rbd cache = false")?;
    cluster.create_image(POOL, "engine", "2G")?;
    cluster.create_image(POOL, "fio", "1G")?;
    let (rounds, seconds) = (options.rounds.to_string(), options.seconds.to_string());
    let program = workspace::release_folder().join("gantry-bench").display().to_string();
    let conf = format!("CEPH_CONF={}", cluster.conf().display());
    let words = [&conf, &program, "--ceph", POOL, "--rounds", &rounds, "--seconds", &seconds];
    let table = process::output("env", &words)?;
    cluster.stop()?;
    let page = page(&table, options);
    publish(&page, PAGE, options.dry_run)
}

fn page(table: &str, options: &Options) -> String {
    format!(
        "# Benchmarks on an image of a Ceph cluster\n\n\
         Written by `cargo xtask bench ceph`: the pool engine alone on an image, and fio (its engine rbd) on another \
         image of the same pool, written from end to end before, both without librbd's cache, with as many writes to \
         each flush as the engine made in the same round; interleaved, {} rounds of {} s, medians of figures and of \
         ratios within a round. The cluster, a monitor and three OSDs that keep objects in memory and three copies of \
         each, runs on the same processors as both, so that figures say nothing of a real one; ratios say what the \
         engine costs. {}.\n\n{}\n",
        options.rounds,
        options.seconds,
        machine(),
        table.trim_end()
    )
}
