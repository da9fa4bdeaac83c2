//! Running virtual machines of a host: a file in its folder for each, removed when the machine
//! stops; one whose process is gone is not shown.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::esxi::state::Host;

/// A running virtual machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct World {
    /// World ID: different for each running machine of this computer.
    pub id: u64,
    /// The process that runs it.
    pub process: u32,
    /// Its `uuid.bios`.
    pub uuid: String,
    /// Its display name.
    pub name: String,
    /// The path of its configuration.
    pub config: String,
}

/// Machines that one process starts, at most, before their numbers come again.
const OF_A_PROCESS: u64 = 1000;

/// Shows a machine for as long as it lives.
pub(super) struct Running(PathBuf);

impl Running {
    /// Shows a machine from now on. What cannot be shown runs all the same.
    pub(super) fn show(host: &Host, uuid: &str, name: &str, config: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let process = std::process::id();
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % OF_A_PROCESS;
        let world = World {
            id: u64::from(process) * OF_A_PROCESS + number,
            process,
            uuid: uuid.to_owned(),
            name: name.to_owned(),
            config: config.to_owned(),
        };
        let path = host.live_folder().join(format!("{}.world", world.id));
        let temporary = path.with_extension("new");
        if let Ok(text) = serde_json::to_vec(&world)
            && fs::write(&temporary, text).is_ok()
        {
            let _ = fs::rename(&temporary, &path);
        }
        Self(path)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The machines that run on a host, in the order of their names.
///
/// # Errors
/// When the host's folder cannot be read.
pub fn worlds(host: &Host) -> Result<Vec<World>> {
    let mut worlds: Vec<World> = Vec::new();
    for entry in fs::read_dir(host.live_folder())? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "world")
            && let Ok(bytes) = fs::read(&path)
            && let Ok(world) = serde_json::from_slice::<World>(&bytes)
            && Path::new(&format!("/proc/{}", world.process)).exists()
        {
            worlds.push(world);
        }
    }
    worlds.sort_by(|one, other| (&one.name, one.id).cmp(&(&other.name, other.id)));
    Ok(worlds)
}
