//! Types of a persistent reservation (SPC-4 6.15.3.4; NVMe Base 2.0: RTYPE). Their codes on the wire are
//! the front ends'.

use serde::{Deserialize, Serialize};

/// Whom a reservation keeps from what. Its names are part of what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReservationType {
    /// The holder alone may write.
    WriteExclusive,
    /// The holder alone may read and write.
    ExclusiveAccess,
    /// Registrants may write.
    WriteExclusiveRegistrantsOnly,
    /// Registrants may read and write.
    ExclusiveAccessRegistrantsOnly,
    /// Registrants may write, and all of them hold it.
    WriteExclusiveAllRegistrants,
    /// Registrants may read and write, and all of them hold it.
    ExclusiveAccessAllRegistrants,
}

impl ReservationType {
    /// Whether every registrant is a holder.
    pub const fn is_held_by_all(self) -> bool {
        matches!(self, Self::WriteExclusiveAllRegistrants | Self::ExclusiveAccessAllRegistrants)
    }

    /// Whether registrants other than the holder may do all that the holder may.
    pub const fn admits_registrants(self) -> bool {
        !matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }

    /// Whether the others may not even read.
    pub const fn excludes_readers(self) -> bool {
        matches!(
            self,
            Self::ExclusiveAccess
                | Self::ExclusiveAccessRegistrantsOnly
                | Self::ExclusiveAccessAllRegistrants
        )
    }
}
