//! When a controller takes a pool by itself from another one that is gone without letting go: the
//! heartbeat in the pool's devices and the link both stood still for as long as an administrator wants, or
//! a process beside its daemon says that the daemon's process has ended.
//!
//! Nothing here makes it safe that two had the pool at once: the devices' fences do, which are broken
//! before the pool is opened. What is decided here is only whether it is time. Only holders that the
//! devices name are fenced, and only if they are those who wrote the heartbeat that stands still.

mod beat;
mod pulse;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::limits::{
    LEASE_MARGIN, LINK_SILENCE, STANDSTILL_TOLD, TAKE_OVER_LOOKS_MIN, TAKE_OVER_REST,
    TAKE_OVER_REST_MAX, TAKE_OVER_TURN,
};

pub use beat::OwnerBeat;
pub use pulse::{Pulse, is_in_doubt};

/// A device that somebody else holds, as a try to open it found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldDevice {
    /// Who holds it, as the device names that; `None` if its lock cannot be broken (a file's), or not
    /// one alone holds it.
    pub holder: Option<String>,
    /// The heartbeat in it.
    pub beat: OwnerBeat,
}

/// What a try to open a pool found that another controller has: every device that could not be opened is
/// held, and has a heartbeat of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// In their order; at least one.
    pub devices: Vec<HeldDevice>,
}

/// What is known of a pool's owner besides its heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signs {
    /// For how long the owner was not heard on the link when the last look began; `None` if it is not
    /// paired with this controller.
    pub silence: Option<Duration>,
    /// Whether it was last heard from another start than the one that wrote the heartbeat: it takes back
    /// itself what that one left.
    pub is_new_start: bool,
    /// Whether the process that wrote the heartbeat has ended, as its machine said: it serves nobody any
    /// more, so that there is nothing to wait for.
    pub has_ended: bool,
    /// Whether another controller says on the link that it has, or opens, the pool.
    pub is_claimed: bool,
    /// Other controllers that may take it, are heard, and have smaller numbers.
    pub before: u32,
}

/// What is to be done with a pool that another controller has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: its heart beats, or it is not known yet, or not by whom it is held.
    Wait,
    /// Nothing, although its heart stands still: administrators are to know why.
    Leave {
        /// The controller that has it.
        controller: u16,
        /// For how long its heart was seen to stand still.
        still: Duration,
        /// Why it is not taken.
        obstacle: Obstacle,
    },
    /// It is taken: the holders' locks are broken, then it is opened.
    Take(Taking),
}

/// Why a pool is not taken from a controller whose heart stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// This controller takes none by itself, or the owner lets none be taken.
    Off,
    /// The two controllers are not paired, so that its silence would say nothing.
    NotPaired,
    /// It is heard on the link: it lives.
    Heard,
    /// The lock of one of its devices cannot be broken.
    NoFence,
    /// This controller was fenced itself a short time ago, and has not heard the owner since.
    Resting,
}

/// A pool is taken from a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taking {
    /// Whose locks are broken.
    pub holders: Vec<String>,
    /// The controller that had it.
    pub controller: u16,
    /// For how long its heart was seen to stand still.
    pub still: Duration,
    /// For how long it was not heard on the link.
    pub silence: Duration,
    /// Whether its process has ended, as its machine said.
    pub has_ended: bool,
    /// The heartbeats that stood still. If others are found after the locks were broken, the owner went on
    /// in the last moment: it may answer hosts from its memory until its lease is over.
    pub beats: Vec<OwnerBeat>,
}

/// Pools that other controllers have, and since when nothing moved in them.
#[derive(Clone, Debug)]
pub struct Watch {
    after: Option<Duration>,
    pools: BTreeMap<String, Watched>,
    /// Pools of which this controller was fenced.
    lost: BTreeMap<String, Rest>,
}

#[derive(Clone, Debug)]
struct Watched {
    sighting: Sighting,
    /// The end of the first look that saw it.
    since: Duration,
    /// The beginning of the last one.
    latest: Duration,
    looks: u32,
    told: Option<Obstacle>,
}

