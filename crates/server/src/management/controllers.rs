//! One controller of several: tells hosts how each pool's volumes are served here, takes over pools that
//! others let go, and gives pools up when an administrator wants another controller to have them.

use std::collections::BTreeMap;

use api::{PathState, Problem, Route};
use array::AccessState;
use block::DeviceKind;
use control::claims::Purpose;
use control::controllers::{Standing, may_change, state_of_unknown};
use control::limits::{STANDBY_PAUSE, SWITCH_PATIENCE};
use control::reopening::Trouble;
use store::{Change, Failure, Health, Outcome};

use super::pools::UnavailablePool;
use super::problems::{conflict, gone};
use super::{Management, Parameters, PoolStep, Progress, hexadecimal};
use crate::controller::Controller;
use crate::data_plane::DataPlane;
use crate::exports::ExportEvent;
use crate::link::View;
use crate::pools::PoolId;

impl Management {
    /// Which controller of the array this is.
    pub(super) const fn controller(&self) -> &Controller {
        self.portals.controller()
    }

    /// Looks, several times a second, whether pools come or go.
    pub(crate) fn look_at_controllers(&mut self, plane: &mut DataPlane) {
        if self.controller().is_one_of_several() {
            self.go_on_opening(plane);
            // Before any command of a host that came since the last turn: a daemon that stood still may
            // have been fenced.
            self.beat(plane);
            self.tell_access(plane);
            self.look_at_link(plane);
            self.look_at_given_away(plane);
            self.hand_over(plane);
            self.fail_back(plane);
        }
    }

    fn standing(&self, plane: &DataPlane, name: &str) -> Standing {
        let open = plane.pool_named(name).filter(|_| !self.unavailable.contains_key(name));
        let Some((slot, pool)) = open else {
            return Standing::Closed(self.reopening.trouble(name));
        };
        match pool.health() {
            _ if self.claims.is_claimed(name, Purpose::Switch) => Standing::Changing,
            _ if pool.is_in_doubt => Standing::Changing,
            Health::Ready if self.knows_records(slot) => Standing::Served,
            Health::ReadOnly { .. } => Standing::Served,
            Health::Ready | Health::Opening | Health::Closed => Standing::Changing,
        }
    }

    /// How hosts were told that a pool is served.
    pub(super) fn told_standing(&self, plane: &DataPlane, name: &str) -> Standing {
        let told = self.standings.get(name).copied();
        told.unwrap_or_else(|| self.standing(plane, name))
    }

    /// Tells front ends how volumes are served, where that changed.
    pub(super) fn tell_access(&mut self, plane: &mut DataPlane) {
        if !self.controller().is_one_of_several() {
            return;
        }
        let names = self.configuration.pools.keys();
        let standings: BTreeMap<String, Standing> =
            names.map(|name| (name.clone(), self.standing(plane, name))).collect();
        if standings == self.standings {
            return;
        }
        let unknown = state_of_unknown(standings.values().copied());
        for volume in self.configuration.mapped_volumes() {
            if plane.pool_of(volume).is_none() {
                plane.exports.tell(&ExportEvent::UnitAccess(volume, unknown));
            }
        }
        let before = std::mem::replace(&mut self.standings, standings.clone());
        for (name, standing) in standings {
            if before.get(&name) == Some(&standing) {
                continue;
            }
            let state = standing.access_state();
            let slot = plane.pool_named(&name).map(|(slot, _)| slot);
            let volumes = slot.map(|slot| plane.volumes_of(slot).collect::<Vec<_>>());
            for volume in volumes.into_iter().flatten() {
                plane.exports.tell(&ExportEvent::UnitAccess(volume, state));
            }
            if standing == Standing::Served {
                let number = self.controller().number();
                self.inform(&name, format!("is served by controller {number}, this one"));
            }
        }
        self.tell_peer_access(plane);
    }

    /// Volumes of a pool got their logical units, of which nobody was told how they are served.
    pub(super) fn tell_access_anew(&mut self, plane: &mut DataPlane, pool: &str) {
        self.standings.remove(pool);
        self.tell_access(plane);
    }

