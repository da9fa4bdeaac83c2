//! Scrubs that mirrors owe: after each copy that was made without checksums, over restarts, until one
//! has come to its end; and what is kept of mirrors outside of their pools.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::members::state_of;
use harness::pdu::RawSession;
use harness::waiting::wait_until;
use harness::{Array, Value};

/// Several looks of the array at its mirrors.
const LOOKS: Duration = Duration::from_secs(3);

/// An array with a mirror of two, `a.img` and `b.img`, and 16 MiB of data in it.
fn mirrored() -> Result<Array> {
    let array = Array::start()?;
    let devices = ["a.img", "b.img"].map(|name| device(&array, name));
    let [a, b] = &devices;
    array.gantry(&["pool", "create", "p", "--mirror", "2", a, b, "--size", "1G"])?;
    array.create_lun("p/v", "64M")?;
    write(&array, 0..256)?;
    Ok(array)
}

fn device(array: &Array, name: &str) -> String {
    format!("file:{}", array.beside(name).display())
}

/// Writes pieces of 64 KiB.
fn write(array: &Array, pieces: std::ops::Range<u16>) -> Result<()> {
    let name = "iqn.2026-01.org.example:a";
    let mut session = RawSession::log_in(array.portal(), name, &array.target_name()?)?;
    for piece in pieces {
        let [high, low] = (piece * 128).to_be_bytes();
        let cdb = [0x2a, 0x08, 0, 0, high, low, 0, 0, 128, 0];
        let code = session.write(0, &cdb, &[piece as u8 | 1; 65_536])?.code();
        ensure!(code.is_none(), "a write ended with {code:?}");
    }
    Ok(())
}

/// The daemon is started without a member, hosts write, and the member comes back with what it held.
fn let_b_miss_something(array: &mut Array) -> Result<()> {
    let (there, away) = (array.beside("b.img"), array.beside("away.img"));
    array.stop()?;
    fs::rename(&there, &away)?;
    array.restart()?;
    wait_until("b is absent", || Ok(state_of(array, "p", "b.img")?.as_deref() == Some("absent")))?;
    write(array, 100..110)?;
    fs::rename(&away, &there)?;
    wait_until("b is back", || Ok(state_of(array, "p", "b.img")?.as_deref() == Some("current")))
}

fn scrub(array: &Array) -> Result<Value> {
    array.gantry_json(&["scrub", "show", "p"])
}

fn is_running(array: &Array) -> Result<bool> {
    Ok(scrub(array)?["running"] == true)
}

fn has_ended(array: &Array) -> Result<bool> {
    let scrub = scrub(array)?;
    Ok(scrub["running"] == false && scrub["complete"] == true)
}

#[test]
fn a_scrub_follows_the_return_of_a_member_and_is_owed_over_restarts_until_it_ends() -> Result<()> {
    let mut array = mirrored()?;
    ensure!(!is_running(&array)? && !has_ended(&array)?, "a mirror that was made owes nothing");
    let_b_miss_something(&mut array)?;
    wait_until("a scrub ends", || has_ended(&array))?;
    let kept = array.data().join("mirrors.json");
    wait_until("that is kept", || Ok(fs::read_to_string(&kept)?.contains("scrubbed")))?;
    array.stop()?;
    array.restart()?;
    thread::sleep(LOOKS);
    let after = scrub(&array)?;
    ensure!(after["scanned_bytes"] == 0 && after["running"] == false, "it is paid: {after}");
    // One that takes 16 seconds begins anew when the member comes back, and does not come to its end.
    array.stop()?;
    fs::rename(array.beside("b.img"), array.beside("away.img"))?;
    array.restart()?;
    write(&array, 0..4)?;
    array.gantry(&["scrub", "start", "p", "--rate", "1M"])?;
    fs::rename(array.beside("away.img"), array.beside("b.img"))?;
    wait_until("b is back", || Ok(state_of(&array, "p", "b.img")?.as_deref() == Some("current")))?;
    wait_until("a scrub runs", || is_running(&array))?;
    array.kill()?;
    array.restart()?;
    wait_until("the scrub that is owed ends", || has_ended(&array))?;
    Ok(())
}

