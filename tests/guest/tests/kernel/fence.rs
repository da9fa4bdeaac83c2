//! Two daemons in the guest, and one disk that both reach over nexuses of their own: persistent
//! reservations as the fence of a pool's block device. `$D` is the disk as daemon a has it, `$E` as
//! daemon b; both call it /run/lun, each in its own mount namespace. Hosts are this test's own sessions.
//!
//! The guest's loopback interface is down, so the daemons bind to its address without having it.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use guest::{Bench, Hardware, Need, Report};
use harness::array::free_address;
use harness::binaries::binary;
use harness::pdu::{RawSession, cdb16_of_bytes};
use harness::random::Random;

/// Where daemons a and b listen in the guest.
const PORTS: [u16; 2] = [3261, 3262];

/// Bytes of one command.
const CHUNK: u64 = 64 << 10;

/// Chunks that a test writes.
const CHUNKS: u64 = 32;

/// `daemon a|b DISK`: starts one and waits until it answers. `g a|b WORDS...` asks it.
const FUNCTIONS: &str = r#"
    g() { name=$1; shift; /mnt/programs/gantry --data "/var/$name" "$@"; }
    daemon() {
        [ "$1" = a ] && port=3261 || port=3262
        touch /run/lun
        setsid unshare -m sh -c "mount --bind $(readlink -f "$2") /run/lun
            exec /mnt/programs/gantryd --data /var/$1 --iscsi 0.0.0.0:$port \
                --http 127.0.0.1:1$port --memory 256M --reserve-devices on" \
            >>"/var/$1.log" 2>&1 &
        echo $! >"/run/$1.pid"
    }
    # answers a|b: it serves, and no pool is just being opened.
    answers() { g "$1" pool list --json >/tmp/pools && ! grep -q '"opening"' /tmp/pools; }
    state() { g "$1" pool show p --json | grep -q "\"state\": \"$2\""; }
"#;

struct Hosts {
    portals: [SocketAddr; 2],
    target: String,
}

impl Hosts {
    fn log_in(&self, daemon: usize) -> Result<RawSession> {
        let name = "iqn.2026-01.org.example:host";
        RawSession::log_in(self.portals[daemon], name, &self.target)
    }
}

fn content(generation: u64, chunk: u64) -> Vec<u8> {
    Random::new(generation << 32 | chunk).bytes(CHUNK as usize)
}

fn write(host: &mut RawSession, generation: u64, chunk: u64) -> Result<Option<(u8, u8, u8)>> {
    let cdb = cdb16_of_bytes(0x8a, 0, chunk * CHUNK, CHUNK);
    let answer = host.write(0, &cdb, &content(generation, chunk))?;
    Ok(if answer.status == 0 { None } else { Some(answer.code().unwrap_or_default()) })
}

fn holds(host: &mut RawSession, generation: u64) -> Result<()> {
    for chunk in 0..CHUNKS {
        let cdb = cdb16_of_bytes(0x88, 0, chunk * CHUNK, CHUNK);
        let read = host.read(0, &cdb, CHUNK as u32)?.good()?;
        ensure!(read == content(generation, chunk), "chunk {chunk} is not of {generation}");
    }
    Ok(())
}

#[test]
fn a_reserved_disk_is_taken_from_its_owner_who_writes_no_more() -> Result<()> {
    let programs = tempfile::Builder::new().prefix("gantry-programs-").tempdir()?;
    for name in ["gantryd", "gantry"] {
        fs::copy(binary(name)?, programs.path().join(name))?;
    }
    let portals = [free_address()?, free_address()?];
    let forwards = portals.iter().zip(PORTS).map(|(near, far)| (near.port(), far)).collect();
    let programs_folder = Some(programs.path().to_owned());
    let hardware = Hardware { memory_mib: 1024, forwards, share: programs_folder };
    let mut bench = Bench::start_with(2, 1, hardware)?;
    prepare(&mut bench)?;
    let mut hosts = Hosts { portals, target: String::new() };
    let mut report = Report::new("fence");
    let mut check = |name, run: fn(&mut Bench, &mut Hosts) -> Result<()>| {
        report.check(&mut bench, name, Need::None, |bench| run(bench, &mut hosts));
    };
    check("a pool's disk is reserved while it is open", reserved);
    check("a second daemon waits, says who holds it, and breaks nothing unasked", waits);
    check("a broken owner's writes fail, none arrives, and it stops", broken);
    check("what a crash left is known as one's own", crash);
    check("a clean stop lets go, and the former owner opens when it is asked", back);
    check("a disk without reservations is used, and that is said once", loop_device);
    report.finish(&bench)
}

