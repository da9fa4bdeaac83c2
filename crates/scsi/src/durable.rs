//! Persistent state of a logical unit (reservations with APTPL, saved mode parameters). The owner
//! stores it, as JSON or otherwise; here it only has a form.

use serde::{Deserialize, Serialize};

use crate::modes::Modes;
use crate::persistent::DurableReservations;

/// The name of a state that is to be stored; never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SaveId(pub u64);

/// The state of one logical unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DurableState {
    /// Registrations and persistent reservation, if the initiators want them kept (APTPL).
    pub reservations: Option<DurableReservations>,
    /// Mode parameters, if anyone saved them.
    pub modes: Option<Modes>,
}

impl DurableState {
    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
