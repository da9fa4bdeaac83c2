//! The data mover: clones, moves, zeroes and reclaims virtual disks, by offload or by reading and
//! writing.

mod chain;
mod checksum;
mod copy;
mod decide;
mod disks;
mod raw;
mod thin;
mod window;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

pub use checksum::{checksum, checksum_of_device};
pub use copy::Piece;
pub use decide::{CloneFacts, Fallback, decide};
pub use disks::{
    Clone, MachineState, clone, eager_zero, inflate, overwrite_with_zeros, punch_zeros, reclaim,
};
pub use disks::{LiveWriter, guest_unmap, mirror_copy, storage_vmotion};
pub use raw::clone_to_device;

/// What was moved and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Bytes that the array copied.
    pub offloaded_bytes: u64,
    /// EXTENDED COPYs for them.
    pub offloaded_commands: u64,
    /// Bytes that the host read and wrote.
    pub host_bytes: u64,
    /// Bytes that were neither, as there is nothing in them.
    pub skipped_bytes: u64,
    /// Bytes that were zeroed.
    pub zeroed_bytes: u64,
    /// Bytes that were unmapped.
    pub unmapped_bytes: u64,
    /// EXTENDED COPYs that failed.
    pub failed_commands: u64,
    /// Why the host read and wrote: reason and bytes.
    pub fallbacks: BTreeMap<String, u64>,
    /// SHA-256 of source and copy, which are equal, if they were compared.
    pub verified: Option<String>,
}

impl Report {
    /// Adds what was done for another disk.
    pub fn add(&mut self, other: &Self) {
        self.offloaded_bytes += other.offloaded_bytes;
        self.offloaded_commands += other.offloaded_commands;
        self.host_bytes += other.host_bytes;
        self.skipped_bytes += other.skipped_bytes;
        self.zeroed_bytes += other.zeroed_bytes;
        self.unmapped_bytes += other.unmapped_bytes;
        self.failed_commands += other.failed_commands;
        for (reason, bytes) in &other.fallbacks {
            *self.fallbacks.entry(reason.clone()).or_default() += bytes;
        }
    }
}

/// Hears how far the work is; can stop it.
pub type Progress<'a> = dyn FnMut(u64, u64) -> ControlFlow<()> + 'a;

/// The work was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Cancelled")]
pub struct Cancelled;

pub(crate) fn tell(progress: &mut Progress<'_>, done: u64, all: u64) -> Result<(), Cancelled> {
    match progress(done, all) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Cancelled),
    }
}
