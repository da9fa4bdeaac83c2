//! Blocks in use of an allocation group: all that the pool refers to or is about to, and so what a
//! copy of the device must have.

use super::group::{AllocationGroup, Body, PAGES, WORDS, get};
use super::{AllocationGroupId, Space};
use crate::address::{DeviceBlock, DeviceNumber, GroupBlock, Run};
use crate::layout::{
    DESCRIPTOR_PAGES_PER_FIRST_LEVEL, GROUP_BLOCKS, GROUP_HEAD, GROUPS_PER_DESCRIPTOR_PAGE,
    PageSlot,
};

/// Places in a group's head of the slots of a descriptor page and of their copies; of a first-level
/// page they are two blocks further.
const DESCRIPTOR_PLACES: [u64; 4] = [34, 35, 38, 39];

/// How far behind a descriptor page's places those of a first-level page are.
const FIRST_LEVEL_BEHIND: u64 = 2;

impl Space {
    /// The groups of a device that have blocks in a run.
    pub(crate) fn groups_touched(
        &self,
        run: Run,
    ) -> impl Iterator<Item = AllocationGroupId> + use<> {
        let device = run.start.device();
        let layout = self.layout(device);
        let start = layout.groups_start();
        let behind = |at: DeviceBlock| at.number().saturating_sub(start.number());
        let (first, end) = (behind(run.start.block()), behind(run.end().block()));
        let (first, end) = ((first / GROUP_BLOCKS) as usize, end.div_ceil(GROUP_BLOCKS) as usize);
        (first..end.min(layout.groups()))
            .map(move |group| AllocationGroupId { device, group: group as u32 })
    }

    /// Whether it is known which blocks of a group are in use: its maps are in memory, or nothing of
    /// it is, or they are damaged and all of it counts.
    pub(crate) fn knows_use(&self, id: AllocationGroupId) -> bool {
        self.is_loaded(id) || is_empty(self.group(id))
    }

    /// The blocks of a group that hold something: blocks that the map refers to, that were handed out,
    /// or that the durable checkpoint may still refer to, and the pages of the group's maps. Between
    /// checkpoints, when it is known which pages those are.
    pub(crate) fn in_use(&self, id: AllocationGroupId) -> Vec<Run> {
        let layout = self.layout(id.device);
        let start = layout.group_start(id.group as usize);
        let group = self.group(id);
        if group.fenced {
            let blocks = layout.group_blocks(id.group as usize);
            return vec![Run { start: start.on(id.device), blocks }];
        }
        let mut places = upper_places(id.group as usize);
        let pages = (0..PAGES).filter(|page| group.present & 1 << page != 0);
        places.extend(pages.map(|page| {
            let at = PageSlot { page, slot: (group.slots >> page & 1) as u8 };
            layout.space_page(id.group as usize, at) - start
        }));
        places.sort_unstable();
        let mut runs = Vec::new();
        places.into_iter().for_each(|place| push(&mut runs, (start + place, 1), id.device));
        if let Some(body) = &group.body {
            let end = GROUP_HEAD + u64::from(group.capacity);
            busy_runs(body, GroupBlock::new(end))
                .for_each(|(place, blocks)| push(&mut runs, (start + place, blocks), id.device));
        }
        runs
    }

    /// What of a group's space must be set aside on a copy of the device: all of it if blocks are
    /// allocated there, and its head if pages of space maps may be written there without that.
    pub(crate) fn to_back(&self, id: AllocationGroupId) -> Option<Run> {
        let group = self.group(id);
        let has_pages = !is_empty(group) || !upper_places(id.group as usize).is_empty();
        let blocks = match () {
            () if group.backed => self.group_blocks(id),
            () if has_pages => GROUP_HEAD.min(self.group_blocks(id)),
            () => return None,
        };
        let start = self.layout(id.device).group_start(id.group as usize);
        Some(Run { start: start.on(id.device), blocks })
    }

    /// About how many blocks of a group are in use, without its maps.
    pub(crate) fn in_use_about(&self, id: AllocationGroupId) -> u64 {
        let group = self.group(id);
        let pages = u64::from(group.present.count_ones());
        let upper = upper_places(id.group as usize).len() as u64;
        if group.fenced {
            return self.group_blocks(id);
        }
        u64::from(group.capacity - group.free) + pages + upper
    }
}

/// Whether nothing of a group is in use.
fn is_empty(group: &AllocationGroup) -> bool {
    group.body.is_none()
        && !group.fenced
        && group.written_used == 0
        && group.deltas.is_empty()
        && group.owed.is_empty()
}

/// The places in a group's head of pages that describe several groups.
fn upper_places(group: usize) -> Vec<u64> {
    let mut places = Vec::new();
    if group.is_multiple_of(GROUPS_PER_DESCRIPTOR_PAGE) {
        places.extend(DESCRIPTOR_PLACES);
    }
    if group.is_multiple_of(GROUPS_PER_DESCRIPTOR_PAGE * DESCRIPTOR_PAGES_PER_FIRST_LEVEL) {
        places.extend(DESCRIPTOR_PLACES.map(|place| place + FIRST_LEVEL_BEHIND));
    }
    places
}

/// Adds blocks, to the last run if they follow it.
fn push(runs: &mut Vec<Run>, (first, blocks): (DeviceBlock, u64), device: DeviceNumber) {
    let start = first.on(device);
    match runs.last_mut() {
        Some(last) if last.end() == start => last.blocks += blocks,
        _ => runs.push(Run { start, blocks }),
    }
}

/// Runs of busy blocks of a group's data, as places and lengths.
fn busy_runs(body: &Body, end: GroupBlock) -> impl Iterator<Item = (u64, u64)> {
    let (mut place, end) = (GROUP_HEAD, end.number());
    std::iter::from_fn(move || {
        while place < end && !get(&body.busy, GroupBlock::new(place)) {
            let word = body.busy[(place / 64) as usize] >> (place % 64);
            place += u64::from(word.trailing_zeros()).min(64 - place % 64);
        }
        let first = place;
        while place < end && get(&body.busy, GroupBlock::new(place)) {
            let word = body.busy[(place / 64) as usize] >> (place % 64);
            place += u64::from(word.trailing_ones()).min(64 - place % 64);
        }
        let place = place.min(end);
        (first < place).then(|| (first, place - first))
    })
}

const _: () = assert!(WORDS as u64 * 64 == GROUP_BLOCKS);
