//! Admission control of connections while others take all the room there is; and their bytes in
//! what people see.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::Array;
use harness::array::free_address;
use harness::binaries::binary;
use harness::http::Request;
use harness::initiator::luns;
use harness::pdu::{Pdu, RawConnection};
use harness::program::run;
use harness::waiting::wait_until;

use serde_json::json;

use rustix::process::{Pid, Resource, Rlimit};

const HOST: &str = "iqn.2026-01.org.example:host";

/// The status class and detail of a login; an empty target name asks for a discovery session.
fn login_status(array: &Array, initiator: &str, target: &str) -> Result<[u8; 2]> {
    let mut connection = RawConnection::open(array.portal())?;
    connection.send(&login(initiator, target).bytes())?;
    status(&mut connection)
}

fn login(initiator: &str, target: &str) -> Pdu {
    let mut login = Pdu::login(initiator, target);
    if target.is_empty() {
        login.data = format!("InitiatorName={initiator}\0SessionType=Discovery\0").into_bytes();
    }
    login
}

fn status(connection: &mut RawConnection) -> Result<[u8; 2]> {
    let answer = connection.receive()?.context("no login response")?;
    ensure!(answer.header[0] & 0x3f == 0x23, "no login response: {:02x?}", answer.header);
    Ok([answer.header[36], answer.header[37]])
}

/// An array with one LUN, which [`HOST`] sees.
fn array_with_host() -> Result<Array> {
    array_with(&[])
}

fn array_with(words: &[&str]) -> Result<Array> {
    let mut array = Array::prepare()?.with_words(&[], words);
    array.restart()?;
    array.create_pool("p", "1G")?;
    array.gantry(&["volume", "create", "p/v", "--size", "64M"])?;
    array.gantry(&["host", "create", "h", "--iqn", HOST])?;
    array.gantry(&["volume", "map", "p/v", "--host", "h", "--lun", "0"])?;
    Ok(array)
}

#[test]
fn names_are_checked_and_their_case_does_not_matter() -> Result<()> {
    let array = array_with_host()?;
    let target = array.target_name()?;
    let bad = [
        "esx1",
        "iqn.example:a",
        "iqn.2026-01.org.example:a b",
        "iqn.2026-01.org.example:\u{1b}[2J\u{1b}]0;mine\u{7}",
        "iqn.2026-01.org.example:\u{9b}31m",
        "iqn.2026-01.org.example:\u{202e}gro",
        "eui.0200",
        "naa.x",
        &format!("iqn.2026-01.org.example:{}", "x".repeat(200)),
    ];
    for name in bad {
        for target in [target.as_str(), ""] {
            assert_eq!(login_status(&array, name, target)?, [2, 0], "{name:?}");
        }
        array.try_gantry(&["host", "create", "other", "--iqn", name])?.failure()?;
        array.try_gantry(&["host", "change", "h", "--iqn", name])?.failure()?;
    }
    assert_eq!(luns(array.portal(), "IQN.2026-01.ORG.Example:Host", &target)?, [0]);
    assert_eq!(luns(array.portal(), HOST, &target.to_uppercase())?, [0]);
    array.gantry(&["host", "create", "eui", "--iqn", "EUI.02004567A425678D"])?;
    let hosts = array.gantry(&["host", "list"])?;
    assert!(hosts.contains("eui.02004567a425678d"), "{hosts}");
    let _session = RawConnection::log_in(array.portal(), &HOST.to_uppercase(), &target)?;
    for words in [&["session", "list"][..], &["host", "list"], &["events"]] {
        let shown = array.gantry(words)?;
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
    }
    let log = array.log();
    assert!(log.chars().all(|c| c == '\n' || !c.is_control()), "{log:?}");
    Ok(())
}

