//! The log by journald's native protocol and by syslog (RFC 5424), to sockets of the test's own: what
//! arrives, a log daemon that comes later or anew, and one that takes nothing, for which nobody waits.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::Array;
use harness::http::Request;
use harness::pdu::RawSession;
use harness::waiting::wait_until;

const NAME: &str = "iqn.2026-01.org.example:logged";

/// How long a datagram may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Takes the next datagram of a socket.
type Take<'a> = &'a dyn Fn(&mut [u8]) -> std::io::Result<usize>;

/// An array that logs in a form, there.
fn array(form: &str, address: &str) -> Result<Array> {
    let words = ["--log", form, "--log-address", address];
    let mut array = Array::prepare()?.with_words(&[], &words);
    array.restart()?;
    Ok(array)
}

fn bind(path: &Path) -> Result<UnixDatagram> {
    let socket = UnixDatagram::bind(path)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// The first datagram with a text in it.
fn wait_for(
    text: &str,
    mut take: impl FnMut(&mut [u8]) -> std::io::Result<usize>,
) -> Result<String> {
    let begun = Instant::now();
    let mut seen = Vec::new();
    while begun.elapsed() < PATIENCE {
        let mut datagram = vec![0; 1 << 16];
        let length = take(&mut datagram).with_context(|| format!("no '{text}' in {seen:#?}"))?;
        let datagram = String::from_utf8_lossy(&datagram[..length]).into_owned();
        if datagram.contains(text) {
            return Ok(datagram);
        }
        seen.push(datagram);
    }
    anyhow::bail!("no '{text}' in {seen:#?}")
}

/// Makes a line of the log.
fn change(array: &Array, name: &str) -> Result<()> {
    array.gantry(&["host", "create", name, "--initiator", &format!("{NAME}-{name}")]).map(drop)
}

fn lines_lost(array: &Array) -> Result<f64> {
    let page = Request::new("GET", "/metrics").send_to_socket(&array.data().join("gantry.sock"))?;
    let name = "gantry_log_lines_lost_total ";
    let line = page.body.lines().find_map(|line| line.strip_prefix(name));
    Ok(line.context("the metric")?.parse()?)
}

#[test]
fn journald_gets_fields_with_priorities() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("journal");
    let socket = bind(&path)?;
    let mut array = array("journald", &format!("unix:{}", path.display()))?;
    let ready = wait_for("MESSAGE=ready", |datagram| socket.recv(datagram))?;
    for line in ["PRIORITY=6", "SYSLOG_IDENTIFIER=gantryd", "TARGET=server::reactor"] {
        ensure!(ready.lines().any(|found| found == line), "{line}: {ready}");
    }
    ensure!(
        ready.contains(&format!("GANTRY_TARGET=\"{}\"", array.target_name()?))
            || ready.contains(&format!("GANTRY_TARGET={}", array.target_name()?)),
        "{ready}"
    );
    change(&array, "one")?;
    let asked = wait_for("change asked for", |datagram| socket.recv(datagram))?;
    ensure!(asked.contains("GANTRY_PATH=/v1/hosts\n"), "{asked}");
    ensure!(array.log().lines().all(|line| !line.contains("INFO")), "{}", array.log());
    // journald is started anew.
    drop(socket);
    fs::remove_file(&path)?;
    change(&array, "two")?;
    let socket = bind(&path)?;
    change(&array, "three")?;
    let lost = wait_for("lines of the log were lost", |datagram| socket.recv(datagram))?;
    ensure!(lost.contains("PRIORITY=4\n"), "{lost}");
    ensure!(array.stop()?.success());
    wait_for("MESSAGE=stopped", |datagram| socket.recv(datagram)).map(drop)
}

#[test]
fn syslog_gets_lines_of_rfc_5424_over_both_kinds_of_sockets() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("log");
    let here = bind(&path)?;
    let far = UdpSocket::bind("127.0.0.1:0")?;
    far.set_read_timeout(Some(PATIENCE))?;
    let sockets: [(String, Take<'_>); 2] = [
        (format!("unix:{}", path.display()), &|datagram| here.recv(datagram)),
        (format!("udp:{}", far.local_addr()?), &|datagram| far.recv(datagram)),
    ];
    for (address, take) in sockets {
        let array = array("syslog", &address)?;
        let ready = wait_for(" - ready ", take)?;
        let parts: Vec<&str> = ready.splitn(8, ' ').collect();
        let id = array.process_id()?.to_string();
        ensure!(parts[0] == "<30>1" && parts[3] == "gantryd" && parts[4] == id, "{ready}");
        ensure!(parts[5] == "server::reactor" && parts[6] == "-", "{ready}");
        ensure!(!ready.contains('\n'), "{ready}");
    }
    Ok(())
}

#[test]
fn nobody_waits_for_a_log_daemon_that_takes_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("log");
    let silent = bind(&path)?;
    let mut array = array("syslog", &format!("unix:{}", path.display()))?;
    array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "1G"])?;
    array.create_lun("p/v", "64M")?;
    let target = array.target_name()?;
    // More than a socket holds; hosts and administrators are answered all the while.
    for number in 0..600 {
        change(&array, &format!("h{number}"))?;
        if number % 100 == 0 {
            let mut session = RawSession::log_in(array.portal(), NAME, &target)?;
            session.read(0, &[0x12, 0, 0, 0, 36, 0], 36)?.good()?;
        }
        if lines_lost(&array)? > 0.0 {
            break;
        }
    }
    wait_until("a lost line", || Ok(lines_lost(&array)? > 0.0))?;
    drop(silent);
    ensure!(array.stop()?.success());
    Ok(())
}

#[test]
fn a_log_that_cannot_go_there_is_refused_at_the_start() -> Result<()> {
    for words in [
        ["--log", "journald", "--log-address", "udp:127.0.0.1:514"],
        ["--log", "json", "--log-address", "unix:/dev/log"],
        ["--log", "syslog", "--log-address", "tcp:127.0.0.1:514"],
    ] {
        let mut array = Array::prepare()?.with_words(&[], &words);
        fs::create_dir_all(array.data())?;
        let error = format!("{:#}", array.restart().err().context("it does not start")?);
        ensure!(error.contains("log-address"), "{words:?}: {error}");
    }
    Ok(())
}
