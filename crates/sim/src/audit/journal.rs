//! Independent reader of the journal: its units on the disk, and which of them the pool cannot do
//! without.

use block::BLOCK;

use super::format::{JOURNAL_START, Unit};
use super::{Audit, Image};

/// A unit that was acknowledged, and that a later one says was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Witnessed {
    /// Its first block on the first device.
    pub(crate) block: u64,
    /// Number of blocks.
    pub(crate) blocks: u64,
    /// Its sequence number.
    pub(crate) sequence: u64,
}

impl Audit {
    /// The units after the checkpoint of which a later unit says that they were stable.
    pub(crate) fn witnessed_units(&self, image: &(impl Image + ?Sized)) -> Vec<Witnessed> {
        let units = self.units(image);
        let durable = units.iter().map(|(_, unit)| unit.durable).max().unwrap_or(0);
        let witnessed = units.into_iter().filter(|(_, unit)| unit.sequence <= durable);
        witnessed
            .map(|(block, Unit { blocks, sequence, .. })| Witnessed { block, blocks, sequence })
            .collect()
    }

    /// First blocks of everything in the ring that looks like a unit of this life from a sequence
    /// number on.
    pub(crate) fn units_from(&self, image: &(impl Image + ?Sized), sequence: u64) -> Vec<u64> {
        let ring = JOURNAL_START..JOURNAL_START + self.superblock.journal_blocks;
        let is_later = |block: &u64| {
            Unit::parse(image.block(0, *block)).is_some_and(|unit| {
                unit.epoch == self.superblock.epoch && unit.sequence >= sequence
            })
        };
        ring.filter(is_later).collect()
    }

    /// The units that follow the checkpoint, each with its first block on the device.
    fn units(&self, image: &(impl Image + ?Sized)) -> Vec<(u64, Unit)> {
        let (mut at, mut sequence, mut crc) = self.superblock.head;
        let mut units = Vec::new();
        loop {
            let follows = |unit: &Unit| {
                unit.epoch == self.superblock.epoch
                    && unit.sequence == sequence
                    && unit.previous_crc == crc
            };
            let found = [at, 0].into_iter().find_map(|place| {
                let unit = Unit::parse(image.block(0, JOURNAL_START + place)).filter(follows)?;
                let fits = place + unit.blocks <= self.superblock.journal_blocks;
                (fits && is_whole(image, place, &unit)).then_some((place, unit))
            });
            let Some((place, unit)) = found else { return units };
            units.push((JOURNAL_START + place, unit));
            at = (place + unit.blocks) % self.superblock.journal_blocks;
            sequence += 1;
            crc = unit.crc;
        }
    }
}

fn is_whole(image: &(impl Image + ?Sized), place: u64, unit: &Unit) -> bool {
    let blocks = (0..unit.blocks).map(|index| image.block(0, JOURNAL_START + place + index));
    let mut bytes = Vec::with_capacity((unit.blocks * BLOCK) as usize);
    blocks.for_each(|block| bytes.extend_from_slice(block));
    bytes[44..48].fill(0);
    crc32c::crc32c(&bytes) == unit.crc
}
