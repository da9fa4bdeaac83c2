//! Members of mirrors that join, leave and are resilvered, as the engine asks for it.

use block::{DeviceOperation, Rope};

use super::{Consumer, IoId, IoQueue, Place, Waiter, extent};
use crate::address::{DeviceBlock, DeviceNumber, Run};
use crate::mirror::{Extent, Found, MemberNumber, MemberRefusal, Mirror, MirrorNumber, Piece};
use crate::options::MemberSpec;

/// A member of a mirror by its place there; see [`Mirror::members`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberPlace {
    pub(crate) device: DeviceNumber,
    pub(crate) place: MemberNumber,
}

impl IoQueue {
    fn mirror_number(&self, device: DeviceNumber) -> Option<MirrorNumber> {
        match self.place(device) {
            Place::Plain(_) | Place::Nothing => None,
            Place::Mirror(mirror) => Some(mirror),
        }
    }

    /// Whether a device of the pool lies in a slot, or a member.
    pub(crate) fn uses_slot(&self, slot: u8) -> bool {
        self.places.contains(&Place::Plain(slot)) || self.mirrors.uses_slot(slot)
    }

    /// A plain device is a mirror of one from now on. What was submitted to it before goes on as it
    /// was; nothing is copied until that has ended.
    pub(crate) fn become_mirror(&mut self, found: Found) {
        let device = found.device;
        let mirror = self.mirrors.add(found);
        self.places[device.index()] = Place::Mirror(mirror);
        let plain = |consumer: &Consumer| matches!(consumer, Consumer::Engine(..));
        let under_way = self.consumers.iter().filter(|(_, consumer)| plain(consumer));
        self.draining = under_way.map(|(id, _)| id as u64).collect();
        self.mirrors.set_draining(!self.draining.is_empty());
        self.collect();
    }

    /// An I/O has ended: perhaps the last one of the time before a device became a mirror.
    pub(super) fn drained(&mut self, id: IoId) {
        if self.draining.remove(&id.0) && self.draining.is_empty() {
            self.mirrors.set_draining(false);
        }
    }

    /// Takes up a device that is to join a mirror.
    pub(crate) fn admit(
        &mut self,
        device: DeviceNumber,
        spec: MemberSpec,
        device_bytes: u64,
    ) -> Result<MemberPlace, MemberRefusal> {
        let mirror = self.mirror_number(device).ok_or(MemberRefusal::State)?;
        let place = self.mirrors.admit(mirror, spec, device_bytes)?;
        Ok(MemberPlace { device, place })
    }

    /// Takes up a device that is to be a mirror's witness.
    pub(crate) fn admit_witness(
        &mut self,
        device: DeviceNumber,
        spec: MemberSpec,
    ) -> Result<MemberPlace, MemberRefusal> {
        let mirror = self.mirror_number(device).ok_or(MemberRefusal::TooMany)?;
        let place = self.mirrors.admit_witness(mirror, spec)?;
        Ok(MemberPlace { device, place })
    }

    /// Takes up the device of a member that was absent.
    pub(crate) fn readmit(
        &mut self,
        device: DeviceNumber,
        spec: MemberSpec,
        device_bytes: u64,
    ) -> Result<MemberPlace, MemberRefusal> {
        let mirror = self.mirror_number(device).ok_or(MemberRefusal::State)?;
        let place = self.mirrors.readmit(mirror, spec, device_bytes)?;
        Ok(MemberPlace { device, place })
    }

    /// All of a mirror is dirty.
    pub(crate) fn mark_all(&mut self, device: DeviceNumber) {
        if let Some(mirror) = self.mirror_number(device) {
            self.mirrors.mark_all(mirror);
        }
    }

    /// A device that was admitted joins, or comes back with a list of that generation.
    pub(crate) fn join(&mut self, member: MemberPlace, newest: u64) {
        if let Some(mirror) = self.mirror_number(member.device) {
            self.with_mirrors(|mirrors| mirrors.join(mirror, member.place, newest));
        }
    }

    /// A device that was admitted does not join.
    pub(crate) fn dismiss(&mut self, member: MemberPlace) {
        if let Some(mirror) = self.mirror_number(member.device) {
            self.with_mirrors(|mirrors| mirrors.dismiss(mirror, member.place));
        }
    }

