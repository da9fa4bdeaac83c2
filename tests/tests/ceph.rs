//! Pools on images of a real Ceph cluster, which `cargo xtask test --ceph` starts.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::binaries::binary;
use harness::ceph::{conf, image, run as ceph};
use harness::controllers::{Pair, listed, pair_up, signal as send_signal, standing, switch};
use harness::http::Request;
use harness::pdu::{RawSession, cdb16_of_bytes};
use harness::program::run as run_program;
use harness::random::Random;
use harness::waiting::wait_until;
use harness::{Array, number};
use rustix::process::Signal;

/// Bytes of one command.
const CHUNK: u64 = 64 << 10;

/// Chunks that a test writes.
const CHUNKS: u64 = 256;

fn session(array: &Array) -> Result<RawSession> {
    RawSession::log_in(array.portal(), "iqn.2026-01.org.example:ceph", &array.target_name()?)
}

fn content(chunk: u64) -> Vec<u8> {
    Random::new(chunk).bytes(CHUNK as usize)
}

fn write(session: &mut RawSession, lun: u8, chunk: u64) -> Result<()> {
    let cdb = cdb16_of_bytes(0x8a, 0, chunk * CHUNK, CHUNK);
    session.write(lun, &cdb, &content(chunk))?.good()?;
    Ok(())
}

fn verify(session: &mut RawSession, lun: u8, chunks: u64) -> Result<()> {
    for chunk in 0..chunks {
        let cdb = cdb16_of_bytes(0x88, 0, chunk * CHUNK, CHUNK);
        let read = session.read(lun, &cdb, CHUNK as u32)?.good()?;
        ensure!(read == content(chunk), "chunk {chunk} is wrong");
    }
    Ok(())
}

fn waits_for_pool(array: &Array) -> Result<()> {
    wait_until("the pool is open", || {
        Ok(array.gantry_json(&["pool", "show", "p"])?["state"] == "ready")
    })
}

#[test]
#[ignore = "needs a Ceph cluster: 'cargo xtask test --ceph'"]
fn a_pool_on_an_image_outlives_its_daemon_is_used_once_and_grows() -> Result<()> {
    let device = image("pool", "1G")?;
    let mut array = Array::start()?;
    array.gantry(&["pool", "create", "p", &device])?;
    let lun = u8::try_from(array.create_lun("p/v", "512M")?)?;
    let mut host = session(&array)?;
    (0..CHUNKS).try_for_each(|chunk| write(&mut host, lun, chunk))?;

    let other = Array::start()?;
    let refused = other.try_gantry(&["pool", "create", "q", &device])?.failure()?;
    ensure!(refused.contains("is locked by"), "{refused}");

    // The cluster takes the lock of a client that has died for its own until a watch times out.
    array.kill()?;
    array.restart()?;
    waits_for_pool(&array)?;
    verify(&mut session(&array)?, lun, CHUNKS)?;

    array.gantry(&["pool", "extend", "p", "--size", "2G"])?;
    let size = array.gantry_json(&["pool", "show", "p"])?;
    ensure!(size["devices"][0]["size_bytes"] == 2_u64 << 30, "{size:#}");
    ensure!(ceph("rbd", &["info", "rbd/pool"])?.contains("size 2 GiB"), "the image has grown");

    ensure!(array.stop()?.success(), "the daemon stops");
    let plan = other.gantry(&["pool", "import", &device, "--dry-run"])?;
    ensure!(plan.contains("pool p comes with 1 volume"), "its lock is free: {plan}");
    let report = other.gantry(&["pool", "verify", &device])?;
    ensure!(report.contains("sound"), "{report}");
    array.restart()?;
    waits_for_pool(&array)?;
    verify(&mut session(&array)?, lun, CHUNKS)
}

