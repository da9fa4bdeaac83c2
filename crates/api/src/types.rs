//! Types of requests and answers about volumes, hosts, LUN maps and sessions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::pools::{Fill, Thresholds};
use crate::presentation::{BlockSize, Identification, PathState, Primitives};
use crate::rate_limits::{RateLimits, share_default};

/// The iSCSI target.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Target {
    /// Its iSCSI name.
    pub name: String,
    /// Where it listens.
    pub portals: Vec<Portal>,
    /// Who is logged in.
    pub sessions: Vec<Session>,
    /// Bytes received from all initiators since the daemon started.
    pub bytes_received: u64,
    /// Bytes sent to all initiators since the daemon started.
    pub bytes_sent: u64,
    /// Since when changes of the configuration cannot be saved, and are taken back, seconds since
    /// 1970; absent while they can.
    #[serde(default)]
    pub configuration_unsaved_since: Option<u64>,
    /// SCSI commands completed since the daemon started.
    pub commands: u64,
    /// Those among them, COMPARE AND WRITE (ATS), that found another content than they expected.
    #[serde(default)]
    pub compare_and_write_miscompares: u64,
    /// Those of them that found what they would have written: retries of their own.
    #[serde(default)]
    pub compare_and_write_retries: u64,
}

/// An address that the target listens on.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Portal {
    /// IP address and TCP port.
    pub address: String,
    /// The target portal group (RFC 7143 4.1.1).
    pub target_portal_group_tag: u16,
    /// How well the group's paths work.
    #[serde(default)]
    pub state: PathState,
    /// Where initiators are sent instead of being let in.
    #[serde(default)]
    pub redirect: Option<String>,
    /// Whether it was given to the daemon at its start, and so cannot be deleted.
    #[serde(default)]
    pub fixed: bool,
}

/// A new portal.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreatePortal {
    /// IP address and TCP port, an IPv6 address in brackets.
    pub address: String,
    /// The target portal group, 1 to 65,535.
    #[schema(minimum = 1)]
    pub target_portal_group_tag: u16,
    /// Where initiators are sent instead of being let in: IP address and TCP port.
    #[serde(default)]
    pub redirect: Option<String>,
}

/// A logged-in initiator.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// The initiator's iSCSI name.
    pub initiator: String,
    /// The host that it belongs to.
    pub host: Option<String>,
    /// Its IP address and TCP port; of several connections the first one's, "none" while it may
    /// come back.
    pub address: String,
    /// The portal that it came through.
    pub portal: String,
    /// Initiator part of the session identifier, hexadecimal.
    pub isid: String,
    /// Target session identifying handle.
    pub tsih: u16,
    /// None or CHAP.
    pub authentication: String,
    /// TCP connections.
    pub connections: usize,
    /// What was negotiated, as RFC 7143 13 writes it.
    pub keys: BTreeMap<String, String>,
    /// LUNs that it sees.
    pub luns: Vec<u16>,
    /// Those of `luns` that it may only read.
    pub read_only_luns: Vec<u16>,
    /// Commands under way.
    pub commands_under_way: usize,
    /// Commands answered.
    pub commands: u64,
    /// Bytes received from it.
    pub bytes_received: u64,
    /// Bytes sent to it.
    pub bytes_sent: u64,
    /// Rates over the last second or so.
    pub rates: Rates,
}

/// How fast something goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rates {
    /// Commands answered, per second.
    pub commands: u64,
    /// Bytes received, per second.
    pub bytes_received: u64,
    /// Bytes sent, per second.
    pub bytes_sent: u64,
}

/// A new volume.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateVolume {
    /// The pool's name.
    pub pool: String,
    /// 1 to 63 letters, digits, '-', '_', '.'.
    #[schema(min_length = 1, max_length = 63, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    pub name: String,
    /// Bytes; a multiple of 4,096, at most 64 TiB.
    #[schema(minimum = 4096, maximum = 70368744177664_u64, multiple_of = 4096)]
    pub size_bytes: u64,
    /// Whether it is thick: all of its space is set aside, so that it never runs out.
    #[serde(default, alias = "reserved")]
    pub thick: bool,
    /// The blocks that hosts see.
    #[serde(default)]
    pub block_size: BlockSize,
    /// Its labels: keys of 1 to 63 letters, digits, '-', '_', '.', and values of at most 128 characters,
    /// none of them a control character; at most 16.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// Another size for a volume.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResizeVolume {
    /// Bytes; a multiple of 4,096, at most 64 TiB.
    #[schema(minimum = 4096, maximum = 70368744177664_u64, multiple_of = 4096)]
    pub size_bytes: u64,
    /// Must be true to make the volume smaller, which destroys what lies beyond.
    #[serde(default)]
    pub shrink: bool,
}

