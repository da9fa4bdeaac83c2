//! The Kubernetes driver's node part on the kernel's own initiator: open-iscsi, multipathd, udev,
//! ext4 and xfs. The driver's controller beside the array gives it volumes, over two portals and with
//! CHAP; the test calls both as kubelet and sidecars do.

mod driver;

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use guest::bench::INITIATOR;
use guest::{Bench, Hardware, Machine, Need, Relay, Report};
use harness::text;
use serde_json::json;

use driver::{
    Driver, INTERNAL, Volume, attach, detach, file_system, node, nothing_is_left,
    read_only_file_system, shared_block, stage_request, start_node, try_node, unstage_request,
};

const MIB: u64 = 1 << 20;

/// What a call ends with that is refused as it stands (FAILED_PRECONDITION).
const FAILED_PRECONDITION: i32 = 9;

/// Name of the second node.
const SECOND: &str = "iqn.2026-01.org.example:second";

struct Scene {
    driver: Driver,
    relay: Relay,
    /// ext4, xfs, and raw block, as they are made by the checks.
    volumes: Vec<Volume>,
}

#[test]
fn the_driver_of_kubernetes_attaches_and_removes_exactly_its_disks() -> Result<()> {
    let driver = Driver::build()?;
    let share = Some(driver.programs());
    let hardware = Hardware { share, ..Hardware::default() };
    let mut bench = Bench::start_with(2, 0, hardware)?;
    // Numbers rest for a second, so that they come back while disks of their old volumes are there.
    let second = bench.portals[1].to_string();
    bench.array.stop()?;
    bench.array = bench.array.with_words(&[], &["--iscsi", &second, "--lun-rest", "1"]);
    bench.array.restart()?;
    let relay = Relay::to(bench.portals[0])?;
    let mut scene = Scene { driver, relay, volumes: Vec::new() };
    let mut report = Report::new("csi");
    let mut check = |name, run: fn(&mut Bench, &mut Scene) -> Result<()>| {
        report.check(&mut bench, name, Need::None, |bench| run(bench, &mut scene));
    };
    check("controller and node start; the node is its initiator", start);
    check("two file systems and a raw block device at once, each over two portals", three_at_once);
    check("CHAP, and no disk but those", exactly_these);
    check("repeated calls change nothing", repeated);
    check("verified I/O, and a second pod is refused", input_and_output);
    check("a lost unstage: the number's next volume is itself, and the old disk goes", stale);
    check("a mounted stale disk keeps the next volume away, which then comes", stale_in_use);
    check("a clone beside its source, with the source's data", clone);
    check("a frozen file system's clone is mounted read-only from a read-only map", read_only);
    check("a partition table in a raw volume makes no devices that stay", partitions);
    check("all three grow while they are used", expand);
    check("I/O goes on without one portal, where volumes come and go", one_portal);
    check("I/O goes on over kill -9 and restart of the daemon", daemon);
    check("raw block on two nodes at once", two_nodes);
    check("unstaging removes exactly the volume's disks, and then the sessions", leave);
    check("a new CHAP key is taken by the node that has no volumes", new_key);
    report.finish(&bench)
}

fn start(bench: &mut Bench, scene: &mut Scene) -> Result<()> {
    start_node(&mut bench.machine)?;
    bench.sh("multipathd")?;
    bench.until("multipathd show daemon | grep -q ^pid")?;
    scene.driver.add_key(&mut bench.machine, "k1")?;
    let portals = format!("{},{}", scene.relay.address(), bench.portals[1]);
    scene.driver.start_controller(&bench.array, &portals)?;
    let told = node(&mut bench.machine, "NodeGetInfo", &json!({}))?;
    ensure!(text(&told, "/nodeId")? == INITIATOR, "{told}");
    Ok(())
}

