//! Slots of the simulated array: which disk holds which copy of which device of the pool.

use block::BLOCK;
use store::{DeviceSpec, MemberSpec, PoolSpec};

use super::POOL_UUID;
use crate::audit::Copies;
use crate::disk::SimDisk;
use crate::profile::Profile;
use crate::random::Random;

/// What the world did to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing: it holds whatever the engine left there.
    Sound,
    /// The disk fails, hangs or is not there.
    Failed,
    /// Some of its blocks are not what the engine wrote, or will not be.
    Spoilt,
    /// It was asked to join, and nobody was answered.
    Joining,
    /// It was asked to leave, and nobody was answered.
    Leaving,
}

/// One copy of a device of the pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) uuid: [u8; 16],
    pub(super) slot: usize,
    pub(super) state: State,
    /// It answered well and did nothing: no scrub reads all that it may lack.
    pub(super) lied: bool,
    /// It was current when last looked at, and nothing happened to it since.
    pub(super) blameless: bool,
    /// It was plugged in, and is pulled again after so many steps if it has not come back by then.
    pub(super) pulled_after: Option<u64>,
    /// What it is if it stays after all, while it is asked to leave: one that was spoilt still is.
    stays: State,
}

impl Member {
    /// A copy in a slot, to which nothing happened yet.
    pub(super) fn new(uuid: [u8; 16], slot: usize, state: State) -> Self {
        let (pulled_after, stays) = (None, State::Sound);
        Self { uuid, slot, state, lied: false, blameless: false, pulled_after, stays }
    }

    /// Whether what it holds cannot be relied on. While it is asked to leave others are still made from it
    /// (85002448).
    pub(super) fn is_spoilt(&self) -> bool {
        match self.state {
            State::Spoilt => true,
            State::Leaving => self.stays == State::Spoilt,
            State::Sound | State::Failed | State::Joining => false,
        }
    }

    /// It is asked to leave.
    pub(super) fn leave(&mut self) {
        self.stays = match self.state {
            State::Spoilt => State::Spoilt,
            State::Leaving => self.stays,
            State::Sound | State::Failed | State::Joining => State::Sound,
        };
        self.state = State::Leaving;
    }

    /// It has joined, or does not leave.
    pub(super) fn stay(&mut self) {
        self.state = match self.state {
            State::Leaving => self.stays,
            State::Spoilt => State::Spoilt,
            State::Sound | State::Failed | State::Joining => State::Sound,
        };
    }
}

/// The copies of each device of the pool, by the devices' numbers; none where no device is.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    pub(super) devices: Vec<Vec<Member>>,
    /// The slot of each device whose copy is audited.
    reference: Vec<usize>,
}

impl Slots {
    /// Takes up a device with these copies, as the one with this number.
    pub(super) fn put(&mut self, device: usize, members: Vec<Member>) {
        let devices = self.devices.len().max(device + 1);
        self.devices.resize(devices, Vec::new());
        self.reference.resize(devices.max(self.reference.len()), 0);
        self.reference[device] = members.first().map_or(0, |member| member.slot);
        self.devices[device] = members;
    }

    /// Takes up the next device with these copies.
    pub(super) fn push(&mut self, members: Vec<Member>) {
        self.put(self.devices.len(), members);
    }

    /// Forgets devices that did not join, or have left.
    pub(super) fn keep(&mut self, devices: &[usize]) {
        for (device, members) in self.devices.iter_mut().enumerate() {
            if !devices.contains(&device) {
                members.clear();
            }
        }
        // An older superblock may name a device that has left: its last copy is looked at (721022).
        while self.devices.pop_if(|members| members.is_empty()).is_some() {}
    }

    /// Slots with copies.
    pub(super) fn count(&self) -> usize {
        self.devices.iter().map(Vec::len).sum()
    }

    /// Which device of the pool a slot holds a copy of.
    pub(super) fn device_of(&self, slot: usize) -> Option<usize> {
        self.devices.iter().position(|members| members.iter().any(|member| member.slot == slot))
    }

    /// The slots of a device.
    pub(super) fn of(&self, device: usize) -> impl Iterator<Item = usize> {
        self.devices.get(device).into_iter().flatten().map(|member| member.slot)
    }

    /// The slot whose copy of a device is audited.
    pub(super) fn reference(&self, device: usize) -> usize {
        self.reference[device]
    }

    /// Audits another copy of a device from now on.
    pub(super) fn set_reference(&mut self, device: usize, slot: usize) {
        self.reference[device] = slot;
    }

    /// What is audited.
    pub(super) fn view<'a>(&'a self, disks: &'a [SimDisk]) -> Copies<'a> {
        Copies { disks, slots: &self.reference }
    }
}

/// The only copy of a plain device.
pub(super) fn plain(slot: usize) -> Member {
    Member::new(device_uuid(slot as u64), slot, State::Sound)
}

/// The disks that a run begins with.
pub(super) fn plug(
    profile: &Profile,
    random: &mut Random,
    chance: &mut Random,
) -> (Vec<SimDisk>, Slots) {
    let (mut disks, mut slots) = (Vec::new(), Slots::default());
    for (device, &size_bytes) in profile.devices.iter().enumerate() {
        let copies = profile.mirrors.as_ref().map_or(1, |mirrors| mirrors.copies_of(device));
        let mut members = Vec::new();
        for copy in 0..copies {
            let slot = disks.len();
            // Copies are as large as the first one, or larger.
            let (size, random) = match copy {
                0 => (size_bytes, random.fork()),
                _ => (size_bytes + chance.below(256) * BLOCK, chance.fork()),
            };
            let mut disk = SimDisk::new(size, random);
            disk.set_stalls(profile.stall_one_in);
            disks.push(disk);
            let uuid =
                if copies == 1 { device_uuid(device as u64) } else { copy_uuid(slot as u64) };
            members.push(Member::new(uuid, slot, State::Sound));
        }
        slots.push(members);
    }
    (disks, slots)
}

pub(super) fn pool_spec(slots: &Slots, disks: &[SimDisk]) -> PoolSpec {
    let devices = slots.devices.iter().enumerate();
    let devices = devices.map(|(device, members)| device_spec(device as u64, members, disks));
    PoolSpec { pool_uuid: POOL_UUID, devices: devices.collect() }
}

fn device_spec(number: u64, members: &[Member], disks: &[SimDisk]) -> DeviceSpec {
    let uuid = device_uuid(number);
    let size = |member: &Member| disks[member.slot].size();
    match members {
        [only] => {
            DeviceSpec::plain(MemberSpec { uuid, slot: only.slot as u8, size_bytes: size(only) })
        }
        all => {
            let member = |member: &Member| MemberSpec {
                uuid: member.uuid,
                slot: member.slot as u8,
                size_bytes: size(member),
            };
            DeviceSpec::mirror(uuid, all.iter().map(member).collect())
        }
    }
}

/// The name of a copy.
pub(super) fn copy_uuid(number: u64) -> [u8; 16] {
    let mut uuid = *b"a copy .........";
    uuid[8..].copy_from_slice(&number.to_le_bytes());
    uuid
}

/// The name of a device.
pub(crate) fn device_uuid(number: u64) -> [u8; 16] {
    let mut uuid = *b"simulated disk..";
    uuid[8..].copy_from_slice(&number.to_le_bytes());
    uuid
}
