//! Benchmark of the cost of administrators to hosts: the latency of one host's READs while clients
//! repeat one route of the management interface as fast as they are answered, on an array with many
//! objects.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use harness::Array;
use harness::http::Request;
use harness::pdu::RawSession;
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};
use serde_json::json;

use crate::test;

/// READ (10) of eight blocks at block 0 (SBC-4 5.18).
const READ: [u8; 10] = [0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0];
const READ_BYTES: u32 = 4096;
const TEST_UNIT_READY: [u8; 6] = [0; 6];

/// Snapshots of one request.
const GROUP: u64 = 50;

/// How often idle sessions say something.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Volumes, each mapped to a host of its own while there are LUN numbers.
    #[arg(long, default_value_t = 10_000)]
    volumes: u64,
    /// Snapshots.
    #[arg(long, default_value_t = 10_000)]
    snapshots: u64,
    /// LUN maps; each volume has one at most.
    #[arg(long, default_value_t = 1_000)]
    maps: u64,
    /// Sessions besides the one that is measured.
    #[arg(long, default_value_t = 1_023)]
    sessions: u64,
    /// Clients that repeat a route.
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// Rounds over all routes; all of them count together.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Milliseconds of one measurement beside the clients. The host has half as long to itself right
    /// before it, for comparison.
    #[arg(long, default_value_t = 1_000)]
    milliseconds: u64,
    /// Only routes that contain this text.
    #[arg(long, default_value = "")]
    route: String,
    /// Measure the binaries that are there.
    #[arg(long)]
    no_build: bool,
}

/// What a client repeats; `{}` stands for a number that is another one each time.
const ROUTES: &[(&str, &str)] = &[
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/v1/target"),
    ("GET", "/v1/pools"),
    ("GET", "/v1/volumes"),
    ("GET", "/v1/volumes?limit=10"),
    ("GET", "/v1/volumes/p/v7"),
    ("GET", "/v1/snapshots"),
    ("GET", "/v1/hosts"),
    ("GET", "/v1/groups"),
    ("GET", "/v1/sessions"),
    ("GET", "/v1/events"),
    ("GET", "/v1/tasks"),
    ("GET", "/v1/configuration"),
    ("GET", "/v1/offload"),
    ("GET", "/v1/statistics/live"),
    ("GET", "/v1/reclaim"),
    ("PUT", "/v1/groups/g{}"),
    ("PUT", "/v1/volumes/p/w{}/maps/other"),
];

pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { rounds, milliseconds, clients, .. } = options;
    ensure!(*rounds > 0 && *milliseconds > 1 && *clients > 0, "nothing to measure");
    if !options.no_build {
        test::build()?;
    }
    let array = apart(Array::start)?;
    let bench = Bench { socket: array.data().join("gantry.sock"), options };
    bench.fill(&array).with_context(|| array.log())?;
    let target = array.target_name()?;
    let log_in = |name: &str| RawSession::log_in(array.portal(), name, &target);
    let idle = (0..options.sessions).map(|number| log_in(&initiator(number)));
    let idle = Mutex::new(idle.collect::<Result<Vec<_>>>()?);
    let mut host = log_in(&initiator(options.sessions))?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| keep_alive(&idle, &over));
        let measured = bench.measure(&mut host);
        over.store(true, Ordering::Relaxed);
        measured
    })
}

/// Starts the array on the first processor, and has all others for whoever asks: what is measured is
/// what administrators take of the daemon, not of its processor.
fn apart(start: impl FnOnce() -> Result<Array>) -> Result<Array> {
    let ours = sched_getaffinity(None)?;
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| ours.is_set(*cpu)).collect();
    let only = |chosen: &[usize]| {
        let mut set = CpuSet::new();
        chosen.iter().for_each(|&cpu| set.set(cpu));
        sched_setaffinity(None, &set)
    };
    let Some((first, others)) = processors.split_first().filter(|(_, others)| !others.is_empty())
    else {
        return start();
    };
    only(std::slice::from_ref(first))?;
    let array = start();
    only(others)?;
    array
}

/// The array under load.
struct Bench<'a> {
    socket: PathBuf,
    options: &'a Options,
}

/// How long the READs of a host took, in all rounds.
#[derive(Default)]
struct Latencies {
    of_reads: Vec<Duration>,
    measured: Duration,
}

/// The longest wait that is aimed at.
const WAIT_MAX: Duration = Duration::from_millis(5);

