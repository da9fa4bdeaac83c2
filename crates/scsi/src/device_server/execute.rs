//! Command execution: from the task set to the handler, to the engine, to the completion.

use block::{BlockError, LogicalBlockLength, Request, Response, Rope, VolumeId};
use bytes::Bytes;
use reservations::Access;
use sam::AccessState;
use smallvec::SmallVec;

use super::{
    Command, CommandRecord, Copying, Decoded, Delivery, DeviceServer, Order, RequestId, Task,
    TaskAttribute, TaskId, TaskState,
};
use crate::access_state;
use crate::command::{
    Action, Execution, Medium, Ordering, Reservation, Row, Scope, check_reserved_bits,
};
use crate::commands::table;
use crate::completion::{Completion, Status};
use crate::copy_operations::CopyKey;
use crate::limits::{TASKS_MAX, TASKS_PER_UNIT_MAX};
use crate::nexus::Nexus;
use crate::procedure::{Answer, Procedure, ProcedureStep, RequestIndex};
use crate::sense::{self, Sense};
use crate::task_set::{Attribute, Class, Slot};
use crate::unit::{LogicalUnit, Sanitize};

impl DeviceServer {
    /// Takes a command with all of its data. It ends in [`Self::next_done`] or
    /// [`Self::next_aborted`].
    pub fn execute(&mut self, id: TaskId, command: Command) {
        let decoded = self.renewed(command.decoded);
        let since = command.since;
        if let Err(completion) = self.admit(id, Command { decoded, ..command }) {
            let record = self.record(&decoded, since);
            self.answer(id, record, completion);
        }
    }

    fn admit(&mut self, id: TaskId, command: Command) -> Result<(), Completion> {
        let Command { decoded, attribute, expected, data_out, since } = command;
        let row = self.row(&decoded)?;
        if attribute == TaskAttribute::Aca {
            return Err(Sense::from(sense::INVALID_MESSAGE_ERROR).into());
        }
        let order = Order { decoded, row, expected, since };
        match decoded.works_on() {
            Some(volume) => {
                let attribute = match attribute {
                    _ if row.ordering == Ordering::Alone => Attribute::Ordered,
                    TaskAttribute::Ordered => Attribute::Ordered,
                    TaskAttribute::HeadOfQueue => Attribute::HeadOfQueue,
                    TaskAttribute::Simple | TaskAttribute::Aca => Attribute::Simple,
                };
                let class = Class { attribute, ordering: row.ordering };
                self.enter(id, volume, order, class, data_out)
            }
            None => self.run_immediately(id, order, data_out),
        }
    }

