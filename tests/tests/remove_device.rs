//! Devices that leave pools in use: under a load of our own host, read by QEMU's initiator, over kills of
//! the daemon; mirrors; what is refused; numbers that stay.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::http::Request;
use harness::load::{Place, Worker};
use harness::waiting::wait_until;
use harness::{Array, Value, initiator, number, text};

const WORKERS: u32 = 3;

fn device(array: &Array, name: &str) -> (PathBuf, String) {
    let path = array.beside(name);
    let text = format!("file:{}", path.display());
    (path, text)
}

/// An array with a pool 'p' of such devices, 1 GiB each.
fn array_with(names: &[&str], more: &[&str]) -> Result<(Array, Vec<PathBuf>)> {
    let array = Array::start()?;
    let (paths, names): (Vec<_>, Vec<_>) = names.iter().map(|name| device(&array, name)).unzip();
    let mut words = vec!["pool", "create", "p", "--size", "1G"];
    words.extend(more);
    words.extend(names.iter().map(String::as_str));
    array.gantry(&words)?;
    Ok((array, paths))
}

fn pool(array: &Array) -> Result<Value> {
    array.gantry_json(&["pool", "show", "p"])
}

/// The numbers of the pool's devices, with their names.
fn devices(array: &Array) -> Result<Vec<(u64, String)>> {
    let pool = pool(array)?;
    let devices = pool["devices"].as_array().context("devices")?;
    let one = |device: &Value| Ok((number(device, "/index")?, text(device, "/device")?.to_owned()));
    devices.iter().map(one).collect()
}

fn left_bytes(array: &Array) -> Result<u64> {
    number(&pool(array)?, "/departure/left_bytes")
}

fn wait_until_gone(array: &Array) -> Result<()> {
    wait_until("the device has left", || {
        let pool = pool(array)?;
        let has_left = pool["departure"].is_null() && pool["state"] == "ready";
        Ok(has_left && devices(array)?.iter().all(|(number, _)| *number != 1))
    })
}

/// Neither copy of the label of a device says anything.
fn has_no_label(path: &Path) -> Result<bool> {
    use std::os::unix::fs::FileExt;
    let mut labels = vec![1; 2 * 4096];
    fs::File::open(path)?.read_exact_at(&mut labels, 4096)?;
    Ok(labels.iter().all(|&byte| byte == 0))
}

/// Checks a pool that no daemon has by its one device.
fn verify_alone(array: &Array, path: &Path) -> Result<()> {
    let path = path.to_str().context("a path in UTF-8")?;
    let verified = array.try_gantry(&["pool", "verify", path])?;
    ensure!(verified.status.success(), "{verified:?}");
    Ok(())
}

/// Runs the load for a while, and kills the daemon under it.
fn run_and_kill(
    array: &mut Array,
    place: &Place,
    workers: Vec<Worker>,
    time: Duration,
) -> Result<Vec<Worker>> {
    let threads = workers.into_iter().map(|worker| worker.start(place));
    let threads: Vec<_> = threads.collect::<Result<_>>()?;
    thread::sleep(time);
    array.kill()?;
    threads.into_iter().map(|thread| thread.join().expect("a worker returns its errors")).collect()
}

#[test]
fn a_device_leaves_under_load_over_two_kills_and_is_needed_no_more() -> Result<()> {
    let (mut array, files) = array_with(&["a.img", "b.img"], &[])?;
    let lun = u8::try_from(array.create_lun("p/load", "64M")?)?;
    let foreign = array.create_lun("p/foreign", "512M")?;
    let url = array.lun_url(foreign)?;
    initiator::qemu_io(&["-f", "raw", &url], &["write -P 0x71 0 120M", "write -P 0x72 130M 60M"])?;
    array.gantry(&["snapshot", "create", "p/foreign", "before"])?;
    initiator::qemu_io(&["-f", "raw", &url], &["write -P 0x73 100M 40M"])?;
    let place = Place { portal: array.portal(), target: array.target_name()?, lun };
    let mut workers: Vec<_> = (0..WORKERS).map(Worker::new).collect();

    array.gantry(&["pool", "remove-device", "p", "--device", "1", "--rate", "4M"])?;
    let at_first = left_bytes(&array)?;
    ensure!(at_first > 60 << 20, "{at_first} bytes are on it");
    for _ in 0..2 {
        workers = run_and_kill(&mut array, &place, workers, Duration::from_secs(2))?;
        array.restart()?;
        wait_until("the pool is open", || Ok(pool(&array)?["state"] == "ready"))?;
        let left = left_bytes(&array)?;
        ensure!(left > 0 && left < at_first + (16 << 20), "{left} of {at_first} bytes are left");
        workers.iter_mut().try_for_each(|worker| worker.verify(&place))?;
        initiator::qemu_io(
            &["-f", "raw", &url],
            &["read -P 0x71 0 100M", "read -P 0x73 100M 40M"],
        )?;
    }
    array.gantry(&["pool", "departure", "p", "resume", "--rate", "1G"])?;
    wait_until_gone(&array)?;
    let writes = workers.iter().map(Worker::writes).sum::<u64>();
    ensure!(writes > 100, "{writes} writes");
    assert_eq!(devices(&array)?, [(0, format!("file:{}", files[0].display()))]);
    let events = array.gantry(&["events"])?;
    ensure!(events.contains("has left: it may be used for anything else"), "{events}");
    ensure!(has_no_label(&files[1])?, "its label says that it is the pool's");

    fs::remove_file(&files[1])?;
    ensure!(array.stop()?.success());
    verify_alone(&array, &files[0])?;
    array.restart()?;
    assert_eq!(text(&pool(&array)?, "/state")?, "ready");
    workers.iter_mut().try_for_each(|worker| worker.verify(&place))?;
    let now = ["read -P 0x71 0 100M", "read -P 0x73 100M 40M", "read -P 0x72 140M 50M"];
    initiator::qemu_io(&["-f", "raw", &url], &now)?;
    array.gantry(&["volume", "clone", "p/before", "then"])?;
    let map = array.gantry_json(&["volume", "map", "p/then", "--host", "any"])?;
    let then = array.lun_url(u16::try_from(number(&map, "/lun")?)?)?;
    let before = ["read -P 0x71 0 120M", "read -P 0 120M 10M", "read -P 0x72 130M 60M"];
    initiator::qemu_io(&["-f", "raw", &then], &before)?;
    Ok(())
}