/// What three pods that start at the same time bring about.
fn three_at_once(bench: &mut Bench, scene: &mut Scene) -> Result<()> {
    let wanted = [
        ("pvc-ext4", file_system("ext4")),
        ("pvc-xfs", file_system("xfs")),
        ("pvc-block", shared_block()),
    ];
    for (name, capability) in wanted {
        let mut volume = scene.driver.create(name, 384 * MIB, capability, None)?;
        scene.driver.publish(&mut volume, INITIATOR)?;
        scene.volumes.push(volume);
    }
    let mut script = String::new();
    for volume in &scene.volumes {
        let (staging, request) = (volume.staging(), stage_request(volume));
        script.push_str(&format!(
            "mkdir -p {staging}; csi NodeStageVolume '{request}' & pids=\"$pids $!\"; "
        ));
    }
    // A call that fails is repeated below.
    bench.sh(&format!("{script} for pid in $pids; do wait $pid || :; done"))?;
    for volume in &scene.volumes {
        attach(&mut bench.machine, volume)?;
        has_paths(&mut bench.machine, volume, 2)?;
    }
    Ok(())
}

/// The volume has so many disks, and they are its map's. A busy machine has the driver go on with one of
/// two, and add the other within a minute.
fn has_paths(machine: &mut Machine, volume: &Volume, count: usize) -> Result<()> {
    let (id, twice) = (&volume.id, 2 * count);
    machine.until(&format!(
        "{{ disks {id}; ls /sys/block/$(map_of {id})/slaves; }} >/tmp/p; cat /tmp/p; \
         [ $(wc -l </tmp/p) = {twice} ]"
    ))?;
    Ok(())
}

fn exactly_these(bench: &mut Bench, scene: &mut Scene) -> Result<()> {
    let disks = bench.sh("ls -d /sys/block/sd* /sys/block/dm-*")?;
    let wanted = scene.volumes.len() * 3;
    ensure!(disks.lines().count() == wanted, "{wanted} were expected:\n{disks}");
    let sessions = bench.sh("iscsiadm -m session -P 2")?;
    ensure!(sessions.matches(&format!("username: {INITIATOR}")).count() == 2, "{sessions}");
    let policy = bench.sh("multipath -ll")?;
    ensure!(policy.contains("hwhandler='1 alua'") && policy.contains("prio=50"), "{policy}");
    ensure!(policy.contains("queue_if_no_path"), "it waits for an array that restarts:\n{policy}");
    Ok(())
}

fn repeated(bench: &mut Bench, scene: &mut Scene) -> Result<()> {
    let before = bench.sh("cat /proc/mounts; ls -l /sys/block; iscsiadm -m session")?;
    for volume in &mut scene.volumes {
        let told = volume.context.clone();
        scene.driver.publish(volume, INITIATOR)?;
        ensure!(volume.context == told, "{} and {told}", volume.context);
        attach(&mut bench.machine, volume)?;
    }
    let after = bench.sh("cat /proc/mounts; ls -l /sys/block; iscsiadm -m session")?;
    ensure!(before == after, "{before}\nis now\n{after}");
    // What the node is told of another volume does not reach this one's disk.
    let mut wrong = stage_request(&scene.volumes[0]);
    wrong["publishContext"] = scene.volumes[1].context.clone();
    let refused = try_node(&mut bench.machine, "NodeStageVolume", &wrong)?;
    ensure!(refused.output.contains("another volume"), "{refused}");
    Ok(())
}

fn input_and_output(bench: &mut Bench, scene: &mut Scene) -> Result<()> {
    for volume in &scene.volumes[..2] {
        bench.sh(&format!(
            "cp /usr/bin/fio {0}/first; sync -f {0}/first; cmp /usr/bin/fio {0}/first",
            volume.target()
        ))?;
        let mut second = stage_request(volume);
        second["targetPath"] = json!(format!("{}-of-another-pod", volume.target()));
        let refused = try_node(&mut bench.machine, "NodePublishVolume", &second)?;
        ensure!(refused.status == FAILED_PRECONDITION, "ReadWriteOncePod: {refused}");
        let request = json!({"volumeId": volume.id, "volumePath": volume.target()});
        let usage = node(&mut bench.machine, "NodeGetVolumeStats", &request)?;
        ensure!(usage.to_string().contains("INODES"), "{usage}");
    }
    // A user's file has the name that the driver gives its own beside raw block volumes.
    let first = scene.volumes[0].clone();
    bench.sh(&format!("echo mine >{0}/device; sync -f {0}/device", first.target()))?;
    detach(&mut bench.machine, &first)?;
    attach(&mut bench.machine, &first)?;
    bench.sh(&format!("grep -qx mine {}/device", first.target()))?;
    let block = scene.volumes[2].target();
    bench.sh(&format!(
        "random 2048 /run/r; put /run/r {block} 4096; holds {block} 4096 2048 /run/r"
    ))?;
    Ok(())
}