#[test]
#[ignore = "needs a Ceph cluster: 'cargo xtask test --ceph'"]
fn an_osd_that_is_killed_costs_no_command() -> Result<()> {
    let device = image("replicas", "1G")?;
    let array = Array::start()?;
    array.gantry(&["pool", "create", "p", &device])?;
    let lun = u8::try_from(array.create_lun("p/v", "512M")?)?;
    let mut host = session(&array)?;
    (0..CHUNKS / 2).try_for_each(|chunk| write(&mut host, lun, chunk))?;
    let folder = Path::new(&conf()?).parent().context("a folder")?.to_owned();
    let id = fs::read_to_string(folder.join("osd.2.pid"))?;
    run_program(Path::new("kill"), &["-9", id.trim()], Duration::from_secs(10))?.success()?;
    (CHUNKS / 2..CHUNKS).try_for_each(|chunk| write(&mut host, lun, chunk))?;
    verify(&mut host, lun, CHUNKS)?;
    ceph("ceph-osd", &["-i", "2"])?;
    (0..CHUNKS).try_for_each(|chunk| write(&mut host, lun, chunk))?;
    verify(&mut host, lun, CHUNKS)?;
    let health = array.gantry_json(&["pool", "show", "p"])?;
    ensure!(number(&health, "/size_bytes")? > 0, "{health:#}");
    Ok(())
}

/// Bytes that clients have written into the cluster, as its OSDs count them.
fn written() -> Result<u64> {
    let folder = Path::new(&conf()?).parent().context("a folder")?.to_owned();
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("osd.") && name.ends_with(".asok") {
            let socket = path.to_str().context("a printable path")?;
            let words = ["--admin-daemon", socket, "perf", "dump"];
            // Of an OSD that was killed before only the socket is there.
            let Ok(counters) = ceph("ceph", &words) else { continue };
            sum += number(&serde_json::from_str(&counters)?, "/osd/op_w_in_bytes")?;
        }
    }
    Ok(sum)
}

/// EXTENDED COPY, WRITE SAME and UNMAP send the cluster a record in the journal, and no data.
#[test]
#[ignore = "needs a Ceph cluster: 'cargo xtask test --ceph'"]
fn offloads_write_metadata_alone_into_the_cluster() -> Result<()> {
    const BYTES: u64 = CHUNKS * CHUNK;
    let device = image("offloads", "1G")?;
    let array = Array::start()?;
    array.gantry(&["pool", "create", "p", &device])?;
    let luns = [array.create_lun("p/a", "64M")?, array.create_lun("p/b", "64M")?];
    let [from, to] = [array.lun_url(luns[0])?, array.lun_url(luns[1])?];
    let mut host = session(&array)?;
    let before = written()?;
    (0..CHUNKS).try_for_each(|chunk| write(&mut host, u8::try_from(luns[0])?, chunk))?;
    let data = written()? - before;
    ensure!(data >= BYTES, "the counter counts: {data}");

    let state = tempfile::tempdir()?;
    let state = state.path().to_str().context("a printable path")?;
    let length = BYTES.to_string();
    let offload = |words: &[&str]| -> Result<u64> {
        let before = written()?;
        let words = [words, &["--state", state, "--length", &length]].concat();
        run_program(&binary("gantry-host")?, &words, Duration::from_secs(60))?.success()?;
        Ok(written()? - before)
    };
    let copied = offload(&["copy", &from, &to])?;
    verify(&mut host, u8::try_from(luns[1])?, CHUNKS)?;
    let zeroed = offload(&["zero", &to])?;
    let freed = offload(&["unmap", &from])?;
    println!("of {data} bytes: copied with {copied}, zeroed with {zeroed}, unmapped with {freed}");
    // A checkpoint may come meanwhile.
    ensure!(copied.max(zeroed).max(freed) < BYTES / 16, "{copied}, {zeroed}, {freed}");
    Ok(())
}

/// Where the daemon's process is, for signals.
fn signal(array: &Array, name: &str) -> Result<()> {
    let id = array.process_id()?.to_string();
    run_program(Path::new("kill"), &[name, &id], Duration::from_secs(10))?.success()?;
    Ok(())
}

/// A second daemon that has the first one's configuration, as a second controller would.
fn twin(array: &Array, folder: &Path) -> Result<Array> {
    let data = folder.join("data");
    let from = array.data().to_str().context("a printable path")?;
    let to = data.to_str().context("a printable path")?;
    run_program(Path::new("cp"), &["-a", from, to], Duration::from_secs(60))?.success()?;
    let mut twin = Array::at(&data, harness::array::free_address()?)?;
    twin.restart()?;
    Ok(twin)
}

fn state(array: &Array) -> Result<(String, String)> {
    let pool = array.gantry_json(&["pool", "show", "p"])?;
    let word = |name: &str| pool[name].as_str().unwrap_or_default().to_owned();
    Ok((word("state"), word("reason")))
}

