//! Placement of data: groups that were written before and of which three quarters are free are filled
//! before groups of which nothing was ever handed out.
//!
//! A file system that keeps a sparse file, and memory, make space at the first write of a place, so
//! that is dearer than every later one; and a pool that writes its way round all of its space takes all
//! of it from what lies below, however little is in use.
//!
//! Requests are short or long, and each kind has a cursor of its own. Short ones fill holes. A long
//! one takes no run shorter than [`LONG_BLOCKS`] while there is one so long elsewhere, so that what
//! was written in order can be read in order.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::group::{AllocationGroup, find_long_run, find_run};
use super::{Allocation, AllocationGroupId, Space};
use crate::address::{DeviceNumber, GroupBlock};

/// Blocks of a run that is long enough for data that is written in order: 128 KiB. Requests from half of
/// it on are long.
pub(super) const LONG_BLOCKS: u64 = 32;

/// Groups that are looked at for the one with the most room; the last of them may be short of it.
const CANDIDATES_MAX: usize = 64;

/// Groups that one allocation looks through for a run that is long enough; then it takes one of which
/// nothing was handed out, or any run.
const SEARCHES_MAX: usize = 8;

/// Which requests data belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Short,
    Long,
}

/// Where the next search for data begins.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    group: usize,
    place: GroupBlock,
    /// The group was chosen for its room, and is left when it has no run that is long enough.
    is_chosen: bool,
}

/// Where data of a device goes.
pub(super) struct Placement {
    cursors: [Cursor; 2],
    /// Groups that were written before and have room, for each length; those that have it no more are
    /// found out when they are looked at.
    roomy: [BTreeSet<u32>; 2],
    /// Before this group there is none of which nothing was ever handed out and something can be.
    fresh_from: usize,
}

impl Placement {
    pub(super) fn new() -> Self {
        let start = Cursor { group: 0, place: GroupBlock::START, is_chosen: false };
        Self { cursors: [start; 2], roomy: Default::default(), fresh_from: 0 }
    }
}

impl Length {
    const ALL: [Self; 2] = [Self::Short, Self::Long];

    /// The length of a request with so many blocks.
    pub(crate) fn of(blocks: u64) -> Self {
        if blocks * 2 < LONG_BLOCKS { Self::Short } else { Self::Long }
    }

    /// In [`AllocationGroup::listed`].
    fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Whether a group may have runs that are long enough, as far as that is known.
    fn suits(self, group: &AllocationGroup) -> bool {
        match self {
            Self::Short => group.is_roomy(),
            // Reading the maps of one group after the other would take longer than what it finds is
            // worth.
            Self::Long if group.body.is_none() => group.is_mostly_free(),
            Self::Long => group.is_roomy(),
        }
    }
}

impl Space {
    /// Blocks of a group became free: it may be one to choose.
    pub(super) fn list_if_roomy(&mut self, id: AllocationGroupId) {
        let device = &mut self.devices[id.device.index()];
        let group = &mut device.groups[id.group as usize];
        for length in Length::ALL {
            if group.listed & length.bit() == 0 && length.suits(group) {
                group.listed |= length.bit();
                device.placement.roomy[length as usize].insert(id.group);
            }
        }
    }

    /// From the cursor on in a group that was chosen, or in the next one that is chosen.
    pub(super) fn allocate_chosen(
        &mut self,
        device: DeviceNumber,
        blocks: u64,
        length: Length,
    ) -> Allocation {
        let least = blocks.min(LONG_BLOCKS);
        for search in 0..=SEARCHES_MAX {
            let allocation = self.allocate_at_cursor(device, &(least..=blocks), length);
            if allocation != Allocation::Full {
                return allocation;
            }
            let roomy = (search < SEARCHES_MAX).then(|| self.choose_roomy(device, length));
            let Some(group) = roomy.flatten().or_else(|| self.next_fresh(device, least)) else {
                return Allocation::Full;
            };
            let cursor = &mut self.devices[device.index()].placement.cursors[length as usize];
            *cursor = Cursor { group, place: GroupBlock::START, is_chosen: true };
        }
        Allocation::Full
    }

