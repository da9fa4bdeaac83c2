//! The offload ledger: what a simulated host had the array do equals what the host counted itself,
//! and what it did itself is found, with the reason.

use std::fs;

use anyhow::{Context, Result, ensure};
use harness::hostkit::{self, Host};
use harness::pdu::{Answer, RawSession, cdb10};
use harness::random::Random;
use harness::{Array, Value, number, text};

const MIB: u64 = 1 << 20;

/// Bytes of one READ or WRITE of a copy by hand.
const CHUNK: usize = 64 << 10;

/// A host with a datastore on each of two LUNs, ds0 and ds1, and a virtual disk full of data on
/// the first.
struct Bench {
    array: Array,
    host: Host,
}

const DISK_MIB: u64 = 48;

impl Bench {
    fn start() -> Result<Self> {
        let array = hostkit::array(&[("a", "1G"), ("b", "1G")])?;
        let host = Host::new("esx1", &[&array.lun_url(0)?, &array.lun_url(1)?])?;
        for (number, volume) in ["p/a", "p/b"].into_iter().enumerate() {
            let shown = array.gantry_json(&["volume", "show", volume])?;
            let (label, partition) =
                (format!("ds{number}"), format!("{}:1", text(&shown, "/naa")?));
            host.vmkfstools(&["-C", "vmfs5", "-S", &label, &partition])?;
        }
        let bench = Self { array, host };
        bench.fill_disk()?;
        Ok(bench)
    }

    fn fill_disk(&self) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let local = folder.path().join("data");
        fs::write(&local, Random::new(7).bytes((DISK_MIB * MIB) as usize))?;
        let size = format!("{DISK_MIB}m");
        self.host.vmkfstools(&["-c", &size, "-d", "zeroedthick", "ds0/s.vmdk"])?;
        self.host.run(&["file", "rm", "ds0/s-flat.vmdk"])?;
        let local = local.to_str().context("a printable path")?;
        self.host.run(&["file", "put", local, "ds0/s-flat.vmdk"]).map(drop)
    }

    /// What the ledger says of the host on a volume.
    fn row(&self, volume: &str) -> Result<Value> {
        let ledger = self.array.gantry_json(&["offload", "list"])?;
        let rows = ledger["rows"].as_array().context("rows")?;
        let row = rows.iter().find(|row| row["volume"] == volume).context("a row")?;
        Ok(row.clone())
    }
}

/// The findings of one kind.
fn findings(array: &Array, kind: &str) -> Result<Vec<Value>> {
    let all = array.gantry_json(&["offload", "explain"])?;
    let all = all.as_array().context("a list")?;
    Ok(all.iter().filter(|finding| finding["kind"] == kind).cloned().collect())
}

/// How much a number of the ledger grew.
fn grown(before: &Value, after: &Value, pointer: &str) -> Result<u64> {
    Ok(number(after, pointer)? - number(before, pointer)?)
}

