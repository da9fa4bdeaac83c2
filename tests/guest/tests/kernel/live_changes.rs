//! Live changes by an administrator while the guest is logged in: sizes, LUNs, and who may write.
//! The guest learns it by unit attentions, takes it after a rescan, and I/O elsewhere goes on.
//!
//! `$D` is the disk under load, `$C` takes commands for it and nothing else.

use anyhow::{Result, ensure};
use guest::{Bench, Need, Report};
use harness::{number, text};

/// What sg3_utils ends with on a unit attention.
const UNIT_ATTENTION: i32 = 6;

/// What it ends with where there is no such logical unit (05h/25h/00h).
const NO_SUCH_UNIT: i32 = 5;

const MIB: u64 = 1 << 20;

/// LUN numbers of the volumes that come and go, away from those of the bench.
const CHANGING_LUN: u16 = 7;
const READ_ONLY_LUN: u16 = 300;

/// The same as udev writes it.
const READ_ONLY_LUN_TEXT: &str = "0x412c000000000000";

#[test]
fn the_guest_follows_what_is_changed_under_it() -> Result<()> {
    let mut bench = Bench::start(1, 2)?;
    bench.log_in(bench.portals[0], &[])?;
    let disk = bench.disk(bench.portals[0], 0);
    let generic = bench.sh(&format!("generic {disk}"))?;
    bench.machine.set("D", &disk)?;
    bench.machine.set("C", generic.trim())?;
    let mut report = Report::new("live changes");
    let mut check = |name, run: fn(&mut Bench) -> Result<()>| {
        report.check(&mut bench, name, Need::None, run);
    };
    check("lsscsi shows kind, name, transport and size of each LUN", lsscsi);
    check("a load starts on another LUN", start_load);
    check("a new size is told once (2Ah/09h)", capacity_is_told_once);
    check("a mounted file system grows with its volume", grow);
    check("a volume that shrank has its new size, and nothing beyond", shrink);
    check("a LUN that is added is told (3Fh/0Eh) and found", add);
    check("its number rests before it is another volume's", number_rests);
    check("a LUN that is removed fails, is told, and goes", remove);
    check("a LUN mapped read-only is write protected, until it is not", read_only);
    check("the load saw nothing of it", end_load);
    report.finish(&bench)
}

fn lsscsi(bench: &mut Bench) -> Result<()> {
    let told = bench.sh("lsscsi; lsscsi -s; lsscsi -t; lsscsi -U; lsscsi -g -l")?;
    let volume = bench.array.gantry_json(&["volume", "show", "p/v0"])?;
    let naa = text(&volume, "/naa")?.trim_start_matches("naa.").to_owned();
    let target = bench.array.target_name()?;
    for wanted in ["disk", "GANTRY", "1.07GB", &naa, &target, "state=running"] {
        ensure!(told.contains(wanted), "'{wanted}' is not in\n{told}");
    }
    ensure!(told.matches("1.07GB").count() == 2, "{told}");
    Ok(())
}

/// Lasts about 60 s whatever the machine; the checks need less where the machine has time.
fn start_load(bench: &mut Bench) -> Result<()> {
    let other = bench.disk(bench.portals[0], 1);
    bench.sh(&format!(
        "load /run/load --name=other --filename=$(readlink -f {other}) --rw=randwrite --bs=8k \
         --size=16M --rate_iops=60 --iodepth=4; sleep 1; load_runs /run/load"
    ))?;
    Ok(())
}

fn end_load(bench: &mut Bench) -> Result<()> {
    bench.until("load_is_over /run/load")?;
    bench.sh("load_succeeded /run/load")?;
    Ok(())
}

fn resize(bench: &Bench, size: &str, agreement: &[&str]) -> Result<()> {
    let words = ["volume", "resize", "p/v0", "--size", size];
    bench.array.gantry(&[&words, agreement].concat())?;
    Ok(())
}

