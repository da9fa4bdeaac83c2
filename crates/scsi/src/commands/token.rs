//! Offloaded data transfer: POPULATE TOKEN, WRITE USING TOKEN (SBC-4 5.11, 5.52), RECEIVE ROD TOKEN
//! INFORMATION and REPORT ALL ROD TOKENS (SPC-4 6.26, 6.34).

use std::time::Duration;

use block::{BlockCount, ByteRange, Lba, VolumeId};

use super::copy_results;
use super::extended_copy::{Copy, Plan, Span, Work};
use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::copy_operations::CopyState;
use crate::limits::{
    TOKEN_BYTES_REPRESENTED_MAX, TOKEN_RANGES_MAX, TOKEN_TIMEOUT_DEFAULT, TOKEN_TIMEOUT_MAX,
};
use crate::rod_tokens::{MANAGEMENT_BYTES, RodTokenSpec, RodTokenUse, TOKEN_BYTES};
use crate::sense::{self, Sense};

/// ROD TYPE: point in time copy, default.
pub(crate) const ROD_TYPE_POINT_IN_TIME: u32 = 0x0080_0000;

/// ROD TYPE: block device zero.
pub(crate) const ROD_TYPE_ZERO: u32 = 0xffff_0001;

/// TRANSFER COUNT UNITS: logical blocks.
const BLOCKS: u8 = 0xf1;

const IMMED: u8 = 0x01;

/// POPULATE TOKEN: the ranges are copied, by reference, to where nobody writes.
pub(super) fn populate_token(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    const HEADER_BYTES: usize = 16;
    const RTV: u8 = 0x02;
    let Some(list) = parameter_list(execution, HEADER_BYTES)? else { return Ok(Action::good()) };
    let timeout = match u32_at(&list, 4) {
        0 => TOKEN_TIMEOUT_DEFAULT,
        seconds => Duration::from_secs(seconds.into()),
    };
    if timeout > TOKEN_TIMEOUT_MAX {
        return Err(invalid(4));
    }
    if list[2] & RTV != 0 && u32_at(&list, 8) != ROD_TYPE_POINT_IN_TIME {
        return Err(invalid(8));
    }
    let ranges = parse_ranges(execution, &list, 14)?;
    let list_id = execution.cdb.u32(6);
    execution.copies.admit(execution.nexus_id, Some(list_id))?;
    let unit = execution.unit()?;
    let creator = execution.volume.expect("a command with a unit has a volume");
    let (naa, block_bytes) = (unit.spec.naa, unit.block_bytes() as u32);
    let target_device = super::vpd::target_device_name(&execution.identity.target_name);
    let host = execution.nexus.host.clone();
    let spec = RodTokenSpec { host, creator, naa, block_bytes, timeout, target_device };
    let (number, space, places) = execution.tokens.reserve(&spec, &ranges)?;
    let spans = ranges.iter().zip(places).map(|(range, place)| Span {
        source: creator,
        source_offset: range.offset,
        destination: space,
        destination_offset: place,
        length: range.length,
    });
    let work = spans.map(Work::Copy).collect();
    procedure(execution, work, list[2] & IMMED != 0, Some(RodTokenUse::Populates(number)))
}

/// WRITE USING TOKEN.
pub(super) fn write_using_token(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    const HEADER_BYTES: usize = 536;
    const DEL_TKN: u8 = 0x02;
    let Some(list) = parameter_list(execution, HEADER_BYTES)? else { return Ok(Action::good()) };
    let ranges = parse_ranges(execution, &list, 534)?;
    let in_background = list[2] & IMMED != 0;
    execution.copies.admit(execution.nexus_id, Some(execution.cdb.u32(6)))?;
    let token: &[u8; TOKEN_BYTES] = list[16..528].try_into().expect("512 bytes");
    if is_zero_token(token) {
        let destination = execution.volume.expect("a command with a unit has a volume");
        let work = ranges.iter().map(|range| Work::Zeros { destination, range: *range });
        return procedure(execution, work.collect(), in_background, None);
    }
    let number = execution.tokens.find(token)?;
    let work = spans(execution, number, u64_at(&list, 8), &ranges)?;
    let use_of = if list[2] & DEL_TKN != 0 {
        RodTokenUse::Consumes(number)
    } else {
        RodTokenUse::Reads(number)
    };
    procedure(execution, work, in_background, Some(use_of))
}

/// SBC-4 4.28.5: it stands for as many zeros as anybody wants.
fn is_zero_token(token: &[u8; TOKEN_BYTES]) -> bool {
    token[..4] == ROD_TYPE_ZERO.to_be_bytes() && token[6..8] == [0x01, 0xf8]
}

