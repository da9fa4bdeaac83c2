//! Snapshot schedules: which runs are due, what a run makes, and which snapshots of earlier runs
//! expire.
//!
//! What a run is going to make is saved before it is made, with its locks: after a crash in between
//! nothing is left that is not known, and nothing unlocked that should be locked.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::{Problem, SetSchedule, Severity};
use array::limits::SCHEDULE_SURPLUS_MAX;
use array::{ArrayError, Configuration, Due, Presentation, Schedule, ScheduleRecord, VolumePath};
use block::VolumeId;
use hashbrown::HashMap;
use store::VolumeSpec;

use crate::change::{self, Answer, Applied, ConfigurationChange, Draft, Touched};
use crate::limits::EXPIRED_PER_RUN_MAX;
use crate::problems::{bad_request, conflict, refused};
use crate::snapshots::{Copy, copy_spec, presentation_of_copy};
use crate::{Deletion, Effect, Forgotten};

/// What a schedule has to know of the pools, and of what is under way.
pub trait View {
    /// Whether a pool takes changes.
    ///
    /// # Errors
    /// Why it does not.
    fn ready(&self, pool: &str) -> Result<(), Problem>;

    /// Whether a pool is open and takes writes, whatever else is under way there.
    fn serves(&self, pool: &str) -> bool;

    /// The volume of that name.
    ///
    /// # Errors
    /// Why there is none to be had.
    fn volume(&self, pool: &str, name: &str) -> Result<VolumeId, Problem>;

    /// Whether a pool that serves holds a volume or snapshot.
    fn holds(&self, pool: &str, id: VolumeId) -> bool;

    /// Whether nobody keeps a volume or snapshot.
    ///
    /// # Errors
    /// Who keeps it: a lock, or a LUN map.
    fn deletable(&self, id: VolumeId) -> Result<(), ArrayError>;

    /// Whether a volume or snapshot is just being deleted.
    fn is_going(&self, id: VolumeId) -> bool;

    /// Whether snapshots of a schedule are just being made.
    fn is_running(&self, schedule: &str) -> bool;

    /// 'snapshot POOL/NAME', as messages name it.
    fn name_of(&self, snapshot: VolumeId) -> String;

    /// An identifier that no volume has, drawn at random.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    fn new_id(&self) -> Result<VolumeId, Problem>;
}

/// Snapshots of one moment that a schedule is to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its name.
    pub schedule: String,
    /// The pool of its volumes.
    pub pool: String,
    /// When it begins, seconds since 1970.
    time: u64,
    /// The moment that was due, at which it counts as begun.
    moment: u64,
    /// What is to be said about runs that were missed.
    warning: Option<String>,
    /// Each volume, and the snapshot of it.
    members: Vec<(VolumeId, VolumeSpec)>,
}

impl Run {
    /// Each volume, and the snapshot of it that is to be made.
    pub fn members(&self) -> &[(VolumeId, VolumeSpec)] {
        &self.members
    }

    /// The snapshots.
    pub fn snapshots(&self) -> impl Iterator<Item = VolumeId> {
        self.members.iter().map(|(_, spec)| spec.id)
    }
}

/// A change of the configuration that nobody sees by LUNs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A run is about to be made: its snapshots, their presentations and locks are known from now on.
    Begin(Run),
    /// Runs up to a moment count as begun; then a warning is noted.
    Reach {
        /// The name of the schedule.
        schedule: String,
        /// Seconds since 1970.
        moment: u64,
        /// What is to be said.
        warning: String,
    },
    /// A run begins no more, for the reason that was noted already.
    Skip {
        /// The name of the schedule.
        schedule: String,
        /// Seconds since 1970.
        moment: u64,
    },
    /// Snapshots that were not made are forgotten, and those of the schedule that are gone.
    Undo {
        /// The run that failed.
        run: Run,
        /// What of the schedule its pool holds.
        there: BTreeSet<VolumeId>,
    },
    /// Snapshots of a schedule that are gone are forgotten; then what is not to be kept is deleted.
    Prune {
        /// The name of the schedule.
        schedule: String,
        /// The pool of its volumes.
        pool: String,
        /// What of the schedule the pool holds.
        there: BTreeSet<VolumeId>,
    },
}

/// What an administrator changes about schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A schedule is made, or runs otherwise from now on.
    Set(String, Schedule),
    /// There is no such schedule any more; its snapshots stay.
    Delete(String),
}

