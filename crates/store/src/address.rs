//! The address spaces of the engine, a type each, so that a number of one is never taken for one of
//! another.
//!
//! | type | counts | range | made from | becomes |
//! |---|---|---|---|---|
//! | [`VolumeBlock`] | blocks of 4 KiB from the start of one volume | below 2³⁴, the largest volume | the bytes that a request names, by [`BlockRange::touched_by`] and [`BlockRange::within`] | the bytes that an answer names, by [`BlockRange::bytes`]; an [`Address`] only by the map (`map.rs`) |
//! | [`DeviceBlock`] | blocks of 4 KiB from the start of one device | below 2⁴⁰ | `layout.rs`, which says where things lie | byte offset of an I/O by [`DeviceBlock::offset`]; an [`Address`] by [`DeviceBlock::on`] |
//! | [`Address`] | blocks of 4 KiB of all devices of a pool | bits 0–39 the block, bits 40–47 the device | the allocator (`space.rs`), map entries and journal records | a device and its block where an I/O is submitted (`io.rs`), and in the allocator |
//! | [`DeviceNumber`] | devices of a pool, in the order in which they joined | below 32 | lists of devices and journal records | a place in such a list, and the number that an I/O names |
//! | [`GroupBlock`] | blocks of 4 KiB from the start of one allocation group | below 2¹⁵ | `layout.rs`, which divides devices into groups, and bitmaps | a [`DeviceBlock`], with the group's start |
//! | [`RingBlock`] | blocks of 4 KiB from the start of the journal's ring | below 2¹⁶ | the journal's position (`journal.rs`) | an [`Address`] by `layout::ring_address` |
//!
//! Ranges are the first block and how many: [`BlockRange`] of a volume, [`Run`] of addresses. Numbers
//! without a type count things (blocks, bytes, pages), or are places within one object, such as of an
//! entry in its page.
//!
//! Only a codec may turn an address into its bits and back.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use block::{BLOCK, ByteRange};

use crate::entry::FANOUT;

/// Bits of an address that count blocks; those above name the device.
const BLOCK_BITS: u32 = 40;

/// A block of one volume, counted from its start in 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub(crate) struct VolumeBlock(u64);

impl VolumeBlock {
    /// The first block of a volume.
    pub(crate) const START: Self = Self(0);

    /// The block with this number, from 0 on.
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }

    /// How many blocks lie before it.
    pub(crate) const fn number(self) -> u64 {
        self.0
    }

    /// How many bytes lie before it.
    pub(crate) const fn offset(self) -> u64 {
        self.0 * BLOCK
    }

    /// The number of its entry in the leaf of the map that covers it.
    pub(crate) const fn place_in_leaf(self) -> u64 {
        self.0 % FANOUT
    }

    /// This block and those behind it, without an end; for zipping with what they hold.
    pub(crate) fn onwards(self) -> impl Iterator<Item = Self> + Clone {
        (self.0..).map(Self)
    }
}

/// Adjacent blocks of one volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockRange {
    /// The first one.
    pub(crate) first: VolumeBlock,
    /// How many.
    pub(crate) count: u64,
}

impl BlockRange {
    /// All blocks that a volume can have.
    pub(crate) const WHOLE: Self = Self { first: VolumeBlock::START, count: u64::MAX };

    /// The blocks from one up to another one, which is not among them; none if it lies before.
    pub(crate) const fn between(first: VolumeBlock, end: VolumeBlock) -> Self {
        Self { first, count: end.0.saturating_sub(first.0) }
    }

    /// One block.
    pub(crate) const fn of(first: VolumeBlock) -> Self {
        Self { first, count: 1 }
    }

    /// The blocks that a range of bytes touches.
    pub(crate) fn touched_by(range: ByteRange) -> Self {
        let end = VolumeBlock(range.end().div_ceil(BLOCK));
        Self::between(VolumeBlock(range.offset / BLOCK), end)
    }

    /// The blocks that a range of bytes covers wholly.
    pub(crate) fn within(range: ByteRange) -> Self {
        let first = VolumeBlock(range.offset.div_ceil(BLOCK));
        Self::between(first, VolumeBlock(range.end() / BLOCK))
    }