#[test]
fn a_mirror_leaves_with_all_of_its_devices() -> Result<()> {
    let names = ["a.img", "b.img", "c.img", "d.img"];
    let (mut array, files) = array_with(&names, &["--mirror", "2"])?;
    let url = array.lun_url(array.create_lun("p/v", "512M")?)?;
    initiator::qemu_io(&["-f", "raw", &url], &["write -P 0x33 0 100M"])?;
    let said = array.gantry(&["pool", "remove-device", "p", "--mirror", "1", "--until-gone"])?;
    ensure!(said.contains("remove-device") && said.contains("done"), "{said}");
    let after = pool(&array)?;
    assert_eq!(after["mirrors"].as_array().context("mirrors")?.len(), 1);
    assert_eq!(after["mirrors"][0]["degraded"], false);
    assert_eq!(devices(&array)?.len(), 2);
    for file in &files[2..] {
        ensure!(has_no_label(file)?, "{}", file.display());
        fs::remove_file(file)?;
    }
    array.kill()?;
    array.restart()?;
    wait_until("the pool is open", || Ok(pool(&array)?["state"] == "ready"))?;
    initiator::qemu_io(&["-f", "raw", &url], &["read -P 0x33 0 100M"])?;
    // The devices are the administrator's again.
    let (_, c) = device(&array, "c.img");
    array.gantry(&["pool", "create", "q", &c, "--size", "1G"])?;
    Ok(())
}

#[test]
fn it_rests_over_a_restart_and_stays_when_it_is_given_up() -> Result<()> {
    let (mut array, _) = array_with(&["a.img", "b.img"], &[])?;
    let url = array.lun_url(array.create_lun("p/v", "512M")?)?;
    initiator::qemu_io(&["-f", "raw", &url], &["write -P 0x44 0 80M"])?;
    array.gantry(&["pool", "remove-device", "p", "--device", "1", "--rate", "1M"])?;
    array.gantry(&["pool", "departure", "p", "pause"])?;
    let task = |array: &Array| -> Result<Value> {
        let tasks = array.gantry_json(&["task", "list"])?;
        let tasks = tasks.as_array().context("tasks")?;
        let found = tasks.iter().find(|task| task["kind"] == "remove-device");
        found.cloned().with_context(|| format!("no such task in {tasks:#?}"))
    };
    let shown = task(&array)?;
    assert_eq!(text(&shown, "/object")?, "device p/1");
    assert_eq!((&shown["paused"], &shown["can_cancel"]), (&true.into(), &true.into()), "{shown:#}");
    let left = left_bytes(&array)?;
    array.kill()?;
    array.restart()?;
    wait_until("the pool is open", || Ok(pool(&array)?["state"] == "ready"))?;
    let departure = pool(&array)?["departure"].clone();
    assert_eq!(departure["paused"], true, "{departure:#}");
    assert_eq!(number(&departure, "/rate_bytes").ok(), Some(1 << 20), "{departure:#}");
    ensure!(number(&departure, "/left_bytes")? >= left, "it moved {left}: {departure:#}");
    let text_of_it = array.gantry(&["pool", "show", "p"])?;
    ensure!(text_of_it.contains("Leaving") && text_of_it.contains("paused"), "{text_of_it}");
    let metrics = Request::new("GET", "/metrics").send_to_socket(&socket(&array))?.body;
    for sample in ["paused", "left_bytes", "copied_bytes", "waits_for_space", "unreadable_blocks"] {
        let sample = format!("gantry_pool_departure_{sample}{{pool=\"p\",device=\"1\"}} ");
        ensure!(metrics.contains(&sample), "{sample} is not in {metrics}");
    }

    let id = number(&task(&array)?, "/id")?.to_string();
    array.gantry(&["task", "resume", &id])?;
    array.gantry(&["task", "cancel", &id])?;
    ensure!(pool(&array)?["departure"].is_null());
    assert_eq!(devices(&array)?.len(), 2);
    assert_eq!(text(&array.gantry_json(&["task", "show", &id])?, "/state")?, "cancelled");
    let refused = array.try_gantry(&["pool", "departure", "p", "resume"])?.failure()?;
    ensure!(refused.contains("no device of the pool is leaving"), "{refused}");
    array.gantry(&["pool", "remove-device", "p", "--device", "1", "--until-gone"])?;
    initiator::qemu_io(&["-f", "raw", &url], &["read -P 0x44 0 80M"])?;
    Ok(())
}

