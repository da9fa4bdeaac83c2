//! Snapshot schedules: when the next snapshots are due, and which snapshots a schedule made.

use std::collections::BTreeSet;

use block::VolumeId;
use serde::{Deserialize, Serialize};

use super::Configuration;
use crate::limits::{
    LOCK_SECONDS_MAX, NAME_BYTES_MAX, SCHEDULE_KEEP_MAX, SCHEDULE_SECONDS_MAX,
    SCHEDULE_VOLUMES_MAX, SCHEDULES_MAX,
};
use crate::{ArrayError, check_name};

/// Bytes of '-YYYYMMDDThhmmssZ'.
const MOMENT_BYTES: usize = 17;

/// Settings of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The pool of its volumes.
    pub pool: String,
    /// Names of volumes of that pool, whose snapshots are of one moment; 1 to 256.
    pub volumes: BTreeSet<String>,
    /// Seconds from one run to the next, 1 to ten years. Runs are at multiples of it, counted from
    /// 1970-01-01 00:00 UTC.
    pub every_seconds: u64,
    /// Seconds by which runs are later than those multiples; less than `every_seconds`.
    #[serde(default)]
    pub offset_seconds: u64,
    /// Runs whose snapshots are kept, 1 to 1,000.
    pub keep: u32,
    /// Seconds for which new snapshots are locked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_seconds: Option<u64>,
    /// Whether it runs.
    pub enabled: bool,
}

/// A schedule, and what became of it so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleRecord {
    /// Its settings.
    pub schedule: Schedule,
    /// The last moment that was due and dealt with, seconds since 1970.
    reached: u64,
    /// Runs of which snapshots may still exist, oldest first.
    runs: Vec<Run>,
}

/// Snapshots that a schedule made at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// When, seconds since 1970.
    pub time: u64,
    /// Their identifiers.
    snapshots: Vec<u64>,
}

/// Action that is due for a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    NotYet,
    /// The run that was due at `moment`. Of `missed` earlier ones it is too late.
    Run {
        /// Seconds since 1970.
        moment: u64,
        /// How many.
        missed: u64,
    },
    /// The clock went back by more than one period: count from `moment` on.
    ClockWentBack {
        /// Seconds since 1970.
        moment: u64,
    },
}

impl Schedule {
    /// Checks everything but whether the volumes exist.
    ///
    /// # Errors
    /// A value out of its range, or a name that would be too long for a snapshot.
    pub fn check(&self, name: &str) -> Result<(), ArrayError> {
        check_name(name)?;
        check_name(&self.pool)?;
        self.volumes.iter().try_for_each(|volume| check_name(volume))?;
        let invalid = |reason: &'static str| Err(ArrayError::InvalidSchedule(reason));
        if !(1..=SCHEDULE_VOLUMES_MAX).contains(&self.volumes.len()) {
            return invalid("it takes snapshots of 1 to 256 volumes of one pool");
        }
        if !(1..=SCHEDULE_SECONDS_MAX).contains(&self.every_seconds) {
            return invalid("it runs every second at most, and every ten years at least");
        }
        if self.offset_seconds >= self.every_seconds {
            return invalid("its offset is shorter than the time between two runs");
        }
        if !(1..=SCHEDULE_KEEP_MAX).contains(&self.keep) {
            return invalid("it keeps the snapshots of 1 to 1000 runs");
        }
        if self.lock_seconds.is_some_and(|seconds| !(1..=LOCK_SECONDS_MAX).contains(&seconds)) {
            return invalid("it locks snapshots for a second at least, and for 100 years at most");
        }
        let longest = self.volumes.iter().map(|volume| self.prefix(name, volume).len()).max();
        if longest.unwrap_or_default() + MOMENT_BYTES > NAME_BYTES_MAX {
            return invalid("the names of its snapshots would be too long: choose a shorter name");
        }
        Ok(())
    }

    /// The name of a volume's snapshot. `moment` is the time as YYYYMMDDThhmmssZ.
    pub fn snapshot_name(&self, name: &str, volume: &str, moment: &str) -> String {
        format!("{}-{moment}", self.prefix(name, volume))
    }

    fn prefix(&self, name: &str, volume: &str) -> String {
        match self.volumes.len() {
            1 => name.to_owned(),
            _ => format!("{volume}.{name}"),
        }
    }

    /// The last moment up to now at which it is due.
    fn moment(&self, now: u64) -> u64 {
        let since = now.saturating_sub(self.offset_seconds) % self.every_seconds;
        now.saturating_sub(since)
    }
}

impl ScheduleRecord {
    /// Returns the action that is due.
    pub fn due(&self, now: u64) -> Due {
        let every = self.schedule.every_seconds;
        let moment = self.schedule.moment(now);
        if !self.schedule.enabled {
            return Due::NotYet;
        }
        if moment.saturating_add(every) < self.reached {
            return Due::ClockWentBack { moment };
        }
        match moment.saturating_sub(self.reached) {
            0 => Due::NotYet,
            passed => Due::Run { moment, missed: (passed - 1) / every },
        }
    }

