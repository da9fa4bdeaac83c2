//! Portals, redirection, groups of hosts, maps for reading only, and sessions as they are shown.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::array::free_address;
use harness::pdu::{Pdu, RawConnection, RawSession};
use harness::program::run;
use harness::{Array, number, text};

const TIMEOUT: Duration = Duration::from_secs(30);
const INITIATOR: &str = "iqn.2026-01.org.example:one";

fn array_with_lun() -> Result<Array> {
    let array = Array::start()?;
    array.create_pool("p", "2G")?;
    array.create_lun("p/v", "1G")?;
    Ok(array)
}

/// The portals that a discovery session at one of them is told.
fn told_portals(portal: &str) -> Result<Vec<String>> {
    let printed =
        run(Path::new("iscsi-ls"), &[&format!("iscsi://{portal}")], TIMEOUT)?.success()?;
    let portal_of = |line: &str| {
        let (_, rest) = line.split_once("Portal:")?;
        Some(rest.split_whitespace().next()?.to_owned())
    };
    Ok(printed.lines().filter_map(portal_of).collect())
}

#[test]
fn portals_come_and_go_and_are_told_with_their_group() -> Result<()> {
    let mut array = array_with_lun()?;
    let second = std::net::TcpListener::bind("[::1]:0")?.local_addr()?.to_string();
    array.gantry(&["portal", "create", &second, "--group", "2"])?;
    let first = array.portal().to_string();
    for portal in [&first, &second] {
        let told = told_portals(portal)?;
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told.contains(&format!("{first},1")) && told.contains(&format!("{second},2")));
    }
    let refused = array.try_gantry(&["portal", "create", &second])?.failure()?;
    assert!(refused.contains("another address") || refused.contains("another name"), "{refused}");
    array.kill()?;
    array.restart()?;
    assert_eq!(told_portals(&second)?.len(), 2, "a portal is there after a restart");
    array.gantry(&["portal", "delete", &second])?;
    assert_eq!(told_portals(&first)?.len(), 1);
    assert!(told_portals(&second).is_err());
    let fixed = array.try_gantry(&["portal", "delete", &first])?.failure()?;
    assert!(fixed.contains("--iscsi"), "{fixed}");
    Ok(())
}

#[test]
fn a_portal_may_send_initiators_to_another() -> Result<()> {
    let array = array_with_lun()?;
    let first = array.portal();
    let second = free_address()?;
    let words = ["portal", "create", &second.to_string(), "--redirect", &first.to_string()];
    array.gantry(&words)?;
    let mut connection = RawConnection::open(second)?;
    connection.send(&Pdu::login(INITIATOR, &array.target_name()?).bytes())?;
    let answer = connection.receive()?.context("an answer")?;
    assert_eq!(answer.header[36..38], [1, 1]);
    let text = String::from_utf8(answer.data)?;
    assert_eq!(text, format!("TargetAddress={first}\0"));
    // libiscsi follows.
    let url = format!("iscsi://{second}/{}/0", array.target_name()?);
    run(Path::new("iscsi-inq"), &[&url], TIMEOUT)?.success()?;
    Ok(())
}

#[test]
fn who_came_through_a_deleted_portal_is_asked_to_log_out() -> Result<()> {
    let array = array_with_lun()?;
    let second = free_address()?;
    array.gantry(&["portal", "create", &second.to_string()])?;
    let target = array.target_name()?;
    let mut stays = RawSession::log_in(array.portal(), "iqn.2026-01.org.example:stays", &target)?;
    let mut goes = RawConnection::log_in(second, INITIATOR, &target)?;
    array.gantry(&["portal", "delete", &second.to_string()])?;
    let message = goes.receive()?.context("an asynchronous message")?;
    assert_eq!((message.header[0] & 0x3f, message.header[36]), (0x32, 1));
    assert!(goes.receive()?.is_none(), "who does not log out is cut off");
    stays.read(0, &[0; 6], 0)?.good()?;
    assert_eq!(array.gantry_json(&["session", "list"])?.as_array().map(Vec::len), Some(1));
    Ok(())
}

#[test]
fn a_stopping_daemon_asks_for_logout_and_waits_for_it() -> Result<()> {
    let mut array = array_with_lun()?;
    let target = array.target_name()?;
    let mut connection = RawConnection::log_in(array.portal(), INITIATOR, &target)?;
    let listener = std::thread::spawn(move || -> Result<()> {
        let message = connection.receive()?.context("an asynchronous message")?;
        ensure!((message.header[0] & 0x3f, message.header[36]) == (0x32, 1));
        let mut logout = Pdu { header: [0; 48], additional: Vec::new(), data: Vec::new() };
        logout.header[..2].copy_from_slice(&[0x46, 0x80]);
        connection.send(&logout.bytes())?;
        let answer = connection.receive()?.context("a logout response")?;
        ensure!((answer.header[0] & 0x3f, answer.header[2]) == (0x26, 0));
        ensure!(connection.receive()?.is_none());
        Ok(())
    });
    let started = Instant::now();
    assert!(array.stop()?.success());
    assert!(started.elapsed() < Duration::from_secs(20));
    listener.join().expect("the listener does not panic")
}