/// A volume.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// The pool's name.
    pub pool: String,
    /// Its name in the pool.
    pub name: String,
    /// NAA identifier: 'naa.' and 32 hexadecimal digits. Never changes, never reused.
    pub naa: String,
    /// Bytes that hosts see.
    pub size_bytes: u64,
    /// Whether it is thick: all of its space is set aside.
    pub thick: bool,
    /// `thick` under its name of 0.1.0, for programs that were written for that.
    #[serde(default)]
    #[schema(deprecated)]
    pub reserved: bool,
    /// The blocks that hosts see.
    #[serde(default)]
    pub block_size: BlockSize,
    /// Whether hosts find no way to reserve it.
    #[serde(default)]
    pub reservations_hidden: bool,
    /// The vendor and product that it tells, if it has its own instead of the array's.
    #[serde(default)]
    pub identification: Option<Identification>,
    /// Which primitives are on for it.
    #[serde(default)]
    pub primitives: Primitives,
    /// The most work that hosts get done on it.
    #[serde(default)]
    pub limits: RateLimits,
    /// Bytes that hold data, some perhaps shared with other volumes.
    pub mapped_bytes: u64,
    /// Those of them that other volumes, snapshots or clones may hold too, at most; overwriting
    /// them takes new space.
    pub shared_bytes: u64,
    /// When it was made, seconds since 1970.
    pub created: u64,
    /// Whether it is a snapshot, which never changes.
    pub snapshot: bool,
    /// What it was cloned from, as POOL/NAME, while that exists.
    pub origin: Option<String>,
    /// Snapshots of it.
    pub snapshots: usize,
    /// When someone is told how full it is.
    pub thresholds: Thresholds,
    /// How full it is.
    pub fill: Fill,
    /// The LUN number, if it is mapped; the smallest if hosts see it by several (`maps`).
    pub lun: Option<u16>,
    /// Who sees it, and by which number.
    pub maps: Vec<VolumeMap>,
    /// Hosts and groups that see it; 'any' stands for every initiator.
    pub hosts: Vec<String>,
    /// Those of `hosts` that may only read.
    pub read_only_hosts: Vec<String>,
    /// Its labels.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}

/// How a volume is to be mapped.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MapVolume {
    /// The LUN number, 0 to 16,383. When left out it is the one by which other hosts see the
    /// volume, or by which this one saw it before, if that is free; else the lowest free one.
    #[schema(maximum = 16383)]
    pub lun: Option<u16>,
    /// Whether the host may only read.
    #[serde(default)]
    pub read_only: bool,
}

/// Somebody who sees a volume.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct VolumeMap {
    /// A host, a group, or 'any'.
    pub host: String,
    /// The number by which it addresses the volume. Hosts may have different ones.
    pub lun: u16,
    /// Whether it may only read.
    pub read_only: bool,
}

/// A map that was made.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LunMap {
    /// POOL/NAME.
    pub volume: String,
    /// The host, or 'any'.
    pub host: String,
    /// The LUN number.
    pub lun: u16,
    /// Whether the host may only read.
    pub read_only: bool,
}

/// A new host.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateHost {
    /// 1 to 63 letters, digits, '-', '_', '.'; not 'any'.
    #[schema(min_length = 1, max_length = 63, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    pub name: String,
    /// iSCSI names of its initiators.
    pub initiators: Vec<String>,
    /// What they must prove; nothing when left out.
    #[serde(default)]
    pub chap: Option<Chap>,
}

/// What is to be different about a host; what is left out stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeHost {
    /// iSCSI names of its initiators.
    #[serde(default)]
    pub initiators: Option<Vec<String>>,
    /// What they must prove from now on.
    #[serde(default)]
    pub chap: Option<Chap>,
    /// Whether they need not prove anything from now on.
    #[serde(default)]
    pub no_chap: bool,
}

/// A CHAP account. It is sent to the daemon and never comes back.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Chap {
    /// The name that the initiator gives, 1 to 255 bytes.
    pub user: String,
    /// The initiator's secret, 12 to 255 bytes.
    pub secret: Secret,
    /// The name that the target gives in turn; together with `mutual_secret`.
    #[serde(default)]
    pub mutual_user: Option<String>,
    /// The target's secret, different from the initiator's.
    #[serde(default)]
    pub mutual_secret: Option<Secret>,
}

/// A text that `{:?}` does not show.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// The members of a group.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetGroup {
    /// Names of hosts.
    pub hosts: Vec<String>,
}

/// A group of hosts, to which volumes are mapped as to a host.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Names of its hosts.
    pub hosts: Vec<String>,
    /// Its labels.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}

/// Whether discovery wants a proof.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Discovery {
    /// The CHAP name; without one everybody may ask for targets.
    pub chap_user: Option<String>,
    /// Whether the target proves who it is, too.
    pub mutual: bool,
}

/// A host.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// iSCSI names of its initiators.
    pub initiators: Vec<String>,
    /// The CHAP name that they must prove; `None` if they need not.
    pub chap_user: Option<String>,
    /// Whether the target proves who it is, too.
    pub mutual_chap: bool,
    /// Which primitives are on for it.
    #[serde(default)]
    pub primitives: Primitives,
    /// The most work that it gets done, on all volumes together.
    #[serde(default)]
    pub limits: RateLimits,
    /// What it gets of a pool for which other hosts wait, too: so many times what a host with 1 gets.
    #[serde(default = "share_default")]
    pub share: u8,
    /// Its labels.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}
