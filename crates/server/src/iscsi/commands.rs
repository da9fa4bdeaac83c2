//! Passes SCSI commands and task management from the connections to the device server, and answers
//! back.

use std::time::{Duration, Instant};

use api::{EventKind, Severity};
use block::Buffer;
use bytes::Bytes;
use iscsi::{Event, LogoutScope, TaskManagementFunction};
use scsi::{LostAnswer, NexusId, TaskAttribute, TaskId, TaskManagement, TaskManagementResponse};

use super::connection::{Connection, Ending};
use super::throttling::HeldCommand;
use crate::exports::ended;
use crate::limits::TURN_TIME;
use crate::reactor::Reactor;
use crate::scheduler::{HostNumber, Turn};
use crate::work::SessionId;

/// Commands that are started between two looks at the clock.
const STARTS_PER_LOOK: usize = 16;

/// A command with all its data, and its name.
pub(crate) type ReadyCommand = (TaskId, scsi::Command);

/// The device server's name for a command: the nexus, whose number has 32 bits, and the initiator
/// task tag (RFC 7143 11.2.1.8: it is unique in its session).
pub(super) fn task_id(nexus: NexusId, initiator_task_tag: u32) -> TaskId {
    TaskId(nexus.0 << 32 | u64::from(initiator_task_tag))
}

/// The device server's name for a task management function: the connection's serial number and the
/// initiator task tag.
pub(super) fn function_id(serial: u32, initiator_task_tag: u32) -> TaskId {
    TaskId(u64::from(serial) << 32 | u64::from(initiator_task_tag))
}

/// The number of nexus or connection, and the initiator task tag.
pub(super) fn parts(id: TaskId) -> (u32, u32) {
    ((id.0 >> 32) as u32, id.0 as u32)
}

impl Reactor {
    /// Acts on everything that a connection has to say.
    pub(super) fn handle_events(&mut self, slot: usize) {
        while let Some(connection) = self.iscsi.connections.get_mut(slot)
            && let Some(event) = connection.iscsi.next_event()
        {
            self.handle(slot, event);
        }
    }

    fn handle(&mut self, slot: usize, event: Event) {
        match event {
            Event::Command(command) => self.begin_command(slot, command),
            Event::DataOut { task, data } => self.take_data(slot, task, data),
            Event::Aborted { task } => {
                self.iscsi.connections[slot].collecting.remove(&task);
            }
            Event::TaskManagement(request) => self.manage(slot, request),
            Event::Login(request) => self.admit_login(slot, &request),
            Event::Authenticated(request) => self.accept_login(slot, &request),
            Event::LoggedIn(parameters)
                if !parameters.discovery && self.iscsi.chatter.may_tell(self.now) =>
            {
                let address = self.iscsi.connections[slot].address;
                tracing::info!(initiator = parameters.initiator_name, %address, "session begins");
            }
            Event::LoggedIn(_) => {}
            Event::SendTargets(selection) => self.send_targets(slot, &selection),
            // The connection says itself when it is to be closed.
            Event::LoggedOut(scope) => {
                self.iscsi.connections[slot].ending = match scope {
                    LogoutScope::Session => Ending::Session,
                    LogoutScope::Connection => Ending::Connection,
                    LogoutScope::Recovery => Ending::Failure,
                };
            }
            Event::LogoutConnection { initiator_task_tag, cid, scope } => {
                self.log_out_other(slot, initiator_task_tag, (cid, scope));
            }
            Event::TaskReassign(request) => self.reassign(slot, request),
            Event::Closed(reason) => self.note_end(slot, reason),
        }
    }