fn prepare(bench: &mut Bench) -> Result<()> {
    for (name, portal) in ["D", "E"].iter().zip(bench.portals.clone()) {
        bench.log_in(portal, &[])?;
        let disk = bench.disk(portal, 0);
        bench.machine.set(name, &disk)?;
    }
    bench.sh(&format!(
        "mkdir -p /mnt/programs
         mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=512000 share /mnt/programs
         echo 1 >/proc/sys/net/ipv4/ip_nonlocal_bind
         cat >>/run/functions.sh <<'END'\n{FUNCTIONS}\nEND"
    ))?;
    bench.sh("udevadm settle; udevadm control --exit")?;
    Ok(())
}

fn reserved(bench: &mut Bench, hosts: &mut Hosts) -> Result<()> {
    bench.sh("mkdir -p -m 700 /var/a; daemon a $D")?;
    bench.until("answers a")?;
    bench.sh("g a pool create p block:/run/lun; g a volume create p/v --size 256M; \
              g a volume map p/v --host any")?;
    let target: harness::Value = bench.sh("g a target show --json")?.parse()?;
    hosts.target = harness::text(&target, "/name")?.to_owned();
    let status = bench.sh("sg_persist -n -i -r $D; sg_persist -n -i -k $D")?;
    ensure!(status.contains("Write Exclusive, registrants only"), "{status}");
    ensure!(status.contains("1 registered reservation key"), "{status}");
    let foreign = bench.try_sh("random 8 /tmp/r; put /tmp/r $E 2000000")?;
    ensure!(foreign.status != 0, "somebody else writes to the pool's disk: {foreign}");
    let mut host = hosts.log_in(0)?;
    for chunk in 0..CHUNKS {
        ensure!(write(&mut host, 1, chunk)?.is_none(), "chunk {chunk} was refused");
    }
    holds(&mut host, 1)
}

/// The second daemon has the first one's configuration, and a key of its own.
fn waits(bench: &mut Bench, hosts: &mut Hosts) -> Result<()> {
    bench.sh(
        "cp -a /var/a /var/b; rm -f /var/b/reservation-key.json* /var/b/gantry.sock; daemon b $E",
    )?;
    bench.until("answers b")?;
    let told = bench.sh("g b pool show p --json")?;
    ensure!(told.contains("\"unavailable\"") && told.contains("is locked by key 0x"), "{told}");
    ensure!(told.contains(guest::bench::INITIATOR), "the holder's name is told: {told}");
    let said = bench.sh("g b pool open p --break-lock")?;
    ensure!(said.contains("Nothing was changed") && said.contains("is locked by key 0x"), "{said}");
    let refused = bench.try_sh("g b pool open p")?;
    ensure!(refused.status != 0 && refused.output.contains("is locked by key 0x"), "{refused}");
    let keys = bench.sh("sg_persist -n -i -k $D")?;
    ensure!(keys.contains("1 registered reservation key"), "{keys}");
    let mut host = hosts.log_in(0)?;
    ensure!(write(&mut host, 1, 0)?.is_none(), "the first one goes on");
    holds(&mut host, 1)
}

