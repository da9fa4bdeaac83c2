//! A disk in memory with a volatile cache, latency, and faults on demand.
//!
//! Writes take effect when they complete, in any order. Until a flush that was submitted after a
//! write's completion has completed, a power failure may keep the write, lose it, or keep some of
//! its 512-byte sectors, each write independently and in any order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use block::{BLOCK, DeviceError, DeviceOperation, DeviceResult, Rope, SECTOR};

use crate::random::Random;

const CHUNK: usize = 256 << 10;
const SECTOR_BYTES: usize = SECTOR as usize;

/// errno EIO.
const EIO: i32 = 5;

/// What goes wrong on a disk besides power failures.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// One read in so many fails; 0 for never.
    pub read_error_one_in: u64,
    /// One write in so many fails, and may have taken effect; 0 for never.
    pub write_error_one_in: u64,
    /// One flush in so many fails, with the unflushed writes lost or kept; 0 for never.
    pub flush_error_one_in: u64,
    /// Whether whatever failed once fails from then on.
    pub sticky: bool,
    /// One read in so many finds a bit flipped on the medium; 0 for never.
    pub bit_flip_one_in: u64,
    /// One write in so many goes somewhere else; 0 for never.
    pub misdirected_write_one_in: u64,
    /// One flush in so many is answered without having done anything; 0 for never.
    pub lying_flush_one_in: u64,
}

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
    /// What came of it.
    pub result: DeviceResult,
}

/// Bytes in chunks that come into being when first written; the rest is zeros.
struct Bytes {
    chunks: Vec<Option<Box<[u8]>>>,
}

impl Bytes {
    fn new(length: u64) -> Self {
        Self { chunks: vec![None; (length as usize).div_ceil(CHUNK)] }
    }

    fn grow(&mut self, length: u64) {
        self.chunks.resize((length as usize).div_ceil(CHUNK), None);
    }

    fn read(&self, mut offset: usize, mut into: &mut [u8]) {
        while !into.is_empty() {
            let at = offset % CHUNK;
            let length = into.len().min(CHUNK - at);
            let (part, rest) = into.split_at_mut(length);
            match &self.chunks[offset / CHUNK] {
                Some(chunk) => part.copy_from_slice(&chunk[at..at + length]),
                None => part.fill(0),
            }
            into = rest;
            offset += length;
        }
    }

    fn write(&mut self, mut offset: usize, mut data: &[u8]) {
        while !data.is_empty() {
            let at = offset % CHUNK;
            let length = data.len().min(CHUNK - at);
            let chunk = self.chunks[offset / CHUNK].get_or_insert_with(|| vec![0; CHUNK].into());
            chunk[at..at + length].copy_from_slice(&data[..length]);
            data = &data[length..];
            offset += length;
        }
    }

    fn write_rope(&mut self, offset: u64, data: &Rope) {
        let mut at = offset as usize;
        for piece in data.pieces() {
            self.write(at, piece);
            at += piece.len();
        }
    }
}

/// A write that is not known to be stable.
struct Unflushed {
    offset: u64,
    data: Rope,
}

enum Pending {
    Read {
        offset: u64,
        buffer: block::Buffer,
    },
    Write {
        key: u64,
    },
    /// Makes stable the completed writes with these keys.
    Flush {
        keys: Vec<u64>,
        lies: bool,
    },
    /// Sets space aside.
    Reserve,
}

/// The disk.
pub struct SimDisk {
    size: u64,
    /// What a read sees.
    current: Bytes,
    /// What is left after a power failure, without the unflushed writes.
    stable: Bytes,
    /// Unflushed writes in the order of their submission, with whether each has completed.
    unflushed: BTreeMap<u64, (Unflushed, bool)>,
    next_key: u64,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    pending: BTreeMap<u64, (u64, Pending)>,
    next_event: u64,
    random: Random,
    faults: Faults,
    failed: bool,
    lied: bool,
    statistics: DiskStatistics,
}

impl SimDisk {
    /// A disk of zeros. `size` is a multiple of 4,096.
    pub fn new(size: u64, random: Random) -> Self {
        Self {
            size,
            current: Bytes::new(size),
            stable: Bytes::new(size),
            unflushed: BTreeMap::new(),
            next_key: 0,
            events: BinaryHeap::new(),
            pending: BTreeMap::new(),
            next_event: 0,
            random,
            faults: Faults::default(),
            failed: false,
            lied: false,
            statistics: DiskStatistics::default(),
        }
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Makes the disk larger; the new part is zeros.
    pub fn grow(&mut self, size: u64) {
        self.size = self.size.max(size);
        self.current.grow(self.size);
        self.stable.grow(self.size);
    }

    /// Chooses what goes wrong from now on.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
        self.failed = false;
    }

