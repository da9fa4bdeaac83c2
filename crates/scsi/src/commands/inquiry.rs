//! INQUIRY (SPC-4 6.6).

use block::Switch;

use super::vpd;
use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::identity::Identification;
use crate::sense::{self, Sense};

const EVPD: u8 = 0;

/// PERIPHERAL QUALIFIER and DEVICE TYPE of a direct access block device.
pub(super) const BLOCK_DEVICE: u8 = 0x00;

/// Nothing is connected here, but could be: LUN 0 answers so if it has no logical unit.
const NOT_CONNECTED: u8 = 0x3f;

/// Nothing can be connected here.
const NOT_SUPPORTED: u8 = 0x7f;

/// SAM-5, SPC-4, SBC-3, SBC-4, iSCSI: VERSION DESCRIPTORs without a revision.
const VERSION_DESCRIPTORS: [u16; 5] = [0x00a0, 0x0460, 0x04c0, 0x0600, 0x0960];

/// INQUIRY. SPC-4 asks to ignore the reserved bits of byte 1, where SCSI-2 had the LUN.
pub(super) fn inquiry(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let allocation_length = u32::from(execution.cdb.u16(3));
    let page_code = execution.cdb.u8(2);
    let data = if execution.cdb.bit(1, EVPD) {
        let page = vpd::page(execution, page_code)?;
        if vpd::tells_identity(page_code) {
            execution.nexus.identified(execution.lun);
        }
        page
    } else if page_code != 0 {
        return Err(Sense::invalid_cdb_field(2).into());
    } else {
        standard_data(peripheral(execution), execution)
    };
    Ok(Action::data(data, allocation_length))
}

fn peripheral(execution: &Execution<'_>) -> u8 {
    match (execution.volume, execution.lun) {
        (Some(_), _) => BLOCK_DEVICE,
        (None, 0) => NOT_CONNECTED,
        (None, _) => NOT_SUPPORTED,
    }
}

/// Standard INQUIRY data (SPC-4 6.6.2), 96 bytes.
fn standard_data(peripheral: u8, execution: &Execution<'_>) -> Vec<u8> {
    let Identification { vendor, product } = execution.identification();
    let mut data = vec![0; 96];
    data[0] = peripheral;
    data[2] = 6; // VERSION: SPC-4.
    data[3] = 0x12; // HISUP; RESPONSE DATA FORMAT 2.
    data[4] = data.len() as u8 - 5;
    data[5] = 0x10; // TPGS: implicit.
    if execution.is_on(Switch::ExtendedCopy) {
        data[5] |= 0x08; // 3PC.
    }
    if execution.port_groups.ports().nth(1).is_some() {
        data[6] = 0x10; // MULTIP: two target ports or more.
    }
    data[7] = 0x02; // CMDQUE.
    data[8..16].copy_from_slice(&vendor);
    data[16..32].copy_from_slice(&product);
    data[32..36].copy_from_slice(&execution.identity.revision);
    for (field, version) in data[58..].as_chunks_mut().0.iter_mut().zip(VERSION_DESCRIPTORS) {
        *field = version.to_be_bytes();
    }
    data
}

/// REPORT LUNS (SPC-4 6.33).
pub(super) fn report_luns(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let allocation_length = execution.cdb.u32(6);
    // SPC-4 6.33: 16 is the least.
    if allocation_length < 16 {
        return Err(Sense::invalid_cdb_field(6).into());
    }
    let nexus = &mut *execution.nexus;
    let luns: Vec<u16> = match execution.cdb.u8(2) {
        // All logical units, with or without the well known and the administrative ones, of which
        // there are none.
        0x00 | 0x02 | 0x11 => nexus.mappings.keys().copied().collect(),
        // Well known, administrative, or subsidiary logical units only.
        0x01 | 0x10 | 0x12 => Vec::new(),
        _ => return Err(Sense::invalid_cdb_field(2).into()),
    };
    // SPC-4 6.33: the nexus knows the new inventory now.
    nexus.clear_everywhere(sense::REPORTED_LUNS_DATA_HAS_CHANGED);
    nexus.luns_reported();
    let mut data = (luns.len() as u32 * 8).to_be_bytes().to_vec();
    data.extend([0; 4]);
    data.extend(luns.into_iter().flat_map(|lun| crate::lun::emit_lun(lun).to_be_bytes()));
    Ok(Action::data(data, allocation_length))
}

/// REQUEST SENSE (SPC-4 6.39): tells what waits, and clears it.
pub(super) fn request_sense(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let ready = execution.unit().map(|unit| unit.check_ready());
    let is_seen = execution.nexus.mappings.contains_key(&execution.lun);
    let sense: Sense = match ready {
        Ok(ready) if is_seen => match (execution.nexus.take_attention(execution.lun), ready) {
            (Some(condition), _) => condition.into(),
            (None, Err(sense)) => sense,
            (None, Ok(())) => sense::NO_ADDITIONAL_SENSE_INFORMATION.into(),
        },
        _ => sense::LOGICAL_UNIT_NOT_SUPPORTED.into(),
    };
    let descriptors_wanted = execution.cdb.bit(1, 0);
    let data = if descriptors_wanted { sense.emit_descriptors() } else { sense.emit_fixed() };
    Ok(Action::data(data, u32::from(execution.cdb.u8(4))))
}
