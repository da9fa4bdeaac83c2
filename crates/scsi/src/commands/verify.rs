//! VERIFY and WRITE AND VERIFY (SBC-4 5.32 to 5.34, 5.44 to 5.46).

use std::collections::VecDeque;

use block::{BlockError, ByteRange, LogicalBlockLength, Request, Response, Rope, VolumeId};
use bytes::Bytes;

use super::transfer::{write_range, write_requests};
use crate::cdb::Cdb;
use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::extent::Extent;
use crate::limits::SLICE_BYTES;
use crate::procedure::{Answer, Procedure, ProcedureStep, slices};
use crate::sense::Sense;

/// BYTCHK: what the medium is compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteCheck {
    /// 00b: with nothing; it must be readable.
    Nothing,
    /// 01b: with as many blocks from the initiator.
    Blocks,
    /// 11b: each block with the same one from the initiator.
    SameBlock,
}

impl ByteCheck {
    fn parse(cdb: &Cdb) -> Option<Self> {
        match cdb.u8(1) >> 1 & 3 {
            0 => Some(Self::Nothing),
            1 => Some(Self::Blocks),
            3 => Some(Self::SameBlock),
            _ => None,
        }
    }
}

/// What VERIFY takes from the initiator.
pub(super) fn data_out(cdb: &Cdb, extent: Extent, block_bytes: u64) -> u64 {
    let count = extent.blocks;
    match ByteCheck::parse(cdb) {
        Some(ByteCheck::Blocks) => count.0 * block_bytes,
        Some(ByteCheck::SameBlock) if count.0 > 0 => block_bytes,
        _ => 0,
    }
}

/// VERIFY (10), (12), (16).
pub(super) fn verify(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let check = ByteCheck::parse(&execution.cdb).ok_or_else(invalid_byte_check)?;
    let range = execution.range()?;
    if range.is_empty() {
        return Ok(Action::good());
    }
    let expected = match check {
        ByteCheck::Nothing => Expected::Readable,
        ByteCheck::Blocks => {
            execution.require_data_out(range.length)?;
            Expected::Bytes(execution.data_out.clone())
        }
        ByteCheck::SameBlock => {
            let length = execution.unit()?.block_bytes();
            execution.require_data_out(length)?;
            Expected::Repeated(execution.data_out.slice(..length as usize))
        }
    };
    procedure(execution, range, expected, VecDeque::new())
}

/// WRITE AND VERIFY (10), (12), (16).
pub(super) fn write_and_verify(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let expected = match ByteCheck::parse(&execution.cdb).ok_or_else(invalid_byte_check)? {
        ByteCheck::Nothing => Expected::Readable,
        ByteCheck::Blocks => Expected::Bytes(execution.data_out.clone()),
        // SBC-4 5.44: reserved in this command.
        ByteCheck::SameBlock => return Err(invalid_byte_check()),
    };
    let (range, data) = write_range(execution)?;
    if range.is_empty() {
        return Ok(Action::good());
    }
    let writes = write_requests(range, &data).collect();
    procedure(execution, range, expected, writes)
}

fn invalid_byte_check() -> Completion {
    Sense::invalid_cdb_bit(1, 2).into()
}

fn procedure(
    execution: &Execution<'_>,
    range: ByteRange,
    expected: Expected,
    writes: VecDeque<Request>,
) -> Result<Action, Completion> {
    Ok(Action::Procedure(Box::new(Verify {
        volume: execution.volume.expect("a command with a unit has a volume"),
        block_length: execution.unit()?.spec.block_length,
        writes,
        reads: slices(range, SLICE_BYTES).collect(),
        start: range.offset,
        expected,
    })))
}

/// What the medium must hold.
enum Expected {
    Readable,
    Bytes(Bytes),
    Repeated(Bytes),
}

/// Writes if there is something to write, then reads and compares.
struct Verify {
    volume: VolumeId,
    block_length: LogicalBlockLength,
    writes: VecDeque<Request>,
    /// The slice that is being read is the first one.
    reads: VecDeque<ByteRange>,
    /// First byte on the volume that is verified.
    start: u64,
    expected: Expected,
}

impl Verify {
    /// Offset of the first byte from `start` that differs.
    fn first_difference(&self, at: ByteRange, medium: &Rope) -> Option<u64> {
        let mut position = at.offset - self.start;
        for piece in medium.pieces() {
            let length = piece.len() as u64;
            let difference = match &self.expected {
                Expected::Readable => None,
                Expected::Bytes(bytes) => {
                    let start = position as usize;
                    first_difference(piece, &bytes[start..start + piece.len()])
                }
                Expected::Repeated(block) => {
                    let start = position as usize % block.len();
                    let repeated = block.iter().cycle().skip(start);
                    piece.iter().zip(repeated).position(|(is, wanted)| is != wanted)
                }
            };
            if let Some(difference) = difference {
                return Some(position + difference as u64);
            }
            position += length;
        }
        None
    }
}

fn first_difference(is: &[u8], wanted: &[u8]) -> Option<usize> {
    if is == wanted {
        return None;
    }
    is.iter().zip(wanted).position(|(is, wanted)| is != wanted)
}

impl Procedure for Verify {
    fn advance(&mut self, answer: Option<Answer>) -> ProcedureStep {
        let failed =
            |error, length| ProcedureStep::Done(Completion::from_block_error(error, length));
        match answer.map(|answer| answer.result) {
            Some(Err(error)) => return failed(error, self.block_length),
            Some(Ok(Response::Data(medium))) => {
                let at = self.reads.pop_front().expect("a slice was being read");
                if let Some(offset) = self.first_difference(at, &medium) {
                    return failed(BlockError::Miscompare { offset }, self.block_length);
                }
            }
            Some(Ok(_)) | None => {}
        }
        if let Some(write) = self.writes.pop_front() {
            return ProcedureStep::Request(self.volume, write);
        }
        match self.reads.front() {
            Some(&range) => ProcedureStep::Request(self.volume, Request::Read { range }),
            None => ProcedureStep::Done(Completion::good(Rope::new())),
        }
    }
}
