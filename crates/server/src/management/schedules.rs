//! Snapshot schedules, their retention, and snapshot locks.
//!
//! What a run is going to make is saved before it is made, with its locks: after a crash in between
//! nothing is left that is not known, and nothing unlocked that should be locked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use api::{LockSnapshot, Problem, SetSchedule, Severity};
use array::limits::SCHEDULE_SURPLUS_MAX;
use array::{
    ArrayError, Configuration, Due, Presentation, Schedule, ScheduleRecord, Secrets, VolumePath,
};
use block::VolumeId;
use store::{Change, Failure, Health, Outcome, VolumeSpec};

use super::problems::{bad_request, conflict, failed, gone, refused};
use super::snapshots::copy_spec;
use super::volumes::{is_snapshot, presentation_of_copy};
use super::{Management, Parameters, Progress, Step, Work, find};
use crate::core::Core;
use crate::events::now;
use crate::limits::EXPIRED_PER_RUN_MAX;
use crate::pool::Pool;
use crate::pools::PoolId;

impl Management {
    pub(super) fn lock_snapshot(
        &mut self,
        core: &Core,
        parameters: &Parameters,
        request: LockSnapshot,
    ) -> Result<Progress, Problem> {
        let (pool, name) = (parameters.get("pool"), parameters.get("snapshot"));
        let (slot, id) = find(core, "snapshot", pool, name)?;
        if !is_snapshot(core, slot, id) {
            return Err(conflict(&"this is a volume: only snapshots can be locked"));
        }
        self.check_stays(id)?;
        self.change_unseen(
            |array| array.lock_snapshot(pool, id, request.until, now()),
            move |management, core, ()| {
                let pool = core.pools.get(slot).ok_or_else(gone)?;
                let volume = pool.store.volume(id).ok_or_else(gone)?;
                Ok(Progress::answer(&management.snapshot(pool, volume)))
            },
        )
    }

    pub(super) fn set_schedule(
        &mut self,
        core: &Core,
        name: &str,
        request: &SetSchedule,
    ) -> Result<Progress, Problem> {
        let schedule = parse_schedule(request)?;
        for volume in &schedule.volumes {
            find(core, "volume", &schedule.pool, volume)?;
        }
        let name = name.to_owned();
        let change = |array: &mut Configuration| {
            array.set_schedule(&name, schedule, now())?;
            Ok(name)
        };
        self.change_unseen(change, |management, _, name| {
            management.schedule_problems.remove(&name);
            Ok(Progress::answer(&management.describe_schedule(&name)?))
        })
    }

    pub(super) fn delete_schedule(&mut self, name: &str) -> Result<Progress, Problem> {
        let change = |array: &mut Configuration| {
            array.delete_schedule(name)?;
            Ok(name.to_owned())
        };
        self.change_unseen(change, |management, _, name| {
            management.schedule_problems.remove(&name);
            Ok(Progress::done())
        })
    }

    /// Every schedule.
    pub(super) fn list_schedules(&self) -> Progress {
        let configuration = Arc::clone(&self.configuration);
        let problems = self.schedule_problems.clone();
        Progress::later(move || -> Vec<api::Schedule> {
            let schedules = configuration.schedules.iter();
            let described = schedules
                .map(|(name, record)| show_schedule(name, record, problems.get(name).cloned()));
            described.collect()
        })
    }

    pub(super) fn describe_schedule(&self, name: &str) -> Result<api::Schedule, Problem> {
        let record = self.configuration.schedule(name).map_err(|error| refused(&error))?;
        Ok(show_schedule(name, record, self.schedule_problems.get(name).cloned()))
    }

    /// The schedule that made a snapshot.
    pub(super) fn schedule_of(&self, snapshot: VolumeId) -> Option<&str> {
        let mut schedules = self.configuration.schedules.iter();
        schedules.find(|(_, record)| record.made(snapshot)).map(|(name, _)| name.as_str())
    }

    /// Begins the runs that are due, by what was accepted: a run that is just being saved has begun.
    pub(super) fn check_schedules(&mut self, core: &mut Core) {
        if self.closing || self.is_opening() {
            return;
        }
        let now = now();
        let all = self.saving.accepted().schedules.iter();
        let all: Vec<(String, Due)> =
            all.map(|(name, record)| (name.clone(), record.due(now))).collect();
        for (name, due) in all {
            match due {
                Due::NotYet => {}
                Due::ClockWentBack { moment } => {
                    let message = "the clock went back: runs are counted from now on".to_owned();
                    self.reach(core, &name, moment, Some(message));
                }
                Due::Run { moment, missed } if !self.is_running(&name) => {
                    self.run(core, &name, now, moment, missed);
                }
                // A run that takes longer than a period lets the next ones be missed.
                Due::Run { .. } => {}
            }
        }
    }