/// A value of the daemon's metrics, asked for over its socket.
fn metric(array: &Array, sample: &str) -> Result<u64> {
    let answer = Request::new("GET", "/metrics").send_to_socket(&socket(array))?;
    let line = answer.body.lines().find_map(|line| line.strip_prefix(sample));
    let value = line.with_context(|| format!("no {sample} in\n{}", answer.body))?;
    Ok(value.trim().parse::<f64>()? as u64)
}

fn socket(array: &Array) -> PathBuf {
    array.data().join("gantry.sock")
}

fn refused(array: &Array, reason: &str) -> Result<u64> {
    metric(array, &format!("gantry_connections_refused_total{{reason=\"{reason}\"}}"))
}

fn of_kind(array: &Array, kind: &str) -> Result<u64> {
    metric(array, &format!("gantry_connections{{kind=\"{kind}\"}}"))
}

fn host_gets_in(array: &Array) -> Result<()> {
    ensure!(luns(array.portal(), HOST, &array.target_name()?)? == [0], "{}", array.log());
    Ok(())
}

#[test]
fn anonymous_discovery_sessions_of_one_name_keep_nobody_out() -> Result<()> {
    let array = array_with(&["--connections-max", "256", "--discovery-timeout", "2"])?;
    let mut held = Vec::new();
    for _ in 0..300 {
        let mut connection = RawConnection::open(array.portal())?;
        connection.send(&login("iqn.2026-01.org.example:anonymous", "").bytes())?;
        assert_eq!(status(&mut connection)?, [0, 0]);
        held.push(connection);
    }
    // An eighth of 256; the oldest ones made room.
    wait_until("32 discovery sessions", || Ok(of_kind(&array, "discovery")? <= 32))?;
    assert!(refused(&array, "discovery_room")? >= 268 - 32);
    host_gets_in(&array)?;
    assert_eq!(login_status(&array, "iqn.2026-01.org.example:other", "")?, [0, 0]);
    wait_until("the end of idle discovery", || Ok(of_kind(&array, "discovery")? == 0))?;
    assert!(refused(&array, "discovery_idle")? > 0);
    Ok(())
}

#[test]
fn connections_that_never_log_in_keep_nobody_out() -> Result<()> {
    let array = array_with(&["--connections-max", "64", "--login-timeout", "3600"])?;
    let mut held = Vec::new();
    for _ in 0..200 {
        held.push(TcpStream::connect(array.portal())?);
    }
    host_gets_in(&array)?;
    assert!(of_kind(&array, "login")? <= 8);
    assert!(refused(&array, "login_room")? >= 190);
    Ok(())
}

#[test]
fn strangers_leave_a_share_to_configured_hosts_and_no_initiator_takes_all() -> Result<()> {
    let words = ["--connections-max", "64", "--connections-per-initiator", "4"];
    let array = array_with(&words)?;
    let target = array.target_name()?;
    let mut held = Vec::new();
    let mut log_in = |name: &str, number: u8| -> Result<[u8; 2]> {
        let mut connection = RawConnection::open(array.portal())?;
        let mut login = login(name, &target);
        login.header[13] = number;
        connection.send(&login.bytes())?;
        let status = status(&mut connection)?;
        held.push(connection);
        Ok(status)
    };
    for number in 0..32 {
        assert_eq!(log_in(&format!("iqn.2026-01.org.example:s{number}"), 1)?, [0, 0]);
    }
    assert_eq!(log_in("iqn.2026-01.org.example:s32", 1)?, [3, 2]);
    assert_eq!(refused(&array, "known_hosts_share")?, 1);
    for number in 0..4 {
        assert_eq!(log_in(HOST, number)?, [0, 0]);
    }
    assert_eq!(log_in(HOST, 4)?, [3, 2]);
    assert_eq!(log_in(HOST, 3)?, [0, 0], "its own port takes the place of its session");
    assert_eq!(refused(&array, "initiator_quota")?, 1);
    let events = array.gantry(&["events"])?;
    assert!(events.contains("--connections-per-initiator"), "{events}");
    Ok(())
}

