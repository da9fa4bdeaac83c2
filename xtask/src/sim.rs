//! Builds and runs the simulator.

use anyhow::Result;

use crate::process;

/// Passes the arguments on to gantry-sim, optimised.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    run_in("release", arguments)
}

/// Passes the arguments on to gantry-sim, built in a profile.
pub(crate) fn run_in(profile: &str, arguments: &[String]) -> Result<()> {
    let head =
        ["run", "--quiet", "--profile", profile, "--package", "sim", "--bin", "gantry-sim", "--"];
    process::run(&process::cargo(), &[&head.map(str::to_owned), arguments].concat())
}
