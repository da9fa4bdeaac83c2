//! Table of all volumes of a pool, by identifier and by name, and the sums that are kept over them.

use std::collections::BTreeMap;
use std::ops::{Bound, Index};

use block::VolumeId;

use crate::address::DeviceNumber;
use crate::change::{RECORDS, device_of_moved, moved_from};
use crate::directory::Directory;
use crate::map::Root;
use crate::reclaim::{Reclaim, Reclaimed};
use crate::released::Released;
use crate::volume::Volume;

/// All volumes and snapshots.
#[derive(Default)]
pub(crate) struct Volumes {
    by_id: BTreeMap<VolumeId, Volume>,
    directory: Directory,
    /// The device that leaves: there is a volume of what was moved from it.
    moved: Option<DeviceNumber>,
    /// Blocks that are promised to thick volumes and not yet theirs.
    owed: u64,
    /// Reclaim counters by volume.
    reclaimed: BTreeMap<VolumeId, Reclaimed>,
    /// Whether a count of what thick volumes share is due.
    count_wanted: bool,
    /// Whether any volume was changed since the last count began.
    changed_since_count: bool,
}

impl Index<&VolumeId> for Volumes {
    type Output = Volume;

    fn index(&self, id: &VolumeId) -> &Volume {
        &self.by_id[id]
    }
}

impl Volumes {
    pub(crate) fn get(&self, id: VolumeId) -> Option<&Volume> {
        self.by_id.get(&id)
    }

