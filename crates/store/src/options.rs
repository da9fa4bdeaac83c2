//! What the owner of a pool decides.

use std::time::Duration;

use crate::limits::CHECKPOINT_INTERVAL;

/// How a pool is run. Nothing of it is on disk, but for the journal's size when it is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of the journal of a new pool; 0 for 1/64 of the device, between 8 and 256 MiB.
    pub journal_bytes: u64,
    /// Bytes of memory for pages of the map that are also on disk.
    pub memory_bytes: u64,
    /// How often a change reaches a checkpoint at the latest.
    pub checkpoint_interval: Duration,
    /// A deliberate mistake, which the simulator must notice.
    #[cfg(feature = "planted-bugs")]
    pub planted: Option<crate::PlantedBug>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            journal_bytes: 0,
            memory_bytes: 1 << 30,
            checkpoint_interval: CHECKPOINT_INTERVAL,
            #[cfg(feature = "planted-bugs")]
            planted: None,
        }
    }
}

impl Options {
    pub(crate) fn bugs(&self) -> crate::bugs::Bugs {
        crate::bugs::Bugs {
            #[cfg(feature = "planted-bugs")]
            planted: self.planted,
        }
    }
}

/// A new pool.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// Names the pool in the world.
    pub pool_uuid: [u8; 16],
    /// Names the device in the world.
    pub device_uuid: [u8; 16],
    /// Bytes of the device.
    pub size_bytes: u64,
}
