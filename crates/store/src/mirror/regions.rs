//! Dirty-region bitmap of a mirror: a bit per region of the device says that a member which is not
//! current may lack something of it.
//!
//! On disk each sector of 512 bytes has a checksum of its own over 508 bytes of bits, over its number
//! and over the size of a region. So a write that a power failure cut short leaves each sector old or
//! new, and a sector that is damaged, was never written or counts in other regions reads as: all of
//! its regions are dirty. A bit too many costs a copy, a bit too few would cost data.

use std::collections::BTreeSet;

use block::{BLOCK, Buffer};

use super::extent::Extent;
use crate::address::DeviceBlock;
use crate::checksum::crc32c;

/// The first block of the bitmap on each member.
pub(crate) const REGIONS_START: DeviceBlock = DeviceBlock::new(48);

/// Blocks of the bitmap on each member.
pub(crate) const REGIONS_BLOCKS: usize = 208;

/// Blocks of the smallest region: 1 MiB.
const REGION_BLOCKS_MIN: u64 = 256;

const SECTOR: usize = 512;
const SECTORS_PER_BLOCK: usize = BLOCK as usize / SECTOR;

/// Bytes of bits in a sector; its checksum is behind them.
const SECTOR_BITS_BYTES: usize = SECTOR - 4;

/// Regions of a sector.
const SECTOR_REGIONS: usize = 8 * SECTOR_BITS_BYTES;

/// Regions of a block of the bitmap.
const BLOCK_REGIONS: usize = SECTORS_PER_BLOCK * SECTOR_REGIONS;

/// Regions written to since the last flush that are remembered one by one; of more it is only known
/// that they are many.
const UNFLUSHED_MAX: usize = 65_536;

/// How a device is divided into regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    device_blocks: u64,
    /// Blocks of a region, as a power of two.
    shift: u32,
}

impl Division {
    /// Regions of 1 MiB, or of so much more that the bitmap covers the device.
    pub(crate) fn new(device_blocks: u64) -> Self {
        let most = (REGIONS_BLOCKS * BLOCK_REGIONS) as u64;
        let mut shift = REGION_BLOCKS_MIN.trailing_zeros();
        while device_blocks.div_ceil(1 << shift) > most {
            shift += 1;
        }
        Self { device_blocks, shift }
    }

    /// Whether the regions of both are equally large, so that one number means the same blocks.
    pub(crate) fn counts_like(self, other: Self) -> bool {
        self.shift == other.shift
    }

    /// Number of regions.
    pub(crate) fn regions(self) -> usize {
        self.device_blocks.div_ceil(1 << self.shift) as usize
    }

    /// Blocks of the bitmap that hold bits of such a device.
    pub(crate) fn bitmap_blocks(self) -> usize {
        self.regions().div_ceil(BLOCK_REGIONS)
    }

    /// The regions that blocks lie in.
    pub(crate) fn touched(self, extent: Extent) -> std::ops::Range<usize> {
        let first = (extent.first.number() >> self.shift) as usize;
        let end = extent.end().number().div_ceil(1 << self.shift) as usize;
        first.min(self.regions())..end.min(self.regions())
    }

    /// The blocks of adjacent regions, as far as the device reaches.
    pub(crate) fn extent(self, regions: std::ops::Range<usize>) -> Extent {
        let block = |region: usize| ((region as u64) << self.shift).min(self.device_blocks);
        let (first, end) = (block(regions.start), block(regions.end));
        Extent { first: DeviceBlock::new(first), blocks: end - first }
    }

    /// Regions in so many blocks, at least one.
    pub(crate) fn regions_in(self, blocks: u64) -> usize {
        (blocks >> self.shift).max(1) as usize
    }
}

/// A region, by its place on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionNumber(pub(crate) usize);

/// A set of regions of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegionSet {
    words: Vec<u64>,
    regions: usize,
    count: usize,
}

impl RegionSet {
    /// None of so many regions.
    pub(crate) fn empty(regions: usize) -> Self {
        Self { words: vec![0; regions.div_ceil(64)], regions, count: 0 }
    }

