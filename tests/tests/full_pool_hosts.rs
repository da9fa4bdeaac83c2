//! A full pool, as hosts meet it: locks, heartbeats and the metadata of their file systems go on,
//! whatever snapshots exist, so that they can read, delete and unmap their way out.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use harness::hostkit::{Host, fsck, image_of};
use harness::initiator::qemu_io;
use harness::pdu::{RawSession, cdb16_of_bytes};
use harness::random::Random;
use harness::{Array, number, space_adds_up};

const MIB: u64 = 1 << 20;
const NAME: &str = "iqn.2026-01.org.example:fuller";
const OUT_OF_SPACE: Option<(u8, u8, u8)> = Some((7, 0x27, 7));

/// How long deletions may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An array whose pool is filled through a volume of its own.
struct Full {
    array: Array,
    filler: u8,
    /// Where in that nothing was written yet.
    filled: u64,
    /// Up to where it was given back.
    freed: u64,
    random: Random,
}

impl Full {
    fn start(pool_size: &str, lun_size: &str) -> Result<Self> {
        let array = Array::start()?;
        array.create_pool("p", pool_size)?;
        assert_eq!(array.create_lun("p/v", lun_size)?, 0);
        let filler = u8::try_from(array.create_lun("p/filler", "8G")?)?;
        Ok(Self { array, filler, filled: 0, freed: 0, random: Random::new(7) })
    }

    fn session(&self) -> Result<RawSession> {
        RawSession::log_in(self.array.portal(), NAME, &self.array.target_name()?)
    }

    /// Writes new data until not one block is taken any more.
    fn fill(&mut self) -> Result<()> {
        let url = self.array.lun_url(self.filler.into())?;
        let free = (self.space("free_bytes")? / MIB).saturating_sub(16);
        for at in (0..free).step_by(64) {
            let write = format!("write -P 3 {}M {}M", self.filled / MIB + at, (free - at).min(64));
            qemu_io(&["-f", "raw", &url], &[&write])?;
        }
        self.filled += free * MIB;
        let mut session = self.session()?;
        for bytes in [120 << 10, 4 << 10] {
            loop {
                let data = self.random.bytes(usize::try_from(bytes)?);
                let cdb = cdb16_of_bytes(0x8a, 0, self.filled, bytes);
                let answer = session.write(self.filler, &cdb, &data)?;
                if answer.code() == OUT_OF_SPACE {
                    break;
                }
                answer.good()?;
                self.filled += bytes;
            }
        }
        self.filled = self.filled.next_multiple_of(MIB);
        Ok(())
    }

    /// A snapshot is refused, and the reason says what would help.
    fn snapshot_is_refused(&self, name: &str) -> Result<()> {
        let words = ["snapshot", "create", "p/v", name];
        let refused = self.array.try_gantry(&words)?;
        ensure!(!refused.status.success(), "a snapshot of a full pool was made");
        ensure!(refused.stderr.contains("too full for a snapshot"), "{}", refused.stderr);
        Ok(())
    }

    fn space(&self, part: &str) -> Result<u64> {
        number(&self.array.gantry_json(&["pool", "show", "p"])?, &format!("/space/{part}"))
    }

    /// The numbers add up, always.
    fn adds_up(&self) -> Result<()> {
        space_adds_up(&self.array.gantry_json(&["pool", "show", "p"])?)
    }