    /// When it is due next, seconds since 1970; `None` while it is off.
    pub fn next(&self) -> Option<u64> {
        self.schedule.enabled.then(|| self.reached.saturating_add(self.schedule.every_seconds))
    }

    /// Runs of which snapshots may still exist, oldest first.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Snapshots of the runs beyond those that are kept, oldest first.
    pub fn surplus(&self) -> impl Iterator<Item = VolumeId> {
        let kept = usize::try_from(self.schedule.keep).expect("at most 1,000");
        let surplus = self.runs.len().saturating_sub(kept);
        self.runs[..surplus].iter().flat_map(Run::snapshots)
    }

    /// Whether it made a snapshot.
    pub fn made(&self, snapshot: VolumeId) -> bool {
        self.runs.iter().any(|run| run.snapshots.contains(&snapshot.0))
    }
}

impl ScheduleRecord {
    /// Up to when it was carried out, seconds since 1970.
    pub(super) const fn reached(&self) -> u64 {
        self.reached
    }

    /// Goes on where another array was.
    pub(super) fn restore(&mut self, reached: u64, mut runs: Vec<Run>) {
        runs.sort_by_key(|run| run.time);
        self.reached = reached;
        self.runs = runs;
    }
}

impl Run {
    /// Its snapshots.
    pub fn snapshots(&self) -> impl Iterator<Item = VolumeId> {
        self.snapshots.iter().copied().map(VolumeId)
    }
}

impl Configuration {
    /// The schedule of that name.
    ///
    /// # Errors
    /// When there is none.
    pub fn schedule(&self, name: &str) -> Result<&ScheduleRecord, ArrayError> {
        let not_found = || ArrayError::NotFound { kind: "schedule", name: name.to_owned() };
        self.schedules.get(name).ok_or_else(not_found)
    }

    /// Makes a schedule, or changes it; either way its next run is the next moment that it names.
    ///
    /// # Errors
    /// When something about it is out of range, or there are too many.
    pub fn set_schedule(
        &mut self,
        name: &str,
        schedule: Schedule,
        now: u64,
    ) -> Result<(), ArrayError> {
        schedule.check(name)?;
        if !self.schedules.contains_key(name) && self.schedules.len() >= SCHEDULES_MAX {
            return Err(ArrayError::TooMany { kind: "schedules", max: SCHEDULES_MAX });
        }
        let reached = schedule.moment(now);
        let before = self.schedules.remove(name);
        // In another pool nobody knows what became of the snapshots of the first one: they stay.
        let same_pool = before.filter(|record| record.schedule.pool == schedule.pool);
        let runs = same_pool.map_or_else(Vec::new, |record| record.runs);
        self.schedules.insert(name.to_owned(), ScheduleRecord { schedule, reached, runs });
        Ok(())
    }

    /// Removes a schedule. Its snapshots stay.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn delete_schedule(&mut self, name: &str) -> Result<(), ArrayError> {
        self.schedule(name)?;
        self.schedules.remove(name);
        Ok(())
    }

    /// Notes that a schedule has dealt with a moment that was due.
    pub fn schedule_reached(&mut self, name: &str, moment: u64) {
        if let Some(record) = self.schedules.get_mut(name) {
            record.reached = moment;
        }
    }

    /// Notes snapshots that a schedule is about to make, and locks them if it locks them.
    ///
    /// # Errors
    /// When there is no such schedule.
    pub fn begin_run(
        &mut self,
        name: &str,
        now: u64,
        snapshots: &[VolumeId],
    ) -> Result<(), ArrayError> {
        let schedule = self.schedule(name)?.schedule.clone();
        if let Some(seconds) = schedule.lock_seconds {
            for &snapshot in snapshots {
                self.lock_snapshot(&schedule.pool, snapshot, now.saturating_add(seconds), now)?;
            }
        }
        let snapshots = snapshots.iter().map(|id| id.0).collect();
        if let Some(record) = self.schedules.get_mut(name) {
            record.runs.push(Run { time: now, snapshots });
        }
        Ok(())
    }

    /// Forgets a snapshot that was deleted, if a schedule made it.
    pub fn forget_scheduled(&mut self, snapshot: VolumeId) {
        let made = self.schedules.iter().find(|(_, record)| record.made(snapshot));
        let Some(name) = made.map(|(name, _)| name.clone()) else { return };
        self.prune_runs(&name, |id| id != snapshot);
    }

    /// Forgets those of a schedule's snapshots that do not exist in its pool, and their locks.
    pub fn prune_runs(&mut self, name: &str, exists: impl Fn(VolumeId) -> bool) {
        let Some(record) = self.schedules.get_mut(name) else { return };
        for run in &mut record.runs {
            run.snapshots.retain(|&id| {
                let exists = exists(VolumeId(id));
                if !exists {
                    self.snapshot_locks.remove(&id);
                }
                exists
            });
        }
        record.runs.retain(|run| !run.snapshots.is_empty());
    }
}

#[cfg(test)]
mod tests;
