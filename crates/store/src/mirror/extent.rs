//! Adjacent blocks of one device: what a mirror reads, writes and copies.

use block::BLOCK;

use crate::address::DeviceBlock;

/// Adjacent blocks of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Extent {
    /// The first one.
    pub(crate) first: DeviceBlock,
    /// How many.
    pub(crate) blocks: u64,
}

impl Extent {
    /// The blocks from one up to another one, which is not among them; none if it lies before.
    pub(crate) fn between(first: DeviceBlock, end: DeviceBlock) -> Self {
        Self { first, blocks: end.number().saturating_sub(first.number()) }
    }

    /// The block behind the last one.
    pub(crate) fn end(self) -> DeviceBlock {
        self.first + self.blocks
    }

    /// How many bytes it has.
    pub(crate) fn bytes(self) -> u64 {
        self.blocks * BLOCK
    }

    pub(crate) fn is_empty(self) -> bool {
        self.blocks == 0
    }

    /// Whether some block is in both.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        !self.common(other).is_empty()
    }

    /// The blocks that are in both.
    pub(crate) fn common(self, other: Self) -> Self {
        Self::between(self.first.max(other.first), self.end().min(other.end()))
    }

    /// The blocks before another extent and those behind it.
    pub(crate) fn without(self, other: Self) -> [Self; 2] {
        let before = Self::between(self.first, self.end().min(other.first));
        let behind = Self::between(self.first.max(other.end()), self.end());
        if self.overlaps(other) { [before, behind] } else { [self, Self { blocks: 0, ..self }] }
    }

    /// The first blocks, so many at most, and the others.
    pub(crate) fn split(self, blocks: u64) -> (Self, Self) {
        let blocks = blocks.min(self.blocks);
        let rest = Self { first: self.first + blocks, blocks: self.blocks - blocks };
        (Self { blocks, ..self }, rest)
    }
}
