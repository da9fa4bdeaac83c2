//! Types of a command: its row in the table, and what its handler sees and answers.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use block::{ByteRange, Primitive, Request, Rope, Switch, SwitchesOff, VolumeId};
use bytes::Bytes;

use crate::access_state::PortGroups;
use crate::cdb::Cdb;
use crate::change::Change;
use crate::clock::Clock;
use crate::completion::{Completion, Status};
use crate::copy_operations::{CopyKey, CopyOperations};
use crate::device_server::{Expected, NexusId};
use crate::extent::Extent;
use crate::identity::{Identification, Identity};
use crate::limits::{ATOMIC_BYTES_MAX, TRANSFER_BYTES_MAX, WRITE_SAME_BYTES_MAX};
use crate::nexus::Nexus;
use crate::persistent::Registrant;
use crate::procedure::Procedure;
use crate::rod_tokens::RodTokens;
use crate::sense::{self, Sense};
use crate::unit::LogicalUnit;
use crate::work::{Asked, Work, clipped};

/// One form of a command: all that is asked of a command by its name or code is asked of its row.
#[derive(Clone, Copy, Debug)]
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
    /// What it counts as in statistics and in the offload ledger.
    pub(crate) primitive: Primitive,
    /// The switch that turns it off.
    pub(crate) switch: Option<Switch>,
    /// The logical blocks that the CDB names.
    pub(crate) extent: fn(&Cdb) -> Extent,
    /// Bytes that the command takes from the initiator, given those blocks and the length of one.
    pub(crate) data_out: fn(&Cdb, Extent, u64) -> u64,
    /// How much it takes at most.
    pub(crate) limit: Limit,
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
    /// Whether it tells what of [`crate::UnitSpace`] is known, so that the owner brings that up to
    /// date before.
    pub(crate) tells_space: bool,
    /// Tests that try it, as FILE: TEST. Files that begin with 'scsi/' are in crates/scsi/src/tests,
    /// the others in tests/tests.
    pub(crate) tests: &'static [&'static str],
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
    /// Nothing: it does not touch the blocks that its CDB names, if there are any.
    Keeps,
    /// It reads them.
    Reads,
    /// It changes them, unless the unit is write-protected.
    Writes,
}

/// How much a command takes at most; what exceeds it is refused and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Nothing but its CDB limits it.
    None,
    /// MAXIMUM TRANSFER LENGTH.
    Transfer,
    /// MAXIMUM COMPARE AND WRITE LENGTH.
    CompareAndWrite,
    /// MAXIMUM WRITE SAME LENGTH, and WSNZ.
    WriteSame,
    /// MAXIMUM UNMAP LBA COUNT and MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT.
    Unmap,
    /// MAXIMUM ATOMIC TRANSFER LENGTH.
    Atomic,
    /// What one answer can say.
    LbaStatus,
    /// RECEIVE COPY OPERATING PARAMETERS.
    Copy,
    /// Block device ROD limits of VPD page 8Fh.
    Token,
    /// How long an outcome is held, and how many.
    Outcomes,
    /// Registrations of a unit.
    Registrations,
    /// Parameter list.
    List,
}

impl Limit {
    /// How many bytes the blocks may come to that a CDB names. The other limits are those of
    /// parameter lists and answers.
    const fn extent_bytes(self) -> RangeInclusive<u64> {
        match self {
            Self::Transfer => 0..=TRANSFER_BYTES_MAX,
            // VPD page B0h: WSNZ is set, and MAXIMUM WRITE SAME LENGTH is finite.
            Self::WriteSame => 1..=WRITE_SAME_BYTES_MAX,
            Self::Atomic => 0..=ATOMIC_BYTES_MAX,
            Self::None
            | Self::CompareAndWrite
            | Self::Unmap
            | Self::LbaStatus
            | Self::Copy
            | Self::Token
            | Self::Outcomes
            | Self::Registrations
            | Self::List => 0..=u64::MAX,
        }
    }
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
    /// The blocks that it names.
    pub(crate) extent: Extent,
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
    /// Primitives that are off for everybody.
    pub(crate) switches_off: SwitchesOff,
    /// Every port through which the target can be reached.
    pub(crate) port_groups: &'a PortGroups,
    /// The device clock of units that have none of their own, and the time.
    pub(crate) clock: Clock,
    pub(crate) now: Duration,
    /// Every nexus there is, for PERSISTENT RESERVE OUT only.
    pub(crate) peers: Vec<Registrant>,
    /// Third-party copies under way, and the outcomes of those that have ended.
    pub(crate) copies: &'a mut CopyOperations,
    pub(crate) tokens: &'a mut RodTokens,
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

    /// The bytes of the blocks that the CDB names, which must be on the unit as it is now, and
    /// within the command's limit.
    pub(crate) fn range(&self) -> Result<ByteRange, Completion> {
        let Extent { lba, blocks, length_at } = self.extent;
        let range = self.unit()?.range(lba, blocks)?;
        if !self.row.limit.extent_bytes().contains(&range.length) {
            return Err(Sense::invalid_cdb_field(length_at.into()).into());
        }
        Ok(range)
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
