//! Troubles of single copies: they are lost, hang, lie, rot, come back old, join and leave. One
//! sound current copy of each mirror is always left, so nothing of it excuses a failed command.

use block::BLOCK;
use store::{
    Change, ChangeError, DeviceSpec, Failure, MemberSpec, MemberState, MemberStatus, ResilverChange,
};

use super::replacements::Rotted;
use super::slots::{Member, State, copy_uuid};
use super::{Answer, World};
use crate::action::Action;
use crate::audit::member_of;
use crate::disk::{Condition, Crash, Faults, Rot, SimDisk};
use crate::limits::{DEVICE_BYTES_MAX, SLOTS_MAX};
use crate::oracle::{Violation, violation};
use crate::profile::{device_bytes, faults};
use crate::trace::Event;

/// Copies of a device at most.
const COPIES_MAX: usize = 3;

/// Blocks that rot at once, at most.
const ROT_BLOCKS_MAX: u64 = 64;

/// Steps until a copy that is plugged in is pulled again, at most.
const PULLED_AFTER_MAX: u64 = 60;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// A copy, by its device and its place among the copies of that.
type Place = (usize, usize);

impl World {
    /// Something may happen to a copy.
    pub(super) fn trouble(&mut self) -> Result<(), Violation> {
        let Some(mirrors) = &self.profile.mirrors else { return Ok(()) };
        let (interval, weights) = (mirrors.trouble_interval.max(1), mirrors.weights.all());
        self.end_hangs();
        // What comes back would be filled from copies that rotted or lied (72004523, 72015484).
        if self.has_lost_all_sound_copies() {
            self.ended = true;
            return Ok(());
        }
        if self.read_only || self.repeating {
            return Ok(());
        }
        self.pull_what_comes_back();
        self.go_on_replacing()?;
        if !self.chance.one_in(interval) {
            return Ok(());
        }
        self.figures.troubles += 1;
        self.let_go_of_lost_copies();
        self.check_resilvered_copies()?;
        match self.chance.weighted(&weights) {
            0 => self.lose_a_copy(),
            1 => self.have_a_copy_lie(),
            2 => self.have_a_copy_stumble(),
            3 => self.rot_a_copy(),
            4 => self.mend_a_copy(),
            5 => self.attach_a_copy(),
            6 => self.detach_a_copy(),
            7 => self.control_resilvering(),
            _ => self.grow_a_mirror(),
        }
        self.look_at_new_reference()
    }

    /// Whether the engine reads from a copy.
    pub(super) fn is_current(&self, uuid: [u8; 16]) -> bool {
        self.state_of(uuid) == Some(MemberState::Current)
    }

    /// What the engine says of the worth of a copy.
    pub(super) fn state_of(&self, uuid: [u8; 16]) -> Option<MemberState> {
        self.status_of(uuid).map(|member| member.state)
    }

    fn status_of(&self, uuid: [u8; 16]) -> Option<MemberStatus> {
        let mut members = self.store.mirrors().flat_map(|mirror| mirror.members);
        members.find(|member| member.uuid == uuid)
    }

    /// Copies of a device that hold everything, by a list that is durable: the engine counts on a copy a
    /// little earlier, as it does on those that it is made from (74004734).
    pub(super) fn sound_copies(&self, device: usize) -> usize {
        let Some(list) = self.newest_list(device) else { return 0 };
        let is_current = |uuid| self.is_current(uuid) && list.is_current(uuid);
        let members = self.slots.devices[device].iter();
        members.filter(|m| m.state == State::Sound && is_current(m.uuid)).count()
    }

    /// A copy to which something may happen: another one that is sound and current is left.
    fn pick_victim(&mut self) -> Option<Place> {
        let mut places = Vec::new();
        for (device, members) in self.slots.devices.iter().enumerate() {
            let sound = self.sound_copies(device);
            for (place, member) in members.iter().enumerate() {
                let counts = member.state == State::Sound && self.is_current(member.uuid);
                let is_used =
                    !matches!(self.state_of(member.uuid), None | Some(MemberState::Absent));
                let is_there = member.state == State::Sound && is_used && self.is_open(member.slot);
                if is_there && sound > usize::from(counts) {
                    places.push((device, place));
                }
            }
        }
        let victim = self.pick_place(&places)?;
        self.member(victim).blameless = false;
        Some(victim)
    }