/// The sidecar resizes, and the kubelet follows.
fn expand(bench: &mut Bench, scene: &mut Scene) -> Result<()> {
    for volume in &scene.volumes {
        let range = json!({"requiredBytes": 512 * MIB});
        let request = json!({"volumeId": volume.id, "capacityRange": range});
        scene.driver.call("ControllerExpandVolume", &request)?;
        let path = json!({
            "volumeId": volume.id, "volumePath": volume.target(),
            "stagingTargetPath": volume.staging(), "capacityRange": range,
        });
        for _ in 0..2 {
            node(&mut bench.machine, "NodeExpandVolume", &path)?;
        }
    }
    let sizes = bench.sh(&format!(
        "df -m {} {} | awk 'NR > 1 {{print $2}}'; blockdev --getsize64 {}",
        scene.volumes[0].target(),
        scene.volumes[1].target(),
        scene.volumes[2].target()
    ))?;
    let sizes: Vec<u64> = sizes.lines().map(str::parse).collect::<Result<_, _>>()?;
    ensure!(sizes[0] > 430 && sizes[1] > 430 && sizes[2] == 512 * MIB, "{sizes:?}");
    bench.sh(&format!("cmp /usr/bin/fio {}/first", scene.volumes[0].target()))?;
    Ok(())
}

/// A load that lasts about so many seconds whatever the machine; no command may take longer than the
/// other path needs to take over.
fn start_load(bench: &mut Bench, volume: &Volume, seconds: u32) -> Result<()> {
    bench.sh(&format!(
        "load /run/load --name=csi --filename={} --offset=64M --rw=randwrite --bs=8k --size=16M \
         --rate_iops=60 --iodepth=4 --loops=32 --runtime={seconds} --time_based --max_latency=60s",
        volume.target()
    ))?;
    thread::sleep(Duration::from_secs(2));
    bench.sh("load_runs /run/load")?;
    Ok(())
}

fn end_load(bench: &mut Bench) -> Result<()> {
    bench.until("load_is_over /run/load")?;
    bench.sh("load_succeeded /run/load")?;
    Ok(())
}

fn wait_for_paths(bench: &mut Bench, volume: &Volume, count: usize) -> Result<()> {
    bench.until(&format!(
        "multipath -ll /dev/$(map_of {}) >/tmp/m; cat /tmp/m; \
         [ $(grep -c 'active *ready *running' /tmp/m) = {count} ]",
        volume.id
    ))?;
    Ok(())
}

/// One volume comes and goes while the portal is away, another one stays and gets its path afterwards.
fn one_portal(bench: &mut Bench, scene: &mut Scene) -> Result<()> {
    start_load(bench, &scene.volumes[2], 60)?;
    scene.relay.cut();
    let mut late = Vec::new();
    for name in ["pvc-late-and-gone", "pvc-late"] {
        let mut volume = scene.driver.create(name, 256 * MIB, file_system("ext4"), None)?;
        scene.driver.publish(&mut volume, INITIATOR)?;
        attach(&mut bench.machine, &volume)?;
        has_paths(&mut bench.machine, &volume, 1)?;
        let target = volume.target();
        bench.sh(&format!("cp /usr/bin/fio {target}/first; cmp /usr/bin/fio {target}/first"))?;
        late.push(volume);
    }
    wait_for_paths(bench, &scene.volumes[2], 1)?;
    gone(bench, scene, &late[0])?;
    scene.relay.mend()?;
    for volume in scene.volumes.iter().chain(&late[1..]) {
        wait_for_paths(bench, volume, 2)?;
    }
    end_load(bench)?;
    gone(bench, scene, &late[1])
}

