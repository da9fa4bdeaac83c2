//! Status of a pool: the space accounting and counters that it reports.

use std::fmt;

/// Whether a pool serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Being made or recovered.
    Opening,
    /// Serving.
    Ready,
    /// Serving reads; a device failed.
    ReadOnly {
        /// The failure that stopped writing.
        reason: String,
    },
    /// Serving nothing.
    Closed,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opening => f.write_str("opening"),
            Self::Ready => f.write_str("ready"),
            Self::ReadOnly { reason } => write!(f, "read-only: {reason}"),
            Self::Closed => f.write_str("closed"),
        }
    }
}

/// Work that a pool has left before space that was given up counts as free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Releasing {
    /// Subtrees of deleted or overwritten maps are to be taken apart.
    Subtrees,
    /// References are to be taken from blocks whose space maps are not in memory. A checkpoint does
    /// so at the latest, unless the space maps are damaged.
    References,
    /// Nothing.
    Nothing,
}

/// Where the space went, bytes: `used + pending + reserve + free + unbacked = total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// All that can hold data or the map.
    pub total: u64,
    /// Held by volumes and the map.
    pub used: u64,
    /// Freed, and usable after a checkpoint; or handed out to writes under way.
    pub pending: u64,
    /// Kept back so that the way out of a full pool never needs space, and for locks and metadata of
    /// hosts. It is less than a whole reserve only while a full pool makes use of it.
    pub reserve: u64,
    /// Free for new data.
    pub free: u64,
    /// Free, but the file system under the pool refused the space for it when it was last asked.
    pub unbacked: u64,
    /// Part of `free` that is promised to thick volumes.
    pub promised: u64,
    /// Part of a whole `reserve` that is for locks and the metadata of hosts' file systems.
    pub metadata_reserve: u64,
    /// Blocks left of the metadata reserve when all that is under way is done.
    pub metadata_left: u64,
    /// Part of `used` that the map and the array's records occupy.
    pub metadata: u64,
    /// What volumes hold more than once but occupies the pool only once: the bytes that all volumes
    /// map, less the data that is used.
    pub shared: u64,
}

/// Counters since the pool was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Commit groups.
    pub commits: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Bytes written to the journal.
    pub journal_bytes: u64,
    /// Bytes of volume data written.
    pub data_bytes_written: u64,
    /// Bytes of volume data read from devices.
    pub data_bytes_read: u64,
    /// Part of `data_bytes_read` that was read before hosts asked for it.
    pub ahead_bytes_read: u64,
    /// Bytes of volume data that hosts asked for and that were in memory.
    pub recent_bytes_read: u64,
    /// Bytes copied by reference.
    pub cloned_bytes: u64,
    /// Bytes copied by reading and writing.
    pub copied_bytes: u64,
    /// Bytes that became holes.
    pub zeroed_bytes: u64,
    /// Pages of the map read.
    pub pages_read: u64,
    /// Journal units replayed when the pool was opened.
    pub replayed_units: u64,
    /// Pages of the map, and of the volume table, that were damaged and read from their copies.
    pub pages_from_copies: u64,
    /// Reads of data, maps and space maps that devices refused; attempts count each.
    pub read_errors: u64,
    /// Data, pages of the map and of the space maps whose checksum did not fit.
    pub checksum_errors: u64,
    /// Pages of the map in memory that are also on disk.
    pub pages_clean: u64,
    /// Pages of the map in memory that changed since the last checkpoint.
    pub pages_dirty: u64,
    /// Groups of 128 MiB whose space maps are in memory.
    pub groups_loaded: u64,
    /// Groups of 128 MiB that are not used any more, because their space maps are damaged.
    pub groups_fenced: u64,
    /// Groups of 128 MiB for which the file system under the pool has no space.
    pub groups_unavailable: u64,
    /// Subtrees that wait for the reaper.
    pub reap_queue: u64,
}
