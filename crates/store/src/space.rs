//! Block allocator with reference counts: which blocks are used, how often, and which may be handed
//! out.
//!
//! A block is *used* when the map refers to it; that is what reaches the disk. It is *busy* when
//! it must not be handed out: used, handed out but not yet referred to, or freed since the last
//! durable checkpoint (quarantine). Quarantine is the rule that a durable checkpoint is never
//! overwritten.
//!
//! The maps of a group are in memory while blocks of it are handed out, or if it holds pages of the
//! map (it is *pinned*). References to data in other groups are noted as deltas, which the next
//! checkpoint brings into the maps; so memory grows with the work, not with the pool.

mod codec;
mod group;
mod in_use;
mod leaving;
mod loading;
mod placement;

use std::collections::{BTreeSet, VecDeque};

use block::BLOCK;

use crate::address::{Address, DeviceNumber, GroupBlock, Run};
use crate::layout::{GROUP_BLOCKS, GROUP_HEAD, GROUPS_PER_DESCRIPTOR_PAGE, Layout};
use crate::limits::REFERENCES_MAX;
use group::{AllocationGroup, Body, Delta, clear, find_run, get, set};
use placement::Placement;

#[cfg(test)]
pub(crate) use codec::Reference;
pub(crate) use codec::{SpaceRoot, SpaceWrites, parse_descriptors, parse_references};
pub(crate) use group::STUCK;
pub(crate) use loading::GroupPage;
pub(crate) use placement::Length;

/// Groups that an arriving one makes the clock hand look at, at most.
const EVICTION_VISITS: usize = 16;

/// Copies of a page lie at least so far apart, if there is room.
const TWIN_DISTANCE: u64 = 256;

/// A copy of a page lies at most so far behind it: what fits in 12 bits.
const TWIN_DISTANCE_MAX: u64 = 4095;

/// Names an allocation group of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AllocationGroupId {
    pub(crate) device: DeviceNumber,
    pub(crate) group: u32,
}

/// Result of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allocation {
    Run(Run),
    /// The maps of a group are needed first.
    Load(AllocationGroupId),
    /// Nothing is free.
    Full,
}

/// Result of allocating space for the pages of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preparation {
    Ready,
    /// A group is needed first: its maps, and space for it.
    Load(AllocationGroupId),
    /// There is not enough room.
    NoRoom,
}

struct DeviceSpace {
    layout: Layout,
    groups: Vec<AllocationGroup>,
    /// The checksums and slots of descriptor and first-level pages.
    upper: codec::Upper,
    /// It leaves the pool.
    leaving: bool,
    /// Blocks that data or pages of the map can be in.
    capacity: u64,
    /// Those of them that the map refers to.
    used: u64,
    placement: Placement,
}

/// The space of a pool.
pub(crate) struct Space {
    devices: Vec<DeviceSpace>,
    /// Blocks that can hold data or map pages, also those of a device that leaves.
    total: u64,
    /// Blocks of a device that leaves which nothing needs any more: they are no part of the pool.
    vacated: u64,
    /// Blocks of a device that leaves which lost their last reference, and of which it was not looked since
    /// whether something says where they were moved.
    vanished: u64,
    /// Blocks that are not busy, in all groups that can be used.
    free: u64,
    /// Those of them that have space on their devices, whatever else happens there.
    backed_free: u64,
    used: u64,
    /// Blocks that pages of the map and of the volume table occupy, copies included.
    pub(crate) pages: u64,
    /// Freed since the last cut of a checkpoint.
    quarantine: Vec<Address>,
    /// Freed before the cut of the checkpoint that is being written.
    releasing: Vec<Address>,
    /// The device from which data is handed out next.
    next_device: usize,
    /// Groups whose maps are in memory, in the order the clock hand visits them.
    loaded: VecDeque<AllocationGroupId>,
    loaded_max: usize,
    /// Groups that hold pages of the map, and where the next search for room in them begins.
    pinned: Vec<AllocationGroupId>,
    page_cursor: (usize, GroupBlock),
    /// Groups with deltas, and those that a checkpoint being written still has to load.
    with_deltas: BTreeSet<AllocationGroupId>,
    owing: BTreeSet<AllocationGroupId>,
    /// Number of groups whose maps are damaged.
    fenced: u64,
    /// Number of groups for which the device's backing store has no space, and the devices they are on.
    unavailable: u64,
    unavailable_on: BTreeSet<DeviceNumber>,
    /// Whether space that is asked for may be there already, as the pool is being opened.
    probes: bool,
    /// Descriptor pages that the next checkpoint writes, by device.
    touched: BTreeSet<(DeviceNumber, usize)>,
}

