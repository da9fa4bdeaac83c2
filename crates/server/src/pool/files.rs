//! Files of a pool's devices that were moved, removed or cut short while they are in use: a member of
//! a mirror is left out then, if another current copy is there.

use block::DeviceName;
use device::Presence;
use store::{Health, MemberState};

use super::Pool;

/// Something that became known of a device's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileNews {
    pub(crate) device: DeviceName,
    pub(crate) presence: Presence,
    /// Whether its mirror goes on without it.
    pub(crate) is_left_out: bool,
}

impl Pool {
    /// Leaves those members out whose file was cut short or removed, and tells what was not told yet.
    /// A file that was cut short goes first: one that was removed is whole for as long as it is open.
    pub(crate) fn file_news(&mut self) -> Vec<FileNews> {
        if self.store.health() != Health::Ready {
            return Vec::new();
        }
        let mut left_out = self.leave_out(Presence::CutShort);
        left_out.extend(self.leave_out(Presence::Removed));
        let mut news = Vec::new();
        for slot in self.open_slots() {
            let Some(open) = self.devices.get_mut(usize::from(slot)) else { continue };
            let presence = open.device.presence();
            if std::mem::replace(&mut open.told, presence) != presence {
                let (device, is_left_out) = (open.name.clone(), left_out.contains(&slot));
                news.push(FileNews { device, presence, is_left_out });
            }
        }
        news
    }

    fn leave_out(&mut self, presence: Presence) -> Vec<u8> {
        let mut left_out = Vec::new();
        for slot in self.open_slots() {
            let Some(open) = self.devices.get(usize::from(slot)) else { continue };
            if open.is_lost || open.device.presence() != presence || !self.has_copy_beside(slot) {
                continue;
            }
            self.lose(slot);
            left_out.push(slot);
        }
        left_out
    }

    fn open_slots(&self) -> Vec<u8> {
        self.devices.iter().map(|(slot, _)| slot).collect()
    }

    /// Whether the device is a member of a mirror that has another current copy.
    fn has_copy_beside(&self, slot: u8) -> bool {
        self.mirrors().any(|mirror| {
            let is_member = mirror.members.iter().any(|member| member.slot == Some(slot));
            let is_other_copy = |member: &store::MemberStatus| {
                member.state == MemberState::Current
                    && member.slot.is_some_and(|other| other != slot)
            };
            is_member && mirror.members.iter().any(is_other_copy)
        })
    }
}
