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
    /// It holds no copy, only the membership list: whoever holds it may open the mirror without some of its
    /// current members.
    Witness,
    /// A witness that is not there, or failed: its list counts for nothing.
    WitnessAbsent,
}

impl MemberState {
    /// Whether it is of a witness, which holds no copy.
    pub fn is_witness(self) -> bool {
        match self {
            Self::Witness | Self::WitnessAbsent => true,
            Self::Current | Self::Resilvering | Self::Absent => false,
        }
    }

    /// Whether nothing of it is used.
    pub fn is_away(self) -> bool {
        match self {
            Self::Absent | Self::WitnessAbsent => true,
            Self::Current | Self::Resilvering | Self::Witness => false,
        }
    }
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
    /// The members, and its witness if it has one.
    pub members: Vec<MemberStatus>,
    /// Slots of the members with one of which somebody who holds the witness could open it; `None` if one of these is
    /// not there, empty if no list relies on a witness.
    pub rivals: Option<Vec<u8>>,
    /// How the resilver of a member is doing, if one has to be resilvered.
    pub resilver: Option<ResilverStatus>,
}

impl MirrorStatus {
    /// Whether it has a copy that is not current: fewer may fail than it has copies for.
    pub fn is_degraded(&self) -> bool {
        self.copies().any(|member| member.state != MemberState::Current)
    }

    /// Whether somebody who holds the witness and one current member could open it without the others: until a list
    /// that says otherwise is durable on every current member.
    pub fn relies_on_witness(&self) -> bool {
        self.rivals.as_ref().is_none_or(|rivals| !rivals.is_empty())
    }

    /// Slots in which heartbeats of its owner prove together that nobody else has opened it: each of these sets alone.
    ///
    /// Whoever opens it has all its current members; where it relies on a witness, every copy, or the witness and one
    /// of the current ones.
    pub fn proofs(&self) -> Vec<Vec<u8>> {
        if !self.relies_on_witness() {
            return self.members.iter().filter_map(|member| Some(vec![member.slot?])).collect();
        }
        let is_there = |member: &&MemberStatus| member.state == MemberState::Witness;
        let witness = self.members.iter().find(is_there).and_then(|witness| witness.slot);
        let copies = self.copies().filter_map(|copy| Some(vec![witness?, copy.slot?]));
        copies.chain(self.rivals.clone()).collect()
    }

    /// The members that hold copies.
    pub fn copies(&self) -> impl Iterator<Item = &MemberStatus> {
        self.members.iter().filter(|member| !member.state.is_witness())
    }

    /// A device that is no mirror.
    pub(crate) fn plain(device: DeviceNumber, spec: MemberSpec) -> Self {
        let MemberSpec { uuid, slot, size_bytes } = spec;
        let member = MemberStatus {
            uuid,
            slot: Some(slot),
            is_returning: false,
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
            rivals: Some(Vec::new()),
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
        DeviceSpec::mirror(uuid, self.copies().filter_map(member).collect())
    }
}

/// A member of a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its name.
    pub uuid: [u8; 16],
    /// The caller's slot; `None` for one that is not there.
    pub slot: Option<u8>,
    /// Whether its device was given back to the engine, which is looking at it: it is away, but not lost.
    pub is_returning: bool,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn mirror(states: &[(MemberState, Option<u8>)], rivals: Option<Vec<u8>>) -> MirrorStatus {
        let member = |(number, &(state, slot)): (u8, &(MemberState, Option<u8>))| MemberStatus {
            uuid: [number; 16],
            slot,
            is_returning: false,
            size_bytes: 0,
            state,
            errors: 0,
            is_unreliable: false,
            healed_blocks: 0,
            since: 1,
        };
        let members = (0..).zip(states).map(member).collect();
        let (device, uuid, generation) = (0, [9; 16], 3);
        let (size_bytes, is_mirror, resilver) = (0, true, None);
        MirrorStatus { device, uuid, size_bytes, is_mirror, generation, members, rivals, resilver }
    }

    #[test]
    fn what_proves_ownership_meets_whatever_another_one_opens_with() {
        use MemberState::{Absent, Current, Witness, WitnessAbsent};
        let plain = mirror(&[(Current, Some(3)), (Absent, None)], Some(Vec::new()));
        assert_eq!(plain.proofs(), [[3]]);
        let states = [(Current, Some(0)), (Current, Some(1)), (Witness, Some(2))];
        let whole = mirror(&states, Some(vec![0, 1]));
        assert_eq!(whole.proofs(), [[2, 0], [2, 1], [0, 1]]);
        // A member was lost, and with it the witness: the other member proves nothing.
        let isolated = mirror(&[(Current, Some(0)), (Absent, None), (WitnessAbsent, None)], None);
        assert!(isolated.proofs().is_empty());
        let degraded = mirror(&[(Current, Some(0)), (Absent, None), (Witness, Some(2))], None);
        assert_eq!(degraded.proofs(), [[2, 0]]);
    }
}
