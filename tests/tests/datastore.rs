//! Datastores that simulated hosts write, and what independent readers find on them.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::hostkit::{Fuse, Host, array, fsck, image_of};
use harness::random::Random;
use harness::{Array, Value, number};

const MIB: usize = 1 << 20;

/// An array with one datastore, `ds`, and hosts that have rescanned.
fn bench(size: &str, hosts: u32, words: &[&str], ats: bool) -> Result<(Array, Vec<Host>, String)> {
    let array = array(&[("v", size)])?;
    let url = array.lun_url(0)?;
    let hosts: Vec<Host> = (1..=hosts)
        .map(|number| Host::new(&format!("esx{number}"), &[&url]))
        .collect::<Result<_>>()?;
    if !ats {
        for host in &hosts {
            host.run(&["esxcfg-advcfg", "-s", "0", "/VMFS3/HardwareAcceleratedLocking"])?;
        }
    }
    let device = hosts[0].devices()?.remove(0);
    let partition = format!("/vmfs/devices/disks/{device}:1");
    hosts[0].vmkfstools(&[&["-C", "vmfs5", "-S", "ds"], words, &[&partition]].concat())?;
    hosts.iter().skip(1).try_for_each(|host| host.run(&["rescan"]).map(|_| ()))?;
    Ok((array, hosts, device))
}

fn local_files(count: u32, seed: u64) -> Result<(tempfile::TempDir, BTreeMap<String, Vec<u8>>)> {
    let folder = tempfile::tempdir()?;
    let mut random = Random::new(seed);
    let mut files = BTreeMap::new();
    for number in 0..count {
        let length = match number % 10 {
            0 => 0,
            1 => MIB + random.below(MIB as u64) as usize,
            _ => random.below(20_000) as usize,
        };
        let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        let name = format!("file{number}");
        fs::write(folder.path().join(&name), &bytes)?;
        files.insert(name, bytes);
    }
    Ok((folder, files))
}

/// What `vm run --pattern sequential-write1m` leaves of a disk of `count` MiB after as many writes:
/// each begins with its number.
fn written_disk(count: usize) -> Vec<u8> {
    let mut bytes = vec![0x5a; count * MIB];
    for number in 1..=count {
        let at = number % count * MIB;
        bytes[at..at + 8].copy_from_slice(&(number as u64).to_le_bytes());
    }
    bytes
}

const FORMATS: [&str; 3] = ["thin", "zeroedthick", "eagerzeroedthick"];
const DISK_MIB: usize = 12;

/// One host's part: disks of each format, all written, while it also writes files.
fn disks_and_files(host: &Host, number: usize, local: &str) -> Result<()> {
    let folder = format!("ds/h{number}");
    host.run(&["file", "mkdir", &folder])?;
    let files = host.start(&["file", "put-tree", local, &folder])?;
    for format in FORMATS {
        for copy in 0..2 - number {
            let path = format!("{folder}/{format}{copy}.vmdk");
            host.vmkfstools(&["-c", &format!("{DISK_MIB}m"), "-d", format, &path])?;
            let run = ["vm", "run", &path, "--pattern", "sequential-write1m", "--seconds", "100"];
            host.run(&[&run[..], &["--operations", &DISK_MIB.to_string()]].concat())?;
        }
    }
    files.wait(Duration::from_secs(100))?.success().map(|_| ())
}

fn two_hosts_write_at_once(ats: bool) -> Result<()> {
    let (array, hosts, device) = bench("2G", 2, &[], ats)?;
    let written = [local_files(100, 1)?, local_files(100, 2)?];
    thread::scope(|scope| {
        let work = |number: usize| {
            let (host, local) = (&hosts[number], &written[number].0);
            let local = local.path().to_str().context("a path")?;
            disks_and_files(host, number, local)
        };
        let other = scope.spawn(move || work(1));
        work(0).and(other.join().expect("no panic"))
    })?;
    let folder = tempfile::tempdir()?;
    let image = image_of(&array, 0, folder.path())?;
    assert_eq!(fsck(&image)?, [0; 5]);
    let volume = Fuse::mount(&image)?;
    for (number, (_, files)) in written.iter().enumerate() {
        for (name, bytes) in files {
            ensure!(volume.read(&format!("h{number}/{name}"))? == *bytes, "h{number}/{name}");
        }
        for format in FORMATS {
            for copy in 0..2 - number {
                let name = format!("h{number}/{format}{copy}-flat.vmdk");
                ensure!(volume.read(&name)? == written_disk(DISK_MIB), "{name} differs");
            }
        }
    }
    let (ats_done, reserved) =
        (hosts[0].counter(&device, "ATS")?, hosts[0].counter(&device, "CONS/s")?);
    assert!(if ats { ats_done > 100.0 } else { ats_done < 5.0 }, "{ats_done} ATS, {reserved} CONS");
    Ok(())
}

