//! Moves what lies on a device that leaves: finds pages and entries of the map that refer to it, and
//! rewrites them, so that what is shared stays shared.
//!
//! A page that several parents share is rewritten once. The others find the new page by a note of what
//! became of the old one; the note ends as soon as the new page may say something else than the old
//! one. So a lost note costs a page, and never more.

use std::collections::VecDeque;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::{DirtyPage, Map, Missing, Root, drop_block};
use crate::address::{Address, BlockRange, DeviceNumber, VolumeBlock};
use crate::entry::{Entry, FANOUT, Kind, PageKey, blocks_below};
use crate::limits::MOVED_PAGES_MAX;
use crate::space::Space;

/// Pages that were rewritten while other parents still refer to the old ones.
#[derive(Default)]
pub(crate) struct Moved {
    by_source: HashMap<Address, Entry>,
    by_target: HashMap<PageKey, SmallVec<[Address; 2]>>,
    /// Sources in the order in which they came, also of notes that have ended.
    order: VecDeque<Address>,
}

impl Moved {
    fn note(&mut self, source: Address, target: Entry) {
        self.forget_source(source);
        self.by_source.insert(source, target);
        self.by_target.entry(target.page_key()).or_default().push(source);
        self.order.push_back(source);
        while self.order.len() > MOVED_PAGES_MAX {
            let oldest = self.order.pop_front();
            oldest.into_iter().for_each(|oldest| self.forget_source(oldest));
        }
    }

    fn target_of(&self, source: Address) -> Option<Entry> {
        self.by_source.get(&source).copied()
    }

    fn forget_source(&mut self, source: Address) {
        let Some(target) = self.by_source.remove(&source) else { return };
        if let Some(sources) = self.by_target.get_mut(&target.page_key()) {
            sources.retain(|known| *known != source);
            if sources.is_empty() {
                self.by_target.remove(&target.page_key());
            }
        }
    }

    /// A page may say something else from now on, or is no more.
    pub(super) fn forget(&mut self, page: Entry) {
        if self.by_source.is_empty() {
            return;
        }
        if page.kind() == Kind::Page {
            self.forget_source(page.address());
        }
        for source in self.by_target.remove(&page.page_key()).unwrap_or_default() {
            self.by_source.remove(&source);
        }
    }

    /// Another page says what one said.
    fn retarget(&mut self, from: Entry, to: Entry) {
        for source in self.by_target.remove(&from.page_key()).unwrap_or_default() {
            self.by_source.insert(source, to);
            self.by_target.entry(to.page_key()).or_default().push(source);
        }
    }

    /// A checkpoint gave dirty pages their places.
    pub(crate) fn settled(&mut self, places: &HashMap<usize, Entry>) {
        if self.by_source.is_empty() {
            return;
        }
        let dirty = self.by_target.keys().filter_map(|key| match key {
            PageKey::Dirty(id) => Some(*id),
            PageKey::OnDisk(_) => None,
        });
        for id in dirty.collect::<Vec<_>>() {
            match places.get(&id) {
                Some(&place) => self.retarget(Entry::dirty(id), place),
                None => self.forget(Entry::dirty(id)),
            }
        }
    }

    /// No device leaves any more.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Pages that are known to lead to nothing on the device, by 64 of them. A place that was given to
/// another page since costs another pass.
#[derive(Default)]
pub(crate) struct Seen(std::collections::BTreeMap<u64, u64>);

impl Seen {
    fn contains(&self, page: Address) -> bool {
        let (word, bit) = (page.bits() / 64, page.bits() % 64);
        self.0.get(&word).is_some_and(|word| word & 1 << bit != 0)
    }

    fn insert(&mut self, page: Address) {
        *self.0.entry(page.bits() / 64).or_default() |= 1 << (page.bits() % 64);
    }
}

/// A search for what is on a device.
pub(crate) struct Search<'a> {
    pub(crate) device: DeviceNumber,
    pub(crate) from: VolumeBlock,
    /// `None` if every page is to be looked at.
    pub(crate) seen: Option<&'a mut Seen>,
    /// Pages that may yet be looked at.
    pub(crate) pages_left: usize,
}

/// What a search came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing more.
    Nothing,
    /// A page of a level is on the device, or is a leaf with data on it; the first block below it.
    Page { level: u8, first: VolumeBlock },
    /// Enough pages were looked at; the next search begins here.
    Paused(VolumeBlock),
}

/// What became of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rewritten {
    /// It is dirty, with this identifier.
    Dirty(usize),
    /// A page on the way to it was rewritten before: what it leads to is to be looked at again.
    Before,
}

impl Search<'_> {
    fn is_on_device(&self, entry: Entry) -> bool {
        entry.address().device() == self.device
    }
}

impl Map {
    /// Finds the first page from a block on that must be rewritten.
    pub(crate) fn find_leaving(
        &mut self,
        root: Root,
        search: &mut Search<'_>,
    ) -> Result<Found, Missing> {
        self.find_below(root.entry, root.levels - 1, VolumeBlock::START, search)
    }

