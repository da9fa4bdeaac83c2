//! Mirrors: one device of a mirror fails, hangs, is cut off or is missing at the start while a host
//! writes and reads; it comes back, is replaced, and a spare steps in; mirrors join and grow. The host
//! sees no error.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use harness::faulty_folder::{EIO, FaultyFolder};
use harness::pdu::RawSession;
use harness::waiting::wait_until;
use harness::{Array, Value, text};
use rustix::process::{Pid, Signal, kill_process};

const BLOCK: usize = 4096;

fn show(array: &Array) -> Result<Value> {
    array.gantry_json(&["pool", "show", "p"])
}

/// The states of the members, by the ends of their names.
fn states(array: &Array) -> Result<Vec<(String, String)>> {
    let pool = show(array)?;
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

fn wait_for_states(array: &Array, wanted: &[(&str, &str)]) -> Result<()> {
    let mut last = Vec::new();
    let reached = wait_until("states", || {
        last = states(array)?;
        let as_text: Vec<(&str, &str)> =
            last.iter().map(|(name, state)| (name.as_str(), state.as_str())).collect();
        Ok(as_text == wanted)
    });
    reached.with_context(|| format!("{last:?} instead of {wanted:?}: {:#?}", array.log()))
}

/// How often an event says so.
fn told(array: &Array, words: &str) -> Result<u64> {
    let events = array.gantry_json(&["events"])?;
    let events = events.as_array().into_iter().flatten();
    let of_them =
        events.filter(|event| event["message"].as_str().is_some_and(|m| m.contains(words)));
    Ok(of_them.map(|event| event["count"].as_u64().unwrap_or(1)).sum())
}

fn log_in(array: &Array) -> Result<RawSession> {
    RawSession::log_in(array.portal(), "iqn.2026-01.org.example:a", &array.target_name()?)
}

fn write(session: &mut RawSession, at: u8, byte: u8) -> Result<()> {
    let cdb = [0x2a, 0x08, 0, 0, 0, at * 8, 0, 0, 8, 0];
    let code = session.write(0, &cdb, &[byte; BLOCK])?.code();
    ensure!(code.is_none(), "a write of block {at} ended with {code:?}");
    Ok(())
}

fn read(session: &mut RawSession, at: u8) -> Result<u8> {
    let cdb = [0x28, 0, 0, 0, 0, at * 8, 0, 0, 8, 0];
    let data = session.read(0, &cdb, BLOCK as u32)?.good()?;
    ensure!(data.iter().all(|&byte| byte == data[0]), "a mixture");
    Ok(data[0])
}

/// A host that writes and reads 32 blocks round and round.
struct Host {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(Vec<u8>, Duration, u64)>>,
}

impl Host {
    fn start(array: &Array) -> Result<Self> {
        let mut session = log_in(array)?;
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (mut blocks, mut longest, mut rounds) = (vec![0_u8; 32], Duration::ZERO, 0);
            while !until.load(Ordering::Relaxed) {
                for at in 0..32_u8 {
                    let begun = Instant::now();
                    let byte = blocks[usize::from(at)].wrapping_add(at % 7 + 1);
                    write(&mut session, at, byte)?;
                    blocks[usize::from(at)] = byte;
                    let found = read(&mut session, at)?;
                    ensure!(found == byte, "block {at}: {found} instead of {byte}");
                    longest = longest.max(begun.elapsed());
                }
                rounds += 1;
            }
            Ok((blocks, longest, rounds))
        });
        Ok(Self { stop, thread })
    }

    /// Ends it; what it wrote, and how long the longest write with the read after it took.
    fn stop(self) -> Result<(Vec<u8>, Duration)> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.join().map_err(|_| anyhow!("a thread panicked"))?;
        let (blocks, longest, rounds) = ended?;
        ensure!(rounds > 0, "the host did nothing");
        Ok((blocks, longest))
    }
}

fn check(array: &Array, blocks: &[u8]) -> Result<()> {
    let mut session = log_in(array)?;
    for (at, &byte) in (0_u8..).zip(blocks) {
        let found = read(&mut session, at)?;
        ensure!(found == byte, "block {at}: {found} instead of {byte}");
    }
    Ok(())
}

