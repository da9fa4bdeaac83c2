//! Block map in memory (copy-on-write tree): pages read from disk, pages changed since the last
//! checkpoint, and the walks through them.
//!
//! A page is *clean* when it is on disk (or on its way there, in a checkpoint) and known by its
//! block number, or *dirty* when it exists only here and is known by an identifier. A page may be
//! changed only when it is dirty and has one parent; otherwise it is copied first, and with a
//! shared page every child gains a reference.

mod moving;
mod occupied;

use std::collections::VecDeque;

use block::{BLOCK, Buffer};
use hashbrown::{HashMap, HashSet};
use slab::Slab;

pub(crate) use moving::{Found, Moved, Rewritten, Search, Seen};
pub(crate) use occupied::Occupied;

use crate::address::{Address, BlockRange, VolumeBlock};
use crate::checksum::crc32c;
use crate::entry::{Entry, FANOUT, Kind, Page, blocks_below};
use crate::released::Released;
use crate::space::{STUCK, Space};

/// Pages that an arriving page makes the clock hand look at, at most.
const EVICTION_VISITS: usize = 64;

/// Places in the clock that may be out of date, besides as many as there are clean pages.
const CLOCK_SLACK: usize = 1024;

/// The root of a volume's map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) entry: Entry,
    /// Levels of pages, at least one; the root page is of level `levels - 1`.
    pub(crate) levels: u8,
}

/// Change of a volume's block counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    /// Blocks that are mapped now and were not, less those that were and are not.
    pub(crate) mapped: i64,
    /// Blocks that are known to have been shared, and now are the volume's own or holes.
    pub(crate) unshared: u64,
}

/// A leaf, and the way to it.
pub(crate) struct FoundLeaf {
    /// The first block below it.
    pub(crate) first: VolumeBlock,
    /// Levels and entries from the root to the leaf.
    pub(crate) path: smallvec::SmallVec<[(u8, Entry); 5]>,
}

/// A page that must be read before a walk can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) entry: Entry,
    pub(crate) level: u8,
}

struct CleanPage {
    page: Page,
    /// Used since the clock hand passed.
    recent: bool,
}

pub(crate) struct DirtyPage {
    pub(crate) page: Page,
    /// Parents, or volumes, that point here.
    references: u16,
}

/// Pages in memory.
pub(crate) struct Map {
    clean: HashMap<Address, CleanPage>,
    /// Clean pages in the order the clock hand visits them, and some that are not clean any more.
    clock: VecDeque<Address>,
    /// Clean pages that are only on their way to the disk.
    unwritten: HashSet<Address>,
    pub(crate) dirty: Slab<DirtyPage>,
    clean_max: usize,
    /// Subtrees that lost their last parent and wait to be taken apart.
    pub(crate) reap: Vec<Missing>,
    /// Blocks that volumes gave up and others still hold.
    pub(crate) released: Released,
    /// Those of them whose page could not be read. They are tried again later.
    unreadable: Vec<Missing>,
    /// What became of pages as a device leaves.
    pub(crate) moved: Moved,
}

impl DirtyPage {
    /// Parents, or volumes, that point here.
    pub(crate) fn references(&self) -> u16 {
        self.references
    }

    /// Has one parent less, but for a count that is stuck; another one stays.
    fn lose_parent(&mut self) {
        if self.references != STUCK {
            self.references -= 1;
        }
    }
}

impl Map {
    /// A map that keeps up to `clean_max` clean pages.
    pub(crate) fn new(clean_max: usize) -> Self {
        Self {
            clean: HashMap::new(),
            clock: VecDeque::new(),
            unwritten: HashSet::new(),
            dirty: Slab::new(),
            clean_max: clean_max.max(64),
            reap: Vec::new(),
            released: Released::default(),
            unreadable: Vec::new(),
            moved: Moved::default(),
        }
    }

