//! Routes of snapshot schedules and snapshot locks; and the runs of schedules carried out as `control`
//! decides.

use api::{LockSnapshot, Problem, SetSchedule};
use array::{ArrayError, Configuration};
use block::VolumeId;
use control::Effect;
use control::schedules::{self, Change, Run, Schedules, View};
use store::{Failure, Health, Outcome};

use super::problems::{conflict, failed, gone, internal};
use super::volumes::is_snapshot;
use super::{Management, Parameters, PoolStep, Progress, Touched, Work, find};
use crate::data_directory::random_u64;
use crate::data_plane::DataPlane;
use crate::events::now;
use crate::pools::PoolId;

/// What schedules have to know.
struct Pools<'a> {
    management: &'a Management,
    plane: &'a DataPlane,
}

impl View for Pools<'_> {
    fn ready(&self, pool: &str) -> Result<(), Problem> {
        self.management.ready_pool(self.plane, pool).map(drop)
    }

    fn serves(&self, pool: &str) -> bool {
        let pool = self.plane.pool_named(pool);
        pool.is_some_and(|(_, pool)| pool.store.health() == Health::Ready)
    }

    fn volume(&self, pool: &str, name: &str) -> Result<VolumeId, Problem> {
        find(self.plane, "volume", pool, name).map(|(_, id)| id)
    }

    fn holds(&self, pool: &str, id: VolumeId) -> bool {
        let pool = self.plane.pool_named(pool);
        pool.is_some_and(|(_, pool)| pool.store.volume(id).is_some())
    }

    fn deletable(&self, id: VolumeId) -> Result<(), ArrayError> {
        self.management.check_deletable(id)
    }

    fn is_going(&self, id: VolumeId) -> bool {
        self.management.check_stays(id).is_err()
    }

    fn is_running(&self, schedule: &str) -> bool {
        let is_this = |work: &Work| matches!(&work.step, PoolStep::RunSchedule { run, .. } if run.schedule == schedule);
        self.management.under_way.values().any(is_this)
    }

    fn name_of(&self, snapshot: VolumeId) -> String {
        self.plane.name_of(snapshot).replace("volume ", "snapshot ")
    }

    fn new_id(&self) -> Result<VolumeId, Problem> {
        new_id()
    }
}

/// An identifier that no volume has.
pub(super) fn new_id() -> Result<VolumeId, Problem> {
    random_u64().map(VolumeId).map_err(|error| internal(&error))
}

impl Management {
    pub(super) fn lock_snapshot(
        &mut self,
        plane: &DataPlane,
        parameters: &Parameters,
        request: LockSnapshot,
    ) -> Result<Progress, Problem> {
        let (pool, name) = (parameters.get("pool"), parameters.get("snapshot"));
        let (slot, id) = find(plane, "snapshot", pool, name)?;
        if !is_snapshot(plane, slot, id) {
            return Err(conflict(&"this is a volume: only snapshots can be locked"));
        }
        self.check_stays(id)?;
        self.change_unseen(
            |array| array.lock_snapshot(pool, id, request.until, now()),
            move |management, plane, ()| {
                let pool = plane.pools.get(slot).ok_or_else(gone)?;
                let volume = pool.store.volume(id).ok_or_else(gone)?;
                Ok(Progress::answer(&management.snapshot(pool, volume)))
            },
        )
    }

    pub(super) fn set_schedule(
        &mut self,
        plane: &DataPlane,
        name: &str,
        request: &SetSchedule,
    ) -> Result<Progress, Problem> {
        let schedule = schedules::parse(request)?;
        for volume in &schedule.volumes {
            find(plane, "volume", &schedule.pool, volume)?;
        }
        let name = name.to_owned();
        let change = |array: &mut Configuration| {
            array.set_schedule(&name, schedule, now())?;
            Ok(name)
        };
        self.change_unseen(change, |management, _, name| {
            management.schedules.forget(&name);
            Ok(Progress::answer(&management.describe_schedule(&name)?))
        })
    }

