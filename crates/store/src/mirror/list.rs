//! Membership list of a mirror: which members hold current copies. It lies on every member, in two
//! slots by its generation, and is independent of checkpoints.

use block::{BLOCK, Buffer};

use super::member::{MemberNumber, MemberSet};
use super::sealed::{crc_of, is_sealed, seal, u32_at, u64_at, uuid_at};
use super::status::MemberState;
use crate::address::DeviceBlock;
use crate::limits::MIRROR_ENTRIES_MAX;
use crate::options::{DeviceSpec, MemberSpec};

const MAGIC: [u8; 8] = *b"GANTRYML";

/// Where the list lies: that of generation g in place g mod 2.
pub(crate) const LISTS: [DeviceBlock; 2] = [DeviceBlock::new(8), DeviceBlock::new(9)];

const ENTRIES_AT: usize = 128;
const ENTRY_BYTES: usize = 64;

/// What a list says of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListEntry {
    pub(crate) uuid: [u8; 16],
    pub(crate) size_bytes: u64,
    pub(crate) state: MemberState,
    /// The generation of the first list that says so.
    pub(crate) since: u64,
}

/// Tells a list from all others, also from those of its generation that somebody else proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListName {
    pub(crate) generation: u64,
    crc: u32,
}

/// The members of a mirror as of one generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) pool_uuid: [u8; 16],
    pub(crate) mirror_uuid: [u8; 16],
    /// Rises with every list.
    pub(crate) generation: u64,
    /// Whether resilvering rests until an administrator lets it go on.
    pub(crate) paused: bool,
    /// Generation of the last list that took effect with the witness, before this one was proposed; 0 if there was
    /// none. Two owners that proposed lists apart from each other are told from one another by it.
    pub(crate) basis: u64,
    /// The list that was sent to the witness last before this one was proposed, if it is not known to be there: it
    /// may come there at any time.
    pub(crate) sent: Option<ListName>,
    pub(crate) entries: Vec<ListEntry>,
}

/// A list that is on its way to the members.
pub(super) struct ListChange {
    pub(super) list: List,
    /// Members on which it is being written, is written, and is being flushed.
    pub(super) writing: MemberSet,
    pub(super) written: MemberSet,
    pub(super) flushing: MemberSet,
    /// Members that have it for good.
    pub(super) done: MemberSet,
    /// The witness that gets it when the others have it.
    pub(super) witness: Option<MemberNumber>,
    /// The caller is asked to keep its generation.
    pub(super) is_told: bool,
}

impl ListChange {
    /// Whether a member has not written or flushed it yet.
    pub(super) fn is_under_way(&self) -> bool {
        let unfinished = [self.writing, self.written, self.flushing];
        unfinished.iter().any(|members| !members.is_empty())
    }
}

impl List {
    /// The first list of a mirror that is made.
    pub(crate) fn first(pool_uuid: [u8; 16], device: &DeviceSpec) -> Self {
        let entry = |member: &MemberSpec| ListEntry {
            uuid: member.uuid,
            size_bytes: member.size_bytes,
            state: MemberState::Current,
            since: 1,
        };
        let entries = device.members.iter().map(entry).collect();
        Self {
            pool_uuid,
            mirror_uuid: device.uuid,
            generation: 1,
            paused: false,
            basis: 0,
            sent: None,
            entries,
        }
    }

    /// Where a list of a generation lies on each member.
    pub(crate) fn place(generation: u64) -> DeviceBlock {
        LISTS[(generation % 2) as usize]
    }

    pub(crate) fn emit(&self) -> Buffer {
        let mut bytes = Buffer::zeroed(BLOCK as usize);
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.generation.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.pool_uuid);
        bytes[32..48].copy_from_slice(&self.mirror_uuid);
        bytes[48..56].copy_from_slice(&(self.entries.len() as u64).to_le_bytes());
        bytes[56..64].copy_from_slice(&u64::from(self.paused).to_le_bytes());
        bytes[64..72].copy_from_slice(&self.basis.to_le_bytes());
        if let Some(ListName { generation, crc }) = self.sent {
            bytes[72..80].copy_from_slice(&generation.to_le_bytes());
            bytes[80..84].copy_from_slice(&crc.to_le_bytes());
        }
        let places = bytes[ENTRIES_AT..].as_chunks_mut::<ENTRY_BYTES>().0;
        for (entry, place) in self.entries.iter().zip(places) {
            place[..16].copy_from_slice(&entry.uuid);
            place[16..24].copy_from_slice(&entry.size_bytes.to_le_bytes());
            place[24..32].copy_from_slice(&entry.since.to_le_bytes());
            place[32] = match entry.state {
                MemberState::Current => 1,
                MemberState::Resilvering => 2,
                MemberState::Absent => 3,
                MemberState::Witness => 4,
                MemberState::WitnessAbsent => 5,
            };
        }
        seal(bytes)
    }

    /// Reads a list; `None` if there is none, it is damaged, or makes no sense.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        if !is_sealed(bytes) || bytes[..8] != MAGIC {
            return None;
        }
        let count = u64_at(bytes, 48);
        if !(1..=MIRROR_ENTRIES_MAX as u64).contains(&count) {
            return None;
        }
        let places = bytes[ENTRIES_AT..].as_chunks::<ENTRY_BYTES>().0;
        let entries = places.iter().take(count as usize).map(|place| {
            let state = match place[32] {
                1 => MemberState::Current,
                2 => MemberState::Resilvering,
                3 => MemberState::Absent,
                4 => MemberState::Witness,
                5 => MemberState::WitnessAbsent,
                _ => return None,
            };
            let uuid = uuid_at(place, 0);
            Some(ListEntry { uuid, size_bytes: u64_at(place, 16), state, since: u64_at(place, 24) })
        });
        Some(Self {
            pool_uuid: uuid_at(bytes, 16),
            mirror_uuid: uuid_at(bytes, 32),
            generation: u64_at(bytes, 8),
            paused: u64_at(bytes, 56) != 0,
            basis: u64_at(bytes, 64),
            sent: (u64_at(bytes, 72) != 0)
                .then(|| ListName { generation: u64_at(bytes, 72), crc: u32_at(bytes, 80) }),
            entries: entries.collect::<Option<_>>()?,
        })
    }

    /// What tells it from all others.
    pub(crate) fn name(&self) -> ListName {
        ListName { generation: self.generation, crc: crc_of(&self.emit()) }
    }

    /// Whether it is the list that lies on the witness, or was proposed by somebody who knew of that one. One that was
    /// not never took effect.
    pub(crate) fn follows(&self, of_witness: &Self) -> bool {
        self.basis >= of_witness.generation
            || self.sent == Some(of_witness.name())
            || self == of_witness
    }

    /// The witness that it relies on.
    pub(crate) fn witness(&self) -> Option<[u8; 16]> {
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.state == MemberState::Witness).map(|entry| entry.uuid)
    }

    /// What it says of members that hold copies.
    pub(crate) fn copies(&self) -> impl Iterator<Item = &ListEntry> {
        self.entries.iter().filter(|entry| !entry.state.is_witness())
    }

    /// The names of the members that it calls current.
    pub(crate) fn current(&self) -> impl Iterator<Item = [u8; 16]> {
        let entries = self.entries.iter();
        entries.filter(|entry| entry.state == MemberState::Current).map(|entry| entry.uuid)
    }

    /// The state of a member; `None` if the list does not know it.
    pub(crate) fn entry(&self, member: [u8; 16]) -> Option<&ListEntry> {
        self.entries.iter().find(|entry| entry.uuid == member)
    }
}
