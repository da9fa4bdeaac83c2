//! Routes of tasks; shows what goes on by itself to `control`, which keeps the table.

use std::time::Instant;

use api::{Problem, Task, TaskKind, TaskState};
use block::VolumeId;
use control::tasks::{Erasure, WorkNumber};

use super::problems::conflict;
use super::{Management, Progress, Step};
use crate::core::{Core, Ticket};
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
    pub(super) fn becomes_task(&mut self, core: &Core, ticket: Ticket, step: &Step) -> bool {
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
        self.tasks.begun(now(), kind, object(pool), work_number(ticket));
        true
    }

    /// Looks at what goes on by itself.
    pub(super) fn check_tasks(&mut self, core: &Core) {
        for (_, pool) in core.pools.iter() {
            self.tasks.look_at_scrub(now(), &object(pool), &pool.store.scrub_status());
            self.look_at_reaper(pool);
        }
        self.tasks.end_erasures(now(), |volume| core.exports.erasure(volume));
        let served: Vec<String> = core.pools.iter().map(|(_, pool)| object(pool)).collect();
        self.tasks.end_orphans(now(), |object| served.iter().any(|served| served == object));
    }

    pub(super) fn look_at_reaper(&mut self, pool: &Pool) {
        self.tasks.look_at_reaper(now(), &object(pool), pool.store.reap_bytes());
    }

    /// Looks whether a volume is being sanitized.
    pub(super) fn check_sanitize(&mut self, core: &Core, pool: PoolId, id: VolumeId) {
        let erasure = core.exports.erasure(id);
        if erasure == Erasure::None {
            return;
        }
        let Some(pool) = core.pools.get(pool) else { return };
        if let Some(volume) = pool.store.volume(id) {
            let object = format!("volume {}/{}", pool.name, volume.name);
            self.tasks.look_at_erasure(now(), &object, id, erasure);
        }
    }

    /// All tasks, the newest first. What goes on by itself is looked at anew, but not for each of many
    /// who ask at once.
    pub(super) fn list_tasks(&mut self, core: &mut Core) -> Progress {
        if self.tasks_looked_at.is_none_or(|last| last.elapsed() >= TICK) {
            self.look_at_volumes(core);
            self.check_tasks(core);
            self.tasks_looked_at = Some(Instant::now());
        }
        let newest_first: Vec<Task> = self.tasks.newest_first().cloned().collect();
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
