//! Write-ahead journal: a ring of commit units, each a whole number of blocks.
//!
//! A unit is a header and the records of one group:
//! `magic u32, blocks u32, epoch u64, sequence u64, durable u64, records u32, bytes u32, previous
//! crc u32, crc u32`, where `durable` is the newest sequence number known to be on stable storage
//! when the unit was written, `bytes` the length of the records, and `crc` covers the whole unit
//! with itself zero. Units follow each other without gaps; one that does not fit before the end
//! of the ring begins at position 0.

use std::collections::VecDeque;

use block::{BLOCK, Buffer};

use crate::address::RingBlock;
use crate::checksum::crc32c;
use crate::limits::COMMIT_BYTES_MAX;
use crate::record::Record;

const MAGIC: u32 = 0x474a_4e4c;
const HEADER: usize = 48;
const CRC_AT: usize = 44;

/// The largest unit, in blocks. A record is never longer than a quarter of the bytes that close a
/// group, so a group's last record fits.
pub(crate) const UNIT_BLOCKS_MAX: u64 = (2 * COMMIT_BYTES_MAX as u64) / BLOCK;

/// Blocks that must be free before an operation joins a group: the group's unit, that of the other
/// class, and what is skipped at the end of the ring.
pub(crate) const JOURNAL_UNIT_ROOM: u64 = 3 * UNIT_BLOCKS_MAX;

/// Blocks beyond those that only COMPARE AND WRITE may use, while others wait for a checkpoint.
pub(crate) const JOURNAL_CLASS_ROOM: u64 = 2 * UNIT_BLOCKS_MAX;

/// Where the next unit goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) block: RingBlock,
    /// The unit's sequence number.
    pub(crate) sequence: u64,
    /// Checksum of the unit before.
    pub(crate) previous_crc: u32,
}

/// Where a journal goes on, and in which of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalStart {
    /// Raised by one each time that the pool was opened: units of another life are not replayed.
    pub(crate) epoch: u64,
    /// Where the next unit goes.
    pub(crate) next: Position,
}

/// The journal of an open pool.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    pub(crate) blocks: u64,
    pub(crate) epoch: u64,
    pub(crate) next: Position,
    /// Newest unit on stable storage.
    pub(crate) durable: u64,
    /// Sequence number and size of the units that the durable checkpoint does not cover.
    units: VecDeque<(u64, u64)>,
    occupied: u64,
}

/// A unit read back.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) blocks: u64,
    pub(crate) sequence: u64,
    pub(crate) durable: u64,
    pub(crate) crc: u32,
    pub(crate) records: Vec<Record>,
}

/// The first block of a unit, as far as it can be judged alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) blocks: u64,
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
    pub(crate) durable: u64,
    previous_crc: u32,
}

impl Journal {
    /// A journal in a ring of so many blocks.
    pub(crate) fn new(blocks: u64, JournalStart { epoch, next }: JournalStart) -> Self {
        Self {
            blocks,
            epoch,
            next,
            durable: next.sequence - 1,
            units: VecDeque::new(),
            occupied: 0,
        }
    }

    /// Whether `room` blocks still fit.
    pub(crate) fn has_room(&self, room: u64) -> bool {
        self.occupied + room <= self.blocks
    }

    /// Whether a checkpoint is due, so that the ring never fills up.
    pub(crate) fn is_half_full(&self) -> bool {
        self.occupied * 2 >= self.blocks
    }

    /// Makes a unit of `records` and returns the ring block where it goes.
    pub(crate) fn append(&mut self, records: &[Record]) -> (RingBlock, Buffer) {
        let bytes: usize = records.iter().map(Record::length).sum();
        let blocks = ((HEADER + bytes) as u64).div_ceil(BLOCK);
        let mut at = self.next.block;
        let mut skipped = 0;
        if !at.fits(blocks, self.blocks) {
            skipped = RingBlock::new(self.blocks) - at;
            at = RingBlock::START;
        }
        let unit = self.emit(records, bytes, blocks);
        let crc = u32_at(&unit, CRC_AT);
        self.occupied += skipped + blocks;
        self.units.push_back((self.next.sequence, skipped + blocks));
        self.next = Position {
            block: at.after(blocks, self.blocks),
            sequence: self.next.sequence + 1,
            previous_crc: crc,
        };
        (at, unit)
    }

