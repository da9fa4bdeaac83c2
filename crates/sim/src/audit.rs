//! Reads the bytes on the disk as docs/format.md describes them, without the engine's help.
//!
//! From the durable superblock it walks everything that is reachable, checks every checksum above
//! the data, compares the references it finds with those that the space maps record, and knows
//! afterwards which blocks must not be written.

use block::BLOCK;

use crate::oracle::{Violation, violation};

const SUPERBLOCKS: [u64; 4] = [16, 17, 32, 33];
const SUPERBLOCK_MAGIC: &[u8] = b"GANTRYSB";
const JOURNAL_START: u64 = 256;
const GROUP_BLOCKS: u64 = 32_768;
const GROUP_HEAD: u64 = 42;
const UPPER_COPY: u64 = 4;
const GROUPS_PER_DESCRIPTOR_PAGE: u64 = 32;
const DESCRIPTOR_PAGES_PER_FIRST_LEVEL: u64 = 512;
const PAGES: u64 = 17;
const COUNTS_PER_PAGE: u64 = 2048;
const VOLUME_BYTES: usize = 256;
const REAP_BYTES: usize = 32;
const STUCK: u32 = u16::MAX as u32;

type Block = [u8; BLOCK as usize];

/// Where the bytes come from.
pub trait Image {
    /// Fills a block with what is stable at a byte offset.
    fn read(&self, offset: u64, into: &mut [u8]);
}

impl Image for crate::disk::SimDisk {
    fn read(&self, offset: u64, into: &mut [u8]) {
        self.read_stable(offset, into);
    }
}

/// What a durable superblock reaches.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    /// Rises with every checkpoint.
    pub generation: u64,
    /// Block of the superblock.
    pub superblock: u64,
    /// One bit per block of the device: must not be written.
    protected: Vec<u64>,
    groups_start: u64,
    device_blocks: u64,
    /// References that the walk found, by block.
    found: Vec<u32>,
    used_blocks: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    word: u64,
    crc: u32,
}

impl Entry {
    fn parse(bytes: &[u8]) -> Self {
        Self { word: u64_at(bytes, 0), crc: u32_at(bytes, 8) }
    }

    fn kind(self) -> u64 {
        self.word >> 48 & 0xf
    }

    /// Where the copy of a page is.
    fn twin(self) -> Option<u64> {
        (self.word >> 52 > 0).then(|| self.block() + (self.word >> 52))
    }

    fn block(self) -> u64 {
        self.word & ((1 << 48) - 1)
    }
}

impl Audit {
    /// The generation of the newest superblock; `None` if there is none.
    pub fn newest_generation(image: &impl Image) -> Option<u64> {
        newest_superblock(image).map(|(_, bytes)| u64_at(&bytes, 40))
    }

    /// Walks what the newest superblock reaches; `None` if there is no superblock.
    pub fn of(image: &impl Image) -> Result<Option<Self>, Violation> {
        let Some((slot, superblock)) = newest_superblock(image) else { return Ok(None) };
        let number = |index: usize| u64_at(&superblock, 32 + 8 * index);
        let (device_blocks, journal_blocks) = (u64_at(&superblock, 256 + 16), number(3));
        let mut audit = Self {
            generation: number(1),
            superblock: slot,
            protected: vec![0; device_blocks.div_ceil(64) as usize],
            groups_start: (JOURNAL_START + journal_blocks).next_multiple_of(256),
            device_blocks,
            found: vec![0; device_blocks as usize],
            used_blocks: 0,
        };
        audit.protect(slot)?;
        audit.walk_table(image, &superblock)?;
        audit.walk_space(image, &superblock)?;
        Ok(Some(audit))
    }

