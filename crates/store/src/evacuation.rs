//! Moves everything from a device that leaves to the others, in the background and at a limited rate.
//!
//! Passes go through the maps of all volumes. Data of a leaf is read, and written by ordinary commits to a
//! hidden volume, at the block with the number that it has on the device: so what several leaves refer to
//! is moved once, also if a crash comes between. When all data of a leaf is there the leaf is rewritten in
//! memory, as pages on the device are, which needs no record: nothing that a volume says changes.
//! Reference counts say when nothing is left; then the device is empty as soon as a durable checkpoint
//! says so, too.

mod steps;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use block::{BLOCK, Buffer, DeviceResult, VolumeId};

use crate::address::{Address, DeviceNumber, Run, VolumeBlock};
use crate::change::moved_from;
use crate::checksum::crc32c;
use crate::entry::blocks_below;
use crate::limits::{
    EVACUATION_REST, EVACUATION_VANISHED_MIN, RESILVER_BUSY_PAUSE, RESILVER_BUSY_SHARE,
};
use crate::map::{Missing, Seen};
use crate::operation_key::OperationKey;
use crate::pool::Pool;
use crate::rate_limiter::RateLimiter;

/// How the moving of what is on a leaving device is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvacuationStatus {
    /// The number of the device that leaves, counted from 0.
    pub device: u8,
    /// Whether it rests because the administrator said so.
    pub paused: bool,
    /// Bytes on the device that something refers to yet.
    pub left_bytes: u64,
    /// Bytes of data that were copied since it began, or since the pool was opened.
    pub copied_bytes: u64,
    /// Bytes of data that are being copied.
    pub copying_bytes: u64,
    /// Bytes per second that are copied at most.
    pub rate: u64,
    /// Blocks of data, and pages of the map, that the last pass could not read. They stay where they are,
    /// and so does the device, until what refers to them is overwritten or deleted.
    pub unreadable_blocks: u64,
    /// Whether it waits for space on the other devices.
    pub waits_for_space: bool,
    /// Whether nothing is on the device any more: [`crate::Change::RemoveDevice`] may follow.
    pub is_empty: bool,
    /// How long it will take yet if it goes on as so far; `None` as long as nothing is known.
    pub remaining: Option<Duration>,
}

/// A pass through the maps of all volumes.
struct Pass {
    /// Volumes that are still to be looked at, the current one first.
    volumes: VecDeque<VolumeId>,
    next: VolumeBlock,
    seen: Seen,
    /// It looks at every page, so that it is known then what refers to the device.
    is_exact: bool,
    /// How often parts of maps had come to be shared when it began.
    shared_since: u64,
    /// Pages that were rewritten.
    rewritten: u64,
    /// Blocks of data that could not be read.
    bad: BTreeSet<Address>,
    bad_pages: u64,
}

/// A look through the hidden volume.
#[derive(Clone, Copy)]
struct Sweep {
    next: VolumeBlock,
    /// Blocks that had lost their last reference when it began.
    vanished: u64,
}

impl Default for Sweep {
    fn default() -> Self {
        Self { next: VolumeBlock::START, vanished: 0 }
    }
}

/// A read of adjacent blocks of the device.
struct Reading {
    run: Run,
    crcs: Vec<u32>,
    is_retried: bool,
}

/// A copy that is to begin.
#[derive(Clone, Copy)]
struct CopyBesideHosts {
    /// What it copies.
    bytes: u64,
    /// What hosts, and copies before, have read and written by then.
    by_hosts: u64,
}

/// Data of one leaf on its way.
#[derive(Default)]
struct Copying {
    reads: BTreeMap<u64, Reading>,
    read: Vec<(Run, Buffer)>,
    writes: usize,
    /// Bytes that were not written yet.
    left_bytes: u64,
}

/// The moving of what is on a device that leaves.
pub(crate) struct Evacuator {
    rate: RateLimiter,
    pass: Option<Box<Pass>>,
    copying: Option<Copying>,
    waits_for_page: bool,
    /// Changes that go on when no copy is under way; meanwhile none begins.
    holders: Vec<OperationKey>,
    /// It was given up, and the commit that says so is on its way.
    is_ending: bool,
    reads: u64,
    rest_until: Duration,
    /// The hidden volume is looked through for blocks that need not be there any more.
    sweep: Option<Sweep>,
    /// Reads that were under way when it was to be given up: they may know blocks of the device.
    readers: Option<Vec<OperationKey>>,
    /// The next pass looks at every page.
    wants_exact: bool,
    waits_for_space: bool,
    /// Pages cannot be rewritten for want of space, and no checkpoint would free any.
    lacks_space_for_pages: bool,
    unreadable: u64,
    copied_bytes: u64,
    /// When the last copy began, and the bytes that hosts had moved by then.
    last_copy: (Duration, u64),
    /// When it began, as far as this program knows, and the bytes that were left then.
    begun: Option<(Duration, u64)>,
    /// The next turn has something to do that waits for nothing.
    pub(crate) has_more: bool,
}

