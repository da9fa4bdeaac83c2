//! Background scrub: reads everything that volumes hold, verifies its checksums, and reports bad
//! blocks by volume and address. Its rate is limited, and the pool serves meanwhile.
//!
//! A pass goes through the volumes by block; what is shared is read once. If it finds bad blocks, a
//! second pass, through the map alone, finds all volumes and places that refer to them. A third
//! kind of pass counts what a thick volume still shares, so that no more is promised to it than
//! it needs. Others make way for it: hosts may wait for what it finds.

mod counting;
mod heads;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use block::{BLOCK, ByteRange, DeviceResult, VolumeId};
use smallvec::SmallVec;

use counting::{Counts, LeafCount};
pub(crate) use heads::{Heads, labels};

use crate::address::{Address, BlockRange, DeviceNumber, Run, VolumeBlock};
use crate::change::device_of_moved;
use crate::checkpoint::Checkpointer;
use crate::checksum::crc32c;
use crate::entry::{Entry, FANOUT, Kind, blocks_below};
use crate::incident::{Cause, Incident, Place};
use crate::io::Waiter;
use crate::limits::{SCRUB_FAULTS_MAX, SCRUB_INCIDENTS_MAX};
use crate::loading::{Loader, PageWaiter};
use crate::map::{FoundLeaf, Missing, Root};
use crate::mirror::Expected;
use crate::pool::Pool;
use crate::rate_limiter::RateLimiter;
use crate::space::AllocationGroupId;

/// Steps of a pass per turn.
const STEPS: usize = 16;

/// How a scrub is doing, or how the last one ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubStatus {
    /// Whether one is under way.
    pub running: bool,
    /// Whether it came to its end by itself.
    pub complete: bool,
    /// Bytes of data and maps that were compared.
    pub scanned_bytes: u64,
    /// Bytes in use when it began; more or less may be in use now.
    pub total_bytes: u64,
    /// Blocks of data that are bad.
    pub bad_blocks: u64,
    /// Pages of the map of which no copy is intact.
    pub bad_pages: u64,
    /// Pages of the map that were written again from their intact copies.
    pub repaired_pages: u64,
    /// Where volumes are bad, at most 1,000 ranges.
    pub bad: Vec<BadRange>,
}

/// Bytes of a volume that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRange {
    /// The volume.
    pub volume: VolumeId,
    /// Its bytes.
    pub range: ByteRange,
}

/// Purpose of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// To compare everything with its checksums.
    Compare,
    /// To find who refers to bad blocks.
    Locate,
    /// To count what volumes share.
    Count,
}

/// A read under way, and what it must bring.
struct Read {
    run: Run,
    expected: SmallVec<[u32; 1]>,
    what: What,
    retried: bool,
}

#[derive(Clone, Copy)]
enum What {
    /// Data from this block of the volume on.
    Data { first: VolumeBlock },
    /// A page on the way to this block of the volume.
    Page { entry: Entry, level: u8, first: VolumeBlock },
    /// A block of its own kind, which is no volume's.
    Head,
}

/// A pass under way.
struct Scrub {
    purpose: Purpose,
    /// What comes before the volumes.
    heads: Heads,
    /// Volumes that are still to be looked at, the current one first.
    volumes: VecDeque<VolumeId>,
    next: VolumeBlock,
    reads: BTreeMap<u64, Read>,
    /// A page of the map is being loaded.
    waits_for_page: bool,
    /// Space maps are being loaded.
    waits_for: Option<AllocationGroupId>,
    /// Pages that were seen, by 64 of them.
    seen: BTreeMap<u64, u64>,
    bad: BTreeSet<Address>,
    /// Blocks of the current volume that are shared, as far as it was counted.
    shared: u64,
    /// The leaf that is being counted.
    leaf_count: LeafCount,
    status: ScrubStatus,
}

impl Scrub {
    fn new(purpose: Purpose, volumes: VecDeque<VolumeId>, total_bytes: u64) -> Self {
        Self {
            purpose,
            heads: Heads::default(),
            volumes,
            next: VolumeBlock::START,
            reads: BTreeMap::new(),
            waits_for_page: false,
            waits_for: None,
            seen: BTreeMap::new(),
            bad: BTreeSet::new(),
            shared: 0,
            leaf_count: LeafCount::default(),
            status: ScrubStatus { running: true, total_bytes, ..ScrubStatus::default() },
        }
    }

