//! Token bucket for events: limits how many of one class are recorded one by one.

use std::collections::BTreeMap;

use api::{Event, EventKind, Severity};

use crate::limits::{EVENT_BURST_MAX, EVENT_CLASSES_MAX};

/// Kind, severity, and the word for what it is about: 'pool', 'volume', ...
pub(super) type Class = (EventKind, Severity, String);

pub(super) fn class_of(event: &Event) -> Class {
    let about = event.object.split(' ').next().unwrap_or_default();
    (event.kind, event.severity, about.to_owned())
}

/// A bucket per class. It fills by one token a second.
#[derive(Debug, Default)]
pub(super) struct Buckets(BTreeMap<Class, Bucket>);

#[derive(Debug)]
struct Bucket {
    tokens: u64,
    /// When it was filled last, seconds since 1970.
    filled: u64,
}

impl Buckets {
    /// Whether one more event may be told at that time; takes a token.
    pub(super) fn allows(&mut self, class: Class, time: u64) -> bool {
        let is_known = self.0.contains_key(&class);
        // Events beyond the limit of classes share the bucket of their severity.
        let class = if is_known || self.0.len() < EVENT_CLASSES_MAX {
            class
        } else {
            (EventKind::General, class.1, String::new())
        };
        let full = Bucket { tokens: EVENT_BURST_MAX, filled: time };
        let bucket = self.0.entry(class).or_insert(full);
        let since = time.saturating_sub(bucket.filled);
        bucket.tokens = (bucket.tokens + since).min(EVENT_BURST_MAX);
        bucket.filled = time;
        let allowed = bucket.tokens > 0;
        bucket.tokens -= u64::from(allowed);
        allowed
    }
}
