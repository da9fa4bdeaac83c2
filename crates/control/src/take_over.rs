//! When a controller takes a pool by itself from another one that is gone without letting go: the
//! heartbeat in the pool's devices and the link both stood still for as long as an administrator wants.
//!
//! Nothing here makes it safe that two had the pool at once: the devices' fences do, which are broken
//! before the pool is opened. What is decided here is only whether it is time. Only holders that the
//! devices name are fenced, and only where every device that is held says by its heartbeat who holds it.

mod beat;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::TAKE_OVER_LOOKS_MIN;

pub use beat::OwnerBeat;

/// What a try to open a pool found that another controller has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Identities of those who hold its devices, as the devices name them.
    pub holders: Vec<String>,
    /// The heartbeat in each device that is held, in their order.
    pub beats: Vec<OwnerBeat>,
}

/// A pool is taken from a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taking {
    /// Whose locks are broken.
    pub holders: Vec<String>,
    /// The controller that had it.
    pub controller: u16,
    /// For how long its heartbeat stood still.
    pub still: Duration,
}

/// Pools that other controllers have, and since when nothing moved in them.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    pools: BTreeMap<String, Watched>,
}

#[derive(Clone, Debug)]
struct Watched {
    sighting: Sighting,
    since: Duration,
    latest: Duration,
    looks: u32,
}

impl Sighting {
    /// The controller that holds all devices which are held, if they agree.
    fn controller(&self) -> Option<u16> {
        let first = self.beats.first()?;
        let agree = |beat: &OwnerBeat| {
            (beat.controller, beat.life, beat.pool_uuid)
                == (first.controller, first.life, first.pool_uuid)
        };
        (!self.holders.is_empty() && self.beats.iter().all(agree)).then_some(first.controller)
    }
}

impl Watch {
    /// A try that began then ended with this; `None` if nobody holds the pool whom a fence would keep
    /// out, or the devices do not say who it is. The time is that of the beginning: a daemon that stood
    /// still itself meanwhile must not take its own standstill for the owner's.
    pub fn look(&mut self, pool: &str, sighting: Option<Sighting>, began: Duration) {
        let Some(sighting) = sighting.filter(|sighting| sighting.controller().is_some()) else {
            self.forget(pool);
            return;
        };
        match self.pools.get_mut(pool) {
            Some(watched) if watched.sighting == sighting => {
                watched.latest = began;
                watched.looks += 1;
            }
            Some(_) | None => {
                let watched = Watched { sighting, since: began, latest: began, looks: 1 };
                self.pools.insert(pool.to_owned(), watched);
            }
        }
    }

    /// The pool is open here, or known no more.
    pub fn forget(&mut self, pool: &str) {
        self.pools.remove(pool);
    }

    /// The controller that has a pool, as its devices say.
    pub fn owner(&self, pool: &str) -> Option<u16> {
        self.pools.get(pool).and_then(|watched| watched.sighting.controller())
    }

    /// Whether it is time to take a pool. `silent` says for how long a controller was not heard on the
    /// link: `None` for one that is not known.
    pub fn is_due(
        &self,
        pool: &str,
        silent: impl Fn(u16) -> Option<Duration>,
        limit: Duration,
    ) -> Option<Taking> {
        let watched = self.pools.get(pool)?;
        let controller = watched.sighting.controller()?;
        let still = watched.latest.saturating_sub(watched.since);
        let is_due = still >= limit
            && watched.looks >= TAKE_OVER_LOOKS_MIN
            && silent(controller).is_some_and(|silent| silent >= limit);
        let holders = watched.sighting.holders.clone();
        is_due.then_some(Taking { holders, controller, still })
    }
}

#[cfg(test)]
mod tests;
