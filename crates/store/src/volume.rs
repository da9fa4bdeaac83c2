//! Volumes in memory, and the format of their records on disk.

use block::{BLOCK, VolumeId};

use crate::address::{BlockRange, DeviceNumber, VolumeBlock};
use crate::change::{RECORDS, device_of_moved, moved_from};
use crate::entry::{Entry, emit_entry, levels_for, parse_entry};
use crate::limits::{NAME_BYTES_MAX, VOLUME_BYTES_MAX};
use crate::map::{Changed, Root};

/// Bytes of a volume's record.
pub(crate) const VOLUME_BYTES: usize = 256;

/// What the record of the array's records has in the place where others say whether they are
/// snapshots.
const KIND_RECORDS: u8 = 2;

/// The same of the volume of what was moved from a device that leaves.
const KIND_MOVED: u8 = 3;

/// Levels of the largest volume's map.
const LEVELS_MAX: u8 = 5;

/// A new volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSpec {
    /// Its name in the array; never reused.
    pub id: VolumeId,
    /// Its name in the pool, 1 to 63 bytes.
    pub name: String,
    /// Bytes, a multiple of 4,096, at most 64 TiB.
    pub size_bytes: u64,
    /// Whether all of its space is set aside.
    pub thick: bool,
    /// NAA identifier.
    pub naa: [u8; 16],
    /// Whether it is a snapshot: its content never changes.
    pub snapshot: bool,
    /// When it was made, seconds since 1970.
    pub created: u64,
}

/// A volume of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// What it was made as; name and size may have been changed since.
    pub spec: VolumeSpec,
    /// The volume it was cloned from, which may be gone.
    pub origin: Option<VolumeId>,
    /// Bytes that hold data, some perhaps shared.
    pub mapped_bytes: u64,
    pub(crate) root: Root,
    /// An upper bound of the mapped blocks that are shared with other volumes; they need new space
    /// when they are overwritten.
    pub(crate) shared_blocks: u64,
    /// Blocks added to `shared` since the last count of it began.
    pub(crate) shared_since_count: u64,
}

impl Volume {
    pub(crate) fn new(spec: VolumeSpec) -> Self {
        Self {
            root: Root { entry: Entry::HOLE, levels: levels_for(spec.size_bytes / BLOCK) },
            spec,
            origin: None,
            mapped_bytes: 0,
            shared_blocks: 0,
            shared_since_count: 0,
        }
    }

    /// The hidden volume of the array's records.
    pub(crate) fn records(size_bytes: u64) -> Self {
        Self::new(VolumeSpec {
            id: RECORDS,
            name: String::new(),
            size_bytes,
            thick: false,
            naa: [0; 16],
            snapshot: false,
            created: 0,
        })
    }

    /// The hidden volume of what was moved from a device of so many blocks.
    pub(crate) fn moved(device: DeviceNumber, blocks: u64) -> Self {
        Self::new(VolumeSpec {
            id: moved_from(device),
            name: String::new(),
            size_bytes: blocks * BLOCK,
            thick: false,
            naa: [0; 16],
            snapshot: false,
            created: 0,
        })
    }

    /// Whether nobody is shown it.
    pub(crate) fn is_hidden(&self) -> bool {
        self.is_records() || device_of_moved(self.spec.id).is_some()
    }

    /// Of a volume of what was moved: whether moving rests until an administrator lets it go on.
    pub(crate) fn rests(&self) -> bool {
        self.spec.created != 0
    }

    /// Of a volume of what was moved: lets moving rest, or go on.
    pub(crate) fn set_rests(&mut self, rests: bool) {
        self.spec.created = rests.into();
    }

    /// What the record has in the place where others say whether they are snapshots.
    fn kind(&self) -> u8 {
        match () {
            () if self.is_records() => KIND_RECORDS,
            () if self.is_hidden() => KIND_MOVED,
            () => u8::from(self.spec.snapshot),
        }
    }

    /// Whether it is that of the array's records.
    pub(crate) fn is_records(&self) -> bool {
        self.spec.id == RECORDS
    }

    /// Blocks of 4 KiB.
    pub(crate) fn blocks(&self) -> u64 {
        self.spec.size_bytes / BLOCK
    }

    /// The blocks that it loses when it is made so many long; none if it grows.
    pub(crate) fn blocks_from(&self, blocks: u64) -> BlockRange {
        BlockRange::between(VolumeBlock::new(blocks), VolumeBlock::new(self.blocks()))
    }

    /// Notes that so many blocks more, or fewer, are mapped.
    pub(crate) fn add_mapped(&mut self, blocks: i64) {
        let bytes = self.mapped_bytes as i64 + blocks * BLOCK as i64;
        self.mapped_bytes = u64::try_from(bytes).expect("no volume maps less than nothing");
        self.shared_blocks = self.shared_blocks.min(self.mapped_bytes / BLOCK);
    }

    /// Notes what a change did.
    pub(crate) fn add_changed(&mut self, changed: Changed) {
        self.shared_blocks = self.shared_blocks.saturating_sub(changed.unshared);
        self.add_mapped(changed.mapped);
    }

