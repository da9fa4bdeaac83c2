//! Space maps on disk: bitmap and count pages, their descriptors, and the pages above.
//!
//! A parent says which of the two slots of a page is valid, and its checksum. A checkpoint writes
//! changed pages to the other slot, so the pages of the durable checkpoint are never touched.

use block::{BLOCK, Buffer};

use super::{COUNTS_PER_PAGE, Group, PAGES, Space, WORDS, set};
use crate::checksum::crc32c;
use crate::layout::{
    COUNT_PAGES, DESCRIPTOR_PAGES_PER_FIRST_LEVEL, FIRST_LEVEL_MAX, GROUPS_PER_DESCRIPTOR_PAGE,
    Layout,
};

/// Bytes of a group's descriptor: slots, presence, checksums.
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

/// What the superblock says of the space maps.
pub(crate) type SpaceRoot = Vec<Reference>;

/// The pages that a checkpoint writes, with the block each goes to.
pub(crate) type SpaceWrites = Vec<(u64, Buffer)>;

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

impl Group {
    /// Writes one page of the space map.
    fn emit_page(&self, page: usize, bytes: &mut [u8]) {
        match page {
            0 => {
                for (word, bytes) in self.used.iter().zip(bytes.as_chunks_mut::<8>().0) {
                    *bytes = word.to_le_bytes();
                }
            }
            _ => {
                let counts =
                    self.counts[page - 1].as_ref().expect("only present pages are written");
                for (count, bytes) in counts.iter().zip(bytes.as_chunks_mut::<2>().0) {
                    *bytes = count.to_le_bytes();
                }
            }
        }
    }

    /// Emits the changed pages to their other slots.
    fn emit_changed(
        &mut self,
        index: usize,
        layout: &Layout,
        in_place: bool,
        writes: &mut SpaceWrites,
    ) {
        for page in 0..PAGES {
            if self.changed & 1 << page == 0 {
                continue;
            }
            if page > 0 && !self.keep_counts(page - 1) {
                self.present &= !(1 << page);
                continue;
            }
            let mut buffer = Buffer::for_overwrite(BLOCK as usize);
            self.emit_page(page, &mut buffer);
            self.slots ^= u32::from(!in_place) << page;
            self.present |= 1 << page;
            self.crcs[page] = crc32c(&buffer);
            let slot = (self.slots >> page & 1) as u8;
            writes.push((layout.space_page(index, page, slot), buffer));
        }
        self.changed = 0;
    }

    /// Drops a count page in which nothing is shared any more; says whether it is still there.
    fn keep_counts(&mut self, page: usize) -> bool {
        let shared =
            self.counts[page].as_ref().is_some_and(|counts| counts.iter().any(|&count| count > 1));
        if !shared {
            self.counts[page] = None;
        }
        shared
    }

    fn emit_descriptor(&self, bytes: &mut [u8]) {
        bytes.fill(0);
        bytes[..4].copy_from_slice(&self.slots.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.present.to_le_bytes());
        for (crc, bytes) in self.crcs.iter().zip(bytes[8..].as_chunks_mut::<4>().0) {
            *bytes = crc.to_le_bytes();
        }
    }

    fn parse_descriptor(&mut self, bytes: &[u8]) {
        self.slots = u32_at(bytes, 0);
        self.present = u32_at(bytes, 4);
        for page in 0..PAGES {
            self.crcs[page] = u32_at(bytes, 8 + 4 * page);
        }
        self.changed = 0;
    }
}

impl Space {
    /// Emits every page that changed, up to the root, each to the slot that is not in use; with
    /// `in_place`, a planted mistake, groups' pages to the one that is.
    pub(crate) fn emit_changed(&mut self, in_place: bool) -> (SpaceRoot, SpaceWrites) {
        let mut writes = Vec::new();
        let layout = self.layout;
        let mut changed_descriptors = std::collections::BTreeSet::new();
        for (index, group) in self.groups.iter_mut().enumerate() {
            if group.changed != 0 {
                group.emit_changed(index, &layout, in_place, &mut writes);
                changed_descriptors.insert(index / GROUPS_PER_DESCRIPTOR_PAGE);
            }
        }
        let mut changed_first_level = std::collections::BTreeSet::new();
        for &index in &changed_descriptors {
            let buffer = self.emit_descriptor_page(index);
            let reference = &mut self.upper.descriptors[index];
            *reference = reference.next(crc32c(&buffer));
            writes.push((layout.descriptor_page(index, reference.slot), buffer));
            changed_first_level.insert(index / DESCRIPTOR_PAGES_PER_FIRST_LEVEL);
        }
        for &index in &changed_first_level {
            let first = index * DESCRIPTOR_PAGES_PER_FIRST_LEVEL;
            let buffer = emit_references(&self.upper.descriptors[first..]);
            let reference = &mut self.upper.first_level[index];
            *reference = reference.next(crc32c(&buffer));
            writes.push((layout.first_level_page(index, reference.slot), buffer));
        }
        (self.upper.first_level.clone(), writes)
    }

