//! Changes of a mirror's members: a device joins, comes back or leaves, a resilver is paused.
//!
//! A device that joins a plain one makes a mirror of it first: list, member label, then the label that
//! says so, each flushed. The new member gets its labels; that all of the device is dirty is flushed on
//! the others; then the membership list names it, and it takes every write. At each step a crash finds
//! the pool without the new member, or with one that is being resilvered.

use block::{Buffer, DeviceError, DeviceOperation, DeviceResult, Rope};

use super::{OperationKey, Stage, Work};
use crate::address::{DeviceBlock, DeviceNumber};
use crate::change::{Change, Outcome, ResilverChange};
use crate::error::{ChangeError, Failure};
use crate::io::{MemberPlace, Waiter};
use crate::layout::{DEVICE_START, LABELS};
use crate::mirror::{
    Found, FoundWitness, LISTS, List, ListEntry, MEMBER_LABELS, MemberLabel, MemberRefusal,
    MemberState,
};
use crate::options::MemberSpec;
use crate::serving::Serving;
use crate::space::Space;
use crate::superblock::Label;

/// Blocks before those that are copied in which a member has something of its own, from the first one.
const HEAD_BLOCKS: u64 = 10;

/// A change of members that is under way.
pub(super) struct MemberChange {
    step: Step,
    device: DeviceNumber,
    member: Option<MemberPlace>,
    /// I/O of this step under way.
    outstanding: usize,
    failure: Option<DeviceError>,
    /// What was read.
    bytes: Option<Buffer>,
    /// Generation of the newest list on a device that came back.
    newest: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A plain device gets a list and a member label of its own.
    Found,
    FoundFlush,
    /// Its label says that it is a mirror: one copy after the other.
    Mark {
        copy: usize,
    },
    MarkFlush {
        copy: usize,
    },
    /// The device that joins gets its labels.
    Label,
    LabelFlush,
    /// The device that comes back is read: is it the member that it is said to be?
    Identify,
    /// What it lacks is made durable on the others.
    Dirty,
    /// The list that names it is on its way, or that does not.
    Listing,
    /// The device that left is told so.
    Farewell,
}

impl Serving {
    /// Begins a change of members, or looks whether it is done.
    pub(super) fn run_member_change(
        &mut self,
        key: OperationKey,
        change: &Change,
    ) -> Result<(), Failure> {
        if let Some(under_way) = &self.requests.table[key].member_change {
            return match under_way.step {
                Step::Listing => self.look_at_list(key),
                _ => Ok(()),
            };
        }
        match change {
            Change::AttachMember { device, member } => {
                self.begin_attach(key, DeviceNumber::new((*device).into()), *member)
            }
            Change::AttachWitness { device, member } => {
                self.begin_witness(key, DeviceNumber::new((*device).into()), *member)
            }
            Change::ReturnMember { member } | Change::ReturnWitness { member } => {
                self.begin_return(key, *member)
            }
            Change::DetachMember { member } => self.begin_leave(key, *member),
            Change::Resilver(ResilverChange::Cancel { member }) => {
                let state = self.state_of(*member).ok_or(ChangeError::NoSuchMember)?;
                if state != MemberState::Resilvering {
                    return Err(ChangeError::NotResilvering.into());
                }
                self.begin_leave(key, *member)
            }
            Change::Resilver(ResilverChange::Pause) => self.pause_resilvers(key, true),
            Change::Resilver(ResilverChange::Resume) => self.pause_resilvers(key, false),
            _ => Ok(()),
        }
    }

    fn state_of(&self, member: [u8; 16]) -> Option<MemberState> {
        let mirror = self.engine.pool.io.mirror_of(member)?;
        Some(mirror.member(mirror.place_of(member)?).state)
    }

    fn pause_resilvers(&mut self, key: OperationKey, is_paused: bool) -> Result<(), Failure> {
        self.engine.pool.io.set_resilvers_paused(is_paused);
        self.begin_member_change(key, DeviceNumber::FIRST, Step::Listing);
        self.look_at_list(key)
    }

