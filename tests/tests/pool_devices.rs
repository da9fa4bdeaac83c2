//! Pools of several devices: made, joined and grown under load, and refused when one is not what
//! it was.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File, OpenOptions};
use std::hash::Hasher;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use harness::load::{Place, Worker};
use harness::{Array, Value, generations, initiator, number, text};

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

fn device(array: &Array, name: &str) -> (PathBuf, String) {
    let path = array.beside(name);
    let text = format!("file:{}", path.display());
    (path, text)
}

/// An array with a pool of two devices, 1 GiB each.
fn array_with_two_devices() -> Result<(Array, [PathBuf; 2])> {
    let array = Array::start()?;
    let (a, a_name) = device(&array, "a.img");
    let (b, b_name) = device(&array, "b.img");
    let words = ["pool", "create", "p", "--device", &a_name, "--device", &b_name, "--size", "1G"];
    array.gantry(&words)?;
    Ok((array, [a, b]))
}

fn pool(array: &Array) -> Result<Value> {
    array.gantry_json(&["pool", "show", "p"])
}

fn device_count(array: &Array) -> Result<usize> {
    Ok(pool(array)?["devices"].as_array().context("devices")?.len())
}

/// Blocks that the file system has given to a file: a device that is used has many.
fn used_bytes(path: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    Ok(fs::metadata(path)?.blocks() * 512)
}

/// Stops the daemon, lets `harm` happen, and checks that the pool is refused with those words and
/// that nothing was written.
fn assert_refused(
    harm: impl FnOnce(&Array, &[PathBuf; 2]) -> Result<()>,
    words: &[&str],
) -> Result<()> {
    let (mut array, files) = array_with_two_devices()?;
    let lun = array.create_lun("p/v", "256M")?;
    initiator::qemu_io(&["-f", "raw", &array.lun_url(lun)?], &["write -P 3 0 8M"])?;
    assert!(array.stop()?.success());
    harm(&array, &files)?;
    let there = || files.iter().filter(|path| path.exists());
    let before = there().map(|path| fingerprint(path)).collect::<Result<Vec<_>>>()?;
    array.restart()?;
    let pool = pool(&array)?;
    assert_eq!(text(&pool, "/state")?, "unavailable");
    let reason = text(&pool, "/reason")?.to_owned();
    for word in words {
        assert!(reason.contains(word), "'{reason}' does not say '{word}'");
    }
    let event = &array.gantry_json(&["events"])?[0];
    assert!(text(event, "/message")?.contains(&reason), "{event}");
    array.stop()?;
    assert_eq!(there().map(|path| fingerprint(path)).collect::<Result<Vec<_>>>()?, before);
    Ok(())
}

#[test]
fn data_is_spread_over_all_devices_and_there_after_a_kill() -> Result<()> {
    let (mut array, files) = array_with_two_devices()?;
    let lun = array.create_lun("p/v", "1G")?;
    let url = array.lun_url(lun)?;
    initiator::qemu_io(&["-f", "raw", &url], &["write -P 7 0 300M"])?;
    for file in &files {
        assert!(used_bytes(file)? > 60 << 20, "{}: {}", file.display(), used_bytes(file)?);
    }
    array.kill()?;
    array.restart()?;
    initiator::qemu_io(&["-f", "raw", &url], &["read -P 7 0 300M"])?;
    assert_eq!(number(&pool(&array)?, "/size_bytes")?, 2 << 30);
    Ok(())
}

#[test]
fn devices_join_and_grow_under_a_verifying_load() -> Result<()> {
    let mut array = Array::start()?;
    array.create_pool("p", "1G")?;
    let lun = u8::try_from(array.create_lun("p/v", "1G")?)?;
    let place = Place { portal: array.portal(), target: array.target_name()?, lun };
    let workers = (0..3).map(|number| Worker::new(number).start(&place));
    let workers = workers.collect::<Result<Vec<_>>>()?;
    let total = |array: &Array| number(&pool(array)?, "/space/total_bytes");
    let first = total(&array)?;
    let (added, name) = device(&array, "b.img");
    array.gantry(&["pool", "add-device", "p", &name, "--size", "1G"])?;
    let second = total(&array)?;
    assert!(second > first + (900 << 20), "{first} {second}");
    array.gantry(&["pool", "extend", "p", "--device", "1", "--size", "2G"])?;
    let third = total(&array)?;
    assert!(third > second + (900 << 20), "{second} {third}");
    array.gantry(&["pool", "extend", "p", "--device", "0", "--size", "2G"])?;
    assert!(total(&array)? > third + (900 << 20));
    thread::sleep(Duration::from_secs(1));
    array.kill()?;
    let mut workers: Vec<Worker> = workers
        .into_iter()
        .map(|worker| worker.join().expect("a worker returns its errors"))
        .collect::<Result<_>>()?;
    array.restart()?;
    assert_eq!(text(&pool(&array)?, "/state")?, "ready");
    assert_eq!((device_count(&array)?, number(&pool(&array)?, "/size_bytes")?), (2, 4 << 30));
    workers.iter_mut().try_for_each(|worker| worker.verify(&place))?;
    assert!(workers.iter().map(Worker::writes).sum::<u64>() > 100);
    assert!(used_bytes(&added)? > 1 << 20);
    Ok(())
}