/// What is to be copied from a token to the ranges, as far as its data goes.
fn spans(
    execution: &Execution<'_>,
    number: u64,
    offset_blocks: u64,
    ranges: &[ByteRange],
) -> Result<Vec<Work>, Completion> {
    let destination = execution.volume.expect("a command with a unit has a volume");
    let (space, parts) = execution.tokens.data(number).expect("it has just been found");
    let total: u64 = parts.iter().map(|part| part.length).sum();
    // OFFSET INTO ROD.
    let offset = offset_blocks.checked_mul(execution.unit()?.block_bytes());
    let mut skip = offset.filter(|offset| *offset < total).ok_or_else(|| invalid(8))?;
    let mut parts = parts.iter().copied();
    let mut part = ByteRange::new(0, 0);
    let mut work = Vec::new();
    for range in ranges {
        let mut range = *range;
        while range.length > 0 {
            while part.length == 0 || skip >= part.length {
                skip -= part.length.min(skip);
                let Some(next) = parts.next() else { return Ok(work) };
                part = next;
            }
            let (start, length) = (part.offset + skip, (part.length - skip).min(range.length));
            work.push(Work::Copy(Span {
                source: space,
                source_offset: start,
                destination,
                destination_offset: range.offset,
                length,
            }));
            part = ByteRange::new(start + length, part.end() - start - length);
            range = ByteRange::new(range.offset + length, range.length - length);
            skip = 0;
        }
    }
    Ok(work)
}

fn procedure(
    execution: &mut Execution<'_>,
    work: Vec<Work>,
    in_background: bool,
    token: Option<RodTokenUse>,
) -> Result<Action, Completion> {
    let block_length = execution.unit()?.spec.block_length;
    let segments = work.len() as u16;
    let numbered = work.into_iter().enumerate();
    Ok(Action::Procedure(Box::new(Copy::new(Plan {
        work: numbered.map(|(number, work)| (number as u16, work)).collect(),
        segments,
        service_action: execution.cdb.service_action(),
        list_id: Some(execution.cdb.u32(6)),
        in_background,
        block_length,
        token,
    }))))
}

/// The parameter list, with at least a header of that length; `None` if there is none, which is no
/// error.
fn parameter_list(
    execution: &Execution<'_>,
    header_bytes: usize,
) -> Result<Option<bytes::Bytes>, Completion> {
    let length = execution.cdb.u32(10) as usize;
    if length == 0 {
        return Ok(None);
    }
    let list = execution.data_out.slice(..length.min(execution.data_out.len()));
    if list.len() < header_bytes {
        return Err(Sense::from(sense::PARAMETER_LIST_LENGTH_ERROR).into());
    }
    // DATA LENGTH counts what follows it: the header and one descriptor at least.
    if usize::from(u16_at(&list, 0)) < header_bytes - 2 + DESCRIPTOR_BYTES {
        return Err(invalid(0));
    }
    Ok(Some(list))
}

const DESCRIPTOR_BYTES: usize = 16;

/// The block device range descriptors that follow their length at `field`.
fn parse_ranges(
    execution: &Execution<'_>,
    list: &[u8],
    field: usize,
) -> Result<Vec<ByteRange>, Completion> {
    let length = usize::from(u16_at(list, field));
    let descriptors = list.get(field + 2..field + 2 + length).ok_or_else(|| invalid(field))?;
    let (descriptors, _) = descriptors.as_chunks::<DESCRIPTOR_BYTES>();
    if descriptors.is_empty() || usize::from(u16_at(list, 0)) < field + length {
        return Err(invalid(field));
    }
    if descriptors.len() > TOKEN_RANGES_MAX {
        return Err(Sense::in_parameter_list(sense::TOO_MANY_SEGMENT_DESCRIPTORS, field).into());
    }
    let unit = execution.unit()?;
    let range = |descriptor: &[u8; DESCRIPTOR_BYTES]| {
        unit.range(Lba(u64_at(descriptor, 0)), BlockCount(u32_at(descriptor, 8).into()))
    };
    let ranges = descriptors.iter().map(range).collect::<Result<Vec<_>, _>>()?;
    check_ranges(&ranges, field + 2)?;
    Ok(ranges)
}

/// SBC-4 5.11.2: ranges do not overlap, and are not longer together than told.
fn check_ranges(ranges: &[ByteRange], position: usize) -> Result<(), Completion> {
    let total: u64 = ranges.iter().map(|range| range.length).sum();
    if total > TOKEN_BYTES_REPRESENTED_MAX {
        return Err(invalid(position));
    }
    let mut sorted: Vec<_> = ranges.iter().filter(|range| !range.is_empty()).collect();
    sorted.sort_by_key(|range| range.offset);
    if sorted.windows(2).any(|pair| pair[0].overlaps(*pair[1])) {
        Err(invalid(position))
    } else {
        Ok(())
    }
}