    /// Whether a page is seen for the first time.
    fn sees(&mut self, page: Address) -> bool {
        let block = page.bits();
        let word = self.seen.entry(block / 64).or_default();
        let first = *word & 1 << (block % 64) == 0;
        *word |= 1 << (block % 64);
        first
    }

    /// The volume that is being looked at.
    fn volume(&self) -> Option<VolumeId> {
        self.volumes.front().copied()
    }

    fn report(&mut self, volume: VolumeId, range: ByteRange) {
        if let Some(last) = self.status.bad.last_mut()
            && last.volume == volume
            && last.range.end() == range.offset
        {
            last.range.length += range.length;
        } else if self.status.bad.len() < SCRUB_FAULTS_MAX {
            self.status.bad.push(BadRange { volume, range });
        }
    }

    /// Whether it waits for something to be read.
    fn is_waiting(&self) -> bool {
        self.waits_for_page || self.waits_for.is_some() || !self.reads.is_empty()
    }

    fn wait_for_page(&mut self, pool: &mut Pool, loader: &mut Loader, missing: Missing) {
        self.waits_for_page = true;
        loader.load_page(pool, missing, PageWaiter::Scrub);
    }

    fn end_volume(&mut self, pool: &mut Pool) {
        self.next = VolumeBlock::START;
        let shared = std::mem::take(&mut self.shared);
        let Some(id) = self.volumes.pop_front() else { return };
        if self.purpose == Purpose::Count {
            pool.volumes.counted(id, shared);
        }
    }
}

/// Scrubs of a pool: the one under way, and how the last one ended.
pub(crate) struct Scrubber {
    current: Option<Box<Scrub>>,
    /// One that goes on when a count is over.
    held: Option<Box<Scrub>>,
    counts: Counts,
    last: ScrubStatus,
    /// Repairs under way. A checkpoint waits for them, so that no block is given away meanwhile.
    repairs: usize,
    /// Reads that scrubs began.
    reads: u64,
    /// Bytes that the scrub may read.
    rate: RateLimiter,
}

impl Scrubber {
    pub(crate) fn new(rate: u64) -> Self {
        Self {
            current: None,
            held: None,
            counts: Counts::default(),
            last: ScrubStatus::default(),
            repairs: 0,
            reads: 0,
            rate: RateLimiter::new(rate),
        }
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.rate.pass(time);
    }

    /// Whether a page is being written again.
    pub(crate) fn is_repairing(&self) -> bool {
        self.repairs > 0
    }

    /// A page was written again. If that did not help, the next scrub does so once more.
    pub(crate) fn repaired(&mut self) {
        self.repairs -= 1;
    }

    /// The volume that is being looked at.
    pub(crate) fn volume(&self) -> Option<VolumeId> {
        self.current.as_ref()?.volume()
    }

    /// Whether it reads a device.
    pub(crate) fn reads_from(&self, device: DeviceNumber) -> bool {
        let scrubs = [&self.current, &self.held].into_iter().flatten();
        let mut reads = scrubs.flat_map(|scrub| scrub.reads.values());
        reads.any(|read| read.run.start.device() == device)
    }

    /// A device has left: nothing of it is compared any more.
    pub(crate) fn forget_device(&mut self, device: DeviceNumber) {
        for scrub in [&mut self.current, &mut self.held].into_iter().flatten() {
            scrub.heads.forget(device);
        }
    }

    /// Gives up the one under way without a word.
    pub(crate) fn abandon(&mut self) {
        (self.current, self.held) = (None, None);
    }

    /// Begins a scrub; one that is under way begins anew.
    pub(crate) fn start(&mut self, pool: &Pool, heads: Heads) {
        let volumes = pool.volumes.iter().map(|volume| volume.spec.id).collect();
        let total = pool.space.used() * BLOCK;
        let scrub = Scrub::new(Purpose::Compare, volumes, total);
        *self.place() = Some(Box::new(Scrub { heads, ..scrub }));
    }

