//! Demand paging: reads pages of the map and space maps into memory when an operation or the reaper
//! needs them. The reaper frees deleted trees and needs many of them.

use block::{BLOCK, BlockError, Buffer, DeviceError, DeviceResult};

use crate::address::Run;
use crate::bugs::planted;
use crate::entry::Page;
use crate::incident::{Cause, Place};
use crate::io::Waiter;
use crate::map::Missing;
use crate::operation::OperationKey;
use crate::space::{GroupId, GroupPage};
use crate::status::Health;
use crate::store::{CHANGES, Store};

/// How often a page is read before it is given up.
pub(crate) const READ_ATTEMPTS: u8 = 4;

/// Pages that the reaper asks for at once.
const REAP_READS: usize = 32;

/// Who waits for a page of the map, or for the space maps of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageWaiter {
    Operation(OperationKey),
    Applier,
    Reaper,
    Scrub,
}

/// Space maps of a group on their way into memory.
#[derive(Default)]
pub(crate) struct GroupLoad {
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
    /// The device's keeper has no space for the group.
    refused: bool,
}

impl Store {
    /// Loads a page of the map, and remembers who waits for it.
    pub(crate) fn load_page(&mut self, missing: Missing, waiter: PageWaiter) {
        let waiting = self.pages_loading.entry(missing.entry.address()).or_default();
        waiting.push(waiter);
        if waiting.len() == 1 {
            self.pool.statistics.pages_read += 1;
            self.read_page(missing, 0);
        }
    }

    /// Reads a page; every other attempt goes to its copy.
    fn read_page(&mut self, missing: Missing, attempt: u8) {
        let second = attempt % 2 == 1 && !planted!(self.pool.bugs, CopyNeverRead);
        let copy = missing.entry.twin().filter(|_| second);
        let address = copy.unwrap_or(missing.entry.address());
        self.pool.io.read(Waiter::Page { missing, attempt }, Run::of(address));
    }

    pub(crate) fn page_read(&mut self, missing: Missing, attempt: u8, result: DeviceResult) {
        let cause = result.as_ref().err().cloned().map_or(Cause::Checksum, Cause::Device);
        let page = result.ok().flatten().and_then(|bytes| {
            let intact = crate::checksum::crc32c(&bytes) == missing.entry.crc;
            intact.then(|| Page::parse(&bytes, missing.level)).flatten()
        });
        let sound = |page: &Page| page.0.iter().all(|entry| self.pool.is_sound(*entry));
        let page = page.filter(sound);
        if page.is_none() {
            self.report_page(missing, attempt, cause);
        }
        if page.is_none() && attempt + 1 < READ_ATTEMPTS {
            return self.read_page(missing, attempt + 1);
        }
        let from_copy = attempt % 2 == 1 && missing.entry.twin().is_some() && page.is_some();
        self.pool.statistics.pages_from_copies += u64::from(from_copy);
        self.page_arrived(missing, page);
    }

    /// A page could not be read: the first time somebody may bring it yet, the last time nobody.
    fn report_page(&mut self, missing: Missing, attempt: u8, cause: Cause) {
        let is_lost = attempt + 1 == READ_ATTEMPTS;
        if attempt > 0 && !is_lost {
            return;
        }
        let waiting = self.pages_loading.get(&missing.entry.address());
        let volume = waiting.into_iter().flatten().find_map(|waiter| match waiter {
            PageWaiter::Operation(key) => self.operations.volume_of(*key),
            PageWaiter::Scrub => self.scrub.as_ref()?.volume(),
            PageWaiter::Applier | PageWaiter::Reaper => None,
        });
        let place = Place::MapPage { volume: volume.filter(|id| *id != CHANGES) };
        self.pool.report_incident(missing.entry.address(), cause, place, is_lost);
    }

    fn page_arrived(&mut self, missing: Missing, page: Option<Page>) {
        let block = missing.entry.address();
        let waiting = self.pages_loading.remove(&block).unwrap_or_default();
        let found = page.is_some();
        if let Some(page) = page {
            self.pool.map.insert_clean(block, page);
        }
        for waiter in waiting {
            match waiter {
                PageWaiter::Operation(operation) if found => self.ready.push_back(operation),
                PageWaiter::Operation(operation) => {
                    self.finish(operation, Err(BlockError::Medium { offset: 0 }.into()));
                }
                PageWaiter::Applier => self.applier_waits = false,
                PageWaiter::Reaper => self.reaper_waits -= 1,
                PageWaiter::Scrub => self.scrub_took_page(missing, found),
            }
            if !found && waiter == PageWaiter::Applier {
                self.fail("a page of the map could not be read".to_owned());
            }
        }
        match found {
            true => self.pool.map.page_arrived(!self.pages_loading.is_empty()),
            false => self.pool.map.set_aside(block),
        }
    }

    /// Brings the space maps of a group into memory, and if blocks are to be `allocated` from it,
    /// space for it into being; `operation` goes on then.
    pub(crate) fn load_group(
        &mut self,
        group: GroupId,
        operation: Option<OperationKey>,
        allocated: bool,
    ) {
        if let Some(load) = self.groups_loading.get_mut(&group) {
            load.waiting.extend(operation);
            return;
        }
        self.begin_group_load(group, operation.into_iter().collect(), allocated);
    }