    fn begin_member_change(&mut self, key: OperationKey, device: DeviceNumber, step: Step) {
        let operation = &mut self.requests.table[key];
        operation.stage = Stage::Begun;
        operation.member_change = Some(Box::new(MemberChange {
            step,
            device,
            member: None,
            outstanding: 0,
            failure: None,
            bytes: None,
            newest: 0,
        }));
    }

    fn begin_attach(
        &mut self,
        key: OperationKey,
        device: DeviceNumber,
        spec: MemberSpec,
    ) -> Result<(), Failure> {
        if !self.engine.pool.space.is_there(device) {
            return Err(ChangeError::NoSuchDevice.into());
        }
        if spec.size_bytes < self.bytes_of(device) {
            return Err(ChangeError::MemberSize.into());
        }
        self.check_unused(spec)?;
        self.begin_member_change(key, device, Step::Found);
        match io_slot(self, device) {
            Some(slot) => self.found_mirror(key, slot),
            None => {
                let bytes = self.bytes_of(device);
                let member = self.engine.pool.io.admit(device, spec, bytes).map_err(refused)?;
                self.label_member(key, member, spec);
            }
        }
        Ok(())
    }

    fn begin_witness(
        &mut self,
        key: OperationKey,
        device: DeviceNumber,
        spec: MemberSpec,
    ) -> Result<(), Failure> {
        if !self.engine.pool.space.is_there(device) {
            return Err(ChangeError::NoSuchDevice.into());
        }
        self.check_unused(spec)?;
        let admitted = self.engine.pool.io.admit_witness(device, spec);
        let member = admitted.map_err(|refusal| match refusal {
            MemberRefusal::TooMany => ChangeError::WitnessRefused,
            refusal => refused(refusal),
        })?;
        self.begin_member_change(key, device, Step::Label);
        self.label_member(key, member, spec);
        Ok(())
    }

    /// Nothing of the pool lies in a slot, or has the name.
    fn check_unused(&self, spec: MemberSpec) -> Result<(), Failure> {
        let io = &self.engine.pool.io;
        let is_named = |uuid: &[u8; 16]| *uuid == spec.uuid;
        if io.uses_slot(spec.slot)
            || io.mirror_of(spec.uuid).is_some()
            || self.engine.pool.members.device_uuids.iter().any(is_named)
        {
            return Err(ChangeError::MemberTaken.into());
        }
        if !io.mirrors().slot_is_idle(spec.slot) {
            return Err(ChangeError::MemberBusy.into());
        }
        Ok(())
    }

    fn bytes_of(&self, device: DeviceNumber) -> u64 {
        Space::bytes(self.engine.pool.space.layout(device).device_blocks)
    }

    /// The first list of a plain device, which is a mirror of one by it.
    fn first_list(&self, device: DeviceNumber) -> List {
        let members = &self.engine.pool.members;
        let uuid = members.device_uuids[device.index()];
        let size_bytes = self.bytes_of(device);
        let state = MemberState::Current;
        List {
            pool_uuid: members.pool_uuid,
            mirror_uuid: uuid,
            generation: 1,
            paused: false,
            basis: 0,
            sent: None,
            entries: vec![ListEntry { uuid, size_bytes, state, since: 1 }],
        }
    }

    fn found_mirror(&mut self, key: OperationKey, _slot: u8) {
        let device = self.member_change(key).device;
        let list = self.first_list(device);
        let label = self.member_label(device, list.mirror_uuid).emit().freeze();
        let other = Buffer::zeroed(block::BLOCK as usize).freeze();
        let mut writes: Vec<(DeviceBlock, Rope)> =
            vec![(List::place(0), other.into()), (List::place(1), list.emit().freeze().into())];
        writes.extend(MEMBER_LABELS.map(|block| (block, label.clone().into())));
        self.member_change(key).outstanding = writes.len();
        for (block, data) in writes {
            let waiter = Waiter::Member { operation: key };
            self.engine.pool.io.write(waiter, block.on(device), data);
        }
    }

