//! Members of a pool's mirrors in the daemon: opening those that answer, letting go of those that are
//! lost, and what changed since they were last looked at.

use std::collections::BTreeSet;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use array::{Pool as PoolConfiguration, PoolDevice};
use block::DeviceName;
use device::{Breaking, Device, OpenError};
use store::{MemberState, MemberStatus, MirrorStatus, Tag};

use super::{OpenDevice, Pool, Slots, method};
use crate::limits::MEMBER_PATIENCE;
use crate::options::IoMethod;

/// Configured devices that could not be opened, by their place.
pub(crate) type Absent = Vec<(usize, OpenError)>;

/// A member as it was last looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenMember {
    pub(crate) uuid: [u8; 16],
    pub(crate) state: MemberState,
    pub(crate) since: u64,
}

/// Something that became known of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberNews {
    /// The mirror, by its number.
    pub(crate) mirror: u8,
    pub(crate) member: [u8; 16],
    pub(crate) state: MemberState,
    /// Whether it was left out because it answered many reads with errors.
    pub(crate) is_unreliable: bool,
    /// Whether all members of the mirror are current.
    pub(crate) is_whole: bool,
}

/// Opens the configured devices. Where mirrors are known, all at once: one that does not answer in
/// time is absent, and closed again when it does.
pub(super) fn open_devices(
    configuration: &PoolConfiguration,
    io: IoMethod,
    breaking: &Breaking,
) -> (Slots, Absent) {
    let mut slots = Slots::default();
    let mut absent = Vec::new();
    if configuration.mirroring.members.is_empty() {
        for (place, configured) in configuration.devices.iter().enumerate() {
            take(&mut slots, &mut absent, place, configured, open(configured, io, breaking));
        }
        return (slots, absent);
    }
    let (sender, opened) = channel();
    for (place, configured) in configuration.devices.iter().cloned().enumerate() {
        // One try of a device at a time: the next look does not wait for one that hangs.
        let Some(begun) = Begun::of(&configured.device) else { continue };
        let (sender, breaking) = (sender.clone(), breaking.clone());
        let thread = std::thread::Builder::new().name("opening".to_owned());
        // Whoever is not waited for any more is closed with the message.
        let started = thread.spawn(move || {
            let opened = open(&configured, io, &breaking);
            drop(begun);
            drop(sender.send((place, opened)));
        });
        if let Err(error) = started {
            tracing::error!(%error, "no thread can be started");
        }
    }
    drop(sender);
    let deadline = Instant::now() + MEMBER_PATIENCE;
    let mut silent: Vec<usize> = (0..configuration.devices.len()).collect();
    while !silent.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        match opened.recv_timeout(left) {
            Ok((place, result)) => {
                silent.retain(|&other| other != place);
                take(&mut slots, &mut absent, place, &configuration.devices[place], result);
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    for place in silent {
        absent.push((place, not_in_time(&configuration.devices[place])));
    }
    (slots, absent)
}

/// Devices that threads are opening. A device that hangs keeps its thread.
static BEGUN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// A device is being opened.
struct Begun(String);

impl Begun {
    /// `None` if a try before this one has not ended.
    fn of(device: &DeviceName) -> Option<Self> {
        let name = device.to_string();
        let is_new = BEGUN.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone());
        is_new.then_some(Self(name))
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        BEGUN.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

fn open(configured: &PoolDevice, io: IoMethod, breaking: &Breaking) -> Result<Device, OpenError> {
    let (name, size_bytes) = (&configured.device, configured.size_bytes);
    Device::open_breaking(name, size_bytes, method(io), breaking)
}

fn take(
    slots: &mut Slots,
    absent: &mut Absent,
    place: usize,
    configured: &PoolDevice,
    result: Result<Device, OpenError>,
) {
    match result {
        Ok(device) => {
            slots.insert(place as u8, OpenDevice::new(configured.device.clone(), device));
        }
        Err(error) => absent.push((place, error)),
    }
}

fn not_in_time(configured: &PoolDevice) -> OpenError {
    OpenError::Os {
        path: configured.device.path().to_owned(),
        what: "open it in time",
        source: std::io::ErrorKind::TimedOut.into(),
    }
}

impl Pool {
    /// Its mirrors; none for plain devices.
    pub(crate) fn mirrors(&self) -> impl Iterator<Item = MirrorStatus> {
        self.store.mirrors().filter(|mirror| mirror.is_mirror)
    }

    /// Whether it is the witness of a mirror.
    pub(crate) fn is_witness(&self, member: [u8; 16]) -> bool {
        let mut members = self.mirrors().flat_map(|mirror| mirror.members);
        members.any(|found| found.uuid == member && found.state.is_witness())
    }

    /// The identifiers of its mirrors.
    pub(crate) fn mirror_names(&self) -> Vec<[u8; 16]> {
        self.mirrors().map(|mirror| mirror.uuid).collect()
    }

    /// Gives up the devices of members that the engine left out, and takes those out of their slots of
    /// which nothing is under way any more; whoever gets them closes them.
    pub(crate) fn release_lost(&mut self) -> Vec<OpenDevice> {
        let members: Vec<_> = self.mirrors().flat_map(|mirror| mirror.members).collect();
        let is_lost = |member: &&MemberStatus| member.state.is_away() && !member.is_returning;
        for member in members.iter().filter(is_lost) {
            if let Some(slot) = member.slot {
                self.lose(slot);
            }
        }
        let lost = self.devices.iter().filter(|(_, open)| open.is_lost).map(|(slot, _)| slot);
        let idle: Vec<u8> = lost.filter(|&slot| self.store.slot_is_idle(slot)).collect();
        idle.into_iter().filter_map(|slot| self.devices.remove(slot)).collect()
    }

    /// Gives up the device in a slot: the engine fails what is under way, and uses it no more.
    pub(super) fn lose(&mut self, slot: u8) {
        self.store.lose(slot);
        if let Some(open) = self.devices.get_mut(usize::from(slot)) {
            open.is_lost = true;
        }
    }

    /// What became known of members since this was last asked.
    pub(crate) fn member_news(&mut self) -> Vec<MemberNews> {
        let mut news = Vec::new();
        let mut seen = Vec::new();
        for mirror in self.mirrors() {
            let is_whole = !mirror.is_degraded();
            for member in &mirror.members {
                let (uuid, state, since) = (member.uuid, member.state, member.since);
                let now = SeenMember { uuid, state, since };
                let before = self.seen_members.iter().find(|before| before.uuid == uuid);
                let is_news = match before {
                    Some(before) => before.state != state || before.since != since,
                    None => state != MemberState::Current,
                };
                if is_news {
                    let is_unreliable = member.is_unreliable;
                    let (mirror, member) = (mirror.device, uuid);
                    news.push(MemberNews { mirror, member, state, is_unreliable, is_whole });
                }
                seen.push(now);
            }
        }
        self.seen_members = seen;
        news
    }

    /// The place of the device in a slot among those that are configured, in a pool of plain devices.
    pub(crate) fn place_of_slot(&self, slot: u8) -> Option<usize> {
        let mut there = self.devices.iter().filter(|(_, open)| !open.is_lost);
        there.position(|(other, _)| other == slot)
    }

    /// The open devices of a plain device or mirror, by its number, that hold its blocks.
    pub(crate) fn open_devices_of(&self, device: usize) -> impl Iterator<Item = (u8, &OpenDevice)> {
        let mut mirrors = self.store.mirrors();
        let status = mirrors.find(|status| usize::from(status.device) == device);
        let copies = status.iter().flat_map(MirrorStatus::copies);
        let slots: Vec<u8> = copies.filter_map(|member| member.slot).collect();
        let slots = slots.into_iter();
        slots.filter_map(|slot| Some((slot, self.devices.get(usize::from(slot))?)))
    }

    /// Puts devices that are to join into free slots; where each is, and its size. Fewer are told than
    /// were given if there are not enough slots.
    pub(crate) fn take_in(&mut self, opened: Vec<OpenDevice>) -> Vec<(u8, u64)> {
        let mut places = Vec::new();
        for open in opened {
            let size_bytes = open.device.size_bytes();
            places.extend(self.devices.add(open).map(|slot| (slot, size_bytes)));
        }
        places
    }

    /// Where open devices of these names are that nothing uses, and their sizes.
    pub(crate) fn unused_places<'a>(
        &self,
        names: impl Iterator<Item = &'a DeviceName>,
    ) -> Vec<(u8, u64)> {
        let mut unused = self.unused();
        let place = |name: &DeviceName| {
            let of_name = |slot: &u8| self.devices.get((*slot).into()).map(|open| &open.name);
            let at = unused.iter().position(|slot| of_name(slot) == Some(name))?;
            let slot = unused.remove(at);
            Some((slot, self.devices.get(slot.into())?.device.size_bytes()))
        };
        names.filter_map(place).collect()
    }

    /// Slots with open devices in which no device of the pool is.
    fn unused(&self) -> Vec<u8> {
        let used: Vec<u8> = self
            .store
            .mirrors()
            .flat_map(|mirror| mirror.members)
            .filter_map(|member| member.slot)
            .collect();
        let there =
            self.devices.iter().filter(|(slot, open)| !open.is_lost && !used.contains(slot));
        there.map(|(slot, _)| slot).collect()
    }

    /// Devices of these names that nothing uses are closed when nothing of them is under way.
    pub(crate) fn give_up_unused(&mut self, names: &[DeviceName]) {
        for slot in self.unused() {
            let open = self.devices.get_mut(slot.into());
            let open = open.filter(|open| names.contains(&open.name));
            open.into_iter().for_each(|open| open.is_lost = true);
        }
    }

    /// Begins to let a mirror of devices that are in their slots join it. `tag` is done when it has.
    pub(crate) fn join_mirror(&mut self, change: store::Change, tag: Tag) {
        self.joining = true;
        self.store.set_extending(true);
        self.store.change(tag, change);
    }

    /// The open device of a member.
    pub(crate) fn member_device(&self, member: [u8; 16]) -> Option<&OpenDevice> {
        let mut members = self.mirrors().flat_map(|mirror| mirror.members);
        let slot = members.find(|status| status.uuid == member)?.slot?;
        self.devices.get(usize::from(slot))
    }
}
