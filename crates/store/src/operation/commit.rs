//! Commit of an operation: puts what it writes into a commit group, and ends it when that was
//! applied.

use block::{BLOCK, RequestStatistics, Response, VolumeId};

use super::{Operation, OperationKey, Piece, Stage, Work, data_range, sampling};
use crate::address::{BlockRange, Run};
use crate::budget::Estimate;
use crate::change::{Change, Done, Outcome, device_of_moved};
use crate::commit::{CommitClass, checksums};
use crate::error::Failure;
use crate::loading::PageWaiter;
use crate::map::Missing;
use crate::record::Record;
use crate::serving::Serving;

impl Serving {
    /// Puts what an operation changes into the group, or leaves it waiting for what that needs.
    pub(super) fn join_commit_group(&mut self, key: OperationKey) -> Result<(), Failure> {
        if self.requests.table[key].pieces.is_empty() {
            return self.joined(key);
        }
        let class = self.requests.table[key].class();
        if self.engine.log.commit_group(class).is_full() {
            self.close_commit_group();
        }
        if self.engine.log.commit_group(class).is_full() {
            self.engine.log.wait(key);
            return Ok(());
        }
        if self.engine.log.must_wait_for_checkpoint(&self.engine.pool, class) {
            if self.engine.checkpointer.is_starved() {
                return Err(self.engine.pool.budget.refusal().into());
            }
            self.stall(key);
            return Ok(());
        }
        if let Some(missing) = self.missing_for(key) {
            self.load_page(missing, PageWaiter::Operation(key));
            return Ok(());
        }
        self.drop_zeros_of_holes(key);
        if self.requests.table[key].pieces.is_empty() {
            return self.joined(key);
        }
        if !self.allocate_for(key)? {
            return Ok(());
        }
        let pieces = std::mem::take(&mut self.requests.table[key].pieces);
        let volume = self.requests.table[key].volume;
        let runs = std::mem::take(&mut self.requests.table[key].runs);
        let mut places = Places { run: None, rest: runs.into_iter() };
        let mut statistics = std::mem::take(&mut self.requests.table[key].statistics);
        let keeps = self.requests.table[key].is_for_parts;
        for piece in pieces {
            self.record_piece(volume, piece, class, keeps, &mut places, &mut statistics);
        }
        self.requests.table[key].statistics = statistics;
        self.engine.log.commit_group(class).member(key);
        self.requests.table[key].stage = Stage::Committing;
        if self.engine.log.commit_group(class).is_full() {
            self.close_commit_group();
        }
        Ok(())
    }

    /// Zeros in place of holes need no commit. The operation has its range for itself, and what was
    /// answered of it before is applied, so a hole of the map is one that is durable.
    fn drop_zeros_of_holes(&mut self, key: OperationKey) {
        let volume = self.requests.table[key].volume;
        let root = self.engine.pool.volumes[&volume].root;
        let mut pieces = std::mem::take(&mut self.requests.table[key].pieces);
        pieces.retain(|piece| {
            let Piece::Zero { range } = piece else { return true };
            if !self.engine.pool.map.is_hole(root, *range) {
                return true;
            }
            self.count_zeroed(key, *range);
            self.engine.pool.volumes.count_reclaimed(volume, range.count, 0);
            false
        });
        self.requests.table[key].pieces = pieces;
    }

    fn count_zeroed(&mut self, key: OperationKey, range: BlockRange) {
        self.requests.table[key].statistics.zeroed_bytes += range.count * BLOCK;
        self.engine.pool.statistics.zeroed_bytes += range.count * BLOCK;
    }

    /// Nothing is to be written: done, unless a physical copy goes on.
    fn joined(&mut self, key: OperationKey) -> Result<(), Failure> {
        if self.begin_next_slice(key) {
            self.requests.ready.push_back(key);
        } else {
            self.finish(key, Ok(Outcome::Response(Response::Done)));
        }
        Ok(())
    }

