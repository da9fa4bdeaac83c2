//! Upgrade of a pool of an earlier version, with the power cut after each of its writes: what the
//! device has kept until then opens as it was or upgraded, holds all data, and is upgraded in the end.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use harness::faulty_folder::FaultyFolder;
use harness::pdu::{RawSession, cdb16_of_bytes};
use harness::random::Random;
use harness::waiting::wait_until;
use harness::{Array, number, text};

const BLOCK: usize = 4096;
const MIB: u64 = 1 << 20;

/// Blocks that hold something, with their places in bytes.
type Blocks = Vec<(u64, Vec<u8>)>;

/// A device and a data directory as they were before the upgrade.
struct Before {
    blocks: Blocks,
    size: u64,
    files: Vec<(PathBuf, Vec<u8>)>,
}

/// The size of a file, and its blocks that hold something.
fn blocks_of(path: &Path) -> Result<(u64, Blocks)> {
    let file = File::open(path)?;
    let (size, mut blocks) = (file.metadata()?.len(), Vec::new());
    let mut mebibyte = vec![0; MIB as usize];
    for first in (0..size).step_by(MIB as usize) {
        file.read_exact_at(&mut mebibyte, first)?;
        for (offset, block) in (first..).step_by(BLOCK).zip(mebibyte.chunks(BLOCK)) {
            if block.iter().any(|&byte| byte != 0) {
                blocks.push((offset, block.to_vec()));
            }
        }
    }
    Ok((size, blocks))
}

fn files_of(folder: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            files.push((entry.path(), fs::read(entry.path())?));
        }
    }
    Ok(files)
}

impl Before {
    fn take(array: &Array, device: &Path) -> Result<Self> {
        let (size, blocks) = blocks_of(device)?;
        Ok(Self { blocks, size, files: files_of(array.data())? })
    }

    fn put_back(&self, array: &Array, device: &Path) -> Result<()> {
        fs::remove_file(device)?;
        let file = OpenOptions::new().write(true).create_new(true).open(device)?;
        file.set_len(self.size)?;
        for (offset, block) in &self.blocks {
            file.write_all_at(block, *offset)?;
        }
        fs::remove_dir_all(array.data())?;
        fs::create_dir(array.data())?;
        self.files.iter().try_for_each(|(path, bytes)| Ok(fs::write(path, bytes)?))
    }
}

fn content(seed: u64) -> Vec<u8> {
    Random::new(seed).bytes(MIB as usize)
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

/// A stopped array with a pool of the earlier version.
fn earlier(disk: &FaultyFolder) -> Result<(Array, PathBuf)> {
    let mut array = Array::prepare()?.with_words(&[], &["--no-pool-upgrade"]);
    array.restart()?;
    let device = disk.file("p.img");
    let name = format!("file:{}", device.display());
    array.gantry(&["pool", "create", "p", "--device", &name, "--size", "1G"])?;
    array.gantry(&["volume", "create", "p/v", "--size", "64M"])?;
    array.gantry(&["volume", "map", "p/v", "--host", "any", "--lun", "1"])?;
    write(&array, 0, 1)?;
    write(&array, 1, 2)?;
    array.gantry(&["snapshot", "create", "p/v", "s"])?;
    array.gantry(&["volume", "map", "p/s", "--host", "any", "--lun", "2"])?;
    write(&array, 1, 3)?;
    // It goes without a checkpoint.
    array.kill()?;
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
    let (array, device) = earlier(&disk)?;
    let before = Before::take(&array, &device)?;
    let mut array = array.with_words(&[], &[]);
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
