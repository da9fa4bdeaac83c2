//! Two controllers in the guest over a mirror of reserved block devices with a witness, and a host with a path
//! to each: dm-multipath under a verified load while they are killed, stand still, are switched, and do not hear
//! each other. After each round one controller has the pool, its key alone holds the devices, and what the host
//! wrote, registered and reserved is there.
//!
//! The disks are LUNs of an array outside: `$D0` to `$D2` as controller a has them, `$E0` to `$E2` as b. Each
//! daemon has a network namespace with one cable to the guest's kernel, which is the host and routes the link
//! between the two. `$M` is the volume under load, `$R` one that the host has reserved.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use guest::{Bench, Hardware, Need, Report};
use harness::Value;
use harness::binaries::binary;

const FUNCTIONS: &str = r#"
    g() { name=$1; shift; /mnt/programs/gantry --data "/var/$name" "$@"; }

    # network a|b NUMBER: a namespace of its own and a cable to it.
    network() {
        touch "/run/net.$1"
        unshare --net="/run/net.$1" sh -ec "ip link set lo up
            ip link add dev out type veth
            ip addr add 10.9.$2.2/24 dev out
            ip link set out up
            ip link set veth0 name to_$1
            ip link set to_$1 netns 1
            ip route add default via 10.9.$2.1"
        ip addr add "10.9.$2.1/24" dev "to_$1"
        ip link set "to_$1" up
    }

    # daemon a|b: starts one, which calls its disks /run/lun0 to /run/lun2.
    daemon() {
        [ "$1" = a ] && set -- a 1 2 "$D0" "$D1" "$D2" || set -- b 2 1 "$E0" "$E1" "$E2"
        touch /run/lun0 /run/lun1 /run/lun2
        setsid nsenter --net="/run/net.$1" unshare -m sh -ec "
            mount --bind $(readlink -f "$4") /run/lun0
            mount --bind $(readlink -f "$5") /run/lun1
            mount --bind $(readlink -f "$6") /run/lun2
            exec /mnt/programs/gantryd --data /var/$1 --iscsi 10.9.$2.2:3260 --controller $2 \
                --peer-portal $3=10.9.$3.2:3260 --link 10.9.$2.2:3262 --memory 256M \
                --reserve-devices on" >>"/var/$1.log" 2>&1 &
        echo $! >"/run/$1.pid"
    }

    # send a|b SIGNAL, and end a|b: kill -9, until it is gone.
    send() { kill "-$2" "$(cat "/run/$1.pid")"; }
    end() { send "$1" KILL; while kill -0 "$(cat "/run/$1.pid")" 2>/dev/null; do sleep 0.1; done; }

    # stands a|b STATE: it says that it serves the pool so.
    stands() { g "$1" controller list >"/tmp/list.$1" && grep '(this)' "/tmp/list.$1" | grep -q " $2"; }

    # hears a|b, is_deaf a|b: whether the other one is heard.
    hears() { g "$1" controller list >"/tmp/list.$1" && grep -q '[0-9] *heard ' "/tmp/list.$1"; }
    is_deaf() { g "$1" controller list >"/tmp/list.$1" && grep -Eq ' silent since | has ended' "/tmp/list.$1"; }

    # owner: the name of the controller that has the pool while the other one is standby.
    owner() {
        if stands a active-optimized; then stands b standby && echo a
        else stands b active-optimized && stands a standby && echo b; fi
    }

    # join a|b NUMBER: the host logs in there.
    join() {
        record="iscsiadm -m node -T $I -p 10.9.$2.2:3260"
        $record -o new >/dev/null
        $record -o update -n node.session.timeo.replacement_timeout -v 2
        $record --login
        udevadm settle
    }

    # written: how many writes of the host the volume has answered.
    written() { awk '{ print $5 }' "/sys/block/$(basename "$(readlink -f "$M")")/stat"; }
"#;

/// As a storage administrator sets it who wants no error, but quicker to look again. The disks outside are none
/// of its business.
const MULTIPATH: &str = r#"
defaults {
    find_multipaths no
    polling_interval 1
    max_polling_interval 2
    path_grouping_policy group_by_prio
    path_selector "service-time 0"
    prio alua
    detect_prio yes
    failback immediate
    no_path_retry queue
}
blacklist {
    wwid ".*"
}
"#;

/// Bytes that the load of each round writes, in a place of its own: about 40 s of writes, and those that a stall
/// delays.
const ROUND_MIB: usize = 12;
const LOAD: &str = "--filename=$M --rw=randwrite --bs=8k --size=12M --iodepth=8";

/// Where a write is sent that an owner has not read yet when it stands still: behind all rounds.
const LATE_LBA: u64 = (240 << 20) / 512;

