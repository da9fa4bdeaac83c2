//! MODE SENSE (SPC-4 6.11, 6.12, 7.5; SBC-4 6.5). No page can be changed.

use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::sense::{self, Sense};
use crate::unit::LogicalUnit;

const DBD: u8 = 3;
const LLBAA: u8 = 4;
const ALL_PAGES: u8 = 0x3f;
const ALL_SUBPAGES: u8 = 0xff;

/// Every mode page as it is and stays: current and default values are the same.
const PAGES: &[&[u8]] = &[CACHING, CONTROL, INFORMATIONAL_EXCEPTIONS];

/// SBC-4 6.5.5: WCE is zero, since a write is answered only when it is stable.
const CACHING: &[u8] = &[0x08, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// SPC-4 7.5.8: QUEUE ALGORITHM MODIFIER unrestricted; TAS; no busy timeout limit.
const CONTROL: &[u8] = &[0x0a, 0x0a, 0, 0x10, 0, 0x40, 0, 0, 0xff, 0xff, 0, 0];

/// SPC-4 7.5.11: no informational exceptions are reported (DEXCPT).
const INFORMATIONAL_EXCEPTIONS: &[u8] = &[0x1c, 0x0a, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// MODE SENSE (6).
pub(super) fn mode_sense_6(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let unit = execution.unit()?;
    let pages = pages(execution)?;
    let descriptor = if execution.cdb.bit(1, DBD) { Vec::new() } else { short_descriptor(unit) };
    let mut data = vec![0, 0, device_specific_parameter(execution, unit), descriptor.len() as u8];
    data.extend(descriptor);
    data.extend(pages);
    data[0] = data.len() as u8 - 1;
    Ok(Action::data(data, u32::from(execution.cdb.u8(4))))
}

/// MODE SENSE (10).
pub(super) fn mode_sense_10(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let unit = execution.unit()?;
    let pages = pages(execution)?;
    let long = execution.cdb.bit(1, LLBAA) && !execution.cdb.bit(1, DBD);
    let descriptor = match execution.cdb.bit(1, DBD) {
        true => Vec::new(),
        false if long => long_descriptor(unit),
        false => short_descriptor(unit),
    };
    let parameter = device_specific_parameter(execution, unit);
    let mut data = vec![0, 0, 0, parameter, u8::from(long), 0, 0, descriptor.len() as u8];
    data.extend(descriptor);
    data.extend(pages);
    let length = data.len() as u16 - 2;
    data[..2].copy_from_slice(&length.to_be_bytes());
    Ok(Action::data(data, u32::from(execution.cdb.u16(7))))
}

/// SBC-4 6.5.1: WP and DPOFUA.
fn device_specific_parameter(execution: &Execution<'_>, unit: &LogicalUnit) -> u8 {
    let read_only = execution.nexus.mappings.get(&execution.lun).is_some_and(|map| map.read_only);
    let write_protected = if unit.write_protected || read_only { 0x80 } else { 0 };
    write_protected | 0x10
}

/// SBC-4 6.5.2.2.
fn short_descriptor(unit: &LogicalUnit) -> Vec<u8> {
    let blocks = u32::try_from(unit.blocks()).unwrap_or(u32::MAX);
    let mut descriptor = blocks.to_be_bytes().to_vec();
    descriptor.extend((unit.block_bytes() as u32).to_be_bytes());
    descriptor
}

/// SBC-4 6.5.2.3.
fn long_descriptor(unit: &LogicalUnit) -> Vec<u8> {
    let mut descriptor = unit.blocks().to_be_bytes().to_vec();
    descriptor.extend([0; 4]);
    descriptor.extend((unit.block_bytes() as u32).to_be_bytes());
    descriptor
}

/// The pages that the CDB asks for.
fn pages(execution: &Execution<'_>) -> Result<Vec<u8>, Completion> {
    let (control, code) = (execution.cdb.u8(2) >> 6, execution.cdb.u8(2) & 0x3f);
    let subpage = execution.cdb.u8(3);
    // SPC-4 6.11.5: saved values.
    if control == 3 {
        return Err(Sense::from(sense::SAVING_PARAMETERS_NOT_SUPPORTED).into());
    }
    let found = PAGES.iter().filter(|page| code == ALL_PAGES || page[0] == code);
    let found: Vec<_> = found.map(|page| values(page, control)).collect();
    if found.is_empty() {
        return Err(Sense::invalid_cdb_field(2).into());
    }
    // There are no subpages, so that all subpages means the pages themselves.
    if subpage != 0 && subpage != ALL_SUBPAGES {
        return Err(Sense::invalid_cdb_field(3).into());
    }
    Ok(found.concat())
}

/// Current and default values, or, for page control 1, a mask of what can be changed: nothing.
fn values(page: &[u8], control: u8) -> Vec<u8> {
    let mut values = page.to_vec();
    if control == 1 {
        values[2..].fill(0);
    }
    values
}
