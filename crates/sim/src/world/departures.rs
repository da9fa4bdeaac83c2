//! Devices that leave the pool, and join it again: when, and what must be true of them.

use std::collections::BTreeSet;

use block::{BLOCK, DeviceOperation};
use store::{Change, DeviceSpec, EvacuationChange, MemberSpec};

use super::slots::{Member, State};
use super::{SUPERBLOCKS_END, World};
use crate::action::Action;
use crate::limits::SLOTS_MAX;
use crate::oracle::{Violation, violation};

/// Blocks of an allocation group, and of its head (docs/format.md).
const GROUP_BLOCKS: u64 = 32_768;
const GROUP_HEAD: u64 = 42;

/// Blocks for data and the map in so many blocks of groups.
fn capacity(blocks: u64) -> u64 {
    let (groups, rest) = (blocks / GROUP_BLOCKS, blocks % GROUP_BLOCKS);
    groups * (GROUP_BLOCKS - GROUP_HEAD) + rest.saturating_sub(GROUP_HEAD)
}

/// Where the labels of a device lie.
const LABELS: [u64; 2] = [1, 2];

/// Steps of a tenth of a second in which everything must have been moved from a device.
const STEPS_MAX: u64 = 3000;

/// Virtual time of such a step, in nanoseconds.
const STEP: u64 = 100_000_000;

/// What may be moved from a device that leaves.
#[derive(Debug)]
pub(super) struct ToMove {
    /// Bytes since it began.
    bytes: u64,
    /// Commands that were under way when it began, and still are: they may have blocks of it.
    before: BTreeSet<u64>,
}

impl World {
    /// Numbers of the devices that the engine knows.
    pub(super) fn known_devices(&self) -> Vec<usize> {
        self.store.mirrors().map(|mirror| mirror.device.into()).collect()
    }

    /// Bytes of the devices by their numbers; 0 where none is.
    pub(super) fn device_sizes(&self) -> Vec<u64> {
        let mut sizes = Vec::new();
        for mirror in self.store.mirrors() {
            sizes.resize(usize::from(mirror.device) + 1, 0);
            sizes[usize::from(mirror.device)] = mirror.size_bytes;
        }
        sizes
    }

    /// The number that the next device gets.
    pub(super) fn next_device(&self) -> usize {
        let sizes = self.device_sizes();
        sizes.iter().position(|size| *size == 0).unwrap_or(sizes.len())
    }

    /// Now and then a device begins to leave, or something else becomes of one that does.
    pub(super) fn depart(&mut self) {
        let Some(interval) = self.profile.departures else { return };
        if self.read_only || self.repeating || self.closing || !self.departs.one_in(interval) {
            return;
        }
        let change = match self.store.evacuation() {
            None => self.have_one_leave(),
            Some(status) if status.is_empty && self.departs.percent(80) => {
                Change::RemoveDevice { device: status.device }
            }
            Some(status) => match self.departs.below(20) {
                0 | 1 => Change::Evacuation(EvacuationChange::Pause),
                2 => Change::Evacuation(EvacuationChange::Cancel),
                3 => Change::RemoveDevice { device: status.device },
                4 => self.have_one_leave(),
                _ if status.paused => Change::Evacuation(EvacuationChange::Resume),
                _ => return,
            },
        };
        let is_under_way = self.in_flight.values().any(|flight| match &flight.action {
            Action::Change(under_way) => {
                std::mem::discriminant(under_way) == std::mem::discriminant(&change)
            }
            _ => false,
        });
        if !is_under_way {
            self.submit(Action::Change(change));
        }
    }

    fn have_one_leave(&mut self) -> Change {
        let devices = self.known_devices();
        let device = if self.departs.one_in(20) {
            self.departs.below(devices.len() as u64 + 2) as usize
        } else {
            devices[self.departs.below(devices.len() as u64) as usize]
        };
        Change::EvacuateDevice { device: device as u8 }
    }

