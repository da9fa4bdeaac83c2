//! Counters as `esxtop` and vCenter show them, live and as time series.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

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
    /// Comma-separated values as ESXi's batch mode writes them for Windows' Performance Monitor: a
    /// line for each look, the time first, a column for each counter of each device.
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
    // The columns are those of the devices that there were in the beginning.
    let devices: Vec<String> = looks.before.keys().cloned().collect();
    if shape == Shape::Batch {
        writeln!(out, "{}", pdh_head(&host.record.name, &devices))?;
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
        match shape {
            Shape::Batch => writeln!(out, "{}", pdh_row(SystemTime::now(), &devices, &samples))?,
            Shape::Screen | Shape::Json => write!(out, "{}", text(&samples, shape)?)?,
        }
        out.flush()?;
        shown += 1;
    }
    Ok(())
}

/// Counters of a device in batch mode: the names of esxtop's own, and those of the screen for the
/// offloads, for which no names are published.
fn pdh_counters(sample: &Sample) -> Vec<(&'static str, f64)> {
    let change = &sample.change;
    let all = change.reads + change.writes + change.ats + change.clone_wr + change.zero;
    let mut counters = vec![
        ("Commands/sec", sample.rate(all + change.delete + change.resv)),
        ("Reads/sec", sample.read_requests()),
        ("Writes/sec", sample.write_requests()),
        ("MBytes Read/sec", sample.mega(change.read_bytes)),
        ("MBytes Written/sec", sample.mega(change.write_bytes)),
        ("Reserves/sec", sample.rate(change.resv)),
        ("Conflicts/sec", sample.conflicts()),
    ];
    counters.extend(COLUMNS.into_iter().zip(sample.row()));
    counters
}

fn pdh_group(device: &str) -> String {
    match device {
        ADAPTER => format!("Physical Disk Adapter({device})"),
        device => format!("Physical Disk SCSI Device({device})"),
    }
}

fn pdh_head(host: &str, devices: &[String]) -> String {
    let sample = Sample {
        at: 0.0,
        device: String::new(),
        sums: Counters::default(),
        change: Counters::default(),
        seconds: 1.0,
    };
    let mut cells = vec!["\"(PDH-CSV 4.0) (UTC)(0)\"".to_owned()];
    for device in devices {
        let group = pdh_group(device);
        let names = pdh_counters(&sample);
        cells.extend(names.iter().map(|(name, _)| format!("\"\\\\{host}\\{group}\\{name}\"")));
    }
    cells.join(",")
}

/// A device that is gone has no values.
fn pdh_row(now: SystemTime, devices: &[String], samples: &[Sample]) -> String {
    let mut cells = vec![format!("\"{}\"", pdh_time(now))];
    for device in devices {
        match samples.iter().find(|sample| sample.device == *device) {
            Some(sample) => cells.extend(
                pdh_counters(sample).into_iter().map(|(_, value)| format!("\"{value:.2}\"")),
            ),
            None => cells.extend((0..7 + COLUMNS.len()).map(|_| "\"\"".to_owned())),
        }
    }
    cells.join(",")
}

/// MM/DD/YYYY HH:MM:SS, UTC.
fn pdh_time(now: SystemTime) -> String {
    let text = humantime::format_rfc3339_seconds(now).to_string();
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    format!("{}/{}/{} {}", part(5..7), part(8..10), part(0..4), part(11..19))
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
            Shape::Screen | Shape::Batch => {
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
        let text = text(std::slice::from_ref(&sample), Shape::Screen)?;
        let line = text.lines().nth(1).unwrap_or_default();
        let cells: Vec<&str> = line.split_whitespace().collect();
        let cell = |name: &str| {
            cells[1 + COLUMNS.iter().position(|column| *column == name).expect("a column")]
        };
        assert_eq!(cells[0], "naa.1");
        assert_eq!((cell("ATS"), cell("CONS/s"), cell("MBZERO/s")), ("7", "10", "2"));
        assert_eq!((sample.write_rate_kbps(), sample.write_requests()), (32.0, 32.0));
        Ok(())
    }

    #[test]
    fn batch_mode_is_what_performance_monitor_reads() {
        let sums = Counters { writes: 4, write_bytes: 2 << 20, ats: 3, ..Counters::default() };
        let device = "naa.1".to_owned();
        let (at, seconds) = (2.0, 2.0);
        let sample = Sample { at, device: device.clone(), sums, change: sums, seconds };
        let devices = [device, "naa.2".to_owned()];
        let head = pdh_head("esx1", &devices);
        let row = pdh_row(SystemTime::UNIX_EPOCH, &devices, &[sample]);
        let (heads, cells): (Vec<&str>, Vec<&str>) =
            (head.split(',').collect(), row.split(',').collect());
        assert_eq!((heads[0], cells[0]), ("\"(PDH-CSV 4.0) (UTC)(0)\"", "\"01/01/1970 00:00:00\""));
        assert_eq!(heads.len(), cells.len());
        let cell = |device: &str, name: &str| {
            let name = format!("\"\\\\esx1\\Physical Disk SCSI Device({device})\\{name}\"");
            cells[heads.iter().position(|head| *head == name).expect("a column")]
        };
        assert_eq!(cell("naa.1", "Writes/sec"), "\"2.00\"");
        assert_eq!(cell("naa.1", "MBytes Written/sec"), "\"1.00\"");
        assert_eq!(cell("naa.1", "ATS"), "\"3.00\"");
        assert_eq!(cell("naa.2", "ATS"), "\"\"");
    }

    #[test]
    fn the_adapter_is_the_sum_of_its_devices() {
        let one = Counters { reads: 3, wire_bytes: 100, ..Counters::default() };
        let all = with_adapter([("a".to_owned(), one), ("b".to_owned(), one)].into());
        assert_eq!((all[ADAPTER].reads, all[ADAPTER].wire_bytes), (6, 200));
    }
}
