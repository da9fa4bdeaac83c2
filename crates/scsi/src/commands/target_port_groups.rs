//! REPORT TARGET PORT GROUPS (SPC-4 6.37) and REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS (6.36).

use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::sense::Sense;

/// REPORT TARGET PORT GROUPS: every group with every port, on whatever path it is asked.
pub(super) fn report_target_port_groups(
    execution: &mut Execution<'_>,
) -> Result<Action, Completion> {
    let header: &[u8] = match execution.cdb.u8(1) >> 5 {
        0 => &[0; 4],
        // Extended header: RETURN DATA FORMAT 1, no implicit transition time.
        1 => &[0, 0, 0, 0, 0x10, 0, 0, 0],
        _ => return Err(Sense::invalid_cdb_bit(1, 7).into()),
    };
    let mut data = header.to_vec();
    let access = execution.unit().map(|unit| unit.access.clone()).unwrap_or_default();
    data.extend(execution.port_groups.descriptors(&access));
    let length = data.len() as u32 - 4;
    data[..4].copy_from_slice(&length.to_be_bytes());
    Ok(Action::data(data, execution.cdb.u32(6)))
}

/// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS: all but CLEAR ACA and the obsolete ones.
pub(super) fn report_task_management(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    /// ABORT TASK, ABORT TASK SET, CLEAR TASK SET, LOGICAL UNIT RESET, QUERY TASK, TARGET RESET.
    const ATS_ATSS_CTSS_LURS_QTS_TRS: u8 = 0xde;
    /// QUERY ASYNCHRONOUS EVENT, QUERY TASK SET, I_T NEXUS RESET.
    const QAES_QTSS_ITNRS: u8 = 0x07;
    let allocation_length = execution.cdb.u32(6);
    if allocation_length < 4 {
        return Err(Sense::invalid_cdb_field(6).into());
    }
    let mut data = vec![ATS_ATSS_CTSS_LURS_QTS_TRS, QAES_QTSS_ITNRS, 0, 0];
    if execution.cdb.bit(2, 7) {
        data[3] = 12;
        data.resize(16, 0);
    }
    Ok(Action::data(data, allocation_length))
}