#[test]
fn an_address_has_a_quota() -> Result<()> {
    let array = array_with(&["--connections-per-address", "6"])?;
    let target = array.target_name()?;
    let mut held = Vec::new();
    for number in 0..6 {
        let name = format!("iqn.2026-01.org.example:s{number}");
        held.push(RawConnection::log_in(array.portal(), &name, &target)?);
    }
    assert!(login_status(&array, HOST, &target).is_err(), "it is closed without an answer");
    wait_until("the refusal", || Ok(refused(&array, "address_quota")? > 0))?;
    held.pop();
    wait_until("a free place", || Ok(of_kind(&array, "session")? == 5))?;
    host_gets_in(&array)
}

/// Sets the daemon's limit of open files, as an administrator can at any time.
fn limit_open_files(array: &Array, current: u64) -> Result<()> {
    let pid = Pid::from_raw(i32::try_from(array.process_id()?)?);
    let maximum = rustix::process::prlimit(
        pid,
        Resource::Nofile,
        Rlimit { current: Some(current), maximum: Some(4096) },
    );
    maximum.map(|_| ()).context("prlimit")
}

#[test]
fn listeners_go_on_after_there_were_no_open_files() -> Result<()> {
    let array = array_with_host()?;
    let target = array.target_name()?;
    limit_open_files(&array, 1)?;
    let mut queued = RawConnection::open(array.portal())?;
    queued.send(&login(HOST, &target).bytes())?;
    let mut request = TcpStream::connect(array.http())?;
    request.write_all(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
    thread::sleep(Duration::from_secs(1));
    limit_open_files(&array, 4096)?;
    assert_eq!(status(&mut queued)?, [0, 0], "the queued login goes on");
    request.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut answer = String::new();
    request.read_to_string(&mut answer)?;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(refused(&array, "accept_error")? > 0);
    assert!(array.log().len() < 20_000, "{}", array.log());
    Ok(())
}

#[test]
fn too_few_open_files_are_told_and_leave_room_for_administrators() -> Result<()> {
    let mut array = Array::prepare()?.with_words(&["prlimit", "--nofile=256:256"], &[]);
    array.restart()?;
    assert!(array.log().contains("--connections-max"), "{}", array.log());
    let mut held = Vec::new();
    for _ in 0..300 {
        held.push(TcpStream::connect(array.portal())?);
        held.push(TcpStream::connect(array.http())?);
    }
    array.create_pool("p", "1G")?;
    array.gantry(&["volume", "create", "p/v", "--size", "64M"])?;
    let answer = Request::new("GET", "/healthz").send(array.http())?;
    assert_eq!(answer.status, 200);
    assert_eq!(refused(&array, "accept_error")?, 0);
    Ok(())
}

#[test]
fn idle_connections_do_not_stop_management() -> Result<()> {
    let https = free_address()?;
    let address = https.to_string();
    let words = ["--https", &address, "--http-connections-max", "64", "--http-timeout", "2"];
    let mut array = Array::prepare()?.with_words(&[], &words);
    array.restart()?;
    // TLS that is never begun, half a head, and no word at all.
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(TcpStream::connect(https)?);
        let mut half = TcpStream::connect(array.http())?;
        half.write_all(b"GET /healthz HTTP/1.1\r\nHost: 127")?;
        held.push(half);
        held.push(TcpStream::connect(array.http())?);
    }
    assert_eq!(Request::new("GET", "/healthz").send(array.http())?.status, 200);
    assert_eq!(Request::new("GET", "/healthz").send_to_socket(&socket(&array))?.status, 200);
    let certificate = array.data().join("tls.crt");
    let url = format!("https://{https}");
    let words = ["--url", &url, "--ca", certificate.to_str().context("a path")?, "pool", "list"];
    let refusal = run(&binary("gantry")?, &words, Duration::from_secs(60))?.failure()?;
    assert!(refusal.contains("wants a token"), "it is answered: {refusal}");
    let closed = |reason: &str| {
        metric(&array, &format!("gantry_http_connections_refused_total{{reason=\"{reason}\"}}"))
    };
    assert!(closed("made_room")? >= 236, "{}", closed("made_room")?);
    // What was left goes by itself.
    wait_until("no connection", || Ok(metric(&array, "gantry_http_connections ")? == 0))?;
    assert!(closed("timeout")? > 0);
    Ok(())
}

