//! Loading and eviction of the space maps of allocation groups.

use block::Buffer;

use super::codec::SpaceWrites;
use super::group::{Body, Delta, PAGES};
use super::{AllocationGroupId, EVICTION_VISITS, Space};
use crate::address::{Address, DeviceNumber, GroupBlock, Run};
use crate::checksum::crc32c;
use crate::layout::{
    DESCRIPTOR_PAGES_PER_FIRST_LEVEL, GROUP_HEAD, GROUPS_PER_DESCRIPTOR_PAGE, PageSlot,
};

/// A page of a group's maps on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupPage {
    pub(crate) page: usize,
    pub(crate) address: Address,
    pub(crate) crc: u32,
}

impl Space {
    /// Whether a group's maps are in memory, or never will be.
    pub(crate) fn is_loaded(&self, id: AllocationGroupId) -> bool {
        self.group(id).body.is_some() || self.group(id).fenced
    }

    /// The group of a block.
    pub(crate) fn group_of(&self, block: Address) -> AllocationGroupId {
        self.place(block).0
    }

    /// The pages that a group's maps consist of; none if nothing of it is used.
    pub(crate) fn group_pages(&self, id: AllocationGroupId) -> Vec<GroupPage> {
        if self.group(id).written_used == 0 { Vec::new() } else { self.written_pages(id) }
    }

    /// The same, with those that say that nothing is used: whoever needs the maps does not read them.
    pub(crate) fn written_pages(&self, id: AllocationGroupId) -> Vec<GroupPage> {
        let group = self.group(id);
        let layout = self.layout(id.device);
        let present = (0..PAGES).filter(|page| group.present & 1 << page != 0);
        present
            .map(|page| {
                let at = PageSlot { page, slot: (group.slots >> page & 1) as u8 };
                let block = layout.space_page(id.group as usize, at);
                let address = block.on(id.device);
                GroupPage { page, address, crc: group.crcs[page] }
            })
            .collect()
    }

    /// The runs of blocks that must be set aside on the device before a group is used for the
    /// first time: itself, and where its descriptors are.
    pub(crate) fn runs_to_back(&self, id: AllocationGroupId) -> Vec<Run> {
        if self.group(id).backed {
            return Vec::new();
        }
        let layout = self.layout(id.device);
        let group = id.group as usize;
        let descriptors = group / GROUPS_PER_DESCRIPTOR_PAGE * GROUPS_PER_DESCRIPTOR_PAGE;
        let below = GROUPS_PER_DESCRIPTOR_PAGE * DESCRIPTOR_PAGES_PER_FIRST_LEVEL;
        let homes = [descriptors, group / below * below].into_iter().filter(|&home| home != group);
        let start = |group| layout.group_start(group).on(id.device);
        let mut runs = vec![Run { start: start(group), blocks: layout.group_blocks(group) }];
        runs.extend(homes.map(|home| Run { start: start(home), blocks: GROUP_HEAD }));
        runs
    }

    /// The space of a group was set aside on its device.
    pub(crate) fn group_backed(&mut self, id: AllocationGroupId) {
        self.make_available(id);
        let group = self.group_mut(id);
        if !group.backed {
            group.backed = true;
            let blocks = u64::from(group.available());
            self.backed_free += blocks;
        }
    }

    fn group_unavailable(&mut self, id: AllocationGroupId) {
        let group = self.group_mut(id);
        if group.unavailable || group.backed {
            return;
        }
        let lost = u64::from(group.available());
        group.unavailable = true;
        self.free -= lost;
        self.unavailable += 1;
        self.unavailable_on.insert(id.device);
    }

    /// The file system below a device has no space for a group: no other group is preallocated
    /// there either for a while. While a pool is opened another one may have its space already.
    pub(crate) fn refused(&mut self, id: AllocationGroupId) {
        if self.probes { self.group_unavailable(id) } else { self.device_is_full(id.device) }
    }

    /// A group has its space, unless its device grew meanwhile and the group with it: then the
    /// operation that waits for it preallocates again, all of it.
    pub(crate) fn given(&mut self, id: AllocationGroupId, blocks: u64) {
        if blocks == self.group_blocks(id) {
            self.group_backed(id);
        }
    }

