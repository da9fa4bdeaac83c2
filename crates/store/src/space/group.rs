//! One allocation group: counters that always stay in memory, and space maps that may be evicted.

use std::ops::RangeInclusive;

use crate::address::GroupBlock;
use crate::layout::{COUNT_PAGES, COUNTS_PER_PAGE, GROUP_BLOCKS, GROUP_HEAD};

/// Pages of a group's space map: the bitmap and the counts.
pub(crate) const PAGES: usize = 1 + COUNT_PAGES;

/// A count that was too large to be kept: the block is never freed.
pub(crate) const STUCK: u16 = u16::MAX;

/// Places in a descriptor on disk.
const USED_AT: usize = 8 + 4 * PAGES;
pub(super) const FLAGS_AT: usize = USED_AT + 4;

/// Flags of a descriptor.
pub(super) const PINNED: u32 = 1;
pub(super) const FENCED: u32 = 2;

pub(super) const WORDS: usize = GROUP_BLOCKS as usize / 64;

/// A reference more or less to a block of a group whose maps are not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delta {
    place: u16,
    pub(super) adds: bool,
}

impl Delta {
    pub(super) fn new(place: GroupBlock, adds: bool) -> Self {
        Self { place: place.number() as u16, adds }
    }

    /// The block that it is about.
    pub(super) fn place(self) -> GroupBlock {
        GroupBlock::new(self.place.into())
    }
}

/// The maps of a group.
pub(super) struct Body {
    pub(super) used: [u64; WORDS],
    pub(super) busy: [u64; WORDS],
    /// Present where a block of the page is referred to more than once.
    pub(super) counts: [Option<Box<[u16; COUNTS_PER_PAGE]>>; COUNT_PAGES],
    /// Which pages changed since they were last written; bit 0 the bitmap.
    pub(super) changed: u32,
    /// Looked at since the clock hand passed.
    pub(super) recent: bool,
}

/// One allocation group.
pub(super) struct AllocationGroup {
    /// Blocks that can hold data or pages of the map.
    pub(super) capacity: u32,
    /// Blocks that are not busy.
    pub(super) free: u32,
    /// Blocks that the map refers to.
    pub(super) used: u32,
    /// Which slot of each page the durable checkpoint uses, or the one being written.
    pub(super) slots: u32,
    /// Which pages exist on disk; bit 0 the bitmap.
    pub(super) present: u32,
    /// The pages' checksums as last written.
    pub(super) crcs: [u32; PAGES],
    /// Blocks in use when the pages were last written.
    pub(super) written_used: u32,
    /// Holds pages of the map: stays in memory.
    pub(super) pinned: bool,
    /// Its maps are damaged: nothing is allocated, and what is freed is not.
    pub(super) fenced: bool,
    /// The file system below the device refused space for the group (ENOSPC).
    pub(super) unavailable: bool,
    /// Its space on the device was set aside.
    pub(super) backed: bool,
    /// Its device leaves the pool: nothing of it is handed out any more.
    pub(super) leaving: bool,
    /// Nothing of it was ever handed out.
    pub(super) fresh: bool,
    /// In which lists of groups with room it is.
    pub(super) listed: u8,
    pub(super) body: Option<Box<Body>>,
    /// Changes since its maps left memory.
    pub(super) deltas: Vec<Delta>,
    /// Of these, what the checkpoint that is being written must contain.
    pub(super) owed: Vec<Delta>,
}

impl Body {
    /// The maps of a group of which nothing is used.
    pub(super) fn empty(capacity: u32) -> Box<Self> {
        let mut body = Box::new(Self {
            used: [0; WORDS],
            busy: [0; WORDS],
            counts: Default::default(),
            changed: 0,
            recent: true,
        });
        for place in (0..GROUP_HEAD).chain(GROUP_HEAD + u64::from(capacity)..GROUP_BLOCKS) {
            set(&mut body.busy, GroupBlock::new(place));
        }
        body
    }

    pub(super) fn references(&self, place: GroupBlock) -> u16 {
        let index = place.index();
        match &self.counts[index / COUNTS_PER_PAGE] {
            Some(counts) => counts[index % COUNTS_PER_PAGE],
            None => u16::from(get(&self.used, place)),
        }
    }

    /// Blocks whose references were too many to be counted.
    pub(super) fn stuck(&self) -> Vec<GroupBlock> {
        let all = GroupBlock::START.onwards().take(GROUP_BLOCKS as usize);
        all.filter(|&place| self.references(place) == STUCK).collect()
    }

    fn counts_mut(&mut self, page: usize) -> &mut [u16; COUNTS_PER_PAGE] {
        let used = &self.used;
        self.counts[page].get_or_insert_with(|| {
            let first = GroupBlock::new((page * COUNTS_PER_PAGE) as u64);
            Box::new(std::array::from_fn(|place| u16::from(get(used, first + place as u64))))
        })
    }

    /// Records how often a block is referred to.
    pub(super) fn set_references(&mut self, place: GroupBlock, after: u16) {
        let page = place.index() / COUNTS_PER_PAGE;
        if after > 1 || self.counts[page].is_some() {
            self.counts_mut(page)[place.index() % COUNTS_PER_PAGE] = after;
            self.changed |= 2 << page;
        }
        let before = get(&self.used, place);
        if before != (after > 0) {
            self.changed |= 1;
            if before { clear(&mut self.used, place) } else { set(&mut self.used, place) }
        }
    }

