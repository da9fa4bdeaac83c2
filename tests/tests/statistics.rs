//! Rates, history, locks, reclaim, metrics and health, as an administrator sees them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::pdu::RawSession;
use harness::{Array, Value, initiator, number, text};

const MIB: u64 = 1 << 20;
const TIMEOUT: Duration = Duration::from_secs(60);

fn array() -> Result<Array> {
    let array = Array::start()?;
    array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "1G"])?;
    array.create_lun("p/a", "64M")?;
    Ok(array)
}

fn session(array: &Array, name: &str) -> Result<RawSession> {
    let name = format!("iqn.2026-01.org.example:{name}");
    RawSession::log_in(array.portal(), &name, &array.target_name()?)
}

fn io(array: &Array, commands: &[&str]) -> Result<String> {
    initiator::qemu_io(&["-f", "raw", &array.lun_url(0)?], commands)
}

/// Status line and body of a GET over the daemon's socket.
fn get(array: &Array, path: &str) -> Result<(String, String)> {
    let mut stream = UnixStream::connect(array.data().join("gantry.sock"))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("a head and a body")?;
    Ok((head.lines().next().unwrap_or_default().to_owned(), body.to_owned()))
}

fn json(array: &Array, path: &str) -> Result<Value> {
    let (status, body) = get(array, path)?;
    ensure!(status.contains(" 200 "), "{status}: {body}");
    Ok(serde_json::from_str(&body)?)
}

/// The value of a sample whose line begins so.
fn sample(metrics: &str, start: &str) -> Result<f64> {
    let line = metrics.lines().find(|line| line.starts_with(start));
    let line = line.with_context(|| format!("no '{start}' in\n{metrics}"))?;
    Ok(line.rsplit(' ').next().context("a value")?.parse()?)
}

#[test]
fn metrics_count_what_hosts_did_and_every_line_is_well_formed() -> Result<()> {
    let array = array()?;
    io(&array, &["write -P 7 0 8M", "read 0 4M"])?;
    let metrics = get(&array, "/metrics")?.1;
    let of = |name: &str, primitive: &str| {
        let row = format!("gantry_{name}{{host=\"iqn.");
        let line = metrics.lines().find(|line| {
            line.starts_with(&row) && line.contains(&format!("primitive=\"{primitive}\""))
        });
        let value = line.and_then(|line| line.rsplit(' ').next()).context("a sample")?;
        Ok::<f64, anyhow::Error>(value.parse()?)
    };
    assert_eq!(of("done_bytes_total", "write")?, (8 * MIB) as f64);
    ensure!(of("done_bytes_total", "read")? >= (4 * MIB) as f64);
    ensure!(of("command_seconds_total", "write")? > 0.0);
    assert_eq!(sample(&metrics, "gantry_pool_up{pool=\"p\"}")?, 1.0);
    assert_eq!(sample(&metrics, "gantry_volume_size_bytes{volume=\"p/a\"}")?, (64 * MIB) as f64);
    let states = ["used", "pending", "reserve", "free"].map(|state| {
        sample(&metrics, &format!("gantry_pool_bytes{{pool=\"p\",state=\"{state}\"}}"))
    });
    let sum: f64 = states.into_iter().sum::<Result<f64>>()?;
    assert_eq!(sum, sample(&metrics, "gantry_pool_total_bytes{pool=\"p\"}")?);
    let all = "gantry_command_duration_seconds_bucket{command=\"WRITE (10)\",le=\"+Inf\"}";
    let count = "gantry_command_duration_seconds_count{command=\"WRITE (10)\"}";
    if metrics.contains(all) {
        assert_eq!(sample(&metrics, all)?, sample(&metrics, count)?);
    }
    ensure!(
        metrics.contains("gantry_command_duration_seconds_bucket{command=\"WRITE ("),
        "{metrics}"
    );
    let device = "gantry_device_operation_duration_seconds_count{pool=\"p\",device=\"memory:";
    for operation in ["write", "flush"] {
        let of = format!("operation=\"{operation}\"}}");
        let line = metrics.lines().find(|line| line.starts_with(device) && line.contains(&of));
        ensure!(sample(line.context("a device")?, device)? > 0.0, "{line:?}");
    }
    for line in metrics.lines().filter(|line| !line.starts_with("# ")) {
        let (name, value) = line.rsplit_once(' ').context("a name and a value")?;
        value.parse::<f64>().with_context(|| line.to_owned())?;
        let family = name.split('{').next().unwrap_or_default();
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| family.strip_suffix(end).filter(|f| f.ends_with("_seconds")))
            .unwrap_or(family);
        ensure!(metrics.contains(&format!("# TYPE {family} ")), "{line}");
    }
    Ok(())
}

