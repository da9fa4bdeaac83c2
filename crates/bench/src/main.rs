//! Measures the pool engine: processor time without devices, and speed on files.

#![forbid(unsafe_code)]

mod changes;
mod engine;
mod files;
mod image;
mod mirror;
mod pool;
mod report;
mod terabytes;

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;

use report::Report;

/// Measures the pool engine and prints a page.
#[derive(Debug, Parser)]
struct Options {
    /// Where files of up to some gigabytes may be made.
    #[arg(long, default_value = ".")]
    folder: PathBuf,
    /// Seconds of each measurement on files.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Rounds over the measurements on files; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Bytes of a volume whose map does not fit in memory, in GiB.
    #[arg(long, default_value_t = 4)]
    cold_gib: u64,
    /// Measure what a mirror costs, and nothing else.
    #[arg(long)]
    mirror: bool,
    /// Measure what comparing snapshots costs, and nothing else.
    #[arg(long, conflicts_with = "mirror")]
    changes: bool,
    /// Measure on the images 'engine' and 'fio' of that pool of a Ceph cluster, which lose what is in them, and nothing
    /// else. CEPH_CONF names its configuration.
    #[arg(long, value_name = "POOL", conflicts_with_all = ["mirror", "changes"])]
    ceph: Option<String>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let folder = tempfile::Builder::new().prefix("gantry-bench-").tempdir_in(&options.folder)?;
    let mut report = Report::default();
    if let Some(pool) = &options.ceph {
        image::measure(&mut report, pool, &options)?;
    } else if options.mirror {
        mirror::measure(&mut report, folder.path(), &options)?;
    } else if options.changes {
        changes::measure(&mut report)?;
    } else {
        engine::measure(&mut report);
        terabytes::measure(&mut report)?;
        changes::measure(&mut report)?;
        files::measure(&mut report, folder.path(), &options)?;
    }
    terminal::say!("{report}");
    Ok(())
}
