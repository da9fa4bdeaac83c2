//! A pool that stopped taking writes, or whose journal is damaged, goes on without a restart and
//! without losing what was acknowledged.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::faulty_folder::FaultyFolder;
use harness::http::Request;
use harness::pdu::RawSession;
use harness::{Array, Value, initiator, text};

const PATIENCE: Duration = Duration::from_secs(30);
const WRITE_PROTECTED: Option<(u8, u8, u8)> = Some((7, 0x27, 0));
const BECOMING_READY: Option<(u8, u8, u8)> = Some((2, 4, 1));
const TEST_UNIT_READY: [u8; 6] = [0; 6];
const BLOCK: u64 = 4096;

/// Where the journal of a device of 1 GiB lies: 1/64 of it, from block 256 on (docs/format.md).
const JOURNAL: std::ops::Range<u64> = 256..256 + 4096;

fn pool(array: &Array) -> Result<Value> {
    array.gantry_json(&["pool", "show", "p"])
}

fn wait_for(array: &Array, state: &str) -> Result<Value> {
    let begun = Instant::now();
    loop {
        let pool = pool(array)?;
        if text(&pool, "/state")? == state {
            return Ok(pool);
        }
        ensure!(begun.elapsed() < PATIENCE, "it does not become {state}: {pool:#}");
        thread::sleep(Duration::from_millis(100));
    }
}

fn write(session: &mut RawSession, at: u8, byte: u8) -> Result<Option<(u8, u8, u8)>> {
    let cdb = [0x2a, 0, 0, 0, 0, at * 8, 0, 0, 8, 0];
    Ok(session.write(0, &cdb, &vec![byte; BLOCK as usize])?.code())
}

fn read(session: &mut RawSession, at: u8) -> Result<u8> {
    let cdb = [0x28, 0, 0, 0, 0, at * 8, 0, 0, 8, 0];
    let data = session.read(0, &cdb, BLOCK as u32)?.good()?;
    ensure!(data.iter().all(|&byte| byte == data[0]), "a mixture");
    Ok(data[0])
}

fn log_in(array: &Array) -> Result<RawSession> {
    RawSession::log_in(array.portal(), "iqn.2026-01.org.example:a", &array.target_name()?)
}

#[test]
fn one_failed_write_stops_a_pool_until_it_is_resumed_and_not_until_a_restart() -> Result<()> {
    let disk = FaultyFolder::mount_with_size(2 << 30)?;
    let array = Array::start()?;
    let device = format!("file:{}", disk.file("p.img").display());
    array.gantry(&["pool", "create", "p", "--device", &device, "--size", "1G"])?;
    array.create_lun("p/v", "64M")?;
    let mut host = log_in(&array)?;
    for at in 0..20 {
        assert_eq!(write(&mut host, at, at + 1)?, None);
    }
    assert!(array.try_gantry(&["pool", "resume", "p"])?.stderr.contains("nothing to resume"));

    // One write fails, once.
    disk.fail(1);
    assert!(write(&mut host, 0, 99)?.is_some());
    wait_for(&array, "read-only")?;
    assert_eq!(write(&mut host, 1, 99)?, WRITE_PROTECTED);
    assert_eq!(read(&mut host, 1)?, 2);

    // As long as the device fails it is refused, with the reason, and hosts read on.
    disk.fail(u64::MAX);
    let refused = array.try_gantry(&["pool", "resume", "p"])?;
    assert!(refused.stderr.contains("still fails"), "{refused:?}");
    let begun = Instant::now();
    while read(&mut host, 1).is_err() {
        ensure!(begun.elapsed() < PATIENCE, "hosts cannot read any more");
    }
    let pool = wait_for(&array, "read-only")?;
    assert!(text(&pool, "/reason")?.contains("could not be resumed"), "{pool:#}");
    assert_eq!(read(&mut host, 1)?, 2);

    disk.fail(0);
    assert!(array.gantry(&["pool", "resume", "p"])?.contains("ready"));
    // The same session goes on, and everything acknowledged is there.
    for at in 1..20 {
        assert_eq!(read(&mut host, at)?, at + 1);
    }
    assert!([1, 99].contains(&read(&mut host, 0)?));
    for at in 0..20 {
        assert_eq!(write(&mut host, at, at + 100)?, None);
    }
    let events = array.gantry(&["events"])?;
    assert!(events.contains("was resumed and takes writes again"), "{events}");
    // A second failure is told as the first was.
    disk.fail(1);
    assert!(write(&mut host, 0, 7)?.is_some());
    wait_for(&array, "read-only")?;
    array.gantry(&["pool", "resume", "p"])?;
    assert_eq!(read(&mut host, 19)?, 119);
    let alarms = array.gantry(&["events"])?.matches("is read-only: ").count();
    assert_eq!(alarms, 2);
    Ok(())
}