    fn member_label(&self, device: DeviceNumber, member_uuid: [u8; 16]) -> MemberLabel {
        let members = &self.engine.pool.members;
        let mirror_uuid = members.device_uuids[device.index()];
        MemberLabel { pool_uuid: members.pool_uuid, mirror_uuid, member_uuid }
    }

    fn label_of_mirror(&self, device: DeviceNumber) -> Label {
        Label { is_mirror: true, ..self.engine.pool.label(device) }
    }

    /// The device that joins gets its labels, and loses what an earlier use may have left in their
    /// places.
    fn label_member(&mut self, key: OperationKey, member: MemberPlace, spec: MemberSpec) {
        let device = member.device;
        let label = self.label_of_mirror(device).emit().freeze();
        let own = self.member_label(device, spec.uuid).emit().freeze();
        let none = Buffer::zeroed(block::BLOCK as usize).freeze();
        let mut writes: Vec<(DeviceBlock, Rope)> = Vec::new();
        writes.extend(LISTS.map(|block| (block, none.clone().into())));
        writes.extend(LABELS.map(|block| (block, label.clone().into())));
        writes.extend(MEMBER_LABELS.map(|block| (block, own.clone().into())));
        let change = self.member_change(key);
        (change.step, change.member) = (Step::Label, Some(member));
        change.outstanding = writes.len();
        for write in writes {
            self.engine.pool.io.write_on_member(Waiter::Member { operation: key }, member, write);
        }
    }

    fn begin_return(&mut self, key: OperationKey, spec: MemberSpec) -> Result<(), Failure> {
        let io = &self.engine.pool.io;
        let mirror = io.mirror_of(spec.uuid).ok_or(ChangeError::NoSuchMember)?;
        let device = mirror.device();
        let returned = mirror.place_of(spec.uuid).map(|place| mirror.member(place));
        if returned.is_some_and(|member| !member.state.is_away()) {
            return Err(ChangeError::MemberPresent.into());
        }
        let is_witness = returned.is_some_and(|member| member.state.is_witness());
        let claims_nothing =
            matches!(self.requests.table[key].work, Work::Change(Change::ReturnWitness { .. }));
        if is_witness != claims_nothing {
            return Err(ChangeError::NotThatMember.into());
        }
        // What the device brings is compared with the list that left it out, which may be on its way yet. A list
        // may be waiting for the witness.
        if !is_witness && !io.mirrors().is_settled() {
            self.awaiting_lists.push(key);
            return Ok(());
        }
        let is_its_own = returned.is_some_and(|member| member.slot == Some(spec.slot));
        if io.uses_slot(spec.slot) && !is_its_own {
            return Err(ChangeError::MemberTaken.into());
        }
        let bytes = self.bytes_of(device);
        let member = self.engine.pool.io.readmit(device, spec, bytes).map_err(refused)?;
        self.begin_member_change(key, device, Step::Identify);
        let change = self.member_change(key);
        (change.member, change.outstanding) = (Some(member), 1);
        let buffer = Buffer::for_overwrite((HEAD_BLOCKS * block::BLOCK) as usize);
        let operation = DeviceOperation::Read { offset: DEVICE_START.offset(), buffer };
        self.engine.pool.io.on_member(Waiter::Member { operation: key }, member, operation);
        Ok(())
    }

    fn begin_leave(&mut self, key: OperationKey, member: [u8; 16]) -> Result<(), Failure> {
        let left = self.engine.pool.io.leave(member).map_err(refused)?;
        self.begin_member_change(key, left.device, Step::Listing);
        self.member_change(key).member = Some(left);
        self.look_at_list(key)
    }

    fn member_change(&mut self, key: OperationKey) -> &mut MemberChange {
        let change = self.requests.table[key].member_change.as_mut();
        change.expect("a change of members that was begun")
    }

