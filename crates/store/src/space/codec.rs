//! Space maps on disk: bitmap and count pages, their descriptors, and the pages above.
//!
//! A parent says which of the two slots of a page is valid, and its checksum. A checkpoint writes
//! changed pages to the other slot, so the pages of the durable checkpoint are never touched.

use block::{BLOCK, Buffer};

use super::group::{AllocationGroup, Body, FENCED, FLAGS_AT, PAGES, PINNED, u32_at};
use super::{AllocationGroupId, DeviceSpace, Space};
use crate::address::{Address, DeviceNumber};
use crate::checksum::crc32c;
use crate::layout::{
    COUNT_PAGES, COUNTS_PER_PAGE, DESCRIPTOR_PAGES_PER_FIRST_LEVEL, FIRST_LEVEL_MAX,
    GROUPS_PER_DESCRIPTOR_PAGE, Layout, PageSlot, UPPER_COPY,
};

/// Bytes of a group's descriptor: slots, presence, checksums, count, flags.
const DESCRIPTOR_BYTES: usize = 128;

/// Slot and checksum of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// 0 or 1; [`ABSENT`] if the page was never written.
    pub(crate) slot: u8,
    pub(crate) crc: u32,
}

/// In place of a slot: the page was never written, all below it is free.
pub(crate) const ABSENT: u8 = 2;

impl Reference {
    pub(crate) const NONE: Self = Self { slot: ABSENT, crc: 0 };

    /// The reference to the next version of the page.
    fn next(self, crc: u32) -> Self {
        Self { slot: u8::from(self.slot == 0), crc }
    }
}

/// Root of the space maps in the superblock: the first-level pages of all devices in order.
pub(crate) type SpaceRoot = Vec<Reference>;

/// The pages that a checkpoint writes, with the address each goes to.
pub(crate) type SpaceWrites = Vec<(Address, Buffer)>;

/// Slots and checksums of the pages above the groups.
pub(super) struct Upper {
    descriptors: Vec<Reference>,
    first_level: Vec<Reference>,
}

impl Upper {
    pub(super) fn new(layout: &Layout) -> Self {
        Self {
            descriptors: vec![Reference::NONE; layout.descriptor_pages()],
            first_level: vec![Reference::NONE; layout.first_level_pages()],
        }
    }

    pub(super) fn extend(&mut self, layout: &Layout) {
        self.descriptors.resize(layout.descriptor_pages(), Reference::NONE);
        self.first_level.resize(layout.first_level_pages(), Reference::NONE);
    }
}

impl Body {
    /// Writes one page of the maps.
    fn emit_page(&self, page: usize, bytes: &mut [u8]) {
        if page == 0 {
            for (word, bytes) in self.used.iter().zip(bytes.as_chunks_mut::<8>().0) {
                *bytes = word.to_le_bytes();
            }
            return;
        }
        let counts = self.counts[page - 1].as_ref().expect("only present pages are written");
        for (count, bytes) in counts.iter().zip(bytes.as_chunks_mut::<2>().0) {
            *bytes = count.to_le_bytes();
        }
    }

    /// Takes over one page of the maps.
    pub(super) fn parse_page(&mut self, page: usize, bytes: &[u8]) {
        if page > 0 {
            let counts = bytes.as_chunks::<2>().0;
            let counts: [u16; COUNTS_PER_PAGE] =
                std::array::from_fn(|place| u16::from_le_bytes(counts[place]));
            self.counts[page - 1] = Some(Box::new(counts));
            return;
        }
        let words = bytes.as_chunks::<8>().0;
        self.used = std::array::from_fn(|word| u64::from_le_bytes(words[word]));
        for (busy, used) in self.busy.iter_mut().zip(&self.used) {
            *busy |= used;
        }
    }
}

impl AllocationGroup {
    /// Emits the changed pages to their other slots.
    fn emit_changed(&mut self, id: AllocationGroupId, layout: &Layout, out: &mut SpaceWrites) {
        let Some(body) = &mut self.body else { return };
        for page in 0..PAGES {
            if body.changed & 1 << page == 0 {
                continue;
            }
            if page > 0 && !body.keep_counts(page - 1) {
                self.present &= !(1 << page);
                continue;
            }
            let mut buffer = Buffer::for_overwrite(BLOCK as usize);
            body.emit_page(page, &mut buffer);
            self.slots ^= 1 << page;
            self.present |= 1 << page;
            self.crcs[page] = crc32c(&buffer);
            let at = PageSlot { page, slot: (self.slots >> page & 1) as u8 };
            let block = layout.space_page(id.group as usize, at);
            out.push((block.on(id.device), buffer));
        }
        body.changed = 0;
        self.written_used = self.used;
    }
}

