//! A device that stalls: who uses it waits, can give up, and disturbs nobody else.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::faulty_folder::FaultyFolder;
use harness::pdu::{Pdu, RawConnection, RawSession};
use harness::{Array, initiator};

const STUCK: &str = "iqn.2026-01.org.example:stuck";

/// How long the daemon may take to notice that a host is gone.
const NOTICE_MAX: Duration = Duration::from_secs(60);

/// WRITE (10) and READ (10) of eight blocks at block 0 (SBC-4 5.42, 5.18).
const WRITE: [u8; 10] = [0x2a, 0, 0, 0, 0, 0, 0, 0, 8, 0];
const READ: [u8; 10] = [0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0];
const BYTES: u32 = 4096;

/// A host that has sent a WRITE of the LUN that is not answered.
fn stuck_host(array: &Array, lun: u8) -> Result<RawConnection> {
    let mut host = RawConnection::log_in(array.portal(), STUCK, &array.target_name()?)?;
    let test_unit_ready = |number| Pdu::command(number, lun, &[0; 6], 0, 0).numbered(number);
    for number in 0..2 {
        // The first brings the unit attention of a new nexus.
        host.send(&test_unit_ready(number).bytes())?;
        host.receive()?.context("TEST UNIT READY has an answer")?;
    }
    let mut write = Pdu::command(2, lun, &WRITE, 0x20, BYTES).numbered(2);
    write.data = vec![9; BYTES as usize];
    host.send(&write.bytes())?;
    Ok(host)
}

/// LOGICAL UNIT RESET (RFC 7143 11.5.1), immediate.
fn reset(lun: u8) -> Vec<u8> {
    let mut request = Pdu::command(3, lun, &[], 0, 0).numbered(3);
    request.header[..2].copy_from_slice(&[0x42, 0x85]);
    request.header[20..24].fill(0xff);
    request.bytes()
}

/// Waits for an event about the device of the slow pool.
fn wait_for_event(array: &Array, words: &str) -> Result<()> {
    let begun = Instant::now();
    loop {
        let events = array.gantry_json(&["events"])?;
        let stalls = events.as_array().context("a list of events")?.iter();
        let mut stalls = stalls.filter(|event| event["kind"] == "device_stall");
        let is_meant = |event: &harness::Value| {
            let [object, message] = ["object", "message"].map(|key| event[key].as_str());
            object.is_some_and(|object| object.ends_with("of pool slow"))
                && message.is_some_and(|message| message.contains(words))
        };
        if stalls.any(is_meant) {
            return Ok(());
        }
        ensure!(begun.elapsed() < NOTICE_MAX, "no event '{words}': {events}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn stuck_sessions(array: &Array) -> Result<usize> {
    let sessions = array.gantry_json(&["session", "list"])?;
    let sessions = sessions.as_array().context("a list of sessions")?;
    Ok(sessions.iter().filter(|session| session["initiator"] == STUCK).count())
}

/// Everything that does not need the device.
fn assert_everything_else_goes_on(array: &Array, slow: u8, quick: u16) -> Result<()> {
    let url = array.lun_url(quick)?;
    initiator::qemu_io(&["-f", "raw", &url], &["write -P 7 0 4M", "read -P 7 0 4M"])?;
    for question in [["volume", "list"], ["pool", "list"], ["session", "list"]] {
        array.gantry_json(&question)?;
    }
    let name = "iqn.2026-01.org.example:other";
    let mut other = RawSession::log_in(array.portal(), name, &array.target_name()?)?;
    other.read(slow, &[0x12, 0, 0, 0, 36, 0], 36)?.good()?;
    array.create_lun("quick/another", "64M")?;
    Ok(())
}

#[test]
fn a_device_that_stalls_wedges_neither_the_daemon_nor_its_hosts() -> Result<()> {
    let folder = FaultyFolder::mount()?;
    let mut array = Array::start()?;
    let device = format!("file:{}", folder.file("device").display());
    array.gantry(&["pool", "create", "slow", "--device", &device, "--size", "1G"])?;
    array.create_pool("quick", "1G")?;
    let slow = array.create_lun("slow/a", "128M")?;
    let quick = array.create_lun("quick/b", "128M")?;
    let slow_url = array.lun_url(slow)?;
    initiator::qemu_io(&["-f", "raw", &slow_url], &["write -P 5 0 1M"])?;

    let stall = folder.stall();
    let mut gives_up = stuck_host(&array, slow as u8)?;
    assert_everything_else_goes_on(&array, slow as u8, quick)?;
    ensure!(stuck_sessions(&array)? == 1);
    gives_up.send(&reset(slow as u8))?;
    drop(gives_up);
    let given_up = Instant::now();
    while stuck_sessions(&array)? > 0 {
        ensure!(given_up.elapsed() < NOTICE_MAX, "a session of a host that is gone stays");
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut waits = stuck_host(&array, slow as u8)?;
    initiator::qemu_io(&["-f", "raw", &array.lun_url(quick)?], &["read -P 7 0 4M"])?;
    wait_for_event(&array, "does not answer: a ")?;

    drop(stall);
    let answer = waits.receive()?.context("the WRITE is answered after the stall")?;
    assert_eq!((answer.header[0] & 0x3f, answer.header[3]), (0x21, 0), "{:02x?}", answer.header);
    waits.send(&Pdu::command(3, slow as u8, &READ, 0x40, BYTES).numbered(3).bytes())?;
    let answer = waits.receive()?.context("READ has an answer")?;
    assert_eq!(answer.data, vec![9; BYTES as usize]);
    initiator::qemu_io(&["-f", "raw", &slow_url], &["read -P 9 0 4k", "read -P 5 4k 1020k"])?;
    wait_for_event(&array, "answers again, after ")?;
    assert!(array.stop()?.success());
    Ok(())
}