    /// Gives back a part of what fills the pool, and waits until it can be used.
    fn make_space(&mut self) -> Result<()> {
        let url = self.array.lun_url(self.filler.into())?;
        let discard = format!("discard {}M 256M", self.freed / MIB);
        qemu_io(&["-f", "raw", "-d", "unmap", &url], &[&discard])?;
        self.freed += 256 * MIB;
        let begun = Instant::now();
        while self.space("free_bytes")? < 48 * MIB {
            ensure!(begun.elapsed() < PATIENCE, "what was unmapped does not come back");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// One round of what a file system does: 300 locks that were zeroed when it was made, each with
/// metadata behind it that covers blocks in part or wholly.
fn change_metadata(session: &mut RawSession, round: u8) -> Result<()> {
    for lock in 0..300 {
        let at = lock * 60 * 1024;
        let data = [[round; 512], [round + 1; 512]].concat();
        session.write(0, &cdb16_of_bytes(0x89, 0, at, 512), &data)?.good()?;
        session.write(0, &cdb16_of_bytes(0x8a, 0, at + 512, 1536), &[round + 1; 1536])?.good()?;
        let whole = (at + 8192) / 4096 * 4096;
        session.write(0, &cdb16_of_bytes(0x8a, 0, whole, 4096), &[round + 1; 4096])?.good()?;
    }
    Ok(())
}

#[test]
fn locks_and_metadata_go_on_at_the_last_block_with_snapshots_before_and_after() -> Result<()> {
    let mut full = Full::start("1G", "1G")?;
    let snapshot =
        |full: &Full, name: &str| full.array.gantry(&["snapshot", "create", "p/v", name]).map(drop);
    full.session()?.write(0, &cdb16_of_bytes(0x8a, 0, 512 * MIB, 4096), &[1; 4096])?.good()?;
    snapshot(&full, "first")?;
    full.fill()?;
    let mut round = 0;
    for name in ["second", "third"] {
        full.snapshot_is_refused(name)?;
        change_metadata(&mut full.session()?, round)?;
        round += 1;
        full.adds_up()?;
        let whole = full.space("metadata_reserve_bytes")?;
        ensure!(full.space("metadata_left_bytes")? < whole, "nothing was drawn");
        full.array.kill()?;
        full.array.restart()?;
        change_metadata(&mut full.session()?, round)?;
        round += 1;
        full.make_space()?;
        ensure!(full.space("metadata_left_bytes")? == whole, "it is filled first");
        snapshot(&full, name)?;
        full.fill()?;
        change_metadata(&mut full.session()?, round)?;
        round += 1;
    }
    full.array.gantry(&["pool", "extend", "p", "--size", "1280M"])?;
    snapshot(&full, "fourth")?;
    change_metadata(&mut full.session()?, round)?;
    full.adds_up()
}

/// A schedule leaves out what a full pool cannot take, says so once, and goes on when it can.
#[test]
fn a_schedule_skips_runs_in_a_full_pool_and_tells() -> Result<()> {
    let mut full = Full::start("1G", "1G")?;
    full.session()?.write(0, &cdb16_of_bytes(0x8a, 0, 0, 4096), &[1; 4096])?.good()?;
    full.fill()?;
    let words = ["schedule", "create", "often", "--volume", "p/v", "--every", "1s", "--keep", "2"];
    full.array.gantry(&words)?;
    let told = |full: &Full| -> Result<usize> {
        let events = full.array.gantry(&["events"])?;
        Ok(events.lines().filter(|line| line.contains("too full for a snapshot")).count())
    };
    let begun = Instant::now();
    while told(&full)? == 0 {
        ensure!(begun.elapsed() < PATIENCE, "no event");
        thread::sleep(Duration::from_millis(100));
    }
    thread::sleep(Duration::from_secs(3));
    assert_eq!(told(&full)?, 1, "it is told once");
    full.make_space()?;
    while full.array.gantry_json(&["snapshot", "list"])?.as_array().is_none_or(Vec::is_empty) {
        ensure!(begun.elapsed() < 2 * PATIENCE, "no snapshot");
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

const HOSTS: usize = 4;
const MACHINES: usize = 10;

/// What each of four hosts does with ten machines while the pool is full.
fn go_on(host: &Host, number: usize, round: usize) -> Result<()> {
    let name = |machine: usize| format!("ds/vm{number}-{machine}");
    for machine in (0..MACHINES).skip(round).step_by(3) {
        let disk = format!("{0}/vm{number}-{machine}.vmdk", name(machine));
        let run = ["vm", "run", &disk, "--pattern", "random-read4k", "--operations", "20"];
        host.run(&run).context("power on")?;
        host.run(&["vm", "snapshot", &name(machine), "s"]).context("a machine's snapshot")?;
        host.run(&["vm", "destroy", &name(machine)]).context("vm destroy")?;
        host.run(&["vm", "create", &name(machine), "--disk", "16m:thin"]).context("vm create")?;
    }
    let disk = format!("ds/disk{number}-{round}.vmdk");
    host.vmkfstools(&["-U", &disk]).context("vmkfstools -U")?;
    Ok(())
}

#[test]
fn four_hosts_with_forty_machines_go_on_in_a_full_pool_with_snapshots() -> Result<()> {
    let mut full = Full::start("1G", "2G")?;
    let url = full.array.lun_url(0)?;
    let hosts = (0..HOSTS).map(|number| Host::new(&format!("esx{number}"), &[&url]));
    let hosts = hosts.collect::<Result<Vec<_>>>()?;
    let device = hosts[0].devices()?.remove(0);
    hosts[0].vmkfstools(&["-C", "vmfs5", "-S", "ds", &format!("{device}:1")])?;
    let each = |work: &(dyn Fn(&Host, usize) -> Result<()> + Sync)| -> Result<()> {
        thread::scope(|scope| {
            let begun = hosts.iter().enumerate();
            let begun: Vec<_> =
                begun.map(|(number, host)| scope.spawn(move || work(host, number))).collect();
            begun.into_iter().try_for_each(|host| host.join().expect("a host returns its errors"))
        })
    };
    each(&|host, number| {
        for machine in 0..MACHINES {
            let name = format!("ds/vm{number}-{machine}");
            host.run(&["vm", "create", &name, "--disk", "16m:thin"])?;
        }
        for disk in 0..2 {
            host.vmkfstools(&["-c", "8m", &format!("ds/disk{number}-{disk}.vmdk")])?;
        }
        Ok(())
    })?;
    full.array.gantry(&["snapshot", "create", "p/v", "before"])?;
    full.fill()?;
    full.snapshot_is_refused("refused")?;
    each(&|host, number| go_on(host, number, 0))?;
    full.adds_up()?;
    full.make_space()?;
    full.array.gantry(&["snapshot", "create", "p/v", "after"])?;
    full.fill()?;
    each(&|host, number| go_on(host, number, 1))?;
    full.array.gantry(&["pool", "extend", "p", "--size", "1280M"])?;
    full.array.gantry(&["snapshot", "create", "p/v", "extended"])?;
    let folder = tempfile::tempdir()?;
    assert_eq!(fsck(&image_of(&full.array, 0, folder.path())?)?, [0; 5]);
    Ok(())
}
