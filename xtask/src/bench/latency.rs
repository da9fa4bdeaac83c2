//! Latency benchmark: reads, writes and locks while the array is busy with offloads. The daemon
//! runs on core 0 with its pool on a file, all clients on core 1.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use harness::array::free_address;
use harness::program::run as run_program;
use harness::{Array, Value};

use super::report::{machine, median, publish, sorted};
use crate::{setup, test, workspace};

const PAGE: &str = "docs/benchmarks-latency.md";

/// Beyond the measured seconds: for connecting and for what is outstanding.
pub(super) const GRACE: Duration = Duration::from_secs(120);

/// For the company to be there before the measurement begins, and longer than it lasts.
pub(super) const HEAD_START: Duration = Duration::from_millis(500);

const LUN_SIZE: &str = "1G";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rounds; medians count, of the slowest the slowest.
    #[arg(long, default_value_t = 3)]
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

/// The LUNs: one with data, one that offloads work on, one for locks.
#[derive(Clone, Copy, Debug)]
enum Lun {
    Data,
    Offloads,
    Locks,
    OtherLocks,
}

/// A load of gantry-host.
struct Load {
    lun: Lun,
    words: &'static [&'static str],
}

const LOCKS: &[&str] = &["--pattern", "caw", "--queue-depth", "1", "--span", "64M"];
const PACED_LOCKS: Load = Load {
    lun: Lun::OtherLocks,
    words: &["--pattern", "caw", "--queue-depth", "1", "--rate", "500", "--span", "64M"],
};
const COPIES: Load = Load {
    lun: Lun::Offloads,
    words: &["--pattern", "xcopy", "--block", "16777216", "--queue-depth", "32"],
};
const ZEROS: Load =
    Load { lun: Lun::Offloads, words: &["--pattern", "writesame", "--queue-depth", "32"] };
const UNMAPS: Load =
    Load { lun: Lun::Offloads, words: &["--pattern", "unmap", "--queue-depth", "32"] };

/// What is measured.
const OBSERVED: [(&str, Load); 4] = [
    (
        "4 KiB random read, 1 outstanding",
        Load { lun: Lun::Data, words: &["--pattern", "randread", "--queue-depth", "1"] },
    ),
    (
        "4 KiB random read, 32 outstanding",
        Load { lun: Lun::Data, words: &["--pattern", "randread", "--queue-depth", "32"] },
    ),
    (
        "4 KiB random write, 32 outstanding",
        Load { lun: Lun::Data, words: &["--pattern", "randwrite", "--queue-depth", "32"] },
    ),
    ("COMPARE AND WRITE, 1 outstanding", Load { lun: Lun::Locks, words: LOCKS }),
];

const READ_ONE: usize = 0;
const READ: usize = 1;
const WRITE: usize = 2;
const LOCK: usize = 3;

/// What goes on besides.
const COMPANY: [(&str, &[Load]); 6] = [
    ("nothing else", &[]),
    ("500 COMPARE AND WRITE a second", &[PACED_LOCKS]),
    ("EXTENDED COPY of 16 MiB, 32 outstanding", &[COPIES]),
    ("WRITE SAME of 1 MiB, 32 outstanding", &[ZEROS]),
    ("UNMAP of 1 MiB, 32 outstanding, of what EXTENDED COPY brings", &[COPIES, UNMAPS]),
    (
        "EXTENDED COPY, WRITE SAME, UNMAP and 500 COMPARE AND WRITE a second",
        &[COPIES, ZEROS, UNMAPS, PACED_LOCKS],
    ),
];

const ALONE: usize = 0;
const BESIDE_LOCKS: usize = 1;
const BESIDE_COPIES: usize = 2;
const BESIDE_ALL: usize = 5;

/// One measurement; times in microseconds.
#[derive(Clone, Copy, Debug)]
struct Measured {
    per_second: f64,
    p50: f64,
    p99: f64,
    p9999: f64,
    slowest: f64,
    /// Commands of the company per second.
    company: f64,
}

/// By what is observed, and beside what.
type Results = BTreeMap<(usize, usize), Vec<Measured>>;

