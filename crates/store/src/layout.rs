//! On-disk layout of a device: labels, superblocks, journal, allocation groups. All positions are
//! counted in blocks of 4 KiB; their types are in `address.rs`.
//!
//! ```text
//! 1, 2        label, twice
//! 16, 17      superblock slots A, B; on the first device
//! 32, 33      a copy of each
//! 256         journal ring; on the first device
//! G           allocation groups of 32,768 blocks, G the first multiple of 256 after the journal
//! ```
//! The head of each allocation group holds its space maps, each page in two slots:
//! ```text
//! 0, 1        bitmap
//! 2 … 33      reference counts, 16 pages
//! 34, 35      descriptors of 32 groups (used in every 32nd group)
//! 36, 37      first-level space page over 512 descriptor pages (used in every 16,384th group)
//! 38 … 41     a copy of each of these four
//! ```
//! So allocating space for space maps never allocates space.

use block::BLOCK;

use crate::address::{Address, DeviceBlock, DeviceNumber, GroupBlock, RingBlock};
use crate::limits::{DEVICE_BYTES_MAX, DEVICE_BYTES_MIN};

/// Blocks in an allocation group: 128 MiB.
pub(crate) const GROUP_BLOCKS: u64 = 32_768;

/// Blocks at the head of a group that hold space maps.
pub(crate) const GROUP_HEAD: u64 = 42;

/// How far behind a descriptor or first-level page its copy lies.
pub(crate) const UPPER_COPY: u64 = 4;

/// Reference count pages of a group.
pub(crate) const COUNT_PAGES: usize = 16;

/// Blocks that one reference count page covers.
pub(crate) const COUNTS_PER_PAGE: usize = 2048;

/// Groups that one descriptor page covers.
pub(crate) const GROUPS_PER_DESCRIPTOR_PAGE: usize = 32;

/// Descriptor pages that one first-level page covers.
pub(crate) const DESCRIPTOR_PAGES_PER_FIRST_LEVEL: usize = 512;

/// First-level pages that a superblock refers to, on all devices together.
pub(crate) const FIRST_LEVEL_MAX: usize = 256;

pub(crate) const DEVICE_START: DeviceBlock = DeviceBlock::new(0);
pub(crate) const LABELS: [DeviceBlock; 2] = [DeviceBlock::new(1), DeviceBlock::new(2)];
pub(crate) const SUPERBLOCKS: [DeviceBlock; 2] = [DeviceBlock::new(16), DeviceBlock::new(17)];
pub(crate) const SUPERBLOCK_COPIES: [DeviceBlock; 2] = [DeviceBlock::new(32), DeviceBlock::new(33)];
pub(crate) const JOURNAL_START: DeviceBlock = DeviceBlock::new(256);

/// The address of a block of the journal's ring.
pub(crate) fn ring_address(block: RingBlock) -> Address {
    (JOURNAL_START + block.number()).on(DeviceNumber::FIRST)
}

const JOURNAL_BLOCKS_MIN: u64 = (8 << 20) / BLOCK;
const JOURNAL_BLOCKS_MAX: u64 = (256 << 20) / BLOCK;

/// One of the two places of a page of the space maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageSlot {
    /// Which page of its kind, from 0 on.
    pub(crate) page: usize,
    /// 0 or 1.
    pub(crate) slot: u8,
}

/// The division of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Blocks of the journal ring; 0 on all but the first device.
    pub(crate) journal_blocks: u64,
    /// Blocks of the device that are in use.
    pub(crate) device_blocks: u64,
}

impl Layout {
    /// The division of a place in the pool's list that no device has any more.
    pub(crate) const NOTHING: Self = Self { journal_blocks: 0, device_blocks: 0 };

    /// The division of a new device; the journal takes 1/64 of it, between 8 and 256 MiB, unless
    /// `journal_bytes` says otherwise.
    pub(crate) fn new(size_bytes: u64, journal_bytes: u64) -> Self {
        let device_blocks = size_bytes / BLOCK;
        let journal_blocks = match journal_bytes {
            0 => (device_blocks / 64).clamp(JOURNAL_BLOCKS_MIN, JOURNAL_BLOCKS_MAX),
            bytes => (bytes / BLOCK).max(JOURNAL_BLOCKS_MIN / 2),
        };
        Self { journal_blocks: journal_blocks.next_multiple_of(256), device_blocks }
    }

    /// The division of a device that is not the pool's first.
    pub(crate) fn without_journal(size_bytes: u64) -> Self {
        Self { journal_blocks: 0, device_blocks: size_bytes / BLOCK }
    }

