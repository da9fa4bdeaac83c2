//! Inventory changes: logical units and nexuses are added, changed and removed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use block::VolumeId;
use sam::AccessState;

use super::{Delivery, DeviceServer, NexusId};
use crate::completion::Completion;
use crate::identity::Identification;
use crate::nexus::{Nexus, NexusSpec};
use crate::sense::{self, Sense, SenseCode};
use crate::space::UnitSpace;
use crate::unit::{LogicalUnit, LogicalUnitSpec, Sanitize};

impl DeviceServer {
    /// Adds the logical unit of a volume, or replaces what was said of it before. Nexuses see it
    /// where their inventory has the volume.
    pub fn add_unit(&mut self, id: VolumeId, spec: LogicalUnitSpec) {
        if let Some(unit) = self.units.get_mut(&id) {
            let before = std::mem::replace(&mut unit.spec, spec).size_bytes;
            let was_absent = std::mem::take(&mut unit.is_absent);
            let is_served = unit.access.state == AccessState::ActiveOptimized;
            if was_absent && is_served {
                self.establish(id, sense::NOT_READY_TO_READY_CHANGE_MEDIUM_MAY_HAVE_CHANGED);
            } else if !is_served && before != spec.size_bytes {
                self.establish(id, sense::CAPACITY_DATA_HAS_CHANGED);
            }
            return;
        }
        self.last_epoch += 1;
        self.units.insert(id, LogicalUnit::new(spec, self.last_epoch, self.now));
    }

    /// Adds the logical unit of a volume whose pool is not open, unless it is there. It tells which
    /// volume it is; commands for the medium end with 02h/04h/01h until [`Self::add_unit`] says what
    /// the volume is like, of which every nexus is told (28h/00h).
    pub fn add_absent_unit(&mut self, id: VolumeId, spec: LogicalUnitSpec) {
        if !self.units.contains_key(&id) {
            self.add_unit(id, spec);
            if let Some(unit) = self.units.get_mut(&id) {
                unit.is_absent = true;
            }
        }
    }

    /// Removes what [`Self::add_absent_unit`] added and nobody can bring: commands end with
    /// 05h/25h/00h from now on.
    pub fn remove_absent_units(&mut self) {
        let absent = self.units.iter().filter(|(_, unit)| unit.is_absent);
        let absent: Vec<_> = absent.map(|(&id, _)| id).collect();
        absent.into_iter().for_each(|id| self.remove_unit(id));
    }

    /// Changes the size; every nexus is told (2Ah/09h). Does nothing if there is no such unit or
    /// the size is the same.
    pub fn resize_unit(&mut self, id: VolumeId, size_bytes: u64) {
        match self.units.get_mut(&id) {
            Some(unit) if unit.spec.size_bytes != size_bytes => unit.spec.size_bytes = size_bytes,
            _ => return,
        }
        self.establish(id, sense::CAPACITY_DATA_HAS_CHANGED);
    }

    /// Refuses or allows commands that change the medium (07h/27h/00h).
    pub fn set_write_protected(&mut self, id: VolumeId, write_protected: bool) {
        if let Some(unit) = self.units.get_mut(&id) {
            unit.write_protected = write_protected;
        }
    }

    /// How far a SANITIZE of a volume is, in 65,536ths; `None` when none runs.
    pub fn sanitizing(&self, id: VolumeId) -> Option<u16> {
        match self.units.get(&id)?.sanitize {
            Sanitize::InProgress(done) => Some(done),
            Sanitize::None | Sanitize::Failed { .. } => None,
        }
    }

    /// Whether the last SANITIZE of a volume failed.
    pub fn has_failed_sanitize(&self, id: VolumeId) -> bool {
        let unit = self.units.get(&id);
        unit.is_some_and(|unit| matches!(unit.sanitize, Sanitize::Failed { .. }))
    }

    /// Tells where a volume's space stands. Whoever sees the unit is told (38h/07h) once each time
    /// that a threshold of its mode page 1Ch/02h is reached.
    pub fn set_space(&mut self, id: VolumeId, space: UnitSpace) {
        let Some(unit) = self.units.get_mut(&id) else { return };
        if unit.update_space(space) {
            self.establish(id, sense::THIN_PROVISIONING_SOFT_THRESHOLD_REACHED);
        }
    }

    /// Sets the threshold for available space that holds until an initiator sets another one; `None`
    /// for none.
    pub fn set_default_threshold(&mut self, id: VolumeId, available_bytes: Option<u64>) {
        if let Some(unit) = self.units.get_mut(&id) {
            unit.set_default_threshold(available_bytes);
        }
    }

    /// Shows or hides reservations: while they are hidden, RESERVE, RELEASE and PERSISTENT RESERVE
    /// IN and OUT are not supported. What is held or registered stays in effect.
    pub fn set_reservations_hidden(&mut self, id: VolumeId, hidden: bool) {
        if let Some(unit) = self.units.get_mut(&id) {
            unit.reservations_hidden = hidden;
        }
    }

