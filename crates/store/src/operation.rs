//! State machine of one request: claims its range, reads what it needs, composes what it writes,
//! commits.

mod allotment;
mod changes;
mod compose;
mod key;
mod reading;
mod sampling;

use block::{
    Account, BLOCK, BlockError, ByteRange, DeviceError, Pattern, Request, Response, VolumeId,
};
use bytes::Bytes;
use smallvec::SmallVec;

use crate::address::{BlockRange, Run, VolumeBlock};
use crate::budget::Estimate;
use crate::bugs::planted;
use crate::commit::{Lane, checksums};
use crate::error::Failure;
use crate::limits::{REQUEST_BYTES_MAX, UNMAP_RANGES_MAX};
use crate::loading::PageWaiter;
use crate::locks::Claim;
use crate::map::Missing;
use crate::recent::is_for_parts;
use crate::record::Record;
use crate::status::Health;
use crate::store::{CHANGES, Change, Done, Outcome, Store, Tag};

pub(crate) use key::{OperationKey, Operations};
pub(crate) use reading::BlockRead;

/// Work of an operation.
pub(crate) enum Work {
    Request(Request),
    Change(Change),
}

/// How far an operation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waits for its claims, or for pages of the map.
    Begun,
    /// Waits for data it has to read.
    Reading,
    /// Knows what to write; waits for space, pages, or room in the journal.
    Composed,
    /// The label of a new device is written, and space on it or on one that grows is set aside;
    /// then it is flushed.
    Labelling,
    /// Its device has a label, and space.
    Labelled,
    /// Its records are in a commit.
    Committing,
    /// Waits for a checkpoint.
    Waiting,
}

/// A part of what an operation changes, in whole blocks.
pub(crate) enum Piece {
    Data { first: VolumeBlock, data: Bytes },
    Zero { range: BlockRange },
    Fill { range: BlockRange, content: Bytes },
    Clone { source: VolumeId, source_first: VolumeBlock, range: BlockRange },
}

/// A request or change under way.
pub(crate) struct Operation {
    pub(crate) tag: Tag,
    pub(crate) volume: VolumeId,
    work: Work,
    /// Whether its blocks are kept in memory.
    is_for_parts: bool,
    stage: Stage,
    claims: SmallVec<[Claim; 2]>,
    reads: SmallVec<[BlockRead; 1]>,
    reads_pending: usize,
    pieces: Vec<Piece>,
    /// Blocks handed out for the data of `pieces`.
    runs: SmallVec<[Run; 1]>,
    /// Bytes of a physical copy that are done.
    progress: u64,
    space_waits: u8,
    /// Blocks that it will share of reserved volumes, which are owed new ones then.
    promised: u64,
    /// What it will do to the space of the pool besides taking `runs`.
    estimate: Estimate,
    /// Writes of a new device's label, and reservations of space, under way.
    label_writes: usize,
    /// Why one of them failed.
    label_failure: Option<DeviceError>,
    account: Account,
}

impl Operation {
    /// Whether this is that kind of change.
    pub(crate) fn is_change(&self, kind: &Change) -> bool {
        let same = |change| std::mem::discriminant(change) == std::mem::discriminant(kind);
        matches!(&self.work, Work::Change(change) if same(change))
    }

    /// Which commit it goes with.
    fn lane(&self) -> Lane {
        match self.work {
            Work::Request(Request::CompareAndWrite { .. }) => Lane::Fast,
            _ => Lane::Ordinary,
        }
    }

    /// Whether the operation changes the pool.
    pub(crate) fn changes(&self) -> bool {
        !matches!(self.work, Work::Request(Request::Read { .. } | Request::MapStatus { .. }))
    }
}

/// The blocks that data fills, from the first on.
fn data_range(first: VolumeBlock, data: &Bytes) -> BlockRange {
    BlockRange { first, count: data.len() as u64 / BLOCK }
}

