//! Two controllers of one array on one machine, over a pool on a file: what hosts are told on either
//! path (ALUA), take-over after kill -9, the planned switch, and both started at once. Nothing that was
//! answered is lost, and reservations go along.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::array::free_address;
use harness::controllers::{Pair, listed, pair_up, signal, standing, told};
use harness::http::Request;
use harness::pdu::{Pdu, RawConnection, RawSession, cdb10};
use harness::waiting::wait_until;
use harness::{Array, Value, text};
use rustix::process::Signal;

const STANDBY: Option<(u8, u8, u8)> = Some((2, 4, 0x0b));
const STATE_CHANGED: Option<(u8, u8, u8)> = Some((6, 0x2a, 6));
const CONFLICT: u8 = 0x18;
const BLOCK: usize = 512;

const TEST_UNIT_READY: [u8; 6] = [0; 6];
const INQUIRY: [u8; 6] = [0x12, 0, 0, 0, 96, 0];
const IDENTIFICATION: [u8; 6] = [0x12, 1, 0x83, 1, 0, 0];
const PORTS: [u8; 6] = [0x12, 1, 0x88, 1, 0, 0];
const REQUEST_SENSE: [u8; 6] = [0x03, 0, 0, 0, 18, 0];
const REPORT_LUNS: [u8; 12] = [0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
const REPORT_GROUPS: [u8; 12] = [0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
const RESERVE_6: [u8; 6] = [0x16, 0, 0, 0, 0, 0];
const READ_RESERVATION: [u8; 10] = [0x5e, 1, 0, 0, 0, 0, 0, 1, 0, 0];

const ACTIVE: u8 = 0;
const STANDBY_STATE: u8 = 2;

/// PERSISTENT RESERVE OUT: REGISTER with APTPL and ALL_TG_PT; RESERVE, Write Exclusive – Registrants
/// Only; CLEAR.
const REGISTER: [u8; 3] = [0, 0, 0x05];
const RESERVE: [u8; 3] = [1, 5, 0];
const CLEAR: [u8; 3] = [3, 0, 0];

/// Group and state of each descriptor.
fn groups(session: &mut RawSession, lun: u8) -> Result<Vec<(u8, u8)>> {
    let data = session.read(lun, &REPORT_GROUPS, 256)?.good()?;
    let length = u32::from_be_bytes(data[..4].try_into()?) as usize;
    let (descriptors, _) = data[4..4 + length].as_chunks::<12>();
    Ok(descriptors.iter().map(|one| (one[3], one[0] & 0x0f)).collect())
}

/// A status, and sense key, additional sense code and qualifier.
type Ending = (u8, Option<(u8, u8, u8)>);

fn write(session: &mut RawSession, lun: u8, lba: u32, byte: u8) -> Result<Ending> {
    let answer = session.write(lun, &cdb10(0x2a, 0, lba, 1), &[byte; BLOCK])?;
    Ok((answer.status, answer.code()))
}

/// What a host is told before its next command is carried out.
fn attentions(session: &mut RawSession, lun: u8) -> Result<Vec<Option<(u8, u8, u8)>>> {
    let mut told = Vec::new();
    loop {
        let code = session.read_once(lun, &TEST_UNIT_READY, 0)?.code();
        match code {
            Some((6, ..)) => told.push(code),
            _ => return Ok(told),
        }
    }
}

fn read(session: &mut RawSession, lun: u8, lba: u32) -> Result<u8> {
    let data = session.read(lun, &cdb10(0x28, 0, lba, 1), BLOCK as u32)?.good()?;
    ensure!(data.iter().all(|&byte| byte == data[0]), "a mixture at {lba}");
    Ok(data[0])
}

fn has(data: &[u8], part: &[u8]) -> bool {
    data.windows(part.len()).any(|window| window == part)
}

#[test]
fn both_paths_tell_of_one_unit_with_true_states_and_only_the_owner_s_serves() -> Result<()> {
    let pair = Pair::start()?;
    let (mut active, mut standby) = (pair.host(&pair.first, "a")?, pair.host(&pair.second, "a")?);
    let lun = pair.lun;
    for session in [&mut active, &mut standby] {
        assert_eq!(groups(session, lun)?, [(1, ACTIVE), (2, STANDBY_STATE)]);
        let inquiry = session.read(lun, &INQUIRY, 96)?.good()?;
        assert_eq!((inquiry[5] >> 4 & 3, inquiry[6] & 0x10), (1, 0x10), "TPGS implicit, MULTIP");
        let ports = session.read(lun, &PORTS, 256)?.good()?;
        for port in [1, 2] {
            let name = format!("{},t,0x000{port}", pair.target);
            assert!(has(&ports, name.as_bytes()), "port {port}");
        }
        assert!(session.read(lun, &REPORT_LUNS, 256)?.good()?.len() >= 16);
        session.read(lun, &TEST_UNIT_READY, 0)?.good()?;
    }
    let [one, two] = [&mut active, &mut standby]
        .map(|session| session.read(lun, &IDENTIFICATION, 256).and_then(|answer| answer.good()));
    let (one, two) = (one?, two?);
    assert_eq!(one[4..24], two[4..24], "one NAA identifier");
    assert!(
        has(&one, &[0x51, 0x95, 0, 4, 0, 0, 0, 1]) && has(&two, &[0x51, 0x95, 0, 4, 0, 0, 0, 2])
    );

    assert_eq!(write(&mut active, lun, 0, 7)?.0, 0);
    assert_eq!(write(&mut standby, lun, 0, 8)?.1, STANDBY);
    for cdb in [&cdb10(0x28, 0, 0, 1)[..], &cdb10(0x35, 0, 0, 0), &RESERVE_6, &READ_RESERVATION] {
        let answer = standby.read(lun, cdb, 256)?;
        assert_eq!(answer.code(), STANDBY, "{cdb:02x?}");
    }
    let sense = standby.read(lun, &REQUEST_SENSE, 18)?.good()?;
    assert_eq!((sense[2], sense[12], sense[13]), (2, 4, 0x0b));
    assert_eq!(read(&mut active, lun, 0)?, 7);

    let portals = send_targets(pair.second.portal(), &pair.target)?;
    for (array, group) in [(&pair.first, 1), (&pair.second, 2)] {
        let address = format!("TargetAddress={},{group}", array.portal());
        assert!(portals.contains(&address), "{address} in {portals}");
    }
    let refused = pair.second.try_gantry(&["volume", "create", "p/w", "--size", "1M"])?;
    assert!(refused.stderr.contains("another controller"), "{}", refused.stderr);
    let address = free_address()?.to_string();
    let refused = pair.first.try_gantry(&["portal", "create", &address, "--group", "2"])?;
    assert!(refused.stderr.contains("is that of another controller"), "{}", refused.stderr);
    Ok(())
}

fn send_targets(portal: SocketAddr, target: &str) -> Result<String> {
    let mut connection = RawConnection::log_in(portal, "iqn.2026-01.org.example:d", target)?;
    let mut request = Pdu::command(1, 0, &[], 0, 0);
    request.header = [0; 48];
    request.header[..2].copy_from_slice(&[0x44, 0x80]);
    request.header[19] = 1;
    request.header[20..24].copy_from_slice(&[0xff; 4]);
    request.data = format!("SendTargets={target}\0").into_bytes();
    connection.send(&request.bytes())?;
    let answer = connection.receive()?.context("no answer")?;
    Ok(String::from_utf8_lossy(&answer.data).replace('\0', " "))
}

#[test]
fn when_the_owner_is_killed_the_other_serves_all_that_was_answered_and_keeps_reservations()
-> Result<()> {
    let mut pair = Pair::start()?;
    let lun = pair.lun;
    let mut paths = [pair.host(&pair.first, "a")?, pair.host(&pair.second, "a")?];
    paths[0].reserve_out(lun, REGISTER, (0, 5))?.good()?;
    paths[0].reserve_out(lun, RESERVE, (5, 0))?.good()?;
    for lba in 0..100 {
        assert_eq!(write(&mut paths[0], lun, lba, lba as u8 + 1)?.0, 0);
    }
    // The second learns of what came after its copy, too.
    pair.first.gantry(&["volume", "create", "p/later", "--size", "32M"])?;
    pair.first.gantry(&["volume", "map", "p/later", "--host", "any"])?;
    pair.first.kill()?;
    pair.wait_for(&pair.second, "active-optimized")?;

    assert_eq!(paths[1].read_once(lun, &TEST_UNIT_READY, 0)?.code().map(|code| code.0), Some(6));
    assert_eq!(groups(&mut paths[1], lun)?, [(1, STANDBY_STATE), (2, ACTIVE)]);
    for lba in 0..100 {
        assert_eq!(read(&mut paths[1], lun, lba)?, lba as u8 + 1);
    }
    assert_eq!(write(&mut paths[1], lun, 0, 77)?.0, 0, "registered at all ports");
    let mut other = pair.host(&pair.second, "b")?;
    assert_eq!(write(&mut other, lun, 0, 78)?.0, CONFLICT);
    let held = paths[1].read(lun, &READ_RESERVATION, 256)?.good()?;
    assert_eq!(held[8..16], 5_u64.to_be_bytes());
    let volumes = pair.second.gantry_json(&["volume", "list"])?;
    assert_eq!(volumes.as_array().map(Vec::len), Some(2));

    // The first comes back: it is standby, and knows nothing better.
    pair.first.restart()?;
    pair.wait_for(&pair.first, "standby")?;
    paths[0] = pair.host(&pair.first, "a")?;
    assert_eq!(write(&mut paths[0], lun, 0, 79)?.1, STANDBY);
    paths[1].reserve_out(lun, CLEAR, (5, 0))?.good()?;
    pair.second.gantry(&["volume", "create", "p/third", "--size", "16M"])?;
    pair.second.kill()?;
    pair.wait_for(&pair.first, "active-optimized")?;
    assert_eq!(read(&mut paths[0], lun, 0)?, 77);
    let mut other = pair.host(&pair.first, "b")?;
    assert_eq!(write(&mut other, lun, 0, 80)?.0, 0, "cleared at the second, so not held here");
    let volumes = pair.first.gantry_json(&["volume", "list"])?;
    let names: Vec<&str> = volumes
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| text(one, "/name").ok())
        .collect();
    assert!(names.contains(&"third"), "{names:?}");
    Ok(())
}

#[test]
fn a_pool_that_is_switched_goes_to_the_other_and_sessions_stay() -> Result<()> {
    let pair = Pair::start()?;
    let lun = pair.lun;
    let mut paths = [pair.host(&pair.first, "a")?, pair.host(&pair.second, "a")?];
    for session in &mut paths {
        session.read(lun, &TEST_UNIT_READY, 0)?.good()?;
    }
    for round in 0..4_u8 {
        let (from, to) = (usize::from(round % 2), usize::from(1 - round % 2));
        let arrays = [&pair.first, &pair.second];
        for lba in 0..20 {
            assert_eq!(write(&mut paths[from], lun, lba, 10 * round + 1)?.0, 0);
        }
        arrays[from].gantry(&["controller", "switch", "p"])?;
        pair.wait_for(arrays[to], "active-optimized")?;
        pair.wait_for(arrays[from], "standby")?;
        for session in &mut paths {
            assert!(attentions(session, lun)?.contains(&STATE_CHANGED));
        }
        assert_eq!(write(&mut paths[from], lun, 0, 99)?.1, STANDBY);
        for lba in 0..20 {
            assert_eq!(read(&mut paths[to], lun, lba)?, 10 * round + 1);
        }
    }
    let refused = pair.second.try_gantry(&["controller", "switch", "p"])?;
    assert!(!refused.status.success(), "who has no pool cannot give it");
    Ok(())
}

#[test]
fn of_two_that_start_at_once_one_has_the_pool() -> Result<()> {
    let mut pair = Pair::start()?;
    let mut host = pair.host(&pair.first, "a")?;
    assert_eq!(write(&mut host, pair.lun, 3, 42)?.0, 0);
    for _ in 0..3 {
        pair.second.kill()?;
        pair.first.kill()?;
        let Pair { first, second, .. } = &mut pair;
        thread::scope(|scope| {
            let starting = scope.spawn(|| first.restart());
            second.restart()?;
            starting.join().expect("it returns its errors")
        })?;
        wait_until("one owner", || {
            let states = [standing(&pair.first)?, standing(&pair.second)?];
            let count = |wanted: &str| states.iter().flatten().filter(|one| *one == wanted).count();
            ensure!(count("active-optimized") < 2, "two owners");
            Ok((count("active-optimized"), count("standby")) == (1, 1))
        })?;
        let mut read_at = 0;
        for array in [&pair.first, &pair.second] {
            let mut host = pair.host(array, "a")?;
            let answer = host.read(pair.lun, &cdb10(0x28, 0, 3, 1), BLOCK as u32)?;
            match answer.status {
                0 => {
                    assert_eq!(answer.data[0], 42);
                    read_at += 1;
                }
                _ => assert_eq!(answer.code(), STANDBY),
            }
        }
        assert_eq!(read_at, 1);
    }
    Ok(())
}

#[test]
fn no_write_that_was_answered_is_lost_when_the_owner_is_killed_under_load() -> Result<()> {
    let mut pair = Pair::start()?;
    let lun = pair.lun;
    let mut standby = pair.host(&pair.second, "a")?;
    let mut active = pair.host(&pair.first, "a")?;
    let written = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&written);
    let writing = thread::spawn(move || {
        let mut answered = [0_u8; 64];
        for (lba, byte) in (0..64_u8).cycle().zip((1..=250).cycle()) {
            match write(&mut active, lun, lba.into(), byte) {
                Ok((0, _)) => {
                    answered[usize::from(lba)] = byte;
                    counter.fetch_add(1, Ordering::Relaxed);
                }
                Ok(other) => return Err(format!("{other:?}")),
                Err(_) => return Ok((answered, lba, byte)),
            }
        }
        Err("the owner was not killed".to_owned())
    });
    wait_until("writes are under way", || Ok(written.load(Ordering::Relaxed) > 200))?;
    pair.first.kill()?;
    let ended = writing.join().map_err(|_| anyhow::anyhow!("the writer panicked"))?;
    let (answered, last, in_doubt) = ended.map_err(anyhow::Error::msg)?;
    pair.wait_for(&pair.second, "active-optimized")?;
    for (lba, &byte) in (0..).zip(&answered) {
        let found = read(&mut standby, lun, lba)?;
        let may_be = found == byte || (lba == u32::from(last) && found == in_doubt);
        assert!(may_be, "block {lba}: {found}, answered was {byte}");
    }
    Ok(())
}

