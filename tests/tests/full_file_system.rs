//! The file system under a pool runs full: free space is not promised any more, everybody is told,
//! and it ends when there is room again.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::faulty_folder::FaultyFolder;
use harness::http::Request;
use harness::pdu::RawSession;
use harness::{Array, Value, initiator, number, space_adds_up, text};
use serde_json::json;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const PATIENCE: Duration = Duration::from_secs(30);

/// SPACE ALLOCATION FAILED WRITE PROTECT, and THIN PROVISIONING SOFT THRESHOLD REACHED (SPC-4).
const NO_SPACE: (u8, u8, u8) = (7, 0x27, 7);
const SOFT_THRESHOLD: (u8, u8, u8) = (6, 0x38, 7);

fn create_pool(array: &Array, disk: &FaultyFolder, name: &str, size: &str) -> Result<String> {
    let device = format!("file:{}", disk.file(&format!("{name}.img")).display());
    array.gantry(&["pool", "create", name, "--device", &device, "--size", size])
}

fn pool(array: &Array, name: &str) -> Result<Value> {
    array.gantry_json(&["pool", "show", name])
}

/// The pool, once it is in that state of its backing.
fn wait_for(array: &Array, name: &str, state: &str) -> Result<Value> {
    let begun = Instant::now();
    loop {
        let pool = pool(array, name)?;
        if text(&pool, "/backing_state")? == state {
            return Ok(pool);
        }
        ensure!(begun.elapsed() < PATIENCE, "it does not become {state}: {pool:#}");
        thread::sleep(Duration::from_millis(100));
    }
}

fn ask(array: &Array, path: &str) -> Result<String> {
    let answer = Request::new("GET", path).send_to_socket(&array.data().join("gantry.sock"))?;
    ensure!(answer.status == 200, "{answer:?}");
    Ok(answer.body)
}

