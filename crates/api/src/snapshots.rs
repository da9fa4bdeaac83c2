//! Types for snapshots and clones.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// New snapshots of volumes of one pool, all of the same moment.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSnapshots {
    /// The pool's name.
    pub pool: String,
    /// One to 256 of them: a consistency group.
    #[schema(min_items = 1, max_items = 256)]
    pub snapshots: Vec<NewSnapshot>,
    /// Until when nobody may delete them, seconds since 1970.
    #[serde(default)]
    pub locked_until: Option<u64>,
}

/// One of them.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSnapshot {
    /// The name of the volume (or clone) in the pool.
    pub volume: String,
    /// The name of its snapshot: 1 to 63 letters, digits, '-', '_', '.', unlike those of all
    /// volumes and snapshots of the pool.
    #[schema(min_length = 1, max_length = 63, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    pub name: String,
    /// Its labels: keys of 1 to 63 letters, digits, '-', '_', '.', and values of at most 128 characters,
    /// none of them a control character; at most 16.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// A volume's content at one moment. It never changes; it can be mapped, for reading.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// The pool's name.
    pub pool: String,
    /// Its name in the pool.
    pub name: String,
    /// The volume that it is a snapshot of, by its name in the pool, while that exists.
    pub volume: Option<String>,
    /// When it was made, seconds since 1970.
    pub created: u64,
    /// NAA identifier: 'naa.' and 32 hexadecimal digits.
    pub naa: String,
    /// Size of the volume at that moment, bytes.
    pub size_bytes: u64,
    /// Bytes that hold data, most of them shared with the volume.
    pub mapped_bytes: u64,
    /// Those of them that are shared, at most.
    pub shared_bytes: u64,
    /// The LUN number, if it is mapped; the smallest if hosts see it by several.
    pub lun: Option<u16>,
    /// Hosts that see it.
    pub hosts: Vec<String>,
    /// Until when nobody may delete it, seconds since 1970, if it was ever locked.
    #[serde(default)]
    pub locked_until: Option<u64>,
    /// The schedule that made it, while that exists.
    #[serde(default)]
    pub schedule: Option<String>,
    /// Its labels.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}

/// A new, writable volume with the content of a volume or snapshot.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CloneVolume {
    /// Its name in the same pool.
    #[schema(min_length = 1, max_length = 63, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    pub name: String,
    /// Whether it is thick: all of its space is set aside, so that it never runs out.
    #[serde(default, alias = "reserved")]
    pub thick: bool,
    /// Its labels: keys of 1 to 63 letters, digits, '-', '_', '.', and values of at most 128 characters,
    /// none of them a control character; at most 16.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// A volume is to take back the content and the size that a snapshot of it kept.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RevertVolume {
    /// The snapshot's name in the pool.
    pub snapshot: String,
    /// Must be true while the volume is mapped: hosts that use it must not have it in use.
    #[serde(default)]
    pub force: bool,
}

/// Extents of one answer about changes at most.
pub const CHANGES_MAX: u64 = 10_000;

/// What differs between two snapshots of a pool, or what one of them holds.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SnapshotChanges {
    /// The pool's name.
    pub pool: String,
    /// The snapshot's name in the pool.
    pub snapshot: String,
    /// Its NAA identifier: who asks for several parts sees that they are of the same snapshot.
    pub naa: String,
    /// The snapshot that it is compared with; without one all that holds data is told.
    pub base: Option<String>,
    /// The NAA identifier of that.
    pub base_naa: Option<String>,
    /// Size of the snapshot, bytes.
    pub size_bytes: u64,
    /// The byte where the answer begins.
    pub offset: u64,
    /// What may differ, in order and without overlap. Everything else up to `next_offset`, or the end,
    /// is equal.
    pub extents: Vec<ChangedExtent>,
    /// The offset to ask for next; null if this was all. An answer may have no extents and yet go on.
    pub next_offset: Option<u64>,
    /// Pages of 4 KiB of the pool's map that were looked at: what the answer cost.
    pub map_pages: u64,
}

/// A run of bytes that may differ, in multiples of 4,096.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedExtent {
    /// The first byte.
    pub offset: u64,
    /// How many.
    pub length: u64,
    /// What the snapshot holds there.
    pub state: ExtentState,
}

/// What a snapshot holds somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExtentState {
    /// Data, to be read.
    Data,
    /// Nothing: it reads as zeros.
    Zero,
}
