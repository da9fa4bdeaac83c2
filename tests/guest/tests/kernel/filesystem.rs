//! A file system on a LUN, as a Linux host uses it: what it writes it reads, what it frees the
//! pool has again.

use anyhow::{Result, ensure};
use guest::{Bench, Need, Report};

const MIB: u64 = 1 << 20;

/// What the file system's own blocks may take after everything else was freed.
const EMPTY_FILE_SYSTEM_BYTES_MAX: u64 = 16 * MIB;

#[test]
fn a_file_system_lives_on_a_lun_and_gives_space_back() -> Result<()> {
    let mut bench = Bench::start(1, 1)?;
    bench.log_in(bench.portals[0], &[])?;
    bench.machine.set("D", &bench.disk(bench.portals[0], 0))?;
    let mut report = Report::new("file system");
    let mut check = |name, run: fn(&mut Bench) -> Result<()>| {
        report.check(&mut bench, name, Need::None, run);
    };
    check("the kernel takes thin provisioning from the LUN", provisioning);
    check("mkfs.xfs and mount", make);
    check("fio in files, verified", verified_files);
    check("files are the same after unmounting and logging in again", remount);
    check("fstrim gives the pool its space back", trim);
    check("online discard gives the pool its space back", online_discard);
    check("xfs_repair finds nothing", repair);
    check("fio on the disk with all block sizes, verified", verified_disk);
    check("blkdiscard -z zeroes by WRITE SAME and writes no data", zero_out);
    check("blkdiscard unmaps by UNMAP", discard);
    report.finish(&bench)
}

fn used(bench: &Bench) -> Result<u64> {
    bench.pool_number("/space/used_bytes")
}

fn provisioning(bench: &mut Bench) -> Result<()> {
    let modes = bench.sh("cat /sys/class/scsi_disk/*/provisioning_mode")?;
    ensure!(modes.lines().all(|mode| mode == "unmap"), "{modes}");
    let modes = bench.sh("cat /sys/class/scsi_disk/*/zeroing_mode")?;
    ensure!(modes.lines().all(|mode| mode.starts_with("writesame_16")), "{modes}");
    Ok(())
}

fn make(bench: &mut Bench) -> Result<()> {
    bench.sh("mkfs.xfs -f $D; mkdir -p /mnt/x; mount $D /mnt/x")?;
    Ok(())
}

fn verified_files(bench: &mut Bench) -> Result<()> {
    let before = used(bench)?;
    bench.sh(
        "load /run/load --name=files --directory=/mnt/x --numjobs=2 --size=12M --rw=randwrite \
         --bsrange=4k-64k --iodepth=8; wait; load_succeeded /run/load; sync",
    )?;
    ensure!(used(bench)? >= before + 20 * MIB, "the files take no space in the pool");
    Ok(())
}

fn remount(bench: &mut Bench) -> Result<()> {
    let sums = "find . -type f | sort | xargs md5sum";
    bench.sh(&format!("cd /mnt/x; cp /bin/busybox .; {sums} >/run/sums; cd /; umount /mnt/x"))?;
    bench.log_out(bench.portals[0])?;
    bench.log_in(bench.portals[0], &[])?;
    bench.sh("mount $D /mnt/x; cd /mnt/x; md5sum -c /run/sums")?;
    Ok(())
}

/// A host side check, too: what the pool says is used, not what the file system hopes.
fn trim(bench: &mut Bench) -> Result<()> {
    let before = used(bench)?;
    bench.sh("rm -r /mnt/x/*; sync; fstrim -v /mnt/x")?;
    let after = used(bench)?;
    ensure!(after + 20 * MIB <= before, "used before: {before}, after: {after}");
    ensure!(after <= EMPTY_FILE_SYSTEM_BYTES_MAX, "used after: {after}");
    Ok(())
}

/// XFS discards after the transaction that freed the space has left its log.
fn online_discard(bench: &mut Bench) -> Result<()> {
    bench.sh(
        "umount /mnt/x; mount -o discard $D /mnt/x; dd if=/dev/urandom of=/mnt/x/f bs=1M count=16",
    )?;
    bench.sh("sync /mnt/x/f")?;
    let before = used(bench)?;
    bench.sh("rm /mnt/x/f; sync; umount /mnt/x")?;
    let after = used(bench)?;
    ensure!(after + 15 * MIB <= before, "used before: {before}, after: {after}");
    Ok(())
}

fn repair(bench: &mut Bench) -> Result<()> {
    bench.sh("xfs_repair -n $D")?;
    Ok(())
}

fn verified_disk(bench: &mut Bench) -> Result<()> {
    bench.sh(
        "load /run/load --name=disk --filename=$(readlink -f $D) --size=16M --rw=randwrite \
         --bssplit=512/20:4k/30:20k/20:128k/20:1m/10 --bs_unaligned=0 --iodepth=16; \
         wait; load_succeeded /run/load",
    )?;
    Ok(())
}

fn zero_out(bench: &mut Bench) -> Result<()> {
    bench.sh("blkdiscard $D")?;
    let before = bench.pool_number("/counters/data_bytes_written")?;
    bench.sh("random 4096 /tmp/a; put /tmp/a $D 4096; take $D 4096 1 /dev/null")?;
    let written = bench.pool_number("/counters/data_bytes_written")?;
    ensure!(written - before >= 2 * MIB, "the counter does not count: {before}, {written}");
    bench.sh("traced blkdiscard -z $D")?;
    let commands = bench.sh("sort /tmp/traced | uniq -c")?;
    ensure!(commands.contains("WRITE_SAME_16"), "{commands}");
    ensure!(!commands.contains("WRITE_10") && !commands.contains("UNMAP"), "{commands}");
    ensure!(bench.pool_number("/counters/data_bytes_written")? == written, "data was written");
    bench.sh("zeroes 4096 /tmp/z; holds $D 4096 4096 /tmp/z; holds $D 0 4096 /tmp/z")?;
    Ok(())
}

fn discard(bench: &mut Bench) -> Result<()> {
    bench.sh("random 16384 /tmp/a; put /tmp/a $D 0")?;
    let before = used(bench)?;
    bench.sh("traced blkdiscard $D; grep -q '^UNMAP$' /tmp/traced")?;
    let after = used(bench)?;
    ensure!(after + 8 * MIB <= before, "used before: {before}, after: {after}");
    bench.sh("zeroes 16384 /tmp/z; holds $D 0 16384 /tmp/z")?;
    Ok(())
}
