//! Array configuration: the value that holds all named objects, checks each change, and is saved
//! after it.

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};

use block::{SwitchesOff, VolumeId};
use sam::AccessState;
use serde::{Deserialize, Serialize};

use crate::{Identification, Table};
use alerts::Alerts;
use hosts::Host;
use locks::SnapshotLock;
use lun_maps::{FormerLunMap, LunMaps};
use pools::{Pool, Thresholds};
use portals::Portal;
use presentation::Presentation;
use schedules::ScheduleRecord;
use tags::TagTable;

pub(crate) mod alerts;
mod device_text;
pub(crate) mod hosts;
mod known_volumes;
pub(crate) mod locks;
pub(crate) mod lun_maps;
pub(crate) mod oldest;
pub(crate) mod pools;
pub(crate) mod portals;
pub(crate) mod presentation;
pub(crate) mod rate_limits;
pub(crate) mod records;
pub(crate) mod schedules;
pub(crate) mod switches;
pub(crate) mod tags;
#[cfg(test)]
mod tests;

/// The form in which the configuration is written. Version 1 had LUN numbers of the whole array.
const VERSION: u32 = 2;

/// Everything about the array that is not recorded in its pools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Version of this file's form.
    version: u32,
    /// Names the array in the world, 32 hexadecimal digits, so that a pool can say whose it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uuid: String,
    /// Rises with every version that is saved; records in pools say of which they are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: u64,
    /// The iSCSI name of the target.
    pub target_name: String,
    /// The vendor and product that volumes tell which have none of their own.
    #[serde(default, skip_serializing_if = "Identification::is_default")]
    pub identification: Identification,
    /// Primitives that are off for everybody.
    #[serde(default, with = "switches::names", skip_serializing_if = "SwitchesOff::is_empty")]
    pub switches_off: SwitchesOff,
    /// Pools by name.
    pub pools: BTreeMap<String, Pool>,
    /// Hosts by name.
    pub hosts: Table<String, Host>,
    /// Groups of hosts by name; a group and a host never share one.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub host_groups: Table<String, BTreeSet<String>>,
    /// CHAP name that a discovery session must prove; its secret lies elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery_chap_name: Option<String>,
    /// Portals that were created while the array ran, by address and port.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub portals: BTreeMap<SocketAddr, Portal>,
    /// Volumes that show something unusual, by identifier.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    presentations: Table<u64, Presentation>,
    /// States of target portal groups.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    path_states: BTreeMap<u16, AccessState>,
    /// LUN maps as version 1 of the form has them; read, and never written.
    #[serde(default, rename = "luns", skip_serializing_if = "BTreeMap::is_empty")]
    former_luns: BTreeMap<u16, FormerLunMap>,
    /// LUN maps by host, group or everybody, and the numbers in quarantine.
    #[serde(default)]
    lun_maps: LunMaps,
    /// By volume: when someone is told how full it is, where that is not the default.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    volume_thresholds: Table<u64, Thresholds>,
    /// Snapshots that must not be deleted yet, by identifier.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    snapshot_locks: Table<u64, SnapshotLock>,
    /// Schedules by name.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub schedules: Table<String, ScheduleRecord>,
    /// Receivers of alerts.
    #[serde(default, skip_serializing_if = "Alerts::is_default")]
    pub alerts: Alerts,
    /// By pool that was imported, until it says that it is this array's: the array that used it before.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub imported_from: BTreeMap<String, String>,
    /// Labels of pools, volumes, hosts and groups of hosts.
    #[serde(default, skip_serializing_if = "TagTable::is_empty")]
    tags: TagTable,
}

/// Access of a host to a volume.
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
    /// Access of the initiator to the volume.
    pub access: Access,
}

impl Configuration {
    /// The configuration of a new array.
    pub fn new(target_name: String) -> Self {
        Self {
            version: VERSION,
            uuid: String::new(),
            generation: 0,
            target_name,
            identification: Identification::default(),
            switches_off: SwitchesOff::NONE,
            pools: BTreeMap::new(),
            hosts: Table::new(),
            host_groups: Table::new(),
            discovery_chap_name: None,
            portals: BTreeMap::new(),
            presentations: Table::new(),
            path_states: BTreeMap::new(),
            former_luns: BTreeMap::new(),
            lun_maps: LunMaps::default(),
            volume_thresholds: Table::new(),
            snapshot_locks: Table::new(),
            schedules: Table::new(),
            alerts: Alerts::default(),
            imported_from: BTreeMap::new(),
            tags: TagTable::default(),
        }
    }

    /// Whether this program understands the form of a configuration it has read.
    pub fn version_is_known(&self) -> bool {
        (1..=VERSION).contains(&self.version)
    }

    /// The configuration in today's form, from one of any form that is known.
    #[must_use]
    pub fn upgraded(mut self) -> Self {
        let former = core::mem::take(&mut self.former_luns);
        self.take_former_luns(former);
        self.version = VERSION;
        self
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}