#[test]
fn what_two_hosts_write_at_once_with_ats_is_whole_for_vmfs_tools() -> Result<()> {
    two_hosts_write_at_once(true)
}

#[test]
fn what_two_hosts_write_at_once_with_reservations_is_whole_for_vmfs_tools() -> Result<()> {
    two_hosts_write_at_once(false)
}

/// One host grows the datastore while a machine of another one takes space on it; what is new is
/// then used by that other host, which was not told.
#[test]
fn a_datastore_grows_into_its_enlarged_lun_while_a_machine_runs_on_it() -> Result<()> {
    for ats in [true, false] {
        let (array, hosts, device) = bench("1G", 2, &[], ats)?;
        let partition = format!("/vmfs/devices/disks/{device}:1");
        let grow = ["vmkfstools", "-G", &partition, &partition];
        let refused = hosts[0].attempt(&grow)?.failure()?;
        assert!(refused.contains("no room for another 256 MB"), "{refused}");
        hosts[1].vmkfstools(&["-c", "400m", "-d", "thin", "ds/t.vmdk"])?;
        let run = ["vm", "run", "ds/t.vmdk", "--pattern", "sequential-write1m"];
        let machine =
            hosts[1].start(&[&run[..], &["--seconds", "90", "--operations", "400"]].concat())?;
        array.gantry(&["volume", "resize", "p/v", "--size", "3G"])?;
        let grown = hosts[0].run(&grow)?;
        assert_eq!(
            grown.lines().last(),
            Some("Successfully grew volume: ds, by 2048 MB"),
            "{grown}"
        );
        let outcome: Value =
            serde_json::from_str(&machine.wait(Duration::from_secs(100))?.success()?)?;
        assert_eq!(number(&outcome, "/operations")?, 400);
        hosts[1].vmkfstools(&["-c", "600m", "-d", "eagerzeroedthick", "ds/e.vmdk"])?;
        let shown = hosts[1].run(&["vmkfstools", "-P", "ds"])?;
        assert!(shown.contains("(2816 file blocks * 1048576)"), "{shown}");
        let folder = tempfile::tempdir()?;
        let image = image_of(&array, 0, folder.path())?;
        assert_eq!(fsck(&image)?, [0; 5]);
        let volume = Fuse::mount(&image)?;
        ensure!(volume.read("e-flat.vmdk")? == vec![0; 600 << 20], "the new disk differs");
        ensure!(volume.read("t-flat.vmdk")? == written_disk(400), "the machine's disk differs");
    }
    Ok(())
}

#[test]
fn the_lock_of_a_killed_host_is_taken_over_after_its_lease_and_not_before() -> Result<()> {
    let (array, hosts, _) = bench("1G", 2, &["--lease-ms", "2000"], true)?;
    hosts[0].run(&["file", "touch", "ds/f"])?;
    let mut holder = hosts[0].start(&["file", "hold", "ds/f"])?;
    while !hosts[1].run(&["vmkfstools", "-D", "ds/f"])?.contains("mode 1") {
        ensure!(holder.is_running()?, "the holder ended");
    }
    let refused = hosts[1].attempt(&["file", "rm", "ds/f"])?.failure()?;
    assert!(refused.contains("Failed to lock the file"), "{refused}");
    drop(holder);
    hosts[1].run(&["file", "rm", "ds/f"])?;
    let folder = tempfile::tempdir()?;
    assert_eq!(fsck(&image_of(&array, 0, folder.path())?)?, [0; 5]);
    Ok(())
}

/// What the pool has to grow by before a host is killed: some dozens of files.
const ENOUGH_BYTES: u64 = 512 << 10;

/// Killed in the middle of hundreds of changes to directories, files and free space, under both
/// ways to lock.
#[test]
fn what_a_host_killed_while_it_writes_leaves_is_put_in_order_by_another() -> Result<()> {
    for ats in [true, false] {
        let (array, hosts, _) = bench("1G", 2, &["--lease-ms", "1500"], ats)?;
        let local = tempfile::tempdir()?;
        for number in 0..1500_usize {
            let bytes = vec![number as u8; 2000 + number];
            fs::write(local.path().join(format!("file{number}")), bytes)?;
        }
        let words = ["file", "put-tree", local.path().to_str().context("a path")?, "ds/"];
        let used = || number(&array.gantry_json(&["pool", "show", "p"])?, "/space/used_bytes");
        let before = used()?;
        let mut writer = hosts[0].start(&words)?;
        let listed = || -> Result<Vec<String>> {
            let printed = hosts[1].run(&["file", "ls", "ds/"])?;
            let names = printed.lines().filter_map(|line| line.split_whitespace().last());
            Ok(names.filter(|name| name.starts_with("file")).map(str::to_owned).collect())
        };
        // Asked of the array: to list them, a host would have to lock the directory too.
        while used()? < before + ENOUGH_BYTES {
            ensure!(writer.is_running()?, "it ended before it was killed");
        }
        drop(writer);
        assert_eq!(hosts[1].run(&["file", "recover", "ds"])?, "1\n");
        let folder = tempfile::tempdir()?;
        let image = image_of(&array, 0, folder.path())?;
        assert_eq!(fsck(&image)?, [0; 5]);
        let names = listed()?;
        let volume = Fuse::mount(&image)?;
        // The last one may be cut short.
        let whole = |name: &&String| -> bool {
            volume.read(name).ok() == fs::read(local.path().join(name)).ok()
        };
        assert!(names.iter().filter(whole).count() + 1 >= names.len(), "{names:?}");
        hosts[1].run(&["file", "rm", &format!("ds/{}", names[names.len() - 1])])?;
    }
    Ok(())
}

