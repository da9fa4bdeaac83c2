//! Task management functions (SAM-5 7): answered only after effect.

use block::{Rope, VolumeId};

use super::{
    Collecting, Delivery, DeviceServer, NexusId, Task, TaskId, TaskManagement,
    TaskManagementResponse, TaskState,
};
use crate::completion::{Completion, Status};
use crate::copy_operations::CopyKey;
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
    /// This command, which is in no task set, is GOOD.
    Command(TaskId),
    /// The task in this slot is GOOD.
    Task(Slot),
    /// Nothing: the task that waited is gone.
    Nobody,
}

/// Who ends tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ender {
    /// This nexus, by a task management function or a command.
    Nexus(NexusId),
    /// COPY OPERATION ABORT, which the command of the copy always hears of.
    CopyAbort,
}

impl DeviceServer {
    /// Takes a task management function. Its response comes from [`Self::next_management_done`]
    /// when nothing of the tasks that it ended can change a medium any more.
    pub fn manage(&mut self, id: TaskId, nexus: NexusId, lun: u64, function: TaskManagement) {
        match function {
            TaskManagement::AbortTask(task) => {
                self.note_aborted(nexus, task);
                self.end_tasks(id, nexus, |other| other.is_named(nexus, task));
            }
            TaskManagement::QueryTask(task) => {
                let is_there = self.tasks.iter().any(|(_, other)| other.is_named(nexus, task));
                self.answer_query(id, is_there);
            }
            TaskManagement::ClearAca => {
                self.functions_done.push_back((id, TaskManagementResponse::FunctionRejected));
            }
            TaskManagement::ItNexusReset => self.reset_nexus(id, nexus),
            TaskManagement::TargetWarmReset | TaskManagement::TargetColdReset => {
                self.reset(id, nexus, self.volumes_of(nexus));
            }
            TaskManagement::AbortTaskSet
            | TaskManagement::ClearTaskSet
            | TaskManagement::LogicalUnitReset
            | TaskManagement::QueryTaskSet
            | TaskManagement::QueryAsynchronousEvent => self.manage_unit(id, nexus, lun, function),
        }
    }

    fn manage_unit(&mut self, id: TaskId, nexus: NexusId, lun: u64, function: TaskManagement) {
        let Some(volume) = self.volume_at(nexus, lun) else {
            let response = TaskManagementResponse::IncorrectLogicalUnitNumber;
            self.functions_done.push_back((id, response));
            return;
        };
        let is_own = |task: &Task| task.volume == volume && task.order.decoded.nexus == nexus;
        match function {
            TaskManagement::AbortTaskSet => self.end_tasks(id, nexus, is_own),
            TaskManagement::ClearTaskSet => {
                self.end_tasks(id, nexus, |task| task.volume == volume);
            }
            TaskManagement::QueryTaskSet => {
                let is_there = self.tasks.iter().any(|(_, task)| is_own(task) && !task.detached);
                self.answer_query(id, is_there);
            }
            TaskManagement::QueryAsynchronousEvent => {
                let mapping =
                    parse_lun(lun).and_then(|lun| self.nexuses[&nexus].mappings.get(&lun));
                let waits = mapping.is_some_and(|mapping| !mapping.attentions.is_empty());
                self.answer_query(id, waits);
            }
            _ => self.reset(id, nexus, vec![volume]),
        }
    }