fn holders(array: &Array) -> Result<usize> {
    let pool = array.gantry_json(&["pool", "show", "p"])?;
    Ok(pool["lock_holders"].as_array().map_or(0, Vec::len))
}

/// The lock of a daemon that was killed is broken at once, and not after the half minute in which the
/// cluster finds that it is gone.
#[test]
#[ignore = "needs a Ceph cluster: 'cargo xtask test --ceph'"]
fn the_lock_of_a_dead_daemon_is_broken_when_its_holder_is_named() -> Result<()> {
    let device = image("dead", "1G")?;
    let mut array = Array::start()?;
    array.gantry(&["pool", "create", "p", &device])?;
    let lun = u8::try_from(array.create_lun("p/v", "512M")?)?;
    let mut host = session(&array)?;
    (0..CHUNKS / 4).try_for_each(|chunk| write(&mut host, lun, chunk))?;
    array.kill()?;
    array.restart()?;
    let waiting = state(&array)?;
    ensure!(waiting.0 == "unavailable" && waiting.1.contains("is locked by"), "{waiting:?}");
    let said = array.gantry(&["pool", "open", "p", "--break-lock"])?;
    ensure!(said.contains("Nothing was changed") && said.contains("is locked by"), "{said}");
    ensure!(state(&array)?.0 == "unavailable");
    wait_until("the pool was taken", || {
        let done = array.try_gantry(&["pool", "open", "p", "--break-lock", "--yes"])?;
        Ok(done.success().is_ok())
    })?;
    ensure!(state(&array)?.0 == "ready");
    verify(&mut session(&array)?, lun, CHUNKS / 4)?;
    let events = array.gantry(&["events"])?;
    ensure!(events.contains("as an administrator asked"), "{events}");
    let none = array.try_gantry(&["pool", "open", "p", "--break-lock"])?.failure()?;
    ensure!(none.contains("no lock to break"), "{none}");
    Ok(())
}

/// A daemon that was stopped in the middle of a host's writes, and goes on when another one has the
/// pool: it is blocklisted, writes nothing, and gives the pool up.
#[test]
#[ignore = "needs a Ceph cluster: 'cargo xtask test --ceph'"]
fn a_paused_daemon_that_wakes_finds_itself_fenced_and_writes_nothing() -> Result<()> {
    let device = image("paused", "1G")?;
    let array = Array::start()?;
    array.gantry(&["pool", "create", "p", &device])?;
    let lun = u8::try_from(array.create_lun("p/v", "512M")?)?;
    let mut host = session(&array)?;
    (0..CHUNKS / 4).try_for_each(|chunk| write(&mut host, lun, chunk))?;

    let scratch = tempfile::tempdir()?;
    let other = twin(&array, scratch.path())?;
    wait_until("the other one knows who holds the pool", || Ok(holders(&other)? == 1))?;
    // The host's next writes are under way when the daemon stops.
    let begun = std::thread::scope(|scope| -> Result<Vec<Option<(u8, u8, u8)>>> {
        let writer = scope.spawn(|| late_writes(&mut host, lun));
        signal(&array, "-STOP")?;
        wait_until("the pool was taken", || {
            let done = other.try_gantry(&["pool", "open", "p", "--break-lock", "--yes"])?;
            Ok(done.success().is_ok())
        })?;
        let mut new_host = session(&other)?;
        verify(&mut new_host, lun, CHUNKS / 4)?;
        (CHUNKS / 4..CHUNKS / 2).try_for_each(|chunk| write(&mut new_host, lun, chunk))?;
        signal(&array, "-CONT")?;
        writer.join().map_err(|_| anyhow::anyhow!("the writer failed"))?
    })?;
    ensure!(begun.last() == Some(&Some((2, 4, 1))), "hosts are told NOT READY: {begun:?}");
    wait_until("the first one has given the pool up", || {
        Ok(state(&array)?.1.contains("another owner took"))
    })?;
    verify(&mut session(&other)?, lun, CHUNKS / 2)?;
    // It does not come back by itself, and an administrator of its own finds the other one.
    std::thread::sleep(Duration::from_secs(6));
    ensure!(state(&array)?.1.contains("another owner took"));
    let refused = array.try_gantry(&["pool", "open", "p"])?.failure()?;
    ensure!(refused.contains("is locked by"), "{refused}");
    ensure!(state(&other)?.0 == "ready");
    verify(&mut session(&other)?, lun, CHUNKS / 2)
}

