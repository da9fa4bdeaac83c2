//! Linearizability test, long run: many clients, one order.

use std::ffi::OsStr;

use anyhow::Result;
use clap::Args;

use crate::process;
use crate::test;
use crate::workspace;

/// Commands of all clients in one round.
const OPERATIONS_PER_ROUND: u64 = 6_400;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many operations to record and check, at least; a million take about ten minutes.
    #[arg(long, default_value_t = 1_000_000)]
    operations: u64,
}

/// Builds the daemon and runs the test with as many rounds as it takes.
pub(crate) fn run(options: &Options) -> Result<()> {
    test::build()?;
    // Commands that only brought a unit attention are not recorded: a twentieth, at most.
    let rounds = (options.operations + options.operations / 20).div_ceil(OPERATIONS_PER_ROUND);
    let rounds = rounds.to_string();
    let folder = workspace::release_folder();
    let variables: [(&str, &OsStr); 2] =
        [("GANTRY_BIN_DIR", folder.as_os_str()), ("GANTRY_HISTORY_ROUNDS", OsStr::new(&rounds))];
    let arguments = ["test", "--release", "--package", "harness", "--test", "history", "--"];
    let arguments = [&arguments[..], &["--nocapture"]].concat();
    process::run_with(&process::cargo(), &arguments, &variables)
}