    /// A disk for a device that joins where devices leave: one that has left before, or a new one.
    pub(super) fn attach_where_one_left(&mut self, spec: &mut DeviceSpec) {
        self.slots.keep(&self.known_devices());
        let device = self.next_device();
        let size_bytes = spec.size_bytes;
        let is_free =
            |slot: &usize| self.slots.device_of(*slot).is_none() && self.disks[*slot].is_idle();
        let free = (0..self.disks.len()).find(is_free);
        let slot = match free {
            Some(slot) if self.departs.percent(50) => {
                self.disks[slot].grow(size_bytes);
                slot
            }
            Some(slot) => {
                let random = self.departs.fork();
                self.disks[slot] = self.new_disk(size_bytes, random);
                slot
            }
            None if self.disks.len() < SLOTS_MAX => {
                let random = self.departs.fork();
                let disk = self.new_disk(size_bytes, random);
                self.disks.push(disk);
                self.disks.len() - 1
            }
            None => return,
        };
        self.open_slot(slot);
        *spec = DeviceSpec::plain(MemberSpec { uuid: spec.uuid, slot: slot as u8, size_bytes });
        self.slots.put(device, vec![Member::new(spec.uuid, slot, State::Sound)]);
    }

    /// The end of a change of a device that leaves.
    pub(super) fn hear_of_departure(&mut self, action: &Action, done: bool) {
        match action {
            Action::Change(Change::EvacuateDevice { .. }) if done => {
                self.figures.departures += 1;
                self.to_move = None;
            }
            // What was refused is none of the pool's.
            Action::Change(Change::AddDevice(_)) if !done && !self.is_read_only() => {
                let known = self.known_devices();
                self.slots.keep(&known);
            }
            Action::Change(Change::Evacuation(EvacuationChange::Cancel)) if done => {
                self.to_move = None;
            }
            Action::Change(Change::RemoveDevice { device }) if done => {
                self.to_move = None;
                self.figures.departed += 1;
                self.forget_device((*device).into());
            }
            _ => {}
        }
    }

    /// I34: a block is moved once, for all who refer to it. What is on the device, or is on its way from or
    /// to it, is the most that may be moved from now on; what was asked for later goes elsewhere.
    pub(super) fn check_moved_once(&mut self) -> Result<(), Violation> {
        let Some(status) = self.store.evacuation() else {
            self.to_move = None;
            return Ok(());
        };
        let to_move = self.to_move.get_or_insert_with(|| ToMove {
            bytes: u64::MAX,
            before: self.in_flight.keys().copied().collect(),
        });
        to_move.before.retain(|tag| self.in_flight.contains_key(tag));
        let arriving = to_move.before.iter().filter_map(|tag| self.in_flight.get(tag));
        let arriving: u64 = arriving.map(|flight| flight.action.new_bytes()).sum();
        let known = status.left_bytes + status.copied_bytes + status.copying_bytes + arriving;
        to_move.bytes = to_move.bytes.min(known);
        if status.copied_bytes <= to_move.bytes {
            return Ok(());
        }
        let most = to_move.bytes;
        violation(format!("of {most} bytes that were on a device more were moved: {status:?}"))
    }

    /// I35: all devices together are the pool, but for what a leaving one does not hold any more.
    pub(super) fn check_devices(&mut self) -> Result<(), Violation> {
        if self.profile.departures.is_none() {
            return Ok(());
        }
        let is_changing = |flight: &super::Flight| matches!(flight.action, Action::Change(_));
        if self.store.evacuation().is_some() || self.in_flight.values().any(is_changing) {
            return Ok(());
        }
        let sizes = self.device_sizes();
        let journal = (self.profile.journal_bytes / BLOCK).next_multiple_of(256);
        let capacities = sizes.iter().enumerate().map(|(device, size)| {
            let start = if device == 0 { 256 + journal } else { 256 };
            capacity((size / BLOCK).saturating_sub(start))
        });
        let (all, total) = (capacities.sum::<u64>() * BLOCK, self.store.space().total);
        if all == total {
            return Ok(());
        }
        violation(format!("devices of {sizes:?} bytes hold {all}, the pool has {total}"))
    }