    fn begin_command(&mut self, slot: usize, command: iscsi::Command) {
        let connection = &mut self.iscsi.connections[slot];
        let Some(nexus) = connection.nexus else {
            // RFC 7143 4.3: a discovery session carries no SCSI commands; the connection has
            // rejected it already if it came in one.
            return connection.iscsi.forget(command.task);
        };
        self.tell_luns_before(nexus);
        let (task, has_data) = (command.task, command.write);
        let decoded = self.plane.exports.scsi.decode(nexus, command.lun, &command.cdb);
        let command = to_scsi(decoded, &command, self.now);
        let connection = &mut self.iscsi.connections[slot];
        if !connection.iscsi.expect_data_in(task, command.work().data_in) {
            return;
        }
        if has_data {
            connection.collecting.insert(task, command);
            connection.iscsi.accept_data(task, decoded.data_out_length());
        } else {
            let host = connection.host;
            self.enqueue(host, task, command);
        }
    }

    fn take_data(&mut self, slot: usize, task: u32, data: Buffer) {
        let connection = &mut self.iscsi.connections[slot];
        let (host, command) = (connection.host, connection.collecting.remove(&task));
        if let Some(command) = command {
            let command = scsi::Command { data_out: data.freeze(), since: self.now, ..command };
            self.enqueue(host, task, command);
        }
    }

    /// A command with all its data waits for its turn. It costs what it does, whatever its initiator
    /// expects.
    fn enqueue(&mut self, host: HostNumber, task: u32, command: scsi::Command) {
        let task = task_id(command.decoded.nexus(), task);
        let bytes = command.work().cost();
        if let Some(passed) = self.throttled(HeldCommand { host, task, bytes, command }) {
            self.queue(passed);
        }
    }

    /// A command that no limit holds back waits for its turn.
    pub(super) fn queue(&mut self, passed: HeldCommand) {
        let HeldCommand { host, task, bytes, command } = passed;
        let lane = self.plane.lane(command.decoded.works_on());
        let session = command.decoded.nexus().into();
        let turn = Turn { lane, host, session, command: task.into(), bytes };
        match command.attribute {
            TaskAttribute::HeadOfQueue => self.scheduler.push_first(turn, (task, command)),
            TaskAttribute::Simple | TaskAttribute::Ordered | TaskAttribute::Aca => {
                self.scheduler.push(turn, (task, command));
            }
        }
    }

    /// Starts commands in the order of their turns, as many as this turn of the loop may.
    pub(crate) fn start_waiting_commands(&mut self) {
        let began = Instant::now();
        while self.starts_left > 0
            && let Some(command) = self.scheduler.start_next()
        {
            self.starts_left -= 1;
            self.execute(command);
            if self.starts_left.is_multiple_of(STARTS_PER_LOOK) && began.elapsed() >= TURN_TIME {
                self.starts_left = 0;
            }
        }
    }

    /// Starts commands out of turn: those of one session, or all.
    pub(super) fn start_all_of(&mut self, only: Option<NexusId>) {
        for command in self.scheduler.start_all_of(only.map(SessionId::from)) {
            self.execute(command);
        }
    }

    fn execute(&mut self, (task, command): ReadyCommand) {
        if let Some(volume) = command.decoded.tells_space_of() {
            self.plane.tell_space_before(volume);
        }
        self.plane.exports.scsi.execute(task, command);
    }

    fn manage(&mut self, slot: usize, request: iscsi::TaskManagement) {
        let connection = &self.iscsi.connections[slot];
        let (serial, Some(nexus)) = (connection.serial, connection.nexus) else { return };
        if let TaskManagementFunction::AbortTask(tag) = request.function {
            self.end_collecting_of(slot, tag);
        }
        let function = request.function.map(|tag| task_id(nexus, tag));
        self.end_collecting_elsewhere(slot, (nexus, request.lun), function);
        let by = (nexus, request.lun);
        if self.is_held(by, function) {
            let found = iscsi::TaskManagementResponse::FunctionSucceeded;
            let connection = &mut self.iscsi.connections[slot];
            connection.iscsi.respond_task_management(request.initiator_task_tag, found);
            return self.iscsi.ready.push(slot);
        }
        self.end_held(by, function);
        let only = if function.reaches_others() { None } else { Some(nexus) };
        self.start_all_of(only);
        let id = function_id(serial, request.initiator_task_tag);
        self.plane.exports.scsi.manage(id, nexus, request.lun, function);
    }

