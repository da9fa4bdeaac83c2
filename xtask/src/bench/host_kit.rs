//! Benchmark of gantry-host itself against libiscsi's iscsi-perf, on the same LUN, with one session
//! and as many commands outstanding: it must be fast enough not to be what is measured.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::array::free_address;
use harness::program::run;
use harness::{Array, Value};

use super::Options;
use super::report::publish;
use crate::{setup, test, workspace};

const PAGE: &str = "docs/benchmarks-host-kit.md";
const TIMEOUT: Duration = Duration::from_secs(300);
const OUTSTANDING: &str = "32";

/// gantry-host's part of the rate of iscsi-perf, at the least.
const GOAL: f64 = 0.8;

/// Who reads 4 KiB at random.
const READERS: [&str; 3] =
    ["libiscsi's iscsi-perf", "gantry-host io", "gantry-host vm run, through VMFS"];

struct Bench {
    _array: Array,
    host: String,
    folder: tempfile::TempDir,
    url: String,
    seconds: String,
}

/// Measures, prints, and writes the page.
pub(super) fn measure(options: &Options) -> Result<()> {
    setup::run()?;
    if !options.no_build {
        test::build()?;
    }
    let bench = Bench::start(options.seconds)?;
    let mut rates = [const { Vec::new() }; READERS.len()];
    for round in 1..=options.rounds {
        for (reader, rates) in rates.iter_mut().enumerate() {
            let rate = bench.read(reader).with_context(|| READERS[reader])?;
            terminal::complain!(
                "round {round} of {}: {}: {rate:.0} per second",
                options.rounds,
                READERS[reader]
            );
            rates.push(rate);
        }
    }
    let page = page(&mut rates, options);
    publish(&page, PAGE, options.dry_run)?;
    ensure!(!page.contains("| NO |"), "gantry-host is slower than its goal");
    Ok(())
}

impl Bench {
    /// A LUN on memory with a datastore, and on that a disk full of data.
    fn start(seconds: u32) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut array = Array::at(&folder.path().join("array"), free_address()?)?
            .with_binaries(&workspace::release_folder())
            .with_words(&["taskset", "-c", "0"], &[]);
        array.restart()?;
        array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "4G"])?;
        let url = array.lun_url(array.create_lun("p/v", "1G")?)?;
        let host = workspace::release_folder().join("gantry-host");
        let bench = Self {
            _array: array,
            host: host.to_str().context("a printable path")?.to_owned(),
            folder,
            url,
            seconds: seconds.to_string(),
        };
        bench.host(&["host-create", "esx1"])?;
        bench.host(&["adapter-add", &bench.url])?;
        let rescan = bench.host(&["rescan"])?;
        let device = rescan.split(' ').next().context("a device")?;
        bench.host(&["vmkfstools", "-C", "vmfs5", "-S", "ds", &format!("{device}:1")])?;
        bench.host(&["vmkfstools", "-c", "640m", "-d", "eagerzeroedthick", "ds/d.vmdk"])?;
        let fill = ["vm", "run", "ds/d.vmdk", "--pattern", "sequential-write1m"];
        bench.host(&[&fill[..], &["--operations", "640", "--seconds", "600"]].concat())?;
        Ok(bench)
    }

    fn pinned(words: &[&str]) -> Result<String> {
        run(Path::new("taskset"), &[&["-c", "1"], words].concat(), TIMEOUT)?.success()
    }

    fn host(&self, words: &[&str]) -> Result<String> {
        let state = self.folder.path().join("host");
        let state = state.to_str().context("a printable path")?;
        Self::pinned(&[&[&self.host, "--state", state], words].concat())
    }

    /// Reads for some seconds; returns reads per second.
    fn read(&self, reader: usize) -> Result<f64> {
        let seconds = self.seconds.as_str();
        if reader == 0 {
            let words = ["iscsi-perf", "-m", OUTSTANDING, "-b", "8", "-r", "-t", seconds];
            return average(&Self::pinned(&[&words[..], &[&self.url]].concat())?);
        }
        let printed = match reader {
            1 => {
                let words = ["--json", "io", &self.url, "--pattern", "randread"];
                let depth = ["--queue-depth", OUTSTANDING, "--seconds", seconds];
                self.host(&[&words[..], &depth].concat())?
            }
            _ => {
                let words = ["vm", "run", "ds/d.vmdk", "--pattern", "random-read4k"];
                let depth = ["--outstanding", OUTSTANDING, "--seconds", seconds];
                self.host(&[&words[..], &depth].concat())?
            }
        };
        let outcome: Value = serde_json::from_str(&printed)?;
        outcome["per_second"].as_f64().context("no rate")
    }
}

/// What iscsi-perf says last: 'iops average N (N MB/s)'.
fn average(printed: &str) -> Result<f64> {
    let said = printed.rsplit("iops average ").next().and_then(|text| text.split(' ').next());
    let said = said.with_context(|| format!("no average in {printed}"))?;
    said.parse().with_context(|| format!("no average in {printed}"))
}

fn page(rates: &mut [Vec<f64>; READERS.len()], options: &Options) -> String {
    let mut page = format!(
        "# The host kit against iscsi-perf\n\nWritten by `cargo xtask bench --host-kit`: {} \
         interleaved rounds of {} s each, medians (lowest to highest round in brackets). 4 KiB \
         random reads of one LUN on a memory device, one session, {OUTSTANDING} outstanding; \
         gantryd on core 0, the reader on core 1.\n\n| reader | reads per second | of iscsi-perf | \
         goal of {GOAL} reached |\n|---|---|---|---|\n",
        options.rounds, options.seconds
    );
    let mut first = None;
    for (reader, rates) in READERS.iter().zip(rates) {
        rates.sort_by(f64::total_cmp);
        let median = rates[rates.len() / 2];
        let part = median / *first.get_or_insert(median);
        let reached = if part >= GOAL { "yes" } else { "NO" };
        let (low, high) = (rates[0], rates[rates.len() - 1]);
        let _ = writeln!(
            page,
            "| {reader} | {median:.0} ({low:.0} to {high:.0}) | {part:.2} | {reached} |"
        );
    }
    page
}
