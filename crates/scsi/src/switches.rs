//! Refuses commands of primitives that the administrator turned off, and says which are on, for
//! whatever tells hosts what a logical unit offers.

use block::{Switch, SwitchPlaces, SwitchesOff};

use crate::cdb::Cdb;
use crate::command::Execution;
use crate::commands::table::{EXTENDED_COPY, RECEIVE_COPY_RESULTS};
use crate::completion::Completion;
use crate::sense::{self, Sense};
use crate::unit::LogicalUnit;

impl Execution<'_> {
    /// What is off for this nexus on a unit; without one, on any.
    pub(crate) fn switch_places(&self, unit: Option<&LogicalUnit>) -> SwitchPlaces {
        SwitchPlaces {
            volume: unit.map_or(SwitchesOff::NONE, |unit| unit.switches_off),
            host: self.nexus.spec.switches_off,
            array: self.switches_off,
        }
    }

    /// Whether a primitive is on for this nexus where the command is addressed to.
    pub(crate) fn is_on(&self, switch: Switch) -> bool {
        self.places_here().turned_off(switch).is_none()
    }

    /// Ends the command with `sense` where a primitive is turned off.
    pub(crate) fn require_on(&self, switch: Switch, sense: Sense) -> Result<(), Completion> {
        match self.places_here().turned_off(switch) {
            Some(off) => Err(Completion { turned_off: Some(off), ..sense.into() }),
            None => Ok(()),
        }
    }

    /// Ends the command if its primitive is turned off. Copies that began before are finished, and
    /// their initiator may go on to ask what became of them, and end them.
    ///
    /// # Errors
    /// 05h/20h/00h.
    pub(crate) fn check_switch(&self) -> Result<(), Completion> {
        let Some(switch) = self.row.switch else { return Ok(()) };
        if self.is_about_a_known_copy() {
            return Ok(());
        }
        self.require_on(switch, sense::INVALID_COMMAND_OPERATION_CODE.into())
    }

    fn places_here(&self) -> SwitchPlaces {
        self.switch_places(self.volume.and_then(|volume| self.units.get(&volume)))
    }

    fn is_about_a_known_copy(&self) -> bool {
        let list_id = asked_list_id(&self.cdb);
        list_id.is_some_and(|list_id| self.copies.find(self.nexus_id, list_id).is_some())
    }
}

/// LIST IDENTIFIER of the copy that a command asks about, or ends.
fn asked_list_id(cdb: &Cdb) -> Option<u32> {
    match (cdb.opcode(), cdb.service_action()) {
        // RECEIVE COPY STATUS and FAILURE DETAILS (LID1).
        (RECEIVE_COPY_RESULTS, 0x00 | 0x04) => Some(u32::from(cdb.u8(2))),
        // RECEIVE COPY STATUS (LID4), RECEIVE ROD TOKEN INFORMATION, COPY OPERATION ABORT.
        (RECEIVE_COPY_RESULTS, 0x05 | 0x07) | (EXTENDED_COPY, 0x1c) => Some(cdb.u32(2)),
        _ => None,
    }
}
