//! Loads the space maps and the volume table of a checkpoint. A damaged page is read from its copy,
//! and then both are read once more; opening the pool fails only if both stay damaged.

use super::{Opening, Step, Taken};
use crate::address::{Address, DeviceNumber, Run};
use crate::checksum::crc32c;
use crate::entry::{Entry, FANOUT, Kind, Page};
use crate::error::OpenError;
use crate::io::Wanted;
use crate::layout::UPPER_COPY;
use crate::loading::READ_ATTEMPTS;
use crate::space::parse_descriptors;
use crate::superblock::Superblock;
use crate::table::{self, Leaf, Table, VOLUMES_PER_PAGE};

const SPACE_MAPS: OpenError = OpenError::Damaged("a page of the space maps");
const VOLUME_TABLE: OpenError = OpenError::Damaged("a page of the volume table");

/// Which pages are being loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Start,
    FirstLevel,
    Descriptors,
    Groups,
    Table { level: u32 },
    Done,
}

/// Expected kind of a page that is being read.
#[derive(Clone, Copy, Debug)]
struct Expected {
    crc: u32,
    device: DeviceNumber,
    index: usize,
    block: Address,
    /// How far behind it its copy lies; 0 if it has none.
    copy: u64,
    entry: Entry,
}

/// Progress through the pages.
pub(super) struct Loading {
    stage: Stage,
    expected: Vec<Expected>,
    /// Entries of the table's pages of one level, by place.
    table: Vec<Entry>,
    volume_leaves: Vec<(usize, Leaf)>,
    others: Vec<Entry>,
    reap: Vec<(usize, Vec<crate::map::Missing>)>,
}

impl Loading {
    pub(super) fn new() -> Self {
        Self {
            stage: Stage::Start,
            expected: Vec::new(),
            table: Vec::new(),
            volume_leaves: Vec::new(),
            others: Vec::new(),
            reap: Vec::new(),
        }
    }

    /// The checksum of a page.
    pub(super) fn crc(&self, index: u64) -> u32 {
        self.expected[index as usize].crc
    }

    /// Where a page is read at an attempt; every other one goes to its copy.
    pub(super) fn address(&self, index: u64, attempt: u8) -> Address {
        let Expected { block, copy, .. } = self.expected[index as usize];
        block + copy * u64::from(attempt % 2)
    }

    fn expect(&mut self, expected: Expected) {
        self.expected.push(expected);
    }

    fn expect_space(&mut self, device: DeviceNumber, pages: Vec<(usize, Address, u32)>) {
        for (index, block, crc) in pages {
            let (copy, entry) = (UPPER_COPY, Entry::HOLE);
            self.expect(Expected { crc, device, index, block, copy, entry });
        }
    }

    fn begin_table(&mut self, superblock: &Superblock) -> Result<Stage, OpenError> {
        if superblock.table.leaves() == 0 {
            return Ok(Stage::Done);
        }
        self.table = vec![superblock.table.root];
        self.next_table_level(superblock.table.index_levels())
    }

    fn next_table_level(&mut self, level: u32) -> Result<Stage, OpenError> {
        for (index, entry) in std::mem::take(&mut self.table).into_iter().enumerate() {
            if entry.kind() != Kind::Page {
                return Err(VOLUME_TABLE);
            }
            let (crc, block, copy) = (entry.crc, entry.address(), entry.twin_distance());
            self.expect(Expected { crc, device: DeviceNumber::FIRST, index, block, copy, entry });
        }
        Ok(Stage::Table { level })
    }
}

impl Opening {
    /// Takes a page that was read.
    pub(super) fn take_page(&mut self, wanted: Wanted, bytes: &[u8]) -> Result<Taken, OpenError> {
        let Self { engine, state, .. } = self;
        let Step::Loading(loading) = &mut state.step else { return Ok(Taken::Whole) };
        let expected = loading.expected[wanted.index as usize];
        if crc32c(bytes) != expected.crc {
            return match (loading.stage, wanted.attempt + 1 < READ_ATTEMPTS) {
                (_, true) => Ok(Taken::Again),
                (Stage::Table { .. }, false) => Err(VOLUME_TABLE),
                (_, false) => Err(SPACE_MAPS),
            };
        }
        engine.pool.statistics.pages_from_copies += u64::from(wanted.run.start != expected.block);
        match loading.stage {
            Stage::FirstLevel => {
                let sound =
                    engine.pool.space.load_first_level(expected.device, expected.index, bytes);
                sound.then_some(()).ok_or(SPACE_MAPS)?;
            }
            Stage::Descriptors => {
                parse_descriptors(bytes).then_some(()).ok_or(SPACE_MAPS)?;
                engine.pool.space.load_descriptors(expected.device, expected.index, bytes);
            }
            Stage::Table { level } => {
                let root = state.superblock.as_ref().expect("chosen before").table;
                take_table_page(loading, root, level, expected, bytes)?;
            }
            Stage::Start | Stage::Groups | Stage::Done => {}
        }
        Ok(Taken::Whole)
    }

