//! Simulated disk with a volatile write cache, latency, and injected faults.
//!
//! Writes take effect when they complete, in any order. Until a flush that was submitted after a
//! write's completion has completed, a power failure may keep the write, lose it, or keep some of
//! its 512-byte sectors, each write independently and in any order.
//!
//! Nothing is copied that need not be: a block that was written shares the writer's memory, and so
//! do the two images of the disk, what a read sees and what a power failure cannot take.

mod condition;
mod fault;
mod image;

use std::collections::{BTreeMap, VecDeque};

use block::{BLOCK, Buffer, DeviceError, DeviceOperation, DeviceResult, Rope, SECTOR};
use bytes::Bytes;

pub use condition::{Condition, Rot};
pub use fault::Faults;
use fault::{EIO, ENOSPC, WriteFault};
use image::Image;

use crate::random::Random;

const SECTOR_BYTES: usize = SECTOR as usize;

/// How much longer a stalled operation takes, in nanoseconds at most.
const STALL_NANOSECONDS: u64 = 20_000_000_000;

/// How a power failure treats what was not flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Every write was kept.
    KeepAll,
    /// Every write is lost.
    LoseAll,
    /// Each write by chance, in any order, some of them torn.
    Mixed,
}

/// What a disk did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStatistics {
    /// Reads that were submitted.
    pub reads: u64,
    /// Writes that were submitted.
    pub writes: u64,
    /// Flushes that were submitted.
    pub flushes: u64,
    /// Faults that were injected.
    pub faults: u64,
    /// Writes that a power failure lost.
    pub lost: u64,
    /// Writes that a power failure tore.
    pub torn: u64,
}

/// An operation that has ended.
#[derive(Debug)]
pub struct Completion {
    /// The caller's name for it.
    pub token: u64,
    /// Whether it was a flush.
    pub flush: bool,
    /// What came of it.
    pub result: DeviceResult,
}

/// A write that is not known to be stable.
struct Unflushed {
    offset: u64,
    data: Rope,
}

impl Unflushed {
    /// Replaces a block, if it is among those that were written.
    fn replace(&mut self, block: u64, content: &Bytes) {
        let length = self.data.len();
        let start = (block * BLOCK).checked_sub(self.offset).map(|start| start as usize);
        let Some(start) = start.filter(|start| start + content.len() <= length) else { return };
        let after = start + content.len();
        let mut data = self.data.slice(0, start);
        data.push(content.clone());
        data.append(self.data.slice(after, length - after));
        self.data = data;
    }
}

enum Pending {
    Read {
        offset: u64,
        buffer: Buffer,
    },
    Write(Unflushed),
    /// Makes stable the writes that completed before it was submitted.
    Flush {
        completed: u64,
        lies: bool,
    },
    /// Sets space aside.
    Reserve {
        offset: u64,
        length: u64,
    },
    /// Has no effect, and fails.
    Refused(DeviceError),
}

/// The disk.
pub struct SimDisk {
    size: u64,
    /// What a read sees.
    current: Image,
    /// What is left after a power failure, without the unflushed writes.
    stable: Image,
    /// Completed writes that no flush has made stable, each with its place in the order of
    /// completion.
    unflushed: VecDeque<(u64, Unflushed)>,
    completed: u64,
    /// What is under way, by the time of its end.
    pending: BTreeMap<(u64, u64), (u64, Pending)>,
    next_event: u64,
    random: Random,
    faults: Faults,
    stall_one_in: u64,
    /// Which blocks have space of their own; the others get some when it is set aside.
    housed: Vec<bool>,
    refuse_one_in: u64,
    failed: bool,
    gone: bool,
    lied: bool,
    condition: Condition,
    statistics: DiskStatistics,
}

impl SimDisk {
    /// A disk of zeros. `size` is a multiple of 4,096.
    pub fn new(size: u64, random: Random) -> Self {
        Self {
            size,
            current: Image::new(size),
            stable: Image::new(size),
            unflushed: VecDeque::new(),
            completed: 0,
            pending: BTreeMap::new(),
            next_event: 0,
            random,
            faults: Faults::default(),
            stall_one_in: 0,
            housed: vec![false; (size / BLOCK) as usize],
            refuse_one_in: 0,
            failed: false,
            gone: false,
            lied: false,
            condition: Condition::Sound,
            statistics: DiskStatistics::default(),
        }
    }

