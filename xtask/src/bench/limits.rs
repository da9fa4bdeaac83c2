//! Benchmark of limits (QoS): a victim's reads alone, beside a neighbour that takes all it gets, and
//! beside the same one with a limit. The daemon runs on core 0 with its pool on a file, both clients
//! on core 1.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use harness::Array;
use harness::array::free_address;
use rustix::fs::OFlags;

use super::latency::{GRACE, HEAD_START, gantry_host, number};
use super::report::{machine, median, publish, sorted};
use crate::{setup, test, workspace};

const PAGE: &str = "docs/benchmarks-limits.md";
const LUN_SIZE: &str = "1G";

/// What the neighbour's volume is limited to.
const LIMIT: &[&str] = &["--iops", "200", "--bandwidth", "50M"];

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Interleaved rounds; medians count.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of one measurement.
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Measure the release binaries that are there.
    #[arg(long)]
    no_build: bool,
    /// Measure and print, but leave the page alone.
    #[arg(long)]
    dry_run: bool,
}

/// What the neighbour does, 32 at a time.
const NEIGHBOURS: [(&str, &[&str]); 3] = [
    ("4 KiB random reads", &["--pattern", "randread"]),
    ("256 KiB random writes", &["--pattern", "randwrite", "--block", "262144"]),
    ("EXTENDED COPY of 16 MiB", &["--pattern", "xcopy", "--block", "16777216"]),
];

/// Beside whom the victim is measured: nobody, or a neighbour with a limit or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Beside {
    Nobody,
    Unlimited(usize),
    Limited(usize),
    /// Without an array: a file on the same disk, beside nobody.
    FileAlone,
    /// The same beside as many durable writes as the limit lets through, in place, to another file.
    FileBesideWrites,
}

/// Bytes of such a write, and the pause between the beginnings of two: the limit's 200 a second.
const FILE_WRITE: usize = 256 << 10;
const FILE_WRITE_PAUSE: Duration = Duration::from_millis(5);

/// What a write with O_DIRECT is aligned to.
const ALIGNMENT: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Measured {
    per_second: f64,
    p50: f64,
    p99: f64,
    /// Commands of the neighbour per second.
    neighbour: f64,
}

type Results = BTreeMap<Beside, Vec<Measured>>;

struct Bench {
    array: Array,
    victim: String,
    neighbour: String,
    /// What the neighbour copies from.
    source: String,
    /// Files of the same size as the LUNs, without an array.
    files: [PathBuf; 2],
    seconds: u32,
}

/// Measures, prints, and writes the page.
pub(super) fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0 && options.seconds > 0, "nothing to measure");
    setup::run()?;
    if !options.no_build {
        test::build()?;
    }
    let folder = tempfile::tempdir()?;
    let bench = Bench::start(folder.path(), options.seconds)?;
    let mut results = Results::new();
    for round in 1..=options.rounds {
        for beside in order() {
            let measured = bench.measure(beside).with_context(|| format!("{beside:?}"))?;
            terminal::complain!("round {round} of {}: {beside:?}: {measured:?}", options.rounds);
            results.entry(beside).or_default().push(measured);
        }
    }
    let page = page(&results, options);
    publish(&page, PAGE, options.dry_run)
}

/// Alone before each neighbour, so that what else the machine does is in both.
fn order() -> impl Iterator<Item = Beside> {
    let each = |at| [Beside::Nobody, Beside::Limited(at), Beside::Unlimited(at)];
    let of_file = [Beside::FileAlone, Beside::FileBesideWrites];
    (0..NEIGHBOURS.len()).flat_map(each).chain(of_file)
}

