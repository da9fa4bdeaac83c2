//! Full-feature phase: dispatches PDUs and handles all requests but SCSI commands and text.

use std::time::Duration;

use block::Rope;
use bytes::Bytes;

use super::recovery::EarlyData;
use super::{Connection, Duty, PendingManagement, Question};
use crate::event::{
    ClosedReason, Event, LogoutScope, TaskManagement, TaskManagementFunction,
    TaskManagementResponse,
};
use crate::limits::{SEND_BYTES_PER_SECOND_MIN, TASK_MANAGEMENT_MAX};
use crate::pdu::{Bhs, NO_TAG, RejectReason, request, response};
use crate::receive::{Destination, Finished, Header};
use crate::sequence::Admission;
use crate::task::Task;

/// Responses to a logout (RFC 7143 11.15.1).
const CID_NOT_FOUND: u8 = 1;
const RECOVERY_NOT_SUPPORTED: u8 = 2;

/// A task management function (RFC 7143 11.5.1).
const TASK_REASSIGN: u8 = 8;

/// An asynchronous event (RFC 7143 11.9.1).
const REQUEST_LOGOUT: u8 = 1;

impl Connection {
    /// A header arrived. PDUs whose data digest decides over them wait for their data.
    pub(super) fn take_request(&mut self, header: Header) {
        self.take_acknowledgement(&header.bhs);
        if is_numbered(&header.bhs) && self.numbers.is_early(&header.bhs) {
            self.set_aside(header);
            return;
        }
        let bhs = &header.bhs;
        match bhs.opcode() {
            request::SCSI_COMMAND => self.take_command(&header),
            request::DATA_OUT => self.take_data_out(bhs),
            request::LOGIN => self.end(ClosedReason::Protocol("login in full-feature phase")),
            request::NOP_OUT | request::TEXT if bhs.data_segment_length() > 0 => {
                self.receiver.begin_segment(*bhs, Destination::Text(Vec::new()));
            }
            _ => {
                self.skip_segment(bhs);
                self.take_simple_request(bhs, Vec::new());
            }
        }
    }

    /// A data segment arrived.
    pub(super) fn take_segment(&mut self, finished: Finished) {
        let bhs = finished.bhs;
        match (bhs.opcode(), finished.destination) {
            (_, Destination::Skip) => {}
            (_, Destination::Early(early)) => self.finish_early(bhs, *early, finished.intact),
            (request::SCSI_COMMAND, destination) => {
                self.finish_immediate_data(&bhs, destination, finished.intact);
            }
            (request::DATA_OUT, destination) => {
                self.finish_data_out(&bhs, destination, finished.intact);
            }
            // RFC 7143 7.7: the initiator sends the request again.
            (_, Destination::Text(_)) if !finished.intact => {
                self.reject(&bhs, RejectReason::DataDigestError);
            }
            (_, Destination::Text(text)) => self.take_simple_request(&bhs, text),
            _ => {}
        }
    }

    /// A request that was put aside with its data.
    pub(super) fn take_whole(&mut self, header: Header, data: Vec<u8>, intact: bool) {
        if header.bhs.opcode() == request::SCSI_COMMAND {
            let bhs = header.bhs;
            let has_data = !data.is_empty();
            self.early_immediate = has_data.then_some(EarlyData { bhs, data, intact });
            self.take_command_header(&header);
            if self.question != Question::Command(bhs.initiator_task_tag()) {
                self.early_immediate = None;
            }
        } else if intact {
            self.take_simple_request(&header.bhs, data);
        } else {
            self.reject(&header.bhs, RejectReason::DataDigestError);
        }
    }

    fn take_simple_request(&mut self, bhs: &Bhs, data: Vec<u8>) {
        if bhs.opcode() == request::SNACK {
            self.take_snack(bhs);
            return;
        }
        if !self.admit(bhs) {
            return;
        }
        match bhs.opcode() {
            request::NOP_OUT => self.take_nop_out(bhs, data),
            request::TASK_MANAGEMENT => self.take_task_management(bhs),
            request::TEXT => self.take_text(bhs, &data),
            request::LOGOUT => self.take_logout(bhs),
            _ => self.reject(bhs, RejectReason::CommandNotSupported),
        }
    }

