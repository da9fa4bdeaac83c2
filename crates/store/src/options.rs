//! Options of a pool, which its owner sets when it opens the pool.

use std::time::Duration;

use block::BLOCK;

use crate::limits::CHECKPOINT_INTERVAL;

/// Access to an opened pool, and the treatment of a damaged journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenMode {
    /// It serves reads and writes. If acknowledged commits of its journal are lost it is not
    /// opened ([`crate::OpenError::JournalLost`]).
    #[default]
    ReadWrite,
    /// It serves reads, and nothing is written to its devices. A damaged journal is followed as
    /// far as it is intact.
    ReadOnly,
    /// As [`OpenMode::ReadWrite`], but what a damaged journal lost is given up for good: the pool
    /// goes on from the last commit before the damage.
    Rewind,
}

/// How a pool is run. Nothing of it is on disk, but for the journal's size when it is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of the journal of a new pool; 0 for 1/64 of the device, between 8 and 256 MiB.
    pub journal_bytes: u64,
    /// How a pool that is there is opened.
    pub mode: OpenMode,
    /// Bytes of memory for the pool's maps: half for pages of the map that are
    /// also on disk, an eighth for space maps, an eighth at most for changed pages, twice.
    pub memory_bytes: u64,
    /// Subtrees of deleted volumes that are taken apart per second while space is not short; each
    /// is up to 1 MiB of a volume.
    pub reap_rate: u64,
    /// Bytes per second that a scrub reads at most.
    pub scrub_rate: u64,
    /// How often a change reaches a checkpoint at the latest.
    pub checkpoint_interval: Duration,
    /// Whether checksums of data read and written are told ([`block::Sample`]).
    pub sampling: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            journal_bytes: 0,
            mode: OpenMode::ReadWrite,
            memory_bytes: 2 << 30,
            reap_rate: 50_000,
            scrub_rate: 200 << 20,
            checkpoint_interval: CHECKPOINT_INTERVAL,
            sampling: false,
        }
    }
}

impl Options {
    /// Pages of the map that stay in memory though they are on disk.
    pub(crate) fn clean_pages(&self) -> usize {
        (self.memory_bytes / 2 / PAGE_MEMORY) as usize
    }

    /// Changed pages of the map.
    pub(crate) fn dirty_pages(&self) -> usize {
        (self.memory_bytes / 8 / PAGE_MEMORY) as usize
    }

    /// Groups whose space maps stay in memory.
    pub(crate) fn groups(&self) -> usize {
        (self.memory_bytes / 8 / GROUP_MEMORY) as usize
    }
}

/// Bytes that a page of the map takes in memory: its entries, and its place in the cache.
const PAGE_MEMORY: u64 = BLOCK + 96;

/// Bytes that a group's space maps take in memory: two bitmaps, and some pages of counts.
const GROUP_MEMORY: u64 = 4 * BLOCK;

/// A new pool.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// Names the pool in the world.
    pub pool_uuid: [u8; 16],
    /// Its devices, 1 to 32; the first one also holds the journal.
    pub devices: Vec<DeviceSpec>,
}

/// A device that joins a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Names the device in the world.
    pub uuid: [u8; 16],
    /// Its bytes.
    pub size_bytes: u64,
}