/// Reads the request for a schedule.
///
/// # Errors
/// When its volumes are not of one pool.
pub fn set(name: &str, request: &SetSchedule) -> Result<Setting, Problem> {
    Ok(Setting::Set(name.to_owned(), parse(request)?))
}

impl ConfigurationChange for Setting {
    fn apply(
        &self,
        draft: &mut Draft,
        now: u64,
        view: &dyn change::View,
    ) -> Result<Applied, Problem> {
        let array = &mut draft.array;
        let (name, answer) = match self {
            Self::Set(name, schedule) => {
                for volume in &schedule.volumes {
                    view.volume(&schedule.pool, volume)?;
                }
                array.set_schedule(name, schedule.clone(), now).map_err(|error| refused(&error))?;
                let record = array.schedule(name).map_err(|error| refused(&error))?;
                (name, Answer::of(&show(name, record, None))?)
            }
            Self::Delete(name) => {
                array.delete_schedule(name).map_err(|error| refused(&error))?;
                (name, Answer::DONE)
            }
        };
        let forget = Effect::Forget(Forgotten::ScheduleProblem(name.clone()));
        Ok(Applied::new(Touched::Nobody, answer).with(vec![forget]))
    }
}

impl Change {
    /// Makes the change.
    ///
    /// # Errors
    /// When a lock of a new snapshot is out of range, or the schedule is gone.
    pub fn apply(&self, array: &mut Configuration) -> Result<(), ArrayError> {
        match self {
            Self::Begin(run) => {
                array.schedule_reached(&run.schedule, run.moment);
                for (source, spec) in &run.members {
                    let presentation = presentation_of_copy(array, *source);
                    array.set_presentation(spec.id, presentation);
                }
                let ids: Vec<VolumeId> = run.snapshots().collect();
                array.begin_run(&run.schedule, run.time, &ids)?;
            }
            Self::Reach { schedule, moment, .. } | Self::Skip { schedule, moment } => {
                array.schedule_reached(schedule, *moment);
            }
            Self::Undo { run, there } => {
                array.prune_runs(&run.schedule, |id| there.contains(&id));
                for id in run.snapshots() {
                    array.set_presentation(id, Presentation::default());
                }
            }
            Self::Prune { schedule, there, .. } => {
                array.prune_runs(schedule, |id| there.contains(&id));
            }
        }
        Ok(())
    }
}

/// What went wrong with the last run of each schedule, where something did.
#[derive(Debug, Default)]
pub struct Schedules {
    problems: HashMap<String, String>,
}