    pub(crate) fn contains(&self, id: VolumeId) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// All, by identifier.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Volume> {
        self.by_id.values()
    }

    /// Those whose identifiers are above one, or all.
    pub(crate) fn after(&self, last: Option<VolumeId>) -> impl Iterator<Item = &Volume> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_id.range((from, Bound::Unbounded)).map(|(_, volume)| volume)
    }

    /// As [`Self::get`], but not those that nobody is shown.
    pub(crate) fn shown(&self, id: VolumeId) -> Option<&Volume> {
        self.get(id).filter(|volume| !volume.is_hidden())
    }

    /// As [`Self::after`], without those that nobody is shown.
    pub(crate) fn shown_after(&self, last: Option<VolumeId>) -> impl Iterator<Item = &Volume> {
        self.after(last).filter(|volume| !volume.is_hidden())
    }

    /// How many there are besides those that nobody is shown.
    pub(crate) fn shown_len(&self) -> usize {
        self.len() - usize::from(self.contains(RECORDS)) - usize::from(self.moved.is_some())
    }

    /// The table that a checkpoint writes.
    pub(crate) fn by_id(&self) -> &BTreeMap<VolumeId, Volume> {
        &self.by_id
    }

    /// All of them, for a change that leaves their sizes and mapped blocks as they are.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Volume> {
        self.by_id.values_mut()
    }

    /// The root of a volume's map, for a change that leaves what it maps as it is.
    pub(crate) fn root_mut(&mut self, id: VolumeId) -> Option<&mut Root> {
        self.by_id.get_mut(&id).map(|volume| &mut volume.root)
    }

    /// The device that leaves, and the volume of what was moved from it.
    pub(crate) fn moved(&self) -> Option<(DeviceNumber, &Volume)> {
        let device = self.moved?;
        Some((device, self.get(moved_from(device))?))
    }

    /// Lets the moving of blocks of a device that leaves rest, or go on.
    pub(crate) fn set_moving_rests(&mut self, rests: bool) {
        let id = self.moved.map(moved_from);
        if let Some(volume) = id.and_then(|id| self.by_id.get_mut(&id)) {
            volume.set_rests(rests);
        }
    }

    /// The index by name.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Changes a volume, and keeps the sums.
    pub(crate) fn update<R>(&mut self, id: VolumeId, change: impl FnOnce(&mut Volume) -> R) -> R {
        let volume = self.by_id.get_mut(&id).expect("records name volumes that exist");
        self.changed_since_count = true;
        self.owed -= volume.owed_blocks();
        let (size, mapped) = (volume.spec.size_bytes, volume.mapped_bytes);
        let result = change(volume);
        self.owed += volume.owed_blocks();
        if !volume.spec.snapshot && volume.spec.size_bytes != size {
            self.directory.resized(size, volume.spec.size_bytes);
        }
        self.directory.remapped(mapped, volume.mapped_bytes);
        result
    }

    /// Adds a volume; returns another one that had its identifier. What it is known to share, also as
    /// read from the table when the pool is opened, may be more than it shares.
    pub(crate) fn insert(&mut self, volume: Volume) -> Option<Volume> {
        self.changed_since_count = true;
        self.owed += volume.owed_blocks();
        self.directory.insert(&volume);
        self.moved = self.moved.or(device_of_moved(volume.spec.id));
        self.by_id.insert(volume.spec.id, volume)
    }

    /// Gives a volume another name, which none has.
    pub(crate) fn rename(&mut self, id: VolumeId, name: &str) {
        if let Some(volume) = self.by_id.get_mut(&id) {
            self.directory.rename(&volume.spec.name, name);
            name.clone_into(&mut volume.spec.name);
        }
    }

    /// Removes a volume whose blocks are given up already. What it shared with thick volumes may
    /// be their own now.
    pub(crate) fn remove(&mut self, id: VolumeId) {
        // What is promised to it is no more.
        self.update(id, |volume| volume.spec.thick = false);
        if let Some(volume) = self.by_id.remove(&id) {
            self.directory.remove(&volume);
        }
        self.moved.take_if(|device| moved_from(*device) == id);
        self.forget_reclaimed(id);
        self.want_count();
    }

    /// Asks for a count of what thick volumes share, if it may find less than is noted. Returns
    /// whether one is due.
    pub(crate) fn want_count(&mut self) -> bool {
        if self.changed_since_count && !self.count_wanted {
            let shares = |volume: &Volume| volume.spec.thick && volume.shared_blocks > 0;
            self.count_wanted = self.by_id.values().any(shares);
        }
        self.count_wanted
    }

    /// A count of what thick volumes share begins; it is not due any more then.
    pub(crate) fn begin_counts(&mut self) {
        (self.count_wanted, self.changed_since_count) = (false, false);
    }

    /// Whether a count of what thick volumes share is due.
    pub(crate) fn is_count_wanted(&self) -> bool {
        self.count_wanted
    }

    /// A count of what a volume shares begins.
    pub(crate) fn begin_count(&mut self, id: VolumeId) {
        if let Some(volume) = self.by_id.get_mut(&id) {
            volume.shared_since_count = 0;
        }
    }

    /// A volume was found to share so many blocks, besides those that it came to share meanwhile.
    pub(crate) fn counted(&mut self, id: VolumeId, shared: u64) {
        let Some(volume) = self.by_id.get_mut(&id) else { return };
        self.owed -= volume.owed_blocks();
        let most = shared.saturating_add(volume.shared_since_count);
        volume.shared_blocks = volume.shared_blocks.min(most);
        self.owed += volume.owed_blocks();
    }

    /// Blocks that are promised to thick volumes.
    pub(crate) fn owed_blocks(&self) -> u64 {
        self.owed
    }

    /// Whether a volume is one to which space is promised.
    pub(crate) fn is_thick(&self, id: VolumeId) -> bool {
        self.by_id.get(&id).is_some_and(|volume| volume.spec.thick)
    }

    /// Bytes that all volumes map.
    pub(crate) fn mapped_bytes(&self) -> u64 {
        self.directory.mapped_bytes()
    }

    /// Reclaim counters of a volume.
    pub(crate) fn reclaimed(&self, id: VolumeId) -> Reclaim {
        self.reclaimed.get(&id).map(Reclaimed::in_bytes).unwrap_or_default()
    }

    /// Counts blocks that a volume was to give up, and those of them that held data.
    pub(crate) fn count_reclaimed(&mut self, id: VolumeId, asked: u64, unmapped: u64) {
        self.reclaimed.entry(id).or_default().add(asked, unmapped);
    }

    /// Finds out who holds what others keep.
    pub(crate) fn settle_reclaimed(&mut self, released: &mut Released) {
        while let Some((id, blocks)) = released.pop() {
            let holder = self.holder(id);
            if let Some(reclaimed) = self.reclaimed.get_mut(&id) {
                reclaimed.hold(holder, blocks);
            }
        }
    }

    /// Reclaim counters begin anew.
    pub(crate) fn clear_reclaimed(&mut self) {
        self.reclaimed.clear();
    }

    /// A volume is no more: what it held is held by its siblings, or by nobody.
    fn forget_reclaimed(&mut self, id: VolumeId) {
        self.reclaimed.remove(&id);
        let heirs: Vec<_> = self.reclaimed.keys().map(|&of| (of, self.holder(of))).collect();
        for (of, heir) in heirs {
            if let Some(reclaimed) = self.reclaimed.get_mut(&of) {
                reclaimed.inherit(id, heir);
            }
        }
    }

    fn holder(&self, id: VolumeId) -> Option<VolumeId> {
        let related = |volume: &&Volume| volume.origin == Some(id);
        let youngest = self.by_id.values().filter(related).max_by_key(|volume| volume.spec.created);
        let origin = || self.by_id.get(&id)?.origin.filter(|id| self.by_id.contains_key(id));
        youngest.map(|volume| volume.spec.id).or_else(origin)
    }
}
