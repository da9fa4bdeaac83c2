//! Members of a mirror in memory, and sets of them.

use std::ops::{Index, IndexMut};

use super::status::MemberState;

/// A member.
pub(crate) struct Member {
    pub(crate) uuid: [u8; 16],
    /// The caller's slot; `None` if it is not there.
    pub(crate) slot: Option<u8>,
    pub(crate) size_bytes: u64,
    /// What its copy is worth from now on; the list on the members may not say so yet.
    pub(crate) state: MemberState,
    /// Generation of the first list that says so.
    pub(crate) since: u64,
    /// Whether it belongs to the mirror; if not it is about to join, or has left.
    pub(crate) is_listed: bool,
    /// Bytes of its device, while a change looks at it to let it join or come back.
    pub(crate) admitted_bytes: Option<u64>,
    /// I/O under way.
    pub(crate) pending: usize,
    /// I/O that failed, and blocks that were not what was written.
    pub(crate) errors: u64,
    /// Reads of this period that it answered with errors.
    pub(crate) failed_reads: u32,
    /// Whether it was left out because of those.
    pub(crate) is_unreliable: bool,
    pub(crate) healed_blocks: u64,
}

impl Member {
    /// A member of which only the name is known.
    pub(crate) fn named(uuid: [u8; 16]) -> Self {
        Self {
            uuid,
            slot: None,
            size_bytes: 0,
            state: MemberState::Current,
            since: 0,
            is_listed: true,
            admitted_bytes: None,
            pending: 0,
            errors: 0,
            failed_reads: 0,
            is_unreliable: false,
            healed_blocks: 0,
        }
    }

    /// It joins, or comes back, with the device that was looked at. A device that does not changes nothing of
    /// what lists say of the member (86000742).
    pub(crate) fn takes_part(&mut self) {
        self.is_listed = true;
        self.size_bytes = self.admitted_bytes.take().unwrap_or(self.size_bytes);
    }

    /// Whether it may be read.
    pub(crate) fn is_readable(&self) -> bool {
        self.state == MemberState::Current && self.slot.is_some()
    }

    /// Whether it belongs to the mirror and has, or is to have, what is written.
    pub(crate) fn holds_copy(&self) -> bool {
        self.is_listed && !self.state.is_witness()
    }

    /// Whether it is a witness that is there.
    pub(crate) fn is_witness_there(&self) -> bool {
        self.is_listed && self.state == MemberState::Witness && self.slot.is_some()
    }

    /// Whether it gets what is written.
    pub(crate) fn is_written(&self) -> bool {
        self.state.counts() && self.slot.is_some()
    }
}

impl MemberState {
    /// Whether a write is done only when such a member has it.
    pub(crate) fn counts(self) -> bool {
        match self {
            Self::Current | Self::Resilvering => true,
            Self::Absent | Self::Witness | Self::WitnessAbsent => false,
        }
    }
}

/// A member, by its place in its mirror's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MemberNumber(usize);

impl MemberNumber {
    /// The member with so many before it.
    pub(crate) const fn new(index: usize) -> Self {
        Self(index)
    }

    /// How many members come before it.
    pub(crate) const fn index(self) -> usize {
        self.0
    }
}

impl Index<MemberNumber> for Vec<Member> {
    type Output = Member;

    fn index(&self, place: MemberNumber) -> &Member {
        &self[place.0]
    }
}

impl IndexMut<MemberNumber> for Vec<Member> {
    fn index_mut(&mut self, place: MemberNumber) -> &mut Member {
        &mut self[place.0]
    }
}

/// A mirror, by its place among those of its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MirrorNumber(usize);

impl MirrorNumber {
    /// The place of a mirror that was forgotten.
    pub(crate) const NONE: Self = Self(usize::MAX);

    /// The mirror with so many before it.
    pub(crate) const fn new(index: usize) -> Self {
        Self(index)
    }

    /// How many mirrors come before it.
    pub(crate) const fn index(self) -> usize {
        self.0
    }

    /// Its place when another mirror was forgotten.
    pub(crate) fn after_removal_of(self, gone: Self) -> Self {
        if self > gone && self != Self::NONE { Self(self.0 - 1) } else { self }
    }
}

/// Why a change of a mirror's members is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberRefusal {
    /// It has as many members as it can have.
    TooMany,
    /// A member has that name, or uses that slot.
    Taken,
    /// There is no such member.
    NoSuchMember,
    /// It is smaller than the logical device.
    TooSmall,
    /// I/O of the last time that it was there is still under way.
    Busy,
    /// Without it no current copy would be left.
    LastCurrent,
    /// It is not in the state that the change is about.
    State,
}

/// A set of members of one mirror, by their places in its list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemberSet(u32);

impl MemberSet {
    pub(crate) fn of(member: MemberNumber) -> Self {
        Self(1 << member.0)
    }

    pub(crate) fn insert(&mut self, member: MemberNumber) {
        self.0 |= 1 << member.0;
    }

    pub(crate) fn remove(&mut self, member: MemberNumber) {
        self.0 &= !(1 << member.0);
    }

    pub(crate) fn contains(self, member: MemberNumber) -> bool {
        self.0 & 1 << member.0 != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members that are in both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The members that are in one of them.
    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The members that are not in another set.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Its members.
    pub(crate) fn iter(self) -> impl Iterator<Item = MemberNumber> {
        (0..32).map(MemberNumber).filter(move |&member| self.contains(member))
    }
}

impl FromIterator<MemberNumber> for MemberSet {
    fn from_iter<I: IntoIterator<Item = MemberNumber>>(members: I) -> Self {
        let mut set = Self::default();
        members.into_iter().for_each(|member| set.insert(member));
        set
    }
}
