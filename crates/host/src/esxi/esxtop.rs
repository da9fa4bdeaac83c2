//! Counters as `esxtop` and vCenter show them, live and as time series.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::esxi::counters::Counters;
use crate::esxi::state::Host;

/// The name under which all devices together are shown: what went through the iSCSI adapter.
pub const ADAPTER: &str = "vmhba64";

/// What a device did up to a moment, and since the moment before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the series began.
    pub at: f64,
    /// The device, or [`ADAPTER`].
    pub device: String,
    /// Sums since the host was made.
    pub sums: Counters,
    /// What came since the sample before.
    pub change: Counters,
    /// Seconds since the sample before.
    pub seconds: f64,
}

impl Sample {
    fn rate(&self, count: u64) -> f64 {
        count as f64 / self.seconds
    }

    fn mega(&self, bytes: u64) -> f64 {
        self.rate(bytes) / f64::from(1 << 20)
    }

    /// vCenter's disk.write.average, 'Write rate': KB per second.
    pub fn write_rate_kbps(&self) -> f64 {
        self.rate(self.change.write_bytes) / 1024.0
    }

    /// vCenter's disk.read.average, 'Read rate': KB per second.
    pub fn read_rate_kbps(&self) -> f64 {
        self.rate(self.change.read_bytes) / 1024.0
    }

    /// vCenter's disk.numberWriteAveraged.average: write requests per second.
    pub fn write_requests(&self) -> f64 {
        self.rate(self.change.writes)
    }

    /// vCenter's disk.numberReadAveraged.average: read requests per second.
    pub fn read_requests(&self) -> f64 {
        self.rate(self.change.reads)
    }

    /// Bytes on the sockets per second, both ways, in MB: what a switch would show.
    pub fn wire_mbps(&self) -> f64 {
        self.mega(self.change.wire_bytes)
    }

    /// RESERVATION CONFLICTs per second.
    pub fn conflicts(&self) -> f64 {
        self.rate(self.change.cons)
    }

    /// The values of [`COLUMNS`].
    pub fn row(&self) -> [f64; COLUMNS.len()] {
        let (sum, change) = (&self.sums, &self.change);
        [
            sum.clone_rd as f64,
            sum.clone_wr as f64,
            sum.clone_f as f64,
            self.mega(change.clone_rd_bytes),
            self.mega(change.clone_wr_bytes),
            sum.ats as f64,
            sum.atsf as f64,
            sum.zero as f64,
            sum.zero_f as f64,
            self.mega(change.zero_bytes),
            sum.delete as f64,
            sum.delete_f as f64,
            self.mega(change.delete_bytes),
            self.rate(change.resv),
            self.conflicts(),
            self.read_requests(),
            self.write_requests(),
            self.mega(change.read_bytes),
            self.mega(change.write_bytes),
            self.wire_mbps(),
            average(sum.clone_us, sum.clone_wr),
            average(sum.clone_f_us, sum.clone_f),
            average(sum.ats_us, sum.ats),
            average(sum.atsf_us, sum.atsf),
            average(sum.zero_us, sum.zero),
            average(sum.zero_f_us, sum.zero_f),
        ]
    }
}

/// Milliseconds of a command.
fn average(microseconds: u64, count: u64) -> f64 {
    match count {
        0 => 0.0,
        count => microseconds as f64 / 1000.0 / count as f64,
    }
}

/// The columns: sums, rates per second over the last interval, milliseconds of a command.
#[rustfmt::skip]
pub const COLUMNS: [&str; 26] = [
    "CLONE_RD", "CLONE_WR", "CLONE_F", "MBC_RD/s", "MBC_WR/s", "ATS", "ATSF", "ZERO", "ZERO_F",
    "MBZERO/s", "DELETE", "DELETE_F", "MBDEL/s", "RESV/s", "CONS/s", "READS/s", "WRITES/s",
    "MBREAD/s", "MBWRTN/s", "MBWIRE/s", "CAVG/suc", "CAVG/f", "AAVG/suc", "AAVG/f", "ZAVG/suc",
    "ZAVG/f",
];

/// Looks at a host's counters again and again.
struct Looks {
    started: Instant,
    before: BTreeMap<String, Counters>,
    before_at: Instant,
}

impl Looks {
    fn begin(host: &Host) -> Result<Self> {
        let started = Instant::now();
        Ok(Self { started, before: with_adapter(host.counters()?), before_at: started })
    }

    fn look(&mut self, host: &Host) -> Result<Vec<Sample>> {
        let (now, now_at) = (with_adapter(host.counters()?), Instant::now());
        let seconds = (now_at - self.before_at).as_secs_f64().max(0.001);
        let at = (now_at - self.started).as_secs_f64();
        let sample = |(device, sums): (&String, &Counters)| Sample {
            at,
            device: device.clone(),
            sums: *sums,
            change: sums.since(&self.before.get(device).copied().unwrap_or_default()),
            seconds,
        };
        let samples = now.iter().map(sample).collect();
        (self.before, self.before_at) = (now, now_at);
        Ok(samples)
    }
}

