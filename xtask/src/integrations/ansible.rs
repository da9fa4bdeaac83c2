//! The Ansible collection: ansible-test sanity, ansible-test integration and scenarios, each with a gantryd of its own.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::Result;

use crate::{process, workspace};

/// Runs the collection's suite, which makes a Python environment beside the binaries and installs
/// ansible-core there.
pub(super) fn test(binaries: &Path) -> Result<()> {
    let suite = workspace::root().join("integrations/ansible/tests/suite/run.py");
    let folder = binaries.join("ansible");
    std::fs::create_dir_all(&folder)?;
    let variables: [(&str, &OsStr); 1] = [("GANTRY_BIN_DIR", binaries.as_os_str())];
    process::run_with("python3", &[&suite, &folder], &variables)
}
