//! Turns primitives off and on, and tells the nexuses for which that changes something.

use block::{SwitchesOff, VolumeId};

use super::{DeviceServer, NexusId};
use crate::nexus::Mapping;
use crate::sense;

impl DeviceServer {
    /// Says which primitives are off for everybody. A nexus for which that changes what a logical
    /// unit offers is told (3Fh/03h, SPC-4 6.6.1; where blocks can be unmapped no more, or again, also
    /// 2Ah/09h, since READ CAPACITY (16) says so).
    pub fn set_switches_off(&mut self, off: SwitchesOff) {
        let before = std::mem::replace(&mut self.switches_off, off);
        let units = &self.units;
        for nexus in self.nexuses.values_mut().filter(|_| before != off) {
            for mapping in nexus.mappings.values_mut() {
                let unit = units.get(&mapping.volume);
                let own = unit.map_or(SwitchesOff::NONE, |unit| unit.switches_off);
                let others = own.or(nexus.spec.switches_off);
                tell(mapping, others.or(before), others.or(off));
            }
        }
    }

    /// The same of one logical unit.
    pub fn set_switches_off_of_unit(&mut self, id: VolumeId, off: SwitchesOff) {
        let Some(unit) = self.units.get_mut(&id) else { return };
        let before = std::mem::replace(&mut unit.switches_off, off);
        for nexus in self.nexuses.values_mut().filter(|_| before != off) {
            let others = self.switches_off.or(nexus.spec.switches_off);
            for mapping in nexus.mappings.values_mut().filter(|mapping| mapping.volume == id) {
                tell(mapping, others.or(before), others.or(off));
            }
        }
    }

    /// The same for the host of a nexus.
    pub fn set_switches_off_of_nexus(&mut self, id: NexusId, off: SwitchesOff) {
        let Some(nexus) = self.nexuses.get_mut(&id) else { return };
        let before = std::mem::replace(&mut nexus.spec.switches_off, off);
        for mapping in nexus.mappings.values_mut().filter(|_| before != off) {
            let unit = self.units.get(&mapping.volume);
            let own = unit.map_or(SwitchesOff::NONE, |unit| unit.switches_off);
            let others = own.or(self.switches_off);
            tell(mapping, others.or(before), others.or(off));
        }
    }
}

/// Tells a nexus what became of a logical unit, if anything did.
fn tell(mapping: &mut Mapping, before: SwitchesOff, after: SwitchesOff) {
    use block::Switch::Unmap;
    if before == after {
        return;
    }
    mapping.attentions.establish(sense::INQUIRY_DATA_HAS_CHANGED);
    if before.contains(Unmap) != after.contains(Unmap) {
        mapping.attentions.establish(sense::CAPACITY_DATA_HAS_CHANGED);
    }
}
