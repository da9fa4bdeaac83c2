//! Access check of the copy manager: it may read or write a logical unit for a nexus only as far as
//! the nexus itself may (SPC-4 5.17.5).

use block::VolumeId;
use reservations::Access;

use crate::command::Execution;
use crate::completion::{Completion, Status};
use crate::sense::{self, Sense};

/// Ends the command unless the nexus could do that itself.
///
/// # Errors
/// RESERVATION CONFLICT; 02h/04h/01h while the medium cannot be reached; 02h/04h/1Bh or 03h/31h/03h
/// while a SANITIZE runs or has failed;
/// 07h/27h/00h or 02h if a destination is write-protected.
pub(super) fn check(
    execution: &Execution<'_>,
    volume: VolumeId,
    access: Access,
) -> Result<(), Completion> {
    let unit = &execution.units[&volume];
    if unit.conflicts(execution.nexus_id, execution.nexus.registrant(), access) {
        return Err(Status::ReservationConflict.into());
    }
    unit.check_ready()?;
    let read_only = execution.nexus.may_only_read(volume);
    match unit.write_protection().or(read_only.then_some(sense::WRITE_PROTECTED)) {
        Some(protection) if access == Access::Write => Err(Sense::from(protection).into()),
        _ => Ok(()),
    }
}
