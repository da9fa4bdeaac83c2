//! COMPARE AND WRITE (SBC-4 5.3). VMware: ATS, hardware-assisted locking.

use block::{BlockError, ByteRange, Lba, LogicalBlockLength, Request, Response, Rope, VolumeId};
use bytes::Bytes;

use crate::cdb::Cdb;
use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::device_server::{Written, hash_of};
use crate::extent::Extent;
use crate::procedure::{Answer, Procedure, ProcedureStep, Remark};

/// Two instances of the blocks: what must be there, then what will be there.
pub(super) fn data_out(_: &Cdb, extent: Extent, block_bytes: u64) -> u64 {
    2 * extent.blocks.0 * block_bytes
}

/// COMPARE AND WRITE. No more blocks than the CDB can name are refused: the limit is 255.
pub(super) fn compare_and_write(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let range = execution.range()?;
    execution.require_exact_data_out(2 * range.length)?;
    // SBC-4 5.3: no blocks is not an error.
    if range.is_empty() {
        return Ok(Action::good());
    }
    let length = range.length as usize;
    Ok(Action::Procedure(Box::new(CompareAndWrite {
        volume: execution.volume.expect("a command with a unit has a volume"),
        block_length: execution.unit()?.spec.block_length,
        range,
        compare: execution.data_out.slice(..length),
        write: execution.data_out.slice(length..2 * length),
        miscompare: None,
        remark: None,
        lba: execution.extent.lba,
        blocks: execution.cdb.u8(13),
    })))
}

/// One step on the medium. After a miscompare the medium is read, only to learn whether it holds
/// what would have been written.
struct CompareAndWrite {
    volume: VolumeId,
    block_length: LogicalBlockLength,
    range: ByteRange,
    compare: Bytes,
    write: Bytes,
    miscompare: Option<BlockError>,
    remark: Option<Remark>,
    lba: Lba,
    blocks: u8,
}

impl CompareAndWrite {
    fn failed(&self, error: BlockError) -> ProcedureStep {
        ProcedureStep::Done(Completion::from_block_error(error, self.block_length))
    }

    fn compare_and_write(&self) -> ProcedureStep {
        let request = Request::CompareAndWrite {
            range: self.range,
            compare: self.compare.clone(),
            write: self.write.clone(),
        };
        ProcedureStep::Request(self.volume, request)
    }

    fn look(
        &mut self,
        miscompare: BlockError,
        medium: Result<Response, BlockError>,
    ) -> ProcedureStep {
        let is_own = match &medium {
            Ok(Response::Data(medium)) => holds(medium, &self.write),
            _ => false,
        };
        let remark = if is_own { Remark::SameFound(self.written()) } else { Remark::Miscompared };
        self.remark = Some(remark);
        self.failed(miscompare)
    }

    fn written(&self) -> Written {
        let (volume, lba, blocks) = (self.volume, self.lba.0, self.blocks);
        Written { volume, lba, blocks, hash: hash_of(&self.write) }
    }
}

fn holds(medium: &Rope, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    medium.pieces().iter().all(|piece| match rest.split_at_checked(piece.len()) {
        Some((first, after)) => {
            rest = after;
            first == &piece[..]
        }
        None => false,
    })
}

impl Procedure for CompareAndWrite {
    fn advance(&mut self, answer: Option<Answer>) -> ProcedureStep {
        let Some(Answer { result, .. }) = answer else { return self.compare_and_write() };
        match (self.miscompare, result) {
            (Some(miscompare), medium) => self.look(miscompare, medium),
            (None, Ok(_)) => {
                self.remark = Some(Remark::Applied(self.written()));
                ProcedureStep::Done(Completion::good(Rope::new()))
            }
            (None, Err(error @ BlockError::Miscompare { .. })) => {
                self.miscompare = Some(error);
                ProcedureStep::Request(self.volume, Request::Read { range: self.range })
            }
            (None, Err(error)) => self.failed(error),
        }
    }

    fn answered_after_abort(&mut self, answer: Answer) {
        if self.miscompare.is_none() && answer.result.is_ok() {
            self.remark = Some(Remark::Applied(self.written()));
        }
    }

    fn remark(&mut self) -> Option<Remark> {
        self.remark.take()
    }
}
