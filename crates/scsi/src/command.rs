//! What a command is: a row of the table, and what its handler sees and answers.

use std::collections::BTreeMap;
use std::time::Duration;

use block::{BlockCount, ByteRange, Lba, Request, Rope, VolumeId};
use bytes::Bytes;

use crate::access_state::PortGroups;
use crate::cdb::Cdb;
use crate::change::Change;
use crate::clock::Clock;
use crate::completion::{Completion, Status};
use crate::copy_operations::{CopyKey, CopyOperations};
use crate::identity::{Identification, Identity};
use crate::nexus::Nexus;
use crate::procedure::Procedure;
use crate::reservations::Registrant;
use crate::sense::{self, Sense};
use crate::target::{Expected, NexusId};
use crate::tokens::Tokens;
use crate::unit::LogicalUnit;
use crate::work::{Asked, Work, clipped};

/// One command.
pub(crate) struct Row {
    /// OPERATION CODE.
    pub(crate) opcode: u8,
    /// SERVICE ACTION, of commands that share their operation code.
    pub(crate) service_action: Option<u8>,
    /// Name in T10's words.
    pub(crate) name: &'static str,
    /// CDB USAGE DATA (SPC-4 6.31.3): a one for every bit that is looked at. Its length is that of
    /// the CDB; a bit outside that is set makes the command invalid.
    pub(crate) usage: &'static [u8],
    /// Bytes that the command takes from the initiator, given the length of a logical block.
    pub(crate) data_out: fn(&Cdb, u64) -> u64,
    /// What carrying it out costs.
    pub(crate) work: fn(&Asked<'_>) -> Work,
    /// What the command does to the medium.
    pub(crate) medium: Medium,
    /// What a reservation of another nexus does to it.
    pub(crate) reservation: Reservation,
    /// When it may run beside others.
    pub(crate) ordering: Ordering,
    /// Where it may run, and what it does with unit attention conditions.
    pub(crate) scope: Scope,
    /// Carries it out.
    pub(crate) handler: Handler,
}

impl Row {
    /// Whether the command goes when reservations are hidden.
    pub(crate) const fn is_about_reservations(&self) -> bool {
        matches!(self.reservation, Reservation::Legacy | Reservation::Persistent)
    }

    /// Whether the command tells something that does not need the medium: such ones run while a
    /// SANITIZE does, and after one that failed.
    pub(crate) fn is_about_the_unit(&self) -> bool {
        self.ordering == Ordering::Immediate && self.reservation == Reservation::Allowed
    }
}

/// Checks a command and says what is to be done.
pub(crate) type Handler = fn(&mut Execution<'_>) -> Result<Action, Completion>;

/// What a command does to the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// Nothing that a write-protected unit would refuse.
    Keeps,
    /// It changes it.
    Writes,
}

/// What happens while another nexus holds a reservation: with RESERVE (SPC-2 5.5.1), or a persistent
/// one that keeps this nexus out (SPC-4 table 67, SBC-4 table 12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reservation {
    /// The command runs all the same.
    Allowed,
    /// It runs unless the other nexus reserved with RESERVE.
    Asks,
    /// It runs under a persistent reservation that excludes only writers.
    Reads,
    /// It ends with RESERVATION CONFLICT.
    Conflicts,
    /// RESERVE and RELEASE decide themselves.
    Legacy,
    /// PERSISTENT RESERVE IN and OUT decide themselves, but conflict with any RESERVE, also with
    /// one of this nexus.
    Persistent,
}

/// When a SIMPLE command may run beside others of its logical unit (SAM-5 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ordering {
    /// At once: it does not enter the task set.
    Immediate,
    /// Beside all but ORDERED and HEAD OF QUEUE commands.
    Simple,
    /// As simple, but not beside RESERVE or RELEASE.
    CompareAndWrite,
    /// As simple, but not beside COMPARE AND WRITE.
    Reserve,
    /// As if it were ORDERED, whatever its attribute.
    Alone,
}

/// Where a command may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// On a logical unit, when no unit attention condition waits.
    LogicalUnit,
    /// On any logical unit number, whatever waits; reserved bits are ignored, as SPC-4 asks of
    /// INQUIRY, so that discovery works for initiators of any age.
    AnyLun,
}

/// What a handler sees.
pub(crate) struct Execution<'a> {
    pub(crate) row: &'static Row,
    pub(crate) cdb: Cdb,
    /// What the initiator sent, perhaps less than the command takes.
    pub(crate) data_out: Bytes,
    /// Bytes that the initiator was ready to send and to take.
    pub(crate) expected: Expected,
    /// Bytes of Data-In that the initiator would not take, so that they were not read.
    pub(crate) withheld: u64,
    pub(crate) lun: u16,
    /// The volume at that number, if there is one.
    pub(crate) volume: Option<VolumeId>,
    pub(crate) nexus_id: NexusId,
    pub(crate) nexus: &'a mut Nexus,
    pub(crate) units: &'a mut BTreeMap<VolumeId, LogicalUnit>,
    pub(crate) identity: &'a Identity,
    /// Every port through which the target can be reached.
    pub(crate) port_groups: &'a PortGroups,
    /// The device clock of units that have none of their own, and the time.
    pub(crate) clock: Clock,
    pub(crate) now: Duration,
    /// Every nexus there is, for PERSISTENT RESERVE OUT only.
    pub(crate) peers: Vec<Registrant>,
    /// Third-party copies under way, and the outcomes of those that have ended.
    pub(crate) copies: &'a mut CopyOperations,
    pub(crate) tokens: &'a mut Tokens,
}