#[test]
fn what_was_offloaded_is_in_the_ledger_as_the_host_counted_it() -> Result<()> {
    let bench = Bench::start()?;
    let (a, b) = (bench.row("p/a")?, bench.row("p/b")?);
    let device = text(&bench.array.gantry_json(&["volume", "show", "p/b"])?, "/naa")?.to_owned();
    let counted =
        |column: &str| Ok::<_, anyhow::Error>(bench.host.counter(&device, column)? as u64);
    let kit = [counted("CLONE_WR")?, counted("ZERO")?, counted("DELETE")?, counted("ATS")?];

    let clone = bench.host.vmkfstools(&["-i", "ds0/s.vmdk", "ds1/c.vmdk"])?;
    let zeroed = bench.host.vmkfstools(&["-c", "20m", "-d", "eagerzeroedthick", "ds1/z.vmdk"])?;
    let punched = bench.host.vmkfstools(&["-K", "ds1/z.vmdk"])?;

    let (a2, b2) = (bench.row("p/a")?, bench.row("p/b")?);
    let cloned = number(&clone, "/offloaded_bytes")?;
    ensure!(cloned >= DISK_MIB * MIB, "{clone}");
    assert_eq!(grown(&b, &b2, "/clone/asked_bytes")?, cloned);
    assert_eq!(grown(&b, &b2, "/clone/done_bytes")?, cloned);
    assert_eq!(grown(&b, &b2, "/cloned_by_reference_bytes")?, cloned);
    assert_eq!(grown(&a, &a2, "/clone_source_bytes")?, cloned);
    assert_eq!(grown(&b, &b2, "/clone/commands")?, counted("CLONE_WR")? - kit[0]);
    assert_eq!(grown(&b, &b2, "/zero/commands")?, counted("ZERO")? - kit[1]);
    assert!(grown(&b, &b2, "/zero/done_bytes")? >= number(&zeroed, "/zeroed_bytes")?);
    assert_eq!(grown(&b, &b2, "/unmap/commands")?, counted("DELETE")? - kit[2]);
    assert_eq!(grown(&b, &b2, "/unmap/done_bytes")?, number(&punched, "/unmapped_bytes")?);
    assert_eq!(grown(&b, &b2, "/compare_and_write/commands")?, counted("ATS")? - kit[3]);
    for row in [&a2, &b2] {
        assert_eq!(row["refusals"].as_array().map(Vec::len), Some(0), "{row}");
        assert_eq!(number(row, "/host_copied_bytes")?, 0);
    }
    assert_eq!(findings(&bench.array, "host_side_copy")?, Vec::<Value>::new());
    Ok(())
}

#[test]
fn a_clone_that_the_host_makes_itself_is_found_and_the_setting_is_named() -> Result<()> {
    let bench = Bench::start()?;
    let move_setting = "/DataMover/HardwareAcceleratedMove";
    bench.host.run(&["esxcfg-advcfg", "-s", "0", move_setting])?;
    bench.host.vmkfstools(&["-i", "ds0/s.vmdk", "ds1/c.vmdk"])?;
    let found = findings(&bench.array, "host_side_copy")?;
    let [finding] = &found[..] else { anyhow::bail!("not one finding: {found:?}") };
    assert_eq!((&finding["source"], &finding["volume"]), (&"p/a".into(), &"p/b".into()));
    assert_eq!(finding["code"], "setting_off");
    // The host locks by COMPARE AND WRITE, so its offloads are attached: it is this setting first.
    ensure!(text(finding, "/reason")?.contains("HardwareAcceleratedMove is off"), "{finding}");
    let advice = text(finding, "/advice")?;
    for cause in ["HardwareAcceleratedMove -i 1", "eager zeroed", "redo logs", "block sizes", "RDM"]
    {
        ensure!(advice.contains(cause), "{cause}: {finding}");
    }
    ensure!(!advice.contains("claim rule"), "{finding}");
    ensure!(text(finding, "/host")?.contains("esx1"), "{finding}");
    // One block in 64 is sampled: of 12,288 blocks some 192.
    let estimate = number(finding, "/bytes")? / MIB;
    ensure!((DISK_MIB * 2 / 3..DISK_MIB * 3 / 2).contains(&estimate), "{estimate} MiB");
    let row = bench.row("p/b")?;
    assert_eq!(number(&row, "/host_copied_bytes")?, number(finding, "/bytes")?);
    assert_eq!(number(&row, "/clone/commands")?, 0);
    let table = bench.array.gantry(&["offload", "explain"])?;
    ensure!(table.contains("from p/a to p/b"), "{table}");

    // A host that asks elsewhere decided so itself.
    bench.host.run(&["esxcfg-advcfg", "-s", "1", move_setting])?;
    bench.host.vmkfstools(&["-i", "ds0/s.vmdk", "ds1/d.vmdk"])?;
    let finding = &findings(&bench.array, "host_side_copy")?[0];
    assert_eq!(finding["code"], "host_chose");
    ensure!(text(finding, "/reason")?.contains("between these two LUNs"), "{finding}");
    ensure!(!text(finding, "/advice")?.contains("block sizes"), "{finding}");
    Ok(())
}