    /// Puts a page that was read, or is being written, into the cache.
    pub(crate) fn insert_clean(&mut self, block: Address, page: Page) {
        if self.clean.insert(block, CleanPage { page, recent: true }).is_none() {
            self.clock.push_back(block);
        }
    }

    /// The pages of a checkpoint are on disk now.
    pub(crate) fn checkpoint_durable(&mut self) {
        self.unwritten.clear();
        if self.clock.len() > 2 * self.clean.len() + CLOCK_SLACK {
            let mut seen = HashSet::new();
            self.clock.retain(|block| self.clean.contains_key(block) && seen.insert(*block));
        }
        self.evict(self.clean_max, 2 * self.clock.len());
    }

    /// A page came into memory. While others are awaited more may stay than the budget says, so
    /// that those who need several at once get them; twice as many at most.
    pub(crate) fn page_arrived(&mut self, others_awaited: bool) {
        let most = if others_awaited { 2 * self.clean_max } else { self.clean_max };
        self.evict(most, EVICTION_VISITS);
    }

    /// Forgets pages that were not used for a while, down to so many; looks at `visits` at most.
    fn evict(&mut self, most: usize, mut visits: usize) {
        while self.clean.len() > most && visits > 0 {
            visits -= 1;
            let Some(block) = self.clock.pop_front() else { return };
            let Some(page) = self.clean.get_mut(&block) else { continue };
            if page.recent || self.unwritten.contains(&block) {
                page.recent = false;
                self.clock.push_back(block);
            } else {
                self.clean.remove(&block);
            }
        }
    }

    /// Clean pages that are kept in memory.
    pub(crate) fn clean_max(&self) -> usize {
        self.clean_max
    }

    /// Clean pages in memory.
    pub(crate) fn clean_pages(&self) -> usize {
        self.clean.len()
    }

    /// Pages that the reaper takes apart next and that are not in memory, the last `count` in the
    /// queue.
    pub(crate) fn not_in_memory(&self, count: usize) -> Vec<Missing> {
        let next = self.reap.iter().rev().take(count);
        let absent = |dead: &&Missing| {
            dead.entry.kind() == Kind::Page && !self.clean.contains_key(&dead.entry.address())
        };
        next.filter(absent).copied().collect()
    }

    /// A page cannot be read: if the reaper waits for it, it goes on with others.
    pub(crate) fn set_aside(&mut self, block: Address) {
        let is_page =
            |dead: &mut Missing| dead.entry.kind() == Kind::Page && dead.entry.address() == block;
        self.unreadable.extend(self.reap.extract_if(.., is_page));
    }

    /// The reaper tries again what could not be read.
    pub(crate) fn retry_unreadable(&mut self) {
        self.reap.append(&mut self.unreadable);
    }

    /// All subtrees that wait to be taken apart.
    pub(crate) fn dead(&self) -> Vec<Missing> {
        [&self.reap[..], &self.unreadable[..]].concat()
    }

    /// Number of subtrees that wait to be taken apart.
    pub(crate) fn dead_count(&self) -> usize {
        self.reap.len() + self.unreadable.len()
    }

    /// A copy of a clean page, if it is in memory.
    pub(crate) fn cached(&self, block: Address) -> Option<Page> {
        self.clean.get(&block).map(|clean| clean.page.clone())
    }

    /// Whether the page an entry points to is in memory; it is kept for longer then.
    pub(crate) fn touch(&mut self, entry: Entry) -> bool {
        self.page(entry, 0).is_ok()
    }

    /// The page an entry points to, if it is in memory.
    pub(crate) fn peek(&self, entry: Entry) -> Option<&Page> {
        match entry.kind() {
            Kind::Dirty => Some(&self.dirty[entry.dirty_id()].page),
            _ => self.clean.get(&entry.address()).map(|clean| &clean.page),
        }
    }