#[test]
fn rates_appear_and_become_history() -> Result<()> {
    let array = array()?;
    let started = Instant::now();
    let mut seen = false;
    while !seen {
        ensure!(started.elapsed() < TIMEOUT, "no rates were seen");
        io(&array, &["write -P 7 0 16M"])?;
        let live = array.gantry_json(&["top", "--count", "1"])?;
        seen = live["volumes"].as_array().is_some_and(|volumes| {
            volumes.iter().any(|volume| {
                volume["name"] == "p/a" && volume["rates"]["write"]["bytes"].as_f64() > Some(0.0)
            })
        });
    }
    let screen = array.gantry(&["top", "--count", "1", "--by", "host"])?;
    ensure!(screen.starts_with("hosts move "), "{screen}");
    let series = json(&array, "/v1/statistics/series")?;
    let names: Vec<&str> =
        series.as_array().context("a list")?.iter().filter_map(|s| s["series"].as_str()).collect();
    for name in ["total", "volume:p/a", "pool:p"] {
        ensure!(names.contains(&name), "{names:?}");
        let path = format!("/v1/statistics/history?series={name}&seconds=60");
        let history = json(&array, &path)?;
        assert_eq!(number(&history, "/step")?, 1);
        let columns = history["columns"].as_object().context("columns")?;
        let lengths: Vec<_> =
            columns.values().map(|column| column.as_array().map(Vec::len)).collect();
        ensure!(lengths.windows(2).all(|pair| pair[0] == pair[1]), "{lengths:?}");
        ensure!(lengths[0] > Some(0), "{name}");
    }
    let history = json(&array, "/v1/statistics/history?series=volume:p/a&seconds=300")?;
    let written = history["columns"]["write_bytes"].as_array().context("a column")?;
    let written: f64 = written.iter().filter_map(Value::as_f64).sum();
    ensure!(written >= (16 * MIB) as f64, "{written}");
    for (path, status) in [
        ("/v1/statistics/history?series=nothing", " 404 "),
        ("/v1/statistics/history", " 404 "),
        ("/v1/statistics/history?series=total&seconds=soon", " 400 "),
    ] {
        let (answer, body) = get(&array, path)?;
        ensure!(answer.contains(status), "{path}: {answer} {body}");
    }
    Ok(())
}

fn compare_and_write(session: &mut RawSession, lba: u8, old: u8, new: u8) -> Result<u8> {
    let mut cdb = [0; 16];
    (cdb[0], cdb[9], cdb[13]) = (0x89, lba, 1);
    let data = [[old; 512], [new; 512]].concat();
    Ok(session.write(0, &cdb, &data)?.status)
}

#[test]
fn the_lock_map_shows_who_contends_for_which_block() -> Result<()> {
    let array = array()?;
    let (mut one, mut two) = (session(&array, "one")?, session(&array, "two")?);
    assert_eq!(compare_and_write(&mut one, 40, 0, 1)?, 0);
    for _ in 0..3 {
        assert_eq!(compare_and_write(&mut two, 40, 0, 2)?, 2);
    }
    assert_eq!(compare_and_write(&mut two, 50, 0, 2)?, 0);
    let maps = array.gantry_json(&["locks"])?;
    let map = &maps[0];
    assert_eq!((text(map, "/volume")?, number(map, "/attempts")?), ("p/a", 5));
    assert_eq!(number(map, "/miscompares")?, 3);
    let first = &map["contended"][0];
    assert_eq!((number(first, "/lba")?, number(first, "/blocks")?), (40, 1));
    assert_eq!((number(first, "/attempts")?, number(first, "/miscompares")?), (4, 3));
    assert_eq!(first["hosts"].as_array().map(Vec::len), Some(2));
    let outcomes: Vec<_> =
        map["recent"].as_array().context("a list")?.iter().map(|a| a["outcome"].clone()).collect();
    assert_eq!(outcomes, ["done", "miscompare", "miscompare", "miscompare", "done"]);
    ensure!(array.gantry(&["locks"])?.contains("p/a"));
    Ok(())
}