/// An array with a mirror of two, the first of which lies in an ordinary folder, the second on a file
/// system that can fail.
fn mirrored(disk: &FaultyFolder) -> Result<(Array, PathBuf)> {
    let mut array = Array::prepare()?.with_words(&[], &["--hang-limit", "1"]);
    array.restart()?;
    let first = array.beside("a.img");
    let devices = [&first, &disk.file("b.img")].map(|path| format!("file:{}", path.display()));
    let [a, b] = &devices;
    array.gantry(&["pool", "create", "p", "--mirror", "2", a, b, "--size", "1G"])?;
    array.create_lun("p/v", "64M")?;
    wait_for_states(&array, &[("a.img", "current"), ("b.img", "current")])?;
    Ok((array, first))
}

#[test]
fn a_mirror_is_as_large_as_one_of_its_devices_and_is_shown() -> Result<()> {
    let disk = FaultyFolder::mount_with_size(2 << 30)?;
    let (array, _) = mirrored(&disk)?;
    let pool = show(&array)?;
    assert_eq!(pool["size_bytes"], 1_u64 << 30);
    assert_eq!(pool["hang_limit_seconds"], 1);
    assert_eq!(pool["mirrors"][0]["degraded"], false);
    assert_eq!(pool["devices"].as_array().context("devices")?.len(), 2);
    let shown = array.gantry(&["pool", "show", "p"])?;
    for words in ["Mirror 0", "whole", "current", "b.img", "Hang limit"] {
        assert!(shown.contains(words), "'{words}' is not in {shown}");
    }
    let uneven =
        array.try_gantry(&["pool", "create", "q", "--mirror", "2", "memory:", "--size", "1G"])?;
    assert!(uneven.stderr.contains("cannot be divided"), "{uneven:?}");
    Ok(())
}

#[test]
fn a_device_that_fails_while_a_host_writes_is_left_out_without_an_error_also_over_a_restart()
-> Result<()> {
    let disk = FaultyFolder::mount_with_size(2 << 30)?;
    let (mut array, _) = mirrored(&disk)?;
    let host = Host::start(&array)?;
    thread::sleep(Duration::from_millis(300));
    disk.fail(u64::MAX);
    wait_for_states(&array, &[("a.img", "current"), ("b.img", "absent")])?;
    thread::sleep(Duration::from_millis(500));
    let (blocks, _) = host.stop()?;
    check(&array, &blocks)?;
    wait_until("an event", || Ok(told(&array, "goes on without")? == 1))?;
    assert_eq!(text(&show(&array)?, "/state")?, "ready");
    assert_eq!(show(&array)?["mirrors"][0]["degraded"], true);
    // The stale copy can be read again, and is not taken for a current one.
    disk.fail(0);
    array.kill()?;
    let away = disk.file("b.away");
    std::fs::rename(disk.file("b.img"), &away)?;
    array.restart()?;
    wait_for_states(&array, &[("a.img", "current"), ("b.img", "absent")])?;
    check(&array, &blocks)?;
    Ok(())
}

#[test]
fn a_device_that_hangs_holds_a_host_up_no_longer_than_the_limit() -> Result<()> {
    let disk = FaultyFolder::mount_with_size(2 << 30)?;
    let (array, _) = mirrored(&disk)?;
    let host = Host::start(&array)?;
    thread::sleep(Duration::from_millis(300));
    let stall = disk.stall();
    wait_for_states(&array, &[("a.img", "current"), ("b.img", "absent")])?;
    thread::sleep(Duration::from_millis(500));
    let (blocks, longest) = host.stop()?;
    check(&array, &blocks)?;
    // The limit of 1 s for a write and for a read, and what a loaded machine adds.
    assert!(longest < Duration::from_secs(8), "{longest:?}");
    drop(stall);
    check(&array, &blocks)?;
    Ok(())
}

#[test]
fn a_file_that_is_cut_off_under_the_array_is_left_out() -> Result<()> {
    let disk = FaultyFolder::mount_with_size(2 << 30)?;
    let (array, first) = mirrored(&disk)?;
    let host = Host::start(&array)?;
    thread::sleep(Duration::from_millis(300));
    let file = std::fs::OpenOptions::new().write(true).open(&first)?;
    file.set_len(0)?;
    wait_for_states(&array, &[("a.img", "absent"), ("b.img", "current")])?;
    let (blocks, _) = host.stop()?;
    check(&array, &blocks)?;
    assert_eq!(text(&show(&array)?, "/state")?, "ready");
    Ok(())
}

