//! An I_T nexus: one session of an initiator port with a target port, and what it may see.

use std::collections::BTreeMap;

use block::VolumeId;

use crate::attention::Attentions;
use crate::reservations::Registrant;
use crate::sense::{self, SenseCode};

/// What the owner says of a nexus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NexusSpec {
    /// iSCSI name of the initiator.
    pub initiator_name: String,
    /// Initiator part of the session identifier.
    pub isid: [u8; 6],
    /// RELATIVE TARGET PORT IDENTIFIER of the port that the nexus came through, from 1.
    pub relative_target_port: u16,
    /// TARGET PORT GROUP of that port.
    pub target_portal_group: u16,
    /// The logical unit inventory.
    pub luns: BTreeMap<u16, VolumeId>,
}

/// A logical unit as one nexus sees it.
pub(crate) struct Mapping {
    pub(crate) volume: VolumeId,
    pub(crate) attentions: Attentions,
    /// Whether this nexus may not change the volume.
    pub(crate) read_only: bool,
}

/// A nexus and its state.
pub(crate) struct Nexus {
    pub(crate) spec: NexusSpec,
    registrant: Registrant,
    pub(crate) mappings: BTreeMap<u16, Mapping>,
    /// The volume that each number stood for last, also where there is none now: at most one for
    /// each number that exists.
    met: BTreeMap<u16, VolumeId>,
}

impl Nexus {
    pub(crate) fn new(mut spec: NexusSpec) -> Self {
        let luns = std::mem::take(&mut spec.luns);
        let registrant = Registrant {
            initiator_name: spec.initiator_name.clone(),
            isid: spec.isid,
            relative_target_port: spec.relative_target_port,
        };
        let mut nexus = Self { spec, registrant, mappings: BTreeMap::new(), met: BTreeMap::new() };
        for (lun, volume) in luns {
            nexus.map(lun, volume);
        }
        nexus
    }

    /// The nexus as registrations name it.
    pub(crate) const fn registrant(&self) -> &Registrant {
        &self.registrant
    }

    /// Adds a unit attention condition wherever the nexus sees the volume.
    pub(crate) fn establish(&mut self, volume: VolumeId, condition: SenseCode) {
        for mapping in self.mappings.values_mut().filter(|mapping| mapping.volume == volume) {
            mapping.attentions.establish(condition);
        }
    }

    /// Takes the condition that is to be told next on a logical unit. That the inventory has changed
    /// is told on one of them only (SPC-4 7.8.7: LUICLR).
    pub(crate) fn take_attention(&mut self, lun: u16) -> Option<SenseCode> {
        let condition = self.mappings.get_mut(&lun)?.attentions.take()?;
        if condition == sense::REPORTED_LUNS_DATA_HAS_CHANGED {
            self.clear_everywhere(condition);
        }
        Some(condition)
    }

    /// Clears a condition on every logical unit that the nexus sees.
    pub(crate) fn clear_everywhere(&mut self, condition: SenseCode) {
        for mapping in self.mappings.values_mut() {
            mapping.attentions.clear(condition);
        }
    }

    /// SPC-4 6.6.1: where the INQUIRY data of a known number is another one now, the nexus is told
    /// (3Fh/03h), so that no host takes the new volume for the old one.
    fn map(&mut self, lun: u16, volume: VolumeId) {
        let mut attentions = Attentions::power_on();
        if self.met.insert(lun, volume).is_some_and(|before| before != volume) {
            attentions.establish(sense::INQUIRY_DATA_HAS_CHANGED);
        }
        self.mappings.insert(lun, Mapping { volume, attentions, read_only: false });
    }

    /// Changes the inventory; returns whether it differs from the one before.
    pub(crate) fn set_luns(&mut self, luns: &BTreeMap<u16, VolumeId>) -> bool {
        let before = self.mappings.len();
        self.mappings.retain(|lun, mapping| luns.get(lun) == Some(&mapping.volume));
        let mut changed = self.mappings.len() != before;
        for (&lun, &volume) in luns {
            if !self.mappings.contains_key(&lun) {
                self.map(lun, volume);
                changed = true;
            }
        }
        changed
    }

    /// Whether every way by which the nexus sees a volume allows reading only.
    pub(crate) fn may_only_read(&self, volume: VolumeId) -> bool {
        let mut ways = self.mappings.values().filter(|mapping| mapping.volume == volume);
        ways.all(|mapping| mapping.read_only)
    }
}
