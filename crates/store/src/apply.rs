//! Applies journal records to the map, the volumes and the space of a pool: after a commit, and when
//! a journal is replayed.

use block::{BLOCK, VolumeId};

use crate::address::{BlockRange, DeviceNumber, Run, VolumeBlock};
use crate::change::device_of_moved;
use crate::entry::{Entry, FANOUT, Kind, levels_for};
use crate::layout::Layout;
use crate::map::Missing;
use crate::pool::{NO_DEVICE, Pool};
use crate::record::Record;
use crate::volume::Volume;

impl Pool {
    /// A page that must be in memory before the record can be applied.
    pub(crate) fn missing_for_record(&mut self, record: &Record) -> Option<Missing> {
        match record {
            Record::Write { volume, first, crcs, .. } => {
                let root = self.volumes[volume].root;
                let range = BlockRange { first: *first, count: crcs.len() as u64 };
                self.map.missing(root, range, false)
            }
            Record::Fill { volume, range, .. } => {
                self.map.missing(self.volumes[volume].root, *range, false)
            }
            Record::Zero { volume, range } => {
                self.map.missing_to_zero(self.volumes[volume].root, *range)
            }
            Record::Clone { source, source_first, volume, range } => {
                self.missing_for_clone((*source, *source_first), (*volume, *range))
            }
            Record::ResizeVolume { volume, size_bytes } => {
                let volume = &self.volumes[volume];
                let gone = volume.blocks_from(size_bytes / BLOCK);
                let shrinks = !gone.is_empty();
                shrinks.then(|| self.map.missing_to_zero(volume.root, gone)).flatten()
            }
            Record::CreateVolume { .. }
            | Record::DeleteVolume { .. }
            | Record::RevertVolume { .. }
            | Record::AddDevice { .. }
            | Record::ExtendDevice { .. } => None,
        }
    }

    /// A page that applying a clone needs: the source's, and the destination's where a leaf is not
    /// replaced as a whole.
    pub(crate) fn missing_for_clone(
        &mut self,
        (source, source_first): (VolumeId, VolumeBlock),
        (volume, range): (VolumeId, BlockRange),
    ) -> Option<Missing> {
        let source_range = BlockRange { first: source_first, ..range };
        let by_leaf = source_first.place_in_leaf() == range.first.place_in_leaf();
        let (from, to) = (self.volumes[&source].root, self.volumes[&volume].root);
        self.map
            .missing(from, source_range, by_leaf)
            .or_else(|| self.map.missing(to, range, by_leaf))
    }

    /// Makes the change that a record describes. All pages it needs are in memory.
    pub(crate) fn apply(&mut self, record: &Record) {
        match record {
            Record::Write { volume, first, start, crcs } => {
                for block in (Run { start: *start, blocks: crcs.len() as u64 }).addresses() {
                    self.space.first_reference(block);
                }
                self.budget.refer(crcs.len() as u64);
                let data = |block: VolumeBlock| {
                    let at = block - *first;
                    Entry::data(*start + at, crcs[at as usize])
                };
                let range = BlockRange { first: *first, count: crcs.len() as u64 };
                self.change_blocks(*volume, range, data);
            }
            Record::Fill { volume, range, block, crc } => {
                self.fill(*volume, *range, Entry::data(*block, *crc), true);
            }
            Record::Zero { volume, range } => self.reclaim(*volume, *range),
            Record::Clone { source, source_first, volume, range } => {
                self.clone_blocks((*source, *source_first), (*volume, *range));
            }
            Record::CreateVolume { volume, source } => self.create(volume, *source),
            Record::DeleteVolume { volume } => self.delete(*volume),
            Record::RevertVolume { volume, source } => self.revert(*volume, *source),
            Record::ResizeVolume { volume, size_bytes } => self.resize(*volume, *size_bytes),
            Record::ExtendDevice { device, device_blocks } => {
                self.extend_device(DeviceNumber::new(*device), *device_blocks);
            }
            Record::AddDevice { uuid, device_blocks } => self.add_device(*uuid, *device_blocks),
        }
    }

    /// Makes blocks refer to one that holds their content. `is_first` if none of that record does so
    /// far: then the allocation's own reference becomes that of the first.
    pub(crate) fn fill(
        &mut self,
        volume: VolumeId,
        range: BlockRange,
        entry: Entry,
        is_first: bool,
    ) {
        let block = entry.address();
        self.shared_since += 1;
        if is_first {
            self.budget.refer(1);
            self.space.first_reference(block);
        }
        for _ in u64::from(is_first)..range.count {
            self.space.add_references(block, 1);
        }
        self.change_blocks(volume, range, |_| entry);
        self.update(volume, |volume, _, _| volume.add_shared(range.count));
    }

    /// A device has grown. Recovery has done so already when it replays the record.
    pub(crate) fn extend_device(&mut self, device: DeviceNumber, device_blocks: u64) {
        if device_blocks > self.space.layout(device).device_blocks {
            self.space.extend(device, device_blocks);
            self.back_set_aside();
        }
    }

    fn back_set_aside(&mut self) {
        for group in std::mem::take(&mut self.members.set_aside) {
            self.space.group_backed(group);
        }
    }

    /// A device has joined. Recovery has done so already when it replays the record.
    pub(crate) fn add_device(&mut self, uuid: [u8; 16], device_blocks: u64) {
        if !self.members.device_uuids.contains(&uuid) {
            match self.members.device_uuids.iter_mut().find(|name| **name == NO_DEVICE) {
                Some(name) => *name = uuid,
                None => self.members.device_uuids.push(uuid),
            }
            self.space.add_device(Layout { journal_blocks: 0, device_blocks });
            self.back_set_aside();
        }
    }