    /// The row of a command that may run where it is addressed to.
    fn row(&mut self, decoded: &Decoded) -> Result<&'static Row, Completion> {
        let unit = decoded.volume.and_then(|volume| self.units.get(&volume));
        let Some(unit) = unit else { return self.row_without_unit(decoded) };
        let row = match decoded.row {
            Some(row) => check_ready(unit, row).map(|()| row),
            None => table::find(&decoded.cdb, &self.identity),
        };
        row.map_err(|sense| match self.nexuses.get_mut(&decoded.nexus) {
            Some(nexus) => attention_or(nexus, decoded.lun, sense),
            None => lun_not_supported(),
        })
    }

    fn row_without_unit(&mut self, decoded: &Decoded) -> Result<&'static Row, Completion> {
        let nexus = self.nexuses.get_mut(&decoded.nexus).ok_or_else(lun_not_supported)?;
        if decoded.cdb.opcode() != table::REPORT_LUNS {
            nexus.addressed(decoded.lun, self.now);
        }
        match decoded.row {
            Some(row) if row.scope == Scope::AnyLun => Ok(row),
            Some(_) | None => Err(lun_not_supported()),
        }
    }

    fn run_immediately(
        &mut self,
        id: TaskId,
        order: Order,
        data_out: Bytes,
    ) -> Result<(), Completion> {
        match self.perform(order, data_out)?.0 {
            Action::Done(completion) => {
                let record = self.record(&order.decoded, order.since);
                self.answer(id, record, completion);
            }
            Action::AbortCopy(key) => self.abort_copy(id, key),
            Action::Request(_) | Action::Procedure(_) | Action::Change(_) => {
                unreachable!("an immediate command makes no request and no change")
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
            since: order.since,
            order,
            data_out,
            state: TaskState::Dormant,
            withheld: 0,
            in_flight: 0,
            detached: false,
            copy: None,
            awaited_by: SmallVec::new(),
        });
        unit.statistics.work_goes_on(self.now);
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
        let action = self.perform(order, data_out).map(|(action, withheld)| {
            self.tasks[slot].withheld = withheld;
            action
        });
        match action {
            Ok(Action::Request(request)) => {
                let task = &mut self.tasks[slot];
                task.state = TaskState::Request;
                let volume = task.volume;
                self.submit(slot, 0, volume, request);
            }
            Ok(Action::Change(change)) => self.begin_change(slot, change),
            Ok(Action::Procedure(procedure)) => self.begin(slot, procedure),
            Ok(Action::AbortCopy(_)) => unreachable!("it is an immediate command"),
            Ok(Action::Done(completion)) | Err(completion) => self.end(slot, completion),
        }
    }

    /// Checks a command and runs its handler. Also says what of its Data-In is withheld.
    fn perform(&mut self, order: Order, data_out: Bytes) -> Result<(Action, u64), Completion> {
        let peers = match order.row.reservation {
            Reservation::Persistent => {
                self.nexuses.values().map(|n| n.registrant().clone()).collect()
            }
            _ => Vec::new(),
        };
        let Decoded { nexus: nexus_id, lun, volume, cdb, extent, .. } = order.decoded;
        let nexus = self.nexuses.get_mut(&nexus_id).ok_or_else(lun_not_supported)?;
        // The inventory may have changed while the command waited.
        let mapped = nexus.mappings.get(&lun).map(|mapping| mapping.volume);
        let mut execution = Execution {
            row: order.row,
            cdb,
            extent,
            data_out,
            expected: order.expected,
            withheld: 0,
            lun,
            volume: volume.filter(|volume| mapped == Some(*volume)),
            nexus_id,
            nexus,
            units: &mut self.units,
            identity: &self.identity,
            switches_off: self.switches_off,
            port_groups: &self.port_groups,
            clock: self.clock,
            now: self.now,
            peers,
            copies: &mut self.copies,
            tokens: &mut self.tokens,
        };
        check(&mut execution)?;
        let action = (order.row.handler)(&mut execution)?;
        Ok((action, execution.withheld))
    }

    /// Starts all tasks of a unit that waited for others that ended.
    pub(super) fn start_waiting(&mut self, volume: VolumeId) {
        while let Some(unit) = self.units.get_mut(&volume)
            && let Some(slot) = unit.tasks.start_next()
        {
            self.start(slot);
        }
    }

    /// Starts a command of several requests.
    fn begin(&mut self, slot: Slot, procedure: Box<dyn Procedure>) {
        if let Some(destinations) = procedure.destinations() {
            let nexus = self.tasks[slot].order.decoded.nexus;
            let progress = procedure.copy_progress();
            let token = progress.and_then(|progress| progress.token);
            let list_id = progress.and_then(|progress| progress.list_id);
            let key = list_id.map(|list_id| CopyKey { nexus, list_id });
            self.copies.begin();
            self.tasks[slot].copy = Some(Copying { destinations, key, token });
            if let Some(token) = token {
                self.tokens.begin(token);
            }
        }
        if procedure.runs_in_background() {
            let id = self.tasks[slot].id;
            self.detach(slot);
            let task = &self.tasks[slot];
            let record = self.record(&task.order.decoded, task.since);
            self.done.push_back((id, Completion::good(Rope::new()), Some(record)));
        }
        if procedure.is_paced() {
            self.paced.push(slot);
        }
        self.advance(slot, procedure, None);
    }

    /// Tells those that work at a pace that time has passed.
    pub(super) fn tick_paced(&mut self) {
        for slot in self.paced.clone() {
            let TaskState::Procedure(procedure) = &mut self.tasks[slot].state else { continue };
            for (index, volume, request) in procedure.tick(self.now) {
                self.submit(slot, index, volume, request);
            }
        }
    }

    /// Takes a task out of its task set, while its work goes on.
    pub(super) fn detach(&mut self, slot: Slot) {
        let task = &mut self.tasks[slot];
        task.detached = true;
        let (volume, epoch, class) = (task.volume, task.epoch, task.class);
        if let Some(unit) = self.units.get_mut(&volume)
            && unit.epoch == epoch
        {
            unit.leave(class, self.now);
        }
    }

    fn submit(&mut self, slot: Slot, index: RequestIndex, volume: VolumeId, request: Request) {
        self.tasks[slot].in_flight += 1;
        self.requests.push_back((RequestId::new(slot, index), volume, request));
    }

    fn advance(&mut self, slot: Slot, mut procedure: Box<dyn Procedure>, answer: Option<Answer>) {
        let step = procedure.advance(answer);
        self.note_progress(slot, &mut *procedure);
        match step {
            ProcedureStep::Request(volume, request) => self.submit(slot, 0, volume, request),
            ProcedureStep::Requests(requests) => {
                for (index, volume, request) in requests {
                    self.submit(slot, index, volume, request);
                }
            }
            ProcedureStep::Done(completion) => {
                assert_eq!(self.tasks[slot].in_flight, 0, "a command ended before its requests");
                return self.end(slot, completion);
            }
        }
        self.tasks[slot].state = TaskState::Procedure(procedure);
    }

    /// Keeps what others can ask about a command under way.
    fn note_progress(&mut self, slot: Slot, procedure: &mut dyn Procedure) {
        let (volume, epoch) = (self.tasks[slot].volume, self.tasks[slot].epoch);
        if let Some(state) = procedure.sanitize()
            && let Some(unit) = self.units.get_mut(&volume)
            && unit.epoch == epoch
        {
            unit.sanitize = state;
        }
        if let Some(remark) = procedure.remark() {
            self.remark(slot, remark);
        }
        let key = self.tasks[slot].copy.as_ref().and_then(|copying| copying.key);
        if let (Some(key), Some(progress)) = (key, procedure.copy_progress()) {
            self.copies.note(key, progress);
        }
    }

    /// The engine answered the request of a task.
    pub(super) fn answered(&mut self, slot: Slot, answer: Answer) {
        let task = &mut self.tasks[slot];
        task.in_flight -= 1;
        let volume = task.volume;
        match std::mem::replace(&mut task.state, TaskState::Request) {
            TaskState::Request => {
                let completion = self.completion_of(volume, answer.result);
                self.end(slot, completion);
            }
            TaskState::Procedure(procedure) => self.advance(slot, procedure, Some(answer)),
            TaskState::Aborted(delivery, procedure) => {
                self.answered_after_abort(slot, delivery, procedure, answer);
            }
            TaskState::Dormant | TaskState::Saving(_) | TaskState::Awaiting(_) => {
                unreachable!("a task in this state has no request")
            }
        }
        self.start_waiting(volume);
    }

    fn answered_after_abort(
        &mut self,
        slot: Slot,
        delivery: Delivery,
        mut procedure: Option<Box<dyn Procedure>>,
        answer: Answer,
    ) {
        if let Some(procedure) = &mut procedure {
            procedure.answered_after_abort(answer);
            self.note_progress(slot, &mut **procedure);
            let task = &self.tasks[slot];
            self.note_aborted(task.order.decoded.nexus, task.id);
        }
        if self.tasks[slot].in_flight > 0 {
            self.tasks[slot].state = TaskState::Aborted(delivery, procedure);
        } else {
            self.end_aborted(slot, delivery);
        }
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
    pub(super) fn end(&mut self, slot: Slot, mut completion: Completion) {
        if completion.status == Status::Good {
            completion.withheld = self.tasks[slot].withheld;
        }
        if let Some(key) = self.tasks[slot].copy.as_ref().and_then(|copying| copying.key) {
            self.copies.ended(key, self.now, &completion);
        }
        self.finish_token(slot, completion.status == Status::Good);
        let task = self.remove_task(slot);
        if completion.status == Status::Good {
            self.count(&task);
        }
        if !task.detached {
            let record = self.record(&task.order.decoded, task.since);
            self.answer(task.id, record, completion);
        }
        self.tell_waiting(task);
    }

    /// Counts a command that was GOOD, if it is one of those that are counted.
    fn count(&mut self, task: &Task) {
        let took = self.now.saturating_sub(task.since);
        let blocks = task.order.decoded.extent.blocks.0;
        if let Some(unit) = self.units.get_mut(&task.volume) {
            unit.statistics.count(task.order.row.primitive, blocks, took);
        }
    }

    fn finish_token(&mut self, slot: Slot, succeeded: bool) {
        if let Some(token) = self.tasks[slot].copy.as_ref().and_then(|copying| copying.token) {
            self.tokens.finish(token, succeeded);
        }
    }

    /// Hands a completion out, its sense data in the format that the unit is set to.
    fn answer(&mut self, id: TaskId, record: CommandRecord, mut completion: Completion) {
        let bytes = record.bytes.saturating_sub(completion.withheld);
        let record = CommandRecord { bytes, ..record };
        if let Some(sense) = &mut completion.sense {
            let unit = record.volume.and_then(|volume| self.units.get(&volume));
            sense.descriptor_format = unit.is_some_and(|unit| unit.modes.descriptor_sense);
        }
        self.done.push_back((id, completion, Some(record)));
    }

    /// Removes a task that was aborted; nothing of it is in the engine.
    pub(super) fn end_aborted(&mut self, slot: Slot, delivery: Delivery) {
        if let Some(key) = self.tasks[slot].copy.as_ref().and_then(|copying| copying.key) {
            self.copies.aborted(key, self.now);
        }
        self.finish_token(slot, false);
        self.deliver(slot, delivery);
        let task = self.remove_task(slot);
        self.tell_waiting(task);
    }

    /// Says that a task was aborted.
    pub(super) fn deliver(&mut self, slot: Slot, delivery: Delivery) {
        let id = self.tasks[slot].id;
        match delivery {
            Delivery::Silent => self.aborted.push_back(id),
            Delivery::TaskAborted => {
                self.done.push_back((id, Status::TaskAborted.into(), None));
            }
            Delivery::Nobody => {}
        }
    }

    fn remove_task(&mut self, slot: Slot) -> Task {
        let task = self.tasks.remove(slot);
        self.paced.retain(|paced| *paced != slot);
        if task.copy.is_some() {
            self.copies.end();
        }
        if !task.detached
            && let Some(unit) = self.units.get_mut(&task.volume)
            && unit.epoch == task.epoch
        {
            unit.remove_task(slot, task.class, self.now);
        }
        task
    }

    /// Tells those that waited for the end of a task.
    fn tell_waiting(&mut self, task: Task) {
        for function in task.awaited_by {
            self.task_ended(function);
        }
    }
}

