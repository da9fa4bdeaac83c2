//! libiscsi's conformance tests as a witness: no failure, and every skip has a reason.

use std::time::Duration;

use anyhow::Result;
use harness::Array;
use harness::cunit::{Case, families, run_family};
use harness::pdu::RawSession;

/// Families that have tests of their own below, since they need a LUN of their own.
const SPECIAL: [&str; 3] = ["MultipathIO", "ReadOnly", "Sanitize"];

const FAMILY_TIMEOUT: Duration = Duration::from_secs(300);

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
    On a 512e LUN the test runs, below";

const FIXED: &str = "the medium is never removable: there is nothing to eject or to lock in";

const CRYPTO: &str = "SANITIZE, CRYPTOGRAPHIC ERASE: data is not encrypted, so there is no key to \
    destroy. The rest of the test runs";

const fn skip(case: &'static str, remark: &'static str, reason: &'static str) -> Skip {
    Skip { case, remark, reason }
}

const SKIPS: [Skip; 20] = [
    skip("WriteSame10.ZeroBlocks", "does not support 0-blocks", WSNZ),
    skip("WriteSame16.ZeroBlocks", "does not support 0-blocks", WSNZ),
    skip("CompareAndWrite.InvalidDataOutSize", "LBPPB < 2", LBPPB),
    skip("WriteSame10.UnmapUnaligned", "LBPPB < 2", LBPPB),
    skip("WriteSame10.InvalidDataOutSize", "LBPPB < 2", LBPPB),
    skip("WriteSame16.UnmapUnaligned", "LBPPB < 2", LBPPB),
    skip("WriteSame16.InvalidDataOutSize", "LBPPB < 2", LBPPB),
    skip("PreventAllow.Simple", "not removable", FIXED),
    skip("PreventAllow.Eject", "not removable", FIXED),
    skip("PreventAllow.ITNexusLoss", "not removable", FIXED),
    skip("PreventAllow.Logout", "not removable", FIXED),
    skip("PreventAllow.WarmReset", "not removable", FIXED),
    skip("PreventAllow.ColdReset", "not removable", FIXED),
    skip("PreventAllow.LUNReset", "not removable", FIXED),
    skip("PreventAllow.2ITNexuses", "not removable", FIXED),
    skip("StartStopUnit.Simple", "not removable", FIXED),
    skip("Sanitize.CryptoErase", "CRYPTO_ERASE is not implemented", CRYPTO),
    skip("Sanitize.CryptoEraseReserved", "CRYPTO_ERASE is not implemented", CRYPTO),
    skip("Sanitize.Readonly", "CRYPTO_ERASE is not implemented", CRYPTO),
    skip("Sanitize.Reservations", "CRYPTO_ERASE is not implemented", CRYPTO),
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

fn check_families(families: &[&str], url: &str) -> Result<()> {
    let mut objected = Vec::new();
    for family in families {
        let cases = run_family(family, &[url], FAMILY_TIMEOUT)?;
        objected.extend(cases.iter().flat_map(objections));
    }
    assert!(objected.is_empty(), "{}", objected.join("\n"));
    Ok(())
}

#[test]
fn every_family_passes() -> Result<()> {
    let (_array, url) = array_with_lun()?;
    let families = families()?;
    let families: Vec<_> =
        families.iter().map(String::as_str).filter(|family| !SPECIAL.contains(family)).collect();
    assert!(families.len() > 40, "{families:?}");
    check_families(&families, &url)
}

#[test]
fn on_a_lun_with_larger_physical_blocks_nothing_is_skipped_for_their_sake() -> Result<()> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    let words = ["volume", "create", "p/v", "--size", "256M", "--block-size", "512e"];
    array.gantry(&words)?;
    array.gantry(&["volume", "map", "p/v", "--host", "any", "--lun", "0"])?;
    let url = array.lun_url(0)?;
    for family in ["CompareAndWrite", "WriteSame10", "WriteSame16"] {
        for case in run_family(family, &[&url], FAMILY_TIMEOUT)? {
            assert!(case.failures.is_empty(), "{}: {:?}", case.name, case.failures);
            let skipped = case.skips.iter().any(|remark| remark.contains("LBPPB"));
            assert!(!skipped, "{}: {:?}", case.name, case.skips);
        }
    }
    Ok(())
}

/// All of the family but Sanitize.Reset, which has a test of its own. The volume is thick: an
/// overwrite maps all of a volume, so that whoever sees a thin one is told of its threshold by the
/// next command, as SBC-4 4.7 wants it, and the witness expects GOOD there.
#[test]
fn sanitize_passes_too() -> Result<()> {
    const TESTS: [&str; 10] = [
        "BlockErase",
        "BlockEraseReserved",
        "CryptoErase",
        "CryptoEraseReserved",
        "ExitFailureMode",
        "InvalidServiceAction",
        "Overwrite",
        "OverwriteReserved",
        "Readonly",
        "Reservations",
    ];
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    array.gantry(&["volume", "create", "p/small", "--size", "64M", "--thick"])?;
    array.gantry(&["volume", "map", "p/small", "--host", "any", "--lun", "0"])?;
    let small = array.lun_url(0)?;
    let families = TESTS.map(|test| format!("Sanitize.{test}"));
    check_families(&families.each_ref().map(String::as_str), &small)
}

/// The witness looks after three seconds and after resets, a new session and one second more, so
/// the volume is one whose overwrite takes about ten. Then it sleeps for a minute at a time until
/// a command brings neither an error nor a unit attention; it answers no ping meanwhile, so that
/// the array must be more patient than usual, or each look would begin with a new session.
#[test]
fn an_overwrite_goes_on_through_resets_and_a_new_session() -> Result<()> {
    let mut array = Array::start()?.with_words(&[], &["--ping-interval", "300"]);
    array.stop()?;
    array.restart()?;
    array.create_pool("p", "4G")?;
    let url = array.lun_url(array.create_lun("p/large", "2G")?)?;
    check_families(&["Sanitize.Reset"], &url)
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
