//! The array's configuration: a value that is saved after every change.

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};

use block::VolumeId;
use serde::{Deserialize, Serialize};

use crate::limits::LUN_NUMBERS;
use crate::{ANY_HOST, ArrayError, Identification};
use alerts::Alerts;
use hosts::Host;
use locks::SnapshotLock;
use pools::{Pool, Thresholds};
use portals::Portal;
use presentation::{PathState, Presentation};
use schedules::ScheduleRecord;

pub(crate) mod alerts;
pub(crate) mod hosts;
pub(crate) mod locks;
pub(crate) mod pools;
pub(crate) mod portals;
pub(crate) mod presentation;
pub(crate) mod schedules;
#[cfg(test)]
mod tests;

/// Everything about the array that is not recorded in its pools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Version of this file's form.
    version: u32,
    /// The iSCSI name of the target.
    pub target_name: String,
    /// The vendor and product that volumes tell which have none of their own.
    #[serde(default, skip_serializing_if = "Identification::is_default")]
    pub identification: Identification,
    /// Pools by name.
    pub pools: BTreeMap<String, Pool>,
    /// Hosts by name.
    pub hosts: BTreeMap<String, Host>,
    /// Groups of hosts by name; a group and a host never share one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub host_groups: BTreeMap<String, BTreeSet<String>>,
    /// CHAP name that a discovery session must prove; its secret lies elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery_chap_name: Option<String>,
    /// Portals that were created while the array ran, by address and port.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub portals: BTreeMap<SocketAddr, Portal>,
    /// Volumes that show something unusual, by identifier.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    presentations: BTreeMap<u64, Presentation>,
    /// States of target portal groups.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    path_states: BTreeMap<u16, PathState>,
    /// LUN maps by LUN number. An entry stays when its volume is unmapped or deleted, so that its
    /// number is never given to another volume.
    luns: BTreeMap<u16, LunMap>,
    /// By volume: when someone is told how full it is, where that is not the default.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    volume_thresholds: BTreeMap<u64, Thresholds>,
    /// Snapshots that must not be deleted yet, by identifier.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    snapshot_locks: BTreeMap<u64, SnapshotLock>,
    /// Schedules by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub schedules: BTreeMap<String, ScheduleRecord>,
    /// Who is told of events.
    #[serde(default, skip_serializing_if = "Alerts::is_default")]
    pub alerts: Alerts,
}

/// The volume that owns a LUN number, and the hosts and groups that see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LunMap {
    volume: u64,
    hosts: BTreeSet<String>,
    /// Those of `hosts` that may only read.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    read_only: BTreeSet<String>,
}

/// What a host may do with a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read and write.
    ReadWrite,
    /// Read; what would change the volume ends with 07h/27h/00h.
    ReadOnly,
}

/// A LUN as one initiator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisibleLun {
    /// The volume.
    pub volume: VolumeId,
    /// What the initiator may do with it.
    pub access: Access,
}

impl Configuration {
    /// The configuration of a new array.
    pub fn new(target_name: String) -> Self {
        Self {
            version: 1,
            target_name,
            identification: Identification::default(),
            pools: BTreeMap::new(),
            hosts: BTreeMap::new(),
            host_groups: BTreeMap::new(),
            discovery_chap_name: None,
            portals: BTreeMap::new(),
            presentations: BTreeMap::new(),
            path_states: BTreeMap::new(),
            luns: BTreeMap::new(),
            volume_thresholds: BTreeMap::new(),
            snapshot_locks: BTreeMap::new(),
            schedules: BTreeMap::new(),
            alerts: Alerts::default(),
        }
    }

    /// Whether this program understands the form of a configuration it has read.
    pub fn version_is_known(&self) -> bool {
        self.version == 1
    }

    /// Lets a host, a group of hosts or [`ANY_HOST`] see a volume; returns the volume's LUN
    /// number, which it keeps for life. Mapping what is mapped already changes the access at most.
    pub fn map_volume(
        &mut self,
        volume: VolumeId,
        host: &str,
        lun: Option<u16>,
        access: Access,
    ) -> Result<u16, ArrayError> {
        if host != ANY_HOST && !self.host_groups.contains_key(host) {
            self.check_host(host)?;
        }
        let number = self.lun_for(volume, lun)?;
        let map = self.luns.entry(number).or_insert_with(|| LunMap::of(volume));
        map.hosts.insert(host.to_owned());
        match access {
            Access::ReadWrite => map.read_only.remove(host),
            Access::ReadOnly => map.read_only.insert(host.to_owned()),
        };
        Ok(number)
    }