/// What every command is checked for before its handler sees it.
fn check(execution: &mut Execution<'_>) -> Result<(), Completion> {
    let row = execution.row;
    if row.scope == Scope::AnyLun {
        return Ok(());
    }
    take_attention(execution.nexus, execution.lun)?;
    check_identity(execution.nexus, execution.lun)?;
    let unit = execution.unit()?;
    if unit.reservations_hidden && row.is_about_reservations() {
        return Err(Sense::from(sense::INVALID_COMMAND_OPERATION_CODE).into());
    }
    execution.check_switch()?;
    check_reserved_bits(&execution.cdb, row.usage)?;
    let group = execution.nexus.spec.target_portal_group;
    let state = execution.port_groups.state_of(group, &unit.access);
    access_state::check(state, row).map_err(Sense::from)?;
    check_ready(unit, row)?;
    if conflicts(row.reservation, unit, execution) {
        return Err(Status::ReservationConflict.into());
    }
    let read_only = execution.nexus.mappings.get(&execution.lun).is_some_and(|map| map.read_only);
    let nexus_protection = read_only.then_some(sense::WRITE_PROTECTED);
    match unit.write_protection().or(nexus_protection) {
        Some(protection) if row.medium == Medium::Writes => Err(Sense::from(protection).into()),
        _ => Ok(()),
    }
}

