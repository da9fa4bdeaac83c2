//! Table of tasks: long work, and how far it is. Some of it begins with a request and ends with its
//! answer; the rest, scrubs, the reaper, SANITIZE, resilvers, devices that leave, goes on by itself and is
//! looked at from time to time. Every time is in seconds since 1970.

use std::collections::VecDeque;

use api::{Problem, Task, TaskKind, TaskState, TaskUnit};
use block::VolumeId;
use store::ScrubStatus;

use crate::limits::{TASKS_MAX, TASKS_OF_CONTROLLER};
use crate::problems::not_found;

/// SBC-4 4.11: a SANITIZE tells its progress in so many parts.
const SANITIZE_PARTS: u64 = 1 << 16;

/// The server's number of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkNumber(pub u64);

/// How far an erasure of a volume is that a host began (SANITIZE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erasure {
    /// It runs; so many 65,536ths are done.
    Running(u16),
    /// It ended before all was erased.
    Failed,
    /// None runs, and the last one did not fail.
    None,
}

/// All tasks that are known, oldest first.
#[derive(Debug, Default)]
pub struct Tasks {
    known: VecDeque<Known>,
    last_id: u64,
}

#[derive(Debug)]
struct Known {
    task: Task,
    /// The work whose end is its end.
    work: Option<WorkNumber>,
    /// The volume that is sanitized.
    volume: Option<VolumeId>,
    /// The member that is filled.
    filling: Option<Filling>,
    /// The device that leaves.
    departing: Option<Departing>,
    /// When its progress was first looked at, and how far it was.
    first: Option<(u64, u64)>,
}

/// How much of what is done.
#[derive(Clone, Copy, Debug)]
struct Amount {
    done: u64,
    total: u64,
    unit: TaskUnit,
}

/// The controller of several whose task has that number: 0 if it is one of an array of one, or none.
pub fn controller_of(id: &str) -> u16 {
    let id: Option<u64> = id.parse().ok();
    id.and_then(|id| u16::try_from(id / TASKS_OF_CONTROLLER).ok()).unwrap_or(0)
}

impl Tasks {
    /// Those of the controller of that number, 0 of an array of one: their numbers are no other controller's.
    pub fn of_controller(number: u16) -> Self {
        Self { last_id: u64::from(number) * TASKS_OF_CONTROLLER, ..Self::default() }
    }

    /// All of them, the newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Task> {
        self.known.iter().rev().map(|known| &known.task)
    }

    /// The task of that number.
    ///
    /// # Errors
    /// When there is none, or the number is none.
    pub fn find(&self, id: &str) -> Result<&Task, Problem> {
        self.find_known(id).map(|known| &known.task)
    }

    fn find_known(&self, id: &str) -> Result<&Known, Problem> {
        let id: Option<u64> = id.parse().ok();
        let found = self.known.iter().find(|known| Some(known.task.id) == id);
        found.ok_or_else(|| not_found(&"there is no such task").with("object", "task"))
    }

    /// A request began work that may take long.
    pub fn begun(&mut self, now: u64, kind: TaskKind, object: String, work: WorkNumber) {
        self.begin(now, kind, object).work = Some(work);
    }

    /// The work of a request has come to its end.
    pub fn answered(&mut self, now: u64, work: WorkNumber, problem: Option<&Problem>) {
        let mut waiting = self.known.iter_mut();
        let Some(known) = waiting.find(|known| known.work == Some(work)) else { return };
        match problem {
            None => known.end(now, TaskState::Done, None),
            Some(problem) => known.end(now, TaskState::Failed, Some(problem.detail.clone())),
        }
    }

    /// Looks at the scrub of an object.
    pub fn look_at_scrub(&mut self, now: u64, object: &str, status: &ScrubStatus) {
        // What was in use at the beginning may have been freed since, and other space be used.
        let done = if status.complete {
            status.total_bytes
        } else {
            status.scanned_bytes.min(status.total_bytes)
        };
        let amount = Amount { done, total: status.total_bytes, unit: TaskUnit::Bytes };
        if status.running || self.running(TaskKind::Scrub, object).is_some() {
            self.goes_on(now, (TaskKind::Scrub, object), amount);
        }
        if !status.running
            && let Some(known) = self.running(TaskKind::Scrub, object)
        {
            let state = if status.complete { TaskState::Done } else { TaskState::Cancelled };
            known.end(now, state, found(status));
        }
    }

    /// So many bytes of an object are left for the reaper. Its queue grows while others delete, and
    /// while it takes subtrees apart.
    pub fn look_at_reaper(&mut self, now: u64, object: &str, left: u64) {
        let before = self.running(TaskKind::Delete, object).map(|known| known.task.clone());
        let (done, total) = before.map_or((0, left), |task| (task.done, task.total));
        let total = total.max(done + left);
        if left > 0 {
            let amount = Amount { done: total - left, total, unit: TaskUnit::Bytes };
            self.goes_on(now, (TaskKind::Delete, object), amount);
        } else if let Some(known) = self.running(TaskKind::Delete, object) {
            known.task.done = known.task.total;
            known.end(now, TaskState::Done, None);
        }
    }

    /// Looks at the erasure of a volume, by its object.
    pub fn look_at_erasure(&mut self, now: u64, object: &str, id: VolumeId, erasure: Erasure) {
        let Erasure::Running(parts) = erasure else { return };
        let amount = Amount { done: parts.into(), total: SANITIZE_PARTS, unit: TaskUnit::Parts };
        self.goes_on(now, (TaskKind::Sanitize, object), amount).volume = Some(id);
    }

    /// Ends the erasures that are over.
    pub fn end_erasures(&mut self, now: u64, erasure: impl Fn(VolumeId) -> Erasure) {
        for known in &mut self.known {
            let Some(volume) = known.volume.filter(|_| known.task.state == TaskState::Running)
            else {
                continue;
            };
            match erasure(volume) {
                Erasure::Running(_) => {}
                Erasure::Failed => {
                    let problem = "a write failed; the volume answers nothing but SANITIZE until \
                                   one succeeds";
                    known.end(now, TaskState::Failed, Some(problem.to_owned()));
                }
                Erasure::None => {
                    known.task.done = known.task.total;
                    known.end(now, TaskState::Done, None);
                }
            }
        }
    }

    /// Ends what went on by itself in pools that are not served any more.
    pub fn end_orphans(&mut self, now: u64, is_served: impl Fn(&str) -> bool) {
        for known in &mut self.known {
            let by_itself = known.is_of_a_pool();
            let runs = known.task.state == TaskState::Running;
            if by_itself && runs && !is_served(&known.pool_object()) {
                let problem = "the pool is not served any more".to_owned();
                known.end(now, TaskState::Cancelled, Some(problem));
            }
        }
    }

    fn begin(&mut self, now: u64, kind: TaskKind, object: String) -> &mut Known {
        let ended = |known: &Known| known.task.state != TaskState::Running;
        while self.known.iter().filter(|known| ended(known)).count() >= TASKS_MAX {
            let oldest = self.known.iter().position(ended).unwrap_or_default();
            self.known.remove(oldest);
        }
        self.last_id += 1;
        let task = Task {
            id: self.last_id,
            kind,
            object,
            state: TaskState::Running,
            done: 0,
            total: 0,
            unit: TaskUnit::Parts,
            started: now,
            ended: None,
            problem: None,
            can_cancel: matches!(
                kind,
                TaskKind::Scrub | TaskKind::Resilver | TaskKind::RemoveDevice
            ),
            paused: false,
            can_pause: matches!(kind, TaskKind::Resilver | TaskKind::RemoveDevice),
            rate_bytes: None,
            remaining_seconds: None,
        };
        self.known.push_back(Known {
            task,
            work: None,
            volume: None,
            filling: None,
            departing: None,
            first: None,
        });
        self.known.back_mut().expect("it was just put there")
    }

    fn running(&mut self, kind: TaskKind, object: &str) -> Option<&mut Known> {
        self.known.iter_mut().find(|known| {
            let task = &known.task;
            task.state == TaskState::Running && task.kind == kind && task.object == object
        })
    }

    /// Work goes on; it becomes a task if it is not one yet.
    fn goes_on(
        &mut self,
        now: u64,
        (kind, object): (TaskKind, &str),
        amount: Amount,
    ) -> &mut Known {
        if self.running(kind, object).is_none() {
            self.begin(now, kind, object.to_owned());
        }
        let known = self.running(kind, object).expect("it has just begun, if not before");
        known.reaches(amount);
        known.estimate(now);
        known
    }
}

