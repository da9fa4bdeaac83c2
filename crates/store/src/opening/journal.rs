//! Journal replay: reads the units that follow the checkpoint, as far as they and their data are
//! whole.
//!
//! Units up to the newest one known to have been flushed must be there; if one is missing although
//! a later one is not, something that was acknowledged is lost, and the pool is not opened. Units
//! after it may have been cut short by a crash: the first whose checksum or whose data's checksums
//! are wrong ends the journal, with everything after it.
//!
//! A unit that seems to end the journal is read once more before that is believed, so that one read
//! error does not cost acknowledged data.

use std::collections::{HashMap, VecDeque};

use block::{BLOCK, Buffer};

use super::{Opening, Step, Taken};
use crate::address::{DeviceNumber, RingBlock, Run};
use crate::checksum::crc32c;
use crate::error::OpenError;
use crate::io::Wanted;
use crate::journal::{Header, Journal, JournalStart, Position, UNIT_BLOCKS_MAX, Unit};
use crate::layout::ring_address;
use crate::loading::READ_ATTEMPTS;
use crate::log::Log;
use crate::options::OpenMode;
use crate::record::Record;
use crate::space::Space;

/// Blocks of the ring that are read at once.
const WINDOW_BLOCKS: u64 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The whole ring is read, window by window.
    Reading,
    /// The data of units that may have been cut short is read.
    Verifying,
    /// The space maps of the groups that units name are loaded.
    Loading,
}

/// A journal that is being read.
pub(super) struct Scan {
    stage: Stage,
    ring_blocks: u64,
    epoch: u64,
    head: Position,
    /// Where the chain of units ends, as far as it was followed.
    end: Position,
    /// How often what lies there was read.
    attempts: u8,
    /// How many blocks the last attempt read, from each place where the next unit may be.
    read_again: HashMap<RingBlock, u64>,
    /// Blocks that may begin a unit, with the units' bytes as far as they are needed.
    ring: HashMap<RingBlock, Buffer>,
    units: Vec<Unit>,
    /// For each read of data: the unit it belongs to, and the checksums it must have.
    checks: Vec<(usize, Vec<u32>)>,
    /// The first unit whose data is not whole.
    broken: usize,
}

impl Scan {
    pub(super) fn new(journal: &Journal) -> Self {
        Self {
            stage: Stage::Reading,
            ring_blocks: journal.blocks,
            epoch: journal.epoch,
            head: journal.next,
            end: journal.next,
            attempts: 0,
            read_again: HashMap::new(),
            ring: HashMap::new(),
            units: Vec::new(),
            checks: Vec::new(),
            broken: usize::MAX,
        }
    }

    /// The checksums that a read of data must bring; none of reads of the ring.
    pub(super) fn crcs(&self, index: u64) -> &[u32] {
        match self.stage {
            Stage::Verifying => self.checks.get(index as usize).map_or(&[], |(_, crcs)| crcs),
            Stage::Reading | Stage::Loading => &[],
        }
    }

    pub(super) fn take(&mut self, wanted: Wanted, bytes: Buffer) -> Taken {
        match self.stage {
            Stage::Reading if self.attempts > 0 => {
                self.replace(RingBlock::new(wanted.index), &bytes)
            }
            Stage::Reading => {
                self.ring.insert(RingBlock::new(wanted.index), bytes);
            }
            Stage::Loading => {}
            Stage::Verifying => {
                let (unit, crcs) = &self.checks[wanted.index as usize];
                let whole = bytes.chunks(BLOCK as usize).map(crc32c).eq(crcs.iter().copied());
                if !whole && wanted.attempt + 1 < READ_ATTEMPTS {
                    return Taken::Again;
                }
                if !whole {
                    self.broken = self.broken.min(*unit);
                }
            }
        }
        Taken::Whole
    }

    fn block(&self, at: RingBlock) -> Option<&[u8]> {
        let (window, byte) = place_in_window(at);
        let window = self.ring.get(&window)?;
        window.get(byte..byte + BLOCK as usize)
    }

