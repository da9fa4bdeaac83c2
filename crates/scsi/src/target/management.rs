//! Task management functions (SAM-5 7): answered only after effect.

use block::{Rope, VolumeId};

use super::{
    Delivery, NexusId, Target, Task, TaskId, TaskManagement, TaskManagementResponse, TaskState,
};
use crate::completion::Completion;
use crate::copy_operations::CopyKey;
use crate::lun::parse_lun;
use crate::sense;
use crate::task_set::Slot;

/// A function that waits for tasks to end.
pub(super) struct Function {
    id: TaskId,
    waits_for: usize,
    kind: FunctionKind,
}

/// Where a function came from, and so how it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FunctionKind {
    TaskManagement,
    /// COPY OPERATION ABORT.
    Command,
}

impl Target {
    /// Takes a task management function. Its response comes from [`Self::next_management_done`]
    /// when nothing of the tasks that it ended can change a medium any more.
    pub fn manage(&mut self, id: TaskId, nexus: NexusId, lun: u64, function: TaskManagement) {
        use TaskManagementResponse::{FunctionRejected, FunctionSucceeded};
        match function {
            TaskManagement::AbortTask(task) => {
                self.end_tasks(id, nexus, |other| other.is_named(nexus, task));
            }
            TaskManagement::QueryTask(task) if self.has_task(nexus, task) => {
                self.functions_done.push_back((id, FunctionSucceeded));
            }
            TaskManagement::QueryTask(_) => self.end_tasks(id, nexus, |_| false),
            TaskManagement::ClearAca => self.functions_done.push_back((id, FunctionRejected)),
            TaskManagement::TargetWarmReset | TaskManagement::TargetColdReset => {
                self.reset(id, nexus, self.volumes_of(nexus));
            }
            TaskManagement::AbortTaskSet
            | TaskManagement::ClearTaskSet
            | TaskManagement::LogicalUnitReset => self.manage_unit(id, nexus, lun, function),
        }
    }

    fn manage_unit(&mut self, id: TaskId, nexus: NexusId, lun: u64, function: TaskManagement) {
        let Some(volume) = self.volume_at(nexus, lun) else {
            let response = TaskManagementResponse::IncorrectLogicalUnitNumber;
            self.functions_done.push_back((id, response));
            return;
        };
        match function {
            TaskManagement::AbortTaskSet => {
                self.end_tasks(id, nexus, |task| {
                    task.volume == volume && task.order.nexus == nexus
                });
            }
            TaskManagement::ClearTaskSet => {
                self.end_tasks(id, nexus, |task| task.volume == volume);
            }
            _ => self.reset(id, nexus, vec![volume]),
        }
    }

    fn reset(&mut self, id: TaskId, nexus: NexusId, volumes: Vec<VolumeId>) {
        for &volume in &volumes {
            if let Some(unit) = self.units.get_mut(&volume) {
                unit.reservation = None;
            }
            self.establish(volume, sense::BUS_DEVICE_RESET_FUNCTION_OCCURRED);
        }
        self.end_tasks(id, nexus, |task| volumes.iter().any(|&volume| task.reaches(volume)));
    }

    /// COPY OPERATION ABORT: ends a copy; the command is answered when nothing of it can change a
    /// medium any more. Its own command, if it still waits, ends with TASK ABORTED.
    pub(super) fn abort_copy(&mut self, id: TaskId, key: CopyKey) {
        let is_meant =
            |task: &Task| task.copy.as_ref().is_some_and(|copying| copying.key == Some(key));
        let function = Function { id, waits_for: 1, kind: FunctionKind::Command };
        self.end_tasks_for(function, is_meant, |_| Delivery::TaskAborted);
    }

    /// Ends the tasks that `is_meant` picks for `nexus`, and answers when they are gone.
    fn end_tasks(&mut self, id: TaskId, nexus: NexusId, is_meant: impl Fn(&Task) -> bool) {
        let function = Function { id, waits_for: 1, kind: FunctionKind::TaskManagement };
        let delivery = |owner| match owner {
            owner if owner == nexus => Delivery::Silent,
            _ => Delivery::TaskAborted,
        };
        self.end_tasks_for(function, is_meant, delivery);
    }

