//! A device that leaves the pool: nothing of it is handed out any more, and what is freed on it is no
//! part of the pool.
//!
//! When all of it is free, the durable checkpoint refers to nothing on it: a block counts as free only
//! after a checkpoint that does not refer to it is durable.

use super::{AllocationGroupId, DeviceSpace, Space};
use crate::address::{Address, DeviceNumber};
use crate::entry::Entry;
use crate::layout::Layout;

impl Space {
    fn groups_of(&self, device: DeviceNumber) -> impl Iterator<Item = AllocationGroupId> + use<> {
        let groups = self.devices[device.index()].groups.len() as u32;
        (0..groups).map(move |group| AllocationGroupId { device, group })
    }

    /// A device begins to leave.
    pub(crate) fn leave(&mut self, device: DeviceNumber) {
        if std::mem::replace(&mut self.devices[device.index()].leaving, true) {
            return;
        }
        self.vanished = 0;
        for id in self.groups_of(device) {
            let group = self.group_mut(id);
            let (available, free) = (u64::from(group.available()), u64::from(group.free));
            let backed = if group.backed { available } else { 0 };
            group.leaving = true;
            self.free -= available;
            self.backed_free -= backed;
            self.vacated += free;
        }
    }

    /// A device that was leaving stays.
    pub(crate) fn stay(&mut self, device: DeviceNumber) {
        if !std::mem::replace(&mut self.devices[device.index()].leaving, false) {
            return;
        }
        for id in self.groups_of(device) {
            let group = self.group_mut(id);
            group.leaving = false;
            let (available, free) = (u64::from(group.available()), u64::from(group.free));
            let backed = if group.backed { available } else { 0 };
            self.free += available;
            self.backed_free += backed;
            self.vacated -= free;
            self.list_again(id);
        }
    }

    /// Whether a device leaves.
    pub(crate) fn leaves(&self, device: DeviceNumber) -> bool {
        self.devices.get(device.index()).is_some_and(|space| space.leaving)
    }

    /// Blocks of a device that the map refers to.
    pub(crate) fn used_on(&self, device: DeviceNumber) -> u64 {
        self.devices[device.index()].used
    }

    /// Blocks of a device that may be handed out, and those of them that are backed.
    pub(crate) fn free_on(&self, device: DeviceNumber) -> (u64, u64) {
        let groups = || self.devices[device.index()].groups.iter();
        let free = groups().map(|group| u64::from(group.available())).sum();
        let backed = groups().filter(|group| group.backed);
        (free, backed.map(|group| u64::from(group.available())).sum())
    }

    /// Blocks of a device to which nothing refers, whether they may be handed out or not.
    pub(crate) fn unused_on(&self, device: DeviceNumber) -> u64 {
        let groups = self.devices[device.index()].groups.iter();
        groups.map(|group| u64::from(group.free)).sum()
    }

    /// Whether maps of a group of a device are damaged.
    pub(crate) fn has_fenced(&self, device: DeviceNumber) -> bool {
        self.devices[device.index()].groups.iter().any(|group| group.fenced)
    }

    /// The first group on another device whose space should be set aside so that `wanted` blocks have
    /// some there; `None` if they have, or no group is left.
    pub(crate) fn group_to_back_beside(
        &self,
        device: DeviceNumber,
        wanted: u64,
    ) -> Option<AllocationGroupId> {
        let (_, backed) = self.free_on(device);
        if self.backed_free - backed >= wanted {
            return None;
        }
        self.ids().find(|&id| {
            let group = self.group(id);
            id.device != device && !group.backed && group.available() > 0
        })
    }

    /// Whether nothing is on a device that leaves: the map refers to none of its blocks, nor does the
    /// durable checkpoint, and no block was handed out before.
    pub(crate) fn is_vacant(&self, device: DeviceNumber) -> bool {
        let space = &self.devices[device.index()];
        let mut uncounted = self.with_deltas.iter().chain(&self.owing);
        space.leaving
            && self.vacated == space.capacity
            && uncounted.all(|group| group.device != device)
    }

    /// Whether a block, or a page, is on a device that leaves; a page lies there with its copy.
    pub(crate) fn has_leaving(&self, entry: Entry) -> bool {
        self.leaves(entry.address().device())
    }

    /// Blocks of the device that leaves which may be told yet to have been moved, although nothing refers
    /// to them.
    pub(crate) fn vanished(&self) -> u64 {
        self.vanished
    }

    /// So many of them are not any more.
    pub(crate) fn looked_at_vanished(&mut self, blocks: u64) {
        self.vanished = self.vanished.saturating_sub(blocks);
    }

    /// The group of a block whose maps are needed to tell whether something refers to it.
    pub(crate) fn group_to_tell(&self, block: Address) -> Option<AllocationGroupId> {
        let (id, _) = self.place(block);
        Some(id).filter(|&id| !self.is_loaded(id))
    }

    /// Whether nothing refers to a block, as far as the maps in memory tell.
    pub(crate) fn is_known_unused(&self, block: Address) -> bool {
        let (id, place) = self.place(block);
        self.group(id).body.as_ref().is_some_and(|body| body.references(place) == 0)
    }

    /// A device to which nothing refers is no part of the pool any more. No checkpoint is being
    /// written.
    pub(crate) fn remove_device(&mut self, device: DeviceNumber) {
        let mut groups = self.devices[device.index()].groups.iter();
        assert!(groups.all(|group| group.is_untouched()), "nothing is on a device that leaves");
        self.stay(device);
        for id in self.groups_of(device) {
            let group = self.group(id);
            let (available, capacity) = (u64::from(group.available()), u64::from(group.capacity));
            let backed = if group.backed { available } else { 0 };
            let unavailable = u64::from(group.unavailable);
            self.total -= capacity;
            self.free -= available;
            self.backed_free -= backed;
            self.unavailable -= unavailable;
        }
        self.unavailable_on.remove(&device);
        self.loaded.retain(|id| id.device != device);
        self.pinned.retain(|id| id.device != device);
        self.touched.retain(|(of, _)| *of != device);
        self.devices[device.index()] = DeviceSpace::new(Layout::NOTHING);
    }

    /// Groups of a device in which something is used and whose maps are not in memory.
    pub(crate) fn used_and_not_loaded(&self, device: DeviceNumber) -> Option<AllocationGroupId> {
        self.groups_of(device).find(|&id| self.group(id).used > 0 && !self.is_loaded(id))
    }

    /// Gives up blocks of a device whose references were too many to be counted, and of which the caller
    /// knows that there are none, as far as their maps are in memory.
    pub(crate) fn give_up_uncounted(&mut self, device: DeviceNumber) {
        for id in self.groups_of(device) {
            let layout = self.layout(device);
            let start = layout.group_start(id.group as usize);
            let Some(body) = &mut self.group_mut(id).body else { continue };
            let stuck = body.stuck();
            stuck.iter().for_each(|&place| body.set_references(place, 0));
            let count = stuck.len() as u32;
            self.group_mut(id).used -= count;
            self.devices[device.index()].used -= u64::from(count);
            self.used -= u64::from(count);
            let blocks = stuck.into_iter().map(|place| (start + place.number()).on(device));
            self.quarantine.extend(blocks);
        }
    }
}
