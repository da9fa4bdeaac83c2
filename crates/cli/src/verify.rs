//! Offline check of a pool that no daemon uses. Reads only, under the lock that a daemon would
//! hold.

use std::io::{IsTerminal, Write, stderr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use block::{BLOCK, DeviceName};
use device::Reader;
use serde::Serialize;
use store::{Depth, JournalLoss, OpenError, Report, SlotSpec, verify};

use notation::format_size;

/// The pool is damaged.
const FAULTS_FOUND: u8 = 1;

/// Nothing can be said of the pool.
const NOT_CHECKED: u8 = 2;

/// How often a terminal is told how far the check is.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(500);

/// How often a log is told.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// What is printed as JSON.
#[derive(Serialize)]
struct Summary<'a> {
    sound: bool,
    faults: &'a [String],
    fault_count: u64,
    volumes: u64,
    pages: u64,
    blocks: u64,
    replayed_units: u64,
    bytes_read: u64,
    /// Commits that a damaged journal lost; the rest is of what was before.
    lost_commits: u64,
    /// Volumes that they changed, as far as it can be told.
    lost_in: &'a [String],
    /// Blocks that one member of a mirror has not, and another has.
    damaged_copies: u64,
}

/// Checks the pool on those devices, in any order, and prints what was found.
pub(crate) fn run(devices: &[String], quick: bool, json: bool) -> ExitCode {
    let readers = devices.iter().map(|name| open(name));
    let readers: Vec<Reader> = match readers.collect() {
        Ok(readers) => readers,
        Err(error) => return not_checked(&error),
    };
    let sizes: Vec<u64> = readers.iter().map(Reader::size_bytes).collect();
    let depth = if quick { Depth::Map } else { Depth::Data };
    let mut progress = Progress::new();
    let checked = verify(&SlotSpec::numbered(&sizes), depth, |device, offset, buffer| {
        progress.add(buffer.len() as u64);
        readers[usize::from(device)].read(offset, buffer)
    });
    progress.end();
    let report = match checked {
        Ok(report) => report,
        Err(error @ OpenError::Damaged(_)) => {
            let faults = vec![error.to_string()];
            Report { fault_count: 1, faults, ..Report::default() }
        }
        Err(error) => return not_checked(&error),
    };
    print(&report, progress.bytes_read, json);
    if report.fault_count == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAULTS_FOUND) }
}

/// Opens a device by its name, or a file or block device by its path alone.
fn open(name: &str) -> Result<Reader, device::OpenError> {
    match name.parse::<DeviceName>() {
        Ok(name) => Reader::of(&name),
        Err(_) => Reader::open(DeviceName::path_in(name)),
    }
}

fn not_checked(error: &impl std::fmt::Display) -> ExitCode {
    terminal::complain!("gantry: {error}");
    ExitCode::from(NOT_CHECKED)
}

fn print(report: &Report, bytes_read: u64, json: bool) {
    let Report {
        faults,
        fault_count,
        volumes,
        pages,
        blocks,
        replayed_units,
        loss,
        loss_volumes,
        damaged_copies,
    } = report;
    if json {
        let (fault_count, volumes, pages) = (*fault_count, *volumes, *pages);
        let (blocks, replayed_units, sound) = (*blocks, *replayed_units, fault_count == 0);
        let summary = Summary {
            sound,
            faults,
            fault_count,
            volumes,
            pages,
            blocks,
            replayed_units,
            bytes_read,
            lost_commits: loss.as_ref().map_or(0, JournalLoss::commits),
            lost_in: loss_volumes,
            damaged_copies: *damaged_copies,
        };
        return terminal::say!("{}", serde_json::json!(summary));
    }
    faults.iter().for_each(|fault| terminal::say!("{fault}"));
    let named = faults.len() as u64;
    if *fault_count > named {
        terminal::say!("and {} more faults", fault_count - named);
    }
    if loss.is_some() {
        let volumes = if loss_volumes.is_empty() {
            "volumes that cannot be told".to_owned()
        } else {
            format!("at least {}", loss_volumes.join(", "))
        };
        println!(
            "The lost commits changed {volumes}. What follows is of the pool as it was before them: \
             'gantry pool resume NAME --read-only' serves that, and '--rewind' goes on from there."
        );
    }
    if *damaged_copies > 0 {
        terminal::say!(
            "{damaged_copies} block(s) of members of mirrors are damaged, and intact on another member: a scrub writes them again"
        );
    }
    let verdict = match fault_count {
        0 => "The pool is sound".to_owned(),
        count => format!("{count} fault(s) found"),
    };
    let data = format_size(blocks * BLOCK);
    terminal::say!(
        "{verdict}: {volumes} volumes and snapshots, {pages} pages of the map, {data} of data, \
         {replayed_units} journal units since the last checkpoint."
    );
}

/// Tells how far the check is, on standard error.
struct Progress {
    bytes_read: u64,
    is_terminal: bool,
    last: Instant,
}

impl Progress {
    fn new() -> Self {
        Self { bytes_read: 0, is_terminal: stderr().is_terminal(), last: Instant::now() }
    }

    fn add(&mut self, bytes: u64) {
        self.bytes_read += bytes;
        let interval = if self.is_terminal { TERMINAL_INTERVAL } else { LOG_INTERVAL };
        if self.last.elapsed() >= interval {
            self.last = Instant::now();
            self.tell(if self.is_terminal { "\r" } else { "\n" });
        }
    }

    fn tell(&self, end: &str) {
        // Who closed standard error does not want to know.
        let _ = write!(stderr(), "checking: {} read{end}", format_size(self.bytes_read));
    }

    fn end(&self) {
        self.tell("\n");
    }
}
