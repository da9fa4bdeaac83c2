//! A LUN as a host uses it: several paths with round robin and failover, the VAAI status of each
//! primitive, counters.

mod disk;
mod identity;

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub(crate) use disk::disk_error;
pub use identity::{Identity, decode_copy_limits};

use crate::esxi::counters::{Counters, Kind};
use crate::esxi::settings::Settings;
use crate::esxi::vaai::Vaai;
use crate::initiator::cdb::{self, Cdb};
use crate::initiator::session::{Data, HeaderDigest, Session, SessionError};

/// Attempts at a command that the LUN was too busy for, or had something to tell before.
const ATTEMPTS_MAX: u32 = 100;

/// Attempts at a command while another host has the LUN reserved; ESXi's Scsi.ConflictRetries is a
/// setting of the same kind.
const CONFLICT_ATTEMPTS_MAX: u32 = 2000;

/// SAM-5 status codes.
const BUSY: i32 = 0x08;
const RESERVATION_CONFLICT: i32 = 0x18;
const TASK_SET_FULL: i32 = 0x28;
/// THIN PROVISIONING SOFT THRESHOLD REACHED (SPC-4).
const SPACE_RUNS_LOW: i32 = 0x3807;

/// libiscsi's codes for a command that has no status begin here.
const NO_STATUS: i32 = 0x0f00_0000;

/// A command to carry out.
pub struct Job {
    /// Comes back with the result.
    pub tag: u64,
    /// As what it counts.
    pub kind: Kind,
    /// The command.
    pub cdb: Cdb,
    /// Its data.
    pub data: Data,
    /// Bytes of the LUN that it is about.
    pub bytes: u64,
}

/// A command that came to its end.
pub struct Done {
    /// The job's.
    pub tag: u64,
    /// How it ended.
    pub result: Result<(), SessionError>,
    /// Its data.
    pub data: Data,
}

/// Counters over time.
#[derive(Clone, Debug)]
pub struct Trace {
    since: Instant,
    every: Duration,
    /// Seconds, and the counters then; in order.
    pub samples: Vec<(f64, Counters)>,
}

impl Trace {
    /// Begins now; a sample is taken when a command ends, at most every so often.
    pub fn new(since: Instant, every: Duration) -> Self {
        Self { since, every, samples: Vec::new() }
    }

    fn is_due(&self) -> bool {
        let last = self.samples.last().map_or(0.0, |(at, _)| *at);
        self.since.elapsed().as_secs_f64() - last >= self.every.as_secs_f64()
    }
}

struct Path {
    url: String,
    session: Option<Session>,
    /// Bytes on sockets of earlier sessions of this path.
    wire_bytes: u64,
    wire_seen: u64,
}

/// Where the counters can be seen while commands run.
struct Live {
    path: PathBuf,
    published: Instant,
}

impl Drop for Live {
    /// What nobody added to the sums is not shown any more. The file may be gone already.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Between two publications of the counters.
const PUBLISH: Duration = Duration::from_millis(200);

struct Flight {
    tag: u64,
    path: usize,
    kind: Kind,
    cdb: Cdb,
    bytes: u64,
    attempts: u32,
    submitted: Instant,
}

/// A LUN with the paths to it.
pub struct Lun {
    paths: Vec<Path>,
    initiator: String,
    current: usize,
    used: u64,
    pinned: bool,
    next_tag: u64,
    flights: HashMap<u64, Flight>,
    early: Vec<Done>,
    started: Instant,
    live: Option<Live>,
    /// What it says of itself.
    pub identity: Identity,
    /// What the host believes of its offloads.
    pub vaai: Vaai,
    /// What was done.
    pub counters: Counters,
    /// The host's settings.
    pub settings: Settings,
    /// Counters over time, when they are wanted.
    pub trace: Option<Trace>,
}

impl Lun {
    /// Connects every path that answers.
    ///
    /// # Errors
    /// When none does, or they lead to different LUNs.
    pub fn connect(
        urls: &[String],
        initiator: &str,
        settings: &Settings,
    ) -> Result<Self, SessionError> {
        let mut paths = Vec::new();
        let mut failure = SessionError::Lost;
        for url in urls {
            let session = match Session::connect(url, initiator, HeaderDigest::None) {
                Ok(session) => Some(session),
                Err(error) => {
                    failure = error;
                    None
                }
            };
            paths.push(Path { url: url.clone(), session, wire_bytes: 0, wire_seen: 0 });
        }
        let first = paths.iter_mut().find_map(|path| path.session.as_mut()).ok_or(failure)?;
        let identity = Identity::ask(first)?;
        let others = paths.iter().filter_map(|path| path.session.as_ref());
        if others.clone().any(|session| session.naa != identity.naa) {
            return Err(SessionError::Unsupported("the paths lead to different LUNs"));
        }
        let settings = settings.for_device(&identity.vendor, &identity.product);
        let current = paths.iter().position(|path| path.session.is_some()).unwrap_or(0);
        Ok(Self {
            paths,
            initiator: initiator.to_owned(),
            current,
            used: 0,
            pinned: false,
            next_tag: 0,
            flights: HashMap::new(),
            early: Vec::new(),
            started: Instant::now(),
            live: None,
            identity,
            vaai: Vaai::default(),
            counters: Counters::default(),
            settings,
            trace: None,
        })
    }