    fn forget_device(&mut self, device: usize) {
        if let Some(members) = self.slots.devices.get_mut(device) {
            members.clear();
        }
        self.lists.remove(&device);
    }

    /// After an opening: a device is gone only if it was asked for.
    pub(super) fn reconcile_devices(&mut self) -> Result<(), Violation> {
        let known = self.known_devices();
        for device in 0..self.slots.devices.len() {
            if known.contains(&device) || self.slots.devices[device].is_empty() {
                continue;
            }
            let explains = |action: &Action| match action {
                Action::Change(Change::RemoveDevice { device: asked }) => {
                    usize::from(*asked) == device
                }
                Action::Change(Change::AddDevice(_)) => true,
                _ => false,
            };
            let was_asked = self.lost.iter().any(explains);
            if self.profile.departures.is_some() && !was_asked && self.profile.faults.is_none() {
                return violation(format!("device {device} is forgotten"));
            }
            self.forget_device(device);
        }
        self.slots.keep(&known);
        Ok(())
    }

    /// What a device has left nothing goes to; and labels are cleared only when the durable superblock
    /// does not name it any more.
    pub(super) fn check_departed(
        &self,
        slot: usize,
        operation: &DeviceOperation,
    ) -> Result<(), Violation> {
        if self.profile.departures.is_none() || self.making {
            return Ok(());
        }
        let device = self.slots.device_of(slot);
        let is_opening = self.store.health() == store::Health::Opening;
        match operation {
            DeviceOperation::Read { offset, .. }
                if device.is_none() && (!is_opening || *offset >= SUPERBLOCKS_END * BLOCK) =>
            {
                violation(format!("byte {offset} of slot {slot} is read, which is no device's"))
            }
            DeviceOperation::Write { offset, data } => {
                let is_label = LABELS.contains(&(offset / BLOCK));
                let is_cleared =
                    data.slice(0, BLOCK as usize).to_vec().iter().all(|byte| *byte == 0);
                let is_named = |device: usize| {
                    self.audit.as_ref().is_some_and(|audit| audit.has_device(device))
                };
                // A resilver copies what its source brings, and that may be another block (72008955).
                let may_misread = self.profile.faults.is_some() && self.profile.mirrors.is_some();
                if is_label && is_cleared && device.is_some_and(is_named) && !may_misread {
                    return violation(format!(
                        "the label in slot {slot} is cleared, and the durable superblock names it"
                    ));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What began to leave has left at the end, if there is room for what is on it; in some runs another
    /// device does.
    pub(super) fn end_departure(&mut self) -> Result<(), Violation> {
        if self.profile.departures.is_none() || self.departs.percent(30) {
            return Ok(());
        }
        let devices = self.known_devices();
        let device = devices[self.departs.below(devices.len() as u64) as usize];
        let may_leave = device > 0 && self.profile.faults.is_none();
        if self.store.evacuation().is_none() && may_leave {
            self.change(Change::EvacuateDevice { device: device as u8 })?;
        }
        if self.store.evacuation().is_none() {
            return Ok(());
        }
        self.change(Change::Evacuation(EvacuationChange::Resume))?;
        for _ in 0..STEPS_MAX {
            let Some(status) = self.store.evacuation() else { return Ok(()) };
            if status.is_empty {
                return self.change(Change::RemoveDevice { device: status.device });
            }
            self.now += STEP;
            self.store.tick(std::time::Duration::from_nanos(self.now));
            self.quiesce()?;
            self.check_moved_once()?;
        }
        let status = self.store.evacuation();
        let is_excused = status.is_none_or(|status| {
            status.waits_for_space || status.unreadable_blocks > 0 && self.profile.faults.is_some()
        });
        if is_excused || self.profile.refuse_one_in > 0 {
            return Ok(());
        }
        violation(format!("a device does not come to leave: {status:?}, {:?}", self.store.space()))
    }
}
