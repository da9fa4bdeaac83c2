//! What happened, for the log and for whoever asks later, also after a restart.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use api::{Event, Severity};

use crate::alerts::Alerts;
use crate::limits::{EVENTS_BYTES_MAX, EVENTS_MAX, EVENTS_UNWRITTEN_MAX};
use crate::record::Record;

const NAME: &str = "events";

#[cfg(test)]
mod tests;

/// The latest events, oldest first.
pub(crate) struct Events {
    latest: VecDeque<Event>,
    count: u64,
    /// To the thread that keeps them: a data directory that stalls holds up no host.
    keeper: SyncSender<Event>,
    /// Tells those who want to know at once.
    pub(crate) alerts: Alerts,
}

impl Events {
    /// Opens or makes the record of events in the data directory.
    pub(crate) fn open(directory: &Path, alerts: Alerts) -> Result<Self> {
        let mut latest = VecDeque::new();
        let record = Record::open(directory, NAME, EVENTS_BYTES_MAX, |event| {
            push(&mut latest, event);
        })?;
        let count = latest.back().map_or(0, |event| event.number);
        let (keeper, received) = sync_channel(EVENTS_UNWRITTEN_MAX);
        std::thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || keep(record, &received))?;
        Ok(Self { latest, count, keeper, alerts })
    }

    /// Notes an event, writes it to the log and has it told and kept. The oldest one makes room.
    pub(crate) fn note(&mut self, severity: Severity, object: String, message: String) {
        match severity {
            Severity::Information => tracing::info!(object, "{message}"),
            Severity::Warning => tracing::warn!(object, "{message}"),
            Severity::Error => tracing::error!(object, "{message}"),
        }
        self.count += 1;
        let event = Event { number: self.count, time: now(), severity, object, message };
        self.alerts.offer(&event);
        if self.keeper.try_send(event.clone()).is_err() {
            tracing::error!(number = event.number, "an event cannot be kept");
        }
        push(&mut self.latest, event);
    }

    /// Those that are still known, oldest first.
    pub(crate) fn latest(&self) -> impl Iterator<Item = &Event> {
        self.latest.iter()
    }
}

fn push(latest: &mut VecDeque<Event>, event: Event) {
    if latest.len() == EVENTS_MAX {
        latest.pop_front();
    }
    latest.push_back(event);
}

/// Writes events until nobody sends any more. A record that cannot be written stops nothing.
fn keep(mut record: Record, received: &Receiver<Event>) {
    for event in received {
        if let Err(error) = record.write(&event) {
            tracing::error!(%error, "the record of events cannot be written");
        }
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
