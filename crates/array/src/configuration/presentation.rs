//! Presentation of volumes and paths to hosts: block format, reservations, states of target portal
//! groups.

use std::collections::BTreeMap;

use block::{LogicalBlockLength, SwitchesOff, VolumeId};
use sam::AccessState;
use serde::{Deserialize, Serialize};

use super::Configuration;
use super::rate_limits::RateLimits;
use crate::Identification;

/// The blocks that hosts see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockForm {
    /// Logical and physical blocks of 512 bytes.
    #[default]
    #[serde(rename = "512")]
    B512n,
    /// Logical blocks of 512 bytes, physical ones of 4,096.
    #[serde(rename = "512e")]
    B512e,
    /// Logical and physical blocks of 4,096 bytes.
    #[serde(rename = "4096")]
    B4096,
}

/// Presentation of a volume where it differs from the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Presentation {
    /// For the life of the volume.
    #[serde(default)]
    pub blocks: BlockForm,
    /// Whether RESERVE, RELEASE and PERSISTENT RESERVE are not supported.
    #[serde(default)]
    pub reservations_hidden: bool,
    /// Vendor and product, if they are not those that the array tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identification: Option<Identification>,
    /// Primitives that are off for whoever sees it.
    #[serde(
        default,
        with = "super::switches::names",
        skip_serializing_if = "SwitchesOff::is_empty"
    )]
    pub switches_off: SwitchesOff,
    /// How much work of hosts it takes.
    #[serde(default, skip_serializing_if = "RateLimits::is_default")]
    pub limits: RateLimits,
}

impl BlockForm {
    /// Length of a logical block.
    pub const fn logical_block_length(self) -> LogicalBlockLength {
        match self {
            Self::B512n | Self::B512e => LogicalBlockLength::B512,
            Self::B4096 => LogicalBlockLength::B4096,
        }
    }

    /// log2 of the logical blocks in a physical block.
    pub const fn physical_block_exponent(self) -> u8 {
        match self {
            Self::B512n | Self::B4096 => 0,
            Self::B512e => 3,
        }
    }
}

impl Configuration {
    /// How a volume looks.
    pub fn presentation(&self, volume: VolumeId) -> Presentation {
        self.presentations.get(&volume.0).copied().unwrap_or_default()
    }

    /// Sets how a volume looks; of a volume that hosts may know, the blocks stay as they are.
    pub fn set_presentation(&mut self, volume: VolumeId, presentation: Presentation) {
        if presentation == Presentation::default() {
            self.presentations.remove(&volume.0)
        } else {
            self.presentations.insert(volume.0, presentation)
        };
    }

    /// Volumes that tell another vendor or product than the array does, and what they tell.
    pub fn deviating_identifications(&self) -> BTreeMap<VolumeId, Identification> {
        let own = self
            .presentations
            .iter()
            .filter_map(|(&id, presentation)| Some((VolumeId(id), presentation.identification?)));
        own.filter(|(_, own)| *own != self.identification).collect()
    }

    /// A target portal group's state, for those that have ever been given one.
    pub fn path_states(&self) -> impl Iterator<Item = (u16, AccessState)> {
        self.path_states.iter().map(|(group, state)| (*group, *state))
    }

    /// Sets the state of a target portal group, whether it has portals yet or not.
    pub fn set_path_state(&mut self, group: u16, state: AccessState) {
        self.path_states.insert(group, state);
    }

    /// The state of a target portal group.
    pub fn path_state(&self, group: u16) -> AccessState {
        self.path_states.get(&group).copied().unwrap_or_default()
    }
}