    /// Whether a request is the next in order.
    pub(super) fn admit(&mut self, bhs: &Bhs) -> bool {
        match self.numbers.admit(bhs) {
            Admission::Accept => true,
            // One that is early was put aside before.
            Admission::Ignore | Admission::Gap => false,
        }
    }

    fn take_nop_out(&mut self, request: &Bhs, mut data: Vec<u8>) {
        // RFC 7143 11.18: without a task tag it answers a ping or only acknowledges.
        if request.initiator_task_tag() == NO_TAG {
            return;
        }
        data.truncate(self.parameters.initiator_max_recv_data_segment_length as usize);
        let mut bhs = Bhs::response(response::NOP_IN, request.initiator_task_tag());
        bhs.set_u32(20, NO_TAG);
        self.send_status(bhs, Rope::from(Bytes::from(data)));
    }

    /// Asks for a sign of life, or gives up.
    pub(super) fn watch_peer(&mut self, now: Duration) {
        if self.is_logout_overdue(now) {
            self.end(ClosedReason::ByTarget);
            return;
        }
        let liveness = &mut self.liveness;
        if std::mem::take(&mut liveness.heard) {
            liveness.last_heard = now;
            liveness.pinged = None;
        }
        match liveness.pinged {
            Some(pinged) if now.saturating_sub(pinged) >= self.config.ping_timeout => {
                self.end(ClosedReason::PeerDead);
                self.send.clear();
            }
            None if now.saturating_sub(liveness.last_heard) >= self.config.ping_interval => {
                liveness.pinged = Some(now);
                self.ping();
            }
            _ => {}
        }
    }

    /// An initiator that takes next to nothing of what waits for it is of no use, and its commands
    /// hold memory: within the time to send it has to take all of it, or as much as a slow line
    /// carries.
    pub(super) fn watch_sending(&mut self, now: Duration) {
        let (waits, timeout) = (self.send.bytes() as u64, self.config.send_timeout);
        let liveness = &mut self.liveness;
        if waits == 0 {
            liveness.duty = None;
            return;
        }
        let slow = timeout.as_secs().saturating_mul(SEND_BYTES_PER_SECOND_MIN);
        let begin = Duty { since: now, taken: liveness.taken + waits.min(slow).max(1) };
        let duty = liveness.duty.get_or_insert(begin);
        if liveness.taken >= duty.taken {
            *duty = begin;
        } else if now.saturating_sub(duty.since) >= timeout {
            // Nobody will take the PDUs that are left.
            self.end(ClosedReason::PeerSlow);
            self.send.clear();
        }
    }

    /// RFC 7143 11.9.1: event 1, the target requests logout within so many seconds.
    pub(super) fn ask_for_logout(&mut self, patience: Duration) {
        if self.liveness.logout.is_some() {
            return;
        }
        self.liveness.logout = Some((patience, None));
        let mut bhs = Bhs::response(response::ASYNC_MESSAGE, NO_TAG);
        bhs.0[36] = REQUEST_LOGOUT;
        let seconds = u16::try_from(patience.as_secs()).unwrap_or(u16::MAX);
        bhs.0[42..44].copy_from_slice(&seconds.to_be_bytes());
        self.send_status(bhs, Rope::new());
    }

    /// Whether an initiator that was asked to log out let its time pass.
    fn is_logout_overdue(&mut self, now: Duration) -> bool {
        let Some((patience, since)) = &mut self.liveness.logout else { return false };
        now.saturating_sub(*since.get_or_insert(now)) >= *patience
    }

    fn ping(&mut self) {
        let mut bhs = Bhs::response(response::NOP_IN, NO_TAG);
        bhs.set_u32(20, self.new_transfer_tag());
        self.open_window();
        self.numbers.stamp(&mut bhs);
        self.send.push(bhs, Rope::new());
    }

    /// RFC 7143 11.14.1: 0 closes the session, 1 a connection, 2 a connection whose tasks are to be
    /// taken over, at error recovery level 2.
    fn take_logout(&mut self, request: &Bhs) {
        let (tag, cid) = (request.initiator_task_tag(), request.u16(20));
        match request.flags() & 0x7f {
            0 => self.log_out(tag, LogoutScope::Session),
            1 if cid == self.parameters.cid => self.log_out(tag, LogoutScope::Connection),
            1 if self.parameters.max_connections > 1 => {
                self.log_out_other(tag, cid, LogoutScope::Connection);
            }
            1 => self.send_logout_response(tag, CID_NOT_FOUND),
            2 if self.parameters.error_recovery_level < 2 => {
                self.send_logout_response(tag, RECOVERY_NOT_SUPPORTED);
            }
            2 if cid == self.parameters.cid => self.log_out(tag, LogoutScope::Recovery),
            2 => self.log_out_other(tag, cid, LogoutScope::Recovery),
            _ => self.reject(request, RejectReason::InvalidPduField),
        }
    }

