//! All paths down (APD) and permanent device loss (PDL). Without a path on which it is served commands wait, for as long as
//! Misc.APDTimeout says, while paths are tried again; then they fail at once until one is back. A
//! device is lost for good only if it says so, by its sense codes, on every path.

use std::time::{Duration, Instant};

use vmfs::disk::Guard;

use super::{AccessState, Done, Flight, Loss, Lun, Path};
use crate::initiator::cdb;
use crate::initiator::session::{Data, HeaderDigest, Session, SessionError};
use crate::initiator::times::times;

/// LOGICAL UNIT NOT SUPPORTED.
const NOT_SUPPORTED: (i32, i32) = (5, 0x2500);
/// LOGICAL UNIT FAILED SELF-CONFIGURATION, LOGICAL UNIT FAILURE, LOGICAL UNIT FAILED SELF-TEST.
const FAILED: [(i32, i32); 3] = [(4, 0x4c00), (4, 0x3e01), (4, 0x3e03)];

/// Whether a command's end says that the device is gone for good.
pub(super) fn is_permanent_loss(result: &Result<(), SessionError>) -> bool {
    match result {
        Err(SessionError::Command { key, ascq, .. }) => {
            (*key, *ascq) == NOT_SUPPORTED || FAILED.contains(&(*key, *ascq))
        }
        // The login's last step asks the LUN; libiscsi tells what it said in words.
        Err(SessionError::Connect { reason, .. }) => reason.contains("(0x2500)"),
        Err(_) | Ok(()) => false,
    }
}

/// Without APD handling a host waits as long as it runs.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

/// Whether the host's heartbeat is still its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Yes,
    No,
    /// The LUN on which it lies cannot be reached.
    Unknown,
}

/// What a LUN does while it has no path.
#[derive(Default)]
pub(super) struct Outage {
    /// Since when no path is left.
    since: Option<Instant>,
    /// When paths were tried last.
    tried: Option<Instant>,
    /// Commands that wait for a path: as many as their submitters have outstanding.
    pub(super) parked: Vec<(Flight, Data)>,
    /// Outages that are over, together.
    past: Duration,
    /// What must still lie on the LUN for commands to be sent that waited.
    pub(super) guard: Option<Guard>,
    /// Whether it was told that the time is over.
    told: bool,
}

