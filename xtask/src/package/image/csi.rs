//! OCI image of the CSI driver for Kubernetes: its program, linked statically, and Debian's programs for file systems.
//!
//! open-iscsi and multipath are the machine's own: its kernel has one database of sessions and one of maps.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{TAG, debian, pack};
use crate::package::strip;
use crate::{process, workspace};

/// What the node's part formats, checks, mounts and grows with, and 'chroot' for the machine's
/// programs.
const PACKAGES: &str =
    "base-files,btrfs-progs,ca-certificates,coreutils,dash,e2fsprogs,mount,util-linux,xfsprogs";

/// What comes with these packages and nobody runs or reads there. Licences stay.
const UNUSED: [&str; 5] = [
    "usr/lib/python3",
    "usr/lib/python3.11",
    "usr/lib/python3.13",
    "usr/share/locale",
    "usr/share/man",
];

const MODULE: &str = "integrations/kubernetes";

/// The chart's file that names the image.
const VALUES: &str = "integrations/kubernetes/deploy/chart/gantry-csi/values.yaml";

/// Where the program is in the image.
const PROGRAM: &str = "usr/local/bin/gantry-csi";

/// Builds the image; returns its layout.
pub(crate) fn build(folder: &Path) -> Result<PathBuf> {
    check_chart()?;
    let root = folder.join("root");
    debian(&root, PACKAGES)?;
    for unused in UNUSED.map(|name| root.join(name)) {
        if unused.exists() {
            fs::remove_dir_all(unused)?;
        }
    }
    program("./cmd/gantry-csi", &root.join(PROGRAM))?;
    strip(&root.join(PROGRAM))?;
    let entry = format!("/{PROGRAM}");
    let path = "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let settings = ["--config.entrypoint", &entry, "--config.stopsignal", "SIGTERM"];
    let settings = [&settings[..], &["--config.env", path]].concat();
    pack(folder, &root, "Gantry CSI driver", &settings)
}

/// Builds a program of the driver's module without a C library.
pub(crate) fn program(package: &str, place: &Path) -> Result<()> {
    let module = workspace::root().join(MODULE);
    let module = module.to_str().context("a printable path")?;
    let place = place.to_str().context("a printable path")?;
    let flags = format!("-ldflags=-s -X main.version={TAG}");
    let words = ["-C", module, "build", "-trimpath", &flags, "-o", place, package];
    process::run_with("go", &words, &[("CGO_ENABLED", OsStr::new("0"))])
}

/// The chart names the image of this version.
fn check_chart() -> Result<()> {
    let line = format!("image: localhost/gantry-csi:{TAG}");
    let values = fs::read_to_string(workspace::root().join(VALUES))?;
    if !values.lines().any(|found| found == line) {
        bail!("{VALUES} has no line '{line}', and the manifests are made from it");
    }
    Ok(())
}