    fn pick_place(&mut self, places: &[Place]) -> Option<Place> {
        (!places.is_empty()).then(|| places[self.chance.below(places.len() as u64) as usize])
    }

    fn member(&mut self, (device, place): Place) -> &mut Member {
        &mut self.slots.devices[device][place]
    }

    /// Whether the engine knows the slot since it was opened, or since the copy joined.
    fn is_open(&self, slot: usize) -> bool {
        self.opened.get(slot).copied().unwrap_or(false)
    }

    fn lose_a_copy(&mut self) {
        let Some(place) = self.pick_victim() else { return };
        let slot = self.member(place).slot;
        self.member(place).state = State::Failed;
        let limit = self.profile.hang_limit().as_nanos() as u64;
        let (condition, words) = match self.chance.below(8) {
            0..3 => (Condition::Lost, "a copy fails"),
            3 | 4 => (Condition::Lost, "a copy is pulled"),
            5 => (Condition::Hung { until: self.now + 60 * SECOND }, "a copy hangs for a minute"),
            6 => {
                let until = self.now + self.chance.below(2 * limit);
                (Condition::Hung { until }, "a copy hangs for a while")
            }
            _ => (Condition::Hung { until: self.now + limit / 2 }, "a copy is slow"),
        };
        if matches!(condition, Condition::Hung { .. }) {
            self.hangs.push(self.now);
        }
        self.trace.add(self.now, Event::Copy { slot, words });
        self.disks[slot].set_condition(condition);
        self.choose_reference(place.0);
        if words == "a copy is pulled" {
            self.store.lose(slot as u8);
        }
    }

    /// Copies that were plugged in a moment ago are pulled again, while the engine looks at them.
    fn pull_what_comes_back(&mut self) {
        for place in self.places() {
            let Some(steps) = self.member(place).pulled_after.take() else { continue };
            if steps > 0 {
                self.member(place).pulled_after = Some(steps - 1);
                continue;
            }
            let Member { uuid, slot, state, .. } = *self.member(place);
            if self.status_of(uuid).is_some_and(|member| member.is_returning) {
                self.trace.add(self.now, Event::Copy { slot, words: "a copy is pulled again" });
                self.disks[slot].set_condition(Condition::Lost);
                self.member(place).blameless = false;
                if state == State::Sound {
                    self.member(place).state = State::Failed;
                }
                self.store.lose(slot as u8);
            }
        }
    }

    /// The array closes the devices of copies that the engine goes on without.
    fn let_go_of_lost_copies(&mut self) {
        let members = self.store.mirrors().flat_map(|mirror| mirror.members);
        let lost = members.filter(|member| member.state.is_away() && !member.is_returning);
        let slots: Vec<u8> = lost.filter_map(|member| member.slot).collect();
        slots.into_iter().for_each(|slot| self.store.lose(slot));
    }

    /// A copy that was given up by its device would be waited for in vain.
    fn check_resilvered_copies(&self) -> Result<(), Violation> {
        let mut members = self.store.mirrors().flat_map(|mirror| mirror.members);
        let is_stuck = |m: &MemberStatus| m.state == MemberState::Resilvering && m.slot.is_none();
        match members.find(is_stuck) {
            Some(_) => violation("a copy is resilvered that has no device"),
            None => Ok(()),
        }
    }

    /// A hang is over: what was under way ends, late.
    pub(super) fn end_hangs(&mut self) {
        for disk in &mut self.disks {
            if let Condition::Hung { until } = disk.condition()
                && until <= self.now
            {
                disk.set_condition(Condition::Sound);
            }
        }
        for (device, place) in self.places() {
            let Member { slot, state, .. } = self.slots.devices[device][place];
            let is_well = self.disks[slot].condition() == Condition::Sound;
            if state == State::Failed && is_well && self.disks[slot].is_idle() {
                self.slots.devices[device][place].state = State::Sound;
            }
        }
    }

