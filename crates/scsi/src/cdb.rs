//! Fields of a command descriptor block (SPC-4 4.3). All numbers are big-endian.

use block::{BlockCount, Lba};

/// Length of the longest CDB of ours, in bytes.
pub(crate) const CDB_BYTES: usize = 32;

/// OPERATION CODE of the variable length CDBs (SPC-4 4.3.3).
pub(crate) const VARIABLE_LENGTH: u8 = 0x7f;

/// A CDB, padded with zeros to 32 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cdb(pub(crate) [u8; CDB_BYTES]);

impl Cdb {
    /// The first 32 bytes of what came from the initiator.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let mut cdb = [0; CDB_BYTES];
        let length = bytes.len().min(CDB_BYTES);
        cdb[..length].copy_from_slice(&bytes[..length]);
        Self(cdb)
    }

    pub(crate) const fn opcode(&self) -> u8 {
        self.0[0]
    }

    /// SERVICE ACTION; in a CDB of variable length those beyond 255, none of which is ours, are
    /// 255.
    pub(crate) const fn service_action(&self) -> u8 {
        match (self.0[0], self.0[8]) {
            (VARIABLE_LENGTH, 0) => self.0[9],
            (VARIABLE_LENGTH, _) => 0xff,
            _ => self.0[1] & 0x1f,
        }
    }

    pub(crate) const fn u8(&self, at: usize) -> u8 {
        self.0[at]
    }

    pub(crate) const fn bit(&self, at: usize, bit: u8) -> bool {
        self.0[at] & (1 << bit) != 0
    }

    pub(crate) fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.array(at))
    }

    pub(crate) fn u24(&self, at: usize) -> u32 {
        let [high, middle, low] = self.array(at);
        u32::from_be_bytes([0, high, middle, low])
    }

    pub(crate) fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.array(at))
    }

    pub(crate) fn u64(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.array(at))
    }

    /// LOGICAL BLOCK ADDRESS and the length in blocks, where a CDB of this group code (SPC-4
    /// 4.3.4.1) has them.
    pub(crate) fn extent(&self) -> (Lba, BlockCount) {
        let (lba, count) = match self.opcode() >> 5 {
            // SBC-4 5.11: in the 6-byte CDB a length of 0 means 256 blocks.
            0 => (u64::from(self.u24(1) & 0x1f_ffff), (u32::from(self.u8(4)) + 255) % 256 + 1),
            1 | 2 => (u64::from(self.u32(2)), u32::from(self.u16(7))),
            5 => (u64::from(self.u32(2)), self.u32(6)),
            3 => (self.u64(12), self.u32(28)),
            _ => (self.u64(2), self.u32(10)),
        };
        (Lba(lba), BlockCount(u64::from(count)))
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0[at..at + N].try_into().expect("the slice has N bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_zero_in_a_six_byte_cdb_means_256_blocks() {
        let read6 = |length| Cdb::new(&[0x08, 0xff, 0x02, 0x03, length, 0]).extent();
        assert_eq!(read6(0), (Lba(0x1f_0203), BlockCount(256)));
        assert_eq!(read6(1), (Lba(0x1f_0203), BlockCount(1)));
        assert_eq!(read6(255), (Lba(0x1f_0203), BlockCount(255)));
    }
}