// Reads and writes of a file that has no name any more succeed, until the daemon stops.
#[test]
fn a_file_that_is_removed_under_the_array_is_left_out_and_the_last_one_can_be_saved() -> Result<()>
{
    let disk = FaultyFolder::mount_with_size(2 << 30)?;
    let (mut array, first) = mirrored(&disk)?;
    let host = Host::start(&array)?;
    std::fs::rename(&first, first.with_extension("away"))?;
    wait_until("an event", || Ok(told(&array, "was moved while it is in use")? == 1))?;
    std::fs::rename(first.with_extension("away"), &first)?;
    wait_until("an event", || Ok(told(&array, "is at its place again")? == 1))?;
    wait_for_states(&array, &[("a.img", "current"), ("b.img", "current")])?;
    std::fs::remove_file(disk.file("b.img"))?;
    wait_for_states(&array, &[("a.img", "current"), ("b.img", "absent")])?;
    assert_eq!(told(&array, "was removed while it was in use")?, 1);
    // The last copy serves on.
    std::fs::remove_file(&first)?;
    wait_until("an event", || Ok(told(&array, "its content is lost when the daemon stops")? == 1))?;
    wait_for_states(&array, &[("a.img", "current"), ("b.img", "absent")])?;
    let saved = format!("file:{}", first.with_file_name("c.img").display());
    array.gantry(&["pool", "attach", "p", &saved])?;
    let all = [("a.img", "absent"), ("b.img", "absent"), ("c.img", "current")];
    wait_for_states(&array, &all)?;
    let (blocks, _) = host.stop()?;
    array.kill()?;
    array.restart()?;
    wait_for_states(&array, &all)?;
    check(&array, &blocks)?;
    Ok(())
}

#[test]
fn a_pool_opens_without_a_member_and_never_with_a_stale_one_alone() -> Result<()> {
    let disk = FaultyFolder::mount_with_size(2 << 30)?;
    let (mut array, first) = mirrored(&disk)?;
    write(&mut log_in(&array)?, 3, 4)?;
    assert!(array.stop()?.success());
    let (b, b_away) = (disk.file("b.img"), disk.file("b.away"));
    std::fs::rename(&b, &b_away)?;
    array.restart()?;
    wait_for_states(&array, &[("a.img", "current"), ("b.img", "absent")])?;
    write(&mut log_in(&array)?, 3, 5)?;
    array.kill()?;
    // Only the copy that lacks the last write is there.
    let a_away = first.with_extension("away");
    std::fs::rename(&first, &a_away)?;
    std::fs::rename(&b_away, &b)?;
    array.restart()?;
    assert_eq!(text(&show(&array)?, "/state")?, "unavailable");
    let refused = array.try_gantry(&["pool", "open", "p", "--degraded"])?;
    assert!(!refused.status.success(), "{refused:?}");
    std::fs::rename(&a_away, &first)?;
    wait_until("the pool opens", || Ok(text(&show(&array)?, "/state")? == "ready"))?;
    assert_eq!(read(&mut log_in(&array)?, 3)?, 5);
    Ok(())
}

#[test]
fn a_device_that_is_there_again_is_caught_up_by_itself_and_can_serve_alone() -> Result<()> {
    let disk = FaultyFolder::mount_with_size(2 << 30)?;
    let (mut array, first) = mirrored(&disk)?;
    let host = Host::start(&array)?;
    thread::sleep(Duration::from_millis(300));
    disk.fail(u64::MAX);
    wait_for_states(&array, &[("a.img", "current"), ("b.img", "absent")])?;
    thread::sleep(Duration::from_millis(500));
    disk.fail(0);
    wait_for_states(&array, &[("a.img", "current"), ("b.img", "current")])?;
    let (blocks, _) = host.stop()?;
    wait_until("an event", || Ok(told(&array, "the mirror is whole")? >= 1))?;
    assert_eq!(show(&array)?["mirrors"][0]["degraded"], false);
    // What came back holds everything.
    array.kill()?;
    std::fs::rename(&first, first.with_extension("away"))?;
    array.restart()?;
    wait_for_states(&array, &[("a.img", "absent"), ("b.img", "current")])?;
    check(&array, &blocks)?;
    // So does what was away then, when it is there again.
    write(&mut log_in(&array)?, 31, 99)?;
    std::fs::rename(first.with_extension("away"), &first)?;
    wait_for_states(&array, &[("a.img", "current"), ("b.img", "current")])?;
    assert_eq!(read(&mut log_in(&array)?, 31)?, 99);
    Ok(())
}

