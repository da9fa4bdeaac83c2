//! The offline check of a pool: sound, damaged, in use, or not a pool.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use harness::program::Finished;
use harness::{Array, Value, initiator, number};

const PATTERN: u8 = 0xa7;

/// A stopped array whose pool of two devices holds a volume, a snapshot of it and a clone.
fn stopped_array() -> Result<(Array, [PathBuf; 2])> {
    let mut array = Array::start()?;
    let files = [array.beside("a.img"), array.beside("b.img")];
    let names = files.each_ref().map(|path| format!("file:{}", path.display()));
    let [a, b] = names.each_ref();
    array.gantry(&["pool", "create", "p", "--device", a, "--device", b, "--size", "1G"])?;
    let lun = array.create_lun("p/v", "256M")?;
    let write = format!("write -P {PATTERN} 0 8M");
    initiator::qemu_io(&["-f", "raw", &array.lun_url(lun)?], &[&write])?;
    array.gantry(&["snapshot", "create", "p/v", "s"])?;
    array.gantry(&["volume", "clone", "p/v", "c"])?;
    initiator::qemu_io(&["-f", "raw", &array.lun_url(lun)?], &["write -P 1 0 1M"])?;
    assert!(array.stop()?.success());
    Ok((array, files))
}

fn verify(array: &Array, files: &[&Path], options: &[&str]) -> Result<Finished> {
    let files = files.iter().map(|path| path.to_str().context("a printable path"));
    let files = files.collect::<Result<Vec<_>>>()?;
    array.try_gantry(&[&["pool", "verify"], &files[..], options].concat())
}

#[test]
fn a_sound_pool_is_found_sound_after_a_stop_and_after_a_kill() -> Result<()> {
    let (mut array, [a, b]) = stopped_array()?;
    let before = [fs::metadata(&a)?.modified()?, fs::metadata(&b)?.modified()?];
    let report = verify(&array, &[&a, &b], &["--json"])?;
    assert!(report.stderr.contains("read"), "progress: {}", report.stderr);
    let report: Value = serde_json::from_str(&report.success()?)?;
    // A volume, its snapshot and its clone, and the one that keeps the data of tokens.
    assert_eq!((number(&report, "/fault_count")?, number(&report, "/volumes")?), (0, 4));
    assert!(number(&report, "/bytes_read")? > 9 << 20);
    let quick: Value =
        serde_json::from_str(&verify(&array, &[&a, &b], &["--quick", "--json"])?.success()?)?;
    assert!(number(&quick, "/bytes_read")? <= number(&report, "/bytes_read")? - (9 << 20));
    assert_eq!([fs::metadata(&a)?.modified()?, fs::metadata(&b)?.modified()?], before);
    array.restart()?;
    array.gantry(&["volume", "create", "p/w", "--size", "64M"])?;
    array.kill()?;
    let text = verify(&array, &[&a, &b], &[])?.success()?;
    assert!(text.contains("sound") && text.contains("5 volumes"), "{text}");
    Ok(())
}

/// Where a file holds a block of nothing but the pattern.
fn find_pattern(path: &Path) -> Result<u64> {
    let mut file = File::open(path)?;
    let mut block = [0; 4096];
    for at in (0..).step_by(4096) {
        file.read_exact(&mut block)?;
        if block == [PATTERN; 4096] {
            return Ok(at);
        }
    }
    unreachable!("the file ends before")
}

fn overwrite(path: &Path, at: u64, length: usize) -> Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.seek(SeekFrom::Start(at))?;
    Ok(file.write_all(&vec![0xee; length])?)
}

#[test]
fn damaged_data_is_named_and_the_maps_alone_are_sound() -> Result<()> {
    let (array, [a, b]) = stopped_array()?;
    overwrite(&b, find_pattern(&b)?, 512)?;
    verify(&array, &[&a, &b], &["--quick"])?.success()?;
    let report = verify(&array, &[&a, &b], &[])?;
    assert_eq!(report.status.code(), Some(1), "{report:?}");
    assert!(report.stdout.contains("data of volume") && report.stdout.contains("1 fault"));
    Ok(())
}

#[test]
fn a_pool_that_cannot_be_checked_is_told_from_a_damaged_one() -> Result<()> {
    let (mut array, [a, b]) = stopped_array()?;
    let foreign = array.beside("foreign.img");
    File::create(&foreign)?.set_len(1 << 30)?;
    let away = array.beside("away.img");
    // Devices are found by their labels, whatever their order is.
    verify(&array, &[&b, &a], &[])?.success()?;
    for (files, reason) in [
        (&[&*a][..], "missing"),
        (&[&*foreign], "no Gantry pool"),
        (&[&*away], "does not exist"),
        (&[&*a, &*a], "in use"),
    ] {
        let report = verify(&array, files, &[])?;
        assert_eq!(report.status.code(), Some(2), "{report:?}");
        assert!(report.stderr.contains(reason), "{}", report.stderr);
    }
    overwrite(&a, 0, 1 << 20)?;
    let report = verify(&array, &[&a, &b], &[])?;
    assert_ne!(report.status.code(), Some(0), "{report:?}");
    array.restart()?;
    Ok(())
}

#[test]
fn a_pool_in_use_is_refused() -> Result<()> {
    let (mut array, [a, b]) = stopped_array()?;
    array.restart()?;
    let report = verify(&array, &[&a, &b], &[])?;
    assert_eq!(report.status.code(), Some(2));
    assert!(report.stderr.contains("in use by another process"), "{}", report.stderr);
    Ok(())
}