#[test]
fn who_streams_is_not_idle() -> Result<()> {
    let words = ["--http-connections-max", "8", "--http-connections-per-address", "8"];
    let mut array = Array::prepare()?.with_words(&[], &words);
    array.restart()?;
    // Answers that nobody reads: their connections are busy, and one place is left.
    let mut busy = Vec::new();
    for _ in 0..7 {
        let mut stream = TcpStream::connect(array.http())?;
        for _ in 0..400 {
            stream.write_all(b"GET /v1/openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")?;
        }
        busy.push(stream);
    }
    for _ in 0..20 {
        assert_eq!(Request::new("GET", "/healthz").send(array.http())?.status, 200);
    }
    let made_room = "gantry_http_connections_refused_total{reason=\"made_room\"}";
    assert_eq!(metric(&array, made_room)?, 0);
    Ok(())
}

#[test]
fn a_session_can_be_closed_and_comes_back() -> Result<()> {
    let array = array_with_host()?;
    let target = array.target_name()?;
    let mut session = RawConnection::log_in(array.portal(), HOST, &target)?;
    let _other = RawConnection::log_in(array.portal(), "iqn.2026-01.org.example:other", &target)?;
    let sessions = || array.gantry_json(&["session", "list"]);
    let tsih = sessions()?[0]["tsih"].to_string();
    let one = |tsih: &str| {
        Request::new("GET", &format!("/v1/sessions/{tsih}"))
            .send_to_socket(&array.data().join("gantry.sock"))
    };
    let shown = one(&tsih)?.success()?;
    assert_eq!((&shown["initiator"], &shown["host"]), (&json!(HOST), &json!("h")));
    assert_eq!(shown["luns"], json!([0]));
    let text = array.gantry(&["session", "show", &tsih])?;
    assert!(text.contains(HOST) && text.contains("MaxBurstLength"), "{text}");
    for nobody in ["65535", "65536", "0", "-1", "x", "%1b", &"1".repeat(255)] {
        let refused = one(nobody)?;
        refused.problem(404)?;
        assert_eq!(refused.json()?["object"], "session", "{nobody}");
    }
    one(&"1".repeat(256))?.problem(400)?;
    array.try_gantry(&["session", "close", "65535"])?.failure()?;
    array.try_gantry(&["session", "close", "--iqn", "iqn.2026-01.org.example:no"])?.failure()?;
    array.gantry(&["session", "close", &tsih])?;
    let request = session.receive()?.context("a request to log out")?;
    assert_eq!((request.header[0], request.header[36]), (0x32, 1), "RFC 7143 11.9");
    assert!(session.receive()?.is_none(), "then it is closed");
    wait_until("one session", || Ok(sessions()?.as_array().map(Vec::len) == Some(1)))?;
    host_gets_in(&array)?;
    let mut session = RawConnection::log_in(array.portal(), HOST, &target)?;
    array.gantry(&["session", "close", "--iqn", &HOST.to_uppercase()])?;
    while session.receive()?.is_some() {}
    one(&tsih)?.problem(404)?;
    let audit = array.gantry(&["audit"])?;
    assert!(audit.contains(&format!("/v1/sessions/{tsih}")), "{audit}");
    Ok(())
}

