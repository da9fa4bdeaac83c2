//! EXTENDED COPY (LID1) and (LID4), COPY OPERATION ABORT (SPC-3 6.3, SPC-4 5.17, 6.3 to 6.5).
//! VMware: XCOPY, Full Copy, Clone.
//!
//! Everything is checked before the first block is copied, so that a command that is refused has
//! changed nothing.

mod copy;
mod cscd;
mod parameter_list;
mod segment;
mod span;

pub(super) use copy::{Copy, Plan};
pub(crate) use cscd::CSCD_IDENTIFICATION;
pub(super) use cscd::THIS_LOGICAL_UNIT;
pub(super) use segment::{BLOCK_TO_BLOCK, BLOCK_TO_BLOCK_WITH_OFFSET};
pub(super) use span::{Span, Work};

use block::{ByteRange, Switch};

use self::cscd::End;
use self::parameter_list::ParameterList;
use self::segment::{Amount, Segment};
use reservations::Access;

use super::access;
use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::copy_operations::{CopyKey, CopyRecord};
use crate::limits::SEGMENT_BYTES_MAX;
use crate::sense::{self, Sense, SenseCode};
use crate::unit::LogicalUnit;

/// EXTENDED COPY (LID1).
pub(super) fn extended_copy_lid1(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    extended_copy(execution, ParameterList::parse_lid1)
}

/// EXTENDED COPY (LID4).
pub(super) fn extended_copy_lid4(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    extended_copy(execution, ParameterList::parse_lid4)
}

fn extended_copy(
    execution: &mut Execution<'_>,
    parse: fn(&[u8]) -> Result<ParameterList, Completion>,
) -> Result<Action, Completion> {
    let length = execution.cdb.u32(10) as usize;
    // SPC-4 6.4.1: no parameter list is not an error.
    if length == 0 {
        return Ok(Action::good());
    }
    let list = parse(&execution.data_out[..length.min(execution.data_out.len())])?;
    let work = resolve(execution, &list)?;
    let list_id = name_of(execution, &list);
    execution.copies.admit(execution.nexus_id, list_id)?;
    Ok(Action::Procedure(Box::new(Copy::new(Plan {
        work,
        segments: list.segments.len() as u16,
        service_action: execution.cdb.service_action(),
        list_id,
        in_background: list.immediate,
        token: None,
        block_length: execution.unit()?.spec.block_length,
    }))))
}

/// The list identifier under which a copy is known. Initiators that send several copies at once, all
/// with one identifier whose outcome need not be held (`iscsi-dd -x`), get them done, too: the first
/// one has the name for as long as it is under way.
fn name_of(execution: &Execution<'_>, list: &ParameterList) -> Option<u32> {
    let is_taken = |list_id: &u32| {
        let record = execution.copies.find(execution.nexus_id, *list_id);
        record.is_some_and(CopyRecord::is_under_way)
    };
    list.list_id.filter(|list_id| !list.may_go_unnamed || !is_taken(list_id))
}

/// COPY OPERATION ABORT: of a copy of this nexus that has not ended.
pub(super) fn copy_operation_abort(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let list_id = execution.cdb.u32(2);
    let record = execution.copies.find(execution.nexus_id, list_id);
    if !record.is_some_and(|record| record.is_under_way()) {
        return Err(Sense::invalid_cdb_field(2).into());
    }
    Ok(Action::AbortCopy(CopyKey { nexus: execution.nexus_id, list_id }))
}

/// What is to be done, in the order of the segments.
fn resolve(
    execution: &Execution<'_>,
    list: &ParameterList,
) -> Result<Vec<(u16, Work)>, Completion> {
    let ends = list.cscds.iter().map(|cscd| cscd.find(execution));
    let ends = ends.collect::<Result<Vec<_>, _>>()?;
    let mut work = Vec::with_capacity(list.segments.len());
    for (number, segment) in list.segments.iter().enumerate() {
        let context = Context { execution, ends: &ends, segment, number: number as u16 };
        work.extend(context.work()?.into_iter().map(|work| (number as u16, work)));
    }
    Ok(work)
}

/// A segment and where it stands.
struct Context<'a> {
    execution: &'a Execution<'a>,
    /// What was found of each CSCD descriptor.
    ends: &'a [Option<End>],
    segment: &'a Segment,
    number: u16,
}

