//! Upgrade of an array that an earlier release left behind by kill -9, with the power cut after each
//! of its writes: what the device has kept until then opens as it was or upgraded, holds all data, and
//! is upgraded in the end. Nothing that hosts or administrators rely on is lost.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use harness::faulty_folder::FaultyFolder;
use harness::pdu::{RawSession, cdb16_of_bytes};
use harness::program::run;
use harness::random::Random;
use harness::release::{self, Blocks};
use harness::waiting::wait_until;
use harness::{Array, number, text};
use serde_json::{Map, Value};

const BLOCK: usize = 4096;
const MIB: u64 = 1 << 20;

/// An array of the build f7b39bd, the last whose pools did not describe themselves (format 2 without
/// features): see [`write_the_archive`].
const RELEASE: &[u8] = include_bytes!("release/f7b39bd.bin");

const SECRET: &str = "the-secret-of-a-release";
const GUARDED: &str = "iqn.2026-01.org.example:guarded";
const KEY: u64 = 0x1122_3344_5566_7788;

/// What its administrators saw, in the archive: the answers of its command line.
const SEEN: &str = "seen.json";

/// Its command line's questions. Each answer of today holds all of what it said.
const QUESTIONS: [&[&str]; 8] = [
    &["target", "show"],
    &["pool", "list"],
    &["volume", "list"],
    &["snapshot", "list"],
    &["schedule", "list"],
    &["host", "list"],
    &["group", "list"],
    &["user", "list"],
];

/// A device and a data directory as they were before the upgrade.
struct Before {
    blocks: Blocks,
    size: u64,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Before {
    fn take(array: &Array, device: &Path) -> Result<Self> {
        let (size, blocks) = release::blocks_of(device)?;
        Ok(Self { blocks, size, files: release::files_of(array.data())? })
    }

    fn put_back(&self, array: &Array, device: &Path) -> Result<()> {
        fs::remove_file(device)?;
        release::write_blocks(device, self.size, &self.blocks)?;
        fs::remove_dir_all(array.data())?;
        for (path, bytes) in &self.files {
            fs::create_dir_all(path.parent().context("a folder")?)?;
            fs::write(path, bytes)?;
        }
        Ok(())
    }
}

/// Blocks that differ, and that pack well.
fn content(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..MIB as usize / BLOCK).flat_map(|_| random.bytes(8).repeat(BLOCK / 8)).collect()
}

fn log_in(array: &Array) -> Result<RawSession> {
    RawSession::log_in(array.portal(), "iqn.2026-01.org.example:up", &array.target_name()?)
}

/// What was written before the upgrade is there: a volume, a snapshot of it, and what came later.
fn verify(array: &Array) -> Result<()> {
    let mut session = log_in(array)?;
    for (lun, at, seed) in [(1, 0, 1), (1, 1, 3), (2, 0, 1), (2, 1, 2)] {
        let cdb = cdb16_of_bytes(0x88, 0, at * MIB, MIB);
        ensure!(session.read(lun, &cdb, MIB as u32)?.good()? == content(seed), "LUN {lun}, {at}");
    }
    Ok(())
}

fn write(array: &Array, at: u64, seed: u64) -> Result<()> {
    let cdb = cdb16_of_bytes(0x8a, 0, at * MIB, MIB);
    log_in(array)?.write(1, &cdb, &content(seed))?.good().map(drop)
}

/// The array of the release, stopped, and its device in a folder.
fn released(folder: &Path) -> Result<(Array, PathBuf)> {
    let array = Array::prepare()?;
    let device = release::unpack(RELEASE, array.data(), folder)?;
    Ok((array, device))
}

fn wait_for_upgrade(array: &Array) -> Result<()> {
    wait_until("the upgrade", || {
        let pool = array.gantry_json(&["pool", "show", "p"])?;
        ensure!(text(&pool, "/state")? == "ready", "{pool:#}");
        Ok(array.gantry(&["events"])?.contains("it is upgraded"))
    })
}

