//! Long work, and how far it is. Some of it begins with a request and ends with its answer; the
//! rest, scrubs, the reaper, SANITIZE, goes on by itself and is looked at from time to time.

use std::collections::VecDeque;
use std::time::Instant;

use api::{Problem, Task, TaskKind, TaskState, TaskUnit};
use block::VolumeId;
use store::ScrubStatus;

use super::problems::{conflict, not_found};
use super::{Management, Progress, Step};
use crate::core::{Core, Ticket};
use crate::events::now;
use crate::exports::Erasure;
use crate::http::Reply;
use crate::limits::{TASKS_MAX, TICK};
use crate::pool::Pool;
use crate::pools::PoolId;

/// SBC-4 4.11: a SANITIZE tells its progress in so many parts.
const SANITIZE_PARTS: u64 = 1 << 16;

/// All tasks that are known, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    known: VecDeque<Known>,
    last_id: u64,
    /// When all of them were looked at for a list.
    looked_at: Option<Instant>,
}

#[derive(Debug)]
struct Known {
    task: Task,
    /// The work whose end is its end.
    ticket: Option<Ticket>,
    /// The volume that is sanitized.
    volume: Option<VolumeId>,
}

/// How much of what is done.
#[derive(Clone, Copy, Debug)]
struct Amount {
    done: u64,
    total: u64,
    unit: TaskUnit,
}

impl Tasks {
    fn begin(&mut self, kind: TaskKind, object: String) -> &mut Known {
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
            started: now(),
            ended: None,
            problem: None,
            can_cancel: kind == TaskKind::Scrub,
        };
        self.known.push_back(Known { task, ticket: None, volume: None });
        self.known.back_mut().expect("it was just put there")
    }

    fn running(&mut self, kind: TaskKind, object: &str) -> Option<&mut Known> {
        self.known.iter_mut().find(|known| {
            let task = &known.task;
            task.state == TaskState::Running && task.kind == kind && task.object == object
        })
    }

    /// Work goes on; it becomes a task if it is not one yet.
    fn goes_on(&mut self, kind: TaskKind, object: &str, amount: Amount) -> &mut Known {
        if self.running(kind, object).is_none() {
            self.begin(kind, object.to_owned());
        }
        let known = self.running(kind, object).expect("it has just begun, if not before");
        let task = &mut known.task;
        (task.done, task.total, task.unit) = (amount.done, amount.total, amount.unit);
        known
    }

    fn end(&mut self, kind: TaskKind, object: &str, state: TaskState, problem: Option<String>) {
        if let Some(known) = self.running(kind, object) {
            known.end(state, problem);
        }
    }

    /// A request began work that may take long. Returns whether it is shown as a task.
    pub(super) fn waits(&mut self, core: &Core, ticket: Ticket, step: &Step) -> bool {
        let kind = match *step {
            Step::CreatePool { .. } => TaskKind::CreatePool,
            Step::ExtendPool { .. } => TaskKind::ExtendPool,
            Step::AddDevice { .. } => TaskKind::AddDevice,
            Step::ClosePool { .. } => TaskKind::DeletePool,
            Step::OpenPool { .. }
            | Step::ResumePool { .. }
            | Step::CreateVolume { .. }
            | Step::ResizeVolume { .. }
            | Step::DeleteVolume { .. }
            | Step::CreateSnapshots { .. }
            | Step::RevertVolume { .. }
            | Step::RenameVolume { .. }
            | Step::RunSchedule { .. } => return false,
        };
        let Some(pool) = core.pools.get(step.pool()) else { return false };
        self.begin(kind, object(pool)).ticket = Some(ticket);
        true
    }

    /// The work of a request has come to its end.
    pub(super) fn answered(&mut self, ticket: Ticket, answer: &Reply) {
        let mut waiting = self.known.iter_mut();
        let Some(known) = waiting.find(|known| known.ticket == Some(ticket)) else { return };
        match answer {
            Ok(_) => known.end(TaskState::Done, None),
            Err(problem) => known.end(TaskState::Failed, Some(problem.detail.clone())),
        }
    }

    fn look_at_scrub(&mut self, pool: &Pool) {
        let status = pool.store.scrub_status();
        let object = object(pool);
        // What was in use at the beginning may have been freed since, and other space be used.
        let done = match status.complete {
            true => status.total_bytes,
            false => status.scanned_bytes.min(status.total_bytes),
        };
        let amount = Amount { done, total: status.total_bytes, unit: TaskUnit::Bytes };
        if status.running || self.running(TaskKind::Scrub, &object).is_some() {
            self.goes_on(TaskKind::Scrub, &object, amount);
        }
        if !status.running {
            let state = if status.complete { TaskState::Done } else { TaskState::Cancelled };
            self.end(TaskKind::Scrub, &object, state, found(&status));
        }
    }

    pub(super) fn look_at_reaper(&mut self, pool: &Pool) {
        self.reaps(&object(pool), pool.store.reap_bytes());
    }

    /// So much is left for the reaper. Its queue grows while others delete, and while it takes
    /// subtrees apart.
    fn reaps(&mut self, object: &str, left: u64) {
        let before = self.running(TaskKind::Delete, object).map(|known| known.task.clone());
        let (done, total) = before.map_or((0, left), |task| (task.done, task.total));
        let total = total.max(done + left);
        if left > 0 {
            let amount = Amount { done: total - left, total, unit: TaskUnit::Bytes };
            self.goes_on(TaskKind::Delete, object, amount);
        } else if let Some(known) = self.running(TaskKind::Delete, object) {
            known.task.done = known.task.total;
            known.end(TaskState::Done, None);
        }
    }

    fn look_at_sanitize(&mut self, core: &Core, pool: &Pool, volume: &store::Volume) {
        let Erasure::Running(parts) = core.exports.erasure(volume.id) else { return };
        let object = format!("volume {}/{}", pool.name, volume.name);
        let amount = Amount { done: parts.into(), total: SANITIZE_PARTS, unit: TaskUnit::Parts };
        self.goes_on(TaskKind::Sanitize, &object, amount).volume = Some(volume.id);
    }

    fn end_sanitizes(&mut self, core: &Core) {
        for known in &mut self.known {
            let Some(volume) = known.volume.filter(|_| known.task.state == TaskState::Running)
            else {
                continue;
            };
            match core.exports.erasure(volume) {
                Erasure::Running(_) => {}
                Erasure::Failed => {
                    let problem = "a write failed; the volume answers nothing but SANITIZE until \
                                   one succeeds";
                    known.end(TaskState::Failed, Some(problem.to_owned()));
                }
                Erasure::None => {
                    known.task.done = known.task.total;
                    known.end(TaskState::Done, None);
                }
            }
        }
    }

    /// Ends what went on in pools that are not served any more.
    fn end_orphans(&mut self, core: &Core) {
        let served: Vec<String> = core.pools.iter().map(|(_, pool)| object(pool)).collect();
        for known in &mut self.known {
            let by_itself = matches!(known.task.kind, TaskKind::Scrub | TaskKind::Delete);
            let runs = known.task.state == TaskState::Running;
            if by_itself && runs && !served.contains(&known.task.object) {
                known.end(TaskState::Cancelled, Some("the pool is not served any more".to_owned()));
            }
        }
    }

    fn find(&self, id: &str) -> Result<&Task, Problem> {
        let id: Option<u64> = id.parse().ok();
        let found = self.known.iter().find(|known| Some(known.task.id) == id);
        let missing = || not_found(&"there is no such task").with("object", "task");
        found.map(|known| &known.task).ok_or_else(missing)
    }
}