    /// SAM-5 7.9 to 7.11: succeeded if what was asked about is there, else complete.
    fn answer_query(&mut self, id: TaskId, is_there: bool) {
        let response = if is_there {
            TaskManagementResponse::FunctionSucceeded
        } else {
            TaskManagementResponse::FunctionComplete
        };
        self.functions_done.push_back((id, response));
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

    /// SAM-5 7.6: what the loss of the nexus would do, and the nexus stays.
    fn reset_nexus(&mut self, id: TaskId, nexus: NexusId) {
        for unit in self.units.values_mut().filter(|unit| unit.reservation == Some(nexus)) {
            unit.reservation = None;
        }
        for volume in self.volumes_of(nexus) {
            if let Some(nexus) = self.nexuses.get_mut(&nexus) {
                nexus.establish(volume, sense::I_T_NEXUS_LOSS_OCCURRED);
            }
        }
        self.end_tasks(id, nexus, |task| task.order.decoded.nexus == nexus);
    }

    /// COPY OPERATION ABORT: ends a copy; the command is answered when nothing of it can change a
    /// medium any more. Its own command, if it still waits, ends with TASK ABORTED.
    pub(super) fn abort_copy(&mut self, id: TaskId, key: CopyKey) {
        let is_meant =
            |task: &Task| task.copy.as_ref().is_some_and(|copying| copying.key == Some(key));
        let meant = self.slots_of(is_meant);
        self.end_each(Answer::Command(id), Ender::CopyAbort, &meant);
    }

    /// Ends the tasks that `is_meant` picks for `nexus`, and answers when they are gone.
    fn end_tasks(&mut self, id: TaskId, nexus: NexusId, is_meant: impl Fn(&Task) -> bool) {
        let meant = self.slots_of(is_meant);
        self.end_each(Answer::Function(id), Ender::Nexus(nexus), &meant);
    }

    fn slots_of(&self, is_meant: impl Fn(&Task) -> bool) -> Vec<Slot> {
        let meant = self.tasks.iter().filter(|(_, task)| is_meant(task));
        meant.map(|(slot, _)| slot).collect()
    }

    /// Ends tasks; the answer is given when they are gone.
    pub(super) fn end_each(&mut self, answer: Answer, ender: Ender, slots: &[Slot]) {
        let function = self.functions.insert(Function { answer, waits_for: 1 });
        if let Answer::Task(slot) = answer {
            self.tasks[slot].state = TaskState::Awaiting(function);
        }
        let volumes: Vec<_> = slots.iter().map(|&slot| self.tasks[slot].volume).collect();
        for &slot in slots {
            // One that waited for an earlier one has ended with it.
            if !self.tasks.contains(slot) {
                continue;
            }
            let delivery = self.delivery(slot, ender);
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

    fn delivery(&mut self, slot: Slot, ender: Ender) -> Delivery {
        let (volume, owner) = (self.tasks[slot].volume, self.tasks[slot].order.decoded.nexus);
        match ender {
            Ender::Nexus(nexus) if nexus == owner => Delivery::Silent,
            Ender::Nexus(_) => self.delivery_to(owner, volume),
            Ender::CopyAbort => Delivery::TaskAborted,
        }
    }

    /// SAM-5 5.3.1: what the owner of a task hears when another ends it: TASK ABORTED if TAS is set,
    /// a unit attention condition if it is clear.
    fn delivery_to(&mut self, owner: NexusId, volume: VolumeId) -> Delivery {
        let tas = self.units.get(&volume).is_none_or(|unit| unit.modes.task_aborted_status);
        if tas {
            return Delivery::TaskAborted;
        }
        if let Some(owner) = self.nexuses.get_mut(&owner) {
            owner.establish(volume, sense::COMMANDS_CLEARED_BY_ANOTHER_INITIATOR);
        }
        Delivery::Silent
    }

    /// What a task management function, which `by` sends for a LUN of its own, does to a command
    /// that has not sent all its data yet and so is in no task set: to be asked of each such command
    /// before [`Self::manage`] is told of the function.
    pub fn collecting(
        &mut self,
        (by, lun): (NexusId, u64),
        function: TaskManagement,
        (owner, owner_lun): (NexusId, u64),
    ) -> Collecting {
        let Some(volume) = self.volume_at(owner, owner_lun) else { return Collecting::GoesOn };
        let is_meant = match function {
            TaskManagement::ClearTaskSet | TaskManagement::LogicalUnitReset => {
                self.volume_at(by, lun) == Some(volume)
            }
            TaskManagement::AbortTaskSet => by == owner && self.volume_at(by, lun) == Some(volume),
            TaskManagement::TargetWarmReset | TaskManagement::TargetColdReset => {
                self.volumes_of(by).contains(&volume)
            }
            TaskManagement::ItNexusReset => by == owner,
            _ => false,
        };
        match is_meant {
            false => Collecting::GoesOn,
            true if by == owner => Collecting::IsForgotten,
            true => match self.delivery_to(owner, volume) {
                Delivery::TaskAborted => Collecting::Ends(Status::TaskAborted.into()),
                Delivery::Silent | Delivery::Nobody => Collecting::IsForgotten,
            },
        }
    }

    /// Ends a task now, or as soon as the engine has answered its request.
    pub(super) fn abort(&mut self, slot: Slot, delivery: Delivery) -> Abort {
        let task = &mut self.tasks[slot];
        let delivery = if task.detached { Delivery::Nobody } else { delivery };
        match &mut task.state {
            TaskState::Aborted(already, _) => {
                if delivery == Delivery::Nobody {
                    *already = delivery;
                }
                return Abort::Awaited;
            }
            TaskState::Saving(saving) => {
                saving.abort(delivery);
                return Abort::Awaited;
            }
            // What it waits for ends without it.
            TaskState::Awaiting(function) => self.functions[*function].answer = Answer::Nobody,
            _ => {}
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
            self.some_unwanted = true;
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
            let Function { answer, .. } = self.functions.remove(function);
            match answer {
                Answer::Function(id) => {
                    self.functions_done.push_back((id, TaskManagementResponse::FunctionComplete));
                }
                Answer::Command(id) => {
                    self.done.push_back((id, Completion::good(Rope::new()), None))
                }
                Answer::Task(slot) => self.end_good(slot),
                Answer::Nobody => {}
            }
        }
    }

    /// The volume that a nexus has at a LUN.
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
        let copies_to = |copying: &super::Copying| copying.destinations.contains(&volume);
        self.volume == volume || self.copy.as_ref().is_some_and(copies_to)
    }

    /// Whether the initiator knows this task under that name.
    fn is_named(&self, nexus: NexusId, id: TaskId) -> bool {
        self.order.decoded.nexus == nexus && self.id == id && !self.detached
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
