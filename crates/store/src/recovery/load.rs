//! Loading the space maps and the volume table of a checkpoint.

use block::BLOCK;

use super::{Recovery, Step};
use crate::checksum::crc32c;
use crate::entry::{Entry, FANOUT, Kind, Page};
use crate::error::OpenError;
use crate::layout::{DESCRIPTOR_PAGES_PER_FIRST_LEVEL, GROUPS_PER_DESCRIPTOR_PAGE};
use crate::space::{ABSENT, Reference, parse_descriptors, parse_references};
use crate::store::Store;
use crate::superblock::Superblock;
use crate::table;

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

/// What a page that was asked for is.
#[derive(Clone, Copy, Debug)]
struct Expected {
    crc: u32,
    index: usize,
    page: usize,
    block: u64,
}

/// Progress through the pages.
pub(super) struct Loading {
    stage: Stage,
    expected: Vec<Expected>,
    descriptors: Vec<Reference>,
    /// Entries of the table's pages of one level, by place.
    table: Vec<Entry>,
    table_blocks: Vec<u64>,
    volumes: u32,
    reap_entries: u32,
    table_pages: u32,
}

impl Loading {
    pub(super) fn new(superblock: &Superblock) -> Self {
        Self {
            stage: Stage::Start,
            expected: Vec::new(),
            descriptors: vec![Reference::NONE; superblock.layout.descriptor_pages()],
            table: Vec::new(),
            table_blocks: Vec::new(),
            volumes: superblock.volumes,
            reap_entries: superblock.reap_entries,
            table_pages: superblock.table_pages,
        }
    }
}

impl Store {
    /// Takes a page that was read.
    pub(super) fn take_page(
        &mut self,
        recovery: &mut Recovery,
        token: u64,
        bytes: &[u8],
    ) -> Result<(), OpenError> {
        let Step::Loading(loading) = &mut recovery.step else { return Ok(()) };
        let expected = loading.expected[token as usize];
        if crc32c(bytes) != expected.crc {
            return Err(match loading.stage {
                Stage::Table { .. } => OpenError::Damaged("a page of the volume table"),
                _ => OpenError::Damaged("a page of the space maps"),
            });
        }
        match loading.stage {
            Stage::FirstLevel => {
                let first = expected.index * DESCRIPTOR_PAGES_PER_FIRST_LEVEL;
                let pages =
                    (loading.descriptors.len() - first).min(DESCRIPTOR_PAGES_PER_FIRST_LEVEL);
                let references = parse_references(bytes, pages)
                    .ok_or(OpenError::Damaged("a page of the space maps"))?;
                loading.descriptors[first..first + pages].copy_from_slice(&references);
            }
            Stage::Descriptors => {
                if !parse_descriptors(bytes) {
                    return Err(OpenError::Damaged("a page of the space maps"));
                }
                let reference = loading.descriptors[expected.index];
                self.space.load_descriptors(expected.index, reference, bytes);
            }
            Stage::Groups => self.space.load_page(expected.index, expected.page, bytes),
            Stage::Table { level } => {
                loading.table_blocks.push(expected.block);
                self.take_table_page(loading, level, expected.index, bytes)?;
            }
            Stage::Start | Stage::Done => {}
        }
        Ok(())
    }

    fn take_table_page(
        &mut self,
        loading: &mut Loading,
        level: u32,
        index: usize,
        bytes: &[u8],
    ) -> Result<(), OpenError> {
        let damaged = || OpenError::Damaged("a page of the volume table");
        if level > 0 {
            let page = Page::parse(bytes, 1).ok_or_else(damaged)?;
            for (place, entry) in page.0.iter().enumerate().filter(|(_, e)| !e.is_hole()) {
                let place = index * FANOUT as usize + place;
                loading.table.resize(loading.table.len().max(place + 1), Entry::HOLE);
                loading.table[place] = *entry;
            }
            return Ok(());
        }
        let volume_pages = table::volume_pages(loading.volumes) as usize;
        if index < volume_pages {
            let left = loading.volumes as usize - index * 16;
            for volume in table::parse_volumes(bytes, left).ok_or_else(damaged)? {
                self.volumes.insert(volume.id, volume);
            }
        } else {
            let left = loading.reap_entries as usize - (index - volume_pages) * 128;
            self.map.reap.extend(table::parse_reap(bytes, left));
        }
        Ok(())
    }

