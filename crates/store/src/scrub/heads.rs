//! Blocks besides data and map that a scrub compares on the members of mirrors: labels, superblocks,
//! space maps and the volume table. A plain device has one copy of each, which is compared when it
//! is read.
//!
//! What they should hold is known as of the newest checkpoint. One that is written meanwhile has other
//! content on all members alike, and is left as it is.

use std::collections::VecDeque;

use crate::address::{Address, DeviceNumber};
use crate::checkpoint::Checkpointer;
use crate::checksum::crc32c;
use crate::layout::{LABELS, UPPER_COPY};
use crate::pool::Pool;
use crate::space::AllocationGroupId;
use crate::superblock::{FORMAT_VERSION, Label};

/// Groups that are looked at in one step.
const GROUPS: usize = 64;

/// Blocks that are compared in one step.
const BLOCKS: usize = 32;

/// What is left to be compared.
#[derive(Default)]
pub(crate) struct Heads {
    blocks: VecDeque<(Address, u32)>,
    /// Groups whose space maps come then.
    groups: VecDeque<AllocationGroupId>,
}

impl Heads {
    /// All such blocks on mirrors, with their checksums.
    pub(crate) fn of(pool: &Pool, checkpointer: &Checkpointer) -> Self {
        let is_mirrored = |device: DeviceNumber| pool.io.mirror(device).is_some();
        let mut heads = Self::default();
        for device in pool.space.devices().filter(|&device| is_mirrored(device)) {
            heads.blocks.extend(labels(pool, device));
            let pages = pool.space.first_level_pages(device);
            let pages = pages.into_iter().chain(pool.space.descriptor_pages(device));
            let copies = |(_, page, crc): (usize, Address, u32)| {
                [page, page + UPPER_COPY].map(|at| (at, crc))
            };
            heads.blocks.extend(pages.flat_map(copies));
            let groups = 0..pool.space.layout(device).groups() as u32;
            heads.groups.extend(groups.map(|group| AllocationGroupId { device, group }));
        }
        let of_mirror = |&(block, _): &(Address, u32)| is_mirrored(block.device());
        let copies = checkpointer.table_pages().flat_map(|page| {
            let copies = [Some(page.address()), page.twin()];
            copies.into_iter().flatten().map(move |at| (at, page.crc))
        });
        heads.blocks.extend(copies.filter(of_mirror));
        heads.blocks.extend(checkpointer.superblocks().filter(of_mirror));
        heads
    }

    /// The next blocks to be compared; `None` if all were.
    pub(super) fn next(&mut self, pool: &Pool) -> Option<Vec<(Address, u32)>> {
        if self.blocks.is_empty() && self.groups.is_empty() {
            return None;
        }
        if self.blocks.is_empty() {
            let count = self.groups.len().min(GROUPS);
            let pages = self.groups.drain(..count).flat_map(|group| pool.space.group_pages(group));
            self.blocks.extend(pages.map(|page| (page.address, page.crc)));
        }
        let count = self.blocks.len().min(BLOCKS);
        Some(self.blocks.drain(..count).collect())
    }
}

/// Both copies of the label of a device with their checksums, unless the labels lack features that the
/// pool has: then nobody knows what they should hold before the next upgrade.
pub(crate) fn labels(pool: &Pool, device: DeviceNumber) -> Vec<(Address, u32)> {
    let names = &pool.members;
    let Some(&device_uuid) = names.device_uuids.get(device.index()) else { return Vec::new() };
    if names.labelled != names.features {
        return Vec::new();
    }
    let label = Label {
        pool_uuid: names.pool_uuid,
        device_uuid,
        features: names.features,
        version: FORMAT_VERSION,
        index: device.number().into(),
        is_mirror: pool.io.mirror(device).is_some(),
    };
    let crc = crc32c(&label.emit());
    LABELS.map(|block| (block.on(device), crc)).to_vec()
}
