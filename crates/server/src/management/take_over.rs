//! Takes pools by itself from controllers that are gone without letting go, where the devices fence them;
//! and writes the heartbeat by which others see that this one is not gone.

use std::time::Duration;

use control::take_over::{OwnerBeat, Sighting, Watch};
use device::{Breaking, OpenError};

use super::Management;
use crate::data_plane::DataPlane;
use crate::limits::{OWNER_BEAT, TAKE_OVER_PAUSE};
use crate::link::Link;
use crate::options::TakeOver;

/// Pools of other controllers, and when they are taken.
pub(super) struct TakingOver {
    pub(super) watch: Watch,
    after: TakeOver,
    /// When the next heartbeat is due, and its number.
    next_beat: Duration,
    beats: u64,
    /// Pools that were taken since the start.
    pub(super) taken: u64,
}

impl TakingOver {
    pub(super) fn new(after: TakeOver) -> Self {
        Self { watch: Watch::default(), after, next_beat: Duration::ZERO, beats: 0, taken: 0 }
    }

    /// Seconds after which pools are taken; `None` if they are not.
    pub(super) fn after_seconds(&self) -> Option<u64> {
        match self.after {
            TakeOver::After(limit) => Some(limit.as_secs()),
            TakeOver::Off => None,
        }
    }
}

/// Who holds the devices of a pool, if each that could not be opened is held by somebody whom a fence
/// keeps out, and has a heartbeat.
pub(super) fn sighting_of(errors: &[OpenError]) -> Option<Sighting> {
    let mut sighting = Sighting { holders: Vec::new(), beats: Vec::new() };
    for error in errors {
        let OpenError::Held { holders, owner_beat: Some(block), .. } = error else { return None };
        if holders.iter().any(|holder| holder.identity.is_empty()) {
            return None;
        }
        sighting.holders.extend(holders.iter().map(|holder| holder.identity.clone()));
        sighting.beats.push(OwnerBeat::parse(block)?);
    }
    sighting.holders.sort_unstable();
    sighting.holders.dedup();
    Some(sighting)
}

impl Management {
    /// Writes the heartbeat into the pools that are served here.
    pub(super) fn beat(&mut self, plane: &mut DataPlane) {
        let now = self.clock();
        let Some(life) = self.peers.link.as_ref().map(Link::life) else { return };
        if now < self.peers.take_over.next_beat {
            return;
        }
        self.peers.take_over.next_beat = now + OWNER_BEAT;
        self.peers.take_over.beats += 1;
        let controller = self.controller().number();
        for pool in plane.pools.ids() {
            if let Some(mut pool) = plane.pools.get_mut(pool) {
                let (pool_uuid, count) = (pool.uuid, self.peers.take_over.beats);
                pool.beat(OwnerBeat { pool_uuid, controller, life, count });
            }
        }
    }

    /// A try found that others have a pool: whose locks are to be broken now, if any. The try began then.
    pub(super) fn is_to_be_taken(
        &mut self,
        pool: &str,
        sighting: Option<Sighting>,
        began: Duration,
    ) -> Option<Breaking> {
        let link = self.peers.link.as_ref()?;
        let uuid = self.configuration.pools.get(pool)?.uuid;
        let is_of_pool = |one: &Sighting| one.beats.iter().all(|beat| beat.pool_uuid == uuid);
        self.peers.take_over.watch.look(pool, sighting.filter(is_of_pool), began);
        let TakeOver::After(limit) = self.peers.take_over.after else { return None };
        let own = self.controller().number();
        // What an earlier life of this controller holds nobody else speaks for: the data directory's lock
        // says that it has ended.
        let silent =
            |number| if number == own { Some(Duration::MAX) } else { link.silence(number) };
        let owner = self.peers.take_over.watch.owner(pool)?;
        let is_silent = silent(owner).is_some_and(|silent| silent >= OWNER_BEAT * 2);
        let taking = self.peers.take_over.watch.is_due(pool, silent, limit);
        if is_silent && taking.is_none() {
            self.reopening.postpone(pool, began + TAKE_OVER_PAUSE);
        }
        let taking = taking?;
        self.peers.take_over.watch.forget(pool);
        self.peers.take_over.taken += 1;
        let (holders, still) = (taking.holders.join(" and "), taking.still.as_secs());
        let message = format!(
            "is taken from controller {} ({holders}), which is fenced: it was not heard on the link, and \
             its heartbeat in the pool stood still for {still} s",
            taking.controller
        );
        self.warn(pool, message);
        Some(Breaking { holders: taking.holders })
    }
}