fn conflicts(reservation: Reservation, unit: &LogicalUnit, execution: &Execution<'_>) -> bool {
    let (nexus, who) = (execution.nexus_id, execution.nexus.registrant());
    match reservation {
        Reservation::Allowed | Reservation::Legacy => false,
        Reservation::Asks => unit.is_reserved_against(nexus),
        Reservation::Reads => unit.conflicts(nexus, who, Access::Read),
        Reservation::Conflicts => unit.conflicts(nexus, who, Access::Write),
        Reservation::Persistent => unit.reservation.is_some(),
    }
}

/// What may run while the medium cannot be reached, or a SANITIZE runs or has failed (SBC-4 4.11).
fn check_ready(unit: &LogicalUnit, row: &Row) -> Result<(), Sense> {
    let is_way_out =
        row.opcode == table::SANITIZE && matches!(unit.sanitize, Sanitize::Failed { .. });
    // ESXi asks a standby path by TEST UNIT READY whether it lives.
    let asks_path =
        row.opcode == table::TEST_UNIT_READY && unit.access.state == AccessState::Standby;
    if row.is_about_the_unit() || is_way_out || asks_path {
        return Ok(());
    }
    unit.check_ready()
}

fn take_attention(nexus: &mut Nexus, lun: u16) -> Result<(), Completion> {
    match nexus.take_attention(lun) {
        Some(condition) => Err(Sense::from(condition).into()),
        None => Ok(()),
    }
}

/// Where a nexus knew another volume, it finds none until it asks which one is there (INQUIRY, VPD
/// page 80h or 83h): whoever still means the old volume never reaches the new one.
fn check_identity(nexus: &Nexus, lun: u16) -> Result<(), Completion> {
    match nexus.mappings.get(&lun) {
        Some(mapping) if mapping.mistaken => Err(lun_not_supported()),
        _ => Ok(()),
    }
}

/// SAM-5 5.14.1: a unit attention condition is told before another fault.
fn attention_or(nexus: &mut Nexus, lun: u16, sense: Sense) -> Completion {
    nexus.take_attention(lun).map_or(sense, Sense::from).into()
}

fn lun_not_supported() -> Completion {
    Sense::from(sense::LOGICAL_UNIT_NOT_SUPPORTED).into()
}
