//! A pool file that is missing, short, foreign or damaged: a clear reason, and no byte changed.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File, OpenOptions};
use std::hash::Hasher;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use harness::{Array, Value, initiator, text};

/// Content and length of a file, in one number.
fn fingerprint(path: &Path) -> Result<u64> {
    let mut file = File::open(path)?;
    let mut hasher = DefaultHasher::new();
    let mut bytes = vec![0; 1 << 20];
    loop {
        let length = file.read(&mut bytes)?;
        if length == 0 {
            return Ok(hasher.finish());
        }
        hasher.write(&bytes[..length]);
    }
}

/// A stopped array with one pool, some data in it, and the pool's file.
fn stopped_array() -> Result<(Array, PathBuf)> {
    let mut array = Array::start()?;
    let file = array.create_pool("p", "1G")?;
    let lun = array.create_lun("p/v", "256M")?;
    initiator::qemu_io(&["-f", "raw", &array.lun_url(lun)?], &["write -P 3 0 8M"])?;
    assert!(array.stop()?.success());
    Ok((array, file))
}

fn pool(array: &Array) -> Result<Value> {
    array.gantry_json(&["pool", "show", "p"])
}

fn assert_unavailable(array: &Array, words: &[&str]) -> Result<()> {
    let pool = pool(array)?;
    assert_eq!(text(&pool, "/state")?, "unavailable");
    let reason = text(&pool, "/reason")?;
    for word in words {
        assert!(reason.contains(word), "'{reason}' does not say '{word}'");
    }
    Ok(())
}

#[test]
fn a_missing_file_is_named_and_not_made_anew() -> Result<()> {
    let (mut array, file) = stopped_array()?;
    let away = file.with_extension("away");
    fs::rename(&file, &away)?;
    array.restart()?;
    assert_unavailable(&array, &[&file.display().to_string()])?;
    assert!(!file.exists());
    assert!(array.stop()?.success());
    fs::rename(&away, &file)?;
    array.restart()?;
    assert_eq!(text(&pool(&array)?, "/state")?, "ready");
    initiator::qemu_io(&["-f", "raw", &array.lun_url(0)?], &["read -P 3 0 8M"])?;
    Ok(())
}

#[test]
fn a_short_file_is_refused_and_left_alone() -> Result<()> {
    let (mut array, file) = stopped_array()?;
    OpenOptions::new().write(true).open(&file)?.set_len(512 << 20)?;
    let before = fingerprint(&file)?;
    array.restart()?;
    assert_unavailable(&array, &[])?;
    array.stop()?;
    assert_eq!(fingerprint(&file)?, before);
    Ok(())
}

#[test]
fn a_file_of_something_else_is_refused_and_left_alone() -> Result<()> {
    let (mut array, file) = stopped_array()?;
    let foreign = File::create(&file)?;
    foreign.set_len(1 << 30)?;
    (&foreign).write_all(b"some other program's data")?;
    let before = fingerprint(&file)?;
    array.restart()?;
    assert_unavailable(&array, &[])?;
    array.stop()?;
    assert_eq!(fingerprint(&file)?, before);
    Ok(())
}

#[test]
fn a_file_of_another_pool_is_refused_and_left_alone() -> Result<()> {
    let (mut array, file) = stopped_array()?;
    let (_other, foreign) = stopped_array()?;
    fs::copy(&foreign, &file)?;
    let before = fingerprint(&file)?;
    array.restart()?;
    assert_unavailable(&array, &["another pool"])?;
    array.stop()?;
    assert_eq!(fingerprint(&file)?, before);
    Ok(())
}

#[test]
fn a_file_with_a_destroyed_head_is_refused_and_left_alone() -> Result<()> {
    let (mut array, file) = stopped_array()?;
    let mut damaged = OpenOptions::new().write(true).open(&file)?;
    damaged.seek(SeekFrom::Start(0))?;
    damaged.write_all(&vec![0xee; 1 << 20])?;
    let before = fingerprint(&file)?;
    array.restart()?;
    let state = pool(&array)?;
    // A second copy of the head elsewhere may save the pool; otherwise it is left as it is.
    if text(&state, "/state")? == "ready" {
        initiator::qemu_io(&["-f", "raw", &array.lun_url(0)?], &["read -P 3 0 8M"])?;
        return Ok(());
    }
    array.stop()?;
    assert_eq!(fingerprint(&file)?, before);
    Ok(())
}

#[test]
fn creating_a_pool_on_an_existing_file_is_refused_and_leaves_it_alone() -> Result<()> {
    let array = Array::start()?;
    let path = array.beside("precious.img");
    fs::write(&path, b"precious")?;
    let device = format!("file:{}", path.display());
    let words = ["pool", "create", "p", "--device", &device, "--size", "1G"];
    let refusal = array.try_gantry(&words)?.failure()?;
    assert!(refusal.contains("precious.img"), "{refusal}");
    assert_eq!(fs::read(&path)?, b"precious");
    assert_eq!(array.gantry_json(&["pool", "list"])?, serde_json::json!([]));
    Ok(())
}