    fn find_below(
        &mut self,
        entry: Entry,
        level: u8,
        base: VolumeBlock,
        search: &mut Search<'_>,
    ) -> Result<Found, Missing> {
        let end = base + blocks_below(level);
        if entry.is_hole() || end <= search.from {
            return Ok(Found::Nothing);
        }
        let on_disk = entry.kind() == Kind::Page;
        if on_disk && search.is_on_device(entry) {
            return Ok(Found::Page { level, first: base });
        }
        if on_disk && search.seen.as_ref().is_some_and(|seen| seen.contains(entry.address())) {
            return Ok(Found::Nothing);
        }
        if search.pages_left == 0 {
            return Ok(Found::Paused(base.max(search.from)));
        }
        search.pages_left -= 1;
        let is_whole = search.from <= base;
        let found = match level {
            0 => {
                let page = self.page(entry, 0)?;
                let mut data = page.0.iter().filter(|entry| entry.kind() == Kind::Data);
                let has_some = data.any(|entry| search.is_on_device(*entry));
                if has_some { Found::Page { level, first: base } } else { Found::Nothing }
            }
            _ => self.find_in_children(entry, level, base, search)?,
        };
        if found == Found::Nothing && is_whole && on_disk {
            search.seen.iter_mut().for_each(|seen| seen.insert(entry.address()));
        }
        Ok(found)
    }

    fn find_in_children(
        &mut self,
        entry: Entry,
        level: u8,
        base: VolumeBlock,
        search: &mut Search<'_>,
    ) -> Result<Found, Missing> {
        let span = blocks_below(level - 1);
        let start = BlockRange::between(base, search.from).count / span;
        for place in start..FANOUT {
            let child = self.page(entry, level)?.0[place as usize];
            let found = self.find_below(child, level - 1, base + place * span, search)?;
            if found != Found::Nothing {
                return Ok(found);
            }
        }
        Ok(Found::Nothing)
    }

    /// Makes a page, and those above it, dirty, so that they get new places. What shares them shares the
    /// new ones.
    pub(crate) fn rewrite(
        &mut self,
        space: &mut Space,
        root: &mut Root,
        first: VolumeBlock,
        bottom: u8,
    ) -> Result<Rewritten, Missing> {
        let mut level = root.levels - 1;
        let (entry, is_done) = self.rewrite_one(space, root.entry, level)?;
        root.entry = entry;
        let mut current = entry;
        if is_done {
            return Ok(Rewritten::Before);
        }
        while level > bottom {
            level -= 1;
            let place = (first.number() / blocks_below(level) % FANOUT) as usize;
            let parent = current.dirty_id();
            let child = self.dirty[parent].page.0[place];
            let (entry, is_done) = self.rewrite_one(space, child, level)?;
            self.dirty[parent].page.0[place] = entry;
            current = entry;
            if is_done {
                return Ok(Rewritten::Before);
            }
        }
        Ok(Rewritten::Dirty(current.dirty_id()))
    }

    /// The entry of a dirty page with the content of what an entry points to, in whose place it is; or
    /// of the page that was made of it before, and true.
    fn rewrite_one(
        &mut self,
        space: &mut Space,
        entry: Entry,
        level: u8,
    ) -> Result<(Entry, bool), Missing> {
        if entry.kind() == Kind::Dirty {
            return Ok((entry, false));
        }
        if let Some(target) = self.moved.target_of(entry.address()) {
            self.share(space, target);
            self.drop_page(space, entry, level);
            return Ok((target.with_mapped(entry.mapped), true));
        }
        self.page(entry, level)?;
        let is_shared = space.references(entry.address()) != 1;
        let page = if is_shared {
            drop_block(space, entry);
            self.copy_for_second_parent(space, entry)
        } else {
            self.moved.forget_source(entry.address());
            drop_block(space, entry);
            self.clean.remove(&entry.address()).expect("it was found in memory").page
        };
        let id = self.dirty.insert(DirtyPage { page, references: 1 });
        let dirty = Entry::dirty(id).with_mapped(entry.mapped);
        self.moved.retarget(entry, dirty);
        if is_shared {
            self.moved.note(entry.address(), dirty);
        }
        Ok((dirty, false))
    }

    /// The data entries of a leaf that are on a device, with their places.
    pub(crate) fn data_on(
        &mut self,
        leaf: Entry,
        device: DeviceNumber,
    ) -> Result<Vec<(usize, Entry)>, Missing> {
        let entries = self.page(leaf, 0)?.0.iter().copied().enumerate();
        let is_on = |(_, entry): &(usize, Entry)| {
            entry.kind() == Kind::Data && entry.address().device() == device
        };
        Ok(entries.filter(is_on).collect())
    }

    /// Entries of a dirty leaf point to where their blocks were moved.
    pub(crate) fn redirect(&mut self, space: &mut Space, leaf: usize, moved: &[(usize, Entry)]) {
        for &(place, new) in moved {
            let old = std::mem::replace(&mut self.dirty[leaf].page.0[place], new);
            assert_eq!(old.crc, new.crc, "what was moved is as it was");
            space.add_references(new.address(), 1);
            space.drop_reference(old.address());
        }
    }
}