#[test]
fn a_group_sees_its_luns_and_who_may_only_read_cannot_write() -> Result<()> {
    let array = Array::start()?;
    array.create_pool("p", "2G")?;
    array.gantry(&["volume", "create", "p/v", "--size", "1G"])?;
    let other = "iqn.2026-01.org.example:two";
    array.gantry(&["host", "create", "one", "--iqn", INITIATOR])?;
    array.gantry(&["host", "create", "two", "--iqn", other])?;
    array.gantry(&["group", "set", "cluster", "--host", "one"])?;
    array.gantry(&["volume", "map", "p/v", "--host", "cluster", "--lun", "3"])?;
    let target = array.target_name()?;
    let luns = |initiator: &str| harness::initiator::luns(array.portal(), initiator, &target);
    assert_eq!((luns(INITIATOR)?, luns(other)?), (vec![3], vec![]));
    array.gantry(&["volume", "map", "p/v", "--host", "two", "--read-only"])?;
    let write = [0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    let read = [0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    let mut reader = RawSession::log_in(array.portal(), other, &target)?;
    let refused = reader.write(3, &write, &[0xee; 512])?;
    assert_eq!((refused.status, refused.sense[2] & 15, refused.sense[12]), (2, 7, 0x27));
    assert_eq!(reader.read(3, &read, 512)?.good()?, [0; 512]);
    let mut writer = RawSession::log_in(array.portal(), INITIATOR, &target)?;
    writer.write(3, &write, &[0xdd; 512])?.good()?;
    // What may be done changes while the session runs.
    array.gantry(&["volume", "map", "p/v", "--host", "two"])?;
    reader.write(3, &write, &[0xee; 512])?.good()?;
    assert_eq!(reader.read(3, &read, 512)?.good()?, [0xee; 512]);
    Ok(())
}

#[test]
fn a_session_is_shown_with_what_was_negotiated() -> Result<()> {
    let array = array_with_lun()?;
    array.gantry(&["host", "create", "one", "--iqn", INITIATOR])?;
    let mut session = RawSession::log_in(array.portal(), INITIATOR, &array.target_name()?)?;
    session.read(0, &[0; 6], 0)?.good()?;
    let shown = array.gantry_json(&["session", "list"])?;
    assert_eq!(text(&shown, "/0/initiator")?, INITIATOR);
    assert_eq!(text(&shown, "/0/host")?, "one");
    assert_eq!(text(&shown, "/0/portal")?, array.portal().to_string());
    assert_eq!(text(&shown, "/0/authentication")?, "None");
    assert_eq!(text(&shown, "/0/keys/InitialR2T")?, "Yes");
    assert_eq!(text(&shown, "/0/keys/InitiatorMaxRecvDataSegmentLength")?, "65536");
    assert_eq!(number(&shown, "/0/luns/0")?, 0);
    assert!(number(&shown, "/0/commands")? >= 1);
    // Rates are those of about the last second: under load they are not zero.
    let deadline = Instant::now() + TIMEOUT;
    loop {
        session.read(0, &[0; 6], 0)?.good()?;
        let shown = array.gantry_json(&["session", "list"])?;
        if number(&shown, "/0/rates/commands")? > 0 {
            break;
        }
        ensure!(Instant::now() < deadline, "no rate: {shown}");
        sleep(Duration::from_millis(20));
    }
    assert!(array.gantry(&["session", "list"])?.contains(INITIATOR));
    let keys = array.gantry(&["session", "list", "--keys"])?;
    assert!(keys.contains(INITIATOR) && keys.contains("MaxBurstLength"), "{keys}");
    Ok(())
}

// RFC 7143 6.3.5: a second login of the same initiator port ends the first session.
#[test]
fn a_second_login_of_a_port_replaces_its_session() -> Result<()> {
    let array = array_with_lun()?;
    let target = array.target_name()?;
    let mut first = RawConnection::log_in(array.portal(), INITIATOR, &target)?;
    let mut second = RawSession::log_in(array.portal(), INITIATOR, &target)?;
    assert!(first.receive()?.is_none());
    second.read(0, &[0; 6], 0)?.good()?;
    assert_eq!(array.gantry_json(&["session", "list"])?.as_array().map(Vec::len), Some(1));
    Ok(())
}
