//! Options of a pool, which its owner sets when it opens the pool.

use std::time::Duration;

use block::BLOCK;

use crate::limits::{CHECKPOINT_INTERVAL, HANG_LIMIT, MIRROR_MEMBERS_MAX};
use crate::superblock::FEATURE_MIRROR;

/// Access to an opened pool, and the treatment of a damaged journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenMode {
    /// It serves reads and writes. If acknowledged commits of its journal are lost it is not
    /// opened ([`crate::OpenError::JournalLost`]).
    #[default]
    ReadWrite,
    /// It serves reads, and nothing is written to its devices. A damaged journal is followed as
    /// far as it is intact.
    ReadOnly,
    /// As [`OpenMode::ReadWrite`], but what a damaged journal lost is given up for good: the pool
    /// goes on from the last commit before the damage.
    Rewind,
}

/// How a pool is run. Nothing of it is on disk, but for the journal's size when it is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of the journal of a new pool; 0 for 1/64 of the device, between 8 and 256 MiB.
    pub journal_bytes: u64,
    /// How a pool that is there is opened.
    pub mode: OpenMode,
    /// Bytes of memory for the pool's maps: half for pages of the map that are
    /// also on disk, an eighth for space maps, an eighth at most for changed pages, twice.
    pub memory_bytes: u64,
    /// Subtrees of deleted volumes that are taken apart per second while space is not short; each
    /// is up to 1 MiB of a volume.
    pub reap_rate: u64,
    /// Bytes per second that a scrub reads at most.
    pub scrub_rate: u64,
    /// How often a change reaches a checkpoint at the latest.
    pub checkpoint_interval: Duration,
    /// Whether checksums of data read and written are told ([`block::Sample`]).
    pub sampling: bool,
    /// Bytes per second that a resilver copies at most. Hosts have their share however high it is.
    pub resilver_rate: u64,
    /// Bytes per second that are moved at most from a device that leaves. Hosts have their share however
    /// high it is.
    pub evacuation_rate: u64,
    /// How long a member of a mirror may take for one I/O before the mirror goes on without it; from
    /// 1 s to 60 s. The last current member has no limit.
    pub hang_limit: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            journal_bytes: 0,
            mode: OpenMode::ReadWrite,
            memory_bytes: 2 << 30,
            reap_rate: 50_000,
            scrub_rate: 200 << 20,
            checkpoint_interval: CHECKPOINT_INTERVAL,
            sampling: false,
            resilver_rate: u64::MAX,
            evacuation_rate: u64::MAX,
            hang_limit: HANG_LIMIT,
        }
    }
}

impl Options {
    /// Pages of the map that stay in memory though they are on disk.
    pub(crate) fn clean_pages(&self) -> usize {
        (self.memory_bytes / 2 / PAGE_MEMORY) as usize
    }

    /// Changed pages of the map.
    pub(crate) fn dirty_pages(&self) -> usize {
        (self.memory_bytes / 8 / PAGE_MEMORY) as usize
    }

    /// Groups whose space maps stay in memory.
    pub(crate) fn groups(&self) -> usize {
        (self.memory_bytes / 8 / GROUP_MEMORY) as usize
    }
}

/// Bytes that a page of the map takes in memory: its entries, and its place in the cache.
const PAGE_MEMORY: u64 = BLOCK + 96;

/// Bytes that a group's space maps take in memory: two bitmaps, and some pages of counts.
const GROUP_MEMORY: u64 = 4 * BLOCK;

/// A new pool.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// Names the pool in the world.
    pub pool_uuid: [u8; 16],
    /// Its devices, 1 to 32; the first one also holds the journal.
    pub devices: Vec<DeviceSpec>,
}

/// A logical device that joins a pool: a plain device, or a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Names the logical device in the world.
    pub uuid: [u8; 16],
    /// Its bytes; of a mirror those of the smallest member count if they are fewer.
    pub size_bytes: u64,
    /// The caller's slot of a plain device, 0 to 95; a mirror's members have slots of their own.
    pub slot: u8,
    /// The members of a mirror, 2 or 3; none for a plain device.
    pub members: Vec<MemberSpec>,
}

/// A member of a mirror: a device that holds a copy of all blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberSpec {
    /// Names the member in the world; no other member or device has this name.
    pub uuid: [u8; 16],
    /// The caller's slot, 0 to 95.
    pub slot: u8,
    /// Bytes of the member.
    pub size_bytes: u64,
}

impl PoolSpec {
    /// Incompatible features that the pool needs.
    pub(crate) fn features(&self) -> u64 {
        let has_mirror = self.devices.iter().any(|device| !device.members.is_empty());
        if has_mirror { FEATURE_MIRROR } else { 0 }
    }
}

impl DeviceSpec {
    /// Whether a device can be so: a plain one, or a mirror with enough members that are large enough.
    pub(crate) fn is_sound(&self) -> bool {
        let is_large = |member: &MemberSpec| member.size_bytes >= self.size_bytes;
        self.members.is_empty()
            || (2..=MIRROR_MEMBERS_MAX).contains(&self.members.len())
                && self.members.iter().all(is_large)
    }

    /// A plain device.
    pub fn plain(MemberSpec { uuid, slot, size_bytes }: MemberSpec) -> Self {
        Self { uuid, size_bytes, slot, members: Vec::new() }
    }

    /// A mirror, as large as its smallest member.
    pub fn mirror(uuid: [u8; 16], members: Vec<MemberSpec>) -> Self {
        let size_bytes = members.iter().map(|member| member.size_bytes).min().unwrap_or(0);
        Self { uuid, size_bytes, slot: 0, members }
    }
}

/// An open device of the caller, in which a pool is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotSpec {
    /// The caller's number of it, 0 to 95: I/O names the device by it ([`crate::Io::device`]).
    pub slot: u8,
    /// Its bytes.
    pub size_bytes: u64,
}

impl SlotSpec {
    /// Devices of these sizes, in slots from 0 on.
    pub fn numbered(sizes: &[u64]) -> Vec<Self> {
        (0..).zip(sizes).map(|(slot, &size_bytes)| Self { slot, size_bytes }).collect()
    }
}

/// What the caller knows of a pool that is to be opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenContext {
    /// The pool that it must be.
    pub expected_pool_uuid: Option<[u8; 16]>,
    /// For each mirror the newest generation of its membership list that the caller was told by
    /// [`crate::Store::next_membership`] and kept. A mirror whose present members know only an older
    /// list is not opened.
    pub witnessed: Vec<([u8; 16], u64)>,
    /// Whether others may have had the pool since the caller kept that: then a list may be newer than
    /// any that the caller was told of, and a mirror is not opened without its current members for it.
    pub shared: bool,
    /// Whether a mirror of which the caller knows no generation may be opened without all of its
    /// current members: one that is absent may have newer data.
    pub allow_degraded: bool,
}

impl OpenContext {
    /// The pool must be this one, if one is named.
    pub fn expecting(pool_uuid: Option<[u8; 16]>) -> Self {
        Self { expected_pool_uuid: pool_uuid, ..Self::default() }
    }
}
