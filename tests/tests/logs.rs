//! Logs that cannot be written: nothing about a log or a record
//! ends, blocks or slows the array.
//!
//! Found in 2026: `gantryd 2>/dev/full` ended with its first line, and a pipe that nobody read
//! stopped everything after 256 logins.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::faulty_folder::{EIO, ENOSPC, FaultyFolder};
use harness::http::Request;
use harness::pdu::RawSession;
use harness::{Array, Value, number};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

const NAME: &str = "iqn.2026-01.org.example:logs";

/// INQUIRY of 36 bytes.
const INQUIRY: [u8; 6] = [0x12, 0, 0, 0, 36, 0];

const PATIENCE: Duration = Duration::from_secs(60);

/// A daemon whose shell does that before it starts it.
fn array_with(shell: &str) -> Result<Array> {
    let script = format!("{shell}; exec \"$@\"");
    let mut array = Array::prepare()?.with_words(&["sh", "-c", &script, "sh"], &[]);
    array.restart()?;
    Ok(array)
}

/// The daemon's standard error goes there.
fn array_with_log(to: &Path) -> Result<Array> {
    array_with(&format!("exec 2>'{}'", to.display()))
}

/// Logs in and out, which makes two lines of the log each time.
fn log_in_often(array: &Array, times: u32) -> Result<()> {
    let target = array.target_name()?;
    for number in 0..times {
        let mut session = RawSession::log_in(array.portal(), NAME, &target)?;
        session.read(0, &INQUIRY, 36)?.good().with_context(|| format!("login {number}"))?;
    }
    Ok(())
}

fn metric(array: &Array, name: &str) -> Result<f64> {
    let page = Request::new("GET", "/metrics").send_to_socket(&array.data().join("gantry.sock"))?;
    let line = page.body.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    Ok(line.with_context(|| format!("no metric {name}"))?.parse()?)
}

