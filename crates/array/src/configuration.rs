//! The array's configuration: a value that is saved after every change.

use std::collections::{BTreeMap, BTreeSet};

use block::VolumeId;
use serde::{Deserialize, Serialize};

use crate::limits::{HOSTS_MAX, INITIATORS_PER_HOST_MAX, LUN_NUMBERS, POOLS_MAX};
use crate::{ANY_HOST, ArrayError, DeviceName, check_name};

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
    /// Pools by name.
    pub pools: BTreeMap<String, Pool>,
    /// Hosts by name.
    pub hosts: BTreeMap<String, Host>,
    /// LUN maps by LUN number. An entry stays when its volume is unmapped or deleted, so that its
    /// number is never given to another volume.
    luns: BTreeMap<u16, LunMap>,
}

/// A pool that the array opens at start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Identity, also in the label on the device.
    pub uuid: [u8; 16],
    /// Where its bytes rest.
    pub device: DeviceName,
    /// Size of the device, in bytes.
    pub size_bytes: u64,
}

/// One or several initiators that see the same LUNs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// iSCSI names.
    pub initiators: BTreeSet<String>,
}

/// The volume that owns a LUN number, and the hosts that see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LunMap {
    volume: u64,
    hosts: BTreeSet<String>,
}

impl Configuration {
    /// The configuration of a new array.
    pub fn new(target_name: String) -> Self {
        Self {
            version: 1,
            target_name,
            pools: BTreeMap::new(),
            hosts: BTreeMap::new(),
            luns: BTreeMap::new(),
        }
    }

    /// Whether this program understands the form of a configuration it has read.
    pub fn version_is_known(&self) -> bool {
        self.version == 1
    }

    /// The pool of that name.
    pub fn pool(&self, name: &str) -> Result<&Pool, ArrayError> {
        let not_found = || ArrayError::NotFound { kind: "pool", name: name.to_owned() };
        self.pools.get(name).ok_or_else(not_found)
    }

    /// Whether a pool of that name on that device could be added.
    pub fn check_new_pool(&self, name: &str, device: &DeviceName) -> Result<(), ArrayError> {
        check_name(name)?;
        if self.pools.contains_key(name) {
            return Err(ArrayError::NameTaken { kind: "pool", name: name.to_owned() });
        }
        if self.pools.len() >= POOLS_MAX {
            return Err(ArrayError::TooMany { kind: "pools", max: POOLS_MAX });
        }
        let same_device = |pool: &Pool| pool.device == *device && *device != DeviceName::Memory;
        match self.pools.iter().find(|(_, pool)| same_device(pool)) {
            Some((other, _)) => {
                Err(ArrayError::DeviceTaken { device: device.to_string(), pool: other.clone() })
            }
            None => Ok(()),
        }
    }

    /// Adds a host.
    pub fn create_host(
        &mut self,
        name: &str,
        initiators: BTreeSet<String>,
    ) -> Result<(), ArrayError> {
        check_name(name)?;
        if name == ANY_HOST || self.hosts.contains_key(name) {
            return Err(ArrayError::NameTaken { kind: "host", name: name.to_owned() });
        }
        if self.hosts.len() >= HOSTS_MAX {
            return Err(ArrayError::TooMany { kind: "hosts", max: HOSTS_MAX });
        }
        if initiators.len() > INITIATORS_PER_HOST_MAX {
            return Err(ArrayError::TooMany { kind: "initiators", max: INITIATORS_PER_HOST_MAX });
        }
        initiators.iter().try_for_each(|initiator| self.check_new_initiator(initiator))?;
        self.hosts.insert(name.to_owned(), Host { initiators });
        Ok(())
    }

    /// Removes a host that no volume is mapped to.
    pub fn delete_host(&mut self, name: &str) -> Result<(), ArrayError> {
        self.check_host(name)?;
        if self.luns.values().any(|map| map.hosts.contains(name)) {
            return Err(ArrayError::HostInUse(name.to_owned()));
        }
        self.hosts.remove(name);
        Ok(())
    }

    /// Lets a host (or [`ANY_HOST`]) see a volume; returns the volume's LUN number, which it keeps
    /// for life. Mapping what is mapped already changes nothing.
    pub fn map_volume(
        &mut self,
        volume: VolumeId,
        host: &str,
        lun: Option<u16>,
    ) -> Result<u16, ArrayError> {
        if host != ANY_HOST {
            self.check_host(host)?;
        }
        let number = self.lun_for(volume, lun)?;
        let map = self
            .luns
            .entry(number)
            .or_insert_with(|| LunMap { volume: volume.0, hosts: BTreeSet::new() });
        map.hosts.insert(host.to_owned());
        Ok(number)
    }

    /// Takes a volume away from a host, or from all when `host` is `None`.
    pub fn unmap_volume(&mut self, volume: VolumeId, host: Option<&str>) -> Result<(), ArrayError> {
        let map = self.luns.values_mut().find(|map| map.volume == volume.0);
        match (map, host) {
            (Some(map), None) if !map.hosts.is_empty() => map.hosts.clear(),
            (Some(map), Some(host)) if map.hosts.contains(host) => {
                map.hosts.remove(host);
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

    /// The LUNs that an initiator may see.
    pub fn visible_luns(&self, initiator: &str) -> BTreeMap<u16, VolumeId> {
        let host = self.host_of(initiator);
        let visible = |map: &LunMap| {
            map.hosts.contains(ANY_HOST) || host.is_some_and(|host| map.hosts.contains(host))
        };
        let maps = self.luns.iter().filter(|(_, map)| visible(map));
        maps.map(|(&lun, map)| (lun, VolumeId(map.volume))).collect()
    }

    fn host_of(&self, initiator: &str) -> Option<&str> {
        let owns = |host: &Host| host.initiators.contains(initiator);
        self.hosts.iter().find(|(_, host)| owns(host)).map(|(name, _)| name.as_str())
    }

    fn check_host(&self, name: &str) -> Result<(), ArrayError> {
        match self.hosts.contains_key(name) {
            true => Ok(()),
            false => Err(ArrayError::NotFound { kind: "host", name: name.to_owned() }),
        }
    }

    fn check_new_initiator(&self, initiator: &str) -> Result<(), ArrayError> {
        // RFC 7143 4.2.7.1: a type designator and at most 223 bytes.
        let known_type = ["iqn.", "eui.", "naa."].iter().any(|t| initiator.starts_with(t));
        if !known_type || initiator.len() > 223 || initiator.contains(char::is_whitespace) {
            return Err(ArrayError::InvalidInitiatorName(initiator.to_owned()));
        }
        match self.host_of(initiator) {
            Some(host) => Err(ArrayError::InitiatorTaken {
                initiator: initiator.to_owned(),
                host: host.to_owned(),
            }),
            None => Ok(()),
        }
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