    /// Whether the numbers, read from a disk, make sense.
    pub(crate) fn is_sound(&self, first: bool) -> bool {
        let bytes = self.device_blocks.saturating_mul(BLOCK);
        let journal = if first { JOURNAL_BLOCKS_MIN / 2..=JOURNAL_BLOCKS_MAX } else { 0..=0 };
        (DEVICE_BYTES_MIN..=DEVICE_BYTES_MAX).contains(&bytes)
            && journal.contains(&self.journal_blocks)
            && self.groups() > 0
    }

    /// The first block of the first group.
    pub(crate) fn groups_start(&self) -> DeviceBlock {
        DeviceBlock::new((JOURNAL_START + self.journal_blocks).number().next_multiple_of(256))
    }

    /// Number of groups; the last may be short, but holds more than its head.
    pub(crate) fn groups(&self) -> usize {
        let blocks = self.device_blocks.saturating_sub(self.groups_start().number());
        let whole = blocks / GROUP_BLOCKS;
        let rest = blocks % GROUP_BLOCKS;
        (whole + u64::from(rest > GROUP_HEAD)) as usize
    }

    /// Blocks of a group, its head included.
    pub(crate) fn group_blocks(&self, group: usize) -> u64 {
        let start = self.group_start(group);
        GROUP_BLOCKS.min(self.device_blocks - start.number())
    }

    pub(crate) fn group_start(&self, group: usize) -> DeviceBlock {
        self.groups_start() + group as u64 * GROUP_BLOCKS
    }

    /// The group and the place in it of a block; `None` for what lies outside all groups' data.
    pub(crate) fn locate(&self, block: DeviceBlock) -> Option<(usize, GroupBlock)> {
        let offset = block.number().checked_sub(self.groups_start().number())?;
        let (group, place) = ((offset / GROUP_BLOCKS) as usize, offset % GROUP_BLOCKS);
        let fits =
            block.number() < self.device_blocks && group < self.groups() && place >= GROUP_HEAD;
        fits.then_some((group, GroupBlock::new(place)))
    }

    /// A page of a group's space maps: 0 the bitmap, 1 to 16 the reference counts.
    pub(crate) fn space_page(&self, group: usize, at: PageSlot) -> DeviceBlock {
        self.group_start(group) + 2 * at.page as u64 + u64::from(at.slot)
    }

    /// Blocks of a group that can hold data or pages of the map.
    pub(crate) fn group_capacity(&self, group: usize) -> u32 {
        (self.group_blocks(group) - GROUP_HEAD) as u32
    }

    pub(crate) fn descriptor_page(&self, at: PageSlot) -> DeviceBlock {
        self.group_start(at.page * GROUPS_PER_DESCRIPTOR_PAGE) + 34 + u64::from(at.slot)
    }

    pub(crate) fn first_level_page(&self, at: PageSlot) -> DeviceBlock {
        let groups = GROUPS_PER_DESCRIPTOR_PAGE * DESCRIPTOR_PAGES_PER_FIRST_LEVEL;
        self.group_start(at.page * groups) + 36 + u64::from(at.slot)
    }

    pub(crate) fn descriptor_pages(&self) -> usize {
        self.groups().div_ceil(GROUPS_PER_DESCRIPTOR_PAGE)
    }

    pub(crate) fn first_level_pages(&self) -> usize {
        self.descriptor_pages().div_ceil(DESCRIPTOR_PAGES_PER_FIRST_LEVEL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_belongs_to_one_group_or_to_none() {
        let layout = Layout::new(300 << 20, 0);
        let start = layout.groups_start();
        assert_eq!(layout.groups(), 3);
        assert_eq!(layout.locate(DeviceBlock::new(start.number() - 1)), None);
        assert_eq!(layout.locate(start + (GROUP_HEAD - 1)), None);
        assert_eq!(layout.locate(start + GROUP_HEAD), Some((0, GroupBlock::new(GROUP_HEAD))));
        assert_eq!(layout.locate(start + GROUP_BLOCKS + 50), Some((1, GroupBlock::new(50))));
        assert_eq!(layout.locate(DeviceBlock::new(layout.device_blocks)), None);
    }

    #[test]
    fn a_device_that_grows_keeps_its_places() {
        let small = Layout::new(1 << 30, 0);
        let large = Layout { device_blocks: (10 << 30) / BLOCK, ..small };
        let at = PageSlot { page: 5, slot: 1 };
        assert_eq!(small.space_page(3, at), large.space_page(3, at));
        assert!(large.groups() > small.groups());
    }
}
