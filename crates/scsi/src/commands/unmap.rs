//! UNMAP (SBC-4 5.31). VMware: Delete, thin provisioning space reclamation.

use block::{BlockCount, ByteRange, Lba, Request};

use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::limits::{UNMAP_BYTES_MAX, UNMAP_DESCRIPTORS_MAX};
use crate::sense::{self, Sense};

const HEADER_BYTES: usize = 8;
const DESCRIPTOR_BYTES: usize = 16;

const ANCHOR: u8 = 0;

/// UNMAP.
pub(super) fn unmap(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    // SBC-4 5.31: ANCHOR needs ANC_SUP of VPD page B2h.
    if execution.cdb.bit(1, ANCHOR) && !execution.unit()?.anchors() {
        return Err(Sense::invalid_cdb_bit(1, ANCHOR).into());
    }
    let length = usize::from(execution.cdb.u16(7));
    // SBC-4 5.31.1: no parameter list is not an error.
    if length == 0 {
        return Ok(Action::good());
    }
    let list = &execution.data_out[..length.min(execution.data_out.len())];
    if list.len() < HEADER_BYTES {
        return Err(Sense::from(sense::PARAMETER_LIST_LENGTH_ERROR).into());
    }
    let ranges = parse_descriptors(execution, descriptors(list)?)?;
    if ranges.is_empty() {
        return Ok(Action::good());
    }
    Ok(Action::Request(Request::Unmap { ranges }))
}

/// The block descriptors of a parameter list. SBC-4 5.31.2: a length that is no multiple of 16 is
/// not an error; the rest is ignored.
fn descriptors(list: &[u8]) -> Result<&[u8], Completion> {
    let length = usize::from(u16::from_be_bytes([list[2], list[3]]));
    let length = length - length % DESCRIPTOR_BYTES;
    list.get(HEADER_BYTES..HEADER_BYTES + length)
        .ok_or_else(|| Sense::from(sense::PARAMETER_LIST_LENGTH_ERROR).into())
}

fn parse_descriptors(
    execution: &Execution<'_>,
    descriptors: &[u8],
) -> Result<Vec<ByteRange>, Completion> {
    let refused = |byte| Sense::in_parameter_list(sense::INVALID_FIELD_IN_PARAMETER_LIST, byte);
    if descriptors.len() > UNMAP_DESCRIPTORS_MAX * DESCRIPTOR_BYTES {
        return Err(refused(2).into());
    }
    let unit = execution.unit()?;
    let mut ranges = Vec::with_capacity(descriptors.len() / DESCRIPTOR_BYTES);
    let mut total = 0;
    for (index, descriptor) in descriptors.as_chunks::<DESCRIPTOR_BYTES>().0.iter().enumerate() {
        let (lba, count) = parse_descriptor(descriptor);
        let range = unit.range(lba, count)?;
        total += range.length;
        if total > UNMAP_BYTES_MAX {
            return Err(refused(HEADER_BYTES + index * DESCRIPTOR_BYTES + 8).into());
        }
        if !range.is_empty() {
            ranges.push(range);
        }
    }
    Ok(ranges)
}

fn parse_descriptor(descriptor: &[u8; DESCRIPTOR_BYTES]) -> (Lba, BlockCount) {
    let [lba @ .., c0, c1, c2, c3, _, _, _, _] = *descriptor;
    let count = u32::from_be_bytes([c0, c1, c2, c3]);
    (Lba(u64::from_be_bytes(lba)), BlockCount(u64::from(count)))
}
