//! Labels and superblocks: what a device is, and where its durable checkpoint lies.

use block::{BLOCK, Buffer};

use crate::checksum::crc32c;
use crate::entry::{Entry, emit_entry, parse_entry};
use crate::layout::{FIRST_LEVEL_MAX, Layout};
use crate::space::{SpaceRoot, parse_references};

const LABEL_MAGIC: [u8; 8] = *b"GANTRYPL";
const SUPERBLOCK_MAGIC: [u8; 8] = *b"GANTRYSB";

/// Version of the format; another one is refused.
pub(crate) const FORMAT_VERSION: u32 = 1;

const CRC_AT: usize = BLOCK as usize - 4;
const SPACE_AT: usize = 1024;

/// What identifies a device. Written once, when the pool is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) pool_uuid: [u8; 16],
    pub(crate) device_uuid: [u8; 16],
    /// Features that a reader must know to open the pool at all; none exist yet.
    pub(crate) incompatible_features: u64,
    pub(crate) version: u32,
}

/// Why a block is no label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabelError {
    Foreign,
    Damaged,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) pool_uuid: [u8; 16],
    /// Rises with every recovery, so that what an earlier life left in the journal is not taken
    /// for part of this one.
    pub(crate) epoch: u64,
    /// Rises with every checkpoint.
    pub(crate) generation: u64,
    pub(crate) layout: Layout,
    /// Where the journal goes on after this checkpoint: ring position, sequence number, and
    /// checksum of the unit before.
    pub(crate) journal_position: u64,
    pub(crate) journal_sequence: u64,
    pub(crate) journal_crc: u32,
    /// The index page of the volume table, and its length.
    pub(crate) table: Entry,
    pub(crate) table_pages: u32,
    pub(crate) volumes: u32,
    pub(crate) reap_entries: u32,
    pub(crate) space: SpaceRoot,
}

impl Label {
    pub(crate) fn emit(&self) -> Buffer {
        let mut bytes = Buffer::zeroed(BLOCK as usize);
        bytes[..8].copy_from_slice(&LABEL_MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.pool_uuid);
        bytes[32..48].copy_from_slice(&self.device_uuid);
        bytes[48..56].copy_from_slice(&self.incompatible_features.to_le_bytes());
        seal(bytes)
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, LabelError> {
        if bytes[..8] != LABEL_MAGIC {
            return Err(LabelError::Foreign);
        }
        if !is_sealed(bytes) {
            return Err(LabelError::Damaged);
        }
        Ok(Self {
            version: u32_at(bytes, 8),
            pool_uuid: bytes[16..32].try_into().expect("16 bytes"),
            device_uuid: bytes[32..48].try_into().expect("16 bytes"),
            incompatible_features: u64_at(bytes, 48),
        })
    }
}

impl Superblock {
    pub(crate) fn emit(&self) -> Buffer {
        let mut bytes = Buffer::zeroed(BLOCK as usize);
        bytes[..8].copy_from_slice(&SUPERBLOCK_MAGIC);
        bytes[16..32].copy_from_slice(&self.pool_uuid);
        let numbers = [
            self.epoch,
            self.generation,
            self.layout.device_blocks,
            self.layout.journal_blocks,
            self.journal_position,
            self.journal_sequence,
            u64::from(self.journal_crc),
            u64::from(self.table_pages),
            u64::from(self.volumes),
            u64::from(self.reap_entries),
        ];
        for (number, place) in numbers.iter().zip(bytes[32..112].as_chunks_mut::<8>().0) {
            *place = number.to_le_bytes();
        }
        bytes[112..128].copy_from_slice(&emit_entry(self.table));
        for (reference, place) in self.space.iter().zip(bytes[SPACE_AT..].as_chunks_mut::<8>().0) {
            place[..4].copy_from_slice(&reference.crc.to_le_bytes());
            place[4] = reference.slot;
        }
        seal(bytes)
    }

    /// Reads a superblock; `None` if it is none, is damaged, or makes no sense.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes[..8] != SUPERBLOCK_MAGIC || !is_sealed(bytes) {
            return None;
        }
        let number = |index: usize| u64_at(bytes, 32 + 8 * index);
        let layout = Layout { device_blocks: number(2), journal_blocks: number(3) };
        if !layout.is_sound() || layout.first_level_pages() > FIRST_LEVEL_MAX {
            return None;
        }
        Some(Self {
            pool_uuid: bytes[16..32].try_into().expect("16 bytes"),
            epoch: number(0),
            generation: number(1),
            layout,
            journal_position: number(4),
            journal_sequence: number(5),
            journal_crc: number(6) as u32,
            table_pages: number(7) as u32,
            volumes: number(8) as u32,
            reap_entries: number(9) as u32,
            table: parse_entry(bytes[112..128].try_into().expect("16 bytes")),
            space: parse_references(&bytes[SPACE_AT..], layout.first_level_pages())?,
        })
        .filter(|superblock| superblock.journal_position < layout.journal_blocks)
    }
}

fn seal(mut bytes: Buffer) -> Buffer {
    let crc = crc32c(&bytes[..CRC_AT]);
    bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn is_sealed(bytes: &[u8]) -> bool {
    crc32c(&bytes[..CRC_AT]) == u32_at(bytes, CRC_AT)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Superblock {
        let layout = Layout::new(1 << 30, 0);
        Superblock {
            pool_uuid: [1; 16],
            epoch: 2,
            generation: 3,
            layout,
            journal_position: 4,
            journal_sequence: 5,
            journal_crc: 6,
            table: Entry::page(7, 8, 9),
            table_pages: 10,
            volumes: 11,
            reap_entries: 12,
            space: vec![crate::space::Reference::NONE; layout.first_level_pages()],
        }
    }

    #[test]
    fn a_superblock_reads_back_and_any_flipped_bit_is_noticed() {
        let bytes = example().emit().to_vec();
        assert_eq!(Superblock::parse(&bytes), Some(example()));
        for byte in (0..200).chain(1024..1060).chain(4090..4096) {
            let mut broken = bytes.clone();
            broken[byte] ^= 4;
            assert_eq!(Superblock::parse(&broken), None, "byte {byte}");
        }
    }

    #[test]
    fn a_label_tells_foreign_from_damaged() {
        let label = Label {
            pool_uuid: [1; 16],
            device_uuid: [2; 16],
            incompatible_features: 0,
            version: FORMAT_VERSION,
        };
        let mut bytes = label.emit().to_vec();
        assert_eq!(Label::parse(&bytes), Ok(label));
        bytes[20] ^= 1;
        assert_eq!(Label::parse(&bytes), Err(LabelError::Damaged));
        assert_eq!(Label::parse(&[0; 4096]), Err(LabelError::Foreign));
    }
}
