//! Applies journal records to the map, after a commit and when a journal is replayed.

use block::{BLOCK, VolumeId};

use crate::address::{BlockRange, Run, VolumeBlock};
use crate::bugs::planted;
use crate::entry::{Entry, FANOUT, Kind, levels_for};
use crate::layout::Layout;
use crate::loading::PageWaiter;
use crate::map::Missing;
use crate::record::Record;
use crate::store::Store;
use crate::volume::Volume;

/// How far the applier has come.
#[derive(Default)]
pub(crate) struct Applying {
    /// Records of the first durable commit that are applied.
    records: usize,
    /// Blocks of the next record that are applied.
    blocks: u64,
    /// Blocks that may change in this turn; `None` for as many as there are.
    blocks_left: Option<u64>,
}

impl Applying {
    /// Whether no commit is applied in part.
    pub(crate) fn is_between_commits(&self) -> bool {
        self.records == 0 && self.blocks == 0
    }
}

/// What is to be applied next of a record of which so many blocks are: of one that fills many blocks,
/// no more than a leaf page of the map covers.
fn part_of(record: &Record, applied: u64) -> Record {
    match record {
        Record::Fill { volume, range, block, crc } => {
            let first = range.first + applied;
            let count = (range.count - applied).min(FANOUT - first.place_in_leaf());
            let range = BlockRange { first, count };
            Record::Fill { volume: *volume, range, block: *block, crc: *crc }
        }
        other => other.clone(),
    }
}

/// Entries of the map that a record changes, about: leaves that change hands as a whole count as one.
fn cost(record: &Record) -> u64 {
    let in_leaves = |count: u64| count.min(2 * FANOUT) + count / FANOUT;
    match record {
        Record::Write { crcs, .. } => crcs.len() as u64,
        Record::Fill { range, .. } => range.count,
        Record::Zero { range, .. } => in_leaves(range.count),
        Record::Clone { source_first, range, .. } => {
            match source_first.place_in_leaf() == range.first.place_in_leaf() {
                true => in_leaves(range.count),
                false => range.count,
            }
        }
        Record::CreateVolume { .. }
        | Record::DeleteVolume { .. }
        | Record::RevertVolume { .. }
        | Record::ResizeVolume { .. }
        | Record::AddDevice { .. }
        | Record::ExtendDevice { .. } => 1,
    }
}

impl Store {
    /// Applies durable commits, as far as the pages they need are in memory and the turn lasts.
    ///
    /// A record that fills many blocks is applied leaf by leaf, so that a turn may end within it.
    /// Nobody sees such a part: its operation holds its claims until the whole commit is applied, and
    /// no checkpoint cuts there (docs/decisions/0094).
    pub(crate) fn apply_durable(&mut self) {
        while !self.applier_waits {
            let Some(commit) = self.durable.front() else { return };
            let Some(record) = commit.records.get(self.applying.records) else {
                self.commit_applied();
                // Turns may end within one commit after the other: a cut that is due comes here.
                if self.applying.blocks_left.is_some() {
                    self.start_checkpoint_if_due();
                }
                continue;
            };
            if self.applying.blocks_left == Some(0) {
                return;
            }
            let part = part_of(record, self.applying.blocks);
            match self.missing_for_record(&part) {
                Some(missing) => {
                    self.applier_waits = true;
                    self.load_page(missing, PageWaiter::Applier);
                }
                None => {
                    self.settle_first_estimates();
                    self.apply_part(&part);
                }
            }
        }
    }

    /// Applies a record, or the next part of one that fills many blocks.
    fn apply_part(&mut self, part: &Record) {
        if let Some(left) = &mut self.applying.blocks_left {
            *left = left.saturating_sub(cost(part));
        }
        if let Record::Fill { volume, range, block, crc } = part {
            let is_first = self.applying.blocks == 0;
            self.fill(*volume, *range, Entry::data(*block, *crc), is_first);
            self.applying.blocks += range.count;
            if self.applying.blocks < self.blocks_of_record() {
                return;
            }
        } else {
            self.apply(part);
        }
        (self.applying.records, self.applying.blocks) = (self.applying.records + 1, 0);
    }

    /// Blocks that the record which is being applied fills.
    fn blocks_of_record(&self) -> u64 {
        let commit = self.durable.front();
        match commit.and_then(|commit| commit.records.get(self.applying.records)) {
            Some(Record::Fill { range, .. }) => range.count,
            _ => 0,
        }
    }

    /// Begins a turn, in which durable commits change so many blocks of the map at most, and what one
    /// record changes besides. Without turns there is no such bound.
    pub fn begin_turn(&mut self, blocks_max: u64) {
        self.applying.blocks_left = Some(blocks_max);
    }

    /// Whether the next turn has something to do that waits for nothing else.
    pub fn has_more(&self) -> bool {
        self.applying.blocks_left == Some(0) && !self.durable.is_empty() && !self.applier_waits
    }

    /// The first record of a commit is about to be applied.
    fn settle_first_estimates(&mut self) {
        if !self.applying.is_between_commits() || self.estimated.returning == 0 {
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
        (self.applying.records, self.applying.blocks) = (0, 0);
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

    /// Makes the change that a record describes. All pages it needs are in memory.
    pub(crate) fn apply(&mut self, record: &Record) {
        match record {
            Record::Write { volume, first, start, crcs } => {
                for block in (Run { start: *start, blocks: crcs.len() as u64 }).addresses() {
                    self.space.first_reference(block);
                }
                self.handed_out = self.handed_out.saturating_sub(crcs.len() as u64);
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
                self.extend_device(*device as usize, *device_blocks);
            }
            Record::AddDevice { uuid, device_blocks } => self.add_device(*uuid, *device_blocks),
        }
    }

    /// Makes blocks refer to one that holds their content. `is_first` if none of that record does so
    /// far: then the allocation's own reference becomes that of the first.
    fn fill(&mut self, volume: VolumeId, range: BlockRange, entry: Entry, is_first: bool) {
        let block = entry.address();
        if is_first {
            self.handed_out = self.handed_out.saturating_sub(1);
            self.space.first_reference(block);
        }
        for _ in u64::from(is_first)..range.count {
            self.space.add_references(block, 1);
        }
        self.change_blocks(volume, range, |_| entry);
        self.update(volume, |volume, _, _| volume.add_shared(range.count));
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

    pub(crate) fn zero(&mut self, id: VolumeId, range: BlockRange) {
        self.update(id, |volume, map, space| {
            let delta = map.zero(space, &mut volume.root, range);
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
        let new = size_bytes / BLOCK;
        let gone = self.volumes[&id].blocks_from(new);
        if !gone.is_empty() {
            self.zero(id, gone);
        }
        self.update(id, |volume, map, _| {
            volume.size_bytes = size_bytes;
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
        self.update(id, |volume, map, space| {
            for (at, part) in shared {
                match part {
                    Shared::Leaf(leaf) => {
                        let delta = map.replace_leaf(space, &mut volume.root, at, leaf);
                        volume.add_mapped(delta);
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
                if !planted!(self.bugs, ForgetCloneReferences) {
                    data.for_each(|entry| space.add_references(entry.address(), 1));
                }
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
