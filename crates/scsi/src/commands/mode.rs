//! MODE SENSE (SPC-4 6.11, 6.12, 7.5; SBC-4 6.5).

use super::mode_pages::{ALL_PAGES, PAGES, Page};
use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::sense::Sense;
use crate::unit::LogicalUnit;

const DBD: u8 = 3;
const LLBAA: u8 = 4;

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
    let is_protected = read_only || unit.write_protection().is_some();
    let write_protected = if is_protected { 0x80 } else { 0 };
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
    let unit = execution.unit()?;
    let (control, code) = (execution.cdb.u8(2) >> 6, execution.cdb.u8(2) & 0x3f);
    let subpage = execution.cdb.u8(3);
    let values = |page: &Page| match control {
        0 => page.values(&unit.modes),
        1 => page.mask(),
        2 => page.values(&unit.default_modes),
        _ => page.values(unit.saved_modes.as_ref().unwrap_or(&unit.default_modes)),
    };
    let found: Vec<_> =
        PAGES.iter().filter(|page| page.is_named(code, subpage)).map(values).collect();
    if found.is_empty() {
        let is_known = code == ALL_PAGES || PAGES.iter().any(|page| page.code == code);
        return Err(Sense::invalid_cdb_field(if is_known { 3 } else { 2 }).into());
    }
    Ok(found.concat())
}
