//! Readiness for XCOPY, by the checks of Forklift's xcopy-validate: host settings, VAAI plug-in and claim rule,
//! paths and clone counters of a datastore's device, in that tool's words.

mod checks;
mod text;

use anyhow::{Result, bail, ensure};
use serde::Serialize;

use crate::esxi::counters::Counters;
use crate::esxi::esxcli::array_type;
use crate::esxi::lun::{Lun, PathState};
use crate::esxi::state::Host;
use crate::esxi::{doctor, topology};
use checks::DeviceFacts;
pub use text::Colors;

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Level {
    /// As it should be.
    Pass,
    /// It works, but not well.
    Warn,
    /// Copies are not offloaded.
    Fail,
    /// Worth knowing.
    Info,
}

/// A check's line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// What the check found.
    pub level: Level,
    /// In the words of xcopy-validate.
    pub text: String,
    /// What follows, indented.
    pub details: Vec<String>,
    /// What an administrator types on the host to mend it.
    pub fixes: Vec<String>,
}

/// What was found of a datastore's device.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceReport {
    /// The datastore's name.
    pub datastore: String,
    /// `naa.…`.
    pub device: String,
    /// VENDOR IDENTIFICATION; empty for a device that does not answer.
    pub vendor: String,
    /// PRODUCT IDENTIFICATION.
    pub model: String,
    /// The storage array type; empty for a device that does not answer.
    pub satp: String,
    /// The checks, in the order of xcopy-validate.
    pub lines: Vec<Line>,
}

/// What was found of a host.
#[derive(Clone, Debug, Serialize)]
pub struct Readiness {
    /// The host's name.
    pub host: String,
    /// Checks of its settings.
    pub settings: Vec<Line>,
    /// Each datastore that was asked for.
    pub devices: Vec<DeviceReport>,
}

/// Which datastores are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The one of this name.
    Datastore(String),
    /// All that the host has.
    All,
}

impl Wanted {
    /// The datastore of a disk's path, /vmfs/volumes/DATASTORE/….
    ///
    /// # Errors
    /// When the path is no such path.
    pub fn of_disk(path: &str) -> Result<Self> {
        let inside = path.strip_prefix("/vmfs/volumes/").and_then(|rest| rest.split_once('/'));
        match inside {
            Some((name, _)) if !name.is_empty() => Ok(Self::Datastore(name.to_owned())),
            _ => bail!("Could not extract datastore name from VMDK path: {path}"),
        }
    }
}

impl Readiness {
    /// How many lines have a level.
    pub fn count(&self, level: Level) -> usize {
        let devices = self.devices.iter().flat_map(|device| &device.lines);
        self.settings.iter().chain(devices).filter(|line| line.level == level).count()
    }
}

/// Checks. Nothing is written: whether a device clones is found out by an EXTENDED COPY of 0 blocks, which
/// ESXi's plug-in does when it claims the device.
///
/// # Errors
/// A datastore that the host does not have, with the names of those that it has; a folder that cannot be
/// written.
pub fn examine(host: &mut Host, wanted: &Wanted) -> Result<Readiness> {
    let found = datastores(host, wanted)?;
    let mut devices = Vec::new();
    for (datastore, device) in found {
        devices.push(examine_device(host, datastore, device)?);
    }
    let settings = checks::settings(&host.record.settings);
    Ok(Readiness { host: host.record.name.clone(), settings, devices })
}

/// Names and devices of the datastores, as of the last rescan.
fn datastores(host: &Host, wanted: &Wanted) -> Result<Vec<(String, String)>> {
    let known = host.record.devices.iter().filter_map(|(device, found)| {
        found.datastore.clone().map(|datastore| (datastore, device.clone()))
    });
    let mut all: Vec<(String, String)> = known.collect();
    all.sort();
    match wanted {
        Wanted::All => {
            ensure!(!all.is_empty(), "No VMFS datastores found on ESXi host {}.", host.record.name);
            Ok(all)
        }
        Wanted::Datastore(name) => {
            let names: Vec<&str> = all.iter().map(|(label, _)| label.as_str()).collect();
            let names = names.join(", ");
            all.retain(|(label, _)| label == name);
            ensure!(
                !all.is_empty(),
                "Datastore '{name}' was not found on ESXi host {}. Check the datastore name or choose one of the \
                 following: {names}",
                host.record.name
            );
            Ok(all)
        }
    }
}

fn examine_device(host: &mut Host, datastore: String, device: String) -> Result<DeviceReport> {
    let counters = host.counters()?.get(&device).copied().unwrap_or_default();
    let paths = host.record.devices.get(&device).map_or(0, |found| found.paths.len());
    let Ok(mut lun) = host.look_at(&device) else {
        let facts = DeviceFacts { paths, counters, ..DeviceFacts::default() };
        let lines = checks::device(&facts, &host.record.settings);
        let (vendor, model, satp) = Default::default();
        return Ok(DeviceReport { datastore, device, vendor, model, satp, lines });
    };
    doctor::try_clone(&mut lun);
    let satp = array_type(&mut lun).0.to_owned();
    let facts = facts(host, &lun, counters);
    let lines = checks::device(&facts, &host.record.settings);
    let (vendor, model) = (facts.vendor, facts.model);
    // A copy of nothing is none that anybody asked for.
    lun.counters = Counters::default();
    host.finish(lun)?;
    Ok(DeviceReport { datastore, device, vendor, model, satp, lines })
}

fn facts(host: &Host, lun: &Lun, counters: Counters) -> DeviceFacts {
    let names = topology::paths(&host.record);
    let in_state = |state| lun.paths().filter(move |(_, found)| *found == state);
    let dead = in_state(PathState::Dead).map(|(url, _)| url);
    let runtime = |url: &str| names.iter().find(|name| name.url == url).map(|name| name.runtime());
    DeviceFacts {
        vendor: lun.identity.vendor.clone(),
        model: lun.identity.product.clone(),
        clone: lun.vaai.clone,
        paths: lun.paths().count(),
        active: in_state(PathState::Active).count(),
        standby: in_state(PathState::Standby).count(),
        dead_names: dead.filter_map(runtime).collect(),
        counters,
    }
}
