//! Format of journal records: the changes of one commit, in the order in which they happened.
//!
//! A record is a type byte, a byte and two bytes of zero, its length in bytes (32 bits), then its
//! fields, little-endian; so a reader that does not know a type refuses cleanly.

use block::VolumeId;

use crate::address::{Address, BlockRange, VolumeBlock};
use crate::volume::Volume;

/// A change of the pool. Blocks are counted in 4 KiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// Blocks of a volume now lie in adjacent blocks of the device.
    Write { volume: VolumeId, first: VolumeBlock, start: Address, crcs: Vec<u32> },
    /// All of these blocks of a volume now are the same block of the device.
    Fill { volume: VolumeId, range: BlockRange, block: Address, crc: u32 },
    /// Blocks of a volume become holes.
    Zero { volume: VolumeId, range: BlockRange },
    /// Blocks of a volume become references to those of another, or of its own.
    Clone { source: VolumeId, source_first: VolumeBlock, volume: VolumeId, range: BlockRange },
    /// A new volume; with a source, with that volume's content.
    CreateVolume { volume: Box<Volume>, source: Option<VolumeId> },
    /// A volume is gone.
    DeleteVolume { volume: VolumeId },
    /// A volume has another size; what lies beyond is gone.
    ResizeVolume { volume: VolumeId, size_bytes: u64 },
    /// A device has another size.
    ExtendDevice { device: u32, device_blocks: u64 },
    /// A device has joined the pool.
    AddDevice { uuid: [u8; 16], device_blocks: u64 },
    /// A volume has the content and the size of another one.
    RevertVolume { volume: VolumeId, source: VolumeId },
}

const WRITE: u8 = 1;
const FILL: u8 = 2;
const ZERO: u8 = 3;
const CLONE: u8 = 4;
const CREATE_VOLUME: u8 = 5;
const DELETE_VOLUME: u8 = 6;
const RESIZE_VOLUME: u8 = 7;
const EXTEND_DEVICE: u8 = 8;
const ADD_DEVICE: u8 = 9;
const REVERT_VOLUME: u8 = 10;

const HEADER: usize = 8;

/// Writes numbers one after the other.
struct Writer<'a>(&'a mut Vec<u8>);

impl Writer<'_> {
    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
}

/// Reads numbers one after the other.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    fn block(&mut self) -> Option<VolumeBlock> {
        self.u64().map(VolumeBlock::new)
    }

    fn range(&mut self) -> Option<BlockRange> {
        Some(BlockRange { first: self.block()?, count: self.u64()? })
    }

    fn address(&mut self) -> Option<Address> {
        self.u64().map(Address::from_bits)
    }

    fn volume(&mut self) -> Option<VolumeId> {
        self.u64().map(VolumeId)
    }
}

impl Record {
    /// Bytes of the record in the journal.
    pub(crate) fn length(&self) -> usize {
        HEADER
            + match self {
                Self::Write { crcs, .. } => 24 + 4 * crcs.len(),
                Self::Fill { .. } => 36,
                Self::Zero { .. } => 24,
                Self::Clone { .. } => 40,
                Self::CreateVolume { .. } => 16 + crate::volume::VOLUME_BYTES,
                Self::DeleteVolume { .. } => 8,
                Self::ResizeVolume { .. }
                | Self::ExtendDevice { .. }
                | Self::RevertVolume { .. } => 16,
                Self::AddDevice { .. } => 24,
            }
    }

