//! LUN number quarantine: how long a number rests between two volumes, and which numbers sessions
//! held that have ended. Every time is the time since the daemon began.

use std::collections::VecDeque;
use std::time::Duration;

use array::{FreeLuns, HeldLun, Rest};

use crate::limits::HELD_BY_ENDED_MAX;

/// How long LUN numbers rest, and what must be known for that.
#[derive(Debug)]
pub struct LunRest {
    length: Duration,
    free: FreeLuns,
    /// What sessions held when they ended, oldest first, and when that was.
    ended: VecDeque<(Duration, HeldLun)>,
}

impl LunRest {
    /// Numbers rest for so long.
    pub const fn new(length: Duration, free: FreeLuns) -> Self {
        Self { length, free, ended: VecDeque::new() }
    }

    /// Any number may have stood for a volume until now: all that stand for none rest anew.
    pub const fn forget_numbers(&mut self, now: Duration) {
        self.free = FreeLuns::Unknown { since: now.as_secs() };
    }

    /// How long they rest.
    pub const fn length(&self) -> Duration {
        self.length
    }

    /// What sessions held that ended a short while ago.
    pub fn held_by_ended(&self, now: Duration) -> impl Iterator<Item = &HeldLun> {
        let rests = move |held: &&(Duration, HeldLun)| !self.is_over(held.0, now);
        self.ended.iter().filter(rests).map(|(_, held)| held)
    }

    /// What decides now whether a number may go to another volume, but for the numbers that sessions
    /// hold.
    pub fn rest(&self, now: Duration) -> Rest<'static> {
        Rest { now: now.as_secs(), seconds: self.length.as_secs(), held: &[], free: self.free }
    }

    /// A session ends that holds these numbers: they rest from now on.
    pub fn session_ends(&mut self, now: Duration, held: impl Iterator<Item = HeldLun>) {
        while self.ended.front().is_some_and(|&(at, _)| self.is_over(at, now))
            || self.ended.len() >= HELD_BY_ENDED_MAX
        {
            self.ended.pop_front();
        }
        self.ended.extend(held.take(HELD_BY_ENDED_MAX).map(|held| (now, held)));
    }

    fn is_over(&self, at: Duration, now: Duration) -> bool {
        now.saturating_sub(at) >= self.length
    }
}

#[cfg(test)]
mod tests;