    /// The page an entry points to.
    fn page(&mut self, entry: Entry, level: u8) -> Result<&Page, Missing> {
        match entry.kind() {
            Kind::Dirty => Ok(&self.dirty[entry.dirty_id()].page),
            _ => match self.clean.get_mut(&entry.address()) {
                Some(clean) => {
                    clean.recent = true;
                    Ok(&clean.page)
                }
                None => Err(Missing { entry, level }),
            },
        }
    }

    /// Calls `visit` with each leaf's entries that cover `first .. first + count`: the number of
    /// the first block, the entry above the leaf, and the leaf's part (`None` where all is hole).
    pub(crate) fn walk(
        &mut self,
        root: Root,
        range: BlockRange,
        mut visit: impl FnMut(VolumeBlock, &[Entry]),
    ) -> Result<(), Missing> {
        const HOLES: [Entry; FANOUT as usize] = [Entry::HOLE; FANOUT as usize];
        for part in range.by_leaf() {
            let in_leaf = part.first.place_in_leaf();
            let places = in_leaf as usize..(in_leaf + part.count) as usize;
            match self.leaf_entry(root, part.first)? {
                leaf if leaf.is_hole() => visit(part.first, &HOLES[places]),
                leaf => {
                    let page = self.page(leaf, 0)?;
                    visit(part.first, &page.0[places]);
                }
            }
        }
        Ok(())
    }

    /// The first leaf that covers `from` or a later block.
    pub(crate) fn next_leaf(
        &mut self,
        root: Root,
        from: VolumeBlock,
    ) -> Result<Option<FoundLeaf>, Missing> {
        let mut path = smallvec::SmallVec::new();
        let (level, base) = (root.levels - 1, VolumeBlock::START);
        let first = self.leaf_below(root.entry, level, base, from, &mut path)?;
        Ok(first.map(|first| FoundLeaf { first, path }))
    }

    fn leaf_below(
        &mut self,
        entry: Entry,
        level: u8,
        base: VolumeBlock,
        from: VolumeBlock,
        path: &mut smallvec::SmallVec<[(u8, Entry); 5]>,
    ) -> Result<Option<VolumeBlock>, Missing> {
        if entry.is_hole() || base + blocks_below(level) <= from {
            return Ok(None);
        }
        path.push((level, entry));
        if level == 0 {
            return Ok(Some(base));
        }
        let span = blocks_below(level - 1);
        let start = BlockRange::between(base, from).count / span;
        for place in start..FANOUT {
            let child = self.page(entry, level)?.0[place as usize];
            if let Some(found) =
                self.leaf_below(child, level - 1, base + place * span, from, path)?
            {
                return Ok(Some(found));
            }
        }
        path.pop();
        Ok(None)
    }

    /// Entries of a leaf that was found.
    pub(crate) fn leaf_entries(&mut self, leaf: &FoundLeaf) -> Result<Vec<Entry>, Missing> {
        let (level, entry) = leaf.path[leaf.path.len() - 1];
        self.page(entry, level).map(|page| page.0.to_vec())
    }

    /// The entry of a block, if it holds data and the way to it is in memory.
    pub(crate) fn data_entry(&mut self, root: Root, block: VolumeBlock) -> Option<Entry> {
        let leaf = self.leaf_entry(root, block).ok().filter(|leaf| !leaf.is_hole())?;
        let entry = self.page(leaf, 0).ok()?.0[block.place_in_leaf() as usize];
        (entry.kind() == Kind::Data).then_some(entry)
    }

    /// Whether a page has several parents.
    pub(crate) fn is_shared(&self, space: &Space, entry: Entry) -> bool {
        match entry.kind() {
            Kind::Dirty => self.dirty[entry.dirty_id()].references > 1,
            Kind::Page => space.references(entry.address()) > 1,
            Kind::Hole | Kind::Data => false,
        }
    }