impl Context<'_> {
    fn work(&self) -> Result<Vec<Work>, Completion> {
        let source = self.end(self.segment.source)?;
        let destination = self.end(self.segment.destination)?;
        let (from, to) = (self.unit(source), self.unit(destination));
        self.check_switches([from, to])?;
        access::check(self.execution, source.volume, Access::Read)?;
        access::check(self.execution, destination.volume, Access::Write)?;
        let length = self.length(from, to)?;
        let fill = match self.segment.amount {
            Amount::Bytes { .. } => 0,
            _ => self.residue(destination, from, to, length)?,
        };
        let (source_offset, destination_offset) = self.offsets(from, to, length, fill)?;
        let span = Span {
            source: source.volume,
            source_offset,
            destination: destination.volume,
            destination_offset,
            length,
        };
        let zeros = ByteRange::new(destination_offset + length, fill);
        let mut work = vec![Work::Copy(span)];
        if fill > 0 {
            work.push(Work::Zeros { destination: destination.volume, range: zeros });
        }
        Ok(work)
    }

    fn end(&self, id: u16) -> Result<End, Completion> {
        if id == THIS_LOGICAL_UNIT {
            let volume = self.execution.volume.expect("a command with a unit has a volume");
            return Ok(End { volume, pad: false });
        }
        let end = self.ends.get(usize::from(id));
        let end = end.ok_or_else(|| self.failed(sense::UNREACHABLE_COPY_TARGET))?;
        end.ok_or_else(|| self.failed(sense::COPY_TARGET_DEVICE_NOT_REACHABLE))
    }

    /// The other end may be a volume for which copies are turned off.
    fn check_switches(&self, ends: [&LogicalUnit; 2]) -> Result<(), Completion> {
        let off = ends.into_iter().find_map(|unit| {
            self.execution.switch_places(Some(unit)).turned_off(Switch::ExtendedCopy)
        });
        match off {
            Some(off) => Err(Completion {
                turned_off: Some(off),
                ..self.failed(sense::COPY_TARGET_DEVICE_NOT_REACHABLE)
            }),
            None => Ok(()),
        }
    }

    fn unit(&self, end: End) -> &LogicalUnit {
        &self.execution.units[&end.volume]
    }

    /// Bytes to copy.
    fn length(&self, from: &LogicalUnit, to: &LogicalUnit) -> Result<u64, Completion> {
        let length = match self.segment.amount {
            Amount::SourceBlocks(count) => u64::from(count) * from.block_bytes(),
            Amount::DestinationBlocks(count) => u64::from(count) * to.block_bytes(),
            Amount::Bytes { count, .. } => u64::from(count),
        };
        if length > SEGMENT_BYTES_MAX {
            return Err(parameter_list::invalid(self.segment.position + 8));
        }
        Ok(length)
    }

    /// SPC-4 6.4.6.1: bytes that are missing in the last block of the destination. They are filled
    /// if its PAD says so, else the segment is refused; CAT cannot carry them over, since nothing
    /// is held between segments.
    fn residue(
        &self,
        destination: End,
        from: &LogicalUnit,
        to: &LogicalUnit,
        length: u64,
    ) -> Result<u64, Completion> {
        let inexact = || self.failed(sense::UNEXPECTED_INEXACT_SEGMENT);
        // Part of a source block would be left over.
        if !length.is_multiple_of(from.block_bytes()) {
            return Err(inexact());
        }
        match length.next_multiple_of(to.block_bytes()) - length {
            0 => Ok(0),
            fill if destination.pad => Ok(fill),
            _ => Err(inexact()),
        }
    }

    /// First byte on either volume; both ranges are on them.
    fn offsets(
        &self,
        from: &LogicalUnit,
        to: &LogicalUnit,
        length: u64,
        fill: u64,
    ) -> Result<(u64, u64), Completion> {
        let (source_skip, destination_skip) = match self.segment.amount {
            Amount::Bytes { source_offset, destination_offset, .. } => {
                (u64::from(source_offset), u64::from(destination_offset))
            }
            _ => (0, 0),
        };
        let offset = |unit: &LogicalUnit, lba: u64, skip: u64, length: u64| {
            let offset = lba.checked_mul(unit.block_bytes())?.checked_add(skip)?;
            let end = offset.checked_add(length)?;
            (end <= unit.blocks() * unit.block_bytes()).then_some(offset)
        };
        // Byte offsets point into the first block.
        if source_skip >= from.block_bytes() || destination_skip >= to.block_bytes() {
            let field = if source_skip >= from.block_bytes() { 28 } else { 30 };
            return Err(parameter_list::invalid(self.segment.position + field));
        }
        let segment = self.segment;
        let source = offset(from, segment.source_lba, source_skip, length);
        let destination = offset(to, segment.destination_lba, destination_skip, length + fill);
        let ends = source.zip(destination);
        ends.ok_or_else(|| self.failed(sense::COPY_ABORTED_WITHOUT_ADDITIONAL_SENSE))
    }

    /// SPC-4 5.17.7.4: COMMAND-SPECIFIC INFORMATION starts with the number of the segment.
    fn failed(&self, code: SenseCode) -> Completion {
        let sense = Sense::in_parameter_list(code, self.segment.position);
        Sense { command_specific: u32::from(self.number) << 16, ..sense }.into()
    }
}

/// A fault in a parameter list, pointing at a byte of it.
fn refused(code: SenseCode, byte: usize) -> Completion {
    Sense::in_parameter_list(code, byte).into()
}
