//! Commands and task management, between the connections and the device server.

use block::Buffer;
use bytes::Bytes;
use iscsi::{Event, LogoutScope, TaskManagementFunction};
use scsi::{NexusId, TaskAttribute, TaskId, TaskManagement, TaskManagementResponse};

use super::Reactor;
use crate::connection::Connection;

/// The device server's name for a command: the connection's serial number and the initiator task
/// tag.
fn task_id(serial: u32, initiator_task_tag: u32) -> TaskId {
    TaskId(u64::from(serial) << 32 | u64::from(initiator_task_tag))
}

/// The connection's serial number and the initiator task tag.
fn parts(task: TaskId) -> (u32, u32) {
    ((task.0 >> 32) as u32, task.0 as u32)
}

impl Reactor {
    /// Acts on everything that a connection has to say.
    pub(super) fn handle_events(&mut self, slot: usize) {
        while let Some(connection) = self.connections.get_mut(slot)
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
                self.connections[slot].collecting.remove(&task);
            }
            Event::TaskManagement(request) => self.manage(slot, request),
            Event::Login(request) => self.admit(slot, &request),
            Event::Authenticated(request) => self.let_in(slot, &request),
            Event::LoggedIn(parameters) if !parameters.discovery => {
                let address = self.connections[slot].address;
                tracing::info!(initiator = parameters.initiator_name, %address, "session begins");
            }
            Event::LoggedIn(_) => {}
            Event::SendTargets(selection) => self.send_targets(slot, &selection),
            // The connection says itself when it is to be closed.
            Event::LoggedOut(scope) => {
                self.connections[slot].leaves_alone = scope == LogoutScope::Connection;
            }
            Event::LogoutConnection { initiator_task_tag, cid } => {
                self.log_out_other(slot, initiator_task_tag, cid);
            }
            Event::Closed(reason) => {
                let address = self.connections[slot].address;
                tracing::info!(%address, %reason, "connection fails");
            }
        }
    }

    fn begin_command(&mut self, slot: usize, command: iscsi::Command) {
        let connection = &mut self.connections[slot];
        let Some(nexus) = connection.nexus else {
            // RFC 7143 4.3: a discovery session carries no SCSI commands; the connection has
            // rejected it already if it came in one.
            return connection.iscsi.forget(command.task);
        };
        if command.write {
            let length = self.core.target.data_out_length(nexus, command.lun, &command.cdb);
            let task = command.task;
            connection.collecting.insert(task, command);
            connection.iscsi.accept_data(task, length);
        } else {
            let serial = connection.serial;
            self.execute(nexus, serial, &command, Bytes::new());
        }
    }

    fn take_data(&mut self, slot: usize, task: u32, data: Buffer) {
        let connection = &mut self.connections[slot];
        let (serial, nexus) = (connection.serial, connection.nexus);
        let command = connection.collecting.remove(&task);
        if let (Some(command), Some(nexus)) = (command, nexus) {
            self.execute(nexus, serial, &command, data.freeze());
        }
    }

    fn execute(&mut self, nexus: NexusId, serial: u32, command: &iscsi::Command, data_out: Bytes) {
        let attribute = match command.attribute {
            iscsi::TaskAttribute::Simple => TaskAttribute::Simple,
            iscsi::TaskAttribute::Ordered => TaskAttribute::Ordered,
            iscsi::TaskAttribute::HeadOfQueue => TaskAttribute::HeadOfQueue,
            iscsi::TaskAttribute::Aca => TaskAttribute::Aca,
        };
        let (lun, cdb) = (command.lun, &command.cdb[..]);
        if cdb[0] == scsi::LOG_SENSE {
            self.core.tell_space();
        }
        let offered = if command.write { command.expected_data_transfer_length } else { 0 };
        let id = task_id(serial, command.task);
        let command = scsi::Command { nexus, lun, attribute, cdb, data_out };
        self.core.target.execute_offered(id, command, u64::from(offered));
    }

    fn manage(&mut self, slot: usize, request: iscsi::TaskManagement) {
        let connection = &self.connections[slot];
        let (serial, Some(nexus)) = (connection.serial, connection.nexus) else { return };
        let function = match request.function {
            TaskManagementFunction::AbortTask => {
                TaskManagement::AbortTask(self.named_task(slot, request.referenced_task))
            }
            TaskManagementFunction::QueryTask => {
                TaskManagement::QueryTask(task_id(serial, request.referenced_task))
            }
            TaskManagementFunction::QueryTaskSet => TaskManagement::QueryTaskSet,
            TaskManagementFunction::ItNexusReset => TaskManagement::ItNexusReset,
            TaskManagementFunction::QueryAsynchronousEvent => {
                TaskManagement::QueryAsynchronousEvent
            }
            TaskManagementFunction::AbortTaskSet => TaskManagement::AbortTaskSet,
            TaskManagementFunction::ClearAca => TaskManagement::ClearAca,
            TaskManagementFunction::ClearTaskSet => TaskManagement::ClearTaskSet,
            TaskManagementFunction::LogicalUnitReset => TaskManagement::LogicalUnitReset,
            TaskManagementFunction::TargetWarmReset => TaskManagement::TargetWarmReset,
            TaskManagementFunction::TargetColdReset => TaskManagement::TargetColdReset,
        };
        self.end_collecting_elsewhere(slot, request);
        let id = task_id(serial, request.initiator_task_tag);
        self.core.target.manage(id, nexus, request.lun, function);
    }

    /// The command of a tag, which may have come on another connection of the session (RFC 7143
    /// 11.5.1). One that still collects data there ends here.
    fn named_task(&mut self, slot: usize, tag: u32) -> TaskId {
        let session = self.sessions.of_connection(slot);
        let connections = session.map_or(&[][..], |session| &session.connections);
        let has_task = |other: &usize| self.connections[*other].iscsi.has_task(tag);
        let slot = connections.iter().copied().find(has_task).unwrap_or(slot);
        let connection = &mut self.connections[slot];
        if connection.collecting.remove(&tag).is_some() {
            connection.iscsi.forget(tag);
        }
        task_id(connection.serial, tag)
    }

    /// A connection has ended and its session has not: nobody waits for its commands.
    pub(super) fn abort_tasks_of(&mut self, connection: &Connection) {
        let Some(nexus) = connection.nexus else { return };
        let function = task_id(connection.serial, u32::MAX);
        for &(tag, lun) in connection.iscsi.abandoned() {
            let abort = TaskManagement::AbortTask(task_id(connection.serial, tag));
            self.core.target.manage(function, nexus, lun, abort);
        }
    }

    /// Commands on other connections that still collect data do not know of it yet.
    fn end_collecting_elsewhere(&mut self, slot: usize, request: iscsi::TaskManagement) {
        let lun = match request.function {
            TaskManagementFunction::ClearTaskSet | TaskManagementFunction::LogicalUnitReset => {
                Some(request.lun)
            }
            TaskManagementFunction::TargetWarmReset | TaskManagementFunction::TargetColdReset => {
                None
            }
            TaskManagementFunction::AbortTaskSet => Some(request.lun),
            _ => return,
        };
        let only_own = request.function == TaskManagementFunction::AbortTaskSet;
        let nexus = self.connections[slot].nexus;
        for (other, connection) in &mut self.connections {
            if other != slot && (!only_own || connection.nexus == nexus) {
                connection.iscsi.abort_collecting(lun);
                self.ready.push(other);
            }
        }
    }

    /// Gives initiators the answers of the device server; returns whether there were any.
    pub(super) fn answer_commands(&mut self) -> bool {
        let mut moved = false;
        while let Some((task, completion, record)) = self.core.target.next_recorded() {
            moved = true;
            self.core.accounts.ended(&completion, record);
            self.answer(task, completion);
        }
        while let Some(task) = self.core.target.next_aborted() {
            moved = true;
            self.with_connection(task, |connection, tag| connection.forget(tag));
        }
        while let Some(notice) = self.core.target.next_notice() {
            report(&notice);
        }
        while let Some((function, response)) = self.core.target.next_management_done() {
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
            self.with_connection(function, |connection, tag| {
                connection.respond_task_management(tag, response);
            });
        }
        moved
    }

    fn answer(&mut self, task: TaskId, completion: scsi::Completion) {
        self.core.traffic.commands += 1;
        let answer = iscsi::Completion {
            status: completion.status.code(),
            sense: completion.sense.map(|sense| sense.emit()).unwrap_or_default(),
            data_in: completion.data_in,
        };
        let (serial, tag) = parts(task);
        if let Some(&slot) = self.slots.get(&serial) {
            let connection = &mut self.connections[slot];
            connection.commands += 1;
            connection.iscsi.respond(tag, answer);
            self.ready.push(slot);
        }
    }

    /// Acts on the connection of a command, if it is still there.
    fn with_connection(&mut self, task: TaskId, act: impl FnOnce(&mut iscsi::Connection, u32)) {
        let (serial, tag) = parts(task);
        if let Some(&slot) = self.slots.get(&serial) {
            act(&mut self.connections[slot].iscsi, tag);
            self.ready.push(slot);
        }
    }
}

/// Tells the operator what a command found.
fn report(notice: &scsi::Notice) {
    match notice {
        scsi::Notice::OwnCompareAndWriteFound { initiator_name, volume, lba, blocks } => {
            tracing::warn!(
                initiator = %initiator_name,
                volume = format!("{:016x}", volume.0),
                lba,
                blocks,
                "COMPARE AND WRITE found what it would have written: a retry after a lost answer"
            );
        }
    }
}