fn sixteen_hosts_touch(ats: bool) -> Result<Value> {
    let (array, hosts, _) = bench("1G", 1, &[], ats)?;
    let url = array.lun_url(0)?;
    let mut words = vec!["touch-loop", "--hosts", "16", "--rounds", "4", url.as_str()];
    if !ats {
        words.push("--scsi");
    }
    let outcome: Value = serde_json::from_str(&hosts[0].run(&words)?)?;
    assert_eq!(number(&outcome, "/touches")?, 16 * 4 * 2);
    let folder = tempfile::tempdir()?;
    assert_eq!(fsck(&image_of(&array, 0, folder.path())?)?, [0; 5]);
    Ok(outcome)
}

#[test]
fn sixteen_hosts_touch_files_with_ats_and_without_a_conflict() -> Result<()> {
    let outcome = sixteen_hosts_touch(true)?;
    assert_eq!((number(&outcome, "/conflicts")?, number(&outcome, "/reserves")?), (0, 0));
    assert!(number(&outcome, "/ats")? > 256, "{outcome}");
    Ok(())
}

#[test]
fn sixteen_hosts_touch_files_with_reservations_and_conflicts_and_none_fails() -> Result<()> {
    let outcome = sixteen_hosts_touch(false)?;
    assert_eq!(number(&outcome, "/ats")?, 0);
    assert!(number(&outcome, "/conflicts")? > 0, "{outcome}");
    Ok(())
}

#[test]
fn an_ats_only_datastore_is_refused_when_the_host_may_not_use_ats() -> Result<()> {
    let (_array, hosts, _) = bench("1G", 1, &[], true)?;
    hosts[0].run(&["esxcfg-advcfg", "-s", "0", "/VMFS3/HardwareAcceleratedLocking"])?;
    let refused = hosts[0].attempt(&["file", "ls", "ds"])?.failure()?;
    assert!(refused.contains("ATS-only"), "{refused}");
    let modes = hosts[0].run(&["esxcli", "storage", "vmfs", "lockmode", "list"])?;
    assert!(modes.lines().nth(2).is_some_and(|line| line.contains("VMFS-5  ATS ")), "{modes}");
    Ok(())
}

/// What others wrote is shown and not obeyed; what cannot be is refused with what can be.
#[test]
fn names_are_printed_with_escapes_and_labels_and_sizes_that_cannot_be_are_refused() -> Result<()> {
    let (array, hosts, device) = bench("1G", 1, &[], true)?;
    let host = &hosts[0];
    host.run(&["file", "touch", "ds/a\u{1b}[2Jb\nc"])?;
    let listed = host.run(&["file", "ls", "ds"])?;
    ensure!(listed.contains("a\\u{1b}[2Jb\\nc") && !listed.contains('\u{1b}'), "{listed}");
    host.vmkfstools(&["-c", "64m", "-d", "thin", "ds/t.vmdk"])?;
    for size in ["99t", "62t1", "64m", "100000001"] {
        let refused = host.attempt(&["vmkfstools", "-X", size, "ds/t.vmdk"])?;
        ensure!(!refused.is_success(), "-X {size}: {}", refused.stdout);
    }
    host.vmkfstools(&["-X", "62t", "ds/t.vmdk"])?;
    let long = "x".repeat(128);
    for label in ["a/b", "..", " a", "a\u{1b}", long.as_str()] {
        let device = format!("{device}:1");
        let refused = host.attempt(&["vmkfstools", "-C", "vmfs5", "-S", label, &device])?;
        ensure!(refused.stderr.contains("a label has 1 to 127 bytes"), "{}", refused.stderr);
        refused.failure()?;
    }
    // Nothing was formatted.
    host.run(&["file", "ls", "ds"])?;
    let folder = tempfile::tempdir()?;
    ensure!(fsck(&image_of(&array, 0, folder.path())?)? == [0; 5], "fsck.vmfs complains");
    Ok(())
}