fn socket(array: &Array) -> PathBuf {
    array.data().join("gantry.sock")
}

#[test]
fn what_cannot_leave_is_refused_with_a_reason() -> Result<()> {
    let (array, _) = array_with(&["a.img", "b.img"], &[])?;
    let refuse = |words: &[&str], reason: &str| -> Result<()> {
        let refusal = array.try_gantry(words)?.failure()?;
        ensure!(refusal.contains(reason), "{words:?}: {refusal}");
        Ok(())
    };
    let remove = |number| ["pool", "remove-device", "p", "--device", number];
    refuse(&remove("0"), "its journal is on it")?;
    refuse(&remove("2"), "no device 2")?;
    refuse(&["pool", "remove-device", "q", "--device", "1"], "no pool named 'q'")?;
    refuse(&["pool", "remove-device", "p", "--device", "1", "--rate", "1K"], "at least 1 MiB")?;
    array.gantry(&["volume", "create", "p/thick", "--size", "1200M", "--thick"])?;
    refuse(&remove("1"), "no room")?;
    let answer = Request::new("POST", "/v1/pools/p/devices/1/remove")
        .json(&serde_json::json!({}))
        .send_to_socket(&socket(&array))?;
    assert_eq!(answer.status, 409, "{}", answer.body);
    let problem = answer.json()?;
    assert_eq!(text(&problem, "/type")?, "urn:gantry:problem:no-space-to-leave");
    ensure!(number(&problem, "/needed_bytes")? > 200 << 20, "{problem:#}");
    ensure!(pool(&array)?["departure"].is_null());
    array.gantry(&["volume", "delete", "p/thick"])?;
    let url = array.lun_url(array.create_lun("p/v", "512M")?)?;
    initiator::qemu_io(&["-f", "raw", &url], &["write -P 0x55 0 60M"])?;
    array.gantry(&["pool", "remove-device", "p", "--device", "1", "--rate", "1M"])?;
    refuse(&remove("1"), "leaving already")?;
    refuse(&["pool", "extend", "p", "--device", "1", "--size", "2G"], "leaving the pool")?;
    Ok(())
}

#[test]
fn others_keep_their_numbers_and_one_that_joins_takes_the_free_one() -> Result<()> {
    let (mut array, files) = array_with(&["a.img", "b.img", "c.img"], &[])?;
    let url = array.lun_url(array.create_lun("p/v", "512M")?)?;
    initiator::qemu_io(&["-f", "raw", &url], &["write -P 0x66 0 90M"])?;
    array.gantry(&["pool", "remove-device", "p", "--device", "1", "--until-gone"])?;
    let name = |number: u64, path: &Path| (number, format!("file:{}", path.display()));
    let numbers = |array: &Array| {
        let mut found = devices(array)?;
        found.sort();
        anyhow::Ok(found)
    };
    for _ in 0..2 {
        assert_eq!(numbers(&array)?, [name(0, &files[0]), name(2, &files[2])]);
        array.kill()?;
        array.restart()?;
        wait_until("the pool is open", || Ok(pool(&array)?["state"] == "ready"))?;
    }
    array.gantry(&["pool", "extend", "p", "--device", "2", "--size", "2G"])?;
    assert_eq!(fs::metadata(&files[2])?.len(), 2 << 30);
    assert_eq!(fs::metadata(&files[0])?.len(), 1 << 30);
    let (path, text_of_it) = device(&array, "d.img");
    array.gantry(&["pool", "add-device", "p", &text_of_it, "--size", "1G"])?;
    let all = [name(0, &files[0]), name(1, &path), name(2, &files[2])];
    assert_eq!(numbers(&array)?, all);
    initiator::qemu_io(&["-f", "raw", &url], &["write -P 0x67 90M 90M"])?;
    ensure!(array.stop()?.success());
    array.restart()?;
    assert_eq!(numbers(&array)?, all);
    assert_eq!(number(&pool(&array)?, "/size_bytes")?, 4 << 30);
    initiator::qemu_io(&["-f", "raw", &url], &["read -P 0x66 0 90M", "read -P 0x67 90M 90M"])?;
    array.gantry(&["pool", "remove-device", "p", "--device", "2", "--until-gone"])?;
    array.gantry(&["pool", "remove-device", "p", "--device", "1", "--until-gone"])?;
    initiator::qemu_io(&["-f", "raw", &url], &["read -P 0x66 0 90M", "read -P 0x67 90M 90M"])?;
    Ok(())
}