    /// The unit at a place of the ring, if it is whole and follows `position`.
    fn unit_at(&self, at: RingBlock, position: &Position) -> Option<Unit> {
        let header = Header::parse(self.block(at)?)?;
        if !header.follows(position, self.epoch) || !at.fits(header.blocks, self.ring_blocks) {
            return None;
        }
        self.whole_unit(at, header.blocks)
    }

    /// Follows the chain of units to its end.
    fn follow(&mut self) {
        loop {
            let position = self.end;
            let near_end = !position.block.fits(UNIT_BLOCKS_MAX, self.ring_blocks);
            let start = RingBlock::START;
            let at_end = self.unit_at(position.block, &position).map(|unit| (position.block, unit));
            let wrapped = || near_end.then(|| self.unit_at(start, &position)).flatten();
            let Some((at, unit)) = at_end.or_else(|| wrapped().map(|unit| (start, unit))) else {
                return;
            };
            self.end = Position {
                block: at.after(unit.blocks, self.ring_blocks),
                sequence: unit.sequence + 1,
                previous_crc: unit.crc,
            };
            self.units.push(unit);
            self.attempts = 0;
            self.read_again.clear();
        }
    }

    /// Blocks that were read again.
    fn replace(&mut self, at: RingBlock, bytes: &[u8]) {
        for (block, bytes) in at.onwards().zip(bytes.chunks(BLOCK as usize)) {
            let (window, at) = place_in_window(block);
            let window = self.ring.get_mut(&window);
            if let Some(place) = window.and_then(|window| window.get_mut(at..at + bytes.len())) {
                place.copy_from_slice(bytes);
            }
        }
    }

    /// Blocks to read again before the end of the chain is believed, each with their number; none
    /// if that was done often enough.
    fn unconfirmed(&mut self) -> Vec<(RingBlock, u64)> {
        let wraps = !self.end.block.fits(UNIT_BLOCKS_MAX, self.ring_blocks);
        let mut places = vec![self.end.block];
        places.extend((wraps && self.end.block > RingBlock::START).then_some(RingBlock::START));
        let sized = |at: RingBlock| (at, self.blocks_at(at));
        let wanted: Vec<(RingBlock, u64)> = places.into_iter().map(sized).collect();
        // Where the copy that was read last has a header and the one before had none, the rest of the unit
        // is read from it as well, before another copy is asked.
        let is_longer = |(at, blocks): &(RingBlock, u64)| {
            self.read_again.get(at).is_some_and(|read| blocks > read)
        };
        let longer: Vec<(RingBlock, u64)> = wanted.iter().copied().filter(is_longer).collect();
        if !longer.is_empty() {
            self.read_again.extend(longer.iter().copied());
            return longer;
        }
        self.attempts += 1;
        if self.attempts >= READ_ATTEMPTS {
            return Vec::new();
        }
        self.read_again = wanted.iter().copied().collect();
        wanted
    }

    /// Blocks of the unit that begins at a place, if it is the next one; 1 if not.
    fn blocks_at(&self, at: RingBlock) -> u64 {
        let header = self.block(at).and_then(Header::parse);
        let next = header.filter(|header| header.follows(&self.end, self.epoch));
        next.map_or(1, |header| header.blocks).min(RingBlock::new(self.ring_blocks) - at)
    }

