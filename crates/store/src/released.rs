//! Counts blocks that a volume gave up and others still refer to, while their last references are
//! looked for.

use std::collections::BTreeMap;

use block::VolumeId;

use crate::entry::{Entry, PageKey};

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

    /// Takes what was counted for one volume.
    pub(crate) fn pop(&mut self) -> Option<(VolumeId, u64)> {
        self.kept.pop_first()
    }
}
