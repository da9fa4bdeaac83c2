//! Initiators and a reader of VMFS that others wrote, in other languages: fetched, and built as programs of
//! their own in target/foreign. Nothing of them is linked with ours.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{process, workspace};

/// Fetches and builds all of them; returns their folder.
pub(crate) fn build() -> Result<PathBuf> {
    let folder = workspace::folder_of("foreign");
    let sources = workspace::root().join("tests/foreign");
    java(&sources.join("jscsi"), &folder.join("jscsi"))?;
    rust(&sources.join("iscsi-client-rs"), &folder.join("iscsi-client-rs"))?;
    python(&folder.join("dissect"))?;
    Ok(folder)
}

/// dissect.vmfs of PyPI, and what it needs, in an environment of its own.
const DISSECT: [&str; 3] = ["dissect.vmfs==3.13", "dissect.cstruct==4.7", "dissect.util==3.24"];

fn python(folder: &Path) -> Result<()> {
    // Written at the end, so that an installation that was interrupted is done again.
    let installed = folder.join("installed");
    if std::fs::read_to_string(&installed).is_ok_and(|what| what == DISSECT.concat()) {
        return Ok(());
    }
    let place = folder.to_string_lossy();
    process::run("python3", &["-m", "venv", "--clear", &*place])?;
    let pip = folder.join("bin/pip");
    let words = [&["install", "--quiet"], &DISSECT[..]].concat();
    process::run(&pip.to_string_lossy(), &words).context("fetching dissect.vmfs")?;
    Ok(std::fs::write(installed, DISSECT.concat())?)
}

/// jSCSI, of Maven's central repository.
fn java(source: &Path, folder: &Path) -> Result<()> {
    let (jars, classes) = (folder.join("jars"), folder.join("classes"));
    if !jars.join("initiator-2.2.jar").exists() {
        let pom = source.join("pom.xml");
        let output = format!("-DoutputDirectory={}", jars.display());
        let arguments: [&OsStr; 6] = [
            "-q".as_ref(),
            "-B".as_ref(),
            "-f".as_ref(),
            pom.as_ref(),
            "dependency:copy-dependencies".as_ref(),
            output.as_ref(),
        ];
        process::run("mvn", &arguments).context("fetching jSCSI ('cargo xtask setup')")?;
    }
    let path = jars.join("*");
    let files = ["Driver.java", "CapacityResponseState.java"].map(|name| source.join(name));
    let arguments: [&OsStr; 6] = [
        "-d".as_ref(),
        classes.as_ref(),
        "-cp".as_ref(),
        path.as_ref(),
        files[0].as_ref(),
        files[1].as_ref(),
    ];
    process::run("javac", &arguments).context("compiling the driver for jSCSI")
}

/// iscsi-client-rs, of crates.io.
fn rust(source: &Path, folder: &Path) -> Result<()> {
    let manifest = source.join("Cargo.toml");
    let arguments: [&OsStr; 7] = [
        "build".as_ref(),
        "--quiet".as_ref(),
        "--locked".as_ref(),
        "--manifest-path".as_ref(),
        manifest.as_ref(),
        "--target-dir".as_ref(),
        folder.as_ref(),
    ];
    process::run(&process::cargo(), &arguments).context("building iscsi-client-rs")
}