    fn allocate_at_cursor(
        &mut self,
        device: DeviceNumber,
        wanted: &RangeInclusive<u64>,
        length: Length,
    ) -> Allocation {
        let space = &mut self.devices[device.index()];
        let cursor = &mut space.placement.cursors[length as usize];
        let group = &mut space.groups[cursor.group];
        if !cursor.is_chosen || group.pinned || group.available() == 0 {
            return Allocation::Full;
        }
        let id = AllocationGroupId { device, group: cursor.group as u32 };
        let backed = group.backed;
        let Some(body) = group.body.as_mut().filter(|_| backed) else {
            return Allocation::Load(id);
        };
        body.recent = true;
        let Some((place, blocks)) = find_long_run(&body.busy, cursor.place, wanted) else {
            return Allocation::Full;
        };
        cursor.place = place + blocks;
        Allocation::Run(self.take(id, place, blocks))
    }

    /// The group with the most room, of some that were written before; it is not chosen again before
    /// blocks of it became free.
    fn choose_roomy(&mut self, device: DeviceNumber, length: Length) -> Option<usize> {
        let space = &mut self.devices[device.index()];
        let from = space.placement.cursors[length as usize].group as u32;
        let roomy = &mut space.placement.roomy[length as usize];
        let next = roomy.range(from..).chain(roomy.range(..from)).take(CANDIDATES_MAX);
        let candidates: smallvec::SmallVec<[u32; CANDIDATES_MAX]> = next.copied().collect();
        let groups = &mut space.groups;
        let (mut best, mut most) = (None, 0);
        for &index in &candidates {
            let group = &groups[index as usize];
            if group.pinned || !length.suits(group) {
                groups[index as usize].listed &= !length.bit();
                roomy.remove(&index);
            } else if group.available() > most {
                (best, most) = (Some(index), group.available());
            }
        }
        let best = best?;
        groups[best as usize].listed &= !length.bit();
        roomy.remove(&best);
        Some(best as usize)
    }

    /// The first group of which nothing was ever handed out.
    fn next_fresh(&mut self, device: DeviceNumber, least: u64) -> Option<usize> {
        let space = &mut self.devices[device.index()];
        let from = space.placement.fresh_from;
        let fits = |group: &AllocationGroup| {
            group.fresh && !group.pinned && u64::from(group.available()) >= least
        };
        let found = space.groups.get(from..)?.iter().position(fits).map(|place| from + place);
        space.placement.fresh_from = found.unwrap_or(space.groups.len());
        found
    }

    /// A group may be handed out of again.
    pub(super) fn list_again(&mut self, id: AllocationGroupId) {
        let device = &mut self.devices[id.device.index()];
        if device.groups[id.group as usize].fresh {
            let from = &mut device.placement.fresh_from;
            *from = (*from).min(id.group as usize);
        }
        self.list_if_roomy(id);
    }

    /// Any run, from the cursor on; in groups that hold pages of the map too only if `pinned`.
    pub(super) fn allocate_anywhere(
        &mut self,
        device: DeviceNumber,
        blocks: u64,
        (length, pinned): (Length, bool),
    ) -> Allocation {
        let space = &mut self.devices[device.index()];
        let cursor = &mut space.placement.cursors[length as usize];
        let (first, from) = (cursor.group, cursor.place);
        let groups = space.groups.len();
        for step in 0..=groups {
            let index = (first + step) % groups;
            let from = if step == 0 { from } else { GroupBlock::START };
            let group = &mut space.groups[index];
            if group.available() == 0 || (group.pinned && !pinned) {
                continue;
            }
            let id = AllocationGroupId { device, group: index as u32 };
            let backed = group.backed;
            let Some(body) = group.body.as_mut().filter(|_| backed) else {
                return Allocation::Load(id);
            };
            body.recent = true;
            if let Some((place, blocks)) = find_run(&body.busy, from, blocks) {
                *cursor = Cursor { group: index, place: place + blocks, is_chosen: false };
                return Allocation::Run(self.take(id, place, blocks));
            }
        }
        Allocation::Full
    }
}

#[cfg(test)]
mod tests;