fn broken(bench: &mut Bench, hosts: &mut Hosts) -> Result<()> {
    let mut old = hosts.log_in(0)?;
    ensure!(write(&mut old, 1, 1)?.is_none(), "the first one goes on");
    bench.until("g b pool open p --break-lock --yes")?;
    bench.sh("state b ready")?;
    let mut new = hosts.log_in(1)?;
    holds(&mut new, 1).context("what the first one has answered is there")?;
    for chunk in 0..CHUNKS {
        ensure!(write(&mut new, 2, chunk)?.is_none(), "chunk {chunk} was refused");
    }
    for chunk in 0..CHUNKS {
        let refused = write(&mut old, 3, chunk)?;
        ensure!(refused == Some((2, 4, 1)), "chunk {chunk} of a fenced owner: {refused:02x?}");
    }
    bench.until("g a pool show p --json | grep -q 'another owner took'")?;
    let events = bench.sh("g a events")?;
    ensure!(events.contains("another owner took"), "{events}");
    // By itself it does not come back.
    std::thread::sleep(Duration::from_secs(6));
    bench.sh("g a pool show p --json | grep -q 'another owner took'")?;
    let keys = bench.sh("sg_persist -n -i -k $D")?;
    ensure!(keys.contains("1 registered reservation key"), "{keys}");
    let refused = bench.try_sh("g a pool open p")?;
    ensure!(refused.status != 0 && refused.output.contains("is locked by key 0x"), "{refused}");
    holds(&mut new, 2).context("nothing of the first one has arrived")
}

fn crash(bench: &mut Bench, hosts: &mut Hosts) -> Result<()> {
    bench
        .sh("kill -9 $(cat /run/b.pid); while kill -0 $(cat /run/b.pid); do sleep 1; done; true")?;
    let keys = bench.sh("sg_persist -n -i -k $E")?;
    ensure!(keys.contains("1 registered reservation key"), "{keys}");
    bench.sh("daemon b $E")?;
    bench.until("answers b && state b ready")?;
    holds(&mut hosts.log_in(1)?, 2)
}

fn back(bench: &mut Bench, hosts: &mut Hosts) -> Result<()> {
    bench.sh("kill $(cat /run/b.pid); while kill -0 $(cat /run/b.pid); do sleep 1; done; true")?;
    bench.until("g a pool open p || state a ready")?;
    holds(&mut hosts.log_in(0)?, 2)?;
    let mut host = hosts.log_in(0)?;
    ensure!(write(&mut host, 2, 0)?.is_none(), "it writes again");
    bench.sh("kill $(cat /run/a.pid); while kill -0 $(cat /run/a.pid); do sleep 1; done; true")?;
    let keys = bench.sh("sg_persist -n -i -k $D")?;
    ensure!(keys.contains("NO registered reservation keys"), "{keys}");
    bench.sh("random 8 /tmp/r; put /tmp/r $E 2000000")?;
    Ok(())
}

fn loop_device(bench: &mut Bench, _: &mut Hosts) -> Result<()> {
    bench.sh("modprobe loop; truncate -s 1G /tmp/image; losetup /dev/loop0 /tmp/image")?;
    bench.sh("mkdir -m 700 /var/c; g() { shift; /mnt/programs/gantry --data /var/c \"$@\"; }
        setsid /mnt/programs/gantryd --data /var/c --iscsi 0.0.0.0:3263 --http 127.0.0.1:13263 \
            --memory 256M --reserve-devices on >/var/c.log 2>&1 &")?;
    let g = "/mnt/programs/gantry --data /var/c";
    bench.until(&format!("{g} pool list"))?;
    bench.sh(&format!("{g} pool create q block:/dev/loop0"))?;
    bench.until(&format!("{g} events | grep -q 'knows no persistent reservations'"))?;
    std::thread::sleep(Duration::from_secs(3));
    let events = bench.sh(&format!("{g} events"))?;
    let said = events.matches("knows no persistent reservations").count();
    ensure!(said == 1, "{said} times: {events}");
    Ok(())
}
