//! SCSI's words for persistent reservations (SPC-4 5.12): names of registrants, type codes, statuses
//! and unit attention conditions. The state machine is the room `reservations`.

use reservations::{Notice, Refusal, ReservationType};
use serde::{Deserialize, Serialize};

use crate::completion::{Completion, Status};
use crate::sense::{self, Sense, SenseCode};

/// Bytes of the parameter list that sense data points at.
const SERVICE_ACTION_RESERVATION_KEY: usize = 8;
const SPEC_I_PT: usize = 20;
const TRANSPORT_ID_OF_MOVE: usize = 24;

/// Byte of the CDB with SCOPE and TYPE.
const SCOPE_AND_TYPE: usize = 2;

/// An I_T nexus as registrations name it: it stays the same from one session to the next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registrant {
    /// iSCSI name of the initiator.
    pub initiator_name: String,
    /// Initiator part of the session identifier.
    pub isid: [u8; 6],
    /// RELATIVE TARGET PORT IDENTIFIER, from 1.
    pub relative_target_port: u16,
}

/// Registrations and the reservation of a logical unit.
pub(crate) type PersistentReservations = reservations::Reservations<Registrant>;

/// What of them outlasts a loss of power.
pub type DurableReservations = reservations::DurableReservations<Registrant>;

/// A service action that was found right.
pub(crate) type Transition = reservations::Transition<Registrant>;

/// The type of that code (SPC-4 6.15.3.4); `None` if it is reserved or obsolete.
pub(crate) const fn parse_type(code: u8) -> Option<ReservationType> {
    match code {
        1 => Some(ReservationType::WriteExclusive),
        3 => Some(ReservationType::ExclusiveAccess),
        5 => Some(ReservationType::WriteExclusiveRegistrantsOnly),
        6 => Some(ReservationType::ExclusiveAccessRegistrantsOnly),
        7 => Some(ReservationType::WriteExclusiveAllRegistrants),
        8 => Some(ReservationType::ExclusiveAccessAllRegistrants),
        _ => None,
    }
}

/// The code of a type on the wire.
pub(crate) const fn type_code(kind: ReservationType) -> u8 {
    match kind {
        ReservationType::WriteExclusive => 1,
        ReservationType::ExclusiveAccess => 3,
        ReservationType::WriteExclusiveRegistrantsOnly => 5,
        ReservationType::ExclusiveAccessRegistrantsOnly => 6,
        ReservationType::WriteExclusiveAllRegistrants => 7,
        ReservationType::ExclusiveAccessAllRegistrants => 8,
    }
}

/// The unit attention condition by which a registrant is told.
pub(crate) const fn condition(notice: Notice) -> SenseCode {
    match notice {
        Notice::ReservationPreempted => sense::RESERVATIONS_PREEMPTED,
        Notice::ReservationReleased => sense::RESERVATIONS_RELEASED,
        Notice::RegistrationPreempted => sense::REGISTRATIONS_PREEMPTED,
    }
}

impl From<Refusal> for Completion {
    fn from(refusal: Refusal) -> Self {
        let invalid_list =
            |byte| Sense::in_parameter_list(sense::INVALID_FIELD_IN_PARAMETER_LIST, byte).into();
        match refusal {
            Refusal::NotRegistered
            | Refusal::Reserved
            | Refusal::NotHeldAlone
            | Refusal::UnknownKey => Status::ReservationConflict.into(),
            Refusal::ZeroKey => invalid_list(SERVICE_ACTION_RESERVATION_KEY),
            Refusal::RegistersOthers => invalid_list(SPEC_I_PT),
            Refusal::MovedToItself => invalid_list(TRANSPORT_ID_OF_MOVE),
            Refusal::OtherType => {
                Sense::from(sense::INVALID_RELEASE_OF_PERSISTENT_RESERVATION).into()
            }
            Refusal::NoSuchType => Sense::invalid_cdb_field(SCOPE_AND_TYPE).into(),
            Refusal::OutOfResources => {
                Sense::from(sense::INSUFFICIENT_REGISTRATION_RESOURCES).into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_of_spc_4_is_a_type_and_no_other_is() {
        for code in 0..=u8::MAX {
            let kind = parse_type(code);
            assert_eq!(kind.is_some(), [1, 3, 5, 6, 7, 8].contains(&code), "{code}");
            assert!(kind.is_none_or(|kind| type_code(kind) == code));
        }
    }

    #[test]
    fn a_refusal_points_at_the_field_that_is_wrong() {
        let sense = |refusal| Completion::from(refusal).sense.map(|sense| sense.code);
        for refusal in [Refusal::ZeroKey, Refusal::RegistersOthers, Refusal::MovedToItself] {
            assert_eq!(sense(refusal), Some(sense::INVALID_FIELD_IN_PARAMETER_LIST));
        }
        for refusal in
            [Refusal::NotRegistered, Refusal::Reserved, Refusal::NotHeldAlone, Refusal::UnknownKey]
        {
            assert_eq!(Completion::from(refusal).status, Status::ReservationConflict);
        }
        let none_left = sense::INSUFFICIENT_REGISTRATION_RESOURCES;
        assert_eq!(sense(Refusal::OutOfResources), Some(none_left));
        assert_eq!(sense(Refusal::NoSuchType), Some(sense::INVALID_FIELD_IN_CDB));
    }
}
