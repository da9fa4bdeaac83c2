//! Types of pool export, pool import and the recovery key.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{MemberState, Secret};

/// A pool that this array does not know is taken over, with all that hosts rely on. Whatever collides
/// with what the array has is refused, unless one of the choices says what is to be done.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ImportPool {
    /// Its devices, files or block devices, in any order.
    pub devices: Vec<String>,
    /// A directory whose files and block devices are looked through for devices of pools.
    pub scan: Option<String>,
    /// Which pool, if several are found: its name or its UUID.
    pub pool: Option<String>,
    /// Another name for the pool.
    pub rename: Option<String>,
    /// The array takes the target name that the pool's hosts know, and with it discovery, vendor and
    /// product, and states of paths. So it does by itself if it has neither pools nor hosts.
    pub adopt_target_name: bool,
    /// The array keeps its target name, and the pool's hosts must log in to that.
    pub keep_target_name: bool,
    /// Hosts and groups that the array has by the same name, or by an initiator, stay as they are
    /// here; volumes are mapped to them.
    pub existing_hosts: bool,
    /// No hosts, groups and LUN maps are taken.
    pub skip_hosts: bool,
    /// Where another volume has the LUN number of one of the pool's, that gets another one.
    pub new_luns: bool,
    /// No schedules are taken.
    pub skip_schedules: bool,
    /// Although another array used the pool last and did not export it. If that one still uses it,
    /// both destroy it.
    pub force: bool,
    /// Although members of mirrors are missing that may have newer data than those that were found:
    /// what only they have is given up.
    pub degraded: bool,
    /// Nothing is changed; the answer says what would be, and what collides.
    pub dry_run: bool,
    /// The recovery key of the array that used the pool last. Without it CHAP accounts come without
    /// secrets, unless this array has the key.
    pub recovery_key: Option<Secret>,
}

/// What an import brought, or would bring.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolImport {
    /// The name of the pool here.
    pub pool: String,
    /// Its UUID.
    pub uuid: String,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// Whether the array gave the pool away that used it last.
    pub exported: bool,
    /// The target name of the array that used it last; empty if the pool does not say.
    pub last_target_name: String,
    /// The target name of this array afterwards.
    pub target_name: String,
    /// Its devices, in their order.
    pub devices: Vec<String>,
    /// Its mirrors, as the membership lists on the devices that were found have them.
    #[serde(default)]
    pub mirrors: Vec<FoundMirror>,
    /// What is made or changed, a sentence each.
    pub changes: Vec<String>,
    /// What stands in the way; an import that is no dry run is refused.
    pub collisions: Vec<Collision>,
    /// What the pool has and does not come, a sentence each.
    pub missing: Vec<String>,
}

/// A mirror of a pool that is imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundMirror {
    /// Its number among the pool's devices.
    pub index: usize,
    /// Whether a member is missing or not current.
    pub degraded: bool,
    /// Its members.
    pub members: Vec<FoundMember>,
}

/// A member of such a mirror.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundMember {
    /// Its identity, hexadecimal.
    pub uuid: String,
    /// Where it was found; absent if it is missing.
    pub device: Option<String>,
    /// Where it was when the pool was last in use; absent if the pool does not say.
    pub last_device: Option<String>,
    /// Its size, bytes.
    pub size_bytes: u64,
    /// What its copy is worth by the newest list that was found.
    pub state: MemberState,
    /// Generation of its own list; a lower one than another member's is older.
    pub generation: Option<u64>,
}

/// Something that an array and a pool both have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Collision {
    /// What, in a sentence.
    pub what: String,
    /// What can be done about it, as options of `gantry pool import`.
    pub solution: String,
}

/// A pool is given away.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExportPool {
    /// Although hosts are logged in that see its volumes: they lose them.
    pub force: bool,
}

/// The key by which CHAP accounts in pools are read.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RecoveryKey {
    /// The key, to be kept where neither the array nor its disks are.
    pub key: String,
    /// Tells keys apart.
    pub id: String,
}
