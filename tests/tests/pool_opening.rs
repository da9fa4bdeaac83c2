//! A pool whose devices come late opens by itself: a file that appears, is still copied, is another
//! one, is held by another process, or hangs; other pools and hosts go on meanwhile.

use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::faulty_folder::FaultyFolder;
use harness::pdu::RawSession;
use harness::waiting::wait_until;
use harness::{Array, Value, text};

const BECOMING_READY: Option<(u8, u8, u8)> = Some((2, 4, 1));
const MEDIUM_CHANGED: Option<(u8, u8, u8)> = Some((6, 0x28, 0));
const TEST_UNIT_READY: [u8; 6] = [0; 6];
const BLOCK: usize = 4096;

fn show(array: &Array, pool: &str) -> Result<Value> {
    array.gantry_json(&["pool", "show", pool])
}

fn wait_for_state(array: &Array, pool: &str, state: &str) -> Result<()> {
    wait_until(state, || Ok(text(&show(array, pool)?, "/state")? == state))
}

fn wait_for_reason(array: &Array, pool: &str, words: &str) -> Result<()> {
    wait_until(words, || {
        let shown = show(array, pool)?;
        Ok(shown["reason"].as_str().is_some_and(|reason| reason.contains(words)))
    })
}

fn log_in(array: &Array) -> Result<RawSession> {
    RawSession::log_in(array.portal(), "iqn.2026-01.org.example:a", &array.target_name()?)
}

fn write(session: &mut RawSession, lun: u8, byte: u8) -> Result<Option<(u8, u8, u8)>> {
    let cdb = [0x2a, 0, 0, 0, 0, 0, 0, 0, 8, 0];
    Ok(session.write(lun, &cdb, &[byte; BLOCK])?.code())
}

fn read(session: &mut RawSession, lun: u8) -> Result<u8> {
    let cdb = [0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0];
    let data = session.read(lun, &cdb, BLOCK as u32)?.good()?;
    ensure!(data.iter().all(|&byte| byte == data[0]), "a mixture");
    Ok(data[0])
}

fn ready(session: &mut RawSession, lun: u8) -> Result<Option<(u8, u8, u8)>> {
    Ok(session.read(lun, &TEST_UNIT_READY, 0)?.code())
}

/// What a session is told of a LUN whose pool opened, whatever else it is told before.
fn told_of_medium(session: &mut RawSession, lun: u8) -> Result<Option<(u8, u8, u8)>> {
    let mut last = None;
    for _ in 0..4 {
        last = session.read_once(lun, &TEST_UNIT_READY, 0)?.code();
        if last == MEDIUM_CHANGED || last.is_none() {
            break;
        }
    }
    Ok(last)
}

/// How often an event says so.
fn told(array: &Array, words: &str) -> Result<u64> {
    let events = array.gantry_json(&["events"])?;
    let events = events.as_array().into_iter().flatten();
    let of_them =
        events.filter(|event| event["message"].as_str().is_some_and(|m| m.contains(words)));
    Ok(of_them.map(|event| event["count"].as_u64().unwrap_or(1)).sum())
}

/// An array that was stopped, with a pool 'p' (LUN 0) and a pool 'q' (LUN 1), each with a volume in
/// which a byte was written: 5 and 6.
fn two_pools() -> Result<(Array, std::path::PathBuf, std::path::PathBuf)> {
    let mut array = Array::start()?;
    let files = (array.create_pool("p", "1G")?, array.create_pool("q", "1G")?);
    array.create_lun("p/v", "64M")?;
    array.create_lun("q/v", "64M")?;
    let mut host = log_in(&array)?;
    assert_eq!((write(&mut host, 0, 5)?, write(&mut host, 1, 6)?), (None, None));
    ensure!(array.stop()?.success());
    Ok((array, files.0, files.1))
}

fn away(file: &Path) -> Result<std::path::PathBuf> {
    let away = file.with_extension("away");
    std::fs::rename(file, &away)?;
    Ok(away)
}