    /// The entry that points to the leaf of a block.
    pub(crate) fn leaf_entry(&mut self, root: Root, block: VolumeBlock) -> Result<Entry, Missing> {
        let mut entry = root.entry;
        for level in (1..root.levels).rev() {
            if entry.is_hole() {
                return Ok(Entry::HOLE);
            }
            let index = (block.number() / blocks_below(level - 1)) % FANOUT;
            entry = self.page(entry, level)?.0[index as usize];
        }
        Ok(entry)
    }

    /// Finds a page that a change of the leaves of `first .. first + count` needs and that is not
    /// in memory. Leaves that are changed as a whole need not be there, if `whole_leaves`.
    pub(crate) fn missing(
        &mut self,
        root: Root,
        range: BlockRange,
        whole_leaves: bool,
    ) -> Option<Missing> {
        for part in range.by_leaf() {
            match self.leaf_entry(root, part.first) {
                Err(missing) => return Some(missing),
                Ok(leaf) if leaf.is_hole() || (whole_leaves && part.count == FANOUT) => {}
                Ok(leaf) => {
                    if let Err(missing) = self.page(leaf, 0) {
                        return Some(missing);
                    }
                }
            }
        }
        None
    }

    /// Replaces the entries of one leaf's part by what `change` gives for each block. Everything
    /// needed must be in memory. Old entries are dropped.
    pub(crate) fn change_leaf(
        &mut self,
        space: &mut Space,
        root: &mut Root,
        part: BlockRange,
        mut change: impl FnMut(VolumeBlock) -> Entry,
    ) -> Changed {
        let path = self.make_path_dirty(space, root, part.first, 0);
        let leaf = path[0];
        let start = part.first.place_in_leaf() as usize;
        let mut changed = Changed::default();
        for place in start..start + part.count as usize {
            let new = change(part.first + (place - start) as u64);
            let old = std::mem::replace(&mut self.dirty[leaf].page.0[place], new);
            changed.mapped += i64::from(!new.is_hole()) - i64::from(!old.is_hole());
            if old.kind() == Kind::Data {
                changed.unshared += u64::from(space.is_known_shared(old.address()));
                space.drop_reference(old.address());
            }
        }
        self.adjust_parents(root, &path, part.first, 0, changed.mapped);
        changed
    }

    /// Makes a whole leaf be `entry`, whose reference the caller has counted. Of a leaf with other
    /// parents all blocks are known to be shared; of another one none is looked at.
    pub(crate) fn replace_leaf(
        &mut self,
        space: &mut Space,
        root: &mut Root,
        first: VolumeBlock,
        entry: Entry,
    ) -> Changed {
        if root.levels == 1 {
            let old = std::mem::replace(&mut root.entry, entry);
            return self.drop_replaced(space, old, entry);
        }
        if entry.is_hole() && self.leaf_entry(*root, first).is_ok_and(Entry::is_hole) {
            return Changed::default();
        }
        let path = self.make_path_dirty(space, root, first, 1);
        let place = (first.number() / blocks_below(0) % FANOUT) as usize;
        let old = std::mem::replace(&mut self.dirty[path[0]].page.0[place], entry);
        let changed = self.drop_replaced(space, old, entry);
        self.adjust_parents(root, &path, first, 1, changed.mapped);
        changed
    }

    /// Takes a reference from a leaf in whose place another one is.
    fn drop_replaced(&mut self, space: &mut Space, old: Entry, new: Entry) -> Changed {
        let unshared = if self.is_shared(space, old) { u64::from(old.mapped) } else { 0 };
        self.drop_page(space, old, 0);
        Changed { mapped: i64::from(new.mapped) - i64::from(old.mapped), unshared }
    }

    /// Adds a reference to a page or block.
    pub(crate) fn share(&mut self, space: &mut Space, entry: Entry) {
        match entry.kind() {
            Kind::Hole => {}
            Kind::Dirty => {
                let page = &mut self.dirty[entry.dirty_id()];
                page.references = page.references.saturating_add(1);
            }
            Kind::Data | Kind::Page => space.add_references(entry.address(), 1),
        }
    }

