//! libiscsi's conformance tests as a witness: no failure, and every skip has a reason.

use std::time::Duration;

use anyhow::Result;
use harness::Array;
use harness::cunit::{Case, run_family};
use harness::pdu::RawSession;

const FAMILIES: [&str; 43] = [
    "TestUnitReady",
    "Inquiry",
    "Mandatory",
    "ReadCapacity10",
    "ReadCapacity16",
    "Read6",
    "Read10",
    "Read12",
    "Read16",
    "Write10",
    "Write12",
    "Write16",
    "Verify10",
    "Verify12",
    "Verify16",
    "WriteVerify10",
    "WriteVerify12",
    "WriteVerify16",
    "CompareAndWrite",
    "ExtendedCopy",
    "ReceiveCopyResults",
    "WriteSame10",
    "WriteSame16",
    "Unmap",
    "GetLBAStatus",
    "ReportSupportedOpcodes",
    "iSCSIcmdsn",
    "iSCSIdatasn",
    "ModeSense6",
    "OrWrite",
    "Prefetch10",
    "Prefetch16",
    "PrinReadKeys",
    "PrinReportCapabilities",
    "PrinServiceactionRange",
    "ProutClear",
    "ProutPreempt",
    "ProutRegister",
    "ProutReserve",
    "ReadDefectData10",
    "ReadDefectData12",
    "Reserve6",
    "iSCSITMF",
];

const FAMILY_TIMEOUT: Duration = Duration::from_secs(120);

/// A part that the witness may skip.
struct Skip {
    /// SUITE.TEST.
    case: &'static str,
    /// What the witness says.
    remark: &'static str,
    /// Why it is right to skip it.
    reason: &'static str,
}

const WSNZ: &str =
    "WSNZ is set: a WRITE SAME of 0 blocks would mean the whole rest of the LUN, and is refused";

const LBPPB: &str = "there is nothing unaligned to try: each logical block is a physical block. \
    Data of the wrong size is tried in bad_input";

const SKIPS: [Skip; 7] = [
    Skip { case: "WriteSame10.ZeroBlocks", remark: "does not support 0-blocks", reason: WSNZ },
    Skip { case: "WriteSame16.ZeroBlocks", remark: "does not support 0-blocks", reason: WSNZ },
    Skip { case: "CompareAndWrite.InvalidDataOutSize", remark: "LBPPB < 2", reason: LBPPB },
    Skip { case: "WriteSame10.UnmapUnaligned", remark: "LBPPB < 2", reason: LBPPB },
    Skip { case: "WriteSame10.InvalidDataOutSize", remark: "LBPPB < 2", reason: LBPPB },
    Skip { case: "WriteSame16.UnmapUnaligned", remark: "LBPPB < 2", reason: LBPPB },
    Skip { case: "WriteSame16.InvalidDataOutSize", remark: "LBPPB < 2", reason: LBPPB },
];

/// An array with a LUN that has some data, so that reads do not all meet holes.
fn array_with_lun() -> Result<(Array, String)> {
    let array = Array::start()?;
    array.create_pool("p", "4G")?;
    let lun = array.create_lun("p/v", "1G")?;
    let url = array.lun_url(lun)?;
    harness::initiator::qemu_io(&["-f", "raw", &url], &["write -P 0xa6 0 8M"])?;
    Ok((array, url))
}

fn objections(case: &Case) -> Vec<String> {
    let failures = case.failures.iter().map(|failure| format!("{}: {failure}", case.name));
    let is_expected = |remark: &str| {
        SKIPS.iter().any(|skip| skip.case == case.name && remark.contains(skip.remark))
    };
    let skips = case.skips.iter().filter(|remark| !is_expected(remark));
    let skips = skips.map(|remark| format!("{}: skipped without leave: {remark}", case.name));
    failures.chain(skips).collect()
}

fn check_families(families: &[&str]) -> Result<()> {
    let (_array, url) = array_with_lun()?;
    let mut objected = Vec::new();
    for family in families {
        let cases = run_family(family, &[&url], FAMILY_TIMEOUT)?;
        objected.extend(cases.iter().flat_map(objections));
    }
    assert!(objected.is_empty(), "{}", objected.join("\n"));
    Ok(())
}

#[test]
fn every_family_passes() -> Result<()> {
    check_families(&FAMILIES)
}

#[test]
fn residuals_are_exact() -> Result<()> {
    check_families(&["iSCSIResiduals"])
}

/// MultipathIO.CompareAndWrite zeroes 256 blocks and expects 257 zeroed ones, so the LUN is empty.
#[test]
fn a_second_path_is_the_same_logical_unit() -> Result<()> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    let url = array.lun_url(array.create_lun("p/v", "64M")?)?;
    let cases = run_family("MultipathIO", &[&url, &url], FAMILY_TIMEOUT)?;
    let objected: Vec<_> = cases.iter().flat_map(objections).collect();
    assert!(objected.is_empty(), "{}", objected.join("\n"));
    Ok(())
}

#[test]
fn a_lun_that_an_initiator_made_read_only_takes_no_write() -> Result<()> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    let lun = array.create_lun("p/v", "64M")?;
    let mut session =
        RawSession::log_in(array.portal(), "iqn.2026-01.org.example:a", &array.target_name()?)?;
    let number = u8::try_from(lun)?;
    let mut page = session.read(number, &[0x1a, 8, 0x0a, 0, 64, 0], 64)?.good()?;
    page[0] = 0;
    page[4 + 4] |= 0x08; // SWP.
    let select = [0x15, 0x11, 0, 0, u8::try_from(page.len())?, 0];
    session.write(number, &select, &page)?.good()?;
    let url = array.lun_url(lun)?;
    let cases = run_family("ReadOnly", &[&url], FAMILY_TIMEOUT)?;
    let objected: Vec<_> = cases.iter().flat_map(objections).collect();
    assert!(objected.is_empty(), "{}", objected.join("\n"));
    Ok(())
}

#[test]
fn every_skip_has_a_reason() {
    for skip in &SKIPS {
        assert!(!skip.reason.is_empty() && !skip.remark.is_empty(), "{}", skip.case);
    }
}
