//! Reclaim counters: how much of the space that volumes gave up was freed, and how much a snapshot,
//! a clone or a copy still holds.

use std::collections::BTreeMap;

use block::{BLOCK, VolumeId};

use crate::address::BlockRange;
use crate::entry::{Entry, PageKey};
use crate::store::Store;
use crate::volume::Volume;

/// What UNMAP, and zeros in WRITE SAME or WRITE, did to a volume since the pool was opened. Whole
/// blocks; bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reclaim {
    /// Bytes that were to become holes.
    pub asked_bytes: u64,
    /// Those of them that held data.
    pub unmapped_bytes: u64,
    /// Those of these that stay in use elsewhere. Subtrees that the reaper has not taken apart yet
    /// count as freed.
    pub held: Vec<Held>,
}

impl Reclaim {
    /// Bytes that stay in use elsewhere.
    pub fn held_bytes(&self) -> u64 {
        self.held.iter().map(|held| held.bytes).sum()
    }

    /// Bytes that returned to the pool.
    pub fn freed_bytes(&self) -> u64 {
        self.unmapped_bytes.saturating_sub(self.held_bytes())
    }
}

/// Space that a volume gave up and another one still uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The youngest snapshot or clone of the volume at that time, which shares all that an older
    /// one shares; or the volume it was cloned from. `None` if it was copied by EXTENDED COPY.
    pub holder: Option<VolumeId>,
    /// How much, at most.
    pub bytes: u64,
}

/// As [`Reclaim`], in blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reclaimed {
    asked: u64,
    unmapped: u64,
    held: BTreeMap<Option<VolumeId>, u64>,
}

/// Watches references that are dropped for a volume that gives up space.
#[derive(Default)]
pub(crate) struct Released {
    owner: Option<VolumeId>,
    /// For whom the reaper takes subtrees apart. Those of deleted volumes are not among them.
    queued: BTreeMap<PageKey, VolumeId>,
    /// Blocks that others keep.
    kept: BTreeMap<VolumeId, u64>,
}

impl Released {
    pub(crate) fn begin(&mut self, owner: VolumeId) {
        self.owner = Some(owner);
    }

    pub(crate) fn end(&mut self) {
        self.owner = None;
    }

    /// Blocks that somebody else refers to, too.
    pub(crate) fn keep(&mut self, blocks: u32) {
        if let Some(owner) = self.owner
            && blocks > 0
        {
            *self.kept.entry(owner).or_default() += u64::from(blocks);
        }
    }

    /// A subtree goes to the reaper.
    pub(crate) fn queue(&mut self, entry: Entry) {
        if let Some(owner) = self.owner {
            self.queued.insert(entry.page_key(), owner);
        }
    }

    /// The reaper takes a subtree apart.
    pub(crate) fn resume(&mut self, entry: Entry) {
        self.owner = self.queued.remove(&entry.page_key());
    }
}

impl Store {
    /// Reclaim counters of a volume.
    pub fn reclaimed(&self, volume: VolumeId) -> Reclaim {
        let Some(reclaimed) = self.reclaimed.get(&volume) else { return Reclaim::default() };
        let held = reclaimed.held.iter();
        Reclaim {
            asked_bytes: reclaimed.asked * BLOCK,
            unmapped_bytes: reclaimed.unmapped * BLOCK,
            held: held.map(|(&holder, &blocks)| Held { holder, bytes: blocks * BLOCK }).collect(),
        }
    }

    /// Makes blocks holes, and keeps the account of it.
    pub(crate) fn reclaim(&mut self, id: VolumeId, range: BlockRange) {
        let before = self.volumes[&id].mapped_bytes;
        self.map.released.begin(id);
        self.zero(id, range);
        self.map.released.end();
        let reclaimed = self.reclaimed.entry(id).or_default();
        reclaimed.asked += range.count;
        reclaimed.unmapped += (before - self.volumes[&id].mapped_bytes) / BLOCK;
        self.settle_reclaimed();
    }

    /// Finds out who holds what others keep.
    pub(crate) fn settle_reclaimed(&mut self) {
        while let Some((id, blocks)) = self.map.released.kept.pop_first() {
            let holder = self.holder(id);
            if let Some(reclaimed) = self.reclaimed.get_mut(&id) {
                *reclaimed.held.entry(holder).or_default() += blocks;
            }
        }
    }

    /// A volume is no more: what it held is held by its siblings, or by nobody.
    pub(crate) fn forget_reclaimed(&mut self, id: VolumeId) {
        self.reclaimed.remove(&id);
        let heirs: Vec<_> = self.reclaimed.keys().map(|&of| (of, self.holder(of))).collect();
        for (of, heir) in heirs {
            let Some(reclaimed) = self.reclaimed.get_mut(&of) else { continue };
            let blocks = reclaimed.held.remove(&Some(id));
            if let (Some(blocks), Some(heir)) = (blocks, heir) {
                *reclaimed.held.entry(Some(heir)).or_default() += blocks;
            }
        }
    }

    fn holder(&self, id: VolumeId) -> Option<VolumeId> {
        let related = |volume: &&Volume| volume.origin == Some(id);
        let youngest = self.volumes.values().filter(related).max_by_key(|volume| volume.created);
        let origin = || self.volumes.get(&id)?.origin.filter(|id| self.volumes.contains_key(id));
        youngest.map(|volume| volume.id).or_else(origin)
    }
}
