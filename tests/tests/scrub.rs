//! The scrub: finds what a device corrupted while the pool serves, and says which volumes and LBAs
//! are bad.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::pdu::RawSession;
use harness::{Array, Value, initiator, number};

/// Fills the one block that is damaged.
const PATTERN: u8 = 0xb7;

/// Where that block is.
const DAMAGED_LBA: u64 = (5 << 20) / 512;

const NAME: &str = "iqn.2026-01.org.example:reads";

const PATIENCE: Duration = Duration::from_secs(60);

/// Where a file holds a block of nothing but the pattern.
fn find_pattern(path: &Path) -> Result<u64> {
    let mut file = File::open(path)?;
    let mut block = [0; 4096];
    for at in (0..).step_by(4096) {
        file.read_exact(&mut block)?;
        if block == [PATTERN; 4096] {
            return Ok(at);
        }
    }
    unreachable!("the file ends before")
}

fn damage(path: &Path) -> Result<()> {
    let at = find_pattern(path)?;
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.seek(SeekFrom::Start(at + 1024))?;
    Ok(file.write_all(&[0xee; 512])?)
}

fn wait_for_end(array: &Array) -> Result<Value> {
    let begun = Instant::now();
    loop {
        let scrub = array.gantry_json(&["scrub", "show", "p"])?;
        if scrub["running"] == false {
            return Ok(scrub);
        }
        ensure!(begun.elapsed() < PATIENCE, "{scrub}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn assert_event(array: &Array, words: &str) -> Result<()> {
    let begun = Instant::now();
    loop {
        let events = array.gantry_json(&["events"])?.to_string();
        if events.contains(words) {
            return Ok(());
        }
        ensure!(begun.elapsed() < PATIENCE, "no '{words}' in {events}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_bad_block_is_found_in_every_volume_that_holds_it_and_told_by_lba() -> Result<()> {
    let mut array = Array::start()?;
    let file = array.create_pool("p", "1G")?;
    let lun = array.create_lun("p/v", "64M")?;
    let url = array.lun_url(lun)?;
    let write = format!("write -P {PATTERN} 5M 4k");
    initiator::qemu_io(&["-f", "raw", &url], &["write -P 1 0 16M", &write])?;
    array.gantry(&["snapshot", "create", "p/v", "s"])?;
    array.gantry(&["scrub", "start", "p"])?;
    let scrub = wait_for_end(&array)?;
    assert_eq!((number(&scrub, "/bad_blocks")?, &scrub["complete"]), (0, &Value::Bool(true)));
    assert!(number(&scrub, "/scanned_bytes")? >= 16 << 20, "{scrub}");
    assert_event(&array, "was scrubbed: nothing is bad")?;

    assert!(array.stop()?.success());
    damage(&file)?;
    array.restart()?;
    array.gantry(&["scrub", "start", "p"])?;
    let scrub = wait_for_end(&array)?;
    assert_eq!((number(&scrub, "/bad_blocks")?, number(&scrub, "/bad_pages")?), (1, 0), "{scrub}");
    let place = |volume| serde_json::json!({"volume": volume, "lba": DAMAGED_LBA, "blocks": 8});
    let bad = scrub["bad"].as_array().cloned().unwrap_or_default();
    assert_eq!(bad.len(), 2, "{scrub}");
    assert!(bad.contains(&place("v")) && bad.contains(&place("s")), "{scrub}");
    assert_event(&array, "1 block(s) of data")?;
    let shown = array.gantry(&["scrub", "show", "p"])?;
    assert!(shown.contains("p/v, LBA 10240 to 10247"), "{shown}");

    // The block reads as a medium error, and its neighbours as what they are.
    let name = "iqn.2026-01.org.example:scrub";
    let mut session = RawSession::log_in(array.portal(), name, &array.target_name()?)?;
    let read = |lba: u64| {
        let mut cdb = [0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0];
        cdb[2..6].copy_from_slice(&u32::try_from(lba).expect("small").to_be_bytes());
        cdb
    };
    let answer = session.read(u8::try_from(lun)?, &read(DAMAGED_LBA), 4096)?;
    assert_eq!(answer.code(), Some((3, 0x11, 0)));
    for lba in [DAMAGED_LBA - 8, DAMAGED_LBA + 8] {
        assert_eq!(session.read(u8::try_from(lun)?, &read(lba), 4096)?.good()?, [1; 4096]);
    }
    Ok(())
}

#[test]
fn a_scrub_is_slowed_down_and_stopped() -> Result<()> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    let lun = array.create_lun("p/v", "256M")?;
    let url = array.lun_url(lun)?;
    initiator::qemu_io(&["-f", "raw", &url], &["write -P 1 0 256M"])?;
    let refusal = array.try_gantry(&["scrub", "start", "p", "--rate", "10K"])?.failure()?;
    assert!(refusal.contains("1 MiB per second"), "{refusal}");
    assert!(array.try_gantry(&["scrub", "start", "q"])?.failure()?.contains("no pool named 'q'"));
    array.gantry(&["scrub", "start", "p", "--rate", "1M"])?;
    initiator::qemu_io(&["-f", "raw", &url], &["read -P 1 0 16M", "write -P 2 0 16M"])?;
    let scrub = array.gantry_json(&["scrub", "show", "p"])?;
    assert_eq!(scrub["running"], true, "256 MiB at 1 MiB per second take minutes: {scrub}");
    assert_eq!(number(&scrub, "/rate_bytes")?, 1 << 20);
    array.gantry(&["scrub", "stop", "p"])?;
    let scrub = wait_for_end(&array)?;
    assert_eq!(scrub["complete"], false);
    assert!(number(&scrub, "/scanned_bytes")? < 200 << 20, "{scrub}");
    assert_event(&array, "was scrubbed in part")?;
    array.gantry(&["scrub", "start", "p", "--rate", "1M"])?;
    array.gantry(&["scrub", "start", "p", "--rate", "10G"])?;
    assert_eq!(wait_for_end(&array)?["complete"], true);
    Ok(())
}

#[test]
fn a_block_that_a_host_cannot_read_is_told_once_with_volume_and_lba() -> Result<()> {
    let mut array = Array::start()?;
    let file = array.create_pool("p", "1G")?;
    let lun = array.create_lun("p/v", "64M")?;
    let url = array.lun_url(lun)?;
    let write = format!("write -P {PATTERN} 5M 4k");
    initiator::qemu_io(&["-f", "raw", &url], &["write -P 1 0 16M", &write])?;
    array.stop()?;
    damage(&file)?;
    array.restart()?;
    let mut host = RawSession::log_in(array.portal(), NAME, &array.target_name()?)?;
    let mut cdb = [0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0];
    cdb[2..6].copy_from_slice(&(DAMAGED_LBA as u32).to_be_bytes());
    for _ in 0..3 {
        assert_eq!(host.read(lun as u8, &cdb, 4096)?.code(), Some((3, 0x11, 0)));
    }
    let words = format!("8 block(s) from LBA {DAMAGED_LBA} on cannot be read: the checksum");
    assert_event(&array, &words)?;
    let events = array.gantry_json(&["events"])?;
    let errors: Vec<&Value> = events.as_array().into_iter().flatten().collect();
    let errors: Vec<&&Value> = errors.iter().filter(|e| e["kind"] == "medium_error").collect();
    ensure!(errors.len() == 1, "{events}");
    let error = errors[0];
    assert_eq!((&error["object"], &error["severity"]), (&"volume p/v".into(), &"error".into()));
    assert_eq!(number(error, "/count")?, 3);
    assert!(number(error, "/last_time")? >= number(error, "/time")?);
    let text = array.gantry(&["events"])?;
    assert!(text.contains("COUNT") && text.contains("p.img"), "{text}");
    assert!(array.stop()?.success());
    Ok(())
}
