//! Heartbeat of a pool's owner: a block of each device that it writes again and again while it has the
//! pool, so that others that may read the device see whether it still does. The engine neither reads nor
//! writes it (docs/format.md).

use std::time::Duration;

use block::BLOCK;
use store::crc32c;

use crate::limits::BEAT_HOLDER_BYTES_MAX;

const MAGIC: [u8; 8] = *b"GANTRYHB";

/// The version of the block. One with another version is no heartbeat to this program.
const VERSION: u32 = 1;

const HOLDER_AT: usize = 64;
const CRC_AT: usize = BLOCK as usize - 4;

/// What the block says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerBeat {
    /// The pool.
    pub pool_uuid: [u8; 16],
    /// The number of the controller that has the pool, from 1.
    pub controller: u16,
    /// How long it serves at most without writing another one; zero if it goes on without, so that
    /// nobody may take the pool by itself. Whole milliseconds.
    pub lease: Duration,
    /// Drawn when that controller was started.
    pub life: u64,
    /// Rises with every beat of one life.
    pub count: u64,
    /// How the device names its holder to others: who writes this. Empty where a lock has no name.
    pub holder: String,
}

impl OwnerBeat {
    /// Writes the block into a buffer of [`BLOCK`] zero bytes.
    pub fn emit(&self, block: &mut [u8]) {
        let lease = u32::try_from(self.lease.as_millis()).unwrap_or(u32::MAX);
        block[..8].copy_from_slice(&MAGIC);
        block[8..12].copy_from_slice(&VERSION.to_le_bytes());
        block[16..32].copy_from_slice(&self.pool_uuid);
        block[32..34].copy_from_slice(&self.controller.to_le_bytes());
        block[36..40].copy_from_slice(&lease.to_le_bytes());
        block[40..48].copy_from_slice(&self.life.to_le_bytes());
        block[48..56].copy_from_slice(&self.count.to_le_bytes());
        let holder = self.holder.as_bytes();
        if holder.len() <= BEAT_HOLDER_BYTES_MAX {
            block[HOLDER_AT..HOLDER_AT + holder.len()].copy_from_slice(holder);
        }
        let crc = crc32c(&block[..CRC_AT]);
        block[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads the block; `None` if there was never a heartbeat, or it is damaged.
    pub fn parse(block: &[u8]) -> Option<Self> {
        let is_sealed = block.len() == BLOCK as usize
            && block[CRC_AT..] == crc32c(&block[..CRC_AT]).to_le_bytes();
        if !is_sealed || block[..8] != MAGIC || u32_at(block, 8) != VERSION {
            return None;
        }
        let holder = &block[HOLDER_AT..HOLDER_AT + BEAT_HOLDER_BYTES_MAX];
        let holder = holder.split(|&byte| byte == 0).next().unwrap_or_default();
        Some(Self {
            pool_uuid: block[16..32].try_into().expect("16 bytes of a block"),
            controller: u16::from_le_bytes([block[32], block[33]]),
            lease: Duration::from_millis(u32_at(block, 36).into()),
            life: u64_at(block, 40),
            count: u64_at(block, 48),
            holder: String::from_utf8_lossy(holder).into_owned(),
        })
    }
}

fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(block[at..at + 4].try_into().expect("4 bytes of a block"))
}

fn u64_at(block: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(block[at..at + 8].try_into().expect("8 bytes of a block"))
}
