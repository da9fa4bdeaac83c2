//! REPORT TARGET PORT GROUPS (SPC-4 6.37) and REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS (6.36).

use std::collections::BTreeMap;

use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::sense::Sense;

/// SPC-4 table 314: active/optimized is the only state of a port.
const ACTIVE_OPTIMIZED_SUPPORTED: u8 = 0x01;

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
    for (group, ports) in groups(execution.ports) {
        data.extend([0, ACTIVE_OPTIMIZED_SUPPORTED]);
        data.extend(group.to_be_bytes());
        data.extend([0, 0, 0, ports.len() as u8]);
        data.extend(ports.iter().flat_map(|port| u32::from(*port).to_be_bytes()));
    }
    let length = data.len() as u32 - 4;
    data[..4].copy_from_slice(&length.to_be_bytes());
    Ok(Action::data(data, execution.cdb.u32(6)))
}

fn groups(ports: &BTreeMap<u16, u16>) -> BTreeMap<u16, Vec<u16>> {
    let mut groups = BTreeMap::<u16, Vec<u16>>::new();
    for (&port, &group) in ports {
        groups.entry(group).or_default().push(port);
    }
    groups
}

/// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS: abort task, abort task set, clear task set, logical
/// unit reset, target reset.
pub(super) fn report_task_management(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    const ATS_ATSS_CTSS_LURS_TRS: u8 = 0xda;
    let allocation_length = execution.cdb.u32(6);
    if allocation_length < 4 {
        return Err(Sense::invalid_cdb_field(6).into());
    }
    let extended = execution.cdb.bit(2, 7);
    let data = match extended {
        false => vec![ATS_ATSS_CTSS_LURS_TRS, 0, 0, 0],
        true => {
            let mut data = vec![0; 16];
            data[..4].copy_from_slice(&[ATS_ATSS_CTSS_LURS_TRS, 0, 0, 12]);
            data
        }
    };
    Ok(Action::data(data, allocation_length))
}
