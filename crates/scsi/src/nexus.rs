//! An I_T nexus: one session of an initiator port with a target port, and what it may see.

use std::collections::BTreeMap;
use std::time::Duration;

use block::{SwitchesOff, VolumeId};

use crate::attention::Attentions;
use crate::persistent::Registrant;
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
    /// Primitives that are off for its host.
    pub switches_off: SwitchesOff,
}

/// A logical unit as one nexus sees it.
pub(crate) struct Mapping {
    pub(crate) volume: VolumeId,
    pub(crate) attentions: Attentions,
    /// Whether this nexus may not change the volume.
    pub(crate) read_only: bool,
    /// Whether the nexus knew another volume by this number, and has not asked yet which one it is
    /// now.
    pub(crate) mistaken: bool,
}

/// A number by which a nexus knew a volume that it sees there no more.
struct Former {
    volume: VolumeId,
    /// Whether it is unknown for which volume the initiator takes the number.
    mistaken: bool,
    /// Whether REPORT LUNS was answered without the number since then.
    told: bool,
    /// When a command last addressed the number since then, or the volume went.
    addressed: Option<Duration>,
}

/// A nexus and its state.
pub(crate) struct Nexus {
    pub(crate) spec: NexusSpec,
    /// Whose tokens its tokens are: the same for all nexuses of a host.
    pub(crate) host: String,
    registrant: Registrant,
    pub(crate) mappings: BTreeMap<u16, Mapping>,
    /// The volume that each number stood for last where there is none now: at most one for each
    /// number that exists.
    former: BTreeMap<u16, Former>,
}

impl Nexus {
    pub(crate) fn new(mut spec: NexusSpec) -> Self {
        let luns = std::mem::take(&mut spec.luns);
        let registrant = Registrant {
            initiator_name: spec.initiator_name.clone(),
            isid: spec.isid,
            relative_target_port: spec.relative_target_port,
        };
        let host = spec.initiator_name.clone();
        let (mappings, former) = (BTreeMap::new(), BTreeMap::new());
        let mut nexus = Self { spec, host, registrant, mappings, former };
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
        let former = self.former.remove(&lun);
        let is_another = former.as_ref().is_some_and(|former| former.volume != volume);
        if is_another {
            attentions.establish(sense::INQUIRY_DATA_HAS_CHANGED);
        }
        let mistaken = is_another || former.is_some_and(|former| former.mistaken);
        self.mappings.insert(lun, Mapping { volume, attentions, read_only: false, mistaken });
    }

    /// Changes the inventory; returns whether it differs from the one before.
    pub(crate) fn set_luns(&mut self, luns: &BTreeMap<u16, VolumeId>, now: Duration) -> bool {
        let is_gone = |lun: &u16, mapping: &mut Mapping| luns.get(lun) != Some(&mapping.volume);
        let gone: Vec<_> = self.mappings.extract_if(.., is_gone).collect();
        let mut changed = !gone.is_empty();
        for (lun, Mapping { volume, mistaken, .. }) in gone {
            let former = Former { volume, mistaken, told: false, addressed: Some(now) };
            self.former.insert(lun, former);
        }
        for (&lun, &volume) in luns {
            if !self.mappings.contains_key(&lun) {
                self.map(lun, volume);
                changed = true;
            }
        }
        changed
    }

    /// Says by which numbers the initiator may know volumes from sessions of before.
    pub(crate) fn set_former(&mut self, luns: BTreeMap<u16, VolumeId>) {
        for (lun, volume) in luns {
            if !self.mappings.contains_key(&lun) {
                let former = Former { volume, mistaken: false, told: true, addressed: None };
                self.former.insert(lun, former);
            }
        }
    }

    /// The numbers by which the initiator may still mean the volume of before: REPORT LUNS has not
    /// been answered without them, or a command addressed them within `rest`.
    pub(crate) fn held(
        &self,
        now: Duration,
        rest: Duration,
    ) -> impl Iterator<Item = (u16, VolumeId)> {
        let held = self.former.iter().filter(move |(_, former)| {
            let is_recent = |addressed: Duration| now.saturating_sub(addressed) < rest;
            !former.told || former.addressed.is_some_and(is_recent)
        });
        held.map(|(&lun, former)| (lun, former.volume))
    }

    /// The numbers whose volume the initiator has not asked for, though it knew another one there.
    pub(crate) fn mistaken(&self) -> impl Iterator<Item = (u16, VolumeId)> {
        let mistaken = self.mappings.iter().filter(|(_, mapping)| mapping.mistaken);
        mistaken.map(|(&lun, mapping)| (lun, mapping.volume))
    }

    /// Keeps the initiator from a volume until it has asked which one it is.
    pub(crate) fn mistake(&mut self, lun: u16, volume: VolumeId) {
        let mapping = self.mappings.get_mut(&lun).filter(|mapping| mapping.volume == volume);
        if let Some(mapping) = mapping {
            mapping.mistaken = true;
            mapping.attentions.establish(sense::INQUIRY_DATA_HAS_CHANGED);
        }
    }

    /// Notes that a command addressed a number without a logical unit.
    pub(crate) fn addressed(&mut self, lun: u16, now: Duration) {
        if let Some(former) = self.former.get_mut(&lun) {
            former.addressed = Some(now);
        }
    }

    /// Notes that the initiator has the inventory as it is now.
    pub(crate) fn luns_reported(&mut self) {
        self.former.values_mut().for_each(|former| former.told = true);
    }

    /// Notes that the initiator has asked which volume a number stands for.
    pub(crate) fn identified(&mut self, lun: u16) {
        if let Some(mapping) = self.mappings.get_mut(&lun) {
            mapping.mistaken = false;
        }
    }

    /// Whether every way by which the nexus sees a volume allows reading only.
    pub(crate) fn may_only_read(&self, volume: VolumeId) -> bool {
        let mut ways = self.mappings.values().filter(|mapping| mapping.volume == volume);
        ways.all(|mapping| mapping.read_only)
    }
}