    /// A command that is to be aborted may have come on another connection of the session (RFC 7143
    /// 11.5.1). One that still collects data there ends here.
    fn end_collecting_of(&mut self, slot: usize, tag: u32) {
        let Some(session) = self.iscsi.sessions.of_connection_mut(slot) else { return };
        if session.orphans.get(&tag).is_some_and(|orphan| orphan.collecting.is_some()) {
            session.orphans.remove(&tag);
        }
        for &slot in &session.connections {
            let connection = &mut self.iscsi.connections[slot];
            if connection.collecting.remove(&tag).is_some() {
                connection.iscsi.forget(tag);
            }
        }
    }

    /// A connection has ended and its session has not: nobody waits for its commands.
    pub(super) fn abort_tasks_of(&mut self, connection: &mut Connection) {
        let Some(nexus) = connection.nexus else { return };
        self.start_all_of(Some(nexus));
        let function = function_id(connection.serial, u32::MAX);
        for (tag, orphan) in connection.iscsi.take_orphans() {
            if orphan.is_under_way() && !self.forget_held(task_id(nexus, tag)) {
                let abort = TaskManagement::AbortTask(task_id(nexus, tag));
                self.plane.exports.scsi.manage(function, nexus, orphan.lun(), abort);
            }
        }
    }

    /// Commands on other connections that still collect data are not known to the device server yet.
    fn end_collecting_elsewhere(
        &mut self,
        slot: usize,
        by: (NexusId, u64),
        function: TaskManagement,
    ) {
        for (other, connection) in
            self.iscsi.connections.iter_mut().filter(|(other, _)| *other != slot)
        {
            let Some(owner) = connection.nexus else { continue };
            if owner == by.0 {
                end_collecting_of_own(connection, by.1, function);
                self.iscsi.ready.push(other);
                continue;
            }
            let commands: Vec<_> = connection
                .collecting
                .iter()
                .map(|(&task, command)| (task, command.decoded.lun()))
                .collect();
            for (task, lun) in commands {
                match self.plane.exports.scsi.collecting(by, function, (owner, lun)) {
                    scsi::Collecting::GoesOn => continue,
                    scsi::Collecting::Ends(completion) => {
                        connection.iscsi.respond(task, to_iscsi(completion));
                    }
                    scsi::Collecting::IsForgotten => connection.iscsi.forget(task),
                }
                connection.collecting.remove(&task);
                self.iscsi.ready.push(other);
            }
        }
        self.end_collecting_orphans(by, function);
    }

    /// Gives initiators the answers of the device server; returns whether there were any.
    pub(crate) fn answer_commands(&mut self) -> bool {
        let mut moved = false;
        while let Some((task, completion, record)) = self.plane.exports.scsi.next_recorded() {
            moved = true;
            if let Some(record) = record {
                self.plane.feed.ended(&ended(&completion, &record));
            }
            self.answer(task, completion);
        }
        while let Some(task) = self.plane.exports.scsi.next_aborted() {
            moved = true;
            self.forget_task(task);
        }
        while let Some(notice) = self.plane.exports.scsi.next_notice() {
            self.report(notice);
        }
        while let Some((function, response)) = self.plane.exports.scsi.next_management_done() {
            moved = true;
            let response = match response {
                TaskManagementResponse::FunctionComplete => {
                    iscsi::TaskManagementResponse::FunctionComplete
                }
                TaskManagementResponse::FunctionSucceeded => {
                    iscsi::TaskManagementResponse::FunctionSucceeded
                }
                TaskManagementResponse::IncorrectLogicalUnitNumber => {
                    iscsi::TaskManagementResponse::LunDoesNotExist
                }
                TaskManagementResponse::FunctionRejected => {
                    iscsi::TaskManagementResponse::FunctionNotSupported
                }
            };
            let (serial, tag) = parts(function);
            if let Some(&slot) = self.iscsi.slots.get(&serial) {
                self.iscsi.connections[slot].iscsi.respond_task_management(tag, response);
                self.iscsi.ready.push(slot);
            }
        }
        moved
    }