/// Overwrites the first chunks again and again with what nobody else writes there, in the place of chunks
/// that the other daemon writes too; the sense data of those that were refused.
fn late_writes(host: &mut RawSession, lun: u8) -> Result<Vec<Option<(u8, u8, u8)>>> {
    let mut refused = Vec::new();
    // As many as there are until the daemon is stopped, and no more.
    for number in 0..1_000_000 {
        let chunk = CHUNKS / 4 + number % (CHUNKS / 4);
        let cdb = cdb16_of_bytes(0x8a, 0, chunk * CHUNK, CHUNK);
        let answer = host.write(lun, &cdb, &vec![0xee; CHUNK as usize])?;
        if answer.status != 0 {
            refused.push(answer.code());
        }
        if refused.len() > 3 {
            break;
        }
    }
    Ok(refused)
}

/// Two paired controllers with a pool on a new image.
fn pair_on(name: &str) -> Result<Pair> {
    let device = image(name, "1G")?;
    let pair = Pair::start_with(|first| {
        first.gantry(&["pool", "create", "p", &device])?;
        Ok(())
    })?;
    pair_up(&pair)?;
    Ok(pair)
}

/// A block that hosts look at again and again, as locks are: the array has it in memory.
const LOOKED_AT: u64 = 300 << 20;

fn look(session: &mut RawSession, lun: u8) -> Result<std::result::Result<u8, (u8, u8, u8)>> {
    let answer = session.read_once(lun, &cdb16_of_bytes(0x88, 0, LOOKED_AT, 512), 512)?;
    match answer.code() {
        Some(code) => Ok(Err(code)),
        None => Ok(Ok(answer.good()?[0])),
    }
}

fn mark(session: &mut RawSession, lun: u8, byte: u8) -> Result<()> {
    session.write(lun, &cdb16_of_bytes(0x8a, 0, LOOKED_AT, 512), &[byte; 512])?.good()?;
    Ok(())
}

fn counted(array: &Array, metric: &str) -> Result<bool> {
    let socket = array.data().join("gantry.sock");
    let page = Request::new("GET", "/metrics").send_to_socket(&socket)?.body;
    Ok(page.lines().any(|line| line == metric))
}

/// A pool whose controller is gone without letting go is taken by the other one, which nobody asks; and
/// again by the first one when the second stands still. What was answered is there; a controller that
/// wakes writes nothing, tells no host what was so before, and is standby by itself.
#[test]
#[ignore = "needs a Ceph cluster: 'cargo xtask test --ceph'"]
fn a_controller_takes_the_pool_of_another_one_that_is_gone_by_itself() -> Result<()> {
    let mut pair = pair_on("taken")?;
    let lun = pair.lun;
    pair.first.gantry(&["volume", "resize", "p/v", "--size", "512M"])?;
    let mut host = pair.host(&pair.first, "a")?;
    (0..CHUNKS / 4).try_for_each(|chunk| write(&mut host, lun, chunk))?;

    // An owner that lives keeps its pool.
    std::thread::sleep(Duration::from_secs(8));
    ensure!(standing(&pair.second)?.as_deref() == Some("standby"), "nothing was taken");

    pair.first.kill()?;
    let killed = std::time::Instant::now();
    pair.wait_for(&pair.second, "active-optimized")?;
    let after = killed.elapsed();
    println!("taken {after:.1?} after a kill");
    ensure!(after.as_secs() < 5, "its end was told, and nothing was waited for: {after:?}");
    ensure!(pair.second.gantry(&["events"])?.contains("whose process has ended"));
    let mut host = pair.host(&pair.second, "a")?;
    verify(&mut host, lun, CHUNKS / 4)?;
    (CHUNKS / 4..CHUNKS / 2).try_for_each(|chunk| write(&mut host, lun, chunk))?;
    ensure!(counted(&pair.second, "gantry_take_overs_total 1")?);
    pair.first.restart()?;
    pair.wait_for(&pair.first, "standby")?;

    // The second one stands still in the middle of a host's writes, and wakes when its pool is gone.
    let mut old_host = pair.host(&pair.second, "b")?;
    let mut looking = pair.host(&pair.second, "c")?;
    mark(&mut looking, lun, 1)?;
    for _ in 0..4 {
        ensure!(look(&mut looking, lun)? == Ok(1));
    }
    let (begun, looked) = std::thread::scope(|scope| -> Result<_> {
        let writer = scope.spawn(|| late_writes(&mut old_host, lun));
        send_signal(&pair.second, Signal::STOP)?;
        let stopped = std::time::Instant::now();
        let taken = pair.wait_for(&pair.first, "active-optimized");
        println!("taken {:.1?} after a standstill", stopped.elapsed());
        let written = taken.and_then(|()| {
            let mut host = pair.host(&pair.first, "a")?;
            mark(&mut host, lun, 2)?;
            (CHUNKS / 4..CHUNKS / 2).try_for_each(|chunk| write(&mut host, lun, chunk))
        });
        // It asks while the daemon stands still: this waits in a socket.
        let looker = scope.spawn(|| look(&mut looking, lun));
        std::thread::sleep(Duration::from_millis(200));
        send_signal(&pair.second, Signal::CONT)?;
        written?;
        let begun = writer.join().map_err(|_| anyhow::anyhow!("the writer failed"))??;
        Ok((begun, looker.join().map_err(|_| anyhow::anyhow!("the reader failed"))??))
    })?;
    ensure!(
        matches!(looked, Err((2, 4, 1 | 0x0a | 0x0b) | (6, 0x2a, 6))),
        "nobody is told what was so before: {looked:?}"
    );
    ensure!(
        matches!(begun.last(), Some(Some((2, 4, 1 | 0x0a | 0x0b) | (6, 0x2a, 6)))),
        "hosts are told to go to the other one: {begun:?}"
    );
    pair.wait_for(&pair.second, "standby")?;
    ensure!(counted(&pair.second, "gantry_pools_lost_total 1")?);
    let mut host = pair.host(&pair.first, "a")?;
    verify(&mut host, lun, CHUNKS / 2)?;
    ensure!(look(&mut host, lun)? == Ok(2));

    // It is standby as every other one: it takes the pool when that is let go.
    switch(&pair.first)?;
    pair.wait_for(&pair.second, "active-optimized")?;
    verify(&mut pair.host(&pair.second, "a")?, lun, CHUNKS / 2)
}

