//! The Cinder driver: Cinder's compliance tests, life and faults of volumes, cinderlib, os-brick, cinder-volume, each with a gantryd of its own.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::Result;

use crate::{process, workspace};

/// Runs the driver's suite, which makes Python environments beside the binaries and installs Cinder
/// there.
pub(super) fn test(binaries: &Path) -> Result<()> {
    let suite = workspace::root().join("integrations/cinder/tests/suite/run.py");
    let folder = binaries.join("cinder");
    std::fs::create_dir_all(&folder)?;
    let variables: [(&str, &OsStr); 1] = [("GANTRY_BIN_DIR", binaries.as_os_str())];
    process::run_with("python3", &[&suite, &folder], &variables)
}