    /// Every one of so many regions.
    #[cfg(test)]
    pub(crate) fn full(regions: usize) -> Self {
        let mut set = Self::empty(regions);
        (0..regions).for_each(|region| {
            set.insert(region);
        });
        set
    }

    /// How many regions are in it.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn contains(&self, region: usize) -> bool {
        self.words.get(region / 64).is_some_and(|word| word & 1 << (region % 64) != 0)
    }

    /// Adds a region; says whether it was not in it.
    pub(crate) fn insert(&mut self, region: usize) -> bool {
        let is_new = region < self.regions && !self.contains(region);
        if is_new {
            self.words[region / 64] |= 1 << (region % 64);
            self.count += 1;
        }
        is_new
    }

    /// Takes a region out; says whether it was in it.
    pub(crate) fn remove(&mut self, region: usize) -> bool {
        let was_there = self.contains(region);
        if was_there {
            self.words[region / 64] &= !(1 << (region % 64));
            self.count -= 1;
        }
        was_there
    }

    /// The first adjacent regions in it from one on, `most` at most.
    pub(crate) fn next_run(
        &self,
        from: RegionNumber,
        most: usize,
    ) -> Option<std::ops::Range<usize>> {
        let first = self.next(from)?;
        let end = (first + 1..(first + most).min(self.regions)).find(|&at| !self.contains(at));
        Some(first..end.unwrap_or((first + most).min(self.regions)))
    }

    /// The first region in it from one on.
    fn next(&self, RegionNumber(from): RegionNumber) -> Option<usize> {
        let mut index = from / 64;
        let mut word = self.words.get(index)? & u64::MAX << (from % 64);
        while word == 0 {
            index += 1;
            word = *self.words.get(index)?;
        }
        Some(index * 64 + word.trailing_zeros() as usize)
    }
}

/// Where the bits of a block of the bitmap are on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Home {
    /// A bit was set that is not on disk: a member flush waits for it.
    must_write: bool,
    /// A bit was cleared that is still set on disk.
    may_write: bool,
    /// It is being written, and no second time meanwhile, since two writes at once may come to rest in
    /// either order.
    is_written: bool,
}

/// The dirty regions of a mirror in memory, and which blocks of the bitmap differ on disk.
#[derive(Clone, Debug)]
pub(crate) struct Regions {
    division: Division,
    dirty: RegionSet,
    homes: Vec<Home>,
}

impl Regions {
    /// All clean, as while every member is current. The disk holds nothing of it.
    pub(crate) fn clean(device_blocks: u64) -> Self {
        let division = Division::new(device_blocks);
        let dirty = RegionSet::empty(division.regions());
        Self { division, dirty, homes: vec![Home::default(); division.bitmap_blocks()] }
    }

    /// What the copies of the bitmap say that were read, each as far as it could be. A sector counts as
    /// far as some copy of it is whole: a bit that a torn write was to set is of a write that nobody was
    /// told of. One that is whole in no copy is all dirty.
    pub(crate) fn parse(device_blocks: u64, copies: &[Option<Buffer>]) -> Self {
        let mut regions = Self::clean(device_blocks);
        for number in 0..regions.homes.len() * SECTORS_PER_BLOCK {
            regions.parse_sector(number, copies);
        }
        regions
    }

    fn parse_sector(&mut self, number: usize, copies: &[Option<Buffer>]) {
        let place = number * SECTOR..(number + 1) * SECTOR;
        let copies = copies.iter().flatten().filter_map(|copy| copy.get(place.clone()));
        let whole: Vec<&[u8]> =
            copies.filter_map(|sector| self.whole_sector(number, sector)).collect();
        for at in 0..SECTOR_REGIONS {
            let is_set = |bits: &&[u8]| bits[at / 8] & 1 << (at % 8) != 0;
            if whole.is_empty() || whole.iter().any(is_set) {
                self.dirty.insert(number * SECTOR_REGIONS + at);
            }
        }
    }