/// The link alone decides nothing: an owner whose heart beats keeps its pool though nobody hears it. When
/// it is gone the heartbeat says so.
#[test]
#[ignore = "needs a Ceph cluster: 'cargo xtask test --ceph'"]
fn a_link_that_is_cut_moves_no_pool_and_an_owner_that_is_gone_is_missed_without_it() -> Result<()> {
    let mut pair = pair_on("deaf")?;
    let lun = pair.lun;
    pair.cut_link()?;
    let mut host = pair.host(&pair.first, "a")?;
    for round in 0..12 {
        write(&mut host, lun, round)?;
        std::thread::sleep(Duration::from_secs(1));
        ensure!(standing(&pair.second)?.as_deref() == Some("standby"), "round {round}");
    }
    ensure!(listed(&pair.second, false)?["reachable"] == false, "nobody is heard");
    pair.first.kill()?;
    let killed = std::time::Instant::now();
    pair.wait_for(&pair.second, "active-optimized")?;
    println!("taken {:.1?} after a kill, without a link", killed.elapsed());
    verify(&mut pair.host(&pair.second, "a")?, lun, 12)
}

/// Controllers that want none of it leave pools to administrators, and the owner serves without a lease.
#[test]
#[ignore = "needs a Ceph cluster: 'cargo xtask test --ceph'"]
fn nothing_is_taken_from_an_owner_that_does_not_want_it() -> Result<()> {
    let mut pair = pair_on("unwilling")?;
    pair.second.stop()?;
    pair.first.stop()?;
    pair.first.add_arguments(&["--take-over-after", "off"]);
    pair.first.restart()?;
    pair.wait_for(&pair.first, "active-optimized")?;
    pair.second.restart()?;
    pair.wait_for(&pair.second, "standby")?;
    wait_until("it is heard", || Ok(listed(&pair.second, false)?["reachable"] == true))?;
    send_signal(&pair.first, Signal::STOP)?;
    let said = wait_until("it is said", || {
        let pool = pair.second.gantry_json(&["pool", "show", "p"])?;
        Ok(pool["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("--take-over-after is off")))
    });
    let state = standing(&pair.second);
    send_signal(&pair.first, Signal::CONT)?;
    said?;
    ensure!(state?.as_deref() == Some("standby"));
    write(&mut pair.host(&pair.first, "a")?, pair.lun, 0)
}