    /// An I/O of a change of members has ended. An error is told only when nothing of it is under way
    /// any more: whoever tries again must not meet writes of this attempt.
    pub(crate) fn member_io_ended(&mut self, key: OperationKey, result: DeviceResult) {
        let Some(operation) = self.requests.table.get_mut(key) else { return };
        let Some(change) = &mut operation.member_change else { return };
        match result {
            Ok(bytes) => change.bytes = bytes,
            Err(error) => change.failure = change.failure.take().or(Some(error)),
        }
        change.outstanding -= 1;
        if change.outstanding > 0 {
            return;
        }
        let step = change.step;
        // Whether the device that left could be told is not what the change is about.
        let failure = change.failure.take().filter(|_| step != Step::Farewell);
        let result = match failure {
            Some(error) => Err(ChangeError::Device(error).into()),
            None => self.next_member_step(key, step),
        };
        if let Err(failure) = result {
            self.member_change_failed(key, failure);
        }
    }

    fn member_change_failed(&mut self, key: OperationKey, failure: Failure) {
        if let Some(member) = self.member_change(key).member {
            self.engine.pool.io.dismiss(member);
        }
        self.finish(key, Err(failure));
    }

    fn next_member_step(&mut self, key: OperationKey, step: Step) -> Result<(), Failure> {
        match step {
            Step::Found => self.flush_mirror(key, Step::FoundFlush),
            Step::FoundFlush => self.mark_label(key, 0),
            Step::Mark { copy } => self.flush_mirror(key, Step::MarkFlush { copy }),
            Step::MarkFlush { copy } if copy + 1 < LABELS.len() => self.mark_label(key, copy + 1),
            Step::MarkFlush { .. } => {
                self.become_mirror(key);
                let Work::Change(Change::AttachMember { member, .. }) =
                    self.requests.table[key].work
                else {
                    return Ok(());
                };
                let device = self.member_change(key).device;
                let bytes = self.bytes_of(device);
                let place = self.engine.pool.io.admit(device, member, bytes).map_err(refused)?;
                self.label_member(key, place, member);
            }
            Step::Label => self.flush_member(key),
            Step::LabelFlush if self.is_about_witness(key) => return self.join(key),
            Step::LabelFlush => self.all_is_dirty(key),
            Step::Identify => return self.identified(key),
            Step::Dirty => return self.join(key),
            Step::Listing => {}
            Step::Farewell => self.finish(key, Ok(Outcome::Changed)),
        }
        Ok(())
    }

    /// The device joins, or comes back: the list says so. One that was lost meanwhile does not.
    fn join(&mut self, key: OperationKey) -> Result<(), Failure> {
        let (member, newest) = (self.member_change(key).member, self.member_change(key).newest);
        if !self.has_device(member) {
            return Err(ChangeError::MemberFailed.into());
        }
        self.member_change(key).step = Step::Listing;
        member.into_iter().for_each(|member| self.engine.pool.io.join(member, newest));
        self.look_at_list(key)
    }

    /// Whether the device of a member was not lost since the member was admitted.
    fn has_device(&self, member: Option<MemberPlace>) -> bool {
        let Some(MemberPlace { device, place }) = member else { return false };
        let mirror = self.engine.pool.io.mirror(device);
        mirror.is_some_and(|mirror| mirror.member(place).slot.is_some())
    }

    fn is_about_witness(&mut self, key: OperationKey) -> bool {
        let Some(MemberPlace { device, place }) = self.member_change(key).member else {
            return false;
        };
        let mirror = self.engine.pool.io.mirror(device);
        mirror.is_some_and(|mirror| mirror.member(place).state.is_witness())
    }

    /// Flushes the device, with the bits of its bitmap if it is a mirror.
    fn flush_mirror(&mut self, key: OperationKey, step: Step) {
        let change = self.member_change(key);
        (change.step, change.outstanding) = (step, 1);
        let device = change.device;
        self.engine.pool.io.flush(Waiter::Member { operation: key }, device);
    }

    fn mark_label(&mut self, key: OperationKey, copy: usize) {
        let change = self.member_change(key);
        (change.step, change.outstanding) = (Step::Mark { copy }, 1);
        let device = change.device;
        let label = self.label_of_mirror(device).emit().freeze();
        let waiter = Waiter::Member { operation: key };
        self.engine.pool.io.write(waiter, LABELS[copy].on(device), label.into());
    }

