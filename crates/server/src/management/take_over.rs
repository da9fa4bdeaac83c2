//! Takes pools by itself from controllers that are gone without letting go, where the devices fence them;
//! and writes the heartbeat by which others see that this one is not gone.

use std::time::Duration;

use api::PathState;
use control::limits::{TAKE_OVER_PAUSE, TAKE_OVER_SUSPICION};
use control::take_over::{
    HeldDevice, Obstacle, OwnerBeat, Sighting, Signs, Taking, Verdict, Watch,
};
use device::{Holder, OpenError};

use super::{Management, hexadecimal};
use crate::data_plane::DataPlane;
use crate::limits::SLOW_LOOK;
use crate::link::{Link, View};

/// Pools of other controllers, and when they are taken.
pub(super) struct TakingOver {
    pub(super) watch: Watch,
    /// The number of the last heartbeat.
    beats: u64,
    /// Pools that were taken since the start.
    pub(super) taken: u64,
    /// Pools of which this controller was fenced since the start.
    pub(super) lost: u64,
}

impl TakingOver {
    /// Pools are taken after that time; `None` if they are not.
    pub(super) const fn new(after: Option<Duration>) -> Self {
        Self { watch: Watch::new(after), beats: 0, taken: 0, lost: 0 }
    }
}

/// Who holds the devices of a pool, if each that could not be opened is held and has a heartbeat.
pub(super) fn sighting_of<'a>(errors: impl Iterator<Item = &'a OpenError>) -> Option<Sighting> {
    let devices: Option<Vec<HeldDevice>> = errors.map(held_device).collect();
    devices.filter(|devices| !devices.is_empty()).map(|devices| Sighting { devices })
}

fn held_device(error: &OpenError) -> Option<HeldDevice> {
    let (holder, block) = match error {
        OpenError::Held { holders, owner_beat: Some(block), .. } => (only_name(holders), block),
        OpenError::InUse { owner_beat: Some(block), .. } => (None, block),
        OpenError::Held { owner_beat: None, .. }
        | OpenError::InUse { owner_beat: None, .. }
        | OpenError::Missing(_)
        | OpenError::Exists(_)
        | OpenError::WrongKind { .. }
        | OpenError::TooSmall { .. }
        | OpenError::Os { .. } => return None,
    };
    OwnerBeat::parse(block).map(|beat| HeldDevice { holder, beat })
}

/// The name of the only one that holds a device.
fn only_name(holders: &[Holder]) -> Option<String> {
    let [holder] = holders else { return None };
    Some(holder.identity.clone()).filter(|identity| !identity.is_empty())
}

impl Management {
    /// Seconds after which this controller takes pools from others, if it is one of several and does.
    pub(super) fn take_over_after(&self) -> Option<u64> {
        self.peers.link.as_ref()?;
        self.peers.take_over.watch.after().map(|after| after.as_secs())
    }

    /// How long pools are served here without a heartbeat; zero if nobody may take them by itself.
    pub(super) fn lease(&self) -> Duration {
        let is_paired = self.peers.paired().next().is_some();
        self.peers.take_over.watch.lease(is_paired)
    }

    /// The next heartbeat for a pool, without its holder; `None` if this controller is one alone.
    pub(super) fn next_beat(&mut self, pool_uuid: [u8; 16]) -> Option<OwnerBeat> {
        let life = self.peers.link.as_ref().map(Link::life)?;
        self.peers.take_over.beats += 1;
        let (controller, count) = (self.controller().number(), self.peers.take_over.beats);
        Some(OwnerBeat {
            pool_uuid,
            controller,
            lease: self.lease(),
            life,
            count,
            holder: String::new(),
        })
    }

    /// Writes the heartbeat into the pools that are open here, and lets hosts wait for those that others
    /// may have taken since the last one.
    pub(super) fn beat(&mut self, plane: &mut DataPlane) {
        let (lease, now) = (self.lease(), self.clock());
        for id in plane.pools.ids() {
            let Some(mut pool) = plane.pools.get_mut(id) else { continue };
            let Some(beat) = self.next_beat(pool.uuid) else { return };
            pool.beat(&beat, now);
            // Another one that serves it lives without what this one has.
            let is_lost = || self.owner_by_link(&pool.uuid).is_some();
            if pool.is_in_doubt && pool.relies_on_witness() && is_lost() {
                pool.fence("the witness of one of its mirrors".to_owned());
                continue;
            }
            if pool.doubt(lease, now) {
                let name = pool.name.clone();
                drop(pool);
                let message = "has written no heartbeat for so long that another controller may have \
                               taken it: hosts are told to wait until its devices take the next one";
                self.warn(&name, message.to_owned());
            }
        }
    }

