//! A LUN as a host uses it: several paths with round robin and failover, the VAAI status of each
//! primitive, counters.

mod alua;
mod disk;
#[cfg(test)]
pub(crate) mod fake;
mod identity;
mod outage;
mod pace;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use alua::parse_groups;
pub use alua::{AccessState, PathState};
pub(crate) use disk::disk_error;
pub use identity::{Identity, decode_copy_limits};

use crate::esxi::counters::{Counters, Kind};
use crate::esxi::settings::Settings;
use crate::esxi::state::Host;
use crate::esxi::vaai::Vaai;
use crate::initiator::cdb::{self, Cdb};
use crate::initiator::session::{Data, Finished, HeaderDigest, Session, SessionError, TimerCounts};
use crate::initiator::times::times;
use alua::{ACCESS_STATE_CHANGED, not_served};
use outage::{Outage, is_permanent_loss};
use pace::Pace;

/// How often a unit attention, or an abort by others, may keep a command from being carried out.
const HINDERED_MAX: u32 = 100;

/// Attempts at a command while another host has the LUN reserved; ESXi's Scsi.ConflictRetries is a
/// setting of the same kind.
const CONFLICT_ATTEMPTS_MAX: u32 = 2000;

/// Bytes of a command that tell how fast the wire is.
const PACED: u64 = 1 << 16;

/// SAM-5 status codes.
const BUSY: i32 = 0x08;
const RESERVATION_CONFLICT: i32 = 0x18;
const TASK_SET_FULL: i32 = 0x28;
const TASK_ABORTED: i32 = 0x40;
/// THIN PROVISIONING SOFT THRESHOLD REACHED (SPC-4).
const SPACE_RUNS_LOW: i32 = 0x3807;
/// INQUIRY DATA HAS CHANGED (SPC-4): VPD pages, too.
const INQUIRY_DATA_CHANGED: i32 = 0x3f03;

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
    /// The LUN said here that it is gone for good (PDL).
    is_lost: bool,
    /// How the LUN is served here, as it was told last.
    access: AccessState,
    /// Aborts and resets of the session that were counted.
    counted: TimerCounts,
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

/// How a session was lost, or a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// The connection ended: the array may be back soon, and answer then.
    Closed,
    /// It stayed, and nothing was answered in time.
    Silent,
}