/// A pool is left alone for a time.
#[derive(Clone, Copy, Debug)]
struct Rest {
    since: Duration,
    length: Duration,
}

impl Sighting {
    /// The beat of the one controller that wrote all of them.
    fn owner(&self) -> Option<&OwnerBeat> {
        let first = &self.devices.first()?.beat;
        let is_same = |device: &HeldDevice| {
            let beat = &device.beat;
            (beat.controller, beat.life, beat.lease) == (first.controller, first.life, first.lease)
        };
        self.devices.iter().all(is_same).then_some(first)
    }

    /// Who is fenced: whoever holds each device, if that wrote the heartbeat in it.
    fn holders(&self) -> Holders {
        let mut named = BTreeSet::new();
        for device in &self.devices {
            match &device.holder {
                None => return Holders::Unbreakable,
                Some(holder) if *holder != device.beat.holder || holder.is_empty() => {
                    return Holders::Others;
                }
                Some(holder) => named.insert(holder.clone()),
            };
        }
        Holders::Owner(named.into_iter().collect())
    }
}

/// How long a former owner may still answer hosts from its memory, whose locks were just broken: the
/// longest lease of the heartbeats that are in the devices now and are not known to be old. Those of a
/// process that has ended were on their way when it did.
pub fn rest_of_lease(found: &[OwnerBeat], taking: Option<&Taking>) -> Duration {
    let is_old = |beat: &OwnerBeat| {
        taking.is_some_and(|taking| {
            let mut known = taking.beats.iter();
            known.any(|known| known == beat || taking.has_ended && known.life == beat.life)
        })
    };
    let fresh = found.iter().filter(|beat| !is_old(beat) && !beat.lease.is_zero());
    fresh.map(|beat| beat.lease.saturating_add(LEASE_MARGIN)).max().unwrap_or_default()
}

/// Who holds the devices of a pool.
enum Holders {
    /// A lock cannot be broken.
    Unbreakable,
    /// Somebody who did not write the heartbeat: it says nothing of them.
    Others,
    /// Who wrote it.
    Owner(Vec<String>),
}

impl Watch {
    /// Nothing is known yet. Pools are taken after that time without a sign of their owner; `None` if
    /// administrators do that.
    pub const fn new(after: Option<Duration>) -> Self {
        Self { after, pools: BTreeMap::new(), lost: BTreeMap::new() }
    }

    /// The time after which pools are taken, if they are.
    pub const fn after(&self) -> Option<Duration> {
        self.after
    }

    /// How long this controller serves without its heartbeat; zero if it goes on without, since nobody
    /// may take its pools by itself: then it takes none either, or is not paired with anybody.
    pub fn lease(&self, is_paired: bool) -> Duration {
        let lease =
            self.after.filter(|_| is_paired).map(|after| after.saturating_sub(LEASE_MARGIN));
        lease.unwrap_or_default()
    }

    /// A try that began and ended then found this; `None` if the devices do not say whose heart beats in
    /// them. A heartbeat was there at the end of the first look that saw it, and still at the beginning of
    /// the last one: what lies between is sure. Two looks that are further apart than owners are waited
    /// for begin anew: a daemon that stood still itself must not take its own standstill for the owner's.
    pub fn look(
        &mut self,
        pool: &str,
        sighting: Option<Sighting>,
        (began, ended): (Duration, Duration),
    ) {
        let Some(sighting) = sighting.filter(|sighting| sighting.owner().is_some()) else {
            self.forget(pool);
            return;
        };
        let gap_max = self.patience();
        match self.pools.get_mut(pool) {
            Some(watched)
                if watched.sighting == sighting
                    && began.saturating_sub(watched.latest) < gap_max =>
            {
                watched.latest = began;
                watched.looks += 1;
            }
            Some(_) | None => {
                let (since, latest) = (ended, began);
                let watched = Watched { sighting, since, latest, looks: 1, told: None };
                self.pools.insert(pool.to_owned(), watched);
            }
        }
    }

    fn patience(&self) -> Duration {
        self.after.unwrap_or(STANDSTILL_TOLD)
    }

    /// The pool is open here, or known no more.
    pub fn forget(&mut self, pool: &str) {
        self.pools.remove(pool);
    }

