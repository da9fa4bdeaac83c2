//! Event log: what happened to the array, for the log and for later queries, also after a restart.
//!
//! Equal events within five minutes are one, with a count. A token bucket per class (kind, severity,
//! and what it is about) keeps one noisy thing from filling log and disk, and when the list is full,
//! the class that has most in it makes room: nothing pushes everything else out.

mod bucket;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use api::{Event, EventKind, Severity};

use crate::alerts::{Alerts, word};
use crate::limits::{EVENT_COUNT_INTERVAL, EVENT_FOLD_SECONDS, EVENTS_BYTES_MAX, EVENTS_MAX};
use crate::log_writer::{self, LogWriter};
use crate::rotating_log::RotatingLog;
use bucket::{Buckets, Class, class_of};

const NAME: &str = "events";

#[cfg(test)]
mod tests;

/// The latest events, oldest first.
pub(crate) struct Events {
    latest: VecDeque<Arc<Event>>,
    count: u64,
    buckets: Buckets,
    /// Events whose count has changed since they were written.
    uncounted: BTreeSet<u64>,
    /// Since the daemon started, by severity, also those that were only counted.
    counts: BTreeMap<Severity, u64>,
    /// When counts are to be written again, seconds since 1970.
    next_write: u64,
    writer: LogWriter<Event>,
    /// Tells those who want to know at once.
    pub(crate) alerts: Alerts,
}

impl Events {
    /// Opens or makes the log of events in the data directory.
    pub(crate) fn open(directory: &Path, alerts: Alerts) -> Result<Self> {
        let mut latest = VecDeque::new();
        let log = RotatingLog::open(directory, NAME, EVENTS_BYTES_MAX, |event: Event| {
            let last_time = event.last_time.max(event.time);
            put(&mut latest, Arc::new(Event { last_time, ..event }));
        })?;
        let count = latest.back().map_or(0, |event| event.number);
        let writer = LogWriter::start(log, &log_writer::EVENTS)?;
        let (buckets, uncounted) = (Buckets::default(), BTreeSet::new());
        let severities = [Severity::Information, Severity::Warning, Severity::Error];
        let counts = severities.map(|severity| (severity, 0)).into();
        Ok(Self { latest, count, buckets, uncounted, counts, next_write: 0, writer, alerts })
    }

    /// Notes an event, writes it to the log and has it told and kept.
    pub(crate) fn note(&mut self, severity: Severity, object: String, message: String) {
        self.note_kind(EventKind::General, severity, object, message);
    }

    /// Notes an event of a kind of its own.
    pub(crate) fn note_kind(
        &mut self,
        kind: EventKind,
        severity: Severity,
        object: String,
        message: String,
    ) {
        let time = now();
        let event =
            Event { number: 0, time, severity, object, message, kind, count: 1, last_time: time };
        self.take(event);
    }

    /// Counts an event with an equal one, or adds it, or counts it with all that are too many.
    fn take(&mut self, event: Event) {
        *self.counts.entry(event.severity).or_default() += 1;
        if self.fold(&event) {
            return;
        }
        if self.buckets.allows(class_of(&event), event.time) {
            return self.add(event);
        }
        let about = event.object.split(' ').next().unwrap_or_default();
        let message = format!(
            "more events than are told one by one: kind '{}', about '{about}'",
            event.kind.name()
        );
        let summary = Event { object: "events".to_owned(), message, ..event };
        if !self.fold(&summary) {
            self.add(summary);
        }
    }

    /// Counts an event with an equal one of a short time ago, if there is one. What tells of a state
    /// is counted only with the latest event of its object: another state may have been in between.
    fn fold(&mut self, event: &Event) -> bool {
        let is_state =
            matches!(event.kind, EventKind::General | EventKind::DeviceStall | EventKind::Mirror)
                && event.object != "events";
        let since = event.time.saturating_sub(EVENT_FOLD_SECONDS);
        let mut recent = self.latest.iter_mut().rev().take_while(|other| other.time >= since);
        let other = if is_state {
            recent.find(|other| other.object == event.object)
        } else {
            recent.find(|other| is_equal(other, event))
        };
        let Some(other) = other.filter(|other| is_equal(other, event)) else { return false };
        let other = Arc::make_mut(other);
        other.count += 1;
        other.last_time = event.time;
        if is_power_of_ten(other.count) {
            let Event { object, message, count, .. } = other;
            tracing::info!(object, count, "again: {message}");
        }
        self.uncounted.insert(other.number);
        true
    }

    fn add(&mut self, event: Event) {
        let Event { severity, object, message, .. } = &event;
        match severity {
            Severity::Information => tracing::info!(object, "{message}"),
            Severity::Warning => tracing::warn!(object, "{message}"),
            Severity::Error => tracing::error!(object, "{message}"),
        }
        self.count += 1;
        let event = Event { number: self.count, ..event };
        self.alerts.offer(&event);
        self.writer.add(event.clone());
        put(&mut self.latest, Arc::new(event));
    }

    /// Has counts written that have changed, from time to time.
    pub(crate) fn tick(&mut self) {
        let time = now();
        if time >= self.next_write {
            self.next_write = time + EVENT_COUNT_INTERVAL;
            self.write_counts();
        }
    }

    fn write_counts(&mut self) {
        for number in std::mem::take(&mut self.uncounted) {
            let counted = self.latest.iter().find(|event| event.number == number);
            counted.into_iter().for_each(|event| self.writer.add(Event::clone(event)));
        }
    }

    /// How many there were since the daemon started, by severity.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts.iter().map(|(severity, count)| (word(*severity), *count))
    }

    /// Those that are still known, oldest first.
    pub(crate) fn latest(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.latest.iter()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.write_counts();
    }
}

fn is_equal(one: &Event, other: &Event) -> bool {
    let same_class = (one.kind, one.severity) == (other.kind, other.severity);
    same_class && one.object == other.object && one.message == other.message
}

fn is_power_of_ten(count: u64) -> bool {
    count >= 10 && 10_u64.pow(count.ilog10()) == count
}

/// Adds an event, or a newer count of it. If there are too many, the oldest of the class that has
/// most makes room.
fn put(latest: &mut VecDeque<Arc<Event>>, event: Arc<Event>) {
    let known = latest.iter_mut().rev().find(|other| other.number <= event.number);
    if let Some(known) = known.filter(|known| known.number == event.number) {
        *known = event;
        return;
    }
    if latest.len() >= EVENTS_MAX {
        let mut classes: BTreeMap<Class, usize> = BTreeMap::new();
        latest.iter().for_each(|event| *classes.entry(class_of(event)).or_default() += 1);
        let largest = classes.iter().max_by_key(|(_, count)| **count).map(|(class, _)| class);
        let oldest = latest.iter().position(|event| Some(&class_of(event)) == largest);
        latest.remove(oldest.unwrap_or_default());
    }
    latest.push_back(event);
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