    /// A pool that another controller has is tried again soon, where that costs little; returns whether
    /// administrators need not be told.
    pub(super) fn stands_by(&mut self, pool: &str, trouble: Trouble) -> bool {
        let stands_by = self.controller().is_one_of_several() && trouble == Trouble::Held;
        if stands_by {
            self.reopening.leave_to_others(pool);
        }
        let configured = self.configuration.pools.get(pool);
        let has_files = configured.is_some_and(|pool| {
            pool.devices.iter().all(|one| one.device.kind() == DeviceKind::File)
        });
        let now = self.clock();
        let is_given = self.peers.given.get(pool).is_some_and(|until| now < *until);
        if stands_by && (has_files || is_given) {
            self.reopening.postpone(pool, now + STANDBY_PAUSE);
        }
        stands_by
    }

    /// Others have said something new: pools of a controller that gave them up, or whose connection has ended, are
    /// tried at once, and often for a while. Their devices are being let go, or nothing moves in them any more.
    pub(super) fn expect_given(&mut self, before: &BTreeMap<u16, View>) {
        let now = self.clock();
        self.peers.given.retain(|_, until| now < *until);
        let serves =
            |view: &View, uuid: &str| view.state_of(uuid) == Some(PathState::ActiveOptimized);
        let lets_go = |(number, old): (&u16, &View), uuid: &str| {
            let new = self.peers.views.get(number);
            let goes_on =
                new.is_some_and(|new| serves(new, uuid) && (old.is_missed || !new.is_missed));
            old.is_paired && serves(old, uuid) && !goes_on
        };
        let is_given = |pool: &array::Pool| {
            let uuid = hexadecimal(&pool.uuid);
            before.iter().any(|view| lets_go(view, &uuid))
        };
        let pools = self.configuration.pools.iter().filter(|(_, pool)| is_given(pool));
        for name in pools.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.reopening.postpone(&name, now);
            self.peers.given.insert(name, now + SWITCH_PATIENCE);
        }
    }

    /// What another controller changed of a pool's array cannot be taken, so that hosts may be let in
    /// whom a reservation keeps out: the pool is closed, and tried again.
    pub(super) fn refuse_unread(&mut self, plane: &mut DataPlane, pool: PoolId, why: &str) {
        if !self.controller().is_one_of_several() {
            return;
        }
        let Some(closed) = self.stop_serving(plane, pool) else { return };
        let reason = format!("what other controllers stored in it cannot be taken over: {why}");
        self.set_unavailable(&closed.name, UnavailablePool::because(reason), Trouble::Absent);
        self.in_background(move || drop(closed));
        self.tell_access(plane);
    }

    /// Whether an administrator may ask for that here.
    ///
    /// # Errors
    /// When it changes what all controllers share, and another one has a pool.
    pub(super) fn check_controller(
        &self,
        plane: &DataPlane,
        route: Route,
        parameters: &Parameters,
    ) -> Result<(), Problem> {
        let is_of_this_daemon = matches!(
            route,
            Route::ResumePool
                | Route::SwitchPool
                | Route::PairControllers
                | Route::JoinController
                | Route::ForgetController
                | Route::SetMaintenance
                | Route::CreatePortal
                | Route::DeletePortal
                | Route::CloseSession
                | Route::SetAlerts
                | Route::TestAlerts
                | Route::CancelTask
                | Route::PauseTask
                | Route::ResumeTask
        );
        if !self.controller().is_one_of_several() || is_of_this_daemon || route.only_reads() {
            return Ok(());
        }
        let names = self.configuration.pools.keys();
        // It is recorded in that pool alone, so that whoever has the pool may change it.
        let may_change = self.is_of_own_pool(plane, route, parameters)
            || may_change(names.map(|name| self.standing(plane, name)))
            || self.has_turn(plane, route);
        if !may_change {
            return Err(self.at_another_controller(plane));
        }
        let mut names = self.configuration.pools.keys();
        match names.find(|name| self.is_settling(plane, name)) {
            Some(name) => Err(conflict(&format!(
                "pool '{name}' is just being opened or given up here, so that it is not known yet what \
                 other controllers changed: try again in a moment. Nothing was changed"
            ))),
            None => Ok(()),
        }
    }

    /// Which controllers are to be asked for a change, as far as they say on the link what they have.
    fn at_another_controller(&self, plane: &DataPlane) -> Problem {
        let mut owners = BTreeMap::<u16, Vec<&str>>::new();
        for (name, pool) in &self.configuration.pools {
            let is_elsewhere = self.standing(plane, name).access_state() == AccessState::Standby;
            if let Some(owner) = self.owner_by_link(&pool.uuid).filter(|_| is_elsewhere) {
                owners.entry(owner).or_default().push(name);
            }
        }
        let ask = owners.iter().map(|(number, pools)| {
            format!("controller {number}, which has pool {}", pools.join(", "))
        });
        let ask = ask.collect::<Vec<_>>().join(", or ");
        let ask = if ask.is_empty() { "that one" } else { &ask };
        conflict(&format!(
            "another controller has a pool of this array: ask {ask}, or give its pools to this one \
             ('gantry controller switch POOL' there). Nothing was changed"
        ))
    }

    /// Whether a pool may say soon that the array is another than this controller knows, or another
    /// controller is about to have it.
    fn is_settling(&self, plane: &DataPlane, name: &str) -> bool {
        let Some((slot, pool)) = plane.pool_named(name) else { return false };
        let is_opening =
            pool.health() == Health::Opening && !self.claims.is_claimed(name, Purpose::Create);
        is_opening || self.may_learn(plane, slot) || self.claims.is_claimed(name, Purpose::Switch)
    }

    /// A pool that may be given up now.
    ///
    /// # Errors
    /// When there is one controller, the pool does not serve, or something goes on in it.
    pub(super) fn check_switch(&self, plane: &DataPlane, name: &str) -> Result<PoolId, Problem> {
        if !self.controller().is_one_of_several() {
            return Err(conflict(
                &"this array has one controller: start gantryd with --controller and --peer-portal first",
            ));
        }
        let pool = self.ready_pool(plane, name)?;
        if self.works_on(pool) || !self.has_all_records(pool) {
            return Err(conflict(&format!("pool '{name}' is just changing: try again")));
        }
        Ok(pool)
    }

    /// Begins to give a pool up, so that another controller takes it.
    pub(super) fn switch_pool(
        &mut self,
        plane: &mut DataPlane,
        name: &str,
    ) -> Result<Progress, Problem> {
        let pool = self.check_switch(plane, name)?;
        self.claims.claim(name, Purpose::Switch)?;
        self.tell_access(plane);
        let ticket = plane.begin(pool, Change::Close).ok_or_else(gone)?;
        Ok(Progress::Wait(ticket, PoolStep::SwitchPool { pool }))
    }

    /// A pool that is given up is closed, cleanly or not.
    pub(super) fn pool_given_up(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        result: Result<Outcome, Failure>,
    ) -> Result<Progress, Problem> {
        if let Err(failure) = result {
            tracing::warn!(%failure, "a pool did not close cleanly");
        }
        let closed = self.stop_serving(plane, pool).ok_or_else(gone)?;
        let name = closed.name.clone();
        let reason = "it was given to another controller".to_owned();
        let there = closed.devices.iter().filter(|(_, open)| !open.is_lost).count();
        let configured = self.configuration.pools.get(&name);
        let reaches_all = configured.is_some_and(|pool| pool.devices.len() <= there);
        let unavailable = UnavailablePool { reaches_all, ..UnavailablePool::because(reason) };
        self.set_unavailable(&name, unavailable, Trouble::Held);
        self.reopening.postpone(&name, self.clock() + SWITCH_PATIENCE);
        self.in_background(move || drop(closed));
        self.tell_access(plane);
        self.inform(&name, "was given up for another controller".to_owned());
        self.show_pool(plane, &name)
    }
}
