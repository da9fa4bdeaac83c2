//! Archives and compiled files among the committed ones: packages of others, which are fetched where they
//! are used and never committed.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::Finding;
use crate::process;
use crate::workspace;

/// Endings of packages, archives, libraries and disk images.
const ENDINGS: [&str; 18] = [
    "a", "class", "crate", "deb", "egg", "gz", "iso", "jar", "o", "pyc", "qcow2", "rpm", "so",
    "tgz", "vmdk", "whl", "xz", "zip",
];

/// A tree without its history has no list of committed files, and nothing can be committed there.
pub(super) fn findings() -> Result<Vec<Finding>> {
    if !workspace::root().join(".git").exists() {
        return Ok(Vec::new());
    }
    let listed = process::output("git", &["ls-files"])?;
    let foreign = listed.lines().map(PathBuf::from).filter(|path| is_package(path));
    Ok(foreign.map(|path| format!("{}: a package; 'git rm' it", path.display())).collect())
}

fn is_package(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ENDINGS.contains(&ending.to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_told_by_their_endings() {
        for package in ["one-2.0-py3-none-any.whl", "x/y.JAR", "a.tar.gz"] {
            assert!(is_package(Path::new(package)), "{package}");
        }
        for ours in ["src/a.rs", "tests/golden/format-2.bin", "Makefile", "docs/web/page.png"] {
            assert!(!is_package(Path::new(ours)), "{ours}");
        }
    }
}
