//! Checks of mirrors: no stale copy is read, nobody is left out without a reason, copies are equal
//! wherever anything refers to them.

use std::time::Duration;

use block::{BLOCK, DeviceOperation};
use store::{Change, MemberState, ResilverChange};

use super::slots::{Member, State};
use super::{SUPERBLOCKS_END, World};
use crate::action::Action;
use crate::audit::{Audit, Copies, List, Worth};
use crate::disk::{Condition, Faults, SimDisk};
use crate::oracle::{Violation, violation};

/// Steps of a tenth of a second in which all copies must be made current again.
const RESILVER_STEPS_MAX: u64 = 20_000;

/// Virtual time between two looks at what goes on by itself, in nanoseconds.
const STEP: u64 = 100_000_000;

/// Nanoseconds that a command may take besides what it waits for copies that hang: space that was
/// refused is asked for again after seconds.
const SLACK: u64 = 15_000_000_000;

impl World {
    /// A stale copy is not read, but for what says that it is stale; and lists are remembered.
    pub(super) fn check_copy(
        &mut self,
        slot: usize,
        operation: &DeviceOperation,
    ) -> Result<(), Violation> {
        if self.profile.mirrors.is_none() {
            return Ok(());
        }
        let Some(device) = self.slots.device_of(slot) else {
            return violation(format!("slot {slot} is used, in which no copy is"));
        };
        match operation {
            DeviceOperation::Read { offset, .. } if *offset >= SUPERBLOCKS_END * BLOCK => {
                self.check_read(device, slot, offset / BLOCK)
            }
            DeviceOperation::Write { offset, data } if List::lies_in(offset / BLOCK) => {
                let list = List::parse(&data.slice(0, BLOCK as usize).to_vec());
                let known = self.lists.get(&device).map_or(0, |list| list.generation);
                if let Some(list) = list.filter(|list| list.generation > known) {
                    self.lists.insert(device, list);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn check_read(&self, device: usize, slot: usize, block: u64) -> Result<(), Violation> {
        let Some(list) = self.lists.get(&device) else { return Ok(()) };
        let member = self.slots.devices[device].iter().find(|member| member.slot == slot);
        // What is left in the ring of a new copy is looked at, and blanked.
        let is_journal =
            device == 0 && block < SUPERBLOCKS_END + self.profile.journal_bytes / BLOCK;
        match member.and_then(|member| list.worth(member.uuid)) {
            Some(Worth::Resilvering) if is_journal => Ok(()),
            // All of it is copied, and a list that says so follows the one that is being written.
            Some(Worth::Resilvering) if self.is_current_slot(device, slot) => Ok(()),
            Some(Worth::Resilvering | Worth::Absent) => violation(format!(
                "block {block} of slot {slot} is read, a copy that is not current since list {}",
                list.generation
            )),
            Some(Worth::Current) | None => Ok(()),
        }
    }

    /// Whether the engine calls the copy in a slot current.
    pub(super) fn is_current_slot(&self, device: usize, slot: usize) -> bool {
        let member = self.slots.devices[device].iter().find(|member| member.slot == slot);
        member.is_some_and(|member| self.is_current(member.uuid))
    }

    /// Whether what is audited is current. Where faults hit all copies alike, the last sound one may be
    /// left out.
    pub(super) fn audits_current_copies(&self) -> bool {
        let is_current = |device| self.is_current_slot(device, self.slots.reference(device));
        self.profile.faults.is_none() || self.known_devices().into_iter().all(is_current)
    }

    /// Whether faults of all copies have left out the last sound copy of a device, so that one that is
    /// spoilt is relied upon.
    pub(super) fn has_lost_all_sound_copies(&self) -> bool {
        let is_sound = |m: &Member| m.state == State::Sound && self.is_current(m.uuid);
        let is_lost = |members: &Vec<Member>| {
            let is_relied_upon = |m: &Member| m.is_spoilt() && self.is_current(m.uuid);
            members.iter().any(is_relied_upon) && !members.iter().any(is_sound)
        };
        self.profile.faults.is_some() && self.slots.devices.iter().any(is_lost)
    }

    /// The lists as a power failure left them.
    pub(super) fn remember_lists(&mut self) {
        let devices = 0..self.slots.devices.len();
        let lists: Vec<_> = devices.filter_map(|d| Some((d, self.newest_list(d)?))).collect();
        self.lists = lists.into_iter().collect();
    }

    /// A copy to which nothing happened is not left out.
    pub(super) fn check_members(&mut self) -> Result<(), Violation> {
        if self.profile.mirrors.is_none() || self.profile.faults.is_some() {
            return Ok(());
        }
        for (device, place) in self.places() {
            let member = self.slots.devices[device][place];
            let state = self.state_of(member.uuid);
            let is_current = state == Some(MemberState::Current);
            let is_left_out = state == Some(MemberState::Absent);
            if is_left_out && member.blameless && member.state == State::Sound {
                return violation(format!(
                    "slot {} of device {device} is left out, to which nothing happened",
                    member.slot
                ));
            }
            if member.state == State::Sound {
                self.slots.devices[device][place].blameless = is_current;
            }
        }
        Ok(())
    }

    /// A copy that is made from others of which one is spoilt is spoilt, too: resilvering knows no
    /// checksums, and the next scrub mends what it copied. One is spoilt, too, that lacks what no other one
    /// could read (72001130).
    pub(super) fn look_at_sources(&mut self) {
        if self.profile.faults.is_some() {
            let resilvers = self.store.mirrors().filter_map(|mirror| mirror.resilver);
            let lacking = resilvers.filter(|resilver| resilver.unreadable_blocks > 0);
            self.tainted.extend(lacking.map(|resilver| resilver.member));
        }
        for device in 0..self.slots.devices.len() {
            let members = &self.slots.devices[device];
            let is_source = |m: &Member| {
                m.is_spoilt() && self.is_current(m.uuid) && !self.is_no_source(device, m.uuid)
            };
            if !members.iter().any(is_source) {
                continue;
            }
            let is_target = |m: &&Member| self.state_of(m.uuid) == Some(MemberState::Resilvering);
            let targets: Vec<_> = members.iter().filter(is_target).map(|m| m.uuid).collect();
            self.tainted.extend(targets);
        }
        // One that is joining is so once it has joined.
        for member in self.slots.devices.iter_mut().flatten() {
            if member.state == State::Sound && self.tainted.remove(&member.uuid) {
                member.state = State::Spoilt;
                self.spoilt += 1;
            }
        }
    }

    /// Whether a copy has all that the one has that is audited. A scrub compares only copies that are
    /// current by then.
    pub(super) fn is_like_reference(&self, device: usize, slot: usize) -> bool {
        let Some(audit) = &self.audit else { return false };
        let pair = [self.slots.reference(device), slot];
        first_difference(&self.disks, &pair, &audit.blocks_of(device)).is_none()
    }

    /// Hosts wait no longer than for copies that hang.
    pub(super) fn check_latency(&self, since: u64, action: &Action) -> Result<(), Violation> {
        let Some(mirrors) = &self.profile.mirrors else { return Ok(()) };
        let limit = mirrors.hang_limit.as_nanos() as u64;
        let hangs = self.hangs.iter().filter(|at| **at + limit >= since).count() as u64;
        let most = (2 + hangs) * limit + SLACK;
        let is_hosts = !matches!(action, Action::Change(_));
        if self.profile.faults.is_some() || !is_hosts || self.now - since <= most {
            return Ok(());
        }
        let took = Duration::from_nanos(self.now - since);
        violation(format!("{action} took {took:?}, a copy may take {:?}", mirrors.hang_limit))
    }

    /// All disks work again, all copies come back and are made current, two scrubs follow each
    /// other of which the second has nothing to mend, and all copies are equal.
    pub(super) fn mend_everything(&mut self) -> Result<(), Violation> {
        if self.profile.mirrors.is_none() {
            return Ok(());
        }
        for disk in &mut self.disks {
            if !matches!(disk.condition(), Condition::Hung { .. }) {
                disk.set_condition(Condition::Sound);
            }
            disk.set_faults(Faults::default());
        }
        // A device that was refused has copies, but is none of the pool's.
        self.slots.keep(&self.known_devices());
        self.change(Change::Resilver(ResilverChange::Resume))?;
        self.take_out_liars()?;
        self.make_all_current()?;
        while self.store.statistics().reap_queue > 0 {
            self.pass(STEP)?;
        }
        self.change(Change::Checkpoint)?;
        self.scrub_to_the_end()?;
        let healed = self.healed_blocks();
        self.scrub_to_the_end()?;
        if self.healed_blocks() != healed {
            return violation("a second scrub found something to mend");
        }
        for member in self.slots.devices.iter_mut().flatten() {
            member.state = State::Sound;
        }
        self.change(Change::Checkpoint)?;
        self.look_at_superblock()?;
        self.compare_copies()
    }

    /// A copy that lied may lack what no scrub reads.
    fn take_out_liars(&mut self) -> Result<(), Violation> {
        for (device, place) in self.places().into_iter().rev() {
            let Member { uuid, lied, .. } = self.slots.devices[device][place];
            if lied && self.sound_copies(device) > 0 {
                self.change(Change::DetachMember { member: uuid })?;
            }
        }
        Ok(())
    }

    fn make_all_current(&mut self) -> Result<(), Violation> {
        for _ in 0..RESILVER_STEPS_MAX {
            self.end_hangs();
            let places = self.places();
            let left_out = places.iter().filter(|&&(device, place)| {
                let uuid = self.slots.devices[device][place].uuid;
                self.state_of(uuid) == Some(MemberState::Absent)
            });
            let left_out: Vec<_> = left_out.copied().collect();
            let all_current =
                places.iter().all(|&(d, place)| self.is_current(self.slots.devices[d][place].uuid));
            // One that hangs may be left out yet, when the engine next asks something of it.
            let is_hanging = |&(device, place): &(usize, usize)| {
                let slot = self.slots.devices[device][place].slot;
                matches!(self.disks[slot].condition(), Condition::Hung { .. })
            };
            if all_current && !places.iter().any(is_hanging) {
                return Ok(());
            }
            for place in left_out {
                if self.in_flight.is_empty() {
                    self.return_copy(place);
                    self.quiesce()?;
                }
            }
            self.pass(STEP)?;
        }
        let mirrors: Vec<_> = self.store.mirrors().collect();
        violation(format!("copies are not made current: {mirrors:?}"))
    }

    fn scrub_to_the_end(&mut self) -> Result<(), Violation> {
        self.store.start_scrub();
        for _ in 0..RESILVER_STEPS_MAX {
            if !self.store.scrub_status().running {
                return self.check_scrub();
            }
            self.pass(STEP)?;
        }
        violation("a scrub does not come to its end")
    }

    /// Blocks that the engine wrote again.
    pub(super) fn healed_blocks(&self) -> u64 {
        let members = self.store.mirrors().flat_map(|mirror| mirror.members);
        members.map(|member| member.healed_blocks).sum()
    }

    /// Lets time pass in which only the engine does something.
    fn pass(&mut self, time: u64) -> Result<(), Violation> {
        self.now += time;
        self.store.tick(Duration::from_nanos(self.now));
        self.quiesce().map(drop)
    }

    /// After a checkpoint, with nothing under way: the copies of every block that anything refers
    /// to are equal, and walks over each of them find the same.
    pub(super) fn compare_copies(&mut self) -> Result<(), Violation> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let devices = audit.device_sizes().len();
        for device in 0..devices {
            let slots: Vec<usize> = self.slots.of(device).collect();
            self.check_alike(device, &slots, &audit.blocks_of(device))?;
            if self.spoilt == 0 {
                self.check_records(device, &slots)?;
            }
        }
        let most = (0..devices).map(|device| self.slots.of(device).count()).max().unwrap_or(1);
        for copy in 1..most {
            let nth = |device| {
                let slots: Vec<usize> = self.slots.of(device).collect();
                slots.get(copy % slots.len().max(1)).copied().unwrap_or(0)
            };
            let slots: Vec<usize> = (0..devices).map(nth).collect();
            match Audit::of(&Copies { disks: &self.disks, slots: &slots })? {
                Some(other) if other.agrees_with(audit) => {}
                _ => return violation(format!("a walk over slots {slots:?} finds something else")),
            }
        }
        Ok(())
    }

    /// After an opening, before hosts ask for anything: copies that hold everything hold the same wherever
    /// the durable checkpoint refers to something.
    pub(super) fn check_sound_copies(&mut self) -> Result<(), Violation> {
        if self.profile.mirrors.is_none() || self.profile.faults.is_some() {
            return Ok(());
        }
        self.look_at_superblock()?;
        let Some(audit) = &self.audit else { return Ok(()) };
        for device in self.known_devices() {
            let is_sound = |m: &&Member| m.state == State::Sound && self.is_current(m.uuid);
            let sound = self.slots.devices[device].iter().filter(is_sound);
            let slots: Vec<usize> = sound.map(|member| member.slot).collect();
            // A label that was torn stays so until a scrub.
            let mut blocks = audit.blocks_of(device);
            blocks.retain(|&block| block >= SUPERBLOCKS_END);
            self.check_alike(device, &slots, &blocks)?;
        }
        Ok(())
    }

    /// Copies of a device hold the same in these blocks.
    fn check_alike(&self, device: usize, slots: &[usize], blocks: &[u64]) -> Result<(), Violation> {
        for pair in slots.windows(2) {
            if let Some(block) = first_difference(&self.disks, pair, blocks) {
                return violation(format!(
                    "block {block} of device {device} differs between slots {} and {}",
                    pair[0], pair[1]
                ));
            }
        }
        Ok(())
    }

    /// Once all copies of a device are current, all lists say so.
    fn check_records(&self, device: usize, slots: &[usize]) -> Result<(), Violation> {
        if slots.len() < 2 {
            return Ok(());
        }
        let lists: Vec<_> = slots.iter().map(|slot| List::newest(&self.disks[*slot])).collect();
        let complete = lists[0].as_ref().is_some_and(List::is_complete);
        if !complete || lists.iter().any(|list| *list != lists[0]) {
            return violation(format!("the lists of device {device} differ: {lists:?}"));
        }
        let members = self.slots.devices[device].iter();
        let mut names = members.map(|m| (crate::audit::member_of(&self.disks[m.slot]), m.uuid));
        if let Some((found, uuid)) = names.find(|(found, uuid)| *found != Some(*uuid)) {
            return violation(format!("a member label names {found:?}, not {uuid:?}"));
        }
        Ok(())
    }
}

fn first_difference(disks: &[SimDisk], pair: &[usize], blocks: &[u64]) -> Option<u64> {
    let (one, other) = (&disks[pair[0]], &disks[pair[1]]);
    blocks.iter().copied().find(|&block| {
        let (one, other) = (one.stable_block(block), other.stable_block(block));
        // Most copies share their memory.
        !std::ptr::eq(one, other) && one != other
    })
}
