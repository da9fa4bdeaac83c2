//! The space maps that a superblock refers to.

use hashbrown::{HashMap, HashSet};

use block::BLOCK;

use super::Image;
use super::format::{
    COUNTS_PER_PAGE, DESCRIPTOR_BYTES, DESCRIPTOR_PAGES_PER_FIRST_LEVEL, Device, FENCED, FLAGS_AT,
    GROUP_BLOCKS, GROUP_HEAD, GROUPS_PER_DESCRIPTOR_PAGE, PAGES, Reference, Superblock, UPPER_COPY,
    USED_AT, address, split, u16_at, u32_at, u64_at,
};
use crate::oracle::{Violation, violation};
use crate::random::Random;

/// A page of a group's maps: device, group, and 0 for the bitmap or 1 + the number of a count page.
type Key = (usize, u64, u64);

/// Every page of the space maps, as the newest superblock refers to it.
#[derive(Clone, Debug, Default)]
pub(super) struct SpaceMaps {
    first_levels: HashMap<(usize, u64), Reference>,
    descriptor_pages: HashMap<(usize, u64), Reference>,
    descriptors: HashMap<(usize, u64), Vec<u8>>,
    /// Address and content of the pages that are present.
    pages: HashMap<Key, (u64, Vec<u8>)>,
    layouts: Vec<Device>,
    /// Addresses of all pages in use.
    in_use: HashSet<u64>,
}

/// What is being followed.
struct Walk<'a, I: ?Sized> {
    image: &'a I,
    device: usize,
    layout: Device,
    suspects: &'a mut Vec<u64>,
}

impl SpaceMaps {
    /// Whether a block is a page in use.
    pub(super) fn is_in_use(&self, at: u64) -> bool {
        self.in_use.contains(&at)
    }

    /// The pages in use on a device, in order.
    pub(super) fn blocks_of(&self, device: usize) -> Vec<u64> {
        let places = self.in_use.iter().map(|at| split(*at));
        let mut blocks: Vec<u64> =
            places.filter(|(of, _)| *of == device).map(|(_, block)| block).collect();
        blocks.sort_unstable();
        blocks
    }

