//! CRC32C (Castagnoli), the one checksum of everything on disk.

use crc_fast::{CrcAlgorithm, checksum};

/// CRC32C (Castagnoli) of `data`.
pub fn crc32c(data: &[u8]) -> u32 {
    // The library computes 32-bit sums in the low half of its 64-bit result.
    checksum(CrcAlgorithm::Crc32Iscsi, data) as u32
}

#[cfg(test)]
mod tests {
    #[test]
    fn agrees_with_an_independent_implementation() {
        for length in [0, 1, 9, 48, 511, 4096, 10_000] {
            let data: Vec<u8> = (0..length).map(|i| (i * 31 % 251) as u8).collect();
            assert_eq!(super::crc32c(&data), crc32c::crc32c(&data), "{length}");
        }
    }
}
