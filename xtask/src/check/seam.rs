//! The seam of the front ends, `server/src/exports.rs`: management, the fair queues, the ledger's
//! feed and the way to the pools name no protocol.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::Finding;
use crate::workspace;

/// Files that no front end may be named in: management, the room `control`, and the way of a request
/// from its front end to its pool.
const NEUTRAL: [&str; 8] = [
    "crates/server/src/management/",
    "crates/server/src/management.rs",
    "crates/control/",
    "crates/server/src/data_plane.rs",
    "crates/server/src/dispatch.rs",
    "crates/server/src/ledger_feed.rs",
    "crates/server/src/scheduler",
    "crates/server/src/work.rs",
];

pub(super) fn findings() -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in workspace::sources("rs")? {
        if is_neutral(&path) {
            let text = fs::read_to_string(workspace::root().join(&path))?;
            let place = |line| format!("{}:{line}: goes past the seam `exports`", path.display());
            findings.extend(bypasses(&text).into_iter().map(place));
        }
    }
    Ok(findings)
}

fn is_neutral(path: &Path) -> bool {
    path.to_str().is_some_and(|path| NEUTRAL.iter().any(|neutral| path.starts_with(neutral)))
}

/// Lines that name the room `scsi`, or the device server behind the seam.
fn bypasses(text: &str) -> Vec<usize> {
    let lines = (1..).zip(text.lines());
    lines.filter(|(_, line)| names_scsi(line)).map(|(number, _)| number).collect()
}

fn names_scsi(line: &str) -> bool {
    let is_own_word =
        |at: usize| !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
    let names_room = line.match_indices("scsi::").any(|(at, _)| is_own_word(at));
    names_room || line.contains("exports.scsi")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_and_the_device_server_are_found_and_the_seam_is_not() {
        let text = "use scsi::NexusId;\nuse iscsi::Session;\ncore.exports.tell(&event);\n\
                    core.exports.scsi.tick(now);\nfn f(a: scsi::A) {}\n";
        assert_eq!(bypasses(text), [1, 4, 5]);
    }

    #[test]
    fn the_front_end_itself_may_name_what_it_serves() {
        assert!(is_neutral(Path::new("crates/server/src/management/volumes.rs")));
        assert!(is_neutral(Path::new("crates/server/src/scheduler/tests.rs")));
        assert!(!is_neutral(Path::new("crates/server/src/iscsi/commands.rs")));
        assert!(!is_neutral(Path::new("crates/server/src/exports/scsi_listener.rs")));
    }
}
