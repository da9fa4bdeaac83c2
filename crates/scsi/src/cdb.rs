//! Fields of a command descriptor block (SPC-4 4.3). All numbers are big-endian.

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

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0[at..at + N].try_into().expect("the slice has N bytes")
    }
}
