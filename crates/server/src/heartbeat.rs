//! Whether the reactor is alive and serves: told to whoever watches over the daemon, without asking
//! the reactor, which may be the one that hangs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    /// Whether systemd restarts a daemon that it does not hear of.
    watched: bool,
}

impl Heartbeat {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            last: AtomicU64::new(0),
            serves: AtomicBool::new(false),
            watched: sd_notify::watchdog_enabled().is_some(),
        }
    }

    /// The reactor goes on.
    pub(crate) fn beat(&self) {
        let now = self.started.elapsed().as_millis() as u64;
        let last = self.last.swap(now, Ordering::Relaxed);
        if self.watched && now / 1000 != last / 1000 {
            notify(NotifyState::Watchdog);
        }
    }

    /// The pools are open and hosts are let in.
    pub(crate) fn serves(&self) {
        self.serves.store(true, Ordering::Relaxed);
        notify(NotifyState::Ready);
    }

    /// No more hosts are let in.
    pub(crate) fn stops(&self) {
        self.serves.store(false, Ordering::Relaxed);
        notify(NotifyState::Stopping);
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
}

/// Tells systemd, if the daemon is its service; nobody else listens.
fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!(%error, "systemd was not told");
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