#[test]
fn a_thick_disk_that_becomes_thin_is_explained_by_that_whatever_is_set() -> Result<()> {
    let bench = Bench::start()?;
    let size = format!("{}m", DISK_MIB + 32);
    bench.host.vmkfstools(&["-X", &size, "ds0/s.vmdk"])?;
    bench.host.vmkfstools(&["-j", "ds0/s.vmdk"])?;
    // The setting is on, as other copies show.
    bench.host.vmkfstools(&["-i", "ds0/s.vmdk", "ds1/thick.vmdk"])?;
    for (setting, name) in [("1", "ds1/t.vmdk"), ("0", "ds1/u.vmdk")] {
        let set = ["esxcfg-advcfg", "-s", setting, "/DataMover/HardwareAcceleratedMove"];
        bench.host.run(&set)?;
        let report = bench.host.vmkfstools(&["-i", "ds0/s.vmdk", "-d", "thin", name])?;
        assert_eq!(number(&report, "/offloaded_bytes")?, 0);
        let found = findings(&bench.array, "host_side_copy")?;
        let [finding] = &found[..] else { anyhow::bail!("not one finding: {found:?}") };
        assert_eq!(finding["code"], "thick_to_thin");
        ensure!(text(finding, "/reason")?.contains("eager zeroed to thin"), "{finding}");
    }
    Ok(())
}

#[test]
fn zeros_that_the_host_writes_itself_are_found() -> Result<()> {
    let bench = Bench::start()?;
    bench.host.run(&["esxcfg-advcfg", "-s", "0", "/DataMover/HardwareAcceleratedInit"])?;
    bench.host.vmkfstools(&["-c", "40m", "-d", "eagerzeroedthick", "ds1/z.vmdk"])?;
    let found = findings(&bench.array, "host_side_zero")?;
    let finding = found.iter().find(|finding| finding["volume"] == "p/b").context("a finding")?;
    assert_eq!(finding["code"], "setting_off");
    ensure!(number(finding, "/bytes")? >= 40 * MIB, "{finding}");
    Ok(())
}

/// Two volumes and a session that copies between them by hand.
struct Manual {
    array: Array,
    session: RawSession,
    data: Vec<u8>,
}

impl Manual {
    fn start() -> Result<Self> {
        let array = Array::start()?;
        for pool in ["p", "q"] {
            array.gantry(&["pool", "create", pool, "--device", "memory:", "--size", "1G"])?;
        }
        for path in ["p/a", "p/b", "q/c"] {
            array.create_lun(path, "64M")?;
        }
        let session = log_in(&array, "manual")?;
        let mut manual = Self { array, session, data: Random::new(9).bytes(8 * MIB as usize) };
        for (at, chunk) in manual.data.clone().chunks(CHUNK).enumerate() {
            manual.session.write(0, &transfer(0x2a, block(at), chunk.len()), chunk)?.good()?;
        }
        Ok(manual)
    }

    /// Reads all from LUN 0 and writes it to another one, some blocks further on.
    fn copy(&mut self, lun: u8, further: u32) -> Result<()> {
        for at in 0..self.data.len() / CHUNK {
            let data =
                self.session.read(0, &transfer(0x28, block(at), CHUNK), CHUNK as u32)?.good()?;
            self.session.write(lun, &transfer(0x2a, block(at) + further, CHUNK), &data)?.good()?;
        }
        Ok(())
    }

    /// An EXTENDED COPY of 8 blocks from LUN 0 to that name.
    fn extended_copy(&mut self, naa: &[u8; 16], length_fault: bool) -> Result<Answer> {
        let mut list = [0; 16];
        list[1] = 0x18;
        list[2..4].copy_from_slice(&32_u16.to_be_bytes());
        list[11] = if length_fault { 29 } else { 28 };
        let mut cscd = [0; 32];
        cscd[0] = 0xe4;
        cscd[4..8].copy_from_slice(&[1, 3, 0, 16]);
        cscd[8..24].copy_from_slice(naa);
        let mut segment = [0; 28];
        segment[..4].copy_from_slice(&[0x02, 0, 0, 0x18]);
        segment[4..6].copy_from_slice(&[0xff, 0xff]);
        segment[11] = 8;
        let list = [&list[..], &cscd, &segment].concat();
        let mut cdb = [0; 16];
        cdb[0] = 0x83;
        cdb[13] = u8::try_from(list.len())?;
        self.session.write(0, &cdb, &list)
    }