    /// Takes a reference from a page. With its last one, the page goes to the reaper.
    pub(crate) fn drop_page(&mut self, space: &mut Space, entry: Entry, level: u8) {
        match entry.kind() {
            Kind::Hole => {}
            Kind::Dirty => {
                let page = &mut self.dirty[entry.dirty_id()];
                if page.references > 1 {
                    page.lose_parent();
                    self.released.keep(entry.mapped);
                } else {
                    self.bury(entry, level);
                }
            }
            Kind::Data => {
                self.released.keep(space.is_known_shared(entry.address()).into());
                space.drop_reference(entry.address());
            }
            Kind::Page => {
                if space.references(entry.address()) > 1 {
                    self.released.keep(entry.mapped);
                    drop_block(space, entry);
                } else {
                    self.bury(entry, level);
                }
            }
        }
    }

    /// A subtree lost its last parent.
    fn bury(&mut self, entry: Entry, level: u8) {
        self.moved.forget(entry);
        self.released.queue(entry);
        self.reap.push(Missing { entry, level });
    }

    /// Takes one subtree of the reaper apart: its page is freed, its children lose a reference.
    pub(crate) fn reap_one(&mut self, space: &mut Space, dead: Missing) -> Result<(), Missing> {
        let Missing { entry, level } = dead;
        let page = self.page(entry, level)?.clone();
        match entry.kind() {
            Kind::Dirty => {
                self.dirty.remove(entry.dirty_id());
            }
            _ => {
                self.clean.remove(&entry.address());
                drop_block(space, entry);
            }
        }
        self.released.resume(entry);
        for child in page.0.iter().filter(|child| !child.is_hole()) {
            self.drop_page(space, *child, level.saturating_sub(1));
        }
        self.released.end();
        Ok(())
    }

    /// Makes the pages from the root down to `bottom` dirty and unshared; returns their
    /// identifiers, the lowest first.
    fn make_path_dirty(
        &mut self,
        space: &mut Space,
        root: &mut Root,
        block: VolumeBlock,
        bottom: u8,
    ) -> smallvec::SmallVec<[usize; 6]> {
        let mut path = smallvec::SmallVec::new();
        let mut level = root.levels - 1;
        root.entry = self.own(space, root.entry);
        path.push(root.entry.dirty_id());
        while level > bottom {
            level -= 1;
            let place = (block.number() / blocks_below(level) % FANOUT) as usize;
            let parent = path[path.len() - 1];
            let child = self.own(space, self.dirty[parent].page.0[place]);
            self.dirty[parent].page.0[place] = child;
            path.push(child.dirty_id());
        }
        path.reverse();
        path
    }

    /// The entry of a dirty, unshared page with the content of what `entry` points to.
    fn own(&mut self, space: &mut Space, entry: Entry) -> Entry {
        let page = match entry.kind() {
            Kind::Hole => Page::empty(),
            Kind::Dirty if self.dirty[entry.dirty_id()].references == 1 => {
                self.moved.forget(entry);
                return entry;
            }
            Kind::Dirty => {
                self.dirty[entry.dirty_id()].lose_parent();
                self.copy_for_second_parent(space, entry)
            }
            _ if space.references(entry.address()) == 1 => {
                self.moved.forget(entry);
                drop_block(space, entry);
                self.clean.remove(&entry.address()).expect("the path is in memory").page
            }
            _ => {
                drop_block(space, entry);
                self.copy_for_second_parent(space, entry)
            }
        };
        let id = self.dirty.insert(DirtyPage { page, references: 1 });
        Entry::dirty(id).with_mapped(entry.mapped)
    }

    /// A copy of a page, whose children get one more parent.
    fn copy_for_second_parent(&mut self, space: &mut Space, entry: Entry) -> Page {
        let page = self.page(entry, 0).expect("the path is in memory").clone();
        for child in page.0.iter() {
            self.share(space, *child);
        }
        page
    }