    /// The pool is open: a device that refuses space for one group is full.
    pub(crate) fn end_probing(&mut self) {
        self.probes = false;
    }

    fn device_is_full(&mut self, device: DeviceNumber) {
        let groups = self.devices[device.index()].groups.len() as u32;
        (0..groups).for_each(|group| self.group_unavailable(AllocationGroupId { device, group }));
    }

    /// Groups that were unavailable may be tried again.
    pub(crate) fn retry_unavailable(&mut self) {
        for device in std::mem::take(&mut self.unavailable_on) {
            let groups = self.devices[device.index()].groups.len() as u32;
            (0..groups).for_each(|group| self.make_available(AllocationGroupId { device, group }));
        }
    }

    fn make_available(&mut self, id: AllocationGroupId) {
        let group = self.group_mut(id);
        if std::mem::take(&mut group.unavailable) {
            let back = u64::from(group.available());
            self.free += back;
            self.unavailable -= 1;
            self.list_again(id);
        }
    }

    /// Takes the maps of a group into memory. Damaged maps fence the group. Returns what the
    /// checkpoint that is being written must write of it.
    pub(crate) fn insert_group(
        &mut self,
        id: AllocationGroupId,
        pages: &[(usize, Buffer)],
    ) -> SpaceWrites {
        if self.is_loaded(id) {
            return Vec::new();
        }
        match self.parse_group(id, pages) {
            Some(body) => self.group_mut(id).body = Some(body),
            None => self.fence(id),
        }
        self.loaded.push_back(id);
        let writes = self.settle_owed(id);
        let deltas = std::mem::take(&mut self.group_mut(id).deltas);
        self.with_deltas.remove(&id);
        for freed in self.apply_deltas(id, &deltas) {
            self.quarantine.push(freed);
        }
        writes
    }

    /// What a group's pages say; `None` if they contradict their descriptor.
    fn parse_group(&self, id: AllocationGroupId, pages: &[(usize, Buffer)]) -> Option<Box<Body>> {
        let group = self.group(id);
        if pages.len() != self.group_pages(id).len() {
            return None;
        }
        let mut body = Body::empty(group.capacity);
        for (page, bytes) in pages {
            if crc32c(bytes) != group.crcs[*page] {
                return None;
            }
            body.parse_page(*page, bytes);
        }
        let used: u32 = body.used.iter().map(|word| word.count_ones()).sum();
        (used == group.used).then_some(body)
    }

    /// Brings what the checkpoint that is being written must contain into a group's maps.
    fn settle_owed(&mut self, id: AllocationGroupId) -> SpaceWrites {
        let mut writes = Vec::new();
        if self.owing.remove(&id) {
            let owed = std::mem::take(&mut self.group_mut(id).owed);
            let freed = self.apply_deltas(id, &owed);
            self.releasing.extend(freed);
            self.emit_group(id, &mut writes);
        }
        writes
    }

    /// Applies deltas to a group in memory; returns the blocks that lost their last reference.
    fn apply_deltas(&mut self, id: AllocationGroupId, deltas: &[Delta]) -> Vec<Address> {
        let change = |delta: &Delta| self.change_in_memory(id, delta.place(), delta.adds);
        deltas.iter().filter_map(change).collect()
    }

    /// Nothing is known of a group any more: nothing is allocated from it and nothing freed.
    fn fence(&mut self, id: AllocationGroupId) {
        let lost = u64::from(self.group(id).available());
        self.free -= lost;
        self.backed_free -= if self.group(id).backed { lost } else { 0 };
        self.fenced += 1;
        let group = self.group_mut(id);
        group.fenced = true;
        group.deltas.clear();
        group.owed.clear();
        self.touch(id);
    }

    /// Marks a block that a journal names as one that must not be handed out, before the record
    /// that refers to it is applied. Its group is in memory.
    pub(crate) fn hold(&mut self, block: Address) {
        let (id, place) = self.place(block);
        let group = self.group_mut(id);
        let Some(body) = &mut group.body else { return };
        if !super::get(&body.busy, place) {
            super::set(&mut body.busy, place);
            self.take_named(id);
        }
    }

