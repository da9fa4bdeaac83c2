//! Segment descriptors (SPC-4 6.4.6): block device to block device, by blocks or by bytes.

use super::parameter_list::{invalid, length_error, u16_at, u32_at, u64_at};
use super::refused;
use crate::completion::Completion;
use crate::limits::SEGMENT_DESCRIPTORS_MAX;
use crate::sense;

/// DESCRIPTOR TYPE CODE of a block device to block device segment.
pub(in crate::commands) const BLOCK_TO_BLOCK: u8 = 0x02;

/// DESCRIPTOR TYPE CODE of a block device to block device segment with byte offsets.
pub(in crate::commands) const BLOCK_TO_BLOCK_WITH_OFFSET: u8 = 0x0a;

/// One segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// CSCD identifier of the source.
    pub(super) source: u16,
    /// CSCD identifier of the destination.
    pub(super) destination: u16,
    pub(super) amount: Amount,
    pub(super) source_lba: u64,
    pub(super) destination_lba: u64,
    /// First byte of the descriptor in the list.
    pub(super) position: usize,
}

/// How much a segment copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    /// Blocks of the source.
    SourceBlocks(u16),
    /// Blocks of the destination (DC).
    DestinationBlocks(u16),
    /// Bytes, from an offset in the first block of either end.
    Bytes { count: u32, source_offset: u16, destination_offset: u16 },
}

/// All descriptors between two bytes of a list.
pub(super) fn parse_all(list: &[u8], start: usize, end: usize) -> Result<Vec<Segment>, Completion> {
    let mut segments = Vec::new();
    let mut position = start;
    while position < end {
        if segments.len() == SEGMENT_DESCRIPTORS_MAX {
            return Err(refused(sense::TOO_MANY_SEGMENT_DESCRIPTORS, position));
        }
        let (segment, length) = parse(&list[position..end], position)?;
        segments.push(segment);
        position += length;
    }
    Ok(segments)
}

/// The segment that a list begins with, and the length of its descriptor.
fn parse(list: &[u8], position: usize) -> Result<(Segment, usize), Completion> {
    const DC: u8 = 0x02;
    let length = match list[0] {
        BLOCK_TO_BLOCK => 28,
        BLOCK_TO_BLOCK_WITH_OFFSET => 32,
        _ => return Err(refused(sense::UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE_CODE, position)),
    };
    let descriptor = list.get(..length).ok_or_else(length_error)?;
    // DESCRIPTOR LENGTH counts what follows it.
    if usize::from(u16_at(descriptor, 2)) != length - 4 {
        return Err(invalid(position + 2));
    }
    let amount = match descriptor[0] {
        BLOCK_TO_BLOCK_WITH_OFFSET => Amount::Bytes {
            count: u32_at(descriptor, 8),
            source_offset: u16_at(descriptor, 28),
            destination_offset: u16_at(descriptor, 30),
        },
        _ if descriptor[1] & DC != 0 => Amount::DestinationBlocks(u16_at(descriptor, 10)),
        _ => Amount::SourceBlocks(u16_at(descriptor, 10)),
    };
    let segment = Segment {
        source: u16_at(descriptor, 4),
        destination: u16_at(descriptor, 6),
        amount,
        source_lba: u64_at(descriptor, 12),
        destination_lba: u64_at(descriptor, 20),
        position,
    };
    Ok((segment, length))
}
