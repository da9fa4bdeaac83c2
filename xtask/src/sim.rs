//! Runs the simulator, optimised.

use anyhow::Result;

use crate::process;

/// Passes the arguments on to gantry-sim.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut all: Vec<String> =
        ["run", "--quiet", "--release", "--package", "sim", "--bin", "gantry-sim", "--"]
            .map(str::to_owned)
            .to_vec();
    all.extend_from_slice(arguments);
    process::run(&process::cargo(), &all)
}