/// WRITE (10) of 1 MiB at a MiB of LUN 0; the sense that it ended with, if any.
fn write(session: &mut RawSession, lun: u8, at: u64) -> Result<Option<(u8, u8, u8)>> {
    let blocks = (MIB / 512) as u16;
    let lba = u32::try_from(at * MIB / 512)?;
    let mut cdb = [0x2a, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    cdb[2..6].copy_from_slice(&lba.to_be_bytes());
    cdb[7..9].copy_from_slice(&blocks.to_be_bytes());
    Ok(session.write(lun, &cdb, &vec![(at % 251) as u8 + 1; MIB as usize])?.code())
}

fn messages(array: &Array) -> Result<Vec<(String, String)>> {
    let events = array.gantry_json(&["events"])?;
    let events = events.as_array().context("a list of events")?;
    let about = events.iter().filter(|event| event["object"] == "pool p");
    about.map(|e| Ok((text(e, "/severity")?.to_owned(), text(e, "/message")?.to_owned()))).collect()
}

/// How often it was told that the file system is full.
fn alarms(messages: &[(String, String)]) -> usize {
    let is_alarm = |severity: &str, text: &str| severity == "error" && text.contains("is full (");
    messages.iter().filter(|(severity, text)| is_alarm(severity, text)).count()
}

#[test]
fn what_has_no_space_below_is_not_free_and_everybody_is_told_until_it_is_over() -> Result<()> {
    let disk = FaultyFolder::mount_with_size(3 * GIB)?;
    let array = Array::start()?;
    create_pool(&array, &disk, "p", "2G")?;
    let lun = u8::try_from(array.create_lun("p/v", "8G")?)?;
    let before = pool(&array, "p")?;
    assert_eq!(text(&before, "/backing_state")?, "enough");
    assert!(number(&before, "/space/free_bytes")? > GIB, "{before:#}");
    let name = "iqn.2026-01.org.example:a";
    let mut host = RawSession::log_in(array.portal(), name, &array.target_name()?)?;
    host.read(lun, &[0; 6], 0)?.good()?;
    let name = "iqn.2026-01.org.example:b";
    let mut other = RawSession::log_in(array.portal(), name, &array.target_name()?)?;
    other.read(lun, &[0; 6], 0)?.good()?;

    // Another process takes all but 200 MiB: one group of 128 MiB fits, a second one does not.
    disk.eat(disk_taken_but(&disk, 200 * MIB));
    let short = wait_for(&array, "p", "short")?;
    space_adds_up(&short)?;
    let free = number(&short, "/space/free_bytes")?;
    assert!(free < 400 * MIB, "{short:#}");
    assert!(text(&short, "/backing_message")?.contains("have no space below them"), "{short:#}");
    // Of what is really there little is left: the soft threshold is reached for hosts, too.
    let mut written = 0;
    let sense = loop {
        match write(&mut host, lun, written)? {
            None => written += 1,
            Some(sense) => break sense,
        }
    };
    assert_eq!(sense, NO_SPACE);
    assert_eq!(other.read_once(lun, &[0; 6], 0)?.code(), Some(SOFT_THRESHOLD));
    assert!(written.abs_diff(free / MIB) <= 4, "{written} MiB of {free} B");

    let full = wait_for(&array, "p", "full")?;
    space_adds_up(&full)?;
    assert_eq!(number(&full, "/space/free_bytes")? / MIB, 0, "{full:#}");
    assert!(number(&full, "/space/used_percent")? >= 99, "{full:#}");
    assert_eq!(text(&full, "/fill")?, "hard");
    assert!(text(&full, "/backing_message")?.contains("07h/27h/07h"), "{full:#}");
    assert!(array.gantry(&["pool", "list"])?.contains("ready (file system full)"));
    let ready = ask(&array, "/readyz")?;
    assert!(ready.contains("is full"), "{ready}");
    let metrics = ask(&array, "/metrics")?;
    assert!(metrics.contains("gantry_pool_backing_full{pool=\"p\"} 1"), "{metrics}");
    assert_eq!(alarms(&messages(&array)?), 1, "{:?}", messages(&array)?);
    // The engine asks again every five seconds; nobody is told again.
    thread::sleep(Duration::from_secs(6));
    assert_eq!(write(&mut host, lun, written)?, Some(NO_SPACE));
    assert_eq!(text(&pool(&array, "p")?, "/backing_state")?, "full");
    assert_eq!(alarms(&messages(&array)?), 1, "{:?}", messages(&array)?);
    // What is there goes on.
    assert_eq!(write(&mut host, lun, 0)?, None);

    disk.eat(0);
    let over = wait_for(&array, "p", "enough")?;
    space_adds_up(&over)?;
    assert!(number(&over, "/space/free_bytes")? > GIB, "{over:#}");
    assert!(messages(&array)?.iter().any(|(_, text)| text.contains("new data is taken again")));
    let begun = Instant::now();
    while write(&mut host, lun, written)?.is_some() {
        ensure!(begun.elapsed() < PATIENCE, "new data is still refused");
        thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// What others must take so that so much is left.
fn disk_taken_but(disk: &FaultyFolder, left: u64) -> u64 {
    disk.free_bytes() - left
}

#[test]
fn pools_on_one_file_system_name_each_other_and_a_thin_file_larger_than_it_is_said_at_once()
-> Result<()> {
    let disk = FaultyFolder::mount_with_size(2 * GIB)?;
    let array = Array::start()?;
    let first = create_pool(&array, &disk, "p", "1G")?;
    assert!(!first.contains("Note"), "{first}");
    let second = create_pool(&array, &disk, "q", "8G")?;
    assert!(second.contains("may still grow by"), "{second}");
    let (p, q) = (wait_for(&array, "p", "enough")?, wait_for(&array, "q", "short")?);
    assert_eq!(p.pointer("/backing/0/shared_with/0"), Some(&Value::from("q")), "{p:#}");
    assert_eq!(q.pointer("/backing/0/shared_with/0"), Some(&Value::from("p")), "{q:#}");
    assert!(number(&q, "/space/free_bytes")? <= disk.free_bytes(), "{q:#}");
    space_adds_up(&p)?;
    space_adds_up(&q)?;
    // One pool takes what the other one could have had.
    let lun = array.create_lun("q/v", "2G")?;
    initiator::qemu_io(&["-f", "raw", &array.lun_url(lun)?], &["write -P 1 0 1200M"])?;
    let begun = Instant::now();
    while number(&wait_for(&array, "p", "short")?, "/space/free_bytes")? >= 800 * MIB {
        ensure!(begun.elapsed() < PATIENCE, "what one pool took is free in the other one");
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// A program that makes pools can tell 'no room below' from a mistake of the daemon.
#[test]
fn a_pool_or_device_that_finds_no_room_below_is_refused_by_a_type_of_its_own() -> Result<()> {
    let disk = FaultyFolder::mount_with_size(3 * GIB)?;
    let array = Array::start()?;
    create_pool(&array, &disk, "p", "1G")?;
    disk.eat(disk_taken_but(&disk, 8 * MIB));
    let device = |name: &str| format!("file:{}", disk.file(name).display());
    let pool = json!({ "name": "q", "devices": [device("q.img")], "size_bytes": 2 * GIB });
    let more = json!({ "device": device("more.img"), "size_bytes": 40 * GIB });
    for (path, body) in [("/v1/pools", pool), ("/v1/pools/p/devices", more)] {
        let request = Request::new("POST", path).json(&body);
        let answer = request.send_to_socket(&array.data().join("gantry.sock"))?;
        assert_eq!(answer.status, 409, "{answer:?}");
        let problem: Value = serde_json::from_str(&answer.body)?;
        assert_eq!(problem["type"], "urn:gantry:problem:no-space-below", "{problem}");
    }
    assert_eq!(array.gantry_json(&["pool", "list"])?.as_array().map(Vec::len), Some(1));
    disk.eat(0);
    create_pool(&array, &disk, "q", "1G").map(drop)
}
