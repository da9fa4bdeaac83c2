//! Header and data digests: CRC32C, the only one that RFC 7143 13.1 names.

use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};

/// The digest of a whole, as it stands on the wire.
pub(crate) fn crc32c(data: &[u8]) -> [u8; 4] {
    crc32_iscsi(data).to_le_bytes()
}

/// A digest that grows with the data.
#[derive(Clone)]
pub(crate) struct Running(Digest);

impl Running {
    pub(crate) fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    pub(crate) fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    pub(crate) fn finish(&self) -> [u8; 4] {
        // A CRC-32 leaves the upper half of the 64-bit result zero.
        (self.0.finalize() as u32).to_le_bytes()
    }
}
