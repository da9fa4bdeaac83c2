//! GET LBA STATUS (SBC-4 5.6).

use block::{
    ByteRange, Lba, LogicalBlockLength, MapExtent, MapState, Request, Response, Rope, VolumeId,
};
use bytes::Bytes;

use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::limits::{LBA_STATUS_BYTES_MAX, LBA_STATUS_DESCRIPTORS_MAX};
use crate::procedure::{Answer, Procedure, ProcedureStep};
use crate::sense::{self, Sense};

const HEADER_BYTES: usize = 8;
const DESCRIPTOR_BYTES: usize = 16;

/// GET LBA STATUS (16). Of the report types of SBC-4 there is only 00h, all blocks.
pub(super) fn get_lba_status_16(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    get_lba_status(execution, Lba(execution.cdb.u64(2)), 0, execution.cdb.u32(10))
}

/// GET LBA STATUS (32): the same, with a limit to what is looked at.
pub(super) fn get_lba_status_32(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let scan_length = u64::from(execution.cdb.u32(20));
    get_lba_status(execution, Lba(execution.cdb.u64(12)), scan_length, execution.cdb.u32(28))
}

/// `scan_length` in blocks, 0 for as many as there are.
fn get_lba_status(
    execution: &Execution<'_>,
    lba: Lba,
    scan_length: u64,
    allocation_length: u32,
) -> Result<Action, Completion> {
    let unit = execution.unit()?;
    if lba.0 >= unit.blocks() {
        return Err(Sense::from(sense::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE).into());
    }
    let offset = lba.0 * unit.block_bytes();
    let size = unit.blocks() * unit.block_bytes();
    let allocation_length = allocation_length as usize;
    let scan_bytes = match scan_length {
        0 => LBA_STATUS_BYTES_MAX,
        blocks => (blocks * unit.block_bytes()).min(LBA_STATUS_BYTES_MAX),
    };
    let room = allocation_length.saturating_sub(HEADER_BYTES) / DESCRIPTOR_BYTES;
    Ok(Action::Procedure(Box::new(GetLbaStatus {
        volume: execution.volume.expect("a command with a unit has a volume"),
        block_length: unit.spec.block_length,
        range: ByteRange::new(offset, (size - offset).min(scan_bytes)),
        extents_max: room.clamp(1, LBA_STATUS_DESCRIPTORS_MAX),
        allocation_length,
        anchors: unit.anchors(),
    })))
}

struct GetLbaStatus {
    volume: VolumeId,
    block_length: LogicalBlockLength,
    range: ByteRange,
    extents_max: usize,
    allocation_length: usize,
    /// Whether what is not mapped is anchored.
    anchors: bool,
}

impl GetLbaStatus {
    fn emit(&self, extents: &[MapExtent]) -> Bytes {
        let mut data = vec![0; HEADER_BYTES];
        for extent in extents.iter().take(self.extents_max) {
            data.extend(self.emit_descriptor(extent));
        }
        let length = (data.len() - 4) as u32;
        data[..4].copy_from_slice(&length.to_be_bytes());
        data.truncate(self.allocation_length);
        Bytes::from(data)
    }

    fn emit_descriptor(&self, extent: &MapExtent) -> [u8; DESCRIPTOR_BYTES] {
        let block_bytes = self.block_length.bytes();
        let mut descriptor = [0; DESCRIPTOR_BYTES];
        let lba = extent.range.offset / block_bytes;
        let count = u32::try_from(extent.range.length / block_bytes).unwrap_or(u32::MAX);
        descriptor[..8].copy_from_slice(&lba.to_be_bytes());
        descriptor[8..12].copy_from_slice(&count.to_be_bytes());
        descriptor[12] = match extent.state {
            MapState::Mapped => 0,
            MapState::Deallocated if !self.anchors => 1,
            MapState::Deallocated | MapState::Anchored => 2,
        };
        descriptor
    }
}

impl Procedure for GetLbaStatus {
    fn advance(&mut self, answer: Option<Answer>) -> ProcedureStep {
        let completion = match answer.map(|answer| answer.result) {
            None => {
                let (range, extents_max) = (self.range, self.extents_max);
                return ProcedureStep::Request(
                    self.volume,
                    Request::MapStatus { range, extents_max },
                );
            }
            Some(Ok(Response::Map(extents))) => Completion::good(Rope::from(self.emit(&extents))),
            Some(Ok(_)) => unreachable!("MapStatus is answered with a map"),
            Some(Err(error)) => Completion::from_block_error(error, self.block_length),
        };
        ProcedureStep::Done(completion)
    }
}