    fn is_opening(&self) -> bool {
        self.under_way.values().any(|work| matches!(work.step, Step::OpenPool { .. }))
    }

    fn is_running(&self, schedule: &str) -> bool {
        let is_this =
            |work: &Work| matches!(&work.step, Step::RunSchedule { name, .. } if name == schedule);
        self.under_way.values().any(is_this)
    }

    /// Begins one run in place of all that were missed.
    fn run(&mut self, core: &mut Core, name: &str, now: u64, moment: u64, missed: u64) {
        let warning = (missed > 0).then(|| {
            format!(
                "{missed} run(s) were missed, because the array was off or busy; \
                 they are not made up for"
            )
        });
        match self.begin_run(core, name, now, moment, warning.clone()) {
            Ok(progress) => self.begin(core, Ok(progress)),
            Err(problem) => {
                self.reach(core, name, moment, warning);
                self.schedule_failed(name, problem.detail);
            }
        }
    }

    /// Counts a run as begun, and warns of something once that is saved.
    fn reach(&mut self, core: &mut Core, name: &str, moment: u64, warning: Option<String>) {
        let change = |array: &mut Configuration| {
            array.schedule_reached(name, moment);
            Ok(name.to_owned())
        };
        let reached = self.change_unseen(change, |management, _, name| {
            management.warn_of_schedule(&name, warning);
            Ok(Progress::done())
        });
        self.begin(core, reached);
    }

    fn warn_of_schedule(&mut self, name: &str, warning: Option<String>) {
        if let Some(warning) = warning {
            self.note_schedule(Severity::Warning, name, warning);
        }
    }

    fn begin_run(
        &mut self,
        core: &Core,
        name: &str,
        now: u64,
        moment: u64,
        warning: Option<String>,
    ) -> Result<Progress, Problem> {
        let record = self.saving.accepted().schedule(name).map_err(|error| refused(&error))?;
        let schedule = record.schedule.clone();
        if record.runs().len() > SCHEDULE_SURPLUS_MAX + schedule.keep as usize {
            return Err(conflict(&format!(
                "{SCHEDULE_SURPLUS_MAX} runs beyond those to be kept are locked or mapped: \
                 unmap snapshots, lock them for a shorter time or run less often"
            )));
        }
        let pool = self.ready_pool(core, &schedule.pool)?;
        let members = members(core, name, &schedule, now)?;
        let ids: Vec<VolumeId> = members.iter().map(|(_, spec)| spec.id).collect();
        let made = ids.clone();
        let change = |array: &mut Configuration, _: &mut Secrets| {
            array.schedule_reached(name, moment);
            for (source, spec) in &members {
                let presentation = presentation_of_copy(array, *source);
                array.set_presentation(spec.id, presentation);
            }
            array.begin_run(name, now, &made)?;
            Ok(members)
        };
        let name = name.to_owned();
        self.change_or_not(change, move |management, core, saved| match saved {
            Ok(members) => {
                management.warn_of_schedule(&name, warning);
                let step = Step::RunSchedule { pool, name, ids };
                Self::wait_for(core, pool, Change::CloneVolumes(members), step)
            }
            Err(problem) => {
                management.schedule_failed(&name, problem.detail.clone());
                Err(problem)
            }
        })
    }

    pub(super) fn schedule_ran(
        &mut self,
        core: &mut Core,
        pool: PoolId,
        name: &str,
        ids: &[VolumeId],
        result: Result<Outcome, Failure>,
    ) -> Result<Progress, Problem> {
        match result {
            Ok(_) => {
                ids.iter().for_each(|&id| self.serve_volume(core, pool, id));
                self.prune(core, pool, name)
            }
            Err(failure) => {
                self.schedule_failed(name, failed(&failure).detail);
                self.forget_run(core, pool, name, ids);
                Ok(Progress::done())
            }
        }
    }

    /// Forgets snapshots that were not made. A pool that failed may hold them all the same.
    fn forget_run(&mut self, core: &mut Core, pool: PoolId, name: &str, ids: &[VolumeId]) {
        let Some(served) = core.pools.get(pool) else { return };
        if served.store.health() != Health::Ready || !self.is_in(name, &served.name) {
            return;
        }
        let there = volumes_of_runs(self.saving.accepted(), served, name);
        self.change_by_itself(core, |array| {
            array.prune_runs(name, |id| there.contains(&id));
            for &id in ids {
                array.set_presentation(id, Presentation::default());
            }
        });
    }

    /// Forgets snapshots of a schedule that are gone, then deletes what is not to be kept.
    fn prune(&mut self, core: &Core, pool: PoolId, name: &str) -> Result<Progress, Problem> {
        let served = core.pools.get(pool).ok_or_else(gone)?;
        if !self.is_in(name, &served.name) {
            return Ok(Progress::done());
        }
        let there = volumes_of_runs(self.saving.accepted(), served, name);
        let change = |array: &mut Configuration, _: &mut Secrets| {
            array.prune_runs(name, |id| there.contains(&id));
            Ok(())
        };
        let name = name.to_owned();
        self.change_or_not(change, move |management, core, saved| {
            match saved.and_then(|()| management.expire(core, pool, &name)) {
                Ok(()) => drop(management.schedule_problems.remove(&name)),
                Err(problem) => management.schedule_failed(&name, problem.detail),
            }
            Ok(Progress::done())
        })
    }