    /// Sets the vendor and product that every logical unit tells which has none of its own. Whoever
    /// sees one that tells something else than before is told (3Fh/03h, SPC-4 6.6.2).
    pub fn set_identification(&mut self, identification: Identification) {
        if std::mem::replace(&mut self.identity.identification, identification) == identification {
            return;
        }
        let alike = self.units.iter().filter(|(_, unit)| unit.own_identification.is_none());
        let alike: Vec<VolumeId> = alike.map(|(&id, _)| id).collect();
        for id in alike {
            self.establish(id, sense::INQUIRY_DATA_HAS_CHANGED);
        }
    }

    /// Sets the name of the target device; whoever logs in from now on knows it by that.
    pub fn set_target_name(&mut self, name: &str) {
        name.clone_into(&mut self.identity.target_name);
    }

    /// Sets the vendor and product of one logical unit; `None` for what all tell. If it tells
    /// something else than before, whoever sees it is told (3Fh/03h).
    pub fn set_own_identification(&mut self, id: VolumeId, own: Option<Identification>) {
        let Some(unit) = self.units.get_mut(&id) else { return };
        let before = unit.identification(&self.identity);
        unit.own_identification = own;
        if unit.identification(&self.identity) != before {
            self.establish(id, sense::INQUIRY_DATA_HAS_CHANGED);
        }
    }

    /// What a volume's logical unit tells of vendor and product.
    pub fn identification(&self, id: VolumeId) -> Option<Identification> {
        Some(self.units.get(&id)?.identification(&self.identity))
    }

    /// Removes a logical unit. Waiting commands end with 05h/25h/00h, as later ones will; requests
    /// that are under way are still answered.
    pub fn remove_unit(&mut self, id: VolumeId) {
        let Some(mut unit) = self.units.remove(&id) else { return };
        self.tokens.forget_volume(id);
        for slot in unit.tasks.drain_dormant() {
            let sense = Sense::from(sense::LOGICAL_UNIT_NOT_SUPPORTED);
            self.end(slot, Completion::from(sense));
        }
    }

    /// Lets a nexus in. Its first command on each logical unit is told of the power on (29h/00h).
    pub fn open_nexus(&mut self, id: NexusId, spec: NexusSpec) {
        self.add_port(spec.relative_target_port, spec.target_portal_group);
        let mut nexus = Nexus::new(spec);
        for (&volume, _) in self.units.iter().filter(|(_, unit)| unit.reached.any()) {
            nexus.establish(volume, sense::THIN_PROVISIONING_SOFT_THRESHOLD_REACHED);
        }
        self.mistaken.recall(&mut nexus);
        self.nexuses.insert(id, nexus);
    }

    /// Says which host a nexus belongs to; before, it is a host of its own initiator's name. Hosts
    /// have their tokens and the number of them for themselves.
    pub fn set_host(&mut self, id: NexusId, host: &str) {
        if let Some(nexus) = self.nexuses.get_mut(&id) {
            host.clone_into(&mut nexus.host);
        }
    }

    /// I_T nexus loss: ends its tasks without telling anyone, and its reservations. Requests that
    /// are in the engine already are still to be answered.
    pub fn close_nexus(&mut self, id: NexusId) {
        self.note_gone(id);
        if let Some(nexus) = self.nexuses.remove(&id) {
            self.mistaken.remember(&nexus);
        }
        self.copies.forget_nexus(id);
        for unit in self.units.values_mut().filter(|unit| unit.reservation == Some(id)) {
            unit.reservation = None;
        }
        let slots = self.tasks.iter().filter(|(_, task)| task.order.decoded.nexus == id);
        let slots: Vec<_> = slots.map(|(slot, task)| (slot, task.volume)).collect();
        for &(slot, _) in &slots {
            self.abort(slot, Delivery::Nobody);
        }
        for (_, volume) in slots {
            self.start_waiting(volume);
        }
    }

    /// Adds a target port, or moves it to another target port group. Every port is reported on every
    /// path, also one that no nexus came through yet.
    pub fn add_port(&mut self, relative_target_port: u16, target_port_group: u16) {
        self.port_groups.add(relative_target_port, target_port_group);
    }

    /// Says which target ports there are, each with its target port group: this controller's, and those
    /// of others that serve the same target. If others than before, every nexus is told (3Fh/03h: VPD
    /// page 88h lists them).
    pub fn set_ports(&mut self, own: BTreeMap<u16, u16>, others: &BTreeMap<u16, u16>) {
        if self.port_groups.set(own, others) {
            self.establish_everywhere(sense::INQUIRY_DATA_HAS_CHANGED);
        }
    }