    /// The bits of a sector that has its checksum.
    fn whole_sector<'a>(&self, number: usize, sector: &'a [u8]) -> Option<&'a [u8]> {
        let (bits, crc) = sector.split_at_checked(SECTOR_BITS_BYTES)?;
        (crc == self.sector_crc(number, bits).to_le_bytes()).then_some(bits)
    }

    fn sector_crc(&self, number: usize, bits: &[u8]) -> u32 {
        let mut bytes = [0; SECTOR_BITS_BYTES + 8];
        bytes[..SECTOR_BITS_BYTES].copy_from_slice(bits);
        bytes[SECTOR_BITS_BYTES..][..4].copy_from_slice(&(number as u32).to_le_bytes());
        bytes[SECTOR_BITS_BYTES + 4..].copy_from_slice(&self.division.shift.to_le_bytes());
        crc32c(&bytes)
    }

    fn emit_block(&self, index: usize) -> Buffer {
        let mut bytes = Buffer::zeroed(BLOCK as usize);
        for sector in 0..SECTORS_PER_BLOCK {
            let number = index * SECTORS_PER_BLOCK + sector;
            let place = &mut bytes[sector * SECTOR..(sector + 1) * SECTOR];
            let regions = number * SECTOR_REGIONS..(number + 1) * SECTOR_REGIONS;
            for (at, region) in regions.enumerate() {
                place[at / 8] |= u8::from(self.dirty.contains(region)) << (at % 8);
            }
            let crc = self.sector_crc(number, &place[..SECTOR_BITS_BYTES]);
            place[SECTOR_BITS_BYTES..].copy_from_slice(&crc.to_le_bytes());
        }
        bytes
    }

    /// Bytes of the bitmap on each member.
    pub(crate) fn extent(&self) -> Extent {
        Extent { first: REGIONS_START, blocks: self.homes.len() as u64 }
    }

    /// How the device is divided.
    pub(crate) fn division(&self) -> Division {
        self.division
    }

    /// The regions that are dirty.
    pub(crate) fn dirty(&self) -> &RegionSet {
        &self.dirty
    }

    /// What another bitmap says is dirty, is, and the disk knows.
    pub(crate) fn unite_known(&mut self, other: &Self) {
        let homes = self.homes.clone();
        self.unite(other);
        self.homes = homes;
    }

    /// What another bitmap says is dirty, is.
    fn unite(&mut self, other: &Self) {
        let mut from = 0;
        while let Some(run) = other.dirty.next_run(RegionNumber(from), usize::MAX / 2) {
            from = run.end;
            self.mark_regions(run);
        }
    }

    /// Blocks are written that a member which is not current does not get. Says whether a bit was set
    /// for the first time: then it must be on disk before the write is answered.
    pub(crate) fn mark(&mut self, extent: Extent) -> bool {
        self.mark_regions(self.division.touched(extent))
    }

    /// All of the device is dirty: a new member has nothing of it.
    pub(crate) fn mark_all(&mut self) {
        self.mark_regions(0..self.division.regions());
    }

    /// What was written since the last flush may be lacking on a member that failed.
    pub(crate) fn mark_unflushed(&mut self, unflushed: &Unflushed) {
        match unflushed.regions() {
            Some(regions) => regions.for_each(|region| {
                self.mark_regions(region..region + 1);
            }),
            None => self.mark_all(),
        }
    }

    fn mark_regions(&mut self, regions: std::ops::Range<usize>) -> bool {
        let mut is_new = false;
        for region in regions {
            if self.dirty.insert(region) {
                self.homes[region / BLOCK_REGIONS].must_write = true;
                is_new = true;
            }
        }
        is_new
    }

    /// No member lacks anything of a region any more.
    pub(crate) fn clear(&mut self, region: usize) {
        if self.dirty.remove(region) {
            self.homes[region / BLOCK_REGIONS].may_write = true;
        }
    }

    /// Every member is current.
    pub(crate) fn clear_all(&mut self) {
        let mut from = 0;
        while let Some(run) = self.dirty.next_run(RegionNumber(from), usize::MAX / 2) {
            from = run.end;
            run.for_each(|region| self.clear(region));
        }
    }

    /// The whole bitmap is to be written, before the next flush.
    pub(crate) fn rewrite(&mut self) {
        self.homes.iter_mut().for_each(|home| home.must_write = true);
    }

    /// The next block of the bitmap that must be on disk before a write is answered, and its place. It
    /// counts as being written until [`Self::written`].
    pub(crate) fn next_urgent(&mut self) -> Option<(DeviceBlock, Buffer)> {
        self.next_block(|home| home.must_write)
    }

    /// The next block of the bitmap that differs on disk.
    pub(crate) fn next_changed(&mut self) -> Option<(DeviceBlock, Buffer)> {
        self.next_block(|home| home.must_write || home.may_write)
    }

    fn next_block(&mut self, is_wanted: impl Fn(&Home) -> bool) -> Option<(DeviceBlock, Buffer)> {
        let is_due = |home: &Home| is_wanted(home) && !home.is_written;
        let index = self.homes.iter().position(is_due)?;
        self.homes[index] = Home { is_written: true, ..Home::default() };
        Some((REGIONS_START + index as u64, self.emit_block(index)))
    }

    /// A block of the bitmap was written.
    pub(crate) fn written(&mut self, block: DeviceBlock) {
        if let Some(home) = self.homes.get_mut((block - REGIONS_START) as usize) {
            home.is_written = false;
        }
    }

    /// Whether every bit that was set was written: the next flush makes it durable.
    pub(crate) fn is_settled(&self) -> bool {
        self.homes.iter().all(|home| !home.must_write && !home.is_written)
    }

    /// The device has another size. If regions become larger than they were, all of them are dirty, because
    /// the bits on disk count in the old ones.
    pub(crate) fn fit(&mut self, device_blocks: u64) {
        if device_blocks == self.division.device_blocks {
            return;
        }
        let was_used = !self.dirty.is_empty();
        let old = std::mem::replace(self, Self::clean(device_blocks));
        if old.division.shift == self.division.shift {
            self.unite(&old);
            for (home, old) in self.homes.iter_mut().zip(&old.homes) {
                *home = Home { must_write: home.must_write || old.must_write, ..*old };
            }
        } else if was_used {
            self.mark_all();
        }
        for (home, old) in self.homes.iter_mut().zip(&old.homes) {
            home.is_written = old.is_written;
        }
        if was_used {
            self.rewrite();
        }
    }
}