    fn emit(&self, records: &[Record], bytes: usize, blocks: u64) -> Buffer {
        let mut content = Vec::with_capacity(bytes);
        records.iter().for_each(|record| record.emit(&mut content));
        let mut unit = Buffer::zeroed((blocks * BLOCK) as usize);
        unit[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        unit[4..8].copy_from_slice(&(blocks as u32).to_le_bytes());
        unit[8..16].copy_from_slice(&self.epoch.to_le_bytes());
        unit[16..24].copy_from_slice(&self.next.sequence.to_le_bytes());
        unit[24..32].copy_from_slice(&self.durable.to_le_bytes());
        unit[32..36].copy_from_slice(&(records.len() as u32).to_le_bytes());
        unit[36..40].copy_from_slice(&(bytes as u32).to_le_bytes());
        unit[40..44].copy_from_slice(&self.next.previous_crc.to_le_bytes());
        unit[HEADER..HEADER + bytes].copy_from_slice(&content);
        let crc = crc32c(&unit);
        unit[CRC_AT..HEADER].copy_from_slice(&crc.to_le_bytes());
        unit
    }

    /// Where the journal goes on after a unit that was read back from `position`.
    pub(crate) fn after(&self, position: Position, unit: &Unit) -> Position {
        let fits = position.block.fits(unit.blocks, self.blocks);
        let at = if fits { position.block } else { RingBlock::START };
        Position {
            block: at.after(unit.blocks, self.blocks),
            sequence: unit.sequence + 1,
            previous_crc: unit.crc,
        }
    }

    /// A checkpoint is durable: the units before `sequence` are not needed any more.
    pub(crate) fn forget_before(&mut self, sequence: u64) {
        while let Some(&(oldest, blocks)) = self.units.front()
            && oldest < sequence
        {
            self.units.pop_front();
            self.occupied -= blocks;
        }
    }

    /// The parts of the ring that hold units which the durable checkpoint does not cover: up to its end,
    /// and from its start on.
    pub(crate) fn live(&self) -> [(RingBlock, u64); 2] {
        let start =
            self.next.block.after(self.blocks - self.occupied.min(self.blocks), self.blocks);
        let first = self.occupied.min(RingBlock::new(self.blocks) - start);
        [(start, first), (RingBlock::START, self.occupied - first)]
    }

    /// The first commit that the durable checkpoint does not cover.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.units.front().map(|&(sequence, _)| sequence)
    }

    /// Whether a change was made that the durable checkpoint does not cover.
    pub(crate) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }
}

impl Header {
    /// Reads a header; `None` if there is none.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let blocks = u64::from(u32_at(bytes, 4));
        let sound = u32_at(bytes, 0) == MAGIC && (1..=UNIT_BLOCKS_MAX).contains(&blocks);
        sound.then(|| Self {
            blocks,
            epoch: u64_at(bytes, 8),
            sequence: u64_at(bytes, 16),
            durable: u64_at(bytes, 24),
            previous_crc: u32_at(bytes, 40),
        })
    }

    /// Whether this is the unit that follows `position` in the life `epoch`.
    pub(crate) fn follows(&self, position: &Position, epoch: u64) -> bool {
        self.epoch == epoch
            && self.sequence == position.sequence
            && self.previous_crc == position.previous_crc
    }
}

impl Unit {
    /// Reads a unit; `None` if its checksum is wrong or a record is unknown.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let header = Header::parse(bytes)?;
        let bytes = bytes.get(..(header.blocks * BLOCK) as usize)?;
        let crc = u32_at(bytes, CRC_AT);
        let mut zeroed = bytes.to_vec();
        zeroed[CRC_AT..HEADER].fill(0);
        if crc32c(&zeroed) != crc {
            return None;
        }
        let mut rest = bytes.get(HEADER..HEADER + u32_at(bytes, 36) as usize)?;
        let mut records = Vec::new();
        for _ in 0..u32_at(bytes, 32) {
            let (record, after) = Record::parse(rest)?;
            records.push(record);
            rest = after;
        }
        let Header { blocks, sequence, durable, .. } = header;
        rest.is_empty().then_some(Self { blocks, sequence, durable, crc, records })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}