impl Outage {
    /// Time without any path since the LUN was connected.
    pub(super) fn total(&self) -> Duration {
        self.past + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl Lun {
    /// Whether no path is left.
    pub fn is_down(&self) -> bool {
        self.outage.since.is_some()
    }

    /// For how long there was no path, since the LUN was connected.
    pub fn time_down(&self) -> Duration {
        self.outage.total()
    }

    /// How long commands wait for a path.
    fn patience(&self) -> Duration {
        /// The default, of which `times` says how long it is.
        const USUAL: u32 = 140;
        /// On an extent beside the head: half a lease. Its host must go on with its heartbeat, which
        /// lies on the head.
        const EXTENT: u32 = 8;
        let is_head = self.outage.guard.as_ref().is_none_or(|guard| guard.disk.is_none());
        if !is_head {
            return times().all_paths_down * EXTENT / USUAL;
        }
        if !self.settings.apd_handling {
            return FOR_EVER;
        }
        let wanted = u32::try_from(self.settings.apd_timeout).unwrap_or(USUAL);
        times().all_paths_down * wanted / USUAL
    }

    /// The last path may have gone. A device that is lost for good is waited for by nobody.
    pub(super) fn note_outage(&mut self) {
        let has_path = self.paths.iter().any(Path::is_usable);
        if has_path || self.is_down() || self.paths.iter().all(|path| path.is_lost) {
            return;
        }
        self.outage.since = Some(Instant::now());
        self.outage.told = false;
        self.counters.outages += 1;
        terminal::complain!(
            "{}: all paths are down (APD); commands wait up to {} s",
            self.identity.name(),
            self.patience().as_secs()
        );
    }

    /// A command for which there is no path.
    pub(super) fn park(&mut self, flight: Flight, data: Data) {
        self.note_outage();
        match self.verdict() {
            None => self.outage.parked.push((flight, data)),
            Some(error) => self.early.push(Done { tag: flight.tag, result: Err(error), data }),
        }
    }

    /// Why a command without a path fails; `None` if it waits.
    fn verdict(&self) -> Option<SessionError> {
        if self.paths.iter().all(|path| path.is_lost) {
            return Some(SessionError::PermanentlyLost);
        }
        let since = self.outage.since?;
        (since.elapsed() >= self.patience()).then_some(SessionError::AllPathsDown)
    }

    /// The device said on a path that it is gone for good. Returns whether the command is to be
    /// tried on what is left, or fails with that.
    pub(super) fn lose(&mut self, path: usize) -> bool {
        if self.pinned {
            return false;
        }
        self.paths[path].is_lost = true;
        terminal::complain!(
            "{}: permanently lost (PDL) on {}",
            self.identity.name(),
            self.paths[path].url
        );
        self.fail_over(path, Loss::Closed);
        true
    }

    /// While there is no path: tries them again when it is time to, sends what waited, or lets it
    /// fail.
    pub(super) fn look_for_paths(&mut self) {
        self.look_at_waiting();
        if !self.is_down() {
            return;
        }
        if self.paths.iter().any(Path::is_usable) {
            return self.go_on();
        }
        let pause = self.reconnect_pause();
        let due = self.outage.tried.is_none_or(|tried| tried.elapsed() >= pause);
        if due && !self.paths.iter().all(|path| path.is_lost) {
            for path in 0..self.paths.len() {
                self.connect_path(path);
            }
            self.outage.tried = Some(Instant::now());
        }
        if self.paths.iter().any(Path::is_usable) {
            self.go_on();
        } else if let Some(error) = self.verdict() {
            self.give_up(&error);
        } else {
            // Nothing can be polled.
            std::thread::sleep(times().tick());
        }
    }

    /// Connects a path that is down, if it leads to the same LUN.
    pub(super) fn connect_path(&mut self, number: usize) {
        let path = &mut self.paths[number];
        if path.session.is_some() {
            return;
        }
        match Session::connect(&path.url, &self.initiator, HeaderDigest::None) {
            Ok(session) if session.naa == self.identity.naa => {
                (path.session, path.is_lost) = (Some(session), false);
                path.access = AccessState::ActiveOptimized;
                if self.identity.tpgs != 0 {
                    self.look_at_access_on(number);
                }
            }
            // Another LUN has this address now.
            Ok(_) => {}
            Err(error) => path.is_lost |= is_permanent_loss(&Err(error)),
        }
    }

    fn go_on(&mut self) {
        let Some(since) = self.outage.since else { return };
        let guard = if self.outage.parked.is_empty() { Held::Yes } else { self.guard_holds() };
        if guard == Held::Unknown {
            return self.stay_down();
        }
        self.outage.since = None;
        self.outage.past += since.elapsed();
        self.counters.outage_us += since.elapsed().as_micros() as u64;
        let parked = std::mem::take(&mut self.outage.parked);
        let taken_over = guard == Held::No;
        terminal::complain!(
            "{}: a path is back after {:.1} s{}",
            self.identity.name(),
            since.elapsed().as_secs_f64(),
            if taken_over { "; the heartbeat was taken over" } else { "" }
        );
        for (flight, data) in parked {
            if taken_over {
                let result = Err(SessionError::TakenOver);
                self.early.push(Done { tag: flight.tag, result, data });
            } else {
                self.counters.failovers += 1;
                self.repeats += 1;
                self.fly(flight, data);
            }
        }
    }

    /// Whether the heartbeat is still this host's. What waited must not be written if another host
    /// has replayed this one's journal meanwhile. A path that fails here shows again with the
    /// commands.
    fn guard_holds(&mut self) -> Held {
        let Some(guard) = self.outage.guard.clone() else { return Held::Yes };
        if let Some(head) = &guard.disk {
            return self.guard_holds_on(head, &guard);
        }
        let usable = self.paths.iter_mut().filter(|path| path.is_usable());
        let Some(session) = usable.filter_map(|path| path.session.as_mut()).next() else {
            return Held::Yes;
        };
        let read = cdb::read(guard.offset / 512, 1);
        match session.command(read, Data::In(vec![0; 512])) {
            Ok(found) if !guard.holds(&found) => Held::No,
            Ok(_) | Err(_) => Held::Yes,
        }
    }

    /// As [`Lun::guard_holds`], where the heartbeat lies on another LUN: the datastore's head. While
    /// that has no path, nothing is known, and commands wait on.
    fn guard_holds_on(&self, head: &str, guard: &Guard) -> Held {
        let device = self.host.as_ref().and_then(|host| host.record.devices.get(head));
        for url in device.map_or(&[][..], |device| &device.paths) {
            let session = Session::connect(url, &self.initiator, HeaderDigest::None);
            let Ok(mut session) = session else { continue };
            let read = cdb::read(guard.offset / 512, 1);
            if let Ok(found) = session.command(read, Data::In(vec![0; 512])) {
                return if guard.holds(&found) { Held::Yes } else { Held::No };
            }
        }
        Held::Unknown
    }

    /// Paths are back, and yet nothing may be sent: they are tried again later.
    fn stay_down(&mut self) {
        for path in &mut self.paths {
            path.session = None;
        }
        if let Some(error) = self.verdict() {
            self.give_up(&error);
        }
    }

    fn give_up(&mut self, error: &SessionError) {
        if !self.outage.told {
            self.outage.told = true;
            terminal::complain!("{}: {error}; commands fail", self.identity.name());
        }
        for (flight, data) in std::mem::take(&mut self.outage.parked) {
            self.early.push(Done { tag: flight.tag, result: Err(error.clone()), data });
        }
    }
}
