//! Applying records to the map: after a commit, and when a journal is replayed.

use block::{BLOCK, VolumeId};

use crate::bugs::planted;
use crate::entry::{Entry, FANOUT, Kind, levels_for};
use crate::layout::Layout;
use crate::loading::PageWaiter;
use crate::map::Missing;
use crate::record::Record;
use crate::store::Store;
use crate::volume::Volume;

impl Store {
    /// Applies durable commits, as far as the pages they need are in memory.
    pub(crate) fn apply_durable(&mut self) {
        while !self.applier_waits {
            let Some(commit) = self.durable.front() else { return };
            let Some(record) = commit.records.get(self.records_applied) else {
                self.commit_applied();
                continue;
            };
            let record = record.clone();
            match self.missing_for_record(&record) {
                Some(missing) => {
                    self.applier_waits = true;
                    self.load_page(missing, PageWaiter::Applier);
                }
                None => {
                    self.settle_first_estimates();
                    self.apply(&record);
                    self.records_applied += 1;
                }
            }
        }
    }

    /// The first record of a commit is about to be applied.
    fn settle_first_estimates(&mut self) {
        if self.records_applied > 0 || self.estimated.returning == 0 {
            return;
        }
        let members = self.durable.front().map_or(0, |commit| commit.members.len());
        for at in 0..members {
            let member = self.durable.front().map(|commit| commit.members[at]);
            member.into_iter().for_each(|member| self.settle_estimate(member));
        }
    }

    fn commit_applied(&mut self) {
        let commit = self.durable.pop_front().expect("the caller looked at it");
        self.records_applied = 0;
        self.applied = commit.after;
        for operation in commit.members {
            self.committed(operation);
        }
    }

    /// A page that must be in memory before the record can be applied.
    pub(crate) fn missing_for_record(&mut self, record: &Record) -> Option<Missing> {
        match record {
            Record::Write { volume, first, crcs, .. } => {
                let root = self.volumes[volume].root;
                self.map.missing(root, *first, crcs.len() as u64, false)
            }
            Record::Fill { volume, first, count, .. } => {
                self.map.missing(self.volumes[volume].root, *first, *count, false)
            }
            Record::Zero { volume, first, count } => {
                self.map.missing_to_zero(self.volumes[volume].root, *first, first + count)
            }
            Record::Clone { source, source_first, volume, first, count } => {
                self.missing_for_clone(*source, *source_first, *volume, *first, *count)
            }
            Record::ResizeVolume { volume, size_bytes } => {
                let volume = &self.volumes[volume];
                let (new, old) = (size_bytes / BLOCK, volume.blocks());
                let shrinks = new < old;
                shrinks.then(|| self.map.missing_to_zero(volume.root, new, old)).flatten()
            }
            Record::CreateVolume { .. }
            | Record::DeleteVolume { .. }
            | Record::RevertVolume { .. }
            | Record::AddDevice { .. }
            | Record::ExtendDevice { .. } => None,
        }
    }

    /// Makes the change that a record describes. All pages it needs are in memory.
    pub(crate) fn apply(&mut self, record: &Record) {
        match record {
            Record::Write { volume, first, start, crcs } => {
                for block in *start..*start + crcs.len() as u64 {
                    self.space.first_reference(block);
                }
                self.handed_out = self.handed_out.saturating_sub(crcs.len() as u64);
                let data = |at: u64| Entry::data(start + at - first, crcs[(at - first) as usize]);
                self.change_blocks(*volume, *first, crcs.len() as u64, data);
            }
            Record::Fill { volume, first, count, block, crc } => {
                self.handed_out = self.handed_out.saturating_sub(1);
                self.space.first_reference(*block);
                // One reference is the allocation's own, until every entry has its own.
                for _ in 1..*count {
                    self.space.add_references(*block, 1);
                }
                self.change_blocks(*volume, *first, *count, |_| Entry::data(*block, *crc));
                self.update(*volume, |volume, _, _| volume.add_shared(*count));
            }
            Record::Zero { volume, first, count } => self.reclaim(*volume, *first, *count),
            Record::Clone { source, source_first, volume, first, count } => {
                self.clone_blocks(*source, *source_first, *volume, *first, *count);
            }
            Record::CreateVolume { volume, source } => self.create(volume, *source),
            Record::DeleteVolume { volume } => self.delete(*volume),
            Record::RevertVolume { volume, source } => self.revert(*volume, *source),
            Record::ResizeVolume { volume, size_bytes } => self.resize(*volume, *size_bytes),
            Record::ExtendDevice { device, device_blocks } => {
                self.extend_device(*device as usize, *device_blocks);
            }
            Record::AddDevice { uuid, device_blocks } => self.add_device(*uuid, *device_blocks),
        }
    }

    /// A device has grown. Recovery has done so already when it replays the record.
    pub(crate) fn extend_device(&mut self, device: usize, device_blocks: u64) {
        if device_blocks > self.space.layout(device).device_blocks {
            self.space.extend(device, device_blocks);
            self.house_set_aside();
        }
    }

    fn house_set_aside(&mut self) {
        for group in std::mem::take(&mut self.set_aside) {
            self.space.group_reserved(group);
        }
    }

    /// A device has joined. Recovery has done so already when it replays the record.
    pub(crate) fn add_device(&mut self, uuid: [u8; 16], device_blocks: u64) {
        if !self.device_uuids.contains(&uuid) {
            self.device_uuids.push(uuid);
            self.space.add_device(Layout { journal_blocks: 0, device_blocks });
            self.house_set_aside();
        }
    }

