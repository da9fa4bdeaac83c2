//! Reads blocks of volumes: walks the map, reads adjacent blocks together, verifies the checksum of
//! each.

use block::{BLOCK, BlockError, DeviceResult, MapExtent, MapState, Request, Response};
use block::{Buffer, ByteRange};
use smallvec::SmallVec;

use super::block_read::{BlockRead, Place};
use super::{Operation, OperationKey, Stage, Work};
use crate::address::{BlockRange, Run};
use crate::checksum::crc32c;
use crate::error::Failure;
use crate::incident::{self, Cause};
use crate::io::{ExtentKey, Waiter};
use crate::limits::{AHEAD_READ_BLOCKS_MAX, AHEAD_REQUEST_BLOCKS_MAX};
use crate::loading::PageWaiter;
use crate::map::{Map, Missing, Root};
use crate::mirror::Expected;
use crate::serving::Serving;

impl Serving {
    /// Begins the reads that an operation needs; `false` if it waits for a page of the map.
    pub(super) fn start_reads(&mut self, key: OperationKey) -> Result<bool, Failure> {
        if self.requests.table[key].reads.is_empty() {
            self.requests.table[key].reads = self.reads_needed(&self.requests.table[key]);
        }
        let mut reads = std::mem::take(&mut self.requests.table[key].reads);
        for read in &mut reads {
            let volume =
                self.engine.pool.volumes.get(read.volume).ok_or(BlockError::NoSuchVolume)?;
            if let Err(missing) = read.locate(&mut self.engine.pool.map, volume.root) {
                self.requests.table[key].reads = reads;
                self.load_page(missing, PageWaiter::Operation(key));
                return Ok(false);
            }
        }
        let mut pending = 0;
        for (number, read) in reads.iter_mut().enumerate() {
            self.engine.pool.statistics.recent_bytes_read += read.take_cached(&self.cache) * BLOCK;
            for (extent, part) in read.extents.iter().enumerate() {
                if let Place::Device(start) = part.place {
                    let extent = ExtentKey { read: number, extent };
                    let waiter = Waiter::Operation { operation: key, extent };
                    pending += 1;
                    self.engine.pool.statistics.data_bytes_read += part.blocks * BLOCK;
                    let crcs = &read.crcs[part.crc_at..];
                    let run = Run { start, blocks: part.blocks };
                    self.engine.pool.io.read(waiter, run, Expected::Blocks(crcs));
                }
            }
        }
        let operation = &mut self.requests.table[key];
        operation.reads = reads;
        operation.reads_pending = pending;
        operation.stage = Stage::Reading;
        self.read_ahead(key);
        Ok(true)
    }

    /// Reads what a host will ask for that reads on, one request after the other.
    fn read_ahead(&mut self, key: OperationKey) {
        let operation = &self.requests.table[key];
        let Work::Request(Request::Read { range }) = &operation.work else { return };
        let blocks = BlockRange::touched_by(*range);
        if !range.is_aligned(BLOCK) || blocks.count > AHEAD_REQUEST_BLOCKS_MAX {
            return;
        }
        let Some(volume) = self.engine.pool.volumes.get(operation.volume) else { return };
        let is_under_way = |operation| self.requests.table.contains(operation);
        let ahead = self.readers.follow(volume.spec.id, blocks, key, is_under_way);
        let left = volume.blocks_from(ahead.first.number());
        let ahead = BlockRange { count: ahead.count.min(left.count), ..ahead };
        if ahead.is_empty() {
            return;
        }
        let mut read = BlockRead::new(volume.spec.id, ahead);
        if read.locate(&mut self.engine.pool.map, volume.root).is_err() {
            // The host's own read will wait for the page.
            return;
        }
        for (place, crcs) in read.on_devices() {
            let chunks = crcs.chunks(AHEAD_READ_BLOCKS_MAX as usize);
            let starts = place.onwards().step_by(AHEAD_READ_BLOCKS_MAX as usize);
            for (start, crcs) in starts.zip(chunks) {
                let (number, blocks) = (self.cache.expect(start, crcs), crcs.len() as u64);
                let run = Run { start, blocks };
                self.engine.pool.statistics.data_bytes_read += blocks * BLOCK;
                self.engine.pool.statistics.ahead_bytes_read += blocks * BLOCK;
                let waiter = Waiter::Ahead { number, run };
                self.engine.pool.io.read(waiter, run, Expected::Blocks(crcs));
            }
        }
    }

    fn reads_needed(&self, operation: &Operation) -> SmallVec<[BlockRead; 1]> {
        let Work::Request(request) = &operation.work else { return SmallVec::new() };
        let volume = operation.volume;
        match request {
            Request::Read { range } => {
                let blocks = BlockRange::touched_by(*range);
                let read = (!blocks.is_empty()).then(|| BlockRead::new(volume, blocks));
                SmallVec::from_iter(read)
            }
            Request::CompareAndWrite { range, .. } => {
                let blocks = BlockRange::touched_by(*range);
                let read = (!blocks.is_empty()).then(|| BlockRead::new(volume, blocks));
                SmallVec::from_iter(read)
            }
            Request::MapStatus { .. } | Request::Flush => SmallVec::new(),
            _ => self.composition_reads(operation),
        }
    }