    /// Asks for the next kind of pages.
    pub(super) fn load_next(&mut self) -> Result<(), OpenError> {
        let Self { engine, state, .. } = self;
        let superblock = state.superblock.clone().expect("chosen before anything is loaded");
        let Step::Loading(loading) = &mut state.step else { return Ok(()) };
        loading.expected.clear();
        loading.stage = match loading.stage {
            Stage::Start => {
                engine.pool.space.load_root(&superblock.space);
                for device in engine.pool.space.devices() {
                    loading.expect_space(device, engine.pool.space.first_level_pages(device));
                }
                Stage::FirstLevel
            }
            Stage::FirstLevel => {
                for device in engine.pool.space.devices() {
                    loading.expect_space(device, engine.pool.space.descriptor_pages(device));
                }
                Stage::Descriptors
            }
            Stage::Descriptors => {
                for group in engine.pool.space.pinned_groups() {
                    engine.bring_group(group, false);
                }
                Stage::Groups
            }
            Stage::Groups => loading.begin_table(&superblock)?,
            Stage::Table { level: 0 } => Stage::Done,
            Stage::Table { level } => loading.next_table_level(level - 1)?,
            Stage::Done => Stage::Done,
        };
        if loading.stage == Stage::Done {
            return self.end_loading(&superblock);
        }
        let wanted: Vec<Address> = loading.expected.iter().map(|expected| expected.block).collect();
        for (index, block) in wanted.into_iter().enumerate() {
            state.want(index as u64, Run::of(block));
        }
        Ok(())
    }

    fn end_loading(&mut self, superblock: &Superblock) -> Result<(), OpenError> {
        let Self { engine, state, .. } = self;
        let Step::Loading(loading) = &mut state.step else { return Ok(()) };
        let mut leaves = std::mem::take(&mut loading.volume_leaves);
        leaves.sort_unstable_by_key(|(index, _)| *index);
        let mut places = Vec::with_capacity(leaves.len() * VOLUMES_PER_PAGE);
        for (_, leaf) in &leaves {
            for volume in table::parse_volumes(&leaf.bytes).ok_or(VOLUME_TABLE)? {
                places.push(volume.as_ref().map(|volume| volume.spec.id));
                let Some(volume) = volume else { continue };
                if engine.pool.volumes.insert(volume).is_some() {
                    return Err(OpenError::Damaged("a volume is recorded twice"));
                }
            }
        }
        if leaves.len() != superblock.table.volume_leaves as usize {
            return Err(VOLUME_TABLE);
        }
        if let Some((device, _)) = engine.pool.volumes.moved() {
            engine.pool.space.leave(device);
        }
        let mut reap = std::mem::take(&mut loading.reap);
        reap.sort_unstable_by_key(|(index, _)| *index);
        engine.pool.map.reap = reap.into_iter().flat_map(|(_, entries)| entries).collect();
        let leaves = leaves.into_iter().map(|(_, leaf)| leaf).collect();
        engine.checkpointer.adopt_table(Table::loaded(
            places,
            leaves,
            std::mem::take(&mut loading.others),
        ));
        state.step = Step::Journal(super::journal::Scan::new(&engine.log.journal));
        Ok(())
    }
}

fn take_table_page(
    loading: &mut Loading,
    root: table::TableRoot,
    level: u32,
    expected: Expected,
    bytes: &[u8],
) -> Result<(), OpenError> {
    let Expected { index, entry, .. } = expected;
    if level == 0 && (index as u32) < root.volume_leaves {
        loading.volume_leaves.push((index, Leaf { entry, bytes: bytes.into() }));
        return Ok(());
    }
    loading.others.push(entry);
    if level == 0 {
        let count = root.reap_entries_in(index as u32);
        loading.reap.push((index, table::parse_reap(bytes, count)));
        return Ok(());
    }
    let page = Page::parse(bytes, 1).ok_or(VOLUME_TABLE)?;
    for (place, entry) in page.0.iter().enumerate().filter(|(_, entry)| !entry.is_hole()) {
        let place = index * FANOUT as usize + place;
        loading.table.resize(loading.table.len().max(place + 1), Entry::HOLE);
        loading.table[place] = *entry;
    }
    Ok(())
}
