//! Which blocks are used, how often, and which may be handed out.
//!
//! A block is *used* when the map refers to it; that is what reaches the disk. It is *busy* when
//! it must not be handed out: used, handed out but not yet referred to, or freed since the last
//! durable checkpoint (quarantine). Quarantine is the rule that a durable checkpoint is never
//! overwritten.

mod codec;

use block::BLOCK;

use crate::layout::{COUNT_PAGES, COUNTS_PER_PAGE, GROUP_BLOCKS, GROUP_HEAD, Layout};
use crate::limits::REFERENCES_MAX;

pub(crate) use codec::{ABSENT, Reference, SpaceRoot, parse_descriptors, parse_references};

/// Pages of a group's space map: the bitmap and the counts.
pub(crate) const PAGES: usize = 1 + COUNT_PAGES;

/// A count that was too large to be kept: the block is never freed.
pub(crate) const STUCK: u16 = u16::MAX;

const WORDS: usize = GROUP_BLOCKS as usize / 64;

/// A run of adjacent blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: u64,
    pub(crate) blocks: u64,
}

/// One allocation group.
pub(crate) struct Group {
    used: Box<[u64; WORDS]>,
    busy: Box<[u64; WORDS]>,
    /// Present where a block of the page is referred to more than once.
    counts: [Option<Box<[u16; COUNTS_PER_PAGE]>>; COUNT_PAGES],
    /// Blocks that are not busy.
    free: u32,
    /// Which pages changed since they were last written; bit 0 the bitmap.
    changed: u32,
    /// Which slot of each page the durable checkpoint uses.
    slots: u32,
    /// The pages' checksums as last written.
    crcs: [u32; PAGES],
    /// Which count pages exist on disk; bit 1 the first.
    present: u32,
}

/// The space of a pool.
pub(crate) struct Space {
    pub(crate) layout: Layout,
    groups: Vec<Group>,
    /// Blocks that are not busy, in all groups.
    free: u64,
    used: u64,
    /// Freed since the last cut of a checkpoint.
    quarantine: Vec<u64>,
    /// Freed before the cut of the checkpoint that is being written.
    releasing: Vec<u64>,
    /// Where the next search begins.
    cursor: u64,
    /// The checksums and slots of descriptor and first-level pages.
    upper: codec::Upper,
}

impl Group {
    fn new(blocks: u64) -> Self {
        let mut group = Self {
            used: Box::new([0; WORDS]),
            busy: Box::new([0; WORDS]),
            counts: Default::default(),
            free: (blocks - GROUP_HEAD) as u32,
            changed: 1,
            slots: 0,
            crcs: [0; PAGES],
            present: 0,
        };
        group.set_limits(blocks);
        group
    }

    /// Marks what is not for data as busy: the head, and what lies beyond a short group's end.
    fn set_limits(&mut self, blocks: u64) {
        for place in (0..GROUP_HEAD).chain(blocks..GROUP_BLOCKS) {
            set(&mut self.busy, place as usize);
        }
    }

    fn references(&self, place: usize) -> u16 {
        match &self.counts[place / COUNTS_PER_PAGE] {
            Some(counts) => counts[place % COUNTS_PER_PAGE],
            None => u16::from(get(&self.used, place)),
        }
    }

    fn counts_mut(&mut self, page: usize) -> &mut [u16; COUNTS_PER_PAGE] {
        let used = &self.used;
        self.counts[page].get_or_insert_with(|| {
            let first = page * COUNTS_PER_PAGE;
            Box::new(std::array::from_fn(|place| u16::from(get(used, first + place))))
        })
    }
}

fn get(bits: &[u64; WORDS], place: usize) -> bool {
    bits[place / 64] & 1 << (place % 64) != 0
}

fn set(bits: &mut [u64; WORDS], place: usize) {
    bits[place / 64] |= 1 << (place % 64);
}

fn clear(bits: &mut [u64; WORDS], place: usize) {
    bits[place / 64] &= !(1 << (place % 64));
}

impl Space {
    /// The space of a new device: all free.
    pub(crate) fn new(layout: Layout) -> Self {
        let groups: Vec<_> =
            (0..layout.groups()).map(|group| Group::new(layout.group_blocks(group))).collect();
        let free = groups.iter().map(|group| u64::from(group.free)).sum();
        Self {
            layout,
            groups,
            free,
            used: 0,
            quarantine: Vec::new(),
            releasing: Vec::new(),
            cursor: 0,
            upper: codec::Upper::new(&layout),
        }
    }

    /// Blocks that can hold data or map pages.
    pub(crate) fn total(&self) -> u64 {
        let groups = 0..self.layout.groups();
        groups.map(|group| self.layout.group_blocks(group) - GROUP_HEAD).sum()
    }

    /// Blocks that may be handed out.
    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    /// Blocks that the map refers to.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Blocks that become free with the next checkpoints.
    pub(crate) fn quarantined(&self) -> u64 {
        (self.quarantine.len() + self.releasing.len()) as u64
    }

    /// Adds the space of a device that has grown.
    pub(crate) fn extend(&mut self, device_blocks: u64) {
        let old = self.layout;
        self.layout.device_blocks = device_blocks;
        if let Some(last) = self.groups.len().checked_sub(1) {
            let (before, after) = (old.group_blocks(last), self.layout.group_blocks(last));
            let group = &mut self.groups[last];
            (before..after).for_each(|place| clear(&mut group.busy, place as usize));
            group.free += (after - before) as u32;
            self.free += after - before;
        }
        for index in self.groups.len()..self.layout.groups() {
            let group = Group::new(self.layout.group_blocks(index));
            self.free += u64::from(group.free);
            self.groups.push(group);
        }
        self.upper.extend(&self.layout);
    }

