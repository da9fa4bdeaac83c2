//! The accesses of one virtual machine to one disk.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use vmfs::chain::Chain;
use vmfs::file::{FileContent, FileExtent};
use vmfs::{DiskError, Error, Place};

use super::{Access, Run, WorkloadFigures};
use crate::esxi::counters::Kind;
use crate::esxi::datastore::Datastore;
use crate::esxi::lun::{Done, Job, disk_error};
use crate::initiator::cdb;
use crate::initiator::histogram::Histogram;
use crate::initiator::session::Data;

/// Between two looks at whether a full array has space again.
const PAUSE: Duration = Duration::from_millis(100);

/// Between two looks at the heartbeat.
const PULSE: Duration = Duration::from_millis(250);

/// How long each LUN is waited for in turn, where commands are under way on several.
const TURN: Duration = Duration::from_millis(1);

/// What is asked for next.
struct Sequence {
    access: Access,
    places: u64,
    next: u64,
    random: u64,
}

#[derive(Clone, Copy)]
struct Step {
    offset: u64,
    number: u64,
    writes: bool,
}

impl Sequence {
    fn next(&mut self) -> Step {
        self.next += 1;
        let place = if self.access.random {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            self.random % self.places
        } else {
            self.next % self.places
        };
        let every = self.access.write_every;
        let writes = every != 0 && self.next.is_multiple_of(every);
        Step { offset: place * self.access.bytes, number: self.next, writes }
    }

    fn buffer(&self, step: Step) -> Vec<u8> {
        let mut bytes = vec![0x5a; self.access.bytes as usize];
        if step.writes {
            bytes[..8].copy_from_slice(&step.number.to_le_bytes());
        }
        bytes
    }
}

/// What a virtual machine that waits for its array notices of it.
#[derive(Default)]
struct Stun {
    /// Whether it is stunned now.
    now: bool,
    /// Outages of the LUN so far.
    seen: u64,
    /// Time without a path so far.
    down: Duration,
}

/// A command under way.
struct Flight {
    step: Step,
    begun: Instant,
}

struct Worker<'a> {
    store: &'a mut Datastore,
    chain: &'a mut Chain,
    order: &'a Run,
    sequence: Sequence,
    /// Where data lies, in order; empty if there are snapshots.
    places: Vec<FileExtent>,
    flights: HashMap<u64, Flight>,
    outcome: WorkloadFigures,
    histogram: Histogram,
    stun: Stun,
}

/// Uses a disk as the order says.
pub(super) fn work(
    store: &mut Datastore,
    chain: &mut Chain,
    order: &Run,
    stop: &mut dyn FnMut() -> bool,
) -> Result<WorkloadFigures> {
    let access = order.pattern.access();
    let places = (chain.size() / access.bytes).max(1);
    let sequence = Sequence { access, places, next: 0, random: 0x2545_f491_4f6c_dd1d };
    let mut worker = Worker {
        store,
        chain,
        order,
        sequence,
        places: Vec::new(),
        flights: HashMap::new(),
        outcome: WorkloadFigures::default(),
        histogram: Histogram::default(),
        stun: Stun::default(),
    };
    worker.look()?;
    worker.stun = worker.paths();
    let started = Instant::now();
    let done = worker.run(started, stop);
    // Nothing may be under way when the disk is unlocked.
    for lun in worker.store.volume.disks() {
        while lun.in_flight() > 0 {
            lun.wait()?;
        }
    }
    worker.look_at_outages();
    done?;
    let mut outcome = worker.outcome;
    let idle = outcome.paused_seconds + outcome.stunned_seconds;
    outcome.seconds = (started.elapsed().as_secs_f64() - idle).max(1e-6);
    outcome.per_second = outcome.operations as f64 / outcome.seconds;
    outcome.p99_us = worker.histogram.quantile(0.99);
    Ok(outcome)
}

/// The time in which a host waits for a path is over: a virtual machine waits on.
fn is_down(error: &Error) -> bool {
    matches!(error, Error::Disk(DiskError::Unreachable))
}

fn is_full(error: &Error) -> bool {
    matches!(error, Error::Disk(DiskError::OutOfSpace))
}

