//! Connection recovery (RFC 7143 7.2.2, error recovery level 2): takes commands out of a connection
//! that ends, and into another one by TASK REASSIGN.

use super::{Connection, State};
use crate::event::{Event, TaskManagementResponse, TaskReassign};
use crate::orphan::{Content, Orphan, SentAnswer};
use crate::pdu::Bhs;
use crate::task::Task;

impl Connection {
    /// The commands that another connection of the session may take over, with their initiator task
    /// tags; there are some only when the connection has ended and its session may go on.
    pub fn take_orphans(&mut self) -> Vec<(u32, Orphan)> {
        std::mem::take(&mut self.orphans)
    }

    /// Answers `Event::TaskReassign`: with the command, which goes on here, or with the reason why
    /// there is none.
    pub fn reassign(
        &mut self,
        request: TaskReassign,
        orphan: Result<Orphan, TaskManagementResponse>,
    ) {
        if !matches!(self.state, State::FullFeature) {
            return;
        }
        let response = match orphan {
            Ok(orphan) => return self.adopt(request, orphan),
            Err(response) => response,
        };
        self.send_management_response(request.initiator_task_tag, response);
    }

    fn adopt(&mut self, request: TaskReassign, orphan: Orphan) {
        let tag = request.referenced_task;
        let complete = TaskManagementResponse::FunctionComplete;
        self.send_management_response(request.initiator_task_tag, complete);
        match orphan.content {
            Content::Task(task) => {
                self.adopt_task(tag, task);
                self.advance_data_out(tag);
            }
            Content::Answered(task, completion) => {
                self.adopt_task(tag, task);
                self.answer(tag, completion);
            }
            Content::Sent(answer) => {
                let from = answer.resume(request.exp_data_sn);
                self.history.resume(tag, from.0);
                self.answer_again(tag, &answer, from);
            }
        }
    }

    fn adopt_task(&mut self, tag: u32, mut task: Task) {
        task.arrival = self.arrivals;
        self.arrivals += 1;
        self.task_bytes += task.memory;
        self.tasks.insert(tag, task);
        self.open_window();
    }

    /// Sends what the initiator has not received, in PDUs as long as it takes now.
    fn answer_again(&mut self, tag: u32, answer: &SentAnswer, (data_sn, offset): (u32, u32)) {
        let data = answer.data_from(offset);
        let sent = self.send_data_in(tag, data, (data_sn, offset as usize), None);
        let mut response = answer.response;
        let others = response.u32(36).wrapping_sub(answer.data_in_pdus());
        response.set_u32(36, others.wrapping_add(sent));
        self.send_status(response, answer.segment.clone());
    }

    /// TASK REASSIGN, which is immediate (RFC 7143 11.5.1).
    pub(super) fn take_task_reassign(&mut self, bhs: &Bhs) {
        let (tag, referenced_task) = (bhs.initiator_task_tag(), bhs.target_transfer_tag());
        if self.parameters.error_recovery_level < 2 {
            let response = TaskManagementResponse::TaskAllegianceReassignmentNotSupported;
            self.send_management_response(tag, response);
        } else if self.tasks.contains_key(&referenced_task) {
            self.send_management_response(tag, TaskManagementResponse::TaskStillAllegiant);
        } else {
            let exp_data_sn = bhs.u32(36);
            let request = TaskReassign { initiator_task_tag: tag, referenced_task, exp_data_sn };
            self.events.push_back(Event::TaskReassign(request));
        }
    }

    /// The connection ends in full-feature phase: what others may take over is put aside.
    pub(super) fn leave_orphans(&mut self) {
        let recovers = self.parameters.error_recovery_level >= 2;
        if !recovers && self.parameters.max_connections == 1 {
            return;
        }
        let share = self.charge.share().clone();
        let mut orphans: Vec<(u32, Orphan)> = Vec::new();
        for (tag, task) in self.tasks.drain() {
            orphans.push((tag, Orphan::of_task(task, share.clone())));
        }
        if recovers {
            self.remember_unsent();
            for (tag, sent) in self.history.take_answers() {
                let answer = SentAnswer::new(sent, self.history.first_data_sn(tag));
                orphans.extend(answer.map(|answer| {
                    let lun = answer.response.lun();
                    (tag, Orphan::new(lun, Content::Sent(answer), share.clone()))
                }));
            }
        }
        orphans.sort_unstable_by_key(|(tag, _)| *tag);
        self.orphans = orphans;
    }
}
