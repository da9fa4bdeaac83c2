//! The Linux kernel's initiator finds the target, logs in as it was told, and stays.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use guest::{Bench, Need, Report};

const HEADER_DIGEST: &str = "node.conn[0].iscsi.HeaderDigest";
const DATA_DIGEST: &str = "node.conn[0].iscsi.DataDigest";

const CHAP: Need = Need::Option(&["host", "create"], "--chap");

#[test]
fn the_kernels_initiator_logs_in_and_stays() -> Result<()> {
    let mut bench = Bench::start(2, 2)?;
    let mut report = Report::new("session");
    let mut check = |name, need, run: fn(&mut Bench) -> Result<()>| {
        report.check(&mut bench, name, need, run);
    };
    check("discovery tells each portal under its address", Need::None, discovery);
    check("a target of another name is refused", Need::None, other_name);
    check("login without digests", Need::None, without_digests);
    check("login with header and data digests", Need::None, with_digests);
    check("every LUN is there, and no more", Need::None, luns);
    check("a volume mapped later is seen after a rescan", Need::None, mapped_later);
    check("a volume that grew has its new size after a rescan", Need::None, grown);
    check("I/O goes on over kill -9 and restart of the daemon", Need::None, restart);
    check("login with CHAP, and not with a wrong secret", CHAP, chap);
    check("login with mutual CHAP, and not if the target's secret is wrong", CHAP, mutual_chap);
    report.finish(&bench)
}

fn discovery(bench: &mut Bench) -> Result<()> {
    let found = bench.sh("iscsiadm -m discovery -t sendtargets -p $P1")?;
    for portal in &bench.portals {
        let line = found.lines().find(|line| line.starts_with(&format!("{portal},")));
        ensure!(line.is_some(), "{portal} is not in\n{found}");
    }
    ensure!(found.lines().count() == bench.portals.len(), "{found}");
    bench.sh("iscsiadm -m node -o delete")?;
    Ok(())
}

/// iscsiadm ends with 19 when the target says that it does not know the name.
fn other_name(bench: &mut Bench) -> Result<()> {
    let name = "iqn.2026-01.org.example:nothing";
    let record = format!("iscsiadm -m node -T {name} -p $P1");
    let retries = "node.session.initial_login_retry_max";
    bench.sh(&format!("{record} -o new; {record} -o update -n {retries} -v 1"))?;
    let outcome = bench.try_sh(&format!("{record} --login"))?;
    ensure!(outcome.status == 19, "{outcome}");
    bench.sh(&format!("{record} -o delete"))?;
    Ok(())
}

/// Writes random data and reads it back, past the guest's cache.
fn data_is_exact(bench: &mut Bench) -> Result<()> {
    let disk = bench.disk(bench.portals[0], 0);
    bench.sh(&format!("random 8192 /tmp/a; put /tmp/a {disk} 40; holds {disk} 40 8192 /tmp/a"))?;
    Ok(())
}

fn negotiated(bench: &mut Bench, wanted: &str) -> Result<()> {
    let folder = "/sys/class/iscsi_connection/connection*";
    let digests = bench.sh(&format!("cat {folder}/header_digest {folder}/data_digest"))?;
    ensure!(digests.lines().all(|line| line == wanted), "negotiated: {digests}");
    Ok(())
}

fn without_digests(bench: &mut Bench) -> Result<()> {
    let portal = bench.portals[0];
    bench.log_in(portal, &[(HEADER_DIGEST, "None"), (DATA_DIGEST, "None")])?;
    negotiated(bench, "0")?;
    data_is_exact(bench)?;
    bench.log_out(portal)
}

/// Stays logged in for the checks that follow.
fn with_digests(bench: &mut Bench) -> Result<()> {
    bench.log_in(bench.portals[0], &[(HEADER_DIGEST, "CRC32C"), (DATA_DIGEST, "CRC32C")])?;
    negotiated(bench, "1")?;
    data_is_exact(bench)
}

fn luns(bench: &mut Bench) -> Result<()> {
    let (first, second) = (bench.disk(bench.portals[0], 0), bench.disk(bench.portals[0], 1));
    bench.sh(&format!("[ -b {first} ] && [ -b {second} ]"))?;
    let disks = bench.sh("ls -d /sys/block/sd*")?;
    ensure!(disks.lines().count() == 2, "{disks}");
    Ok(())
}

fn mapped_later(bench: &mut Bench) -> Result<()> {
    let lun = bench.array.create_lun("p/later", "256M")?;
    let disk = bench.disk(bench.portals[0], lun);
    bench.sh("iscsiadm -m session --rescan >/dev/null; udevadm settle")?;
    let bytes = bench.sh(&format!("blockdev --getsize64 {disk}"))?;
    ensure!(bytes.trim() == (256 << 20).to_string(), "{bytes}");
    Ok(())
}

fn grown(bench: &mut Bench) -> Result<()> {
    bench.array.gantry(&["volume", "resize", "p/v1", "--size", "3G"])?;
    let disk = bench.disk(bench.portals[0], 1);
    bench.sh("iscsiadm -m session --rescan >/dev/null; udevadm settle")?;
    let bytes = bench.sh(&format!("blockdev --getsize64 {disk}"))?;
    ensure!(bytes.trim() == (3_u64 << 30).to_string(), "{bytes}");
    Ok(())
}

/// The rate makes the load last; the kernel waits for the session as long as its replacement
/// timeout says, 120 s if nobody says otherwise.
fn restart(bench: &mut Bench) -> Result<()> {
    let disk = bench.disk(bench.portals[0], 0);
    bench.sh(&format!(
        "load /run/load --name=restart --filename=$(readlink -f {disk}) --rw=randwrite --bs=8k --size=16M \
         --rate_iops=200 --iodepth=8"
    ))?;
    thread::sleep(Duration::from_secs(3));
    bench.sh("load_runs /run/load")?;
    bench.array.kill()?;
    thread::sleep(Duration::from_secs(1));
    bench.array.restart()?;
    bench.until("load_is_over /run/load")?;
    bench.sh("load_succeeded /run/load")?;
    bench.sh("dmesg | grep -q 'detected conn error'")?;
    Ok(())
}

const USER: &str = "node.session.auth.username";
const PASSWORD: &str = "node.session.auth.password";
const METHOD: (&str, &str) = ("node.session.auth.authmethod", "CHAP");

fn chap(_bench: &mut Bench) -> Result<()> {
    anyhow::bail!("{USER} {PASSWORD} {METHOD:?}")
}

fn mutual_chap(_bench: &mut Bench) -> Result<()> {
    anyhow::bail!("not written")
}
