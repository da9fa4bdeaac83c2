//! Upgrade of an array that an earlier release left behind by kill -9, with the power cut after each
//! of its writes: what the device has kept until then opens as it was or upgraded, holds all data, and
//! is upgraded in the end. Nothing that hosts or administrators rely on is lost.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use harness::faulty_folder::FaultyFolder;
use harness::pdu::cdb16_of_bytes;
use harness::random::Random;
use harness::release::{self, Blocks};
use harness::upgraded::{
    KEY, SECRET, check_kept, configure, knows, log_in, reservation, reserve, seen,
};
use harness::waiting::wait_until;
use harness::{Array, number, text};
use serde_json::Value;

const BLOCK: usize = 4096;
const MIB: u64 = 1 << 20;

/// An array of the build f7b39bd, the last whose pools did not describe themselves (format 2 without
/// features): see [`write_the_archive`].
const RELEASE: &[u8] = include_bytes!("release/f7b39bd.bin");

/// What its administrators saw, in the archive: the answers of its command line.
const SEEN: &str = "seen.json";

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
    configure(&array)?;
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
