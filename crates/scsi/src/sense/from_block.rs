//! Conversion of block errors into sense data: the only place where that is decided.

use block::{BlockError, LogicalBlockLength};

use super::{
    INTERNAL_TARGET_FAILURE, LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE,
    LOGICAL_UNIT_IS_IN_PROCESS_OF_BECOMING_READY, LOGICAL_UNIT_NOT_SUPPORTED,
    MISCOMPARE_DURING_VERIFY_OPERATION, SPACE_ALLOCATION_FAILED_WRITE_PROTECT,
    SPACE_ALLOCATION_IN_PROGRESS, Sense, THIRD_PARTY_DEVICE_FAILURE, UNRECOVERED_READ_ERROR,
    WRITE_PROTECTED,
};
use crate::completion::{Completion, Status};

impl Completion {
    /// How a command ends whose request failed.
    pub(crate) fn from_block_error(error: BlockError, block_length: LogicalBlockLength) -> Self {
        let sense: Sense = match error {
            BlockError::Busy => return Self::status(Status::Busy),
            BlockError::OutOfRange => LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE.into(),
            // SBC-4 5.3: INFORMATION is the offset of the first difference in the Data-Out.
            BlockError::Miscompare { offset } => {
                Sense::from(MISCOMPARE_DURING_VERIFY_OPERATION).with_information(offset)
            }
            BlockError::OutOfSpace => SPACE_ALLOCATION_FAILED_WRITE_PROTECT.into(),
            // SBC-4 4.18: INFORMATION is the address of the bad block.
            BlockError::Medium { offset } => {
                Sense::from(UNRECOVERED_READ_ERROR).with_information(offset / block_length.bytes())
            }
            BlockError::SpaceComing => SPACE_ALLOCATION_IN_PROGRESS.into(),
            BlockError::ReadOnly | BlockError::Snapshot => WRITE_PROTECTED.into(),
            BlockError::NoSuchVolume => LOGICAL_UNIT_NOT_SUPPORTED.into(),
            BlockError::DifferentPool => INTERNAL_TARGET_FAILURE.into(),
            BlockError::Closed => LOGICAL_UNIT_IS_IN_PROCESS_OF_BECOMING_READY.into(),
        };
        sense.into()
    }

    /// How an EXTENDED COPY ends whose request failed.
    pub(crate) fn from_copy_error(error: BlockError, block_length: LogicalBlockLength) -> Self {
        match error {
            BlockError::Medium { .. } | BlockError::NoSuchVolume | BlockError::OutOfRange => {
                Sense::from(THIRD_PARTY_DEVICE_FAILURE).into()
            }
            _ => Self::from_block_error(error, block_length),
        }
    }
}