// It waited for ever, and so did whoever had asked for it.
#[test]
fn a_resume_that_waits_for_a_stalled_device_says_so_and_goes_on_by_itself() -> Result<()> {
    let disk = FaultyFolder::mount_with_size(2 << 30)?;
    let array = Array::start()?;
    let device = format!("file:{}", disk.file("p.img").display());
    array.gantry(&["pool", "create", "p", "--device", &device, "--size", "1G"])?;
    array.create_lun("p/v", "64M")?;
    let mut host = log_in(&array)?;
    assert_eq!(write(&mut host, 3, 4)?, None);
    disk.fail(1);
    assert!(write(&mut host, 0, 99)?.is_some());
    wait_for(&array, "read-only")?;
    let stall = disk.stall();
    let reader = thread::spawn(move || (read(&mut host, 3), host));
    // A read is under way on the device.
    let begun = Instant::now();
    let metric = "gantry_device_oldest_operation_seconds";
    let socket = array.data().join("gantry.sock");
    let is_under_way = |page: &str| {
        let line = page.lines().find(|line| line.starts_with(metric));
        line.is_some_and(|line| !line.ends_with(" 0"))
    };
    while !is_under_way(&Request::new("GET", "/metrics").send_to_socket(&socket)?.body) {
        ensure!(begun.elapsed() < PATIENCE, "no read reaches the device");
    }
    let late = array.try_gantry(&["pool", "resume", "p"])?;
    assert!(late.stderr.contains("has not ended for"), "{late:?}");
    let again = array.try_gantry(&["pool", "resume", "p"])?;
    assert!(!again.status.success(), "{again:?}");
    drop(stall);
    wait_for(&array, "ready")?;
    let (_, mut host) = reader.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
    assert_eq!(read(&mut host, 3)?, 4);
    assert_eq!(write(&mut host, 0, 5)?, None);
    let events = array.gantry(&["events"])?;
    assert!(events.contains("waits to be resumed") && events.contains("was resumed"), "{events}");
    Ok(())
}

#[test]
fn a_pool_that_was_unavailable_is_opened_when_its_device_is_back() -> Result<()> {
    let mut array = Array::start()?;
    let file = array.create_pool("p", "1G")?;
    array.create_lun("p/v", "64M")?;
    assert_eq!(write(&mut log_in(&array)?, 0, 5)?, None);
    assert!(array.stop()?.success());
    let away = file.with_extension("away");
    std::fs::rename(&file, &away)?;
    array.restart()?;
    assert_eq!(text(&pool(&array)?, "/state")?, "unavailable");
    let mut session = log_in(&array)?;
    assert_not_ready(&mut session)?;
    assert!(array.try_gantry(&["pool", "resume", "p"])?.stderr.contains("does not exist"));
    assert_not_ready(&mut session)?;
    std::fs::rename(&away, &file)?;
    // It may have opened by itself before it is asked for.
    let resumed = array.try_gantry(&["pool", "open", "p"])?;
    let is_open = resumed.stderr.contains("there is nothing to resume");
    assert!(resumed.status.success() || is_open, "{resumed:?}");
    wait_for(&array, "ready")?;
    let told = session.read_once(0, &TEST_UNIT_READY, 0)?.code();
    assert_eq!(told, Some((6, 0x28, 0)), "the session goes on, and is told");
    assert_eq!(read(&mut session, 0)?, 5);
    assert_eq!(read(&mut log_in(&array)?, 0)?, 5);
    Ok(())
}

