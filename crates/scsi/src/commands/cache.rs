//! Commands about the state of the unit and its cache: SYNCHRONIZE CACHE, PRE-FETCH, START STOP
//! UNIT, PREVENT ALLOW MEDIUM REMOVAL, TEST UNIT READY, READ DEFECT DATA (SBC-4 5, SPC-4 6).

use block::Request;

use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::sense::Sense;

const START: u8 = 0;

/// TEST UNIT READY.
pub(super) fn test_unit_ready(_: &mut Execution<'_>) -> Result<Action, Completion> {
    Ok(Action::good())
}

/// SYNCHRONIZE CACHE (10), (16): the range only has to be on the unit, all of it is made stable.
/// With IMMED the command still ends after that.
pub(super) fn synchronize_cache(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    execution.range()?;
    Ok(Action::Request(Request::Flush))
}

/// PRE-FETCH (10), (16). GOOD says that not all blocks were fetched (SBC-4 5.7).
pub(super) fn pre_fetch(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    execution.range()?;
    Ok(Action::good())
}

/// START STOP UNIT. A unit that others use too does not stop; what was written is made stable.
pub(super) fn start_stop_unit(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    if execution.cdb.bit(4, START) {
        return Ok(Action::good());
    }
    Ok(Action::Request(Request::Flush))
}

/// PREVENT ALLOW MEDIUM REMOVAL. The medium cannot be removed anyway.
pub(super) fn prevent_allow_medium_removal(_: &mut Execution<'_>) -> Result<Action, Completion> {
    Ok(Action::good())
}

/// READ DEFECT DATA (10): both lists are empty, in the format that was asked for.
pub(super) fn read_defect_data_10(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let lists_and_format = execution.cdb.u8(2);
    check_defect_format(lists_and_format, 2)?;
    let data = vec![0, lists_and_format, 0, 0];
    Ok(Action::data(data, u32::from(execution.cdb.u16(7))))
}

/// READ DEFECT DATA (12).
pub(super) fn read_defect_data_12(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let lists_and_format = execution.cdb.u8(1);
    check_defect_format(lists_and_format, 1)?;
    let data = vec![0, lists_and_format, 0, 0, 0, 0, 0, 0];
    Ok(Action::data(data, execution.cdb.u32(6)))
}

/// SBC-4 6.2: 111b is reserved.
fn check_defect_format(lists_and_format: u8, byte: usize) -> Result<(), Completion> {
    if lists_and_format & 7 == 7 {
        return Err(Sense::invalid_cdb_bit(byte, 2).into());
    }
    Ok(())
}
