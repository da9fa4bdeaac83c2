//! Labels and superblocks: they identify a device and say where its durable checkpoint lies.

use block::{BLOCK, Buffer};

use crate::address::RingBlock;
use crate::checksum::crc32c;
use crate::entry::{emit_entry, parse_entry};
use crate::layout::{FIRST_LEVEL_MAX, Layout};
use crate::limits::DEVICES_MAX;
use crate::space::{SpaceRoot, parse_references};
use crate::table::TableRoot;

const LABEL_MAGIC: [u8; 8] = *b"GANTRYPL";
const SUPERBLOCK_MAGIC: [u8; 8] = *b"GANTRYSB";

/// Version of the format; another one is refused.
pub(crate) const FORMAT_VERSION: u32 = 2;

const CRC_AT: usize = BLOCK as usize - 4;
const NUMBERS: usize = 12;
const DEVICES_AT: usize = 256;
const DEVICE_BYTES: usize = 32;
const SPACE_AT: usize = 1536;

/// Label: identity of a device. Written when the device joins the pool, and again when the pool takes a
/// feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) pool_uuid: [u8; 16],
    pub(crate) device_uuid: [u8; 16],
    pub(crate) features: Features,
    pub(crate) version: u32,
    /// Which device of the pool it is.
    pub(crate) index: u32,
    /// Whether the device is a mirror: then its members have labels of their own, too.
    pub(crate) is_mirror: bool,
}

/// Feature flags of the format: one bit each for what not every program knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Features {
    /// A program that does not know one may use the pool all the same.
    pub(crate) compatible: u64,
    /// A program that does not know one may read the pool, but not change it.
    pub(crate) read_only_compatible: u64,
    /// A program that does not know one must not open the pool.
    pub(crate) incompatible: u64,
}

/// Incompatible feature: a device of the pool is a mirror. All labels of the pool say so.
pub(crate) const FEATURE_MIRROR: u64 = 1;

/// Features that this program knows.
pub(crate) const FEATURES_KNOWN: Features = Features {
    compatible: 0,
    read_only_compatible: 0,
    incompatible: FEATURE_MIRROR | INCOMPATIBLE_RECORDS | FEATURE_DEPARTURE | FEATURE_WITNESS,
};

/// Incompatible feature: the volume table has a volume of the array's records, of a kind that
/// earlier programs do not know.
pub(crate) const INCOMPATIBLE_RECORDS: u64 = 1 << 1;

/// Incompatible feature: the volume table may have a volume of what was moved from a device that
/// leaves, and the superblock's list of devices may have places that no device has.
pub(crate) const FEATURE_DEPARTURE: u64 = 1 << 2;

/// Incompatible feature: the membership list of a mirror may name a witness.
pub(crate) const FEATURE_WITNESS: u64 = 1 << 3;

impl Features {
    /// Nothing but some incompatible ones.
    pub(crate) const fn incompatible(incompatible: u64) -> Self {
        Self { compatible: 0, read_only_compatible: 0, incompatible }
    }

    /// Those of one or the other.
    #[must_use]
    pub(crate) const fn union(self, other: Self) -> Self {
        Self {
            compatible: self.compatible | other.compatible,
            read_only_compatible: self.read_only_compatible | other.read_only_compatible,
            incompatible: self.incompatible | other.incompatible,
        }
    }

    /// Those of both.
    #[must_use]
    pub(crate) const fn common(self, other: Self) -> Self {
        Self {
            compatible: self.compatible & other.compatible,
            read_only_compatible: self.read_only_compatible & other.read_only_compatible,
            incompatible: self.incompatible & other.incompatible,
        }
    }

    /// Whether all of some are among these.
    pub(crate) fn contain(self, others: Self) -> bool {
        self.union(others) == self
    }
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
    /// The devices by their numbers, and places that none has.
    pub(crate) devices: Vec<Device>,
    /// Where the journal goes on after this checkpoint: ring position, sequence number, and
    /// checksum of the unit before.
    pub(crate) journal_position: RingBlock,
    pub(crate) journal_sequence: u64,
    pub(crate) journal_crc: u32,
    pub(crate) table: TableRoot,
    /// Blocks that pages of the map and of the volume table occupy.
    pub(crate) pages: u64,
    pub(crate) space: SpaceRoot,
}

/// A device of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) uuid: [u8; 16],
    pub(crate) layout: Layout,
}

impl Device {
    /// No device has this number: one that had it has left.
    pub(crate) const NOTHING: Self = Self { uuid: [0; 16], layout: Layout::NOTHING };
}

impl Label {
    pub(crate) fn emit(&self) -> Buffer {
        let mut bytes = Buffer::zeroed(BLOCK as usize);
        bytes[..8].copy_from_slice(&LABEL_MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.pool_uuid);
        bytes[32..48].copy_from_slice(&self.device_uuid);
        bytes[48..56].copy_from_slice(&self.features.incompatible.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.features.read_only_compatible.to_le_bytes());
        bytes[64..72].copy_from_slice(&self.features.compatible.to_le_bytes());
        bytes[72..76].copy_from_slice(&self.index.to_le_bytes());
        bytes[76..80].copy_from_slice(&u32::from(self.is_mirror).to_le_bytes());
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
            features: Features {
                incompatible: u64_at(bytes, 48),
                read_only_compatible: u64_at(bytes, 56),
                compatible: u64_at(bytes, 64),
            },
            index: u32_at(bytes, 72),
            is_mirror: u32_at(bytes, 76) != 0,
        })
    }
}