    /// Hands out up to `blocks` adjacent blocks; fewer if no run is so long; `None` if nothing is
    /// free. They are busy but not used.
    pub(crate) fn allocate(&mut self, blocks: u64) -> Option<Run> {
        if self.free == 0 {
            return None;
        }
        let groups = self.groups.len() as u64;
        let first = self.cursor / GROUP_BLOCKS;
        for step in 0..=groups {
            let index = ((first + step) % groups) as usize;
            let from = if step == 0 { self.cursor % GROUP_BLOCKS } else { 0 };
            if self.groups[index].free == 0 {
                continue;
            }
            if let Some((place, blocks)) = find_run(&self.groups[index].busy, from, blocks) {
                return Some(self.take(index, place, blocks));
            }
        }
        None
    }

    fn take(&mut self, index: usize, place: u64, blocks: u64) -> Run {
        let group = &mut self.groups[index];
        (place..place + blocks).for_each(|place| set(&mut group.busy, place as usize));
        group.free -= blocks as u32;
        self.free -= blocks;
        self.cursor = index as u64 * GROUP_BLOCKS + place + blocks;
        Run { start: self.layout.group_start(index) + place, blocks }
    }

    /// Takes back blocks that were handed out and never referred to.
    pub(crate) fn give_back(&mut self, run: Run) {
        for block in run.start..run.start + run.blocks {
            self.release(block);
        }
    }

    fn release(&mut self, block: u64) {
        let (index, place) = self.place(block);
        let group = &mut self.groups[index];
        assert!(
            get(&group.busy, place) && !get(&group.used, place),
            "only idle blocks are released"
        );
        clear(&mut group.busy, place);
        group.free += 1;
        self.free += 1;
    }

    fn place(&self, block: u64) -> (usize, usize) {
        self.layout.locate(block).expect("the map refers only to blocks of groups")
    }

    /// How often the map refers to a block.
    pub(crate) fn references(&self, block: u64) -> u16 {
        let (group, place) = self.place(block);
        self.groups[group].references(place)
    }

    /// Notes the first reference to a block that was handed out, or that a journal names.
    pub(crate) fn first_reference(&mut self, block: u64) {
        self.set_references(block, 0, 1);
    }

    /// Notes more references. A count that has reached [`REFERENCES_MAX`] stays there for good.
    pub(crate) fn add_references(&mut self, block: u64, more: u16) {
        let now = self.references(block);
        assert!(now > 0, "only used blocks are shared");
        let after = now.saturating_add(more);
        self.set_references(block, now, if after >= REFERENCES_MAX { STUCK } else { after });
    }

    /// Notes one reference less; the block is quarantined with the last. Returns what is left.
    pub(crate) fn drop_reference(&mut self, block: u64) -> u16 {
        let now = self.references(block);
        assert!(now > 0, "block {block} has no reference to drop");
        if now == STUCK {
            return STUCK;
        }
        self.set_references(block, now, now - 1);
        now - 1
    }

    fn set_references(&mut self, block: u64, before: u16, after: u16) {
        let (index, place) = self.place(block);
        let group = &mut self.groups[index];
        let page = place / COUNTS_PER_PAGE;
        if after > 1 || group.counts[page].is_some() {
            group.counts_mut(page)[place % COUNTS_PER_PAGE] = after;
            group.changed |= 2 << page;
        }
        if before == 0 {
            assert!(!get(&group.used, place), "block {block} is used already");
            set(&mut group.used, place);
            group.changed |= 1;
            self.used += 1;
            if !get(&group.busy, place) {
                set(&mut group.busy, place);
                group.free -= 1;
                self.free -= 1;
            }
        }
        if after == 0 {
            clear(&mut group.used, place);
            group.changed |= 1;
            self.used -= 1;
            self.quarantine.push(block);
        }
    }

    /// The cut of a checkpoint: what was freed until now is released when it is durable.
    pub(crate) fn cut(&mut self) {
        assert!(self.releasing.is_empty(), "one checkpoint at a time");
        self.releasing = std::mem::take(&mut self.quarantine);
    }

    /// The checkpoint is durable.
    pub(crate) fn checkpoint_durable(&mut self) {
        for block in std::mem::take(&mut self.releasing) {
            self.release(block);
        }
    }

    /// Releases what is quarantined although no checkpoint is durable.
    #[cfg(feature = "planted-bugs")]
    pub(crate) fn release_early(&mut self) {
        for block in std::mem::take(&mut self.quarantine) {
            self.release(block);
        }
    }

    /// Bytes of all blocks of a kind.
    pub(crate) fn bytes(blocks: u64) -> u64 {
        blocks * BLOCK
    }
}

/// The first run of at most `wanted` clear bits from `from` on; the longest start wins, not the
/// longest run, so that a search stays short.
fn find_run(busy: &[u64; WORDS], from: u64, wanted: u64) -> Option<(u64, u64)> {
    let mut place = from;
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
        return Some((place, blocks.min(wanted).min(GROUP_BLOCKS - place)));
    }
    None
}

#[cfg(test)]
mod tests;
