//! REPORT SUPPORTED OPERATION CODES (SPC-4 6.35), from the command table.

use block::{Primitive, Switch};

use super::{table, write_same};
use crate::cdb::CDB_BYTES;
use crate::command::{Action, Execution, Row};
use crate::completion::Completion;
use crate::limits::{COMMAND_TIMEOUT_NOMINAL, COMMAND_TIMEOUT_RECOMMENDED};
use crate::sense::Sense;

const RCTD: u8 = 7;

/// SUPPORT: as the standard says, or not at all.
const SUPPORTED: u8 = 3;
const NOT_SUPPORTED: u8 = 1;

/// REPORT SUPPORTED OPERATION CODES.
pub(super) fn report_supported_operation_codes(
    execution: &mut Execution<'_>,
) -> Result<Action, Completion> {
    let timeouts = execution.cdb.bit(2, RCTD);
    let opcode = execution.cdb.u8(3);
    let action = execution.cdb.u16(4);
    let unit = execution.unit()?;
    let is_shown = |row: &&Row| {
        let is_hidden = unit.reservations_hidden && row.is_about_reservations();
        let is_on = row.switch.is_none_or(|switch| execution.is_on(switch));
        !is_hidden && is_on && !table::supported(row.opcode, execution.identity).is_empty()
    };
    let rows: Vec<_> = table::rows(opcode).iter().filter(is_shown).collect();
    let has_actions = rows.iter().any(|row| row.service_action.is_some());
    let with_action = rows.iter().find(|row| row.service_action.map(u16::from) == Some(action));
    let (first, with_action) = (rows.first().copied(), with_action.copied());
    let one = |row: Option<&Row>, timeouts| match row {
        Some(row) => one(row, &usage(execution, row), timeouts),
        None => vec![0, NOT_SUPPORTED, 0, 0],
    };
    let data = match execution.cdb.u8(2) & 7 {
        0 => all(table::ROWS.iter().filter(is_shown), timeouts),
        1 if has_actions => return Err(Sense::invalid_cdb_field(2).into()),
        1 => one(first, timeouts),
        2 if !has_actions => return Err(Sense::invalid_cdb_field(2).into()),
        2 => one(with_action, timeouts),
        3 if has_actions => one(with_action, timeouts),
        3 if action == 0 => one(first, timeouts),
        3 => one(None, timeouts),
        _ => return Err(Sense::invalid_cdb_bit(2, 2).into()),
    };
    Ok(Action::data(data, execution.cdb.u32(6)))
}

/// The all_commands format.
fn all(rows: impl Iterator<Item = &'static Row>, timeouts: bool) -> Vec<u8> {
    let mut data = vec![0; 4];
    for row in rows {
        let (service_action_valid, action) =
            row.service_action.map_or((0, 0), |action| (1, action));
        let timeouts_present = if timeouts { 2 } else { 0 };
        data.extend([row.opcode, 0, 0, action, 0, timeouts_present | service_action_valid, 0]);
        data.push(row.usage.len() as u8);
        data.extend(timeouts_descriptor(timeouts));
    }
    let length = data.len() as u32 - 4;
    data[..4].copy_from_slice(&length.to_be_bytes());
    data
}

/// CDB USAGE DATA: with UNMAP turned off, WRITE SAME has no bits about that either.
fn usage(execution: &Execution<'_>, row: &Row) -> Vec<u8> {
    let mut usage = row.usage.to_vec();
    if row.primitive == Primitive::WriteSame && !execution.is_on(Switch::Unmap) {
        usage[write_same::flags_at(row.opcode)] &= !write_same::ABOUT_UNMAPPING;
    }
    usage
}

/// The one_command format.
fn one(row: &Row, usage: &[u8], timeouts: bool) -> Vec<u8> {
    debug_assert!(row.usage.len() <= CDB_BYTES);
    let timeouts_present = if timeouts { 0x80 } else { 0 };
    let mut data = vec![0, timeouts_present | SUPPORTED, 0, row.usage.len() as u8];
    data.extend(usage);
    data.extend(timeouts_descriptor(timeouts));
    data
}

/// SPC-4 6.35.4.
fn timeouts_descriptor(wanted: bool) -> Vec<u8> {
    if !wanted {
        return Vec::new();
    }
    let mut descriptor = vec![0, 0x0a, 0, 0];
    descriptor.extend((COMMAND_TIMEOUT_NOMINAL.as_secs() as u32).to_be_bytes());
    descriptor.extend((COMMAND_TIMEOUT_RECOMMENDED.as_secs() as u32).to_be_bytes());
    descriptor
}
