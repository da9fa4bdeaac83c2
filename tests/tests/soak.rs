//! A day's work in little time: sessions that come, go, fail and recover at every level, commands of
//! all sizes that are verified, volumes that come and go; and afterwards the daemon is as small as
//! before. `cargo xtask soak` runs it for long.

use std::env;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::Array;
use harness::proxy::{Direction, Fault, Proxy};
use harness::random::Random;
use harness::recoverer::Recoverer;
use harness::survivor::Survivor;

/// Blocks of one worker's region; regions do not overlap.
const REGION_BLOCKS: u32 = 16_384;

/// Blocks that one command moves at most.
const COMMAND_BLOCKS: u64 = 512;

const BLOCK_BYTES: usize = 512;
const WORKERS: u32 = 4;

/// How much more the daemon may hold at the end than when it had run for a third of the time: what
/// the allocator keeps to itself.
const GROWTH_KIB_MAX: u64 = 32 << 10;

/// How long it runs: as CI can afford, or as told.
fn duration() -> Duration {
    let seconds = env::var("GANTRY_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(6))
}

/// One of the workers: an own region, an own path through a bad network.
struct Worker {
    number: u32,
    proxy: Proxy,
    target: String,
    random: Random,
    rounds: u64,
}

impl Worker {
    fn run(mut self, until: Instant) -> Result<u64> {
        while Instant::now() < until {
            let level = self.random.below(4) as u32;
            self.plan_fault();
            self.round(level).with_context(|| format!("worker {}", self.number))?;
            self.rounds += 1;
        }
        Ok(self.rounds)
    }

    /// Every second connection meets a fault.
    fn plan_fault(&mut self) {
        let at = 1000 + self.random.below(60_000);
        let ways = [Direction::ToTarget, Direction::ToInitiator];
        let way = ways[self.random.below(2) as usize];
        let fault = match self.random.below(6) {
            0 => Fault::Cut(at),
            1 => Fault::Corrupt(at),
            2 => Fault::Drop(at, 100),
            _ => Fault::None,
        };
        self.proxy.plan(way, fault);
    }

    /// One session: writes and reads back a few times, then logs out.
    fn round(&mut self, level: u32) -> Result<()> {
        let name = format!("iqn.2026-01.org.example:soak-{}", self.number);
        let names = (name.as_str(), self.target.as_str());
        let mut simple = Survivor::new(self.proxy.address(), names.0, names.1, true);
        let mut recovering = Recoverer::new(self.proxy.address(), names, level.clamp(1, 2), true);
        for _ in 0..4 {
            let blocks = 1 + self.random.below(COMMAND_BLOCKS) as u32;
            let lba = self.random.below(u64::from(REGION_BLOCKS - blocks)) as u32;
            let lba = self.number * REGION_BLOCKS + lba;
            let data = self.random.bytes(blocks as usize * BLOCK_BYTES);
            let read = if level == 0 {
                simple.write(lba, &data)?;
                simple.read(lba, data.len())?
            } else {
                recovering.write(lba, &data)?;
                recovering.read(lba, data.len())?
            };
            ensure!(read == data, "other data is read than was written at {lba}");
        }
        if level == 0 { simple.say_everything_else() } else { recovering.say_everything_else() }
    }
}

/// Volumes come and go meanwhile; returns what the daemon held each time.
fn change(array: &Array, until: Instant) -> Result<Vec<u64>> {
    let mut sizes = Vec::new();
    while Instant::now() < until {
        let volume = format!("p/v{}", sizes.len());
        array.gantry(&["volume", "create", &volume, "--size", "64M"])?;
        array.gantry(&["volume", "map", &volume, "--host", "other"])?;
        array.gantry(&["volume", "unmap", &volume, "--host", "other"])?;
        array.gantry(&["volume", "delete", &volume])?;
        sizes.push(resident_kib(array)?);
        thread::sleep(Duration::from_millis(20));
    }
    Ok(sizes)
}

fn resident_kib(array: &Array) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", array.process_id()?))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()).context("VmRSS")?;
    Ok(number.parse()?)
}

fn files(array: &Array) -> Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{}/fd", array.process_id()?))?.count())
}

#[test]
fn after_much_work_the_daemon_is_as_small_as_before() -> Result<()> {
    let mut array = Array::start()?;
    array.kill()?;
    array = array.with_words(&[], &["--error-recovery-level", "2", "--time2retain", "3"]);
    array.restart()?;
    array.create_pool("p", "2G")?;
    array.create_lun("p/v", "1G")?;
    // The workers are not told of volumes that they do not see.
    array.gantry(&["host", "create", "other", "--iqn", "iqn.2026-01.org.example:other"])?;
    let target = array.target_name()?;
    let open_files = files(&array)?;
    let until = Instant::now() + duration();
    let (rounds, sizes) = thread::scope(|scope| -> Result<(u64, Vec<u64>)> {
        let workers: Vec<_> = (0..WORKERS)
            .map(|number| {
                let (proxy, target) = (Proxy::start(array.portal())?, target.clone());
                let random = Random::new(u64::from(number) + 100);
                let worker = Worker { number, proxy, target, random, rounds: 0 };
                Ok(scope.spawn(move || worker.run(until)))
            })
            .collect::<Result<_>>()?;
        let sizes = change(&array, until)?;
        let rounds = workers.into_iter().map(|worker| worker.join().expect("no panic"));
        Ok((rounds.sum::<Result<u64>>()?, sizes))
    })?;
    let (settled, last) = (sizes[sizes.len() / 3], sizes[sizes.len() - 1]);
    println!(
        "{rounds} sessions and {} volumes in {} s; resident: {settled} KiB after a third, {last} \
         KiB at the end, {} KiB at most",
        sizes.len(),
        duration().as_secs(),
        sizes.iter().max().context("volumes came and went")?,
    );
    assert!(last <= settled + GROWTH_KIB_MAX, "{sizes:?}");
    expect_nothing_left(&array, open_files)
}

fn expect_nothing_left(array: &Array, open_files: usize) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let sessions = array.gantry_json(&["session", "list"])?;
        let sessions = sessions.as_array().map_or(0, Vec::len);
        let open = files(array)?;
        if sessions == 0 && open <= open_files + 2 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{sessions} sessions and {open} files are left");
        thread::sleep(Duration::from_millis(100));
    }
}
