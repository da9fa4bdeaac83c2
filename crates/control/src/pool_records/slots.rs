//! Places of records in a pool's hidden volume: which blocks each has, and which are free.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use array::{Record, RecordKey};
use block::BLOCK;

use super::encoding::{Part, blocks_of, emit, join, parse_text};
use super::feed::Feed;
use crate::limits::{GAPS_SEARCHED_MAX, RECORD_BLOCKS_MAX, RECORDS_BLOCKS, TOMBSTONES_MAX};

/// Adjacent blocks of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blocks {
    /// The first one.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// Where a record is, and what is there.
#[derive(Clone, Debug)]
struct Entry {
    blocks: Blocks,
    version: u64,
    is_deleted: bool,
    /// Hash of its text; `None` if it is not known to be written.
    hash: Option<u64>,
}

/// A record that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Where.
    pub blocks: Blocks,
    /// What.
    pub bytes: Vec<u8>,
    /// What it was in before; to be freed by [`Slots::release`] when it is written.
    pub left: Option<Blocks>,
}

/// Why a record has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unplaced {
    /// It is larger than a record may be.
    TooLarge,
    /// The volume is full.
    Full,
}

/// A record that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The version of the configuration that wrote it.
    pub version: u64,
    /// What it says; `None` if the object was deleted.
    pub record: Option<Record>,
}

/// Everything that a volume holds.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Places of all records.
    pub slots: Slots,
    /// What they say.
    pub records: BTreeMap<RecordKey, Found>,
    /// Blocks that nothing needs: earlier versions, or parts.
    pub garbage: Vec<Blocks>,
    /// Blocks with something in them that is no record, or damaged.
    pub damaged: u64,
}

/// Places of all records of a pool.
#[derive(Debug, Default)]
pub struct Slots {
    entries: BTreeMap<RecordKey, Entry>,
    /// Free blocks before `end`, by the first.
    gaps: BTreeMap<u64, u64>,
    /// Behind it nothing is used.
    end: u64,
    /// Records that say that something was deleted, oldest first.
    tombstones: BTreeSet<(u64, RecordKey)>,
    feed: Feed,
}

