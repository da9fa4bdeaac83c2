//! The way of a command: into the task set, to its handler, to the engine, to its completion.

use block::{BlockError, LogicalBlockLength, Request, Response, Rope, VolumeId};
use bytes::Bytes;
use smallvec::SmallVec;

use super::{Command, Delivery, Order, RequestId, Target, Task, TaskAttribute, TaskId, TaskState};
use crate::cdb::Cdb;
use crate::command::{
    Action, Execution, Medium, Ordering, Reservation, Scope, check_reserved_bits,
};
use crate::commands::table;
use crate::completion::{Completion, Status};
use crate::limits::{TASKS_MAX, TASKS_PER_UNIT_MAX};
use crate::lun::parse_lun;
use crate::nexus::{Mapping, Nexus};
use crate::procedure::{Procedure, Step};
use crate::sense::{self, Sense};
use crate::target::NexusId;
use crate::task_set::{Class, Slot};

impl Target {
    /// Bytes of Data-Out that a command takes, 0 if none; also 0 if it takes more than any command
    /// may, or is not one of ours: [`Self::execute`] then says what is wrong.
    pub fn data_out_length(&self, nexus: NexusId, lun: u64, cdb: &[u8]) -> u32 {
        let cdb = Cdb::new(cdb);
        let nexus = self.nexuses.get(&nexus);
        let mapping = parse_lun(lun).and_then(|lun| nexus?.mappings.get(&lun));
        let unit = mapping.and_then(|mapping| self.units.get(&mapping.volume));
        match (unit, table::find(&cdb)) {
            (Some(unit), Ok(row)) => {
                let length = (row.data_out)(&cdb, unit.block_bytes());
                u32::try_from(length).ok().filter(|_| length <= table::DATA_OUT_MAX).unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// Takes a command whose initiator was ready to send as much as it sent. It ends in
    /// [`Self::next_done`] or [`Self::next_aborted`].
    pub fn execute(&mut self, id: TaskId, command: Command<'_>) {
        let offered = command.data_out.len() as u64;
        self.execute_offered(id, command, offered);
    }

    /// As [`Self::execute`], for an initiator that was ready to send `offered` bytes (iSCSI's
    /// expected data transfer length), of which only those that the command takes were fetched.
    /// COMPARE AND WRITE and WRITE SAME refuse another length than theirs.
    pub fn execute_offered(&mut self, id: TaskId, command: Command<'_>, offered: u64) {
        if let Err(completion) = self.admit(id, command, offered) {
            self.done.push_back((id, completion));
        }
    }

    fn admit(&mut self, id: TaskId, command: Command<'_>, offered: u64) -> Result<(), Completion> {
        let cdb = Cdb::new(command.cdb);
        let lun = parse_lun(command.lun);
        let nexus = self.nexuses.get_mut(&command.nexus).ok_or_else(lun_not_supported)?;
        let mapping = lun.and_then(|lun| nexus.mappings.get_mut(&lun));
        let row = table::find(&cdb);
        let volume = match &mapping {
            Some(mapping) if self.units.contains_key(&mapping.volume) => Some(mapping.volume),
            _ => None,
        };
        if volume.is_none() && !row.is_ok_and(|row| row.scope == Scope::AnyLun) {
            return Err(lun_not_supported());
        }
        let row = row.map_err(|sense| attention_or(mapping, sense))?;
        if command.attribute == TaskAttribute::Aca {
            return Err(Sense::from(sense::INVALID_MESSAGE_ERROR).into());
        }
        let order = Order {
            nexus: command.nexus,
            lun: lun.unwrap_or(u16::MAX),
            volume,
            row,
            cdb,
            data_out_offered: offered,
        };
        match volume {
            Some(volume) if row.ordering != Ordering::Immediate => {
                let class = match command.attribute {
                    TaskAttribute::Ordered => Class::Ordered,
                    TaskAttribute::HeadOfQueue => Class::HeadOfQueue,
                    TaskAttribute::Simple | TaskAttribute::Aca => Class::Simple(row.ordering),
                };
                self.enter(id, volume, order, class, command.data_out)
            }
            _ => self.run_immediately(id, order, command.data_out),
        }
    }

    fn run_immediately(
        &mut self,
        id: TaskId,
        order: Order,
        data_out: Bytes,
    ) -> Result<(), Completion> {
        match self.perform(order, data_out)? {
            Action::Done(completion) => self.done.push_back((id, completion)),
            Action::Request(_) | Action::Procedure(_) => {
                unreachable!("an immediate command makes no request")
            }
        }
        Ok(())
    }

    fn enter(
        &mut self,
        id: TaskId,
        volume: VolumeId,
        order: Order,
        class: Class,
        data_out: Bytes,
    ) -> Result<(), Completion> {
        if self.tasks.len() >= TASKS_MAX {
            return Err(Status::Busy.into());
        }
        let unit = self.units.get_mut(&volume).ok_or_else(lun_not_supported)?;
        if unit.tasks.len() >= TASKS_PER_UNIT_MAX {
            return Err(Status::TaskSetFull.into());
        }
        let slot = self.tasks.insert(Task {
            id,
            volume,
            epoch: unit.epoch,
            class,
            order,
            data_out,
            state: TaskState::Dormant,
            destinations: None,
            awaited_by: SmallVec::new(),
        });
        if unit.tasks.enter(slot, class) {
            self.start(slot);
            self.start_waiting(volume);
        }
        Ok(())
    }

    /// Runs a task's handler; what the task needs then is on its way.
    fn start(&mut self, slot: Slot) {
        let task = &mut self.tasks[slot];
        let (order, data_out) = (task.order, std::mem::take(&mut task.data_out));
        match self.perform(order, data_out) {
            Ok(Action::Request(request)) => {
                let task = &mut self.tasks[slot];
                task.state = TaskState::Request;
                let volume = task.volume;
                self.submit(slot, volume, request);
            }
            Ok(Action::Procedure(procedure)) => {
                let destinations = procedure.destinations();
                self.copies += u16::from(destinations.is_some());
                self.tasks[slot].destinations = destinations;
                self.advance(slot, procedure, None);
            }
            Ok(Action::Done(completion)) | Err(completion) => self.end(slot, completion),
        }
    }

    /// Checks a command and runs its handler.
    fn perform(&mut self, order: Order, data_out: Bytes) -> Result<Action, Completion> {
        let nexus = self.nexuses.get_mut(&order.nexus).ok_or_else(lun_not_supported)?;
        // The inventory may have changed while the command waited.
        let mapped = nexus.mappings.get(&order.lun).map(|mapping| mapping.volume);
        let mut execution = Execution {
            row: order.row,
            cdb: order.cdb,
            data_out,
            data_out_offered: order.data_out_offered,
            lun: order.lun,
            volume: order.volume.filter(|volume| mapped == Some(*volume)),
            nexus_id: order.nexus,
            nexus,
            units: &mut self.units,
            identity: &self.identity,
            ports: &self.ports,
            copies: self.copies,
        };
        check(&mut execution)?;
        (order.row.handler)(&mut execution)
    }

    /// Starts all tasks of a unit that waited for others that ended.
    pub(super) fn start_waiting(&mut self, volume: VolumeId) {
        while let Some(unit) = self.units.get_mut(&volume)
            && let Some(slot) = unit.tasks.start_next()
        {
            self.start(slot);
        }
    }

    fn submit(&mut self, slot: Slot, volume: VolumeId, request: Request) {
        self.requests.push_back((RequestId(slot as u64), volume, request));
    }

    fn advance(
        &mut self,
        slot: Slot,
        mut procedure: Box<dyn Procedure>,
        answer: Option<Result<Response, BlockError>>,
    ) {
        match procedure.advance(answer) {
            Step::Request(volume, request) => {
                self.tasks[slot].state = TaskState::Procedure(procedure);
                self.submit(slot, volume, request);
            }
            Step::Done(completion) => {
                if let Some(result) = procedure.copy_result()
                    && let Some(nexus) = self.nexuses.get_mut(&self.tasks[slot].order.nexus)
                {
                    nexus.hold_copy_result(self.now, result);
                }
                self.end(slot, completion);
            }
        }
    }

    /// The engine answered the request of a task.
    pub(super) fn answered(&mut self, slot: Slot, result: Result<Response, BlockError>) {
        let task = &mut self.tasks[slot];
        let volume = task.volume;
        match std::mem::replace(&mut task.state, TaskState::Request) {
            TaskState::Request => {
                let completion = self.completion_of(volume, result);
                self.end(slot, completion);
            }
            TaskState::Procedure(procedure) => self.advance(slot, procedure, Some(result)),
            TaskState::Aborted(delivery) => self.end_aborted(slot, delivery),
            TaskState::Dormant => unreachable!("a waiting task has no request"),
        }
        self.start_waiting(volume);
    }

    fn completion_of(&self, volume: VolumeId, result: Result<Response, BlockError>) -> Completion {
        match result {
            Ok(Response::Data(data)) => Completion::good(data),
            Ok(Response::Done | Response::Map(_)) => Completion::good(Rope::new()),
            Err(error) => {
                let unit = self.units.get(&volume);
                let length = unit.map_or(LogicalBlockLength::B512, |unit| unit.spec.block_length);
                Completion::from_block_error(error, length)
            }
        }
    }

    /// Removes a task that ran, and answers it.
    pub(super) fn end(&mut self, slot: Slot, completion: Completion) {
        let id = self.remove_task(slot);
        self.done.push_back((id, completion));
    }

    /// Removes a task that was aborted; nothing of it is in the engine.
    pub(super) fn end_aborted(&mut self, slot: Slot, delivery: Delivery) {
        let id = self.remove_task(slot);
        match delivery {
            Delivery::Silent => self.aborted.push_back(id),
            Delivery::TaskAborted => self.done.push_back((id, Status::TaskAborted.into())),
            Delivery::Nobody => {}
        }
    }

    fn remove_task(&mut self, slot: Slot) -> TaskId {
        let task = self.tasks.remove(slot);
        self.copies -= u16::from(task.destinations.is_some());
        if let Some(unit) = self.units.get_mut(&task.volume)
            && unit.epoch == task.epoch
            && !unit.tasks.withdraw(slot)
        {
            unit.tasks.leave(task.class);
        }
        for function in task.awaited_by {
            self.task_ended(function);
        }
        task.id
    }
}

/// What every command is checked for before its handler sees it.
fn check(execution: &mut Execution<'_>) -> Result<(), Completion> {
    let row = execution.row;
    if row.scope == Scope::AnyLun {
        return Ok(());
    }
    take_attention(execution.nexus, execution.lun)?;
    check_reserved_bits(&execution.cdb, row.usage)?;
    let unit = execution.unit()?;
    if row.reservation == Reservation::Conflicts && unit.is_reserved_against(execution.nexus_id) {
        return Err(Status::ReservationConflict.into());
    }
    let read_only = execution.nexus.mappings.get(&execution.lun).is_some_and(|map| map.read_only);
    if row.medium == Medium::Writes && (unit.write_protected || read_only) {
        return Err(Sense::from(sense::WRITE_PROTECTED).into());
    }
    Ok(())
}

fn take_attention(nexus: &mut Nexus, lun: u16) -> Result<(), Completion> {
    let attentions = nexus.mappings.get_mut(&lun).map(|mapping| &mut mapping.attentions);
    match attentions.and_then(|attentions| attentions.take()) {
        Some(condition) => Err(Sense::from(condition).into()),
        None => Ok(()),
    }
}

/// SAM-5 5.14.1: a unit attention condition is told before another fault.
fn attention_or(mapping: Option<&mut Mapping>, sense: Sense) -> Completion {
    let condition = mapping.and_then(|mapping| mapping.attentions.take());
    condition.map_or(sense, Sense::from).into()
}

fn lun_not_supported() -> Completion {
    Sense::from(sense::LOGICAL_UNIT_NOT_SUPPORTED).into()
}