struct Flight {
    tag: u64,
    path: usize,
    kind: Kind,
    cdb: Cdb,
    bytes: u64,
    /// How often a unit attention, or an abort by others, kept it from being carried out.
    hindered: u32,
    /// How often another host had the LUN reserved.
    conflicts: u32,
    /// How often it was not answered.
    unanswered: u32,
    /// How often the connection ended while it was under way.
    dropped: u32,
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
    outage: Outage,
    /// When a session fell silent that held a reservation: the array may still keep that.
    stale_reservation: Option<Instant>,
    /// It said that its INQUIRY data changed, and was not looked at since.
    has_news: bool,
    /// It said that it is served on other paths now, and was not looked at since.
    has_access_news: bool,
    /// When the paths on which it is not served were asked last.
    access_seen: Option<Instant>,
    /// Commands sent again without knowing what became of them.
    repeats: u64,
    pace: Pace,
    started: Instant,
    live: Option<Live>,
    /// The host, which knows the other LUNs of a datastore.
    host: Option<Arc<Host>>,
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
            let (url, counted) = (url.clone(), TimerCounts::default());
            let (wire_bytes, wire_seen, is_lost) = (0, 0, false);
            let access = AccessState::ActiveOptimized;
            paths.push(Path { url, session, wire_bytes, wire_seen, is_lost, access, counted });
        }
        let first = paths.iter_mut().find_map(|path| path.session.as_mut()).ok_or(failure)?;
        let identity = Identity::ask(first)?;
        let others = paths.iter().filter_map(|path| path.session.as_ref());
        if others.clone().any(|session| session.naa != identity.naa) {
            return Err(SessionError::Unsupported("the paths lead to different LUNs"));
        }
        let settings = settings.for_device(&identity.vendor, &identity.product);
        let current = paths.iter().position(|path| path.session.is_some()).unwrap_or(0);
        let mut lun = Self {
            paths,
            initiator: initiator.to_owned(),
            current,
            used: 0,
            pinned: false,
            next_tag: 0,
            flights: HashMap::new(),
            early: Vec::new(),
            outage: Outage::default(),
            stale_reservation: None,
            has_news: false,
            has_access_news: false,
            access_seen: None,
            repeats: 0,
            pace: Pace::START,
            started: Instant::now(),
            live: None,
            host: None,
            identity,
            vaai: Vaai::default(),
            counters: Counters::default(),
            settings,
            trace: None,
        };
        lun.begin_where_it_is_served()?;
        Ok(lun)
    }

    /// The paths: address, and what it is good for.
    pub fn paths(&self) -> impl Iterator<Item = (&str, PathState)> {
        self.paths.iter().map(|path| (path.url.as_str(), path.state()))
    }

    /// Commands whose ends were not taken yet: under way, waiting for a path, or ended while another
    /// command was waited for.
    pub fn in_flight(&self) -> usize {
        self.flights.len() + self.outage.parked.len() + self.early.len()
    }

    /// The path of the next command: the next one after so many, as VMW_PSP_RR does.
    fn choose_path(&mut self) -> Option<usize> {
        let count = self.paths.len();
        if !self.pinned && self.used >= self.settings.round_robin_iops {
            (self.current, self.used) = ((self.current + 1) % count, 0);
        }
        for step in 0..count {
            let path = (self.current + step) % count;
            if self.is_preferred(path) {
                (self.current, self.used) = (path, self.used + 1);
                return Some(path);
            }
        }
        None
    }

    /// Begins a command; its end comes from [`Lun::wait`].
    ///
    /// # Errors
    /// Never: without a path the command waits for one.
    pub fn submit(&mut self, job: Job) -> Result<(), SessionError> {
        let flight = Flight {
            tag: job.tag,
            path: 0,
            kind: job.kind,
            cdb: job.cdb,
            bytes: job.bytes,
            hindered: 0,
            conflicts: 0,
            unanswered: 0,
            dropped: 0,
            submitted: Instant::now(),
        };
        // Also a host whose commands fail at once tries its paths now and then.
        self.look_for_paths();
        self.look_again();
        self.fly(flight, job.data);
        Ok(())
    }

    /// Asks a LUN with news for its identity, once nothing is under way. What keeps that from
    /// being answered is met by the next command.
    fn look_again(&mut self) {
        if !self.has_news || self.in_flight() > 0 {
            return;
        }
        if !self.paths[self.current].is_usable() {
            return;
        }
        let Some(session) = self.paths[self.current].session.as_mut() else { return };
        if let Ok(identity) = Identity::ask(session) {
            (self.identity, self.has_news) = (identity, false);
        }
    }

    fn fly(&mut self, mut flight: Flight, mut data: Data) {
        // Each turn that does not end here costs a path.
        while let Some(path) = self.choose_path() {
            flight.path = path;
            let tag = self.next_tag;
            self.next_tag += 1;
            let limit = match flight.kind {
                Kind::Heartbeat => times().heartbeat,
                _ => times().command,
            };
            let Some(session) = self.paths[path].session.as_mut() else { continue };
            match session.submit_within(limit, tag, flight.cdb, data) {
                Ok(()) => {
                    self.flights.insert(tag, flight);
                    return;
                }
                Err(back) => data = back,
            }
            self.fail_over(path, Loss::Closed);
        }
        self.park(flight, data);
    }

    /// Waits until commands end.
    ///
    /// # Errors
    /// Never: what becomes of a command stands in its end.
    pub fn wait(&mut self) -> Result<Vec<Done>, SessionError> {
        loop {
            let done = self.wait_for(Duration::from_secs(60));
            if !done.is_empty() || self.in_flight() == 0 {
                return Ok(done);
            }
        }
    }

    /// Waits until commands end, or so long.
    pub fn wait_for(&mut self, limit: Duration) -> Vec<Done> {
        let until = Instant::now() + limit;
        loop {
            let mut done = std::mem::take(&mut self.early);
            if !done.is_empty() || self.in_flight() == 0 {
                return done;
            }
            self.look_for_paths();
            let wait = times().tick().min(until.saturating_duration_since(Instant::now()));
            let active: Vec<usize> =
                (0..self.paths.len()).filter(|n| self.paths[*n].session.is_some()).collect();
            let sockets: Vec<(i32, i16)> = active
                .iter()
                .filter_map(|n| self.paths[*n].session.as_ref().map(Session::poll))
                .collect();
            for (at, events) in crate::initiator::raw::poll(&sockets, wait) {
                self.service(active[at], Some(events), &mut done);
            }
            active.into_iter().for_each(|path| self.service(path, None, &mut done));
            done.append(&mut self.early);
            if !done.is_empty() || Instant::now() >= until {
                return done;
            }
        }
    }

    /// Serves a path: events on its socket, or its time-outs.
    fn service(&mut self, path: usize, events: Option<i16>, done: &mut Vec<Done>) {
        let Some(session) = self.paths[path].session.as_mut() else { return };
        let (finished, loss) = match events {
            Some(events) => (session.service(events), Loss::Closed),
            None => (session.tick(Instant::now()), Loss::Silent),
        };
        self.count_timers(path);
        let Ok(finished) = finished else { return self.fail_over(path, loss) };
        // What libiscsi itself gives up, it gives up because the connection is gone.
        let is_lost = |one: &Finished| matches!(one.result, Err(SessionError::NoAnswer { .. }));
        let (lost, ended): (Vec<Finished>, Vec<Finished>) =
            finished.into_iter().partition(|one| loss == Loss::Closed && is_lost(one));
        if !lost.is_empty() {
            self.fail_over(path, loss);
        }
        for finished in ended.into_iter().chain(lost) {
            done.extend(self.ended(finished, loss));
        }
    }

    /// What becomes of a command that ended: nothing yet, if it is sent again.
    fn ended(&mut self, finished: Finished, loss: Loss) -> Option<Done> {
        let mut flight = self.flights.remove(&finished.tag)?;
        let data = finished.data;
        if finished.told == Some(SPACE_RUNS_LOW) {
            self.warn_of_space(1);
        }
        if let Err(SessionError::NoAnswer { .. }) = finished.result {
            match loss {
                Loss::Silent => flight.unanswered += 1,
                Loss::Closed => flight.dropped += 1,
            }
            return self.unanswered(flight, data, finished.result);
        }
        self.break_stale_reservation(flight.path, &finished.result);
        if is_permanent_loss(&finished.result) && self.lose(flight.path) {
            self.again(flight, data);
            return None;
        }
        let access = not_served(&finished.result);
        if access.is_some_and(|access| self.leave(flight.path, access)) {
            self.again(flight, data);
            return None;
        }
        if self.is_to_be_repeated(&finished.result, &mut flight) {
            self.again(flight, data);
            return None;
        }
        self.note(&flight, &finished.result);
        Some(Done { tag: flight.tag, result: finished.result, data })
    }

    fn unanswered(
        &mut self,
        flight: Flight,
        data: Data,
        result: Result<(), SessionError>,
    ) -> Option<Done> {
        let (silences, drops) = (times().unanswered_max, times().dropped_max);
        if flight.unanswered >= silences || flight.dropped >= drops {
            self.note(&flight, &result);
            return Some(Done { tag: flight.tag, result, data });
        }
        self.counters.failovers += 1;
        self.repeats += 1;
        // Another path, if there is one, may be better.
        if !self.pinned {
            self.used = self.settings.round_robin_iops;
        }
        self.again(flight, data);
        None
    }

    /// The array does not know that a silent session is gone, and keeps its reservation: a LUN RESET
    /// ends it. Not at once: an array that noticed has let another host reserve meanwhile, which is
    /// never for long.
    fn break_stale_reservation(&mut self, path: usize, result: &Result<(), SessionError>) {
        let conflict =
            matches!(result, Err(SessionError::Command { status: RESERVATION_CONFLICT, .. }));
        let is_old = |since: Instant| since.elapsed() >= times().management;
        if !conflict || !self.stale_reservation.is_some_and(is_old) {
            return;
        }
        if let Some(session) = self.paths[path].session.as_mut() {
            self.stale_reservation = None;
            // One that takes no more functions is ended at its next command.
            let _ = session.reset(Instant::now());
        }
    }

    fn count_timers(&mut self, path: usize) {
        let path = &mut self.paths[path];
        if let Some(session) = &path.session {
            let counts = session.timer_counts();
            self.counters.aborts += counts.aborts - path.counted.aborts;
            self.counters.resets += counts.resets - path.counted.resets;
            path.counted = counts;
        }
    }

    /// THIN PROVISIONING SOFT THRESHOLD REACHED, as a unit attention or with RECOVERED ERROR.
    fn warn_of_space(&mut self, key: i32) {
        self.counters.space_warnings += 1;
        let name = self.identity.name();
        terminal::complain!("{name}: the array's space runs low ({key:02x}h/38h/07h)");
    }

    /// A unit attention is news and not a failure; a LUN that is busy, not ready for a moment, or
    /// reserved by another host is asked again, and so is one on which others aborted commands.
    fn is_to_be_repeated(
        &mut self,
        result: &Result<(), SessionError>,
        flight: &mut Flight,
    ) -> bool {
        let Err(SessionError::Command { status, key, ascq, .. }) = result else { return false };
        if (*key, *ascq) == (6, SPACE_RUNS_LOW) {
            self.warn_of_space(*key);
        }
        if (*key, *ascq) == (6, INQUIRY_DATA_CHANGED) {
            self.vaai.forget_refusals();
            self.has_news = true;
        }
        self.has_access_news |= (*key, *ascq) == (6, ACCESS_STATE_CHANGED);
        let reserved = *status == RESERVATION_CONFLICT && flight.kind != Kind::Reserve;
        if reserved && flight.conflicts < CONFLICT_ATTEMPTS_MAX {
            self.counters.cons += 1;
            std::thread::sleep(Duration::from_micros(500 + u64::from(flight.conflicts % 8) * 300));
            flight.conflicts += 1;
            return true;
        }
        // 02h/04h/01h and 02h/04h/14h: in the process of becoming ready, or of getting space. Where
        // there is no other way to go, another controller's turn is waited for, too.
        let busy = matches!(*status, BUSY | TASK_SET_FULL)
            || (*key == 2 && matches!(*ascq, 0x0401 | 0x0414))
            || not_served(result).is_some();
        if busy {
            std::thread::sleep(Duration::from_millis(5));
            return flight.submitted.elapsed() < times().busy;
        }
        let hindered = *status == TASK_ABORTED || *key == 6;
        flight.hindered += u32::from(hindered);
        hindered && flight.hindered <= HINDERED_MAX
    }

    /// Under a reservation nothing is repeated on another path: the reservation went with the path.
    fn again(&mut self, flight: Flight, data: Data) {
        let lost = self.paths[flight.path].session.is_none();
        if self.pinned && lost {
            self.early.push(Done { tag: flight.tag, result: Err(SessionError::Lost), data });
            return;
        }
        self.fly(flight, data);
    }

    /// A path is dead: what was under way on it goes another way, or waits for one.
    fn fail_over(&mut self, path: usize, loss: Loss) {
        self.count_timers(path);
        let Some(session) = self.paths[path].session.take() else { return };
        if self.pinned && path == self.current && loss == Loss::Silent {
            self.stale_reservation = Some(Instant::now());
        }
        let dead = &mut self.paths[path];
        dead.wire_bytes += dead.wire_seen;
        (dead.wire_seen, dead.counted) = (0, TimerCounts::default());
        self.note_outage();
        for finished in session.abandon() {
            let ended = self.ended(finished, loss);
            self.early.extend(ended);
        }
    }

    /// Tries dead paths again.
    pub fn rescan(&mut self) {
        for path in 0..self.paths.len() {
            self.connect_path(path);
        }
    }

    fn note(&mut self, flight: &Flight, result: &Result<(), SessionError>) {
        if let Err(SessionError::Command { status: RESERVATION_CONFLICT, .. }) = result {
            self.counters.cons += 1;
            return;
        }
        let took = flight.submitted.elapsed();
        if matches!(flight.kind, Kind::Read | Kind::Write) && flight.bytes >= PACED {
            self.pace.note(took, times());
        }
        let microseconds = took.as_micros() as u64;
        self.counters.count(flight.kind, flight.bytes, result.is_ok(), microseconds);
        self.vaai.learn(flight.kind, result);
        if self.trace.as_ref().is_some_and(Trace::is_due) {
            self.sample();
        }
        if self.live.as_ref().is_some_and(|live| live.published.elapsed() > PUBLISH) {
            self.publish();
        }
    }

    /// Names the host that connects the other LUNs of a datastore of which this one is the head.
    pub fn belongs_to(&mut self, host: Host) {
        self.host = Some(Arc::new(host));
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
            // Those of others may end together with it, also behind it.
            let is_ours = |done: &Done| done.tag == OURS;
            let (ours, rest): (Vec<Done>, Vec<Done>) = self.wait()?.into_iter().partition(is_ours);
            others.extend(rest);
            if let Some(done) = ours.into_iter().next() {
                self.early.append(&mut others);
                done.result?;
                return Ok(match done.data {
                    Data::None => Vec::new(),
                    Data::In(bytes) | Data::Out(bytes) => bytes,
                });
            }
        }
    }

    /// REPORT TARGET PORT GROUPS, as the LUN answers it.
    ///
    /// # Errors
    /// As a command.
    pub fn target_port_groups(&mut self) -> Result<Vec<u8>, SessionError> {
        let length = 1024;
        let cdb = cdb::report_target_port_groups(length);
        self.command(Kind::Other, cdb, Data::In(vec![0; length as usize]), 0)
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
