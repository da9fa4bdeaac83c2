//! Mirror benchmark: durable writes through the engine (`gantry-bench --mirror`), and the resilver of a
//! large pool with little in it: time, bytes written, and what a host's reads beside it reach.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use harness::array::free_address;
use harness::members::state_of;
use harness::program::run as run_program;
use harness::{Array, Value, number};

use super::report::{machine, publish};
use crate::{process, test, workspace};

const PAGE: &str = "docs/benchmarks-mirror.md";

/// How long one run of the client may take beyond what it measures, and a resilver.
const PATIENCE: Duration = Duration::from_secs(600);

/// Bytes of the volume that are mapped.
const MAPPED: u64 = 1 << 30;

/// What must be free beside what a pool sets aside: files of measurements that come before.
const ROOM: u64 = 12 << 30;

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Rounds; medians count.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of one measurement of writes.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Size of the pool that is resilvered, in GiB. Two of its files set aside a twenty-fourth of it.
    #[arg(long, default_value_t = 1024)]
    pool_gib: u64,
    /// A folder on the disk to measure; the system's temporary one by default.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// A folder with gantryd, gantry, gantry-host and gantry-bench that are there; by default release
    /// binaries are built.
    #[arg(long)]
    binaries: Option<PathBuf>,
    /// Measure and print, but leave the page alone.
    #[arg(long)]
    dry_run: bool,
}

/// Measures, prints, and writes the page.
pub(super) fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0 && options.seconds > 0, "nothing to measure");
    let binaries = match &options.binaries {
        Some(folder) => fs::canonicalize(folder)?,
        None => {
            test::build()?;
            let bench = ["build", "--quiet", "--release", "--package", "bench"];
            process::run(&process::cargo(), &bench)?;
            workspace::release_folder()
        }
    };
    let folder = options.folder.clone().unwrap_or_else(std::env::temp_dir);
    check_room(&folder, options.pool_gib << 30)?;
    let scratch = tempfile::Builder::new().prefix("gantry-bench-").tempdir_in(&folder)?;
    let writes = writes(&binaries, scratch.path(), options)?;
    let resilvers = resilvers(&binaries, scratch.path(), options)?;
    let page = page(&writes, &resilvers, options);
    publish(&page, PAGE, options.dry_run)
}

/// A pool's reserves are set aside in its files, whatever is in it (docs/decisions/0007).
fn check_room(folder: &Path, pool: u64) -> Result<()> {
    let found = rustix::fs::statvfs(folder)?;
    let (free, needed) = (found.f_bavail * found.f_frsize, pool / 24 + ROOM);
    ensure!(
        free >= needed,
        "{} has {} GiB free, and this needs {}: choose another --folder, or a smaller --pool-gib",
        folder.display(),
        free >> 30,
        needed >> 30
    );
    Ok(())
}

fn writes(binaries: &Path, folder: &Path, options: &Options) -> Result<String> {
    let (rounds, seconds) = (options.rounds.to_string(), options.seconds.to_string());
    let program = binaries.join("gantry-bench");
    let folder = folder.to_str().context("a printable path")?;
    let words = ["--mirror", "--rounds", &rounds, "--seconds", &seconds, "--folder", folder];
    process::output(program.to_str().context("a printable path")?, &words)
}

/// One resilver.
struct Resilver {
    time: Duration,
    /// What the daemon wrote meanwhile.
    written: u64,
    /// Bytes in use, data and map.
    used: u64,
    /// Reads per second before it, and while it was under way.
    alone: f64,
    beside: f64,
}

/// A daemon with a pool on one sparse file.
struct Bench {
    array: Array,
    binaries: PathBuf,
    folder: PathBuf,
    url: String,
    /// Of the pool, as an option.
    size: String,
}

impl Bench {
    fn start(binaries: &Path, folder: &Path, pool: u64) -> Result<Self> {
        let mut array = Array::at(&folder.join("data"), free_address()?)?
            .with_binaries(binaries)
            .with_words(&["taskset", "-c", "0"], &[]);
        array.restart()?;
        let device = format!("file:{}", folder.join("first.img").display());
        let size = pool.to_string();
        array.gantry(&["pool", "create", "p", "--device", &device, "--size", &size])?;
        let url = array.lun_url(array.create_lun("p/v", &(2 * MAPPED).to_string())?)?;
        let (binaries, folder) = (binaries.to_owned(), folder.to_owned());
        let bench = Self { array, binaries, folder, url, size };
        bench.client(&["fill", &bench.url, "--length", &MAPPED.to_string()])?;
        Ok(bench)
    }

    fn client(&self, words: &[&str]) -> Result<Value> {
        let program = self.binaries.join("gantry-host");
        let program = program.to_str().context("a printable path")?;
        let words = [&["-c", "1", program], words, &["--json"]].concat();
        let printed = run_program(Path::new("taskset"), &words, PATIENCE)?.success()?;
        serde_json::from_str(&printed).with_context(|| format!("not JSON: {printed}"))
    }

    /// 4 KiB random reads per second, for a second.
    fn reads(&self) -> Result<f64> {
        let span = MAPPED.to_string();
        let words = ["--pattern", "randread", "--queue-depth", "8", "--seconds", "1"];
        let words = [&["lean", &self.url][..], &words, &["--span", &span]].concat();
        self.client(&words)?["per_second"].as_f64().context("a rate")
    }