#[test]
fn a_pool_opens_by_itself_when_its_file_appears_and_sessions_go_on() -> Result<()> {
    let (mut array, p, _) = two_pools()?;
    let kept = away(&p)?;
    array.restart()?;
    let mut host = log_in(&array)?;
    assert_eq!((ready(&mut host, 0)?, read(&mut host, 1)?), (BECOMING_READY, 6));
    wait_for_reason(&array, "p", "does not exist")?;
    // Several tries are one event.
    thread::sleep(Duration::from_secs(7));
    assert_eq!(told(&array, "is not available")?, 1);
    assert_eq!(ready(&mut host, 0)?, BECOMING_READY);
    assert_eq!(write(&mut host, 1, 7)?, None, "the other pool takes writes");

    std::fs::rename(&kept, &p)?;
    wait_for_state(&array, "p", "ready")?;
    assert_eq!(told_of_medium(&mut host, 0)?, MEDIUM_CHANGED);
    assert_eq!((read(&mut host, 0)?, read(&mut host, 1)?), (5, 7));
    assert_eq!(write(&mut host, 0, 8)?, None);
    assert_eq!((told(&array, "is not available")?, told(&array, "is open again")?), (1, 1));
    Ok(())
}

/// What was read of a pool decides whose it is, so hosts wait until then, also those that are there.
#[test]
fn hosts_are_never_let_into_a_pool_that_another_array_has_used_since() -> Result<()> {
    let (mut array, p, _) = two_pools()?;
    let kept = away(&p)?;
    let mut other = Array::start()?;
    let file = kept.to_str().context("a printable path")?;
    other.gantry(&["pool", "import", file, "--force", "--keep-target-name"])?;
    ensure!(other.stop()?.success());
    array.restart()?;
    let mut host = log_in(&array)?;
    wait_for_reason(&array, "p", "does not exist")?;
    std::fs::rename(&kept, &p)?;
    thread::scope(|scope| -> Result<()> {
        let refused = scope.spawn(|| wait_for_reason(&array, "p", "has used it since"));
        while !refused.is_finished() {
            assert_eq!(write(&mut host, 0, 9)?, BECOMING_READY);
        }
        refused.join().expect("it does not panic")
    })?;
    assert_eq!(write(&mut host, 0, 9)?, BECOMING_READY);
    assert_eq!(read(&mut host, 1)?, 6);
    Ok(())
}

#[test]
fn a_pool_opens_by_itself_when_another_process_lets_go_of_its_device() -> Result<()> {
    let (mut array, p, _) = two_pools()?;
    let held = File::open(&p)?;
    held.lock()?;
    array.restart()?;
    let mut host = log_in(&array)?;
    wait_for_reason(&array, "p", "in use by another process")?;
    assert_eq!(ready(&mut host, 0)?, BECOMING_READY);
    // It lets go and takes it again, at once.
    held.unlock()?;
    if held.try_lock().is_ok() {
        thread::sleep(Duration::from_secs(5));
        assert_eq!(ready(&mut host, 0)?, BECOMING_READY);
        held.unlock()?;
    }
    wait_for_state(&array, "p", "ready")?;
    assert!(held.try_lock().is_err(), "the array has it now");
    assert_eq!(told_of_medium(&mut host, 0)?, MEDIUM_CHANGED);
    assert_eq!(read(&mut host, 0)?, 5);
    Ok(())
}

#[test]
fn a_wrong_file_is_refused_left_as_it_is_and_the_right_one_is_opened() -> Result<()> {
    let (mut array, p, q) = two_pools()?;
    let (kept_p, kept_q) = (away(&p)?, away(&q)?);
    array.restart()?;
    let mut host = log_in(&array)?;
    assert_eq!((ready(&mut host, 0)?, ready(&mut host, 1)?), (BECOMING_READY, BECOMING_READY));
    // Both wait, and each gets the other's file.
    std::fs::rename(&kept_q, &p)?;
    std::fs::rename(&kept_p, &q)?;
    let before = (std::fs::read(&p)?, std::fs::read(&q)?);
    wait_for_reason(&array, "p", "another pool")?;
    wait_for_reason(&array, "q", "another pool")?;
    assert!(before == (std::fs::read(&p)?, std::fs::read(&q)?), "a wrong file was changed");
    drop(before);
    // One that is too short, and one whose labels are torn.
    std::fs::rename(&p, &kept_q)?;
    std::fs::rename(&q, &kept_p)?;
    std::fs::write(&p, vec![0; 8192])?;
    let mut torn = std::fs::read(&kept_q)?;
    torn[..3 * BLOCK].fill(0xa5);
    std::fs::write(&q, &torn)?;
    drop(torn);
    wait_until("a reason of its own", || {
        let reason = |pool| Ok::<_, anyhow::Error>(show(&array, pool)?["reason"].to_string());
        Ok(!reason("p")?.contains("another pool") && !reason("q")?.contains("another pool"))
    })?;
    thread::sleep(Duration::from_secs(3));
    assert_eq!(text(&show(&array, "p")?, "/state")?, "unavailable");
    assert_eq!(text(&show(&array, "q")?, "/state")?, "unavailable");
    let mut host = log_in(&array)?;
    assert_eq!((ready(&mut host, 0)?, ready(&mut host, 1)?), (BECOMING_READY, BECOMING_READY));
    std::fs::rename(&kept_p, &p)?;
    std::fs::rename(&kept_q, &q)?;
    wait_for_state(&array, "p", "ready")?;
    wait_for_state(&array, "q", "ready")?;
    // The first session may have been silent for too long.
    let mut host = log_in(&array)?;
    assert_eq!((read(&mut host, 0)?, read(&mut host, 1)?), (5, 6));
    Ok(())
}

