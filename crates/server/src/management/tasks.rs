//! Routes of tasks; shows what goes on by itself to `control`, which keeps the table.

use std::time::Instant;

use api::{Problem, Task, TaskKind, TaskState};
use block::VolumeId;
use control::procedures::AfterChange;
use control::tasks::{Erasure, WorkNumber};

use super::problems::conflict;
use super::{Management, PoolStep, Progress};
use crate::data_plane::{DataPlane, Ticket};
use crate::events::now;
use crate::limits::TICK;
use crate::pool::Pool;
use crate::pools::PoolId;

/// The number of the work that a ticket stands for.
pub(super) const fn work_number(ticket: Ticket) -> WorkNumber {
    WorkNumber(ticket.number())
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
        }
        self.tasks.end_erasures(now(), |volume| plane.exports.erasure(volume));
        let served: Vec<String> = plane.pools.iter().map(|(_, pool)| object(pool)).collect();
        self.tasks.end_orphans(now(), |object| served.iter().any(|served| served == object));
    }

    pub(super) fn look_at_reaper(&mut self, pool: &Pool) {
        self.tasks.look_at_reaper(now(), &object(pool), pool.store.reap_bytes());
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
            (TaskState::Running, _) => {
                return Err(conflict(&"this task cannot be cancelled: wait for its end"));
            }
            _ => return Err(conflict(&"the task has ended")),
        }
        self.show_task(plane, id)
    }
}

fn object(pool: &Pool) -> String {
    format!("pool {}", pool.name)
}
