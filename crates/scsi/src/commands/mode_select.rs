//! MODE SELECT (SPC-4 6.9, 6.10): all of it is taken, or nothing.

use super::mode_pages;
use crate::change::Change;
use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::sense::{self, Sense};
use crate::unit::LogicalUnit;

const PF: u8 = 4;
const SP: u8 = 0;

/// Where the two headers have what counts: their length, LONGLBA, and BLOCK DESCRIPTOR LENGTH.
struct Header {
    bytes: usize,
    long_lba: bool,
    descriptor_length_at: usize,
    descriptor_bytes: usize,
}

/// MODE SELECT (6).
pub(super) fn mode_select_6(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let list = list(execution, usize::from(execution.cdb.u8(4)))?;
    let Some(list) = list else { return Ok(Action::good()) };
    let descriptor_bytes = usize::from(*list.get(3).ok_or_else(list_length_error)?);
    let header = Header { bytes: 4, long_lba: false, descriptor_length_at: 3, descriptor_bytes };
    select(execution, list, &header)
}

/// MODE SELECT (10).
pub(super) fn mode_select_10(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let list = list(execution, usize::from(execution.cdb.u16(7)))?;
    let Some(list) = list else { return Ok(Action::good()) };
    let Some(&[_, _, _, _, flags, _, high, low]) = list.first_chunk() else {
        return Err(list_length_error());
    };
    let header = Header {
        bytes: 8,
        long_lba: flags & 1 != 0,
        descriptor_length_at: 6,
        descriptor_bytes: usize::from(u16::from_be_bytes([high, low])),
    };
    select(execution, list, &header)
}

/// The parameter list; `None` if the CDB says that there is none, which is not an error.
fn list<'a>(execution: &'a Execution<'_>, length: usize) -> Result<Option<&'a [u8]>, Completion> {
    // SPC-4 6.9: without PF the pages would have another form.
    if !execution.cdb.bit(1, PF) {
        return Err(Sense::invalid_cdb_bit(1, PF).into());
    }
    if length == 0 {
        return Ok(None);
    }
    execution.data_out.get(..length).map(Some).ok_or_else(list_length_error)
}

fn select(execution: &Execution<'_>, list: &[u8], header: &Header) -> Result<Action, Completion> {
    let unit = execution.unit()?;
    check_descriptor(unit, list, header)?;
    let modes = mode_pages::parse_pages(list, header.bytes + header.descriptor_bytes, &unit.modes)?;
    let is_changed = modes != unit.modes;
    let change = Change {
        saved_modes: execution.cdb.bit(1, SP).then(|| modes.clone()),
        modes: Some(modes),
        told_to_others: is_changed.then_some(sense::MODE_PARAMETERS_CHANGED),
        ..Change::default()
    };
    Ok(Action::Change(Box::new(change)))
}

/// SBC-4 6.5.2: neither number nor length of blocks can be changed.
fn check_descriptor(unit: &LogicalUnit, list: &[u8], header: &Header) -> Result<(), Completion> {
    let length = if header.long_lba { 16 } else { 8 };
    if header.descriptor_bytes == 0 {
        return Ok(());
    }
    if header.descriptor_bytes != length {
        return Err(invalid(header.descriptor_length_at));
    }
    let descriptor = list.get(header.bytes..header.bytes + length).ok_or_else(list_length_error)?;
    let (count, rest) = descriptor.split_at(length / 2);
    let count = number(count);
    let all = if header.long_lba { u64::MAX } else { u32::MAX.into() };
    // SBC-4 6.5.2.2: zero leaves the capacity as it is, all ones ask for the most there is.
    if count != 0 && count != all && count != unit.blocks() {
        return Err(invalid(header.bytes));
    }
    if number(&rest[rest.len() - 3..]) != unit.block_bytes() {
        return Err(invalid(header.bytes + length - 3));
    }
    Ok(())
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn invalid(byte: usize) -> Completion {
    Sense::in_parameter_list(sense::INVALID_FIELD_IN_PARAMETER_LIST, byte).into()
}

fn list_length_error() -> Completion {
    Sense::from(sense::PARAMETER_LIST_LENGTH_ERROR).into()
}
