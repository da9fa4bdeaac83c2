//! Consistency of what a LUN reports: its pages and parameters, compared with each other.

use super::{Scratch, is_unknown, says};
use crate::esxi::counters::Kind;
use crate::initiator::cdb;
use crate::initiator::session::{Data, SessionError};
use crate::validate::model::Verdict;

type Probe = Result<super::Probe, SessionError>;

pub(super) fn provisioning(scratch: &mut Scratch<'_>) -> Probe {
    let identity = scratch.lun.identity.clone();
    let bits = scratch.page(0xb2).get(5).copied();
    let claim = format!(
        "READ CAPACITY (16): LBPME = {}, LBPRZ = {}",
        u8::from(identity.thin),
        u8::from(identity.reads_zeros)
    );
    let Some(bits) = bits else {
        let verdict = if identity.thin { Verdict::Lie } else { Verdict::NotClaimed };
        return Ok(says(claim, "no VPD page B2h", verdict));
    };
    let (unmap, same, zeros) = (bits >> 7, bits >> 6 & 1, bits >> 2 & 7);
    let found = format!("VPD page B2h: LBPU = {unmap}, LBPWS = {same}, LBPRZ = {zeros}");
    let agree = identity.reads_zeros == (zeros & 1 == 1) && (identity.thin || unmap == 0);
    let nothing = identity.thin && unmap == 0 && same == 0;
    let verdict = match (agree && !nothing, identity.thin) {
        (false, _) => Verdict::Lie,
        (true, true) => Verdict::Honest,
        (true, false) => Verdict::NotClaimed,
    };
    Ok(says(claim, found, verdict))
}

/// REPORT SUPPORTED OPERATION CODES of one command: whether it is supported as the standard says.
fn reported(scratch: &mut Scratch<'_>, opcode: u8) -> Option<bool> {
    let mut cdb = [0; 16];
    cdb[..4].copy_from_slice(&[0xa3, 0x0c, 1, opcode]);
    cdb[9] = 64;
    let answer = scratch.send(Kind::Other, cdb, Data::In(vec![0; 64])).ok()?;
    match answer.get(1)? & 7 {
        1 => Some(false),
        3 | 5 => Some(true),
        _ => None,
    }
}

/// A form of each offload's command that changes nothing, or only the scratch area.
fn harmless(scratch: &mut Scratch<'_>, opcode: u8) -> Result<Vec<u8>, SessionError> {
    let lba = scratch.lba(0);
    match opcode {
        0x89 => scratch.send(Kind::Other, cdb::compare_and_write(lba, 0), Data::None),
        0x93 => scratch.send(Kind::Other, cdb::write_same(lba, 1), Data::Out(vec![0; 512])),
        0x42 => scratch.send(Kind::Other, cdb::unmap(0), Data::None),
        _ => scratch.send(Kind::Other, cdb::extended_copy(0), Data::None),
    }
}

pub(super) fn listed(scratch: &mut Scratch<'_>) -> Probe {
    let pages = scratch.lun.identity.pages.clone();
    let missing: Vec<String> = pages
        .iter()
        .filter(|page| scratch.page(**page).get(1) != Some(page))
        .map(|page| format!("page {page:02X}h is listed and missing"))
        .collect();
    let mut wrong = missing;
    let mut told = 0;
    for (opcode, name) in [
        (0x89, "COMPARE AND WRITE"),
        (0x93, "WRITE SAME (16)"),
        (0x42, "UNMAP"),
        (0x83, "EXTENDED COPY"),
    ] {
        let Some(claimed) = reported(scratch, opcode) else { continue };
        told += 1;
        let unknown = is_unknown(&harmless(scratch, opcode));
        if unknown && scratch.missing.contains(&opcode) {
            // Known, and counted.
            continue;
        }
        if claimed == unknown {
            let not =
                if claimed { "is listed and does not exist" } else { "exists and is not listed" };
            wrong.push(format!("{name} {not}"));
        }
    }
    let claim =
        format!("{} VPD pages; {told} of 4 offloads in the list of operation codes", pages.len());
    // What is wrong here is not what was found before.
    scratch.unknown.retain(|opcode| !scratch.missing.contains(opcode));
    let verdict = match (wrong.is_empty(), told) {
        (false, _) => Verdict::Lie,
        (true, 0) => Verdict::Unclear,
        (true, _) => Verdict::Honest,
    };
    let found = if wrong.is_empty() { "all exist".to_owned() } else { wrong.join("; ") };
    Ok(says(claim, found, verdict))
}
