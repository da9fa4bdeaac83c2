//! Demand paging: reads pages of the map and space maps into memory when an operation or the reaper
//! needs them.

use std::collections::BTreeMap;

use block::{Buffer, DeviceError, DeviceResult, VolumeId};
use hashbrown::HashMap;

use crate::address::{Address, DeviceNumber, Run};
use crate::entry::Page;
use crate::incident::{Cause, Place};
use crate::io::Waiter;
use crate::map::Missing;
use crate::mirror::Expected;
use crate::operation_key::OperationKey;
use crate::pool::Pool;
use crate::space::{AllocationGroupId, GroupPage, SpaceWrites};

/// How often a page is read before it is given up.
pub(crate) const READ_ATTEMPTS: u8 = 4;

/// Who waits for a page of the map, or for the space maps of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageWaiter {
    Operation(OperationKey),
    Applier,
    Reaper,
    Scrub,
    Comparison,
    Evacuation,
}

/// Space maps of a group on their way into memory.
#[derive(Default)]
struct GroupLoad {
    /// Reads and reservations under way.
    pending: usize,
    pages: Vec<(usize, Buffer)>,
    /// The maps were in memory when it began, and only space had to be set aside.
    had_maps: bool,
    /// Operations that wait for it.
    waiting: Vec<OperationKey>,
    /// Blocks will be allocated from it.
    allocated: bool,
    /// The group's length when its space was asked for, in blocks.
    blocks: u64,
    /// The device's backing store has no space for the group.
    refused: bool,
}

/// Pages and space maps on their way into memory, and who waits for them.
#[derive(Default)]
pub(crate) struct Loader {
    pages: HashMap<Address, Vec<PageWaiter>>,
    groups: BTreeMap<AllocationGroupId, GroupLoad>,
    applier_waits: bool,
}

/// A page of the map that is in memory now, or cannot be read.
pub(crate) struct ArrivedPage {
    pub(crate) missing: Missing,
    pub(crate) found: bool,
    pub(crate) waiting: Vec<PageWaiter>,
}

/// Space maps that are in memory now, or are known to be damaged.
pub(crate) struct ArrivedGroup {
    pub(crate) group: AllocationGroupId,
    pub(crate) waiting: Vec<OperationKey>,
    /// What the checkpoint that is being written must write of them.
    pub(crate) writes: SpaceWrites,
}

impl Loader {
    /// Whether space of a group is being set aside, so that blocks of it can be allocated.
    pub(crate) fn sets_aside(&self, group: AllocationGroupId) -> bool {
        self.groups.get(&group).is_some_and(|load| load.allocated)
    }

    /// Whether the applier waits for a page.
    pub(crate) fn applier_waits(&self) -> bool {
        self.applier_waits
    }

