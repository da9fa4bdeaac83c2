//! Pools, their devices and their space.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A new pool.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreatePool {
    /// 1 to 63 letters, digits, '-', '_', '.'.
    #[schema(min_length = 1, max_length = 63, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    pub name: String,
    /// Each file:PATH, block:PATH or memory:; 1 to 32, in the order in which the pool counts them.
    #[schema(min_items = 1, max_items = 32)]
    pub devices: Vec<String>,
    /// Size of each device, bytes; may be left out for block devices, which are then used whole.
    pub size_bytes: Option<u64>,
}

/// A device that is to join a pool.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddDevice {
    /// file:PATH, block:PATH or memory:.
    pub device: String,
    /// Its size, bytes; may be left out for a block device, which is then used whole.
    pub size_bytes: Option<u64>,
}

/// A larger device.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResizePool {
    /// Which one, counted from 0; may be left out if there is only one.
    pub device: Option<usize>,
    /// The new size of the device, bytes.
    pub size_bytes: u64,
}

/// A thin pool.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Its identity, hexadecimal.
    pub uuid: String,
    /// Where its bytes rest, in the order in which they joined.
    pub devices: Vec<Device>,
    /// ready, read-only, opening, unavailable.
    pub state: String,
    /// Why, when it is not ready.
    pub reason: Option<String>,
    /// Sum of the sizes of the devices, bytes.
    pub size_bytes: u64,
    /// Where the space went; absent when the pool is unavailable.
    pub space: Option<Space>,
    /// When someone is told how full it is.
    pub thresholds: Thresholds,
    /// How full it is.
    pub fill: Fill,
    /// Number of volumes, clones among them.
    pub volumes: usize,
    /// Number of snapshots.
    pub snapshots: usize,
    /// Memory that its maps may take, bytes.
    pub memory_bytes: u64,
    /// What the devices did since the daemon started.
    pub counters: DeviceCounters,
    /// Its labels.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}

/// A device of a pool.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Device {
    /// Which one, counted from 0.
    pub index: usize,
    /// Where it is.
    pub device: String,
    /// Its size, bytes.
    pub size_bytes: u64,
}

/// Where a pool's space went, bytes. `used + pending + reserve + free = total`, and
/// `data + metadata = used`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Space {
    /// Everything that can hold data or its map.
    pub total_bytes: u64,
    /// Held by volumes and their maps.
    pub used_bytes: u64,
    /// Part of `used` that is data.
    pub data_bytes: u64,
    /// Part of `used` that is the map.
    pub metadata_bytes: u64,
    /// Freed, and usable after the next checkpoint; or handed out to writes under way.
    pub pending_bytes: u64,
    /// Kept back so that unmap, delete and checkpoints always work.
    pub reserve_bytes: u64,
    /// Free for new data.
    pub free_bytes: u64,
    /// Part of `free` that is promised to reserved volumes.
    pub promised_bytes: u64,
    /// Saved by sharing: what volumes and snapshots map, less the data that there is.
    pub shared_bytes: u64,
    /// Sum of the sizes of all volumes, without snapshots.
    pub provisioned_bytes: u64,
    /// What is used or promised, in hundredths of what is not reserve.
    pub used_percent: u8,
}

/// Percentages at which hosts and administrators are told how full something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// A warning, 1 to 100.
    #[schema(minimum = 1, maximum = 100)]
    pub soft_percent: u8,
    /// An alarm, not below the warning, at most 100.
    #[schema(minimum = 1, maximum = 100)]
    pub hard_percent: u8,
}

/// How full something is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Fill {
    /// Below both thresholds.
    #[default]
    Normal,
    /// At or above the soft threshold.
    Soft,
    /// At or above the hard threshold.
    Hard,
}

/// What devices did since the daemon started.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct DeviceCounters {
    /// Read operations.
    pub device_reads: u64,
    /// Write operations.
    pub device_writes: u64,
    /// Flushes.
    pub device_flushes: u64,
    /// Bytes read, of data and maps.
    pub device_bytes_read: u64,
    /// Bytes written, of data, journal and maps.
    pub device_bytes_written: u64,
    /// Bytes of volume data written.
    pub data_bytes_written: u64,
    /// Bytes of volume data read.
    pub data_bytes_read: u64,
    /// Bytes copied by reference alone.
    pub bytes_cloned: u64,
}