impl Slots {
    /// Finds the records in what was read, which are blocks by number, in their order; those that
    /// were never written may be left out.
    pub fn load<'a>(blocks: impl Iterator<Item = (u64, &'a [u8])>) -> Loaded {
        let mut loaded = Loaded::default();
        let mut used: BTreeSet<Blocks> = BTreeSet::new();
        let mut parts: Vec<Part<'a>> = Vec::new();
        let mut first = 0;
        for (number, bytes) in blocks {
            let one = Blocks { first: number, count: 1 };
            let Some(part) = Part::parse(bytes) else {
                if bytes.iter().any(|&byte| byte != 0) {
                    loaded.damaged += 1;
                    loaded.garbage.push(one);
                    used.insert(one);
                }
                continue;
            };
            used.insert(one);
            if part.is_first() || number != first + parts.len() as u64 || parts.is_empty() {
                loaded.give_up(first, &parts);
                parts.clear();
                first = number;
            }
            parts.push(part);
            if parts.len() == usize::from(parts[0].count) {
                loaded.take(first, &parts);
                parts.clear();
            }
        }
        loaded.give_up(first, &parts);
        loaded.slots.note_gaps(&used);
        loaded.slots.entries.keys().for_each(|key| loaded.slots.feed.note(key));
        loaded
    }

    /// Whether a record is as it should be already.
    pub fn is_current(&self, key: &RecordKey, text: Option<&str>) -> bool {
        match (self.entries.get(key), text) {
            (None, None) => true,
            (Some(entry), None) => entry.is_deleted && entry.hash.is_some(),
            (Some(entry), Some(text)) => !entry.is_deleted && entry.hash == Some(hash_of(text)),
            (None, Some(_)) => false,
        }
    }

    /// Gives a record a place; it counts as written from now on, unless [`Self::failed`] says otherwise.
    ///
    /// # Errors
    /// When there is none; then nothing has changed.
    pub fn place(
        &mut self,
        key: &RecordKey,
        (text, version): (&str, u64),
        is_deleted: bool,
    ) -> Result<Placed, Unplaced> {
        let count = blocks_of(text);
        if count > RECORD_BLOCKS_MAX {
            return Err(Unplaced::TooLarge);
        }
        let count = count as u64;
        let before = self.entries.get(key).map(|entry| entry.blocks);
        // States of logical units and the owner change without a new version of the configuration.
        let version = match (key, self.entries.get(key)) {
            (RecordKey::Unit(_) | RecordKey::Owner, Some(entry)) => version.max(entry.version + 1),
            _ => version,
        };
        let (blocks, left) = match before {
            Some(before) if before.count == count => (before, None),
            before => (self.allocate(count).ok_or(Unplaced::Full)?, before),
        };
        if let Some(entry) = self.entries.get(key) {
            self.tombstones.remove(&(entry.version, key.clone()));
        }
        if is_deleted {
            self.tombstones.insert((version, key.clone()));
        }
        let entry = Entry { blocks, version, is_deleted, hash: Some(hash_of(text)) };
        self.entries.insert(key.clone(), entry);
        self.feed.note(key);
        Ok(Placed { blocks, bytes: emit(text, version, is_deleted), left })
    }

    /// A record could not be written: nobody knows what is in its place.
    pub fn failed(&mut self, key: &RecordKey) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.hash = None;
        }
    }

    /// Blocks are free again; what they held must be unmapped before.
    pub fn release(&mut self, blocks: Blocks) {
        self.gaps.insert(blocks.first, blocks.count);
    }

    /// Records of deleted objects beyond those that are kept: their blocks, which are to be unmapped
    /// and released.
    pub fn take_old_tombstones(&mut self) -> Vec<Blocks> {
        let mut old = Vec::new();
        while self.tombstones.len() > TOMBSTONES_MAX
            && let Some((_, key)) = self.tombstones.pop_first()
        {
            old.extend(self.entries.remove(&key).map(|entry| entry.blocks));
            self.feed.forget(&key);
        }
        old
    }

    /// In which order records changed.
    pub const fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Something besides a record is told with it, and has changed.
    pub fn touch(&mut self, key: &RecordKey) {
        if self.entries.contains_key(key) {
            self.feed.note(key);
        }
    }

    /// Whether there is a record of an object, or of its end.
    pub fn knows(&self, key: &RecordKey) -> bool {
        self.entries.contains_key(key)
    }

    /// The version of the configuration that a record was written with; 0 if there is none.
    pub fn version_of(&self, key: &RecordKey) -> u64 {
        self.entries.get(key).map_or(0, |entry| entry.version)
    }

    /// What all pools record, with its versions; of what ended, too.
    pub fn shared(&self) -> impl Iterator<Item = (&RecordKey, u64)> {
        let entries = self.entries.iter().map(|(key, entry)| (key, entry.version));
        entries.filter(|(key, _)| key.is_of_all_pools())
    }

    /// Records that say that something is there.
    pub fn keys(&self) -> impl Iterator<Item = &RecordKey> {
        self.entries.iter().filter(|(_, entry)| !entry.is_deleted).map(|(key, _)| key)
    }

    fn allocate(&mut self, count: u64) -> Option<Blocks> {
        let mut gaps = self.gaps.iter().take(GAPS_SEARCHED_MAX);
        if let Some((&first, &length)) = gaps.find(|(_, length)| **length >= count) {
            self.gaps.remove(&first);
            if length > count {
                self.gaps.insert(first + count, length - count);
            }
            return Some(Blocks { first, count });
        }
        let first = self.end;
        (first + count <= RECORDS_BLOCKS).then(|| {
            self.end += count;
            Blocks { first, count }
        })
    }

    /// All between what is used is free. Garbage becomes free when it is released.
    fn note_gaps(&mut self, used: &BTreeSet<Blocks>) {
        for blocks in used {
            if blocks.first > self.end {
                self.gaps.insert(self.end, blocks.first - self.end);
            }
            self.end = blocks.first + blocks.count;
        }
    }
}

impl Loaded {
    /// Takes a record, unless there is a newer one of the same object.
    fn take(&mut self, first: u64, parts: &[Part<'_>]) {
        let blocks = Blocks { first, count: parts.len() as u64 };
        let Some((text, head)) = join(parts).zip(parts.first()) else {
            return self.give_up(first, parts);
        };
        let Some((key, record)) = parse_text(&text) else { return self.give_up(first, parts) };
        let (version, is_deleted) = (head.version, head.is_deleted);
        if self.slots.entries.get(&key).is_some_and(|other| other.version >= version) {
            return self.garbage.push(blocks);
        }
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let hash = Some(hasher.finish());
        if is_deleted {
            self.slots.tombstones.insert((version, key.clone()));
        }
        let entry = Entry { blocks, version, is_deleted, hash };
        if let Some(before) = self.slots.entries.insert(key.clone(), entry) {
            self.slots.tombstones.remove(&(before.version, key.clone()));
            self.garbage.push(before.blocks);
        }
        let record = record.filter(|_| !is_deleted);
        self.records.insert(key, Found { version, record });
    }

    /// Parts of which the rest is missing, or that nobody understands.
    fn give_up(&mut self, first: u64, parts: &[Part<'_>]) {
        if !parts.is_empty() {
            self.damaged += parts.len() as u64;
            self.garbage.push(Blocks { first, count: parts.len() as u64 });
        }
    }
}

impl Blocks {
    /// The bytes of the volume.
    pub const fn range(self) -> block::ByteRange {
        block::ByteRange::new(self.first * BLOCK, self.count * BLOCK)
    }
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.as_bytes().hash(&mut hasher);
    hasher.finish()
}
