//! Connection failure while the session goes on (RFC 7143 7.1.4, error recovery level 2): keeps its
//! commands until another connection takes them over, or their time is over.

use std::time::Duration;

use iscsi::{LogoutScope, TaskManagementResponse, TaskReassign};
use scsi::{NexusId, TaskId};

use super::commands::{function_id, parts, task_id, to_iscsi};
use super::connection::Connection;
use super::sessions::{Lost, Orphan, Session};
use crate::reactor::Reactor;

impl Reactor {
    /// A connection has failed. At error recovery level 2 its session survives that; below, all
    /// other connections end with it.
    pub(super) fn fail(&mut self, slot: usize, reason: &str) {
        let recovers = |connection: &Connection| {
            connection.nexus.is_some() && connection.iscsi.parameters().error_recovery_level >= 2
        };
        if self.iscsi.connections.get(slot).is_some_and(recovers) {
            self.lose(slot, reason)
        } else {
            self.close(slot, reason)
        }
    }

    /// Takes a connection away and leaves its commands to be taken over.
    pub(super) fn lose(&mut self, slot: usize, reason: &str) {
        let Some(mut connection) = self.detach(slot, reason) else { return };
        connection.iscsi.close();
        let parameters = connection.iscsi.parameters();
        let (cid, wait) = (parameters.cid, parameters.default_time2wait);
        let patience = Duration::from_secs((wait + parameters.default_time2retain).into());
        let until = self.started.elapsed() + patience;
        let bytes_max = self.iscsi.options.session_memory();
        let handle = connection.iscsi.session();
        let Some(session) = self.iscsi.sessions.lose(slot, Lost { handle, until }) else { return };
        let mut dropped = Vec::new();
        for (tag, iscsi) in connection.iscsi.take_orphans() {
            let collecting = connection.collecting.remove(&tag);
            let orphan = Orphan { iscsi, collecting, cid, until };
            let is_full = session.orphans.len() as u64 >= self.iscsi.options.session_commands;
            if is_full || session.orphan_bytes() + orphan.iscsi.bytes() > bytes_max {
                dropped.push((tag, orphan));
            } else {
                session.orphans.insert(tag, orphan);
            }
        }
        let nexus = session.nexus;
        for (tag, orphan) in dropped {
            self.abort_orphan(task_id(nexus, tag), &orphan);
        }
    }

    /// Aborts a command that no connection has taken over.
    fn abort_orphan(&mut self, task: TaskId, orphan: &Orphan) {
        if orphan.iscsi.is_under_way()
            && !self.forget_held(task)
            && let Some(nexus) = self.iscsi.sessions.of_task(task).map(|session| session.nexus)
        {
            self.start_all_of(Some(nexus));
            let abort = scsi::TaskManagement::AbortTask(task);
            let function = function_id(0, u32::MAX);
            self.plane.exports.scsi.manage(function, nexus, orphan.iscsi.lun(), abort);
        }
    }

    /// Ends what nobody took over in time.
    pub(super) fn end_old_orphans(&mut self, now: Duration) {
        for (task, orphan) in self.iscsi.sessions.take_old_orphans(now) {
            self.abort_orphan(task, &orphan);
        }
        for session in self.iscsi.sessions.take_lost(now) {
            self.end_session(&session, "its connections failed and none came back");
        }
    }

    pub(super) fn end_session(&mut self, session: &Session, reason: &str) {
        self.scheduler.forget(session.nexus.into());
        self.management.session_ends(&self.plane, session);
        self.plane.exports.scsi.close_nexus(session.nexus);
        self.plane.feed.close_session(session.nexus.into());
        self.plane.close_session(session.nexus.into());
        self.forget_share_of(session);
        if self.iscsi.chatter.may_tell(self.now) {
            tracing::info!(initiator = session.port.name, reason, "session ended");
        }
    }

