//! The Ceph cluster that `cargo xtask test --ceph` starts.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::program;

/// The cluster's configuration file.
///
/// # Errors
/// When there is no cluster.
pub fn conf() -> Result<String> {
    std::env::var("GANTRY_TEST_CEPH_CONF").context("'cargo xtask test --ceph' names the cluster")
}

/// Runs a program of the cluster's.
///
/// # Errors
/// When it fails.
pub fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let conf = conf()?;
    let arguments = [&["-c", &conf], arguments].concat();
    program::run(Path::new(program), &arguments, Duration::from_secs(120))?.success()
}

/// A new image, as the name of a device.
///
/// # Errors
/// When the cluster does not make it.
pub fn image(name: &str, size: &str) -> Result<String> {
    run("rbd", &["create", "--size", size, &format!("rbd/{name}")])?;
    Ok(format!("rbd:rbd/{name}?conf={}", conf()?))
}