#[test]
fn wrong_devices_and_sizes_are_refused_with_a_reason() -> Result<()> {
    let (array, [first, _]) = array_with_two_devices()?;
    let (_, c) = device(&array, "c.img");
    let first = format!("file:{}", first.display());
    let refuse = |words: &[&str], reason: &str| -> Result<()> {
        let refusal = array.try_gantry(words)?.failure()?;
        assert!(refusal.contains(reason), "{words:?}: {refusal}");
        Ok(())
    };
    refuse(&["pool", "add-device", "p", &first, "--size", "1G"], "already belongs to pool 'p'")?;
    refuse(&["pool", "add-device", "q", &c, "--size", "1G"], "no pool named 'q'")?;
    refuse(&["pool", "add-device", "p", &c], "--size")?;
    refuse(&["pool", "add-device", "p", &c, "--size", "100M"], "at least 1 GiB")?;
    refuse(&["pool", "extend", "p", "--size", "4G"], "--device")?;
    refuse(&["pool", "extend", "p", "--device", "2", "--size", "4G"], "--device")?;
    refuse(&["pool", "extend", "p", "--device", "1", "--size", "1G"], "only grows")?;
    let twice = ["pool", "create", "q", "--device", &c, "--device", &c, "--size", "1G"];
    refuse(&twice, "is named twice")?;
    let taken = ["pool", "create", "q", "--device", &c, "--device", &first, "--size", "1G"];
    refuse(&taken, "already belongs to pool 'p'")?;
    let precious = array.beside("precious.img");
    fs::write(&precious, b"precious")?;
    let exists = format!("file:{}", precious.display());
    let half = ["pool", "create", "q", "--device", &c, "--device", &exists, "--size", "1G"];
    refuse(&half, "precious.img")?;
    assert!(!array.beside("c.img").exists(), "what was made for nothing is removed");
    assert_eq!(fs::read(&precious)?, b"precious");
    assert_eq!(device_count(&array)?, 2);
    Ok(())
}

#[test]
fn a_missing_device_is_named_and_not_made_anew() -> Result<()> {
    assert_refused(
        |_, [_, second]| Ok(fs::rename(second, second.with_extension("away"))?),
        &["device 1", "b.img", "does not exist"],
    )
}

#[test]
fn a_short_device_is_named_and_left_alone() -> Result<()> {
    assert_refused(
        |_, [_, second]| Ok(OpenOptions::new().write(true).open(second)?.set_len(512 << 20)?),
        &["b.img", "cut short"],
    )
}

#[test]
fn a_device_of_something_else_is_named_and_left_alone() -> Result<()> {
    assert_refused(
        |_, [_, second]| {
            fs::write(second, b"some other program's data")?;
            Ok(OpenOptions::new().write(true).open(second)?.set_len(1 << 30)?)
        },
        &["b.img", "device 1"],
    )
}

#[test]
fn devices_that_changed_places_are_found_by_their_labels_and_grow_where_they_are() -> Result<()> {
    let (mut array, [first, second]) = array_with_two_devices()?;
    let lun = array.create_lun("p/v", "256M")?;
    let url = array.lun_url(lun)?;
    initiator::qemu_io(&["-f", "raw", &url], &["write -P 3 0 8M"])?;
    assert!(array.stop()?.success());
    let away = array.beside("away.img");
    fs::rename(&first, &away)?;
    fs::rename(&second, &first)?;
    fs::rename(&away, &second)?;
    array.restart()?;
    assert_eq!(text(&pool(&array)?, "/state")?, "ready");
    initiator::qemu_io(&["-f", "raw", &url], &["read -P 3 0 8M"])?;
    // The second device of the pool lies in the first file now.
    array.gantry(&["pool", "extend", "p", "--device", "1", "--size", "2G"])?;
    assert_eq!(fs::metadata(&first)?.len(), 2 << 30);
    assert_eq!(fs::metadata(&second)?.len(), 1 << 30);
    initiator::qemu_io(&["-f", "raw", &url], &["write -P 4 8M 8M", "read -P 4 8M 8M"])?;
    assert!(array.stop()?.success());
    array.restart()?;
    assert_eq!(text(&pool(&array)?, "/state")?, "ready");
    initiator::qemu_io(&["-f", "raw", &url], &["read -P 3 0 8M", "read -P 4 8M 8M"])?;
    Ok(())
}