    fn delete(&mut self, id: VolumeId) {
        // What is promised to it is no more.
        self.update(id, |volume, map, space| {
            volume.reserved = false;
            map.drop_page(space, volume.root.entry, volume.root.levels - 1);
        });
        if let Some(volume) = self.volumes.remove(&id) {
            self.directory.remove(&volume);
        }
        self.metadata.forget(id);
        self.forget_reclaimed(id);
        self.want_count();
    }

    /// Gives a volume's root one more parent; all of its blocks are shared now.
    fn share_root(&mut self, id: VolumeId) -> Volume {
        let uncounted = planted!(self.bugs, SnapshotUncounted);
        self.update(id, |volume, map, space| {
            volume.add_shared(volume.mapped_bytes / BLOCK);
            if !uncounted {
                map.share(space, volume.root.entry);
            }
            volume.clone()
        })
    }

    fn revert(&mut self, id: VolumeId, source: VolumeId) {
        let source = self.share_root(source);
        self.update(id, |volume, map, space| {
            let old = std::mem::replace(&mut volume.root, source.root);
            (volume.mapped_bytes, volume.size_bytes) = (source.mapped_bytes, source.size_bytes);
            volume.add_shared(source.mapped_bytes / BLOCK);
            map.drop_page(space, old.entry, old.levels - 1);
        });
    }

    /// Gives blocks new entries, leaf by leaf.
    fn change_blocks(
        &mut self,
        id: VolumeId,
        first: u64,
        count: u64,
        entry: impl Fn(u64) -> Entry,
    ) {
        self.update(id, |volume, map, space| {
            let mut at = first;
            while at < first + count {
                let take = (FANOUT - at % FANOUT).min(first + count - at);
                let changed = map.change_leaf(space, &mut volume.root, at, take, &entry);
                volume.add_changed(changed);
                at += take;
            }
        });
    }

    pub(crate) fn zero(&mut self, id: VolumeId, first: u64, end: u64) {
        self.update(id, |volume, map, space| {
            let delta = map.zero(space, &mut volume.root, first, end);
            volume.add_mapped(delta);
        });
    }

    fn create(&mut self, volume: &Volume, source: Option<VolumeId>) {
        let mut volume = volume.clone();
        if let Some(source) = source.filter(|source| self.volumes.contains_key(source)) {
            let source = self.share_root(source);
            (volume.root, volume.mapped_bytes) = (source.root, source.mapped_bytes);
            volume.origin = Some(source.id);
        }
        self.insert_volume(volume);
    }

    fn resize(&mut self, id: VolumeId, size_bytes: u64) {
        let (new, old) = (size_bytes / BLOCK, self.volumes[&id].blocks());
        if new < old {
            self.zero(id, new, old);
        }
        self.update(id, |volume, map, _| {
            volume.size_bytes = size_bytes;
            map.raise(&mut volume.root, levels_for(new));
        });
    }

    /// Makes blocks refer to what others refer to, as if the source were read completely first.
    fn clone_blocks(
        &mut self,
        source: VolumeId,
        source_first: u64,
        id: VolumeId,
        first: u64,
        count: u64,
    ) {
        let shared = self.gather(source, source_first, first, count);
        self.update(id, |volume, map, space| {
            for (at, part) in shared {
                match part {
                    Shared::Leaf(leaf) => {
                        let delta = map.replace_leaf(space, &mut volume.root, at, leaf);
                        volume.add_mapped(delta);
                    }
                    Shared::Blocks(entries) => {
                        let entry = |block: u64| entries[(block - at) as usize];
                        let count = entries.len() as u64;
                        let changed = map.change_leaf(space, &mut volume.root, at, count, entry);
                        volume.add_changed(changed);
                    }
                }
            }
            volume.add_shared(count);
        });
        self.update(source, |source, _, _| source.add_shared(count));
    }

    /// What the source holds, each with the reference it is about to get, by destination block.
    fn gather(
        &mut self,
        source: VolumeId,
        source_first: u64,
        first: u64,
        count: u64,
    ) -> Vec<(u64, Shared)> {
        let root = self.volumes[&source].root;
        let (map, space) = (&mut self.map, &mut self.space);
        let mut parts = Vec::new();
        let mut done = 0;
        while done < count {
            let (from, to) = (source_first + done, first + done);
            let room = (FANOUT - from % FANOUT).min(FANOUT - to % FANOUT);
            let take = room.min(count - done);
            let part = if take == FANOUT {
                let leaf = map.leaf_entry(root, from).expect("the source is in memory");
                map.share(space, leaf);
                Shared::Leaf(leaf)
            } else {
                let mut entries = Vec::with_capacity(take as usize);
                map.walk(root, from, take, |_, found| entries.extend_from_slice(found))
                    .expect("the source is in memory");
                let data = entries.iter().filter(|entry| entry.kind() == Kind::Data);
                if !planted!(self.bugs, ForgetCloneReferences) {
                    data.for_each(|entry| space.add_references(entry.number(), 1));
                }
                Shared::Blocks(entries)
            };
            parts.push((to, part));
            done += take;
        }
        parts
    }
}

/// What a clone takes over: a leaf as a whole, or single blocks.
enum Shared {
    Leaf(Entry),
    Blocks(Vec<Entry>),
}
