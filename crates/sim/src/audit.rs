//! Independent checker of the on-disk format: reads the disks as docs/format.md describes them,
//! without the engine's help.
//!
//! From the durable superblock it walks everything that is reachable, checks every checksum,
//! compares the references it finds with those that the space maps record, and knows afterwards
//! which blocks must not be written. What one checkpoint reaches never changes, so the next walk
//! follows only what is new, and takes back what is gone.

mod format;
mod journal;
mod mirror;
mod space;

use hashbrown::HashMap;

use block::BLOCK;

use crate::disk::SimDisk;
use crate::oracle::{Violation, violation};
use crate::random::Random;
use format::{
    Entry, REAP_BYTES, SUPERBLOCK_COPY, SUPERBLOCKS, Superblock, VOLUME_BYTES, address, split,
};
pub(crate) use mirror::{List, Worth, member_of};
use space::SpaceMaps;

/// Where the bytes come from.
pub trait Image {
    /// What is stable in a block of a device.
    fn block(&self, device: usize, number: u64) -> &[u8];
}

/// One copy of each device of a pool.
#[derive(Clone, Copy)]
pub struct Copies<'a> {
    /// The disks, by slot.
    pub disks: &'a [SimDisk],
    /// The slot of each device.
    pub slots: &'a [usize],
}

impl Image for Copies<'_> {
    fn block(&self, device: usize, number: u64) -> &[u8] {
        self.disks[self.slots[device]].stable_block(number)
    }
}

/// What an entry points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Data,
    /// A page of the map at a level.
    Map {
        level: u8,
    },
    /// A page of the volume table above others, and the first leaf below it.
    Index {
        level: u8,
        first_leaf: u64,
    },
    /// A leaf of volumes.
    Volumes,
    /// A leaf of so many reaper entries.
    Reaper {
        count: usize,
    },
}

type Child = (Entry, Role);

/// What a durable superblock reaches.
#[derive(Clone, Debug)]
pub struct Audit {
    superblock: Superblock,
    /// References that the walk found, by device and block.
    found: Vec<Vec<u32>>,
    /// The children of every page that is reachable.
    pages: HashMap<u64, Vec<Child>>,
    root: Option<Child>,
    space: SpaceMaps,
    /// Addresses of which a count changed since the last comparison.
    suspects: Vec<u64>,
}

impl Audit {
    /// The generation of the newest superblock; `None` if there is none.
    pub fn newest_generation(image: &(impl Image + ?Sized)) -> Option<u64> {
        newest_superblock(image).map(|superblock| superblock.generation)
    }

    /// How many devices the newest superblock names; 0 if there is none.
    pub(crate) fn device_count(image: &(impl Image + ?Sized)) -> usize {
        newest_superblock(image).map_or(0, |superblock| superblock.devices.len())
    }

    /// Walks what the newest superblock reaches; `None` if there is no superblock.
    ///
    /// # Errors
    /// What is wrong on the disk.
    pub fn of(image: &(impl Image + ?Sized)) -> Result<Option<Self>, Violation> {
        let Some(superblock) = newest_superblock(image) else { return Ok(None) };
        let mut audit = Self {
            superblock: superblock.clone(),
            found: Vec::new(),
            pages: HashMap::new(),
            root: None,
            space: SpaceMaps::default(),
            suspects: Vec::new(),
        };
        audit.follow(image, superblock)?;
        Ok(Some(audit))
    }

    /// Goes on to the newest superblock, if there is a newer one; says whether there was.
    ///
    /// # Errors
    /// What is wrong on the disk.
    pub fn update(&mut self, image: &(impl Image + ?Sized)) -> Result<bool, Violation> {
        let newest = newest_superblock(image);
        let Some(superblock) = newest else { return violation("both superblocks are gone") };
        if superblock.generation == self.superblock.generation {
            return Ok(false);
        }
        self.follow(image, superblock)?;
        Ok(true)
    }

    /// The superblock's generation, which rises with every checkpoint.
    pub fn generation(&self) -> u64 {
        self.superblock.generation
    }