    /// Drops a count page in which nothing is shared any more; says whether it is still there.
    pub(super) fn keep_counts(&mut self, page: usize) -> bool {
        let shared =
            self.counts[page].as_ref().is_some_and(|counts| counts.iter().any(|&count| count > 1));
        if !shared {
            self.counts[page] = None;
        }
        shared
    }
}

impl AllocationGroup {
    pub(super) fn new(capacity: u32) -> Self {
        Self {
            capacity,
            free: capacity,
            used: 0,
            slots: 0,
            present: 0,
            crcs: [0; PAGES],
            written_used: 0,
            pinned: false,
            fenced: false,
            unavailable: false,
            backed: false,
            leaving: false,
            fresh: true,
            listed: 0,
            body: None,
            deltas: Vec::new(),
            owed: Vec::new(),
        }
    }

    /// Blocks that may be handed out as things are.
    pub(super) fn available(&self) -> u32 {
        if self.fenced || self.unavailable || self.leaving { 0 } else { self.free }
    }

    /// It was written before, and three quarters of it are free.
    pub(super) fn is_roomy(&self) -> bool {
        !self.fresh && self.available() >= (self.capacity - self.capacity / 4).max(1)
    }

    /// It was written before, and hardly anything of it is used.
    pub(super) fn is_mostly_free(&self) -> bool {
        self.is_roomy() && self.available() >= self.capacity - self.capacity / 8
    }

    /// Nothing of it is used or handed out.
    pub(super) fn is_untouched(&self) -> bool {
        self.free == self.capacity && self.deltas.is_empty() && self.owed.is_empty()
    }

    /// Its maps are as on disk, and nothing of it is handed out or about to be released.
    pub(super) fn is_evictable(&self) -> bool {
        let as_written = self.body.as_ref().is_some_and(|body| body.changed == 0);
        as_written && !self.pinned && self.capacity - self.free == self.used
    }

    pub(super) fn emit_descriptor(&self, bytes: &mut [u8]) {
        bytes[..4].copy_from_slice(&self.slots.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.present.to_le_bytes());
        for (crc, bytes) in self.crcs.iter().zip(bytes[8..].as_chunks_mut::<4>().0) {
            *bytes = crc.to_le_bytes();
        }
        let flags = PINNED * u32::from(self.pinned) + FENCED * u32::from(self.fenced);
        bytes[USED_AT..FLAGS_AT].copy_from_slice(&self.written_used.to_le_bytes());
        bytes[FLAGS_AT..FLAGS_AT + 4].copy_from_slice(&flags.to_le_bytes());
    }

    pub(super) fn parse_descriptor(&mut self, bytes: &[u8]) {
        self.slots = u32_at(bytes, 0);
        self.present = u32_at(bytes, 4);
        for page in 0..PAGES {
            self.crcs[page] = u32_at(bytes, 8 + 4 * page);
        }
        self.used = u32_at(bytes, USED_AT).min(self.capacity);
        self.written_used = self.used;
        self.free = self.capacity - self.used;
        self.fresh = self.present & 1 == 0;
        self.pinned = u32_at(bytes, FLAGS_AT) & PINNED != 0;
        self.fenced = u32_at(bytes, FLAGS_AT) & FENCED != 0;
    }
}

pub(super) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("4 bytes"))
}

pub(super) fn get(bits: &[u64; WORDS], place: GroupBlock) -> bool {
    bits[place.index() / 64] & 1 << (place.index() % 64) != 0
}

pub(super) fn set(bits: &mut [u64; WORDS], place: GroupBlock) {
    bits[place.index() / 64] |= 1 << (place.index() % 64);
}

pub(super) fn clear(bits: &mut [u64; WORDS], place: GroupBlock) {
    bits[place.index() / 64] &= !(1 << (place.index() % 64));
}

/// The first run of at most `wanted` clear bits from place `least` on; the first one, not the longest,
/// so that a search stays short.
pub(super) fn find_run(
    busy: &[u64; WORDS],
    least: GroupBlock,
    wanted: u64,
) -> Option<(GroupBlock, u64)> {
    let mut place = least.number();
    while place < GROUP_BLOCKS {
        let word = busy[(place / 64) as usize] >> (place % 64);
        if word & 1 != 0 {
            place += u64::from(word.trailing_ones()).min(64 - place % 64);
            continue;
        }
        let mut blocks = 0;
        while blocks < wanted && place + blocks < GROUP_BLOCKS {
            let at = place + blocks;
            let word = busy[(at / 64) as usize] >> (at % 64);
            let clear = u64::from(word.trailing_zeros()).min(64 - at % 64);
            blocks += clear;
            if clear == 0 || (word != 0 && clear < 64 - at % 64) {
                break;
            }
        }
        return Some((GroupBlock::new(place), blocks.min(wanted).min(GROUP_BLOCKS - place)));
    }
    None
}

/// The first run of clear bits from place `from` on that has as many blocks as are `wanted`.
pub(super) fn find_long_run(
    busy: &[u64; WORDS],
    mut from: GroupBlock,
    wanted: &RangeInclusive<u64>,
) -> Option<(GroupBlock, u64)> {
    loop {
        let (place, blocks) = find_run(busy, from, *wanted.end())?;
        if blocks >= *wanted.start() {
            return Some((place, blocks));
        }
        from = place + blocks;
    }
}
