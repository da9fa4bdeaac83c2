//! Types of a persistent reservation (SPC-4 6.15.3.4).

use serde::{Deserialize, Serialize};

/// The TYPE field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReservationType {
    /// 1h.
    WriteExclusive,
    /// 3h.
    ExclusiveAccess,
    /// 5h.
    WriteExclusiveRegistrantsOnly,
    /// 6h.
    ExclusiveAccessRegistrantsOnly,
    /// 7h.
    WriteExclusiveAllRegistrants,
    /// 8h.
    ExclusiveAccessAllRegistrants,
}

impl ReservationType {
    /// The type of that code; `None` if it is reserved or obsolete.
    pub(crate) const fn parse(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::WriteExclusive),
            3 => Some(Self::ExclusiveAccess),
            5 => Some(Self::WriteExclusiveRegistrantsOnly),
            6 => Some(Self::ExclusiveAccessRegistrantsOnly),
            7 => Some(Self::WriteExclusiveAllRegistrants),
            8 => Some(Self::ExclusiveAccessAllRegistrants),
            _ => None,
        }
    }

    /// The code on the wire.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::WriteExclusive => 1,
            Self::ExclusiveAccess => 3,
            Self::WriteExclusiveRegistrantsOnly => 5,
            Self::ExclusiveAccessRegistrantsOnly => 6,
            Self::WriteExclusiveAllRegistrants => 7,
            Self::ExclusiveAccessAllRegistrants => 8,
        }
    }

    /// Whether every registrant is a holder.
    pub(crate) const fn is_held_by_all(self) -> bool {
        matches!(self, Self::WriteExclusiveAllRegistrants | Self::ExclusiveAccessAllRegistrants)
    }

    /// Whether registrants other than the holder may do all that the holder may.
    pub(crate) const fn admits_registrants(self) -> bool {
        !matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }

    /// Whether the others may not even read.
    pub(crate) const fn excludes_readers(self) -> bool {
        matches!(
            self,
            Self::ExclusiveAccess
                | Self::ExclusiveAccessRegistrantsOnly
                | Self::ExclusiveAccessAllRegistrants
        )
    }
}