fn with_adapter(mut devices: BTreeMap<String, Counters>) -> BTreeMap<String, Counters> {
    let mut all = Counters::default();
    devices.values().for_each(|one| all.add(one));
    devices.insert(ADAPTER.to_owned(), all);
    devices
}

/// Records a host's counters as a time series, in a thread of its own, until it is stopped.
pub struct Recorder {
    thread: JoinHandle<Result<Vec<Sample>>>,
    stop: Arc<AtomicBool>,
}

impl Recorder {
    /// Begins, with a sample of every device each `interval`.
    ///
    /// # Errors
    /// When the host's folder cannot be read.
    pub fn start(host: &Host, interval: Duration) -> Result<Self> {
        let (host, stop) = (host.clone(), Arc::new(AtomicBool::new(false)));
        let mut looks = Looks::begin(&host)?;
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut series = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                thread::park_timeout(interval);
                series.extend(looks.look(&host)?);
            }
            Ok(series)
        });
        Ok(Self { thread, stop })
    }

    /// Ends, with a last sample; returns all of them in order.
    ///
    /// # Errors
    /// When the host's folder could not be read meanwhile.
    pub fn stop(self) -> Result<Vec<Sample>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().ok().context("the recorder panicked")?
    }
}

/// How `esxtop` shows what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A table for people; on a terminal each takes the place of the one before.
    Screen,
    /// Comma-separated values, a line per device, the seconds first.
    Batch,
    /// A line of JSON per device: a [`Sample`].
    Json,
}

/// Shows the counters of all devices `count` times, or until the process is ended; each with the
/// rates since the time before.
///
/// # Errors
/// When the host's folder cannot be read.
pub fn run(host: &Host, delay: Duration, count: Option<u32>, shape: Shape) -> Result<()> {
    let mut looks = Looks::begin(host)?;
    let mut out = io::stdout().lock();
    if shape == Shape::Batch {
        writeln!(out, "seconds,device,{}", COLUMNS.join(","))?;
    }
    let live = shape == Shape::Screen && count.is_none() && out.is_terminal();
    let mut shown = 0;
    while count.is_none_or(|count| shown < count) {
        // The sums of a single look need no waiting.
        if shown > 0 || count != Some(1) {
            thread::sleep(delay);
        }
        let samples = looks.look(host)?;
        if live {
            write!(out, "\x1b[H\x1b[J")?;
        }
        write!(out, "{}", text(&samples, shape)?)?;
        out.flush()?;
        shown += 1;
    }
    Ok(())
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn text(samples: &[Sample], shape: Shape) -> Result<String> {
    let mut text = String::new();
    if shape == Shape::Screen {
        let heads: Vec<String> = COLUMNS.iter().map(|head| format!("{head:>9}")).collect();
        writeln!(text, "{:36} {}", "DEVICE", heads.join(" "))?;
    }
    for sample in samples {
        let cells = sample.row().map(number);
        match shape {
            Shape::Json => writeln!(text, "{}", serde_json::to_string(sample)?)?,
            Shape::Batch => {
                writeln!(text, "{:.3},{},{}", sample.at, sample.device, cells.join(","))?;
            }
            Shape::Screen => {
                let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>9}")).collect();
                writeln!(text, "{:36} {}", sample.device, cells.join(" "))?;
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_sums_and_rates_are_of_the_interval() -> Result<()> {
        let before = Counters { ats: 5, cons: 10, zero_bytes: 1 << 20, ..Counters::default() };
        let sums = Counters {
            ats: 7,
            cons: 30,
            zero_bytes: 5 << 20,
            writes: 64,
            write_bytes: 64 << 10,
            ..before
        };
        let sample = Sample {
            at: 4.0,
            device: "naa.1".into(),
            sums,
            change: sums.since(&before),
            seconds: 2.0,
        };
        let text = text(std::slice::from_ref(&sample), Shape::Batch)?;
        let cells: Vec<&str> = text.trim().split(',').collect();
        let cell = |name: &str| {
            cells[2 + COLUMNS.iter().position(|column| *column == name).expect("a column")]
        };
        assert_eq!((cells[0], cells[1]), ("4.000", "naa.1"));
        assert_eq!((cell("ATS"), cell("CONS/s"), cell("MBZERO/s")), ("7", "10", "2"));
        assert_eq!((sample.write_rate_kbps(), sample.write_requests()), (32.0, 32.0));
        Ok(())
    }

    #[test]
    fn the_adapter_is_the_sum_of_its_devices() {
        let one = Counters { reads: 3, wire_bytes: 100, ..Counters::default() };
        let all = with_adapter([("a".to_owned(), one), ("b".to_owned(), one)].into());
        assert_eq!((all[ADAPTER].reads, all[ADAPTER].wire_bytes), (6, 200));
    }
}
