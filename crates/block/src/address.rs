//! Address types: logical block addresses, byte ranges, volume identifiers.

use std::fmt;

/// The smallest logical block a host may use, in bytes.
pub const SECTOR: u64 = 512;

/// The unit of allocation, checksum and reference in a pool, in bytes.
pub const BLOCK: u64 = 4096;

/// A logical block address, counted in the volume's logical blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lba(pub u64);

/// A number of logical blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockCount(pub u64);

/// The length of a volume's logical blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogicalBlockLength {
    /// 512 bytes: the only one ESXi accepts from an array.
    B512,
    /// 4,096 bytes.
    B4096,
}

impl LogicalBlockLength {
    /// The length in bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::B512 => 512,
            Self::B4096 => 4096,
        }
    }

    /// The bytes that `count` logical blocks from `lba` occupy; `None` beyond 2^64.
    pub fn byte_range(self, lba: Lba, count: BlockCount) -> Option<ByteRange> {
        let offset = lba.0.checked_mul(self.bytes())?;
        let length = count.0.checked_mul(self.bytes())?;
        offset.checked_add(length)?;
        Some(ByteRange { offset, length })
    }
}

/// A range of bytes in a volume or device. In a [`crate::Request`] both numbers are multiples of
/// [`SECTOR`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ByteRange {
    /// First byte.
    pub offset: u64,
    /// Number of bytes; may be 0.
    pub length: u64,
}

impl ByteRange {
    /// The range of `length` bytes from `offset`.
    pub const fn new(offset: u64, length: u64) -> Self {
        Self { offset, length }
    }

    /// The byte after the last one.
    pub const fn end(self) -> u64 {
        self.offset + self.length
    }

    /// Whether the range holds no byte.
    pub const fn is_empty(self) -> bool {
        self.length == 0
    }

    /// Whether the two ranges share a byte. An empty range shares none.
    pub const fn overlaps(self, other: Self) -> bool {
        self.length > 0
            && other.length > 0
            && self.offset < other.end()
            && other.offset < self.end()
    }

    /// Whether offset and length are both multiples of `unit`.
    pub const fn is_aligned(self, unit: u64) -> bool {
        self.offset.is_multiple_of(unit) && self.length.is_multiple_of(unit)
    }
}

impl fmt::Debug for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}+{:#x}", self.offset, self.length)
    }
}

/// The array-wide name of a volume: the low 64 bits of its NAA identifier. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_do_not_overlap() {
        let low = ByteRange::new(0, 512);
        assert!(!low.overlaps(ByteRange::new(512, 512)));
        assert!(low.overlaps(ByteRange::new(511, 1)));
        assert!(!low.overlaps(ByteRange::new(0, 0)));
        assert!(ByteRange::new(1 << 40, 512).overlaps(ByteRange::new((1 << 40) + 511, 1)));
    }

    #[test]
    fn an_address_beyond_64_bits_has_no_byte_range() {
        let blocks = LogicalBlockLength::B4096;
        assert_eq!(blocks.byte_range(Lba(u64::MAX), BlockCount(1)), None);
        assert_eq!(blocks.byte_range(Lba(u64::MAX / 4096), BlockCount(1)), None);
        assert_eq!(blocks.byte_range(Lba(2), BlockCount(3)), Some(ByteRange::new(8192, 12288)));
    }
}
