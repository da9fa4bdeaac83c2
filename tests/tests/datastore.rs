//! Datastores that simulated hosts write, and what independent readers find on them.

use std::collections::BTreeMap;
use std::fs;
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

fn two_hosts_write_at_once(ats: bool) -> Result<()> {
    let (array, hosts, device) = bench("3G", 2, &[], ats)?;
    let mut written = Vec::new();
    let mut running = Vec::new();
    for (number, host) in hosts.iter().enumerate() {
        let (folder, files) = local_files(100, number as u64 + 1)?;
        host.run(&["file", "mkdir", &format!("ds/h{number}")])?;
        let local = folder.path().to_str().context("a path")?.to_owned();
        running.push(host.start(&["file", "put-tree", &local, &format!("ds/h{number}")])?);
        written.push((folder, files));
    }
    let (mut disks, mut to_be_zeroed) = (Vec::new(), 0);
    for (number, host) in hosts.iter().enumerate() {
        for format in ["thin", "zeroedthick", "eagerzeroedthick"] {
            for copy in 0..if number == 0 { 2 } else { 1 } {
                let path = format!("ds/h{number}/{format}{copy}.vmdk");
                host.vmkfstools(&["-c", "40m", "-d", format, &path])?;
                let run = ["vm", "run", &path, "--pattern", "random-mix4k", "--seconds", "0"];
                host.run(&run)?;
                disks.push(path.trim_start_matches("ds/").replace(".vmdk", "-flat.vmdk"));
                to_be_zeroed += if format == "zeroedthick" { 40 } else { 0 };
            }
        }
    }
    for process in running {
        process.wait(Duration::from_secs(100))?.success()?;
    }
    let folder = tempfile::tempdir()?;
    let image = image_of(&array, 0, folder.path())?;
    // fsck.vmfs looks for a block by its address with the flag 'to be zeroed' in it, and so calls
    // those lost; no other may be.
    assert_eq!(fsck(&image)?, [0, to_be_zeroed, 0, 0, 0]);
    let fuse = Fuse::mount(&image)?;
    for (number, (_, files)) in written.iter().enumerate() {
        for (name, bytes) in files {
            ensure!(fuse.read(&format!("h{number}/{name}"))? == *bytes, "h{number}/{name} differs");
        }
    }
    for disk in disks {
        ensure!(fuse.read(&disk)? == vec![0; 40 * MIB], "{disk} differs");
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
