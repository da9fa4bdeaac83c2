//! Tells what a device is by its labels, without opening a pool: for whoever looks for pools.

use block::BLOCK;

use crate::address::DeviceBlock;
use crate::error::OpenError;
use crate::layout::LABELS;
use crate::mirror::{LISTS, List, ListEntry, MEMBER_LABELS, MemberLabel, MemberState};
use crate::superblock::{FEATURES_KNOWN, FORMAT_VERSION, Label, LabelError};

/// What a device says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceIdentity {
    /// Its pool.
    pub pool_uuid: [u8; 16],
    /// Its own name in the world.
    pub device_uuid: [u8; 16],
    /// Its place in the pool, from 0 on; members of a mirror have the same.
    pub index: u32,
    /// Which member of a mirror it is, if it is one.
    pub member: Option<[u8; 16]>,
}

/// What a member of a mirror knows of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedMembers {
    /// Generation of its newest intact membership list.
    pub generation: u64,
    /// The members, and what their copies were worth then.
    pub members: Vec<ListedMember>,
}

/// A member as a membership list has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedMember {
    /// Its name.
    pub uuid: [u8; 16],
    /// Its bytes.
    pub size_bytes: u64,
    /// What its copy was worth.
    pub state: MemberState,
}

/// Bytes at the start of a device that [`identify`] and [`listed_members`] look at.
pub const IDENTITY_BYTES: usize = 10 * BLOCK as usize;

/// What a device is, by its first [`IDENTITY_BYTES`].
///
/// # Errors
/// When it is no device of a pool, or of one that this program does not know.
pub fn identify(start: &[u8]) -> Result<DeviceIdentity, OpenError> {
    let damaged = OpenError::Damaged("neither label is intact");
    let block = |block| block_of(start, block);
    let labels = LABELS.map(|at| block(at).map_or(Err(LabelError::Foreign), Label::parse));
    let label = match labels {
        [Ok(label), _] | [_, Ok(label)] => label,
        [Err(LabelError::Foreign), Err(LabelError::Foreign)] => return Err(OpenError::Foreign),
        [Err(_), Err(_)] => return Err(damaged),
    };
    let features = label.features.incompatible & !FEATURES_KNOWN.incompatible;
    if label.version != FORMAT_VERSION || features != 0 {
        return Err(OpenError::Unknown { version: label.version, features });
    }
    let Label { pool_uuid, device_uuid, index, .. } = label;
    let members = MEMBER_LABELS.into_iter().filter_map(|at| MemberLabel::parse(block(at)?));
    let is_ours =
        |member: &MemberLabel| (member.pool_uuid, member.mirror_uuid) == (pool_uuid, device_uuid);
    let member = members.filter(is_ours).map(|member| member.member_uuid).next();
    Ok(DeviceIdentity { pool_uuid, device_uuid, index, member })
}

/// What a device that is a member of a mirror knows of the others, by its first [`IDENTITY_BYTES`];
/// `None` if it is none, or none of its lists is intact.
pub fn listed_members(start: &[u8], identity: &DeviceIdentity) -> Option<ListedMembers> {
    identity.member?;
    let lists = LISTS.into_iter().filter_map(|at| List::parse(block_of(start, at)?));
    let is_ours = |list: &List| {
        (list.pool_uuid, list.mirror_uuid) == (identity.pool_uuid, identity.device_uuid)
    };
    let newest = lists.filter(is_ours).max_by_key(|list| list.generation)?;
    let member = |entry: &ListEntry| ListedMember {
        uuid: entry.uuid,
        size_bytes: entry.size_bytes,
        state: entry.state,
    };
    let members = newest.entries.iter().map(member).collect();
    Some(ListedMembers { generation: newest.generation, members })
}

fn block_of(start: &[u8], block: DeviceBlock) -> Option<&[u8]> {
    let at = block.offset() as usize;
    start.get(at..at + BLOCK as usize)
}
