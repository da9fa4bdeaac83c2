//! May a copy manager read or write a logical unit for a nexus? (SPC-4 5.17.5: it may do no more
//! than the nexus itself.)

use crate::completion::{Completion, Status};
use crate::sense::{self, Sense};
use crate::target::NexusId;
use crate::unit::LogicalUnit;

/// What is to be done with a logical unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It is a source.
    Read,
    /// It is a destination.
    Write,
}

/// Ends the command unless the nexus could do that itself.
///
/// # Errors
/// RESERVATION CONFLICT; 02h/04h/1Bh or 03h/31h/03h while a SANITIZE runs or has failed;
/// 07h/27h/00h if a destination is write-protected.
pub(super) fn check(nexus: NexusId, unit: &LogicalUnit, role: Role) -> Result<(), Completion> {
    if unit.is_reserved_against(nexus) {
        return Err(Status::ReservationConflict.into());
    }
    unit.check_sanitize()?;
    if role == Role::Write && unit.write_protected {
        return Err(Sense::from(sense::WRITE_PROTECTED).into());
    }
    Ok(())
}