    /// The paths: address, and whether it is active.
    pub fn paths(&self) -> impl Iterator<Item = (&str, bool)> {
        self.paths.iter().map(|path| (path.url.as_str(), path.session.is_some()))
    }

    /// Commands under way.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// The path of the next command: the next one after so many, as VMW_PSP_RR does.
    fn choose_path(&mut self) -> Result<usize, SessionError> {
        let count = self.paths.len();
        if !self.pinned && self.used >= self.settings.round_robin_iops {
            (self.current, self.used) = ((self.current + 1) % count, 0);
        }
        for step in 0..count {
            let path = (self.current + step) % count;
            if self.paths[path].session.is_some() {
                (self.current, self.used) = (path, self.used + 1);
                return Ok(path);
            }
        }
        Err(SessionError::Lost)
    }

    /// Begins a command; its end comes from [`Lun::wait`].
    ///
    /// # Errors
    /// When no path is left.
    pub fn submit(&mut self, job: Job) -> Result<(), SessionError> {
        let flight = Flight {
            tag: job.tag,
            path: 0,
            kind: job.kind,
            cdb: job.cdb,
            bytes: job.bytes,
            attempts: 0,
            submitted: Instant::now(),
        };
        self.fly(flight, job.data)
    }

    fn fly(&mut self, mut flight: Flight, data: Data) -> Result<(), SessionError> {
        flight.path = self.choose_path()?;
        let tag = self.next_tag;
        self.next_tag += 1;
        let session = self.paths[flight.path].session.as_mut().expect("an active path was chosen");
        session.submit(tag, flight.cdb, data)?;
        self.flights.insert(tag, flight);
        Ok(())
    }

    /// Waits until commands end.
    ///
    /// # Errors
    /// When the last path is lost.
    pub fn wait(&mut self) -> Result<Vec<Done>, SessionError> {
        loop {
            let mut done = std::mem::take(&mut self.early);
            if !done.is_empty() || self.flights.is_empty() {
                return Ok(done);
            }
            let active: Vec<usize> =
                (0..self.paths.len()).filter(|n| self.paths[*n].session.is_some()).collect();
            let sockets: Vec<(i32, i16)> = active
                .iter()
                .filter_map(|n| self.paths[*n].session.as_ref().map(Session::poll))
                .collect();
            for (at, events) in crate::initiator::raw::poll(&sockets) {
                self.service(active[at], events, &mut done)?;
            }
            done.append(&mut self.early);
            if !done.is_empty() {
                return Ok(done);
            }
        }
    }

    fn service(
        &mut self,
        path: usize,
        events: i16,
        done: &mut Vec<Done>,
    ) -> Result<(), SessionError> {
        let Some(session) = self.paths[path].session.as_mut() else { return Ok(()) };
        let Ok(finished) = session.service(events) else { return self.fail_over(path) };
        let mut lost = Vec::new();
        for finished in finished {
            let Some(flight) = self.flights.remove(&finished.tag) else { continue };
            let without_status = matches!(
                finished.result, Err(SessionError::Command { status, .. }) if status >= NO_STATUS
            );
            if without_status {
                lost.push((flight, finished.data));
                continue;
            }
            if self.is_to_be_repeated(&finished.result, &flight) {
                self.again(flight, finished.data)?;
                continue;
            }
            self.note(&flight, &finished.result);
            done.push(Done { tag: flight.tag, result: finished.result, data: finished.data });
        }
        if lost.is_empty() {
            return Ok(());
        }
        self.fail_over(path)?;
        for (flight, data) in lost {
            self.counters.failovers += 1;
            self.again(flight, data)?;
        }
        Ok(())
    }

    /// A unit attention is news and not a failure; a LUN that is busy, or reserved by another host,
    /// is asked again.
    fn is_to_be_repeated(&mut self, result: &Result<(), SessionError>, flight: &Flight) -> bool {
        let Err(SessionError::Command { status, key, ascq, .. }) = result else { return false };
        if (*key, *ascq) == (6, SPACE_RUNS_LOW) {
            self.counters.space_warnings += 1;
            terminal::complain!(
                "{}: the array's space runs low (06h/38h/07h)",
                self.identity.name()
            );
        }
        let reserved = *status == RESERVATION_CONFLICT && flight.kind != Kind::Reserve;
        if reserved && flight.attempts < CONFLICT_ATTEMPTS_MAX {
            self.counters.cons += 1;
            std::thread::sleep(Duration::from_micros(500 + u64::from(flight.attempts % 8) * 300));
            return true;
        }
        let busy = matches!(*status, BUSY | TASK_SET_FULL);
        if busy {
            std::thread::sleep(Duration::from_millis(5));
        }
        (busy || *key == 6) && flight.attempts < ATTEMPTS_MAX
    }

