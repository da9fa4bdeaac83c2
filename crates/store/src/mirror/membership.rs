//! Changes of the membership list: a member that fails is left out on all others, durably and with
//! the caller's witness, before anything that it lacks is answered.

use block::{DeviceError, DeviceOperation};

use super::list::{List, ListChange, ListEntry};
use super::member::{Member, MemberNumber, MemberSet};
use super::port::{Port, Purpose};
use super::status::{MemberState, Membership};
use super::{EIO, ENODEV, Mirror};

impl Mirror {
    /// Whether the durable list says what is the case.
    pub(super) fn is_settled(&self) -> bool {
        let is_paused_so = self.is_paused == self.list.paused;
        let is_right = self.is_spread && is_paused_so && self.entries() == self.list.entries;
        let is_right = is_right && !self.must_revoke();
        self.change.is_none() && (self.broken.is_some() || is_right)
    }

    /// The members that count by a list.
    pub(super) fn listed_by(&self, list: &List) -> MemberSet {
        let counts = |member: &Member| {
            let entry = list.entry(member.uuid).filter(|_| member.is_listed);
            entry.is_some_and(|entry| entry.state.counts())
        };
        self.places(counts)
    }

    /// The members that count by the durable list, or by the one that is on its way: after a power
    /// failure it may be the one that is found.
    pub(super) fn counted(&self) -> MemberSet {
        let coming = self.change.as_ref().map(|change| self.listed_by(&change.list));
        self.listed.or(coming.unwrap_or_default())
    }

    /// What a list should say now.
    pub(super) fn entries(&self) -> Vec<ListEntry> {
        let entry = |member: &Member| {
            let Member { uuid, size_bytes, state, since, .. } = *member;
            let known = self.list.entry(uuid).filter(|entry| entry.state == state);
            let since = known.map_or(since, |entry| entry.since);
            ListEntry { uuid, size_bytes, state, since }
        };
        self.members.iter().filter(|member| member.is_listed).map(entry).collect()
    }

    /// Makes a list durable that says what is the case, if the durable one does not.
    pub(super) fn propose(&mut self, port: &mut Port) {
        let is_idle = port.writable && self.change.is_none() && self.broken.is_none();
        if !is_idle || !self.is_made() || self.is_settled() || !self.may_propose() {
            return;
        }
        let generation = self.list.generation + std::mem::replace(&mut self.step, 1);
        for member in &mut self.members {
            let known = self.list.entry(member.uuid);
            if known.is_none_or(|entry| entry.state != member.state) {
                member.since = generation;
            }
        }
        let paused = self.is_paused;
        let (entries, (basis, sent)) = (self.entries(), self.at_witness());
        let list = List { generation, paused, basis, sent, entries, ..self.list.clone() };
        let members = self.written_to();
        let none = MemberSet::default();
        self.cover_fans();
        self.note_proposed(&list);
        self.change = Some(ListChange {
            list,
            writing: none,
            written: none,
            flushing: none,
            done: none,
            witness: self.witness_there(),
            is_told: false,
        });
        self.write_list(port, members);
        self.settle_list(port);
    }

    /// Writes the list on its way to some members.
    fn write_list(&mut self, port: &mut Port, members: MemberSet) {
        let Some(change) = &mut self.change else { return };
        change.writing = change.writing.or(members);
        let offset = List::place(change.list.generation).offset();
        let data = change.list.emit().freeze();
        for member in members.iter() {
            let operation = DeviceOperation::Write { offset, data: data.clone().into() };
            self.submit(port, member, Purpose::List, operation);
        }
    }

    /// A member has written its list, or flushed it, or failed.
    pub(super) fn list_part_ended(
        &mut self,
        port: &mut Port,
        member: MemberNumber,
        result: Result<(), DeviceError>,
    ) {
        let Some(change) = &mut self.change else { return };
        let is_written = change.writing.contains(member);
        change.writing.remove(member);
        change.flushing.remove(member);
        match result {
            Ok(()) if is_written => {
                change.written.insert(member);
                self.flush_list(port);
            }
            Ok(()) => change.done.insert(member),
            Err(_) => {
                self.members[member].errors += 1;
                self.give_up(port, member);
            }
        }
        self.settle_list(port);
    }

    /// Flushes the members that have written their list, once what the ones that it leaves out may lack
    /// is written there, too: whoever finds the list relies on the bitmap.
    pub(super) fn flush_list(&mut self, port: &mut Port) {
        if self.change.is_none() {
            return;
        }
        self.write_urgent_regions(port);
        if !self.dirty.is_written() {
            return;
        }
        let Some(change) = &mut self.change else { return };
        let written = std::mem::take(&mut change.written);
        written.iter().for_each(|member| change.flushing.insert(member));
        for member in written.iter() {
            self.submit(port, member, Purpose::List, DeviceOperation::Flush);
        }
    }

