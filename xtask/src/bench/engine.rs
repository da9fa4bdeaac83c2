//! The pool engine alone: `gantry-bench`, whose report becomes a page.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;

use super::report::{machine, publish};
use crate::process;

const PAGE: &str = "docs/benchmarks-engine.md";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rounds over the measurements on files; the median of them counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of one measurement on files.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// A folder on the disk to measure, with 16 GiB free; the system's temporary one by default.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Measure and print, but leave the page alone.
    #[arg(long)]
    dry_run: bool,
}

/// Measures, prints, and writes the page.
pub(super) fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0 && options.seconds > 0, "nothing to measure");
    let folder = options.folder.clone().unwrap_or_else(std::env::temp_dir);
    let (rounds, seconds) = (options.rounds.to_string(), options.seconds.to_string());
    let folder = folder.display().to_string();
    let cargo = ["run", "--quiet", "--release", "--package", "bench", "--"];
    let words = ["--rounds", &rounds, "--seconds", &seconds, "--folder", &folder];
    let table = process::output(&process::cargo(), &[&cargo[..], &words].concat())?;
    let page = page(&table, options);
    publish(&page, PAGE, options.dry_run)
}

fn page(table: &str, options: &Options) -> String {
    format!(
        "# Benchmarks of the pool engine\n\n\
         Written by `cargo xtask bench engine`: processor time without devices, then speed on a \
         file against the same file written in place with the same flushes; {} rounds of {} s, \
         medians. {}.\n\n{}\n",
        options.rounds,
        options.seconds,
        machine(),
        table.trim_end()
    )
}