    pub(super) fn places(&self) -> Vec<Place> {
        let devices = self.slots.devices.iter().enumerate();
        devices
            .flat_map(|(device, members)| (0..members.len()).map(move |at| (device, at)))
            .collect()
    }

    fn have_a_copy_lie(&mut self) {
        let Some(place) = self.pick_victim() else { return };
        let slot = self.member(place).slot;
        self.member(place).state = State::Spoilt;
        self.member(place).lied = true;
        self.spoilt += 1;
        let (condition, words) = if self.chance.percent(50) {
            (Condition::DropsWrites, "a copy drops writes")
        } else {
            (Condition::DropsFlushes, "a copy drops flushes")
        };
        self.trace.add(self.now, Event::Copy { slot, words });
        self.disks[slot].set_condition(condition);
        self.choose_reference(place.0);
    }

    fn have_a_copy_stumble(&mut self) {
        let Some(place) = self.pick_victim() else { return };
        let slot = self.member(place).slot;
        self.member(place).state = State::Spoilt;
        self.member(place).lied = true;
        self.spoilt += 1;
        self.trace.add(self.now, Event::Copy { slot, words: "operations of a copy go wrong" });
        let faults = faults(&mut self.chance);
        self.disks[slot].set_faults(faults);
        self.choose_reference(place.0);
    }

    /// Blocks of a copy rot that something refers to, or that lie in front of everything.
    fn rot_a_copy(&mut self) {
        let Some(place) = self.pick_victim() else { return };
        let slot = self.member(place).slot;
        self.member(place).state = State::Spoilt;
        self.spoilt += 1;
        self.trace.add(self.now, Event::Copy { slot, words: "blocks of a copy rot" });
        self.choose_reference(place.0);
        let blocks = self.audit.as_ref().map(|audit| audit.found_on(place.0)).unwrap_or_default();
        let mut rotted = Vec::new();
        for _ in 0..self.chance.between(1, ROT_BLOCKS_MAX) {
            // Labels are written once, and nothing writes them again.
            let own = [8, 16, 17];
            let block = if blocks.is_empty() || self.chance.one_in(20) {
                self.chance.pick(&own)
            } else {
                blocks[self.chance.below(blocks.len() as u64) as usize]
            };
            self.disks[slot].rot(block, self.chance.pick(&Rot::ALL));
            // Zeros are what a block has to which nothing was copied.
            let rot = self.disks[slot].stable_block(block).to_vec();
            rotted.extend(rot.iter().any(|&byte| byte != 0).then_some((block, rot)));
        }
        self.rotted = Some(Rotted { copy: self.member(place).uuid, blocks: rotted });
    }

    /// A copy that the engine goes on without comes back as it was, or another one takes its place.
    fn mend_a_copy(&mut self) {
        if self.chance.percent(15) {
            self.scrub_for_mending();
        }
        let places = self.places();
        let is_left_out = |&(device, place): &Place| {
            let member = &self.slots.devices[device][place];
            let absent = matches!(self.state_of(member.uuid), Some(MemberState::Absent));
            let is_settled = !matches!(member.state, State::Joining | State::Leaving)
                && !self.is_coming_back(member.uuid);
            is_settled && (absent || member.lied && self.sound_copies(device) > 0)
        };
        let places: Vec<Place> = places.into_iter().filter(is_left_out).collect();
        let Some((device, place)) = self.pick_place(&places) else { return };
        let lied = self.slots.devices[device][place].lied;
        if self.chance.percent(75) && !lied {
            self.return_copy((device, place));
        } else {
            self.replace_copy((device, place));
        }
    }

