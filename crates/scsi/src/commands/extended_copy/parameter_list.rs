//! The parameter list of EXTENDED COPY (LID1) (SPC-4 6.4.2 to 6.4.6).

use block::{BlockCount, Lba};

use super::refused;
use crate::completion::Completion;
use crate::limits::{CSCD_DESCRIPTORS_MAX, DESCRIPTOR_LIST_BYTES_MAX, SEGMENT_DESCRIPTORS_MAX};
use crate::sense::{self, Sense};

/// DESCRIPTOR TYPE CODE of an identification descriptor CSCD descriptor.
pub(in crate::commands) const CSCD_NAA: u8 = 0xe4;

/// DESCRIPTOR TYPE CODE of a block device to block device segment.
pub(in crate::commands) const SEGMENT_BLOCK_TO_BLOCK: u8 = 0x02;

const HEADER_BYTES: usize = 16;
const CSCD_BYTES: usize = 32;
const SEGMENT_BYTES: usize = 28;

/// SPC-4 6.4.3.2: what the list identifier is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListIdUsage {
    /// 00b: it names the copy; data about it is held.
    Held,
    /// 10b: it names the copy; data need not be held.
    NotHeld,
    /// 11b: there is none. What ESXi sends.
    None,
}

/// A copy source or destination.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cscd {
    /// `None` if the NUL bit says that there is no device, or the designator is not one of ours.
    pub(super) naa: Option<[u8; 16]>,
    /// DISK BLOCK LENGTH, or 0.
    pub(super) block_bytes: u32,
    /// First byte of the descriptor in the list.
    pub(super) position: usize,
}

/// Blocks to copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// Index of the source CSCD.
    pub(super) source: u16,
    /// Index of the destination CSCD.
    pub(super) destination: u16,
    pub(super) blocks: BlockCount,
    pub(super) source_lba: Lba,
    pub(super) destination_lba: Lba,
    /// First byte of the descriptor in the list.
    pub(super) position: usize,
}

/// A parameter list whose form is right.
#[derive(Debug)]
pub(super) struct ParameterList {
    pub(super) list_id: u8,
    pub(super) list_id_usage: ListIdUsage,
    pub(super) cscds: Vec<Cscd>,
    pub(super) segments: Vec<Segment>,
}

impl ParameterList {
    pub(super) fn parse(list: &[u8]) -> Result<Self, Completion> {
        if list.len() < HEADER_BYTES {
            return Err(length_error());
        }
        let list_id_usage = parse_usage(list)?;
        let cscd_bytes = usize::from(u16_at(list, 2));
        let segment_bytes = u32_at(list, 8) as usize;
        if cscd_bytes.saturating_add(segment_bytes) > DESCRIPTOR_LIST_BYTES_MAX {
            return Err(length_error());
        }
        // There is no segment type of ours that uses inline data.
        if u32_at(list, 12) != 0 {
            return Err(refused(sense::INLINE_DATA_LENGTH_EXCEEDED, 12));
        }
        let segments_at = HEADER_BYTES + cscd_bytes;
        let end = segments_at + segment_bytes;
        if list.len() < end {
            return Err(length_error());
        }
        Ok(Self {
            list_id: list[0],
            list_id_usage,
            cscds: parse_cscds(list, segments_at)?,
            segments: parse_segments(list, segments_at, end)?,
        })
    }
}

fn length_error() -> Completion {
    Sense::from(sense::PARAMETER_LIST_LENGTH_ERROR).into()
}

fn parse_usage(list: &[u8]) -> Result<ListIdUsage, Completion> {
    match list[1] >> 3 & 3 {
        0b00 => Ok(ListIdUsage::Held),
        0b10 => Ok(ListIdUsage::NotHeld),
        // SPC-4 6.4.3.2: then the list identifier is zero.
        0b11 if list[0] == 0 => Ok(ListIdUsage::None),
        0b11 => Err(refused(sense::INVALID_FIELD_IN_PARAMETER_LIST, 0)),
        _ => Err(refused(sense::INVALID_FIELD_IN_PARAMETER_LIST, 1)),
    }
}

fn parse_cscds(list: &[u8], end: usize) -> Result<Vec<Cscd>, Completion> {
    let mut cscds = Vec::new();
    let mut position = HEADER_BYTES;
    while position < end {
        if cscds.len() == CSCD_DESCRIPTORS_MAX {
            return Err(refused(sense::TOO_MANY_TARGET_DESCRIPTORS, position));
        }
        if list[position] != CSCD_NAA {
            return Err(refused(sense::UNSUPPORTED_TARGET_DESCRIPTOR_TYPE_CODE, position));
        }
        let descriptor = list.get(position..end.min(position + CSCD_BYTES));
        let descriptor = descriptor.and_then(|bytes| bytes.first_chunk::<CSCD_BYTES>());
        cscds.push(parse_cscd(descriptor.ok_or_else(length_error)?, position)?);
        position += CSCD_BYTES;
    }
    Ok(cscds)
}

fn parse_cscd(descriptor: &[u8; CSCD_BYTES], position: usize) -> Result<Cscd, Completion> {
    const NUL: u8 = 0x20;
    const PERIPHERAL_DEVICE_TYPE: u8 = 0x1f;
    let invalid = |byte| refused(sense::INVALID_FIELD_IN_PARAMETER_LIST, position + byte);
    // SPC-4 6.4.5.1: LU ID TYPE means nothing for this type of descriptor.
    if descriptor[1] & PERIPHERAL_DEVICE_TYPE != 0 {
        return Err(invalid(1));
    }
    let is_naa = descriptor[4] & 0x0f == 1 && descriptor[5] & 0x3f == 3 && descriptor[7] == 16;
    let is_null = descriptor[1] & NUL != 0;
    let naa: [u8; 16] = descriptor[8..24].try_into().expect("16 bytes");
    Ok(Cscd {
        naa: (is_naa && !is_null).then_some(naa),
        block_bytes: u32_at(descriptor, 28) & 0xff_ffff,
        position,
    })
}

fn parse_segments(list: &[u8], start: usize, end: usize) -> Result<Vec<Segment>, Completion> {
    let mut segments = Vec::new();
    let mut position = start;
    while position < end {
        if segments.len() == SEGMENT_DESCRIPTORS_MAX {
            return Err(refused(sense::TOO_MANY_SEGMENT_DESCRIPTORS, position));
        }
        if list[position] != SEGMENT_BLOCK_TO_BLOCK {
            return Err(refused(sense::UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE_CODE, position));
        }
        let descriptor = list.get(position..end.min(position + SEGMENT_BYTES));
        let descriptor = descriptor.and_then(|bytes| bytes.first_chunk::<SEGMENT_BYTES>());
        segments.push(parse_segment(descriptor.ok_or_else(length_error)?, position)?);
        position += SEGMENT_BYTES;
    }
    Ok(segments)
}

fn parse_segment(descriptor: &[u8; SEGMENT_BYTES], position: usize) -> Result<Segment, Completion> {
    if usize::from(u16_at(descriptor, 2)) != SEGMENT_BYTES - 4 {
        return Err(refused(sense::INVALID_FIELD_IN_PARAMETER_LIST, position + 2));
    }
    Ok(Segment {
        source: u16_at(descriptor, 4),
        destination: u16_at(descriptor, 6),
        blocks: BlockCount(u64::from(u16_at(descriptor, 10))),
        source_lba: Lba(u64_at(descriptor, 12)),
        destination_lba: Lba(u64_at(descriptor, 20)),
        position,
    })
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().expect("2 bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}