impl Pass {
    fn new(pool: &Pool, device: DeviceNumber, is_exact: bool) -> Self {
        let volumes = pool.volumes.iter().map(|volume| volume.spec.id);
        Self {
            volumes: volumes.filter(|&id| id != moved_from(device)).collect(),
            next: VolumeBlock::START,
            seen: Seen::default(),
            is_exact,
            shared_since: pool.shared_since,
            rewritten: 0,
            bad: BTreeSet::new(),
            bad_pages: 0,
        }
    }

    fn skip_volume(&mut self) {
        self.volumes.pop_front();
        self.next = VolumeBlock::START;
    }
}

impl Evacuator {
    pub(crate) fn new(rate: u64) -> Self {
        Self {
            rate: RateLimiter::new(rate),
            pass: None,
            copying: None,
            waits_for_page: false,
            holders: Vec::new(),
            is_ending: false,
            reads: 0,
            rest_until: Duration::ZERO,
            // What was so when the pool was opened is not known.
            sweep: Some(Sweep::default()),
            readers: None,
            wants_exact: false,
            waits_for_space: false,
            lacks_space_for_pages: false,
            unreadable: 0,
            copied_bytes: 0,
            last_copy: (Duration::ZERO, 0),
            begun: None,
            has_more: false,
        }
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.rate.pass(time);
    }

    /// Changes how many bytes per second are moved at most.
    pub(crate) fn set_rate(&mut self, rate: u64) {
        self.rate = RateLimiter::new(rate);
    }

    /// The volume that is being looked at.
    pub(crate) fn volume(&self) -> Option<VolumeId> {
        self.pass.as_ref()?.volumes.front().copied()
    }

