//! Offline check of a pool (fsck): compares every page and block that the map reaches with its
//! checksum and with the space maps. It only reads, and needs no free space.

use block::{BLOCK, Buffer, DeviceError, DeviceOperation, VolumeId};
use hashbrown::HashMap;

use crate::address::{Address, DeviceNumber, VolumeBlock};
use crate::change::{RECORDS, Tag};
use crate::checksum::crc32c;
use crate::engine::Engine;
use crate::entry::{Entry, Kind, Page, PageKey};
use crate::error::{Failure, OpenError};
use crate::journal_loss::JournalLoss;
use crate::options::{OpenContext, OpenMode, Options, SlotSpec};
use crate::scrub::labels;
use crate::space::STUCK;
use crate::store::Store;

/// Faults that a report names at most; the rest are counted.
const FAULTS_NAMED_MAX: usize = 100;

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Sentences, each one fault; none if the pool is sound.
    pub faults: Vec<String>,
    /// Number of faults, also of those not named.
    pub fault_count: u64,
    /// Volumes.
    pub volumes: u64,
    /// Pages of the map, each counted once however often it is shared.
    pub pages: u64,
    /// Blocks of data, each counted once.
    pub blocks: u64,
    /// Journal units that were not in a checkpoint yet.
    pub replayed_units: u64,
    /// Commits lost by damage to the journal; the rest of the report describes the pool before
    /// them.
    pub loss: Option<JournalLoss>,
    /// Names of volumes that the lost commits changed, as far as it can be told.
    pub loss_volumes: Vec<String>,
    /// Blocks of one member of a mirror that are damaged while another member has them.
    pub damaged_copies: u64,
}

/// Whether data is read and compared with its checksums, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The map and the space maps alone.
    Map,
    /// Every block of data, too.
    Data,
}

/// Checks a pool that lies in these slots, which nobody uses. `read` fills a buffer from an offset of
/// a slot's device; nothing is written.
///
/// # Errors
/// When the pool cannot even be opened.
pub fn verify(
    slots: &[SlotSpec],
    depth: Depth,
    mut read: impl FnMut(u8, u64, &mut [u8]) -> Result<(), DeviceError>,
) -> Result<Report, OpenError> {
    match check(slots, depth, OpenMode::ReadWrite, &mut read) {
        Err(OpenError::JournalLost(_)) => check(slots, depth, OpenMode::ReadOnly, &mut read),
        result => result,
    }
}

fn check(
    slots: &[SlotSpec],
    depth: Depth,
    mode: OpenMode,
    mut read: impl FnMut(u8, u64, &mut [u8]) -> Result<(), DeviceError>,
) -> Result<Report, OpenError> {
    let options = Options { mode, ..Options::default() };
    // Nothing is written, so a member that is not there may be newer all the same.
    let context = OpenContext { allow_degraded: true, ..OpenContext::default() };
    let mut store = Store::open(slots, context, options, Tag(0));
    store.check_only();
    while let Some(io) = store.next_io() {
        let result = match io.operation {
            DeviceOperation::Read { offset, mut buffer } => {
                read(io.device, offset, &mut buffer).map(|()| Some(buffer))
            }
            _ => unreachable!("a pool that is only checked is not written"),
        };
        store.completed(io.id, result);
    }
    match store.next_done().map(|done| done.result) {
        Some(Err(Failure::Open(error))) => Err(error),
        _ => {
            let report = store.audit(depth, read);
            Ok(with_loss(report, &store))
        }
    }
}

/// Adds what the journal lost to a report: it is a fault.
fn with_loss(mut report: Report, store: &Store) -> Report {
    let Some(loss) = store.journal_loss() else { return report };
    report.faults.insert(0, loss.to_string());
    report.fault_count += 1;
    let name = |id: &VolumeId| {
        if *id == RECORDS {
            return "(the array's records)".to_owned();
        }
        let volume = store.volume(*id);
        volume.map_or_else(|| format!("{:016x}", id.0), |volume| volume.spec.name.clone())
    };
    report.loss_volumes = loss.volumes.iter().map(name).collect();
    report.loss = Some(loss.clone());
    report
}

/// A walk through everything that a pool refers to.
struct Walk<R> {
    read: R,
    depth: Depth,
    report: Report,
    /// The slots that hold a current copy of each device.
    slots: Vec<Vec<u8>>,
    /// References found to blocks on the device, and to dirty pages in memory.
    found: HashMap<Address, u32>,
    found_dirty: HashMap<usize, u32>,
    /// Mapped blocks below pages that were visited.
    mapped: HashMap<PageKey, u64>,
}

