//! RESERVE and RELEASE of SCSI-2 (SPC-2 7.16, 7.21): a VMFS without ATS lives on them.

use crate::command::{Action, Execution};
use crate::completion::{Completion, Status};

/// RESERVE (6), (10). Reserving again what one holds is allowed.
pub(super) fn reserve(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let nexus = execution.nexus_id;
    let unit = execution.unit_mut()?;
    if unit.is_reserved_against(nexus) {
        return Err(Status::ReservationConflict.into());
    }
    unit.reservation = Some(nexus);
    Ok(Action::good())
}

/// RELEASE (6), (10). SPC-2 7.16: releasing what another nexus holds does nothing, and is GOOD.
pub(super) fn release(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let nexus = execution.nexus_id;
    let unit = execution.unit_mut()?;
    if unit.reservation == Some(nexus) {
        unit.reservation = None;
    }
    Ok(Action::good())
}