impl DeviceSpace {
    fn new(layout: Layout) -> Self {
        let groups =
            (0..layout.groups()).map(|group| AllocationGroup::new(layout.group_capacity(group)));
        let (groups, upper) = (groups.collect::<Vec<_>>(), codec::Upper::new(&layout));
        let capacity = groups.iter().map(|group| u64::from(group.capacity)).sum();
        let placement = Placement::new();
        Self { layout, groups, upper, leaving: false, capacity, used: 0, placement }
    }
}

impl Space {
    /// The space of new devices: all free. The maps of about `loaded_max` groups stay in memory.
    pub(crate) fn new(layouts: &[Layout], loaded_max: usize) -> Self {
        let mut space = Self {
            devices: Vec::new(),
            total: 0,
            vacated: 0,
            vanished: 0,
            free: 0,
            backed_free: 0,
            used: 0,
            pages: 0,
            quarantine: Vec::new(),
            releasing: Vec::new(),
            next_device: 0,
            loaded: VecDeque::new(),
            loaded_max: loaded_max.max(2),
            pinned: Vec::new(),
            page_cursor: (0, GroupBlock::START),
            with_deltas: BTreeSet::new(),
            owing: BTreeSet::new(),
            fenced: 0,
            unavailable: 0,
            unavailable_on: BTreeSet::new(),
            probes: true,
            touched: BTreeSet::new(),
        };
        for (index, &layout) in layouts.iter().enumerate() {
            space.put_device(DeviceNumber::at(index), layout);
        }
        space
    }

    /// Adds the space of a new device.
    pub(crate) fn add_device(&mut self, layout: Layout) {
        self.put_device(self.next_device(), layout);
    }

    fn put_device(&mut self, number: DeviceNumber, layout: Layout) {
        let device = DeviceSpace::new(layout);
        let blocks: u64 = device.groups.iter().map(|group| u64::from(group.free)).sum();
        self.total += blocks;
        self.free += blocks;
        match number.index() {
            end if end == self.devices.len() => self.devices.push(device),
            place => self.devices[place] = device,
        }
    }

    /// Whether a device has this number.
    pub(crate) fn is_there(&self, device: DeviceNumber) -> bool {
        let space = self.devices.get(device.index());
        space.is_some_and(|space| space.layout != Layout::NOTHING)
    }

    /// The division of a device.
    pub(crate) fn layout(&self, device: DeviceNumber) -> Layout {
        self.devices[device.index()].layout
    }

    /// Blocks of a group, its head included.
    pub(crate) fn group_blocks(&self, id: AllocationGroupId) -> u64 {
        self.layout(id.device).group_blocks(id.group as usize)
    }

    /// The divisions of all devices, and of places that none has, in the order of their numbers.
    pub(crate) fn layouts(&self) -> impl Iterator<Item = Layout> {
        self.devices.iter().map(|device| device.layout)
    }

    /// The number that the next device gets: the first one that none has.
    pub(crate) fn next_device(&self) -> DeviceNumber {
        let free = self.devices.iter().position(|device| device.layout == Layout::NOTHING);
        DeviceNumber::at(free.unwrap_or(self.devices.len()))
    }

