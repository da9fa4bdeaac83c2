//! The I/O-free rooms: no I/O, clock, threads or randomness. All that is checked of them goes by this
//! list: libraries (`edges`), paths in the source (`banned`) and clippy's bans (here).

use std::fs;

use anyhow::Result;

use super::Finding;
use crate::workspace;

/// Folders of `crates`.
pub(super) const ROOMS: [&str; 11] = [
    "access",
    "array",
    "block",
    "control",
    "iscsi",
    "ledger",
    "notation",
    "reservations",
    "sam",
    "scsi",
    "store",
];

/// The aligned buffer, which has to ask the operating system for memory.
pub(super) const SET_APART: &str = "crates/block/src/buffer";

/// The library that it asks with.
pub(super) const LIBRARY_SET_APART: (&str, &str) = ("block", "rustix");

/// Whether a package is such a room.
pub(super) fn is_room(package: &str) -> bool {
    ROOMS.contains(&package)
}

/// Every room has the bans of all: clippy looks for them in the folder of a crate only.
pub(super) fn findings() -> Result<Vec<Finding>> {
    let path = |room: &str| format!("crates/{room}/clippy.toml");
    let bans = |room: &str| fs::read_to_string(workspace::root().join(path(room)));
    let wanted = bans(ROOMS[0])?;
    let others = ROOMS.into_iter().filter(|room| bans(room).ok().as_ref() != Some(&wanted));
    Ok(others
        .map(|room| format!("{}: must be the same as {}", path(room), path(ROOMS[0])))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_is_known_by_its_package() {
        assert!(is_room("store") && is_room("access"));
        assert!(!is_room("server") && !is_room("rustix"));
    }
}