/// Facts about the LUN are told, whoever wants its blocks waits: a host that is told that there is no
/// such LUN would give it up.
fn assert_not_ready(session: &mut RawSession) -> Result<()> {
    assert_eq!(session.read(0, &[0x12, 0, 0, 0, 96, 0], 96)?.good()?[0], 0);
    assert!(session.read(0, &[0x12, 1, 0x83, 0, 252, 0], 252)?.good()?.len() > 16);
    assert_eq!(session.read(0, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0], 64)?.good()?.len(), 16);
    assert_eq!(session.read(0, &TEST_UNIT_READY, 0)?.code(), BECOMING_READY);
    assert_eq!(session.read(0, &[0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0], 4096)?.code(), BECOMING_READY);
    assert_eq!(write(session, 0, 6)?, BECOMING_READY);
    Ok(())
}

#[test]
fn once_an_unavailable_pool_is_forgotten_its_luns_are_gone() -> Result<()> {
    let mut array = Array::start()?;
    let file = array.create_pool("p", "1G")?;
    array.create_lun("p/v", "64M")?;
    assert!(array.stop()?.success());
    std::fs::remove_file(&file)?;
    array.restart()?;
    let mut session = log_in(&array)?;
    assert_not_ready(&mut session)?;
    let asked = array.try_gantry(&["pool", "delete", "p"])?;
    assert!(asked.stderr.contains("1 LUN(s) of 1 volume(s)"), "{asked:?}");
    assert_not_ready(&mut session)?;
    array.gantry(&["pool", "delete", "p", "--force"])?;
    assert_eq!(session.read(0, &TEST_UNIT_READY, 0)?.code(), Some((5, 0x25, 0)));
    Ok(())
}

/// Units of the journal: block of the device and sequence number.
fn units(file: &Path) -> Result<Vec<(u64, u64)>> {
    let file = OpenOptions::new().read(true).open(file)?;
    let mut units = Vec::new();
    for block in JOURNAL {
        let mut bytes = [0; 48];
        file.read_exact_at(&mut bytes, block * BLOCK)?;
        if bytes[..4] == 0x474a_4e4c_u32.to_le_bytes() {
            units.push((block, u64::from_le_bytes(bytes[16..24].try_into()?)));
        }
    }
    units.sort_by_key(|(_, sequence)| *sequence);
    Ok(units)
}

fn flip(file: &Path, block: u64) -> Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(file)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, block * BLOCK + 60)?;
    file.write_all_at(&[byte[0] ^ 4], block * BLOCK + 60)?;
    Ok(())
}

/// A killed array whose journal has 30 writes, one commit each, of which the one that wrote block
/// `20` is damaged.
fn damaged_array() -> Result<(Array, PathBuf)> {
    let mut array = Array::start()?;
    let file = array.create_pool("p", "1G")?;
    array.create_lun("p/v", "64M")?;
    let mut host = log_in(&array)?;
    for at in 0..30 {
        assert_eq!(write(&mut host, at, at + 1)?, None);
    }
    array.kill()?;
    let units = units(&file)?;
    ensure!(units.len() >= 30, "{} units", units.len());
    let (block, _) = units[units.len() - 10];
    flip(&file, block)?;
    Ok((array, file))
}