    /// Plugs a copy in again, with what it held when it left.
    pub(super) fn return_copy(&mut self, place: Place) -> bool {
        let slot = self.member(place).slot;
        self.disks[slot].set_condition(Condition::Sound);
        self.disks[slot].set_faults(Faults::default());
        if !self.disks[slot].is_idle() || !self.store.slot_is_idle(slot as u8) {
            return false;
        }
        let how = self.chance.pick(&[Crash::KeepAll, Crash::LoseAll, Crash::Mixed]);
        self.disks[slot].crash(how);
        // What had rotted has, unless it was written meanwhile.
        if self.member(place).state != State::Spoilt {
            self.member(place).state = State::Sound;
        }
        self.trace.add(self.now, Event::Copy { slot, words: "a copy comes back" });
        self.open_slot(slot);
        let (uuid, size_bytes) = (self.member(place).uuid, self.disks[slot].size());
        let member = MemberSpec { uuid, slot: slot as u8, size_bytes };
        let is_pulled = self.chance.one_in(4);
        self.member(place).pulled_after = is_pulled.then(|| self.chance.below(PULLED_AFTER_MAX));
        self.submit(Action::Change(Change::ReturnMember { member }));
        true
    }

    fn replace_copy(&mut self, place: Place) {
        let uuid = self.member(place).uuid;
        self.member(place).leave();
        self.submit(Action::Change(Change::DetachMember { member: uuid }));
        self.attach_to(place.0);
    }

    fn attach_a_copy(&mut self) {
        let few = |device: &usize| {
            let copies = self.slots.devices.get(*device);
            copies.is_some_and(|copies| copies.len() < COPIES_MAX)
        };
        let devices: Vec<usize> = self.known_devices().into_iter().filter(few).collect();
        if devices.is_empty() || self.is_attaching() {
            return;
        }
        let device = devices[self.chance.below(devices.len() as u64) as usize];
        self.attach_for(device);
    }

    fn is_attaching(&self) -> bool {
        self.slots.devices.iter().flatten().any(|member| member.state == State::Joining)
    }

    /// Lets a new copy join, if there is room for one; says which.
    pub(super) fn attach_to(&mut self, device: usize) -> Option<[u8; 16]> {
        let slot = self.free_slot()?;
        let size = self.device_sizes().get(device).copied().filter(|size| *size > 0)?;
        let more = if self.chance.percent(50) { 0 } else { device_bytes(&mut self.chance) };
        let random = self.chance.fork();
        self.disks[slot] = self.new_disk(size + more, random);
        let uuid = self.new_uuid();
        self.slots.devices[device].push(Member::new(uuid, slot, State::Joining));
        self.open_slot(slot);
        let member = MemberSpec { uuid, slot: slot as u8, size_bytes: size + more };
        self.submit(Action::Change(Change::AttachMember { device: device as u8, member }));
        Some(uuid)
    }

    /// A slot that no copy is in, with nothing under way.
    pub(super) fn free_slot(&mut self) -> Option<usize> {
        let is_free = |slot: &usize| {
            self.slots.device_of(*slot).is_none()
                && self.disks[*slot].is_idle()
                && self.store.slot_is_idle(*slot as u8)
        };
        let free = (0..self.disks.len()).find(is_free);
        if free.is_none() && self.disks.len() < SLOTS_MAX {
            self.disks.push(SimDisk::new(0, self.chance.fork()));
            return Some(self.disks.len() - 1);
        }
        free
    }

    fn detach_a_copy(&mut self) {
        let Some(place) = self.pick_victim() else { return };
        let uuid = self.member(place).uuid;
        self.member(place).leave();
        self.submit(Action::Change(Change::DetachMember { member: uuid }));
    }

    fn control_resilvering(&mut self) {
        let resilvering = self.store.mirrors().flat_map(|mirror| mirror.members);
        let resilvering: Vec<[u8; 16]> = resilvering
            .filter(|member| member.state == MemberState::Resilvering)
            .map(|member| member.uuid)
            .collect();
        let Some(&member) = resilvering.first() else { return };
        let control = match self.chance.below(4) {
            0 => {
                let members = self.slots.devices.iter_mut().flatten();
                let mut members = members.filter(|known| known.uuid == member);
                members.next().into_iter().for_each(Member::leave);
                ResilverChange::Cancel { member }
            }
            1 => ResilverChange::Pause,
            _ => ResilverChange::Resume,
        };
        self.submit(Action::Change(Change::Resilver(control)));
    }

