//! Watchdog and readiness state: says whether the reactor is alive and serves, without asking the
//! reactor, which may be what hangs.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use notifier::{Notifier, Word};

use crate::limits::HEARTBEAT_MAX;

mod notifier;

/// The pulse of the reactor.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    started: Instant,
    /// Milliseconds from the start to the last beat.
    last: AtomicU64,
    serves: AtomicBool,
    own_login: OwnLogin,
    /// Whether systemd restarts a daemon that it does not hear of.
    watched: bool,
    notifier: Notifier,
}

/// The address that the daemon's own login comes from, while there is one: a socket of this process
/// has it, so nobody else can come from there.
#[derive(Debug, Default)]
pub(crate) struct OwnLogin(Mutex<Option<SocketAddr>>);

impl OwnLogin {
    /// A login comes from here, until [`Self::end`].
    pub(crate) fn begin(&self, from: SocketAddr) {
        *self.lock() = Some(from);
    }

    pub(crate) fn end(&self) {
        *self.lock() = None;
    }

    /// Whether a connection from there is the own one.
    pub(crate) fn is(&self, address: SocketAddr) -> bool {
        let canonical = |address: SocketAddr| (address.ip().to_canonical(), address.port());
        self.lock().is_some_and(|own| canonical(own) == canonical(address))
    }

    fn lock(&self) -> MutexGuard<'_, Option<SocketAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Heartbeat {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            last: AtomicU64::new(0),
            serves: AtomicBool::new(false),
            own_login: OwnLogin::default(),
            watched: sd_notify::watchdog_enabled().is_some(),
            notifier: Notifier::start(),
        }
    }

    /// The connection with which the daemon looks whether it answers logins.
    pub(crate) fn own_login(&self) -> &OwnLogin {
        &self.own_login
    }

    /// The reactor goes on.
    pub(crate) fn beat(&self) {
        let now = self.started.elapsed().as_millis() as u64;
        let last = self.last.swap(now, Ordering::Relaxed);
        if self.watched && now / 1000 != last / 1000 {
            self.notifier.tell(Word::Watchdog);
        }
    }

    /// The pools are open and hosts are let in.
    pub(crate) fn serves(&self) {
        self.serves.store(true, Ordering::Relaxed);
        self.notifier.tell(Word::Ready);
    }

    /// No more hosts are let in.
    pub(crate) fn stops(&self) {
        self.serves.store(false, Ordering::Relaxed);
        self.notifier.tell(Word::Stopping);
    }

    /// Since when nothing was heard, if that is too long.
    pub(crate) fn silence(&self) -> Option<Duration> {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        let silence = self.started.elapsed().saturating_sub(last);
        (silence > HEARTBEAT_MAX).then_some(silence)
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.serves.load(Ordering::Relaxed)
    }

    /// The process ends: waits a moment for systemd to be told what it was not told yet.
    pub(crate) fn ends(&self) {
        self.notifier.wait_until_told();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_serves_from_when_it_says_so_until_it_stops() {
        let heartbeat = Heartbeat::new();
        assert!(!heartbeat.is_serving());
        heartbeat.serves();
        heartbeat.beat();
        assert!(heartbeat.is_serving());
        assert_eq!(heartbeat.silence(), None);
        heartbeat.stops();
        assert!(!heartbeat.is_serving());
    }
}
