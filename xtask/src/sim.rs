//! Builds and runs the simulator.

use anyhow::Result;

use crate::{process, test};

/// Passes the arguments on to gantry-sim, optimised.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let head = ["run", "--quiet", "--release", "--package", "sim", "--bin", "gantry-sim", "--"];
    process::run(&process::cargo(), &[&head.map(str::to_owned), arguments].concat())
}

/// Passes them on to the one that was built with the tests.
pub(crate) fn run_built(arguments: &[&str]) -> Result<()> {
    process::run(&test::tested_folder().join("gantry-sim").display().to_string(), arguments)
}