    /// Whether a block is reachable from the superblock, or the superblock itself.
    pub fn is_protected(&self, device: usize, block: u64) -> bool {
        let found = self.found.get(device).and_then(|found| found.get(block as usize));
        found.is_some_and(|count| *count > 0)
            || self.space.is_in_use(address(device, block))
            || (device == 0 && Self::copies_of_superblock(self.superblock.block).contains(&block))
    }

    /// Blocks of data and pages of the map of a device.
    pub(crate) fn found_on(&self, device: usize) -> Vec<u64> {
        let found = self.found.get(device).into_iter().flatten();
        (0..).zip(found).filter(|(_, count)| **count > 0).map(|(block, _)| block).collect()
    }

    /// Blocks of a device that anything refers to: what is reachable, the labels, the superblock.
    pub(crate) fn blocks_of(&self, device: usize) -> Vec<u64> {
        let mut blocks: Vec<u64> = vec![1, 2];
        if device == 0 {
            let slot = SUPERBLOCKS[(self.superblock.generation % 2) as usize];
            blocks.extend([slot, slot + SUPERBLOCK_COPY]);
        }
        blocks.extend(self.found_on(device));
        blocks.extend(self.space.blocks_of(device));
        blocks
    }

    /// Both blocks with the same superblock as this one.
    pub(crate) fn copies_of_superblock(block: u64) -> [u64; 2] {
        let first = SUPERBLOCKS[0] + block % 2;
        [first, first + SUPERBLOCK_COPY]
    }

    /// Whether something that was deleted is being taken apart: no scrub reads its data.
    pub(crate) fn is_reaping(&self) -> bool {
        self.superblock.reap_entries > 0
    }

    /// Whether the superblock names a device with this number.
    pub(crate) fn has_device(&self, device: usize) -> bool {
        self.superblock.devices.get(device).is_some_and(|device| device.blocks > 0)
    }

    /// Sizes of the pool's devices by their numbers, bytes; 0 where no device is.
    pub fn device_sizes(&self) -> Vec<u64> {
        self.superblock.devices.iter().map(|device| device.blocks * BLOCK).collect()
    }

    /// One of two copies of something, in words, with its device and block.
    pub(crate) fn pick_of_two_copies(&self, random: &mut Random) -> (&'static str, usize, u64) {
        let second = random.below(2);
        let device = random.below(self.superblock.devices.len() as u64) as usize;
        let device = if self.has_device(device) { device } else { 0 };
        let label = ("a label", device, 1 + second);
        let (what, place) = match random.below(8) {
            0 => return label,
            1 => {
                let slot = self.superblock.generation % 2;
                let block = SUPERBLOCKS[slot as usize] + second * SUPERBLOCK_COPY;
                return ("the superblock", 0, block);
            }
            2 => ("a page above the space maps", self.space.pick_upper(random)),
            _ => ("a page of the map or the volume table", self.pick_page(random)),
        };
        place.map_or(label, |(device, block)| (what, device, block))
    }

    /// A page that has a copy, or the copy.
    fn pick_page(&self, random: &mut Random) -> Option<(usize, u64)> {
        let mut pages: Vec<_> = self.pages.values().flatten().map(|(entry, _)| *entry).collect();
        pages.extend(self.root.map(|(entry, _)| entry));
        let mut pages: Vec<_> =
            pages.into_iter().filter_map(|entry| Some([entry.address(), entry.twin()?])).collect();
        pages.sort_unstable();
        let pair = pages.get(random.below(pages.len().max(1) as u64) as usize)?;
        Some(split(pair[random.below(2) as usize]))
    }

    /// A block of data of a volume; none while dead data is being taken apart, too.
    pub(crate) fn pick_data(&self, random: &mut Random) -> Option<(usize, u64)> {
        if self.superblock.reap_entries > 0 {
            return None;
        }
        let children = self.pages.values().flatten();
        let data =
            children.filter(|(_, role)| *role == Role::Data).map(|(entry, _)| entry.address());
        let mut data: Vec<_> = data.collect();
        data.sort_unstable();
        let at = data.get(random.below(data.len().max(1) as u64) as usize)?;
        Some(split(*at))
    }

