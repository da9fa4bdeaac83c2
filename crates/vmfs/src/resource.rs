//! Resource files: where blocks, sub-blocks, pointer blocks and descriptors are taken from. A
//! resource file is groups of clusters; each cluster has a lock and a bitmap of its resources.

use crate::bytes::{get_u32, put_u32};
use crate::fd;
use crate::limits::{FILE_BLOCK, SUB_BLOCK};
use crate::{Error, Result};

/// Bytes of a cluster's header: lock and bitmap, a sector each.
pub(crate) const CLUSTER_HEADER: u64 = 1024;

/// Bytes before the first group.
const HEADER: u64 = 0x1_0000;

/// The kinds of resources; the numbers are their address types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    FileBlock = 1,
    SubBlock = 2,
    PointerBlock = 3,
    Descriptor = 4,
}

impl Resource {
    pub(crate) const ALL: [Self; 4] =
        [Self::FileBlock, Self::SubBlock, Self::PointerBlock, Self::Descriptor];

    pub(crate) fn of(address: u32) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|kind| *kind as u32 == address & 7);
        found.ok_or_else(|| Error::Format(format!("an address {address:08x}")))
    }

    /// Type word of the lock of its clusters.
    pub(crate) fn lock_type(self) -> u32 {
        match self {
            Self::FileBlock => 0x10c0_0002,
            Self::SubBlock => 0x10c0_0003,
            Self::PointerBlock => 0x10c0_0004,
            Self::Descriptor => 0x10c0_0005,
        }
    }

    /// The number of the descriptor of its file.
    pub(crate) fn file(self) -> u32 {
        match self {
            Self::FileBlock => 1,
            Self::Descriptor => 2,
            Self::PointerBlock => 3,
            Self::SubBlock => 4,
        }
    }

    /// The address of the descriptor of its file.
    pub(crate) fn descriptor(self) -> u32 {
        Self::Descriptor.address(u64::from(self.file()))
    }

    pub(crate) fn per_cluster(self) -> u64 {
        match self {
            Self::FileBlock => 200,
            Self::SubBlock | Self::PointerBlock => 16,
            Self::Descriptor => 32,
        }
    }

    /// Bytes of a resource inside the file; file blocks lie outside.
    pub(crate) fn size(self) -> u64 {
        match self {
            Self::FileBlock => 0,
            Self::SubBlock => SUB_BLOCK,
            Self::PointerBlock => 4096,
            Self::Descriptor => fd::SIZE,
        }
    }

    /// The address of the resource with this number.
    pub(crate) fn address(self, number: u64) -> u32 {
        let (cluster, item) =
            ((number / self.per_cluster()) as u32, (number % self.per_cluster()) as u32);
        match self {
            Self::FileBlock => (number as u32) << 6 | 1,
            Self::SubBlock => item << 28 | cluster << 6 | 2,
            Self::PointerBlock => item << 28 | cluster << 6 | 3,
            Self::Descriptor => item << 22 | cluster << 6 | 4,
        }
    }

    /// The number of the resource with this address.
    pub(crate) fn number(self, address: u32) -> u64 {
        let (cluster, item) = match self {
            Self::FileBlock => return u64::from(address >> 6),
            Self::SubBlock | Self::PointerBlock => (address << 4 >> 10, address >> 28),
            Self::Descriptor => (address << 10 >> 16, address >> 22),
        };
        u64::from(cluster) * self.per_cluster() + u64::from(item)
    }
}

/// The shape of a resource file.
#[derive(Clone, Debug)]
pub(crate) struct ResourceFile {
    pub(crate) kind: Resource,
    /// Resources.
    pub(crate) total: u64,
    pub(crate) groups: u64,
    /// The file blocks in which it lies.
    pub(crate) blocks: Vec<u32>,
}

pub(crate) const CLUSTERS_PER_GROUP: u64 = 32;

impl ResourceFile {
    pub(crate) fn group_size(kind: Resource) -> u64 {
        CLUSTERS_PER_GROUP * (CLUSTER_HEADER + kind.per_cluster() * kind.size())
    }

    /// File blocks that a file of so many groups takes.
    pub(crate) fn blocks_needed(kind: Resource, groups: u64) -> u64 {
        (HEADER + groups * Self::group_size(kind)).div_ceil(FILE_BLOCK)
    }

    /// Groups that so many file blocks have room for.
    pub(crate) fn groups_in(kind: Resource, blocks: u64) -> u64 {
        (blocks * FILE_BLOCK).saturating_sub(HEADER) / Self::group_size(kind)
    }

    /// Groups and resources in a volume of so many file blocks.
    pub(crate) fn wanted(kind: Resource, blocks: u64) -> (u64, u64) {
        let groups = match kind {
            Resource::FileBlock => {
                return (blocks.div_ceil(kind.per_cluster() * CLUSTERS_PER_GROUP), blocks);
            }
            Resource::Descriptor => (blocks / 2048).clamp(2, 120),
            Resource::PointerBlock => (blocks / 65_536).clamp(1, 100),
            Resource::SubBlock => (blocks / 2048).clamp(2, 60),
        };
        (groups, groups * CLUSTERS_PER_GROUP * kind.per_cluster())
    }

    pub(crate) fn clusters(&self) -> u64 {
        self.total.div_ceil(self.kind.per_cluster())
    }

    /// Resources in a cluster: fewer in the last one.
    pub(crate) fn in_cluster(&self, number: u64) -> u32 {
        let per_cluster = self.kind.per_cluster();
        per_cluster.min(self.total - number * per_cluster) as u32
    }