    /// Corrects the counts of mapped blocks in the pages above a changed one.
    fn adjust_parents(
        &mut self,
        root: &mut Root,
        path: &[usize],
        first: VolumeBlock,
        bottom: u8,
        delta: i64,
    ) {
        if delta == 0 {
            return;
        }
        for (child_level, &parent) in (bottom..).zip(&path[1..]) {
            let place = (first.number() / blocks_below(child_level) % FANOUT) as usize;
            let entry = &mut self.dirty[parent].page.0[place];
            entry.mapped = (i64::from(entry.mapped) + delta) as u32;
        }
        root.entry.mapped = (i64::from(root.entry.mapped) + delta) as u32;
    }

    /// A page that making `first .. end` holes needs and that is not in memory: those of which
    /// only a part becomes holes.
    pub(crate) fn missing_to_zero(&mut self, root: Root, range: BlockRange) -> Option<Missing> {
        self.missing_below(root.entry, root.levels - 1, VolumeBlock::START, range)
    }

    fn missing_below(
        &mut self,
        entry: Entry,
        level: u8,
        base: VolumeBlock,
        range: BlockRange,
    ) -> Option<Missing> {
        if entry.is_hole() || range.covers(below(level, base)) {
            return None;
        }
        let page = match self.page(entry, level) {
            Err(missing) => return Some(missing),
            Ok(_) if level == 0 => return None,
            Ok(page) => page.clone(),
        };
        children(level, base, range)
            .find_map(|(place, base)| self.missing_below(page.0[place], level - 1, base, range))
    }

    /// Whether all of a range is holes, as far as pages in memory tell: what [`Self::missing_to_zero`]
    /// names is there.
    pub(crate) fn is_hole(&mut self, root: Root, range: BlockRange) -> bool {
        self.is_hole_below(root.entry, root.levels - 1, VolumeBlock::START, range)
    }

    fn is_hole_below(
        &mut self,
        entry: Entry,
        level: u8,
        base: VolumeBlock,
        range: BlockRange,
    ) -> bool {
        if entry.is_hole() {
            return true;
        }
        if range.covers(below(level, base)) {
            return false;
        }
        let mut children = children(level, base, range);
        children.all(|(place, base)| match self.page(entry, level).map(|page| page.0[place]) {
            Ok(child) if level == 0 => child.is_hole(),
            Ok(child) => self.is_hole_below(child, level - 1, base, range),
            Err(_) => false,
        })
    }

    /// Makes the blocks `first .. end` holes; returns the change of the mapped count. Whole
    /// subtrees go to the reaper unread.
    pub(crate) fn zero(&mut self, space: &mut Space, root: &mut Root, range: BlockRange) -> i64 {
        let before = root.entry.mapped;
        let (level, base) = (root.levels - 1, VolumeBlock::START);
        root.entry = self.zero_below(space, root.entry, level, base, range);
        i64::from(root.entry.mapped.wrapping_sub(before) as i32)
    }

    fn zero_below(
        &mut self,
        space: &mut Space,
        entry: Entry,
        level: u8,
        base: VolumeBlock,
        range: BlockRange,
    ) -> Entry {
        if entry.is_hole() {
            return entry;
        }
        if range.covers(below(level, base)) {
            self.drop_page(space, entry, level);
            return Entry::HOLE;
        }
        let mut owned = self.own(space, entry);
        let id = owned.dirty_id();
        for (place, child_base) in children(level, base, range) {
            let old = self.dirty[id].page.0[place];
            let new = match level {
                0 => Entry::HOLE,
                _ => self.zero_below(space, old, level - 1, child_base, range),
            };
            if level == 0 && !old.is_hole() {
                self.released.keep(space.is_known_shared(old.address()).into());
                space.drop_reference(old.address());
            }
            let gone = match level {
                0 => u32::from(!old.is_hole()),
                _ => old.mapped.wrapping_sub(new.mapped),
            };
            owned.mapped = owned.mapped.wrapping_sub(gone);
            self.dirty[id].page.0[place] = new;
        }
        if self.dirty[id].page.0.iter().all(|entry| entry.is_hole()) {
            self.dirty.remove(id);
            return Entry::HOLE;
        }
        owned
    }