    /// TASK REASSIGN.
    pub(super) fn reassign(&mut self, slot: usize, request: TaskReassign) {
        let Some(session) = self.iscsi.sessions.of_connection_mut(slot) else { return };
        let tag = request.referenced_task;
        let orphan = session.orphans.remove(&tag);
        let connections = session.connections.clone();
        let has_task = |&other: &usize| self.iscsi.connections[other].iscsi.has_task(tag);
        let has_connection = connections.iter().any(has_task);
        let connection = &mut self.iscsi.connections[slot];
        let answer = match orphan {
            Some(orphan) => {
                connection.collecting.extend(orphan.collecting.map(|command| (tag, command)));
                Ok(orphan.iscsi)
            }
            None if has_connection => Err(TaskManagementResponse::TaskStillAllegiant),
            None => Err(TaskManagementResponse::TaskDoesNotExist),
        };
        connection.iscsi.reassign(request, answer);
    }

    /// The device server answered a command that has no connection.
    pub(super) fn answer_orphan(&mut self, task: TaskId, completion: iscsi::Completion) {
        let tag = parts(task).1;
        let Some(session) = self.iscsi.sessions.of_task_mut(task) else { return };
        if let Some(orphan) = session.orphans.remove(&tag) {
            session.orphans.insert(tag, orphan.answered(completion));
        }
    }

    /// A task management function reaches commands that have neither connection nor all their data.
    pub(super) fn end_collecting_orphans(
        &mut self,
        by: (NexusId, u64),
        function: scsi::TaskManagement,
    ) {
        let target = &mut self.plane.exports.scsi;
        for session in self.iscsi.sessions.iter_mut() {
            let owner = session.nexus;
            let is_collecting = |_: &u32, orphan: &mut Orphan| orphan.collecting.is_some();
            let collecting = session.orphans.extract_if(.., is_collecting).collect::<Vec<_>>();
            for (tag, orphan) in collecting {
                let kept = match target.collecting(by, function, (owner, orphan.iscsi.lun())) {
                    scsi::Collecting::GoesOn => Some(orphan),
                    scsi::Collecting::Ends(completion) => {
                        Some(orphan.answered(to_iscsi(completion)))
                    }
                    scsi::Collecting::IsForgotten => None,
                };
                session.orphans.extend(kept.map(|orphan| (tag, orphan)));
            }
        }
    }

    /// Closes another connection of the session, or gives it up, for an initiator.
    pub(super) fn log_out_other(
        &mut self,
        slot: usize,
        initiator_task_tag: u32,
        (cid, scope): (u16, LogoutScope),
    ) {
        let session = self.iscsi.sessions.of_connection(slot);
        let other = session.and_then(|session| self.with_cid(session, cid));
        match (other, scope) {
            (Some(other), LogoutScope::Recovery) => self.lose(other, "given up for recovery"),
            (Some(other), _) => self.close_connection(other, "logged out on another connection"),
            (None, _) => {}
        }
        let was_there = other.is_some() || self.has_orphans_of(slot, cid);
        if scope == LogoutScope::Connection {
            self.abort_orphans_of(slot, cid);
        }
        self.iscsi.connections[slot].iscsi.logout_response(initiator_task_tag, was_there);
    }

    fn has_orphans_of(&self, slot: usize, cid: u16) -> bool {
        let session = self.iscsi.sessions.of_connection(slot);
        session.is_some_and(|session| session.orphans.values().any(|orphan| orphan.cid == cid))
    }

    fn abort_orphans_of(&mut self, slot: usize, cid: u16) {
        let Some(session) = self.iscsi.sessions.of_connection_mut(slot) else { return };
        let nexus = session.nexus;
        let of_cid = session.orphans.extract_if(.., |_, orphan| orphan.cid == cid);
        for (tag, orphan) in of_cid.collect::<Vec<_>>() {
            self.abort_orphan(task_id(nexus, tag), &orphan);
        }
    }
}
