//! Blocks besides data and map that a scrub compares on the members of mirrors: labels, superblocks,
//! space maps and the volume table. A plain device has one copy of each, which is compared when it
//! is read.
//!
//! What they should hold is known as of the newest checkpoint. One that is written meanwhile has other
//! content on all members alike, and is left as it is.

use std::collections::{BTreeSet, VecDeque};

use crate::address::{Address, DeviceNumber};
use crate::checkpoint::Checkpointer;
use crate::checksum::crc32c;
use crate::layout::{LABELS, UPPER_COPY};
use crate::pool::Pool;
use crate::space::AllocationGroupId;

/// Groups that are looked at in one step.
const GROUPS: usize = 64;

/// Blocks that are compared in one step.
const BLOCKS: usize = 32;

/// What is left to be compared.
#[derive(Default)]
pub(crate) struct Heads {
    /// The checkpoint of which checksums are known. A later one writes pages in the places of those before
    /// it: a copy that missed that would be what an older checksum wants, and be taken for the good one.
    generation: u64,
    blocks: VecDeque<(Address, u32)>,
    /// Groups whose space maps are among these blocks; none while others are compared.
    current: Vec<AllocationGroupId>,
    /// Places that were compared since the current groups, or what comes before them, began.
    compared: BTreeSet<Address>,
    /// Groups whose space maps come then.
    groups: VecDeque<AllocationGroupId>,
    /// Superblocks come as soon as none is being written.
    wants_superblocks: bool,
}

fn is_mirrored(pool: &Pool, device: DeviceNumber) -> bool {
    pool.io.mirror(device).is_some()
}

impl Heads {
    /// All such blocks on mirrors, with their checksums.
    pub(crate) fn of(pool: &Pool, checkpointer: &Checkpointer) -> Self {
        let mirrors = pool.space.devices().filter(|&device| is_mirrored(pool, device));
        let groups = mirrors.flat_map(|device| {
            let groups = 0..pool.space.layout(device).groups() as u32;
            groups.map(move |group| AllocationGroupId { device, group })
        });
        let mut heads = Self {
            generation: checkpointer.generation(),
            groups: groups.collect(),
            wants_superblocks: is_mirrored(pool, DeviceNumber::FIRST),
            ..Self::default()
        };
        heads.blocks = heads.current_blocks(pool, checkpointer);
        heads
    }

    /// Blocks of the current groups; where there are none, those that come before all groups.
    fn current_blocks(&self, pool: &Pool, checkpointer: &Checkpointer) -> VecDeque<(Address, u32)> {
        if !self.current.is_empty() {
            let pages = self.current.iter().flat_map(|&group| pool.space.written_pages(group));
            return pages.map(|page| (page.address, page.crc)).collect();
        }
        let mut blocks = VecDeque::new();
        for device in pool.space.devices().filter(|&device| is_mirrored(pool, device)) {
            blocks.extend(labels(pool, device));
            let pages = pool.space.first_level_pages(device);
            let pages = pages.into_iter().chain(pool.space.descriptor_pages(device));
            let copies = |(_, page, crc): (usize, Address, u32)| {
                [page, page + UPPER_COPY].map(|at| (at, crc))
            };
            blocks.extend(pages.flat_map(copies));
        }
        let of_mirror = |&(block, _): &(Address, u32)| is_mirrored(pool, block.device());
        let copies = checkpointer.table_pages().flat_map(|page| {
            let copies = [Some(page.address()), page.twin()];
            copies.into_iter().flatten().map(move |at| (at, page.crc))
        });
        blocks.extend(copies.filter(of_mirror));
        blocks
    }

    /// The next blocks to be compared; `None` if all were.
    pub(super) fn next(
        &mut self,
        pool: &Pool,
        checkpointer: &Checkpointer,
    ) -> Option<Vec<(Address, u32)>> {
        if self.wants_superblocks && !checkpointer.is_writing() {
            self.wants_superblocks = false;
            return Some(checkpointer.superblocks().collect());
        }
        self.renew(pool, checkpointer);
        if self.blocks.is_empty() && self.groups.is_empty() {
            return self.wants_superblocks.then(Vec::new);
        }
        if self.blocks.is_empty() {
            let count = self.groups.len().min(GROUPS);
            self.current = self.groups.drain(..count).collect();
            self.compared.clear();
            self.blocks = self.current_blocks(pool, checkpointer);
        }
        let count = self.blocks.len().min(BLOCKS);
        let next: Vec<(Address, u32)> = self.blocks.drain(..count).collect();
        self.compared.extend(next.iter().map(|(block, _)| *block));
        Some(next)
    }

    /// After a checkpoint pages are in other places. Those that were compared where they are now are not
    /// compared again, so that this comes to an end however many checkpoints there are.
    fn renew(&mut self, pool: &Pool, checkpointer: &Checkpointer) {
        let generation = checkpointer.generation();
        if self.blocks.is_empty() || self.generation == generation {
            self.generation = generation;
            return;
        }
        self.generation = generation;
        let blocks = self.current_blocks(pool, checkpointer).into_iter();
        self.blocks = blocks.filter(|(block, _)| !self.compared.contains(block)).collect();
    }

    /// A device has left; another one may get its number.
    pub(super) fn forget(&mut self, device: DeviceNumber) {
        self.blocks.retain(|(block, _)| block.device() != device);
        self.current.retain(|group| group.device != device);
        self.groups.retain(|group| group.device != device);
    }
}

/// Both copies of the label of a device with their checksums, unless the labels lack features that the
/// pool has: then nobody knows what they should hold before the next upgrade.
pub(crate) fn labels(pool: &Pool, device: DeviceNumber) -> Vec<(Address, u32)> {
    let names = &pool.members;
    if names.labelled != names.features {
        return Vec::new();
    }
    let crc = crc32c(&pool.label(device).emit());
    LABELS.map(|block| (block.on(device), crc)).to_vec()
}