    /// Changes how many bytes per second scrubs read at most, also for one under way.
    pub(crate) fn set_rate(&mut self, rate: u64) {
        self.rate = RateLimiter::new(rate);
    }

    /// Ends a scrub that is under way.
    pub(crate) fn stop(&mut self) {
        if let Some(scrub) = self.place().take() {
            self.last = ScrubStatus { running: false, ..scrub.status };
        }
    }

    /// How the scrub is doing, or how the last one ended.
    pub(crate) fn status(&self) -> ScrubStatus {
        let scrub = if self.is_counting() { &self.held } else { &self.current };
        scrub.as_ref().map_or_else(|| self.last.clone(), |scrub| scrub.status.clone())
    }

    /// Takes the scrub as far as it may go. Returns a group whose space maps it waits for, to be
    /// loaded.
    pub(crate) fn advance(
        &mut self,
        pool: &mut Pool,
        loader: &mut Loader,
        checkpointer: &Checkpointer,
    ) -> Option<AllocationGroupId> {
        self.begin_count_if_due(pool);
        for _ in 0..STEPS {
            let mut scrub = self.current.take()?;
            let held_back = scrub.purpose == Purpose::Compare && self.rate.is_used_up();
            if scrub.is_waiting() || held_back {
                self.current = Some(scrub);
                return None;
            }
            let over = self.step(pool, loader, checkpointer, &mut scrub);
            let wanted = scrub.waits_for;
            if over {
                self.end_pass(pool, *scrub)
            } else {
                self.current = Some(scrub)
            }
            if wanted.is_some() {
                return wanted;
            }
        }
        None
    }

    /// One step: a leaf, or the next volume; true if there is none.
    fn step(
        &mut self,
        pool: &mut Pool,
        loader: &mut Loader,
        checkpointer: &Checkpointer,
        scrub: &mut Scrub,
    ) -> bool {
        if let Some(blocks) = scrub.heads.next(pool, checkpointer) {
            for (block, crc) in blocks {
                self.read(pool, scrub, block, SmallVec::from_slice(&[crc]), What::Head);
            }
            return false;
        }
        let Some(&id) = scrub.volumes.front() else { return true };
        let Some(volume) = pool.volumes.get(id) else {
            scrub.volumes.pop_front();
            scrub.next = VolumeBlock::START;
            return false;
        };
        let root = volume.root;
        if scrub.purpose == Purpose::Count && scrub.next == VolumeBlock::START {
            pool.volumes.begin_count(id);
        }
        match pool.map.next_leaf(root, scrub.next) {
            Err(missing) => scrub.wait_for_page(pool, loader, missing),
            Ok(None) => scrub.end_volume(pool),
            Ok(Some(leaf)) => self.scrub_leaf(pool, loader, scrub, &leaf),
        }
        false
    }

    fn scrub_leaf(
        &mut self,
        pool: &mut Pool,
        loader: &mut Loader,
        scrub: &mut Scrub,
        leaf: &FoundLeaf,
    ) {
        let entries = match pool.map.leaf_entries(leaf) {
            Ok(entries) => entries,
            Err(missing) => return scrub.wait_for_page(pool, loader, missing),
        };
        match scrub.purpose {
            Purpose::Compare => self.compare_leaf(pool, scrub, leaf, &entries),
            Purpose::Locate => locate_bad(scrub, leaf.first, &entries),
            Purpose::Count => {
                scrub.waits_for = scrub.count_shared(pool, leaf, &entries);
                if scrub.waits_for.is_some() {
                    return;
                }
            }
        }
        scrub.next = leaf.first + FANOUT;
    }

