//! Routes of tasks; shows what goes on by itself to `control`, which keeps the table.

use std::time::Instant;

use api::{DepartureAction, Problem, Route, Task, TaskKind, TaskState};
use block::VolumeId;
use control::members;
use control::procedures::AfterChange;
use control::tasks::{Erasure, Filling, WorkNumber};
use store::{Health, ResilverChange};

use super::facts::Facts;
use super::problems::{conflict, gone, internal};
use super::{Management, PoolStep, Progress};
use crate::data_plane::{DataPlane, Ticket};
use crate::described::Described;
use crate::events::now;
use crate::http::Reply;
use crate::limits::TICK;
use crate::pool::Pool;
use crate::pools::PoolId;

/// The number of the work that a ticket stands for.
pub(super) const fn work_number(ticket: Ticket) -> WorkNumber {
    WorkNumber(ticket.number())
}

/// Whether a route's answer is the task that it is about.
pub(super) const fn is_shown_by(route: Route) -> bool {
    matches!(route, Route::CancelTask | Route::PauseTask | Route::ResumeTask)
}

impl Management {
    /// A request began work that may take long. Returns whether it is shown as a task.
    pub(super) fn becomes_task(
        &mut self,
        plane: &DataPlane,
        ticket: Ticket,
        step: &PoolStep,
    ) -> bool {
        let Some(kind) = step.procedure().and_then(AfterChange::task) else { return false };
        let Some(pool) = plane.pools.get(step.pool()) else { return false };
        self.tasks.begun(now(), kind, object(pool), work_number(ticket));
        true
    }

    /// Looks at what goes on by itself.
    pub(super) fn check_tasks(&mut self, plane: &DataPlane) {
        for (_, pool) in plane.pools.iter() {
            self.tasks.look_at_scrub(now(), &object(pool), &pool.store.scrub_status());
            self.look_at_reaper(pool);
            self.look_at_resilvers(pool);
            self.look_at_departure(pool);
        }
        self.tasks.end_erasures(now(), |volume| plane.exports.erasure(volume));
        let served: Vec<String> = plane.pools.iter().map(|(_, pool)| object(pool)).collect();
        self.tasks.end_orphans(now(), |object| served.iter().any(|served| served == object));
    }

    pub(super) fn look_at_reaper(&mut self, pool: &Pool) {
        self.tasks.look_at_reaper(now(), &object(pool), pool.store.reap_bytes());
    }

    /// Looks which members of a pool are being filled.
    pub(super) fn look_at_resilvers(&mut self, pool: &Pool) {
        if pool.health() != Health::Ready {
            return;
        }
        for mirror in pool.mirrors() {
            let status = |uuid| mirror.resilver.filter(|status| status.member == uuid);
            for member in &mirror.members {
                let name = self.member_name(pool, member.uuid);
                let name = name.strip_prefix("member ").unwrap_or(&name);
                let filling = Filling {
                    object: format!("member {}/{name}", pool.name),
                    pool: pool.name.clone(),
                    member: member.uuid,
                };
                self.tasks.look_at_member(now(), filling, member.state, status(member.uuid));
            }
        }
        let is_member = |uuid| pool.mirrors().any(|m| m.members.iter().any(|m| m.uuid == uuid));
        self.tasks.end_resilvers(now(), &pool.name, is_member);
    }

    /// Looks whether a volume is being sanitized.
    pub(super) fn check_sanitize(&mut self, plane: &DataPlane, pool: PoolId, id: VolumeId) {
        let erasure = plane.exports.erasure(id);
        if erasure == Erasure::None {
            return;
        }
        let Some(pool) = plane.pools.get(pool) else { return };
        if let Some(volume) = pool.store.volume(id) {
            let object = format!("volume {}/{}", pool.name, volume.spec.name);
            self.tasks.look_at_erasure(now(), &object, id, erasure);
        }
    }

    /// All tasks, the newest first. What goes on by itself is looked at anew, but not for each of many
    /// who ask at once.
    pub(super) fn list_tasks(&mut self, plane: &mut DataPlane) -> Progress {
        if self.tasks_looked_at.is_none_or(|last| last.elapsed() >= TICK) {
            self.look_at_volumes(plane);
            self.check_tasks(plane);
            self.tasks_looked_at = Some(Instant::now());
        }
        let newest_first: Vec<Task> = self.tasks.newest_first().cloned().collect();
        Progress::later(move || newest_first)
    }

    pub(super) fn show_task(&mut self, plane: &DataPlane, id: &str) -> Result<Progress, Problem> {
        self.check_tasks(plane);
        Ok(Progress::answer(self.tasks.find(id)?))
    }

    pub(super) fn cancel_task(
        &mut self,
        plane: &mut DataPlane,
        id: &str,
    ) -> Result<Progress, Problem> {
        self.check_tasks(plane);
        let task = self.tasks.find(id)?;
        match (task.state, task.kind) {
            (TaskState::Running, TaskKind::Scrub) => {
                let pool = task.object.strip_prefix("pool ").unwrap_or_default().to_owned();
                self.stop_scrub(plane, &pool)?;
            }
            (TaskState::Running, TaskKind::Resilver) => {
                let (name, member) = self.tasks.resilver(id)?;
                let pool = members::check_mirrored(&name, &Facts::new(self, plane))?;
                return self.cancel_resilver(plane, pool, &name, member);
            }
            (TaskState::Running, TaskKind::RemoveDevice) => {
                let Some(name) = self.tasks.departure(id)? else { return Err(gone()) };
                return self.control_departure(plane, &name, DepartureAction::Cancel);
            }
            (
                TaskState::Running,
                TaskKind::Delete
                | TaskKind::Sanitize
                | TaskKind::CreatePool
                | TaskKind::ExtendPool
                | TaskKind::AddDevice
                | TaskKind::DeletePool,
            ) => {
                return Err(conflict(&"this task cannot be cancelled: wait for its end"));
            }
            (TaskState::Done | TaskState::Cancelled | TaskState::Failed, _) => {
                return Err(conflict(&"the task has ended"));
            }
        }
        Ok(Progress::done())
    }

    /// Lets the resilvers of a task's pool rest, or go on; or a device that leaves.
    pub(super) fn pause_task(
        &mut self,
        plane: &mut DataPlane,
        id: &str,
        change: ResilverChange,
    ) -> Result<Progress, Problem> {
        self.check_tasks(plane);
        if let Some(name) = self.tasks.departure(id)? {
            let action = match change {
                ResilverChange::Pause => DepartureAction::Pause,
                ResilverChange::Resume => DepartureAction::Resume,
                ResilverChange::Cancel { .. } => DepartureAction::Cancel,
            };
            return self.control_departure(plane, &name, action);
        }
        let (name, _) = self.tasks.resilver(id)?;
        let pool = members::check_mirrored(&name, &Facts::new(self, plane))?;
        let step = PoolStep::Procedure { pool, then: AfterChange::Resilver(name) };
        Self::wait_for(plane, pool, store::Change::Resilver(change), step)
    }

    /// One task as it is now.
    pub(super) fn describe_task(&mut self, plane: &DataPlane, id: &str) -> Reply {
        self.check_tasks(plane);
        let task = serde_json::to_value(self.tasks.find(id)?);
        task.map(Described::Written).map_err(|error| internal(&error))
    }
}

fn object(pool: &Pool) -> String {
    format!("pool {}", pool.name)
}
