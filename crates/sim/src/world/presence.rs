//! Copies that are there when a pool is opened, and what the engine must make of them; the file
//! in which the array keeps how new each mirror's membership list is.

use std::collections::BTreeMap;

use store::{Membership, OpenContext, SlotSpec};

use super::slots::{Member, State};
use super::{POOL_UUID, World};
use crate::audit::{List, member_of};
use crate::disk::{Condition, Faults, SimDisk};
use crate::oracle::{Violation, violation};
use crate::trace::Event;

/// With one power failure in so many the array loses its file, too.
const WITNESS_LOST_ONE_IN: u64 = 20;

/// What the array keeps outside the pool.
#[derive(Clone, Debug, Default)]
pub(super) struct Witness {
    /// The newest list of each mirror that was told and saved.
    pub(super) saved: BTreeMap<[u8; 16], u64>,
    /// Told, and being saved: each with the turns that it takes.
    saving: Vec<(u64, Membership)>,
}

impl World {
    /// Hears of new membership lists; says whether the engine was answered.
    pub(super) fn keep_witness(&mut self) -> bool {
        while let Some(membership) = self.store.next_membership() {
            let turns = if self.chance.percent(50) { 0 } else { self.chance.below(12) };
            self.witness.saving.push((turns, membership));
        }
        let idle = self.devices_are_idle();
        let mut answered = false;
        for (turns, membership) in std::mem::take(&mut self.witness.saving) {
            if turns > 0 && !idle {
                self.witness.saving.push((turns - 1, membership));
                continue;
            }
            self.witness.save(&membership);
            self.store.membership_witnessed(membership);
            answered = true;
        }
        answered
    }

    /// After a power failure: what was being saved is saved or not; whatever failed as a whole
    /// works again, with what it held.
    pub(super) fn repair_after_power_failure(&mut self) {
        for (_, membership) in std::mem::take(&mut self.witness.saving) {
            if self.chance.percent(50) {
                self.witness.save(&membership);
            }
        }
        (self.scrubbing, self.scrubbed) = (None, None);
        if self.profile.mirrors.is_none() {
            return;
        }
        if self.chance.one_in(WITNESS_LOST_ONE_IN) {
            self.trace.add(self.now, Event::Note("the array's witness is lost"));
            self.witness.saved.clear();
        }
        for disk in &mut self.disks {
            disk.set_condition(Condition::Sound);
            if self.profile.faults.is_none() {
                disk.set_faults(Faults::default());
            }
        }
        for member in self.slots.devices.iter_mut().flatten() {
            if member.state == State::Failed {
                member.state = State::Sound;
            }
        }
    }

    /// Chooses which copies are there when the pool is opened next.
    pub(super) fn plug_in(&mut self) {
        self.opened = vec![self.profile.mirrors.is_none(); self.disks.len()];
        if self.profile.mirrors.is_none() {
            return;
        }
        for device in 0..self.slots.devices.len() {
            for slot in self.copies_that_are_there(device) {
                self.opened[slot] = true;
            }
            self.choose_reference_of_list(device);
        }
    }

    /// All copies of a device, or some of which one holds everything.
    fn copies_that_are_there(&mut self, device: usize) -> Vec<usize> {
        let all = self.slots.devices[device].clone();
        let known = all.iter().filter(|m| m.state != State::Joining || self.is_labelled(m));
        let known: Vec<usize> = known.map(|member| member.slot).collect();
        let absent_percent = self.profile.mirrors.as_ref().map_or(0, |m| m.absent_percent);
        if known.len() < 2 || !self.chance.percent(absent_percent) {
            return known;
        }
        let sufficient = self.sufficient_copies(device);
        if sufficient.is_empty() {
            return known;
        }
        let needed = sufficient[self.chance.below(sufficient.len() as u64) as usize];
        let stays = |slot: &usize| *slot == needed || self.chance.percent(40);
        let count = known.len();
        let there: Vec<usize> = known.into_iter().filter(stays).collect();
        self.figures.degraded_openings += u64::from(there.len() < count);
        self.trace.add(self.now, Event::Copy { slot: needed, words: "others may be absent" });
        there
    }