    /// Reads the pages on the way to a leaf and the data below it, each once in a pass.
    fn compare_leaf(
        &mut self,
        pool: &mut Pool,
        scrub: &mut Scrub,
        leaf: &FoundLeaf,
        entries: &[Entry],
    ) {
        let mut is_new = true;
        for &(level, entry) in &leaf.path {
            is_new = entry.kind() != Kind::Page || scrub.sees(entry.address());
            if entry.kind() == Kind::Page && is_new {
                let copies = [Some(entry.address()), entry.twin()];
                for address in copies.into_iter().flatten() {
                    let what = What::Page { entry, level, first: leaf.first };
                    self.read(pool, scrub, address, SmallVec::from_slice(&[entry.crc]), what);
                }
            }
        }
        if !is_new {
            return;
        }
        let mut run: Option<(VolumeBlock, Address, SmallVec<[u32; 1]>)> = None;
        for (block, entry) in leaf.first.onwards().zip(entries) {
            let data = (entry.kind() == Kind::Data).then(|| entry.address());
            match (&mut run, data) {
                (Some((_, start, crcs)), Some(address))
                    if *start + crcs.len() as u64 == address =>
                {
                    crcs.push(entry.crc);
                }
                (_, data) => {
                    self.read_run(pool, scrub, run.take());
                    let begin = |address| (block, address, SmallVec::from_slice(&[entry.crc]));
                    run = data.map(begin);
                }
            }
        }
        self.read_run(pool, scrub, run);
    }

    fn read_run(
        &mut self,
        pool: &mut Pool,
        scrub: &mut Scrub,
        run: Option<(VolumeBlock, Address, SmallVec<[u32; 1]>)>,
    ) {
        if let Some((first, address, crcs)) = run {
            self.read(pool, scrub, address, crcs, What::Data { first });
        }
    }

    fn read(
        &mut self,
        pool: &mut Pool,
        scrub: &mut Scrub,
        start: Address,
        expected: SmallVec<[u32; 1]>,
        what: What,
    ) {
        let blocks = expected.len() as u64;
        self.rate.spend(blocks * BLOCK);
        scrub.status.scanned_bytes += blocks * BLOCK;
        let run = Run { start, blocks };
        self.submit_read(pool, scrub, Read { run, expected, what, retried: false });
    }

    /// Reads are numbered for good, so that the end of one that an abandoned scrub began is not
    /// taken for the end of another.
    fn submit_read(&mut self, pool: &mut Pool, scrub: &mut Scrub, read: Read) {
        let number = self.reads;
        self.reads += 1;
        let expected = Expected::Blocks(&read.expected);
        pool.io.verify(Waiter::Scrub { read: number }, read.run, expected);
        scrub.reads.insert(number, read);
    }

    /// A read has ended.
    pub(crate) fn took(&mut self, pool: &mut Pool, number: u64, result: DeviceResult) {
        let Some(mut scrub) = self.current.take() else { return };
        if let Some(mut read) = scrub.reads.remove(&number) {
            let bytes = result.ok().flatten();
            let is_good = |number: usize, crc: &u32| {
                let block = bytes.as_ref().map(|bytes| &bytes[number * BLOCK as usize..]);
                block.is_some_and(|block| crc32c(&block[..BLOCK as usize]) == *crc)
            };
            let checked = read.expected.iter().enumerate();
            let bad: Vec<u64> = checked
                .filter(|(number, crc)| !is_good(*number, crc))
                .map(|(number, _)| number as u64)
                .collect();
            if bad.is_empty() {
                // As it should be.
            } else if read.retried || matches!(read.what, What::Head) {
                self.found_bad(pool, &mut scrub, &read, &bad);
            } else {
                read.retried = true;
                self.submit_read(pool, &mut scrub, read);
            }
        }
        self.current = Some(scrub);
    }

    /// Blocks do not have the content that they had when the read began; they are bad if they are
    /// still referred to.
    fn found_bad(&mut self, pool: &mut Pool, scrub: &mut Scrub, read: &Read, bad: &[u64]) {
        let Some(root) = scrub.volumes.front().and_then(|&id| pool.volumes.get(id)) else {
            return;
        };
        let root = root.root;
        match read.what {
            What::Data { first } => {
                for &number in bad {
                    let now = pool.map.data_entry(root, first + number);
                    let entry = (read.run.start + number, read.expected[number as usize]);
                    if now.is_some_and(|now| (now.address(), now.crc) == entry)
                        && scrub.bad.insert(entry.0)
                    {
                        scrub.status.bad_blocks += 1;
                    }
                }
            }
            // It was written meanwhile, or no copy is right: then it is told when it is needed.
            What::Head => {}
            What::Page { entry, level, first } => {
                let page = Missing { entry, level };
                if !self.repair_page(pool, scrub, read.run.start, page)
                    && leads_to(pool, root, first, page)
                {
                    scrub.status.bad_pages += 1;
                }
            }
        }
    }