/// Takes a volume from its pod and its node, and deletes it.
fn gone(bench: &mut Bench, scene: &Scene, volume: &Volume) -> Result<()> {
    detach(&mut bench.machine, volume)?;
    scene.driver.unpublish(volume, INITIATOR)?;
    scene.driver.delete(volume)
}

fn daemon(bench: &mut Bench, scene: &mut Scene) -> Result<()> {
    start_load(bench, &scene.volumes[2], 40)?;
    bench.array.kill()?;
    wait_for_paths(bench, &scene.volumes[2], 0)?;
    bench.sh("load_runs /run/load")?;
    bench.array.restart()?;
    for volume in &scene.volumes {
        wait_for_paths(bench, volume, 2)?;
    }
    end_load(bench)?;
    for volume in &scene.volumes[..2] {
        bench.sh(&format!(
            "cp /usr/bin/fio {0}/second; sync -f {0}/second; cmp /usr/bin/fio {0}/second",
            volume.target()
        ))?;
    }
    Ok(())
}

/// A file system's copy has its UUID, which xfs refuses to mount beside the original unasked.
fn clone(bench: &mut Bench, scene: &mut Scene) -> Result<()> {
    let source = &scene.volumes[1];
    let mut copy =
        scene.driver.create("pvc-copy", 640 * MIB, source.capability.clone(), Some(source))?;
    scene.driver.publish(&mut copy, INITIATOR)?;
    attach(&mut bench.machine, &copy)?;
    let size = bench.sh(&format!(
        "cmp {}/first {}/first; df -m {1} | awk 'NR > 1 {{print $2}}'",
        source.target(),
        copy.target()
    ))?;
    ensure!(size.trim().parse::<u64>()? > 550, "the copy is larger than its source: {size}");
    gone(bench, scene, &copy)
}

/// What several nodes read at once, such as a data set. Its journal has to be empty: nobody may write.
fn read_only(bench: &mut Bench, scene: &mut Scene) -> Result<()> {
    let source = scene.volumes[0].clone();
    bench.sh(&format!("fsfreeze -f {}", source.target()))?;
    let copy = scene.driver.create("pvc-read", 384 * MIB, read_only_file_system(), Some(&source));
    bench.sh(&format!("fsfreeze -u {}", source.target()))?;
    let mut copy = copy?;
    scene.driver.publish(&mut copy, INITIATOR)?;
    attach(&mut bench.machine, &copy)?;
    let (from, to) = (source.target(), copy.target());
    bench.sh(&format!("cmp {from}/first {to}/first; expect 1 touch {to}/second"))?;
    bench.sh(&format!("[ $(blockdev --getro /dev/$(map_of {})) = 1 ]", copy.id))?;
    gone(bench, scene, &copy)
}

/// A virtual machine's disk: its partitions are the guest's, and nothing of the node may hold them.
fn partitions(bench: &mut Bench, scene: &mut Scene) -> Result<()> {
    let mut disk = scene.driver.create("pvc-disk", 256 * MIB, shared_block(), None)?;
    scene.driver.publish(&mut disk, INITIATOR)?;
    attach(&mut bench.machine, &disk)?;
    // One partition of kind 83h from sector 2,048 on, and the signature.
    bench.sh(&format!(
        "zeroes 1 /tmp/table; printf '\\0\\0\\0\\0\\203\\0\\0\\0\\0\\010\\0\\0\\0\\0\\004\\0' | \
             dd of=/tmp/table bs=1 seek=446 conv=notrunc status=none; \
         printf '\\125\\252' | dd of=/tmp/table bs=1 seek=510 conv=notrunc status=none; \
         put /tmp/table {} 0; udevadm settle",
        disk.target()
    ))?;
    detach(&mut bench.machine, &disk)?;
    // It comes back with the table in it, which is when the kernel reads it.
    attach(&mut bench.machine, &disk)?;
    bench.sh("udevadm settle")?;
    gone(bench, scene, &disk)
}