    fn naa(&self, path: &str) -> Result<[u8; 16]> {
        let shown = self.array.gantry_json(&["volume", "show", path])?;
        let digits = text(&shown, "/naa")?.trim_start_matches("naa.");
        Ok(u128::from_str_radix(digits, 16)?.to_be_bytes())
    }

    /// The reason of the only copy that was found.
    fn code(&self) -> Result<String> {
        let found = findings(&self.array, "host_side_copy")?;
        ensure!(found.len() == 1, "{found:?}");
        Ok(text(&found[0], "/code")?.to_owned())
    }
}

fn log_in(array: &Array, name: &str) -> Result<RawSession> {
    let name = format!("iqn.2026-01.org.example:{name}");
    RawSession::log_in(array.portal(), &name, &array.target_name()?)
}

fn transfer(opcode: u8, lba: u32, bytes: usize) -> [u8; 10] {
    cdb10(opcode, 0, lba, (bytes / 512) as u16)
}

fn block(chunk: usize) -> u32 {
    (chunk * CHUNK / 512) as u32
}

#[test]
fn a_copy_to_a_misaligned_place_is_explained_by_that() -> Result<()> {
    let mut manual = Manual::start()?;
    manual.copy(1, 63)?;
    assert_eq!(manual.code()?, "misaligned");
    Ok(())
}

#[test]
fn a_copy_to_another_pool_is_explained_by_that() -> Result<()> {
    let mut manual = Manual::start()?;
    manual.copy(2, 0)?;
    assert_eq!(manual.code()?, "different_pool");
    Ok(())
}

#[test]
fn a_copy_to_a_lun_of_another_product_is_explained_by_that() -> Result<()> {
    let mut manual = Manual::start()?;
    let words = ["volume", "identification", "p/b", "--vendor", "ACME", "--product", "Array 1"];
    manual.array.gantry(&words)?;
    manual.copy(1, 0)?;
    assert_eq!(manual.code()?, "different_product");
    manual.array.gantry(&["volume", "identification", "p/b", "--inherit"])?;
    assert_eq!(manual.code()?, "setting_off");
    Ok(())
}

#[test]
fn the_reason_stays_when_what_was_copied_is_unmapped_and_deleted() -> Result<()> {
    for (lun, further, volume, code) in [
        (1, 0, "p/b", "setting_off"),
        (1, 63, "p/b", "misaligned"),
        (2, 0, "q/c", "different_pool"),
    ] {
        let mut manual = Manual::start()?;
        manual.copy(lun, further)?;
        assert_eq!(manual.code()?, code);
        manual.array.gantry(&["volume", "unmap", volume, "--host", "any"])?;
        assert_eq!(manual.code()?, code, "unmapped");
        manual.array.gantry(&["volume", "delete", volume])?;
        assert_eq!(manual.code()?, code, "deleted");
        manual.array.gantry(&["volume", "unmap", "p/a", "--host", "any"])?;
        manual.array.gantry(&["volume", "delete", "p/a"])?;
        assert_eq!(manual.code()?, code, "both deleted");
        let found = findings(&manual.array, "host_side_copy")?;
        let ended = |end: &str, name: &str| {
            text(&found[0], end).map(|told| told.starts_with(&format!("{name} (deleted ")))
        };
        ensure!(ended("/volume", volume)? && ended("/source", "p/a")?, "{found:?}");
    }
    Ok(())
}

#[test]
fn a_copy_after_a_refusal_is_explained_by_what_was_refused() -> Result<()> {
    let mut manual = Manual::start()?;
    let destination = manual.naa("p/b")?;
    assert_eq!(manual.extended_copy(&destination, true)?.status, 2);
    manual.copy(1, 0)?;
    assert_eq!(manual.code()?, "refused");
    let refused = findings(&manual.array, "refused")?;
    ensure!(text(&refused[0], "/reason")?.starts_with("EXTENDED COPY"), "{refused:?}");
    // Once it was done, a copy by hand is the host's choice.
    manual.extended_copy(&destination, false)?.good()?;
    assert_eq!(manual.code()?, "host_chose");
    Ok(())
}