    fn become_mirror(&mut self, key: OperationKey) {
        let device = self.member_change(key).device;
        let list = self.first_list(device);
        let Some(slot) = io_slot(self, device) else { return };
        let uuid = list.mirror_uuid;
        let found = Found {
            device,
            list,
            slots: vec![Some(slot)],
            is_spread: true,
            witness: FoundWitness::default(),
        };
        self.engine.pool.io.become_mirror(found);
        self.engine.pool.io.with_mirrors(|mirrors| mirrors.tell(uuid));
    }

    /// A mirror that grows says so in its list before the pool relies on it: the bitmap covers what the
    /// list says. `false` while that is under way; the change is run again then.
    pub(super) fn has_grown_list(
        &mut self,
        key: OperationKey,
        device: DeviceNumber,
        size_bytes: u64,
    ) -> bool {
        if self.engine.pool.io.mirror(device).is_none() {
            return true;
        }
        self.engine.pool.io.grow_mirror(device, size_bytes);
        let is_settled = self.engine.pool.io.mirrors().is_settled();
        if !is_settled {
            self.awaiting_lists.push(key);
        }
        is_settled
    }

    fn flush_member(&mut self, key: OperationKey) {
        let change = self.member_change(key);
        (change.step, change.outstanding) = (Step::LabelFlush, 1);
        let Some(member) = change.member else { return };
        let waiter = Waiter::Member { operation: key };
        self.engine.pool.io.on_member(waiter, member, DeviceOperation::Flush);
    }

    fn all_is_dirty(&mut self, key: OperationKey) {
        let device = self.member_change(key).device;
        self.engine.pool.io.mark_all(device);
        self.flush_mirror(key, Step::Dirty);
    }

    /// A device that comes back is the member that it is said to be. If it has not seen the list before
    /// the one that left it out, it is older than that: nothing of it is believed.
    fn identified(&mut self, key: OperationKey) -> Result<(), Failure> {
        let change = self.member_change(key);
        let (Some(member), Some(bytes)) = (change.member, change.bytes.take()) else {
            return Err(ChangeError::NotThatMember.into());
        };
        let device = member.device;
        let Some(mirror) = self.engine.pool.io.mirror(device) else {
            return Err(ChangeError::NotThatMember.into());
        };
        // It may have left meanwhile.
        let is_listed = |uuid: [u8; 16]| mirror.place_of(uuid) == Some(member.place);
        let Work::Change(
            Change::ReturnMember { member: spec } | Change::ReturnWitness { member: spec },
        ) = &self.requests.table[key].work
        else {
            return Err(ChangeError::NoSuchMember.into());
        };
        if !is_listed(spec.uuid) {
            return Err(ChangeError::NoSuchMember.into());
        }
        let returned = mirror.member(member.place);
        let label = self.member_label(device, returned.uuid);
        let blocks = |places: [DeviceBlock; 2]| places.map(|place| block_of(&bytes, place));
        let is_it = blocks(MEMBER_LABELS).into_iter().flatten();
        if !is_it.filter_map(MemberLabel::parse).any(|found| found == label) {
            return Err(ChangeError::NotThatMember.into());
        }
        let lists = blocks(LISTS).into_iter().flatten().filter_map(List::parse);
        let own = lists.filter(|list| list.mirror_uuid == label.mirror_uuid);
        let own = own.max_by_key(|list| list.generation);
        let newest = own.as_ref().map_or(0, |list| list.generation);
        if returned.state.is_witness() {
            if !mirror.knows_of_witness(own.as_ref()) {
                return Err(ChangeError::NotThatMember.into());
            }
            self.member_change(key).newest = newest;
            return self.join(key);
        }
        // What was proposed before the list that left it out took effect with the witness, never took effect.
        let basis = own.as_ref().map_or(0, |list| list.basis);
        let is_overruled = mirror.relies_on_witness() && basis < returned.since;
        let own = own.as_ref().and_then(|list| list.entry(returned.uuid));
        let was_current = own.is_some_and(|entry| entry.state == MemberState::Current);
        if was_current && newest >= returned.since && !is_overruled {
            return Err(ChangeError::NotThatMember.into());
        }
        if newest + LISTS_SKIPPED_MAX < returned.since || newest >= returned.since {
            self.engine.pool.io.mark_all(device);
        }
        self.member_change(key).newest = newest;
        self.flush_mirror(key, Step::Dirty);
        Ok(())
    }

