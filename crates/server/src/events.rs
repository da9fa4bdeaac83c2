//! What happened, for the log and for whoever asks later.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use api::{Event, Severity};

use crate::alerts::Alerts;
use crate::limits::EVENTS_MAX;

#[cfg(test)]
mod tests;

/// The latest events, oldest first.
pub(crate) struct Events {
    latest: VecDeque<Event>,
    count: u64,
    /// Tells those who want to know at once.
    pub(crate) alerts: Alerts,
}

impl Events {
    pub(crate) fn new(alerts: Alerts) -> Self {
        Self { latest: VecDeque::new(), count: 0, alerts }
    }

    /// Notes an event, writes it to the log and has it told. The oldest one makes room.
    pub(crate) fn note(&mut self, severity: Severity, object: String, message: String) {
        match severity {
            Severity::Information => tracing::info!(object, "{message}"),
            Severity::Warning => tracing::warn!(object, "{message}"),
            Severity::Error => tracing::error!(object, "{message}"),
        }
        if self.latest.len() == EVENTS_MAX {
            self.latest.pop_front();
        }
        self.count += 1;
        let event = Event { number: self.count, time: now(), severity, object, message };
        self.alerts.offer(&event);
        self.latest.push_back(event);
    }

    /// Those that are still known, oldest first.
    pub(crate) fn latest(&self) -> impl Iterator<Item = &Event> {
        self.latest.iter()
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
