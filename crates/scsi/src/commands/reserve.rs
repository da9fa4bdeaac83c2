//! RESERVE and RELEASE of SCSI-2 (SPC-2 7.16, 7.21): a VMFS without ATS lives on them.
//!
//! SPC-4 5.12.3 (CRH): once anyone is registered they change nothing. They are GOOD for a nexus that
//! the persistent reservation admits, and conflict for every other.

use crate::command::{Action, Execution};
use crate::completion::{Completion, Status};

/// RESERVE (6), (10). Reserving again what one holds is allowed.
pub(super) fn reserve(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    if let Some(answer) = answer_beside_registrations(execution) {
        return answer;
    }
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
    if let Some(answer) = answer_beside_registrations(execution) {
        return answer;
    }
    let nexus = execution.nexus_id;
    let unit = execution.unit_mut()?;
    if unit.reservation == Some(nexus) {
        unit.reservation = None;
    }
    Ok(Action::good())
}

/// The answer while anyone is registered; `None` if nobody is.
fn answer_beside_registrations(execution: &Execution<'_>) -> Option<Result<Action, Completion>> {
    let persistent = &execution.unit().ok()?.persistent;
    if persistent.keys().is_empty() {
        return None;
    }
    Some(if persistent.admits_all_of(execution.nexus.registrant()) {
        Ok(Action::good())
    } else {
        Err(Status::ReservationConflict.into())
    })
}