    /// The block behind the last one.
    pub(crate) fn end(self) -> VolumeBlock {
        self.first + self.count
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.count == 0
    }

    /// Its bytes.
    pub(crate) const fn bytes(self) -> ByteRange {
        ByteRange { offset: self.first.offset(), length: self.count * BLOCK }
    }

    /// Whether some block is in both.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.first < other.end() && other.first < self.end()
    }

    /// Whether all of another range is in this one.
    pub(crate) fn covers(self, other: Self) -> bool {
        self.first <= other.first && other.end() <= self.end()
    }

    /// Its parts, each within one leaf of the map, in order.
    pub(crate) fn by_leaf(self) -> impl Iterator<Item = Self> {
        let mut left = self;
        std::iter::from_fn(move || {
            let Self { first, count } = left;
            let part = Self { first, count: count.min(FANOUT - first.place_in_leaf()) };
            left = Self { first: part.end(), count: count - part.count };
            (!part.is_empty()).then_some(part)
        })
    }
}

/// A block of one device, counted from its start in 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub(crate) struct DeviceBlock(u64);

impl DeviceBlock {
    /// The block with this number, from 0 on.
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }

    /// How many blocks lie before it.
    pub(crate) const fn number(self) -> u64 {
        self.0
    }

    /// How many bytes lie before it: where an I/O begins.
    pub(crate) const fn offset(self) -> u64 {
        self.0 * BLOCK
    }

    /// The address in the pool of this block of a device.
    pub(crate) const fn on(self, device: DeviceNumber) -> Address {
        Address((device.0 as u64) << BLOCK_BITS | self.0)
    }
}

/// A block of the pool: a device and a block of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub(crate) struct Address(u64);

impl Address {
    /// The address that these bits stand for on disk. Whether the pool has such a block is not
    /// known; see `Space::holds`.
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits that stand for it on disk.
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// Which device of the pool.
    pub(crate) const fn device(self) -> DeviceNumber {
        DeviceNumber((self.0 >> BLOCK_BITS) as u32)
    }

    /// The block on that device.
    pub(crate) const fn block(self) -> DeviceBlock {
        DeviceBlock(self.0 & ((1 << BLOCK_BITS) - 1))
    }

    /// This address and those behind it, without an end; for zipping with what lies there.
    pub(crate) fn onwards(self) -> impl Iterator<Item = Self> + Clone {
        (self.0..).map(Self)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Adjacent blocks of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    /// The first one.
    pub(crate) start: Address,
    /// How many.
    pub(crate) blocks: u64,
}

impl Run {
    /// One block.
    pub(crate) const fn of(start: Address) -> Self {
        Self { start, blocks: 1 }
    }

    /// The address behind the last one.
    pub(crate) fn end(self) -> Address {
        self.start + self.blocks
    }

    /// Each of the blocks.
    pub(crate) fn addresses(self) -> impl Iterator<Item = Address> {
        (self.start.0..self.start.0 + self.blocks).map(Address)
    }
}

/// The number of a device of the pool, in the order in which they joined, from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub(crate) struct DeviceNumber(u32);

impl DeviceNumber {
    /// The device that also holds superblocks and journal.
    pub(crate) const FIRST: Self = Self(0);

    /// The device with this number.
    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The device in this place of a list of all.
    pub(crate) const fn at(index: usize) -> Self {
        Self(index as u32)
    }

    /// Its number, as the pool's user knows it. A pool has 32 devices at most.
    pub(crate) const fn number(self) -> u8 {
        self.0 as u8
    }

    /// Its place in a list of all.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A block of one allocation group, counted from the group's start in 4 KiB, its head included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub(crate) struct GroupBlock(u64);

impl GroupBlock {
    /// The first block of a group, where its head begins.
    pub(crate) const START: Self = Self(0);

    /// The block with this number, from 0 on.
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }

    /// How many blocks lie before it.
    pub(crate) const fn number(self) -> u64 {
        self.0
    }