    /// A command ended, and nobody is to be told.
    pub(super) fn forget_task(&mut self, task: TaskId) {
        self.scheduler.finished(task.into());
        let tag = parts(task).1;
        if let Some(slot) = self.slot_of_task(task) {
            self.iscsi.connections[slot].iscsi.forget(tag);
            self.iscsi.ready.push(slot);
        } else if let Some(session) = self.iscsi.sessions.of_task_mut(task) {
            session.orphans.remove(&tag);
        }
    }

    pub(super) fn answer(&mut self, task: TaskId, completion: scsi::Completion) {
        self.plane.traffic.commands += 1;
        self.scheduler.finished(task.into());
        let answer = to_iscsi(completion);
        if let Some(slot) = self.slot_of_task(task) {
            let connection = &mut self.iscsi.connections[slot];
            connection.commands += 1;
            connection.iscsi.respond(parts(task).1, answer);
            self.iscsi.ready.push(slot);
        } else {
            self.answer_orphan(task, answer);
        }
    }

    /// Tells the operator what a command found.
    fn report(&mut self, notice: scsi::Notice) {
        let scsi::Notice::OwnCompareAndWriteFound { initiator_name, volume, lba, blocks, lost } =
            notice;
        let object = self.plane.name_of(volume);
        let lost = match lost {
            LostAnswer::Aborted => "it had aborted that command",
            LostAnswer::SessionEnded => "its session had ended meanwhile",
        };
        let message = format!(
            "a COMPARE AND WRITE (ATS) of {initiator_name}, {blocks} blocks at {lba}, failed and \
             found what the same initiator had written: a retry after a lost answer ({lost})"
        );
        self.management.events.note_kind(EventKind::LockRetry, Severity::Warning, object, message);
    }

    /// The connection that waits for a command, if there is one.
    fn slot_of_task(&self, task: TaskId) -> Option<usize> {
        let tag = parts(task).1;
        let session = self.iscsi.sessions.of_task(task)?;
        let connections = &session.connections;
        match connections[..] {
            [slot] if session.orphans.is_empty() => Some(slot),
            _ => connections
                .iter()
                .copied()
                .find(|&slot| self.iscsi.connections[slot].iscsi.has_task(tag)),
        }
    }
}

/// Applies a task management function to the commands that still collect data on another connection
/// of its session.
fn end_collecting_of_own(connection: &mut Connection, lun: u64, function: TaskManagement) {
    match function {
        TaskManagement::AbortTaskSet
        | TaskManagement::ClearTaskSet
        | TaskManagement::LogicalUnitReset => connection.iscsi.abort_collecting(Some(lun)),
        TaskManagement::TargetWarmReset
        | TaskManagement::TargetColdReset
        | TaskManagement::ItNexusReset => connection.iscsi.abort_collecting(None),
        _ => {}
    }
}

/// A command of which no data has come yet.
fn to_scsi(decoded: scsi::Decoded, command: &iscsi::Command, now: Duration) -> scsi::Command {
    let offered = if command.write { command.expected_data_transfer_length } else { 0 };
    let expected =
        scsi::Expected { data_out: offered.into(), data_in: command.expected_read_length.into() };
    let attribute = command.attribute;
    scsi::Command { decoded, attribute, expected, data_out: Bytes::new(), since: now }
}

pub(super) fn to_iscsi(completion: scsi::Completion) -> iscsi::Completion {
    iscsi::Completion {
        status: completion.status.code(),
        sense: completion.sense.map(|sense| sense.emit()).unwrap_or_default(),
        data_in: completion.data_in,
        withheld: completion.withheld,
    }
}