    /// Deletes the snapshots of the oldest runs of a schedule that are not to be kept.
    fn expire(&mut self, core: &mut Core, pool: PoolId, name: &str) -> Result<(), Problem> {
        let Ok(record) = self.configuration.schedule(name) else { return Ok(()) };
        let surplus: Vec<VolumeId> = record.surplus().take(EXPIRED_PER_RUN_MAX).collect();
        let mut mapped = None;
        for id in surplus {
            match self.check_deletable(id) {
                // Somebody else deletes it.
                Ok(()) if self.check_stays(id).is_err() => {}
                Ok(()) => {
                    let begun = self.begin_deletion(core, pool, id);
                    self.begin(core, begun);
                }
                Err(ArrayError::Locked { .. }) => {}
                Err(error) => mapped = Some((id, error)),
            }
        }
        match mapped {
            None => Ok(()),
            Some((id, error)) => Err(conflict(&format!(
                "{} is kept beyond its time: {error}",
                core.name_of(id).replace("volume ", "snapshot ")
            ))),
        }
    }

    /// Whether a schedule is, or still is, one of a pool.
    fn is_in(&self, name: &str, pool: &str) -> bool {
        let record = self.saving.accepted().schedule(name);
        record.is_ok_and(|record| record.schedule.pool == pool)
    }

    /// Keeps why a run failed, and tells it once as long as it is the same.
    fn schedule_failed(&mut self, name: &str, problem: String) {
        let before = self.schedule_problems.insert(name.to_owned(), problem.clone());
        if before.as_ref() != Some(&problem) {
            self.note_schedule(Severity::Error, name, problem);
        }
    }

    fn note_schedule(&mut self, severity: Severity, name: &str, message: String) {
        self.events.note(severity, format!("schedule {name}"), message);
    }
}

/// Those snapshots of a schedule's runs that the pool holds.
fn volumes_of_runs(array: &Configuration, pool: &Pool, name: &str) -> BTreeSet<VolumeId> {
    let runs = array.schedule(name).into_iter().flat_map(|record| record.runs());
    let snapshots = runs.flat_map(|run| run.snapshots());
    snapshots.filter(|&id| pool.store.volume(id).is_some()).collect()
}

/// The snapshots that a run is to make, and of which volumes.
fn members(
    core: &Core,
    name: &str,
    schedule: &Schedule,
    now: u64,
) -> Result<Vec<(VolumeId, VolumeSpec)>, Problem> {
    let moment = compact(now);
    let member = |volume: &String| {
        let (_, source) = find(core, "volume", &schedule.pool, volume)?;
        Ok((source, copy_spec(&schedule.snapshot_name(name, volume, &moment), true, false)?))
    };
    schedule.volumes.iter().map(member).collect()
}

/// Seconds since 1970 as YYYYMMDDThhmmssZ.
fn compact(seconds: u64) -> String {
    let moment = UNIX_EPOCH + Duration::from_secs(seconds);
    humantime::format_rfc3339_seconds(moment).to_string().replace(['-', ':'], "")
}

pub(super) fn parse_schedule(request: &SetSchedule) -> Result<Schedule, Problem> {
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

/// A schedule as it could be set again.
fn show_schedule(name: &str, record: &ScheduleRecord, problem: Option<String>) -> api::Schedule {
    let set = describe_schedule(&record.schedule);
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

pub(super) fn describe_schedule(schedule: &Schedule) -> SetSchedule {
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
mod tests {
    use super::*;

    #[test]
    fn moments_in_names_sort_as_they_follow_each_other() {
        assert_eq!(compact(0), "19700101T000000Z");
        assert_eq!(compact(1_795_247_849), "20261121T075729Z");
    }

    #[test]
    fn volumes_of_several_pools_have_several_schedules() {
        let request = |volumes: &[&str]| SetSchedule {
            volumes: volumes.iter().map(|&volume| volume.to_owned()).collect(),
            every_seconds: 60,
            offset_seconds: 0,
            keep: 1,
            lock_seconds: None,
            enabled: true,
        };
        for volumes in [&[][..], &["a"], &["p/a", "q/b"], &["p/a", "p/"], &["/a"]] {
            assert!(parse_schedule(&request(volumes)).is_err(), "{volumes:?}");
        }
        let set = request(&["p/a", "p/b"]);
        let schedule = parse_schedule(&set).unwrap();
        assert_eq!(describe_schedule(&schedule), set);
    }
}
