//! Simultaneous walk through two maps: skips subtrees that both share, tells blocks that differ, and
//! collects pages that must be read.

use block::{MapExtent, MapState};

use crate::address::{BlockRange, VolumeBlock};
use crate::difference::Difference;
use crate::entry::{Entry, FANOUT, Kind, Page, blocks_below};
use crate::limits::{COMPARISON_PAGES_MAX, COMPARISON_PAGES_READ_MAX};
use crate::map::{Map, Missing, Root};

/// Levels that a map can have.
const LEVELS_MAX: usize = 5;

/// The highest level whose pages count all blocks below them: their number fits in an entry.
const COUNTED_LEVEL_MAX: u8 = 2;

/// How far an answer has come.
pub(super) struct Progress {
    /// The first block of the answer.
    from: VolumeBlock,
    /// The first block that was not compared.
    cursor: VolumeBlock,
    /// The block behind the last one of the target.
    end: VolumeBlock,
    extents: Vec<MapExtent>,
    extents_max: usize,
    pages: u64,
    /// Pages that were read from devices.
    pages_read: u64,
    /// By level, the first block of the last place that was counted in `pages`.
    counted: [Option<VolumeBlock>; LEVELS_MAX],
    /// The answer has as many extents, or took as many pages, as it may.
    is_full: bool,
}

/// What a walk came to.
pub(crate) enum Advance {
    /// The answer is complete.
    Done,
    /// The turn is used up.
    Turn,
    /// These pages are needed, the first of them before all others.
    Pages(Vec<Missing>),
}

/// Why a walk stops.
enum Stop {
    /// The answer is full.
    Full,
    /// The turn is used up.
    Turn,
    /// Enough pages are to be read.
    Pages,
}

/// A subtree of one of the two maps. A map with fewer levels than the other one is lifted: its root is
/// taken for the first child of pages that are not there.
#[derive(Clone, Copy)]
struct Side {
    entry: Entry,
    lift: u8,
}

/// The subtrees of both maps for the same blocks.
#[derive(Clone, Copy)]
struct Sides {
    base: Side,
    target: Side,
}

pub(super) struct Walk<'a> {
    map: &'a mut Map,
    progress: &'a mut Progress,
    /// Places of the two maps that may still be looked at.
    places_left: &'a mut usize,
    /// Pages that are not in memory. With the first of them nothing is told any more: the walk only
    /// looks for others.
    missing: Vec<Missing>,
    missing_max: usize,
}

impl Progress {
    pub(super) fn new(from: VolumeBlock, end: VolumeBlock, extents_max: usize) -> Self {
        Self {
            from,
            cursor: from,
            end,
            extents: Vec::new(),
            extents_max,
            pages: 0,
            pages_read: 0,
            counted: [None; LEVELS_MAX],
            is_full: false,
        }
    }

    pub(super) fn into_difference(self) -> Difference {
        let next = self.is_full.then(|| self.offset());
        Difference { extents: self.extents, next, pages: self.pages }
    }

    /// The byte of the first block that was not compared.
    pub(super) fn offset(&self) -> u64 {
        self.cursor.offset()
    }

    /// Makes what was compared so far the answer; `false` if that is nothing.
    pub(super) fn stop_here(&mut self) -> bool {
        self.is_full = self.has_begun();
        self.is_full
    }

    fn has_begun(&self) -> bool {
        self.cursor > self.from
    }

    /// Whether no more pages are to be read for this answer, which is not empty.
    fn has_read_enough(&self) -> bool {
        self.pages_read >= COMPARISON_PAGES_READ_MAX && self.has_begun()
    }

    /// Everything up to a block was compared.
    fn reach(&mut self, block: VolumeBlock) {
        self.cursor = self.cursor.max(block.min(self.end));
    }

    /// Blocks from the cursor on, and none behind `end`, differ.
    fn tell(&mut self, first: VolumeBlock, end: VolumeBlock, state: MapState) -> Result<(), Stop> {
        let range = BlockRange::between(first.max(self.cursor), end.min(self.end)).bytes();
        if range.is_empty() {
            return Ok(());
        }
        let has_room = self.extents.len() < self.extents_max;
        match self.extents.last_mut() {
            Some(last) if last.state == state && last.range.end() == range.offset => {
                last.range.length += range.length;
            }
            _ if has_room => self.extents.push(MapExtent { range, state }),
            _ => {
                self.reach(first);
                return Err(Stop::Full);
            }
        }
        self.reach(end);
        Ok(())
    }
}

impl Side {
    const NOTHING: Self = Self { entry: Entry::HOLE, lift: 0 };

    /// The root of a map, as high as the other one's.
    fn root(root: Root, levels: u8) -> Self {
        Self { entry: root.entry, lift: levels - root.levels }
    }

    fn is_hole(self) -> bool {
        self.entry.is_hole()
    }

    /// Whether every block below a place of `level` holds data.
    fn is_full(self, level: u8) -> bool {
        let counts = self.lift == 0 && level <= COUNTED_LEVEL_MAX;
        counts && u64::from(self.entry.mapped) == blocks_below(level)
    }

    /// The page it points to, if there is one that can be read.
    fn page(self) -> Option<Entry> {
        (self.lift == 0 && !self.is_hole()).then_some(self.entry)
    }

    /// One of the subtrees below, or blocks; `page` is what [`Self::page`] points to.
    fn child(self, page: Option<&Page>, number: usize) -> Self {
        match page {
            Some(page) => Self { entry: page.0[number], lift: 0 },
            None if self.lift > 0 && number == 0 => Self { lift: self.lift - 1, ..self },
            None => Self::NOTHING,
        }
    }
}

