//! WRITE ATOMIC (16) (SBC-4 5.48): all of the data or nothing of it, whatever happens.

use block::{BlockCount, Lba, Request};

use crate::cdb::Cdb;
use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::limits::ATOMIC_BYTES_MAX;
use crate::sense::Sense;

/// TRANSFER LENGTH blocks.
pub(super) fn data_out(cdb: &Cdb, block_bytes: u64) -> u64 {
    u64::from(cdb.u16(12)) * block_bytes
}

/// WRITE ATOMIC (16): one request, which the engine does as one step.
pub(super) fn write_atomic(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let count = BlockCount(u64::from(execution.cdb.u16(12)));
    let range = execution.range_of(Lba(execution.cdb.u64(2)), count)?;
    if range.length > ATOMIC_BYTES_MAX {
        return Err(Sense::invalid_cdb_field(12).into());
    }
    // A part of the data would be a part of the write.
    execution.require_exact_data_out(range.length)?;
    if range.is_empty() {
        return Ok(Action::good());
    }
    let data = execution.data_out.slice(..range.length as usize);
    Ok(Action::Request(Request::Write { range, data }))
}
