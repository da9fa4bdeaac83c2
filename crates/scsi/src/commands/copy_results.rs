//! RECEIVE COPY RESULTS and its relatives: status of third-party copies (SPC-4 6.22 to 6.27), and
//! VPD page 8Fh about the copy manager.

use super::extended_copy::{
    BLOCK_TO_BLOCK, BLOCK_TO_BLOCK_WITH_OFFSET, CSCD_IDENTIFICATION, THIS_LOGICAL_UNIT,
};
use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::copy_operations::{CopyRecord, CopyState};
use crate::limits::{
    CONCURRENT_COPIES_MAX, CSCD_DESCRIPTORS_MAX, DESCRIPTOR_LIST_BYTES_MAX, IDENTIFIED_COPIES_MAX,
    SEGMENT_BYTES_MAX, SEGMENT_DESCRIPTORS_MAX,
};
use crate::sense::Sense;

/// log2 of the granularity of what is copied, in bytes: single ones.
const SEGMENT_GRANULARITY: u8 = 0;

/// Descriptor type codes, ascending.
const DESCRIPTOR_TYPE_CODES: [u8; 3] =
    [BLOCK_TO_BLOCK, BLOCK_TO_BLOCK_WITH_OFFSET, CSCD_IDENTIFICATION];

/// COPY COMMAND STATUS.
mod command_status {
    pub(super) const IN_PROGRESS: u8 = 0x00;
    pub(super) const COMPLETED: u8 = 0x01;
    pub(super) const FAILED: u8 = 0x02;
    pub(super) const IN_PROGRESS_FOREGROUND: u8 = 0x11;
    pub(super) const IN_PROGRESS_BACKGROUND: u8 = 0x12;
    pub(super) const ABORTED: u8 = 0x60;
}

/// TRANSFER COUNT UNITS.
const BYTES: u8 = 0x00;
const KIBIBYTES: u8 = 0x01;

/// The copy of this nexus with that list identifier.
pub(super) fn find<'a>(
    execution: &'a Execution<'_>,
    list_id: u32,
) -> Result<&'a CopyRecord, Completion> {
    let record = execution.copies.find(execution.nexus_id, list_id);
    record.ok_or_else(|| Sense::invalid_cdb_field(2).into())
}

/// RECEIVE COPY STATUS (LID1).
pub(super) fn copy_status_lid1(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let record = find(execution, u32::from(execution.cdb.u8(2)))?;
    let status = match record.state {
        CopyState::InProgress => command_status::IN_PROGRESS,
        CopyState::Completed => command_status::COMPLETED,
        CopyState::Failed(..) | CopyState::Aborted => command_status::FAILED,
    };
    let bytes = record.progress.bytes;
    let (units, count) = match u32::try_from(bytes) {
        Ok(bytes) => (BYTES, bytes),
        Err(_) => (KIBIBYTES, u32::try_from(bytes / 1024).unwrap_or(u32::MAX)),
    };
    let mut data = 8u32.to_be_bytes().to_vec();
    data.push(status);
    data.extend(record.progress.segments.to_be_bytes());
    data.push(units);
    data.extend(count.to_be_bytes());
    Ok(Action::data(data, execution.cdb.u32(10)))
}

/// RECEIVE COPY FAILURE DETAILS (LID1): of a copy that failed; nothing for others.
pub(super) fn failure_details(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let record = find(execution, u32::from(execution.cdb.u8(2)))?;
    let CopyState::Failed(status, sense) = &record.state else {
        return Ok(Action::data(vec![0; 60], execution.cdb.u32(10)));
    };
    let sense = sense.map_or(Vec::new(), |sense| sense.emit());
    let mut data = vec![0; 60];
    // EXTENDED COPY COMMAND STATUS is the status code of the command.
    data[56] = status.code();
    data[58..60].copy_from_slice(&(sense.len() as u16).to_be_bytes());
    data.extend(sense);
    let available = data.len() as u32 - 4;
    data[..4].copy_from_slice(&available.to_be_bytes());
    Ok(Action::data(data, execution.cdb.u32(10)))
}

/// RECEIVE COPY STATUS (LID4).
pub(super) fn copy_status_lid4(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let record = find(execution, execution.cdb.u32(2))?;
    let data = with_length(status_lid4(record, (BYTES, record.progress.bytes)));
    Ok(Action::data(data, execution.cdb.u32(10)))
}

