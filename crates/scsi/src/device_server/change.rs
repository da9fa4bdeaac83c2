//! Applies changes of a unit's state: makes them durable where they must be, makes them, and only
//! then answers.

use block::{Rope, VolumeId};

use super::management::{Answer, Ender};
use super::{Delivery, DeviceServer, TaskState};
use crate::change::Change;
use crate::completion::Completion;
use crate::durable::{DurableState, SaveId};
use crate::persistent::{PersistentReservations, Registrant};
use crate::sense::{self, Sense, SenseCode};
use crate::task_set::Slot;

/// A change whose unit's state is being stored.
pub(super) struct Saving {
    pub(super) change: Box<Change>,
    /// Set if the task was aborted meanwhile: the change is made all the same.
    pub(super) aborted: Option<Delivery>,
}

impl Saving {
    /// The task is not to be answered; who lost its nexus is not told either.
    pub(super) fn abort(&mut self, delivery: Delivery) {
        if self.aborted.is_none() || delivery == Delivery::Nobody {
            self.aborted = Some(delivery);
        }
    }
}

impl DeviceServer {
    /// The next state of a logical unit that is to be stored in place of the one before, to be
    /// answered by [`Self::saved`] when it is on stable storage. Until then the command that asked
    /// for it is not answered, and has no effect.
    pub fn next_save(&mut self) -> Option<(SaveId, VolumeId, DurableState)> {
        self.saves.pop_front()
    }

    /// Takes the owner's word that a state is on stable storage, or that it may not be.
    ///
    /// # Panics
    /// If the state is not being stored.
    pub fn saved(&mut self, id: SaveId, stored: bool) {
        let slot = self.saving.remove(&id).expect("the state is being stored");
        let state = std::mem::replace(&mut self.tasks[slot].state, TaskState::Dormant);
        let TaskState::Saving(saving) = state else {
            unreachable!("only a task that waits for a state to be stored is in this table")
        };
        let volume = self.tasks[slot].volume;
        match (stored, saving.aborted) {
            (true, aborted) => self.make(slot, *saving.change, aborted),
            (false, aborted) => self.give_up(slot, aborted),
        }
        self.start_waiting(volume);
    }

    /// Takes back what was stored for a unit, before any nexus uses it.
    pub fn restore_unit(&mut self, id: VolumeId, state: DurableState) {
        let Some(unit) = self.units.get_mut(&id) else { return };
        if let Some(modes) = &state.modes {
            unit.modes = modes.clone();
            unit.saved_modes = Some(modes.clone());
        }
        if let Some(reservations) = state.reservations.clone() {
            unit.persistent = PersistentReservations::restore(reservations);
        }
        unit.durable = Some(state);
    }

    /// Takes over what another controller stored for a unit, in place of all that is known here.
    pub fn replace_unit_state(&mut self, id: VolumeId, state: DurableState) {
        if let Some(unit) = self.units.get_mut(&id) {
            unit.forget_state();
            self.restore_unit(id, state);
        }
    }

    /// A task asks for a change.
    pub(super) fn begin_change(&mut self, slot: Slot, change: Box<Change>) {
        let volume = self.tasks[slot].volume;
        let Some(unit) = self.units.get_mut(&volume) else {
            return self.end(slot, Sense::from(sense::LOGICAL_UNIT_NOT_SUPPORTED).into());
        };
        let durable = unit.durable_after(&change);
        if unit.durable.as_ref() == Some(&durable) {
            return self.make(slot, *change, None);
        }
        unit.durable = None;
        self.last_save += 1;
        let id = SaveId(self.last_save);
        self.saving.insert(id, slot);
        self.tasks[slot].state = TaskState::Saving(Saving { change, aborted: None });
        self.saves.push_back((id, volume, durable));
    }

    /// Makes a change that is durable as far as it must be.
    fn make(&mut self, slot: Slot, change: Change, aborted: Option<Delivery>) {
        let task = &self.tasks[slot];
        let (volume, nexus, epoch) = (task.volume, task.order.decoded.nexus, task.epoch);
        if let Some(unit) = self.units.get_mut(&volume).filter(|unit| unit.epoch == epoch) {
            unit.change(&change);
            for (registrant, condition) in change.told {
                self.tell_registrant(volume, &registrant, condition);
            }
            if let Some(condition) = change.told_to_others {
                self.establish_for_others(volume, nexus, condition);
            }
        }
        match aborted {
            Some(delivery) => self.end_aborted(slot, delivery),
            None => self.answer_after_aborts(slot, &change.aborted),
        }
    }

    fn give_up(&mut self, slot: Slot, aborted: Option<Delivery>) {
        match aborted {
            Some(delivery) => self.end_aborted(slot, delivery),
            None => self.end(slot, Sense::from(sense::INTERNAL_TARGET_FAILURE).into()),
        }
    }

    /// SPC-4 5.12.11.2.6: aborts the tasks of these registrants, then answers.
    fn answer_after_aborts(&mut self, slot: Slot, registrants: &[Registrant]) {
        if registrants.is_empty() {
            return self.end_good(slot);
        }
        let (volume, nexus) = (self.tasks[slot].volume, self.tasks[slot].order.decoded.nexus);
        let is_victim = |nexus: &super::NexusId| {
            self.nexuses.get(nexus).is_some_and(|nexus| registrants.contains(nexus.registrant()))
        };
        let victims = self.tasks.iter().filter(|(other, task)| {
            *other != slot && task.volume == volume && is_victim(&task.order.decoded.nexus)
        });
        let victims: Vec<_> = victims.map(|(slot, _)| slot).collect();
        self.end_each(Answer::Task(slot), Ender::Nexus(nexus), &victims);
    }

    /// All that the task was to do is done.
    pub(super) fn end_good(&mut self, slot: Slot) {
        let volume = self.tasks[slot].volume;
        self.end(slot, Completion::good(Rope::new()));
        self.start_waiting(volume);
    }

    fn tell_registrant(&mut self, volume: VolumeId, who: &Registrant, condition: SenseCode) {
        for nexus in self.nexuses.values_mut().filter(|nexus| nexus.registrant() == who) {
            nexus.establish(volume, condition);
        }
    }
}