    /// All disks of a device grow, whether they are members now or not.
    fn grow_a_mirror(&mut self) {
        let devices = self.device_sizes();
        if devices.is_empty() {
            return;
        }
        let device = self.chance.below(devices.len() as u64) as usize;
        if devices[device] == 0 {
            return;
        }
        let more = self.chance.between(256, 4096) * BLOCK;
        let size_bytes = (devices[device] + more).min(DEVICE_BYTES_MAX.max(devices[device]));
        self.submit(Action::Change(Change::ExtendDevice { device: device as u8, size_bytes }));
    }

    /// Copies that were spoilt behave from now on, and a scrub mends them.
    fn scrub_for_mending(&mut self) {
        for (device, place) in self.places() {
            let Member { slot, state, .. } = self.slots.devices[device][place];
            if state == State::Spoilt {
                self.disks[slot].set_condition(Condition::Sound);
                self.disks[slot].set_faults(Faults::default());
            }
        }
        self.trace.add(self.now, Event::Note("a scrub begins"));
        self.store.start_scrub();
        self.scrubbing = Some(self.spoilt);
    }

    /// After a scrub that began when all was spoilt that is, and a checkpoint, copies hold
    /// everything again.
    pub(super) fn look_at_scrub(&mut self) {
        if self.scrubbing.is_none() || self.store.scrub_status().running || self.read_only {
            return;
        }
        self.scrubbed = self.scrubbing.take().filter(|spoilt| *spoilt == self.spoilt);
        if self.scrubbed.is_some() {
            self.submit(Action::Change(Change::Checkpoint));
        }
    }

    fn end_spoilt(&mut self) {
        if self.scrubbed.take() != Some(self.spoilt) {
            return;
        }
        for (device, place) in self.places() {
            let Member { uuid, slot, state, lied, .. } = self.slots.devices[device][place];
            let is_well = self.disks[slot].condition() == Condition::Sound;
            let is_mended =
                is_well && self.is_current(uuid) && self.is_like_reference(device, slot);
            if state == State::Spoilt && !lied && is_mended {
                self.slots.devices[device][place].state = State::Sound;
                // What it was made from is of no account any more (72011161).
                self.tainted.remove(&uuid);
            }
        }
    }

    /// Another copy may hold a newer superblock.
    fn look_at_new_reference(&mut self) -> Result<(), Violation> {
        if std::mem::take(&mut self.reference_changed) { self.look_at_superblock() } else { Ok(()) }
    }

    /// Audits a copy that holds everything, if the one that was audited does not any more.
    pub(super) fn choose_reference(&mut self, device: usize) {
        let members = self.slots.devices[device].iter();
        let sound = members.filter(|m| m.state == State::Sound && self.is_current(m.uuid));
        let sound: Vec<usize> = sound.map(|member| member.slot).collect();
        if !sound.is_empty() && !sound.contains(&self.slots.reference(device)) {
            let slot = sound[self.chance.below(sound.len() as u64) as usize];
            self.slots.set_reference(device, slot);
            self.superblock_written = true;
            self.reference_changed = true;
        }
    }

