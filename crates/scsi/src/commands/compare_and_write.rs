//! COMPARE AND WRITE (SBC-4 5.3). VMware: ATS, hardware-assisted locking.

use block::{BlockCount, Lba, Request};

use crate::cdb::Cdb;
use crate::command::{Action, Execution};
use crate::completion::Completion;

/// Two instances of the blocks: what must be there, then what will be there.
pub(super) fn data_out(cdb: &Cdb, block_bytes: u64) -> u64 {
    2 * u64::from(cdb.u8(13)) * block_bytes
}

/// COMPARE AND WRITE. No more blocks than the CDB can name are refused: the limit is 255.
pub(super) fn compare_and_write(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let lba = Lba(execution.cdb.u64(2));
    let count = BlockCount(u64::from(execution.cdb.u8(13)));
    let range = execution.range_of(lba, count)?;
    execution.require_exact_data_out(2 * range.length)?;
    // SBC-4 5.3: no blocks is not an error.
    if range.is_empty() {
        return Ok(Action::good());
    }
    let length = range.length as usize;
    Ok(Action::Request(Request::CompareAndWrite {
        range,
        compare: execution.data_out.slice(..length),
        write: execution.data_out.slice(length..2 * length),
    }))
}