/// A command must end with this unit attention, and the next one well.
fn told_once(bench: &mut Bench, generic: &str, words: &str) -> Result<()> {
    let told = bench.try_sh(&format!("sg_turs -v {generic}"))?;
    ensure!(told.status == UNIT_ATTENTION && told.output.contains(words), "{told}");
    bench.sh(&format!("sg_turs {generic}"))?;
    Ok(())
}

/// What udev does with the news of a unit attention may take the next one away, so it waits.
fn capacity_is_told_once(bench: &mut Bench) -> Result<()> {
    bench.sh("udevadm settle; udevadm control --stop-exec-queue")?;
    resize(bench, "1025M", &[])?;
    told_once(bench, "$C", "Capacity data has changed")?;
    resize(bench, "1026M", &[])?;
    resize(bench, "1027M", &[])?;
    told_once(bench, "$C", "Capacity data has changed")?;
    bench.sh("udevadm control --start-exec-queue; udevadm settle")?;
    Ok(())
}

fn rescan(bench: &mut Bench) -> Result<()> {
    bench.sh("iscsiadm -m session --rescan >/dev/null; udevadm settle")?;
    Ok(())
}

fn has_size(bench: &mut Bench, mib: u64) -> Result<()> {
    let bytes = bench.sh("blockdev --getsize64 $D")?;
    ensure!(bytes.trim() == (mib * MIB).to_string(), "{mib} MiB were expected: {bytes}");
    Ok(())
}

/// The kernel meets the unit attention on the file system's own way, and says so.
fn grow(bench: &mut Bench) -> Result<()> {
    rescan(bench)?;
    has_size(bench, 1027)?;
    bench.sh(
        "mkfs.xfs -f $D; mkdir -p /mnt/x; mount $D /mnt/x; cp /usr/bin/fio /mnt/x/first; dmesg -C",
    )?;
    resize(bench, "2G", &[])?;
    bench.sh("cp /usr/bin/fio /mnt/x/second; sync; dmesg | grep 'Capacity data has changed'")?;
    bench.sh("echo 1 >/sys/block/$(basename $(readlink -f $D))/device/rescan")?;
    has_size(bench, 2048)?;
    let told = bench.sh("xfs_growfs /mnt/x; df -m /mnt/x | tail -n 1")?;
    ensure!(told.contains("data blocks changed from 262912 to 524288"), "{told}");
    bench
        .sh("for copy in first second; do cmp /usr/bin/fio /mnt/x/$copy; done; umount /mnt/x; \
         xfs_repair -n $D")?;
    Ok(())
}

fn shrink(bench: &mut Bench) -> Result<()> {
    resize(bench, "512M", &["--shrink"])?;
    rescan(bench)?;
    has_size(bench, 512)?;
    bench.sh("random 8 /tmp/r; put /tmp/r $D 1048568; holds $D 1048568 8 /tmp/r")?;
    let beyond = bench
        .try_sh("sg_raw $C 08 10 00 00 01 00; sg_raw -r 512 $C 28 00 00 10 00 00 00 00 01 00")?;
    ensure!(beyond.output.contains("Logical block address out of range"), "{beyond}");
    Ok(())
}

fn map(bench: &Bench, volume: &str, lun: u16, more: &[&str]) -> Result<()> {
    let lun = lun.to_string();
    let words = ["volume", "map", volume, "--host", "any", "--lun", &lun];
    let map = bench.array.gantry_json(&[&words, more].concat())?;
    ensure!(number(&map, "/lun")? == lun.parse::<u64>()?, "{map}");
    Ok(())
}

fn unmap(bench: &Bench, volume: &str) -> Result<()> {
    bench.array.gantry(&["volume", "unmap", volume, "--host", "any"])?;
    Ok(())
}