    /// Takes a volume away from a host, or from all when `host` is `None`.
    pub fn unmap_volume(&mut self, volume: VolumeId, host: Option<&str>) -> Result<(), ArrayError> {
        let map = self.luns.values_mut().find(|map| map.volume == volume.0);
        match (map, host) {
            (Some(map), None) if !map.hosts.is_empty() => {
                map.hosts.clear();
                map.read_only.clear();
            }
            (Some(map), Some(host)) if map.hosts.contains(host) => {
                map.hosts.remove(host);
                map.read_only.remove(host);
            }
            (_, host) => return Err(ArrayError::NotMapped(host.unwrap_or("any host").to_owned())),
        }
        Ok(())
    }

    /// Whether a volume may be deleted: no host sees it.
    pub fn check_unmapped(&self, volume: VolumeId) -> Result<(), ArrayError> {
        let hosts: Vec<&str> = self.hosts_of(volume).collect();
        match hosts.is_empty() {
            true => Ok(()),
            false => Err(ArrayError::StillMapped(hosts.join(", "))),
        }
    }

    /// The LUN number of a volume, if it was ever mapped.
    pub fn lun_of(&self, volume: VolumeId) -> Option<u16> {
        self.luns.iter().find(|(_, map)| map.volume == volume.0).map(|(&lun, _)| lun)
    }

    /// The hosts that see a volume, [`ANY_HOST`] among them.
    pub fn hosts_of(&self, volume: VolumeId) -> impl Iterator<Item = &str> {
        let maps = self.luns.values().filter(move |map| map.volume == volume.0);
        maps.flat_map(|map| map.hosts.iter().map(String::as_str))
    }

    /// Those of [`Self::hosts_of`] that may only read.
    pub fn read_only_hosts_of(&self, volume: VolumeId) -> impl Iterator<Item = &str> {
        let maps = self.luns.values().filter(move |map| map.volume == volume.0);
        maps.flat_map(|map| map.read_only.iter().map(String::as_str))
    }

    /// The LUNs that an initiator may see. Who sees a volume in several ways, as a host, through
    /// groups and as [`ANY_HOST`], may write if one of them allows it.
    pub fn visible_luns(&self, initiator: &str) -> BTreeMap<u16, VisibleLun> {
        let names = self.names_of(initiator);
        let maps = self.luns.iter().filter_map(|(&lun, map)| {
            let access = map.access_of(&names)?;
            Some((lun, VisibleLun { volume: VolumeId(map.volume), access }))
        });
        maps.collect()
    }

    /// Every name under which an initiator may have LUNs.
    fn names_of(&self, initiator: &str) -> BTreeSet<&str> {
        let mut names = BTreeSet::from([ANY_HOST]);
        if let Some(host) = self.host_of(initiator) {
            names.insert(host);
            let groups = self.host_groups.iter().filter(|(_, hosts)| hosts.contains(host));
            names.extend(groups.map(|(name, _)| name.as_str()));
        }
        names
    }

    fn lun_for(&self, volume: VolumeId, wanted: Option<u16>) -> Result<u16, ArrayError> {
        match (self.lun_of(volume), wanted) {
            (Some(current), Some(wanted)) if wanted != current => {
                Err(ArrayError::LunFixed { current })
            }
            (Some(current), _) => Ok(current),
            (None, Some(wanted)) if wanted >= LUN_NUMBERS => Err(ArrayError::LunTooLarge(wanted)),
            (None, Some(wanted)) if self.luns.contains_key(&wanted) => {
                Err(ArrayError::LunTaken(wanted))
            }
            (None, Some(wanted)) => Ok(wanted),
            (None, None) => {
                let free = (0..LUN_NUMBERS).find(|lun| !self.luns.contains_key(lun));
                free.ok_or(ArrayError::LunsExhausted)
            }
        }
    }
}

impl LunMap {
    fn of(volume: VolumeId) -> Self {
        Self { volume: volume.0, hosts: BTreeSet::new(), read_only: BTreeSet::new() }
    }

    /// What somebody of these names may do; `None` if the volume is not to be seen.
    fn access_of(&self, names: &BTreeSet<&str>) -> Option<Access> {
        let mut through = self.hosts.iter().filter(|host| names.contains(host.as_str())).peekable();
        through.peek()?;
        let is_writable = through.any(|host| !self.read_only.contains(host));
        Some(if is_writable { Access::ReadWrite } else { Access::ReadOnly })
    }
}
