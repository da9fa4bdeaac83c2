//! Soak test: a day's work of hosts in little time.

use std::ffi::OsStr;

use anyhow::Result;
use clap::Args;

use crate::process;
use crate::test;
use crate::workspace;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How long sessions come, go, fail and recover under verified I/O, in seconds.
    #[arg(long, default_value_t = 600)]
    seconds: u32,
    /// How often a volume is created, mapped, resized, unmapped and deleted beside verified I/O.
    #[arg(long, default_value_t = 1000)]
    cycles: u32,
}

/// Builds, then runs both and shows their figures.
pub(crate) fn run(options: &Options) -> Result<()> {
    test::build()?;
    let (seconds, cycles) = (options.seconds.to_string(), options.cycles.to_string());
    let folder = workspace::release_folder();
    let variables: [(&str, &OsStr); 3] = [
        ("GANTRY_BIN_DIR", folder.as_os_str()),
        ("GANTRY_SOAK_SECONDS", seconds.as_ref()),
        ("GANTRY_TEST_CYCLES", cycles.as_ref()),
    ];
    for (test, case) in [("soak", "after_much_work"), ("sessions", "changes_disturb_nobody_else")] {
        let package = ["test", "--release", "--package", "harness", "--test", test];
        let arguments = [&package[..], &["--", "--nocapture", case]].concat();
        process::run_with(&process::cargo(), &arguments, &variables)?;
    }
    Ok(())
}
