//! The parameter lists of EXTENDED COPY (LID1) and (LID4) (SPC-4 6.4.2 to 6.4.6, 6.5.2).

use super::cscd::{self, Cscd};
use super::refused;
use super::segment::{self, Segment};
use crate::completion::Completion;
use crate::limits::DESCRIPTOR_LIST_BYTES_MAX;
use crate::sense::{self, Sense};

const LID1_HEADER_BYTES: usize = 16;
const LID4_HEADER_BYTES: usize = 48;

/// SPC-4 6.4.3.2: what the list identifier is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListIdUsage {
    /// 00b: it names the copy, whose outcome is held.
    Held,
    /// 10b: the same, but the outcome need not be held.
    MayBeDiscarded,
    /// 11b: there is none. What ESXi sends.
    None,
}

/// A parameter list whose form is right.
#[derive(Debug)]
pub(super) struct ParameterList {
    /// LIST IDENTIFIER, unless there is none.
    pub(super) list_id: Option<u32>,
    /// Whether the copy goes without a name if another of the nexus that is under way has it: nobody
    /// holds its outcome then, which the host said need not be held.
    pub(super) may_go_unnamed: bool,
    /// IMMED: the command ends before the copy does.
    pub(super) immediate: bool,
    pub(super) cscds: Vec<Cscd>,
    pub(super) segments: Vec<Segment>,
}

impl ParameterList {
    /// The list of EXTENDED COPY (LID1).
    pub(super) fn parse_lid1(list: &[u8]) -> Result<Self, Completion> {
        if list.len() < LID1_HEADER_BYTES {
            return Err(length_error());
        }
        let usage = parse_usage(list[1], 1)?;
        let list_id = match usage {
            ListIdUsage::Held | ListIdUsage::MayBeDiscarded => Some(u32::from(list[0])),
            // SPC-4 6.4.3.2: then the list identifier is zero.
            ListIdUsage::None if list[0] == 0 => None,
            ListIdUsage::None => return Err(invalid(0)),
        };
        let lengths = Lengths {
            header: LID1_HEADER_BYTES,
            cscds: usize::from(u16_at(list, 2)),
            segments: u32_at(list, 8) as usize,
            inline_data: (u32_at(list, 12), 12),
        };
        let (cscds, segments) = lengths.parse(list)?;
        let may_go_unnamed = usage == ListIdUsage::MayBeDiscarded;
        Ok(Self { list_id, may_go_unnamed, immediate: false, cscds, segments })
    }

    /// The list of EXTENDED COPY (LID4).
    pub(super) fn parse_lid4(list: &[u8]) -> Result<Self, Completion> {
        const G_SENSE: u8 = 0x02;
        const IMMED: u8 = 0x01;
        if list.len() < LID4_HEADER_BYTES {
            return Err(length_error());
        }
        // PARAMETER LIST FORMAT 01h, and one header descriptor of 32 bytes with type code FFh.
        let fixed = [(0, 0x01), (2, 0x00), (3, 0x20), (16, 0xff)];
        if let Some((byte, _)) = fixed.into_iter().find(|&(byte, value)| list[byte] != value) {
            return Err(invalid(byte));
        }
        // Sense data with GOOD status is not returned.
        if list[15] & G_SENSE != 0 {
            return Err(invalid(15));
        }
        let immediate = list[15] & IMMED != 0;
        let usage = parse_usage(list[1], 1)?;
        let list_id = match usage {
            ListIdUsage::Held | ListIdUsage::MayBeDiscarded => Some(u32_at(list, 20)),
            ListIdUsage::None if u32_at(list, 20) != 0 => return Err(invalid(20)),
            // Nobody could learn how a copy without a name ended.
            ListIdUsage::None if immediate => return Err(invalid(15)),
            ListIdUsage::None => None,
        };
        let lengths = Lengths {
            header: LID4_HEADER_BYTES,
            cscds: usize::from(u16_at(list, 42)),
            segments: usize::from(u16_at(list, 44)),
            inline_data: (u32::from(u16_at(list, 46)), 46),
        };
        let (cscds, segments) = lengths.parse(list)?;
        let may_go_unnamed = usage == ListIdUsage::MayBeDiscarded && !immediate;
        Ok(Self { list_id, may_go_unnamed, immediate, cscds, segments })
    }
}

/// How long the parts of a list are, in bytes.
struct Lengths {
    header: usize,
    cscds: usize,
    segments: usize,
    /// INLINE DATA LENGTH, and the first byte of that field.
    inline_data: (u32, usize),
}

impl Lengths {
    fn parse(&self, list: &[u8]) -> Result<(Vec<Cscd>, Vec<Segment>), Completion> {
        if self.cscds.saturating_add(self.segments) > DESCRIPTOR_LIST_BYTES_MAX {
            return Err(length_error());
        }
        // There is no segment type of ours that uses inline data.
        let (inline_bytes, field) = self.inline_data;
        if inline_bytes != 0 {
            return Err(refused(sense::INLINE_DATA_LENGTH_EXCEEDED, field));
        }
        let segments_at = self.header + self.cscds;
        let end = segments_at + self.segments;
        if list.len() < end {
            return Err(length_error());
        }
        let cscds = cscd::parse_all(list, self.header, segments_at)?;
        Ok((cscds, segment::parse_all(list, segments_at, end)?))
    }
}

pub(super) fn length_error() -> Completion {
    Sense::from(sense::PARAMETER_LIST_LENGTH_ERROR).into()
}

pub(super) fn invalid(byte: usize) -> Completion {
    refused(sense::INVALID_FIELD_IN_PARAMETER_LIST, byte)
}

fn parse_usage(flags: u8, byte: usize) -> Result<ListIdUsage, Completion> {
    match flags >> 3 & 3 {
        0b00 => Ok(ListIdUsage::Held),
        0b10 => Ok(ListIdUsage::MayBeDiscarded),
        0b11 => Ok(ListIdUsage::None),
        _ => Err(invalid(byte)),
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().expect("2 bytes"))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}
