//! One disk over two portals: the kernel's multipath takes both, by ALUA, and loses one.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use guest::{Bench, Need, Relay, Report};

/// As a storage administrator sets it for arrays with ALUA, but quicker to look again.
const CONFIGURATION: &str = "
defaults {
    find_multipaths no
    polling_interval 1
    max_polling_interval 2
    path_grouping_policy group_by_prio
    path_selector \"service-time 0\"
    prio alua
    detect_prio yes
    failback immediate
    no_path_retry 30
}
";

/// How long the kernel keeps commands of a lost session before it fails them to multipath.
const REPLACEMENT_TIMEOUT: (&str, &str) = ("node.session.timeo.replacement_timeout", "2");

/// Parts of the way that the tests break.
struct Paths {
    relay: Relay,
}

#[test]
fn a_disk_over_two_portals_survives_the_loss_of_one() -> Result<()> {
    let mut bench = Bench::start(2, 1)?;
    let paths = Paths { relay: Relay::to(bench.portals[0])? };
    let mut report = Report::new("multipath");
    let mut check = |name, run: fn(&mut Bench, &Paths) -> Result<()>| {
        report.check(&mut bench, name, Need::None, |bench| run(bench, &paths));
    };
    check("login over both portals", log_in);
    check("both paths are one disk, with the handler and the priority of ALUA", one_disk);
    check("REPORT TARGET PORT GROUPS is the same over both paths", same_groups);
    check("verified I/O survives the loss of a path and its return", loss);
    check("verified I/O survives the loss of all paths and their return", loss_of_all);
    check("a file system on the disk survives the loss of a path", file_system);
    report.finish(&bench)
}

fn log_in(bench: &mut Bench, paths: &Paths) -> Result<()> {
    bench.log_in(paths.relay.address(), &[REPLACEMENT_TIMEOUT])?;
    bench.log_in(bench.portals[1], &[REPLACEMENT_TIMEOUT])?;
    let sessions = bench.sh("iscsiadm -m session")?;
    ensure!(sessions.lines().count() == 2, "{sessions}");
    Ok(())
}

fn one_disk(bench: &mut Bench, _: &Paths) -> Result<()> {
    bench.sh(&format!("cat >/etc/multipath.conf <<'END'{CONFIGURATION}END\nmultipathd"))?;
    bench.until("multipath -ll | grep -c 'active *ready *running' | grep -qx 2")?;
    let topology = bench.sh("multipath -ll")?;
    ensure!(topology.contains("hwhandler='1 alua'"), "{topology}");
    ensure!(topology.contains("prio=50"), "active/optimized has priority 50:\n{topology}");
    let naa = bench.array.gantry_json(&["volume", "show", "p/v0"])?;
    let name = harness::text(&naa, "/naa")?.replace("naa.", "3");
    ensure!(topology.contains(&name), "{name} is not in\n{topology}");
    bench.machine.set("M", &format!("/dev/mapper/{name}"))?;
    bench.sh("[ -b $M ]")?;
    Ok(())
}

fn same_groups(bench: &mut Bench, paths: &Paths) -> Result<()> {
    let [first, second] =
        [paths.relay.address(), bench.portals[1]].map(|portal| bench.disk(portal, 0));
    let told = bench.sh(&format!(
        "sg_rtpg -d {first} >/tmp/1; sg_rtpg -d {second} >/tmp/2; cat /tmp/1; cmp /tmp/1 /tmp/2"
    ))?;
    ensure!(told.contains("active/optimized"), "{told}");
    Ok(())
}

/// Starts a load that lasts about 20 s whatever the machine, and lets it come in motion.
fn start_load(bench: &mut Bench) -> Result<()> {
    bench.sh("load /run/load --name=paths --filename=$M --rw=randwrite --bs=8k --size=16M \
         --rate_iops=120 --iodepth=8")?;
    thread::sleep(Duration::from_secs(2));
    bench.sh("load_runs /run/load")?;
    Ok(())
}

fn end_load(bench: &mut Bench) -> Result<()> {
    bench.until("load_is_over /run/load")?;
    bench.sh("load_succeeded /run/load")?;
    Ok(())
}

fn wait_for_paths(bench: &mut Bench, count: usize) -> Result<()> {
    bench.until(&format!(
        "multipath -ll >/tmp/m; cat /tmp/m; [ $(grep -c 'active *ready *running' /tmp/m) = {count} ]"
    ))?;
    Ok(())
}

fn loss(bench: &mut Bench, paths: &Paths) -> Result<()> {
    start_load(bench)?;
    paths.relay.cut();
    wait_for_paths(bench, 1)?;
    bench.sh("load_runs /run/load")?;
    paths.relay.mend()?;
    wait_for_paths(bench, 2)?;
    end_load(bench)
}

/// The daemon is killed, so both portals are gone; multipath queues until one is back.
fn loss_of_all(bench: &mut Bench, paths: &Paths) -> Result<()> {
    start_load(bench)?;
    paths.relay.cut();
    bench.array.kill()?;
    wait_for_paths(bench, 0)?;
    bench.sh("load_runs /run/load")?;
    bench.array.restart()?;
    paths.relay.mend()?;
    wait_for_paths(bench, 2)?;
    end_load(bench)
}

fn file_system(bench: &mut Bench, paths: &Paths) -> Result<()> {
    bench.sh("mkfs.xfs -f $M; mkdir -p /mnt/m; mount $M /mnt/m; cp /usr/bin/fio /mnt/m/first")?;
    paths.relay.cut();
    bench.sh("cp /usr/bin/fio /mnt/m/second; sync")?;
    wait_for_paths(bench, 1)?;
    bench.sh("umount /mnt/m; xfs_repair -n $M; mount $M /mnt/m")?;
    bench.sh("for copy in first second; do cmp /usr/bin/fio /mnt/m/$copy; done; umount /mnt/m")?;
    paths.relay.mend()?;
    wait_for_paths(bench, 2)
}