    /// Adds levels above the root until there are `levels`.
    pub(crate) fn raise(&mut self, root: &mut Root, levels: u8) {
        while root.levels < levels {
            if !root.entry.is_hole() {
                let mut page = Page::empty();
                page.0[0] = root.entry;
                let id = self.dirty.insert(DirtyPage { page, references: 1 });
                root.entry = Entry::dirty(id).with_mapped(root.entry.mapped);
            }
            root.levels += 1;
        }
    }

    /// Gives every dirty page from `entry`, of `level`, down an address; appends what is to be
    /// written. All pages but leaves get a second one, for a copy.
    /// `settled` remembers pages with several parents.
    pub(crate) fn settle(
        &mut self,
        space: &mut Space,
        entry: Entry,
        level: u8,
        settled: &mut HashMap<usize, Entry>,
        writes: &mut Vec<(Address, Buffer)>,
    ) -> Entry {
        if entry.kind() != Kind::Dirty {
            return entry;
        }
        if let Some(&known) = settled.get(&entry.dirty_id()) {
            return known.with_mapped(entry.mapped);
        }
        let id = entry.dirty_id();
        for place in 0..FANOUT as usize {
            let child = self.dirty[id].page.0[place];
            if child.kind() == Kind::Dirty {
                let below = level - 1;
                self.dirty[id].page.0[place] = self.settle(space, child, below, settled, writes);
            }
        }
        let DirtyPage { page, references, .. } = self.dirty.remove(id);
        let mut bytes = Buffer::for_overwrite(BLOCK as usize);
        page.emit(&mut bytes);
        let on_disk = place_page(space, bytes, level > 0, writes);
        if references > 1 {
            space.add_references(on_disk.address(), references - 1);
        }
        self.insert_clean(on_disk.address(), page);
        self.unwritten.insert(on_disk.address());
        settled.insert(id, on_disk);
        on_disk.with_mapped(entry.mapped)
    }
}

/// Gives a page an address, and with `twin` a second one for a copy; appends what is to be
/// written.
pub(crate) fn place_page(
    space: &mut Space,
    bytes: Buffer,
    twin: bool,
    writes: &mut Vec<(Address, Buffer)>,
) -> Entry {
    let (block, distance) = space.allocate_page(twin);
    let entry = Entry::page(block, crc32c(&bytes)).with_twin(distance);
    if let Some(copy) = entry.twin() {
        writes.push((copy, Buffer::copy_of(&bytes)));
    }
    writes.push((block, bytes));
    entry
}

/// Takes a reference from a page on disk, and with the last one also gives up its copy.
fn drop_block(space: &mut Space, page: Entry) {
    space.drop_page_reference(page.address(), page.twin_distance());
}

/// The blocks below a page of `level` that begins with `base`.
fn below(level: u8, base: VolumeBlock) -> BlockRange {
    BlockRange { first: base, count: blocks_below(level) }
}

/// The places in a page of `level` at `base` that overlap `first .. end`, each with the first
/// block below it.
fn children(
    level: u8,
    base: VolumeBlock,
    range: BlockRange,
) -> impl Iterator<Item = (usize, VolumeBlock)> {
    let span = if level == 0 { 1 } else { blocks_below(level - 1) };
    let low = BlockRange::between(base, range.first).count / span;
    let high = (range.end() - base).div_ceil(span).min(FANOUT);
    (low..high).map(move |place| (place as usize, base + place * span))
}

#[cfg(test)]
mod tests;
