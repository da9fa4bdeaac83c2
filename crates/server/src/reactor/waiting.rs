//! Busy polling before sleeping: how the reactor waits for the next event.
//!
//! A host that sends one command at a time sends the next one some microseconds after it was
//! answered. To sleep until then costs more than to poll: the processor goes idle, and waking it
//! takes time. So if the last such wait was that short, the reactor polls for as long before it
//! sleeps. If commands of that host, or of many hosts, are under way, it sleeps at once: devices,
//! and the threads that flush them, need the processors.

use std::fs;
use std::io;
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mio::{Events, Poll};

use crate::limits::POLL_TIME_MAX;

/// Whether to poll at the next wait, by how the last one went.
pub(super) struct Waiting {
    /// Whether there is a processor for it.
    may_poll: bool,
    was_short: bool,
}

impl Waiting {
    pub(super) fn new() -> Self {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        Self { may_poll: processors > 1 || is_pinned(), was_short: false }
    }

    /// Waits until something happens, so long at most.
    pub(super) fn wait(
        &mut self,
        poll: &mut Poll,
        events: &mut Events,
        (expects_a_command, time_max): (bool, Duration),
    ) -> Result<()> {
        if !expects_a_command {
            return look(poll, events, time_max);
        }
        let began = Instant::now();
        if self.was_short {
            while began.elapsed() < POLL_TIME_MAX {
                look(poll, events, Duration::ZERO)?;
                if !events.is_empty() {
                    return Ok(());
                }
                // Threads that work for commands under way go first.
                thread::yield_now();
            }
        }
        look(poll, events, time_max)?;
        self.was_short = self.may_poll && began.elapsed() < 2 * POLL_TIME_MAX;
        Ok(())
    }
}

/// Whether the daemon was given one processor of several: then that one is its own.
fn is_pinned() -> bool {
    let online = fs::read_to_string("/sys/devices/system/cpu/online");
    let own = rustix::thread::sched_getaffinity(None);
    online.is_ok_and(|online| online.trim() != "0") && own.is_ok_and(|own| own.count() == 1)
}

/// Takes what happened, or happens within a time.
pub(super) fn look(poll: &mut Poll, events: &mut Events, time: Duration) -> Result<()> {
    match poll.poll(events, Some(time)) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            events.clear();
            Ok(())
        }
        result => result.context("waiting for events failed"),
    }
}

#[cfg(test)]
mod tests {
    use mio::{Token, Waker};

    use crate::limits::TICK;

    use super::*;

    #[test]
    fn it_looks_after_a_short_wait_and_sleeps_after_a_long_one() -> Result<()> {
        let mut poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), Token(0))?;
        let mut events = Events::with_capacity(8);
        let mut waiting = Waiting { may_poll: true, was_short: false };
        waker.wake()?;
        waiting.wait(&mut poll, &mut events, (true, TICK))?;
        assert!(!events.is_empty());
        assert!(waiting.was_short);
        waker.wake()?;
        waiting.wait(&mut poll, &mut events, (true, TICK))?;
        assert!(!events.is_empty(), "what it finds before it sleeps, it tells");
        waiting.wait(&mut poll, &mut events, (true, TICK))?;
        assert!(events.is_empty());
        assert!(!waiting.was_short);
        Ok(())
    }
}