    /// The copies of a device with which alone the pool must open: sound ones that the newest
    /// list calls current and that have that list, if the array knows how new it is.
    pub(super) fn sufficient_copies(&self, device: usize) -> Vec<usize> {
        let Some(newest) = self.newest_list(device) else { return Vec::new() };
        let saved = self.witness.saved.get(&newest.mirror);
        if saved.is_none_or(|saved| *saved > newest.generation) {
            return Vec::new();
        }
        let members = self.slots.devices[device].iter();
        let sufficient = members.filter(|member| {
            let own = List::newest(&self.disks[member.slot]);
            member.state == State::Sound
                && newest.is_current(member.uuid)
                && own.is_some_and(|own| own.generation == newest.generation)
        });
        sufficient.map(|member| member.slot).collect()
    }

    /// Whether a disk knows that it is a copy.
    pub(super) fn is_labelled(&self, member: &Member) -> bool {
        let is_plain = self.slots.device_of(member.slot).is_some_and(|device| {
            self.slots.devices[device].len() == 1 || self.newest_list(device).is_none()
        });
        is_plain || member_of(&self.disks[member.slot]).is_some()
    }

    /// The newest membership list on any copy of a device.
    pub(super) fn newest_list(&self, device: usize) -> Option<List> {
        let slots = self.slots.of(device);
        let lists = slots.filter_map(|slot| List::newest(&self.disks[slot]));
        lists.max_by_key(|list| list.generation)
    }

    /// Before an opening nobody can say what is current but the list.
    fn choose_reference_of_list(&mut self, device: usize) {
        let Some(newest) = self.newest_list(device) else { return };
        let members = self.slots.devices[device].iter();
        let current = members.filter(|member| {
            let is_there = self.opened[member.slot] && member.state == State::Sound;
            is_there && newest.is_current(member.uuid)
        });
        let current: Vec<usize> = current.map(|member| member.slot).collect();
        if !current.is_empty() {
            let slot = current[self.chance.below(current.len() as u64) as usize];
            self.slots.set_reference(device, slot);
        }
    }

    /// The slots that are plugged in.
    pub(super) fn open_slots(&self) -> Vec<SlotSpec> {
        slots_of(&self.disks, &self.opened)
    }

    /// What the array knows of the pool.
    pub(super) fn open_context(&self) -> OpenContext {
        OpenContext {
            expected_pool_uuid: Some(POOL_UUID),
            witnessed: self.witness.saved.iter().map(|(mirror, list)| (*mirror, *list)).collect(),
            shared: false,
            allow_degraded: false,
        }
    }

    /// A slot is plugged in while the pool is open.
    pub(super) fn open_slot(&mut self, slot: usize) {
        if self.opened.len() <= slot {
            self.opened.resize(slot + 1, false);
        }
        self.opened[slot] = true;
    }

    /// After an opening: copies whose joining or leaving was answered are members or not; of the
    /// others the engine says.
    pub(super) fn reconcile_copies(&mut self) -> Result<(), Violation> {
        self.reconcile_devices()?;
        if self.profile.mirrors.is_none() {
            return Ok(());
        }
        for member in self.slots.devices.iter_mut().flatten() {
            member.blameless = false;
        }
        for (device, place) in self.places().into_iter().rev() {
            let member = self.slots.devices[device][place];
            let known = self.state_of(member.uuid);
            match (member.state, known) {
                (State::Joining | State::Leaving, None) if self.slots.devices[device].len() > 1 => {
                    self.slots.devices[device].remove(place);
                }
                (State::Joining | State::Leaving, Some(_)) => {
                    self.slots.devices[device][place].stay();
                }
                (State::Sound | State::Spoilt | State::Failed, None)
                    if self.slots.devices[device].len() > 1 =>
                {
                    return violation(format!(
                        "the copy in slot {} of device {device} joined, and is forgotten",
                        member.slot
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Witness {
    fn save(&mut self, membership: &Membership) {
        let saved = self.saved.entry(membership.mirror).or_default();
        *saved = (*saved).max(membership.generation);
    }
}

/// The slots among these that are plugged in.
pub(super) fn slots_of(disks: &[SimDisk], opened: &[bool]) -> Vec<SlotSpec> {
    let open = disks.iter().enumerate().filter(|(slot, _)| opened.get(*slot) == Some(&true));
    open.map(|(slot, disk)| SlotSpec { slot: slot as u8, size_bytes: disk.size() }).collect()
}