impl Schedules {
    /// Begins the runs that are due: one in place of all that were missed. `array` is what was
    /// accepted, saved or not: a run that is just being saved has begun.
    pub fn look(&mut self, now: u64, array: &Configuration, view: &impl View) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (name, record) in &array.schedules {
            match record.due(now) {
                Due::NotYet => {}
                Due::ClockWentBack { moment } => {
                    let warning = "the clock went back: runs are counted from now on".to_owned();
                    let schedule = name.clone();
                    effects.push(Effect::Save(Change::Reach { schedule, moment, warning }));
                }
                Due::Run { moment, missed } if !view.is_running(name) => {
                    let warning = (missed > 0).then(|| missed_runs(missed));
                    match plan((name, record), now, moment, view) {
                        Ok(run) => {
                            effects.push(Effect::Save(Change::Begin(Run { warning, ..run })));
                        }
                        Err(problem) => {
                            effects.extend(self.not_begun(name, moment, warning, problem));
                        }
                    }
                }
                // A run that takes longer than a period lets the next ones be missed.
                Due::Run { .. } => {}
            }
        }
        effects
    }

    /// A run cannot begin: the moment counts as dealt with, and why is told.
    fn not_begun(
        &mut self,
        name: &str,
        moment: u64,
        warning: Option<String>,
        problem: Problem,
    ) -> Vec<Effect> {
        let schedule = name.to_owned();
        let change = match warning {
            Some(warning) => Change::Reach { schedule, moment, warning },
            None => Change::Skip { schedule, moment },
        };
        let failed = self.failed(name, problem.detail);
        std::iter::once(Effect::Save(change)).chain(failed).collect()
    }

    /// A change is in effect, or could neither be made nor saved.
    pub fn saved(
        &mut self,
        change: Change,
        result: Result<(), Problem>,
        array: &Configuration,
        view: &impl View,
    ) -> Vec<Effect> {
        match (change, result) {
            (Change::Begin(run), Ok(())) => {
                let warning = run.warning.clone().map(|text| warn(&run.schedule, text));
                warning.into_iter().chain([Effect::Snapshot(run)]).collect()
            }
            (Change::Begin(run), Err(problem)) => self.failed(&run.schedule, problem.detail),
            (Change::Reach { schedule, warning, .. }, Ok(())) => vec![warn(&schedule, warning)],
            (Change::Prune { schedule, pool, .. }, Ok(())) => {
                self.expire(&schedule, &pool, array, view)
            }
            (Change::Prune { schedule, .. }, Err(problem)) => {
                self.failed(&schedule, problem.detail)
            }
            (Change::Skip { .. } | Change::Undo { .. }, Ok(()))
            | (Change::Reach { .. } | Change::Skip { .. } | Change::Undo { .. }, Err(_)) => {
                Vec::new()
            }
        }
    }

    /// The configuration refuses a change: a run that would begin does not.
    pub fn refused(&mut self, change: Change, problem: Problem) -> Vec<Effect> {
        match change {
            Change::Begin(run) => self.not_begun(&run.schedule, run.moment, run.warning, problem),
            Change::Reach { .. }
            | Change::Skip { .. }
            | Change::Undo { .. }
            | Change::Prune { .. } => Vec::new(),
        }
    }

    /// The pool has made the snapshots of a run, or could not. `array` is what was accepted.
    pub fn made(
        &mut self,
        run: Run,
        result: Result<(), Problem>,
        array: &Configuration,
        view: &impl View,
    ) -> Vec<Effect> {
        let mut effects = match &result {
            Ok(()) => Vec::new(),
            Err(problem) => self.failed(&run.schedule, problem.detail.clone()),
        };
        // What a pool holds that failed, or is gone, is not known.
        if !is_in(array, &run.schedule, &run.pool) || !view.serves(&run.pool) {
            return effects;
        }
        let there = held(array, &run.schedule, &run.pool, view);
        effects.push(Effect::Save(match result {
            Ok(()) => Change::Prune { schedule: run.schedule, pool: run.pool, there },
            Err(_) => Change::Undo { run, there },
        }));
        effects
    }

    /// Deletes the snapshots of the oldest runs of a schedule that are not to be kept.
    fn expire(
        &mut self,
        name: &str,
        pool: &str,
        array: &Configuration,
        view: &impl View,
    ) -> Vec<Effect> {
        let Ok(record) = array.schedule(name) else { return Vec::new() };
        let mut effects = Vec::new();
        let mut mapped = None;
        for id in record.surplus().take(EXPIRED_PER_RUN_MAX) {
            match view.deletable(id) {
                // Somebody else deletes it.
                Ok(()) if view.is_going(id) => {}
                Ok(()) => effects.push(Effect::Delete(Deletion { pool: pool.to_owned(), id })),
                Err(ArrayError::Locked { .. }) => {}
                Err(error) => mapped = Some((id, error)),
            }
        }
        match mapped {
            None => drop(self.problems.remove(name)),
            Some((id, error)) => {
                let problem = format!("{} is kept beyond its time: {error}", view.name_of(id));
                effects.extend(self.failed(name, problem));
            }
        }
        effects
    }

    /// Keeps why a run failed, and tells it once as long as it is the same.
    fn failed(&mut self, name: &str, problem: String) -> Vec<Effect> {
        let before = self.problems.insert(name.to_owned(), problem.clone());
        if before.as_ref() == Some(&problem) {
            return Vec::new();
        }
        vec![Effect::note(Severity::Error, format!("schedule {name}"), problem)]
    }

    /// A schedule was set anew or deleted: what went wrong before is not its problem any more.
    pub fn forget(&mut self, name: &str) {
        self.problems.remove(name);
    }

    /// Every schedule, as administrators see it, made from values that another thread may have.
    pub fn describe_all(
        &self,
        array: Arc<Configuration>,
    ) -> impl FnOnce() -> Vec<api::Schedule> + Send + 'static {
        let problems = self.problems.clone();
        move || {
            let schedules = array.schedules.iter();
            schedules
                .map(|(name, record)| show(name, record, problems.get(name).cloned()))
                .collect()
        }
    }

    /// One schedule, as administrators see it.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn describe(&self, array: &Configuration, name: &str) -> Result<api::Schedule, Problem> {
        let record = array.schedule(name).map_err(|error| refused(&error))?;
        Ok(show(name, record, self.problems.get(name).cloned()))
    }
}