    /// All devices.
    pub(crate) fn devices(&self) -> impl ExactSizeIterator<Item = DeviceNumber> + use<> {
        let all = (0..self.devices.len()).map(DeviceNumber::at);
        all.filter(|&device| self.is_there(device)).collect::<Vec<_>>().into_iter()
    }

    /// Blocks that can hold data or map pages. Of a device that leaves those that something is in.
    pub(crate) fn total(&self) -> u64 {
        self.total - self.vacated
    }

    /// Blocks that may be handed out.
    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    /// Blocks that may be handed out and whose space was set aside on their devices.
    pub(crate) fn backed_free(&self) -> u64 {
        self.backed_free
    }

    /// Blocks that the map refers to.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Blocks that become free with the next checkpoints.
    pub(crate) fn quarantined(&self) -> u64 {
        (self.quarantine.len() + self.releasing.len()) as u64
    }

    /// Groups with references that wait to be brought into maps that are not in memory.
    pub(crate) fn groups_with_deltas(&self) -> usize {
        self.with_deltas.len()
    }

    /// Whether so many groups have deltas that a checkpoint must bring them in first.
    pub(crate) fn has_too_many_deltas(&self) -> bool {
        self.with_deltas.len() >= self.loaded_max
    }

    /// Groups whose maps are damaged, and those for which the device's backing store has no space.
    pub(crate) fn unusable(&self) -> (u64, u64) {
        (self.fenced, self.unavailable)
    }

    /// Adds the space of a device that has grown.
    pub(crate) fn extend(&mut self, device: DeviceNumber, device_blocks: u64) {
        let device = &mut self.devices[device.index()];
        device.layout.device_blocks = device_blocks;
        let layout = device.layout;
        if let Some(last) = device.groups.len().checked_sub(1) {
            let group = &mut device.groups[last];
            let more = layout.group_capacity(last) - group.capacity;
            if let Some(body) = &mut group.body {
                let start = GroupBlock::new(GROUP_HEAD + u64::from(group.capacity));
                let new = start.onwards().take(more as usize);
                new.for_each(|place| clear(&mut body.busy, place));
            }
            let backed = if group.backed { group.available() } else { 0 };
            group.capacity += more;
            group.free += more;
            let leaves = group.leaving;
            if more > 0 {
                group.backed = false;
                self.backed_free -= u64::from(backed);
            }
            device.capacity += u64::from(more);
            self.total += u64::from(more);
            self.free += u64::from(if group.available() > 0 { more } else { 0 });
            self.vacated += u64::from(if leaves { more } else { 0 });
        }
        for index in device.groups.len()..layout.groups() {
            let mut group = AllocationGroup::new(layout.group_capacity(index));
            group.leaving = device.leaving;
            device.capacity += u64::from(group.capacity);
            self.total += u64::from(group.free);
            self.free += u64::from(group.available());
            self.vacated += u64::from(if group.leaving { group.free } else { 0 });
            device.groups.push(group);
        }
        device.upper.extend(&layout);
    }

    fn group(&self, id: AllocationGroupId) -> &AllocationGroup {
        &self.devices[id.device.index()].groups[id.group as usize]
    }

    fn group_mut(&mut self, id: AllocationGroupId) -> &mut AllocationGroup {
        &mut self.devices[id.device.index()].groups[id.group as usize]
    }

    /// Hands out up to `blocks` adjacent blocks for data of a request of that length; fewer if no run is
    /// so long. They are busy but not used.
    pub(crate) fn allocate(&mut self, blocks: u64, length: Length) -> Allocation {
        for pinned in [false, true] {
            for step in 0..self.devices.len() {
                let device = (self.next_device + step) % self.devices.len();
                if self.devices[device].groups.is_empty() {
                    continue;
                }
                match self.allocate_on(DeviceNumber::at(device), blocks, (length, pinned)) {
                    Allocation::Full => {}
                    // The next attempt must find the group that was loaded for it.
                    Allocation::Load(group) => return Allocation::Load(group),
                    run => {
                        self.next_device = (device + 1) % self.devices.len();
                        return run;
                    }
                }
            }
        }
        Allocation::Full
    }

