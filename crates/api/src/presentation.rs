//! Types for the presentation of volumes and paths to hosts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The blocks that hosts see of a volume, for its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum BlockSize {
    /// Blocks of 512 bytes.
    #[default]
    #[serde(rename = "512")]
    B512,
    /// Blocks of 512 bytes, and hosts are told that 4,096 at once are better.
    #[serde(rename = "512e")]
    B512e,
    /// Blocks of 4,096 bytes.
    #[serde(rename = "4096")]
    B4096,
}

/// Whether hosts may reserve a volume.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetReservations {
    /// True if RESERVE, RELEASE and PERSISTENT RESERVE are to be answered as not supported.
    pub hidden: bool,
}

/// The vendor and product that hosts are told by INQUIRY. ESXi has the array copy only between LUNs
/// that tell the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Identification {
    /// 1 to 8 printable ASCII characters, with no space at either end.
    #[schema(min_length = 1, max_length = 8, pattern = "^[!-~]([ -~]*[!-~])?$")]
    pub vendor: String,
    /// 1 to 16 printable ASCII characters, with no space at either end.
    #[schema(min_length = 1, max_length = 16, pattern = "^[!-~]([ -~]*[!-~])?$")]
    pub product: String,
}

/// Which primitives (offloads) are on at one place: for the array, a host, or a volume. Hosts may use
/// one only where none of the three has it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Primitives {
    /// COMPARE AND WRITE (ATS).
    pub compare_and_write: bool,
    /// EXTENDED COPY and what belongs to it, POPULATE TOKEN and WRITE USING TOKEN (Full Copy, ODX).
    pub extended_copy: bool,
    /// WRITE SAME (Block Zero).
    pub write_same: bool,
    /// UNMAP, and WRITE SAME that unmaps (Delete).
    pub unmap: bool,
}

impl Default for Primitives {
    fn default() -> Self {
        Self { compare_and_write: true, extended_copy: true, write_same: true, unmap: true }
    }
}

/// Primitives that are turned on (true) or off (false); one that is left out stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetPrimitives {
    /// COMPARE AND WRITE (ATS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare_and_write: Option<bool>,
    /// EXTENDED COPY and what belongs to it, POPULATE TOKEN and WRITE USING TOKEN (Full Copy, ODX).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended_copy: Option<bool>,
    /// WRITE SAME (Block Zero).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_same: Option<bool>,
    /// UNMAP, and WRITE SAME that unmaps (Delete).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmap: Option<bool>,
}

/// How well the paths of a target portal group work, as hosts are told (ALUA).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PathState {
    /// As well as can be.
    #[default]
    ActiveOptimized,
    /// Hosts should prefer other paths.
    ActiveNonOptimized,
    /// No data; hosts use it when no other path is left and the state changes.
    Standby,
    /// No data.
    Unavailable,
    /// No data; hosts wait for another state and try again.
    Transitioning,
}

impl PathState {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::ActiveOptimized,
        Self::ActiveNonOptimized,
        Self::Standby,
        Self::Unavailable,
        Self::Transitioning,
    ];

    /// Its name in JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ActiveOptimized => "active-optimized",
            Self::ActiveNonOptimized => "active-non-optimized",
            Self::Standby => "standby",
            Self::Unavailable => "unavailable",
            Self::Transitioning => "transitioning",
        }
    }
}

/// Another state for a target portal group.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetPathState {
    /// The new state.
    pub state: PathState,
}