    /// Whether the list that was on its way is durable. Until it is, this is asked again.
    fn look_at_list(&mut self, key: OperationKey) -> Result<(), Failure> {
        let Work::Change(change) = &self.requests.table[key].work else { return Ok(()) };
        let joins = matches!(
            change,
            Change::AttachMember { .. }
                | Change::AttachWitness { .. }
                | Change::ReturnMember { .. }
                | Change::ReturnWitness { .. }
        );
        let leaves = matches!(
            change,
            Change::DetachMember { .. } | Change::Resilver(ResilverChange::Cancel { .. })
        );
        let member = self.member_change(key).member;
        if joins && self.has_failed(member) {
            self.member_change_failed(key, ChangeError::MemberFailed.into());
            return Ok(());
        }
        if !self.engine.pool.io.mirrors().is_settled() {
            self.awaiting_lists.push(key);
            return Ok(());
        }
        // No list is on its way any more, also where none can be made durable.
        let mirror = member.and_then(|member| self.engine.pool.io.mirror(member.device));
        if let Some(error) = mirror.and_then(|mirror| mirror.broken()) {
            let failure = ChangeError::Device(error.clone()).into();
            self.member_change_failed(key, failure);
            return Ok(());
        }
        match member {
            Some(left) if leaves => self.tell_left(key, left),
            Some(_) | None => self.finish(key, Ok(Outcome::Changed)),
        }
        Ok(())
    }

    /// Whether a member that joined was given up again.
    fn has_failed(&self, member: Option<MemberPlace>) -> bool {
        let Some(MemberPlace { device, place }) = member else { return false };
        let mirror = self.engine.pool.io.mirror(device);
        mirror.is_some_and(|mirror| mirror.member(place).state.is_away())
    }

    /// The device that left gets the list that does not name it, if it can be written: so it is not
    /// taken for a copy any more.
    fn tell_left(&mut self, key: OperationKey, left: MemberPlace) {
        let Some(mirror) = self.engine.pool.io.mirror(left.device) else { return };
        let list = mirror.list().emit().freeze();
        let change = self.member_change(key);
        (change.step, change.outstanding) = (Step::Farewell, LISTS.len());
        for block in LISTS {
            let waiter = Waiter::Member { operation: key };
            self.engine.pool.io.write_on_member(waiter, left, (block, list.clone().into()));
        }
    }
}

/// By how many generations the list that a member saw last may be older than the one that left it out.
const LISTS_SKIPPED_MAX: u64 = 3;

/// The slot of a plain device.
fn io_slot(serving: &Serving, device: DeviceNumber) -> Option<u8> {
    serving.engine.pool.io.plain_slot(device)
}

fn block_of(bytes: &[u8], place: DeviceBlock) -> Option<&[u8]> {
    let at = place.offset() as usize;
    bytes.get(at..at + block::BLOCK as usize)
}

fn refused(refusal: MemberRefusal) -> ChangeError {
    match refusal {
        MemberRefusal::TooMany => ChangeError::TooManyMembers,
        MemberRefusal::Taken => ChangeError::MemberTaken,
        MemberRefusal::NoSuchMember => ChangeError::NoSuchMember,
        MemberRefusal::TooSmall => ChangeError::MemberSize,
        MemberRefusal::Busy => ChangeError::MemberBusy,
        MemberRefusal::LastCurrent => ChangeError::LastMember,
        MemberRefusal::State => ChangeError::MemberPresent,
    }
}
