//! Types for export and import of the configuration.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::alerts::Alerts;
use crate::pools::{SetFailBack, Thresholds};
use crate::presentation::{BlockSize, Identification, PathState, Primitives};
use crate::rate_limits::RateLimits;
use crate::schedules::SetSchedule;
use crate::types::{CreatePortal, Secret};

/// All that is configured, but users. On import, what it names is made or changed; what it does not
/// name stays as it is. Pools and volumes are described, for whoever makes them anew, and have to be
/// there.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Of this form: 1.
    pub version: u32,
    /// The target's iSCSI name, for people; it is not imported.
    #[serde(default)]
    pub array: String,
    /// The vendor and product that volumes tell which have none of their own; as it was when left
    /// out.
    #[serde(default)]
    pub identification: Option<Identification>,
    /// Which primitives are on for everybody; as they were when left out.
    #[serde(default)]
    pub primitives: Option<Primitives>,
    /// Hosts.
    #[serde(default)]
    pub hosts: Vec<ConfiguredHost>,
    /// Groups of hosts.
    #[serde(default)]
    pub groups: Vec<ConfiguredGroup>,
    /// What initiators must prove to be told of the target.
    #[serde(default)]
    pub discovery: Option<ConfiguredChap>,
    /// Portals, without those that were given to the daemon at its start.
    #[serde(default)]
    pub portals: Vec<CreatePortal>,
    /// States of target portal groups.
    #[serde(default)]
    pub path_states: Vec<ConfiguredPathState>,
    /// What is said of pools, which have to be there.
    #[serde(default)]
    pub pools: Vec<ConfiguredPool>,
    /// What is said of volumes and snapshots, which have to be there.
    #[serde(default)]
    pub volumes: Vec<ConfiguredVolume>,
    /// Schedules of snapshots.
    #[serde(default)]
    pub schedules: Vec<ConfiguredSchedule>,
    /// Who is told of events; webhooks that are not named stay.
    #[serde(default)]
    pub alerts: Alerts,
}

/// A host.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfiguredHost {
    /// Its name.
    pub name: String,
    /// iSCSI names of all of its initiators.
    pub initiators: Vec<String>,
    /// What they must prove; nothing when left out.
    #[serde(default)]
    pub chap: Option<ConfiguredChap>,
    /// Which primitives are on for it; as they were when left out.
    #[serde(default)]
    pub primitives: Option<Primitives>,
    /// The most work that it gets done; as it was when left out.
    #[serde(default)]
    pub limits: Option<RateLimits>,
    /// What it gets of pools for which other hosts wait, too; as it was when left out.
    #[serde(default)]
    pub share: Option<u8>,
    /// Its labels; as they were when left out.
    #[serde(default)]
    pub tags: Option<BTreeMap<String, String>>,
}

/// A group of hosts.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfiguredGroup {
    /// Its name.
    pub name: String,
    /// Names of all of its hosts.
    pub hosts: Vec<String>,
    /// Its labels; as they were when left out.
    #[serde(default)]
    pub tags: Option<BTreeMap<String, String>>,
}

/// A CHAP account, with its secrets or without them. Without, those that the array has for the same
/// names stay.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfiguredChap {
    /// The name that the initiator gives.
    pub user: String,
    /// The initiator's secret.
    #[serde(default)]
    pub secret: Option<Secret>,
    /// The name that the target gives in turn.
    #[serde(default)]
    pub mutual_user: Option<String>,
    /// The target's secret.
    #[serde(default)]
    pub mutual_secret: Option<Secret>,
}

/// The state of a target portal group.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfiguredPathState {
    /// Its number, 1 to 65,535.
    pub group: u16,
    /// How well its paths work.
    pub state: PathState,
}

/// What is said of a pool.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfiguredPool {
    /// Its name.
    pub name: String,
    /// Where its bytes rest, in the order in which devices joined; not imported.
    #[serde(default)]
    pub devices: Vec<ConfiguredDevice>,
    /// When someone is told how full it is.
    pub thresholds: Thresholds,
    /// Whether the oldest unlocked snapshots of schedules are deleted while it is at or above its
    /// hard threshold; as it was when left out.
    #[serde(default)]
    pub delete_scheduled_snapshots: Option<bool>,
    /// Which controller should have it; as it was when left out.
    #[serde(default)]
    pub fail_back: Option<SetFailBack>,
    /// Its labels; as they were when left out.
    #[serde(default)]
    pub tags: Option<BTreeMap<String, String>>,
}

/// A device of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfiguredDevice {
    /// file:PATH, block:PATH, rbd:POOL/IMAGE or memory:.
    pub device: String,
    /// Its size, bytes.
    pub size_bytes: u64,
}

/// What a volume was made as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfiguredShape {
    /// Bytes that hosts see.
    pub size_bytes: u64,
    /// Whether it is thick: all of its space is set aside.
    #[serde(default, alias = "reserved")]
    pub thick: bool,
    /// The blocks that hosts see.
    #[serde(default)]
    pub block_size: BlockSize,
}

/// What is said of a volume or snapshot.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfiguredVolume {
    /// POOL/NAME.
    pub volume: String,
    /// What it is, unless it is a snapshot; not imported.
    #[serde(default)]
    pub shape: Option<ConfiguredShape>,
    /// The LUN number of maps that do not say their own; the smallest of them when written.
    #[serde(default)]
    pub lun: Option<u16>,
    /// Who sees it. Who is not named and sees it already goes on to.
    #[serde(default)]
    pub maps: Vec<ConfiguredMap>,
    /// When someone is told how full it is; as it was when left out.
    #[serde(default)]
    pub thresholds: Option<Thresholds>,
    /// Whether hosts find no way to reserve it; as it was when left out.
    #[serde(default)]
    pub reservations_hidden: Option<bool>,
    /// The vendor and product that it tells instead of the array's; as it was when left out.
    #[serde(default)]
    pub identification: Option<Identification>,
    /// Which primitives are on for it; as they were when left out.
    #[serde(default)]
    pub primitives: Option<Primitives>,
    /// The most work that hosts get done on it; as it was when left out.
    #[serde(default)]
    pub limits: Option<RateLimits>,
    /// Its labels; as they were when left out.
    #[serde(default)]
    pub tags: Option<BTreeMap<String, String>>,
}

/// Somebody who sees a volume.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfiguredMap {
    /// A host, a group, or 'any'.
    pub host: String,
    /// Whether it may only read.
    #[serde(default)]
    pub read_only: bool,
    /// The number by which it addresses the volume.
    #[serde(default)]
    pub lun: Option<u16>,
}

/// A schedule of snapshots.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfiguredSchedule {
    /// Its name.
    pub name: String,
    /// What it does.
    pub schedule: SetSchedule,
}

/// What an import did, or would do.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Imported {
    /// Whether nothing was done.
    pub dry_run: bool,
    /// One sentence for each change; none if all was so already.
    pub changes: Vec<String>,
}
