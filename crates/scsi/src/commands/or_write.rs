//! ORWRITE (16) (SBC-4 5.4).

use block::{BlockError, ByteRange, LogicalBlockLength, Request, Response, Rope, VolumeId};
use bytes::Bytes;

use super::transfer::write_range;
use crate::command::{Action, Execution};
use crate::completion::{Completion, Status};
use crate::limits::{ORWRITE_ATTEMPTS_MAX, SLICE_BYTES};
use crate::procedure::{Answer, Procedure, ProcedureStep, slices};

/// ORWRITE (16).
pub(super) fn or_write(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let (range, data) = write_range(execution)?;
    if range.is_empty() {
        return Ok(Action::good());
    }
    Ok(Action::Procedure(Box::new(OrWrite {
        volume: execution.volume.expect("a command with a unit has a volume"),
        block_length: execution.unit()?.spec.block_length,
        slices: slices(range, SLICE_BYTES).collect(),
        start: range.offset,
        data,
        attempts: 0,
    })))
}

/// Reads, and writes the disjunction if the medium is still what was read: otherwise again.
struct OrWrite {
    volume: VolumeId,
    block_length: LogicalBlockLength,
    /// What is still to be done.
    slices: std::collections::VecDeque<ByteRange>,
    /// First byte on the volume that `data` is for.
    start: u64,
    data: Bytes,
    attempts: u32,
}

impl OrWrite {
    fn read(&self) -> ProcedureStep {
        match self.slices.front() {
            Some(&range) => ProcedureStep::Request(self.volume, Request::Read { range }),
            None => ProcedureStep::Done(Completion::good(Rope::new())),
        }
    }

    fn write(&self, medium: Vec<u8>) -> ProcedureStep {
        let range = self.slices[0];
        let start = (range.offset - self.start) as usize;
        let mask = &self.data[start..start + range.length as usize];
        let result: Vec<u8> = medium.iter().zip(mask).map(|(old, new)| old | new).collect();
        let compare = Bytes::from(medium);
        let request = Request::CompareAndWrite { range, compare, write: Bytes::from(result) };
        ProcedureStep::Request(self.volume, request)
    }
}

impl Procedure for OrWrite {
    fn advance(&mut self, answer: Option<Answer>) -> ProcedureStep {
        match answer.map(|answer| answer.result) {
            None => self.read(),
            Some(Ok(Response::Data(medium))) => self.write(medium.to_vec()),
            Some(Ok(_)) => {
                self.slices.pop_front();
                self.attempts = 0;
                self.read()
            }
            Some(Err(BlockError::Miscompare { .. })) => {
                self.attempts += 1;
                if self.attempts == ORWRITE_ATTEMPTS_MAX {
                    return ProcedureStep::Done(Status::Busy.into());
                }
                self.read()
            }
            Some(Err(error)) => {
                ProcedureStep::Done(Completion::from_block_error(error, self.block_length))
            }
        }
    }
}