    /// In groups that hold pages of the map too only if `pinned`.
    fn allocate_on(
        &mut self,
        device: DeviceNumber,
        blocks: u64,
        (length, pinned): (Length, bool),
    ) -> Allocation {
        let chosen =
            if pinned { Allocation::Full } else { self.allocate_chosen(device, blocks, length) };
        match chosen {
            Allocation::Full => self.allocate_anywhere(device, blocks, (length, pinned)),
            chosen => chosen,
        }
    }

    fn take(&mut self, id: AllocationGroupId, place: GroupBlock, blocks: u64) -> Run {
        let start = self.layout(id.device).group_start(id.group as usize) + place.number();
        let group = self.group_mut(id);
        let body = group.body.as_mut().expect("blocks are taken from groups in memory");
        let taken = place.onwards().take(blocks as usize);
        taken.for_each(|place| set(&mut body.busy, place));
        group.free -= blocks as u32;
        group.fresh = false;
        let backed = if group.backed { blocks } else { 0 };
        self.free -= blocks;
        self.backed_free -= backed;
        Run { start: start.on(id.device), blocks }
    }

    /// Makes sure that `wanted` blocks for pages can be handed out at once.
    pub(crate) fn prepare_pages(&mut self, wanted: u64) -> Preparation {
        while self.room_for_pages() < wanted {
            let Some(id) = self.group_for_pages() else { return Preparation::NoRoom };
            let group = self.group(id);
            if group.body.is_none() || !group.backed {
                return Preparation::Load(id);
            }
            self.pin(id);
        }
        Preparation::Ready
    }

    fn pin(&mut self, id: AllocationGroupId) {
        self.group_mut(id).pinned = true;
        self.pinned.push(id);
        self.touch(id);
    }

    /// The group's descriptor changes with the next checkpoint.
    fn touch(&mut self, id: AllocationGroupId) {
        self.touched.insert((id.device, id.group as usize / GROUPS_PER_DESCRIPTOR_PAGE));
    }

    fn room_for_pages(&self) -> u64 {
        let ready = self.pinned.iter().map(|&id| self.group(id));
        ready.filter(|group| group.body.is_some()).map(|group| u64::from(group.available())).sum()
    }

    /// The next group that will hold pages: an untouched one if possible.
    fn group_for_pages(&self) -> Option<AllocationGroupId> {
        let candidate = |untouched: bool| {
            self.ids().find(|&id| {
                let group = self.group(id);
                let fits = group.is_untouched() || !untouched;
                fits && !group.pinned && group.available() > 0
            })
        };
        candidate(true).or_else(|| candidate(false))
    }

    /// Whether the space of a group was set aside on its device.
    pub(crate) fn is_backed(&self, id: AllocationGroupId) -> bool {
        self.group(id).backed
    }

    /// Whether the space of a group is not set aside, and was not refused of late.
    pub(crate) fn can_be_backed(&self, id: AllocationGroupId) -> bool {
        let group = self.group(id);
        !group.backed && !group.unavailable && !group.fenced && !group.leaving
    }

    /// The first group whose space should be set aside so that `wanted` blocks have some; `None` if
    /// they have, or no group is left.
    pub(crate) fn group_to_back(&self, wanted: u64) -> Option<AllocationGroupId> {
        self.groups_to_back(wanted, 1).pop()
    }

    /// The same for up to `most` groups at once.
    pub(crate) fn groups_to_back(&self, wanted: u64, most: usize) -> Vec<AllocationGroupId> {
        let mut missing = wanted.saturating_sub(self.backed_free);
        let mut found = Vec::new();
        if missing == 0 {
            return found;
        }
        for id in self.ids() {
            let group = self.group(id);
            if group.backed || group.available() == 0 {
                continue;
            }
            found.push(id);
            missing = missing.saturating_sub(group.available().into());
            if missing == 0 || found.len() == most {
                break;
            }
        }
        found
    }