impl Store {
    pub(crate) fn begin(&mut self, tag: Tag, volume: VolumeId, work: Work) {
        let claims = match self.claims(volume, &work) {
            Ok(claims) => claims,
            Err(error) => return self.answer(tag, Err(error.into())),
        };
        if let Work::Request(request) = &work {
            self.pool.budget.metadata.note(volume, request);
        }
        let key = self.operations.insert(Operation {
            tag,
            volume,
            is_for_parts: matches!(&work, Work::Request(request) if is_for_parts(request)),
            work,
            stage: Stage::Begun,
            claims,
            reads: SmallVec::new(),
            reads_pending: 0,
            pieces: Vec::new(),
            runs: SmallVec::new(),
            progress: 0,
            space_waits: 0,
            promised: 0,
            estimate: Estimate::default(),
            label_writes: 0,
            label_failure: None,
            account: Account::default(),
        });
        let claims = &self.operations[key].claims;
        if self.locks.claim(key, claims) {
            self.run(key);
        }
    }

    /// The ranges that the work reads and changes, checked against the volume's size.
    fn claims(&self, volume: VolumeId, work: &Work) -> Result<SmallVec<[Claim; 2]>, BlockError> {
        let request = match work {
            Work::Change(change) => return Ok(changes::claims(change)),
            Work::Request(request) => request,
        };
        let claim = |volume, range: ByteRange, exclusive| Claim {
            volume,
            range: BlockRange::touched_by(range),
            exclusive,
        };
        let mut claims = SmallVec::new();
        match request {
            Request::Read { range } | Request::MapStatus { range, .. } => {
                self.check_range(volume, *range, u64::MAX)?;
                claims.push(claim(volume, *range, false));
            }
            Request::Write { range, data } => {
                self.check_range(volume, *range, data.len() as u64)?;
                claims.push(claim(volume, *range, true));
            }
            Request::CompareAndWrite { range, compare, write } => {
                let length = compare.len().min(write.len()) as u64;
                self.check_range(volume, *range, length)?;
                claims.push(claim(volume, *range, true));
            }
            Request::WriteSame { range, .. } => {
                self.check_range(volume, *range, u64::MAX)?;
                claims.push(claim(volume, *range, true));
            }
            Request::Unmap { ranges } => {
                if ranges.len() > UNMAP_RANGES_MAX {
                    return Err(BlockError::OutOfRange);
                }
                for range in ranges.iter().filter(|range| !range.is_empty()) {
                    self.check_range(volume, *range, u64::MAX)?;
                    claims.push(claim(volume, *range, true));
                }
            }
            Request::Copy { source, source_offset, destination, length } => {
                let from = ByteRange::new(*source_offset, *length);
                let to = ByteRange::new(*destination, *length);
                self.check_range(*source, from, REQUEST_BYTES_MAX)?;
                self.check_range(volume, to, REQUEST_BYTES_MAX)?;
                claims.push(claim(*source, from, false));
                claims.push(claim(volume, to, true));
            }
            Request::Flush => {}
        }
        Ok(claims)
    }

    /// A range inside the volume, in whole sectors, and no longer than its data.
    fn check_range(
        &self,
        volume: VolumeId,
        range: ByteRange,
        length_max: u64,
    ) -> Result<(), BlockError> {
        let volume = self.pool.volumes.get(volume).ok_or(BlockError::NoSuchVolume)?;
        let end = range.offset.checked_add(range.length).ok_or(BlockError::OutOfRange)?;
        let fits = end <= volume.size_bytes
            && range.is_aligned(block::SECTOR)
            && range.length <= length_max;
        if fits { Ok(()) } else { Err(BlockError::OutOfRange) }
    }

    /// Takes an operation as far as it goes.
    pub(crate) fn run(&mut self, key: OperationKey) {
        if let Err(failure) = self.try_run(key) {
            self.finish(key, Err(failure));
        }
    }