fn add(bench: &mut Bench) -> Result<()> {
    for (volume, size) in [("p/added", "64M"), ("p/instead", "128M")] {
        bench.array.gantry(&["volume", "create", volume, "--size", size])?;
    }
    bench.sh("dmesg -C")?;
    map(bench, "p/added", CHANGING_LUN, &[])?;
    bench.sh("random 8 /tmp/r; put /tmp/r $D 0; dmesg | grep 'LUN assignments on this target'")?;
    rescan(bench)?;
    let disk = bench.disk(bench.portals[0], CHANGING_LUN);
    bench.sh(&format!("put /tmp/r {disk} 0; holds {disk} 0 8 /tmp/r"))?;
    // REPORT LUNS of the rescan told it: nothing is left to be told.
    bench.sh("sg_turs $C")?;
    Ok(())
}

/// A host that goes on with what it knows of the old volume would destroy the new one.
fn number_rests(bench: &mut Bench) -> Result<()> {
    unmap(bench, "p/added")?;
    let lun = CHANGING_LUN.to_string();
    let words = ["volume", "map", "p/instead", "--host", "any", "--lun", &lun];
    let refused = bench.array.try_gantry(&words)?.failure()?;
    ensure!(refused.contains("was another volume"), "{refused}");
    map(bench, "p/added", CHANGING_LUN, &[])?;
    let disk = bench.disk(bench.portals[0], CHANGING_LUN);
    bench.sh(&format!("holds {disk} 0 8 /tmp/r"))?;
    Ok(())
}

/// The kernel keeps this unit attention to itself and says so in its log.
fn remove(bench: &mut Bench) -> Result<()> {
    let disk = bench.disk(bench.portals[0], CHANGING_LUN);
    let generic = bench.sh(&format!("generic {disk}"))?;
    bench
        .sh("udevadm settle; udevadm control --stop-exec-queue; sg_luns $C >/dev/null; dmesg -C")?;
    unmap(bench, "p/added")?;
    let gone = bench.try_sh(&format!("sg_turs -v {}", generic.trim()))?;
    ensure!(gone.status == NO_SUCH_UNIT && gone.output.contains("not supported"), "{gone}");
    bench.sh("sg_turs $C; dmesg | grep 'LUN assignments on this target'")?;
    let written = bench.try_sh(&format!("put /tmp/r {disk} 0"))?;
    ensure!(written.status != 0, "a LUN that is not there takes data: {written}");
    bench.sh("udevadm control --start-exec-queue")?;
    bench.sh(&format!("echo 1 >/sys/block/$(basename $(readlink -f {disk}))/device/delete"))?;
    rescan(bench)?;
    let disks = bench.sh("ls -d /sys/block/sd*")?;
    ensure!(disks.lines().count() == 2, "{disks}");
    Ok(())
}

/// LUN numbers above 255 have an address method of their own (SAM-5 4.7.7.3).
fn read_only(bench: &mut Bench) -> Result<()> {
    map(bench, "p/instead", READ_ONLY_LUN, &["--read-only"])?;
    rescan(bench)?;
    let disk = format!("/dev/disk/by-path/*-iscsi-*-lun-{READ_ONLY_LUN_TEXT}");
    bench.sh(&format!("[ $(blockdev --getro {disk}) = 1 ]; expect 1 put /tmp/r {disk} 0"))?;
    let generic = bench.sh(&format!("generic {disk}"))?;
    let written = bench.try_sh(&format!(
        "sg_raw -s 512 -i /tmp/r {} 2a 00 00 00 00 00 00 00 01 00",
        generic.trim()
    ))?;
    ensure!(written.output.contains("Write protected"), "{written}");
    bench.sh(&format!("zeroes 8 /tmp/z; holds {disk} 0 8 /tmp/z"))?;
    unmap(bench, "p/instead")?;
    map(bench, "p/instead", READ_ONLY_LUN, &[])?;
    rescan(bench)?;
    bench.sh(&format!(
        "echo 1 >/sys/block/$(basename $(readlink -f {disk}))/device/rescan; \
         [ $(blockdev --getro {disk}) = 0 ]; put /tmp/r {disk} 0; holds {disk} 0 8 /tmp/r"
    ))?;
    Ok(())
}