#[test]
fn an_upgrade_that_is_cut_off_after_any_write_loses_nothing() -> Result<()> {
    let disk = FaultyFolder::mount_with_size(3 << 30)?;
    let (mut array, device) = released(&disk.path())?;
    let before = Before::take(&array, &device)?;
    let (first, _) = disk.writes();
    array.restart()?;
    wait_for_upgrade(&array)?;
    verify(&array)?;
    assert!(array.stop()?.success());
    let writes = disk.writes().0 - first;
    ensure!(writes > 3, "{writes} writes");
    let (mut as_it_was, mut upgraded) = (0, 0);
    for kept in 0..writes {
        before.put_back(&array, &device)?;
        disk.lose_writes_after(kept);
        array.restart()?;
        wait_for_upgrade(&array)?;
        array.kill()?;
        disk.lose_writes(false);
        let labels = labels(&device)?;
        let is_as_it_was = labels == labels_of(&before)?;
        as_it_was += u64::from(is_as_it_was);
        upgraded += u64::from(!is_as_it_was);
        let started = array.restart().and_then(|_| verify(&array));
        started.with_context(|| format!("cut off after {kept} writes: {}", array.log()))?;
        write(&array, 2, kept + 10)?;
        array.kill()?;
        fs::remove_dir_all(array.data())?;
        array.restart()?;
        // It describes itself: an import brings the LUNs back.
        let path = device.to_str().context("a printable path")?;
        array.gantry(&["pool", "import", path, "--force"])?;
        verify(&array).with_context(|| format!("after an import, cut off after {kept}"))?;
        let volume = array.gantry_json(&["volume", "show", "p/v"])?;
        assert_eq!(number(&volume, "/maps/0/lun")?, 1, "{volume:#}");
        array.kill()?;
    }
    println!(
        "{writes} writes from the start to the stop; {as_it_was} cuts left the labels as they were, {upgraded} did not"
    );
    Ok(())
}

/// Both labels.
fn labels(device: &Path) -> Result<Vec<u8>> {
    let mut bytes = vec![0; 2 * BLOCK];
    File::open(device)?.read_exact_at(&mut bytes, BLOCK as u64)?;
    Ok(bytes)
}

fn labels_of(before: &Before) -> Result<Vec<u8>> {
    let block = |number: u64| {
        let found = before.blocks.iter().find(|(offset, _)| *offset == number * BLOCK as u64);
        found.map(|(_, block)| block.clone()).context("a label")
    };
    Ok([block(1)?, block(2)?].concat())
}

/// What counts since the start, depends on where the array is, is reckoned otherwise (reserves), or has
/// another name since (`reserved` is `thick`, `lun` and `hosts` are `maps`).
const VOLATILE: [&str; 13] = [
    "bytes_received",
    "bytes_sent",
    "commands",
    "counters",
    "device",
    "hosts",
    "last_login",
    "lun",
    "memory_bytes",
    "portals",
    "read_only_hosts",
    "reserved",
    "space",
];

/// Whether an answer holds all that an earlier one held: where, and how they differ.
fn check_kept(place: &str, earlier: &Value, later: &Value) -> Result<()> {
    match (earlier, later) {
        (Value::Object(earlier), Value::Object(later)) => earlier
            .iter()
            .filter(|(name, _)| !VOLATILE.contains(&name.as_str()))
            .try_for_each(|(name, value)| {
                let found = later.get(name).with_context(|| format!("{place}/{name} is gone"))?;
                check_kept(&format!("{place}/{name}"), value, found)
            }),
        (Value::Array(earlier), Value::Array(later)) if earlier.len() == later.len() => {
            earlier.iter().zip(later).enumerate().try_for_each(|(index, (earlier, later))| {
                check_kept(&format!("{place}/{index}"), earlier, later)
            })
        }
        _ if earlier == later => Ok(()),
        _ => bail!("{place}: {earlier:#} before, {later:#} now"),
    }
}

fn seen(array: &Array) -> Result<Value> {
    let answers = QUESTIONS.map(|words| Ok((words.join(" "), array.gantry_json(words)?)));
    Ok(Value::Object(answers.into_iter().collect::<Result<Map<_, _>>>()?))
}

/// PERSISTENT RESERVE OUT of LUN 1: REGISTER with APTPL, then RESERVE (Write Exclusive – Registrants
/// Only).
fn reserve(session: &mut RawSession) -> Result<()> {
    for (action, kind, keys) in [(0, 0, (0, KEY)), (1, 5, (KEY, 0))] {
        session.reserve_out(1, [action, kind, u8::from(action == 0)], keys)?.good()?;
    }
    Ok(())
}