/// Makes volumes until one has the number of one that was deleted. As long as the daemon lives, it gives
/// no number that a session may still mean; of what sessions knew before its start it knows nothing, and
/// takes them for hosts that compare identifiers.
fn take_number(
    bench: &mut Bench,
    scene: &Scene,
    old: &Volume,
    capability: &serde_json::Value,
) -> Result<Volume> {
    // By default the number rests for ten minutes, and multipathd looks at a path every 20 s at least.
    wait_for_paths(bench, old, 0)?;
    bench.array.kill()?;
    bench.array.restart()?;
    for volume in &scene.volumes {
        wait_for_paths(bench, volume, 2)?;
    }
    let lun = old.lun()?;
    for attempt in 0..30 {
        let name = format!("pvc-next-{attempt}");
        let mut volume = scene.driver.create(&name, 256 * MIB, capability.clone(), None)?;
        scene.driver.publish(&mut volume, INITIATOR)?;
        if volume.lun()? == lun {
            return Ok(volume);
        }
        scene.driver.unpublish(&volume, INITIATOR)?;
        scene.driver.delete(&volume)?;
        thread::sleep(Duration::from_secs(1));
    }
    anyhow::bail!("no volume got the number {lun}")
}

/// A node that lost its unstage keeps disks and map of a volume that is deleted meanwhile.
fn stale(bench: &mut Bench, scene: &mut Scene) -> Result<()> {
    let mut old = scene.driver.create("pvc-old", 256 * MIB, file_system("ext4"), None)?;
    scene.driver.publish(&mut old, INITIATOR)?;
    attach(&mut bench.machine, &old)?;
    bench.sh(&format!("echo old >{0}/content; sync -f {0}/content", old.target()))?;
    bench.sh(&format!("csi_kill; umount {} {}; csi_start", old.target(), old.staging()))?;
    scene.driver.unpublish(&old, INITIATOR)?;
    scene.driver.delete(&old)?;
    let new = take_number(bench, scene, &old, &file_system("ext4"))?;
    bench.sh(&format!("map_of {0}; disks {0}", old.id))?;
    attach(&mut bench.machine, &new)?;
    has_paths(&mut bench.machine, &new, 2)?;
    let disks = bench.sh(&format!("disks {}", old.id))?;
    ensure!(disks.is_empty(), "disks of the old volume: {disks}");
    let content = bench.sh(&format!("ls {}", new.target()))?;
    ensure!(content.trim() == "lost+found", "a new file system is empty: {content}");
    // The call that was lost is repeated in the end. Until then there may be a map without paths.
    node(&mut bench.machine, "NodeUnstageVolume", &unstage_request(&old))?;
    nothing_is_left(&mut bench.machine, &old)?;
    has_paths(&mut bench.machine, &new, 2)?;
    gone(bench, scene, &new)
}

/// The same while a pod still has the old volume mounted, as on a node that was taken for dead.
fn stale_in_use(bench: &mut Bench, scene: &mut Scene) -> Result<()> {
    let mut old = scene.driver.create("pvc-held", 256 * MIB, file_system("ext4"), None)?;
    scene.driver.publish(&mut old, INITIATOR)?;
    attach(&mut bench.machine, &old)?;
    scene.driver.unpublish(&old, INITIATOR)?;
    scene.driver.delete(&old)?;
    let new = take_number(bench, scene, &old, &shared_block())?;
    bench.sh(&format!("mkdir -p {} $(dirname {})", new.staging(), new.target()))?;
    let refused = try_node(&mut bench.machine, "NodeStageVolume", &stage_request(&new))?;
    ensure!(refused.status == INTERNAL && refused.output.contains("in use"), "{refused}");
    // What the pod still writes under the old name does not arrive in the new volume, and does not keep
    // the old one mounted.
    bench
        .sh(&format!("(echo late >{0}/late; sync -f {0}/late) >/dev/null 2>&1 &", old.target()))?;
    thread::sleep(Duration::from_secs(5));
    detach(&mut bench.machine, &old)?;
    attach(&mut bench.machine, &new)?;
    has_paths(&mut bench.machine, &new, 2)?;
    bench.sh(&format!(
        "zeroes 8192 /run/z; for at in 0 8192 65536 262144; do holds {} $at 8192 /run/z; done",
        new.target()
    ))?;
    gone(bench, scene, &new)
}

