//! Paths of the binaries under test.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// The path of one of our binaries: `gantryd`, `gantry` or `gantry-host`.
///
/// They are looked for in `GANTRY_BIN_DIR`, else beside the test that runs.
///
/// # Errors
/// When there is no such file; the text says how to build it.
pub fn binary(name: &str) -> Result<PathBuf> {
    let path = folder()?.join(name);
    if !path.is_file() {
        bail!(
            "{} is not there: run 'cargo build --profile test -p server -p cli -p host' first, or set GANTRY_BIN_DIR",
            path.display()
        );
    }
    Ok(path)
}

fn folder() -> Result<PathBuf> {
    if let Some(folder) = env::var_os("GANTRY_BIN_DIR") {
        return Ok(folder.into());
    }
    let test = env::current_exe().context("finding this program")?;
    let folder = test.parent().context("a program lies in a folder")?;
    // A test lies in target/PROFILE/deps, the binaries in target/PROFILE.
    let is_deps = folder.file_name().is_some_and(|name| name == "deps");
    Ok(if is_deps { folder.parent().unwrap_or(folder) } else { folder }.to_owned())
}