    /// The copies of a device that is to join: as many as others have, in free slots.
    pub(super) fn attach_mirror(&mut self, spec: &mut DeviceSpec) {
        self.slots.keep(&self.known_devices());
        let known = self.next_device();
        let copies = self.profile.mirrors.as_ref().map_or(1, |mirrors| mirrors.copies_of(known));
        let size_bytes = spec.size_bytes;
        let mut members = Vec::new();
        for _ in 0..copies {
            self.slots.put(known, members.clone());
            let slot = self.free_slot();
            self.slots.put(known, Vec::new());
            let Some(slot) = slot else { break };
            let random = self.chance.fork();
            self.disks[slot] = self.new_disk(size_bytes, random);
            self.open_slot(slot);
            let uuid = self.new_uuid();
            members.push(Member::new(uuid, slot, State::Sound));
        }
        if let [only] = &mut members[..] {
            only.uuid = spec.uuid;
        }
        let member =
            |member: &Member| MemberSpec { uuid: member.uuid, slot: member.slot as u8, size_bytes };
        *spec = match &members[..] {
            [only] => DeviceSpec::plain(MemberSpec { uuid: spec.uuid, ..member(only) }),
            all => DeviceSpec::mirror(spec.uuid, all.iter().map(member).collect()),
        };
        self.slots.put(known, members);
        self.lists.remove(&known);
    }

    /// The end of a change of copies.
    pub(super) fn hear_of_copies(
        &mut self,
        action: &Action,
        result: &Answer,
    ) -> Result<(), Violation> {
        let Action::Change(change) = action else { return Ok(()) };
        let done = result.is_ok();
        let uuid = match change {
            Change::Checkpoint if done => {
                self.end_spoilt();
                return Ok(());
            }
            Change::AttachMember { member, .. } => member.uuid,
            Change::DetachMember { member }
            | Change::Resilver(ResilverChange::Cancel { member }) => *member,
            _ => return Ok(()),
        };
        // The list was on its way when a device or the pool failed: the next opening says whether it
        // arrived (9101085).
        let device_failed = matches!(result, Err(Failure::Change(ChangeError::Device(_))));
        if !done && (device_failed || self.is_read_only()) {
            return Ok(());
        }
        let joined = matches!(change, Change::AttachMember { .. });
        // It has joined, and is already asked to leave: the end of that says what it is (60000343).
        if done && joined && self.is_asked_to_leave(uuid) {
            return Ok(());
        }
        let stays = done == joined;
        for members in &mut self.slots.devices {
            if stays {
                let member = members.iter_mut().find(|member| member.uuid == uuid);
                member.into_iter().for_each(Member::stay);
            } else {
                members.retain(|member| member.uuid != uuid);
            }
        }
        (0..self.slots.devices.len()).for_each(|device| self.choose_reference(device));
        self.look_at_new_reference()
    }

    fn is_asked_to_leave(&self, uuid: [u8; 16]) -> bool {
        self.in_flight.values().any(|flight| match &flight.action {
            Action::Change(
                Change::DetachMember { member }
                | Change::Resilver(ResilverChange::Cancel { member }),
            ) => *member == uuid,
            _ => false,
        })
    }

    /// Whether it was plugged in, and nobody was answered.
    pub(super) fn is_coming_back(&self, uuid: [u8; 16]) -> bool {
        self.in_flight.values().any(|flight| match &flight.action {
            Action::Change(Change::ReturnMember { member }) => member.uuid == uuid,
            _ => false,
        })
    }

    fn new_uuid(&mut self) -> [u8; 16] {
        self.copies_made += 1;
        copy_uuid(1000 + self.copies_made)
    }

    /// Whether a copy could not join because something happened to it meanwhile.
    pub(super) fn failed_meanwhile(&self, action: &Action, result: &Answer) -> bool {
        let Action::Change(Change::AttachMember { member, .. } | Change::ReturnMember { member }) =
            action
        else {
            return false;
        };
        let mut members = self.slots.devices.iter().flatten();
        let known = members.find(|known| known.uuid == member.uuid);
        let is_hit = known.is_none_or(|known| !known.blameless && known.state != State::Sound);
        match result {
            Err(Failure::Change(ChangeError::MemberFailed | ChangeError::Device(_))) => is_hit,
            // A copy of a new mirror that was left out before its labels were stable has none for good,
            // also when the faults that did it are over (84007163).
            Err(Failure::Change(ChangeError::NotThatMember)) => {
                member_of(&self.disks[usize::from(member.slot)]) != Some(member.uuid)
            }
            _ => false,
        }
    }
}