    /// Under a reservation nothing is repeated on another path: the reservation went with the path.
    fn again(&mut self, flight: Flight, data: Data) -> Result<(), SessionError> {
        let lost = self.paths[flight.path].session.is_none();
        if self.pinned && lost {
            self.early.push(Done { tag: flight.tag, result: Err(SessionError::Lost), data });
            return Ok(());
        }
        self.fly(Flight { attempts: flight.attempts + 1, ..flight }, data)
    }

    /// A path is dead: what was under way on it goes another way.
    fn fail_over(&mut self, path: usize) -> Result<(), SessionError> {
        let Some(session) = self.paths[path].session.take() else { return Ok(()) };
        self.paths[path].wire_bytes += self.paths[path].wire_seen;
        self.paths[path].wire_seen = 0;
        if self.paths.iter().all(|path| path.session.is_none()) {
            return Err(SessionError::Lost);
        }
        for finished in session.abandon() {
            if let Some(flight) = self.flights.remove(&finished.tag) {
                self.counters.failovers += 1;
                self.again(flight, finished.data)?;
            }
        }
        Ok(())
    }

    /// Tries dead paths again.
    pub fn rescan(&mut self) {
        for path in self.paths.iter_mut().filter(|path| path.session.is_none()) {
            let found = Session::connect(&path.url, &self.initiator, HeaderDigest::None);
            path.session = found.ok().filter(|session| session.naa == self.identity.naa);
        }
    }

    fn note(&mut self, flight: &Flight, result: &Result<(), SessionError>) {
        if let Err(SessionError::Command { status: RESERVATION_CONFLICT, .. }) = result {
            self.counters.cons += 1;
            return;
        }
        let microseconds = flight.submitted.elapsed().as_micros() as u64;
        self.counters.count(flight.kind, flight.bytes, result.is_ok(), microseconds);
        self.vaai.learn(flight.kind, result);
        if self.trace.as_ref().is_some_and(Trace::is_due) {
            self.sample();
        }
        if self.live.as_ref().is_some_and(|live| live.published.elapsed() > PUBLISH) {
            self.publish();
        }
    }

    /// Keeps a file with the counters up to date while commands run, from now on.
    pub fn publish_to(&mut self, path: PathBuf) {
        self.live = Some(Live { path, published: Instant::now() });
        self.publish();
    }

    /// Writes the counters now. What is only to be looked at must not stop the work: a folder that
    /// cannot be written shows when the host is saved.
    pub fn publish(&mut self) {
        self.measure_wire();
        let Some(live) = &mut self.live else { return };
        live.published = Instant::now();
        let temporary = live.path.with_extension("new");
        if let Ok(text) = serde_json::to_vec(&self.counters)
            && fs::write(&temporary, text).is_ok()
        {
            let _ = fs::rename(temporary, &live.path);
        }
    }

    /// Removes the file: the counters are elsewhere now.
    pub fn stop_publishing(&mut self) {
        self.live = None;
    }

    /// Adds the counters of this moment to the trace, if there is one.
    pub fn sample(&mut self) {
        self.measure_wire();
        if let Some(trace) = &mut self.trace {
            trace.samples.push((trace.since.elapsed().as_secs_f64(), self.counters));
        }
    }

    /// Carries out one command, and returns its data. Others may be under way: their ends wait for
    /// [`Lun::wait`].
    ///
    /// # Errors
    /// As it ended, or when no path is left.
    pub fn command(
        &mut self,
        kind: Kind,
        cdb: Cdb,
        data: Data,
        bytes: u64,
    ) -> Result<Vec<u8>, SessionError> {
        const OURS: u64 = u64::MAX;
        self.submit(Job { tag: OURS, kind, cdb, data, bytes })?;
        let mut others = Vec::new();
        loop {
            for done in self.wait()? {
                if done.tag != OURS {
                    others.push(done);
                    continue;
                }
                self.early.append(&mut others);
                done.result?;
                return Ok(match done.data {
                    Data::None => Vec::new(),
                    Data::In(bytes) | Data::Out(bytes) => bytes,
                });
            }
        }
    }

    /// Brings the count of bytes on the wire up to date.
    pub fn measure_wire(&mut self) {
        for path in &mut self.paths {
            if let Some(session) = &path.session {
                let (sent, received) = session.wire_bytes();
                path.wire_seen = sent + received;
            }
        }
        self.counters.wire_bytes =
            self.paths.iter().map(|path| path.wire_bytes + path.wire_seen).sum();
    }

    /// READ of any length, in pieces of 1 MiB.
    ///
    /// # Errors
    /// As a command.
    pub fn read_bytes(&mut self, offset: u64, length: u64) -> Result<Vec<u8>, SessionError> {
        let mut read = Vec::with_capacity(length as usize);
        while (read.len() as u64) < length {
            let taken = (length - read.len() as u64).min(1 << 20);
            let lba = (offset + read.len() as u64) / 512;
            let cdb = cdb::read(lba, (taken / 512) as u32);
            let data = Data::In(vec![0; taken as usize]);
            read.extend(self.command(Kind::Read, cdb, data, taken)?);
        }
        Ok(read)
    }
}
