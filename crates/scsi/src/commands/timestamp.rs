//! REPORT TIMESTAMP and SET TIMESTAMP (SPC-4 6.38, 6.46).

use crate::change::Change;
use crate::clock::Clock;
use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::sense::{self, Sense};

/// Length of the parameter list of SET TIMESTAMP.
const LIST_BYTES: usize = 12;

/// REPORT TIMESTAMP.
pub(super) fn report_timestamp(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let clock = execution.unit()?.clock.unwrap_or(execution.clock);
    let [_, _, timestamp @ ..] = clock.timestamp(execution.now).to_be_bytes();
    let mut data = vec![0, 10, clock.origin(), 0];
    data.extend(timestamp);
    data.extend([0, 0]);
    Ok(Action::data(data, execution.cdb.u32(6)))
}

/// SET TIMESTAMP.
pub(super) fn set_timestamp(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let length = execution.cdb.u32(6) as usize;
    // SPC-4 6.46: no parameter list is not an error.
    if length == 0 {
        return Ok(Action::good());
    }
    let list = execution.data_out.get(..length.min(LIST_BYTES));
    let Some(&[_, _, _, _, t0, t1, t2, t3, t4, t5, _, _]) =
        list.and_then(|list| list.first_chunk())
    else {
        return Err(Sense::from(sense::PARAMETER_LIST_LENGTH_ERROR).into());
    };
    let timestamp = u64::from_be_bytes([0, 0, t0, t1, t2, t3, t4, t5]);
    Ok(Action::Change(Box::new(Change {
        clock: Some(Clock::set(timestamp, execution.now)),
        told_to_others: Some(sense::TIMESTAMP_CHANGED),
        ..Change::default()
    })))
}