    /// Notes that so many of its blocks more may be shared.
    pub(crate) fn add_shared(&mut self, blocks: u64) {
        self.shared_blocks = (self.shared_blocks + blocks).min(self.mapped_bytes / BLOCK);
        self.shared_since_count = self.shared_since_count.saturating_add(blocks);
    }

    /// Bytes that may be shared with other volumes, or within this one: an upper bound.
    pub fn shared_bytes(&self) -> u64 {
        self.shared_blocks * BLOCK
    }

    /// Blocks that it has for itself: a lower bound.
    pub(crate) fn unshared_blocks(&self) -> u64 {
        self.mapped_bytes / BLOCK - self.shared_blocks
    }

    /// Blocks that are promised to a thick volume and not yet its own.
    pub(crate) fn owed_blocks(&self) -> u64 {
        if self.spec.thick && !self.spec.snapshot {
            self.blocks() - self.mapped_bytes / BLOCK + self.shared_blocks
        } else {
            0
        }
    }

    pub(crate) fn emit(&self) -> [u8; VOLUME_BYTES] {
        let mut bytes = [0; VOLUME_BYTES];
        bytes[0..8].copy_from_slice(&self.spec.id.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.spec.size_bytes.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.spec.naa);
        bytes[32..48].copy_from_slice(&emit_entry(self.root.entry));
        bytes[48..56].copy_from_slice(&self.mapped_bytes.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.shared_blocks.to_le_bytes());
        bytes[64] = self.root.levels;
        bytes[65] = u8::from(self.spec.thick);
        bytes[66] = self.spec.name.len() as u8;
        bytes[67] = self.kind();
        bytes[68..68 + self.spec.name.len()].copy_from_slice(self.spec.name.as_bytes());
        bytes[136..144].copy_from_slice(&self.origin.map_or(0, |origin| origin.0).to_le_bytes());
        bytes[144..152].copy_from_slice(&self.spec.created.to_le_bytes());
        bytes
    }

    /// Reads a record; `None` if it makes no sense.
    pub(crate) fn parse(bytes: &[u8; VOLUME_BYTES]) -> Option<Self> {
        let u64_at =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes of 256"));
        let name_length = bytes[66] as usize;
        let is_kind = bytes[67] <= KIND_MOVED;
        if name_length > NAME_BYTES_MAX || bytes[65] > 1 || !is_kind {
            return None;
        }
        let spec = VolumeSpec {
            id: VolumeId(u64_at(0)),
            name: str::from_utf8(&bytes[68..68 + name_length]).ok()?.to_owned(),
            size_bytes: u64_at(8),
            thick: bytes[65] == 1,
            naa: bytes[16..32].try_into().expect("16 bytes of 256"),
            snapshot: bytes[67] == 1,
            created: u64_at(144),
        };
        let volume = Self {
            spec,
            root: Root {
                entry: parse_entry(bytes[32..48].try_into().expect("16 bytes of 256")),
                levels: bytes[64],
            },
            mapped_bytes: u64_at(48),
            shared_blocks: u64_at(56),
            shared_since_count: 0,
            origin: Some(VolumeId(u64_at(136))).filter(|origin| origin.0 != 0),
        };
        let is_moved = volume.kind() == KIND_MOVED;
        let sound = volume.kind() == bytes[67]
            && (is_size(volume.spec.size_bytes) || is_moved && volume.spec.size_bytes > 0)
            && volume.mapped_bytes <= volume.spec.size_bytes
            && (levels_for(volume.blocks())..=LEVELS_MAX).contains(&volume.root.levels);
        sound.then_some(volume)
    }
}

/// Whether a volume can have so many bytes.
pub(crate) fn is_size(size_bytes: u64) -> bool {
    size_bytes > 0 && size_bytes.is_multiple_of(BLOCK) && size_bytes <= VOLUME_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_reads_back_as_written_and_nonsense_is_refused() {
        let mut volume = Volume::new(VolumeSpec {
            id: VolumeId(u64::MAX),
            name: "x".repeat(63),
            size_bytes: 200 << 30,
            thick: true,
            naa: [6; 16],
            snapshot: true,
            created: 1_800_000_000,
        });
        volume.origin = Some(VolumeId(3));
        volume.root.entry = Entry::page(crate::address::Address::from_bits(77), 5).with_mapped(12);
        volume.mapped_bytes = 12 * BLOCK;
        let bytes = volume.emit();
        assert_eq!(Volume::parse(&bytes), Some(volume));
        for (at, value) in [(8, 1), (64, 9), (65, 2), (67, 2), (67, 3), (66, 64), (68, 0xff)] {
            let mut broken = bytes;
            broken[at] = value;
            assert_eq!(Volume::parse(&broken), None, "byte {at}");
        }
    }

    #[test]
    fn the_volume_of_records_is_of_a_kind_of_its_own() {
        let records = Volume::records(1 << 30);
        let bytes = records.emit();
        assert_eq!(bytes[67], KIND_RECORDS);
        assert_eq!(Volume::parse(&bytes), Some(records));
        for (at, value) in [(67, 0), (67, 1), (0, 7)] {
            let mut broken = bytes;
            broken[at] = value;
            assert_eq!(Volume::parse(&broken), None, "byte {at}");
        }
    }
}