    fn try_run(&mut self, key: OperationKey) -> Result<(), Failure> {
        if self.operations[key].stage == Stage::Labelled {
            return self.commit_device(key);
        }
        if self.operations[key].stage == Stage::Begun {
            if self.operations[key].changes() && self.health != Health::Ready {
                return Err(BlockError::ReadOnly.into());
            }
            if let Work::Change(change) = &self.operations[key].work {
                let change = change.clone();
                return self.run_change(key, &change);
            }
            self.check_still_there(key)?;
            if !self.start_reads(key)? {
                return Ok(());
            }
        }
        if self.operations[key].stage == Stage::Reading {
            if self.operations[key].reads_pending > 0 {
                return Ok(());
            }
            if let Some(response) = self.answer_of_reads(key) {
                self.finish(key, Ok(Outcome::Response(response)));
                return Ok(());
            }
            if self.operations[key].stage == Stage::Begun {
                return Ok(());
            }
            self.compose(key)?;
        }
        if self.operations[key].stage == Stage::Composed {
            self.join_group(key)?;
        }
        Ok(())
    }

    /// While an operation waited, its volume may have been deleted or made smaller.
    fn check_still_there(&self, key: OperationKey) -> Result<(), BlockError> {
        let operation = &self.operations[key];
        operation.claims.iter().try_for_each(|claim| {
            let volume = self.pool.volumes.get(claim.volume).ok_or(BlockError::NoSuchVolume)?;
            if claim.range.end().number() > volume.blocks() {
                Err(BlockError::OutOfRange)
            } else {
                Ok(())
            }
        })
    }

    /// Puts what an operation changes into the group, or leaves it waiting for what that needs.
    fn join_group(&mut self, key: OperationKey) -> Result<(), Failure> {
        if self.operations[key].pieces.is_empty() {
            return self.joined(key);
        }
        let lane = self.operations[key].lane();
        if self.groups.of(lane).is_full() {
            self.close_group();
        }
        if self.groups.of(lane).is_full() {
            self.groups.wait(key);
            return Ok(());
        }
        if self.must_wait_for_checkpoint(lane) {
            if self.starved {
                return Err(self.pool.budget.refusal().into());
            }
            self.stall(key);
            return Ok(());
        }
        if let Some(missing) = self.missing_for(key) {
            self.load_page(missing, PageWaiter::Operation(key));
            return Ok(());
        }
        if !self.allocate_for(key)? {
            return Ok(());
        }
        let pieces = std::mem::take(&mut self.operations[key].pieces);
        let volume = self.operations[key].volume;
        let runs = std::mem::take(&mut self.operations[key].runs);
        let mut places = Places { run: None, rest: runs.into_iter() };
        let mut account = std::mem::take(&mut self.operations[key].account);
        let keeps = self.operations[key].is_for_parts;
        for piece in pieces {
            self.record_piece(volume, piece, lane, keeps, &mut places, &mut account);
        }
        self.operations[key].account = account;
        self.groups.of(lane).member(key);
        self.operations[key].stage = Stage::Committing;
        if self.groups.of(lane).is_full() {
            self.close_group();
        }
        Ok(())
    }

    /// Nothing is to be written: done, unless a physical copy goes on.
    fn joined(&mut self, key: OperationKey) -> Result<(), Failure> {
        if self.begin_next_slice(key) {
            self.ready.push_back(key);
        } else {
            self.finish(key, Ok(Outcome::Response(Response::Done)));
        }
        Ok(())
    }

    fn record_piece(
        &mut self,
        volume: VolumeId,
        piece: Piece,
        lane: Lane,
        keeps: bool,
        places: &mut Places,
        account: &mut Account,
    ) {
        let (group, sampling) = (self.groups.of(lane), self.pool.options.sampling);
        match piece {
            Piece::Zero { range } => {
                account.zeroed_bytes += range.count * BLOCK;
                self.pool.statistics.zeroed_bytes += range.count * BLOCK;
                group.record(Record::Zero { volume, range });
            }
            Piece::Clone { source, source_first, range } => {
                self.pool.statistics.cloned_bytes += range.count * BLOCK;
                group.record(Record::Clone { source, source_first, volume, range });
            }
            Piece::Fill { range, content } => {
                let run = places.take(1);
                self.recent.forget(run);
                let block = run.start;
                let crc = checksums(&content)[0];
                let record = Record::Fill { volume, range, block, crc };
                group.write(record, block, content);
            }
            Piece::Data { mut first, mut data } => {
                while !data.is_empty() {
                    let part = places.take(data.len() as u64 / BLOCK);
                    let bytes = data.split_to((part.blocks * BLOCK) as usize);
                    let crcs = checksums(&bytes);
                    if sampling {
                        sampling::sample(account, first.offset(), crcs.iter().copied());
                    }
                    if !planted!(self.pool.bugs, KeepsWhatIsGone) {
                        self.recent.forget(part);
                    }
                    if keeps {
                        self.recent.keep(part.start, &crcs, &bytes);
                    }
                    let record = Record::Write { volume, first, start: part.start, crcs };
                    self.groups.of(lane).write(record, part.start, bytes);
                    first += part.blocks;
                }
            }
        }
    }

