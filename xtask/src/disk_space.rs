//! Free disk space, asked for before the tests, which would find out only after half an hour.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::workspace;

const GIB: u64 = 1 << 30;

/// What a first build of everything takes.
const FIRST_BUILD: u64 = 9 * GIB;
/// What is built anew where everything was built before.
const LATER_BUILD: u64 = 2 * GIB;
/// What pools of tests take at a time: they are sparse, but the tests fill some.
const POOLS: u64 = 5 * GIB;

/// A folder that something is written to.
struct Need<'a> {
    folder: &'a Path,
    bytes: u64,
    /// The variable that names another folder.
    variable: &'static str,
}

/// Refuses to begin what would fail for want of space.
pub(crate) fn check() -> Result<()> {
    let target = workspace::folder_of("release");
    let is_built = target.join("gantryd").exists();
    let bytes = if is_built { LATER_BUILD } else { FIRST_BUILD };
    let build = Need { folder: existing(&target), bytes, variable: "CARGO_TARGET_DIR" };
    let temporary = std::env::temp_dir();
    let pools = Need { folder: &temporary, bytes: POOLS, variable: "TMPDIR" };
    refuse(&build, free_bytes(build.folder)?, 0)?;
    let shared = if file_system(build.folder)? == file_system(pools.folder)? { bytes } else { 0 };
    refuse(&pools, free_bytes(pools.folder)?, shared)
}

fn refuse(need: &Need, free: u64, also: u64) -> Result<()> {
    let wanted = need.bytes + also;
    if free < wanted {
        bail!(
            "the tests need about {} GiB in {}, where {:.1} GiB are free: make room, or choose another folder with {}",
            wanted / GIB,
            need.folder.display(),
            free as f64 / GIB as f64,
            need.variable
        );
    }
    Ok(())
}

/// The folder, or the nearest above it that is there.
fn existing(folder: &Path) -> &Path {
    folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"))
}

fn free_bytes(folder: &Path) -> Result<u64> {
    let found = rustix::fs::statvfs(folder).with_context(|| folder.display().to_string())?;
    Ok(found.f_bavail * found.f_frsize)
}

fn file_system(folder: &Path) -> Result<u64> {
    Ok(rustix::fs::stat(folder).with_context(|| folder.display().to_string())?.st_dev)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_the_folder_and_the_variable() {
        let need = Need { folder: Path::new("/somewhere"), bytes: 5 * GIB, variable: "TMPDIR" };
        assert!(refuse(&need, 7 * GIB, 2 * GIB).is_ok());
        let refusal = refuse(&need, 7 * GIB - 1, 2 * GIB).unwrap_err().to_string();
        assert!(refusal.contains("7 GiB in /somewhere"), "{refusal}");
        assert!(refusal.contains("TMPDIR"), "{refusal}");
        assert_eq!(existing(Path::new("/nothing/is/here")), Path::new("/"));
    }
}
