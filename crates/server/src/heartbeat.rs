//! Watchdog and readiness state: says whether the reactor is alive and serves, without asking the
//! reactor, which may be what hangs.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

use crate::limits::HEARTBEAT_MAX;

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
    /// To the thread that tells systemd, whose socket may be full: the reactor does not wait for it.
    messages: SyncSender<NotifyState<'static>>,
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

/// Messages to systemd that wait; further ones are not told.
const MESSAGES_MAX: usize = 4;

impl Heartbeat {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            last: AtomicU64::new(0),
            serves: AtomicBool::new(false),
            own_login: OwnLogin::default(),
            watched: sd_notify::watchdog_enabled().is_some(),
            messages: start_notifier(),
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
            self.notify(NotifyState::Watchdog);
        }
    }

    /// The pools are open and hosts are let in.
    pub(crate) fn serves(&self) {
        self.serves.store(true, Ordering::Relaxed);
        self.notify(NotifyState::Ready);
    }

    /// No more hosts are let in.
    pub(crate) fn stops(&self) {
        self.serves.store(false, Ordering::Relaxed);
        self.notify(NotifyState::Stopping);
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

    fn notify(&self, state: NotifyState<'static>) {
        // A full queue loses nothing: the next notification says the same.
        let _ = self.messages.try_send(state);
    }
}

/// Starts the thread that tells systemd, if the daemon is its service; nobody else listens. Without
/// the thread nothing is told.
fn start_notifier() -> SyncSender<NotifyState<'static>> {
    let (messages, received) = sync_channel::<NotifyState<'static>>(MESSAGES_MAX);
    let started = thread::Builder::new().name("notify".to_owned()).spawn(move || {
        for state in received {
            if let Err(error) = sd_notify::notify(&[state]) {
                tracing::debug!(%error, "systemd was not told");
            }
        }
    });
    if let Err(error) = started {
        tracing::warn!(%error, "systemd is not told");
    }
    messages
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