    fn begin_group_load(&mut self, group: GroupId, waiting: Vec<OperationKey>, allocated: bool) {
        let had_maps = self.pool.space.is_loaded(group);
        let pages = match had_maps {
            true => Vec::new(),
            false => self.pool.space.group_pages(group),
        };
        let reservations = match allocated {
            true => self.pool.space.group_reservations(group),
            false => Vec::new(),
        };
        let pending = pages.len() + reservations.len();
        let blocks = self.pool.space.group_blocks(group);
        let load =
            GroupLoad { pending, had_maps, waiting, allocated, blocks, ..GroupLoad::default() };
        self.groups_loading.insert(group, load);
        for page in pages {
            let waiter = Waiter::GroupPage { group, page, attempt: 0 };
            self.pool.io.read(waiter, Run::of(page.address));
        }
        for run in reservations {
            self.pool.io.reserve(Waiter::GroupSpace { group }, run);
        }
        if pending == 0 {
            self.group_arrived(group);
        }
    }

    /// A page that has no copy is read again before its group is given up: the device may only
    /// have stumbled.
    pub(crate) fn group_page_read(
        &mut self,
        group: GroupId,
        page: GroupPage,
        attempt: u8,
        result: DeviceResult,
    ) {
        let intact = |bytes: &Buffer| crate::checksum::crc32c(bytes) == page.crc;
        let cause = result.as_ref().err().cloned().map_or(Cause::Checksum, Cause::Device);
        let bytes = result.ok().flatten().filter(intact);
        let is_last = attempt + 1 == READ_ATTEMPTS;
        if bytes.is_none() && (attempt == 0 || is_last) {
            self.pool.report_incident(page.address, cause, Place::SpaceMap, is_last);
        }
        if bytes.is_none() && attempt + 1 < READ_ATTEMPTS {
            let waiter = Waiter::GroupPage { group, page, attempt: attempt + 1 };
            return self.pool.io.read(waiter, Run::of(page.address));
        }
        let Some(load) = self.groups_loading.get_mut(&group) else { return };
        load.pages.extend(bytes.map(|bytes| (page.page, bytes)));
        self.group_part_done(group);
    }

    pub(crate) fn group_space_reserved(&mut self, group: GroupId, result: Result<(), DeviceError>) {
        let Some(load) = self.groups_loading.get_mut(&group) else { return };
        load.refused |= result.is_err();
        self.group_part_done(group);
    }

    fn group_part_done(&mut self, group: GroupId) {
        let Some(load) = self.groups_loading.get_mut(&group) else { return };
        load.pending -= 1;
        if load.pending == 0 {
            self.group_arrived(group);
        }
    }

    fn group_arrived(&mut self, group: GroupId) {
        let Some(load) = self.groups_loading.remove(&group) else { return };
        match load.refused && !planted!(self.pool.bugs, RefusalIgnored) {
            // The maps may be wanted all the same.
            true => self.space_refused(group),
            false if load.allocated => self.pool.space_given(group, load.blocks),
            false => {}
        }
        if load.had_maps && !self.pool.space.is_loaded(group) {
            // They had to go while space was set aside.
            return self.begin_group_load(group, load.waiting, false);
        }
        self.ready.extend(load.waiting);
        #[cfg(feature = "planted-bugs")]
        if planted!(self.pool.bugs, ForgetDeltas) {
            self.pool.space.forget_deltas(group);
        }
        let in_place = planted!(self.pool.bugs, SpaceMapInPlace);
        let writes = self.pool.space.insert_group(group, &load.pages, in_place);
        self.scrub_took_group(group);
        self.checkpoint_took_group(writes);
        if self.checkpoint.is_none() && self.health == Health::Ready {
            self.pool.space.group_arrived();
        }
    }

    /// Takes subtrees apart that nobody refers to. While space is short it is not held back.
    pub(crate) fn reap(&mut self) {
        if self.reaper_waits > 0 || self.health != Health::Ready {
            return;
        }
        let boosted = !self.stalled.is_empty() || self.pool.is_short_of_space() || self.closing;
        for _ in 0..crate::limits::REAP_BATCH {
            if !boosted && self.reap_allowance.is_used_up() {
                return;
            }
            let Some(dead) = self.pool.map.reap.pop() else { return };
            if let Err(missing) = self.pool.map.reap_one(&mut self.pool.space, dead) {
                self.pool.map.reap.push(dead);
                return self.load_for_reaper(missing);
            }
            self.reap_allowance.spend(u64::from(!boosted));
            self.pool.settle_reclaimed();
        }
    }

    /// Asks for the page that the reaper needs, and for those that it needs next.
    fn load_for_reaper(&mut self, first: Missing) {
        let others: Vec<_> = self.pool.map.not_in_memory(REAP_READS);
        for missing in std::iter::once(first).chain(others) {
            if !self.pages_loading.contains_key(&missing.entry.address()) {
                self.reaper_waits += 1;
                self.load_page(missing, PageWaiter::Reaper);
            }
        }
        if self.reaper_waits == 0 {
            self.reaper_waits = 1;
            self.load_page(first, PageWaiter::Reaper);
        }
    }
}

const _: () = assert!(BLOCK == 4096);
