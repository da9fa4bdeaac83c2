//! Rate limits (QoS) of volumes and hosts: how much is let through, what goes on meanwhile, what becomes
//! of commands that are held back, and that limits outlast the daemon and go with the pool.
//!
//! A machine that is slow lets less through, never more: so tests count what was answered by when, and
//! assert only that it was not too much.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use harness::http::Request;
use harness::wire::{Wire, cdb16, function};
use harness::{Array, Value, text};
use serde_json::json;

/// How long something may take that depends on no limit.
const PATIENCE: Duration = Duration::from_secs(60);

/// Volumes p/a and p/b as LUNs 0 and 1, and hosts `one` and `two`, each with a session.
struct Bench {
    array: Array,
    one: Wire,
    two: Wire,
}

impl Bench {
    fn start() -> Result<Self> {
        let array = Array::start()?;
        array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "2G"])?;
        Self::on(array)
    }

    fn on(array: Array) -> Result<Self> {
        for volume in ["p/a", "p/b"] {
            array.create_lun(volume, "64M")?;
        }
        for name in ["one", "two"] {
            array.gantry(&["host", "create", name, "--initiator", &initiator(name)])?;
        }
        let [one, two] = ["one", "two"].map(|name| log_in(&array, name));
        Ok(Self { one: one?, two: two?, array })
    }

    /// Runs a command whose words have no blanks.
    fn gantry(&self, words: &str) -> Result<String> {
        self.array.gantry(&words.split(' ').collect::<Vec<_>>())
    }

    fn metric(&self, sample: &str) -> Result<f64> {
        let socket = self.array.data().join("gantry.sock");
        let answer = Request::new("GET", "/metrics").send_to_socket(&socket)?;
        let line = answer.body.lines().find_map(|line| line.strip_prefix(sample));
        Ok(line.with_context(|| format!("no {sample}"))?.trim().parse()?)
    }

    /// Commands that wait for the limits of p/a.
    fn waiting(&self) -> Result<f64> {
        self.metric("gantry_volume_held_back_commands{volume=\"p/a\"}")
    }

    fn until_waiting(&self, is_right: impl Fn(f64) -> bool) -> Result<()> {
        let begun = Instant::now();
        while !is_right(self.waiting()?) {
            ensure!(begun.elapsed() < PATIENCE, "{} wait", self.waiting()?);
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

fn initiator(name: &str) -> String {
    format!("iqn.2026-01.org.example:{name}")
}

fn log_in(array: &Array, name: &str) -> Result<Wire> {
    let mut wire = Wire::log_in(array.portal(), &initiator(name), &array.target_name()?)?;
    for lun in [0, 1] {
        wire.run(lun, &[0; 6], &[], 0)?.good()?;
    }
    Ok(wire)
}

/// Sends reads and does not wait.
fn send_reads(wire: &mut Wire, lun: u16, count: u32, blocks: u32) -> Result<()> {
    for number in 0..count {
        let cdb = cdb16(0x88, 0, u64::from(number), blocks);
        let pdu = wire.command(lun, &cdb, &[], blocks * 512);
        wire.send(&pdu)?;
    }
    Ok(())
}

/// One read of 32 MiB: at 1 MiB/s everything else waits for half a minute from then on.
fn owe(wire: &mut Wire, lun: u16) -> Result<()> {
    send_reads(wire, lun, 1, 65_536)?;
    assert_eq!(next_end(wire)?.1, 0);
    Ok(())
}

fn read(wire: &mut Wire, lun: u16) -> Result<()> {
    wire.run(lun, &cdb16(0x88, 0, 0, 8), &[], 4096)?.good().map(drop)
}

/// The next command that ends: its tag, and its status.
fn next_end(wire: &mut Wire) -> Result<(u32, u8)> {
    loop {
        let pdu = wire.connection.receive()?.context("the target closed the connection")?;
        let tag = u32::from_be_bytes(pdu.header[16..20].try_into()?);
        match (pdu.header[0] & 0x3f, pdu.header[1] & 1) {
            (0x21, _) | (0x25, 1) => return Ok((tag, pdu.header[3])),
            _ => {}
        }
    }
}

fn ends(wire: &mut Wire, count: usize) -> Result<Vec<(u32, u8)>> {
    (0..count).map(|_| next_end(wire)).collect()
}

/// COMPARE AND WRITE of a block that holds zeros.
fn lock(wire: &mut Wire, lun: u16) -> Result<()> {
    let mut cdb = cdb16(0x89, 0, 0, 0);
    cdb[13] = 1;
    wire.run(lun, &cdb, &[0; 1024], 0)?.good().map(drop)
}

#[test]
fn a_volume_gets_no_more_than_burst_and_rate_and_everything_ends() -> Result<()> {
    let mut bench = Bench::start()?;
    bench.gantry("volume limit p/a --iops 20 --burst-ms 500")?;
    let begun = Instant::now();
    send_reads(&mut bench.one, 0, 60, 8)?;
    for answered in 1..=60 {
        assert_eq!(next_end(&mut bench.one)?.1, 0);
        let most = 10.0 + 20.0 * begun.elapsed().as_secs_f64() + 1.0;
        ensure!(f64::from(answered) <= most, "{answered} after {:?}", begun.elapsed());
    }
    let held = bench.metric("gantry_volume_held_back_commands_total{volume=\"p/a\"}")?;
    ensure!((30.0..=59.0).contains(&held), "{held} were held back");
    ensure!(bench.metric("gantry_volume_held_back_seconds_total{volume=\"p/a\"}")? > 5.0);
    assert_eq!(bench.waiting()?, 0.0);
    // By bytes: 4 MiB of reads at 1 MiB/s.
    bench.gantry("volume limit p/a --iops none --bandwidth 1M --burst-ms 1000")?;
    let begun = Instant::now();
    send_reads(&mut bench.one, 0, 32, 256)?;
    for answered in 1..=32 {
        assert_eq!(next_end(&mut bench.one)?.1, 0);
        let most = 8.0 + 8.0 * begun.elapsed().as_secs_f64() + 1.0;
        ensure!(f64::from(answered) <= most, "{answered} after {:?}", begun.elapsed());
    }
    Ok(())
}

#[test]
fn other_volumes_and_other_hosts_go_on_beside_what_is_held_back() -> Result<()> {
    let mut bench = Bench::start()?;
    bench.gantry("volume limit p/a --bandwidth 1M")?;
    owe(&mut bench.one, 0)?;
    send_reads(&mut bench.one, 0, 60, 8)?;
    bench.until_waiting(|waiting| waiting == 60.0)?;
    for _ in 0..20 {
        read(&mut bench.one, 1)?;
        read(&mut bench.two, 1)?;
    }
    // What needs no volume is not held back.
    bench.two.run(0, &[0; 6], &[], 0)?.good()?;
    ensure!(bench.waiting()? > 0.0, "it took too long to say anything");
    bench.gantry("volume limit p/a --bandwidth none")?;

    bench.gantry("host limit two --bandwidth 1M")?;
    owe(&mut bench.two, 0)?;
    send_reads(&mut bench.two, 0, 30, 8)?;
    send_reads(&mut bench.two, 1, 30, 8)?;
    let waiting = "gantry_host_held_back_commands{host=\"two\"}";
    while bench.metric(waiting)? < 60.0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut third = log_in(&bench.array, "three")?;
    for lun in [0, 1] {
        (0..20).try_for_each(|_| read(&mut third, lun))?;
    }
    ensure!(bench.metric(waiting)? > 0.0, "it took too long to say anything");
    Ok(())
}

#[test]
fn locks_pass_what_is_held_back_and_a_storm_of_them_does_not() -> Result<()> {
    let mut bench = Bench::start()?;
    bench.gantry("volume limit p/a --iops 10 --burst-ms 2000")?;
    bench.gantry("host limit one --iops 10 --burst-ms 2000")?;
    send_reads(&mut bench.one, 0, 120, 8)?;
    bench.until_waiting(|waiting| waiting > 50.0)?;
    for _ in 0..5 {
        lock(&mut bench.two, 0)?;
    }
    let mut cdb = cdb16(0x89, 0, 0, 0);
    cdb[13] = 1;
    let pdu = bench.one.command(0, &cdb, &[0; 1024], 0);
    bench.one.send(&pdu)?;
    let tag = bench.one.next - 1;
    let before = (0..120).find_map(|before| match next_end(&mut bench.one) {
        Ok((ended, _)) if ended == tag => Some(Ok(before)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    });
    let before = before.context("the lock was the last of all")??;
    ensure!(before < 100 && bench.waiting()? > 0.0, "{before} ended before the lock");
    // Sixty locks at once are more than the limit: they wait.
    let begun = Instant::now();
    for _ in 0..60 {
        let pdu = bench.two.command(0, &cdb, &[0; 1024], 0);
        bench.two.send(&pdu)?;
    }
    for answered in 1..=20 {
        assert_eq!(next_end(&mut bench.two)?.1, 0);
        let most = 20.0 + 10.0 * begun.elapsed().as_secs_f64() + 1.0;
        ensure!(f64::from(answered) <= most, "{answered} after {:?}", begun.elapsed());
    }
    ensure!(bench.waiting()? > 0.0);
    Ok(())
}

#[test]
fn another_limit_counts_at_once_for_what_waits() -> Result<()> {
    let mut bench = Bench::start()?;
    bench.gantry("volume limit p/a --bandwidth 1M")?;
    owe(&mut bench.one, 0)?;
    send_reads(&mut bench.one, 0, 120, 8)?;
    bench.until_waiting(|waiting| waiting == 120.0)?;
    let begun = Instant::now();
    bench.gantry("volume limit p/a --bandwidth 1G")?;
    ensure!(ends(&mut bench.one, 120)?.iter().all(|(_, status)| *status == 0));
    ensure!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());

    bench.gantry("volume limit p/a --bandwidth 1M")?;
    owe(&mut bench.one, 0)?;
    send_reads(&mut bench.one, 0, 120, 8)?;
    bench.until_waiting(|waiting| waiting == 120.0)?;
    bench.gantry("volume limit p/a --bandwidth none")?;
    ensure!(ends(&mut bench.one, 120)?.iter().all(|(_, status)| *status == 0));
    ensure!(bench.waiting().is_err(), "a volume without limits has no such metric");
    Ok(())
}

#[test]
fn what_is_held_back_can_be_asked_for_and_aborted() -> Result<()> {
    const COMPLETE: u8 = 0;
    const SUCCEEDED: u8 = 7;
    let mut bench = Bench::start()?;
    bench.gantry("volume limit p/a --bandwidth 1M")?;
    owe(&mut bench.one, 0)?;
    let first = bench.one.next;
    send_reads(&mut bench.one, 0, 40, 8)?;
    bench.until_waiting(|waiting| waiting == 40.0)?;
    let (last, before) = (first + 39, first + 38);
    assert_eq!(manage(&mut bench.one, function::QUERY_TASK, last)?, SUCCEEDED);
    assert_eq!(manage(&mut bench.one, function::QUERY_TASK_SET, 0)?, SUCCEEDED);
    assert_eq!(bench.waiting()?, 40.0, "asking lets nothing through");
    assert_eq!(manage(&mut bench.one, function::ABORT_TASK, last)?, COMPLETE);
    assert_eq!(bench.waiting()?, 39.0);
    assert_eq!(manage(&mut bench.one, function::QUERY_TASK, last)?, COMPLETE);
    assert_eq!(manage(&mut bench.one, function::QUERY_TASK, before)?, SUCCEEDED);
    // Those of another LUN are not meant, and those of another host only by a reset.
    send_reads(&mut bench.two, 0, 10, 8)?;
    bench.until_waiting(|waiting| waiting == 49.0)?;
    assert_eq!(manage(&mut bench.two, function::ABORT_TASK_SET, 0)?, COMPLETE);
    assert_eq!(bench.waiting()?, 39.0);
    assert_eq!(bench.two.manage(function::LOGICAL_UNIT_RESET, 1, 0)?, COMPLETE);
    assert_eq!(bench.waiting()?, 39.0);
    assert_eq!(bench.two.manage(function::LOGICAL_UNIT_RESET, 0, 0)?, COMPLETE);
    assert_eq!(bench.waiting()?, 0.0);
    // Whoever did not ask for it is told (TAS), and of the others nothing comes any more.
    let told = ends(&mut bench.one, 39)?;
    assert!(told.iter().all(|(tag, status)| (first..last).contains(tag) && *status == 0x40));
    bench.gantry("volume limit p/a --bandwidth none")?;
    for wire in [&mut bench.one, &mut bench.two] {
        let next = wire.next;
        let pdu = wire.command(1, &cdb16(0x88, 0, 0, 8), &[], 4096);
        wire.send(&pdu)?;
        assert_eq!(next_end(wire)?.0, next, "an aborted command was answered");
    }
    Ok(())
}

/// As [`Wire::manage`] on LUN 0.
fn manage(wire: &mut Wire, function: u8, task: u32) -> Result<u8> {
    wire.manage(function, 0, task)
}

#[test]
fn a_session_that_ends_takes_along_what_it_had_held_back() -> Result<()> {
    let mut bench = Bench::start()?;
    bench.gantry("volume limit p/a --bandwidth 1M")?;
    owe(&mut bench.one, 0)?;
    for _ in 0..3 {
        let mut wire = log_in(&bench.array, "gone")?;
        send_reads(&mut wire, 0, 40, 8)?;
        bench.until_waiting(|waiting| waiting == 40.0)?;
        drop(wire);
        bench.until_waiting(|waiting| waiting == 0.0)?;
    }
    bench.gantry("volume limit p/a --bandwidth none")?;
    read(&mut bench.one, 0)?;
    // And a volume that goes while commands wait for it ends them.
    bench.gantry("volume limit p/a --bandwidth 1M")?;
    owe(&mut bench.one, 0)?;
    send_reads(&mut bench.one, 0, 20, 8)?;
    bench.until_waiting(|waiting| waiting == 20.0)?;
    bench.gantry("volume unmap p/a --host any")?;
    bench.gantry("volume delete p/a --yes")?;
    ensure!(ends(&mut bench.one, 20)?.iter().all(|(_, status)| *status == 2));
    Ok(())
}

/// EXTENDED COPY within LUN 0, from block 1 to block 65,536: its blocks lie otherwise, so they are read
/// and written.
fn copy(wire: &Wire, naa: &[u8; 16], blocks: u16) -> harness::pdu::Pdu {
    let mut list = vec![0; 16];
    (list[3], list[11]) = (32, 28);
    let mut target = [0; 32];
    (target[0], target[4], target[5], target[7], target[30]) = (0xe4, 1, 3, 16, 2);
    target[8..24].copy_from_slice(naa);
    list.extend(target);
    let mut segment = [0; 28];
    (segment[0], segment[3]) = (2, 24);
    segment[10..12].copy_from_slice(&blocks.to_be_bytes());
    segment[19] = 1;
    segment[20..28].copy_from_slice(&65_536_u64.to_be_bytes());
    list.extend(segment);
    let mut cdb = [0; 16];
    (cdb[0], cdb[13]) = (0x83, u8::try_from(list.len()).expect("it is short"));
    wire.command(0, &cdb, &list, 0)
}

/// A clone storm: each piece of a copy is counted, and locks go on.
#[test]
fn a_copy_is_held_back_piece_by_piece_and_locks_go_on() -> Result<()> {
    let mut bench = Bench::start()?;
    let shown = bench.array.gantry_json(&["volume", "show", "p/a"])?;
    let naa = text(&shown, "/naa")?.trim_start_matches("naa.").to_owned();
    let naa = u128::from_str_radix(&naa, 16)?.to_be_bytes();
    // 16 MiB that are read and written, half a minute's work.
    bench.gantry("volume limit p/a --bandwidth 1M")?;
    let pdu = copy(&bench.one, &naa, 32_768);
    bench.one.send(&pdu)?;
    bench.until_waiting(|waiting| waiting > 0.0)?;
    for _ in 0..3 {
        lock(&mut bench.two, 0)?;
    }
    (0..20).try_for_each(|_| read(&mut bench.two, 1))?;
    ensure!(bench.waiting()? > 0.0, "the copy is not held back any more");
    bench.gantry("volume limit p/a --bandwidth none")?;
    assert_eq!(next_end(&mut bench.one)?.1, 0);
    // One that is aborted while it is held back ends at once, and its session may end meanwhile.
    bench.gantry("volume limit p/a --bandwidth 1M")?;
    let pdu = copy(&bench.one, &naa, 32_768);
    bench.one.send(&pdu)?;
    bench.until_waiting(|waiting| waiting > 0.0)?;
    let tag = bench.one.next - 1;
    assert_eq!(manage(&mut bench.one, function::ABORT_TASK, tag)?, 0);
    bench.until_waiting(|waiting| waiting == 0.0)?;
    let mut gone = log_in(&bench.array, "gone")?;
    let pdu = copy(&gone, &naa, 32_768);
    gone.send(&pdu)?;
    bench.until_waiting(|waiting| waiting > 0.0)?;
    drop(gone);
    bench.until_waiting(|waiting| waiting == 0.0)
}

#[test]
fn limits_outlast_the_daemon_and_go_with_the_configuration() -> Result<()> {
    let mut bench = Bench::start_on_file()?;
    bench.gantry("volume limit p/a --iops 20 --bandwidth 200M --burst-ms 2000")?;
    bench.gantry("host limit one --iops 500 --share 4")?;
    let of_volume = json!({ "iops": 20, "bytes_per_second": 200 << 20, "burst_ms": 2000 });
    let of_host = json!({ "iops": 500, "bytes_per_second": null, "burst_ms": 100 });
    bench.array.kill()?;
    bench.array.restart()?;
    assert_eq!(limits(&bench.array)?, (of_volume.clone(), of_host.clone(), json!(4)));
    let mut wire = log_in(&bench.array, "one")?;
    send_reads(&mut wire, 0, 100, 8)?;
    bench.until_waiting(|waiting| waiting > 0.0)?;
    let clone = bench.array.gantry_json(&["volume", "clone", "p/a", "c"])?;
    assert_eq!(clone["limits"], of_volume, "a clone has the limits of its source");

    let file = bench.array.beside("configuration.json");
    let name = file.to_str().context("a printable path")?.to_owned();
    bench.array.gantry(&["configuration", "export", &name])?;
    bench.gantry("volume limit p/a --iops none --bandwidth none --burst-ms 0")?;
    bench.gantry("host limit one --iops none --share 1")?;
    assert_eq!(ends(&mut wire, 100)?.len(), 100);
    let none = json!({ "iops": null, "bytes_per_second": null, "burst_ms": 100 });
    assert_eq!(limits(&bench.array)?, (none.clone(), none, json!(1)));
    bench.array.gantry(&["configuration", "import", &name])?;
    assert_eq!(limits(&bench.array)?, (of_volume, of_host, json!(4)));
    assert_eq!(bench.waiting()?, 0.0, "it counts at once");
    let again = bench.array.gantry_json(&["configuration", "import", &name])?;
    assert_eq!(again["changes"], json!([]));
    Ok(())
}

impl Bench {
    /// The same with a pool that outlasts the daemon.
    fn start_on_file() -> Result<Self> {
        let array = Array::start()?;
        array.create_pool("p", "1G")?;
        Self::on(array)
    }
}

/// The limits of p/a, and limits and share of host one.
fn limits(array: &Array) -> Result<(Value, Value, Value)> {
    let volume = array.gantry_json(&["volume", "show", "p/a"])?;
    let hosts = array.gantry_json(&["host", "list"])?;
    let one = hosts.as_array().and_then(|all| all.iter().find(|host| host["name"] == "one"));
    let one = one.context("the host")?;
    Ok((volume["limits"].clone(), one["limits"].clone(), one["share"].clone()))
}

#[test]
fn a_pool_carries_the_limits_of_its_volumes_and_hosts() -> Result<()> {
    let bench = Bench::start_on_file()?;
    bench.gantry("volume limit p/a --iops 123")?;
    bench.gantry("host limit one --bandwidth 2M --share 9")?;
    let expected = limits(&bench.array)?;
    let pool = bench.array.gantry_json(&["pool", "show", "p"])?;
    let device = text(&pool, "/devices/0/device")?.to_owned();
    bench.gantry("pool export p --force")?;
    let other = Array::start()?;
    other.gantry(&["pool", "import", &device])?;
    assert_eq!(limits(&other)?, expected);
    Ok(())
}

#[test]
fn what_makes_no_sense_is_refused_and_roles_are_asked_for() -> Result<()> {
    let bench = Bench::start()?;
    let before = limits(&bench.array)?;
    let socket = bench.array.data().join("gantry.sock");
    let patch =
        |path: &str, body: Value| Request::new("PATCH", path).json(&body).send_to_socket(&socket);
    for path in ["/v1/hosts/one/limits", "/v1/volumes/p/a/limits"] {
        for body in [
            json!({ "iops": 9 }),
            json!({ "iops": -1 }),
            json!({ "iops": "fast" }),
            json!({ "iops": 10_000_001 }),
            json!({ "bytes_per_second": 1000 }),
            json!({ "bytes_per_second": 1_u64 << 41 }),
            json!({ "burst_ms": 9 }),
            json!({ "burst_ms": 600_001 }),
            json!({ "speed": 1 }),
            json!([]),
        ] {
            patch(path, body.clone())?.problem(400).with_context(|| format!("{path} {body}"))?;
        }
        patch(path, json!({}))?.success()?;
    }
    let refused = patch("/v1/volumes/p/a/limits", json!({ "iops": 9 }))?.problem(400)?;
    ensure!(refused.contains("from 10 to 10000000 I/Os per second"), "{refused}");
    patch("/v1/volumes/p/a/limits", json!({ "share": 2 }))?.problem(400)?;
    for share in [0, 101] {
        patch("/v1/hosts/one/limits", json!({ "share": share }))?.problem(400)?;
    }
    for path in ["/v1/hosts/none/limits", "/v1/volumes/p/none/limits"] {
        patch(path, json!({ "iops": 100 }))?.problem(404)?;
    }
    for words in [
        "volume limit p/a --iops 0",
        "volume limit p/a --bandwidth 1",
        "volume limit p/a --share 2",
        "host limit one --share 0",
        "host limit none --iops 100",
    ] {
        bench.array.try_gantry(&words.split(' ').collect::<Vec<_>>())?.failure()?;
    }
    let token = |role: &str| -> Result<String> {
        let words = ["token", "create", "test", "--role", role, "--days", "1"];
        Ok(bench.array.gantry(&words)?.trim().to_owned())
    };
    for (role, status) in [("viewer", 403), ("operator", 200)] {
        let token = format!("Bearer {}", token(role)?);
        for path in ["/v1/hosts/two/limits", "/v1/volumes/p/b/limits"] {
            let request = Request::new("PATCH", path).with("Authorization", &token);
            let answer = request.json(&json!({ "iops": 100 })).send(bench.array.http())?;
            assert_eq!(answer.status, status, "{role} {path}");
        }
    }
    assert_eq!(limits(&bench.array)?, before);
    let events = bench.array.gantry(&["events"])?;
    if !events.contains("was limited to 100 IOPS, in bursts of 100 ms, by") {
        bail!("{events}");
    }
    Ok(())
}