    /// Whether two walks found the same.
    pub fn agrees_with(&self, other: &Self) -> bool {
        self.generation() == other.generation()
            && self.found == other.found
            && self.pages.len() == other.pages.len()
            && self.space.agrees_with(&other.space)
    }

    fn follow(
        &mut self,
        image: &(impl Image + ?Sized),
        superblock: Superblock,
    ) -> Result<(), Violation> {
        self.superblock = superblock;
        self.found.resize(self.superblock.devices.len(), Vec::new());
        for (found, device) in self.found.iter_mut().zip(&self.superblock.devices) {
            found.resize(found.len().max(device.blocks as usize), 0);
        }
        let root = self.table_root();
        let old = std::mem::replace(&mut self.root, root);
        if let Some((entry, role)) = root {
            self.add(image, entry, role)?;
        }
        if let Some((entry, _)) = old {
            self.release(entry);
        }
        for (found, device) in self.found.iter_mut().zip(&self.superblock.devices) {
            if found.iter().skip(device.blocks as usize).any(|count| *count > 0) {
                return violation("the superblock reaches a device that has left");
            }
            found.truncate(device.blocks as usize);
        }
        self.space.update(image, &self.superblock, &mut self.suspects)?;
        self.compare()
    }

    fn table_root(&self) -> Option<Child> {
        let superblock = &self.superblock;
        (superblock.leaves > 0).then(|| {
            let role = self.table_role(superblock.table_levels(), 0);
            (superblock.table, role)
        })
    }

    /// What a page of the volume table is, by its level and the first leaf below it.
    fn table_role(&self, level: u8, first_leaf: u64) -> Role {
        let Superblock { volume_leaves, reap_entries, .. } = self.superblock;
        match level {
            0 if first_leaf < volume_leaves => Role::Volumes,
            0 => {
                let per_leaf = BLOCK / REAP_BYTES as u64;
                let left = reap_entries - (first_leaf - volume_leaves) * per_leaf;
                Role::Reaper { count: left.min(per_leaf) as usize }
            }
            _ => Role::Index { level, first_leaf },
        }
    }

    /// Counts a reference, and with the first one those of the page that it points to.
    fn add(
        &mut self,
        image: &(impl Image + ?Sized),
        entry: Entry,
        role: Role,
    ) -> Result<(), Violation> {
        if self.count(entry.address())? > 1 {
            return Ok(());
        }
        let bytes = self.intact(image, entry.address(), entry.crc, role)?;
        if role == Role::Data {
            return Ok(());
        }
        if let Some(copy) = entry.twin() {
            self.count(copy)?;
            self.intact(image, copy, entry.crc, role)?;
        }
        let children = self.children(bytes, role)?;
        for (child, role) in &children {
            self.add(image, *child, *role)?;
        }
        self.pages.insert(entry.address(), children);
        Ok(())
    }

    /// Counts a reference, and says how many there are now.
    fn count(&mut self, at: u64) -> Result<u32, Violation> {
        let (device, block) = split(at);
        let count = self.found.get_mut(device).and_then(|found| found.get_mut(block as usize));
        let Some(count) = count else {
            return violation(format!(
                "the superblock reaches block {block} of device {device}, beyond the end"
            ));
        };
        *count += 1;
        self.suspects.push(at);
        Ok(*count)
    }