    fn record_piece(
        &mut self,
        volume: VolumeId,
        piece: Piece,
        class: CommitClass,
        keeps: bool,
        places: &mut Places,
        statistics: &mut RequestStatistics,
    ) {
        let (group, sampling) =
            (self.engine.log.commit_group(class), self.engine.pool.options.sampling);
        match piece {
            Piece::Zero { range } => {
                statistics.zeroed_bytes += range.count * BLOCK;
                self.engine.pool.statistics.zeroed_bytes += range.count * BLOCK;
                group.record(Record::Zero { volume, range });
            }
            Piece::Clone { source, source_first, range } => {
                self.engine.pool.statistics.cloned_bytes += range.count * BLOCK;
                group.record(Record::Clone { source, source_first, volume, range });
            }
            Piece::Fill { range, content } => {
                let run = places.take(1);
                self.cache.forget(run);
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
                        sampling::sample(statistics, first.offset(), crcs.iter().copied());
                    }
                    self.cache.forget(part);
                    if keeps {
                        self.cache.keep(part.start, &crcs, &bytes);
                    }
                    let record = Record::Write { volume, first, start: part.start, crcs };
                    self.engine.log.commit_group(class).write(record, part.start, bytes);
                    first += part.blocks;
                }
            }
        }
    }

    /// Puts an operation aside until the next checkpoint is durable.
    pub(crate) fn stall(&mut self, key: OperationKey) {
        self.requests.stalled.push_back(key);
        self.engine.checkpointer.want();
    }

    /// A page that applying the operation's pieces will need.
    fn missing_for(&mut self, key: OperationKey) -> Option<Missing> {
        let volume = self.requests.table[key].volume;
        let pieces = std::mem::take(&mut self.requests.table[key].pieces);
        let missing = pieces.iter().find_map(|piece| self.missing_for_piece(volume, piece));
        self.requests.table[key].pieces = pieces;
        missing
    }

    fn missing_for_piece(&mut self, volume: VolumeId, piece: &Piece) -> Option<Missing> {
        let root = self.engine.pool.volumes[&volume].root;
        match piece {
            Piece::Data { first, data } => {
                self.engine.pool.map.missing(root, data_range(*first, data), false)
            }
            Piece::Fill { range, .. } => self.engine.pool.map.missing(root, *range, false),
            Piece::Zero { range } => self.engine.pool.map.missing_to_zero(root, *range),
            Piece::Clone { source, source_first, range } => {
                self.engine.pool.missing_for_clone((*source, *source_first), (volume, *range))
            }
        }
    }

    /// The operation's commit was applied.
    pub(crate) fn committed(&mut self, key: OperationKey) {
        self.forget_estimate(key);
        self.end_promise(key);
        if let Work::Change(change) = &self.requests.table[key].work {
            debug_assert!(!matches!(change, Change::Checkpoint));
            return self.finish(key, Ok(Outcome::Changed));
        }
        if self.begin_next_slice(key) {
            self.requests.ready.push_back(key);
        } else {
            self.finish(key, Ok(Outcome::Response(Response::Done)));
        }
    }

    /// Ends an operation.
    pub(crate) fn finish(&mut self, key: OperationKey, result: Result<Outcome, Failure>) {
        self.forget_estimate(key);
        self.end_promise(key);
        let Some(operation) = self.requests.table.try_remove(key) else { return };
        for run in operation.runs {
            self.engine.pool.budget.give_back(run.blocks);
            self.engine.pool.space.give_back(run);
        }
        // What was handed out for a commit that failed is known again when the pool is opened anew.
        if cfg!(debug_assertions) && self.requests.table.is_empty() && self.is_writable() {
            assert_eq!(self.engine.pool.budget.under_way(), (0, 0, Estimate::default()));
        }
        self.requests.ready.extend(self.requests.locks.release(key, &operation.claims));
        if self.is_closing() && self.requests.table.len() == 1 {
            self.requests.ready.extend(self.requests.table.iter().map(|(key, _)| key));
        }
        let Operation { tag, statistics, volume, work, .. } = operation;
        if device_of_moved(volume).is_some() {
            let bytes = work.written_bytes();
            return self.moved_written(result.is_ok().then_some(bytes));
        }
        self.engine.done.push_back(Done { tag, result, statistics });
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