impl Known {
    fn end(&mut self, state: TaskState, problem: Option<String>) {
        self.ticket = None;
        self.task.state = state;
        self.task.problem = problem;
        self.task.ended = Some(now());
        self.task.can_cancel = false;
    }
}

impl Management {
    /// Looks at what goes on by itself.
    pub(super) fn check_tasks(&mut self, core: &Core) {
        for (_, pool) in core.pools.iter() {
            self.tasks.look_at_scrub(pool);
            self.tasks.look_at_reaper(pool);
        }
        self.tasks.end_sanitizes(core);
        self.tasks.end_orphans(core);
    }

    /// Looks whether a volume is being sanitized.
    pub(super) fn check_sanitize(&mut self, core: &Core, pool: PoolId, id: VolumeId) {
        let Some(pool) = core.pools.get(pool) else { return };
        if let Some(volume) = pool.store.volume(id) {
            self.tasks.look_at_sanitize(core, pool, volume);
        }
    }

    /// All tasks, the newest first. What goes on by itself is looked at anew, but not for each of many
    /// who ask at once.
    pub(super) fn list_tasks(&mut self, core: &mut Core) -> Progress {
        if self.tasks.looked_at.is_none_or(|last| last.elapsed() >= TICK) {
            self.look_at_volumes(core);
            self.check_tasks(core);
            self.tasks.looked_at = Some(Instant::now());
        }
        let newest_first: Vec<Task> =
            self.tasks.known.iter().rev().map(|known| known.task.clone()).collect();
        Progress::later(move || newest_first)
    }

    pub(super) fn show_task(&mut self, core: &Core, id: &str) -> Result<Progress, Problem> {
        self.check_tasks(core);
        Ok(Progress::answer(self.tasks.find(id)?))
    }

    pub(super) fn cancel_task(&mut self, core: &mut Core, id: &str) -> Result<Progress, Problem> {
        self.check_tasks(core);
        let task = self.tasks.find(id)?;
        match (task.state, task.kind) {
            (TaskState::Running, TaskKind::Scrub) => {
                let pool = task.object.strip_prefix("pool ").unwrap_or_default().to_owned();
                self.stop_scrub(core, &pool)?;
            }
            (TaskState::Running, _) => {
                return Err(conflict(&"this task cannot be cancelled: wait for its end"));
            }
            _ => return Err(conflict(&"the task has ended")),
        }
        self.show_task(core, id)
    }
}

fn object(pool: &Pool) -> String {
    format!("pool {}", pool.name)
}

/// What a scrub has found, if it is bad.
fn found(status: &ScrubStatus) -> Option<String> {
    let bad = status.bad_blocks + status.bad_pages;
    (bad > 0).then(|| format!("{bad} block(s) of data or of the map are bad"))
}

#[cfg(test)]
mod tests;
