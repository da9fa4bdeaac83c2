//! Cooperative yielding: long work for administrators gives its processor away every 50 µs
//! (sched_yield(2)), so that the reactor, where it shares that processor, need not wait for the
//! scheduler's next tick (docs/decisions/0105).
//!
//! Work says at the borders of its elements that it may [`pause`]: between two of them it holds no
//! lock, that of the memory allocator included. Beyond [`yielding`] a pause does nothing, so what the
//! reactor calls may say it, too.

use std::cell::Cell;
use std::cmp::Ordering;
use std::io;
use std::thread;
use std::time::Instant;

use crate::limits::{NICENESS, WORK_TIME_MAX, WORKED_BETWEEN_LOOKS};

#[cfg(test)]
mod tests;

thread_local! {
    /// Since when this thread has had its processor; `None` if its work does not yield.
    static SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
    /// Pauses offered since the clock was last read.
    static OFFERED: Cell<u32> = const { Cell::new(0) };
}

/// Does work that yields where it says [`pause`].
pub(crate) fn yielding<T>(work: impl FnOnce() -> T) -> T {
    /// Ends it, also after a panic.
    struct Scope;
    impl Drop for Scope {
        fn drop(&mut self) {
            SINCE.set(None);
        }
    }
    let _scope = Scope;
    SINCE.set(Some(Instant::now()));
    work()
}

/// Lets this thread, and those that it starts, have what the reactor leaves of a processor that both
/// want (setpriority(2); on Linux it is the thread's).
pub(crate) fn lower_priority() {
    let done = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
    if let Err(error) = done {
        tracing::warn!(%error, "work for administrators has the priority of hosts");
    }
}

/// An element is done: gives the processor away if the time is over.
pub(crate) fn pause() {
    let Some(since) = SINCE.get() else { return };
    if since.elapsed() >= WORK_TIME_MAX {
        thread::yield_now();
        SINCE.set(Some(Instant::now()));
    }
}

/// The same for elements so small that reading the clock for each would cost more than they do.
pub(crate) fn pause_seldom() {
    let offered = OFFERED.get() + 1;
    OFFERED.set(offered % WORKED_BETWEEN_LOOKS);
    if offered == WORKED_BETWEEN_LOOKS {
        pause();
    }
}

/// Sorts elements; those that are equal keep their order.
pub(crate) fn sort_by<T>(elements: &mut [T], order: impl Fn(&T, &T) -> Ordering) {
    elements.sort_by(|one, other| {
        pause_seldom();
        order(one, other)
    });
}

/// Frees elements.
pub(crate) fn free<T>(elements: Vec<T>) {
    for element in elements {
        drop(element);
        pause_seldom();
    }
}

/// A buffer that is written in small pieces, as JSON is.
#[derive(Default)]
pub(crate) struct Buffer(pub(crate) Vec<u8>);

impl io::Write for Buffer {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        pause_seldom();
        self.0.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