fn missed_runs(missed: u64) -> String {
    format!(
        "{missed} run(s) were missed, because the array was off or busy; they are not made up for"
    )
}

/// Seconds since 1970 as YYYYMMDDThhmmssZ.
fn compact(seconds: u64) -> String {
    notation::format_time(seconds).replace(['-', ':'], "").replace(' ', "T")
}

fn warn(schedule: &str, text: String) -> Effect {
    Effect::note(Severity::Warning, format!("schedule {schedule}"), text)
}

/// What a run is to make.
fn plan(
    (name, record): (&str, &ScheduleRecord),
    now: u64,
    moment: u64,
    view: &impl View,
) -> Result<Run, Problem> {
    let schedule = &record.schedule;
    if record.runs().len() > SCHEDULE_SURPLUS_MAX + schedule.keep as usize {
        return Err(conflict(&format!(
            "{SCHEDULE_SURPLUS_MAX} runs beyond those to be kept are locked or mapped: \
             unmap snapshots, lock them for a shorter time or run less often"
        )));
    }
    view.ready(&schedule.pool)?;
    let text = compact(now);
    let member = |volume: &String| {
        let source = view.volume(&schedule.pool, volume)?;
        let snapshot = schedule.snapshot_name(name, volume, &text);
        Ok((source, copy_spec(&snapshot, Copy::Snapshot, view.new_id()?, now)?))
    };
    let members = schedule.volumes.iter().map(member).collect::<Result<_, Problem>>()?;
    let (schedule, pool) = (name.to_owned(), schedule.pool.clone());
    Ok(Run { schedule, pool, time: now, moment, warning: None, members })
}

/// Whether a schedule is, or still is, one of a pool.
fn is_in(array: &Configuration, name: &str, pool: &str) -> bool {
    array.schedule(name).is_ok_and(|record| record.schedule.pool == pool)
}

/// Those snapshots of a schedule's runs that the pool holds.
fn held(array: &Configuration, name: &str, pool: &str, view: &impl View) -> BTreeSet<VolumeId> {
    let runs = array.schedule(name).into_iter().flat_map(|record| record.runs());
    let snapshots = runs.flat_map(|run| run.snapshots());
    snapshots.filter(|&id| view.holds(pool, id)).collect()
}

/// Reads a schedule as administrators set it.
///
/// # Errors
/// When its volumes are not of one pool.
pub fn parse(request: &SetSchedule) -> Result<Schedule, Problem> {
    let paths = request.volumes.iter().map(|path| path.parse::<VolumePath>());
    let paths = paths.collect::<Result<Vec<_>, _>>().map_err(|error| refused(&error))?;
    let pool = paths.first().map(|path| path.pool.clone()).unwrap_or_default();
    if paths.is_empty() || paths.iter().any(|path| path.pool != pool) {
        return Err(bad_request(
            &"a schedule takes snapshots of volumes of one pool: make one schedule for each pool",
        ));
    }
    Ok(Schedule {
        pool,
        volumes: paths.into_iter().map(|path| path.volume).collect(),
        every_seconds: request.every_seconds,
        offset_seconds: request.offset_seconds,
        keep: request.keep,
        lock_seconds: request.lock_seconds,
        enabled: request.enabled,
    })
}

fn show(name: &str, record: &ScheduleRecord, problem: Option<String>) -> api::Schedule {
    let set = settings(&record.schedule);
    api::Schedule {
        name: name.to_owned(),
        volumes: set.volumes,
        every_seconds: set.every_seconds,
        offset_seconds: set.offset_seconds,
        keep: set.keep,
        lock_seconds: set.lock_seconds,
        enabled: set.enabled,
        next: record.next(),
        last: record.runs().last().map(|run| run.time),
        snapshots: record.runs().iter().map(|run| run.snapshots().count()).sum(),
        problem,
    }
}

/// A schedule as it could be set again.
pub fn settings(schedule: &Schedule) -> SetSchedule {
    let path = |volume: &String| format!("{}/{volume}", schedule.pool);
    SetSchedule {
        volumes: schedule.volumes.iter().map(path).collect(),
        every_seconds: schedule.every_seconds,
        offset_seconds: schedule.offset_seconds,
        keep: schedule.keep,
        lock_seconds: schedule.lock_seconds,
        enabled: schedule.enabled,
    }
}

#[cfg(test)]
mod tests;