    /// Whether no space maps are on their way.
    pub(crate) fn has_all_groups(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether a page of the map is on its way.
    pub(crate) fn is_loading(&self, page: Address) -> bool {
        self.pages.contains_key(&page)
    }

    /// Whether anything of a device is on its way.
    pub(crate) fn loads_from(&self, device: DeviceNumber) -> bool {
        self.pages.keys().any(|page| page.device() == device)
            || self.groups.keys().any(|group| group.device == device)
    }

    /// Loads a page of the map, and remembers who waits for it.
    pub(crate) fn load_page(&mut self, pool: &mut Pool, missing: Missing, waiter: PageWaiter) {
        self.applier_waits |= waiter == PageWaiter::Applier;
        let waiting = self.pages.entry(missing.entry.address()).or_default();
        waiting.push(waiter);
        if waiting.len() == 1 {
            pool.statistics.pages_read += 1;
            read_page(pool, missing, 0);
        }
    }

    /// A page was read, or not: then it is read again, unless it was read often enough.
    pub(crate) fn page_read(
        &mut self,
        pool: &mut Pool,
        (missing, attempt): (Missing, u8),
        result: DeviceResult,
        volume_of: impl Fn(PageWaiter) -> Option<VolumeId>,
    ) -> Option<ArrivedPage> {
        let cause = result.as_ref().err().cloned().map_or(Cause::Checksum, Cause::Device);
        let page = result.ok().flatten().and_then(|bytes| {
            let intact = crate::checksum::crc32c(&bytes) == missing.entry.crc;
            intact.then(|| Page::parse(&bytes, missing.level)).flatten()
        });
        let page = page.filter(|page| page.0.iter().all(|entry| pool.is_sound(*entry)));
        let is_last = attempt + 1 == READ_ATTEMPTS;
        // The first time somebody may bring it yet, the last time nobody.
        if page.is_none() && (attempt == 0 || is_last) {
            let waiting = self.pages.get(&missing.entry.address());
            let volume = waiting.into_iter().flatten().find_map(|waiter| volume_of(*waiter));
            let place = Place::MapPage { volume };
            pool.report_incident(missing.entry.address(), cause, place, is_last);
        }
        if page.is_none() && !is_last {
            read_page(pool, missing, attempt + 1);
            return None;
        }
        let from_copy = attempt % 2 == 1 && missing.entry.twin().is_some() && page.is_some();
        pool.statistics.pages_from_copies += u64::from(from_copy);
        Some(self.page_arrived(pool, missing, page))
    }

    fn page_arrived(
        &mut self,
        pool: &mut Pool,
        missing: Missing,
        page: Option<Page>,
    ) -> ArrivedPage {
        let block = missing.entry.address();
        let waiting = self.pages.remove(&block).unwrap_or_default();
        if waiting.contains(&PageWaiter::Applier) {
            self.applier_waits = false;
        }
        let found = page.is_some();
        match page {
            Some(page) => {
                pool.map.insert_clean(block, page);
                pool.map.page_arrived(!self.pages.is_empty());
            }
            None => pool.map.set_aside(block),
        }
        ArrivedPage { missing, found, waiting }
    }

    /// Brings the space maps of a group into memory, and if blocks are to be `allocated` from it,
    /// space for it into being; `operation` goes on then.
    pub(crate) fn load_group(
        &mut self,
        pool: &mut Pool,
        group: AllocationGroupId,
        operation: Option<OperationKey>,
        allocated: bool,
    ) -> Option<ArrivedGroup> {
        if let Some(load) = self.groups.get_mut(&group) {
            load.waiting.extend(operation);
            return None;
        }
        self.begin_group(pool, group, operation.into_iter().collect(), allocated)
    }

    fn begin_group(
        &mut self,
        pool: &mut Pool,
        group: AllocationGroupId,
        waiting: Vec<OperationKey>,
        allocated: bool,
    ) -> Option<ArrivedGroup> {
        let had_maps = pool.space.is_loaded(group);
        let pages = if had_maps { Vec::new() } else { pool.space.group_pages(group) };
        let reservations = if allocated { pool.space.runs_to_back(group) } else { Vec::new() };
        let pending = pages.len() + reservations.len();
        let blocks = pool.space.group_blocks(group);
        let load =
            GroupLoad { pending, had_maps, waiting, allocated, blocks, ..GroupLoad::default() };
        self.groups.insert(group, load);
        for page in pages {
            let waiter = Waiter::GroupPage { group, page, attempt: 0 };
            pool.io.read(waiter, Run::of(page.address), Expected::Blocks(&[page.crc]));
        }
        for run in reservations {
            pool.io.reserve(Waiter::GroupSpace { group }, run);
        }
        if pending == 0 { self.group_arrived(pool, group) } else { None }
    }

    /// A page that has no copy is read again before its group is given up: the device may only
    /// have stumbled.
    pub(crate) fn group_page_read(
        &mut self,
        pool: &mut Pool,
        group: AllocationGroupId,
        (page, attempt): (GroupPage, u8),
        result: DeviceResult,
    ) -> Option<ArrivedGroup> {
        let intact = |bytes: &Buffer| crate::checksum::crc32c(bytes) == page.crc;
        let cause = result.as_ref().err().cloned().map_or(Cause::Checksum, Cause::Device);
        let bytes = result.ok().flatten().filter(intact);
        let is_last = attempt + 1 == READ_ATTEMPTS;
        if bytes.is_none() && (attempt == 0 || is_last) {
            pool.report_incident(page.address, cause, Place::SpaceMap, is_last);
        }
        if bytes.is_none() && !is_last {
            let waiter = Waiter::GroupPage { group, page, attempt: attempt + 1 };
            pool.io.read(waiter, Run::of(page.address), Expected::Blocks(&[page.crc]));
            return None;
        }
        let load = self.groups.get_mut(&group)?;
        load.pages.extend(bytes.map(|bytes| (page.page, bytes)));
        self.group_part_done(pool, group)
    }

    /// Space of a group was set aside, or refused.
    pub(crate) fn group_space_backed(
        &mut self,
        pool: &mut Pool,
        group: AllocationGroupId,
        result: Result<(), DeviceError>,
    ) -> Option<ArrivedGroup> {
        let load = self.groups.get_mut(&group)?;
        load.refused |= result.is_err();
        self.group_part_done(pool, group)
    }

    fn group_part_done(
        &mut self,
        pool: &mut Pool,
        group: AllocationGroupId,
    ) -> Option<ArrivedGroup> {
        let load = self.groups.get_mut(&group)?;
        load.pending -= 1;
        if load.pending == 0 { self.group_arrived(pool, group) } else { None }
    }

    fn group_arrived(&mut self, pool: &mut Pool, group: AllocationGroupId) -> Option<ArrivedGroup> {
        let load = self.groups.remove(&group)?;
        // If it is refused, the maps may be wanted all the same.
        if load.refused {
            pool.space.refused(group);
        } else if load.allocated {
            pool.space.given(group, load.blocks);
        }
        if load.had_maps && !pool.space.is_loaded(group) {
            // They had to go while space was set aside.
            return self.begin_group(pool, group, load.waiting, false);
        }
        let writes = pool.space.insert_group(group, &load.pages);
        Some(ArrivedGroup { group, waiting: load.waiting, writes })
    }
}

/// Reads a page; every other attempt goes to its copy.
fn read_page(pool: &mut Pool, missing: Missing, attempt: u8) {
    let second = attempt % 2 == 1;
    let copy = missing.entry.twin().filter(|_| second);
    let address = copy.unwrap_or(missing.entry.address());
    let crcs = [missing.entry.crc];
    pool.io.read(Waiter::Page { missing, attempt }, Run::of(address), Expected::Blocks(&crcs));
}
