//! SCSI's commands in the words of all front ends: names of nexuses, tasks and requests, and what the
//! ledger is told of a command that ended. A second front end answers the same questions here, and
//! its requests have a bit of their own in their names.

use std::time::Duration;

use block::{BlockError, Primitive, Request, Response, VolumeId};
use ledger::{Outcome, Refusal};
use scsi::{CommandRecord, Completion, DurableState, NexusId, SaveId, SenseKey, Status, TaskId};

use super::Exports;
use crate::work::{CommandId, EndedCommand, Issuer, RequestId, SessionId};

impl From<NexusId> for SessionId {
    fn from(nexus: NexusId) -> Self {
        Self(nexus.0)
    }
}

impl From<TaskId> for CommandId {
    fn from(task: TaskId) -> Self {
        Self(task.0)
    }
}

impl Exports {
    /// The next request to a volume, to be answered by [`Self::completed`].
    pub(crate) fn next_request(&mut self) -> Option<(RequestId, VolumeId, Request)> {
        let (id, volume, request) = self.scsi.next_request()?;
        Some((RequestId(id.0), volume, request))
    }

    /// Takes a pool's answer to a request.
    pub(crate) fn completed(&mut self, id: RequestId, result: Result<Response, BlockError>) {
        self.scsi.completed(scsi::RequestId(id.0), result);
    }

    /// Whether requests may be under way that nobody waits for any more; asked once.
    pub(crate) fn take_unwanted(&mut self) -> bool {
        self.scsi.take_unwanted()
    }

    /// Whether the command of a request waits for it.
    pub(crate) fn is_wanted(&self, id: RequestId) -> bool {
        self.scsi.is_wanted(scsi::RequestId(id.0))
    }

    /// A request that nobody waits for did not go to its pool.
    pub(crate) fn withdrawn(&mut self, id: RequestId) {
        self.scsi.withdrawn(scsi::RequestId(id.0));
    }

    /// The command that a request works for; `None` for one of the array's own.
    pub(crate) fn issuer(&self, id: RequestId) -> Option<Issuer> {
        let scsi::Issuer { nexus, volume, primitive } = self.scsi.issuer(scsi::RequestId(id.0))?;
        Some(Issuer { session: nexus.into(), volume, primitive })
    }

    /// The next state of a volume's unit that is to be stored.
    pub(crate) fn next_save(&mut self) -> Option<(SaveId, VolumeId, DurableState)> {
        self.scsi.next_save()
    }

    /// A state is stored, or could not be.
    pub(crate) fn saved(&mut self, id: SaveId, stored: bool) {
        self.scsi.saved(id, stored);
    }

    /// Sets the name of the target device.
    pub(crate) fn set_target_name(&mut self, name: &str) {
        self.scsi.set_target_name(name);
    }

    /// Time passes.
    pub(crate) fn tick(&mut self, now: Duration) {
        self.scsi.tick(now);
    }
}

/// What the ledger is told of a command.
pub(crate) fn ended(completion: &Completion, record: &CommandRecord) -> EndedCommand {
    EndedCommand {
        session: record.nexus.into(),
        volume: record.volume,
        name: record.name,
        primitive: record.primitive,
        lba: record.lba.0,
        bytes: record.bytes,
        took: record.took,
        outcome: outcome(completion, record.primitive),
    }
}

fn outcome(completion: &Completion, primitive: Primitive) -> Outcome {
    let turned_off = completion.turned_off;
    let refused =
        |status| Outcome::Refused(Refusal { status, sense: None, reason: "", turned_off });
    let code = completion.sense.map(|sense| sense.code);
    match (completion.status, code) {
        (Status::Good, _) => Outcome::Good,
        (Status::CheckCondition, Some(code)) => match code.key {
            SenseKey::UnitAttention => Outcome::Interrupted,
            SenseKey::Miscompare if primitive == Primitive::CompareAndWrite => Outcome::Miscompare,
            key => Outcome::Refused(Refusal {
                status: "CHECK CONDITION",
                sense: Some((key as u8, code.asc, code.ascq)),
                reason: code.name(),
                turned_off,
            }),
        },
        (Status::CheckCondition, None) => refused("CHECK CONDITION"),
        (Status::Busy, _) => refused("BUSY"),
        (Status::ReservationConflict, _) => refused("RESERVATION CONFLICT"),
        (Status::TaskSetFull, _) => refused("TASK SET FULL"),
        (Status::TaskAborted, _) => Outcome::Interrupted,
    }
}
