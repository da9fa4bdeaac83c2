//! Virtual machines as workloads: patterns of access to a virtual disk. One that meets a full
//! array pauses, and goes on when there is space again.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use vmfs::file::File;
use vmfs::{DiskError, Error, LockMode};

use crate::datastore::Datastore;
use crate::histogram::Histogram;
use crate::state::Host;

/// How a virtual machine uses its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Pattern {
    /// 4 KiB, one after the other.
    SequentialRead4k,
    /// 1 MiB, one after the other.
    SequentialWrite1m,
    /// 4 KiB at random, two reads to a write.
    RandomMix4k,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The disk's path on the datastore.
    pub path: String,
    /// How it is used.
    pub pattern: Pattern,
    /// How long.
    pub duration: Duration,
    /// Reads and writes after which it ends before its time.
    pub operations_max: u64,
    /// How long to wait for space before giving up.
    pub patience: Duration,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Outcome {
    /// Reads and writes.
    pub operations: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Seconds, without those paused.
    pub seconds: f64,
    /// Per second.
    pub per_second: f64,
    /// 99 of 100 took at most so many microseconds.
    pub p99_us: u64,
    /// How often the array was full.
    pub pauses: u64,
    /// Seconds paused.
    pub paused_seconds: f64,
}

/// Between two looks at whether a full array has space again.
const PAUSE: Duration = Duration::from_millis(100);

/// Between two publications of counters.
const PUBLISH: Duration = Duration::from_millis(250);

struct Machine {
    file: File,
    pattern: Pattern,
    next: u64,
    random: u64,
    buffer: Vec<u8>,
}

impl Machine {
    fn place(&mut self, size: u64) -> u64 {
        let places = (self.file.length() / size).max(1);
        self.next += 1;
        if self.pattern != Pattern::RandomMix4k {
            return self.next % places * size;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % places * size
    }

    fn writes(&self) -> bool {
        match self.pattern {
            Pattern::SequentialRead4k => false,
            Pattern::SequentialWrite1m => true,
            Pattern::RandomMix4k => self.next.is_multiple_of(3),
        }
    }

    fn step(&mut self, store: &mut Datastore, offset: u64) -> vmfs::Result<()> {
        if self.writes() {
            self.buffer[..8].copy_from_slice(&self.next.to_le_bytes());
            return store.volume.write_at(&mut self.file, offset, &self.buffer);
        }
        store.volume.read_at(&self.file, offset, &mut self.buffer).map(|_| ())
    }
}

/// Runs a virtual machine on a mounted datastore.
///
/// # Errors
/// When the disk is in use, or fails otherwise than by a full array.
pub fn run(host: &Host, store: &mut Datastore, order: &Run) -> Result<Outcome> {
    let file = store.volume.open_disk(&order.path, LockMode::Exclusive)?;
    let size = if order.pattern == Pattern::SequentialWrite1m { 1 << 20 } else { 4096 };
    let mut machine = Machine {
        file,
        pattern: order.pattern,
        next: 0,
        random: 0x2545_f491_4f6c_dd1d,
        buffer: vec![0x5a; size],
    };
    let outcome = work(host, store, order, &mut machine);
    store.volume.close(machine.file)?;
    outcome
}

fn work(host: &Host, store: &mut Datastore, order: &Run, machine: &mut Machine) -> Result<Outcome> {
    let (started, mut published) = (Instant::now(), Instant::now());
    let (mut outcome, mut histogram) = (Outcome::default(), Histogram::default());
    let size = machine.buffer.len() as u64;
    while started.elapsed() < order.duration && outcome.operations < order.operations_max {
        let offset = machine.place(size);
        let begun = Instant::now();
        while let Err(error) = machine.step(store, offset) {
            if !is_full(&error) || begun.elapsed() > order.patience {
                return Err(error.into());
            }
            if begun.elapsed() < PAUSE {
                outcome.pauses += 1;
                eprintln!("paused: {error}");
            }
            std::thread::sleep(PAUSE);
            store.volume.pulse_if_due()?;
            outcome.paused_seconds += PAUSE.as_secs_f64();
        }
        histogram.record(begun.elapsed().as_micros() as u64);
        outcome.operations += 1;
        outcome.bytes += size;
        if published.elapsed() > PUBLISH {
            store.volume.pulse_if_due()?;
            host.publish(store.volume.disk())?;
            published = Instant::now();
        }
    }
    outcome.seconds = started.elapsed().as_secs_f64() - outcome.paused_seconds;
    outcome.per_second = outcome.operations as f64 / outcome.seconds;
    outcome.p99_us = histogram.quantile(0.99);
    Ok(outcome)
}

fn is_full(error: &Error) -> bool {
    matches!(error, Error::Disk(DiskError::OutOfSpace))
}