    /// Appends the record.
    pub(crate) fn emit(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&[self.code(), 0, 0, 0]);
        bytes.extend_from_slice(&(self.length() as u32).to_le_bytes());
        let mut writer = Writer(bytes);
        match self {
            Self::Write { volume, first, start, crcs } => {
                [volume.0, first.number(), start.bits()]
                    .into_iter()
                    .for_each(|value| writer.u64(value));
                crcs.iter().for_each(|&crc| writer.u32(crc));
            }
            Self::Fill { volume, range, block, crc } => {
                let fields = [volume.0, range.first.number(), range.count, block.bits()];
                fields.into_iter().for_each(|value| writer.u64(value));
                writer.u32(*crc);
            }
            Self::Zero { volume, range } => {
                [volume.0, range.first.number(), range.count]
                    .into_iter()
                    .for_each(|value| writer.u64(value));
            }
            Self::Clone { source, source_first, volume, range } => {
                let BlockRange { first, count } = *range;
                let fields = [source.0, source_first.number(), volume.0, first.number(), count];
                fields.into_iter().for_each(|value| writer.u64(value));
            }
            Self::CreateVolume { volume, source } => {
                writer.u64(u64::from(source.is_some()));
                writer.u64(source.map_or(0, |source| source.0));
                bytes.extend_from_slice(&volume.emit());
            }
            Self::DeleteVolume { volume } => writer.u64(volume.0),
            Self::ResizeVolume { volume, size_bytes } => {
                [volume.0, *size_bytes].into_iter().for_each(|value| writer.u64(value));
            }
            Self::ExtendDevice { device, device_blocks } => {
                [u64::from(*device), *device_blocks]
                    .into_iter()
                    .for_each(|value| writer.u64(value));
            }
            Self::AddDevice { uuid, device_blocks } => {
                writer.u64(*device_blocks);
                bytes.extend_from_slice(uuid);
            }
            Self::RevertVolume { volume, source } => {
                [volume.0, source.0].into_iter().for_each(|value| writer.u64(value));
            }
        }
    }

    fn code(&self) -> u8 {
        match self {
            Self::Write { .. } => WRITE,
            Self::Fill { .. } => FILL,
            Self::Zero { .. } => ZERO,
            Self::Clone { .. } => CLONE,
            Self::CreateVolume { .. } => CREATE_VOLUME,
            Self::DeleteVolume { .. } => DELETE_VOLUME,
            Self::ResizeVolume { .. } => RESIZE_VOLUME,
            Self::ExtendDevice { .. } => EXTEND_DEVICE,
            Self::AddDevice { .. } => ADD_DEVICE,
            Self::RevertVolume { .. } => REVERT_VOLUME,
        }
    }

    /// Reads the record at the beginning of `bytes` and returns the rest; `None` if there is none
    /// that this program knows.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let header = bytes.first_chunk::<HEADER>()?;
        let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        let fields = bytes.get(HEADER..length)?;
        let record = Self::parse_fields(header[0], fields)?;
        (record.length() == length).then_some((record, &bytes[length..]))
    }

    fn parse_fields(code: u8, fields: &[u8]) -> Option<Self> {
        let mut reader = Reader(fields);
        Some(match code {
            WRITE => Self::Write {
                volume: reader.volume()?,
                first: reader.block()?,
                start: reader.address()?,
                crcs: std::iter::from_fn(|| reader.u32()).collect(),
            },
            FILL => Self::Fill {
                volume: reader.volume()?,
                range: reader.range()?,
                block: reader.address()?,
                crc: reader.u32()?,
            },
            ZERO => Self::Zero { volume: reader.volume()?, range: reader.range()? },
            CLONE => Self::Clone {
                source: reader.volume()?,
                source_first: reader.block()?,
                volume: reader.volume()?,
                range: reader.range()?,
            },
            CREATE_VOLUME => Self::parse_create(reader)?,
            DELETE_VOLUME => Self::DeleteVolume { volume: reader.volume()? },
            RESIZE_VOLUME => {
                Self::ResizeVolume { volume: reader.volume()?, size_bytes: reader.u64()? }
            }
            EXTEND_DEVICE => Self::ExtendDevice {
                device: u32::try_from(reader.u64()?).ok()?,
                device_blocks: reader.u64()?,
            },
            ADD_DEVICE => {
                Self::AddDevice { device_blocks: reader.u64()?, uuid: *reader.0.first_chunk()? }
            }
            REVERT_VOLUME => {
                Self::RevertVolume { volume: reader.volume()?, source: reader.volume()? }
            }
            _ => return None,
        })
    }

    fn parse_create(mut reader: Reader<'_>) -> Option<Self> {
        let has_source = reader.u64()? != 0;
        let source = reader.volume()?;
        let volume = Volume::parse(reader.0.first_chunk()?)?;
        Some(Self::CreateVolume { volume: Box::new(volume), source: has_source.then_some(source) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<Record> {
        let volume = VolumeId(7);
        let block = VolumeBlock::new;
        let range = |first, count| BlockRange { first: block(first), count };
        vec![
            Record::Write {
                volume,
                first: block(1),
                start: Address::from_bits(99),
                crcs: vec![1, 2, u32::MAX],
            },
            Record::Fill { volume, range: range(1, 8192), block: Address::from_bits(4), crc: 5 },
            Record::Zero { volume, range: range(0, u64::MAX) },
            Record::Clone {
                source: VolumeId(1),
                source_first: block(2),
                volume,
                range: range(3, 4),
            },
            Record::DeleteVolume { volume },
            Record::ResizeVolume { volume, size_bytes: 1 << 40 },
            Record::ExtendDevice { device: 3, device_blocks: 1 << 30 },
            Record::AddDevice { uuid: [7; 16], device_blocks: 1 << 20 },
            Record::RevertVolume { volume, source: VolumeId(9) },
        ]
    }

    #[test]
    fn records_read_back_in_order() {
        let mut bytes = Vec::new();
        examples().iter().for_each(|record| record.emit(&mut bytes));
        let total: usize = examples().iter().map(Record::length).sum();
        assert_eq!(bytes.len(), total);
        let mut rest = &bytes[..];
        for expected in examples() {
            let (record, after) = Record::parse(rest).unwrap();
            assert_eq!(record, expected);
            rest = after;
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn broken_records_are_refused() {
        for record in examples() {
            let mut bytes = Vec::new();
            record.emit(&mut bytes);
            for cut in 0..bytes.len() {
                assert_eq!(Record::parse(&bytes[..cut]), None);
            }
            bytes[0] = 200;
            assert_eq!(Record::parse(&bytes), None);
        }
    }
}
