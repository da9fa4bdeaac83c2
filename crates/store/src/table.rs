//! Volume table of a checkpoint: the volumes, and the subtrees that the reaper has yet to free.
//!
//! Its pages are a tree: leaves hold 16 volume records or 128 reaper entries of 32 bytes, the
//! pages above hold 256 map entries each. Leaves of volumes come first. A volume keeps its place,
//! so a leaf in which nothing changed is not written again.

use block::{BLOCK, Buffer, VolumeId};
use std::collections::BTreeMap;

use crate::address::Address;
use crate::entry::{Entry, FANOUT, Page, emit_entry, parse_entry};
use crate::map::{Missing, place_page};
use crate::space::Space;
use crate::volume::{VOLUME_BYTES, Volume};

pub(crate) const VOLUMES_PER_PAGE: usize = BLOCK as usize / VOLUME_BYTES;
const REAP_BYTES: usize = 32;
const REAP_PER_PAGE: usize = BLOCK as usize / REAP_BYTES;

/// The table of the newest checkpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// Which volume is recorded at which place, 16 to a leaf.
    places: Vec<Option<VolumeId>>,
    volume_leaves: Vec<Leaf>,
    /// Leaves of reaper entries, and the pages above all leaves.
    others: Vec<Entry>,
}

/// A leaf of volumes, and what it says.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) entry: Entry,
    pub(crate) bytes: Box<[u8]>,
}

/// Root of a volume table in the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableRoot {
    pub(crate) root: Entry,
    /// Leaves of volumes.
    pub(crate) volume_leaves: u32,
    pub(crate) reap_entries: u32,
}

impl Table {
    /// A table that was read.
    pub(crate) fn loaded(
        places: Vec<Option<VolumeId>>,
        volume_leaves: Vec<Leaf>,
        others: Vec<Entry>,
    ) -> Self {
        Self { places, volume_leaves, others }
    }

    /// Pages at most that the next table needs, copies included.
    pub(crate) fn pages_max(&self, volumes: usize, reap_entries: usize) -> u64 {
        let places = volumes.max(self.places.len());
        let leaves = places.div_ceil(VOLUMES_PER_PAGE) + reap_entries.div_ceil(REAP_PER_PAGE);
        2 * (leaves + leaves.div_ceil(FANOUT as usize) + 2) as u64
    }

    /// Every page, for counting references.
    pub(crate) fn pages(&self) -> impl Iterator<Item = Entry> {
        let leaves = self.volume_leaves.iter().map(|leaf| leaf.entry);
        leaves.chain(self.others.iter().copied())
    }

    /// Writes what changed; appends it to `writes`.
    pub(crate) fn emit(
        &mut self,
        space: &mut Space,
        volumes: &BTreeMap<VolumeId, Volume>,
        reap: &[Missing],
        writes: &mut Vec<(Address, Buffer)>,
    ) -> TableRoot {
        self.assign_places(volumes);
        for page in std::mem::take(&mut self.others) {
            space.drop_page_reference(page.address(), page.twin_distance());
        }
        let leaves = self.places.len() / VOLUMES_PER_PAGE;
        for gone in self.volume_leaves.drain(leaves.min(self.volume_leaves.len())..) {
            space.drop_page_reference(gone.entry.address(), gone.entry.twin_distance());
        }
        for leaf in 0..leaves {
            self.emit_volumes(leaf, space, volumes, writes);
        }
        let entries: Vec<_> = reap.iter().map(emit_reap).collect();
        let mut level: Vec<_> = self.volume_leaves.iter().map(|leaf| leaf.entry).collect();
        for chunk in entries.chunks(REAP_PER_PAGE) {
            let page = page_of(chunk.iter().map(|entry| &entry[..]), REAP_BYTES);
            level.push(self.place(space, page, writes));
        }
        while level.len() > 1 {
            let pages = level.chunks(FANOUT as usize).map(emit_index);
            level = pages.map(|page| self.place(space, page, writes)).collect();
        }
        TableRoot {
            root: level.first().copied().unwrap_or(Entry::HOLE),
            volume_leaves: leaves as u32,
            reap_entries: reap.len() as u32,
        }
    }

    fn place(
        &mut self,
        space: &mut Space,
        page: Buffer,
        writes: &mut Vec<(Address, Buffer)>,
    ) -> Entry {
        let entry = place_page(space, page, true, writes);
        self.others.push(entry);
        entry
    }

    /// Gives new volumes places, and those of volumes that are gone back.
    fn assign_places(&mut self, volumes: &BTreeMap<VolumeId, Volume>) {
        for place in &mut self.places {
            *place = place.filter(|id| volumes.contains_key(id));
        }
        let known: std::collections::BTreeSet<_> = self.places.iter().flatten().copied().collect();
        let mut new = volumes.keys().filter(|id| !known.contains(id));
        for place in self.places.iter_mut().filter(|place| place.is_none()) {
            *place = new.next().copied();
        }
        self.places.extend(new.map(|id| Some(*id)));
        let used = self.places.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        self.places.resize(used.next_multiple_of(VOLUMES_PER_PAGE), None);
    }

    /// Writes a leaf of volumes, unless it is as before.
    fn emit_volumes(
        &mut self,
        leaf: usize,
        space: &mut Space,
        volumes: &BTreeMap<VolumeId, Volume>,
        writes: &mut Vec<(Address, Buffer)>,
    ) {
        let places = &self.places[leaf * VOLUMES_PER_PAGE..][..VOLUMES_PER_PAGE];
        let record = |place: &Option<VolumeId>| match place {
            Some(id) => volumes[id].emit(),
            None => [0; VOLUME_BYTES],
        };
        let records: Vec<_> = places.iter().map(record).collect();
        let page = page_of(records.iter().map(|record| &record[..]), VOLUME_BYTES);
        if let Some(old) = self.volume_leaves.get(leaf) {
            if *old.bytes == *page && !space.has_leaving(old.entry) {
                return;
            }
            space.drop_page_reference(old.entry.address(), old.entry.twin_distance());
        }
        let bytes = page.to_vec().into_boxed_slice();
        let new = Leaf { entry: place_page(space, page, true, writes), bytes };
        match self.volume_leaves.get_mut(leaf) {
            Some(old) => *old = new,
            None => self.volume_leaves.push(new),
        }
    }
}

impl TableRoot {
    /// Leaves in all.
    pub(crate) fn leaves(&self) -> u32 {
        self.volume_leaves + self.reap_entries.div_ceil(REAP_PER_PAGE as u32)
    }

    /// Levels of index pages above the leaves.
    pub(crate) fn index_levels(&self) -> u32 {
        let mut levels = 0;
        let mut pages = u64::from(self.leaves());
        while pages > 1 {
            pages = pages.div_ceil(FANOUT);
            levels += 1;
        }
        levels
    }

    /// Reaper entries in a leaf of them.
    pub(crate) fn reap_entries_in(&self, leaf: u32) -> usize {
        let before = (leaf - self.volume_leaves) as usize * REAP_PER_PAGE;
        (self.reap_entries as usize - before).min(REAP_PER_PAGE)
    }
}

/// The volumes of a leaf by place; `None` if one makes no sense.
pub(crate) fn parse_volumes(bytes: &[u8]) -> Option<Vec<Option<Volume>>> {
    let records = bytes.as_chunks::<VOLUME_BYTES>().0.iter();
    let is_empty = |record: &[u8; VOLUME_BYTES]| record.iter().all(|&byte| byte == 0);
    records
        .map(|record| if is_empty(record) { Some(None) } else { Volume::parse(record).map(Some) })
        .collect()
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