    pub(crate) fn length(&self) -> u64 {
        HEADER + self.groups * Self::group_size(self.kind)
    }

    pub(crate) fn emit(&self) -> [u8; 512] {
        let mut out = [0; 512];
        let values = [
            self.kind.per_cluster(),
            CLUSTERS_PER_GROUP,
            HEADER,
            self.kind.size(),
            Self::group_size(self.kind),
            self.total,
            self.groups,
        ];
        for (number, value) in values.into_iter().enumerate() {
            put_u32(&mut out, number * 4, value as u32);
        }
        out
    }

    pub(crate) fn parse(kind: Resource, header: &[u8], blocks: Vec<u32>) -> Result<Self> {
        let field = |number: usize| u64::from(get_u32(header, number * 4));
        let file = Self { kind, total: field(5), groups: field(6), blocks };
        if field(0) != kind.per_cluster()
            || field(1) != CLUSTERS_PER_GROUP
            || field(2) != HEADER
            || field(4) != Self::group_size(kind)
            || file.blocks.len() as u64 * FILE_BLOCK < file.length()
            || file.clusters() > file.groups * CLUSTERS_PER_GROUP
        {
            return Err(Error::Format(format!("the resource file of {kind:?} has another shape")));
        }
        Ok(file)
    }

    /// The volume address of a byte of the file.
    fn locate(&self, offset: u64) -> u64 {
        let block = self.blocks[(offset / FILE_BLOCK) as usize];
        u64::from(block >> 6) * FILE_BLOCK + offset % FILE_BLOCK
    }

    fn group_offset(&self, cluster: u64) -> u64 {
        HEADER + cluster / CLUSTERS_PER_GROUP * Self::group_size(self.kind)
    }

    /// The volume address of a cluster's lock.
    pub(crate) fn cluster(&self, cluster: u64) -> u64 {
        self.locate(self.group_offset(cluster) + cluster % CLUSTERS_PER_GROUP * CLUSTER_HEADER)
    }

    /// The volume address of a resource.
    pub(crate) fn resource(&self, number: u64) -> Result<u64> {
        if number >= self.total {
            return Err(Error::Format(format!("{:?} {number} of {}", self.kind, self.total)));
        }
        if self.kind == Resource::FileBlock {
            return Ok(number * FILE_BLOCK);
        }
        let cluster = number / self.kind.per_cluster();
        let in_group = number % (self.kind.per_cluster() * CLUSTERS_PER_GROUP);
        let data = self.group_offset(cluster) + CLUSTERS_PER_GROUP * CLUSTER_HEADER;
        Ok(self.locate(data + in_group * self.kind.size()))
    }
}

/// A cluster's counts and bitmap: the sector after its lock.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) number: u32,
    pub(crate) total: u32,
    pub(crate) free: u32,
    /// A set bit is a free resource.
    bitmap: [u8; 64],
}

impl Cluster {
    pub(crate) fn new(number: u32, total: u32) -> Self {
        let mut cluster = Self { number, total, free: 0, bitmap: [0; 64] };
        (0..total).for_each(|item| cluster.give(item));
        cluster
    }

    pub(crate) fn emit(&self) -> [u8; 512] {
        let mut out = [0; 512];
        put_u32(&mut out, 0, self.number);
        put_u32(&mut out, 4, self.total);
        put_u32(&mut out, 8, self.free);
        put_u32(&mut out, 12, (0..self.total).find(|item| self.is_free(*item)).unwrap_or(0));
        out[16..80].copy_from_slice(&self.bitmap);
        out
    }

    pub(crate) fn parse(bytes: &[u8], number: u64) -> Result<Self> {
        let cluster = Self {
            number: get_u32(bytes, 0),
            total: get_u32(bytes, 4),
            free: get_u32(bytes, 8),
            bitmap: bytes[16..80].try_into().expect("64 bytes"),
        };
        if u64::from(cluster.number) != number || cluster.total > 512 {
            return Err(Error::Format(format!("resource cluster {number} is damaged")));
        }
        Ok(cluster)
    }

    pub(crate) fn is_free(&self, item: u32) -> bool {
        self.bitmap[item as usize / 8] & 1 << (item % 8) != 0
    }

    /// Takes the first free resource of those that may be taken.
    pub(crate) fn take_any(&mut self, may: impl Fn(u32) -> bool) -> Option<u32> {
        let item = (0..self.total).find(|item| self.is_free(*item) && may(*item))?;
        self.take(item);
        Some(item)
    }

    /// How many are free of those that may be taken.
    pub(crate) fn free_among(&self, may: impl Fn(u32) -> bool) -> u32 {
        (0..self.total).filter(|item| self.is_free(*item) && may(*item)).count() as u32
    }

    /// Has so many resources from then on; further ones are free.
    pub(crate) fn grow(&mut self, total: u32) {
        (self.total..total).for_each(|item| self.give(item));
        self.total = self.total.max(total);
    }

    pub(crate) fn take(&mut self, item: u32) {
        assert!(self.is_free(item), "a resource is taken once");
        self.bitmap[item as usize / 8] &= !(1 << (item % 8));
        self.free -= 1;
    }

    pub(crate) fn give(&mut self, item: u32) {
        if !self.is_free(item) {
            self.bitmap[item as usize / 8] |= 1 << (item % 8);
            self.free += 1;
        }
    }
}
