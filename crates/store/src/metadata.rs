//! The metadata reserve: space that is kept back for what hosts write to find their way out of a
//! full pool, which is locks, heartbeats and the metadata of their file systems.
//!
//! Such writes are short and go to the same places again and again. The first write to a place
//! needs a new block all the same, if the place is a hole (file systems zero their metadata when
//! they are made) or is shared with a snapshot. In a full pool that block comes from the reserve.
//! What was drawn shows in the free blocks alone: the reserve is whole again when so many are free,
//! and new data gets none before that. So nothing of it is on disk, and a pool that is opened knows
//! what is left of it.
//!
//! The array cannot see who wrote a block, a host's file system or a machine on it. So the reserve
//! is given out by rank ([`Standing`]): the surer it is that a write is for metadata, the deeper it
//! may draw. COMPARE AND WRITE, which a machine on a shared file system cannot send, may take the
//! last block. Of the last quarter each volume on which hosts lock has an equal share.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use block::{BLOCK, ByteRange, Pattern, Request, VolumeId};

use crate::change::RECORDS;
use crate::limits::{
    LOCK_NEIGHBOURS, METADATA_AREAS_MAX, METADATA_AREAS_OF_VOLUME_MAX, METADATA_BYTES_MAX,
};
use crate::metadata_cache::is_for_parts;

/// Blocks of an area: 1 MiB, as a leaf of the map covers.
const AREA_BLOCKS: u64 = crate::entry::FANOUT;

/// Parts into which the reserve is divided.
const PARTS: u64 = 8;

/// How sure it is that a write is for metadata, the surest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// COMPARE AND WRITE, or the array's records.
    Lock,
    /// A short write to a mebibyte in which hosts sent COMPARE AND WRITE.
    LockArea,
    /// One to a place near such a mebibyte.
    NearLock,
    /// One that covers a block in part, or goes where hosts sent such before.
    Part,
    /// Another short one that replaces data, which a snapshot keeps.
    Overwrite,
}

impl Standing {
    /// Blocks of a reserve of so many that writes of this standing leave to surer ones.
    pub(crate) fn leaves(self, reserve: u64) -> u64 {
        let parts = match self {
            Self::Lock => 0,
            Self::LockArea => 1,
            Self::NearLock => 2,
            Self::Part => 4,
            Self::Overwrite => 6,
        };
        reserve * parts / PARTS
    }
}

/// The mebibytes of a volume in which something was done; the oldest makes room.
#[derive(Default)]
struct Areas {
    known: BTreeSet<u64>,
    order: VecDeque<u64>,
}

impl Areas {
    fn note(&mut self, area: u64, most: usize) {
        if !self.known.insert(area) {
            return;
        }
        self.order.push_back(area);
        while self.order.len() > most {
            let oldest = self.order.pop_front();
            if let Some(oldest) = oldest {
                self.known.remove(&oldest);
            }
        }
    }

    fn covers(&self, areas: &RangeInclusive<u64>) -> bool {
        areas.clone().all(|area| self.known.contains(&area))
    }

    fn is_near(&self, areas: &RangeInclusive<u64>) -> bool {
        let least = areas.start().saturating_sub(LOCK_NEIGHBOURS);
        let most = areas.end().saturating_add(LOCK_NEIGHBOURS);
        self.known.range(least..=most).next().is_some()
    }
}

/// Places of a volume that look like file system metadata, by the commands that hosts sent there.
#[derive(Default)]
struct Places {
    /// Where hosts sent COMPARE AND WRITE.
    locks: Areas,
    /// Where they wrote parts of blocks.
    parts: Areas,
}

/// Where hosts keep their metadata, and what they drew of the last quarter of the reserve.
#[derive(Default)]
pub(crate) struct Metadata {
    volumes: BTreeMap<VolumeId, Places>,
    /// Blocks of the last quarter that were there when volumes began to draw on it; what each drew.
    shared_out: u64,
    drawn: BTreeMap<VolumeId, u64>,
}

impl Metadata {
    /// A request on a volume begins.
    pub(crate) fn note(&mut self, volume: VolumeId, request: &Request) {
        let (range, locks) = match request {
            Request::CompareAndWrite { range, .. } => (range, true),
            Request::Write { range, .. } if is_for_parts(request) => (range, false),
            _ => return,
        };
        let most = METADATA_AREAS_MAX / self.volumes.len().max(1);
        let most = most.clamp(1, METADATA_AREAS_OF_VOLUME_MAX);
        let places = self.volumes.entry(volume).or_default();
        let areas = if locks { &mut places.locks } else { &mut places.parts };
        areas.note(range.offset / BLOCK / AREA_BLOCKS, most);
    }

    /// A volume is no more.
    pub(crate) fn forget(&mut self, volume: VolumeId) {
        self.volumes.remove(&volume);
        self.drawn.remove(&volume);
    }

    /// What a request may draw, which replaces data only, or not only; `None`: nothing.
    pub(crate) fn standing(
        &self,
        volume: VolumeId,
        request: &Request,
        replaces_data: bool,
    ) -> Option<Standing> {
        if volume == RECORDS {
            return Some(Standing::Lock);
        }
        let range = match request {
            Request::CompareAndWrite { .. } => return Some(Standing::Lock),
            Request::WriteSame { pattern: Pattern::Zero, .. } | Request::Unmap { .. } => {
                return Some(Standing::Part);
            }
            Request::Write { range, .. } if range.length <= METADATA_BYTES_MAX => range,
            _ => return None,
        };
        let areas = areas_of(*range);
        let places = self.volumes.get(&volume);
        let knows = |known: &dyn Fn(&Places) -> bool| places.is_some_and(known);
        match () {
            () if knows(&|places| places.locks.covers(&areas)) => Some(Standing::LockArea),
            () if knows(&|places| places.locks.is_near(&areas)) => Some(Standing::NearLock),
            () if is_for_parts(request) => Some(Standing::Part),
            () if knows(&|places| places.parts.covers(&areas)) => Some(Standing::Part),
            () if replaces_data => Some(Standing::Overwrite),
            () => None,
        }
    }

    /// Whether a volume may take `blocks` of the last quarter of the reserve, of which `left` are
    /// left; more are left while others draw on the rest, and then nothing is counted.
    pub(crate) fn may_draw(&mut self, volume: VolumeId, blocks: u64, left: u64, all: u64) -> bool {
        if left >= all / 4 + blocks {
            self.drawn.clear();
            return true;
        }
        if self.drawn.is_empty() {
            self.shared_out = left.min(all / 4);
        }
        let locking = self.volumes.values().filter(|places| !places.locks.known.is_empty());
        let share = self.shared_out / locking.count().max(1) as u64;
        self.drawn.get(&volume).copied().unwrap_or(0) + blocks <= share.max(1)
    }

    /// A volume took blocks that [`Self::may_draw`] allowed.
    pub(crate) fn draw(&mut self, volume: VolumeId, blocks: u64, left: u64, all: u64) {
        if left < all / 4 + blocks {
            *self.drawn.entry(volume).or_default() += blocks;
        }
    }
}

/// The first and the last mebibyte that a range touches.
fn areas_of(range: ByteRange) -> RangeInclusive<u64> {
    let bytes = AREA_BLOCKS * BLOCK;
    range.offset / bytes..=range.end().saturating_sub(1).max(range.offset) / bytes
}

/// Blocks of the metadata reserve of a pool that has so many in all: one in a hundred, at least
/// 16 MiB, at most an eighth.
pub(crate) fn metadata_reserve_of(total: u64) -> u64 {
    (total / 100).max(4096).min(total / 8)
}

#[cfg(test)]
mod tests;
