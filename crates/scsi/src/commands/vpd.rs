//! Vital product data (SPC-4 7.8, SBC-4 6.6).

use block::{BLOCK, Switch};

use super::inquiry::BLOCK_DEVICE;
use super::mode_pages::{ALL_PAGES, ALL_SUBPAGES};
use super::{copy_results, table, token};
use crate::command::{Execution, Row};
use crate::completion::Completion;
use crate::designator::Designator;
use crate::limits::{
    ATOMIC_BYTES_MAX, COMPARE_AND_WRITE_BLOCKS_MAX, TRANSFER_BYTES_MAX, TRANSFER_BYTES_OPTIMAL,
    UNMAP_BYTES_MAX, UNMAP_DESCRIPTORS_MAX, WRITE_SAME_BYTES_MAX,
};
use crate::sense::Sense;
use crate::space::threshold_exponent;
use crate::unit::LogicalUnit;

type Page = fn(&Execution<'_>, &LogicalUnit) -> Vec<u8>;

/// Every page, by ascending page code; the function yields what follows the header.
const PAGES: &[(u8, Page)] = &[
    (0x00, supported_pages),
    (0x80, unit_serial_number),
    (0x83, device_identification),
    (0x86, extended_inquiry_data),
    (0x87, mode_page_policy),
    (0x88, scsi_ports),
    (THIRD_PARTY_COPY, third_party_copy),
    (0xb0, block_limits),
    (0xb1, block_device_characteristics),
    (0xb2, logical_block_provisioning),
];

/// Page code of the page about third-party copies.
const THIRD_PARTY_COPY: u8 = 0x8f;

/// SPC-4 7.6.1: PROTOCOL IDENTIFIER of iSCSI.
const ISCSI: u8 = 5;

/// A whole page.
///
/// # Errors
/// 05h/24h/00h if there is no such page, 05h/25h/00h if there is no logical unit, 02h/04h/01h for a
/// page about the medium while it cannot be reached.
pub(super) fn page(execution: &Execution<'_>, code: u8) -> Result<Vec<u8>, Completion> {
    let unit = execution.unit()?;
    if is_about_the_medium(code) {
        unit.check_present()?;
    }
    let (_, content) = PAGES
        .iter()
        .find(|(known, _)| *known == code && is_offered(execution, code))
        .ok_or_else(|| Sense::invalid_cdb_field(2))?;
    let content = content(execution, unit);
    let mut page = vec![BLOCK_DEVICE, code];
    page.extend((content.len() as u16).to_be_bytes());
    page.extend(content);
    Ok(page)
}

/// Whether a page tells what is known of the volume's blocks only.
const fn is_about_the_medium(code: u8) -> bool {
    matches!(code, 0xb0..=0xb2)
}

/// Whether a page tells which volume the logical unit is: unit serial number, device identification.
pub(super) const fn tells_identity(code: u8) -> bool {
    matches!(code, 0x80 | 0x83)
}

/// Whether a page is there: SPC-4 7.8.17 has the one about third-party copies only with a copy manager.
fn is_offered(execution: &Execution<'_>, code: u8) -> bool {
    code != THIRD_PARTY_COPY || execution.is_on(Switch::ExtendedCopy)
}

fn supported_pages(execution: &Execution<'_>, _: &LogicalUnit) -> Vec<u8> {
    PAGES.iter().map(|(code, _)| *code).filter(|code| is_offered(execution, *code)).collect()
}

/// The NAA designator in hexadecimal digits.
fn unit_serial_number(_: &Execution<'_>, unit: &LogicalUnit) -> Vec<u8> {
    unit.spec.naa.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
}

/// SPC-4 7.8.6: the unit's NAA name first, which is the one that ESXi uses.
fn device_identification(execution: &Execution<'_>, unit: &LogicalUnit) -> Vec<u8> {
    let nexus = &execution.nexus.spec;
    let port = nexus.relative_target_port.to_be_bytes();
    let group = nexus.target_portal_group.to_be_bytes();
    let target_name = &execution.identity.target_name;
    let mut data = Vec::new();
    for name in Designator::told(&execution.identification(), &unit.spec.naa) {
        data.extend(designator(name.code_set, name.kind, &name.value));
    }
    data.extend(designator(ISCSI << 4 | 0x01, 0x94, &[0, 0, port[0], port[1]]));
    data.extend(designator(ISCSI << 4 | 0x01, 0x95, &[0, 0, group[0], group[1]]));
    data.extend(port_name(target_name, nexus.target_portal_group));
    data.extend(target_device_name(target_name));
    data
}

/// The designation descriptor of the target device.
pub(super) fn target_device_name(target_name: &str) -> Vec<u8> {
    designator(ISCSI << 4 | 0x03, 0xa8, &name_string(target_name))
}

/// SPC-4 7.6.4: the SCSI name of a target port, as a designation descriptor.
fn port_name(target_name: &str, group: u16) -> Vec<u8> {
    let name = format!("{target_name},t,0x{group:04x}");
    designator(ISCSI << 4 | 0x03, 0x98, &name_string(&name))
}

/// SPC-4 7.8.13: every target port, on whatever path it is asked.
fn scsi_ports(execution: &Execution<'_>, _: &LogicalUnit) -> Vec<u8> {
    let mut data = Vec::new();
    for (port, group) in execution.port_groups.ports_and_groups() {
        let name = port_name(&execution.identity.target_name, group);
        data.extend([0, 0]);
        data.extend(port.to_be_bytes());
        // No initiator port has this identifier.
        data.extend([0; 6]);
        data.extend((name.len() as u16).to_be_bytes());
        data.extend(name);
    }
    data
}

/// SPC-4 7.8.9: all mode pages and subpages are shared by all nexuses, and each unit has its own.
fn mode_page_policy(_: &Execution<'_>, _: &LogicalUnit) -> Vec<u8> {
    const SHARED: u8 = 0x00;
    vec![ALL_PAGES, ALL_SUBPAGES, SHARED, 0]
}

/// One designation descriptor; `kind` holds PIV, ASSOCIATION and DESIGNATOR TYPE.
fn designator(protocol_and_code_set: u8, kind: u8, value: &[u8]) -> Vec<u8> {
    let mut descriptor = vec![protocol_and_code_set, kind, 0, value.len() as u8];
    descriptor.extend(value);
    descriptor
}

/// SPC-4 7.8.6.11: terminated by a zero and padded with zeros to a multiple of 4 bytes.
fn name_string(name: &str) -> Vec<u8> {
    let mut string = name.as_bytes().to_vec();
    string.resize((name.len() / 4 + 1) * 4, 0);
    string
}

fn extended_inquiry_data(_: &Execution<'_>, _: &LogicalUnit) -> Vec<u8> {
    let mut data = vec![0; 60];
    data[1] = 0x07; // HEADSUP, ORDSUP, SIMPSUP.
    data[3] = 0x01; // LUICLR: a LUN-related attention is cleared for all units together.
    data
}

/// SPC-4 7.8.17: what EXTENDED COPY and RECEIVE COPY RESULTS can do.
fn third_party_copy(_: &Execution<'_>, unit: &LogicalUnit) -> Vec<u8> {
    let mut data = Vec::new();
    let limits = token::block_device_limits(unit.block_bytes());
    data.extend(third_party_descriptor(0x0000, &limits));
    data.extend(third_party_descriptor(0x0001, &supported_commands()));
    data.extend(third_party_descriptor(0x0004, &copy_results::parameter_data()));
    data.extend(third_party_descriptor(0x0008, &copy_results::supported_descriptors()));
    data.extend(third_party_descriptor(0x000c, &copy_results::supported_cscd_ids()));
    data.extend(third_party_descriptor(0x0106, &token::token_features()));
    data.extend(third_party_descriptor(0x0108, &token::supported_rod_types()));
    data.extend(third_party_descriptor(0x8001, &copy_results::general_copy_operations()));
    data
}

/// Type, length, and a value padded to a multiple of 4 bytes.
fn third_party_descriptor(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = value.len().next_multiple_of(4);
    let mut descriptor = kind.to_be_bytes().to_vec();
    descriptor.extend((length as u16).to_be_bytes());
    descriptor.extend(value);
    descriptor.resize(4 + length, 0);
    descriptor
}

/// SPC-4 7.8.17.3: operation codes with their service actions.
fn supported_commands() -> Vec<u8> {
    let mut list = Vec::new();
    for opcode in [table::EXTENDED_COPY, table::RECEIVE_COPY_RESULTS] {
        let rows = table::rows(opcode);
        let actions: Vec<u8> = rows.iter().filter_map(|row: &Row| row.service_action).collect();
        list.extend([opcode, actions.len() as u8]);
        list.extend(actions);
    }
    list.insert(0, list.len() as u8);
    list
}

/// SBC-4 6.6.4. What is said of a command that is turned off is zero.
fn block_limits(execution: &Execution<'_>, unit: &LogicalUnit) -> Vec<u8> {
    let blocks = |bytes: u64| (bytes / unit.block_bytes()) as u32;
    let mut page = vec![0; 64];
    if execution.is_on(Switch::CompareAndWrite) {
        page[5] = COMPARE_AND_WRITE_BLOCKS_MAX;
    }
    page[6..8].copy_from_slice(&(blocks(BLOCK) as u16).to_be_bytes());
    page[8..12].copy_from_slice(&blocks(TRANSFER_BYTES_MAX).to_be_bytes());
    page[12..16].copy_from_slice(&blocks(TRANSFER_BYTES_OPTIMAL).to_be_bytes());
    page[16..20].copy_from_slice(&blocks(TRANSFER_BYTES_MAX).to_be_bytes());
    if execution.is_on(Switch::Unmap) {
        page[20..24].copy_from_slice(&blocks(UNMAP_BYTES_MAX).to_be_bytes());
        page[24..28].copy_from_slice(&(UNMAP_DESCRIPTORS_MAX as u32).to_be_bytes());
        // OPTIMAL UNMAP GRANULARITY: a pool block, which divides the 1 MiB of VMFS-6; aligned to it.
        page[28..32].copy_from_slice(&blocks(BLOCK).to_be_bytes());
        page[32] = 0x80; // UGAVALID.
    }
    if execution.is_on(Switch::WriteSame) {
        page[4] = 0x01; // WSNZ.
        page[36..44].copy_from_slice(&u64::from(blocks(WRITE_SAME_BYTES_MAX)).to_be_bytes());
    }
    // ATOMIC ALIGNMENT and GRANULARITY: none. There is no atomic boundary.
    page[44..48].copy_from_slice(&blocks(ATOMIC_BYTES_MAX).to_be_bytes());
    page.split_off(4)
}

/// SBC-4 6.6.2: a medium without rotation.
fn block_device_characteristics(_: &Execution<'_>, _: &LogicalUnit) -> Vec<u8> {
    let mut data = vec![0; 60];
    data[1] = 0x01;
    // WABEREQ 01b: after a block erase, reads succeed.
    data[3] = 0x40;
    data
}

/// SBC-4 6.6.5. With nothing that unmaps, LBPME of READ CAPACITY (16) is zero, and PROVISIONING TYPE
/// is not reported; thresholds are, since the space of a thin volume may still run out.
fn logical_block_provisioning(execution: &Execution<'_>, unit: &LogicalUnit) -> Vec<u8> {
    const LBPU_LBPRZ: u8 = 0x84;
    const LBPWS_LBPWS10: u8 = 0x60;
    const ANC_SUP: u8 = 0x02;
    let exponent = threshold_exponent(unit.spec.block_length);
    if !execution.is_on(Switch::Unmap) {
        return vec![exponent, 0, 0, 0];
    }
    let write_same = if execution.is_on(Switch::WriteSame) { LBPWS_LBPWS10 } else { 0 };
    if unit.anchors() {
        vec![exponent, LBPU_LBPRZ | write_same | ANC_SUP, 1, 0]
    } else {
        vec![exponent, LBPU_LBPRZ | write_same, 2, 0]
    }
}
