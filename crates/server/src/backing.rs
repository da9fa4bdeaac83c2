//! Free space of the file systems below pools: how much they still have, and how much of a pool's
//! free space is not backed there.
//!
//! A pool's file is sparse: its size is an upper limit. Space that the pool counts as free is
//! *unbacked* where the file has no blocks allocated and the file system has none left, or refused
//! them. Hosts and administrators are told of backed free space only.

use std::collections::BTreeMap;
use std::path::PathBuf;

use device::Backing;
use store::Space;

use crate::limits::{BACKING_FULL_BELOW_BYTES, BACKING_ROOM_AGAIN_BYTES};
use crate::pool::Slots;

/// The engine asks a file system for the space of a whole allocation group.
const GROUP_BYTES: u64 = 128 << 20;

#[cfg(test)]
mod tests;

/// A file system under one or several devices of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileSystem {
    /// Which one; devices of other pools with the same number share its space.
    pub(crate) id: u64,
    pub(crate) mount_point: PathBuf,
    pub(crate) size_bytes: u64,
    pub(crate) free_bytes: u64,
    /// Bytes of the pool's files on it that have no space yet.
    pub(crate) unallocated_bytes: u64,
    /// Devices of the pool on it, counted from 0.
    pub(crate) devices: Vec<usize>,
}

/// Whether a pool's free space is backed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BackingState {
    /// All of it.
    #[default]
    Enough,
    /// Not all of it.
    Short,
    /// None of it: new data is refused.
    Full,
}

/// The file systems under a pool, as they were last looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolBacking {
    pub(crate) file_systems: Vec<FileSystem>,
    /// Space that the engine was refused although the file systems seem to have it, as with a
    /// quota.
    refused: Option<Refused>,
    pub(crate) state: BackingState,
}

/// A refusal, and what the file systems said when it came.
#[derive(Clone, Copy, Debug)]
struct Refused {
    unbacked_bytes: u64,
    free_bytes: u64,
    unallocated_bytes: u64,
}

impl FileSystem {
    /// Bytes of the files that find no space on it. Space is taken a group at a time.
    fn missing_bytes(&self) -> u64 {
        if self.free_bytes >= self.unallocated_bytes {
            return 0;
        }
        self.unallocated_bytes - self.free_bytes / GROUP_BYTES * GROUP_BYTES
    }
}

impl PoolBacking {
    /// Takes what the devices were last told, and has them asked again. `space` is the engine's
    /// view.
    pub(crate) fn look(&mut self, devices: &Slots, space: &Space) {
        let found = devices.iter().map(|(slot, open)| (usize::from(slot), open.device.backing()));
        self.file_systems = file_systems(found.filter_map(|(n, found)| Some((n, found?))));
        devices.iter().for_each(|(_, open)| open.device.look_at_backing());
        self.note_refusal(space.unbacked);
        self.state = self.state_after(&self.cap(*space));
    }

    /// The engine forgets a refusal when it asks again; here it holds until the files or the file
    /// systems show that there is space.
    fn note_refusal(&mut self, unbacked_bytes: u64) {
        let sum = |part: fn(&FileSystem) -> u64| self.file_systems.iter().map(part).sum();
        let (free_bytes, unallocated_bytes) =
            (sum(|system| system.free_bytes), sum(|system| system.unallocated_bytes));
        if unbacked_bytes > 0 {
            // What the file systems said at first is kept: it is what they must exceed.
            let now = Refused { unbacked_bytes, free_bytes, unallocated_bytes };
            self.refused = Some(Refused { unbacked_bytes, ..self.refused.unwrap_or(now) });
            return;
        }
        let is_over = |refused: &Refused| {
            unallocated_bytes < refused.unallocated_bytes
                || free_bytes >= refused.free_bytes.saturating_add(GROUP_BYTES)
        };
        self.refused = self.refused.filter(|refused| !is_over(refused));
    }

    /// The engine's space with what is not backed taken from what is free. What is promised to
    /// thick volumes has its space.
    pub(crate) fn cap(&self, space: Space) -> Space {
        let missing: u64 = self.file_systems.iter().map(FileSystem::missing_bytes).sum();
        let refused = self.refused.map_or(0, |refused| refused.unbacked_bytes);
        let most = space.free + space.unbacked;
        let unbacked = missing.max(refused).max(space.unbacked);
        let unbacked = unbacked.min(most - space.promised.min(space.free));
        Space { free: most - unbacked, unbacked, ..space }
    }

    fn state_after(&self, capped: &Space) -> BackingState {
        let left = capped.free - capped.promised.min(capped.free);
        let bound = match self.state {
            BackingState::Full => BACKING_ROOM_AGAIN_BYTES,
            BackingState::Enough | BackingState::Short => BACKING_FULL_BELOW_BYTES,
        };
        match capped.unbacked {
            0 => BackingState::Enough,
            _ if left < bound => BackingState::Full,
            _ => BackingState::Short,
        }
    }

    /// Bytes that the file systems have left, each counted once; `None` if no device is a file.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let free = self.file_systems.iter().map(|system| system.free_bytes);
        (!self.file_systems.is_empty()).then(|| free.sum())
    }

    /// Message to the administrator about space that is not backed.
    pub(crate) fn message(&self, capped: &Space) -> Option<String> {
        let tightest = self.file_systems.iter().max_by_key(|system| system.missing_bytes())?;
        let (place, free) = (tightest.mount_point.display(), size(tightest.free_bytes));
        match self.state {
            BackingState::Enough => None,
            BackingState::Short => Some(format!(
                "the file system at {place} has {free} left, but the pool's files on it may still \
                 grow by {}: {} of the pool have no space below them, and are not counted as free",
                size(tightest.unallocated_bytes),
                size(capped.unbacked)
            )),
            BackingState::Full => Some(format!(
                "the file system at {place} is full ({free} left): new data is refused (sense \
                 07h/27h/07h), although {} of the pool are not in use. Make room there, at least \
                 128 MiB; what is stored can be read, overwritten, unmapped and deleted meanwhile",
                size(capped.unbacked)
            )),
        }
    }
}

/// One entry per file system, however many of the pool's devices are on it.
fn file_systems(found: impl Iterator<Item = (usize, Backing)>) -> Vec<FileSystem> {
    let mut systems: BTreeMap<u64, FileSystem> = BTreeMap::new();
    for (number, backing) in found {
        let Backing { file_system, mount_point, size_bytes, free_bytes, unallocated_bytes } =
            backing;
        let system = systems.entry(file_system).or_insert_with(|| FileSystem {
            id: file_system,
            mount_point,
            size_bytes,
            free_bytes,
            unallocated_bytes: 0,
            devices: Vec::new(),
        });
        // Asked one after the other: the one that found less counts.
        system.free_bytes = system.free_bytes.min(free_bytes);
        system.unallocated_bytes += unallocated_bytes;
        system.devices.push(number);
    }
    systems.into_values().collect()
}

/// As the command line writes sizes.
fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.iter().find(|(unit, _)| bytes >= *unit);
    unit.map_or_else(
        || format!("{bytes} B"),
        |(unit, name)| format!("{:.1} {name}", bytes as f64 / *unit as f64),
    )
}