    /// Puts an operation aside until the next checkpoint is durable.
    pub(crate) fn stall(&mut self, key: OperationKey) {
        self.stalled.push_back(key);
        self.checkpoint_wanted = true;
    }

    /// A page that applying the operation's pieces will need.
    fn missing_for(&mut self, key: OperationKey) -> Option<Missing> {
        let volume = self.operations[key].volume;
        let pieces = std::mem::take(&mut self.operations[key].pieces);
        let missing = pieces.iter().find_map(|piece| self.missing_for_piece(volume, piece));
        self.operations[key].pieces = pieces;
        missing
    }

    fn missing_for_piece(&mut self, volume: VolumeId, piece: &Piece) -> Option<Missing> {
        let root = self.pool.volumes[&volume].root;
        match piece {
            Piece::Data { first, data } => {
                self.pool.map.missing(root, data_range(*first, data), false)
            }
            Piece::Fill { range, .. } => self.pool.map.missing(root, *range, false),
            Piece::Zero { range } => self.pool.map.missing_to_zero(root, *range),
            Piece::Clone { source, source_first, range } => {
                self.pool.missing_for_clone((*source, *source_first), (volume, *range))
            }
        }
    }

    /// The operation's commit was applied.
    pub(crate) fn committed(&mut self, key: OperationKey) {
        self.forget_estimate(key);
        if let Work::Change(change) = &self.operations[key].work {
            debug_assert!(!matches!(change, Change::Checkpoint));
            return self.finish(key, Ok(Outcome::Changed));
        }
        if self.begin_next_slice(key) {
            self.ready.push_back(key);
        } else {
            self.finish(key, Ok(Outcome::Response(Response::Done)));
        }
    }

    /// Ends an operation.
    pub(crate) fn finish(&mut self, key: OperationKey, result: Result<Outcome, Failure>) {
        self.forget_estimate(key);
        let Some(operation) = self.operations.try_remove(key) else { return };
        self.pool.budget.end_promise(operation.promised);
        for run in operation.runs {
            self.pool.budget.give_back(run.blocks);
            self.pool.space.give_back(run);
        }
        self.ready.extend(self.locks.release(key, &operation.claims));
        if self.closing && self.operations.len() == 1 {
            self.ready.extend(self.operations.iter().map(|(key, _)| key));
        }
        let Operation { tag, account, .. } = operation;
        self.done.push_back(Done { tag, result, account });
    }
}

/// The blocks that were handed out for an operation's data.
struct Places {
    /// What is left of the one that was begun.
    run: Option<Run>,
    rest: smallvec::IntoIter<[Run; 1]>,
}

impl Places {
    /// Takes up to `wanted` adjacent ones.
    fn take(&mut self, wanted: u64) -> Run {
        let run = self.run.take().or_else(|| self.rest.next());
        let Run { start, blocks } = run.expect("as many blocks were handed out as pieces need");
        let part = Run { start, blocks: blocks.min(wanted) };
        let rest = Run { start: part.end(), blocks: blocks - part.blocks };
        self.run = Some(rest).filter(|rest| rest.blocks > 0);
        part
    }
}

/// The block that a pattern makes; `None` for zeros.
fn pattern_block(pattern: &Pattern) -> Option<Vec<u8>> {
    match pattern {
        Pattern::Zero => None,
        Pattern::Block(bytes) if bytes.is_empty() || compose::is_zero(bytes) => None,
        Pattern::Block(bytes) => Some(bytes.repeat((BLOCK as usize).div_ceil(bytes.len()))),
    }
}

const _: () = assert!(CHANGES.0 == u64::MAX);
