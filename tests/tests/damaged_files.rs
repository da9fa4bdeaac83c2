//! Damage to the daemon's own files: it starts, nothing is lost, and it says what it found.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::http::Request;
use harness::{Array, text};

fn flip(path: &std::path::Path) -> Result<()> {
    let mut bytes = fs::read(path)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    Ok(fs::write(path, bytes)?)
}

fn readiness(array: &Array) -> Result<String> {
    let answer =
        Request::new("GET", "/readyz").send_to_socket(&array.data().join("gantry.sock"))?;
    ensure!(answer.status == 200, "{answer:?}");
    Ok(answer.body)
}

fn hosts(array: &Array) -> Result<String> {
    array.gantry(&["host", "list", "--json"])
}

#[test]
fn a_damaged_byte_in_each_file_keeps_the_daemon_from_nothing_and_is_told() -> Result<()> {
    let mut array = Array::start()?;
    array.create_pool("p", "1G")?;
    let lun = array.create_lun("p/v", "64M")?;
    array.gantry(&["host", "create", "h", "--initiator", "iqn.2026-01.org.example:h"])?;
    let volume = array.gantry_json(&["volume", "show", "p/v"])?;
    assert_eq!(readiness(&array)?, "ok");
    array.kill()?;
    let files = ["gantry.json", "users.json"];
    for name in files {
        flip(&array.data().join(name))?;
    }
    array.restart()?;
    let ready = readiness(&array)?;
    let events = array.gantry(&["events"])?;
    for name in files {
        assert!(ready.contains(&format!("{name} is damaged")), "{ready}");
        assert!(events.contains(&format!("{name}.copy holds everything")), "{events}");
    }
    let again = array.gantry_json(&["volume", "show", "p/v"])?;
    assert_eq!((text(&again, "/naa")?, &again["lun"]), (text(&volume, "/naa")?, &lun.into()));
    assert!(hosts(&array)?.contains("\"h\""));
    // What was damaged is kept, both copies are whole again, and nothing is told twice.
    assert!(array.stop()?.success());
    array.restart()?;
    assert_eq!(readiness(&array)?, "ok");
    Ok(())
}

#[test]
fn with_both_copies_damaged_an_earlier_generation_is_used_and_said_so() -> Result<()> {
    let mut array = Array::start()?;
    array.create_pool("p", "1G")?;
    array.gantry(&["host", "create", "h", "--initiator", "iqn.2026-01.org.example:h"])?;
    assert!(array.stop()?.success());
    for name in ["gantry.json", "gantry.json.copy"] {
        flip(&array.data().join(name))?;
    }
    array.restart()?;
    assert!(readiness(&array)?.contains("EARLIER"));
    // The pool is older than the last change, the host was the last change. The pool knows it.
    array.gantry(&["pool", "show", "p"])?;
    assert!(hosts(&array)?.contains("\"h\""));
    assert!(array.gantry(&["events"])?.contains("taken from the pool"));
    // Hosts may know volumes by numbers that were given out in what is lost.
    array.gantry(&["volume", "create", "p/v", "--size", "64M"])?;
    let refused = array.try_gantry(&["volume", "map", "p/v", "--host", "any"])?;
    assert!(refused.stderr.contains("rest for"), "{refused:?}");
    Ok(())
}

/// Every file of the configuration, by name: both copies and earlier generations.
fn configuration_files(array: &Array) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(array.data())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("gantry.json") {
            files.insert(name, fs::read(entry.path())?);
        }
    }
    Ok(files)
}

/// A daemon that stops when a pool has deleted a volume, and before the configuration is saved, leaves
/// the volume's tags without a volume.
#[test]
fn what_is_known_of_a_volume_that_is_gone_is_forgotten_at_the_next_start() -> Result<()> {
    let mut array = Array::start()?;
    array.create_pool("p", "1G")?;
    for (path, tag) in [("p/kept", "mark=kept"), ("p/gone", "mark=gone")] {
        array.gantry(&["volume", "create", path, "--size", "64M"])?;
        array.gantry(&["volume", "tag", path, tag])?;
    }
    let before = configuration_files(&array)?;
    array.gantry(&["volume", "delete", "p/gone"])?;
    assert!(array.stop()?.success());
    for name in configuration_files(&array)?.keys() {
        fs::remove_file(array.data().join(name))?;
    }
    for (name, bytes) in &before {
        fs::write(array.data().join(name), bytes)?;
    }
    array.restart()?;
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let saved = fs::read_to_string(array.data().join("gantry.json"))?;
        assert!(saved.contains("kept"), "a volume that is there keeps its tags: {saved}");
        if !saved.contains("gone") {
            break;
        }
        ensure!(Instant::now() < deadline, "nothing was forgotten: {saved}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(array.gantry_json(&["volume", "show", "p/kept"])?["tags"]["mark"], "kept");
    Ok(())
}