    /// All groups.
    fn ids(&self) -> impl Iterator<Item = AllocationGroupId> {
        self.devices.iter().enumerate().flat_map(|(device, space)| {
            let groups = 0..space.groups.len() as u32;
            let device = DeviceNumber::at(device);
            groups.map(move |group| AllocationGroupId { device, group })
        })
    }

    /// Hands out a block for a page, and with `twin` another one for its copy; returns the block
    /// and how far behind it the copy lies, 0 if there is no room for one. [`Self::prepare_pages`]
    /// came first.
    pub(crate) fn allocate_page(&mut self, twin: bool) -> (Address, u64) {
        let (id, place) = self.find_page();
        let start = self.take(id, place, 1).start;
        self.first_reference(start);
        self.pages += 1;
        let body = self.group(id).body.as_ref().expect("a page was just taken from it");
        let Some(copy) = twin.then(|| find_twin(body, place)).flatten() else { return (start, 0) };
        let copy_start = self.take(id, copy, 1).start;
        self.first_reference(copy_start);
        self.pages += 1;
        (start, copy - place)
    }

    /// The next free place in a group that holds pages.
    fn find_page(&mut self) -> (AllocationGroupId, GroupBlock) {
        let (first, from) = self.page_cursor;
        let groups = self.pinned.len();
        for step in 0..=groups {
            let index = (first + step) % groups.max(1);
            let from = if step == 0 { from } else { GroupBlock::START };
            let Some(&id) = self.pinned.get(index) else { break };
            let group = self.group(id);
            let Some(body) = group.body.as_ref().filter(|_| group.available() > 0) else {
                continue;
            };
            if let Some((place, _)) = find_run(&body.busy, from, 1) {
                self.page_cursor = (index, place + 1);
                return (id, place);
            }
        }
        unreachable!("the reserve covers every page that is to be written")
    }

    /// Takes back blocks that were handed out and never referred to.
    pub(crate) fn give_back(&mut self, run: Run) {
        for block in run.addresses() {
            self.release(block);
        }
    }

    fn release(&mut self, block: Address) {
        let (id, place) = self.place(block);
        let group = self.group_mut(id);
        let Some(body) = &mut group.body else { return };
        assert!(get(&body.busy, place) && !get(&body.used, place), "only idle blocks are released");
        clear(&mut body.busy, place);
        group.free += 1;
        let leaves = group.leaving;
        let back = u64::from(group.available() > 0);
        let backed = group.backed;
        self.free += back;
        self.backed_free += if backed { back } else { 0 };
        self.vacated += u64::from(leaves);
        self.list_if_roomy(id);
    }

    fn place(&self, block: Address) -> (AllocationGroupId, GroupBlock) {
        let device = block.device();
        let space =
            self.devices.get(device.index()).expect("the map refers only to devices of the pool");
        let (group, place) =
            space.layout.locate(block.block()).expect("the map refers only to blocks of groups");
        (AllocationGroupId { device, group: group as u32 }, place)
    }

    /// Whether an address lies where data and pages can be.
    pub(crate) fn holds(&self, block: Address) -> bool {
        let device = self.devices.get(block.device().index());
        device.is_some_and(|device| device.layout.locate(block.block()).is_some())
    }

    /// How often the map refers to a page. Groups that hold pages are in memory; of a damaged one
    /// nothing is known, so its pages count as shared too often to be freed.
    pub(crate) fn references(&self, block: Address) -> u16 {
        let (id, place) = self.place(block);
        self.group(id).body.as_ref().map_or(STUCK, |body| body.references(place))
    }

    /// Whether a block of data is shared, as far as the maps in memory tell.
    pub(crate) fn is_known_shared(&self, block: Address) -> bool {
        let (id, place) = self.place(block);
        self.group(id).body.as_ref().is_some_and(|body| body.references(place) > 1)
    }