/// Regions that were written to and not flushed since: what a member may lack that fails now, although
/// it took every write. Writes that are under way are not among them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unflushed {
    /// Written since the last flush began.
    written: BTreeSet<usize>,
    /// Written before the flushes under way began, by their number.
    flushing: Vec<(u64, BTreeSet<usize>)>,
    flushes: u64,
    /// More were written than are remembered; they are flushed with the flush of this number.
    many_until: Option<u64>,
}

impl Unflushed {
    /// A write has ended.
    pub(crate) fn written(&mut self, division: Division, extent: Extent) {
        self.written.extend(division.touched(extent));
        let flushing: usize = self.flushing.iter().map(|(_, regions)| regions.len()).sum();
        if self.written.len() + flushing > UNFLUSHED_MAX {
            self.many_until = Some(self.flushes + 1);
            self.written.clear();
        }
    }

    /// A flush of all members begins; the number is its name.
    pub(crate) fn flush_began(&mut self) -> u64 {
        self.flushes += 1;
        self.flushing.push((self.flushes, std::mem::take(&mut self.written)));
        self.flushes
    }

    /// A flush has succeeded on all members: with it what earlier ones were to bring.
    pub(crate) fn flushed(&mut self, flush: u64) {
        self.flushing.retain(|(number, _)| *number > flush);
        self.many_until.take_if(|until| *until <= flush);
    }

    /// Regions have other sizes now: it is not known any more which ones were written.
    pub(crate) fn forget_places(&mut self) {
        if !self.written.is_empty() || !self.flushing.is_empty() {
            self.many_until = Some(self.flushes + 1);
        }
        self.written.clear();
        self.flushing.clear();
    }

    /// The regions; `None` if they are too many to be known.
    fn regions(&self) -> Option<impl Iterator<Item = usize>> {
        let flushing = self.flushing.iter().flat_map(|(_, regions)| regions);
        self.many_until.is_none().then(|| self.written.iter().chain(flushing).copied())
    }
}

#[cfg(test)]
mod tests;
