//! Mirrors of a pool that is imported: which members were found, which are missing, and whether a missing
//! one may have newer data than those that were found.
//!
//! The newest membership list on the devices that were found decides. A list is on every member that
//! counted when it was made: so if all that it calls current were found there is no newer one, and if one
//! of them is missing there may be.

use std::collections::BTreeMap;

use array::RecordKey;
use block::DeviceName;
use notation::format_size;
use store::{DeviceIdentity, ListedMembers, MemberState};

use super::{FoundPool, Members, Taking, recorded_name};
use crate::members::{describe_state, hex};
use crate::pool_records::Found;

/// A mirror of a pool that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundMirror {
    /// Its number among the pool's devices.
    pub index: u32,
    /// Its members, as the newest list that was found has them.
    pub members: Vec<FoundMember>,
    /// Whether the array knows that there is no newer list than that.
    pub is_newest: bool,
}

/// A member of such a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundMember {
    /// Its name in the world.
    pub uuid: [u8; 16],
    /// Where it was found; `None` if it is missing.
    pub device: Option<DeviceName>,
    /// Where the pool's own record says that it was last, if that could be read.
    pub last_device: Option<DeviceName>,
    /// Its bytes.
    pub size_bytes: u64,
    /// What its copy is worth.
    pub state: MemberState,
    /// Generation of the list that it has itself.
    pub generation: Option<u64>,
}

/// A device that was found: where, what it is, and what it knows of the other members of its mirror.
pub type FoundDevice<'a> = (&'a DeviceName, &'a DeviceIdentity, Option<&'a ListedMembers>);

/// Groups devices into mirrors, in the order of the pool's devices; plain devices are left out.
/// `witnessed` are the generations of the newest lists that the array knows, by mirror.
pub fn mirrors_of<'a>(
    devices: impl Iterator<Item = FoundDevice<'a>>,
    witnessed: &[([u8; 16], u64)],
) -> Vec<FoundMirror> {
    let mut by_mirror: BTreeMap<(u32, [u8; 16]), Vec<FoundDevice<'a>>> = BTreeMap::new();
    for device in devices {
        let (_, identity, _) = device;
        if identity.member.is_some() {
            let mirror = (identity.index, identity.device_uuid);
            by_mirror.entry(mirror).or_default().push(device);
        }
    }
    let mirrors = by_mirror.into_iter().filter_map(|((index, uuid), devices)| {
        let lists = devices.iter().filter_map(|(.., list)| *list);
        let newest = lists.max_by_key(|list| list.generation)?;
        let members = newest.members.iter().map(|listed| {
            let is_it = |(_, identity, _): &&FoundDevice<'_>| identity.member == Some(listed.uuid);
            let found = devices.iter().find(is_it);
            FoundMember {
                uuid: listed.uuid,
                device: found.map(|(name, ..)| (*name).clone()),
                last_device: None,
                size_bytes: listed.size_bytes,
                state: listed.state,
                generation: found.and_then(|(.., list)| Some((*list)?.generation)),
            }
        });
        let is_newest = witnessed.contains(&(uuid, newest.generation));
        Some(FoundMirror { index, members: members.collect(), is_newest })
    });
    mirrors.collect()
}

/// Says of each member where the pool's own record has it.
pub fn name_last_devices(mirrors: &mut [FoundMirror], records: &BTreeMap<RecordKey, Found>) {
    let Some((_, record)) = recorded_name(records) else { return };
    for member in mirrors.iter_mut().flat_map(|mirror| &mut mirror.members) {
        let known = record.members.iter().find(|known| known.uuid == member.uuid);
        member.last_device = known.map(|known| known.device.clone());
    }
}

impl FoundMirror {
    /// Members that are missing and may have newer data.
    fn lacking(&self) -> impl Iterator<Item = &FoundMember> {
        let is_current = |member: &&FoundMember| member.state == MemberState::Current;
        self.members.iter().filter(is_current).filter(|member| member.device.is_none())
    }