    /// A block whose checksum is right.
    fn intact<'a>(
        &self,
        image: &'a (impl Image + ?Sized),
        at: u64,
        crc: u32,
        role: Role,
    ) -> Result<&'a [u8], Violation> {
        let (device, block) = split(at);
        let bytes = image.block(device, block);
        if crc32c::crc32c(bytes) == crc {
            return Ok(bytes);
        }
        let generation = self.superblock.generation;
        violation(format!(
            "{role:?} in block {block} of device {device}, of checkpoint {generation}, is damaged"
        ))
    }

    /// Takes back a reference, and with the last one those of the page that it pointed to.
    fn release(&mut self, entry: Entry) {
        let at = entry.address();
        if self.uncount(at) > 0 {
            return;
        }
        if let Some(children) = self.pages.remove(&at) {
            entry.twin().map(|copy| self.uncount(copy));
            children.into_iter().for_each(|(child, _)| self.release(child));
        }
    }

    /// Takes back a reference, and says how many are left.
    fn uncount(&mut self, at: u64) -> u32 {
        let (device, block) = split(at);
        let count = &mut self.found[device][block as usize];
        *count -= 1;
        self.suspects.push(at);
        *count
    }

    /// The entries of a page.
    fn children(&self, bytes: &[u8], role: Role) -> Result<Vec<Child>, Violation> {
        let entries = || (0..).zip(bytes.chunks(16).map(Entry::parse));
        Ok(match role {
            Role::Data => Vec::new(),
            Role::Map { level } => {
                let held = entries().filter(|(_, entry)| !entry.is_hole());
                held.map(|(_, entry)| map_child(entry, level)).collect::<Result<_, _>>()?
            }
            Role::Index { level, first_leaf } => {
                let below = 256_u64.pow(u32::from(level) - 1);
                let held = entries().filter(|(_, entry)| !entry.is_hole());
                held.map(|(place, entry)| {
                    (entry, self.table_role(level - 1, first_leaf + place * below))
                })
                .collect()
            }
            Role::Volumes => {
                let records = bytes.chunks(VOLUME_BYTES);
                let roots = records.map(|record| (Entry::parse(&record[32..48]), record[64]));
                roots_of(roots.map(|(entry, levels)| (entry, levels.saturating_sub(1))))?
            }
            Role::Reaper { count } => {
                let records = bytes.chunks(REAP_BYTES).take(count);
                roots_of(records.map(|record| (Entry::parse(record), record[16])))?
            }
        })
    }

    /// Compares the references found with those recorded, where either changed.
    fn compare(&mut self) -> Result<(), Violation> {
        for at in std::mem::take(&mut self.suspects) {
            let (device, block) = split(at);
            // The device may have left.
            let Some(&found) = self.found[device].get(block as usize) else { continue };
            let recorded = self.space.recorded(&self.superblock.devices[device], device, block);
            let excused = recorded == format::STUCK
                || self.space.is_fenced(&self.superblock.devices[device], device, block);
            if found != recorded && !excused {
                let generation = self.superblock.generation;
                return violation(format!(
                    "checkpoint {generation}: block {block} of device {device} has {found} \
                     references, recorded are {recorded}"
                ));
            }
        }
        Ok(())
    }
}

fn map_child(entry: Entry, level: u8) -> Result<Child, Violation> {
    match (level, entry.kind()) {
        (0, 1) => Ok((entry, Role::Data)),
        (1.., 2) => Ok((entry, Role::Map { level: level - 1 })),
        (_, kind) => violation(format!("a page of level {level} holds a kind {kind}")),
    }
}

/// Roots of maps, each with its level.
fn roots_of(roots: impl Iterator<Item = (Entry, u8)>) -> Result<Vec<Child>, Violation> {
    let held = roots.filter(|(entry, _)| !entry.is_hole());
    held.map(|(entry, level)| match entry.kind() {
        1 => Ok((entry, Role::Data)),
        2 => Ok((entry, Role::Map { level })),
        kind => violation(format!("a root of kind {kind} is on the disk")),
    })
    .collect()
}

/// The valid superblock of the highest generation.
fn newest_superblock(image: &(impl Image + ?Sized)) -> Option<Superblock> {
    let places = SUPERBLOCKS.into_iter().flat_map(|slot| [slot, slot + SUPERBLOCK_COPY]);
    let found = places.filter_map(|at| Superblock::parse(at, image.block(0, at)));
    found.max_by_key(|superblock| superblock.generation)
}