    pub(super) fn end(&self) -> &Position {
        &self.end
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// All blocks of the ring.
    pub(super) fn ring_blocks(&self) -> impl Iterator<Item = RingBlock> + use<> {
        RingBlock::START.onwards().take(self.ring_blocks as usize)
    }

    /// Parses a block as the first one of a unit.
    pub(super) fn header_at(&self, at: RingBlock) -> Option<Header> {
        self.block(at).and_then(Header::parse)
    }

    /// The unit of so many blocks at a place of the ring, if its own checksum is right.
    pub(super) fn whole_unit(&self, at: RingBlock, blocks: u64) -> Option<Unit> {
        let mut bytes = Vec::with_capacity((blocks * BLOCK) as usize);
        for block in at.onwards().take(blocks as usize) {
            bytes.extend_from_slice(self.block(block)?);
        }
        Unit::parse(&bytes)
    }
}

impl Opening {
    /// Takes the next step through the journal.
    pub(super) fn scan_next(&mut self) -> Result<(), OpenError> {
        let Self { engine, state, .. } = self;
        let Step::Journal(scan) = &mut state.step else { return Ok(()) };
        match scan.stage {
            Stage::Reading if scan.ring.is_empty() => {
                let end = RingBlock::new(scan.ring_blocks);
                for at in scan.ring_blocks().step_by(WINDOW_BLOCKS as usize) {
                    state.want(at.number(), ring_run(at, WINDOW_BLOCKS.min(end - at)));
                }
                Ok(())
            }
            Stage::Reading => {
                scan.follow();
                let again = scan.unconfirmed();
                if !again.is_empty() {
                    // Another copy of a mirror may have what this one has not.
                    let copy = scan.attempts;
                    let want = |(at, blocks): (RingBlock, _)| {
                        let (index, run) = (at.number(), ring_run(at, blocks));
                        state.wanted.push_back(Wanted { index, run, attempt: 0, copy })
                    };
                    again.into_iter().for_each(want);
                    return Ok(());
                }
                if let Some(loss) = scan.loss() {
                    match engine.pool.options.mode {
                        OpenMode::ReadWrite => return Err(OpenError::JournalLost(Box::new(loss))),
                        OpenMode::ReadOnly | OpenMode::Rewind => {}
                    }
                    self.loss = Some(loss);
                }
                scan.ring = HashMap::new();
                scan.stage = Stage::Verifying;
                let reads = scan.reads_of_tail();
                let crcs = |index: u64| scan.checks[index as usize].1.clone();
                state.tail = reads.iter().map(|&(index, run)| (run, crcs(index))).collect();
                let joining = scan.devices_that_join(&engine.pool.members.device_uuids);
                for (uuid, blocks) in joining {
                    let number = engine.pool.io.next_device();
                    // One that is missing is told when its unit is known to have happened.
                    let Ok(at) = state.check_device(number, uuid, blocks) else { break };
                    engine.pool.add_found_device(number, at);
                }
                reads.into_iter().for_each(|(index, run)| state.want(index, run));
                Ok(())
            }
            Stage::Verifying => self.load_named_groups(),
            Stage::Loading => {
                self.end_scan();
                Ok(())
            }
        }
    }

    /// Brings the pool to the devices that the units know, and the groups that they name into
    /// memory.
    fn load_named_groups(&mut self) -> Result<(), OpenError> {
        let Self { engine, state, .. } = self;
        let Step::Journal(scan) = &mut state.step else { return Ok(()) };
        let happened = scan.checks.iter().take_while(|(unit, _)| *unit < scan.broken);
        state.tail_happened = happened.count();
        scan.units.truncate(scan.broken);
        scan.stage = Stage::Loading;
        let units = std::mem::take(&mut scan.units);
        for record in units.iter().flat_map(|unit| &unit.records) {
            match record {
                Record::AddDevice { uuid, device_blocks } => {
                    let number = engine.pool.space.next_device();
                    let is_known = engine.pool.members.device_uuids.contains(uuid);
                    if !is_known && !engine.pool.io.devices().contains(&number) {
                        let at = state.check_device(number, *uuid, *device_blocks)?;
                        engine.pool.add_found_device(number, at);
                    }
                    engine.pool.add_device(*uuid, *device_blocks);
                }
                Record::ExtendDevice { device, device_blocks } => {
                    let (device, blocks) = (DeviceNumber::new(*device), *device_blocks);
                    let uuid = engine.pool.members.device_uuids.get(device.index()).copied();
                    let uuid = uuid.ok_or(OpenError::Damaged("a record of the journal"))?;
                    state.check_device(device, uuid, blocks)?;
                    engine.pool.extend_device(device, blocks);
                }
                _ => {}
            }
        }
        // Devices whose units never happened did not join.
        for device in engine.pool.io.devices().into_iter().rev() {
            if !engine.pool.space.is_there(device) {
                engine.pool.io.remove(device);
            }
        }
        for run in units.iter().flat_map(|unit| &unit.records).filter_map(named_blocks) {
            let ends = [run.start, run.start + (run.blocks.max(1) - 1)];
            if !ends.iter().all(|&block| engine.pool.space.holds(block)) {
                return Err(OpenError::Damaged("a record of the journal"));
            }
            for group in ends.map(|block| engine.pool.space.group_of(block)) {
                if !engine.pool.space.is_loaded(group) {
                    engine.bring_group(group, false);
                }
            }
        }
        let Step::Journal(scan) = &mut state.step else { return Ok(()) };
        scan.units = units;
        Ok(())
    }