impl Space {
    /// Emits every changed page of groups in memory, each to the slot that is not in use. Groups
    /// with deltas are owed: each is emitted when its maps have been loaded.
    pub(crate) fn emit_loaded(&mut self) -> SpaceWrites {
        let mut writes = Vec::new();
        for id in self.loaded.clone() {
            let changed = self.group(id).body.as_ref().is_some_and(|body| body.changed != 0);
            if changed {
                self.emit_group(id, &mut writes);
            }
        }
        for id in std::mem::take(&mut self.with_deltas) {
            let group = self.group_mut(id);
            group.owed = std::mem::take(&mut group.deltas);
            self.owing.insert(id);
        }
        writes
    }

    /// Emits the changed pages of one group in memory.
    pub(super) fn emit_group(&mut self, id: AllocationGroupId, writes: &mut SpaceWrites) {
        let layout = self.layout(id.device);
        self.group_mut(id).emit_changed(id, &layout, writes);
        self.touch(id);
    }

    /// Emits the pages above the groups, each twice, and the root as far as `layouts` reach: a
    /// device may have grown or joined since the cut. No group is owing any more.
    pub(crate) fn emit_upper(&mut self, layouts: &[Layout]) -> (SpaceRoot, SpaceWrites) {
        let mut writes = Vec::new();
        let mut first_levels = std::collections::BTreeSet::new();
        for (device, index) in std::mem::take(&mut self.touched) {
            let space = &mut self.devices[device.index()];
            push_twice(&mut writes, space.emit_descriptors(device, index));
            first_levels.insert((device, index / DESCRIPTOR_PAGES_PER_FIRST_LEVEL));
        }
        for (device, index) in first_levels {
            let space = &mut self.devices[device.index()];
            push_twice(&mut writes, space.emit_first_level(device, index));
        }
        let mut root = Vec::new();
        for (space, layout) in self.devices.iter().zip(layouts) {
            root.extend(&space.upper.first_level[..layout.first_level_pages()]);
        }
        (root, writes)
    }

    /// Takes over what the superblock says of the first-level pages.
    pub(crate) fn load_root(&mut self, root: &SpaceRoot) {
        let mut root = root.iter().copied();
        for device in &mut self.devices {
            let pages = device.upper.first_level.len();
            device.upper.first_level = root.by_ref().take(pages).collect();
        }
    }

    /// The first-level pages of a device that exist.
    pub(crate) fn first_level_pages(&self, device: DeviceNumber) -> Vec<(usize, Address, u32)> {
        let DeviceSpace { layout, upper, .. } = &self.devices[device.index()];
        let block = |at| layout.first_level_page(at).on(device);
        existing(&upper.first_level, block)
    }

    /// The descriptor pages of a device that exist, once the first level was loaded.
    pub(crate) fn descriptor_pages(&self, device: DeviceNumber) -> Vec<(usize, Address, u32)> {
        let DeviceSpace { layout, upper, .. } = &self.devices[device.index()];
        let block = |at| layout.descriptor_page(at).on(device);
        existing(&upper.descriptors, block)
    }

    /// Takes over a first-level page; false if it makes no sense.
    pub(crate) fn load_first_level(
        &mut self,
        device: DeviceNumber,
        index: usize,
        bytes: &[u8],
    ) -> bool {
        let descriptors = &mut self.devices[device.index()].upper.descriptors;
        let first = index * DESCRIPTOR_PAGES_PER_FIRST_LEVEL;
        let pages = (descriptors.len() - first).min(DESCRIPTOR_PAGES_PER_FIRST_LEVEL);
        let Some(references) = parse_references(bytes, pages) else { return false };
        descriptors[first..first + pages].copy_from_slice(&references);
        true
    }