    fn emit_descriptor_page(&self, index: usize) -> Buffer {
        let mut buffer = Buffer::zeroed(BLOCK as usize);
        let groups = self.groups.iter().skip(index * GROUPS_PER_DESCRIPTOR_PAGE);
        for (group, bytes) in groups.zip(buffer.as_chunks_mut::<DESCRIPTOR_BYTES>().0) {
            group.emit_descriptor(bytes);
        }
        buffer
    }

    /// Takes over what a first-level page says of its descriptor pages.
    pub(crate) fn load_first_level(&mut self, root: &SpaceRoot) {
        self.upper.first_level.clone_from(root);
        self.upper.extend(&self.layout.clone());
    }

    /// Takes over a descriptor page and the reference to it.
    pub(crate) fn load_descriptors(&mut self, index: usize, reference: Reference, bytes: &[u8]) {
        self.upper.descriptors[index] = reference;
        let groups = self.groups.iter_mut().skip(index * GROUPS_PER_DESCRIPTOR_PAGE);
        for (group, bytes) in groups.zip(bytes.as_chunks::<DESCRIPTOR_BYTES>().0) {
            group.parse_descriptor(bytes);
        }
    }

    /// The blocks and checksums of the pages that a loaded group has on disk.
    pub(crate) fn group_pages(&self, index: usize) -> Vec<(usize, u64, u32)> {
        let group = &self.groups[index];
        let present = (0..PAGES).filter(|page| group.present & 1 << page != 0);
        present
            .map(|page| {
                let slot = (group.slots >> page & 1) as u8;
                (page, self.layout.space_page(index, page, slot), group.crcs[page])
            })
            .collect()
    }

    /// Takes over one page of a group. Bitmap pages must come before count pages are relied on.
    pub(crate) fn load_page(&mut self, index: usize, page: usize, bytes: &[u8]) {
        let group = &mut self.groups[index];
        if page > 0 {
            let counts = bytes.as_chunks::<2>().0;
            let counts: [u16; COUNTS_PER_PAGE] =
                std::array::from_fn(|place| u16::from_le_bytes(counts[place]));
            group.counts[page - 1] = Some(Box::new(counts));
            return;
        }
        let words = bytes.as_chunks::<8>().0;
        *group.used = std::array::from_fn(|word| u64::from_le_bytes(words[word]));
        let before = group.free;
        let mut newly_busy = 0;
        for word in 0..WORDS {
            newly_busy += (group.used[word] & !group.busy[word]).count_ones();
            group.busy[word] |= group.used[word];
        }
        group.free = before - newly_busy;
        self.free -= u64::from(newly_busy);
        self.used += u64::from(newly_busy);
    }

    /// A copy of all reference counts, for comparing with a walk of the map.
    pub(crate) fn all_references(&self) -> impl Iterator<Item = (u64, u16)> {
        self.groups.iter().enumerate().flat_map(move |(index, group)| {
            let start = self.layout.group_start(index);
            let places = 0..super::GROUP_BLOCKS as usize;
            let counts = places.map(move |place| (start + place as u64, group.references(place)));
            counts.filter(|(_, count)| *count > 0)
        })
    }

    /// Marks a block as one that must not be handed out, before the map that refers to it is
    /// loaded.
    pub(crate) fn hold(&mut self, block: u64) {
        let (index, place) = self.place(block);
        let group = &mut self.groups[index];
        if !super::get(&group.busy, place) {
            set(&mut group.busy, place);
            group.free -= 1;
            self.free -= 1;
        }
    }
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

/// Number of groups that a descriptor page covers, and whether its bytes can be one.
pub(crate) fn parse_descriptors(bytes: &[u8]) -> bool {
    let all = (1_u32 << PAGES) - 1;
    let descriptors = bytes.as_chunks::<DESCRIPTOR_BYTES>().0.iter();
    descriptors
        .take(GROUPS_PER_DESCRIPTOR_PAGE)
        .all(|bytes| u32_at(bytes, 0) & !all == 0 && u32_at(bytes, 4) & !all == 0)
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("4 bytes"))
}

const _: () = assert!(8 + 4 * (1 + COUNT_PAGES) <= DESCRIPTOR_BYTES);
const _: () = assert!(FIRST_LEVEL_MAX * 8 <= BLOCK as usize / 2);