/// What RECEIVE COPY STATUS (LID4) and RECEIVE ROD TOKEN INFORMATION have in common, with room for
/// AVAILABLE DATA.
pub(super) fn status_lid4(record: &CopyRecord, (units, count): (u8, u64)) -> Vec<u8> {
    let progress = &record.progress;
    let (status, completion, sense) = match &record.state {
        CopyState::InProgress if progress.in_background => {
            (command_status::IN_PROGRESS_BACKGROUND, 0, None)
        }
        CopyState::InProgress => (command_status::IN_PROGRESS_FOREGROUND, 0, None),
        CopyState::Completed => (command_status::COMPLETED, 0, None),
        CopyState::Failed(status, sense) => (command_status::FAILED, status.code(), *sense),
        CopyState::Aborted => (command_status::ABORTED, 0, None),
    };
    let sense = sense.map_or(Vec::new(), |sense| sense.emit());
    let mut data = vec![0; 32];
    data[4] = progress.service_action;
    data[5] = status;
    data[6..8].copy_from_slice(&progress.operations.to_be_bytes());
    // ESTIMATED STATUS UPDATE DELAY: not known.
    data[8..12].fill(0xff);
    data[12] = completion;
    data[13] = sense.len() as u8;
    data[14] = sense.len() as u8;
    data[15] = units;
    data[16..24].copy_from_slice(&count.to_be_bytes());
    data[24..26].copy_from_slice(&progress.segments.to_be_bytes());
    data.extend(sense);
    data
}

/// Fills in AVAILABLE DATA.
pub(super) fn with_length(mut data: Vec<u8>) -> Vec<u8> {
    let available = data.len() as u32 - 4;
    data[..4].copy_from_slice(&available.to_be_bytes());
    data
}

/// RECEIVE COPY OPERATING PARAMETERS.
pub(super) fn operating_parameters(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    const SNLID: u8 = 0x01;
    let mut data = vec![0; 44];
    data[4] = SNLID;
    data[8..10].copy_from_slice(&(CSCD_DESCRIPTORS_MAX as u16).to_be_bytes());
    data[10..12].copy_from_slice(&(SEGMENT_DESCRIPTORS_MAX as u16).to_be_bytes());
    data[12..16].copy_from_slice(&(DESCRIPTOR_LIST_BYTES_MAX as u32).to_be_bytes());
    data[16..20].copy_from_slice(&(SEGMENT_BYTES_MAX as u32).to_be_bytes());
    data[34..36].copy_from_slice(&CONCURRENT_COPIES_MAX.to_be_bytes());
    data[36] = IDENTIFIED_COPIES_MAX as u8;
    data[37] = SEGMENT_GRANULARITY;
    data[43] = DESCRIPTOR_TYPE_CODES.len() as u8;
    data.extend(DESCRIPTOR_TYPE_CODES);
    Ok(Action::data(with_length(data), execution.cdb.u32(10)))
}

/// SPC-4 7.8.17.4: parameter data.
pub(super) fn parameter_data() -> Vec<u8> {
    let mut data = vec![0; 28];
    data[4..6].copy_from_slice(&(CSCD_DESCRIPTORS_MAX as u16).to_be_bytes());
    data[6..8].copy_from_slice(&(SEGMENT_DESCRIPTORS_MAX as u16).to_be_bytes());
    data[8..12].copy_from_slice(&(DESCRIPTOR_LIST_BYTES_MAX as u32).to_be_bytes());
    data
}

/// SPC-4 7.8.17.5: descriptor type codes, with the length of their list before them.
pub(super) fn supported_descriptors() -> Vec<u8> {
    let mut data = vec![DESCRIPTOR_TYPE_CODES.len() as u8];
    data.extend(DESCRIPTOR_TYPE_CODES);
    data
}

/// SPC-4 7.8.17.6: CSCD identifiers beside the numbers of descriptors, with the length of their
/// list before them.
pub(super) fn supported_cscd_ids() -> Vec<u8> {
    let mut data = 2u16.to_be_bytes().to_vec();
    data.extend(THIS_LOGICAL_UNIT.to_be_bytes());
    data
}

/// SPC-4 7.8.17.12: general copy operations.
pub(super) fn general_copy_operations() -> Vec<u8> {
    let mut data = u32::from(CONCURRENT_COPIES_MAX).to_be_bytes().to_vec();
    data.extend((IDENTIFIED_COPIES_MAX as u32).to_be_bytes());
    data.extend((SEGMENT_BYTES_MAX as u32).to_be_bytes());
    data.push(SEGMENT_GRANULARITY);
    data.resize(32, 0);
    data
}