/// They are counted by the thread that cannot write them.
fn wait_for_lost_lines(array: &Array, count: f64) -> Result<()> {
    let begun = Instant::now();
    while metric(array, "gantry_log_lines_lost_total")? < count {
        ensure!(begun.elapsed() < PATIENCE, "no {count} lines are lost");
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Events of an object.
fn events_of(array: &Array, object: &str) -> Result<Vec<Value>> {
    let events = array.gantry_json(&["events"])?;
    let events = events.as_array().context("a list of events")?;
    Ok(events.iter().filter(|event| event["object"] == object).cloned().collect())
}

fn wait_for_event(array: &Array, object: &str, words: &str) -> Result<()> {
    let begun = Instant::now();
    let is_meant = |event: &Value| event["message"].as_str().is_some_and(|m| m.contains(words));
    while !events_of(array, object)?.iter().any(is_meant) {
        ensure!(begun.elapsed() < PATIENCE, "no '{words}': {:?}", events_of(array, object)?);
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

#[test]
fn a_log_on_a_full_file_system_costs_only_its_lines() -> Result<()> {
    let mut array = array_with_log(Path::new("/dev/full"))?;
    array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "1G"])?;
    array.create_lun("p/v", "64M")?;
    log_in_often(&array, 20)?;
    wait_for_lost_lines(&array, 40.0)?;
    wait_for_event(&array, "log", "lines were lost")?;
    assert!(array.is_running()?);
    assert!(array.stop()?.success());
    Ok(())
}

#[test]
fn the_first_password_that_cannot_be_shown_is_set_another_way() -> Result<()> {
    let mut array = array_with("exec >/dev/full")?;
    assert!(array.log().contains("the first password could not be shown"), "{}", array.log());
    assert!(!array.log().contains("First start"));
    assert!(array.stop()?.success());
    Ok(())
}

/// A daemon that fails says so with exit code 1, also to nobody.
#[test]
fn a_start_that_fails_ends_in_order_without_a_log() -> Result<()> {
    let mut array = Array::prepare()?;
    fs::create_dir_all(array.data())?;
    fs::write(array.data().join("gantry.json"), "nonsense")?;
    array = array.with_words(&["sh", "-c", "exec \"$@\" >/dev/full 2>&1", "sh"], &[]);
    let error = format!("{:#}", array.restart().err().context("it does not start")?);
    ensure!(error.contains("exit status: 1)"), "{error}");
    Ok(())
}

#[test]
fn a_pipe_that_nobody_reads_is_read_or_closed_and_opened_again() -> Result<()> {
    let place = Array::prepare()?;
    let fifo = place.beside("log.fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status()?;
    ensure!(made.success(), "mkfifo");
    let open = || {
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        OpenOptions::new().read(true).custom_flags(flags).open(&fifo)
    };
    let mut reader = open()?;
    let mut array = array_with_log(&fifo)?;
    array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "1G"])?;
    array.create_lun("p/v", "64M")?;
    // A pipe holds 64 KiB; this is more. Lines about sessions have a limit of their own.
    change_often(&array, 600)?;
    assert_eq!(metric(&array, "gantry_log_lines_lost_total")?, 0.0);
    let mut text = String::new();
    let begun = Instant::now();
    while text.matches("change asked for").count() < 600 {
        read_what_is_there(&mut reader, &mut text)?;
        ensure!(begun.elapsed() < PATIENCE, "{}", text.len());
        thread::sleep(Duration::from_millis(10));
    }
    drop(reader);
    log_in_often(&array, 20)?;
    wait_for_lost_lines(&array, 20.0)?;
    let mut reader = open()?;
    let (mut text, begun) = (String::new(), Instant::now());
    while !text.contains("lines of the log were lost") {
        log_in_often(&array, 1)?;
        read_what_is_there(&mut reader, &mut text)?;
        ensure!(begun.elapsed() < PATIENCE, "{text}");
    }
    assert!(array.stop()?.success());
    Ok(())
}

/// Changes of the configuration, each of which is a line of the log.
fn change_often(array: &Array, times: u32) -> Result<()> {
    let body = serde_json::json!({ "soft_percent": 70, "hard_percent": 90 });
    let change = Request::new("PUT", "/v1/pools/p/thresholds").json(&body);
    for _ in 0..times {
        let answer = change.send_to_socket(&array.data().join("gantry.sock"))?;
        ensure!(answer.status == 200, "{answer:?}");
    }
    Ok(())
}

/// Reads from a descriptor that does not block.
fn read_what_is_there(from: &mut File, text: &mut String) -> Result<()> {
    let mut bytes = vec![0; 1 << 16];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(length) => text.push_str(&String::from_utf8_lossy(&bytes[..length])),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Every file that the daemon appends to is at the limit of its size (EFBIG, with the signal
/// SIGXFSZ); then the limit goes.
#[test]
fn records_that_have_no_room_are_written_when_they_have() -> Result<()> {
    const LIMIT: usize = 64 << 10;
    let place = Array::prepare()?;
    fs::create_dir_all(place.data())?;
    for name in ["events", "audit"] {
        fs::write(place.data().join(format!("{name}.jsonl")), vec![b'\n'; LIMIT])?;
    }
    let script = format!("ulimit -S -f {}; exec \"$@\"", LIMIT / 512);
    let mut array = place.with_words(&["sh", "-c", &script, "sh"], &[]);
    array.restart()?;
    array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "1G"])?;
    array.create_lun("p/v", "64M")?;
    for record in ["events", "audit"] {
        wait_for_event(&array, &format!("record {record}"), "cannot be written")?;
        let name = format!("gantry_record_entries_waiting{{record=\"{record}\"}}");
        assert!(metric(&array, &name)? > 0.0);
    }
    let audited = |array: &Array| -> Result<usize> {
        let text = fs::read_to_string(array.data().join("audit.jsonl"))?;
        Ok(text.matches("/v1/volumes").count())
    };
    assert_eq!(audited(&array)?, 0);
    let pid = Pid::from_raw(array.process_id()? as i32);
    let whole = prlimit(pid, Resource::Fsize, Rlimit { current: None, maximum: None });
    whole.context("the limit goes")?;
    for record in ["events", "audit"] {
        wait_for_event(&array, &format!("record {record}"), "is written again; 0 entries")?;
    }
    assert_eq!(audited(&array)?, 2, "create and map");
    assert!(array.stop()?.success());
    Ok(())
}

#[test]
fn records_on_a_file_system_that_stalls_hold_up_nobody() -> Result<()> {
    let folders = [FaultyFolder::mount()?, FaultyFolder::mount()?];
    let mut array = Array::prepare()?;
    fs::create_dir_all(array.data())?;
    for (name, folder) in ["events", "audit"].iter().zip(&folders) {
        symlink(folder.file("record"), array.data().join(format!("{name}.jsonl")))?;
    }
    array.restart()?;
    array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "1G"])?;
    let stalls = [folders[0].stall(), folders[1].stall()];
    array.create_lun("p/v", "64M")?;
    array.gantry(&["scrub", "start", "p"])?;
    log_in_often(&array, 3)?;
    for record in ["events", "audit"] {
        let words = "the file system does not answer";
        wait_for_event(&array, &format!("record {record}"), words)?;
    }
    drop(stalls);
    for record in ["events", "audit"] {
        wait_for_event(&array, &format!("record {record}"), "is written again; 0 entries")?;
    }
    let audit = fs::read_to_string(array.data().join("audit.jsonl"))?;
    assert!(audit.contains("/v1/volumes"), "{audit}");
    assert_eq!(number(&array.gantry_json(&["volume", "show", "p/v"])?, "/size_bytes")?, 64 << 20);
    assert!(array.stop()?.success());
    Ok(())
}