impl Bench {
    fn start(folder: &Path, seconds: u32) -> Result<Self> {
        let mut array = Array::at(&folder.join("array"), free_address()?)?
            .with_binaries(&workspace::release_folder())
            .with_words(&["taskset", "-c", "0"], &[]);
        array.restart()?;
        let device = format!("file:{}", folder.join("pool.img").display());
        array.gantry(&["pool", "create", "p", "--device", &device, "--size", "8G"])?;
        let lun = |path: &str| array.lun_url(array.create_lun(path, LUN_SIZE)?);
        let (victim, neighbour) = (lun("p/victim")?, lun("p/neighbour")?);
        let source = lun("p/source")?;
        for url in [&victim, &neighbour, &source] {
            gantry_host(&["fill", url, "--length", "1073741824"], GRACE)?;
        }
        let files = ["victim", "neighbour"].map(|name| folder.join(name));
        for file in &files {
            let path = file.to_str().context("a printable path")?;
            let words =
                ["raw", path, "--length", "1073741824", "--pattern", "randread", "--seconds", "1"];
            gantry_host(&words, GRACE)?;
        }
        Ok(Self { array, victim, neighbour, source, files, seconds })
    }

    fn limit(&self, words: &[&str]) -> Result<()> {
        self.array.gantry(&[&["volume", "limit", "p/neighbour"], words].concat()).map(drop)
    }

    fn measure(&self, beside: Beside) -> Result<Measured> {
        let loud = match beside {
            Beside::Nobody => return self.victim(0.0),
            Beside::FileAlone => return self.file(),
            Beside::FileBesideWrites => return self.file_beside_writes(),
            Beside::Limited(at) => {
                self.limit(LIMIT)?;
                NEIGHBOURS[at].1
            }
            Beside::Unlimited(at) => {
                self.limit(&["--iops", "none", "--bandwidth", "none"])?;
                NEIGHBOURS[at].1
            }
        };
        let longer = (self.seconds + 1).to_string();
        let words = ["--queue-depth", "32", "--seconds", &longer];
        let urls = if loud.contains(&"xcopy") {
            vec!["io", &self.source, "--url2", &self.neighbour]
        } else {
            vec!["io", &self.neighbour]
        };
        let words = [&urls[..], loud, &words].concat();
        thread::scope(|scope| {
            let neighbour = scope.spawn(|| gantry_host(&words, GRACE));
            thread::sleep(HEAD_START);
            let measured = self.victim(0.0);
            let neighbour = neighbour.join().ok().context("the neighbour panicked")??;
            Ok(Measured { neighbour: number(&neighbour, "per_second")?, ..measured? })
        })
    }

    fn file_beside_writes(&self) -> Result<Measured> {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let neighbour = scope.spawn(|| write_durably(&self.files[1], &is_over));
            thread::sleep(HEAD_START);
            let measured = self.file();
            is_over.store(true, Ordering::Relaxed);
            let neighbour = neighbour.join().ok().context("the neighbour panicked")??;
            Ok(Measured { neighbour, ..measured? })
        })
    }

    fn victim(&self, neighbour: f64) -> Result<Measured> {
        let seconds = self.seconds.to_string();
        let words = ["--pattern", "randread", "--queue-depth", "1", "--seconds", &seconds];
        let found = gantry_host(&[&["io", &self.victim][..], &words].concat(), GRACE)?;
        Ok(Measured {
            per_second: number(&found, "per_second")?,
            p50: number(&found, "p50_us")?,
            p99: number(&found, "p99_us")?,
            neighbour,
        })
    }

    /// What the victim does, to a file.
    fn file(&self) -> Result<Measured> {
        let (file, blocks) = open_directly(&self.files[0], OFlags::empty(), ALIGNMENT)?;
        let (mut memory, start) = aligned(ALIGNMENT);
        let (began, length) = (Instant::now(), Duration::from_secs(self.seconds.into()));
        let mut times = Vec::new();
        while began.elapsed() < length {
            let place = scattered(times.len() as u64, blocks) * ALIGNMENT as u64;
            let asked = Instant::now();
            file.read_exact_at(&mut memory[start..start + ALIGNMENT], place)?;
            times.push(asked.elapsed().as_secs_f64() * 1e6);
        }
        let per_second = times.len() as f64 / began.elapsed().as_secs_f64();
        times.sort_by(f64::total_cmp);
        let quantile = |share: f64| times[(times.len() as f64 * share) as usize];
        Ok(Measured { per_second, p50: quantile(0.5), p99: quantile(0.99), neighbour: 0.0 })
    }
}