/// What is to be done after a handler.
pub(crate) enum Action {
    /// Nothing more.
    Done(Completion),
    /// One request, whose answer ends the command.
    Request(Request),
    /// Several requests.
    Procedure(Box<dyn Procedure>),
    /// A change of the unit's state; then GOOD.
    Change(Box<Change>),
    /// The end of a third-party copy, which the command waits for.
    AbortCopy(CopyKey),
}

impl Action {
    /// GOOD without data.
    pub(crate) fn good() -> Self {
        Self::Done(Completion::good(Rope::new()))
    }

    /// GOOD with data, cut to the allocation length (SPC-4 4.3.5.6).
    pub(crate) fn data(mut data: Vec<u8>, allocation_length: u32) -> Self {
        data.truncate(allocation_length as usize);
        Self::Done(Completion::good(Rope::from(Bytes::from(data))))
    }
}

impl Execution<'_> {
    /// The logical unit that the command is addressed to.
    ///
    /// # Errors
    /// 05h/25h/00h if there is none.
    pub(crate) fn unit(&self) -> Result<&LogicalUnit, Completion> {
        let unit = self.volume.and_then(|volume| self.units.get(&volume));
        unit.ok_or_else(|| Sense::from(sense::LOGICAL_UNIT_NOT_SUPPORTED).into())
    }

    /// As [`Self::unit`], to change it.
    pub(crate) fn unit_mut(&mut self) -> Result<&mut LogicalUnit, Completion> {
        let unit = self.volume.and_then(|volume| self.units.get_mut(&volume));
        unit.ok_or_else(|| Sense::from(sense::LOGICAL_UNIT_NOT_SUPPORTED).into())
    }

    /// What is said of vendor and product where the command is addressed to.
    pub(crate) fn identification(&self) -> Identification {
        let unit = self.volume.and_then(|volume| self.units.get(&volume));
        unit.map_or(self.identity.identification, |unit| unit.identification(self.identity))
    }

    /// The bytes that the CDB's address and length name.
    pub(crate) fn range(&self) -> Result<ByteRange, Completion> {
        let (lba, count) = self.cdb.extent();
        self.range_of(lba, count)
    }

    /// The bytes of `count` blocks from `lba`, which must be on the unit.
    pub(crate) fn range_of(&self, lba: Lba, count: BlockCount) -> Result<ByteRange, Completion> {
        Ok(self.unit()?.range(lba, count)?)
    }

    /// What of a range the initiator takes, in whole blocks; the rest is withheld (RFC 7143
    /// 11.4.5.1: a residual overflow).
    pub(crate) fn clip(&mut self, range: ByteRange) -> Result<ByteRange, Completion> {
        let block_bytes = self.unit()?.block_bytes();
        let length = clipped(range.length, self.expected.data_in, block_bytes);
        self.withheld = range.length - length;
        Ok(ByteRange::new(range.offset, length))
    }

    /// Ends the command unless the initiator has exactly `length` bytes for it: for commands where
    /// another length says that the two sides do not mean the same.
    pub(crate) fn require_exact_data_out(&self, length: u64) -> Result<(), Completion> {
        if self.expected.data_out != length {
            return Err(Sense::from(sense::INVALID_FIELD_IN_CDB).into());
        }
        self.require_data_out(length)
    }

    /// Ends the command unless the initiator sent `length` bytes or more.
    pub(crate) fn require_data_out(&self, length: u64) -> Result<(), Completion> {
        if (self.data_out.len() as u64) < length {
            return Err(Sense::from(sense::INVALID_FIELD_IN_CDB).into());
        }
        Ok(())
    }
}

impl From<Status> for Completion {
    fn from(status: Status) -> Self {
        Self::status(status)
    }
}

/// Looks for reserved bits that are set.
///
/// # Errors
/// 05h/24h/00h, pointing at the first one.
pub(crate) fn check_reserved_bits(cdb: &Cdb, usage: &[u8]) -> Result<(), Sense> {
    for (byte, used) in usage.iter().enumerate().skip(1) {
        let reserved = cdb.u8(byte) & !used;
        if reserved != 0 {
            return Err(Sense::invalid_cdb_bit(byte, 7 - reserved.leading_zeros() as u8));
        }
    }
    Ok(())
}
