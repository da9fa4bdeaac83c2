//! Independent reader of what only mirrors have: member labels and membership lists.

use block::BLOCK;

use super::format::{u32_at, u64_at};
use crate::disk::SimDisk;

/// Blocks of the member label.
const MEMBER_LABELS: [u64; 2] = [4, 5];

/// Blocks of the membership list, by generation.
const LISTS: [u64; 2] = [8, 9];

const MEMBER_MAGIC: &[u8] = b"GANTRYMB";
const LIST_MAGIC: &[u8] = b"GANTRYML";
const MEMBERS_AT: usize = 128;
const MEMBER_BYTES: usize = 64;
const CRC_AT: usize = BLOCK as usize - 4;

/// What a list says of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    Current,
    Resilvering,
    Absent,
}

/// A membership list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List {
    /// Name of the device of the pool.
    pub(crate) mirror: [u8; 16],
    pub(crate) generation: u64,
    pub(crate) members: Vec<([u8; 16], Worth)>,
}

impl List {
    /// Reads a list; `None` if there is none, or a damaged one.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        if !is_whole(bytes, LIST_MAGIC) {
            return None;
        }
        let records = bytes[MEMBERS_AT..CRC_AT].chunks(MEMBER_BYTES);
        let members = records.take(u64_at(bytes, 48) as usize).map(|record| {
            let worth = match record[32] {
                1 => Worth::Current,
                2 => Worth::Resilvering,
                3 => Worth::Absent,
                _ => return None,
            };
            Some((uuid_at(record, 0), worth))
        });
        Some(Self {
            mirror: uuid_at(bytes, 32),
            generation: u64_at(bytes, 8),
            members: members.collect::<Option<_>>()?,
        })
    }

    /// The newest list that is stable on a disk.
    pub(crate) fn newest(disk: &SimDisk) -> Option<Self> {
        let lists = LISTS.into_iter().filter_map(|block| Self::parse(disk.stable_block(block)));
        lists.max_by_key(|list| list.generation)
    }

    /// Whether a list lies in this block of a member.
    pub(crate) fn lies_in(block: u64) -> bool {
        LISTS.contains(&block)
    }

    /// What the list says of a member.
    pub(crate) fn worth(&self, member: [u8; 16]) -> Option<Worth> {
        self.members.iter().find(|(uuid, _)| *uuid == member).map(|(_, worth)| *worth)
    }

    /// Whether a member holds everything.
    pub(crate) fn is_current(&self, member: [u8; 16]) -> bool {
        self.worth(member) == Some(Worth::Current)
    }

    /// Whether all members hold everything.
    pub(crate) fn is_complete(&self) -> bool {
        self.members.iter().all(|(_, worth)| *worth == Worth::Current)
    }
}

/// The member that the labels of a disk name; `None` if it is none, or both labels are damaged.
pub(crate) fn member_of(disk: &SimDisk) -> Option<[u8; 16]> {
    let mut labels = MEMBER_LABELS.into_iter().map(|block| disk.stable_block(block));
    labels.find(|bytes| is_whole(bytes, MEMBER_MAGIC)).map(|bytes| uuid_at(bytes, 48))
}

fn is_whole(bytes: &[u8], magic: &[u8]) -> bool {
    bytes.starts_with(magic) && crc32c::crc32c(&bytes[..CRC_AT]) == u32_at(bytes, CRC_AT)
}

fn uuid_at(bytes: &[u8], at: usize) -> [u8; 16] {
    bytes[at..at + 16].try_into().expect("16 bytes")
}