    /// Whether a flush was answered that did nothing, and a power failure made that matter.
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
                (self.take_write(offset, data), self.latency(30_000))
            }
            DeviceOperation::Flush => {
                self.statistics.flushes += 1;
                let lies = self.chance(self.faults.lying_flush_one_in);
                let completed = self.unflushed.iter().filter(|(_, (_, completed))| *completed);
                let keys = completed.map(|(key, _)| *key).collect();
                (Pending::Flush { keys, lies }, self.latency(200_000))
            }
            DeviceOperation::Reserve { .. } => (Pending::Reserve, self.latency(100_000)),
        };
        let event = self.next_event;
        self.next_event += 1;
        self.pending.insert(event, (token, pending));
        self.events.push(Reverse((now + latency, event)));
    }

    fn take_write(&mut self, offset: u64, data: Rope) -> Pending {
        let mut offset = offset;
        if self.chance(self.faults.misdirected_write_one_in) {
            self.statistics.faults += 1;
            offset = self.random.below(self.size / BLOCK) * BLOCK;
        }
        let key = self.next_key;
        self.next_key += 1;
        self.unflushed.insert(key, (Unflushed { offset, data }, false));
        Pending::Write { key }
    }

    /// Most take about the usual time, some much longer.
    fn latency(&mut self, usual: u64) -> u64 {
        let latency = usual / 4 + self.random.below(usual);
        if self.random.one_in(64) { latency * 20 } else { latency }
    }

    fn chance(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.random.one_in(one_in)
    }

    /// When the next operation ends; `None` if none is under way.
    pub fn next_time(&self) -> Option<u64> {
        self.events.peek().map(|Reverse((time, _))| *time)
    }

    /// Ends the operation whose time comes next.
    pub fn complete_next(&mut self) -> Option<Completion> {
        let Reverse((_, event)) = self.events.pop()?;
        let (token, pending) = self.pending.remove(&event).expect("every event has its operation");
        let result = match pending {
            Pending::Read { offset, buffer } => self.complete_read(offset, buffer),
            Pending::Write { key } => self.complete_write(key),
            Pending::Flush { keys, lies } => self.complete_flush(keys, lies),
            Pending::Reserve => Ok(None),
        };
        Some(Completion { token, result })
    }

    fn complete_read(&mut self, offset: u64, mut buffer: block::Buffer) -> DeviceResult {
        if self.fails(self.faults.read_error_one_in) {
            return Err(DeviceError::Os(EIO));
        }
        let end = offset + buffer.len() as u64;
        if end > self.size {
            return Err(DeviceError::BeyondEnd { end });
        }
        if self.chance(self.faults.bit_flip_one_in) {
            self.flip_bit(offset, buffer.len() as u64);
        }
        self.current.read(offset as usize, &mut buffer);
        Ok(Some(buffer))
    }

    /// Damages the medium for good.
    fn flip_bit(&mut self, offset: u64, length: u64) {
        self.statistics.faults += 1;
        let at = (offset + self.random.below(length)) as usize;
        let bit = 1 << self.random.below(8);
        let mut byte = [0];
        self.current.read(at, &mut byte);
        self.current.write(at, &[byte[0] ^ bit]);
        self.stable.write(at, &[byte[0] ^ bit]);
    }

    fn fails(&mut self, one_in: u64) -> bool {
        if self.failed && self.faults.sticky && one_in > 0 {
            return true;
        }
        let fails = self.chance(one_in);
        if fails {
            self.statistics.faults += 1;
            self.failed = true;
        }
        fails
    }

    fn complete_write(&mut self, key: u64) -> DeviceResult {
        let fails = self.fails(self.faults.write_error_one_in);
        let (write, completed) =
            self.unflushed.get_mut(&key).expect("a write is kept until stable");
        let end = write.offset + write.data.len() as u64;
        if end > self.size {
            self.unflushed.remove(&key);
            return Err(DeviceError::BeyondEnd { end });
        }
        if fails {
            return Err(DeviceError::Os(EIO));
        }
        *completed = true;
        self.current.write_rope(write.offset, &write.data);
        Ok(None)
    }

    fn complete_flush(&mut self, keys: Vec<u64>, lies: bool) -> DeviceResult {
        if self.fails(self.faults.flush_error_one_in) {
            return Err(DeviceError::Os(EIO));
        }
        if lies {
            self.statistics.faults += 1;
            self.lied = true;
            return Ok(None);
        }
        for key in keys {
            if let Some((write, _)) = self.unflushed.remove(&key) {
                self.stable.write_rope(write.offset, &write.data);
            }
        }
        Ok(None)
    }

    /// The power fails and comes back: nothing is under way, and what was not flushed met its fate.
    pub fn crash(&mut self, crash: Crash) {
        self.events.clear();
        self.pending.clear();
        let mut writes: Vec<_> =
            std::mem::take(&mut self.unflushed).into_values().map(|(write, _)| write).collect();
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
            0 => self.stable.write_rope(write.offset, &write.data),
            1 => self.statistics.lost += 1,
            _ => self.tear(write),
        }
    }

    fn tear(&mut self, write: &Unflushed) {
        self.statistics.torn += 1;
        let kept_percent = self.random.pick(&[5, 50, 95]);
        let mut at = write.offset as usize;
        for piece in write.data.pieces() {
            for sector in piece.chunks(SECTOR_BYTES) {
                if self.random.percent(kept_percent) {
                    self.stable.write(at, sector);
                }
                at += sector.len();
            }
        }
    }

    fn forget_cached(&mut self, write: &Unflushed) {
        let mut at = write.offset as usize;
        let end = (write.offset + write.data.len() as u64).min(self.size) as usize;
        let mut block = [0; BLOCK as usize];
        while at < end {
            self.stable.read(at, &mut block);
            self.current.write(at, &block);
            at += BLOCK as usize;
        }
    }

    /// Reads what a read that completes now would bring.
    pub fn read_current(&self, offset: u64, into: &mut [u8]) {
        self.current.read(offset as usize, into);
    }

    /// Reads what a power failure could not take, as if every unflushed write were lost.
    pub fn read_stable(&self, offset: u64, into: &mut [u8]) {
        self.stable.read(offset as usize, into);
    }
}

fn check(offset: u64, length: usize) {
    let aligned = offset.is_multiple_of(BLOCK) && (length as u64).is_multiple_of(BLOCK);
    assert!(aligned && length > 0, "a device operation at {offset} of {length} bytes");
}

#[cfg(test)]
mod tests;
