//! Pools on images of a real Ceph cluster, which `cargo xtask test --ceph` starts.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use harness::pdu::{RawSession, cdb16_of_bytes};
use harness::program::run as run_program;
use harness::random::Random;
use harness::waiting::wait_until;
use harness::{Array, number};

/// Bytes of one command.
const CHUNK: u64 = 64 << 10;

/// Chunks that a test writes.
const CHUNKS: u64 = 256;

fn conf() -> Result<String> {
    std::env::var("GANTRY_TEST_CEPH_CONF").context("'cargo xtask test --ceph' names the cluster")
}

/// Runs a program of the cluster's.
fn ceph(program: &str, arguments: &[&str]) -> Result<String> {
    let conf = conf()?;
    let arguments = [&["-c", &conf], arguments].concat();
    run_program(Path::new(program), &arguments, std::time::Duration::from_secs(120))?.success()
}

/// A new image, as the name of a device.
fn image(name: &str, size: &str) -> Result<String> {
    ceph("rbd", &["create", "--size", size, &format!("rbd/{name}")])?;
    Ok(format!("rbd:rbd/{name}?conf={}", conf()?))
}

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
    ensure!(refused.contains("is in use by another process"), "{refused}");

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
    run_program(Path::new("kill"), &["-9", id.trim()], std::time::Duration::from_secs(10))?
        .success()?;
    (CHUNKS / 2..CHUNKS).try_for_each(|chunk| write(&mut host, lun, chunk))?;
    verify(&mut host, lun, CHUNKS)?;
    ceph("ceph-osd", &["-i", "2"])?;
    (0..CHUNKS).try_for_each(|chunk| write(&mut host, lun, chunk))?;
    verify(&mut host, lun, CHUNKS)?;
    let health = array.gantry_json(&["pool", "show", "p"])?;
    ensure!(number(&health, "/size_bytes")? > 0, "{health:#}");
    Ok(())
}