struct Bench {
    _array: Array,
    urls: [String; 4],
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
        for (observed, (what, load)) in OBSERVED.iter().enumerate() {
            for (beside, (company, loads)) in COMPANY.iter().enumerate() {
                let measured =
                    bench.measure(load, loads).with_context(|| format!("{what}, {company}"))?;
                terminal::complain!(
                    "round {round} of {}: {what} beside {company}: {measured:?}",
                    options.rounds
                );
                results.entry((observed, beside)).or_default().push(measured);
            }
        }
    }
    let page = page(&results, options);
    publish(&page, PAGE, options.dry_run)
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
        let urls = [lun("p/data")?, lun("p/offloads")?, lun("p/locks")?, lun("p/other-locks")?];
        gantry_host(&["fill", &urls[0], "--length", "1073741824"], GRACE)?;
        Ok(Self { _array: array, urls, seconds })
    }

    fn url(&self, lun: Lun) -> &str {
        &self.urls[match lun {
            Lun::Data => 0,
            Lun::Offloads => 1,
            Lun::Locks => 2,
            Lun::OtherLocks => 3,
        }]
    }

    fn measure(&self, load: &Load, company: &[Load]) -> Result<Measured> {
        thread::scope(|scope| {
            let longer = self.seconds + 1;
            let company: Vec<_> =
                company.iter().map(|other| scope.spawn(move || self.load(other, longer))).collect();
            thread::sleep(HEAD_START);
            let found = self.load(load, self.seconds);
            let mut rate = 0.0;
            for other in company {
                let other = other.join().ok().context("a load panicked")??;
                rate += number(&other, "per_second")?;
            }
            let found = found?;
            Ok(Measured {
                per_second: number(&found, "per_second")?,
                p50: number(&found, "p50_us")?,
                p99: number(&found, "p99_us")?,
                p9999: number(&found, "p9999_us")?,
                slowest: number(&found, "max_us")?,
                company: rate,
            })
        })
    }

    /// Copies go from the LUN with data to the one that offloads work on.
    fn load(&self, load: &Load, seconds: u32) -> Result<Value> {
        let seconds = seconds.to_string();
        let copies = load.words.contains(&"xcopy");
        let urls = if copies {
            vec![self.url(Lun::Data), "--url2", self.url(load.lun)]
        } else {
            vec![self.url(load.lun)]
        };
        let words = [&["io"], &urls[..], load.words, &["--seconds", &seconds]].concat();
        gantry_host(&words, GRACE)
    }
}

pub(super) fn gantry_host(words: &[&str], timeout: Duration) -> Result<Value> {
    let program = workspace::release_folder().join("gantry-host");
    let program = program.to_str().context("a printable path")?;
    let words = [&["-c", "1", program], words, &["--json"]].concat();
    let printed = run_program(Path::new("taskset"), &words, timeout)?.success()?;
    serde_json::from_str(&printed).with_context(|| format!("not JSON: {printed}"))
}

pub(super) fn number(answer: &Value, name: &str) -> Result<f64> {
    answer[name].as_f64().with_context(|| format!("gantry-host does not say '{name}': {answer}"))
}

fn middle(results: &Results, at: (usize, usize), of: fn(&Measured) -> f64) -> f64 {
    let rounds = results.get(&at).map_or(&[][..], Vec::as_slice);
    median(&sorted(rounds.iter().map(of))).unwrap_or(f64::NAN)
}

fn slowest(results: &Results, at: (usize, usize)) -> f64 {
    let rounds = results.get(&at).map_or(&[][..], Vec::as_slice);
    rounds.iter().map(|measured| measured.slowest).fold(0.0, f64::max)
}

fn page(results: &Results, options: &Options) -> String {
    let mut page = format!(
        "# Latency beside offloads\n\nWritten by `cargo xtask bench latency`: {} rounds of {} s, \
         medians; of the slowest the slowest of all. The daemon runs on core 0 with its pool on a \
         file, all clients on core 1. What is observed works on LUNs of its own in the same pool; \
         locks on the same LUN are in the report of `gantry-host validate`. {}.\n",
        options.rounds,
        options.seconds,
        machine()
    );
    for (observed, (what, _)) in OBSERVED.iter().enumerate() {
        let _ = write!(page, "\n## {what}\n\n");
        page +=
            "| beside | its commands per second | per second | half | 99 % | 99.99 % | slowest |\n";
        page += "|---|---|---|---|---|---|---|\n";
        for (beside, (company, _)) in COMPANY.iter().enumerate() {
            page += &row(results, company, (observed, beside));
        }
    }
    page += "\n## Goals\n\n| what | reached | goal |\n|---|---|---|\n";
    page + &goals(results)
}

fn row(results: &Results, company: &str, at: (usize, usize)) -> String {
    let ms = |micros: f64| micros / 1000.0;
    format!(
        "| {company} | {:.0} | {:.0} | {:.2} ms | {:.2} ms | {:.2} ms | {:.2} ms |\n",
        middle(results, at, |m| m.company),
        middle(results, at, |m| m.per_second),
        ms(middle(results, at, |m| m.p50)),
        ms(middle(results, at, |m| m.p99)),
        ms(middle(results, at, |m| m.p9999)),
        ms(slowest(results, at)),
    )
}

fn goals(results: &Results) -> String {
    let rate = |observed, beside| middle(results, (observed, beside), |m| m.per_second);
    let part = |observed| rate(observed, BESIDE_LOCKS) / rate(observed, ALONE);
    let p99 = |beside| middle(results, (READ_ONE, beside), |m| m.p99);
    let tail = middle(results, (LOCK, BESIDE_ALL), |m| m.p9999) / 1e6;
    format!(
        "| reads beside 500 COMPARE AND WRITE a second, of those alone | {:.2} × | ≥ 0.97 × |\n\
         | writes beside 500 COMPARE AND WRITE a second, of those alone | {:.2} × | ≥ 0.97 × |\n\
         | 99 % of reads beside EXTENDED COPY, of those alone | {:.2} × | < 3 × |\n\
         | 99.99 % of COMPARE AND WRITE beside all | {tail:.3} s | < 1 s |\n\
         | slowest COMPARE AND WRITE beside all | {:.3} s | < 5 s |\n",
        part(READ),
        part(WRITE),
        p99(BESIDE_COPIES) / p99(ALONE),
        slowest(results, (LOCK, BESIDE_ALL)) / 1e6,
    )
}