    /// A member leaves its mirror.
    pub(crate) fn leave(&mut self, uuid: [u8; 16]) -> Result<MemberPlace, MemberRefusal> {
        let mirror = self.mirrors.of_member(uuid).ok_or(MemberRefusal::NoSuchMember)?;
        let device = self.mirrors.get(mirror).device();
        let place = self.with_mirrors(|mirrors| mirrors.leave(mirror, uuid))?;
        Ok(MemberPlace { device, place })
    }

    /// The mirror that has a member.
    pub(crate) fn mirror_of(&self, uuid: [u8; 16]) -> Option<&Mirror> {
        Some(self.mirrors.get(self.mirrors.of_member(uuid)?))
    }

    /// Resilvers rest, or go on, also after a restart.
    pub(crate) fn set_resilvers_paused(&mut self, is_paused: bool) {
        self.with_mirrors(|mirrors| {
            mirrors.set_paused(is_paused);
        });
    }

    /// The members of a mirror have grown.
    pub(crate) fn grow_mirror(&mut self, device: DeviceNumber, size_bytes: u64) {
        if let Some(mirror) = self.mirror_number(device) {
            self.with_mirrors(|mirrors| mirrors.grow(mirror, size_bytes));
        }
    }

    /// Reads, writes or flushes one member of a mirror alone.
    pub(crate) fn on_member(
        &mut self,
        waiter: Waiter,
        member: MemberPlace,
        operation: DeviceOperation,
    ) {
        if let Some(mirror) = self.mirror_number(member.device) {
            self.mirrored(waiter, |mirrors, token| {
                mirrors.direct(mirror, token, member.place, operation);
            });
        }
    }

    /// Writes blocks of one member of a mirror alone.
    pub(crate) fn write_on_member(
        &mut self,
        waiter: Waiter,
        member: MemberPlace,
        (block, data): (DeviceBlock, Rope),
    ) {
        self.on_member(waiter, member, DeviceOperation::Write { offset: block.offset(), data });
    }

    /// Blocks that members which are not current may lack.
    pub(crate) fn may_lack(&mut self, run: Run) {
        if let Some(mirror) = self.mirror_number(run.start.device()) {
            self.mirrors.may_lack(mirror, extent(run));
        }
    }

    /// Takes resilvers as far as they may go.
    pub(crate) fn advance_resilvers(&mut self) {
        self.with_mirrors(crate::mirror::Mirrors::advance_rebuilds);
    }

    /// Blocks of which a resilver of one of these devices must know which are in use.
    pub(crate) fn resilver_wants(
        &mut self,
        is_asked: impl Fn(DeviceNumber) -> bool,
    ) -> Option<(DeviceNumber, Extent)> {
        let resilvers = self.mirrors.resilvers();
        let wanted: Vec<_> =
            resilvers.filter_map(|(mirror, resilver)| Some((mirror, resilver.wanted()?))).collect();
        let mut wanted =
            wanted.into_iter().map(|(mirror, extent)| (self.mirrors.get(mirror).device(), extent));
        wanted.find(|(device, _)| is_asked(*device))
    }

    /// Tells the resilver of a device which of the blocks that it wanted to know are in use.
    pub(crate) fn resilver_uses(&mut self, device: DeviceNumber, pieces: Vec<Piece>) {
        let Some(of_device) = self.mirror_number(device) else { return };
        let mut resilvers = self.mirrors.resilvers();
        if let Some((_, resilver)) = resilvers.find(|(mirror, _)| *mirror == of_device) {
            resilver.used(pieces);
        }
    }

    /// Whether a resilver does not know how much it has to do.
    pub(crate) fn wants_estimates(&mut self) -> bool {
        self.mirrors.resilvers().any(|(_, resilver)| !resilver.is_estimated())
    }

    /// Resilvers that do not know how much they have to do add it up.
    pub(crate) fn estimate_resilvers(&mut self, used: impl Fn(DeviceNumber, Extent) -> u64) {
        let devices: Vec<_> = self.mirrors.iter().map(Mirror::device).collect();
        for (mirror, resilver) in self.mirrors.resilvers() {
            resilver.estimate(|extent| used(devices[mirror.index()], extent));
        }
    }
}
