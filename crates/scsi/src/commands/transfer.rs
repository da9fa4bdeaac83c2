//! READ and WRITE (SBC-4 5.8 to 5.14, 5.36 to 5.42).

use block::{ByteRange, Request};
use bytes::Bytes;

use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::limits::SLICE_BYTES;
use crate::procedure::{Sequence, slices};
use crate::sense::{self, Sense};

/// READ (6), (10), (12), (16). No more is read than the initiator takes.
pub(super) fn read(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let range = execution.range()?;
    let range = execution.clip(range)?;
    match range.length {
        0 => Ok(Action::good()),
        1..=SLICE_BYTES => Ok(Action::Request(Request::Read { range })),
        _ => {
            let requests = slices(range, SLICE_BYTES).map(|range| Request::Read { range });
            sequence(execution, requests)
        }
    }
}

/// WRITE (6), (10), (12), (16).
pub(super) fn write(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let (range, data) = write_range(execution)?;
    match range.length {
        0 => Ok(Action::good()),
        1..=SLICE_BYTES => Ok(Action::Request(Request::Write { range, data })),
        _ => sequence(execution, write_requests(range, &data)),
    }
}

/// The requests that write `data` to `range`, one per slice.
pub(super) fn write_requests(range: ByteRange, data: &Bytes) -> impl Iterator<Item = Request> {
    slices(range, SLICE_BYTES).map(move |slice| {
        let start = (slice.offset - range.offset) as usize;
        let data = data.slice(start..start + slice.length as usize);
        Request::Write { range: slice, data }
    })
}

/// The range that is to be written and the data for it: less than the CDB says if the initiator
/// sent less, but whole blocks.
pub(super) fn write_range(execution: &Execution<'_>) -> Result<(ByteRange, Bytes), Completion> {
    let range = execution.range()?;
    let length = range.length.min(execution.data_out.len() as u64);
    // RFC 7143 11.4.5.1: a residual overflow; the part of a block that came cannot be written.
    if !length.is_multiple_of(execution.unit()?.block_bytes()) {
        return Err(Sense::from(sense::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT).into());
    }
    let data = execution.data_out.slice(..length as usize);
    Ok((ByteRange::new(range.offset, length), data))
}

/// The requests as a procedure on the unit that the command is addressed to.
fn sequence(
    execution: &Execution<'_>,
    requests: impl IntoIterator<Item = Request>,
) -> Result<Action, Completion> {
    let block_length = execution.unit()?.spec.block_length;
    let volume = execution.volume.expect("a command with a unit has a volume");
    Ok(Action::Procedure(Sequence::new(volume, block_length, requests)))
}
