//! Heartbeat of a pool's owner: a block of each device that it writes again and again while it serves, so
//! that others that may read the device see whether it still does. The engine neither reads nor writes it
//! (docs/format.md).

use block::BLOCK;
use store::crc32c;

const MAGIC: [u8; 8] = *b"GANTRYHB";

const CRC_AT: usize = BLOCK as usize - 4;

/// What the block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerBeat {
    /// The pool.
    pub pool_uuid: [u8; 16],
    /// The number of the controller that serves the pool, from 1.
    pub controller: u16,
    /// Drawn when that controller was started.
    pub life: u64,
    /// Rises with every beat of one life.
    pub count: u64,
}

impl OwnerBeat {
    /// Writes the block into a buffer of [`BLOCK`] zero bytes.
    pub fn emit(&self, block: &mut [u8]) {
        block[..8].copy_from_slice(&MAGIC);
        block[16..32].copy_from_slice(&self.pool_uuid);
        block[32..34].copy_from_slice(&self.controller.to_le_bytes());
        block[40..48].copy_from_slice(&self.life.to_le_bytes());
        block[48..56].copy_from_slice(&self.count.to_le_bytes());
        let crc = crc32c(&block[..CRC_AT]);
        block[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads the block; `None` if there was never a heartbeat, or it is damaged.
    pub fn parse(block: &[u8]) -> Option<Self> {
        let is_sealed = block.len() == BLOCK as usize
            && block[CRC_AT..] == crc32c(&block[..CRC_AT]).to_le_bytes();
        if !is_sealed || block[..8] != MAGIC {
            return None;
        }
        let u64_at = |at: usize| {
            block[at..at + 8].try_into().map(u64::from_le_bytes).expect("8 bytes of a block")
        };
        Some(Self {
            pool_uuid: block[16..32].try_into().expect("16 bytes of a block"),
            controller: u16::from_le_bytes([block[32], block[33]]),
            life: u64_at(40),
            count: u64_at(48),
        })
    }
}