    /// Asks for the next kind of pages.
    pub(super) fn load_next(&mut self, recovery: &mut Recovery) -> Result<(), OpenError> {
        let superblock = recovery.superblock.clone().expect("chosen before anything is loaded");
        let Step::Loading(loading) = &mut recovery.step else { return Ok(()) };
        let layout = self.space.layout;
        loading.expected.clear();
        loading.stage = match loading.stage {
            Stage::Start => {
                self.space.load_first_level(&superblock.space);
                for (index, reference) in present(&superblock.space) {
                    let block = layout.first_level_page(index, reference.slot);
                    loading.expect(reference.crc, index, 0, block);
                }
                Stage::FirstLevel
            }
            Stage::FirstLevel => {
                for (index, reference) in present(&loading.descriptors.clone()) {
                    let block = layout.descriptor_page(index, reference.slot);
                    loading.expect(reference.crc, index, 0, block);
                }
                Stage::Descriptors
            }
            Stage::Descriptors => {
                let groups = 0..layout.descriptor_pages() * GROUPS_PER_DESCRIPTOR_PAGE;
                for group in groups.take_while(|&group| group < layout.groups()) {
                    for (page, block, crc) in self.space.group_pages(group) {
                        loading.expect(crc, group, page, block);
                    }
                }
                Stage::Groups
            }
            Stage::Groups => loading.begin_table(&superblock)?,
            Stage::Table { level: 0 } => Stage::Done,
            Stage::Table { level } => loading.next_table_level(level - 1)?,
            Stage::Done => Stage::Done,
        };
        let expected = loading.expected.clone();
        if loading.stage == Stage::Done {
            return self.end_loading(recovery, &superblock);
        }
        for (token, expected) in expected.iter().enumerate() {
            recovery.want(token as u64, expected.block, 1);
        }
        Ok(())
    }

    fn end_loading(
        &mut self,
        recovery: &mut Recovery,
        superblock: &Superblock,
    ) -> Result<(), OpenError> {
        let Step::Loading(loading) = &mut recovery.step else { return Ok(()) };
        self.table_blocks = std::mem::take(&mut loading.table_blocks);
        if self.volumes.len() != superblock.volumes as usize {
            return Err(OpenError::Damaged("a volume is recorded twice"));
        }
        recovery.step = Step::Journal(super::journal::Scan::new(&self.journal));
        Ok(())
    }
}

impl Loading {
    fn expect(&mut self, crc: u32, index: usize, page: usize, block: u64) {
        self.expected.push(Expected { crc, index, page, block });
    }

    fn begin_table(&mut self, superblock: &Superblock) -> Result<Stage, OpenError> {
        if self.table_pages != table::pages(self.volumes, self.reap_entries) {
            return Err(OpenError::Damaged("the volume table's size"));
        }
        if self.table_pages == 0 {
            return Ok(Stage::Done);
        }
        self.table = vec![superblock.table];
        self.next_table_level(table::index_levels(self.table_pages))
    }

    fn next_table_level(&mut self, level: u32) -> Result<Stage, OpenError> {
        for (index, entry) in std::mem::take(&mut self.table).into_iter().enumerate() {
            if entry.kind() != Kind::Page {
                return Err(OpenError::Damaged("a page of the volume table"));
            }
            self.expect(entry.crc, index, 0, entry.number());
        }
        Ok(Stage::Table { level })
    }
}

fn present(references: &[Reference]) -> Vec<(usize, Reference)> {
    let all = references.iter().copied().enumerate();
    all.filter(|(_, reference)| reference.slot != ABSENT).collect()
}

const _: () = assert!(BLOCK == 4096);