/// Key and type of the reservation of LUN 1 (PERSISTENT RESERVE IN, READ RESERVATION).
fn reservation(array: &Array) -> Result<(u64, u8)> {
    let held = log_in(array)?.read(1, &[0x5e, 1, 0, 0, 0, 0, 0, 1, 0, 0], 256)?.good()?;
    let key = held.get(8..).and_then(|rest| rest.first_chunk()).context("a reservation")?;
    Ok((u64::from_be_bytes(*key), held[21]))
}

/// Whether the guarded host gets in with a secret.
fn knows(array: &Array, secret: &str) -> Result<bool> {
    let url = format!("iscsi://esx%{secret}@{}/{}/7", array.portal(), array.target_name()?);
    let words = ["-i", GUARDED, &url];
    Ok(run(Path::new("iscsi-inq"), &words, Duration::from_secs(30))?.status.success())
}

#[test]
fn a_release_loses_nothing_by_its_upgrade() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (mut array, device) = released(folder.path())?;
    let before: Value = serde_json::from_slice(&fs::read(array.data().join(SEEN))?)?;
    array.restart()?;
    wait_for_upgrade(&array)?;
    check_kept("", &before, &seen(&array)?)?;
    verify(&array)?;
    let thick = array.gantry_json(&["volume", "show", "p/thick"])?;
    assert!(thick["thick"] == true && thick["maps"][0]["lun"] == 7, "{thick:#}");
    assert_eq!(reservation(&array)?, (KEY, 5));
    assert!(knows(&array, SECRET)? && !knows(&array, "some-other-secret")?);
    let deleted = array.try_gantry(&["snapshot", "delete", "p/locked"])?.failure()?;
    assert!(deleted.contains("locked"), "{deleted}");
    assert!(array.stop()?.success());
    array.gantry(&["pool", "verify", device.to_str().context("a printable path")?])?;
    Ok(())
}

/// Writes the archive anew: an array of the release, killed with commits that are only in the journal.
#[test]
#[ignore = "needs the programs of the release, in the folder of GANTRY_RELEASE_DIR"]
fn write_the_archive() -> Result<()> {
    let programs = std::env::var("GANTRY_RELEASE_DIR").context("GANTRY_RELEASE_DIR is not set")?;
    let mut array = Array::prepare()?.with_binaries(Path::new(&programs));
    array.restart()?;
    let device = array.create_pool("p", "1G")?;
    let secret = array.beside("secret");
    fs::write(&secret, format!("{SECRET}\n"))?;
    let secret = secret.to_str().context("a printable path")?;
    let chap = ["--chap-user", "esx", "--chap-secret-file", secret];
    array.gantry(&[&["host", "create", "esx", "--initiator", GUARDED][..], &chap].concat())?;
    array.gantry(&["host", "create", "up", "--initiator", "iqn.2026-01.org.example:up"])?;
    array.gantry(&["group", "set", "cluster", "--host", "esx", "--host", "up"])?;
    array.gantry(&["volume", "create", "p/v", "--size", "64M"])?;
    array.gantry(&["volume", "create", "p/thick", "--size", "8M", "--reserved"])?;
    array.gantry(&["volume", "create", "p/e", "--size", "1T", "--block-size", "512e"])?;
    array.gantry(&["volume", "map", "p/v", "--host", "up", "--lun", "1"])?;
    array.gantry(&["volume", "map", "p/thick", "--host", "esx", "--lun", "7"])?;
    array.gantry(&["volume", "map", "p/e", "--host", "cluster", "--lun", "9"])?;
    let schedule = ["schedule", "create", "nightly", "--volume", "p/v", "--every", "1d"];
    array.gantry(&[&schedule[..], &["--keep", "3", "--off"]].concat())?;
    write(&array, 0, 1)?;
    write(&array, 1, 2)?;
    array.gantry(&["snapshot", "create", "p/v", "s"])?;
    array.gantry(&["volume", "map", "p/s", "--host", "up", "--lun", "2"])?;
    array.gantry(&["snapshot", "create", "p/e", "locked"])?;
    array.gantry(&["snapshot", "lock", "p/locked", "--lock-until", "2046-01-31 18:00:00"])?;
    reserve(&mut log_in(&array)?)?;
    write(&array, 1, 3)?;
    fs::write(array.data().join(SEEN), serde_json::to_vec_pretty(&seen(&array)?)?)?;
    array.kill()?;
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/release/f7b39bd.bin");
    release::pack(&archive, array.data(), &device)
}