/// Edits the saved configuration of a stopped array.
fn edit_configuration(array: &Array, edit: impl FnOnce(&mut Value)) -> Result<()> {
    let mut configuration = generations::read(array, "gantry.json")?;
    edit(&mut configuration);
    generations::replace(array, "gantry.json", &configuration)
}

#[test]
fn a_device_that_was_configured_but_had_not_joined_joins_at_the_next_start() -> Result<()> {
    let mut array = Array::start()?;
    array.create_pool("p", "1G")?;
    assert!(array.stop()?.success());
    let (path, name) = device(&array, "b.img");
    File::create(&path)?.set_len(1 << 30)?;
    edit_configuration(&array, |configuration| {
        let devices = &mut configuration["pools"]["p"]["devices"];
        let new = serde_json::json!({ "device": name, "size_bytes": 1_u64 << 30 });
        devices.as_array_mut().expect("a list").push(new);
    })?;
    array.restart()?;
    assert_eq!(text(&pool(&array)?, "/state")?, "ready");
    assert_eq!((device_count(&array)?, number(&pool(&array)?, "/size_bytes")?), (2, 2 << 30));
    assert!(number(&pool(&array)?, "/space/total_bytes")? > 18 << 26);
    Ok(())
}

#[test]
fn a_device_that_had_not_joined_and_is_gone_does_not_keep_the_pool_away() -> Result<()> {
    let mut array = Array::start()?;
    array.create_pool("p", "1G")?;
    assert!(array.stop()?.success());
    let (_, name) = device(&array, "b.img");
    edit_configuration(&array, |configuration| {
        let devices = &mut configuration["pools"]["p"]["devices"];
        let new = serde_json::json!({ "device": name, "size_bytes": 1_u64 << 30 });
        devices.as_array_mut().expect("a list").push(new);
    })?;
    array.restart()?;
    assert_eq!((text(&pool(&array)?, "/state")?, device_count(&array)?), ("ready", 1));
    let events = array.gantry_json(&["events"])?.to_string();
    assert!(events.contains("b.img") && events.contains("forgotten"), "{events}");
    Ok(())
}

#[test]
fn a_configuration_of_the_first_form_is_read() -> Result<()> {
    let mut array = Array::start()?;
    array.create_pool("p", "1G")?;
    let lun = array.create_lun("p/v", "256M")?;
    initiator::qemu_io(&["-f", "raw", &array.lun_url(lun)?], &["write -P 3 0 1M"])?;
    assert!(array.stop()?.success());
    edit_configuration(&array, |configuration| {
        let pool = &mut configuration["pools"]["p"];
        let device = pool["devices"][0].clone();
        let uuid = pool["uuid"].clone();
        let (name, size) = (&device["device"], &device["size_bytes"]);
        *pool = serde_json::json!({ "uuid": uuid, "device": name, "size_bytes": size });
    })?;
    array.restart()?;
    initiator::qemu_io(&["-f", "raw", &array.lun_url(lun)?], &["read -P 3 0 1M"])?;
    assert_eq!(device_count(&array)?, 1);
    Ok(())
}

#[test]
fn memory_is_divided_among_the_pools_and_too_little_is_refused() -> Result<()> {
    let mut array = Array::start()?.with_words(&[], &["--memory", "512M"]);
    array.create_pool("p", "1G")?;
    array.create_pool("q", "1G")?;
    array.stop()?;
    array.restart()?;
    assert_eq!(number(&pool(&array)?, "/memory_bytes")?, 256 << 20);
    array.stop()?;
    let mut array = array.with_words(&[], &["--memory", "100M"]);
    let refusal = array.restart().expect_err("too little memory").to_string();
    assert!(refusal.contains("256M"), "{refusal}");
    Ok(())
}