#[test]
fn a_device_is_replaced_and_a_plain_pool_becomes_a_mirror_while_a_host_writes() -> Result<()> {
    let mut array = Array::start()?;
    let first = array.create_pool("p", "1G")?;
    array.create_lun("p/v", "64M")?;
    let host = Host::start(&array)?;
    let file = |name: &str| format!("file:{}", first.with_file_name(name).display());
    let first_name = first.file_name().and_then(|name| name.to_str()).context("a name")?;
    array.gantry(&["pool", "attach", "p", &file("b.img")])?;
    wait_for_states(&array, &[(first_name, "current"), ("b.img", "current")])?;
    let old = format!("file:{}", first.display());
    array.gantry(&["pool", "replace", "p", &old, &file("c.img")])?;
    wait_for_states(&array, &[("b.img", "current"), ("c.img", "current")])?;
    let (blocks, _) = host.stop()?;
    check(&array, &blocks)?;
    let gone = array.try_gantry(&["pool", "detach", "p", &old])?;
    assert!(gone.stderr.contains("no mirror of pool p has"), "{gone:?}");
    assert!(first.exists(), "its content is left as it is");
    // The configuration knows the devices that there are now.
    array.kill()?;
    array.restart()?;
    wait_for_states(&array, &[("b.img", "current"), ("c.img", "current")])?;
    check(&array, &blocks)?;
    array.gantry(&["pool", "detach", "p", &file("b.img")])?;
    wait_for_states(&array, &[("c.img", "current")])?;
    let last = array.try_gantry(&["pool", "detach", "p", &file("c.img")])?;
    assert!(last.stderr.contains("only current copy"), "{last:?}");
    check(&array, &blocks)?;
    Ok(())
}

#[test]
fn a_spare_steps_in_for_a_device_that_does_not_come_back() -> Result<()> {
    let disk = FaultyFolder::mount_with_size(2 << 30)?;
    let (array, first) = mirrored(&disk)?;
    let spare = format!("file:{}", first.with_file_name("s.img").display());
    array.gantry(&["pool", "spare", "add", "p", &spare, "--size", "1G"])?;
    assert!(array.gantry(&["pool", "show", "p"])?.contains("s.img"));
    let taken = array.try_gantry(&["pool", "create", "q", &spare, "--size", "1G"])?;
    assert!(!taken.status.success(), "{taken:?}");
    let host = Host::start(&array)?;
    disk.fail(u64::MAX);
    wait_for_states(&array, &[("a.img", "current"), ("s.img", "current")])?;
    let (blocks, _) = host.stop()?;
    check(&array, &blocks)?;
    assert!(told(&array, "steps in")? >= 1);
    assert_eq!(show(&array)?["spares"].as_array().context("spares")?.len(), 0);
    assert_eq!(show(&array)?["mirrors"][0]["degraded"], false);
    Ok(())
}

#[test]
fn a_device_that_answers_many_reads_with_errors_is_left_out_and_a_spare_steps_in() -> Result<()> {
    let disk = FaultyFolder::mount_with_size(2 << 30)?;
    let (array, first) = mirrored(&disk)?;
    let spare = format!("file:{}", first.with_file_name("s.img").display());
    array.gantry(&["pool", "spare", "add", "p", &spare, "--size", "1G"])?;
    assert_eq!(show(&array)?["read_errors_max"], 16);
    let host = Host::start(&array)?;
    disk.fail_reads(EIO);
    wait_for_states(&array, &[("a.img", "current"), ("s.img", "current")])?;
    let (blocks, _) = host.stop()?;
    check(&array, &blocks)?;
    assert!(told(&array, "reads within an hour with errors")? >= 1);
    Ok(())
}