    /// Whether a block is reachable from the superblock.
    pub fn is_protected(&self, block: u64) -> bool {
        self.protected.get((block / 64) as usize).is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    /// Blocks that the map and the volume table hold.
    pub fn used_blocks(&self) -> u64 {
        self.used_blocks
    }

    fn protect(&mut self, block: u64) -> Result<(), Violation> {
        match self.protected.get_mut((block / 64) as usize) {
            Some(word) => *word |= 1 << (block % 64),
            None => {
                return violation(format!("the superblock reaches block {block}, beyond the end"));
            }
        }
        Ok(())
    }

    /// Counts a reference; true if it is the first.
    fn refer(&mut self, block: u64) -> Result<bool, Violation> {
        self.protect(block)?;
        let Some(count) = self.found.get_mut(block as usize) else { return Ok(false) };
        *count += 1;
        let first = *count == 1;
        self.used_blocks += u64::from(first);
        Ok(first)
    }

    /// Counts the one reference to the copy of a page, which must be as intact as the page.
    fn refer_to_copy(&mut self, image: &impl Image, entry: Entry) -> Result<(), Violation> {
        let Some(copy) = entry.twin() else { return Ok(()) };
        self.refer(copy)?;
        self.page(image, copy, entry.crc, "the copy of a page").map(drop)
    }

    fn page(
        &self,
        image: &impl Image,
        block: u64,
        crc: u32,
        what: &str,
    ) -> Result<Block, Violation> {
        let mut bytes = [0; BLOCK as usize];
        image.read(block * BLOCK, &mut bytes);
        if crc32c::crc32c(&bytes) != crc {
            let generation = self.generation;
            return violation(format!(
                "{what} in block {block} of checkpoint {generation} is damaged"
            ));
        }
        Ok(bytes)
    }

    fn walk_table(&mut self, image: &impl Image, superblock: &Block) -> Result<(), Violation> {
        let number = |index: usize| u64_at(superblock, 32 + 8 * index);
        let (pages, volume_pages, reap) = (number(7), number(8) as usize, number(9));
        let root = Entry::parse(&superblock[128..144]);
        let mut leaves = Vec::new();
        if pages > 0 {
            let mut levels = 0;
            let mut width = pages;
            while width > 1 {
                width = width.div_ceil(256);
                levels += 1;
            }
            self.table_leaves(image, root, levels, &mut leaves)?;
        }
        let records = leaves.iter().take(volume_pages).flat_map(|page| page.chunks(VOLUME_BYTES));
        for record in records.filter(|record| record.iter().any(|&byte| byte != 0)) {
            self.walk_map(image, Entry::parse(&record[32..48]), record[64].saturating_sub(1))?;
        }
        let dead = leaves.iter().skip(volume_pages).flat_map(|page| page.chunks(REAP_BYTES));
        for record in dead.take(reap as usize) {
            self.walk_map(image, Entry::parse(record), record[16])?;
        }
        Ok(())
    }

    fn table_leaves(
        &mut self,
        image: &impl Image,
        entry: Entry,
        levels: u32,
        leaves: &mut Vec<Block>,
    ) -> Result<(), Violation> {
        self.refer(entry.block())?;
        self.refer_to_copy(image, entry)?;
        let page = self.page(image, entry.block(), entry.crc, "a page of the volume table")?;
        if levels == 0 {
            leaves.push(page);
            return Ok(());
        }
        for child in page.chunks(16).map(Entry::parse).filter(|child| child.word != 0) {
            self.table_leaves(image, child, levels - 1, leaves)?;
        }
        Ok(())
    }

    fn walk_map(&mut self, image: &impl Image, entry: Entry, level: u8) -> Result<(), Violation> {
        match entry.kind() {
            0 => return Ok(()),
            1 => return self.refer(entry.block()).map(drop),
            2 => {}
            kind => return violation(format!("an entry of kind {kind} is on the disk")),
        }
        if !self.refer(entry.block())? {
            return Ok(());
        }
        self.refer_to_copy(image, entry)?;
        let page = self.page(image, entry.block(), entry.crc, "a page of the map")?;
        for child in page.chunks(16).map(Entry::parse).filter(|child| child.word != 0) {
            let fits = (level == 0 && child.kind() == 1) || (level > 0 && child.kind() == 2);
            if !fits {
                return violation(format!("a page of level {level} holds a kind {}", child.kind()));
            }
            self.walk_map(image, child, level.saturating_sub(1))?;
        }
        Ok(())
    }

    fn group_start(&self, group: u64) -> u64 {
        self.groups_start + group * GROUP_BLOCKS
    }

    fn groups(&self) -> u64 {
        let blocks = self.device_blocks.saturating_sub(self.groups_start);
        blocks / GROUP_BLOCKS + u64::from(blocks % GROUP_BLOCKS > GROUP_HEAD)
    }

    /// Checks the space maps and compares them with what the walk found.
    fn walk_space(&mut self, image: &impl Image, superblock: &Block) -> Result<(), Violation> {
        let mut recorded = vec![0; self.found.len()];
        let descriptor_pages = self.groups().div_ceil(GROUPS_PER_DESCRIPTOR_PAGE);
        let first_levels = descriptor_pages.div_ceil(DESCRIPTOR_PAGES_PER_FIRST_LEVEL);
        for first_level in 0..first_levels {
            let reference = &superblock[1536 + 8 * first_level as usize..];
            let group = first_level * DESCRIPTOR_PAGES_PER_FIRST_LEVEL * GROUPS_PER_DESCRIPTOR_PAGE;
            let Some(page) = self.space_page(image, self.group_start(group) + 36, reference)?
            else {
                continue;
            };
            for index in 0..descriptor_pages.min(DESCRIPTOR_PAGES_PER_FIRST_LEVEL) {
                let group = group + index * GROUPS_PER_DESCRIPTOR_PAGE;
                let reference = &page[8 * index as usize..];
                let at = self.group_start(group) + 34;
                let Some(page) = self.space_page(image, at, reference)? else { continue };
                for (group, descriptor) in (group..self.groups()).zip(page.chunks(128)) {
                    self.read_group(image, group, descriptor, &mut recorded)?;
                }
            }
        }
        self.compare(&recorded)
    }

    /// One of the two slots at `at`, as the reference says; `None` if it was never written.
    fn space_page(
        &mut self,
        image: &impl Image,
        at: u64,
        reference: &[u8],
    ) -> Result<Option<Block>, Violation> {
        let slot = u64::from(reference[4]);
        if slot > 1 {
            return Ok(None);
        }
        self.protect(at + slot)?;
        self.protect(at + slot + UPPER_COPY)?;
        let crc = u32_at(reference, 0);
        self.page(image, at + slot + UPPER_COPY, crc, "a copy of a page of the space maps")?;
        self.page(image, at + slot, crc, "a page of the space maps").map(Some)
    }

    fn read_group(
        &mut self,
        image: &impl Image,
        group: u64,
        descriptor: &[u8],
        recorded: &mut [u32],
    ) -> Result<(), Violation> {
        let (slots, present) = (u32_at(descriptor, 0), u32_at(descriptor, 4));
        let start = self.group_start(group);
        for page in (0..PAGES).filter(|page| present >> page & 1 == 1) {
            let at = start + 2 * page + u64::from(slots >> page & 1);
            let crc = u32_at(descriptor, 8 + 4 * page as usize);
            self.protect(at)?;
            let bytes = self.page(image, at, crc, "a page of the space maps")?;
            match page {
                0 => read_bitmap(&bytes, start, recorded),
                _ => read_counts(&bytes, start + (page - 1) * COUNTS_PER_PAGE, recorded),
            }
        }
        Ok(())
    }

    fn compare(&self, recorded: &[u32]) -> Result<(), Violation> {
        let differs = |(found, recorded): (&u32, &u32)| found != recorded && *recorded != STUCK;
        let Some(block) = self.found.iter().zip(recorded).position(differs) else { return Ok(()) };
        let (generation, found, recorded) = (self.generation, self.found[block], recorded[block]);
        violation(format!(
            "checkpoint {generation}: block {block} has {found} references, recorded are {recorded}"
        ))
    }
}

fn read_bitmap(bytes: &Block, start: u64, recorded: &mut [u32]) {
    for (index, word) in (0..).zip(bytes.as_chunks::<8>().0) {
        let mut word = u64::from_le_bytes(*word);
        while word != 0 {
            let block = start + index * 64 + u64::from(word.trailing_zeros());
            record(recorded, block, 1);
            word &= word - 1;
        }
    }
}

/// Counts take the place of the bitmap's ones.
fn read_counts(bytes: &Block, start: u64, recorded: &mut [u32]) {
    for (place, count) in (0..).zip(bytes.as_chunks::<2>().0) {
        let count = u32::from(u16::from_le_bytes(*count));
        if count > 1 {
            record(recorded, start + place, count);
        }
    }
}

fn record(recorded: &mut [u32], block: u64, count: u32) {
    if let Some(place) = recorded.get_mut(block as usize) {
        *place = count;
    }
}

/// The valid superblock of the highest generation, and its block.
fn newest_superblock(image: &impl Image) -> Option<(u64, Block)> {
    let read = |block: u64| {
        let mut bytes = [0; BLOCK as usize];
        image.read(block * BLOCK, &mut bytes);
        let sealed =
            crc32c::crc32c(&bytes[..BLOCK as usize - 4]) == u32_at(&bytes, BLOCK as usize - 4);
        (sealed && bytes.starts_with(SUPERBLOCK_MAGIC)).then_some((block, bytes))
    };
    SUPERBLOCKS.into_iter().filter_map(read).max_by_key(|(_, bytes)| u64_at(bytes, 40))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}