fn unmap(session: &mut RawSession, lba: u32, blocks: u32) -> Result<()> {
    let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
    list.extend(u64::from(lba).to_be_bytes());
    list.extend(blocks.to_be_bytes());
    list.extend([0; 4]);
    session.write(0, &[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0], &list)?.good().map(drop)
}

#[test]
fn reclaim_says_what_was_freed_and_what_a_snapshot_holds() -> Result<()> {
    let array = array()?;
    io(&array, &["write -P 7 0 8M"])?;
    array.gantry(&["snapshot", "create", "p/a", "monday"])?;
    io(&array, &["write -P 8 0 4M"])?;
    let mut session = session(&array, "one")?;
    // 4 MiB of its own, 2 MiB that the snapshot shares, and 2 MiB that were never written.
    unmap(&mut session, 0, 12_288)?;
    unmap(&mut session, 16_384, 4_096)?;
    let all = array.gantry_json(&["reclaim"])?;
    let reclaim = all.as_array().context("a list")?.iter().find(|r| r["volume"] == "p/a");
    let reclaim = reclaim.context("the volume")?;
    assert_eq!(number(reclaim, "/asked_bytes")?, 8 * MIB);
    assert_eq!(number(reclaim, "/already_free_bytes")?, 2 * MIB);
    assert_eq!(number(reclaim, "/unmapped_bytes")?, 6 * MIB);
    assert_eq!(number(reclaim, "/freed_bytes")?, 4 * MIB);
    assert_eq!(number(reclaim, "/held_bytes")?, 2 * MIB);
    assert_eq!(reclaim["held_by"][0]["name"], "p/monday");
    assert_eq!(reclaim["held_by"][0]["kind"], "snapshot");
    ensure!(array.gantry(&["reclaim"])?.contains("snapshot p/monday (2 MiB)"));
    array.gantry(&["snapshot", "delete", "p/monday"])?;
    let all = array.gantry_json(&["reclaim"])?;
    let reclaim = all.as_array().context("a list")?.iter().find(|r| r["volume"] == "p/a");
    assert_eq!(number(reclaim.context("the volume")?, "/freed_bytes")?, 6 * MIB);
    Ok(())
}

#[test]
fn health_and_readiness_are_told() -> Result<()> {
    let array = array()?;
    for path in ["/healthz", "/readyz"] {
        let (status, body) = get(&array, path)?;
        ensure!(status.contains(" 200 ") && body == "ok", "{path}: {status} {body}");
    }
    let forecast = array.gantry_json(&["forecast"])?;
    assert_eq!(text(&forecast[0], "/pool")?, "p");
    ensure!(array.gantry(&["forecast"])?.contains("p"));
    Ok(())
}

/// It said 200 while no host could log in. Silent connections make room for a login; that a portal
/// which does not answer is not ready is tested beside the probe.
#[test]
fn readiness_is_a_login_that_leaves_no_trace() -> Result<()> {
    let mut array = Array::prepare()?.with_words(&[], &["--connections-max", "4"]);
    array.restart()?;
    let count = |array: &Array| -> Result<(usize, usize, usize)> {
        let list = |what: &[&str]| -> Result<usize> {
            Ok(array.gantry_json(what)?.as_array().context("a list")?.len())
        };
        let lines = array.log().lines().count();
        Ok((list(&["events"])?, list(&["session", "list"])?, lines))
    };
    let wait_for = |status: &str| -> Result<String> {
        let begun = Instant::now();
        loop {
            let (line, body) = get(&array, "/readyz")?;
            if line.contains(status) {
                return Ok(body);
            }
            ensure!(begun.elapsed() < Duration::from_secs(30), "{line} {body}");
            thread::sleep(Duration::from_millis(200));
        }
    };
    let before = count(&array)?;
    ensure!(wait_for(" 200 ")? == "ok");
    assert_eq!(count(&array)?, before);
    let connect = |_| Ok(std::net::TcpStream::connect(array.portal())?);
    let connections = (0..4).map(connect).collect::<Result<Vec<_>>>()?;
    ensure!(wait_for(" 200 ")? == "ok");
    drop(connections);
    Ok(())
}

