//! Reclaim counters: how much of the space that volumes gave up was freed, and how much a snapshot,
//! a clone or a copy still holds.

use std::collections::BTreeMap;

use block::{BLOCK, VolumeId};

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

impl Reclaimed {
    /// Adds a change of so many blocks, of which so many held data.
    pub(crate) fn add(&mut self, asked: u64, unmapped: u64) {
        self.asked += asked;
        self.unmapped += unmapped;
    }

    /// Adds blocks that somebody else still uses.
    pub(crate) fn hold(&mut self, holder: Option<VolumeId>, blocks: u64) {
        *self.held.entry(holder).or_default() += blocks;
    }

    /// A holder is no more: what it held is held by its heir, or by nobody.
    pub(crate) fn inherit(&mut self, holder: VolumeId, heir: Option<VolumeId>) {
        if let (Some(blocks), Some(heir)) = (self.held.remove(&Some(holder)), heir) {
            self.hold(Some(heir), blocks);
        }
    }

    /// The same in bytes.
    pub(crate) fn in_bytes(&self) -> Reclaim {
        let held = self.held.iter();
        Reclaim {
            asked_bytes: self.asked * BLOCK,
            unmapped_bytes: self.unmapped * BLOCK,
            held: held.map(|(&holder, &blocks)| Held { holder, bytes: blocks * BLOCK }).collect(),
        }
    }
}
