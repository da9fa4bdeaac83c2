//! The blocks that a CDB names: LOGICAL BLOCK ADDRESS and a number of blocks, where each form of CDB
//! has them (SPC-4 4.3.4, SBC-4 5). A row of the command table says which form its CDB has.

use block::{BlockCount, Lba};

use crate::cdb::Cdb;

/// The logical blocks that a command names in its CDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The first block.
    pub(crate) lba: Lba,
    /// How many.
    pub(crate) blocks: BlockCount,
    /// First byte of the field in the CDB that says how many, for sense data.
    pub(crate) length_at: u8,
}

impl Extent {
    /// No block.
    pub(crate) const NONE: Self = Self { lba: Lba(0), blocks: BlockCount(0), length_at: 0 };

    fn new(lba: u64, blocks: u32, length_at: u8) -> Self {
        Self { lba: Lba(lba), blocks: BlockCount(blocks.into()), length_at }
    }
}

/// A command that names no blocks in its CDB, though perhaps in its parameter list.
pub(crate) fn none(_: &Cdb) -> Extent {
    Extent::NONE
}

/// A CDB of 6 bytes. SBC-4 5.11: a length of 0 means 256 blocks.
pub(crate) fn six(cdb: &Cdb) -> Extent {
    Extent::new(u64::from(cdb.u24(1) & 0x1f_ffff), (u32::from(cdb.u8(4)) + 255) % 256 + 1, 4)
}

/// A CDB of 10 bytes.
pub(crate) fn ten(cdb: &Cdb) -> Extent {
    Extent::new(cdb.u32(2).into(), cdb.u16(7).into(), 7)
}

/// A CDB of 12 bytes.
pub(crate) fn twelve(cdb: &Cdb) -> Extent {
    Extent::new(cdb.u32(2).into(), cdb.u32(6), 6)
}

/// A CDB of 16 bytes.
pub(crate) fn sixteen(cdb: &Cdb) -> Extent {
    Extent::new(cdb.u64(2), cdb.u32(10), 10)
}

/// A CDB of 16 bytes with a length of two bytes, as WRITE ATOMIC has it.
pub(crate) fn sixteen_short(cdb: &Cdb) -> Extent {
    Extent::new(cdb.u64(2), cdb.u16(12).into(), 12)
}

/// A CDB of 16 bytes with a length of one byte, as COMPARE AND WRITE has it.
pub(crate) fn sixteen_byte(cdb: &Cdb) -> Extent {
    Extent::new(cdb.u64(2), cdb.u8(13).into(), 13)
}

/// A CDB of variable length, 32 bytes of it.
pub(crate) fn thirty_two(cdb: &Cdb) -> Extent {
    Extent::new(cdb.u64(12), cdb.u32(28), 28)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_zero_in_a_six_byte_cdb_means_256_blocks() {
        let read6 = |length| {
            let extent = six(&Cdb::new(&[0x08, 0xff, 0x02, 0x03, length, 0]));
            (extent.lba, extent.blocks)
        };
        assert_eq!(read6(0), (Lba(0x1f_0203), BlockCount(256)));
        assert_eq!(read6(1), (Lba(0x1f_0203), BlockCount(1)));
        assert_eq!(read6(255), (Lba(0x1f_0203), BlockCount(255)));
    }
}
