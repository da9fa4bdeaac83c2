//! WRITE ATOMIC (16) (SBC-4 5.48): all of the data or nothing of it, whatever happens.

use block::Request;

use crate::command::{Action, Execution};
use crate::completion::Completion;

/// WRITE ATOMIC (16): one request, which the engine does as one step.
pub(super) fn write_atomic(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let range = execution.range()?;
    // A part of the data would be a part of the write.
    execution.require_exact_data_out(range.length)?;
    if range.is_empty() {
        return Ok(Action::good());
    }
    let data = execution.data_out.slice(..range.length as usize);
    Ok(Action::Request(Request::Write { range, data }))
}