// The daemon opened devices on its one thread: one that hung kept every host of every pool out.
#[test]
fn a_device_that_hangs_when_it_is_opened_stops_nothing_else() -> Result<()> {
    let disk = FaultyFolder::mount_with_size(4 << 30)?;
    let mut array = Array::start()?;
    for pool in ["late", "gone"] {
        let device = format!("file:{}", disk.file(&format!("{pool}.img")).display());
        array.gantry(&["pool", "create", pool, "--device", &device, "--size", "1G"])?;
    }
    array.create_pool("q", "1G")?;
    array.create_lun("late/v", "64M")?;
    array.create_lun("q/v", "64M")?;
    let mut host = log_in(&array)?;
    assert_eq!((write(&mut host, 0, 5)?, write(&mut host, 1, 6)?), (None, None));
    ensure!(array.stop()?.success());

    let stall = disk.stall();
    array.restart()?;
    let mut host = log_in(&array)?;
    assert_eq!((ready(&mut host, 0)?, read(&mut host, 1)?), (BECOMING_READY, 6));
    wait_for_reason(&array, "late", "does not answer")?;
    let asked = array.try_gantry(&["pool", "open", "late"])?;
    assert!(!asked.status.success(), "{asked:?}");
    // What nobody needs any more is forgotten although a try of it hangs.
    let refused = array.try_gantry(&["pool", "delete", "gone"])?;
    assert!(refused.stderr.contains("is not open"), "{refused:?}");
    array.gantry(&["pool", "delete", "gone", "--force"])?;
    assert_eq!(write(&mut host, 1, 7)?, None);
    assert_eq!(told(&array, "does not answer")?, 2);

    drop(stall);
    wait_for_state(&array, "late", "ready")?;
    assert_eq!(told_of_medium(&mut host, 0)?, MEDIUM_CHANGED);
    assert_eq!((read(&mut host, 0)?, read(&mut host, 1)?), (5, 7));
    assert!(show(&array, "gone").is_err());

    // A daemon that stops while a try hangs stops.
    let gone = disk.file("late.img").with_extension("away");
    ensure!(array.stop()?.success());
    std::fs::rename(disk.file("late.img"), &gone)?;
    array.restart()?;
    wait_for_reason(&array, "late", "does not exist")?;
    let stall = disk.stall();
    thread::sleep(Duration::from_secs(3));
    let stopped = array.stop()?;
    drop(stall);
    ensure!(stopped.success(), "{stopped:?}");
    Ok(())
}

#[test]
fn pool_open_needs_no_wait_and_a_file_that_is_still_written_does() -> Result<()> {
    let (mut array, p, _) = two_pools()?;
    let kept = away(&p)?;
    array.restart()?;
    wait_for_reason(&array, "p", "does not exist")?;
    // A copy that is under way: the file has its size before it has its content.
    let copy = File::create(&p)?;
    copy.set_len(std::fs::metadata(&kept)?.len())?;
    for _ in 0..60 {
        copy.set_modified(std::time::SystemTime::now())?;
        thread::sleep(Duration::from_millis(100));
    }
    wait_for_reason(&array, "p", "still being written")?;
    std::fs::copy(&kept, &p)?;
    let opened = array.try_gantry(&["pool", "open", "p"])?;
    let by_itself = opened.stderr.contains("there is nothing to resume");
    assert!(opened.status.success() || by_itself, "{opened:?}");
    assert_eq!(text(&show(&array, "p")?, "/state")?, "ready");
    assert_eq!(read(&mut log_in(&array)?, 0)?, 5);
    Ok(())
}
