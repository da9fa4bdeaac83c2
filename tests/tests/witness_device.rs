//! A mirror with a witness device: with it a controller takes the pool by itself when the other one's machine is gone
//! together with a member; without it nobody opens one of two halves. An owner that loses a member and the witness at
//! once answers nothing until one of them is back.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::controllers::{Pair, pair_up, signal, standing};
use harness::faulty_folder::{EIO, FaultyFolder};
use harness::pdu::{RawSession, cdb10};
use harness::waiting::wait_until;
use harness::{Array, Value, text};
use rustix::process::Signal;

const BLOCK: usize = 512;

/// Longer than a standby waits between two tries to open a pool on files.
const LONG: Duration = Duration::from_secs(3);

/// The states of members, by the ends of the names of their devices.
fn states(array: &Array) -> Result<Vec<(String, String)>> {
    let pool = array.gantry_json(&["pool", "show", "p"])?;
    let mirrors = pool["mirrors"].as_array().context("mirrors")?;
    let members =
        mirrors.iter().flat_map(|mirror| mirror["members"].as_array().into_iter().flatten());
    let member = |member: &Value| {
        let device = member["device"].as_str().unwrap_or("?");
        let name = device.rsplit('/').next().unwrap_or(device);
        Ok((name.to_owned(), text(member, "/state")?.to_owned()))
    };
    members.map(member).collect()
}

fn wait_for_states(array: &Array, wanted: [(&str, &str); 3]) -> Result<()> {
    let mut last = Vec::new();
    let reached = wait_until("states", || {
        last = states(array)?;
        Ok(wanted.iter().all(|(name, state)| last.contains(&((*name).into(), (*state).into()))))
    });
    reached.with_context(|| format!("{last:?} instead of {wanted:?}: {:#?}", array.log()))
}

fn write(session: &mut RawSession, lun: u8, lba: u32, byte: u8) -> Result<()> {
    session.write(lun, &cdb10(0x2a, 0, lba, 1), &[byte; BLOCK])?.good().map(drop)
}

fn read(session: &mut RawSession, lun: u8, lba: u32) -> Result<u8> {
    let data = session.read(lun, &cdb10(0x28, 0, lba, 1), BLOCK as u32)?.good()?;
    ensure!(data.iter().all(|&byte| byte == data[0]), "a mixture at {lba}");
    Ok(data[0])
}

/// A machine that is gone together with its devices. It stands still before they go, and dies after them: its locks
/// are held until then, so that a standby never finds it dead and them there still.
fn lose_machine(array: &mut Array, devices: &[&Path]) -> Result<()> {
    signal(array, Signal::STOP)?;
    for device in devices {
        fs::rename(device, device.with_extension("gone"))?;
    }
    array.kill()
}

fn show_again(path: &Path) -> Result<()> {
    Ok(fs::rename(path.with_extension("gone"), path)?)
}

/// Two controllers with a pool on a member of each and a witness.
fn pair_with_witness(folder: &Path) -> Result<(Pair, [PathBuf; 3])> {
    let places = ["a.img", "b.img", "w.img"].map(|name| folder.join(name));
    let names = places.each_ref().map(|place| format!("file:{}", place.display()));
    let pair = Pair::start_with(|first| {
        let [a, b, w] = &names;
        first.gantry(&["pool", "create", "p", "--mirror", "2", a, b, "--size", "1G"])?;
        let said = first.gantry(&["pool", "attach", "p", w, "--witness"])?;
        ensure!(said.contains("is the witness of mirror 0"), "{said}");
        ensure!(fs::metadata(&places[2])?.len() == 64 << 20, "it is small");
        Ok(())
    })?;
    pair_up(&pair)?;
    Ok((pair, places))
}

