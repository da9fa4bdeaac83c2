//! Members that join a mirror, come back to it, or leave it.
//!
//! A device that is to join is a *candidate* first: it takes its labels and counts for nothing. That
//! all of it is dirty is durable on the other members before the list names it; from the moment that
//! it is named in memory it takes every write. So a crash finds a list without it, or a list that
//! calls it resilvering and a bitmap that says what it lacks.

use super::extent::Extent;
use super::member::{Member, MemberNumber, MemberRefusal, MemberSet, MirrorNumber};
use super::port::Port;
use super::status::MemberState;
use super::{Mirror, Mirrors};
use crate::limits::{MIRROR_MEMBERS_WHILE_REPLACING_MAX, MIRROR_PLACES_MAX};
use crate::options::MemberSpec;

impl Mirrors {
    /// Takes up a device that is to join; returns its place. It counts for nothing yet.
    pub(crate) fn admit(
        &mut self,
        mirror: MirrorNumber,
        spec: MemberSpec,
        device_bytes: u64,
    ) -> Result<MemberNumber, MemberRefusal> {
        self.check_slot(spec.slot)?;
        self.mirrors[mirror].admit(spec, device_bytes)
    }

    /// Takes up a device that is to be a mirror's witness; returns its place. It counts for nothing yet.
    pub(crate) fn admit_witness(
        &mut self,
        mirror: MirrorNumber,
        spec: MemberSpec,
    ) -> Result<MemberNumber, MemberRefusal> {
        self.check_slot(spec.slot)?;
        self.mirrors[mirror].admit_witness(spec)
    }

    /// Takes up the device of a member that was absent, in a slot that nothing else uses; returns its
    /// place. It counts for nothing yet.
    pub(crate) fn readmit(
        &mut self,
        mirror: MirrorNumber,
        spec: MemberSpec,
        device_bytes: u64,
    ) -> Result<MemberNumber, MemberRefusal> {
        let place = self.mirrors[mirror].place_of(spec.uuid);
        let known = place.map(|place| &self.mirrors[mirror].members[place]);
        if known.is_none_or(|member| member.slot != Some(spec.slot)) {
            self.check_slot(spec.slot)?;
        }
        self.mirrors[mirror].readmit(spec, device_bytes)
    }

    /// Whether a member lies in a slot, or one that left has I/O under way there.
    pub(crate) fn uses_slot(&self, slot: u8) -> bool {
        let members = self.mirrors.iter().flat_map(|mirror| &mirror.members);
        let mut of_slot = members.filter(|member| member.slot == Some(slot));
        of_slot.any(|member| member.is_listed || member.pending > 0)
    }

    fn check_slot(&self, slot: u8) -> Result<(), MemberRefusal> {
        if self.uses_slot(slot) { Err(MemberRefusal::Taken) } else { Ok(()) }
    }

    /// All of a mirror is dirty, for a member that has nothing of it.
    pub(crate) fn mark_all(&mut self, mirror: MirrorNumber) {
        let dirty = &mut self.mirrors[mirror].dirty;
        dirty.is_reserved = true;
        dirty.regions.mark_all();
    }

    /// A device that was admitted joins, or comes back: it takes every write from now on, and a list
    /// that says so is on its way: newer than any that it brings.
    pub(crate) fn join(&mut self, mirror: MirrorNumber, place: MemberNumber, newest: u64) {
        let Self { mirrors, port } = self;
        if mirrors[mirror].members[place].state.is_witness() {
            return mirrors[mirror].join_witness(port, place, newest);
        }
        mirrors[mirror].join(port, place, newest);
    }

    /// A device that was admitted does not join.
    pub(crate) fn dismiss(&mut self, mirror: MirrorNumber, place: MemberNumber) {
        let Self { mirrors, port } = self;
        mirrors[mirror].dismiss(port, place);
    }

    /// A member leaves; a list without it is on its way. Returns its place.
    pub(crate) fn leave(
        &mut self,
        mirror: MirrorNumber,
        uuid: [u8; 16],
    ) -> Result<MemberNumber, MemberRefusal> {
        let Self { mirrors, port } = self;
        mirrors[mirror].leave(port, uuid)
    }

    /// A member is going to leave: until then others are filled from it only if there is no other.
    pub(crate) fn going_to_leave(&mut self, uuid: [u8; 16]) {
        if let Some(mirror) = self.of_member(uuid) {
            self.mirrors[mirror].read_last(uuid);
        }
    }

