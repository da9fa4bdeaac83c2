//! Blocks that end with a CRC32C of what is before it, and the numbers in them.

use block::{BLOCK, Buffer};

use crate::checksum::crc32c;

const CRC_AT: usize = BLOCK as usize - 4;

/// Puts the checksum behind the content of a block.
pub(super) fn seal(mut bytes: Buffer) -> Buffer {
    let crc = crc32c(&bytes[..CRC_AT]);
    bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Whether a block has its checksum.
pub(super) fn is_sealed(bytes: &[u8]) -> bool {
    bytes.len() == BLOCK as usize && bytes[CRC_AT..] == crc32c(&bytes[..CRC_AT]).to_le_bytes()
}

/// The checksum of a sealed block.
pub(super) fn crc_of(bytes: &[u8]) -> u32 {
    u32_at(bytes, CRC_AT)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

pub(super) fn uuid_at(bytes: &[u8], at: usize) -> [u8; 16] {
    bytes[at..at + 16].try_into().expect("16 bytes")
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}
