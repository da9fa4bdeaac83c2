//! RECEIVE COPY RESULTS (SPC-3 6.18), and what VPD page 8Fh says of the copy manager.

use super::extended_copy::{CSCD_NAA, SEGMENT_BLOCK_TO_BLOCK};
use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::limits::{
    CONCURRENT_COPIES_MAX, CSCD_DESCRIPTORS_MAX, DESCRIPTOR_LIST_BYTES_MAX, SEGMENT_DESCRIPTORS_MAX,
};
use crate::sense::Sense;

/// log2 of the granularity of what is copied, in bytes.
const SEGMENT_GRANULARITY: u8 = 9;

/// How an EXTENDED COPY ended, for RECEIVE COPY RESULTS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyResult {
    pub(crate) list_id: u8,
    pub(crate) failed: bool,
    /// Segments that were copied completely.
    pub(crate) segments: u16,
    pub(crate) copied_bytes: u64,
}

/// RECEIVE COPY RESULTS, COPY STATUS: of a copy of this nexus that has ended.
pub(super) fn copy_status(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    const COMPLETED: u8 = 0x01;
    const COMPLETED_WITH_ERRORS: u8 = 0x02;
    const KIBIBYTES: u8 = 0x01;
    let list_id = execution.cdb.u8(2);
    let mut held = execution.nexus.copy_results.iter().map(|(_, result)| result);
    let result = held.find(|result| result.list_id == list_id);
    let result = result.ok_or_else(|| Sense::invalid_cdb_field(2))?;
    let mut data = 8u32.to_be_bytes().to_vec();
    data.push(if result.failed { COMPLETED_WITH_ERRORS } else { COMPLETED });
    data.extend(result.segments.to_be_bytes());
    data.push(KIBIBYTES);
    let kibibytes = u32::try_from(result.copied_bytes / 1024).unwrap_or(u32::MAX);
    data.extend(kibibytes.to_be_bytes());
    Ok(Action::data(data, execution.cdb.u32(10)))
}

/// RECEIVE COPY RESULTS, OPERATING PARAMETERS.
pub(super) fn operating_parameters(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    const SNLID: u8 = 0x01;
    let codes = [SEGMENT_BLOCK_TO_BLOCK, CSCD_NAA];
    let mut data = vec![0; 44];
    data[4] = SNLID;
    data[8..10].copy_from_slice(&(CSCD_DESCRIPTORS_MAX as u16).to_be_bytes());
    data[10..12].copy_from_slice(&(SEGMENT_DESCRIPTORS_MAX as u16).to_be_bytes());
    data[12..16].copy_from_slice(&(DESCRIPTOR_LIST_BYTES_MAX as u32).to_be_bytes());
    // MAXIMUM SEGMENT LENGTH: what the 16-bit count of a segment can name.
    let segment_bytes = u64::from(u16::MAX) * execution.unit()?.block_bytes();
    data[16..20].copy_from_slice(&(segment_bytes as u32).to_be_bytes());
    data[34..36].copy_from_slice(&CONCURRENT_COPIES_MAX.to_be_bytes());
    data[36] = u8::try_from(CONCURRENT_COPIES_MAX).unwrap_or(u8::MAX);
    data[37] = SEGMENT_GRANULARITY;
    data[43] = codes.len() as u8;
    data.extend(codes);
    let available = data.len() as u32 - 4;
    data[..4].copy_from_slice(&available.to_be_bytes());
    Ok(Action::data(data, execution.cdb.u32(10)))
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
    vec![2, SEGMENT_BLOCK_TO_BLOCK, CSCD_NAA]
}

/// SPC-4 7.8.17.12: general copy operations.
pub(super) fn general_copy_operations() -> Vec<u8> {
    let mut data = u32::from(CONCURRENT_COPIES_MAX).to_be_bytes().to_vec();
    data.extend(u32::from(CONCURRENT_COPIES_MAX).to_be_bytes());
    data.extend([0; 4]);
    data.push(SEGMENT_GRANULARITY);
    data.resize(32, 0);
    data
}