    /// Bytes that the daemon had the disk write (proc(5): io).
    fn written(&self) -> Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/io", self.array.process_id()?))?;
        let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
        Ok(line.context("write_bytes")?.trim().parse()?)
    }

    fn round(&self, number: usize) -> Result<Resilver> {
        let path = self.folder.join(format!("member-{number}.img"));
        let device = format!("file:{}", path.display());
        let used = number_of(&self.array, "/space/used_bytes")?;
        let alone = self.reads()?;
        let (before, begun) = (self.written()?, Instant::now());
        self.array.gantry(&["pool", "attach", "p", &device, "--size", &self.size])?;
        let is_current = || {
            Ok::<bool, anyhow::Error>(
                state_of(&self.array, "p", &device)?.as_deref() == Some("current"),
            )
        };
        let mut windows = Vec::new();
        let time = loop {
            let reads = self.reads()?;
            let is_over = is_current()?;
            // A second in which it ended counts only if there is no other.
            if !is_over || windows.is_empty() {
                windows.push(reads);
            }
            if is_over {
                break begun.elapsed();
            }
            ensure!(begun.elapsed() < PATIENCE, "the resilver does not end");
        };
        let written = self.written()? - before;
        self.array.gantry(&["pool", "detach", "p", &device])?;
        fs::remove_file(&path)?;
        let beside = windows.iter().sum::<f64>() / windows.len() as f64;
        Ok(Resilver { time, written, used, alone, beside })
    }

    /// How long it takes while no host does anything, and what it writes.
    fn quiet_round(&self, number: usize) -> Result<(Duration, u64)> {
        let path = self.folder.join(format!("quiet-{number}.img"));
        let device = format!("file:{}", path.display());
        let (before, begun) = (self.written()?, Instant::now());
        self.array.gantry(&["pool", "attach", "p", &device, "--size", &self.size])?;
        while state_of(&self.array, "p", &device)?.as_deref() != Some("current") {
            ensure!(begun.elapsed() < PATIENCE, "the resilver does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        let (time, written) = (begun.elapsed(), self.written()? - before);
        self.array.gantry(&["pool", "detach", "p", &device])?;
        fs::remove_file(&path)?;
        Ok((time, written))
    }
}

fn number_of(array: &Array, pointer: &str) -> Result<u64> {
    number(&array.gantry_json(&["pool", "show", "p"])?, pointer)
}

/// What came of all rounds.
struct Resilvers {
    quiet: Vec<(Duration, u64)>,
    busy: Vec<Resilver>,
}

fn resilvers(binaries: &Path, folder: &Path, options: &Options) -> Result<Resilvers> {
    let rounds = options.rounds;
    let bench = Bench::start(binaries, folder, options.pool_gib << 30)?;
    let (mut quiet, mut busy) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        let (time, written) = bench.quiet_round(round)?;
        terminal::complain!(
            "round {round} of {rounds}: resilver alone {time:.2?}, {written} bytes"
        );
        quiet.push((time, written));
        let resilver = bench.round(round)?;
        terminal::complain!(
            "round {round} of {rounds}: beside reads {:.2?}, {} bytes; {:.0} reads per second alone, {:.0} beside",
            resilver.time,
            resilver.written,
            resilver.alone,
            resilver.beside,
        );
        busy.push(resilver);
    }
    Ok(Resilvers { quiet, busy })
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

fn page(writes: &str, resilvers: &Resilvers, options: &Options) -> String {
    let Resilvers { quiet, busy } = resilvers;
    let used = median(busy.iter().map(|round| round.used as f64));
    let seconds = median(quiet.iter().map(|(time, _)| time.as_secs_f64()));
    let written = median(quiet.iter().map(|&(_, written)| written as f64));
    let beside = median(busy.iter().map(|round| round.beside / round.alone));
    let slow = median(busy.iter().map(|round| round.time.as_secs_f64()));
    let mark = |met: bool| if met { "" } else { "**missed**" };
    let rows = [
        ("time, no host active".to_owned(), format!("{seconds:.2} s"), "", ""),
        ("… with a host that reads".to_owned(), format!("{slow:.2} s"), "", ""),
        (
            format!(
                "bytes that the daemon wrote, of {:.3} GiB in use",
                used / (1_u64 << 30) as f64
            ),
            format!("{:.3} ×", written / used),
            "≤ 1.1",
            mark(written <= 1.1 * used),
        ),
        (
            "bytes that md RAID 1 writes: the whole device".to_owned(),
            format!("{:.0} ×", (options.pool_gib << 30) as f64 / used),
            "",
            "",
        ),
        (
            "a host's 4 KiB random reads, 8 outstanding, beside it, of those alone".to_owned(),
            format!("{beside:.2} ×"),
            "≥ 0.7",
            mark(beside >= 0.7),
        ),
    ];
    let rows =
        rows.map(|(what, figure, goal, mark)| format!("| {what} | {figure} | {goal} | {mark} |\n"));
    format!(
        "# Benchmarks of mirrors\n\n\
         Written by `cargo xtask bench mirror`: {} interleaved rounds, medians of figures and of ratios within a round. {}.\n\n\
         ## Durable writes\n\n\
         `gantry-bench --mirror`: the pool engine alone, {} s each, on files that were written from end to end, all on one disk. Writes in place go to all files in groups of as many as are outstanding, each group flushed on all files before the next.\n\n\
         {}\n\n\
         ## Resilver\n\n\
         A pool of {} GiB (sparse files) with 1 GiB written; a member is attached and detached again. Bytes are `write_bytes` of /proc/PID/io, so that lists, bitmaps and journal count. md is not measured but computed: it copies the whole device, whatever is in it.\n\n\
         | what | measured | goal | |\n|---|---|---|---|\n{}",
        options.rounds,
        machine(),
        options.seconds,
        writes.trim_end(),
        options.pool_gib,
        rows.concat(),
    )
}