#[test]
fn reservations_that_cannot_be_saved_are_refused_and_told() -> Result<()> {
    let mut array = Array::start()?;
    array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "1G"])?;
    let lun = array.create_lun("p/v", "64M")?;
    let units = array.data().join("units");
    fs::remove_dir_all(&units)?;
    fs::write(&units, "no folder")?;
    let mut host = RawSession::log_in(array.portal(), NAME, &array.target_name()?)?;
    // PERSISTENT RESERVE OUT: REGISTER of key 1, to be kept over a loss of power (APTPL).
    let cdb = [0x5f, 0, 0, 0, 0, 0, 0, 0, 24, 0];
    let mut list = [0; 24];
    (list[15], list[20]) = (1, 1);
    assert!(host.write(lun as u8, &cdb, &list)?.code().is_some());
    wait_for_event(&array, "record units", "cannot be saved")?;
    fs::remove_file(&units)?;
    fs::create_dir(&units)?;
    host.write(lun as u8, &cdb, &list)?.good()?;
    assert!(array.stop()?.success());
    Ok(())
}

/// A state that is to be kept over a loss of power meets a full file system, an error and a stall;
/// whoever waits for it is answered when it is known, and nobody else waits.
#[test]
fn reservations_wait_for_their_file_and_hosts_do_not() -> Result<()> {
    let folder = FaultyFolder::mount()?;
    let mut array = Array::prepare()?;
    fs::create_dir_all(array.data())?;
    symlink(folder.path(), array.data().join("units"))?;
    array.restart()?;
    array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "1G"])?;
    let lun = array.create_lun("p/v", "64M")? as u8;
    let target = array.target_name()?;
    let mut host = RawSession::log_in(array.portal(), NAME, &target)?;
    let cdb = [0x5f, 0, 0, 0, 0, 0, 0, 0, 24, 0];
    let mut list = [0; 24];
    (list[15], list[20]) = (1, 1);
    for error in [ENOSPC, EIO] {
        folder.fail_writes(error);
        assert!(host.write(lun, &cdb, &list)?.code().is_some(), "errno {error}");
    }
    wait_for_event(&array, "record units", "cannot be saved")?;
    folder.fail_writes(0);
    let stall = folder.stall();
    let registered = thread::spawn(move || host.write(lun, &cdb, &list)?.good());
    let mut other = RawSession::log_in(array.portal(), &format!("{NAME}2"), &target)?;
    for _ in 0..20 {
        other.read(lun, &INQUIRY, 36)?.good()?;
    }
    assert!(!registered.is_finished(), "it was answered before it was kept");
    drop(stall);
    registered.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    assert!(array.stop()?.success());
    Ok(())
}

#[test]
fn errors_of_the_medium_cost_lines_of_the_log_and_delay_records() -> Result<()> {
    let folder = FaultyFolder::mount()?;
    let mut array = Array::prepare()?;
    fs::create_dir_all(array.data())?;
    for name in ["events", "audit"] {
        symlink(folder.file(name), array.data().join(format!("{name}.jsonl")))?;
    }
    let script = format!("exec 2>'{}'; exec \"$@\"", folder.file("log").display());
    array = array.with_words(&["sh", "-c", &script, "sh"], &[]);
    array.restart()?;
    folder.fail_writes(EIO);
    array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "1G"])?;
    array.create_lun("p/v", "64M")?;
    log_in_often(&array, 5)?;
    wait_for_lost_lines(&array, 5.0)?;
    for record in ["events", "audit"] {
        wait_for_event(&array, &format!("record {record}"), "cannot be written")?;
    }
    folder.fail_writes(0);
    for record in ["events", "audit"] {
        wait_for_event(&array, &format!("record {record}"), "is written again; 0 entries")?;
    }
    let begun = Instant::now();
    while !fs::read_to_string(folder.file("log"))?.contains("lines of the log were lost") {
        log_in_often(&array, 1)?;
        ensure!(begun.elapsed() < PATIENCE, "nothing is said of the lines that were lost");
    }
    assert!(fs::read_to_string(folder.file("audit"))?.contains("/v1/volumes"));
    assert!(array.stop()?.success());
    Ok(())
}

/// A process that ends with this value.
struct Killed(Pid);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.0, rustix::process::Signal::KILL);
    }
}

/// The terminal's window is closed: the kernel sends SIGHUP, and every write to it is an I/O error.
#[test]
fn a_terminal_that_is_closed_does_not_end_the_daemon() -> Result<()> {
    let mut array = Array::prepare()?.with_words(
        // script(1) has a terminal of its own for the daemon, which leads a session there.
        &["sh", "-c", "exec script -q -f -e -c \"exec $*\" /dev/null </dev/null", "sh"],
        &[],
    );
    array.restart()?;
    let script = array.process_id()?;
    let children = fs::read_to_string(format!("/proc/{script}/task/{script}/children"))?;
    let daemon: i32 = children.trim().parse().with_context(|| format!("'{children}'"))?;
    let daemon = Killed(Pid::from_raw(daemon).context("a process")?);
    array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "1G"])?;
    array.create_lun("p/v", "64M")?;
    array.kill()?;
    log_in_often(&array, 20)?;
    wait_for_lost_lines(&array, 20.0)?;
    wait_for_event(&array, "log", "lines were lost")?;
    drop(daemon);
    Ok(())
}
