//! Member label: which copy of which mirror a device is. Written when it joins, twice.

use block::{BLOCK, Buffer};

use super::sealed::{is_sealed, seal, uuid_at};
use crate::address::DeviceBlock;

const MAGIC: [u8; 8] = *b"GANTRYMB";

/// Where the member label lies, twice.
pub(crate) const MEMBER_LABELS: [DeviceBlock; 2] = [DeviceBlock::new(4), DeviceBlock::new(5)];

/// Identity of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberLabel {
    pub(crate) pool_uuid: [u8; 16],
    /// The logical device.
    pub(crate) mirror_uuid: [u8; 16],
    pub(crate) member_uuid: [u8; 16],
}

impl MemberLabel {
    pub(crate) fn emit(&self) -> Buffer {
        let mut bytes = Buffer::zeroed(BLOCK as usize);
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[16..32].copy_from_slice(&self.pool_uuid);
        bytes[32..48].copy_from_slice(&self.mirror_uuid);
        bytes[48..64].copy_from_slice(&self.member_uuid);
        seal(bytes)
    }

    /// Reads a member label; `None` if there is none, or a damaged one.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        (is_sealed(bytes) && bytes[..8] == MAGIC).then(|| Self {
            pool_uuid: uuid_at(bytes, 16),
            mirror_uuid: uuid_at(bytes, 32),
            member_uuid: uuid_at(bytes, 48),
        })
    }
}