    /// Whether no data is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.copying.is_none()
    }

    /// A change waits until no data is on its way; none begins meanwhile.
    pub(crate) fn hold(&mut self, key: OperationKey) {
        self.holders.push(key);
    }

    /// Nothing is moved any more until it is given up; meanwhile what is freed on the device stays as it is
    /// for those who read. Returns whether all have ended who did so at the first call.
    pub(crate) fn await_readers(
        &mut self,
        reading: impl FnOnce() -> Vec<OperationKey>,
        is_under_way: impl Fn(OperationKey) -> bool,
    ) -> bool {
        let readers = self.readers.get_or_insert_with(reading);
        readers.retain(|&reader| is_under_way(reader));
        readers.is_empty()
    }

    /// The device that leaves stays, or has left, when what says so is on its way.
    pub(crate) fn end(&mut self) {
        let rate = std::mem::replace(&mut self.rate, RateLimiter::new(0));
        let (reads, waits_for_page) = (self.reads, self.waits_for_page);
        *self = Self { rate, reads, waits_for_page, is_ending: true, ..Self::new(0) };
    }

    /// How it is doing.
    pub(crate) fn status(&self, pool: &Pool) -> Option<EvacuationStatus> {
        let (device, moved) = pool.volumes.moved()?;
        let left_bytes = pool.space.used_on(device) * BLOCK;
        Some(EvacuationStatus {
            device: device.number(),
            paused: moved.rests(),
            left_bytes,
            copied_bytes: self.copied_bytes,
            copying_bytes: self.copying.as_ref().map_or(0, |copying| copying.left_bytes),
            rate: self.rate.rate(),
            unreadable_blocks: self.unreadable,
            waits_for_space: self.waits_for_space || self.lacks_space_for_pages,
            is_empty: pool.space.is_vacant(device),
            remaining: self.remaining(pool.now, left_bytes),
        })
    }

    fn remaining(&self, now: Duration, left: u64) -> Option<Duration> {
        let (begun, at_first) = self.begun?;
        let gone = at_first.checked_sub(left).filter(|&gone| gone > 0)?;
        let took = now.saturating_sub(begun).as_nanos();
        let nanoseconds = took * u128::from(left) / u128::from(gone);
        Some(Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX)))
    }

    /// Whether it waits for something: data on its way, a page, a change, or time.
    fn is_waiting(&self, now: Duration) -> bool {
        self.copying.is_some()
            || self.waits_for_page
            || !self.holders.is_empty()
            || self.readers.is_some()
            || self.is_ending
            || now < self.rest_until
            || self.rate.is_used_up()
    }

    /// It waits for a page of the map.
    fn wait_for_page(&mut self) {
        self.waits_for_page = true;
    }

    /// What was given up, or has ended, is over.
    fn be_over(&mut self) {
        self.is_ending = false;
    }

    /// The look through the hidden volume that comes before anything else is moved, if there is one.
    fn sweep_needed(&mut self, pool: &Pool, device: DeviceNumber) -> Option<Sweep> {
        let vanished = pool.space.vanished();
        let kept = pool.volumes[&moved_from(device)].mapped_bytes / BLOCK;
        if vanished >= EVACUATION_VANISHED_MIN + kept / 8 {
            self.sweep.get_or_insert(Sweep { vanished, ..Sweep::default() });
        }
        self.sweep
    }

    /// The pass under way, or a new one.
    fn pass_through(&mut self, pool: &Pool, device: DeviceNumber) -> &mut Pass {
        let is_exact = self.wants_exact;
        self.begun.get_or_insert((pool.now, pool.space.used_on(device) * BLOCK));
        self.pass.get_or_insert_with(|| Box::new(Pass::new(pool, device, is_exact)))
    }

    /// Whether a copy may begin now beside hosts.
    fn may_copy(&self, now: Duration, copy: CopyBesideHosts) -> bool {
        let (at, before) = self.last_copy;
        copy.by_hosts.saturating_sub(before) >= RESILVER_BUSY_SHARE * copy.bytes
            || now >= at + RESILVER_BUSY_PAUSE
    }

    /// Begins a copy. What it reads and writes is not of hosts.
    fn begin_copy(&mut self, now: Duration, copy: CopyBesideHosts) {
        self.last_copy = (now, copy.by_hosts + 2 * copy.bytes);
        self.rate.spend(copy.bytes);
        self.copying = Some(Copying { left_bytes: copy.bytes, ..Copying::default() });
    }

    /// Notes a read; returns its number.
    fn note_read(&mut self, reading: Reading) -> u64 {
        let number = self.reads;
        self.reads += 1;
        if let Some(copying) = &mut self.copying {
            copying.reads.insert(number, reading);
        }
        number
    }

    /// Takes what was read, when all of it was; `None` if some is on its way yet.
    fn take_all_read(&mut self) -> Option<Vec<(Run, Buffer)>> {
        let copying = self.copying.as_mut().filter(|copying| copying.reads.is_empty())?;
        let read = std::mem::take(&mut copying.read);
        copying.writes = read.len();
        Some(read)
    }

    /// A write has ended, of so many bytes if they are there now. Returns whether it was the last one.
    fn took_write(&mut self, now: Duration, written_bytes: Option<u64>) -> bool {
        self.copied_bytes += written_bytes.unwrap_or(0);
        self.waits_for_space = written_bytes.is_none();
        if self.waits_for_space {
            self.rest_until = now + EVACUATION_REST;
            self.sweep.get_or_insert_default();
        }
        let Some(copying) = &mut self.copying else { return false };
        copying.left_bytes -= written_bytes.unwrap_or(0);
        copying.writes -= 1;
        copying.writes == 0
    }

    /// No data is on its way any more. Returns the changes that go on.
    fn end_copy(&mut self) -> Vec<OperationKey> {
        self.copying = None;
        std::mem::take(&mut self.holders)
    }

    /// A pass is over, after which it rests.
    fn end_pass(&mut self, now: Duration, wants_exact: bool) {
        let Some(pass) = self.pass.take() else { return };
        self.wants_exact = wants_exact;
        self.unreadable = pass.bad.len() as u64 + pass.bad_pages;
        self.rest_until = now + EVACUATION_REST;
    }

    /// A page that it waited for is there, or cannot be read.
    pub(crate) fn took_page(&mut self, missing: Missing, found: bool) {
        self.waits_for_page = false;
        if found {
            return;
        }
        let below = blocks_below(missing.level);
        let behind = |next: VolumeBlock| VolumeBlock::new(next.number() / below * below) + below;
        if let Some(sweep) = &mut self.sweep {
            sweep.next = behind(sweep.next);
            return;
        }
        let Some(pass) = &mut self.pass else { return };
        pass.next = behind(pass.next);
        pass.bad_pages += 1;
    }

    /// Takes a read that has ended. Returns what is to be read again.
    fn took_read(&mut self, number: u64, result: DeviceResult) -> Vec<Reading> {
        let Some(copying) = &mut self.copying else { return Vec::new() };
        let Some(reading) = copying.reads.remove(&number) else { return Vec::new() };
        let bytes = result.ok().flatten();
        let is_whole = bytes.as_ref().is_some_and(|bytes| {
            bytes.chunks(BLOCK as usize).map(crc32c).eq(reading.crcs.iter().copied())
        });
        if let Some(bytes) = bytes.filter(|_| is_whole) {
            copying.read.push((reading.run, bytes));
            return Vec::new();
        }
        if !reading.is_retried {
            return reading.by_block();
        }
        if let Some(pass) = &mut self.pass {
            pass.bad.insert(reading.run.start);
        }
        Vec::new()
    }
}

impl Reading {
    /// The same, block for block.
    fn by_block(self) -> Vec<Self> {
        let blocks = self.run.addresses().zip(self.crcs);
        let one = |(start, crc)| Self { run: Run::of(start), crcs: vec![crc], is_retried: true };
        blocks.map(one).collect()
    }
}
