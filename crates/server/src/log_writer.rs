//! Writer thread of a rotating log (events, audit log): adding an entry never waits for the data
//! directory.
//!
//! Entries wait in a bounded queue. One that cannot be written is tried again until it can, so a
//! full or stalled file system costs nothing until the queue is full; what comes then is lost and
//! counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use crate::limits::{OUTPUT_PATIENCE, RECORD_ENTRIES_MAX, RECORD_RETRY, RECORD_STALL_MIN};
use crate::rotating_log::RotatingLog;

/// How the log of events does.
pub(crate) static EVENTS: Condition = Condition::new("events");

/// How the audit log does.
pub(crate) static AUDIT: Condition = Condition::new("audit");

/// State of such a log, for metrics and events. A process has one of each.
#[derive(Debug)]
pub(crate) struct Condition {
    /// 'events' or 'audit'.
    pub(crate) name: &'static str,
    waiting: AtomicU64,
    lost: AtomicU64,
    work: Mutex<Work>,
}

/// State of the writer thread.
#[derive(Debug)]
struct Work {
    /// Since when it writes one entry.
    since: Option<Instant>,
    /// Why that failed, when it did.
    failure: Option<String>,
}

impl Condition {
    const fn new(name: &'static str) -> Self {
        let work = Mutex::new(Work { since: None, failure: None });
        Self { name, waiting: AtomicU64::new(0), lost: AtomicU64::new(0), work }
    }

    /// Entries that wait to be written.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Entries that were lost since the daemon started.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Why entries are not written, if that is so.
    pub(crate) fn trouble(&self) -> Option<String> {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let stalls = work.since.is_some_and(|since| since.elapsed() >= RECORD_STALL_MIN);
        work.failure
            .clone()
            .or_else(|| stalls.then(|| "the file system does not answer".to_owned()))
    }

    fn set(&self, since: Option<Instant>, failure: Option<String>) {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = Work { since, failure };
    }
}

/// Orders to the writer thread.
enum Order<T> {
    Write(T),
    /// Everything before this is written: say so.
    Tell(SyncSender<()>),
}

/// The way to the thread. When this value goes, what waits is written, if that takes less than a
/// second.
pub(crate) struct LogWriter<T> {
    orders: SyncSender<Order<T>>,
    condition: &'static Condition,
}

impl<T: Serialize + Send + 'static> LogWriter<T> {
    /// Starts the thread.
    ///
    /// # Errors
    /// When there can be no more threads.
    pub(crate) fn start(log: RotatingLog, condition: &'static Condition) -> Result<Self> {
        let (orders, received) = sync_channel(RECORD_ENTRIES_MAX);
        let thread = thread::Builder::new().name(condition.name.to_owned());
        thread.spawn(move || carry_out(log, &received, condition))?;
        Ok(Self { orders, condition })
    }

    /// Adds an entry, or counts it as lost. Never waits.
    pub(crate) fn add(&self, entry: T) {
        self.condition.waiting.fetch_add(1, Ordering::Relaxed);
        if self.orders.try_send(Order::Write(entry)).is_err() {
            self.condition.waiting.fetch_sub(1, Ordering::Relaxed);
            self.condition.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<T> Drop for LogWriter<T> {
    fn drop(&mut self) {
        let deadline = Instant::now() + OUTPUT_PATIENCE;
        let (told, written) = sync_channel(1);
        let mut order = Order::Tell(told);
        while let Err(TrySendError::Full(back)) = self.orders.try_send(order) {
            if Instant::now() > deadline {
                return;
            }
            order = back;
            thread::sleep(Duration::from_millis(5));
        }
        let _ = written.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

/// The thread: writes until nobody adds any more.
fn carry_out<T: Serialize>(
    mut log: RotatingLog,
    received: &Receiver<Order<T>>,
    condition: &'static Condition,
) {
    for order in received {
        match order {
            Order::Write(entry) => {
                write(&mut log, &entry, condition);
                condition.waiting.fetch_sub(1, Ordering::Relaxed);
            }
            Order::Tell(told) => drop(told.try_send(())),
        }
    }
}

/// Writes an entry, as often as it takes.
fn write(log: &mut RotatingLog, entry: &impl Serialize, condition: &'static Condition) {
    let (name, since) = (condition.name, Instant::now());
    let mut has_failed = false;
    condition.set(Some(since), None);
    while let Err(error) = log.write(entry) {
        let failure = format!("{error:#}");
        if !has_failed {
            tracing::error!(record = name, error = failure, "a record cannot be written");
            has_failed = true;
        }
        condition.set(Some(since), Some(failure));
        thread::sleep(RECORD_RETRY);
    }
    condition.set(None, None);
    if has_failed {
        tracing::info!(record = name, lost = condition.lost(), "a record is written again");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    static FULL: Condition = Condition::new("full");

    #[test]
    fn what_cannot_be_written_waits_and_what_finds_no_room_is_counted() {
        let place = tempfile::tempdir().unwrap();
        let mut log = RotatingLog::open(place.path(), "r", 1 << 20, |_: u32| {}).unwrap();
        let path = place.path().join("r.jsonl");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        log.reopen().unwrap();
        let writer = LogWriter::start(log, &FULL).unwrap();
        for number in 0..RECORD_ENTRIES_MAX + 10 {
            writer.add(number);
        }
        while FULL.trouble().is_none() {
            thread::sleep(Duration::from_millis(5));
        }
        assert!((9..=10).contains(&FULL.lost()), "{}", FULL.lost());
        assert!(FULL.waiting() >= RECORD_ENTRIES_MAX as u64);
        assert!(FULL.trouble().unwrap().contains("No space left"), "{:?}", FULL.trouble());
        fs::remove_file(&path).unwrap();
        while FULL.waiting() > 0 {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(FULL.trouble(), None);
        let lines = fs::read_to_string(&path).unwrap();
        assert!(lines.trim_start().starts_with("0\n1\n2\n"), "{}", &lines[..20]);
        assert!(lines.lines().count() >= RECORD_ENTRIES_MAX);
    }
}
