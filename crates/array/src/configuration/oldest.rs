//! Retention under space pressure: finds the oldest snapshot of a pool's schedules that may be
//! deleted. The search goes in steps of bounded length, since schedules may have made hundreds of
//! thousands of snapshots that are locked.

use core::ops::Bound;

use block::VolumeId;

use super::Configuration;
use super::schedules::{Run, ScheduleRecord};
use crate::limits::NEWEST_RUNS_LOOKED_AT;

/// State of a snapshot that a schedule made or is about to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The snapshot does not exist: not made yet, or deleted.
    Gone,
    /// The snapshot is locked or mapped.
    Kept,
    /// The snapshot may be deleted.
    Deletable,
}

/// A search that is under way.
#[derive(Clone, Debug, Default)]
pub struct OldestSearch {
    /// Where it goes on: a schedule, and the time of one of its runs, or of none for all. `None` at
    /// the beginning.
    next: Option<(String, u64)>,
    /// The oldest one so far, and when it was made, seconds since 1970.
    oldest: Option<(u64, VolumeId)>,
}

/// How far a search came with one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Searched {
    /// Not to the end.
    Part,
    /// To the end: this is the oldest one, if there is any. The next step begins anew.
    All(Option<VolumeId>),
}

impl OldestSearch {
    /// Goes on, by about so many snapshots: by what one run and the newest runs of one schedule have
    /// more at most. The newest run of each schedule of which anything is there is left alone, so
    /// that there always is a way back.
    pub fn step(
        &mut self,
        array: &Configuration,
        pool: &str,
        snapshots_max: usize,
        standing: impl Fn(VolumeId) -> Standing,
    ) -> Searched {
        let next = self.next.take();
        let first = next.as_ref().map_or("", |(name, _)| name);
        let mut left = snapshots_max;
        let schedules = array.schedules.range::<_, str>((Bound::Included(first), Bound::Unbounded));
        for (name, record) in schedules.filter(|(_, record)| record.schedule.pool == pool) {
            let begins = next.as_ref().filter(|(at, _)| at == name).map(|(_, time)| *time);
            if left == 0 {
                self.next = Some((name.clone(), 0));
                return Searched::Part;
            }
            let (older, looked_at) = older_runs(record, &standing);
            for run in from(older, begins) {
                if left == 0 {
                    self.next = Some((name.clone(), run.time));
                    return Searched::Part;
                }
                left = left.saturating_sub(run.snapshots().count().max(1));
                if let Some(found) = run.snapshots().find(|&id| standing(id) == Standing::Deletable)
                {
                    self.propose(run.time, found);
                    break;
                }
            }
            left = left.saturating_sub(looked_at);
        }
        Searched::All(std::mem::take(self).oldest.map(|(_, id)| id))
    }

    fn propose(&mut self, time: u64, id: VolumeId) {
        if self.oldest.is_none_or(|(oldest, _)| time < oldest) {
            self.oldest = Some((time, id));
        }
    }
}

/// Runs before the newest one of which anything is there, and how many snapshots were looked at for
/// that. If it is none of the last ones, the schedule is left alone until its next run has forgotten
/// what is gone.
fn older_runs(record: &ScheduleRecord, standing: impl Fn(VolumeId) -> Standing) -> (&[Run], usize) {
    let runs = record.runs();
    let mut looked_at = 0;
    for place in (0..runs.len()).rev().take(NEWEST_RUNS_LOOKED_AT) {
        for id in runs[place].snapshots() {
            looked_at += 1;
            if standing(id) != Standing::Gone {
                return (&runs[..place], looked_at);
            }
        }
    }
    (&[], looked_at)
}

/// Runs from the one of that time on: all if there is none, or if the search begins.
fn from(runs: &[Run], time: Option<u64>) -> &[Run] {
    let place = time.and_then(|time| runs.iter().position(|run| run.time == time));
    &runs[place.unwrap_or_default()..]
}

#[cfg(test)]
mod tests;
