//! Slots of a pool: its open devices under the numbers by which the engine names them.
//!
//! At the opening a device has the number of its place in the configuration. One that is lost leaves
//! its slot when nothing of it is under way any more; another one may take it then.

use std::sync::atomic::{AtomicU64, Ordering};

use block::DeviceName;
use control::take_over::Pulse;
use device::{Device, Presence};
use store::SlotSpec;

use crate::limits::SLOTS_MAX;

/// Counts openings of devices.
static SERIALS: AtomicU64 = AtomicU64::new(0);

/// An open device.
pub(crate) struct OpenDevice {
    pub(crate) name: DeviceName,
    pub(crate) device: Device,
    /// Which opening of a device this is, in the life of the daemon.
    pub(crate) serial: u64,
    /// The engine was told that it is lost; it goes when nothing of it is under way.
    pub(crate) is_lost: bool,
    /// The owner's heartbeat in it.
    pub(super) pulse: Pulse,
    /// What was last told of its file.
    pub(crate) told: Presence,
}

/// The open devices of a pool.
#[derive(Default)]
pub(crate) struct Slots {
    slots: Vec<Option<OpenDevice>>,
}

impl OpenDevice {
    pub(crate) fn new(name: DeviceName, device: Device) -> Self {
        let serial = SERIALS.fetch_add(1, Ordering::Relaxed);
        Self {
            name,
            device,
            serial,
            is_lost: false,
            pulse: Pulse::default(),
            told: Presence::There,
        }
    }
}

impl Slots {
    /// Puts a device into a slot.
    pub(crate) fn insert(&mut self, slot: u8, device: OpenDevice) {
        let slot = usize::from(slot);
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        self.slots[slot] = Some(device);
    }

    /// Puts a device into the first slot that is free; `None` if there is none.
    pub(crate) fn add(&mut self, device: OpenDevice) -> Option<u8> {
        let free = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        let slot = u8::try_from(free).ok().filter(|&slot| slot < SLOTS_MAX)?;
        self.insert(slot, device);
        Some(slot)
    }

    /// Puts a device behind all others.
    pub(crate) fn push(&mut self, device: OpenDevice) {
        self.slots.push(Some(device));
    }

    pub(crate) fn get(&self, slot: usize) -> Option<&OpenDevice> {
        self.slots.get(slot)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: usize) -> Option<&mut OpenDevice> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// Takes a device out of its slot.
    pub(crate) fn remove(&mut self, slot: u8) -> Option<OpenDevice> {
        self.slots.get_mut(usize::from(slot))?.take()
    }

    /// The slot behind all others.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Open devices with their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u8, &OpenDevice)> {
        (0..).zip(&self.slots).filter_map(|(slot, device)| Some((slot, device.as_ref()?)))
    }

    /// The same, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u8, &mut OpenDevice)> {
        (0..).zip(&mut self.slots).filter_map(|(slot, device)| Some((slot, device.as_mut()?)))
    }

    /// What the engine is told of them when it opens the pool.
    pub(crate) fn specs(&self) -> Vec<SlotSpec> {
        let there = self.iter().filter(|(_, open)| !open.is_lost);
        there.map(|(slot, open)| SlotSpec { slot, size_bytes: open.device.size_bytes() }).collect()
    }
}