    fn end_tasks_for(
        &mut self,
        function: Function,
        is_meant: impl Fn(&Task) -> bool,
        delivery: impl Fn(NexusId) -> Delivery,
    ) {
        let meant = self.tasks.iter().filter(|(_, task)| is_meant(task));
        let meant: Vec<_> =
            meant.map(|(slot, task)| (slot, task.volume, task.order.nexus)).collect();
        let function = self.functions.insert(function);
        for &(slot, _, owner) in &meant {
            if self.abort(slot, delivery(owner)) == Abort::Awaited {
                self.tasks[slot].awaited_by.push(function);
                self.functions[function].waits_for += 1;
            }
        }
        for (_, volume, _) in meant {
            self.start_waiting(volume);
        }
        self.task_ended(function);
    }

    /// Ends a task now, or as soon as the engine has answered its request.
    pub(super) fn abort(&mut self, slot: Slot, delivery: Delivery) -> Abort {
        let task = &mut self.tasks[slot];
        let delivery = if task.detached { Delivery::Nobody } else { delivery };
        if let TaskState::Aborted(already, _) = &mut task.state {
            if delivery == Delivery::Nobody {
                *already = delivery;
            }
            return Abort::Awaited;
        }
        // SBC-4 4.11: nothing but its end ends a SANITIZE; only its command can be aborted.
        if let TaskState::Procedure(procedure) = &task.state
            && procedure.sanitize().is_some()
        {
            self.abort_command_only(slot, delivery);
            return Abort::Ended;
        }
        let before = self.requests.len();
        self.requests.retain(|(id, _, _)| id.slot() != slot);
        let task = &mut self.tasks[slot];
        task.in_flight -= before - self.requests.len();
        if task.in_flight > 0 {
            let procedure = match std::mem::replace(&mut task.state, TaskState::Dormant) {
                TaskState::Procedure(procedure) => Some(procedure),
                _ => None,
            };
            task.state = TaskState::Aborted(delivery, procedure);
            return Abort::Awaited;
        }
        self.end_aborted(slot, delivery);
        Abort::Ended
    }

    fn abort_command_only(&mut self, slot: Slot, delivery: Delivery) {
        if !self.tasks[slot].detached {
            self.detach(slot);
            self.deliver(slot, delivery);
        }
    }

    /// One of the tasks that a function waits for has ended.
    pub(super) fn task_ended(&mut self, function: Slot) {
        self.functions[function].waits_for -= 1;
        if self.functions[function].waits_for == 0 {
            let Function { id, kind, .. } = self.functions.remove(function);
            match kind {
                FunctionKind::TaskManagement => {
                    self.functions_done.push_back((id, TaskManagementResponse::FunctionComplete));
                }
                FunctionKind::Command => {
                    self.done.push_back((id, Completion::good(Rope::new())));
                }
            }
        }
    }

    fn has_task(&self, nexus: NexusId, id: TaskId) -> bool {
        self.tasks.iter().any(|(_, task)| task.is_named(nexus, id))
    }

    fn volume_at(&self, nexus: NexusId, lun: u64) -> Option<VolumeId> {
        let mapping = self.nexuses.get(&nexus)?.mappings.get(&parse_lun(lun)?)?;
        self.units.contains_key(&mapping.volume).then_some(mapping.volume)
    }

    /// The logical units that a nexus sees: a target reset of one host does not reach others'.
    fn volumes_of(&self, nexus: NexusId) -> Vec<VolumeId> {
        let mappings = self.nexuses.get(&nexus).map(|nexus| nexus.mappings.values());
        mappings.into_iter().flatten().map(|mapping| mapping.volume).collect()
    }
}

impl Task {
    /// Whether a reset of the volume's unit ends this task: it is in that unit's task set, or
    /// copies to that volume.
    fn reaches(&self, volume: VolumeId) -> bool {
        let copies_to = |copying: &super::Copying| copying.destinations.contains(&volume);
        self.volume == volume || self.copy.as_ref().is_some_and(copies_to)
    }

    /// Whether the initiator knows this task under that name.
    fn is_named(&self, nexus: NexusId, id: TaskId) -> bool {
        self.order.nexus == nexus && self.id == id && !self.detached
    }
}

/// What became of a task that was to be aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abort {
    /// It is gone.
    Ended,
    /// It ends when the engine answers its request.
    Awaited,
}