    /// The caller is told of a list that all members have.
    pub(super) fn settle_list(&mut self, port: &mut Port) {
        let current = self.readable();
        let Some(change) = &mut self.change else { return };
        if change.is_told || change.is_under_way() {
            return;
        }
        if change.done.and(current).is_empty() {
            return self.give_up_lists(port);
        }
        if let Some(witness) = change.witness.take() {
            return self.send_to_witness(port, witness);
        }
        let takes_effect = self.change.as_ref().is_some_and(|change| self.takes_effect(change));
        let Some(change) = self.change.as_mut().filter(|_| takes_effect) else {
            return self.supersede(port);
        };
        change.is_told = true;
        let (mirror, generation) = (change.list.mirror_uuid, change.list.generation);
        port.memberships.push_back(Membership { mirror, generation });
    }

    /// The members have the list: the witness that it names gets it.
    fn send_to_witness(&mut self, port: &mut Port, witness: MemberNumber) {
        if self.members[witness].is_witness_there()
            && let Some(change) = &self.change
        {
            self.note_sent_to_witness(change.list.clone());
            self.write_list(port, MemberSet::of(witness));
        }
        self.settle_list(port);
    }

    /// No current member could take the list: nothing that another member lacks is answered any more.
    pub(super) fn give_up_lists(&mut self, port: &mut Port) {
        self.change = None;
        self.broken = Some(DeviceError::Os(EIO));
        self.settle_fans(port);
    }

    /// The caller has kept the generation of a list: what waited for that is answered.
    pub(super) fn witnessed(&mut self, port: &mut Port, generation: u64) {
        let is_told =
            |change: &mut ListChange| change.is_told && change.list.generation <= generation;
        let Some(change) = self.change.take_if(is_told) else { return };
        self.listed = self.listed_by(&change.list);
        self.list = change.list;
        self.note_in_effect();
        self.is_spread = !self.excuse_fans();
        self.settle_fans(port);
        self.propose(port);
    }

    /// A member did not do what it must: it does not count any more. The last current one stays; what
    /// it does not do fails.
    pub(super) fn give_up(&mut self, port: &mut Port, member: MemberNumber) {
        // One that is about to join, or to come back, does not count: what was asked of it has failed.
        let is_away = self.members[member].state.is_away();
        if !self.members[member].is_listed || is_away {
            return self.orphan(port, member);
        }
        let is_last = self.readable().without(MemberSet::of(member)).is_empty();
        if is_last {
            return;
        }
        if self.members[member].state.is_witness() {
            self.members[member].state = MemberState::WitnessAbsent;
        } else {
            let was_whole = self.is_whole();
            self.members[member].state = MemberState::Absent;
            self.member_left(was_whole);
            self.end_rebuild(port, member);
        }
        self.orphan(port, member);
        self.propose(port);
        self.settle_bitmaps(port);
        self.release_flushes(port);
        self.settle_fans(port);
    }

    /// The device of a member is gone.
    pub(super) fn lose(&mut self, port: &mut Port, member: MemberNumber) {
        self.give_up(port, member);
        self.members[member].slot = None;
        if !self.members[member].state.is_away() {
            self.fail_all(port, member);
        }
    }

    /// All I/O of a member that is under way has failed.
    fn fail_all(&mut self, port: &mut Port, member: MemberNumber) {
        for purpose in self.take_purposes(port, member) {
            self.ended(port, member, purpose, Err(DeviceError::Os(ENODEV)));
        }
    }

    /// Nobody waits for the I/O of a member any more.
    pub(super) fn orphan(&mut self, port: &mut Port, member: MemberNumber) {
        for purpose in self.take_purposes(port, member) {
            match purpose {
                Purpose::Fan(fan) => self.fan_part_lost(fan, member),
                Purpose::Read(read) => self.copy_lost(port, read, member),
                Purpose::Heal(heal) => self.heal_lost(heal),
                Purpose::Direct(token) => port.end(token, Err(DeviceError::Os(EIO))),
                Purpose::FirstBlock(token) => self.first_block_lost(port, token),
                Purpose::BitmapRead => self.bitmap_read(port, member, Err(DeviceError::Os(EIO))),
                Purpose::BitmapWrite(block) => self.bitmap_lost(block, member),
                Purpose::CopyRead(copy) => self.copy_source_lost(port, copy),
                Purpose::CopyBlank(_)
                | Purpose::CopyWrite(_)
                | Purpose::CopyReserve(_)
                | Purpose::CopyFlush
                | Purpose::List => {}
                Purpose::Label | Purpose::Orphan => {}
            }
        }
        // A list that it has written may wait for the bitmap before it is flushed.
        self.list_part_lost(member);
        self.resume_writes(port);
        self.settle_list(port);
    }

    fn list_part_lost(&mut self, member: MemberNumber) {
        if let Some(change) = &mut self.change {
            change.writing.remove(member);
            change.written.remove(member);
            change.flushing.remove(member);
        }
    }

    fn take_purposes(&self, port: &mut Port, member: MemberNumber) -> Vec<Purpose> {
        let of_member =
            port.ios.iter_mut().filter(|(_, io)| io.mirror == self.number && io.member == member);
        of_member.map(|(_, io)| std::mem::replace(&mut io.purpose, Purpose::Orphan)).collect()
    }
}
