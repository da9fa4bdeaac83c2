//! The web page: building it, comparing what is committed with its sources, testing it in a
//! browser.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{process, workspace};

pub(crate) mod types;

/// Writes the types of what the daemon answers, and builds `web/dist` from `web/src`.
pub(crate) fn build() -> Result<()> {
    types::write()?;
    install()?;
    check_sources()?;
    node("build.mjs", &[])
}

/// Fails unless `web/dist` is what `web/src` gives.
pub(crate) fn compare() -> Result<()> {
    install()?;
    check_sources()?;
    node("build.mjs", &["--compare"])
}

/// Works the page in a browser, on a real daemon of that folder under load.
pub(crate) fn browser_tests(folder: &Path) -> Result<()> {
    install()?;
    let variables: [(&str, &OsStr); 1] = [("GANTRY_BIN_DIR", folder.as_os_str())];
    process::run_with("node", &["--test", "web/test/browser.test.mjs"], &variables)
}

fn folder() -> PathBuf {
    workspace::root().join("web")
}

fn node(script: &str, arguments: &[&str]) -> Result<()> {
    let script = folder().join(script).display().to_string();
    process::run("node", &[&[script.as_str()], arguments].concat())
}

/// Types, formatting and lints.
fn check_sources() -> Result<()> {
    node("node_modules/typescript/bin/tsc", &["--noEmit", "--project", "web"])?;
    process::run("npm", &["run", "--silent", "--prefix", "web", "lint"])
        .context("formatting and lints: 'npm run format' in web mends what can be mended")
}

/// Fetches the pinned packages, unless they are there. None of them runs a script of its own.
fn install() -> Result<()> {
    if is_installed()? {
        return Ok(());
    }
    let folder = folder().display().to_string();
    let arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", &folder];
    process::run("npm", &arguments).context(
        "fetching the packages of web/package-lock.json; 'cargo xtask setup' brings npm",
    )?;
    if !is_installed()? {
        bail!("npm left no packages in {folder}/node_modules");
    }
    Ok(())
}

/// Whether npm's own record is not older than the lock file.
fn is_installed() -> Result<bool> {
    let modified = |name: &str| fs::metadata(folder().join(name)).and_then(|file| file.modified());
    let locked = modified("package-lock.json").context("reading web/package-lock.json")?;
    Ok(modified("node_modules/.package-lock.json").is_ok_and(|installed| installed >= locked))
}