/// A mirror of three has a fourth member while one of them is replaced, and no longer.
#[test]
fn a_device_of_three_is_replaced_by_hand_and_by_a_spare() -> Result<()> {
    let array = Array::start()?;
    let [a, b, c, d, s] = ["a", "b", "c", "d", "s"].map(|name| {
        let path = array.beside(&format!("{name}.img"));
        (format!("file:{}", path.display()), path)
    });
    array.gantry(&["pool", "create", "p", "--mirror", "3", &a.0, &b.0, &c.0, "--size", "1G"])?;
    array.create_lun("p/v", "64M")?;
    let host = Host::start(&array)?;
    array.gantry(&["pool", "replace", "p", &c.0, &d.0])?;
    let three = |last| [("a.img", "current"), ("b.img", "current"), (last, "current")];
    wait_for_states(&array, &three("d.img"))?;
    let fourth = array.try_gantry(&["pool", "attach", "p", &c.0, "--size", "1G"])?;
    assert!(fourth.stderr.contains("as many as it can have"), "{fourth:?}");
    wait_until("the array has put the old device aside and takes a spare", || {
        let added = array.try_gantry(&["pool", "spare", "add", "p", &s.0, "--size", "1G"])?;
        ensure!(added.status.success() || added.stderr.contains("just being changed"), "{added:?}");
        Ok(added.status.success())
    })?;
    std::fs::remove_file(&d.1)?;
    wait_for_states(&array, &three("s.img"))?;
    let (blocks, _) = host.stop()?;
    check(&array, &blocks)?;
    assert_eq!(show(&array)?["mirrors"][0]["degraded"], false);
    Ok(())
}

/// Names of files beside each other, as devices.
fn beside(first: &Path, names: [&str; 2]) -> [String; 2] {
    names.map(|name| format!("file:{}", first.with_file_name(name).display()))
}

#[test]
fn a_mirror_joins_a_pool_in_use_and_a_plain_device_does_not() -> Result<()> {
    let disk = FaultyFolder::mount_with_size(2 << 30)?;
    let (mut array, first) = mirrored(&disk)?;
    let [c, d] = beside(&first, ["c.img", "d.img"]);
    let host = Host::start(&array)?;
    let alone = array.try_gantry(&["pool", "add-device", "p", &c, "--size", "1G"])?;
    assert!(alone.stderr.contains("name 2 or 3 devices at once"), "{alone:?}");
    assert!(!first.with_file_name("c.img").exists());
    // One of the two cannot be made: none is, and none is known.
    std::fs::write(first.with_file_name("d.img"), b"another's")?;
    let taken = array.try_gantry(&["pool", "add-device", "p", &c, &d, "--size", "1G"])?;
    assert!(!taken.status.success(), "{taken:?}");
    assert!(!first.with_file_name("c.img").exists());
    assert_eq!(show(&array)?["devices"].as_array().context("devices")?.len(), 2);
    std::fs::remove_file(first.with_file_name("d.img"))?;
    array.gantry(&["pool", "add-device", "p", &c, &d, "--size", "1G"])?;
    let all = ["a.img", "b.img", "c.img", "d.img"].map(|name| (name, "current"));
    wait_for_states(&array, &all)?;
    assert_eq!(show(&array)?["size_bytes"], 2_u64 << 30);
    wait_until("an event", || Ok(told(&array, "mirror 1 of 2 devices has joined")? == 1))?;
    let (blocks, _) = host.stop()?;
    array.kill()?;
    std::fs::rename(first.with_file_name("c.img"), first.with_file_name("c.away"))?;
    array.restart()?;
    let mut without = all;
    without[2].1 = "absent";
    wait_for_states(&array, &without)?;
    check(&array, &blocks)?;
    std::fs::rename(first.with_file_name("c.away"), first.with_file_name("c.img"))?;
    wait_for_states(&array, &all)?;
    Ok(())
}