    fn log_out_other(&mut self, initiator_task_tag: u32, cid: u16, scope: LogoutScope) {
        let event = Event::LogoutConnection { initiator_task_tag, cid, scope };
        self.events.push_back(event);
    }

    fn log_out(&mut self, tag: u32, scope: LogoutScope) {
        self.send_logout_response(tag, 0);
        self.shut();
        self.events.push_back(Event::LoggedOut(scope));
    }

    pub(super) fn send_logout_response(&mut self, tag: u32, response: u8) {
        let mut bhs = Bhs::response(response::LOGOUT, tag);
        bhs.0[2] = response;
        bhs.0[40..42].copy_from_slice(&(self.parameters.default_time2wait as u16).to_be_bytes());
        bhs.0[42..44].copy_from_slice(&(self.parameters.default_time2retain as u16).to_be_bytes());
        self.send_status(bhs, Rope::new());
    }

    fn take_task_management(&mut self, bhs: &Bhs) {
        let tag = bhs.initiator_task_tag();
        if bhs.flags() & 0x7f == TASK_REASSIGN {
            return self.take_task_reassign(bhs);
        }
        let Some(function) = function(bhs, self.parameters.protocol_level) else {
            let response = TaskManagementResponse::FunctionNotSupported;
            return self.send_management_response(tag, response);
        };
        let request = TaskManagement { initiator_task_tag: tag, function, lun: bhs.lun() };
        if let TaskManagementFunction::AbortTask(task) = function
            && self.abort_here(task)
        {
            self.send_management_response(tag, TaskManagementResponse::FunctionComplete);
        } else if let TaskManagementFunction::QueryTask(task) = function
            && self.is_collecting(task)
        {
            // The owner does not know the command yet.
            self.send_management_response(tag, TaskManagementResponse::FunctionSucceeded);
        } else {
            self.pass_on(request);
        }
    }

    fn is_collecting(&self, task: u32) -> bool {
        self.tasks.get(&task).is_some_and(|task| task.is_collecting())
    }

    /// Aborts a command that the owner does not carry out (yet, or any more). A command that is not
    /// known has finished: the function is complete then too, because ESXi takes any other answer
    /// for a target gone mad and resets it.
    fn abort_here(&mut self, referenced_task: u32) -> bool {
        let Some(task) = self.tasks.get(&referenced_task) else {
            // The task may be a command of another connection, of which the owner knows.
            let is_alone = self.parameters.max_connections == 1;
            return is_alone && self.parameters.error_recovery_level < 2;
        };
        if task.is_collecting() {
            self.remove_task(referenced_task);
            self.events.push_back(Event::Aborted { task: referenced_task });
            return true;
        }
        let is_answered = task.data_out.as_ref().is_some_and(|data_out| data_out.is_answered());
        if is_answered {
            self.remove_task(referenced_task);
        }
        is_answered
    }

    fn pass_on(&mut self, request: TaskManagement) {
        let is_repeated = |pending: &PendingManagement| {
            pending.request.initiator_task_tag == request.initiator_task_tag
        };
        if self.management.len() >= TASK_MANAGEMENT_MAX || self.management.iter().any(is_repeated) {
            let tag = request.initiator_task_tag;
            self.send_management_response(tag, TaskManagementResponse::FunctionRejected);
            return;
        }
        if !matches!(request.function, TaskManagementFunction::AbortTask(_)) {
            self.abort_collecting_where(|task| covers(&request, None, task));
        }
        self.management.push(PendingManagement { request, arrival: self.arrivals });
        self.events.push_back(Event::TaskManagement(request));
    }