    /// Another disk that holds what would be left if the power failed now and every unflushed
    /// write were lost.
    pub fn copy_of_stable(&self, random: Random) -> Self {
        let mut copy = Self::new(0, random);
        copy.size = self.size;
        copy.housed = self.housed.clone();
        copy.current = self.stable.clone();
        copy.stable = self.stable.clone();
        copy
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Makes the disk larger; the new part is zeros.
    pub fn grow(&mut self, size: u64) {
        self.size = self.size.max(size);
        self.housed.resize((self.size / BLOCK) as usize, false);
        self.current.grow(self.size);
        self.stable.grow(self.size);
    }

    /// Cuts the disk short.
    pub fn shrink(&mut self, size: u64) {
        self.size = self.size.min(size);
    }

    /// Chooses what goes wrong from now on.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
        self.failed = false;
        self.gone = false;
    }

    /// How the disk behaves as a whole from now on.
    pub fn set_condition(&mut self, condition: Condition) {
        self.statistics.faults += u64::from(condition != Condition::Sound);
        self.condition = condition;
    }

    /// How the disk behaves as a whole.
    pub fn condition(&self) -> Condition {
        self.condition
    }

    /// Lets one operation in so many take seconds; 0 for none.
    pub fn set_stalls(&mut self, one_in: u64) {
        self.stall_one_in = one_in;
    }

    /// Lets whoever keeps the disk refuse one wish in so many for space that is not there yet; 0 for
    /// none.
    pub fn set_refusals(&mut self, one_in: u64) {
        self.refuse_one_in = one_in;
    }

    /// Whether all of a range has space of its own.
    pub fn is_housed(&self, offset: u64, length: u64) -> bool {
        let blocks = (offset / BLOCK) as usize..((offset + length) / BLOCK) as usize;
        self.housed.get(blocks).is_some_and(|housed| housed.iter().all(|&housed| housed))
    }

    /// Whether a flush was answered that did nothing.
    pub fn has_lied(&self) -> bool {
        self.lied
    }