    fn delete(&mut self, id: VolumeId) {
        self.update(id, |volume, map, space| {
            map.drop_page(space, volume.root.entry, volume.root.levels - 1);
        });
        self.volumes.remove(id);
        if let Some(device) = device_of_moved(id) {
            self.space.stay(device);
        }
        self.budget.metadata.forget(id);
    }

    /// Gives a volume's root one more parent; all of its blocks are shared now.
    fn share_root(&mut self, id: VolumeId) -> Volume {
        self.update(id, |volume, map, space| {
            volume.add_shared(volume.mapped_bytes / BLOCK);
            map.share(space, volume.root.entry);
            volume.clone()
        })
    }

    fn revert(&mut self, id: VolumeId, source: VolumeId) {
        self.shared_since += 1;
        let source = self.share_root(source);
        self.update(id, |volume, map, space| {
            let old = std::mem::replace(&mut volume.root, source.root);
            (volume.mapped_bytes, volume.spec.size_bytes) =
                (source.mapped_bytes, source.spec.size_bytes);
            volume.add_shared(source.mapped_bytes / BLOCK);
            map.drop_page(space, old.entry, old.levels - 1);
        });
    }

    /// Gives blocks new entries, leaf by leaf.
    fn change_blocks(
        &mut self,
        id: VolumeId,
        range: BlockRange,
        entry: impl Fn(VolumeBlock) -> Entry,
    ) {
        self.update(id, |volume, map, space| {
            for part in range.by_leaf() {
                let changed = map.change_leaf(space, &mut volume.root, part, &entry);
                volume.add_changed(changed);
            }
        });
    }

    fn zero(&mut self, id: VolumeId, range: BlockRange) {
        self.update(id, |volume, map, space| {
            let delta = map.zero(space, &mut volume.root, range);
            volume.add_mapped(delta);
        });
    }

    /// Makes blocks holes, and keeps the account of it.
    fn reclaim(&mut self, id: VolumeId, range: BlockRange) {
        let before = self.volumes[&id].mapped_bytes;
        self.map.released.begin(id);
        self.zero(id, range);
        self.map.released.end();
        let unmapped = (before - self.volumes[&id].mapped_bytes) / BLOCK;
        self.volumes.count_reclaimed(id, range.count, unmapped);
        self.settle_reclaimed();
    }

    fn create(&mut self, volume: &Volume, source: Option<VolumeId>) {
        let mut volume = volume.clone();
        if let Some(source) = source.filter(|source| self.volumes.contains(*source)) {
            let source = self.share_root(source);
            (volume.root, volume.mapped_bytes) = (source.root, source.mapped_bytes);
            volume.origin = Some(source.spec.id);
            self.shared_since += 1;
        }
        if let Some(device) = device_of_moved(volume.spec.id) {
            self.space.leave(device);
        }
        self.volumes.insert(volume);
    }

    fn resize(&mut self, id: VolumeId, size_bytes: u64) {
        let new = size_bytes / BLOCK;
        let gone = self.volumes[&id].blocks_from(new);
        if !gone.is_empty() {
            self.zero(id, gone);
        }
        self.update(id, |volume, map, _| {
            volume.spec.size_bytes = size_bytes;
            map.raise(&mut volume.root, levels_for(new));
        });
    }

    /// Makes blocks refer to what others refer to, as if the source were read completely first.
    fn clone_blocks(
        &mut self,
        (source, source_first): (VolumeId, VolumeBlock),
        (id, range): (VolumeId, BlockRange),
    ) {
        let shared = self.gather(source, source_first, range);
        self.shared_since += 1;
        self.update(id, |volume, map, space| {
            for (at, part) in shared {
                match part {
                    Shared::Leaf(leaf) => {
                        let changed = map.replace_leaf(space, &mut volume.root, at, leaf);
                        volume.add_changed(changed);
                    }
                    Shared::Blocks(entries) => {
                        let entry = |block: VolumeBlock| entries[(block - at) as usize];
                        let part = BlockRange { first: at, count: entries.len() as u64 };
                        let changed = map.change_leaf(space, &mut volume.root, part, entry);
                        volume.add_changed(changed);
                    }
                }
            }
            volume.add_shared(range.count);
        });
        self.update(source, |source, _, _| source.add_shared(range.count));
    }

    /// Collects the entries of the source by destination block, each with the reference that it is
    /// about to get.
    fn gather(
        &mut self,
        source: VolumeId,
        source_first: VolumeBlock,
        range: BlockRange,
    ) -> Vec<(VolumeBlock, Shared)> {
        let root = self.volumes[&source].root;
        let (map, space) = (&mut self.map, &mut self.space);
        let mut parts = Vec::new();
        let mut done = 0;
        while done < range.count {
            let (from, to) = (source_first + done, range.first + done);
            let room = FANOUT - from.place_in_leaf().max(to.place_in_leaf());
            let take = room.min(range.count - done);
            let part = if take == FANOUT {
                let leaf = map.leaf_entry(root, from).expect("the source is in memory");
                map.share(space, leaf);
                Shared::Leaf(leaf)
            } else {
                let mut entries = Vec::with_capacity(take as usize);
                let part = BlockRange { first: from, count: take };
                map.walk(root, part, |_, found| entries.extend_from_slice(found))
                    .expect("the source is in memory");
                let data = entries.iter().filter(|entry| entry.kind() == Kind::Data);
                data.for_each(|entry| space.add_references(entry.address(), 1));
                Shared::Blocks(entries)
            };
            parts.push((to, part));
            done += take;
        }
        parts
    }
}

/// Unit that a clone shares: a leaf as a whole, or single blocks.
enum Shared {
    Leaf(Entry),
    Blocks(Vec<Entry>),
}
