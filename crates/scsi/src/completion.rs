//! Completion of a command: status, sense data, data for the initiator.

use block::{Rope, TurnedOff};

use crate::sense::Sense;

/// SAM-5 5.3: the status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// 00h.
    Good,
    /// 02h: sense data says why.
    CheckCondition,
    /// 08h: the same command may succeed later.
    Busy,
    /// 18h: another nexus holds a reservation.
    ReservationConflict,
    /// 28h: as many tasks wait as may.
    TaskSetFull,
    /// 40h: ended by a task management function of another nexus.
    TaskAborted,
}

impl Status {
    /// The status code on the wire.
    pub const fn code(self) -> u8 {
        match self {
            Self::Good => 0x00,
            Self::CheckCondition => 0x02,
            Self::Busy => 0x08,
            Self::ReservationConflict => 0x18,
            Self::TaskSetFull => 0x28,
            Self::TaskAborted => 0x40,
        }
    }
}

/// Status, sense data and Data-In of a command.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The status.
    pub status: Status,
    /// Set if and only if the status is CHECK CONDITION.
    pub sense: Option<Sense>,
    /// All data for the initiator, already cut to the allocation length if the command has one.
    pub data_in: Rope,
    /// Bytes that the command would yield besides, if the initiator took more.
    pub withheld: u64,
    /// The primitive that is turned off, if the command was refused for that.
    pub turned_off: Option<TurnedOff>,
}

impl Completion {
    /// GOOD, with data for the initiator.
    pub(crate) fn good(data_in: Rope) -> Self {
        Self { data_in, ..Self::status(Status::Good) }
    }

    /// A status without sense data or data.
    pub(crate) fn status(status: Status) -> Self {
        Self { status, sense: None, data_in: Rope::new(), withheld: 0, turned_off: None }
    }
}

impl From<Sense> for Completion {
    fn from(sense: Sense) -> Self {
        Self { sense: Some(sense), ..Self::status(Status::CheckCondition) }
    }
}
