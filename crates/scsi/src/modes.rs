//! Mode parameters that initiators can change (SPC-4 7.5, SBC-4 6.5).

use serde::{Deserialize, Serialize};

/// What MODE SELECT changes, of one logical unit and for all nexuses alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Modes {
    /// D_SENSE: sense data in descriptor format.
    pub descriptor_sense: bool,
    /// SWP: commands that change the medium are refused.
    pub software_write_protect: bool,
    /// TAS: who did not abort a task hears TASK ABORTED instead of a unit attention condition.
    pub task_aborted_status: bool,
    /// When resources that are still available are told to be few.
    pub available_threshold: Threshold,
    /// Whether an initiator set that; until then it follows what the administrator wants.
    #[serde(skip)]
    pub is_available_threshold_set: bool,
    /// When resources that are used are told to be many.
    pub used_threshold: Threshold,
}

/// A threshold of logical block provisioning (SBC-4 6.5.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// ENABLED.
    pub enabled: bool,
    /// THRESHOLD COUNT, in threshold sets (VPD page B2h).
    pub count: u32,
}

impl Default for Modes {
    fn default() -> Self {
        Self {
            descriptor_sense: false,
            software_write_protect: false,
            task_aborted_status: true,
            available_threshold: Threshold::default(),
            is_available_threshold_set: false,
            used_threshold: Threshold::default(),
        }
    }
}