    /// A block of a group that was free is named by a record of the journal.
    pub(super) fn take_named(&mut self, id: AllocationGroupId) {
        let group = self.group_mut(id);
        group.free -= 1;
        group.fresh = false;
        let (backed, leaves) = (u64::from(group.backed), group.leaving);
        if leaves {
            self.vacated -= 1;
        } else {
            self.free -= 1;
            self.backed_free -= backed;
        }
    }

    /// Groups whose maps must be in memory as long as the pool is open.
    pub(crate) fn pinned_groups(&self) -> Vec<AllocationGroupId> {
        self.pinned.clone()
    }

    /// A group that the checkpoint being written waits for.
    pub(crate) fn next_owing(&self) -> Option<AllocationGroupId> {
        self.owing.first().copied()
    }

    /// All groups that the checkpoint being written waits for.
    pub(crate) fn owing(&self) -> Vec<AllocationGroupId> {
        self.owing.iter().copied().collect()
    }

    /// Maps came into memory while no checkpoint writes. More of them may stay than the budget
    /// says, for those who need several at once; twice as many at most.
    pub(crate) fn group_arrived(&mut self) {
        self.evict(2 * self.loaded_max, EVICTION_VISITS.min(self.loaded.len()));
    }

    /// Forgets maps that were not needed for a while, down to so many; looks at `visits` at most.
    /// Must not be called while a checkpoint writes, as its pages are not on disk yet.
    pub(super) fn evict(&mut self, most: usize, mut visits: usize) {
        while self.loaded.len() > most && visits > 0 {
            visits -= 1;
            let Some(id) = self.loaded.pop_front() else { return };
            let group = self.group_mut(id);
            let evictable = group.is_evictable();
            let Some(body) = &mut group.body else { continue };
            if body.recent || !evictable {
                body.recent = false;
                self.loaded.push_back(id);
            } else {
                group.body = None;
            }
        }
    }

    /// Groups whose maps are in memory.
    pub(crate) fn groups_loaded(&self) -> usize {
        self.loaded.len()
    }

    /// How often each block is referred to, from the maps in memory or as `read` finds them.
    pub(crate) fn all_references(
        &self,
        mut read: impl FnMut(Address, u32) -> Option<Buffer>,
    ) -> Vec<(Address, u16)> {
        let mut references = Vec::new();
        for id in self.ids() {
            let loaded;
            let body = match &self.group(id).body {
                Some(body) => body,
                None => {
                    loaded = self.read_group(id, &mut read);
                    match &loaded {
                        Some(body) => body,
                        None => continue,
                    }
                }
            };
            let start = self.layout(id.device).group_start(id.group as usize);
            let places = GroupBlock::new(GROUP_HEAD).onwards();
            let places = places.take(self.group(id).capacity as usize);
            let used = places.map(|place| (place, body.references(place)));
            references.extend(
                used.filter(|(_, count)| *count > 0)
                    .map(|(place, count)| ((start + place.number()).on(id.device), count)),
            );
        }
        references
    }

    /// The maps of a group as they will be, without taking them into memory.
    fn read_group(
        &self,
        id: AllocationGroupId,
        read: &mut impl FnMut(Address, u32) -> Option<Buffer>,
    ) -> Option<Box<Body>> {
        let mut pages = Vec::new();
        for wanted in self.group_pages(id) {
            pages.push((wanted.page, read(wanted.address, wanted.crc)?));
        }
        let mut body = self.parse_group(id, &pages)?;
        let group = self.group(id);
        for delta in group.owed.iter().chain(&group.deltas) {
            let place = delta.place();
            let before = body.references(place);
            let after =
                if delta.adds { before.saturating_add(1) } else { before.saturating_sub(1) };
            body.set_references(place, after);
        }
        Some(body)
    }

    /// Whether a group's maps are damaged.
    pub(crate) fn is_fenced(&self, block: Address) -> bool {
        self.group(self.place(block).0).fenced
    }
}