impl Latencies {
    fn extend(&mut self, other: Self) {
        self.of_reads.extend(other.of_reads);
        self.of_reads.sort_unstable();
        self.measured += other.measured;
    }

    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.measured.as_secs_f64()
    }

    /// A percentile, in milliseconds.
    fn at(&self, share: f64) -> f64 {
        let index = (self.of_reads.len().saturating_sub(1) as f64 * share) as usize;
        self.of_reads.get(index).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e3)
    }

    /// Waits above [`WAIT_MAX`] in ten seconds.
    fn long_waits(&self) -> f64 {
        let long = self.of_reads.iter().filter(|latency| **latency > WAIT_MAX).count();
        self.per_second(long as u64) * 10.0
    }
}

/// What was measured of one route.
#[derive(Default)]
struct Measured {
    /// The host alone, right before each measurement.
    quiet: Latencies,
    beside: Latencies,
    asked: u64,
}

impl Bench<'_> {
    fn ask(&self, method: &str, path: &str, body: Option<&serde_json::Value>) -> Result<u16> {
        let request = Request::new(method, path);
        let request = body.map_or(request.clone(), |body| request.json(body));
        Ok(request.send_to_socket(&self.socket)?.status)
    }

    fn make(&self, method: &str, path: &str, body: &serde_json::Value) -> Result<()> {
        let status = self.ask(method, path, Some(body))?;
        ensure!(status == 200, "{method} {path}: {status}");
        Ok(())
    }

    /// Makes pool, hosts, volumes, snapshots and LUN maps, with all clients at once.
    fn fill(&self, array: &Array) -> Result<()> {
        for pool in ["p", "q"] {
            array.gantry(&["pool", "create", pool, "--device", "memory:", "--size", "8G"])?;
        }
        array.create_lun("p/measured", "64M")?;
        for host in ["filled", "other"] {
            let initiators = [format!("iqn.2026-01.org.example:{host}")];
            self.make("POST", "/v1/hosts", &json!({ "name": host, "initiators": initiators }))?;
        }
        let begun = Instant::now();
        self.together(self.options.volumes, |number| {
            let (pool, name) = (self.pool_of(number), format!("v{number}"));
            let body = json!({ "pool": pool, "name": name, "size_bytes": 1 << 20 });
            self.make("POST", "/v1/volumes", &body)
        })?;
        self.together(self.options.snapshots.div_ceil(GROUP), |group| {
            let numbers = group * GROUP..((group + 1) * GROUP).min(self.options.snapshots);
            // All of a request are of one pool.
            let (pool, half) = match group % 2 {
                0 => ("p", 0),
                _ => ("q", self.options.volumes / 2),
            };
            let volumes = (self.options.volumes / 2).max(1);
            let one = |n: u64| {
                let volume = format!("v{}", half + n % volumes);
                json!({ "volume": volume, "name": format!("s{n}") })
            };
            let snapshots: Vec<_> = numbers.map(one).collect();
            self.make("POST", "/v1/snapshots", &json!({ "pool": pool, "snapshots": snapshots }))
        })?;
        self.together(self.options.maps.min(self.options.volumes), |number| {
            let path = format!("/v1/volumes/{}/v{number}/maps/filled", self.pool_of(number));
            self.make("PUT", &path, &json!({}))
        })?;
        terminal::complain!("the array is filled after {:.0} s", begun.elapsed().as_secs_f64());
        Ok(())
    }

    /// Where a volume is: a pool has room for 16,384 volumes and snapshots.
    fn pool_of(&self, volume: u64) -> &'static str {
        if volume < self.options.volumes / 2 { "p" } else { "q" }
    }

    /// Does something for each number, by all clients.
    fn together(&self, count: u64, each: impl Fn(u64) -> Result<()> + Sync) -> Result<()> {
        let next = AtomicU64::new(0);
        thread::scope(|scope| {
            let work = || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return Ok(());
                    }
                    each(number)?;
                }
            };
            let clients: Vec<_> = (0..self.options.clients).map(|_| scope.spawn(work)).collect();
            clients.into_iter().try_for_each(|client| client.join().expect("it returns"))
        })
    }

    fn measure(&self, host: &mut RawSession) -> Result<()> {
        let routes: Vec<_> =
            ROUTES.iter().filter(|(method, path)| self.is_chosen(method, path)).collect();
        let mut all: Vec<_> = routes.iter().map(|_| Measured::default()).collect();
        let beside = Duration::from_millis(self.options.milliseconds);
        for _ in 0..self.options.rounds {
            for (&&(method, path), measured) in routes.iter().zip(&mut all) {
                measured.quiet.extend(read(host, beside / 2)?);
                let (over, asked) = (AtomicBool::new(false), AtomicU64::new(0));
                let latencies = thread::scope(|scope| {
                    for _ in 0..self.options.clients {
                        scope.spawn(|| self.repeat(method, path, &over, &asked));
                    }
                    let latencies = read(host, beside);
                    over.store(true, Ordering::Relaxed);
                    latencies
                })?;
                measured.beside.extend(latencies);
                measured.asked += asked.into_inner();
            }
        }
        self.tell(&routes, all);
        Ok(())
    }

    fn is_chosen(&self, method: &str, path: &str) -> bool {
        format!("{method} {path}").contains(&self.options.route)
    }

    fn tell(&self, routes: &[&(&str, &str)], all: Vec<Measured>) {
        let Options { volumes, snapshots, maps, sessions, clients, rounds, milliseconds, .. } =
            self.options;
        terminal::say!(
            "{volumes} volumes, {snapshots} snapshots, {maps} LUN maps, {} sessions; READ of 4 KiB, \
             one at a time, {rounds} rounds of {milliseconds} ms beside {clients} clients, and of \
             half as long alone right before each\n",
            sessions + 1
        );
        terminal::say!(
            "| route | requests/s | READs/s | p50 ms | p99 alone ms | p99 ms | ratio | over 5 ms \
             alone, in 10 s | over 5 ms, in 10 s | longest alone ms | longest ms |"
        );
        terminal::say!("|---|---|---|---|---|---|---|---|---|---|---|");
        let mut alone = Latencies::default();
        for ((method, path), Measured { quiet, beside, asked }) in routes.iter().zip(all) {
            terminal::say!(
                "| `{method} {path}` | {:.0} | {:.0} | {:.3} | {:.3} | {:.3} | {:.1} | {:.1} | {:.1} \
                 | {:.1} | {:.1} |",
                beside.per_second(asked),
                beside.per_second(beside.of_reads.len() as u64),
                beside.at(0.5),
                quiet.at(0.99),
                beside.at(0.99),
                beside.at(0.99) / quiet.at(0.99),
                quiet.long_waits(),
                beside.long_waits(),
                quiet.at(1.0),
                beside.at(1.0)
            );
            alone.extend(quiet);
        }
        terminal::say!(
            "\nAlone, all together: {:.0} READs/s, p50 {:.3} ms, p99 {:.3} ms, {:.1} waits over 5 ms \
             in 10 s, the longest {:.1} ms",
            alone.per_second(alone.of_reads.len() as u64),
            alone.at(0.5),
            alone.at(0.99),
            alone.long_waits(),
            alone.at(1.0)
        );
    }

    /// One client: the next request when the one before is answered, whatever the answer is.
    fn repeat(&self, method: &str, path: &str, over: &AtomicBool, asked: &AtomicU64) {
        step_back();
        let body = match path {
            "/v1/groups/g{}" => Some(json!({ "hosts": ["other"] })),
            _ if method == "PUT" => Some(json!({})),
            _ => None,
        };
        while !over.load(Ordering::Relaxed) {
            let number = asked.fetch_add(1, Ordering::Relaxed);
            // Volumes that have no LUN yet, of those that there are.
            let volumes = (self.options.volumes / 2).max(1);
            let path = path.replace("/w{}/", &format!("/v{}/", (number + 2_500) % volumes));
            let path = path.replace("{}", &(number % 1000).to_string());
            if self.ask(method, &path, body.as_ref()).is_err() {
                return;
            }
        }
    }
}

/// READs, one at a time.
fn read(host: &mut RawSession, time: Duration) -> Result<Latencies> {
    let mut of_reads = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < time {
        let sent = Instant::now();
        host.read(0, &READ, READ_BYTES)?.good()?;
        of_reads.push(sent.elapsed());
    }
    Ok(Latencies { of_reads, measured: begun.elapsed() })
}

/// Lets the host that is measured go first on the processors that it shares with the clients: what
/// is measured is for how long the daemon lets it wait.
fn step_back() {
    // A lower priority is always allowed.
    let _ = setpriority_process(Some(gettid()), 19);
}

fn initiator(number: u64) -> String {
    format!("iqn.2026-01.org.example:session-{number}")
}

/// Sessions that are silent for long are given up.
fn keep_alive(idle: &Mutex<Vec<RawSession>>, over: &AtomicBool) {
    let mut since = Instant::now();
    while !over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(100));
        if since.elapsed() >= KEEP_ALIVE {
            since = Instant::now();
            let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.retain_mut(|session| session.read(0, &TEST_UNIT_READY, 0).is_ok());
        }
    }
}