/// For how long nothing may have moved when it should not: longer than --take-over-after.
const LONG: Duration = Duration::from_secs(10);

/// What the steps leave to each other.
#[derive(Default)]
struct Scene {
    /// Whether a step failed: those that follow would only wait.
    is_broken: bool,
    /// Rounds that were played, and so places of the volume that were written.
    rounds: usize,
    /// With which key controllers a and b reserve the devices, once that was seen.
    keys: [Option<String>; 2],
    stalls: Vec<(&'static str, Duration)>,
}

impl Scene {
    fn step(&mut self, run: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        ensure!(!self.is_broken, "a step before it failed");
        self.is_broken = true;
        run(self)?;
        self.is_broken = false;
        Ok(())
    }
}

/// A step of the set-up.
type Step = fn(&mut Bench) -> Result<()>;

/// What is done to the owner and the other one while the host writes.
type Play = fn(&mut Bench, owner: &str, other: &str) -> Result<()>;

const ROUNDS: [(&str, Play); 9] = [
    ("the owner is killed", kill_owner),
    ("the owner stands still and wakes", freeze_owner),
    ("the pool is switched", switch),
    ("the link is cut", cut_link),
    ("the standby is killed", kill_standby),
    ("the owner is killed while the link is cut", kill_owner_unheard),
    ("the owner is killed and started again at once", restart_owner),
    ("the other owner stands still and wakes", freeze_owner),
    ("the other owner is killed", kill_owner),
];

#[test]
fn a_pool_on_reserved_disks_is_taken_over_under_a_multipath_host() -> Result<()> {
    let programs = tempfile::Builder::new().prefix("gantry-programs-").tempdir()?;
    for name in ["gantryd", "gantry"] {
        fs::copy(binary(name)?, programs.path().join(name))?;
    }
    let share = Some(programs.path().to_owned());
    let hardware = Hardware { memory_mib: 1536, forwards: Vec::new(), share };
    let mut bench = Bench::start_with(2, 3, hardware)?;
    prepare(&mut bench)?;
    let mut scene = Scene::default();
    let mut report = Report::new("take_over");
    let set_up: [(&str, Step); 3] = [
        ("a mirror with a witness on one controller", first_controller),
        ("a second one beside it, paired", second_controller),
        ("the host has a path to each, registers and reserves", host),
    ];
    for (name, run) in set_up {
        report.check(&mut bench, name, Need::None, |bench| scene.step(|_| run(bench)));
    }
    for (name, play) in ROUNDS {
        let run = |bench: &mut Bench| scene.step(|scene| round(bench, scene, name, play));
        report.check(&mut bench, name, Need::None, run);
    }
    for (name, stall) in &scene.stalls {
        println!("  the host waited {:5.1} s at most  {name}", stall.as_secs_f64());
    }
    report.finish(&bench)
}

fn prepare(bench: &mut Bench) -> Result<()> {
    for (letter, portal) in ["D", "E"].iter().zip(bench.portals.clone()) {
        bench.log_in(portal, &[])?;
        for lun in 0..3 {
            let disk = bench.disk(portal, lun);
            bench.machine.set(&format!("{letter}{lun}"), &disk)?;
        }
    }
    bench.sh(&format!(
        "mkdir -p /mnt/programs
         mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=512000 share /mnt/programs
         modprobe veth
         cat >>/run/functions.sh <<'END'\n{FUNCTIONS}\nEND"
    ))?;
    bench.sh("network a 1; network b 2; echo 1 >/proc/sys/net/ipv4/ip_forward")?;
    Ok(())
}

fn first_controller(bench: &mut Bench) -> Result<()> {
    bench.sh("mkdir -m 700 /var/a /var/b; daemon a")?;
    bench.until("g a pool list")?;
    // udev locks a disk while it has a look.
    bench.until("g a pool create p --mirror 2 block:/run/lun0 block:/run/lun1")?;
    bench.until("g a pool attach p block:/run/lun2 --witness")?;
    bench.sh("for volume in v r; do
            g a volume create p/$volume --size 256M
            g a volume map p/$volume --host any
        done")?;
    bench.until("stands a active-optimized")?;
    Ok(())
}

fn second_controller(bench: &mut Bench) -> Result<()> {
    bench.sh("cp -p /var/a/*.json /var/b; daemon b")?;
    bench.until("stands b standby")?;
    let paired: Value = bench.sh("g a controller pair --json")?.parse()?;
    bench.sh(&format!("g b controller join {}", harness::text(&paired, "/code")?))?;
    bench.until("hears a && hears b")?;
    // A standby looks at the disks every 2 s, and udev must not have to examine them each time.
    bench.sh("udevadm settle")?;
    Ok(())
}

/// The reservation is of the path that serves, and outlives that one: APTPL.
fn host(bench: &mut Bench) -> Result<()> {
    let target: Value = bench.sh("g a target show --json")?.parse()?;
    bench.machine.set("I", harness::text(&target, "/name")?)?;
    let mut exceptions = String::new();
    for (variable, volume) in [("M", "p/v"), ("R", "p/r")] {
        let shown: Value = bench.sh(&format!("g a volume show {volume} --json"))?.parse()?;
        let name = harness::text(&shown, "/naa")?.replace("naa.", "3");
        exceptions.push_str(&format!("    wwid \"{name}\"\n"));
        bench.machine.set(variable, &format!("/dev/mapper/{name}"))?;
    }
    let configuration = format!("{MULTIPATH}blacklist_exceptions {{\n{exceptions}}}\n");
    bench.sh(&format!("cat >/etc/multipath.conf <<'END'{configuration}END\nmultipathd"))?;
    bench.sh("join a 1; join b 2")?;
    wait_for_paths(bench)?;
    bench.sh("sg_persist -n -o -G -S 0xbeef -Z $M
         sg_persist -n -o -G -S 0xcafe -Z $R
         sg_persist -n -o -R -K 0xcafe -T 5 $R")?;
    Ok(())
}

/// Two paths of each of the two volumes.
fn wait_for_paths(bench: &mut Bench) -> Result<()> {
    bench.until(
        "multipath -ll >/tmp/m; cat /tmp/m; [ $(grep -c 'active *ready *running' /tmp/m) = 4 ]",
    )?;
    Ok(())
}

/// One round: the host writes all the while, and what is promised holds afterwards.
fn round(bench: &mut Bench, scene: &mut Scene, name: &'static str, play: Play) -> Result<()> {
    let owner = owner(bench)?;
    let other = if owner == "a" { "b" } else { "a" };
    let place = scene.rounds * ROUND_MIB;
    scene.rounds += 1;
    bench.sh(&format!(
        "load /run/load --name=round --offset={place}M {LOAD} --rate_iops=40 \
             --output-format=normal,json"
    ))?;
    host_goes_on(bench)?;
    play(bench, &owner, other)?;
    host_goes_on(bench)?;
    bench.until("load_is_over /run/load")?;
    let log = bench.sh("load_succeeded /run/load")?;
    scene.stalls.push((name, longest_wait(&log)?));
    holds(bench, scene)
}

/// What is so after each round.
fn holds(bench: &mut Bench, scene: &mut Scene) -> Result<()> {
    let owner = owner(bench)?;
    wait_for_paths(bench)?;
    bench.until("hears a && hears b")?;
    is_reserved_by(bench, scene, &owner)?;
    for (disk, key) in [("$M", "0xbeef"), ("$R", "0xcafe")] {
        let keys = bench.sh(&format!("sg_persist -n -i -k {disk}"))?;
        ensure!(keys.contains("1 registered reservation key") && keys.contains(key), "{keys}");
    }
    let reserved = bench.sh("sg_persist -n -i -r $R")?;
    ensure!(reserved.contains("Key=0xcafe"), "{reserved}");
    ensure!(reserved.contains("Write Exclusive, registrants only"), "{reserved}");
    for round in 0..scene.rounds {
        let place = round * ROUND_MIB;
        bench.sh(&format!(
            "load /run/check --name=round --offset={place}M {LOAD} --verify_only; wait
             load_succeeded /run/check"
        ))?;
    }
    Ok(())
}

/// The controller that has the pool, from when the other one does not say so, too.
fn owner(bench: &mut Bench) -> Result<String> {
    Ok(bench.until("owner")?.trim().to_owned())
}

/// Both members and the witness are held by one key, always the same one of that controller.
fn is_reserved_by(bench: &mut Bench, scene: &mut Scene, owner: &str) -> Result<()> {
    for disk in ["$D0", "$D1", "$D2"] {
        let status =
            bench.sh(&format!("sg_persist -n -i -r {disk}; sg_persist -n -i -k {disk}"))?;
        ensure!(status.contains("Write Exclusive, registrants only"), "{disk}: {status}");
        ensure!(status.contains("1 registered reservation key"), "{disk}: {status}");
        let key = status.split("Key=").nth(1).and_then(|rest| rest.split_whitespace().next());
        let key = key.with_context(|| format!("a key: {status}"))?;
        let [a, b] = &mut scene.keys;
        let (own, foreign) = if owner == "a" { (a, b) } else { (b, a) };
        let own = own.get_or_insert_with(|| key.to_owned());
        ensure!(own == key, "{disk} is held by {key}, not {own} of {owner}");
        ensure!(foreign.as_deref() != Some(key), "{disk} is held by the other one's {key}");
    }
    Ok(())
}

/// Waits until so many more of the host's writes were answered.
fn host_goes_on(bench: &mut Bench) -> Result<()> {
    let before: u64 = bench.sh("written")?.trim().parse()?;
    bench.until(&format!("[ $(written) -gt {} ]", before + 50))?;
    Ok(())
}

/// From when a write was sent until it was answered, at most.
fn longest_wait(log: &str) -> Result<Duration> {
    let json = log.find("\n{").zip(log.rfind("\n}")).map(|(from, to)| &log[from..to + 2]);
    let told: Value = json.with_context(|| format!("no JSON in {log}"))?.parse()?;
    Ok(Duration::from_nanos(harness::number(&told, "/jobs/0/write/clat_ns/max")?))
}

fn kill_owner(bench: &mut Bench, owner: &str, other: &str) -> Result<()> {
    bench.sh(&format!("end {owner}"))?;
    bench.until(&format!("stands {other} active-optimized"))?;
    host_goes_on(bench)?;
    bench.sh(&format!("daemon {owner}"))?;
    bench.until(&format!("stands {owner} standby"))?;
    Ok(())
}

/// A write that waits in the socket of the owner while it stands still arrives nowhere when it wakes: another one
/// was made in the same place since.
fn freeze_owner(bench: &mut Bench, owner: &str, other: &str) -> Result<()> {
    let number = if owner == "a" { 1 } else { 2 };
    let took = format!("g {owner} events | grep -c 'was taken by another controller' || true");
    let before = bench.sh(&took)?;
    bench.sh(&format!(
        "random 16 /run/old; random 16 /run/new
         send {owner} STOP
         disk=/dev/disk/by-path/ip-10.9.{number}.2:3260-iscsi-$I-lun-0
         {{ got=0; put /run/old $disk {LATE_LBA} >/run/late.log 2>&1 || got=$?
             echo $got >/run/late; }} &"
    ))?;
    bench.until(&format!("stands {other} active-optimized"))?;
    bench.sh(&format!("put /run/new $M {LATE_LBA}"))?;
    bench.sh(&format!("send {owner} CONT"))?;
    bench.until(&format!("stands {owner} standby"))?;
    bench.until("[ -e /run/late ]")?;
    let late = bench.sh("cat /run/late; cat /run/late.log; rm /run/late")?;
    ensure!(late.starts_with('1'), "the late write was answered: {late}");
    ensure!(bench.sh(&took)? != before, "it says nowhere that the pool was taken");
    bench.sh(&format!("holds $M {LATE_LBA} 16 /run/new"))?;
    Ok(())
}

fn switch(bench: &mut Bench, owner: &str, other: &str) -> Result<()> {
    bench.sh(&format!("g {owner} controller switch p"))?;
    bench.until(&format!("stands {other} active-optimized && stands {owner} standby"))?;
    Ok(())
}

fn cut_link(bench: &mut Bench, owner: &str, other: &str) -> Result<()> {
    bench.sh("echo 0 >/proc/sys/net/ipv4/ip_forward")?;
    bench.until("is_deaf a && is_deaf b")?;
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        bench.sh(&format!("stands {owner} active-optimized && stands {other} standby"))?;
    }
    bench.sh("echo 1 >/proc/sys/net/ipv4/ip_forward")?;
    bench.until("hears a && hears b")?;
    Ok(())
}

fn kill_standby(bench: &mut Bench, owner: &str, other: &str) -> Result<()> {
    bench.sh(&format!("end {other}"))?;
    bench.until(&format!("is_deaf {owner}"))?;
    host_goes_on(bench)?;
    bench.sh(&format!("stands {owner} active-optimized; daemon {other}"))?;
    bench.until(&format!("stands {other} standby && stands {owner} active-optimized"))?;
    Ok(())
}

/// The heartbeat alone says that it is gone.
fn kill_owner_unheard(bench: &mut Bench, owner: &str, other: &str) -> Result<()> {
    bench.sh("echo 0 >/proc/sys/net/ipv4/ip_forward")?;
    bench.until("is_deaf a && is_deaf b")?;
    kill_owner(bench, owner, other)?;
    bench.sh("echo 1 >/proc/sys/net/ipv4/ip_forward")?;
    Ok(())
}

/// Either of them has the pool then.
fn restart_owner(bench: &mut Bench, owner: &str, _: &str) -> Result<()> {
    bench.sh(&format!("end {owner}; daemon {owner}"))?;
    bench.until("owner")?;
    Ok(())
}