    /// One copy of a page is bad: it is written again from memory, where the page is, having been
    /// read from a good one. `false` if it is not in memory; what is bad of a leaf is found when it
    /// is read.
    fn repair_page(
        &mut self,
        pool: &mut Pool,
        scrub: &mut Scrub,
        address: Address,
        page: Missing,
    ) -> bool {
        let Missing { entry, level } = page;
        if pool.space.references(entry.address()) == 0 {
            return true;
        }
        let Some(cached) = pool.map.cached(entry.address()) else { return level == 0 };
        let mut bytes = block::Buffer::for_overwrite(BLOCK as usize);
        cached.emit(&mut bytes);
        if crc32c(&bytes) == entry.crc {
            scrub.status.repaired_pages += 1;
            self.repairs += 1;
            pool.io.write(Waiter::Repair, address, bytes.freeze().into());
        }
        true
    }

    /// Space maps were loaded, perhaps for the scrub.
    pub(crate) fn took_group(&mut self, group: AllocationGroupId) {
        if let Some(scrub) = &mut self.current {
            scrub.waits_for.take_if(|wanted| *wanted == group);
        }
    }

    /// A page that the scrub waited for is there, or cannot be read.
    pub(crate) fn took_page(&mut self, missing: Missing, found: bool) {
        let Some(scrub) = &mut self.current else { return };
        if !std::mem::take(&mut scrub.waits_for_page) {
            return;
        }
        let Some(&volume) = scrub.volumes.front().filter(|_| !found) else { return };
        let below = blocks_below(missing.level);
        let first = VolumeBlock::new(scrub.next.number() / below * below);
        scrub.next = first + below;
        if scrub.purpose == Purpose::Compare {
            scrub.status.bad_pages += 1;
            scrub.report(volume, BlockRange { first, count: below }.bytes());
        }
    }

    fn end_pass(&mut self, pool: &mut Pool, mut scrub: Scrub) {
        if scrub.purpose == Purpose::Count {
            return self.end_count(pool.now);
        }
        if scrub.purpose == Purpose::Compare && !scrub.bad.is_empty() {
            scrub.purpose = Purpose::Locate;
            scrub.volumes = pool.volumes.iter().map(|volume| volume.spec.id).collect();
            scrub.next = VolumeBlock::START;
            self.current = Some(Box::new(scrub));
            return;
        }
        report_bad(pool, &scrub.status);
        self.last = ScrubStatus { running: false, complete: true, ..scrub.status };
    }
}

/// Whether a page is still on the way to a block of a volume. Its place may have been given to
/// another one while it was being read.
fn leads_to(pool: &mut Pool, root: Root, first: VolumeBlock, page: Missing) -> bool {
    match pool.map.next_leaf(root, first) {
        Ok(leaf) => leaf.is_some_and(|leaf| leaf.path.contains(&(page.level, page.entry))),
        Err(missing) => missing == page,
    }
}

/// Reports the places that are bad, the first of them.
fn report_bad(pool: &mut Pool, status: &ScrubStatus) {
    // Pages of the map were counted when they were read.
    pool.statistics.checksum_errors += status.bad_blocks;
    for bad in status.bad.iter().take(SCRUB_INCIDENTS_MAX) {
        pool.incidents.keep(Incident {
            device: None,
            offset: 0,
            cause: Cause::Checksum,
            place: Place::Data { volume: bad.volume, range: bad.range },
            is_lost: true,
        });
    }
}

/// Reports the places of a leaf that refer to bad blocks.
fn locate_bad(scrub: &mut Scrub, first: VolumeBlock, entries: &[Entry]) {
    // Of a block that was moved the volumes are reported that refer to it.
    let volume = scrub.volumes.front().filter(|&&id| device_of_moved(id).is_none());
    let Some(&volume) = volume else { return };
    for (block, entry) in first.onwards().zip(entries) {
        if entry.kind() == Kind::Data && scrub.bad.contains(&entry.address()) {
            scrub.report(volume, BlockRange::of(block).bytes());
        }
    }
}

#[cfg(test)]
mod tests;