    /// Changes the asymmetric access state of a target port group; if it differs from before, every
    /// nexus is told (2Ah/06h).
    pub fn set_access_state(&mut self, target_port_group: u16, state: AccessState) {
        if self.port_groups.set_state(target_port_group, state) {
            self.establish_everywhere(sense::ASYMMETRIC_ACCESS_STATE_CHANGED);
        }
    }

    /// Says how this controller serves a logical unit: active/optimized where its pool is open here.
    /// If that differs from before, whoever sees the unit is told (2Ah/06h). A unit that is not served
    /// any more forgets reservations and mode parameters; [`Self::add_unit`] and
    /// [`Self::restore_unit`] bring them when it is again.
    pub fn set_unit_access(&mut self, id: VolumeId, state: AccessState) {
        let Some(unit) = self.units.get_mut(&id) else { return };
        if unit.access.set(state) {
            match state {
                AccessState::Standby | AccessState::Unavailable => unit.leave_to_others(),
                AccessState::ActiveOptimized
                | AccessState::ActiveNonOptimized
                | AccessState::Transitioning => {}
            }
            self.establish(id, sense::ASYMMETRIC_ACCESS_STATE_CHANGED);
        }
    }

    /// Takes what other controllers say of how they serve a logical unit, by target port group; a group
    /// that is missing says nothing. If that differs from before, whoever sees the unit is told (2Ah/06h).
    pub fn set_peer_access(&mut self, id: VolumeId, told: &BTreeMap<u16, AccessState>) {
        let unit = self.units.get_mut(&id);
        if unit.is_some_and(|unit| unit.access.tell(told)) {
            self.establish(id, sense::ASYMMETRIC_ACCESS_STATE_CHANGED);
        }
    }

    /// Adds a unit attention condition for every nexus on every unit that it sees.
    fn establish_everywhere(&mut self, condition: SenseCode) {
        for nexus in self.nexuses.values_mut() {
            for mapping in nexus.mappings.values_mut() {
                mapping.attentions.establish(condition);
            }
        }
    }

    /// Changes what a nexus sees; if it differs from before, the nexus is told (3Fh/0Eh).
    pub fn set_luns(&mut self, id: NexusId, luns: BTreeMap<u16, VolumeId>) {
        let Some(nexus) = self.nexuses.get_mut(&id) else { return };
        if nexus.set_luns(&luns, self.now) {
            for mapping in nexus.mappings.values_mut() {
                mapping.attentions.establish(sense::REPORTED_LUNS_DATA_HAS_CHANGED);
            }
        }
    }

    /// Says by which numbers an initiator may know volumes from sessions of before, though it sees
    /// none there now.
    pub fn set_former_luns(&mut self, id: NexusId, luns: BTreeMap<u16, VolumeId>) {
        if let Some(nexus) = self.nexuses.get_mut(&id) {
            nexus.set_former(luns);
        }
    }

    /// The numbers by which some session may still mean a volume that it saw there before, with the
    /// name of its initiator: it has not had an answer to REPORT LUNS without the number, or has
    /// addressed it within `rest`.
    pub fn held_luns(&self, rest: Duration) -> impl Iterator<Item = (&str, u16, VolumeId)> {
        self.nexuses.values().flat_map(move |nexus| {
            let held = nexus.held(self.now, rest);
            held.map(|(lun, volume)| (nexus.spec.initiator_name.as_str(), lun, volume))
        })
    }

    /// As [`Self::held_luns`], of one nexus.
    pub fn held_luns_of(&self, id: NexusId, rest: Duration) -> Vec<(u16, VolumeId)> {
        let nexus = self.nexuses.get(&id);
        nexus.map(|nexus| nexus.held(self.now, rest).collect()).unwrap_or_default()
    }

    /// Says which logical units a nexus may only read; the others it may write. A nexus for which
    /// that changes is told (2Ah/01h: MODE SENSE shows it).
    pub fn set_read_only(&mut self, id: NexusId, luns: &BTreeSet<u16>) {
        let Some(nexus) = self.nexuses.get_mut(&id) else { return };
        for (lun, mapping) in &mut nexus.mappings {
            let read_only = luns.contains(lun);
            if mapping.read_only != read_only {
                mapping.read_only = read_only;
                mapping.attentions.establish(sense::MODE_PARAMETERS_CHANGED);
            }
        }
    }

    /// Adds a unit attention condition for every nexus that sees the volume.
    pub(super) fn establish(&mut self, volume: VolumeId, condition: SenseCode) {
        for nexus in self.nexuses.values_mut() {
            nexus.establish(volume, condition);
        }
    }

    /// As [`Self::establish`], but not for one nexus.
    pub(super) fn establish_for_others(
        &mut self,
        volume: VolumeId,
        but: NexusId,
        condition: SenseCode,
    ) {
        for (_, nexus) in self.nexuses.iter_mut().filter(|(id, _)| **id != but) {
            nexus.establish(volume, condition);
        }
    }
}