impl Worker<'_> {
    /// Looks where the data lies.
    fn look(&mut self) -> Result<()> {
        self.places.clear();
        if let Some(file) = self.chain.flat() {
            self.places = self.store.volume.extents(file, 0, self.chain.size())?;
        }
        Ok(())
    }

    fn run(&mut self, started: Instant, stop: &mut dyn FnMut() -> bool) -> Result<()> {
        let mut pulsed = Instant::now();
        let mut begun = 0;
        while started.elapsed() < self.order.duration
            && begun < self.order.operations_max
            && !stop()
        {
            let step = self.sequence.next();
            begun += 1;
            match self.direct(step) {
                Some(at) => self.send(step, at)?,
                None => self.carry_out(step)?,
            }
            if pulsed.elapsed() > PULSE {
                self.store.volume.pulse_if_due()?;
                pulsed = Instant::now();
            }
        }
        self.drain(0)
    }

    /// The place of an access that needs nothing but a command.
    fn direct(&self, step: Step) -> Option<Place> {
        let found = self.places.partition_point(|extent| extent.offset <= step.offset);
        let extent = self.places.get(found.checked_sub(1)?)?;
        let inside = step.offset - extent.offset;
        let fits = inside + self.sequence.access.bytes <= extent.length;
        match extent.content {
            FileContent::Data(at) if fits => Some(at.plus(inside)),
            _ => None,
        }
    }

    fn send(&mut self, step: Step, at: Place) -> Result<()> {
        self.flights.insert(step.number, Flight { step, begun: Instant::now() });
        let bytes = self.sequence.buffer(step);
        self.submit(step, at, bytes)?;
        self.drain((self.order.outstanding as usize).saturating_sub(1))
    }

    fn submit(&mut self, step: Step, at: Place, bytes: Vec<u8>) -> Result<()> {
        let length = bytes.len() as u64;
        let (lba, blocks) = (at.at / 512, (length / 512) as u32);
        let (kind, cdb, data) = if step.writes {
            (Kind::Write, cdb::write(lba, blocks), Data::Out(bytes))
        } else {
            (Kind::Read, cdb::read(lba, blocks), Data::In(bytes))
        };
        let job = Job { tag: step.number, kind, cdb, data, bytes: length };
        Ok(self.store.lun(at)?.submit(job)?)
    }

    /// Waits until no more than so many commands are under way.
    fn drain(&mut self, left: usize) -> Result<()> {
        while self.flights.len() > left {
            let ended = self.wait();
            self.look_at_outages();
            let idle = ended.is_empty();
            ended.into_iter().try_for_each(|done| self.ended(done))?;
            if idle && !self.stun.now {
                // Commands that are not answered must not cost the heartbeat.
                self.store.volume.pulse_if_due()?;
            }
        }
        Ok(())
    }

    /// Waits a moment for commands to end, on whichever LUN of the datastore.
    fn wait(&mut self) -> Vec<Done> {
        let busy = self.store.volume.disks().filter(|lun| lun.in_flight() > 0).count();
        let limit = if busy > 1 { TURN } else { PULSE };
        let mut ended = Vec::new();
        for lun in self.store.volume.disks().filter(|lun| lun.in_flight() > 0) {
            ended.extend(lun.wait_for(limit));
        }
        ended
    }

    /// Outages of the datastore's LUNs so far, and whether one has no path now.
    fn paths(&mut self) -> Stun {
        let mut sum = Stun::default();
        for lun in self.store.volume.disks() {
            sum.seen += lun.counters.outages;
            sum.down = sum.down.max(lun.time_down());
            sum.now |= lun.is_down();
        }
        sum
    }

    /// Tells when the machine is stunned, and when it is resumed.
    fn look_at_outages(&mut self) {
        let Stun { seen: outages, down, now: is_down } = self.paths();
        self.outcome.stuns += outages - self.stun.seen;
        let stunned = down.saturating_sub(self.stun.down).as_secs_f64();
        self.outcome.stunned_seconds += stunned;
        if is_down && !self.stun.now {
            terminal::complain!("stunned: no path to the datastore");
        }
        let was_down = self.stun.now || outages > self.stun.seen;
        if was_down && !is_down {
            let whole = self.outcome.stunned_seconds;
            terminal::complain!("resumed: stunned for {whole:.1} s so far");
        }
        self.stun = Stun { now: is_down, seen: outages, down };
    }

    fn ended(&mut self, done: Done) -> Result<()> {
        let Some(flight) = self.flights.remove(&done.tag) else { return Ok(()) };
        let Err(error) = done.result else {
            self.count(flight.begun);
            return Ok(());
        };
        let error = Error::Disk(disk_error(error));
        ensure!(is_full(&error) || is_down(&error), "{error}");
        // It is done again in the way of those that allocate, which wait.
        self.carry_out_from(flight.step, flight.begun)
    }

    fn count(&mut self, begun: Instant) {
        self.histogram.record(begun.elapsed().as_micros() as u64);
        self.outcome.operations += 1;
        self.outcome.bytes += self.sequence.access.bytes;
    }

    /// An access by way of the file system, which takes and zeroes blocks.
    fn carry_out(&mut self, step: Step) -> Result<()> {
        self.drain(0)?;
        self.carry_out_from(step, Instant::now())?;
        if step.writes { self.look() } else { Ok(()) }
    }

    fn carry_out_from(&mut self, step: Step, begun: Instant) -> Result<()> {
        let mut bytes = self.sequence.buffer(step);
        let tried = Instant::now();
        loop {
            let done = if step.writes {
                self.store.volume.write_chain(self.chain, step.offset, &bytes)
            } else {
                self.store.volume.read_chain(self.chain, step.offset, &mut bytes)
            };
            match done {
                Ok(()) => break,
                Err(error) => self.pause(&error, tried)?,
            }
        }
        self.count(begun);
        Ok(())
    }

    /// Waits a moment if the array is full; any other failure ends the run.
    fn pause(&mut self, error: &Error, tried: Instant) -> Result<()> {
        let waited = tried.elapsed();
        self.look_at_outages();
        let waits = is_full(error) || is_down(error);
        ensure!(waits && waited <= self.order.patience, "{error}");
        std::thread::sleep(PAUSE);
        if is_down(error) {
            // It stays stunned. If the head is down, the heartbeat has no path either.
            if !self.store.volume.disk().is_down() {
                self.store.volume.pulse_if_due()?;
            }
            return Ok(());
        }
        if waited < PAUSE {
            self.outcome.pauses += 1;
            terminal::complain!("paused: {error}");
        }
        self.store.volume.pulse_if_due()?;
        self.outcome.paused_seconds += PAUSE.as_secs_f64();
        Ok(())
    }
}