/// Whose data is being looked at, for the report.
#[derive(Clone, Copy)]
struct Place {
    volume: VolumeId,
    /// First block of the volume below the page.
    block: VolumeBlock,
}

impl Store {
    /// Checks a pool whose requests have all ended. `read` as in [`verify`].
    pub fn audit(
        &mut self,
        depth: Depth,
        read: impl FnMut(u8, u64, &mut [u8]) -> Result<(), DeviceError>,
    ) -> Report {
        let pool = self.pool();
        let numbers = (0..pool.members.device_uuids.len()).map(DeviceNumber::at);
        let slots = numbers.map(|device| pool.io.current_slots(device)).collect();
        let mut walk = Walk {
            read,
            depth,
            report: Report::default(),
            slots,
            found: HashMap::new(),
            found_dirty: HashMap::new(),
            mapped: HashMap::new(),
        };
        let engine = self.parts();
        let roots: Vec<_> =
            engine.pool.volumes.iter().map(|v| (v.spec.id, v.root, v.mapped_bytes)).collect();
        for (volume, root, mapped_bytes) in roots {
            walk.report.volumes += u64::from(engine.pool.volumes.shown(volume).is_some());
            let place = Place { volume, block: VolumeBlock::START };
            let mapped = walk.visit(engine, root.entry, root.levels - 1, place);
            if mapped * BLOCK != mapped_bytes {
                walk.fault(format!(
                    "volume {:016x} maps {} bytes, but its record says {mapped_bytes}",
                    volume.0,
                    mapped * BLOCK
                ));
            }
        }
        for dead in engine.pool.map.dead() {
            let place = Place { volume: VolumeId(0), block: VolumeBlock::START };
            walk.visit(engine, dead.entry, dead.level, place);
        }
        for page in engine.checkpointer.table_pages() {
            *walk.found.entry(page.address()).or_default() += 1;
            walk.visit_copy(page);
        }
        walk.compare(engine);
        walk.check_labels(engine);
        walk.report.replayed_units = engine.pool.statistics.replayed_units;
        walk.report
    }
}

impl<R: FnMut(u8, u64, &mut [u8]) -> Result<(), DeviceError>> Walk<R> {
    fn fault(&mut self, sentence: String) {
        self.report.fault_count += 1;
        if self.report.faults.len() < FAULTS_NAMED_MAX {
            self.report.faults.push(sentence);
        }
    }

    /// Counts a reference, and what is below it the first time; returns the mapped blocks below.
    fn visit(&mut self, engine: &Engine, entry: Entry, level: u8, place: Place) -> u64 {
        match entry.kind() {
            Kind::Hole => 0,
            Kind::Data => {
                self.visit_data(entry, place);
                1
            }
            Kind::Page | Kind::Dirty => self.visit_page(engine, entry, level, place),
        }
    }

    fn visit_data(&mut self, entry: Entry, place: Place) {
        let references = self.found.entry(entry.address()).or_default();
        *references += 1;
        if *references > 1 {
            return;
        }
        self.report.blocks += 1;
        if self.depth == Depth::Data && self.load(entry).is_none() {
            let Place { volume, block } = place;
            self.fault(format!(
                "data of volume {:016x} at byte {} is damaged",
                volume.0,
                block.offset()
            ));
        }
    }

    fn visit_page(&mut self, engine: &Engine, entry: Entry, level: u8, place: Place) -> u64 {
        let dirty = entry.kind() == Kind::Dirty;
        let references = if dirty {
            self.found_dirty.entry(entry.dirty_id()).or_default()
        } else {
            self.found.entry(entry.address()).or_default()
        };
        *references += 1;
        let key = entry.page_key();
        if *references > 1 {
            return self.mapped.get(&key).copied().unwrap_or(0);
        }
        self.report.pages += 1;
        if !dirty {
            self.visit_copy(entry);
            self.check_copies(engine, entry, level, place);
        }
        let Some(page) = self.page(engine, entry, level) else {
            let Place { volume, block } = place;
            self.fault(format!(
                "a map page of volume {:016x}, level {level}, at byte {} is damaged",
                volume.0,
                block.offset()
            ));
            return 0;
        };
        let below = if level == 0 { 1 } else { crate::entry::blocks_below(level - 1) };
        let mut mapped = 0;
        for (number, child) in (0..).zip(page.0.iter()) {
            let place = Place { block: place.block + number * below, ..place };
            let count = self.visit(engine, *child, level.saturating_sub(1), place);
            if level > 0 && count as u32 != child.mapped {
                self.fault(format!("a page maps {count} blocks, its parent says {}", child.mapped));
            }
            mapped += count;
        }
        self.mapped.insert(key, mapped);
        mapped
    }

