//! Commands and the limits of volumes and hosts: holds commands back, lets them go on, and applies task
//! management to those that wait.

use array::Limited;
use scsi::{Collecting, NexusId, TaskAttribute, TaskId, TaskManagement};

use super::commands::parts;
use super::sessions::Session;
use crate::data_plane::HeldWork;
use crate::reactor::Reactor;
use crate::scheduler::HostNumber;
use crate::throttle::{Claim, Cost, Order};

/// A command with all its data that has not been queued for its turn.
pub(crate) struct HeldCommand {
    pub(super) host: HostNumber,
    pub(super) task: TaskId,
    /// Cost in bytes of work.
    pub(super) bytes: u64,
    pub(super) command: scsi::Command,
}

impl HeldCommand {
    fn claim(&self) -> Option<Claim> {
        let decoded = self.command.decoded;
        let volume = decoded.works_on()?;
        let order = match self.command.attribute {
            TaskAttribute::HeadOfQueue => Order::First,
            TaskAttribute::Ordered => Order::Ordered,
            TaskAttribute::Simple | TaskAttribute::Aca if decoded.is_lock() => Order::Lock,
            TaskAttribute::Simple | TaskAttribute::Aca => Order::Queued,
        };
        Some(Claim {
            host: self.host,
            session: decoded.nexus().into(),
            command: self.task.into(),
            volumes: [Some(volume), None],
            cost: Cost::of_command(self.bytes),
            order,
        })
    }
}

impl Reactor {
    /// Holds a command back if the limits of its volume or its host say so. What needs no volume is
    /// never held back.
    pub(super) fn throttled(&mut self, command: HeldCommand) -> Option<HeldCommand> {
        if self.plane.throttle.is_idle() {
            return Some(command);
        }
        let Some(claim) = command.claim() else { return Some(command) };
        match self.plane.throttle.admit(claim, HeldWork::Command(command))? {
            HeldWork::Command(command) => Some(command),
            HeldWork::Request(_) => None,
        }
    }

    /// What was held back goes on as far as limits let it.
    pub(crate) fn release_held(&mut self) {
        for work in self.plane.throttle.release() {
            match work {
                HeldWork::Command(command) => self.queue(command),
                HeldWork::Request(asked) => self.plane.send_down(asked),
            }
        }
    }

    /// Limits are others than before, also for what waits.
    pub(crate) fn limits_changed(&mut self, limited: Vec<Limited>) {
        for limited in limited {
            match limited {
                Limited::Volume(volume, limits) => self.plane.throttle.limit_volume(volume, limits),
                Limited::Host(name, limits, share) => {
                    self.plane.throttle.limit_host(&name, limits);
                    if let Some(number) = self.iscsi.sessions.number_of(&name) {
                        self.set_share(number, share.get());
                    }
                }
            }
        }
    }

    fn set_share(&mut self, host: HostNumber, share: u8) {
        self.scheduler.set_share(host, share);
        self.plane.dispatch.set_share(host, share);
    }

    /// A host that has a session gets its share.
    pub(super) fn take_share(&mut self, number: HostNumber, name: &str) {
        let (_, share) = self.management.configuration.limits_of_host(name);
        self.set_share(number, share.get());
    }

    /// The number of a host without sessions is not used again.
    pub(super) fn forget_share_of(&mut self, ended: &Session) {
        if !self.iscsi.sessions.has_others(ended) {
            self.set_share(ended.host, 1);
        }
    }

    /// Whether a function asks for a command that is held back.
    pub(super) fn is_held(&self, (nexus, lun): (NexusId, u64), function: TaskManagement) -> bool {
        let is_meant = |held: &HeldCommand| match function {
            TaskManagement::QueryTask(task) => held.task == task,
            TaskManagement::QueryTaskSet => held.command.decoded.lun() == lun,
            _ => false,
        };
        let session = nexus.into();
        self.plane.throttle.holds(session, |work| match work {
            HeldWork::Command(held) => is_meant(held),
            HeldWork::Request(_) => false,
        })
    }

    /// Ends the commands held back that a function means, which `by` sends for a LUN of its own: the
    /// device server does not know them.
    pub(super) fn end_held(&mut self, by: (NexusId, u64), function: TaskManagement) {
        if let TaskManagement::AbortTask(task) = function {
            self.forget_held(task);
            return;
        }
        let only = if function.reaches_others() { None } else { Some(by.0.into()) };
        let mut ends = Vec::new();
        let scsi = &mut self.plane.exports.scsi;
        let is_meant = |work: &HeldWork| {
            let HeldWork::Command(held) = work else { return false };
            let decoded = held.command.decoded;
            match scsi.collecting(by, function, (decoded.nexus(), decoded.lun())) {
                Collecting::GoesOn => return false,
                Collecting::Ends(completion) => ends.push((held.task, Some(completion))),
                Collecting::IsForgotten => ends.push((held.task, None)),
            }
            true
        };
        self.plane.throttle.withdraw(only, is_meant);
        for (task, completion) in ends {
            match completion {
                Some(completion) => self.answer(task, completion),
                None => self.forget_task(task),
            }
        }
    }

    /// Ends a command that is held back, without an answer; returns whether there was one.
    pub(super) fn forget_held(&mut self, task: TaskId) -> bool {
        let session = NexusId(parts(task).0.into()).into();
        let is_meant =
            |work: &HeldWork| matches!(work, HeldWork::Command(held) if held.task == task);
        let withdrawn = self.plane.throttle.withdraw(Some(session), is_meant);
        if !withdrawn.is_empty() {
            self.forget_task(task);
        }
        !withdrawn.is_empty()
    }
}
