//! Integrations with platforms: each one's own checks and test suites, against built binaries.

pub(crate) mod ansible;

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::{process, workspace};

/// The Kubernetes CSI driver: formatting, vet, unit tests, csi-sanity and the stress test, each with a
/// gantryd of its own. Go fetches the modules of go.sum, and a newer Go if go.mod wants one.
pub(crate) fn kubernetes(binaries: &Path) -> Result<()> {
    let folder = workspace::root().join("integrations/kubernetes");
    let folder = folder.to_str().context("the path of the work tree is not UTF-8")?;
    let misformatted = process::output("gofmt", &["-l", folder])?;
    if !misformatted.is_empty() {
        bail!("'gofmt -w' has not seen\n{misformatted}");
    }
    process::run("go", &["-C", folder, "vet", "./..."])?;
    let variables: [(&str, &OsStr); 1] = [("GANTRY_BIN_DIR", binaries.as_os_str())];
    process::run_with("go", &["-C", folder, "test", "./..."], &variables)
}