/// Opens a file without the kernel's cache; with it comes how many pieces of that size it has.
fn open_directly(path: &Path, more: OFlags, piece: usize) -> Result<(File, u64)> {
    let flags = (OFlags::DIRECT | more).bits().cast_signed();
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
    let pieces = file.metadata()?.len() / piece as u64;
    Ok((file, pieces))
}

/// Memory for so many bytes, and where in it they begin.
fn aligned(bytes: usize) -> (Vec<u8>, usize) {
    let memory = vec![0x5a; bytes + ALIGNMENT];
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    (memory, start)
}

/// Places all over, as a random pattern has them.
fn scattered(count: u64, places: u64) -> u64 {
    (count.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16) % places
}

/// Writes a file in place, each write on stable storage before the next, at the limit's rate; returns
/// how many a second there were.
fn write_durably(path: &Path, is_over: &AtomicBool) -> Result<f64> {
    let (file, places) = open_directly(path, OFlags::DSYNC, FILE_WRITE)?;
    let (memory, start) = aligned(FILE_WRITE);
    let began = Instant::now();
    let mut count = 0;
    while !is_over.load(Ordering::Relaxed) {
        let place = scattered(count.into(), places) * FILE_WRITE as u64;
        file.write_all_at(&memory[start..start + FILE_WRITE], place)?;
        count += 1;
        let next = began + FILE_WRITE_PAUSE * count;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(f64::from(count) / began.elapsed().as_secs_f64())
}

fn middle(results: &Results, beside: Beside, of: fn(&Measured) -> f64) -> f64 {
    let rounds = results.get(&beside).map_or(&[][..], Vec::as_slice);
    median(&sorted(rounds.iter().map(of))).unwrap_or(f64::NAN)
}

fn page(results: &Results, options: &Options) -> String {
    let mut page = format!(
        "# Latency beside a limited neighbour\n\nWritten by `cargo xtask bench limits`: {} interleaved \
         rounds of {} s, medians. The victim reads 4 KiB at random, one at a time; its neighbour, on \
         another volume of the same pool, has 32 commands outstanding, without a limit or with `gantry \
         volume limit {}`. The daemon runs on core 0 with its pool on a file, both clients on core 1. \
         {}.\n\n",
        options.rounds,
        options.seconds,
        LIMIT.join(" "),
        machine()
    );
    page += "| neighbour | its commands per second | victim's per second | half | 99 % | of that alone |\n";
    page += "|---|---|---|---|---|---|\n";
    let mut row = |what: String, beside, of| {
        let alone = middle(results, of, |m| m.p99);
        let ms = |figure| middle(results, beside, figure) / 1000.0;
        let _ = writeln!(
            page,
            "| {what} | {:.0} | {:.0} | {:.3} ms | {:.3} ms | {:.2} × |",
            middle(results, beside, |m| m.neighbour),
            middle(results, beside, |m| m.per_second),
            ms(|m| m.p50),
            ms(|m| m.p99),
            middle(results, beside, |m| m.p99) / alone,
        );
    };
    row("nobody".to_owned(), Beside::Nobody, Beside::Nobody);
    for (at, (what, _)) in NEIGHBOURS.iter().enumerate() {
        row(format!("{what}, unlimited"), Beside::Unlimited(at), Beside::Nobody);
        row(format!("{what}, limited"), Beside::Limited(at), Beside::Nobody);
    }
    row("a file without an array: nobody".to_owned(), Beside::FileAlone, Beside::FileAlone);
    let writes = "a file without an array: 256 KiB random writes, O_DSYNC, in place".to_owned();
    row(writes, Beside::FileBesideWrites, Beside::FileAlone);
    page + "\nGoal: 99 % of the victim's reads beside a limited neighbour within 1.10 × of those alone. The \
            last two rows say what the disk itself does to a reader beside such writes, each followed by \
            a flush.\n"
}