    /// The answer of an operation that only reads.
    pub(super) fn answer_of_reads(&mut self, key: OperationKey) -> Option<Response> {
        let operation = &self.requests.table[key];
        match &operation.work {
            Work::Request(Request::Read { range }) => {
                let range = *range;
                let rope = operation.reads.first().map(BlockRead::rope).unwrap_or_default();
                self.sample_read(key, range);
                let skip = (range.offset % BLOCK) as usize;
                if skip == 0 && rope.len() as u64 == range.length {
                    return Some(Response::Data(rope));
                }
                Some(Response::Data(rope.slice(skip, range.length as usize)))
            }
            Work::Request(Request::Flush) => Some(Response::Done),
            Work::Request(Request::MapStatus { range, extents_max }) => {
                let (range, extents_max) = (*range, *extents_max);
                let root = self.engine.pool.volumes[&operation.volume].root;
                match map_status(&mut self.engine.pool.map, root, range, extents_max) {
                    Ok(extents) => Some(Response::Map(extents)),
                    Err(missing) => {
                        self.requests.table[key].stage = Stage::Begun;
                        self.load_page(missing, PageWaiter::Operation(key));
                        None
                    }
                }
            }
            _ => None,
        }
    }

    /// An extent of an operation was read.
    pub(crate) fn extent_read(&mut self, key: OperationKey, of: ExtentKey, result: DeviceResult) {
        let Some(operation) = self.requests.table.get_mut(key) else { return };
        let read = &mut operation.reads[of.read];
        let extent = &mut read.extents[of.extent];
        let crcs = &read.crcs[extent.crc_at..];
        match verified(result, crcs) {
            Ok(buffer) => {
                if operation.is_for_parts
                    && let Place::Device(place) = extent.place
                {
                    self.cache.keep(place, crcs, &buffer);
                }
                let (place, retried) = (extent.place.on_device(), extent.retried.take());
                let first = read.range.first + extent.offset;
                let bytes = BlockRange { first, count: extent.blocks }.bytes();
                extent.place = Place::Memory(buffer.freeze().into());
                let volume = read.volume;
                operation.reads_pending -= 1;
                if operation.reads_pending == 0 {
                    self.requests.ready.push_back(key);
                }
                if let (Some(place), Some(cause)) = (place, retried) {
                    let data = incident::Place::Data { volume, range: bytes };
                    self.engine.pool.report_incident(place, cause, data, false);
                }
            }
            Err((_, cause)) if extent.retried.is_none() => {
                extent.retried = Some(cause);
                let (place, blocks) = (&extent.place, extent.blocks);
                let Place::Device(start) = *place else { return };
                let waiter = Waiter::Operation { operation: key, extent: of };
                let run = Run { start, blocks };
                self.engine.pool.io.read(waiter, run, Expected::Blocks(crcs));
            }
            Err((bad, cause)) => {
                let (volume, first) = (read.volume, read.range.first + extent.offset + bad);
                let offset = first.offset();
                if let Some(place) = extent.place.on_device() {
                    let blocks = if cause == Cause::Checksum { 1 } else { extent.blocks };
                    let range = BlockRange { first, count: blocks }.bytes();
                    let data = incident::Place::Data { volume, range };
                    self.engine.pool.report_incident(place + bad, cause, data, true);
                }
                self.finish(key, Err(BlockError::Medium { offset }.into()));
            }
        }
    }
}

/// The data, if every block has its checksum; else the first block that has not, and why.
fn verified(result: DeviceResult, crcs: &[u32]) -> Result<Buffer, (u64, Cause)> {
    let buffer = result.map_err(|error| (0, Cause::Device(error)))?;
    let buffer = buffer.ok_or((0, Cause::Checksum))?;
    let blocks = buffer.chunks(BLOCK as usize).zip(crcs);
    match blocks.into_iter().position(|(block, &crc)| crc32c(block) != crc) {
        Some(bad) => Err((bad as u64, Cause::Checksum)),
        None => Ok(buffer),
    }
}

fn map_status(
    map: &mut Map,
    root: Root,
    range: ByteRange,
    extents_max: usize,
) -> Result<Vec<MapExtent>, Missing> {
    let mut extents: Vec<MapExtent> = Vec::new();
    // A leaf at a time, so that a short answer does not walk a long range.
    for part in BlockRange::touched_by(range).by_leaf() {
        if extents.len() > extents_max {
            break;
        }
        map.walk(root, part, |first, entries| {
            for (block, entry) in first.onwards().zip(entries) {
                let state = if entry.is_hole() { MapState::Deallocated } else { MapState::Mapped };
                match extents.last_mut() {
                    Some(last) if last.state == state => last.range.length += BLOCK,
                    _ => extents.push(MapExtent { range: BlockRange::of(block).bytes(), state }),
                }
            }
        })?;
    }
    extents.truncate(extents_max.max(1));
    Ok(clip(extents, range))
}

/// Extents start with the range and end with it at the latest.
fn clip(mut extents: Vec<MapExtent>, range: ByteRange) -> Vec<MapExtent> {
    for extent in &mut extents {
        let start = extent.range.offset.max(range.offset);
        let end = extent.range.end().min(range.end());
        extent.range = ByteRange::new(start, end - start);
    }
    extents
}