    /// Counts the reference to the copy of a page.
    fn visit_copy(&mut self, page: Entry) {
        if let Some(copy) = page.twin() {
            *self.found.entry(copy).or_default() += 1;
        }
    }

    /// Reports a page of which one of two copies is damaged: it still works.
    fn check_copies(&mut self, engine: &Engine, entry: Entry, level: u8, place: Place) {
        // Pages of a checkpoint that is being written are in memory only.
        let Some(copy) = entry.twin().filter(|_| !engine.checkpointer.is_writing()) else { return };
        let intact =
            [entry.address(), copy].map(|block| self.load_from(block, entry.crc).is_some());
        if intact[0] != intact[1] {
            let Place { volume, block } = place;
            self.fault(format!(
                "one of two copies of a map page of volume {:016x}, level {level}, at byte {} is damaged",
                volume.0,
                block.offset()
            ));
        }
    }

    /// Reports labels of which one of two copies is damaged: the device is still known by the other.
    fn check_labels(&mut self, engine: &Engine) {
        for device in engine.pool.space.devices() {
            for (number, (block, crc)) in (1..).zip(labels(&engine.pool, device)) {
                if self.load_from(block, crc).is_none() {
                    self.fault(format!(
                        "copy {number} of the label of device {} is damaged",
                        device.number()
                    ));
                }
            }
        }
    }

    fn page(&mut self, engine: &Engine, entry: Entry, level: u8) -> Option<Page> {
        if entry.kind() == Kind::Dirty {
            return Some(engine.pool.map.dirty.get(entry.dirty_id())?.page.clone());
        }
        // A page of a checkpoint that is being written is in memory only.
        let cached = engine.pool.map.cached(entry.address());
        cached.or_else(|| Page::parse(&self.load(entry)?, level))
    }

    /// A block whose checksum is right, from its copy if need be.
    fn load(&mut self, entry: Entry) -> Option<Buffer> {
        let first = self.load_from(entry.address(), entry.crc);
        first.or_else(|| self.load_from(entry.twin()?, entry.crc))
    }

    fn load_from(&mut self, block: Address, crc: u32) -> Option<Buffer> {
        let (mut good, mut damaged) = (None, 0);
        for &slot in self.slots.get(block.device().index())? {
            let mut buffer = Buffer::for_overwrite(BLOCK as usize);
            let is_read = (self.read)(slot, block.block().offset(), &mut buffer).is_ok();
            if is_read && crc32c(&buffer) == crc {
                good.get_or_insert(buffer);
            } else {
                damaged += 1;
            }
        }
        self.report.damaged_copies += if good.is_some() { damaged } else { 0 };
        good
    }

    /// Compares the references that were found with those that are recorded.
    fn compare(&mut self, engine: &Engine) {
        let references = engine.pool.space.all_references(|block, crc| self.load_from(block, crc));
        let recorded: HashMap<Address, u16> = references.into_iter().collect();
        for (&block, &count) in &recorded {
            let found = self.found.get(&block).copied().unwrap_or(0);
            let known = count != STUCK && !engine.pool.space.is_fenced(block);
            if found != u32::from(count) && known {
                self.fault(format!("block {block} has {found} references, recorded are {count}"));
            }
        }
        let unrecorded: Vec<Address> =
            self.found.keys().filter(|block| !recorded.contains_key(*block)).copied().collect();
        let unrecorded =
            unrecorded.into_iter().filter(|&block| !engine.pool.space.is_fenced(block));
        for block in unrecorded {
            self.fault(format!("block {block} is in use, but recorded as free"));
        }
        for (id, page) in &engine.pool.map.dirty {
            let found = self.found_dirty.get(&id).copied().unwrap_or(0);
            if found != u32::from(page.references()) && page.references() != STUCK {
                let recorded = page.references();
                self.fault(format!("dirty page {id} has {found} parents, recorded are {recorded}"));
            }
        }
    }
}