    /// A try that nobody asked for, and that began then, found that others have a pool: from whom it is
    /// to be taken now, if it is. Why it is left where it is although its owner stands still is told.
    pub(super) fn consider_taking(
        &mut self,
        pool: &str,
        sighting: Option<Sighting>,
        began: Duration,
    ) -> Option<Taking> {
        let uuid = self.configuration.pools.get(pool)?.uuid;
        let is_of_pool =
            |one: &Sighting| one.devices.iter().all(|device| device.beat.pool_uuid == uuid);
        let sighting = sighting.filter(is_of_pool);
        let is_named = sighting
            .as_ref()
            .is_some_and(|one| one.devices.iter().any(|device| device.holder.is_some()));
        let ended = self.clock();
        self.log_look(pool, sighting.is_some(), ended.saturating_sub(began));
        self.peers.take_over.watch.look(pool, sighting, (began, ended));
        let signs = self.signs(pool, began)?;
        // Files are looked at more often anyway.
        if is_named && signs.silence.is_some_and(|silence| silence >= TAKE_OVER_SUSPICION) {
            self.reopening.postpone(pool, began + TAKE_OVER_PAUSE);
        }
        match self.peers.take_over.watch.judge(pool, signs) {
            Verdict::Wait => None,
            Verdict::Leave { controller, still, obstacle } => {
                self.tell_standstill(pool, controller, still, obstacle);
                None
            }
            Verdict::Take(taking) => {
                self.peers.take_over.watch.forget(pool);
                self.tell_taking(pool, &taking);
                Some(taking)
            }
        }
    }

    /// A look that says little of an owner that is watched is logged: the pool is taken later for it.
    fn log_look(&self, pool: &str, sees_owner: bool, took: Duration) {
        let is_watched = self.peers.take_over.watch.owner(pool).is_some();
        if took >= SLOW_LOOK || is_watched && !sees_owner {
            tracing::info!(
                pool,
                sees_owner,
                ?took,
                "a look at who has a pool was slow, or saw nobody"
            );
        }
    }

    /// What is known of a pool's owner on the link, as it was when a look began.
    fn signs(&self, pool: &str, began: Duration) -> Option<Signs> {
        let (link, own) = (self.peers.link.as_ref()?, self.controller().number());
        let OwnerBeat { controller: owner, life, .. } = *self.peers.take_over.watch.owner(pool)?;
        let view = self.peers.views.get(&owner);
        let is_new_start = view.and_then(|view| view.life).is_some_and(|last| last != life);
        let has_ended = view.and_then(|view| view.ended) == Some(life);
        // Of an earlier start of this controller nobody else speaks: the data directory's lock says that
        // it has ended.
        let silence = match owner {
            owner if owner == own => Some(Duration::MAX),
            owner => link.silence(owner, self.started + began),
        };
        let uuid = hexadecimal(&self.configuration.pools.get(pool)?.uuid);
        let others = || self.peers.views.iter().filter(move |(number, _)| **number != owner);
        let claims = |view: &View| {
            matches!(
                view.state_of(&uuid),
                Some(PathState::ActiveOptimized | PathState::Transitioning)
            )
        };
        let is_claimed = others().any(|(_, view)| claims(view));
        let may_take = |view: &View| view.state_of(&uuid) == Some(PathState::Standby);
        let before = others().filter(|(number, view)| **number < own && may_take(view)).count();
        Some(Signs { silence, is_new_start, has_ended, is_claimed, before: before as u32 })
    }

    fn tell_taking(&mut self, pool: &str, taking: &Taking) {
        let Taking { holders, controller, still, silence, has_ended, beats: _ } = taking;
        let (holders, still) = (holders.join(" and "), still.as_secs());
        let stood = format!("whose heartbeat in the pool stood still for {still} s");
        let sign = if *controller == self.controller().number() {
            format!("an earlier start of this one, and {stood}")
        } else if *has_ended {
            "whose process has ended, as its machine says".to_owned()
        } else {
            format!("which was not heard on the link for {} s, and {stood}", silence.as_secs())
        };
        let message = format!("is taken from controller {controller}, {sign}: {holders} is fenced");
        self.warn(pool, message);
    }

    /// The owner of a pool stands still, and the pool is not taken: that is shown with the pool, and told
    /// once.
    fn tell_standstill(&mut self, pool: &str, owner: u16, still: Duration, obstacle: Obstacle) {
        let (why, still) = (advice(owner, obstacle), still.as_secs());
        let reason = format!("controller {owner} has written no heartbeat for {still} s, {why}");
        if let Some(unavailable) = self.unavailable.get_mut(pool) {
            unavailable.reason = format!("{}; {reason}", unavailable.reason);
        }
        if self.peers.take_over.watch.is_news(pool, obstacle) {
            self.warn(pool, format!("stays where it is: {reason}"));
        }
    }

    /// Another controller took a pool from this one.
    pub(super) fn note_lost(&mut self, pool: &str) {
        let now = self.clock();
        self.peers.take_over.lost += 1;
        self.peers.take_over.watch.lost(pool, now);
    }
}

/// Why a pool is not taken from an owner that stands still, and what an administrator can do.
fn advice(owner: u16, obstacle: Obstacle) -> String {
    match obstacle {
        Obstacle::Off => "and --take-over-after is off here or there: if it is gone, break its locks \
                          with 'gantry pool open POOL --break-lock'"
            .to_owned(),
        Obstacle::NotPaired => "and is not paired with this one, so that nobody knows whether it \
                                lives: pair them with 'gantry controller pair', or break its locks \
                                with 'gantry pool open POOL --break-lock' if it is gone"
            .to_owned(),
        Obstacle::Heard => format!(
            "and is heard on the link: it lives, and its devices do not answer it. Look at \
             controller {owner}; end its daemon if another one is to have the pool"
        ),
        Obstacle::NoFence => format!(
            "and is not heard on the link; a file's lock cannot be broken: if controller {owner} \
             stands still, end its process, and the pool is taken"
        ),
        Obstacle::Resting => "and is not heard on the link; this controller was fenced a short time \
                              ago itself, and leaves the pool alone for a while: break its locks with \
                              'gantry pool open POOL --break-lock' if it is gone"
            .to_owned(),
    }
}