    pub(super) fn answer_management(&mut self, tag: u32, response: TaskManagementResponse) {
        let is_answered = |pending: &PendingManagement| pending.request.initiator_task_tag == tag;
        let Some(index) = self.management.iter().position(is_answered) else { return };
        let pending = self.management.remove(index);
        if response == TaskManagementResponse::FunctionComplete {
            self.forget_covered(&pending);
        }
        self.send_management_response(tag, response);
    }

    fn forget_covered(&mut self, pending: &PendingManagement) {
        let mut freed = 0;
        self.tasks.retain(|&tag, task| {
            let is_old = task.arrival < pending.arrival;
            let keep = !is_old || !covers(&pending.request, Some(tag), task);
            freed += if keep { 0 } else { task.memory };
            keep
        });
        self.task_bytes -= freed;
    }

    pub(super) fn send_management_response(&mut self, tag: u32, response: TaskManagementResponse) {
        let mut bhs = Bhs::response(response::TASK_MANAGEMENT, tag);
        bhs.0[2] = response.code();
        self.send_status(bhs, Rope::new());
    }

    /// Tells the initiator that a PDU was not carried out (RFC 7143 11.17).
    pub(super) fn reject(&mut self, bad: &Bhs, reason: RejectReason) {
        let mut bhs = Bhs::response(response::REJECT, NO_TAG);
        bhs.0[2] = reason as u8;
        self.send_status(bhs, Rope::from(Bytes::copy_from_slice(&bad.0)));
    }

    /// Numbers and queues a response that carries status.
    pub(super) fn send_status(&mut self, mut bhs: Bhs, data: Rope) {
        self.open_window();
        let stat_sn = self.numbers.stamp_status(&mut bhs);
        self.send_kept(bhs, data, Some(stat_sn));
    }

    pub(super) fn open_window(&mut self) {
        self.numbers.open_window(self.tasks.len() as u32, self.config.limits.tasks_max);
    }

    /// A tag that names one R2T or ping.
    pub(super) fn new_transfer_tag(&mut self) -> u32 {
        self.last_transfer_tag = self.last_transfer_tag.wrapping_add(1);
        if self.last_transfer_tag == NO_TAG {
            self.last_transfer_tag = 0;
        }
        self.last_transfer_tag
    }
}

/// Whether a request has a place in the order of CmdSN: all but Data-Out and SNACK.
fn is_numbered(bhs: &Bhs) -> bool {
    !bhs.immediate() && !matches!(bhs.opcode(), request::DATA_OUT | request::SNACK)
}

/// RFC 7143 11.5.1; RFC 7144 6.1 adds what needs protocol level 2.
fn function(bhs: &Bhs, protocol_level: u32) -> Option<TaskManagementFunction> {
    let referenced_task = bhs.target_transfer_tag();
    Some(match bhs.flags() & 0x7f {
        1 => TaskManagementFunction::AbortTask(referenced_task),
        2 => TaskManagementFunction::AbortTaskSet,
        3 => TaskManagementFunction::ClearAca,
        4 => TaskManagementFunction::ClearTaskSet,
        5 => TaskManagementFunction::LogicalUnitReset,
        6 => TaskManagementFunction::TargetWarmReset,
        7 => TaskManagementFunction::TargetColdReset,
        9 if protocol_level >= 2 => TaskManagementFunction::QueryTask(referenced_task),
        10 if protocol_level >= 2 => TaskManagementFunction::QueryTaskSet,
        11 if protocol_level >= 2 => TaskManagementFunction::ItNexusReset,
        12 if protocol_level >= 2 => TaskManagementFunction::QueryAsynchronousEvent,
        _ => return None,
    })
}

/// Whether a function ends a task; `tag` is the task's, if the function may name one.
fn covers(request: &TaskManagement, tag: Option<u32>, task: &Task) -> bool {
    match request.function {
        TaskManagementFunction::AbortTask(referenced) => tag == Some(referenced),
        TaskManagementFunction::ClearAca
        | TaskManagementFunction::QueryTask(_)
        | TaskManagementFunction::QueryTaskSet
        | TaskManagementFunction::QueryAsynchronousEvent => false,
        TaskManagementFunction::AbortTaskSet
        | TaskManagementFunction::ClearTaskSet
        | TaskManagementFunction::LogicalUnitReset => task.lun == request.lun,
        TaskManagementFunction::TargetWarmReset
        | TaskManagementFunction::TargetColdReset
        | TaskManagementFunction::ItNexusReset => true,
    }
}