#[test]
fn a_scrub_that_is_stopped_stays_stopped_and_is_owed_by_the_next_start() -> Result<()> {
    let mut array = mirrored()?;
    array.stop()?;
    fs::rename(array.beside("b.img"), array.beside("away.img"))?;
    array.restart()?;
    write(&array, 0..4)?;
    array.gantry(&["scrub", "start", "p", "--rate", "1M"])?;
    fs::rename(array.beside("away.img"), array.beside("b.img"))?;
    wait_until("b is back", || Ok(state_of(&array, "p", "b.img")?.as_deref() == Some("current")))?;
    thread::sleep(LOOKS);
    array.gantry(&["scrub", "stop", "p"])?;
    thread::sleep(LOOKS);
    ensure!(!is_running(&array)?, "nobody asked for it");
    array.stop()?;
    array.restart()?;
    wait_until("the scrub that is owed ends", || has_ended(&array))
}

#[test]
fn a_device_that_is_replaced_stays_until_its_successor_is_compared() -> Result<()> {
    let array = mirrored()?;
    array.gantry(&["scrub", "start", "p", "--rate", "1M"])?;
    let pool = array.gantry_json(&["pool", "show", "p"])?;
    let old = pool["mirrors"][0]["members"][0]["device"].as_str().context("a device")?.to_owned();
    array.gantry(&["pool", "replace", "p", &old, &device(&array, "c.img")])?;
    wait_until(
        "c is filled",
        || Ok(state_of(&array, "p", "c.img")?.as_deref() == Some("current")),
    )?;
    thread::sleep(LOOKS);
    ensure!(state_of(&array, "p", "a.img")?.as_deref() == Some("current"), "it has left too early");
    ensure!(is_running(&array)?, "{}", scrub(&array)?);
    array.gantry(&["scrub", "start", "p", "--rate", "1G"])?;
    wait_until("a has left", || Ok(state_of(&array, "p", "a.img")?.is_none()))?;
    ensure!(has_ended(&array)?, "{}", scrub(&array)?);
    Ok(())
}

#[test]
fn nothing_is_kept_of_mirrors_of_a_pool_that_is_deleted_while_it_is_not_open() -> Result<()> {
    let mut array = mirrored()?;
    let_b_miss_something(&mut array)?;
    let kept = array.data().join("mirrors.json");
    ensure!(fs::read_to_string(&kept)?.contains("pools"), "{}", fs::read_to_string(&kept)?);
    array.stop()?;
    for name in ["a.img", "b.img"] {
        fs::remove_file(array.beside(name))?;
    }
    array.restart()?;
    array.gantry(&["pool", "delete", "p", "--force"])?;
    let mut text = String::new();
    let forgotten = wait_until("it is forgotten", || {
        text = fs::read_to_string(&kept)?;
        let kept: Value = serde_json::from_str(&text)?;
        Ok(kept["mirrors"].as_object().is_some_and(|mirrors| mirrors.is_empty()))
    });
    forgotten.with_context(|| text.clone())
}

/// Whether a command was done, and what it complained about.
fn refused(array: &Array, words: &[&str]) -> Result<(bool, String)> {
    let ended = array.try_gantry(words)?;
    Ok((ended.status.success(), ended.stderr))
}

#[test]
fn what_is_refused_leaves_no_file_and_a_device_named_twice_is_told_so() -> Result<()> {
    let array = mirrored()?;
    let [c, d] = ["c.img", "d.img"].map(|name| device(&array, name));
    array.gantry(&["pool", "attach", "p", &c])?;
    let (is_done, told) = refused(&array, &["pool", "attach", "p", &d])?;
    ensure!(!is_done && told.contains("as many as it can have"), "{told}");
    ensure!(!array.beside("d.img").exists(), "it was made");
    // Too small: the engine refuses it, after the file was made.
    array.gantry(&["pool", "detach", "p", &c])?;
    let (is_done, told) = refused(&array, &["pool", "attach", "p", &d, "--size", "512M"])?;
    ensure!(!is_done, "{told}");
    wait_until("the file is removed", || Ok(!array.beside("d.img").exists()))?;
    let twice: [&[&str]; 2] = [
        &["pool", "create", "q", "--mirror", "2", &d, &d, "--size", "1G"],
        &["pool", "add-device", "p", &d, &d, "--size", "1G"],
    ];
    for words in twice {
        let (is_done, told) = refused(&array, words)?;
        ensure!(!is_done && told.contains("is named twice"), "{words:?}: {told}");
        ensure!(!array.beside("d.img").exists(), "{words:?} made it");
    }
    Ok(())
}
