//! Graceful shutdown: asks initiators to log out, then ends the connections, then closes the pools.

use std::time::Instant;

use super::Reactor;
use crate::limits::{LOGOUT_PATIENCE, STOP_PATIENCE};

/// How far a clean stop has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopping {
    No,
    /// Initiators may still log out until then.
    LoggingOut(Instant),
    /// The pools close, until then at most.
    Closing(Instant),
}

impl Reactor {
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping != Stopping::No
    }

    pub(super) fn has_stopped(&self) -> bool {
        match self.stopping {
            Stopping::Closing(deadline) => !self.management.is_busy() || Instant::now() > deadline,
            _ => false,
        }
    }

    pub(super) fn begin_stop(&mut self) {
        if self.is_stopping() {
            return;
        }
        tracing::info!("stopping");
        self.heartbeat.stops();
        self.stopping = Stopping::LoggingOut(Instant::now() + LOGOUT_PATIENCE);
        self.ask_for_logouts();
        self.go_on_stopping();
    }

    /// Goes on once everybody has logged out, or had the time to.
    pub(super) fn go_on_stopping(&mut self) {
        let Stopping::LoggingOut(deadline) = self.stopping else { return };
        if !self.iscsi.connections().is_empty() && Instant::now() < deadline {
            return;
        }
        self.close_connections("the daemon stops");
        self.stopping = Stopping::Closing(Instant::now() + STOP_PATIENCE);
        self.management.close_pools(&mut self.plane);
    }
}