impl Sides {
    /// Whether both are the same page or block, or holes: then all below is equal.
    fn are_shared(self) -> bool {
        let Self { base, target } = self;
        base.is_hole() && target.is_hole()
            || base.lift == target.lift && base.entry.is_same_place(target.entry)
    }

    /// What became of all blocks below a place, if that is known without its pages.
    fn whole(self, level: u8) -> Option<MapState> {
        let Self { base, target } = self;
        match (base.is_hole(), target.is_hole()) {
            (true, false) => target.is_full(level).then_some(MapState::Mapped),
            (false, true) => base.is_full(level).then_some(MapState::Deallocated),
            _ => None,
        }
    }

    fn pages(self) -> impl Iterator<Item = Entry> {
        [self.base, self.target].into_iter().filter_map(Side::page)
    }
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        map: &'a mut Map,
        progress: &'a mut Progress,
        places_left: &'a mut usize,
        missing_max: usize,
    ) -> Self {
        Self { map, progress, places_left, missing: Vec::new(), missing_max }
    }

    /// Goes on from the cursor.
    pub(super) fn run(mut self, (base, target): (Option<Root>, Root)) -> Advance {
        let levels = base.map_or(0, |root| root.levels).max(target.levels);
        let base = base.map_or(Side::NOTHING, |root| Side::root(root, levels));
        let sides = Sides { base, target: Side::root(target, levels) };
        let stop = self.compare(sides, levels - 1, VolumeBlock::START).err();
        if !self.missing.is_empty() {
            self.progress.pages_read += self.missing.len() as u64;
            return Advance::Pages(self.missing);
        }
        match stop {
            None => Advance::Done,
            Some(Stop::Full) => {
                self.progress.is_full = true;
                Advance::Done
            }
            Some(Stop::Turn | Stop::Pages) => Advance::Turn,
        }
    }

    fn compare(&mut self, sides: Sides, level: u8, first: VolumeBlock) -> Result<(), Stop> {
        let end = first + blocks_below(level);
        if sides.are_shared() || end <= self.progress.cursor || first >= self.progress.end {
            return Ok(());
        }
        if let Some(state) = sides.whole(level) {
            let tells = self.missing.is_empty();
            return if tells { self.progress.tell(first, end, state) } else { Ok(()) };
        }
        if !self.visit(sides, level, first)? {
            return Ok(());
        }
        if level == 0 {
            return self.compare_leaves(sides, first);
        }
        let span = blocks_below(level - 1);
        for (place, sides) in self.different_children(sides) {
            self.compare(sides, level - 1, first + place * span)?;
        }
        self.reach(end);
        Ok(())
    }

    /// Looks at a place of the maps; `false` if pages of it are not in memory.
    fn visit(&mut self, sides: Sides, level: u8, first: VolumeBlock) -> Result<bool, Stop> {
        if *self.places_left == 0 {
            return Err(Stop::Turn);
        }
        *self.places_left -= 1;
        self.reach(first);
        let counted = self.progress.counted[usize::from(level)];
        let is_new = counted.is_none_or(|counted| first > counted);
        if is_new && self.missing.is_empty() && self.progress.pages >= COMPARISON_PAGES_MAX {
            return Err(Stop::Full);
        }
        let absent = sides.pages().filter(|&page| !self.map.touch(page));
        let absent: smallvec::SmallVec<[Entry; 2]> = absent.collect();
        if !absent.is_empty() {
            if self.missing.is_empty() && self.progress.has_read_enough() {
                return Err(Stop::Full);
            }
            self.missing.extend(absent.iter().map(|&entry| Missing { entry, level }));
            let enough = self.missing.len() >= self.missing_max;
            return if enough { Err(Stop::Pages) } else { Ok(false) };
        }
        if is_new && self.missing.is_empty() {
            self.progress.counted[usize::from(level)] = Some(first);
            self.progress.pages += sides.pages().count() as u64;
        }
        Ok(true)
    }

    /// The children of a place that both maps do not share.
    fn different_children(&self, sides: Sides) -> Vec<(u64, Sides)> {
        let page = |side: Side| side.page().and_then(|entry| self.map.peek(entry));
        let (base, target) = (page(sides.base), page(sides.target));
        let child = |place| Sides {
            base: sides.base.child(base, place),
            target: sides.target.child(target, place),
        };
        let children = (0..FANOUT).map(|place| (place, child(place as usize)));
        children.filter(|(_, sides)| !sides.are_shared()).collect()
    }

    /// Tells the blocks of a leaf that differ.
    fn compare_leaves(&mut self, sides: Sides, first: VolumeBlock) -> Result<(), Stop> {
        if !self.missing.is_empty() {
            return Ok(());
        }
        for (place, sides) in self.different_children(sides) {
            let block = first + place;
            let state = match sides.target.entry.kind() {
                Kind::Hole => MapState::Deallocated,
                Kind::Data | Kind::Page | Kind::Dirty => MapState::Mapped,
            };
            if block >= self.progress.cursor {
                self.progress.tell(block, block + 1, state)?;
            }
        }
        self.reach(first + FANOUT);
        Ok(())
    }

    /// Everything up to a block was compared, unless the walk only looks for pages.
    fn reach(&mut self, block: VolumeBlock) {
        if self.missing.is_empty() {
            self.progress.reach(block);
        }
    }
}
