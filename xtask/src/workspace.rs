//! Paths of the workspace, and the list of its source files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Folders whose sources are ours.
const SOURCE_FOLDERS: [&str; 4] = ["crates", "tests", "xtask", "fuzz"];

/// The root of the work tree.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("xtask lies in a folder of the work tree").to_owned()
}

/// Where cargo puts release binaries.
pub(crate) fn release_folder() -> PathBuf {
    folder_of("release")
}

/// Where cargo puts the binaries of a profile.
pub(crate) fn folder_of(profile: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    root().join(target.unwrap_or_else(|| "target".into())).join(profile)
}

/// All files under the source folders with the given extension, sorted, relative to the root.
pub(crate) fn sources(extension: &str) -> Result<Vec<PathBuf>> {
    let root = root();
    let mut found = Vec::new();
    for folder in SOURCE_FOLDERS {
        let folder = root.join(folder);
        if folder.is_dir() {
            collect(&folder, extension, &mut found)?;
        }
    }
    let relative = |path: PathBuf| path.strip_prefix(&root).map(Path::to_owned);
    let mut found = found.into_iter().map(relative).collect::<Result<Vec<_>, _>>()?;
    found.sort();
    Ok(found)
}

fn collect(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !["target", "corpus", "artifacts"].contains(&name) && !name.starts_with('.') {
                collect(&path, extension, found)?;
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    Ok(())
}