/// A discovery session moves bytes like every other one: whoever looks sees the same, while it lives
/// and when it has ended.
#[test]
fn traffic_is_the_same_wherever_it_is_shown() -> Result<()> {
    let array = array_with_host()?;
    let mut discovery = RawConnection::open(array.portal())?;
    discovery.send(&login(HOST, "").bytes())?;
    assert_eq!(status(&mut discovery)?, [0, 0]);
    let shown = || -> Result<[i64; 4]> {
        let target = array.gantry_json(&["target", "show"])?;
        let counted = |name: &str| target[name].as_i64().context("a number");
        Ok([
            counted("bytes_received")?,
            counted("bytes_sent")?,
            metric(&array, "gantry_received_bytes_total")?.try_into()?,
            metric(&array, "gantry_sent_bytes_total")?.try_into()?,
        ])
    };
    let alive = shown()?;
    assert!(alive[0] > 0 && alive[1] > 0, "{alive:?}");
    assert_eq!(alive[..2], alive[2..]);
    drop(discovery);
    wait_until("no connection", || {
        Ok(metric(&array, "gantry_connections{kind=\"discovery\"}")? == 0)
    })?;
    assert_eq!(shown()?, alive);
    Ok(())
}

#[test]
fn who_must_prove_more_than_before_logs_in_again() -> Result<()> {
    let array = array_with_host()?;
    let target = array.target_name()?;
    let secret = array.beside("secret");
    fs::write(&secret, "correct-horse-7\n")?;
    let chap = ["--chap-user", "u", "--chap-secret-file", secret.to_str().context("a path")?];
    let stranger = "iqn.2026-01.org.example:stranger";
    let mut kept = RawConnection::log_in(array.portal(), stranger, &target)?;
    let mut session = RawConnection::log_in(array.portal(), HOST, &target)?;
    array.gantry(&[&["host", "change", "h"][..], &chap].concat())?;
    while session.receive()?.is_some() {}
    assert_eq!(login_status(&array, HOST, &target)?, [2, 1]);
    array.gantry(&["host", "change", "h", "--no-chap"])?;
    let mut session = RawConnection::log_in(array.portal(), HOST, &target)?;
    array.gantry(&["volume", "unmap", "p/v", "--host", "h"])?;
    array.gantry(&["host", "delete", "h"])?;
    while session.receive()?.is_some() {}
    let mut discovery = RawConnection::open(array.portal())?;
    discovery.send(&login(stranger, "").bytes())?;
    assert_eq!(status(&mut discovery)?, [0, 0]);
    array.gantry(&[&["discovery", "set-chap"][..], &chap].concat())?;
    assert!(discovery.receive()?.is_none(), "discovery wants a proof from now on");
    kept.send(&Pdu::command(0, 0, &[0; 6], 0, 0).numbered(0).bytes())?;
    assert!(kept.receive()?.is_some(), "whom nothing concerns stays");
    Ok(())
}

#[test]
fn nonsense_is_counted_and_does_not_fill_the_log() -> Result<()> {
    let array = array_with_host()?;
    let before = array.log().len();
    const TIMES: u64 = 1500;
    for number in 0..TIMES {
        let mut stream = TcpStream::connect(array.portal())?;
        match number % 2 {
            0 => stream.write_all(&[0; 48])?,
            _ => stream.write_all(&login("nobody", "nothing").bytes())?,
        }
    }
    let all = || -> Result<u64> {
        // Where many come faster than they are read, the oldest ones make room unread.
        let reasons = ["protocol_error", "initiator_error", "login_room"];
        reasons.iter().map(|reason| refused(&array, reason)).sum()
    };
    wait_until("all of it", || Ok(all()? >= TIMES))?;
    let log = array.log();
    assert!(log.len() - before < 10_000, "{log}");
    let events = array.gantry_json(&["events"])?;
    let about = events.as_array().context("events")?.iter();
    let about = about.filter(|event| event["object"] == "address 127.0.0.1").count();
    assert!((1..=4).contains(&about), "{events}");
    host_gets_in(&array)
}
