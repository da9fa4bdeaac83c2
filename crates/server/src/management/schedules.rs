//! Runs of snapshot schedules, carried out as `control` decides.

use api::Problem;
use array::ArrayError;
use block::VolumeId;
use control::Effect;
use control::change::Touched;
use control::schedules::{Change, Run, Schedules, View};
use store::{Failure, Health, Outcome};

use super::problems::{failed, gone, internal, refused};
use super::{Management, Next, PoolStep, Progress, Work};
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
        pool.is_some_and(|(_, pool)| pool.health() == Health::Ready)
    }

    fn volume(&self, pool: &str, name: &str) -> Result<VolumeId, Problem> {
        self.management.find(self.plane, "volume", (pool, name)).map(|(_, id)| id)
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
        let mut draft = self.saving.draft();
        match change.apply(&mut draft.array) {
            Ok(()) => {
                let version = self.accept(draft, Touched::Nobody);
                self.begin(plane, Ok(Progress::Saved { version, next: Next::Schedule(change) }));
            }
            Err(error) => {
                let problem = refused(&error);
                self.decide(plane, |schedules, _| schedules.refused(change, problem));
            }
        }
    }

    /// A change that a schedule wanted is saved, or could not be.
    pub(super) fn saved_for_schedule(
        &mut self,
        plane: &mut DataPlane,
        change: Change,
        saved: Result<(), Problem>,
    ) {
        let array = self.configuration.clone();
        self.decide(plane, |schedules, view| schedules.saved(change, saved, &array, view));
    }

    /// What went wrong with a schedule is not its problem any more.
    pub(super) fn forget_schedule_problem(&mut self, name: &str) {
        self.schedules.forget(name);
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