// It logged in as a stranger from an address whose quota hosts had used up, so it was not ready
// while it served; and it was while no session of any host found room.
#[test]
fn readiness_says_for_whom_there_is_room() -> Result<()> {
    let words = ["--connections-max", "16", "--connections-per-address", "12"];
    let mut array = Array::prepare()?.with_words(&[], &words);
    array.restart()?;
    let mut sessions = Vec::new();
    for number in 0..12 {
        let (status, body) = get(&array, "/readyz")?;
        let is_first_half = number < 8;
        ensure!(status.contains(" 200 "), "{number}: {status} {body}");
        ensure!(body.contains("configured hosts only") != is_first_half, "{number}: {body}");
        let name = format!("known-{number}");
        if !is_first_half {
            let initiator = format!("iqn.2026-01.org.example:{name}");
            array.gantry(&["host", "create", &name, "--initiator", &initiator])?;
        }
        sessions.push(session(&array, &name)?);
    }
    let metrics = get(&array, "/metrics")?.1;
    ensure!(metrics.contains("\ngantry_connections_max 16\n"), "{metrics}");
    ensure!(metrics.contains("\ngantry_connections{kind=\"session\"} 12\n"), "{metrics}");
    let (status, body) = get(&array, "/readyz")?;
    ensure!(status.contains(" 503 ") && body.contains("--connections-max"), "{status} {body}");
    sessions.pop();
    let begun = Instant::now();
    while !get(&array, "/readyz")?.0.contains(" 200 ") {
        ensure!(begun.elapsed() < Duration::from_secs(30), "a place that is free is not seen");
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

#[test]
fn a_discovery_that_asks_for_chap_is_ready() -> Result<()> {
    let array = Array::start()?;
    let file = array.beside("secret");
    std::fs::write(&file, "a secret of many bytes")?;
    let path = file.to_str().context("a path")?;
    array.gantry(&["discovery", "set-chap", "--chap-user", "u", "--chap-secret-file", path])?;
    let (status, body) = get(&array, "/readyz")?;
    ensure!(status.contains(" 200 ") && body == "ok", "{status} {body}");
    Ok(())
}

#[test]
fn a_pool_that_is_missing_makes_the_daemon_not_ready_but_healthy() -> Result<()> {
    let mut array = Array::start()?;
    let file = array.create_pool("gone", "1G")?;
    array.stop()?;
    std::fs::remove_file(file)?;
    array.restart()?;
    let (status, body) = get(&array, "/readyz")?;
    ensure!(status.contains(" 503 ") && body.contains("gone"), "{status} {body}");
    let (status, _) = get(&array, "/healthz")?;
    ensure!(status.contains(" 200 "), "{status}");
    Ok(())
}

#[test]
fn without_statistics_nothing_is_counted() -> Result<()> {
    let mut array = Array::start()?;
    array.stop()?;
    let mut array = array.with_words(&[], &["--no-statistics"]);
    array.restart()?;
    array.gantry(&["pool", "create", "q", "--device", "memory:", "--size", "1G"])?;
    let lun = array.create_lun("q/a", "64M")?;
    initiator::qemu_io(&["-f", "raw", &array.lun_url(lun)?], &["write -P 7 0 8M", "read 0 8M"])?;
    thread::sleep(Duration::from_millis(1_200));
    let ledger = array.gantry_json(&["offload", "list"])?;
    assert_eq!(ledger["rows"].as_array().map(Vec::len), Some(0));
    let metrics = get(&array, "/metrics")?.1;
    ensure!(!metrics.contains("gantry_commands_total{"), "{metrics}");
    ensure!(metrics.contains("gantry_pool_up{pool=\"q\"} 1"), "{metrics}");
    Ok(())
}
