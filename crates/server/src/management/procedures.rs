//! Performs procedures of several steps as `control` decides: shows it volumes and pools, saves, has
//! pools change, and answers.

use api::Problem;
use array::{ArrayError, Configuration, PoolDevice};
use block::{DeviceName, VolumeId};
use control::devices::Joining;
use control::leftovers::Leftovers;
use control::mirror_joining::{self, JoiningMirror};
use control::pools::{self, Formatting, NewPool, PoolEffect};
use control::procedures::{
    AfterChange, AfterSave, Answer, Change, FoundPool, FoundVolume, JoinedDevice, Stage, View,
    Wait, check_deletable,
};
use control::reopening::Trouble;
use control::volume_lifecycle::VolumeEffect;
use control::volumes::is_going_problem;
use store::Health;

use super::departures::set_evacuation_rate;
use super::devices::growths_of;
use super::facts::Facts;
use super::jobs::Job;
use super::pools::UnavailablePool;
use super::problems::{gone, internal, refused};
use super::schedules::new_id;
use super::{Management, Next, PoolStep, Progress, Touched};
use crate::data_directory::random_uuid;
use crate::data_plane::DataPlane;
use crate::events::now;
use crate::exports::ExportEvent;
use crate::pool::{OpenDevice, Pool, remove_device};
use crate::pools::PoolId;
use crate::rod_token_spaces::hidden;

impl View for Facts<'_> {
    fn versions(&self) -> [&Configuration; 2] {
        self.management.versions()
    }

    fn ready(&self, pool: &str) -> Result<PoolId, Problem> {
        self.management.ready_pool(self.plane, pool)
    }

    fn find(
        &self,
        kind: &'static str,
        pool: &str,
        name: &str,
    ) -> Result<(PoolId, VolumeId), Problem> {
        self.management.find(self.plane, kind, (pool, name))
    }

    fn serves(&self, pool: PoolId) -> bool {
        let pool = self.plane.pools.get(pool);
        pool.is_some_and(|pool| pool.health() == Health::Ready)
    }

    fn volume(&self, pool: PoolId, id: VolumeId) -> Option<FoundVolume> {
        let volume = self.plane.pools.get(pool)?.store.volume(id)?;
        let (size_bytes, is_snapshot) = (volume.spec.size_bytes, volume.spec.snapshot);
        Some(FoundVolume { size_bytes, is_snapshot, origin: volume.origin })
    }

    fn is_going(&self, id: VolumeId) -> bool {
        self.management.is_going(id)
    }

    fn size_to_be(&self, id: VolumeId) -> Option<u64> {
        let sizes = self.management.changing().filter_map(AfterChange::sizes);
        sizes.filter(|sizing| sizing.id == id).map(|sizing| sizing.size_bytes).min()
    }

    fn new_id(&self) -> Result<VolumeId, Problem> {
        new_id()
    }

    fn pool(&self, name: &str) -> Option<FoundPool> {
        let (id, pool) = self.plane.pool_named(name)?;
        let joined = pool.store.mirrors().map(|status| JoinedDevice {
            number: status.device.into(),
            size_bytes: status.size_bytes,
        });
        let leaving = pool.store.evacuation().map(|status| status.device.into());
        Some(FoundPool {
            id,
            volumes: pool.store.volume_count() - hidden(&pool.store).count(),
            joined: joined.collect(),
            leaving,
            open_devices: pool.devices.iter().filter(|(_, open)| !open.is_lost).count(),
            is_joining: pool.joining,
            is_changing: self.management.works_on(id),
            has_mirrors: pool.mirrors().next().is_some(),
            is_opening: pool.health() == Health::Opening,
        })
    }

    fn is_unavailable(&self, pool: &str) -> bool {
        self.management.unavailable.contains_key(pool)
    }

    fn mirrors(&self, pool: PoolId) -> Vec<store::MirrorStatus> {
        let pool = self.plane.pools.get(pool);
        pool.map(|pool| pool.store.mirrors().collect()).unwrap_or_default()
    }

    fn open_devices(&self, pool: PoolId) -> Vec<DeviceName> {
        let pool = self.plane.pools.get(pool).into_iter();
        pool.flat_map(|pool| pool.devices.iter().map(|(_, open)| open.name.clone())).collect()
    }

    fn devices_in_use(&self, pool: PoolId) -> Vec<DeviceName> {
        let Some(pool) = self.plane.pools.get(pool) else { return Vec::new() };
        let [_, accepted] = self.management.versions();
        let mirroring = accepted.pools.get(&pool.name).map(|pool| &pool.mirroring);
        let members = pool.store.mirrors().flat_map(|mirror| mirror.members);
        let name = |member: store::MemberStatus| match member.slot {
            Some(slot) => pool.devices.get(slot.into()).map(|open| open.name.clone()),
            None => mirroring?.place_of(member.uuid).cloned(),
        };
        members.filter_map(name).collect()
    }

    fn places_of(&self, pool: PoolId, device: usize) -> Vec<usize> {
        let Some(pool) = self.plane.pools.get(pool) else { return Vec::new() };
        if pool.mirrors().next().is_none() {
            let place = |(slot, _): (u8, &OpenDevice)| pool.place_of_slot(slot);
            return pool.open_devices_of(device).filter_map(place).collect();
        }
        let configured = self.management.saving.accepted().pools.get(&pool.name);
        let configured = configured.map(|pool| pool.devices.as_slice()).unwrap_or_default();
        let place = |name: &DeviceName| configured.iter().position(|other| other.device == *name);
        pool.open_devices_of(device).filter_map(|(_, open)| place(&open.name)).collect()
    }

    fn is_held(&self, id: VolumeId) -> bool {
        self.plane.pools.iter().any(|(_, pool)| pool.store.volume(id).is_some())
    }

    fn check_free(&self, pool: &str) -> Result<(), Problem> {
        self.management.claims.check_free(pool)
    }

    fn is_stopping(&self) -> bool {
        self.management.closing
    }

    fn new_uuid(&self) -> Result<[u8; 16], Problem> {
        random_uuid().map_err(|error| internal(&error))
    }
}