    /// Another controller fenced this one, which had the pool. It leaves the pool alone for a time, unless it hears
    /// the next owner on the link first, so that two that do not hear each other, and whose devices are slow, do
    /// not take it from each other again and again.
    pub fn lost(&mut self, pool: &str, now: Duration) {
        let again = self.lost.get(pool).filter(|rest| {
            now.saturating_sub(rest.since) < rest.length.saturating_add(TAKE_OVER_REST_MAX)
        });
        let length = again
            .map_or(TAKE_OVER_REST, |rest| rest.length.saturating_mul(2).min(TAKE_OVER_REST_MAX));
        self.lost.insert(pool.to_owned(), Rest { since: now, length });
    }

    /// Whether it leaves a pool alone whose owner was not heard for so long.
    fn rests(&self, pool: &str, now: Duration, silence: Duration) -> bool {
        let passed = self.lost.get(pool).map(|rest| (now.saturating_sub(rest.since), rest.length));
        passed.is_some_and(|(passed, length)| passed < length.min(silence))
    }

    /// A heartbeat of the controller that has a pool, as its devices say.
    pub fn owner(&self, pool: &str) -> Option<&OwnerBeat> {
        self.pools.get(pool)?.sighting.owner()
    }

    /// What is to be done with a pool.
    pub fn judge(&self, pool: &str, signs: Signs) -> Verdict {
        let Some(watched) = self.pools.get(pool) else { return Verdict::Wait };
        let Some(owner) = watched.sighting.owner() else { return Verdict::Wait };
        let still = watched.latest.saturating_sub(watched.since);
        let limit = self.limit(owner, signs);
        if still < limit || watched.looks < TAKE_OVER_LOOKS_MIN && !signs.has_ended {
            return Verdict::Wait;
        }
        let controller = owner.controller;
        let left = |obstacle| Verdict::Leave { controller, still, obstacle };
        let holders = match watched.sighting.holders() {
            Holders::Others => return Verdict::Wait,
            Holders::Unbreakable => None,
            Holders::Owner(holders) => Some(holders),
        };
        let heard_within =
            if signs.is_new_start { Duration::ZERO } else { LINK_SILENCE.min(limit) };
        match (signs.silence, holders) {
            (None, _) => left(Obstacle::NotPaired),
            (Some(silence), _) if silence < heard_within => left(Obstacle::Heard),
            (Some(silence), _) if silence < limit => Verdict::Wait,
            // Such a lock ends with its process.
            (Some(_), None) if signs.has_ended => Verdict::Wait,
            (Some(_), None) => left(Obstacle::NoFence),
            (Some(_), _) if self.after.is_none() || owner.lease.is_zero() => left(Obstacle::Off),
            (Some(silence), _) if self.rests(pool, watched.latest, silence) && !signs.has_ended => {
                left(Obstacle::Resting)
            }
            (Some(_), _) if signs.is_claimed => Verdict::Wait,
            (Some(_), _) if still < limit + TAKE_OVER_TURN * signs.before => Verdict::Wait,
            (Some(silence), Some(holders)) => {
                let beats = watched.sighting.devices.iter().map(|device| device.beat.clone());
                let (beats, has_ended) = (beats.collect(), signs.has_ended);
                Verdict::Take(Taking { holders, controller, still, silence, has_ended, beats })
            }
        }
    }

    /// How long heartbeat and link of an owner stand still before its pool is taken: until it serves nobody any more,
    /// at least.
    fn limit(&self, owner: &OwnerBeat, signs: Signs) -> Duration {
        if signs.has_ended {
            return Duration::ZERO;
        }
        self.patience().max(owner.lease.saturating_add(LEASE_MARGIN))
    }

    /// Whether administrators were not told yet why a pool is left where it is, since something moved in
    /// it last.
    pub fn is_news(&mut self, pool: &str, obstacle: Obstacle) -> bool {
        let watched = self.pools.get_mut(pool);
        watched.is_some_and(|watched| watched.told.replace(obstacle) != Some(obstacle))
    }
}

#[cfg(test)]
mod tests;