#[test]
fn of_an_owner_that_stands_still_nothing_is_taken_and_it_goes_on() -> Result<()> {
    let pair = Pair::start()?;
    let lun = pair.lun;
    let (mut active, mut standby) = (pair.host(&pair.first, "a")?, pair.host(&pair.second, "a")?);
    assert_eq!(write(&mut active, lun, 0, 7)?.0, 0);
    signal(&pair.first, Signal::STOP)?;
    // It is tried five times a second whether the pool was let go.
    thread::sleep(Duration::from_secs(2));
    let state = standing(&pair.second);
    let (written, told) = (write(&mut standby, lun, 0, 8), groups(&mut standby, lun));
    signal(&pair.first, Signal::CONT)?;
    assert_eq!(state?.as_deref(), Some("standby"));
    assert_eq!(written?.1, STANDBY);
    assert_eq!(told?, [(1, ACTIVE), (2, STANDBY_STATE)]);
    assert_eq!(write(&mut active, lun, 1, 9)?.0, 0);
    assert_eq!((read(&mut active, lun, 0)?, read(&mut active, lun, 1)?), (7, 9));
    Ok(())
}

const UNAVAILABLE_STATE: u8 = 3;

#[test]
fn paired_controllers_tell_each_other_what_they_serve_and_are_missed_when_they_are_silent()
-> Result<()> {
    let mut pair = Pair::start()?;
    assert_eq!(listed(&pair.first, false)?["reachable"], false);
    pair_up(&pair)?;
    let other = listed(&pair.second, false)?;
    assert_eq!(other["pools"][0]["state"], "active-optimized");
    assert_eq!(other["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(told(&pair.first)?.as_deref(), Some("standby"));
    let table = pair.second.gantry(&["controller", "list"])?;
    assert!(table.contains("heard"), "{table}");
    let file = pair.second.beside("configuration.json");
    fs::write(&file, pair.first.gantry(&["configuration", "export"])?)?;
    let file = file.display().to_string();
    let refused = pair.second.try_gantry(&["configuration", "import", &file])?.failure()?;
    assert!(refused.contains("ask controller 1, which has pool p"), "{refused}");
    let metrics = Request::new("GET", "/metrics")
        .send_to_socket(&pair.second.data().join("gantry.sock"))?
        .body;
    assert!(metrics.contains("gantry_controller_reachable{controller=\"1\"} 1"), "{metrics}");

    // It stands still: it is missed, its pool stays where it is, and it is heard again.
    let mut standby = pair.host(&pair.second, "a")?;
    signal(&pair.first, Signal::STOP)?;
    let missed = wait_until("it is missed", || Ok(told(&pair.second)?.is_none()));
    let (state, other) = (standing(&pair.second), listed(&pair.second, false));
    signal(&pair.first, Signal::CONT)?;
    missed?;
    assert_eq!(state?.as_deref(), Some("standby"));
    let other = other?;
    assert_eq!((&other["reachable"], other["heard_at"].is_u64()), (&Value::Bool(false), true));
    wait_until("it is heard again", || Ok(told(&pair.second)?.is_some()))?;
    let events = pair.second.gantry(&["events"])?;
    assert!(events.contains("controller 1") && events.contains("is not heard"), "{events}");
    assert_eq!(write(&mut standby, pair.lun, 0, 8)?.1, STANDBY);

    // Both know each other after a restart, without a word on the command line.
    pair.first.stop()?;
    pair.wait_for(&pair.second, "active-optimized")?;
    pair.first.restart()?;
    for array in [&pair.first, &pair.second] {
        wait_until("the other one is heard", || Ok(listed(array, false)?["reachable"] == true))?;
    }
    pair.first.gantry(&["controller", "forget", "2"])?;
    wait_until("nobody is heard", || Ok(listed(&pair.second, false)?["reachable"] == false))?;
    assert_eq!(listed(&pair.first, false)?["paired"], false);
    Ok(())
}

#[test]
fn hosts_are_told_of_another_controller_what_it_says_itself() -> Result<()> {
    let mut pair = Pair::start()?;
    pair_up(&pair)?;
    let lun = pair.lun;
    let pool = pair.first.gantry_json(&["pool", "show", "p"])?;
    let file = text(&pool, "/devices/0/device")?.trim_start_matches("file:").to_owned();
    pair.first.stop()?;
    pair.second.stop()?;
    fs::rename(&file, format!("{file}.away"))?;
    pair.first.restart()?;
    pair.second.restart()?;
    for array in [&pair.first, &pair.second] {
        wait_until("the other one has no pool", || {
            Ok(told(array)?.as_deref() == Some("unavailable"))
        })?;
    }
    let mut host = pair.host(&pair.second, "a")?;
    let both = [(1, UNAVAILABLE_STATE), (2, UNAVAILABLE_STATE)];
    wait_until("it says so", || Ok(groups(&mut host, lun)? == both))?;
    // Of one that is silent nobody knows: hosts are to ask it.
    signal(&pair.first, Signal::STOP)?;
    let asked = wait_until("it is missed", || {
        Ok(groups(&mut host, lun)? == [(1, ACTIVE), (2, UNAVAILABLE_STATE)])
    });
    signal(&pair.first, Signal::CONT)?;
    asked?;
    wait_until("it is heard again", || Ok(groups(&mut host, lun)? == both))?;
    fs::rename(format!("{file}.away"), &file)?;
    wait_until("one of them serves", || {
        Ok([standing(&pair.first)?, standing(&pair.second)?]
            .iter()
            .any(|state| state.as_deref() == Some("active-optimized")))
    })
}

/// The pool as a controller describes it, that has it or not.
fn devices(array: &Array, pool: &str) -> Result<Vec<String>> {
    let shown = array.gantry_json(&["pool", "show", pool])?;
    let devices = shown["devices"].as_array().context("devices")?;
    devices.iter().map(|device| Ok(text(device, "/device")?.to_owned())).collect()
}

/// What changed since the standby's copy of the configuration was made it has from the link.
#[test]
fn a_standby_learns_of_devices_and_pools_from_who_serves_them_and_takes_them_over() -> Result<()> {
    let mut pair = Pair::start()?;
    pair_up(&pair)?;
    let file = |name: &str| format!("file:{}", pair.first.data().with_file_name(name).display());
    let (more, other) = (file("more.img"), file("other.img"));
    pair.first.gantry(&["pool", "add-device", "p", &more, "--size", "1G"])?;
    pair.first.gantry(&["pool", "create", "q", &other, "--size", "1G"])?;
    let lun = u8::try_from(pair.first.create_lun("q/v", "64M")?)?;
    let mut path = pair.host(&pair.first, "a")?;
    for (lun, byte) in [(pair.lun, 5), (lun, 6)] {
        assert_eq!(write(&mut path, lun, 7, byte)?.0, 0);
    }
    wait_until("the device is known", || Ok(devices(&pair.second, "p")?.contains(&more)))?;
    wait_until("the pool is known", || {
        let pools = listed(&pair.second, true)?;
        Ok(pools["pools"]
            .as_array()
            .is_some_and(|pools| pools.iter().any(|one| one["pool"] == "q")))
    })?;
    let events = pair.second.gantry(&["events"])?;
    ensure!(events.contains("controller 1 serves it on"), "{events}");
    // A change that comes and goes is followed, too.
    pair.first.gantry(&["pool", "remove-device", "p", "--device", "1", "--until-gone"])?;
    wait_until("the device has left", || Ok(!devices(&pair.second, "p")?.contains(&more)))?;
    fs::remove_file(more.trim_start_matches("file:"))?;
    pair.first.gantry(&["pool", "add-device", "p", &more, "--size", "1G"])?;
    wait_until("the device is back", || Ok(devices(&pair.second, "p")?.contains(&more)))?;

    pair.first.kill()?;
    for pool in ["p", "q"] {
        let is_served =
            || Ok(pair.second.gantry_json(&["pool", "show", pool])?["state"] == "ready");
        let shown = || pair.second.gantry(&["pool", "show", pool]);
        wait_until("both are served", is_served).with_context(|| format!("{:?}", shown()))?;
    }
    let mut path = pair.host(&pair.second, "a")?;
    wait_until("what was written", || {
        let found = [(pair.lun, 5), (lun, 6)].map(|(lun, byte)| (read(&mut path, lun, 7), byte));
        Ok(found.into_iter().all(|(found, byte)| found.is_ok_and(|found| found == byte)))
    })?;
    // The first one comes back as the standby, and learns in turn.
    pair.second.gantry(&["pool", "extend", "p", "--device", "0", "--size", "2G"])?;
    pair.first.restart()?;
    wait_until("the size is known", || {
        let shown = pair.first.gantry_json(&["pool", "show", "p"])?;
        Ok(shown["devices"][0]["size_bytes"] == 2_u64 << 30)
    })
}

/// Somebody else's pool of the same name, or one on a device that is another pool's here, is told and left.
#[test]
fn a_pool_that_cannot_be_known_here_is_told_once_and_changes_nothing() -> Result<()> {
    let mut pair = Pair::start()?;
    pair.second.kill()?;
    // Both make a pool of one name while they do not know each other.
    let [one, two] = [&pair.first, &pair.second]
        .map(|array| format!("file:{}", array.data().with_extension("img").display()));
    pair.first.gantry(&["pool", "create", "q", &one, "--size", "1G"])?;
    pair.first.kill()?;
    pair.second.restart()?;
    pair.wait_for(&pair.second, "active-optimized")?;
    pair.second.gantry(&["pool", "create", "q", &two, "--size", "1G"])?;
    pair.first.restart()?;
    pair_up(&pair)?;
    let told = || -> Result<usize> {
        Ok(pair.second.gantry(&["events"])?.matches("they cannot be").count())
    };
    wait_until("it is told", || Ok(told()? == 1))?;
    thread::sleep(Duration::from_secs(3));
    ensure!(told()? == 1, "it is told again and again");
    assert_eq!(devices(&pair.second, "q")?, [two]);
    assert_eq!(devices(&pair.first, "q")?, [one]);
    Ok(())
}

/// LUNs that a host sees through a controller, and the last block of one of them.
fn luns(session: &mut RawSession) -> Result<Vec<u8>> {
    let data = session.read(0, &REPORT_LUNS_LONG, 8200)?.good()?;
    let length = u32::from_be_bytes(data[..4].try_into()?) as usize;
    Ok(data[8..8 + length].chunks(8).map(|lun| lun[1]).collect())
}

fn last_block(session: &mut RawSession, lun: u8) -> Result<u32> {
    let data = session.read(lun, &cdb10(0x25, 0, 0, 0), 8)?.good()?;
    Ok(u32::from_be_bytes(data[..4].try_into()?))
}

const REPORT_LUNS_LONG: [u8; 12] = [0xa0, 0, 0, 0, 0, 0, 0, 0, 0x20, 8, 0, 0];
const LUNS_CHANGED: Option<(u8, u8, u8)> = Some((6, 0x3f, 0x0e));
const CAPACITY_CHANGED: Option<(u8, u8, u8)> = Some((6, 0x2a, 9));

/// The last block of a volume of so many mebibytes.
const fn end_of(mebibytes: u32) -> u32 {
    (mebibytes << 11) - 1
}

/// Volumes, sizes, hosts and mappings of the controller that has the pool are on the other one's paths.
#[test]
fn a_standby_shows_hosts_what_is_made_resized_and_unmapped_at_the_other_one() -> Result<()> {
    let mut pair = Pair::start()?;
    // What its copy of the configuration names and it never served has no size there yet.
    let mut path = pair.host(&pair.second, "a")?;
    assert_eq!(path.read(pair.lun, &cdb10(0x25, 0, 0, 0), 8)?.code(), STANDBY);
    pair_up(&pair)?;
    wait_until("its size is known", || {
        Ok(last_block(&mut path, pair.lun).is_ok_and(|last| last == end_of(64)))
    })?;

    let lun = u8::try_from(pair.first.create_lun("p/w", "32M")?)?;
    let mut told = Vec::new();
    wait_until("hosts are told", || {
        told.extend(attentions(&mut path, pair.lun)?);
        Ok(told.contains(&LUNS_CHANGED))
    })?;
    let mut owner = pair.host(&pair.first, "a")?;
    assert_eq!(luns(&mut path)?, luns(&mut owner)?);
    wait_until("the other's ports are told", || {
        Ok(groups(&mut path, lun)? == [(1, ACTIVE), (2, STANDBY_STATE)])
    })?;
    let [here, there] = [&mut path, &mut owner]
        .map(|session| session.read(lun, &IDENTIFICATION, 256).and_then(|answer| answer.good()));
    assert_eq!(here?[4..24], there?[4..24], "one NAA identifier");
    assert_eq!(last_block(&mut path, lun)?, end_of(32));
    assert_eq!(write(&mut path, lun, 0, 8)?.1, STANDBY);

    pair.first.gantry(&["volume", "resize", "p/w", "--size", "48M"])?;
    told.clear();
    wait_until("hosts are told of the size", || {
        told.extend(attentions(&mut path, lun)?);
        Ok(told.contains(&CAPACITY_CHANGED))
    })?;
    assert_eq!(last_block(&mut path, lun)?, end_of(48));

    let secret = pair.first.data().with_file_name("secret");
    fs::write(&secret, "a-secret-of-16-ch")?;
    let secret = secret.display().to_string();
    pair.first.gantry(&["host", "create", "b", "--iqn", "iqn.2026-01.org.example:b"])?;
    pair.first.gantry(&["volume", "create", "p/x", "--size", "16M"])?;
    pair.first.gantry(&["volume", "map", "p/x", "--host", "b", "--lun", "9"])?;
    wait_until("the host sees its volume", || {
        Ok(luns(&mut pair.host(&pair.second, "b")?)?.contains(&9))
    })?;
    let chap = ["--chap-user", "u", "--chap-secret-file", &secret];
    pair.first.gantry(&[&["host", "change", "b"][..], &chap].concat())?;
    wait_until("it must prove who it is", || Ok(pair.host(&pair.second, "b").is_err()))?;
    pair.first.gantry(&["volume", "unmap", "p/w", "--host", "any"])?;
    pair.first.gantry(&["volume", "delete", "p/w"])?;
    wait_until("it is gone", || Ok(!luns(&mut path)?.contains(&lun)))?;

    // One that was away hears what it missed.
    pair.second.kill()?;
    let lun = u8::try_from(pair.first.create_lun("p/y", "24M")?)?;
    pair.second.restart()?;
    wait_until("what it missed", || {
        let mut path = pair.host(&pair.second, "a")?;
        Ok(luns(&mut path)?.contains(&lun) && last_block(&mut path, lun)? == end_of(24))
    })?;
    let mut path = pair.host(&pair.second, "a")?;
    pair.first.kill()?;
    pair.wait_for(&pair.second, "active-optimized")?;
    wait_until("it serves", || Ok(write(&mut path, lun, 0, 9)?.0 == 0))?;
    let events = pair.second.gantry(&["events"])?;
    ensure!(!events.contains("not taken"), "{events}");
    Ok(())
}

/// More than fits into some messages, in an order in which mappings may come before their hosts.
#[test]
fn a_standby_hears_of_hundreds_of_volumes_and_hosts_and_follows_as_they_change() -> Result<()> {
    const VOLUMES: usize = 150;
    let pair = Pair::start()?;
    for number in 0..VOLUMES {
        let (host, volume) = (format!("h{number}"), format!("p/v{number}"));
        let name = format!("iqn.2026-01.org.example:{host}");
        pair.first.gantry(&["host", "create", &host, "--iqn", &name])?;
        pair.first.gantry(&["volume", "create", &volume, "--size", "1M"])?;
        pair.first.gantry(&["volume", "map", &volume, "--host", &host])?;
    }
    // Hosts that changed since come after what is mapped to them.
    for number in 0..VOLUMES / 10 {
        pair.first.gantry(&["host", "tag", &format!("h{number}"), "floor=2"])?;
    }
    pair_up(&pair)?;
    let hosts = |array: &Array| -> Result<Vec<(Value, Value)>> {
        let hosts = array.gantry_json(&["host", "list"])?;
        let hosts = hosts.as_array().context("hosts")?.iter();
        Ok(hosts.map(|host| (host["name"].clone(), host["tags"].clone())).collect())
    };
    wait_until("all hosts are known", || Ok(hosts(&pair.second)? == hosts(&pair.first)?))?;
    for number in [0, VOLUMES / 2, VOLUMES - 1] {
        let name = format!("h{number}");
        wait_until("its volume is there", || {
            let mut path = pair.host(&pair.second, &name)?;
            let mut seen = luns(&mut path)?.into_iter();
            Ok(seen.any(|lun| last_block(&mut path, lun).is_ok_and(|last| last == end_of(1))))
        })?;
    }
    pair.first.gantry(&["volume", "unmap", "p/v7", "--host", "h7"])?;
    pair.first.gantry(&["host", "delete", "h7"])?;
    wait_until("the host is gone", || Ok(hosts(&pair.second)? == hosts(&pair.first)?))?;
    let events = pair.second.gantry(&["events"])?;
    ensure!(!events.contains("not taken"), "{events}");
    Ok(())
}