    /// Why what was found of it cannot be used at all, if nothing else is wrong with the pool.
    pub fn why_not(&self) -> Option<String> {
        let lacking: Vec<String> = self.lacking().map(FoundMember::text).collect();
        let found = self.members.iter().filter_map(|member| member.device.as_ref());
        let found: Vec<String> = found.map(ToString::to_string).collect();
        (!lacking.is_empty()).then(|| {
            format!(
                "of mirror {} only {} was found, and that is stale: newer data is on {}, which must \
                 be there. Nothing was changed",
                self.index,
                found.join(", "),
                lacking.join(" and ")
            )
        })
    }

    fn describe(&self) -> api::FoundMirror {
        let member = |member: &FoundMember| api::FoundMember {
            uuid: hex(member.uuid),
            device: member.device.as_ref().map(ToString::to_string),
            last_device: member.last_device.as_ref().map(ToString::to_string),
            size_bytes: member.size_bytes,
            state: describe_state(member.state),
            generation: member.generation,
        };
        let is_whole =
            |member: &FoundMember| member.state == MemberState::Current && member.device.is_some();
        let is_copy = |member: &&FoundMember| !member.state.is_witness();
        api::FoundMirror {
            index: self.index as usize,
            degraded: !self.members.iter().filter(is_copy).all(is_whole),
            members: self.members.iter().map(member).collect(),
        }
    }
}

impl FoundMember {
    /// How it is called. A missing one's device may have another name elsewhere, so its identity and
    /// size are told, too.
    fn text(&self) -> String {
        let (uuid, size) = (hex(self.uuid), format_size(self.size_bytes));
        match (&self.device, &self.last_device) {
            (Some(device), _) => device.to_string(),
            (None, Some(last)) => format!("the device of member {uuid} ({size}, last at {last})"),
            (None, None) => format!("the device of member {uuid} ({size})"),
        }
    }
}

impl Taking<'_> {
    /// Says what is known of the mirrors; a member that may have newer data is a collision.
    pub(super) fn take_mirrors(&mut self, found: &FoundPool) {
        self.report.mirrors = found.mirrors.iter().map(FoundMirror::describe).collect();
        for mirror in &found.mirrors {
            for member in &mirror.members {
                self.take_member(mirror, member);
            }
        }
    }

    fn take_member(&mut self, mirror: &FoundMirror, member: &FoundMember) {
        let (index, text) = (mirror.index, member.text());
        match (member.state, &member.device, self.choices.members) {
            (MemberState::Current | MemberState::Witness, Some(_), _) => {}
            (MemberState::WitnessAbsent, Some(_), _) => {
                self.change(format!("{text} of mirror {index} is its witness again"));
            }
            (MemberState::Witness | MemberState::WitnessAbsent, None, _) => {
                self.report.missing.push(format!(
                    "{text} of mirror {index}, its witness: until that is there no controller opens the mirror \
                     without some of its members"
                ));
            }
            (MemberState::Current, None, _) if mirror.is_newest => {
                self.report.missing.push(format!(
                    "{text} of mirror {index}, which has nothing newer: the mirror is degraded until \
                     that is there or another one is attached"
                ));
            }
            (MemberState::Current, None, Members::Needed) => self.collide(
                format!(
                    "{text} of mirror {index} is missing, and was current when what was found was \
                     last written: it may have newer data"
                ),
                "that device (name it, or --scan where it is), or --degraded to give up what only it \
                 has",
            ),
            (MemberState::Current, None, Members::GivenUp) => self.report.missing.push(format!(
                "{text} of mirror {index}: what was written while only that was in use is given up \
                 (--degraded); never bring it back as it is"
            )),
            (MemberState::Resilvering | MemberState::Absent, Some(_), _) => {
                self.change(format!("{text} of mirror {index} is stale, and is filled"));
            }
            (MemberState::Resilvering | MemberState::Absent, None, _) => {
                self.report.missing.push(format!(
                    "{text} of mirror {index}, which was not current: the mirror is degraded until \
                     that is there or another one is attached"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests;
