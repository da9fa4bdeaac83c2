//! Scatter list of a read: where the blocks of a range of a volume lie, and what was read of them.

use block::{BLOCK, Rope, VolumeId};
use smallvec::SmallVec;

use crate::address::{Address, BlockRange, VolumeBlock};
use crate::entry::Kind;
use crate::incident::Cause;
use crate::limits::AHEAD_REQUEST_BLOCKS_MAX;
use crate::map::{Map, Missing, Root};
use crate::metadata_cache::MetadataCache;

/// A run of blocks of a volume that are to be read.
pub(crate) struct BlockRead {
    pub(crate) volume: VolumeId,
    pub(crate) range: BlockRange,
    pub(super) extents: SmallVec<[Extent; 1]>,
    pub(super) crcs: SmallVec<[u32; 4]>,
}

/// A part of it that is adjacent on the device, or a hole.
pub(super) struct Extent {
    /// Blocks from the start of the read.
    pub(super) offset: u64,
    pub(super) blocks: u64,
    pub(super) place: Place,
    /// The first of its checksums.
    pub(super) crc_at: usize,
    /// Why it is read again.
    pub(super) retried: Option<Cause>,
}

pub(super) enum Place {
    Hole,
    Device(Address),
    Memory(Rope),
}

impl BlockRead {
    pub(super) fn new(volume: VolumeId, range: BlockRange) -> Self {
        Self { volume, range, extents: SmallVec::new(), crcs: SmallVec::new() }
    }

    /// Finds out where the blocks are.
    pub(super) fn locate(&mut self, map: &mut Map, root: Root) -> Result<(), Missing> {
        self.extents.clear();
        self.crcs.clear();
        let (extents, crcs, start) = (&mut self.extents, &mut self.crcs, self.range.first);
        map.walk(root, self.range, |first, entries| {
            for (offset, entry) in (first - start..).zip(entries) {
                let crc_at = crcs.len();
                let block = (entry.kind() == Kind::Data).then(|| entry.address());
                if block.is_some() {
                    crcs.push(entry.crc);
                }
                if let Some(last) = extents.last_mut()
                    && last.is_continued_by(block)
                {
                    last.blocks += 1;
                    continue;
                }
                let place = block.map_or(Place::Hole, Place::Device);
                extents.push(Extent { offset, blocks: 1, place, crc_at, retried: None });
            }
        })
    }

    /// Takes what is kept in memory; returns how many blocks that was.
    pub(super) fn take_cached(&mut self, recent: &MetadataCache) -> u64 {
        let mut taken = 0;
        let is_short = |extent: &&mut Extent| extent.blocks <= AHEAD_REQUEST_BLOCKS_MAX;
        for extent in self.extents.iter_mut().filter(is_short) {
            let Place::Device(place) = extent.place else { continue };
            let crcs = &self.crcs[extent.crc_at..extent.crc_at + extent.blocks as usize];
            let kept = place.onwards().zip(crcs).map(|(place, &crc)| recent.get(place, crc));
            if let Some(content) = kept.collect::<Option<Rope>>() {
                extent.place = Place::Memory(content);
                taken += extent.blocks;
            }
        }
        taken
    }

    /// Every part that lies on a device: its place and its checksums.
    pub(super) fn on_devices(&self) -> impl Iterator<Item = (Address, &[u32])> {
        self.extents.iter().filter_map(|extent| match extent.place {
            Place::Device(place) => {
                let crcs = &self.crcs[extent.crc_at..extent.crc_at + extent.blocks as usize];
                Some((place, crcs))
            }
            Place::Hole | Place::Memory(_) => None,
        })
    }

    /// Every part that holds data: blocks from the start of the read, their number, and the place
    /// of the first checksum.
    pub(super) fn parts(&self) -> impl Iterator<Item = (u64, u64, usize)> {
        let data = self.extents.iter().filter(|extent| !matches!(extent.place, Place::Hole));
        data.map(|extent| (extent.offset, extent.blocks, extent.crc_at))
    }

    /// The checksums of all blocks that hold data.
    pub(super) fn crcs(&self) -> &[u32] {
        &self.crcs
    }

    /// All the bytes.
    pub(crate) fn rope(&self) -> Rope {
        let mut rope = Rope::new();
        for extent in &self.extents {
            match &extent.place {
                Place::Memory(content) => rope.append(content.clone()),
                _ => rope.push_zeros((extent.blocks * BLOCK) as usize),
            }
        }
        rope
    }
}

impl Place {
    pub(super) fn on_device(&self) -> Option<Address> {
        match self {
            Self::Device(block) => Some(*block),
            Self::Hole | Self::Memory(_) => None,
        }
    }
}

impl Extent {
    pub(super) fn is_continued_by(&self, block: Option<Address>) -> bool {
        match (&self.place, block) {
            (Place::Hole, None) => true,
            (Place::Device(start), Some(block)) => *start + self.blocks == block,
            _ => false,
        }
    }
}

impl BlockRead {
    /// First block and checksums of every part that holds data.
    pub(super) fn checksums(&self) -> impl Iterator<Item = (VolumeBlock, &[u32])> {
        self.parts().map(|(offset, blocks, crc_at)| {
            (self.range.first + offset, &self.crcs()[crc_at..crc_at + blocks as usize])
        })
    }
}