#[test]
fn a_copy_that_a_reservation_kept_out_is_explained_by_that() -> Result<()> {
    let mut manual = Manual::start()?;
    let mut other = log_in(&manual.array, "other")?;
    other.read(1, &[0x16, 0, 0, 0, 0, 0], 0)?.good()?;
    let destination = manual.naa("p/b")?;
    assert_eq!(manual.extended_copy(&destination, false)?.status, 0x18);
    other.read(1, &[0x17, 0, 0, 0, 0, 0], 0)?.good()?;
    manual.copy(1, 0)?;
    assert_eq!(manual.code()?, "reservation");
    Ok(())
}

#[test]
fn a_copy_to_what_the_session_did_not_see_is_explained_by_the_mapping() -> Result<()> {
    let mut manual = Manual::start()?;
    let mut unknown = manual.naa("p/b")?;
    unknown[15] ^= 1;
    assert_eq!(manual.extended_copy(&unknown, false)?.status, 2);
    manual.copy(1, 0)?;
    assert_eq!(manual.code()?, "mapping");
    Ok(())
}

#[test]
fn a_host_that_reads_one_thing_and_writes_another_copies_nothing() -> Result<()> {
    let mut manual = Manual::start()?;
    let other = Random::new(1234).bytes(manual.data.len());
    for (at, chunk) in other.chunks(CHUNK).enumerate() {
        manual.session.read(0, &transfer(0x28, block(at), CHUNK), CHUNK as u32)?.good()?;
        manual.session.write(1, &transfer(0x2a, block(at), CHUNK), chunk)?.good()?;
    }
    // What it writes back where it was is none either.
    manual.copy(0, 0)?;
    assert_eq!(findings(&manual.array, "host_side_copy")?, Vec::<Value>::new());
    Ok(())
}

/// WRITE SAME of so many blocks from one on, in its three forms.
fn write_same_cdbs(lba: u32, blocks: u16) -> [Vec<u8>; 3] {
    let mut ten = vec![0; 10];
    ten[0] = 0x41;
    ten[2..6].copy_from_slice(&lba.to_be_bytes());
    ten[7..9].copy_from_slice(&blocks.to_be_bytes());
    let mut sixteen = vec![0; 16];
    sixteen[0] = 0x93;
    sixteen[6..10].copy_from_slice(&lba.to_be_bytes());
    sixteen[12..14].copy_from_slice(&blocks.to_be_bytes());
    let mut long = vec![0; 32];
    (long[0], long[7], long[9]) = (0x7f, 24, 0x0d);
    long[16..20].copy_from_slice(&lba.to_be_bytes());
    long[30..32].copy_from_slice(&blocks.to_be_bytes());
    [ten, sixteen, long]
}

// The ledger knew commands by operation code, and WRITE SAME (32) shares its with others: 5 MiB that
// it zeroed were missing.
#[test]
fn every_form_of_a_command_is_in_the_ledger_alike() -> Result<()> {
    let mut array = Array::prepare()?.with_words(&[], &["--long-cdbs"]);
    array.restart()?;
    array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "1G"])?;
    array.create_lun("p/a", "64M")?;
    let mut session = log_in(&array, "forms")?;
    let five_mib = u16::try_from(5 * MIB / 512)?;
    for (done, cdb) in write_same_cdbs(0, five_mib).iter().enumerate() {
        session.write(0, cdb, &[0; 512])?.good()?;
        let ledger = array.gantry_json(&["offload", "list"])?;
        let (row, times) = (&ledger["rows"][0], done as u64 + 1);
        assert_eq!(number(row, "/zero/commands")?, times, "{cdb:02x?}");
        assert_eq!(number(row, "/zero/asked_bytes")?, times * 5 * MIB, "{cdb:02x?}");
        assert_eq!(number(row, "/zero/done_bytes")?, times * 5 * MIB, "{cdb:02x?}");
    }
    Ok(())
}
