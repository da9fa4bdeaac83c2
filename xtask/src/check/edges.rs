//! Dependency check: which room may use which, and which libraries an I/O-free room may not use.

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Finding;
use super::io_free::{self, LIBRARY_SET_APART};
use crate::process;

/// A room, and the rooms that it may use. Tests of a room may use no more than the room itself.
const ROOMS: [(&str, &[&str]); 25] = [
    ("block", &[]),
    ("notation", &[]),
    ("terminal", &[]),
    ("sam", &[]),
    ("reservations", &[]),
    ("iscsi", &["block", "sam"]),
    ("scsi", &["block", "reservations", "sam"]),
    ("store", &["block", "notation"]),
    ("device", &["block"]),
    ("array", &["block", "notation", "sam", "store"]),
    ("ledger", &["block"]),
    ("api", &[]),
    ("access", &["api"]),
    ("control", &["api", "array", "block", "notation", "store"]),
    (
        "server",
        &[
            "access", "api", "array", "block", "control", "device", "iscsi", "ledger", "notation",
            "scsi", "store", "terminal",
        ],
    ),
    ("cli", &["api", "block", "device", "notation", "store", "terminal"]),
    ("vmfs", &[]),
    ("host", &["notation", "terminal", "vmfs"]),
    ("mutants", &["block", "notation"]),
    ("hunt", &["block", "control", "mutants", "terminal"]),
    ("sim", &["block", "control", "hunt", "mutants", "store", "terminal"]),
    ("bench", &["block", "device", "store", "terminal"]),
    ("harness", &["host"]),
    ("guest", &["harness"]),
    ("xtask", &["api", "guest", "harness", "terminal"]),
];

/// Libraries that would bring in what an I/O-free room must not have.
const IMPURE_LIBRARIES: [&str; 12] = [
    "getrandom",
    "io-uring",
    "libc",
    "mio",
    "rand",
    "reqwest",
    "rustix",
    "signal-hook",
    "socket2",
    "tempfile",
    "tokio",
    "tracing-subscriber",
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// Set for a crate of the workspace.
    path: Option<String>,
    /// Nothing for a normal dependency, else 'dev' or 'build'.
    kind: Option<String>,
}

pub(super) fn findings() -> Result<Vec<Finding>> {
    let arguments = ["metadata", "--no-deps", "--format-version", "1"];
    let text = process::output(&process::cargo(), &arguments)?;
    let metadata: Metadata = serde_json::from_str(&text).context("reading cargo metadata")?;
    Ok(metadata.packages.iter().flat_map(of_package).collect())
}

fn of_package(package: &Package) -> Vec<Finding> {
    let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| *name == package.name) else {
        return vec![format!("{}: has no row in xtask/src/check/edges.rs", package.name)];
    };
    let own = package.dependencies.iter().filter(|dependency| dependency.path.is_some());
    let beyond = own.filter(|dependency| !allowed.contains(&dependency.name.as_str()));
    let beyond =
        beyond.map(|dependency| format!("{}: may not use {}", package.name, dependency.name));
    beyond.chain(impure_libraries(package)).collect()
}

fn impure_libraries(package: &Package) -> impl Iterator<Item = Finding> {
    let is_io_free = io_free::is_room(&package.name);
    let normal = package.dependencies.iter().filter(|dependency| dependency.kind.is_none());
    normal
        .filter(move |dependency| {
            let is_set_apart =
                LIBRARY_SET_APART == (package.name.as_str(), dependency.name.as_str());
            let is_impure = IMPURE_LIBRARIES.contains(&dependency.name.as_str());
            is_io_free && is_impure && !is_set_apart
        })
        .map(|library| format!("{}: is I/O-free and may not use {}", package.name, library.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependency: &str, path: Option<&str>) -> Package {
        let path = path.map(str::to_owned);
        let dependency = Dependency { name: dependency.to_owned(), path, kind: None };
        Package { name: name.to_owned(), dependencies: vec![dependency] }
    }

    #[test]
    fn an_edge_outside_the_table_is_found() {
        assert!(of_package(&package("scsi", "block", Some("/b"))).is_empty());
        assert_eq!(of_package(&package("scsi", "iscsi", Some("/i"))).len(), 1);
        assert_eq!(of_package(&package("util", "serde", None)).len(), 1);
    }

    #[test]
    fn a_clock_or_socket_library_in_an_io_free_room_is_found() {
        assert_eq!(of_package(&package("store", "tokio", None)).len(), 1);
        assert!(of_package(&package("server", "tokio", None)).is_empty());
    }
}