    /// Takes over a descriptor page.
    pub(crate) fn load_descriptors(&mut self, device: DeviceNumber, index: usize, bytes: &[u8]) {
        let first = index * GROUPS_PER_DESCRIPTOR_PAGE;
        for (place, bytes) in bytes.as_chunks::<DESCRIPTOR_BYTES>().0.iter().enumerate() {
            let Some(group) = self.devices[device.index()].groups.get_mut(first + place) else {
                return;
            };
            group.parse_descriptor(bytes);
            let (used, capacity, fenced) = (group.used, group.capacity, group.fenced);
            self.devices[device.index()].used += u64::from(used);
            self.used += u64::from(used);
            self.fenced += u64::from(fenced);
            self.free -= u64::from(if fenced { capacity } else { used });
            let id = AllocationGroupId { device, group: (first + place) as u32 };
            if self.group(id).pinned {
                self.pinned.push(id);
            }
            self.list_if_roomy(id);
        }
    }
}

impl DeviceSpace {
    fn emit_descriptors(&mut self, device: DeviceNumber, index: usize) -> (Address, Buffer) {
        let mut buffer = Buffer::zeroed(BLOCK as usize);
        let groups = self.groups.iter().skip(index * GROUPS_PER_DESCRIPTOR_PAGE);
        for (group, bytes) in groups.zip(buffer.as_chunks_mut::<DESCRIPTOR_BYTES>().0) {
            group.emit_descriptor(bytes);
        }
        let reference = &mut self.upper.descriptors[index];
        *reference = reference.next(crc32c(&buffer));
        let block = self.layout.descriptor_page(PageSlot { page: index, slot: reference.slot });
        (block.on(device), buffer)
    }

    fn emit_first_level(&mut self, device: DeviceNumber, index: usize) -> (Address, Buffer) {
        let first = index * DESCRIPTOR_PAGES_PER_FIRST_LEVEL;
        let buffer = emit_references(&self.upper.descriptors[first..]);
        let reference = &mut self.upper.first_level[index];
        *reference = reference.next(crc32c(&buffer));
        let block = self.layout.first_level_page(PageSlot { page: index, slot: reference.slot });
        (block.on(device), buffer)
    }
}

fn push_twice(writes: &mut SpaceWrites, (block, page): (Address, Buffer)) {
    writes.push((block + UPPER_COPY, Buffer::copy_of(&page)));
    writes.push((block, page));
}

/// Index, address and checksum of the pages that exist.
fn existing(
    references: &[Reference],
    block: impl Fn(PageSlot) -> Address,
) -> Vec<(usize, Address, u32)> {
    let all = references.iter().enumerate().filter(|(_, reference)| reference.slot != ABSENT);
    all.map(|(page, &Reference { slot, crc })| (page, block(PageSlot { page, slot }), crc))
        .collect()
}

fn emit_references(references: &[Reference]) -> Buffer {
    let mut buffer = Buffer::zeroed(BLOCK as usize);
    for (reference, bytes) in references.iter().zip(buffer.as_chunks_mut::<8>().0) {
        bytes[..4].copy_from_slice(&reference.crc.to_le_bytes());
        bytes[4] = reference.slot;
    }
    buffer
}

/// Reads `count` references; `None` if one names a slot that does not exist.
pub(crate) fn parse_references(bytes: &[u8], count: usize) -> Option<Vec<Reference>> {
    let references = bytes.as_chunks::<8>().0.iter().take(count);
    let references = references.map(|bytes| Reference { crc: u32_at(bytes, 0), slot: bytes[4] });
    let references: Vec<_> = references.collect();
    references.iter().all(|reference| reference.slot <= ABSENT).then_some(references)
}

/// Whether bytes can be a descriptor page.
pub(crate) fn parse_descriptors(bytes: &[u8]) -> bool {
    let all = (1_u32 << PAGES) - 1;
    let descriptors = bytes.as_chunks::<DESCRIPTOR_BYTES>().0.iter();
    descriptors.take(GROUPS_PER_DESCRIPTOR_PAGE).all(|bytes| {
        u32_at(bytes, 0) & !all == 0
            && u32_at(bytes, 4) & !all == 0
            && u32_at(bytes, FLAGS_AT) & !(PINNED | FENCED) == 0
    })
}

const _: () = assert!(FLAGS_AT + 4 <= DESCRIPTOR_BYTES && PAGES == COUNT_PAGES + 1);
const _: () = assert!(FIRST_LEVEL_MAX * 8 <= BLOCK as usize / 2);