impl Known {
    /// Whether it goes on by itself in a pool, and ends with that.
    const fn is_of_a_pool(&self) -> bool {
        match self.task.kind {
            TaskKind::Scrub | TaskKind::Delete | TaskKind::Resilver | TaskKind::RemoveDevice => {
                true
            }
            TaskKind::Sanitize
            | TaskKind::CreatePool
            | TaskKind::ExtendPool
            | TaskKind::AddDevice
            | TaskKind::DeletePool => false,
        }
    }

    /// The pool, as the object of its tasks.
    fn pool_object(&self) -> String {
        let of_member = self.filling.as_ref().map(|filling| &filling.pool);
        let pool = of_member.or(self.departing.as_ref().map(|departing| &departing.pool));
        pool.map_or_else(|| self.task.object.clone(), |pool| format!("pool {pool}"))
    }

    fn reaches(&mut self, Amount { done, total, unit }: Amount) {
        (self.task.done, self.task.total, self.task.unit) = (done, total, unit);
    }

    /// Estimates rate and rest from how far it came since it was first looked at.
    fn estimate(&mut self, now: u64) {
        let Task { done, total, unit, .. } = self.task;
        let (since, before) = *self.first.get_or_insert((now, done));
        let (seconds, grown) = (now.saturating_sub(since), done.saturating_sub(before));
        let left = u128::from(total.saturating_sub(done)) * u128::from(seconds);
        let is_known = seconds > 0 && grown > 0;
        self.task.rate_bytes =
            (is_known && unit == TaskUnit::Bytes).then(|| grown / seconds.max(1));
        self.task.remaining_seconds =
            is_known.then(|| u64::try_from(left / u128::from(grown.max(1))).unwrap_or(u64::MAX));
    }

    fn end(&mut self, now: u64, state: TaskState, problem: Option<String>) {
        self.work = None;
        self.task.state = state;
        self.task.problem = problem;
        self.task.ended = Some(now);
        self.task.can_cancel = false;
        (self.task.paused, self.task.can_pause) = (false, false);
        (self.task.rate_bytes, self.task.remaining_seconds) = (None, None);
    }
}

/// What a scrub has found, if it is bad.
fn found(status: &ScrubStatus) -> Option<String> {
    let bad = status.bad_blocks + status.bad_pages;
    (bad > 0).then(|| format!("{bad} block(s) of data or of the map are bad"))
}

mod departures;
mod resilvers;
#[cfg(test)]
mod tests;

pub use departures::{Departing, Whereabouts};
pub use resilvers::Filling;