    /// Notes the first reference to a block that was handed out, or that a journal names.
    pub(crate) fn first_reference(&mut self, block: Address) {
        let (id, place) = self.place(block);
        let group = self.group_mut(id);
        let Some(body) = &mut group.body else { return };
        assert!(!get(&body.used, place), "block {block} is used already");
        body.set_references(place, 1);
        group.used += 1;
        let was_busy = get(&body.busy, place);
        set(&mut body.busy, place);
        if !was_busy {
            self.take_named(id);
        }
        self.devices[id.device.index()].used += 1;
        self.used += 1;
    }

    /// Notes more references. A count that has reached [`REFERENCES_MAX`] stays there for good.
    pub(crate) fn add_references(&mut self, block: Address, more: u16) {
        let (id, place) = self.place(block);
        for _ in 0..more {
            self.change_references(id, place, true);
        }
    }

    /// Notes one reference less; the block is quarantined with the last.
    pub(crate) fn drop_reference(&mut self, block: Address) {
        let (id, place) = self.place(block);
        self.change_references(id, place, false);
    }

    /// Notes one reference to a page less, and to its copy with the last.
    pub(crate) fn drop_page_reference(&mut self, block: Address, twin_distance: u64) {
        let before = self.references(block);
        self.drop_reference(block);
        if before != 1 {
            return;
        }
        self.pages -= 1;
        if twin_distance > 0 {
            self.drop_reference(block + twin_distance);
            self.pages -= 1;
        }
    }

    fn change_references(&mut self, id: AllocationGroupId, place: GroupBlock, adds: bool) {
        let group = self.group_mut(id);
        if group.fenced {
            return;
        }
        if group.body.is_none() {
            group.deltas.push(Delta::new(place, adds));
            self.with_deltas.insert(id);
            return;
        }
        if let Some(block) = self.change_in_memory(id, place, adds) {
            self.quarantine.push(block);
        }
    }

    /// Changes a count; returns the block if it lost its last reference.
    fn change_in_memory(
        &mut self,
        id: AllocationGroupId,
        place: GroupBlock,
        adds: bool,
    ) -> Option<Address> {
        let layout = self.devices[id.device.index()].layout;
        let start = layout.group_start(id.group as usize);
        let block = (start + place.number()).on(id.device);
        let group = self.group_mut(id);
        let body = group.body.as_mut()?;
        let before = body.references(place);
        assert!(before > 0, "block {block} has no reference to share or to drop");
        let after = match (before, adds) {
            (STUCK, _) => STUCK,
            (_, true) if before + 1 >= REFERENCES_MAX => STUCK,
            (_, true) => before + 1,
            (_, false) => before - 1,
        };
        body.set_references(place, after);
        if after > 0 {
            return None;
        }
        group.used -= 1;
        let device = &mut self.devices[id.device.index()];
        device.used -= 1;
        self.vanished += u64::from(device.leaving);
        self.used -= 1;
        Some(block)
    }

    /// The cut of a checkpoint: what was freed until now is released when it is durable.
    pub(crate) fn cut(&mut self) {
        assert!(self.releasing.is_empty(), "one checkpoint at a time");
        self.releasing = std::mem::take(&mut self.quarantine);
    }

    /// The checkpoint is durable.
    pub(crate) fn checkpoint_durable(&mut self) {
        for block in std::mem::take(&mut self.releasing) {
            self.release(block);
        }
        self.evict(self.loaded_max, 2 * self.loaded.len());
    }

    /// Bytes of all blocks of a kind.
    pub(crate) fn bytes(blocks: u64) -> u64 {
        blocks * BLOCK
    }
}

/// A free block for the copy of a page: well behind it if possible.
fn find_twin(body: &Body, place: GroupBlock) -> Option<GroupBlock> {
    let last = (place + TWIN_DISTANCE_MAX).min(GroupBlock::new(GROUP_BLOCKS - 1));
    [place + TWIN_DISTANCE, place + 1].into_iter().find_map(|from| {
        let (found, _) = find_run(&body.busy, from, 1)?;
        (found <= last).then_some(found)
    })
}

#[cfg(test)]
mod tests;