#[test]
fn a_controller_takes_the_pool_when_the_others_machine_is_gone_with_a_member() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (mut pair, [a, b, w]) = pair_with_witness(folder.path())?;
    let mut path = pair.host(&pair.first, "a")?;
    write(&mut path, pair.lun, 0, 1)?;
    lose_machine(&mut pair.first, &[&a])?;
    pair.wait_for(&pair.second, "active-optimized")?;
    wait_for_states(
        &pair.second,
        [("a.img", "absent"), ("b.img", "current"), ("w.img", "witness")],
    )?;
    let mut path = pair.host(&pair.second, "a")?;
    ensure!(read(&mut path, pair.lun, 0)? == 1);
    write(&mut path, pair.lun, 1, 2)?;
    // The machine is back: its controller is standby, and its member is filled.
    show_again(&a)?;
    pair.first.restart()?;
    pair.wait_for(&pair.first, "standby")?;
    wait_for_states(
        &pair.second,
        [("a.img", "current"), ("b.img", "current"), ("w.img", "witness")],
    )?;
    write(&mut path, pair.lun, 2, 3)?;
    // The other way round. Without the witness a half is no pool, and nobody opens it by force unseen.
    lose_machine(&mut pair.second, &[&b, &w])?;
    thread::sleep(LONG);
    ensure!(standing(&pair.first)?.as_deref() != Some("active-optimized"), "half of it was opened");
    let pool = pair.first.gantry_json(&["pool", "show", "p"])?;
    ensure!(pool.to_string().contains("w.img"), "it says what is missing: {pool}");
    show_again(&w)?;
    pair.wait_for(&pair.first, "active-optimized")?;
    let mut path = pair.host(&pair.first, "a")?;
    for (lba, byte) in (0..).zip(1..=3) {
        ensure!(read(&mut path, pair.lun, lba)? == byte, "block {lba}");
    }
    wait_for_states(&pair.first, [("a.img", "current"), ("b.img", "absent"), ("w.img", "witness")])
}

#[test]
fn a_member_that_is_stale_is_not_opened_with_the_witness() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (mut pair, [a, b, _]) = pair_with_witness(folder.path())?;
    lose_machine(&mut pair.first, &[&a])?;
    pair.wait_for(&pair.second, "active-optimized")?;
    let mut path = pair.host(&pair.second, "a")?;
    write(&mut path, pair.lun, 0, 7)?;
    // Whoever has the current member is gone, and the other one comes back.
    lose_machine(&mut pair.second, &[&b])?;
    show_again(&a)?;
    pair.first.restart()?;
    thread::sleep(LONG);
    ensure!(
        standing(&pair.first)?.as_deref() != Some("active-optimized"),
        "a stale member was opened"
    );
    show_again(&b)?;
    pair.wait_for(&pair.first, "active-optimized")?;
    let mut path = pair.host(&pair.first, "a")?;
    ensure!(read(&mut path, pair.lun, 0)? == 7);
    Ok(())
}

#[test]
fn an_owner_without_member_and_witness_answers_when_the_witness_is_back() -> Result<()> {
    let disk = FaultyFolder::mount_with_size(2 << 30)?;
    let mut array = Array::prepare()?.with_words(&[], &["--hang-limit", "1"]);
    array.restart()?;
    let first = format!("file:{}", array.beside("a.img").display());
    let [second, witness] =
        ["b.img", "w.img"].map(|name| format!("file:{}", disk.file(name).display()));
    array.gantry(&["pool", "create", "p", "--mirror", "2", &first, &second, "--size", "1G"])?;
    array.gantry(&["pool", "attach", "p", &witness, "--witness"])?;
    let again = format!("file:{}", array.beside("w2.img").display());
    let refused = array.try_gantry(&["pool", "attach", "p", &again, "--witness"])?.failure()?;
    ensure!(refused.contains("has a witness"), "{refused}");
    let lun = u8::try_from(array.create_lun("p/v", "64M")?)?;
    let mut host =
        RawSession::log_in(array.portal(), "iqn.2026-01.org.example:a", &array.target_name()?)?;
    write(&mut host, lun, 0, 1)?;
    disk.fail_writes(EIO);
    disk.fail_reads(EIO);
    disk.fail_fsync(EIO);
    thread::scope(|scope| {
        let writing = scope.spawn(|| write(&mut host, lun, 0, 2));
        let waited = wait_until("the witness is missed", || {
            let states = states(&array)?;
            Ok(states.contains(&("w.img".to_owned(), "witness-absent".to_owned())))
        });
        thread::sleep(LONG);
        let is_answered = writing.is_finished();
        disk.fail_writes(0);
        disk.fail_reads(0);
        disk.fail_fsync(0);
        let written = writing.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
        waited?;
        ensure!(!is_answered, "a write was answered that one member alone had");
        written
    })?;
    wait_for_states(&array, [("a.img", "current"), ("b.img", "current"), ("w.img", "witness")])?;
    ensure!(read(&mut host, lun, 0)? == 2);
    array.gantry(&["pool", "detach", "p", &witness])?;
    ensure!(states(&array)?.len() == 2);
    write(&mut host, lun, 0, 3)
}