impl Management {
    /// Begins what `control` makes of a request.
    pub(super) fn begin_procedure(
        &mut self,
        plane: &mut DataPlane,
        decision: impl FnOnce(&Facts<'_>) -> Result<Stage, Problem>,
    ) -> Result<Progress, Problem> {
        let stage = decision(&Facts::new(self, plane))?;
        self.take(plane, stage)
    }

    /// Performs the effects of a stage, and begins what it waits for.
    pub(super) fn take(
        &mut self,
        plane: &mut DataPlane,
        Stage { effects, wait }: Stage,
    ) -> Result<Progress, Problem> {
        self.perform(plane, effects);
        match wait {
            Wait::Save(change, then) => match self.check_addition(plane, &change) {
                Ok(()) => self.save_for(&change, then),
                Err(problem) => self.take(plane, then.saved(Err(problem))),
            },
            Wait::GiveAway(pool, then) if self.controller().is_one_of_several() => {
                self.give_away(plane, pool, PoolStep::Procedure { pool, then })
            }
            Wait::GiveAway(pool, then) => self.pool_changed(plane, pool, then, Ok(())),
            Wait::Change(pool, change, then) => match plane.begin(pool, change) {
                Some(ticket) => Ok(Progress::Wait(ticket, PoolStep::Procedure { pool, then })),
                None => self.pool_changed(plane, pool, then, Err(gone())),
            },
            Wait::Make(making, then) => Ok(Progress::Job(Job::Make { making, io: self.io, then })),
            Wait::Format(formatting, then) => Ok(self.format(plane, formatting, then)),
            Wait::Join(joining, then) => self.join(plane, joining, then),
            Wait::JoinMirror(joining) => self.join_mirror(plane, joining),
            Wait::Admit(admitting) => self.admit(plane, admitting),
            Wait::Grow(growing) => match growths_of(plane, &growing) {
                Ok(growths) => Ok(Progress::Job(Job::Grow { growths, growing })),
                Err(problem) => self.take(plane, growing.grown(Err(problem))),
            },
            Wait::End(answer) => self.show(plane, answer?),
        }
    }

    /// That a pool may be added still which began to be made a while ago.
    fn check_addition(&self, plane: &DataPlane, change: &Change) -> Result<(), Problem> {
        match change {
            Change::Pool(pools::Change::Add(..)) => self.check_turn_lasts(plane),
            Change::Pool(_) | Change::Volume(_) => Ok(()),
        }
    }

    /// Goes on when a pool has changed, or could not.
    pub(super) fn pool_changed(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        then: AfterChange,
        result: Result<(), Problem>,
    ) -> Result<Progress, Problem> {
        let stage = then.changed(pool, result, &Facts::new(self, plane));
        self.take(plane, stage)
    }

    fn format(
        &mut self,
        plane: &mut DataPlane,
        formatting: Formatting,
        then: AfterChange,
    ) -> Progress {
        let Formatting { pool: NewPool { name, configuration }, open, uuids, mirrors } = formatting;
        let opened = self.open_devices.remove(&open).unwrap_or_default();
        let devices = opened.into_iter().map(|open| open.device).zip(uuids).collect();
        let ticket = plane.new_ticket();
        let options = self.pool_options(self.configuration.pools.len() + 1);
        let devices = (devices, mirrors);
        let pool = Pool::create(&name, &configuration, options, devices, ticket.tag());
        let pool = plane.pools.insert(pool);
        Progress::Wait(ticket, PoolStep::Procedure { pool, then })
    }

    fn join(
        &mut self,
        plane: &mut DataPlane,
        joining: Joining,
        then: AfterChange,
    ) -> Result<Progress, Problem> {
        let Joining { pool, open, uuid } = joining;
        let opened = open.and_then(|open| self.open_devices.remove(&open)).unwrap_or_default();
        let ticket = plane.new_ticket();
        let Some(mut served) = plane.pools.get_mut(pool) else {
            return self.pool_changed(plane, pool, then, Err(gone()));
        };
        opened.into_iter().for_each(|open| served.devices.push(open));
        served.join_last_device(uuid, ticket.tag());
        Ok(Progress::Wait(ticket, PoolStep::Procedure { pool, then }))
    }

    fn join_mirror(
        &mut self,
        plane: &mut DataPlane,
        joining: JoiningMirror,
    ) -> Result<Progress, Problem> {
        let opened = joining.open.map(|open| self.open_devices.remove(&open).unwrap_or_default());
        let (pool, ticket) = (joining.pool, plane.new_ticket());
        let Some(mut served) = plane.pools.get_mut(pool) else {
            return self.pool_changed(plane, pool, AfterChange::JoinMirror(joining), Err(gone()));
        };
        let names = joining.members.iter().map(|member| &member.device);
        let places = match opened {
            Some(opened) => served.take_in(opened),
            None => served.unused_places(names),
        };
        match mirror_joining::change_of(&joining, &places) {
            Ok(change) => served.join_mirror(change, ticket.tag()),
            Err(problem) => {
                drop(served);
                let then = AfterChange::JoinMirror(joining);
                return self.pool_changed(plane, pool, then, Err(problem));
            }
        }
        let then = AfterChange::JoinMirror(joining);
        Ok(Progress::Wait(ticket, PoolStep::Procedure { pool, then }))
    }

    /// Has a change of the configuration saved.
    pub(super) fn save_for(
        &mut self,
        change: &Change,
        then: AfterSave,
    ) -> Result<Progress, Problem> {
        let mut draft = self.saving.draft();
        change.apply(&mut draft.array).map_err(|error| refused(&error))?;
        let touched = match change {
            Change::Volume(_) => Touched::Nobody,
            Change::Pool(_) => Touched::All,
        };
        let version = self.accept(draft, touched);
        Ok(Progress::Saved { version, next: Next::Procedure(then) })
    }

    /// What pools are just being asked to do for procedures.
    fn changing(&self) -> impl Iterator<Item = &AfterChange> {
        self.under_way.values().filter_map(|work| work.step.procedure())
    }

    /// What is in effect, and what was accepted.
    fn versions(&self) -> [&Configuration; 2] {
        [&self.configuration, self.saving.accepted()]
    }

    fn is_going(&self, id: VolumeId) -> bool {
        self.changing().any(|after| after.deletes() == Some(id))
    }

    /// Refuses what is asked of a volume or snapshot that is just being deleted.
    pub(super) fn check_stays(&self, id: VolumeId) -> Result<(), Problem> {
        if self.is_going(id) { Err(is_going_problem()) } else { Ok(()) }
    }

    /// Whether a volume or snapshot may be deleted, now and with what is about to be saved.
    pub(super) fn check_deletable(&self, id: VolumeId) -> Result<(), ArrayError> {
        check_deletable(id, now(), self.versions())
    }

    /// Whether somebody deletes a volume or snapshot of a pool.
    pub(super) fn deletes_in(&self, pool: PoolId) -> bool {
        let mut steps = self.under_way.values().map(|work| &work.step);
        let deletes = |then: &AfterChange| then.deletes().is_some();
        steps.any(|step| step.pool() == pool && step.procedure().is_some_and(deletes))
    }

    fn show(&self, plane: &DataPlane, answer: Answer) -> Result<Progress, Problem> {
        match answer {
            Answer::Done => Ok(Progress::done()),
            Answer::Volume(pool, id) => self.show_volume(plane, pool, id),
            Answer::Either(pool, id) => self.show_either(plane, pool, id),
            Answer::Snapshots(pool, ids) => self.show_snapshots(plane, pool, &ids),
            Answer::Pool(name) => self.show_pool(plane, &name),
        }
    }

    pub(super) fn perform_on_volume(&mut self, plane: &mut DataPlane, effect: VolumeEffect) {
        match effect {
            VolumeEffect::Serve(pool, id) => {
                self.serve_volume(plane, pool, id);
                self.note_made_volume(id);
            }
            VolumeEffect::Withdraw(pool, id) => self.withdraw_volume(plane, pool, id),
            VolumeEffect::Forget(pool, id) => {
                plane.detach(id);
                plane.unit_states.forget(id);
                self.forget_unit_record(id);
                if let Some(pool) = plane.pools.get(pool) {
                    self.look_at_reaper(pool);
                }
            }
            VolumeEffect::ShowAll => self.luns_changed = Touched::All,
            VolumeEffect::Deleted(pool, id, result) => self.relief_came(plane, pool, id, result),
        }
    }

    /// Hosts reach a volume no more; its name and what is known of copies from and to it are kept.
    fn withdraw_volume(&self, plane: &mut DataPlane, pool: PoolId, id: VolumeId) {
        let Some(served) = plane.pools.get(pool) else { return };
        let name = served.store.volume(id).map_or("", |volume| &volume.spec.name);
        let name = format!("{}/{name}", served.name);
        self.settle_copies(plane, id);
        plane.feed.keep_name(id, name);
        plane.exports.tell(&ExportEvent::Removed(id));
    }

    /// Forgets what is known of volumes that no pool holds, once all pools have been opened.
    pub(super) fn collect_leftovers(&mut self, plane: &mut DataPlane) {
        if !self.leftovers.is_looking() || self.is_busy() || !self.all_pools_serve(plane) {
            return;
        }
        let mut leftovers: Leftovers = std::mem::take(&mut self.leftovers);
        let exists = |id| plane.pools.iter().any(|(_, pool)| pool.store.volume(id).is_some());
        let change = leftovers.look(&self.configuration, exists);
        self.leftovers = leftovers;
        if let Some(change) = change {
            tracing::info!(?change, "entries of volumes that do not exist are forgotten");
            let saved = self.save_for(&Change::Volume(change), AfterSave::Forgotten);
            self.begin(plane, saved);
        }
    }

    pub(super) fn perform_on_pool(&mut self, plane: &mut DataPlane, effect: PoolEffect) {
        match effect {
            PoolEffect::Claim(name, purpose) => {
                // It was looked whether it is free.
                if let Err(problem) = self.claims.claim(&name, purpose) {
                    tracing::error!(problem = problem.detail, "a pool is claimed twice");
                }
            }
            PoolEffect::LookBelow(pool) => {
                if let Some(mut pool) = plane.pools.get_mut(pool) {
                    pool.look_at_backing();
                }
            }
            PoolEffect::Close(pool) => self.close_pool(plane, pool),
            PoolEffect::GiveUp(pool, devices) => {
                let closed = self.stop_serving(plane, pool);
                self.remove_devices(closed, devices);
            }
            PoolEffect::Discard(open, devices) => {
                let opened = self.open_devices.remove(&open);
                self.remove_devices(opened, devices);
            }
            PoolEffect::CloseUnused(pool, names) => {
                if let Some(mut pool) = plane.pools.get_mut(pool) {
                    pool.give_up_unused(&names);
                }
            }
            PoolEffect::RemoveFiles(devices) => self.remove_devices((), devices),
            PoolEffect::Extending(pool) => {
                if let Some(mut pool) = plane.pools.get_mut(pool) {
                    pool.store.set_extending(true);
                }
            }
            PoolEffect::Extended(pool) => {
                if let Some(mut pool) = plane.pools.get_mut(pool) {
                    pool.extension_ended();
                }
            }
            PoolEffect::Joined(pool) => {
                if let Some(mut pool) = plane.pools.get_mut(pool) {
                    pool.joining = false;
                    pool.store.set_extending(false);
                }
            }
            PoolEffect::Dismiss(pool, device) => {
                if let Some(mut pool) = plane.pools.get_mut(pool) {
                    let mut open = pool.devices.iter_mut();
                    let of_name = open.find(|(_, open)| open.name == device && !open.is_lost);
                    of_name.into_iter().for_each(|(_, open)| open.is_lost = true);
                }
            }
            PoolEffect::ReturnEnded(member, _) => {
                let now = self.clock();
                self.lost_members.ended(member, now);
            }
            PoolEffect::DepartureRate(pool, rate_bytes) => {
                set_evacuation_rate(plane, pool, rate_bytes);
            }
            PoolEffect::MirrorGone(uuid) => plane.witness.forget(&[uuid]),
            PoolEffect::Settle(pool) => self.settle_devices(plane, pool),
            PoolEffect::Unavailable(name, reason) => {
                self.set_unavailable(&name, UnavailablePool::because(reason), Trouble::Absent);
            }
            PoolEffect::Forgotten(name) => {
                self.forget_unavailable(plane, &name);
                self.note_journal_loss(&name, false);
                self.peers.giving_away.note_left(&name);
            }
        }
    }

    /// Serves a pool no more, and forgets its mirrors unless the daemon stops.
    fn close_pool(&mut self, plane: &mut DataPlane, pool: PoolId) {
        let closed = self.stop_serving(plane, pool);
        if let Some(closed) = closed.as_ref().filter(|_| !self.closing) {
            plane.witness.forget(&closed.mirror_names());
        }
        self.in_background(move || drop(closed));
    }

    /// Closes what is open, and removes files of devices, in another thread: both may take as long as
    /// a device that stalls.
    fn remove_devices<T: Send + 'static>(&mut self, open: T, devices: Vec<PoolDevice>) {
        self.in_background(move || {
            drop(open);
            devices.iter().for_each(remove_device);
        });
    }

    fn all_pools_serve(&self, plane: &DataPlane) -> bool {
        let serves = |name: &String| {
            let pool = plane.pool_named(name);
            pool.is_some_and(|(_, pool)| pool.health() == Health::Ready)
        };
        self.unavailable.is_empty() && self.configuration.pools.keys().all(serves)
    }
}
