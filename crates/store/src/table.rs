//! The volume table of a checkpoint: volumes, and subtrees that wait for the reaper.
//!
//! Its pages are a tree: leaves hold 16 volume records or 128 reaper entries of 32 bytes, the
//! pages above hold 256 map entries each. Volumes come first, then reaper entries, each kind
//! starting on a page of its own.

use block::{BLOCK, Buffer};

use crate::checksum::crc32c;
use crate::entry::{Entry, FANOUT, Page, emit_entry, parse_entry};
use crate::map::Missing;
use crate::space::Space;
use crate::volume::{VOLUME_BYTES, Volume};

const VOLUMES_PER_PAGE: usize = BLOCK as usize / VOLUME_BYTES;
const REAP_BYTES: usize = 32;
const REAP_PER_PAGE: usize = BLOCK as usize / REAP_BYTES;

/// The table's pages, ready to be written.
pub(crate) struct Table {
    pub(crate) root: Entry,
    /// Leaves.
    pub(crate) pages: u32,
    pub(crate) blocks: Vec<u64>,
    pub(crate) writes: Vec<(u64, Buffer)>,
}

/// Writes the table to newly allocated blocks.
pub(crate) fn emit<'a>(
    space: &mut Space,
    volumes: impl Iterator<Item = &'a Volume>,
    reap: &[Missing],
) -> Table {
    let mut leaves = Vec::new();
    let records: Vec<_> = volumes.map(Volume::emit).collect();
    for chunk in records.chunks(VOLUMES_PER_PAGE) {
        leaves.push(page_of(chunk.iter().map(|record| &record[..]), VOLUME_BYTES));
    }
    let entries: Vec<_> = reap.iter().map(emit_reap).collect();
    for chunk in entries.chunks(REAP_PER_PAGE) {
        leaves.push(page_of(chunk.iter().map(|entry| &entry[..]), REAP_BYTES));
    }
    let mut table = Table {
        root: Entry::HOLE,
        pages: leaves.len() as u32,
        blocks: Vec::new(),
        writes: Vec::new(),
    };
    let mut level = leaves;
    while !level.is_empty() {
        let entries: Vec<Entry> = level.into_iter().map(|page| table.place(space, page)).collect();
        if let [root] = entries[..] {
            table.root = root;
            break;
        }
        level = entries.chunks(FANOUT as usize).map(emit_index).collect();
    }
    table
}

impl Table {
    fn place(&mut self, space: &mut Space, page: Buffer) -> Entry {
        let block = space.allocate(1).expect("the reserve covers the volume table").start;
        space.first_reference(block);
        let entry = Entry::page(block, crc32c(&page), 0);
        self.blocks.push(block);
        self.writes.push((block, page));
        entry
    }
}

/// Levels of index pages above the leaves.
pub(crate) fn index_levels(pages: u32) -> u32 {
    let mut levels = 0;
    let mut pages = u64::from(pages);
    while pages > 1 {
        pages = pages.div_ceil(FANOUT);
        levels += 1;
    }
    levels
}

/// Leaves that hold volumes.
pub(crate) fn volume_pages(volumes: u32) -> u32 {
    volumes.div_ceil(VOLUMES_PER_PAGE as u32)
}

/// Leaves that the table has in all.
pub(crate) fn pages(volumes: u32, reap_entries: u32) -> u32 {
    volume_pages(volumes) + reap_entries.div_ceil(REAP_PER_PAGE as u32)
}

/// The volumes of a leaf, at most `count`; `None` if one makes no sense.
pub(crate) fn parse_volumes(bytes: &[u8], count: usize) -> Option<Vec<Volume>> {
    let records = bytes.as_chunks::<VOLUME_BYTES>().0.iter().take(count);
    records.map(Volume::parse).collect()
}

/// The reaper entries of a leaf, at most `count`.
pub(crate) fn parse_reap(bytes: &[u8], count: usize) -> Vec<Missing> {
    let entries = bytes.as_chunks::<REAP_BYTES>().0.iter().take(count);
    entries
        .map(|bytes| Missing {
            entry: parse_entry(bytes[..16].try_into().expect("16 of 32 bytes")),
            level: bytes[16],
        })
        .collect()
}

fn emit_reap(dead: &Missing) -> [u8; REAP_BYTES] {
    let mut bytes = [0; REAP_BYTES];
    bytes[..16].copy_from_slice(&emit_entry(dead.entry));
    bytes[16] = dead.level;
    bytes
}

fn page_of<'a>(records: impl Iterator<Item = &'a [u8]>, size: usize) -> Buffer {
    let mut page = Buffer::zeroed(BLOCK as usize);
    for (record, place) in records.zip(page.chunks_exact_mut(size)) {
        place.copy_from_slice(record);
    }
    page
}

fn emit_index(entries: &[Entry]) -> Buffer {
    let mut page = Page::empty();
    page.0[..entries.len()].copy_from_slice(entries);
    let mut bytes = Buffer::for_overwrite(BLOCK as usize);
    page.emit(&mut bytes);
    bytes
}
