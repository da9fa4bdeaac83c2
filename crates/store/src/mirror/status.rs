//! Status of mirrors for callers: their members, what failed, what was mended.

use crate::address::DeviceNumber;
use crate::options::{DeviceSpec, MemberSpec};

use super::resilver::ResilverStatus;

/// What a member's copy is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It holds all that was acknowledged.
    Current,
    /// It gets every write, and what is older is being copied to it.
    Resilvering,
    /// It is not there, or failed: its copy is stale, and never read.
    Absent,
}

/// A logical device and its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorStatus {
    /// Number of the logical device, in the order in which they joined.
    pub device: u8,
    /// Its name.
    pub uuid: [u8; 16],
    /// Bytes of it that the pool uses.
    pub size_bytes: u64,
    /// Whether it is a mirror; a plain device has one member of the device's own name.
    pub is_mirror: bool,
    /// Generation of the membership list; 0 for a plain device.
    pub generation: u64,
    /// The members.
    pub members: Vec<MemberStatus>,
    /// How the resilver of a member is doing, if one has to be resilvered.
    pub resilver: Option<ResilverStatus>,
}

impl MirrorStatus {
    /// Whether it has a member that is not current: fewer may fail than it has copies for.
    pub fn is_degraded(&self) -> bool {
        self.members.iter().any(|member| member.state != MemberState::Current)
    }

    /// A device that is no mirror.
    pub(crate) fn plain(device: DeviceNumber, spec: MemberSpec) -> Self {
        let MemberSpec { uuid, slot, size_bytes } = spec;
        let member = MemberStatus {
            uuid,
            slot: Some(slot),
            size_bytes,
            state: MemberState::Current,
            errors: 0,
            is_unreliable: false,
            healed_blocks: 0,
            since: 0,
        };
        Self {
            device: device.number(),
            uuid,
            size_bytes,
            is_mirror: false,
            generation: 0,
            members: vec![member],
            resilver: None,
        }
    }

    /// The device as it would be made anew.
    pub(crate) fn spec(&self, uuid: [u8; 16]) -> DeviceSpec {
        let slot = self.members.first().and_then(|member| member.slot).unwrap_or(0);
        if !self.is_mirror {
            return DeviceSpec::plain(MemberSpec { uuid, slot, size_bytes: self.size_bytes });
        }
        let member = |member: &MemberStatus| {
            let MemberStatus { uuid, slot, size_bytes, .. } = *member;
            Some(MemberSpec { uuid, slot: slot?, size_bytes })
        };
        DeviceSpec::mirror(uuid, self.members.iter().filter_map(member).collect())
    }
}

/// A member of a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its name.
    pub uuid: [u8; 16],
    /// The caller's slot; `None` for one that is not there.
    pub slot: Option<u8>,
    /// Its bytes.
    pub size_bytes: u64,
    /// What its copy is worth.
    pub state: MemberState,
    /// I/O that failed, and blocks that were not what was written, since the pool was opened.
    pub errors: u64,
    /// Whether it was left out because it answered [`crate::limits::READ_ERRORS_MAX`] reads with errors within
    /// [`crate::limits::READ_ERRORS_PERIOD`], and has not come back since.
    pub is_unreliable: bool,
    /// Blocks that were written again from another copy, since the pool was opened.
    pub healed_blocks: u64,
    /// Generation of the membership list since which the state is as it is.
    pub since: u64,
}

/// A membership list that was made durable. The caller keeps its generation before anything that the
/// list made stale is answered ([`crate::Store::membership_witnessed`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The mirror: the name of the logical device.
    pub mirror: [u8; 16],
    /// Generation of the list.
    pub generation: u64,
}