#[test]
fn a_daemon_that_is_killed_while_a_mirror_joins_finds_it_or_has_it_join_then() -> Result<()> {
    let disk = FaultyFolder::mount_with_size(2 << 30)?;
    let (mut array, first) = mirrored(&disk)?;
    write(&mut log_in(&array)?, 3, 7)?;
    let mut devices = 2;
    for round in 0..6_u64 {
        let names = [format!("c{round}.img"), format!("d{round}.img")];
        let [c, d] = beside(&first, [&names[0], &names[1]]);
        let words = ["pool", "add-device", "p", &c, &d, "--size", "1G"];
        let ended = thread::scope(|scope| -> Result<_> {
            let asked = scope.spawn(|| array.try_gantry(&words));
            thread::sleep(Duration::from_millis(round * 12));
            let id = i32::try_from(array.process_id()?)?;
            kill_process(Pid::from_raw(id).context("a process id")?, Signal::KILL)?;
            asked.join().map_err(|_| anyhow!("a thread panicked"))?
        })?;
        array.kill()?;
        array.restart()?;
        wait_until("the pool is ready", || Ok(text(&show(&array)?, "/state")? == "ready"))?;
        // Whatever is configured is in use: a file that was made before it was configured is not.
        wait_until("what was begun is settled", || {
            let pool = show(&array)?;
            let mirrors = pool["mirrors"].as_array().context("mirrors")?.len();
            Ok(pool["devices"].as_array().context("devices")?.len() == 2 * mirrors)
        })?;
        let now = show(&array)?["devices"].as_array().context("devices")?.len();
        ensure!(now >= devices && (!ended.status.success() || now == devices + 2), "{ended:?}");
        devices = now;
        assert_eq!(read(&mut log_in(&array)?, 3)?, 7);
    }
    Ok(())
}

#[test]
fn a_mirror_grows_with_its_members_and_takes_back_none_that_is_too_small() -> Result<()> {
    let disk = FaultyFolder::mount_with_size(2 << 30)?;
    let (mut array, first) = mirrored(&disk)?;
    let host = Host::start(&array)?;
    let extend =
        |array: &Array, size: &str| array.try_gantry(&["pool", "extend", "p", "--size", size]);
    disk.fail(u64::MAX);
    wait_for_states(&array, &[("a.img", "current"), ("b.img", "absent")])?;
    let refused = extend(&array, "2G")?;
    assert!(refused.stderr.contains("b.img of mirror 0 is absent"), "{refused:?}");
    assert_eq!(std::fs::metadata(&first)?.len(), 1 << 30);
    disk.fail(0);
    wait_for_states(&array, &[("a.img", "current"), ("b.img", "current")])?;
    assert!(extend(&array, "2G")?.status.success());
    assert_eq!(show(&array)?["size_bytes"], 2_u64 << 30);
    assert_eq!(std::fs::metadata(disk.file("b.img"))?.len(), 2 << 30);
    assert!(!extend(&array, "1G")?.status.success(), "it only grows");
    // A larger member is not cut: the smallest counts.
    let [c, _] = beside(&first, ["c.img", "d.img"]);
    array.gantry(&["pool", "attach", "p", &c, "--size", "4G"])?;
    wait_for_states(&array, &[("a.img", "current"), ("b.img", "current"), ("c.img", "current")])?;
    assert!(extend(&array, "3G")?.status.success());
    assert_eq!(std::fs::metadata(first.with_file_name("c.img"))?.len(), 4 << 30);
    let (blocks, _) = host.stop()?;
    assert!(array.stop()?.success());
    // An old, smaller copy of one is there.
    let file = std::fs::OpenOptions::new().write(true).open(disk.file("b.img"))?;
    file.set_len(1 << 30)?;
    array.restart()?;
    wait_for_states(&array, &[("a.img", "current"), ("b.img", "absent"), ("c.img", "current")])?;
    check(&array, &blocks)?;
    let b = format!("file:{}", disk.file("b.img").display());
    // The array looks at it by itself, too, and has it open then.
    wait_until("it is said why", || {
        let small = array.try_gantry(&["pool", "return", "p", &b])?;
        Ok(!small.status.success() && small.stderr.contains("smaller than the mirror"))
    })?;
    wait_for_states(&array, &[("a.img", "current"), ("b.img", "absent"), ("c.img", "current")])?;
    assert_eq!(show(&array)?["size_bytes"], 3_u64 << 30);
    Ok(())
}