    /// All resilvers rest, or go on; lists that say so are on their way.
    pub(crate) fn set_paused(&mut self, is_paused: bool) {
        let Self { mirrors, port } = self;
        mirrors.iter_mut().for_each(|mirror| mirror.set_paused(port, is_paused));
    }

    /// The members of a mirror are larger now.
    pub(crate) fn grow(&mut self, mirror: MirrorNumber, size_bytes: u64) {
        let Self { mirrors, port } = self;
        mirrors[mirror].grow(port, size_bytes);
    }

    /// Blocks that members which are not current may lack.
    pub(crate) fn may_lack(&mut self, mirror: MirrorNumber, extent: Extent) {
        self.mirrors[mirror].may_lack(extent);
    }

    /// All mirrors.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Mirror> {
        self.mirrors.iter()
    }

    /// The place of the mirror that has a member.
    pub(crate) fn of_member(&self, uuid: [u8; 16]) -> Option<MirrorNumber> {
        let has = |mirror: &Mirror| mirror.place_of(uuid).is_some();
        self.mirrors.iter().find(|mirror| has(mirror)).map(|mirror| mirror.number)
    }

    /// Takes all resilvers as far as they may go.
    pub(crate) fn advance_rebuilds(&mut self) {
        let Self { mirrors, port } = self;
        if port.writable {
            mirrors.iter_mut().for_each(|mirror| mirror.advance_rebuild(port));
        }
    }

    /// Writes of the time before a device became a mirror are under way, or have ended: nothing is
    /// copied meanwhile.
    pub(crate) fn set_draining(&mut self, is_draining: bool) {
        self.mirrors.iter_mut().for_each(|mirror| mirror.is_draining = is_draining);
    }

    /// Bytes per second that resilvers copy at most.
    pub(crate) fn set_resilver_rate(&mut self, rate: u64) {
        self.port.resilver_rate = rate;
        let rebuilds = self.mirrors.iter_mut().filter_map(|mirror| mirror.rebuild.as_mut());
        rebuilds.for_each(|rebuild| rebuild.resilver.set_rate(rate));
    }

    /// Each resilver, with the place of its mirror.
    pub(crate) fn resilvers(
        &mut self,
    ) -> impl Iterator<Item = (MirrorNumber, &mut super::Resilver)> {
        self.mirrors
            .iter_mut()
            .filter_map(|mirror| Some((mirror.number, &mut mirror.rebuild.as_mut()?.resilver)))
    }
}

impl Mirror {
    /// The place of a member by its name.
    pub(crate) fn place_of(&self, uuid: [u8; 16]) -> Option<MemberNumber> {
        self.member_where(|member| member.is_listed && member.uuid == uuid)
    }

    fn admit(
        &mut self,
        spec: MemberSpec,
        device_bytes: u64,
    ) -> Result<MemberNumber, MemberRefusal> {
        if spec.size_bytes < device_bytes {
            return Err(MemberRefusal::TooSmall);
        }
        self.forget_left();
        let copies = self.members.iter().filter(|member| member.holds_copy()).count();
        if copies >= MIRROR_MEMBERS_WHILE_REPLACING_MAX {
            return Err(MemberRefusal::TooMany);
        }
        self.add_candidate(spec, MemberState::Absent)
    }

    fn admit_witness(&mut self, spec: MemberSpec) -> Result<MemberNumber, MemberRefusal> {
        self.forget_left();
        if self.members.iter().any(|member| member.is_listed && member.state.is_witness()) {
            return Err(MemberRefusal::TooMany);
        }
        self.add_candidate(spec, MemberState::WitnessAbsent)
    }

    fn add_candidate(
        &mut self,
        spec: MemberSpec,
        state: MemberState,
    ) -> Result<MemberNumber, MemberRefusal> {
        if self.members.iter().any(|member| member.is_listed && member.uuid == spec.uuid) {
            return Err(MemberRefusal::Taken);
        }
        if self.members.len() >= MIRROR_PLACES_MAX {
            return Err(MemberRefusal::TooMany);
        }
        let member = Member {
            state,
            is_listed: false,
            admitted_bytes: Some(spec.size_bytes),
            slot: Some(spec.slot),
            size_bytes: spec.size_bytes,
            ..Member::named(spec.uuid)
        };
        self.members.push(member);
        Ok(MemberNumber::new(self.members.len() - 1))
    }