impl Label {
    /// What two intact copies of a label say; `None` if they differ in more than features, of which
    /// one copy may have got more than the other before a crash.
    pub(crate) fn union(self, other: Self) -> Option<Self> {
        let features = self.features.union(other.features);
        let is_mirror = self.is_mirror || other.is_mirror;
        let of = |label: Self| Self { features, is_mirror, ..label };
        (of(self) == of(other)).then(|| of(self))
    }
}

impl Superblock {
    pub(crate) fn emit(&self) -> Buffer {
        let mut bytes = Buffer::zeroed(BLOCK as usize);
        bytes[..8].copy_from_slice(&SUPERBLOCK_MAGIC);
        bytes[16..32].copy_from_slice(&self.pool_uuid);
        let numbers: [u64; NUMBERS] = [
            self.epoch,
            self.generation,
            self.devices.len() as u64,
            self.devices.first().map_or(0, |device| device.layout.journal_blocks),
            self.journal_position.number(),
            self.journal_sequence,
            self.journal_crc.into(),
            self.table.leaves().into(),
            self.table.volume_leaves.into(),
            self.table.reap_entries.into(),
            self.pages,
            0,
        ];
        for (number, place) in numbers.iter().zip(bytes[32..].as_chunks_mut::<8>().0) {
            *place = number.to_le_bytes();
        }
        bytes[128..144].copy_from_slice(&emit_entry(self.table.root));
        for (device, place) in
            self.devices.iter().zip(bytes[DEVICES_AT..].as_chunks_mut::<DEVICE_BYTES>().0)
        {
            place[..16].copy_from_slice(&device.uuid);
            place[16..24].copy_from_slice(&device.layout.device_blocks.to_le_bytes());
        }
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
        let devices = parse_devices(bytes, number(2), number(3))?;
        let first_level: usize =
            devices.iter().map(|device| device.layout.first_level_pages()).sum();
        if first_level > FIRST_LEVEL_MAX || number(4) >= number(3) {
            return None;
        }
        let table = TableRoot {
            root: parse_entry(bytes[128..144].try_into().expect("16 bytes")),
            volume_leaves: number(8) as u32,
            reap_entries: number(9) as u32,
        };
        (u64::from(table.leaves()) == number(7)).then_some(())?;
        Some(Self {
            pool_uuid: bytes[16..32].try_into().expect("16 bytes"),
            epoch: number(0),
            generation: number(1),
            devices,
            journal_position: RingBlock::new(number(4)),
            journal_sequence: number(5),
            journal_crc: number(6) as u32,
            table,
            pages: number(10),
            space: parse_references(&bytes[SPACE_AT..], first_level)?,
        })
    }
}

fn parse_devices(bytes: &[u8], count: u64, journal_blocks: u64) -> Option<Vec<Device>> {
    let records = bytes[DEVICES_AT..].as_chunks::<DEVICE_BYTES>().0.iter().enumerate();
    let devices = records.take(count.try_into().ok()?).map(|(index, bytes)| {
        let journal_blocks = if index == 0 { journal_blocks } else { 0 };
        let layout = Layout { device_blocks: u64_at(bytes, 16), journal_blocks };
        let uuid = bytes[..16].try_into().expect("16 bytes");
        let device = Device { uuid, layout };
        let is_nothing = index > 0 && device == Device::NOTHING;
        (is_nothing || layout.is_sound(index == 0)).then_some(device)
    });
    let devices: Option<Vec<_>> = devices.collect();
    devices.filter(|devices| !devices.is_empty() && count <= DEVICES_MAX as u64)
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
        let layouts = [Layout::new(1 << 30, 0), Layout::without_journal(1 << 40)];
        let pages = layouts.iter().map(Layout::first_level_pages).sum();
        let device = |layout| Device { uuid: [9; 16], layout };
        Superblock {
            pool_uuid: [1; 16],
            epoch: 2,
            generation: 3,
            devices: layouts.map(device).to_vec(),
            journal_position: RingBlock::new(4),
            journal_sequence: 5,
            journal_crc: 6,
            table: TableRoot {
                root: crate::entry::Entry::page(crate::address::Address::from_bits(7), 8)
                    .with_mapped(9),
                volume_leaves: 10,
                reap_entries: 129,
            },
            pages: 13,
            space: vec![crate::space::Reference::NONE; pages],
        }
    }

    #[test]
    fn a_superblock_reads_back_and_any_flipped_bit_is_noticed() {
        let bytes = example().emit().to_vec();
        assert_eq!(Superblock::parse(&bytes), Some(example()));
        for byte in (0..200).chain(256..320).chain(1536..1560).chain(4090..4096) {
            let mut broken = bytes.clone();
            broken[byte] ^= 4;
            assert_eq!(Superblock::parse(&broken), None, "byte {byte}");
        }
    }

    #[test]
    fn a_label_tells_foreign_from_damaged() {
        let features = Features { compatible: 1, read_only_compatible: 2, incompatible: 4 };
        let label = Label {
            pool_uuid: [1; 16],
            device_uuid: [2; 16],
            features,
            version: FORMAT_VERSION,
            index: 7,
            is_mirror: true,
        };
        let mut bytes = label.emit().to_vec();
        assert_eq!(Label::parse(&bytes), Ok(label));
        bytes[20] ^= 1;
        assert_eq!(Label::parse(&bytes), Err(LabelError::Damaged));
        assert_eq!(Label::parse(&[0; 4096]), Err(LabelError::Foreign));
    }
}