/// What a live migration needs: both nodes have the volume, and see each other's writes.
fn two_nodes(bench: &mut Bench, scene: &mut Scene) -> Result<()> {
    let share = Some(scene.driver.programs());
    let mut second =
        bench.boot_another(SECOND, Hardware { share, memory_mib: 512, ..Hardware::default() })?;
    start_node(&mut second)?;
    second.sh("multipathd")?;
    second.until("multipathd show daemon | grep -q ^pid")?;
    scene.driver.add_key(&mut second, "k1")?;
    let first = scene.volumes[2].clone();
    let mut other = first.clone();
    scene.driver.publish(&mut other, SECOND)?;
    attach(&mut second, &other)?;
    has_paths(&mut second, &other, 2)?;
    let target = first.target();
    let seed = "yes gantry | head -c 1048576 >/run/s";
    bench.sh(&format!("{seed}; put /run/s {target} 8192"))?;
    second.sh(&format!("{seed}; holds {target} 8192 2048 /run/s; put /run/s {target} 16384"))?;
    bench.sh(&format!("holds {target} 16384 2048 /run/s"))?;
    // A file system for one pod is not given to a second node.
    let request = json!({
        "volumeId": scene.volumes[0].id, "nodeId": SECOND,
        "volumeCapability": scene.volumes[0].capability,
    });
    let refused = scene.driver.call("ControllerPublishVolume", &request);
    let refused = format!("{:#}", refused.err().context("two nodes have one file system")?);
    ensure!(refused.contains("one node only"), "{refused}");
    detach(&mut second, &other)?;
    scene.driver.unpublish(&other, SECOND)?;
    bench.sh(&format!("holds {target} 16384 2048 /run/s"))?;
    Ok(())
}

fn leave(bench: &mut Bench, scene: &mut Scene) -> Result<()> {
    while let Some(volume) = scene.volumes.pop() {
        gone(bench, scene, &volume)?;
        node(&mut bench.machine, "NodeUnstageVolume", &unstage_request(&volume))?;
        for other in &scene.volumes {
            has_paths(&mut bench.machine, other, 2)?;
        }
    }
    nothing_at_all(bench)
}

fn nothing_at_all(bench: &mut Bench) -> Result<()> {
    let left = bench.sh(
        "find /sys/class/iscsi_session/ /sys/class/scsi_device/ -mindepth 1; ls /sys/block | grep dm- || :; \
         multipath -ll 2>/dev/null; find /etc/iscsi /var/lib/iscsi -path '*nodes/*' -type f",
    )?;
    ensure!(left.trim().is_empty(), "left on the node: {left}");
    Ok(())
}

/// Sessions of the old account are gone, so the next volume brings the new one.
fn new_key(bench: &mut Bench, scene: &mut Scene) -> Result<()> {
    scene.driver.add_key(&mut bench.machine, "k2")?;
    let mut volume = scene.driver.create("pvc-key", 256 * MIB, file_system("ext4"), None)?;
    scene.driver.publish(&mut volume, INITIATOR)?;
    ensure!(text(&volume.context, "/chapKey")? == "k2", "{}", volume.context);
    attach(&mut bench.machine, &volume)?;
    has_paths(&mut bench.machine, &volume, 2)?;
    detach(&mut bench.machine, &volume)?;
    nothing_at_all(bench)
}