/// RECEIVE ROD TOKEN INFORMATION.
pub(super) fn rod_token_information(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let block_bytes = execution.unit()?.block_bytes();
    let record = copy_results::find(execution, execution.cdb.u32(2))?;
    let blocks = record.progress.bytes / block_bytes;
    let made = match (&record.state, record.progress.token) {
        (CopyState::Completed, Some(RodTokenUse::Populates(number))) => {
            execution.tokens.valid(number)
        }
        _ => None,
    };
    let made = made.filter(|token| sees(execution, token.creator()));
    let mut data = copy_results::status_lid4(record, (BLOCKS, blocks));
    match made {
        Some(token) => {
            // Length of the descriptors, and one: a reserved field and the token.
            data.extend((TOKEN_BYTES as u32 + 2).to_be_bytes());
            data.extend([0; 2]);
            data.extend(&token.bytes[..]);
        }
        None => data.extend([0; 4]),
    }
    Ok(Action::data(copy_results::with_length(data), execution.cdb.u32(10)))
}

/// Whether the nexus sees a volume. A token tells the identifier of the volume that it was made from.
fn sees(execution: &Execution<'_>, volume: VolumeId) -> bool {
    execution.nexus.mappings.values().any(|mapping| mapping.volume == volume)
}

/// REPORT ALL ROD TOKENS: those of the host that asks. What others made, and of which volumes, is not
/// its business.
pub(super) fn report_all_rod_tokens(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let mut data = vec![0; 8];
    let own = execution.tokens.valid_of(&execution.nexus.host, |volume| sees(execution, volume));
    for token in own {
        data.extend(&token.bytes[..MANAGEMENT_BYTES]);
    }
    Ok(Action::data(copy_results::with_length(data), execution.cdb.u32(10)))
}

/// SBC-4 7.7.2: block device ROD limits of VPD page 8Fh.
pub(super) fn block_device_limits(block_bytes: u64) -> Vec<u8> {
    let most = TOKEN_BYTES_REPRESENTED_MAX / block_bytes;
    let mut data = vec![0; 6];
    data.extend((TOKEN_RANGES_MAX as u16).to_be_bytes());
    data.extend((TOKEN_TIMEOUT_MAX.as_secs() as u32).to_be_bytes());
    data.extend((TOKEN_TIMEOUT_DEFAULT.as_secs() as u32).to_be_bytes());
    data.extend(most.to_be_bytes());
    data.extend(most.to_be_bytes());
    data
}

/// SPC-4 7.8.17.9: ROD token features, with those of block devices.
pub(super) fn token_features() -> Vec<u8> {
    let mut data = vec![0; 12];
    // MINIMUM and MAXIMUM TOKEN LIFETIME, MAXIMUM TOKEN INACTIVITY TIMEOUT.
    data.extend(1_u32.to_be_bytes());
    data.extend(u32::MAX.to_be_bytes());
    data.extend((TOKEN_TIMEOUT_MAX.as_secs() as u32).to_be_bytes());
    data.extend([0; 18]);
    let mut block = vec![0, 0, 0, 44, 0, 0, 0, 0];
    for _most_and_optimal in 0..4 {
        block.extend(TOKEN_BYTES_REPRESENTED_MAX.to_be_bytes());
    }
    block.extend([0; 8]);
    data.extend((block.len() as u16).to_be_bytes());
    data.extend(block);
    data
}

/// SPC-4 7.8.17.10: supported ROD types.
pub(super) fn supported_rod_types() -> Vec<u8> {
    const TOKEN_OUT: u8 = 0x01;
    const TOKEN_IN: u8 = 0x02;
    let kinds = [(ROD_TYPE_POINT_IN_TIME, TOKEN_IN | TOKEN_OUT), (ROD_TYPE_ZERO, TOKEN_IN)];
    let mut data = vec![0, 0];
    data.extend((64 * kinds.len() as u16).to_be_bytes());
    for (kind, flags) in kinds {
        let mut descriptor = kind.to_be_bytes().to_vec();
        descriptor.push(flags);
        descriptor.resize(64, 0);
        data.extend(descriptor);
    }
    data
}

fn invalid(byte: usize) -> Completion {
    Sense::in_parameter_list(sense::INVALID_FIELD_IN_PARAMETER_LIST, byte).into()
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
