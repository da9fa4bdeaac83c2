//! Damage to the daemon's own files: it starts, nothing is lost, and it says what it found.

use std::fs;

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
    // The pool is older than the last change, the host was the last change.
    array.gantry(&["pool", "show", "p"])?;
    assert!(!hosts(&array)?.contains("\"h\""));
    // Hosts may know volumes by numbers that were given out in what is lost.
    array.gantry(&["volume", "create", "p/v", "--size", "64M"])?;
    let refused = array.try_gantry(&["volume", "map", "p/v", "--host", "any"])?;
    assert!(refused.stderr.contains("rest for"), "{refused:?}");
    Ok(())
}
