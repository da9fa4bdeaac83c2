//! Parts of the engine that a pool needs while it is opened and while it serves: log, loader of
//! pages, checkpoints, preallocation.

use std::collections::VecDeque;
use std::time::Duration;

use block::RequestStatistics;

use crate::address::RingBlock;
use crate::change::{Done, Outcome, Tag};
use crate::checkpoint::Checkpointer;
use crate::error::Failure;
use crate::journal::{JournalStart, Position};
use crate::loading::{ArrivedGroup, Loader};
use crate::log::Log;
use crate::operation_key::OperationKey;
use crate::options::Options;
use crate::pool::Pool;
use crate::preallocation::Preallocation;
use crate::space::AllocationGroupId;

/// The parts, and the pool that they are lent.
pub(crate) struct Engine {
    pub(crate) pool: Pool,
    pub(crate) log: Log,
    pub(crate) loader: Loader,
    pub(crate) checkpointer: Checkpointer,
    pub(crate) preallocation: Preallocation,
    /// Requests that have ended, for the caller.
    pub(crate) done: VecDeque<Done>,
}

impl Engine {
    /// The parts of a pool without devices.
    pub(crate) fn new(options: Options, journal_blocks: u64, pool_uuid: [u8; 16]) -> Self {
        let next = Position { block: RingBlock::START, sequence: 1, previous_crc: 0 };
        Self {
            pool: Pool::new(options, pool_uuid),
            log: Log::new(journal_blocks, JournalStart { epoch: 1, next }),
            loader: Loader::default(),
            checkpointer: Checkpointer::default(),
            preallocation: Preallocation::default(),
            done: VecDeque::new(),
        }
    }

    /// Tells the caller how a request has ended.
    pub(crate) fn answer(&mut self, tag: Tag, result: Result<Outcome, Failure>) {
        self.done.push_back(Done { tag, result, statistics: RequestStatistics::default() });
    }

    /// Brings the space maps of a group into memory, and if blocks are to be `allocated` from it,
    /// space for it into being. They are there at once if nothing of the group is used.
    pub(crate) fn load_group(
        &mut self,
        group: AllocationGroupId,
        operation: Option<OperationKey>,
        allocated: bool,
    ) -> Option<ArrivedGroup> {
        self.loader.load_group(&mut self.pool, group, operation, allocated)
    }

    /// The checkpoint that is being written takes the space maps that arrived.
    pub(crate) fn group_arrived(&mut self, arrived: Option<ArrivedGroup>) {
        if let Some(arrived) = arrived {
            self.checkpointer.took_group(&mut self.pool, arrived.writes);
        }
    }

    /// As [`Self::load_group`], for a pool that is being opened: nobody waits for it.
    pub(crate) fn bring_group(&mut self, group: AllocationGroupId, allocated: bool) {
        let arrived = self.load_group(group, None, allocated);
        self.group_arrived(arrived);
    }

    /// Cuts a checkpoint and begins to write it. Returns groups whose space maps came into memory.
    pub(crate) fn start_checkpoint(&mut self) -> Vec<AllocationGroupId> {
        self.checkpointer.cut(&mut self.pool, &self.log);
        let mut loaded = Vec::new();
        for group in self.pool.space.owing() {
            if let Some(arrived) = self.load_group(group, None, false) {
                self.checkpointer.took_group(&mut self.pool, arrived.writes);
                loaded.push(group);
            }
        }
        self.checkpointer.proceed(&mut self.pool);
        loaded
    }

    /// The checkpoint under way is durable.
    pub(crate) fn end_checkpoint(&mut self) {
        self.checkpointer.end(&mut self.pool, &mut self.log);
    }

    fn has_changed(&self) -> bool {
        !self.log.journal.is_empty()
            || self.pool.space.quarantined() > 0
            || self.pool.space.groups_with_deltas() > 0
    }

    /// Takes the time. Returns whether changes are to reach a checkpoint because of it.
    pub(crate) fn tick(&mut self, now: Duration) -> bool {
        self.pool.now = now;
        if self.preallocation.is_retry_due(now) {
            self.pool.space.retry_unavailable();
            self.pool.map.retry_unreadable();
        }
        self.checkpointer.is_time(&self.pool) && self.has_changed()
    }
}
