//! When a pool is given back to the controller that should have it: that one has been ready for the pool
//! for as long as an administrator wants, and for longer if it lost the pool again soon each time.
//!
//! The controller that has the pool decides, by what its preferred one says on the link. It gives the pool
//! by a planned switch, in which the pool's devices decide who has it, as in every other one.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::{FAIL_BACK_SOON, FAIL_BACK_WAIT_MAX, LINK_SILENCE};

/// What is said of a pool that another controller should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The preferred controller.
    pub controller: u16,
    /// How long it must be ready first.
    pub after: Duration,
}

/// How the preferred controller of a pool is, by what it says on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preferred {
    /// It is not paired with this one, or is not heard.
    Silent,
    /// It is in maintenance.
    Maintenance,
    /// An administrator gave the pool away there, since it was started.
    GivenAway,
    /// It does not reach all devices of the pool, or does not say that it does.
    Lacking,
    /// No host of the pool is logged in there, and some are here.
    Unreached,
    /// It would take the pool.
    Ready,
}

/// What is to be done with a pool that another controller should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Wait,
    /// Nothing yet; administrators are told that it takes longer this time.
    WaitLonger {
        /// For how long the preferred controller had the pool when it was given back last.
        kept: Duration,
        /// How long that one must be ready now.
        wait: Duration,
    },
    /// It is given to its preferred controller.
    Give,
}

/// Pools that are open here and that another controller should have; no more than are configured.
#[derive(Clone, Debug, Default)]
pub struct FailBacks {
    pools: BTreeMap<String, Waiting>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    policy: Policy,
    /// How long the preferred controller must be ready.
    wait: Duration,
    /// Since when it was ready at every look.
    ready_since: Option<Duration>,
    /// The last look.
    latest: Duration,
    given: Option<Given>,
}

/// A pool was given to its preferred controller.
#[derive(Clone, Copy, Debug)]
struct Given {
    at: Duration,
    /// When it was found open here again.
    returned: Option<Duration>,
    /// Whether that one did not lose it: an administrator wanted it so.
    is_meant: bool,
}

impl Waiting {
    const fn new(policy: Policy, now: Duration) -> Self {
        Self { policy, wait: policy.after, ready_since: None, latest: now, given: None }
    }

    /// The preferred controller is ready. If it was so before and had the pool, how long it had it is
    /// looked at once: less than the last wait, or than an hour, and the next wait is twice as long.
    fn judge_return(&mut self) -> Option<Verdict> {
        let given = self.given.take()?;
        let kept = given.returned.unwrap_or(self.latest).saturating_sub(given.at);
        if given.is_meant {
            return None;
        }
        if kept >= self.wait.max(FAIL_BACK_SOON) {
            self.wait = self.policy.after;
            return None;
        }
        let longest = FAIL_BACK_WAIT_MAX.max(self.policy.after);
        self.wait = self.wait.saturating_mul(2).min(longest);
        Some(Verdict::WaitLonger { kept, wait: self.wait })
    }

    fn look(&mut self, preferred: Preferred, now: Duration) -> Verdict {
        let gap = now.saturating_sub(self.latest);
        self.latest = now;
        if let Some(given) = &mut self.given {
            given.returned.get_or_insert(now);
            given.is_meant |= matches!(preferred, Preferred::Maintenance | Preferred::GivenAway);
        }
        match preferred {
            Preferred::Silent
            | Preferred::Maintenance
            | Preferred::GivenAway
            | Preferred::Lacking
            | Preferred::Unreached => {
                self.ready_since = None;
                Verdict::Wait
            }
            Preferred::Ready => {
                let since = self.ready_since.filter(|_| gap < LINK_SILENCE).unwrap_or(now);
                self.ready_since = Some(since);
                let longer = self.judge_return();
                let is_time = now.saturating_sub(since) >= self.wait;
                longer.unwrap_or(if is_time { Verdict::Give } else { Verdict::Wait })
            }
        }
    }
}

impl FailBacks {
    /// A pool is open here, and is said so of; its preferred controller is another one, and is so. Looks
    /// that are further apart than a controller may be silent begin anew.
    pub fn look(
        &mut self,
        pool: &str,
        policy: Policy,
        preferred: Preferred,
        now: Duration,
    ) -> Verdict {
        let known = self.pools.remove(pool).filter(|waiting| waiting.policy == policy);
        let mut waiting = known.unwrap_or_else(|| Waiting::new(policy, now));
        let verdict = waiting.look(preferred, now);
        self.pools.insert(pool.to_owned(), waiting);
        verdict
    }

    /// A switch of the pool to its preferred controller has begun.
    pub fn gave(&mut self, pool: &str, now: Duration) {
        if let Some(waiting) = self.pools.get_mut(pool) {
            waiting.ready_since = None;
            waiting.given = Some(Given { at: now, returned: None, is_meant: false });
        }
    }

    /// For how long the preferred controller must be ready yet, if it is; as of the last look.
    pub fn left(&self, pool: &str) -> Option<Duration> {
        let waiting = self.pools.get(pool)?;
        let ready = waiting.latest.saturating_sub(waiting.ready_since?);
        Some(waiting.wait.saturating_sub(ready))
    }

    /// Only pools are kept of which that is wanted.
    pub fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.pools.retain(|name, _| is_wanted(name));
    }
}

#[cfg(test)]
mod tests;