    /// Its place in a table with an element per block of a group.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// This block and those behind it, without an end.
    pub(crate) fn onwards(self) -> impl Iterator<Item = Self> + Clone {
        (self.0..).map(Self)
    }
}

/// A block of the journal's ring, counted from the ring's start in 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub(crate) struct RingBlock(u64);

impl RingBlock {
    /// The first block of the ring.
    pub(crate) const START: Self = Self(0);

    /// The block with this number, from 0 on.
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }

    /// How many blocks lie before it.
    pub(crate) const fn number(self) -> u64 {
        self.0
    }

    /// Whether so many blocks from this one on lie before the end of a ring.
    pub(crate) const fn fits(self, blocks: u64, ring_blocks: u64) -> bool {
        self.0 + blocks <= ring_blocks
    }

    /// This block and those behind it, without an end; for zipping with what they hold.
    pub(crate) fn onwards(self) -> impl Iterator<Item = Self> + Clone {
        (self.0..).map(Self)
    }

    /// The block so many behind this one; the ring goes on at its start.
    pub(crate) const fn after(self, blocks: u64, ring_blocks: u64) -> Self {
        Self((self.0 + blocks) % ring_blocks)
    }
}

/// Moving by a number of blocks within a space; the distance of two blocks of one.
macro_rules! distances {
    ($space:ty) => {
        impl Add<u64> for $space {
            type Output = Self;

            fn add(self, blocks: u64) -> Self {
                Self(self.0 + blocks)
            }
        }

        impl AddAssign<u64> for $space {
            fn add_assign(&mut self, blocks: u64) {
                self.0 += blocks;
            }
        }

        impl Sub for $space {
            type Output = u64;

            fn sub(self, earlier: Self) -> u64 {
                self.0 - earlier.0
            }
        }
    };
}

distances!(VolumeBlock);
distances!(DeviceBlock);
distances!(Address);
distances!(GroupBlock);
distances!(RingBlock);

const _: () = assert!(size_of::<Address>() == 8 && size_of::<DeviceBlock>() == 8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_device_and_a_block_of_it() {
        let block = DeviceBlock::new((1 << BLOCK_BITS) - 1);
        let address = block.on(DeviceNumber::new(31));
        assert_eq!((address.device(), address.block()), (DeviceNumber::new(31), block));
        assert_eq!(Address::from_bits(address.bits()), address);
        assert_eq!(DeviceBlock::new(3).offset(), 12_288);
    }

    #[test]
    fn a_range_of_bytes_touches_more_blocks_than_it_covers() {
        let range = |first, count| BlockRange { first: VolumeBlock(first), count };
        let bytes = ByteRange::new(BLOCK + 512, 2 * BLOCK);
        assert_eq!(BlockRange::touched_by(bytes), range(1, 3));
        assert_eq!(BlockRange::within(bytes), range(2, 1));
        assert_eq!(range(1, 3).bytes(), ByteRange::new(BLOCK, 3 * BLOCK));
        assert!(BlockRange::within(ByteRange::new(512, 512)).is_empty());
        assert!(BlockRange::WHOLE.covers(range(1, 3)) && !range(1, 3).overlaps(range(4, 9)));
    }

    #[test]
    fn parts_by_leaf_are_the_whole_range() {
        let range = BlockRange { first: VolumeBlock(250), count: 600 };
        let parts: Vec<_> = range.by_leaf().map(|part| (part.first.0, part.count)).collect();
        assert_eq!(parts, [(250, 6), (256, 256), (512, 256), (768, 82)]);
        assert_eq!(parts.iter().map(|(_, count)| count).sum::<u64>(), range.count);
    }

    #[test]
    fn a_run_ends_behind_its_last_block() {
        let run = Run { start: DeviceBlock::new(5).on(DeviceNumber::new(1)), blocks: 3 };
        let all: Vec<_> = run.addresses().collect();
        assert_eq!(all, run.start.onwards().take(3).collect::<Vec<_>>());
        assert_eq!(all[2] + 1, run.end());
        assert_eq!(run.end() - run.start, 3);
    }
}