    /// A descriptor page or a first-level page, or the copy of one.
    pub(super) fn pick_upper(&self, random: &mut Random) -> Option<(usize, u64)> {
        let is_upper = 34..GROUP_HEAD;
        let upper = |&at: &u64| {
            let (device, block) = split(at);
            let start = self.layouts[device].groups_start;
            is_upper.contains(&((block - start) % GROUP_BLOCKS))
        };
        let mut pages: Vec<u64> = self.in_use.iter().copied().filter(upper).collect();
        pages.sort_unstable();
        let place = random.below(pages.len().max(1) as u64) as usize;
        pages.get(place).map(|at| split(*at))
    }

    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        self.pages == other.pages && self.in_use == other.in_use
    }

    /// Whether a block lies in a group that is not used any more.
    pub(super) fn is_fenced(&self, layout: &Device, device: usize, block: u64) -> bool {
        let group = block.saturating_sub(layout.groups_start) / GROUP_BLOCKS;
        let descriptor = self.descriptors.get(&(device, group));
        descriptor.is_some_and(|bytes| u32_at(bytes, FLAGS_AT) & FENCED != 0)
    }

    /// References to a block that are recorded.
    pub(super) fn recorded(&self, layout: &Device, device: usize, block: u64) -> u32 {
        let Some(offset) = block.checked_sub(layout.groups_start) else { return 0 };
        let (group, place) = (offset / GROUP_BLOCKS, offset % GROUP_BLOCKS);
        let page = |page| self.pages.get(&(device, group, page)).map(|(_, bytes)| &bytes[..]);
        let word = page(0).map_or(0, |bytes| u64_at(bytes, (place / 64 * 8) as usize));
        let counts = page(1 + place / COUNTS_PER_PAGE);
        let at = (2 * (place % COUNTS_PER_PAGE)) as usize;
        let count = counts.map_or(0, |bytes| u32::from(u16_at(bytes, at)));
        if count > 1 { count } else { (word >> (place % 64) & 1) as u32 }
    }

    /// Follows what changed with a new superblock. Appends the addresses of which the recorded
    /// count changed.
    pub(super) fn update(
        &mut self,
        image: &(impl Image + ?Sized),
        superblock: &Superblock,
        suspects: &mut Vec<u64>,
    ) -> Result<(), Violation> {
        self.layouts.clone_from(&superblock.devices);
        for (device, layout) in superblock.devices.iter().enumerate() {
            if layout.blocks == 0 {
                self.forget(device);
            }
            let mut walk = Walk { image, device, layout: *layout, suspects };
            for (index, reference) in (0..).zip(superblock.first_level(device)) {
                self.first_level(&mut walk, index, *reference)?;
            }
        }
        Ok(())
    }

    /// A device has left.
    fn forget(&mut self, device: usize) {
        self.first_levels.retain(|(of, _), _| *of != device);
        self.descriptor_pages.retain(|(of, _), _| *of != device);
        self.descriptors.retain(|(of, _), _| *of != device);
        self.pages.retain(|(of, _, _), _| *of != device);
        self.in_use.retain(|at| split(*at).0 != device);
    }

    fn first_level<I: Image + ?Sized>(
        &mut self,
        walk: &mut Walk<'_, I>,
        index: u64,
        reference: Reference,
    ) -> Result<(), Violation> {
        let first = index * DESCRIPTOR_PAGES_PER_FIRST_LEVEL;
        let at = walk.layout.group_start(first * GROUPS_PER_DESCRIPTOR_PAGE) + 36;
        let key = (walk.device, index);
        let old = self.first_levels.insert(key, reference);
        let Some(bytes) = self.upper_page(walk, at, old, reference)? else { return Ok(()) };
        let pages = first..walk.layout.descriptor_pages();
        for (page, bytes) in pages.zip(bytes.chunks(8)) {
            self.descriptor_page(walk, page, Reference::parse(bytes))?;
        }
        Ok(())
    }

    fn descriptor_page<I: Image + ?Sized>(
        &mut self,
        walk: &mut Walk<'_, I>,
        index: u64,
        reference: Reference,
    ) -> Result<(), Violation> {
        let first = index * GROUPS_PER_DESCRIPTOR_PAGE;
        let at = walk.layout.group_start(first) + 34;
        let key = (walk.device, index);
        let old = self.descriptor_pages.insert(key, reference);
        let Some(bytes) = self.upper_page(walk, at, old, reference)? else { return Ok(()) };
        for (group, new) in (first..walk.layout.groups()).zip(bytes.chunks(DESCRIPTOR_BYTES)) {
            let old = self.descriptors.insert((walk.device, group), new.to_vec());
            if old.as_deref() != Some(new) {
                self.group(walk, group, new)?;
            }
        }
        Ok(())
    }

    /// One of the two slots at `at`, as the reference says; `None` if there is nothing new.
    fn upper_page<'a, I: Image + ?Sized>(
        &mut self,
        walk: &Walk<'a, I>,
        at: u64,
        old: Option<Reference>,
        new: Reference,
    ) -> Result<Option<&'a [u8]>, Violation> {
        if old == Some(new) || !new.exists() {
            return Ok(None);
        }
        for at in [at, at + UPPER_COPY] {
            if let Some(old) = old.filter(|old| old.exists()) {
                self.in_use.remove(&address(walk.device, at + old.slot));
            }
            self.in_use.insert(address(walk.device, at + new.slot));
        }
        intact(walk.image, walk.device, at + UPPER_COPY + new.slot, new.crc)?;
        intact(walk.image, walk.device, at + new.slot, new.crc).map(Some)
    }

    fn group<I: Image + ?Sized>(
        &mut self,
        walk: &mut Walk<'_, I>,
        group: u64,
        descriptor: &[u8],
    ) -> Result<(), Violation> {
        let (slots, present) = (u32_at(descriptor, 0), u32_at(descriptor, 4));
        let start = walk.layout.group_start(group);
        for page in 0..PAGES {
            let key = (walk.device, group, page);
            let at = address(walk.device, start + 2 * page + u64::from(slots >> page & 1));
            let crc = u32_at(descriptor, 8 + 4 * page as usize);
            let new = if present >> page & 1 == 1 {
                Some((at, intact(walk.image, walk.device, at & 0xff_ffff_ffff, crc)?))
            } else {
                None
            };
            let first = start + if page == 0 { 0 } else { (page - 1) * COUNTS_PER_PAGE };
            self.replace(walk, key, address(walk.device, first), new);
        }
        self.check_used((walk.device, group, 0), descriptor)
    }

    /// A descriptor says how many blocks of its group are in use.
    fn check_used(&self, bitmap: Key, descriptor: &[u8]) -> Result<(), Violation> {
        let words = self.pages.get(&bitmap).map(|(_, bytes)| bytes.as_chunks::<8>().0);
        let words = words.unwrap_or_default().iter();
        let used: u32 = words.map(|word| u64::from_le_bytes(*word).count_ones()).sum();
        let recorded = u32_at(descriptor, USED_AT);
        if used == recorded {
            return Ok(());
        }
        let group = bitmap.1;
        violation(format!(
            "of group {group} {used} blocks are used, its descriptor says {recorded}"
        ))
    }

    /// Takes over a page; `first` is the address of the first block that it is about.
    fn replace<I: ?Sized>(
        &mut self,
        walk: &mut Walk<'_, I>,
        key: Key,
        first: u64,
        new: Option<(u64, &[u8])>,
    ) {
        let old = match new {
            Some((at, bytes)) => {
                self.in_use.insert(at);
                self.pages.insert(key, (at, bytes.to_vec()))
            }
            None => self.pages.remove(&key),
        };
        if let Some((at, _)) = &old
            && new.is_none_or(|(new, _)| new != *at)
        {
            self.in_use.remove(at);
        }
        let zeros = [0; BLOCK as usize];
        let old = old.as_ref().map_or(&zeros[..], |(_, bytes)| bytes);
        let new = new.map_or(&zeros[..], |(_, bytes)| bytes);
        let blocks_per_word = if key.2 == 0 { 64 } else { 4 };
        let words = old.chunks(8).zip(new.chunks(8));
        for (word, _) in (0..).zip(words).filter(|(_, (old, new))| old != new) {
            let at = first + word * blocks_per_word;
            let end = (at + blocks_per_word).min(address(walk.device, walk.layout.blocks));
            walk.suspects.extend(at..end);
        }
    }
}

/// A block whose checksum is right.
fn intact<I: Image + ?Sized>(
    image: &I,
    device: usize,
    block: u64,
    crc: u32,
) -> Result<&[u8], Violation> {
    let bytes = image.block(device, block);
    if crc32c::crc32c(bytes) != crc {
        return violation(format!("a page of the space maps in block {block} is damaged"));
    }
    Ok(bytes)
}