    /// Gives back the last places of those that left, if nothing names them any more.
    fn forget_left(&mut self) {
        for member in &mut self.members {
            if !member.is_listed && member.pending == 0 {
                member.slot = None;
            }
        }
        while self.fans.is_empty()
            && self.reads.is_empty()
            && self.change.is_none()
            && self.members.last().is_some_and(|last| !last.is_listed && last.pending == 0)
        {
            self.members.pop();
        }
    }

    fn readmit(
        &mut self,
        spec: MemberSpec,
        device_bytes: u64,
    ) -> Result<MemberNumber, MemberRefusal> {
        let place = self.place_of(spec.uuid).ok_or(MemberRefusal::NoSuchMember)?;
        let member = &mut self.members[place];
        if !member.state.is_away() {
            return Err(MemberRefusal::State);
        }
        if member.pending > 0 || member.admitted_bytes.is_some() {
            return Err(MemberRefusal::Busy);
        }
        if spec.size_bytes < device_bytes && !member.state.is_witness() {
            return Err(MemberRefusal::TooSmall);
        }
        member.slot = Some(spec.slot);
        member.admitted_bytes = Some(spec.size_bytes);
        Ok(place)
    }

    fn join(&mut self, port: &mut Port, place: MemberNumber, newest: u64) {
        self.step = self.step.max((newest + 1).saturating_sub(self.list.generation));
        let member = &mut self.members[place];
        member.state = MemberState::Resilvering;
        member.takes_part();
        (member.failed_reads, member.is_unreliable) = (0, false);
        self.dirty.is_reserved = false;
        self.fit_regions();
        // The bitmap must lie on the new member, too, by the time that it is current.
        self.dirty.regions.rewrite();
        self.propose(port);
    }

    fn dismiss(&mut self, port: &mut Port, place: MemberNumber) {
        self.orphan(port, place);
        self.members[place].admitted_bytes = None;
        if self.members[place].is_listed {
            self.members[place].slot = None;
        }
        self.dirty.is_reserved = false;
        self.clear_if_whole();
    }

    fn leave(&mut self, port: &mut Port, uuid: [u8; 16]) -> Result<MemberNumber, MemberRefusal> {
        let place = self.place_of(uuid).ok_or(MemberRefusal::NoSuchMember)?;
        let others = self.readable().iter().filter(|other| *other != place).count();
        if others == 0 {
            return Err(MemberRefusal::LastCurrent);
        }
        // A list that could not take effect would never be written.
        let left = self.written_to().without(MemberSet::of(place));
        let is_witness = self.members[place].state.is_witness();
        let has_witness = !is_witness && self.witness_there().is_some();
        if !has_witness && self.has_rivals_besides(left) {
            return Err(MemberRefusal::Busy);
        }
        self.members[place].state =
            if is_witness { MemberState::WitnessAbsent } else { MemberState::Absent };
        self.members[place].is_listed = false;
        self.end_rebuild(port, place);
        self.orphan(port, place);
        self.clear_if_whole();
        self.propose(port);
        self.settle_bitmaps(port);
        self.settle_fans(port);
        Ok(place)
    }

    fn set_paused(&mut self, port: &mut Port, is_paused: bool) {
        self.is_paused = is_paused;
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.resilver.set_paused(is_paused);
        }
        self.propose(port);
    }

    fn grow(&mut self, port: &mut Port, size_bytes: u64) {
        let is_copy = |member: &&mut Member| member.slot.is_some() && !member.state.is_witness();
        for member in self.members.iter_mut().filter(is_copy) {
            member.size_bytes = member.size_bytes.max(size_bytes);
        }
        self.fit_regions();
        self.propose(port);
    }

    /// The bitmap covers the smallest member that counts.
    fn fit_regions(&mut self) {
        let device_blocks = self.device_blocks();
        self.dirty.fit(device_blocks);
    }

    /// Blocks of the smallest member: at least those of the logical device.
    pub(super) fn device_blocks(&self) -> u64 {
        let counting =
            self.members.iter().filter(|member| member.is_listed && member.state.counts());
        counting.map(|member| member.size_bytes / block::BLOCK).min().unwrap_or(0)
    }
}