    /// What it did.
    pub fn statistics(&self) -> DiskStatistics {
        self.statistics
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes an operation at a virtual time in nanoseconds.
    ///
    /// # Panics
    /// If offset or length are not multiples of 4,096: the engine promised that.
    pub fn submit(&mut self, now: u64, token: u64, operation: DeviceOperation) {
        let (pending, latency) = match operation {
            DeviceOperation::Read { offset, buffer } => {
                check(offset, buffer.len());
                self.statistics.reads += 1;
                (Pending::Read { offset, buffer }, self.latency(80_000))
            }
            DeviceOperation::Write { offset, data } => {
                check(offset, data.len());
                self.statistics.writes += 1;
                (Pending::Write(Unflushed { offset, data }), self.latency(30_000))
            }
            DeviceOperation::Flush => {
                self.statistics.flushes += 1;
                let lies = self.chance(self.faults.lying_flush_one_in);
                (Pending::Flush { completed: self.completed, lies }, self.latency(200_000))
            }
            DeviceOperation::Reserve { offset, length } => {
                (Pending::Reserve { offset, length }, self.latency(100_000))
            }
        };
        let event = self.next_event;
        self.next_event += 1;
        self.pending.insert((now + latency, event), (token, pending));
    }

    /// Most take about the usual time, some much longer, and some stall.
    fn latency(&mut self, usual: u64) -> u64 {
        let latency = usual / 4 + self.random.below(usual);
        if self.chance(self.stall_one_in) {
            return latency + self.random.below(STALL_NANOSECONDS);
        }
        if self.random.one_in(64) { latency * 20 } else { latency }
    }

    fn chance(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.random.one_in(one_in)
    }

    /// Ends an operation that is under way before everything else: done, or refused with this error.
    pub fn end_now(&mut self, token: u64, refusal: Option<DeviceError>) {
        let Some(place) =
            self.pending.iter().find(|(_, (other, _))| *other == token).map(|(place, _)| *place)
        else {
            return;
        };
        if let Some((_, pending)) = self.pending.remove(&place) {
            let pending = refusal.map_or(pending, Pending::Refused);
            self.pending.insert((0, place.1), (token, pending));
        }
    }

    /// When the next operation ends; `None` if none is under way.
    pub fn next_time(&self) -> Option<u64> {
        let ((time, _), _) = self.pending.first_key_value()?;
        self.condition.end_of(*time)
    }

    /// Ends the operation whose time comes next.
    pub fn complete_next(&mut self) -> Option<Completion> {
        let (_, (token, pending)) = self.pending.pop_first()?;
        let flush = matches!(pending, Pending::Flush { .. });
        let result = match pending {
            Pending::Read { offset, buffer } => self.complete_read(offset, buffer),
            Pending::Write(write) => self.complete_write(write),
            Pending::Flush { completed, lies } => self.complete_flush(completed, lies),
            Pending::Reserve { offset, length } => self.complete_reserve(offset, length),
            Pending::Refused(error) => Err(error),
        };
        Some(Completion { token, flush, result })
    }

    fn complete_read(&mut self, offset: u64, mut buffer: Buffer) -> DeviceResult {
        self.check_there()?;
        if self.fails(self.faults.read_error_one_in) {
            return Err(DeviceError::Os(EIO));
        }
        let length = buffer.len() as u64;
        let end = offset + length;
        if end > self.size {
            return Err(DeviceError::BeyondEnd { end });
        }
        if self.chance(self.faults.bit_flip_one_in) {
            self.flip_bit(offset, length);
        }
        let mut from = offset;
        if self.chance(self.faults.misdirected_read_one_in) {
            self.statistics.faults += 1;
            from = self.random.below((self.size - length) / BLOCK + 1) * BLOCK;
        }
        self.current.read(from, &mut buffer);
        Ok(Some(buffer))
    }

    /// Damages the medium for good.
    fn flip_bit(&mut self, offset: u64, length: u64) {
        self.statistics.faults += 1;
        let at = offset + self.random.below(length);
        let mut block = self.current.block(at / BLOCK).to_vec();
        block[(at % BLOCK) as usize] ^= 1 << self.random.below(8);
        self.damage(at / BLOCK, block);
    }

    /// Spoils a block of the medium.
    pub fn rot(&mut self, block: u64, rot: Rot) {
        self.statistics.faults += 1;
        let mut content = self.current.block(block).to_vec();
        match rot {
            Rot::Bit => {
                let bit = self.random.below(8 * BLOCK) as usize;
                content[bit / 8] ^= 1 << (bit % 8);
            }
            Rot::Sector => {
                let first = self.random.below(BLOCK / SECTOR) as usize * SECTOR_BYTES;
                content[first..first + SECTOR_BYTES].fill(0);
            }
            Rot::Zeros => content.fill(0),
            Rot::Garbage => {
                for word in content.as_chunks_mut::<8>().0 {
                    *word = self.random.number().to_le_bytes();
                }
            }
        }
        self.damage(block, content);
    }

    /// Gives a block other content for good, also where it was written and not flushed: a flush would put
    /// right what a power failure keeps, and nothing that is read (72015203).
    pub fn damage(&mut self, block: u64, content: Vec<u8>) {
        let content = Bytes::from(content);
        for (_, write) in &mut self.unflushed {
            write.replace(block, &content);
        }
        self.current.set(block, content.clone());
        self.stable.set(block, content);
    }

    fn fails(&mut self, one_in: u64) -> bool {
        self.gone |= self.chance(self.faults.vanish_one_in);
        if self.gone || (self.failed && self.faults.sticky && one_in > 0) {
            self.statistics.faults += u64::from(!self.failed);
            self.failed = true;
            return true;
        }
        let fails = self.chance(one_in);
        if fails {
            self.statistics.faults += 1;
            self.failed = true;
        }
        fails
    }

    /// A lost disk fails everything.
    fn check_there(&self) -> Result<(), DeviceError> {
        if self.condition == Condition::Lost { Err(DeviceError::Os(EIO)) } else { Ok(()) }
    }

    fn complete_write(&mut self, mut write: Unflushed) -> DeviceResult {
        self.check_there()?;
        if self.condition == Condition::DropsWrites {
            return Ok(None);
        }
        let end = write.offset + write.data.len() as u64;
        if end > self.size {
            return Err(DeviceError::BeyondEnd { end });
        }
        let fails = self.fails(self.faults.write_error_one_in);
        let no_space = !fails && self.chance(self.faults.no_space_one_in);
        if no_space {
            self.statistics.faults += 1;
            return Err(DeviceError::Os(ENOSPC));
        }
        if self.chance(self.faults.short_one_in) {
            // The first part of it, and then an error.
            self.statistics.faults += 1;
            let kept = self.random.below(write.data.len() as u64 / BLOCK) * BLOCK;
            write.data = write.data.slice(0, kept as usize);
            self.keep(write);
            return Err(DeviceError::Os(EIO));
        }
        if let Some(fault) = self.faults.pick_write_fault(&mut self.random) {
            self.statistics.faults += 1;
            self.spoil(&mut write, fault);
        }
        self.keep(write);
        if fails { Err(DeviceError::Os(EIO)) } else { Ok(None) }
    }

    /// A write that the disk answers well and does wrong.
    fn spoil(&mut self, write: &mut Unflushed, fault: WriteFault) {
        let length = write.data.len();
        match fault {
            WriteFault::Misdirected => {
                let last = (self.size - length as u64) / BLOCK;
                write.offset = self.random.below(last + 1) * BLOCK;
            }
            WriteFault::Zeros => write.data = Bytes::from(vec![0; length]).into(),
            WriteFault::Garbage => {
                let mut garbage = vec![0; length];
                for word in garbage.as_chunks_mut::<8>().0 {
                    *word = self.random.number().to_le_bytes();
                }
                write.data = Bytes::from(garbage).into();
            }
        }
    }

    fn keep(&mut self, write: Unflushed) {
        self.house(write.offset, write.data.len() as u64);
        self.current.write(write.offset, &write.data);
        self.unflushed.push_back((self.completed, write));
        self.completed += 1;
    }

    /// What was set aside stays, also over a power failure: the next flush would make it stable,
    /// and nothing counts on it before.
    fn complete_reserve(&mut self, offset: u64, length: u64) -> DeviceResult {
        self.check_there()?;
        if !self.is_housed(offset, length) && self.chance(self.refuse_one_in) {
            self.statistics.faults += 1;
            return Err(DeviceError::Os(ENOSPC));
        }
        if self.fails(self.faults.write_error_one_in) {
            return Err(DeviceError::Os(EIO));
        }
        self.house(offset, length);
        Ok(None)
    }

    /// Blocks have space of their own from now on.
    fn house(&mut self, offset: u64, length: u64) {
        let blocks = (offset / BLOCK) as usize..((offset + length) / BLOCK) as usize;
        if let Some(housed) = self.housed.get_mut(blocks) {
            housed.fill(true);
        }
    }

    fn complete_flush(&mut self, completed: u64, lies: bool) -> DeviceResult {
        self.check_there()?;
        if self.condition == Condition::DropsFlushes {
            return Ok(None);
        }
        if self.fails(self.faults.flush_error_one_in) {
            return Err(DeviceError::Os(EIO));
        }
        if lies {
            self.statistics.faults += 1;
            self.lied = true;
            return Ok(None);
        }
        while let Some((_, write)) = self.unflushed.pop_front_if(|(place, _)| *place < completed) {
            self.stable.write(write.offset, &write.data);
        }
        Ok(None)
    }

    /// The power fails and comes back: nothing is under way, and what was not flushed met its fate.
    pub fn crash(&mut self, crash: Crash) {
        let mut writes: Vec<Unflushed> =
            std::mem::take(&mut self.unflushed).into_iter().map(|(_, write)| write).collect();
        for (_, pending) in std::mem::take(&mut self.pending).into_values() {
            if let Pending::Write(write) = pending {
                writes.push(write);
            }
        }
        if crash == Crash::Mixed {
            self.shuffle(&mut writes);
        }
        for write in &writes {
            self.settle(write, crash);
        }
        for write in &writes {
            self.forget_cached(write);
        }
    }

    /// Neighbours change places, some far, so that of two writes to one place either may win.
    fn shuffle(&mut self, writes: &mut [Unflushed]) {
        for last in (1..writes.len()).rev() {
            writes.swap(last, self.random.below(last as u64 + 1) as usize);
        }
    }

    fn settle(&mut self, write: &Unflushed, crash: Crash) {
        if write.offset + write.data.len() as u64 > self.size {
            return;
        }
        let fate = match crash {
            Crash::KeepAll => 0,
            Crash::LoseAll => 1,
            Crash::Mixed => self.random.below(3),
        };
        match fate {
            0 => self.stable.write(write.offset, &write.data),
            1 => self.statistics.lost += 1,
            _ => self.tear(write),
        }
    }

    fn tear(&mut self, write: &Unflushed) {
        self.statistics.torn += 1;
        let kept_percent = self.random.pick(&[5, 50, 95]);
        for (number, new) in (write.offset / BLOCK..).zip(image::blocks_of(&write.data)) {
            let mut torn = self.stable.block(number).to_vec();
            for (old, new) in torn.chunks_mut(SECTOR_BYTES).zip(new.chunks(SECTOR_BYTES)) {
                if self.random.percent(kept_percent) {
                    old.copy_from_slice(new);
                }
            }
            self.stable.set(number, torn.into());
        }
    }

    fn forget_cached(&mut self, write: &Unflushed) {
        let end = (write.offset + write.data.len() as u64).min(self.size);
        for number in write.offset / BLOCK..end / BLOCK {
            self.current.set(number, self.stable.share(number));
        }
    }

    /// Reads what a read that completes now would bring.
    pub fn read_current(&self, offset: u64, into: &mut [u8]) {
        self.current.read(offset, into);
    }

    /// A block as a power failure would leave it, if every unflushed write were lost.
    pub fn stable_block(&self, number: u64) -> &[u8] {
        self.stable.block(number)
    }
}

fn check(offset: u64, length: usize) {
    let aligned = offset.is_multiple_of(BLOCK) && (length as u64).is_multiple_of(BLOCK);
    assert!(aligned && length > 0, "a device operation at {offset} of {length} bytes");
}

#[cfg(test)]
mod tests;
