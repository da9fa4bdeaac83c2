//! READ CAPACITY (SBC-4 5.15, 5.16).

use block::Switch;

use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::sense::Sense;
use crate::unit::LogicalUnit;

/// Length of the READ CAPACITY (10) parameter data.
const DATA_10_BYTES: u32 = 8;

/// READ CAPACITY (10).
pub(super) fn read_capacity_10(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let unit = execution.unit()?;
    unit.check_size_known()?;
    // SBC-4 5.15.1: without PMI (obsolete) the address must be zero.
    if execution.cdb.u32(2) != 0 {
        return Err(Sense::invalid_cdb_field(2).into());
    }
    let last = u32::try_from(last_lba(unit)).unwrap_or(u32::MAX);
    let mut data = last.to_be_bytes().to_vec();
    data.extend((unit.block_bytes() as u32).to_be_bytes());
    Ok(Action::data(data, DATA_10_BYTES))
}

/// READ CAPACITY (16).
pub(super) fn read_capacity_16(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let unit = execution.unit()?;
    unit.check_size_known()?;
    if execution.cdb.u64(2) != 0 {
        return Err(Sense::invalid_cdb_field(2).into());
    }
    let mut data = vec![0; 32];
    data[..8].copy_from_slice(&last_lba(unit).to_be_bytes());
    data[8..12].copy_from_slice(&(unit.block_bytes() as u32).to_be_bytes());
    // With 512n and 4Kn every logical block is a physical one. LOWEST ALIGNED LOGICAL BLOCK ADDRESS
    // is always 0.
    data[13] = unit.spec.physical_block_exponent & 0x0f;
    // LBPME and LBPRZ: unmapped blocks read as zeros. SBC-4 4.7.3.1: only with a command that unmaps.
    data[14] = if execution.is_on(Switch::Unmap) { 0xc0 } else { 0 };
    Ok(Action::data(data, execution.cdb.u32(10)))
}

/// RETURNED LOGICAL BLOCK ADDRESS.
fn last_lba(unit: &LogicalUnit) -> u64 {
    unit.blocks().saturating_sub(1)
}
