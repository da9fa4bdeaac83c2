//! EXTENDED COPY (LID1) (SPC-3 6.3, SPC-4 5.17, 6.4). VMware: XCOPY, Full Copy, Clone.
//!
//! Everything is checked before the first block is copied, so that a command that is refused has
//! changed nothing.

mod copy;
mod parameter_list;

pub(super) use parameter_list::{CSCD_NAA, SEGMENT_BLOCK_TO_BLOCK};

use block::VolumeId;

use self::copy::{Copy, Span};
use self::parameter_list::{Cscd, ListIdUsage, ParameterList, Segment};
use crate::command::{Action, Execution};
use crate::completion::{Completion, Status};
use crate::limits::CONCURRENT_COPIES_MAX;
use crate::sense::{self, Sense};
use crate::unit::LogicalUnit;

/// EXTENDED COPY (LID1).
pub(super) fn extended_copy(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let length = execution.cdb.u32(10) as usize;
    // SPC-4 6.4.1: no parameter list is not an error.
    if length == 0 {
        return Ok(Action::good());
    }
    let given = &execution.data_out[..length.min(execution.data_out.len())];
    let list = ParameterList::parse(given)?;
    let spans = resolve(execution, &list)?;
    if execution.copies >= CONCURRENT_COPIES_MAX {
        return Err(Sense::from(sense::INSUFFICIENT_RESOURCES).into());
    }
    let held_as = match list.list_id_usage {
        ListIdUsage::Held | ListIdUsage::NotHeld => Some(list.list_id),
        ListIdUsage::None => None,
    };
    let block_length = execution.unit()?.spec.block_length;
    Ok(Action::Procedure(Box::new(Copy::new(spans, held_as, block_length))))
}

/// What is to be copied, in the order of the segments.
fn resolve(execution: &Execution<'_>, list: &ParameterList) -> Result<Vec<Span>, Completion> {
    let ends = list.cscds.iter().map(|cscd| find(execution, cscd));
    let ends = ends.collect::<Result<Vec<_>, _>>()?;
    let mut spans = Vec::with_capacity(list.segments.len());
    for (number, segment) in list.segments.iter().enumerate() {
        spans.push(span(execution, &ends, segment, number)?);
    }
    Ok(spans)
}

/// The volume that a CSCD descriptor names: only a logical unit that this nexus sees.
fn find(execution: &Execution<'_>, cscd: &Cscd) -> Result<Option<VolumeId>, Completion> {
    let Some(naa) = cscd.naa else { return Ok(None) };
    let mapped = execution.nexus.mappings.values().map(|mapping| mapping.volume);
    let found = mapped
        .filter_map(|volume| Some((volume, execution.units.get(&volume)?)))
        .find(|(_, unit)| unit.spec.naa == naa);
    let Some((volume, unit)) = found else { return Ok(None) };
    if cscd.block_bytes != 0 && u64::from(cscd.block_bytes) != unit.block_bytes() {
        let field = cscd.position + 29;
        return Err(refused(sense::INVALID_FIELD_IN_PARAMETER_LIST, field));
    }
    Ok(Some(volume))
}

fn span(
    execution: &Execution<'_>,
    ends: &[Option<VolumeId>],
    segment: &Segment,
    number: usize,
) -> Result<Span, Completion> {
    let failed = |code| failed_segment(code, segment, number);
    let end = |index: u16| {
        let end = ends.get(usize::from(index));
        let end = end.ok_or_else(|| failed(sense::UNREACHABLE_COPY_TARGET))?;
        let volume = end.ok_or_else(|| failed(sense::COPY_TARGET_DEVICE_NOT_REACHABLE))?;
        Ok::<_, Completion>((volume, &execution.units[&volume]))
    };
    let (source, source_unit) = end(segment.source)?;
    let (destination, destination_unit) = end(segment.destination)?;
    check_access(execution, source_unit, destination_unit)?;
    if execution.nexus.may_only_read(destination) {
        return Err(Sense::from(sense::WRITE_PROTECTED).into());
    }
    if source_unit.block_bytes() != destination_unit.block_bytes() {
        return Err(failed(sense::INCORRECT_COPY_TARGET_DEVICE_TYPE));
    }
    let beyond_end = |_| failed(sense::COPY_ABORTED_WITHOUT_ADDITIONAL_SENSE);
    let from = source_unit.range(segment.source_lba, segment.blocks).map_err(beyond_end)?;
    let to = destination_unit.range(segment.destination_lba, segment.blocks).map_err(beyond_end)?;
    Ok(Span {
        source,
        source_offset: from.offset,
        destination,
        destination_offset: to.offset,
        length: to.length,
    })
}

/// SPC-2 5.5.1, SPC-4 6.4.1: the copy manager may do no more than the nexus itself.
fn check_access(
    execution: &Execution<'_>,
    source: &LogicalUnit,
    destination: &LogicalUnit,
) -> Result<(), Completion> {
    let nexus = execution.nexus_id;
    if source.is_reserved_against(nexus) || destination.is_reserved_against(nexus) {
        return Err(Status::ReservationConflict.into());
    }
    if destination.write_protected {
        return Err(Sense::from(sense::WRITE_PROTECTED).into());
    }
    Ok(())
}

/// A fault in a parameter list, pointing at a byte of it.
fn refused(code: sense::SenseCode, byte: usize) -> Completion {
    Sense::in_parameter_list(code, byte).into()
}

/// SPC-4 5.17.7.4: COMMAND-SPECIFIC INFORMATION starts with the number of the segment.
fn failed_segment(code: sense::SenseCode, segment: &Segment, number: usize) -> Completion {
    let sense = Sense::in_parameter_list(code, segment.position);
    Sense { command_specific: (number as u32) << 16, ..sense }.into()
}
