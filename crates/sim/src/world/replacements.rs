//! Replacements of copies, as the daemon carries them out: another copy joins, is not filled from the one
//! that it replaces, and that one leaves when the new one is current.

use store::Change;

use super::World;
use super::slots::{Member, State};
use crate::action::Action;
use crate::oracle::{Violation, violation};

/// Copies of a hundred that join in the place of another one.
const REPLACED_PERCENT: u64 = 40;

/// A copy that joins in the place of another one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replacement {
    device: usize,
    old: [u8; 16],
    new: [u8; 16],
    /// The pool was not opened again since: the engine has known from the first block that the old one is
    /// going to leave.
    is_told: bool,
}

/// Blocks of a copy that have rotted.
#[derive(Clone, Debug)]
pub(super) struct Rotted {
    pub(super) copy: [u8; 16],
    /// Each with what it has become.
    pub(super) blocks: Vec<(u64, Vec<u8>)>,
}

impl World {
    /// A copy joins, which may take the place of one that is there.
    pub(super) fn attach_for(&mut self, device: usize) {
        let old = self.pick_replaced(device);
        // As the daemon does: before the new one joins.
        old.into_iter().for_each(|old| self.store.going_to_leave(old));
        let Some(new) = self.attach_to(device) else { return };
        self.replacement =
            old.map(|old| Replacement { device, old, new, is_told: true }).or(self.replacement);
    }

    fn pick_replaced(&mut self, device: usize) -> Option<[u8; 16]> {
        if self.replacement.is_some() || !self.replaces.percent(REPLACED_PERCENT) {
            return None;
        }
        let members = self.slots.devices.get(device)?;
        let is_member = |member: &&Member| self.state_of(member.uuid).is_some();
        let members: Vec<&Member> = members.iter().filter(is_member).collect();
        // Administrators replace what went wrong, if anything did.
        let has_spoilt = members.iter().any(|member| member.is_spoilt());
        let is_chosen = |member: &&&Member| member.is_spoilt() || !has_spoilt;
        let members: Vec<[u8; 16]> = members.iter().filter(is_chosen).map(|m| m.uuid).collect();
        (!members.is_empty()).then(|| members[self.replaces.below(members.len() as u64) as usize])
    }

    /// The engine does not keep over an opening who is going to leave.
    pub(super) fn forget_who_leaves(&mut self) {
        self.replacement.iter_mut().for_each(|replacement| replacement.is_told = false);
    }

    /// The daemon looks every now and then.
    pub(super) fn go_on_replacing(&mut self) -> Result<(), Violation> {
        let Some(Replacement { device, old, new, .. }) = self.replacement else { return Ok(()) };
        let place_of = |uuid| {
            let members = self.slots.devices.get(device)?.iter();
            members.clone().position(|member| member.uuid == uuid)
        };
        let (Some(place), Some(_)) = (place_of(old), place_of(new)) else {
            self.replacement = None;
            return Ok(());
        };
        self.store.going_to_leave(old);
        let member = self.slots.devices[device][place];
        let is_settled = !matches!(member.state, State::Joining | State::Leaving)
            && !self.is_coming_back(old)
            && self.state_of(old).is_some();
        let counts = member.state == State::Sound && self.is_current(old);
        let is_sound_left = self.sound_copies(device) > usize::from(counts);
        if self.is_current(new) && is_settled && is_sound_left && self.replaces.one_in(4) {
            self.check_no_rot_was_copied()?;
            self.slots.devices[device][place].leave();
            self.submit(Action::Change(Change::DetachMember { member: old }));
        }
        Ok(())
    }

    /// What had rotted of the copy that leaves is not what the new one has got.
    fn check_no_rot_was_copied(&self) -> Result<(), Violation> {
        let Some(Replacement { device, old, new, .. }) = self.replacement else { return Ok(()) };
        let rotted = self.rotted.as_ref().filter(|rotted| rotted.copy == old);
        let (Some(rotted), true) = (rotted, self.is_no_source(device, old)) else { return Ok(()) };
        let disk_of = |uuid| {
            let mut members = self.slots.devices[device].iter();
            members.find(|member| member.uuid == uuid).map(|member| &self.disks[member.slot])
        };
        let (Some(from), Some(to)) = (disk_of(old), disk_of(new)) else { return Ok(()) };
        let sound = &self.disks[self.slots.reference(device)];
        let is_copied = |(block, rot): &&(u64, Vec<u8>)| {
            let [is_in_old, is_in_new, is_in_sound] =
                [from, to, sound].map(|disk| disk.stable_block(*block) == rot);
            is_in_old && is_in_new && !is_in_sound
        };
        match rotted.blocks.iter().find(is_copied) {
            Some((block, _)) => violation(format!(
                "block {block} of device {device} has rotted in a copy that leaves, and was copied from it"
            )),
            None => Ok(()),
        }
    }

    /// Whether no other copy is filled from this one, since it is going to leave and a sound one is there. A
    /// copy that fails reads is no such one: then all are asked.
    pub(super) fn is_no_source(&self, device: usize, uuid: [u8; 16]) -> bool {
        let is_replaced = self
            .replacement
            .is_some_and(|replacement| replacement.is_told && replacement.old == uuid);
        let is_source =
            |m: &Member| m.uuid != uuid && m.state == State::Sound && self.is_current(m.uuid);
        let has_faults = self.profile.faults.is_some();
        is_replaced && !has_faults && self.slots.devices[device].iter().any(is_source)
    }
}
