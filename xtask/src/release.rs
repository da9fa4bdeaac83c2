//! Programs of the release before, built from git's history in target/upgrade: what an upgrade begins
//! with.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{process, workspace};

/// The commit of 0.1.0.
const COMMIT: &str = "f7b39bdeb00489f741236d652b46e3aa6a74f8f7";

/// Its packages that have the daemon and the command line.
const PACKAGES: [&str; 2] = ["gantry-server", "gantry-cli"];

/// Builds the programs unless they are there; returns their folder.
pub(crate) fn build() -> Result<PathBuf> {
    let folder = workspace::folder_of("upgrade");
    let (source, target) = (folder.join("source"), folder.join("target"));
    let programs = target.join("debug");
    if ["gantryd", "gantry"].iter().all(|name| programs.join(name).is_file()) {
        return Ok(programs);
    }
    take_out(&folder, &source)?;
    let manifest = source.join("Cargo.toml");
    let mut arguments: Vec<&OsStr> =
        ["build", "--quiet", "--locked", "--bins"].map(OsStr::new).to_vec();
    PACKAGES.iter().for_each(|name| arguments.extend(["--package", name].map(OsStr::new)));
    arguments.extend(["--manifest-path".as_ref(), manifest.as_os_str()]);
    arguments.extend(["--target-dir".as_ref(), target.as_os_str()]);
    process::run(&process::cargo(), &arguments).context("building the release 0.1.0")?;
    Ok(programs)
}

/// The source of the release, from git's history.
fn take_out(folder: &Path, source: &Path) -> Result<()> {
    if source.exists() {
        fs::remove_dir_all(source)?;
    }
    fs::create_dir_all(source)?;
    let archive = folder.join("source.tar");
    let output = format!("--output={}", archive.display());
    let shallow =
        "reading 0.1.0 from git's history: a shallow clone has none ('git fetch --unshallow')";
    process::run("git", &["archive", "--format=tar", &output, COMMIT]).context(shallow)?;
    let words: [&OsStr; 4] = ["-xf".as_ref(), archive.as_ref(), "-C".as_ref(), source.as_ref()];
    process::run("tar", &words)?;
    Ok(fs::remove_file(archive)?)
}
