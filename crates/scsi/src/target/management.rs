//! Task management functions (SAM-5 7): answered only after effect.

use block::VolumeId;

use super::{
    Delivery, NexusId, RequestId, Target, Task, TaskId, TaskManagement, TaskManagementResponse,
    TaskState,
};
use crate::lun::parse_lun;
use crate::sense;
use crate::task_set::Slot;

/// Something that waits for tasks to end.
pub(super) struct Function {
    answer: Answer,
    waits_for: usize,
}

/// What is done when they have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// This task management function is complete.
    Function(TaskId),
    /// The task in this slot is GOOD.
    Task(Slot),
    /// Nothing: the task that waited is gone.
    Nobody,
}

impl Target {
    /// Takes a task management function. Its response comes from [`Self::next_management_done`]
    /// when nothing of the tasks that it ended can change a medium any more.
    pub fn manage(&mut self, id: TaskId, nexus: NexusId, lun: u64, function: TaskManagement) {
        use TaskManagementResponse::{FunctionRejected, FunctionSucceeded};
        match function {
            TaskManagement::AbortTask(task) => {
                self.end_tasks(id, nexus, |other| other.order.nexus == nexus && other.id == task);
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

    /// Ends the tasks that `is_meant` picks for `nexus`, and answers when they are gone.
    fn end_tasks(&mut self, id: TaskId, nexus: NexusId, is_meant: impl Fn(&Task) -> bool) {
        let meant = self.tasks.iter().filter(|(_, task)| is_meant(task));
        let meant: Vec<_> = meant.map(|(slot, _)| slot).collect();
        let function = self.new_function(Answer::Function(id));
        self.end_each(function, nexus, &meant);
    }

    /// Something that waits for tasks, of which [`Self::end_each`] tells it.
    pub(super) fn new_function(&mut self, answer: Answer) -> Slot {
        self.functions.insert(Function { answer, waits_for: 1 })
    }

    /// Ends tasks on behalf of `nexus`; the function is answered when they are gone.
    pub(super) fn end_each(&mut self, function: Slot, nexus: NexusId, slots: &[Slot]) {
        let volumes: Vec<_> = slots.iter().map(|&slot| self.tasks[slot].volume).collect();
        for &slot in slots {
            // An earlier one may have ended with it.
            if !self.tasks.contains(slot) {
                continue;
            }
            let delivery = self.delivery(slot, nexus);
            if self.abort(slot, delivery) == Abort::Awaited {
                self.tasks[slot].awaited_by.push(function);
                self.functions[function].waits_for += 1;
            }
        }
        for volume in volumes {
            self.start_waiting(volume);
        }
        self.task_ended(function);
    }

    /// SAM-5 5.3.1: what the owner of a task hears when `nexus` ends it.
    fn delivery(&self, slot: Slot, nexus: NexusId) -> Delivery {
        let task = &self.tasks[slot];
        let tas = self.units.get(&task.volume).is_none_or(|unit| unit.modes.task_aborted_status);
        if task.order.nexus != nexus && tas { Delivery::TaskAborted } else { Delivery::Silent }
    }

    /// Ends a task now, or as soon as the engine has answered its request.
    pub(super) fn abort(&mut self, slot: Slot, delivery: Delivery) -> Abort {
        let task = &mut self.tasks[slot];
        match task.state {
            TaskState::Aborted(Delivery::Nobody) => return Abort::Awaited,
            TaskState::Aborted(_) => {
                if delivery == Delivery::Nobody {
                    task.state = TaskState::Aborted(delivery);
                }
                return Abort::Awaited;
            }
            TaskState::Dormant => {}
            TaskState::Saving(ref mut saving) => {
                saving.aborted = Some(match (saving.aborted, delivery) {
                    (_, Delivery::Nobody) | (None, _) => delivery,
                    (Some(earlier), _) => earlier,
                });
                return Abort::Awaited;
            }
            TaskState::Awaiting(function) => self.functions[function].answer = Answer::Nobody,
            TaskState::Request | TaskState::Procedure(_) => {
                let before = self.requests.len();
                self.requests.retain(|(id, _, _)| *id != RequestId(slot as u64));
                if self.requests.len() == before {
                    task.state = TaskState::Aborted(delivery);
                    return Abort::Awaited;
                }
            }
        }
        self.end_aborted(slot, delivery);
        Abort::Ended
    }

    /// One of the tasks that a function waits for has ended.
    pub(super) fn task_ended(&mut self, function: Slot) {
        self.functions[function].waits_for -= 1;
        if self.functions[function].waits_for == 0 {
            let Function { answer, .. } = self.functions.remove(function);
            match answer {
                Answer::Function(id) => {
                    self.functions_done.push_back((id, TaskManagementResponse::FunctionComplete));
                }
                Answer::Task(slot) => self.end_good(slot),
                Answer::Nobody => {}
            }
        }
    }

    fn has_task(&self, nexus: NexusId, id: TaskId) -> bool {
        self.tasks.iter().any(|(_, task)| task.order.nexus == nexus && task.id == id)
    }

    pub(super) fn volume_at(&self, nexus: NexusId, lun: u64) -> Option<VolumeId> {
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
        let copies_to = |destinations: &Vec<VolumeId>| destinations.contains(&volume);
        self.volume == volume || self.destinations.as_ref().is_some_and(copies_to)
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