    fn end_scan(&mut self) {
        let Self { engine, state, .. } = self;
        let Step::Journal(scan) = &mut state.step else { return };
        let mut next = scan.head;
        for unit in &scan.units {
            next = engine.log.journal.after(next, unit);
        }
        engine.log = Log::new(scan.ring_blocks, JournalStart { epoch: scan.epoch, next });
        hold_data_of(&mut engine.pool.space, &scan.units);
        let units = VecDeque::from(std::mem::take(&mut scan.units));
        state.step = Step::Replaying { units, record: 0 };
    }
}

/// Data that the journal names must not be handed out before it is replayed.
fn hold_data_of(space: &mut Space, units: &[Unit]) {
    let records = units.iter().flat_map(|unit| &unit.records);
    for run in records.filter_map(named_blocks) {
        run.addresses().for_each(|block| space.hold(block));
    }
}

/// The window that a block of the ring is in, and its byte there.
fn place_in_window(at: RingBlock) -> (RingBlock, usize) {
    let before = at.number() % WINDOW_BLOCKS;
    (RingBlock::new(at.number() - before), (before * BLOCK) as usize)
}

/// Where blocks of the journal's ring lie, from this one on.
fn ring_run(at: RingBlock, blocks: u64) -> Run {
    Run { start: ring_address(at), blocks }
}

/// The run of blocks that a record puts data in.
fn named_blocks(record: &Record) -> Option<Run> {
    match record {
        Record::Write { start, crcs, .. } => Some(Run { start: *start, blocks: crcs.len() as u64 }),
        Record::Fill { block, .. } => Some(Run::of(*block)),
        _ => None,
    }
}

impl Scan {
    /// Devices that join with these units; data of later ones may lie there.
    fn devices_that_join(&self, known: &[[u8; 16]]) -> Vec<([u8; 16], u64)> {
        let records = self.units.iter().flat_map(|unit| &unit.records);
        let joining = records.filter_map(|record| match record {
            Record::AddDevice { uuid, device_blocks } => Some((*uuid, *device_blocks)),
            _ => None,
        });
        joining.filter(|(uuid, _)| !known.contains(uuid)).collect()
    }

    /// The reads of data that tell whether the units after the newest flushed one are whole.
    fn reads_of_tail(&mut self) -> Vec<(u64, Run)> {
        let durable = self.units.iter().map(|unit| unit.durable).max().unwrap_or(0);
        let mut reads = Vec::new();
        for (number, unit) in self.units.iter().enumerate() {
            if unit.sequence <= durable {
                continue;
            }
            for record in &unit.records {
                let (start, crcs) = match record {
                    Record::Write { start, crcs, .. } => (*start, crcs.clone()),
                    Record::Fill { block, crc, .. } => (*block, vec![*crc]),
                    _ => continue,
                };
                for (part, crcs) in crcs.chunks(256).enumerate() {
                    let index = self.checks.len() as u64;
                    let start = start + part as u64 * 256;
                    reads.push((index, Run { start, blocks: crcs.len() as u64 }));
                    self.checks.push((number, crcs.to_vec()));
                }
            }
        }
        reads
    }
}