/// The array looks after its pools once a second.
fn wait_for_event(array: &Array, words: &str) -> Result<()> {
    let begun = Instant::now();
    loop {
        let events = array.gantry(&["events"])?;
        if events.contains(words) {
            return Ok(());
        }
        ensure!(begun.elapsed() < PATIENCE, "no '{words}' in {events}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_damaged_journal_is_described_served_read_only_and_rewound() -> Result<()> {
    let (mut array, file) = damaged_array()?;
    let path = file.to_str().context("a printable path")?;
    let verified = array.try_gantry(&["pool", "verify", path])?;
    assert_eq!(verified.status.code(), Some(1));
    for word in ["of the journal is damaged", "10 commit(s)", "at least v", "journal units"] {
        assert!(verified.stdout.contains(word), "'{word}' is not in {}", verified.stdout);
    }
    array.restart()?;
    let unavailable = pool(&array)?;
    assert_eq!(text(&unavailable, "/state")?, "unavailable");
    assert!(text(&unavailable, "/reason")?.contains("--rewind"), "{unavailable:#}");
    assert!(array.try_gantry(&["pool", "resume", "p"])?.stderr.contains("is damaged"));

    let before = std::fs::read(&file)?;
    array.gantry(&["pool", "resume", "p", "--read-only"])?;
    let read_only = pool(&array)?;
    assert_eq!(text(&read_only, "/state")?, "read-only");
    assert_eq!(read_only["journal_loss"]["commits"], 10);
    let since = |pool: &Value| pool["journal_loss"]["since"].as_u64().context("a moment");
    assert_eq!(since(&read_only)?, since(&unavailable)?, "it is known since it was found");
    assert!(array.gantry(&["pool", "show", "p"])?.contains("are lost"));
    let mut host = log_in(&array)?;
    for at in 0..30 {
        assert_eq!(read(&mut host, at)?, if at < 20 { at + 1 } else { 0 });
    }
    assert_eq!(write(&mut host, 0, 99)?, WRITE_PROTECTED);
    assert!(before == std::fs::read(&file)?, "a pool that was opened read-only has changed");

    // It is so after a restart, too: hosts that could read go on reading.
    array.kill()?;
    array.restart()?;
    assert_eq!(text(&pool(&array)?, "/state")?, "read-only");
    let mut host = log_in(&array)?;
    assert_eq!(read(&mut host, 19)?, 20);
    assert_eq!(write(&mut host, 0, 99)?, WRITE_PROTECTED);
    assert!(before == std::fs::read(&file)?, "a restart has changed the pool");
    wait_for_event(&array, "is read-only: ")?;

    let dry = array.gantry(&["pool", "resume", "p", "--rewind"])?;
    assert!(dry.contains("Nothing was changed") && dry.contains("10 commit(s)"), "{dry}");
    assert_eq!(text(&pool(&array)?, "/state")?, "read-only");
    assert!(before == std::fs::read(&file)?, "a dry run has changed the pool");

    assert!(array.gantry(&["pool", "resume", "p", "--rewind", "--yes"])?.contains("ready"));
    assert_eq!(write(&mut host, 25, 77)?, None);
    array.kill()?;
    array.restart()?;
    assert_eq!(text(&pool(&array)?, "/state")?, "ready");
    let url = array.lun_url(0)?;
    for at in 0..30 {
        let byte = if at == 25 {
            77
        } else if at < 20 {
            at + 1
        } else {
            0
        };
        let read = format!("read -P {byte} {} 4k", at * BLOCK as i32);
        initiator::qemu_io(&["-f", "raw", &url], &[&read])?;
    }
    assert!(array.stop()?.success());
    assert!(array.try_gantry(&["pool", "verify", path])?.success().is_ok());
    Ok(())
}

#[test]
fn a_whole_journal_is_not_rewound() -> Result<()> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    let refused = array.try_gantry(&["pool", "resume", "p", "--rewind", "--yes"])?;
    assert!(refused.stderr.contains("nothing to resume"), "{refused:?}");
    Ok(())
}