    pub(super) fn delete_schedule(&mut self, name: &str) -> Result<Progress, Problem> {
        let change = |array: &mut Configuration| {
            array.delete_schedule(name)?;
            Ok(name.to_owned())
        };
        self.change_unseen(change, |management, _, name| {
            management.schedules.forget(&name);
            Ok(Progress::done())
        })
    }

    /// Every schedule.
    pub(super) fn list_schedules(&self) -> Progress {
        Progress::later(self.schedules.describe_all(self.configuration.clone()))
    }

    pub(super) fn describe_schedule(&self, name: &str) -> Result<api::Schedule, Problem> {
        self.schedules.describe(&self.configuration, name)
    }

    /// The schedule that made a snapshot.
    pub(super) fn schedule_of(&self, snapshot: VolumeId) -> Option<&str> {
        let mut schedules = self.configuration.schedules.iter();
        schedules.find(|(_, record)| record.made(snapshot)).map(|(name, _)| name.as_str())
    }

    /// Begins the runs that are due, by what was accepted: a run that is just being saved has begun.
    pub(super) fn check_schedules(&mut self, plane: &mut DataPlane) {
        if self.closing || self.is_opening() {
            return;
        }
        let array = self.saving.next();
        self.decide(plane, |schedules, view| schedules.look(now(), &array, view));
    }

    fn is_opening(&self) -> bool {
        self.under_way.values().any(|work| matches!(work.step, PoolStep::OpenPool { .. }))
    }

    /// Performs what schedules come to.
    fn decide(
        &mut self,
        plane: &mut DataPlane,
        decision: impl FnOnce(&mut Schedules, &Pools<'_>) -> Vec<Effect>,
    ) {
        let mut schedules = std::mem::take(&mut self.schedules);
        let effects = decision(&mut schedules, &Pools { management: self, plane });
        self.schedules = schedules;
        self.perform(plane, effects);
    }

    /// Makes a change for a schedule, which is told how that went.
    pub(super) fn save_for_schedule(&mut self, plane: &mut DataPlane, change: Change) {
        let (made, told) = (change.clone(), change.clone());
        let outcome = self.change_touching(
            Touched::Nobody,
            move |array, _| made.apply(array),
            move |management, plane, saved| {
                let array = management.configuration.clone();
                management
                    .decide(plane, |schedules, view| schedules.saved(told, saved, &array, view));
                Ok(Progress::done())
            },
        );
        match outcome {
            Ok(progress) => self.begin(plane, Ok(progress)),
            Err(problem) => self.decide(plane, |schedules, _| schedules.refused(change, problem)),
        }
    }

    /// Has a pool make the snapshots of a run.
    pub(super) fn begin_run(&mut self, plane: &mut DataPlane, run: Run) {
        let members = run.members().to_vec();
        let begun = plane.pool_named(&run.pool).map(|(pool, _)| pool).ok_or_else(gone);
        let begun = begun.and_then(|pool| {
            let step = PoolStep::RunSchedule { pool, run: run.clone() };
            Self::wait_for(plane, pool, store::Change::CloneVolumes(members), step)
        });
        match begun {
            Ok(progress) => self.begin(plane, Ok(progress)),
            Err(problem) => self.run_ended(plane, run, Err(problem)),
        }
    }

    pub(super) fn schedule_ran(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        run: Run,
        result: Result<Outcome, Failure>,
    ) -> Progress {
        if result.is_ok() {
            run.snapshots().for_each(|id| self.serve_volume(plane, pool, id));
        }
        let result = result.map(drop).map_err(|failure| failed(&failure));
        self.run_ended(plane, run, result);
        Progress::done()
    }

    fn run_ended(&mut self, plane: &mut DataPlane, run: Run, result: Result<(), Problem>) {
        let array = self.saving.next();
        self.decide(plane, |schedules, view| schedules.made(run, result, &array, view));
    }
}
