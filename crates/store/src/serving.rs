//! A pool that serves: passes work between its parts until nothing can go on without a device.

use std::time::Duration;

use block::{BlockError, DeviceError, DeviceResult, Request, VolumeId};

use crate::applier::Next;
use crate::change::{CHANGES, Change, Outcome, Tag};
use crate::checkpoint::Progress;
use crate::comparison::Comparer;
use crate::engine::Engine;
use crate::error::ChangeError;
use crate::evacuation::Evacuator;
use crate::farewell::Farewell;
use crate::io::Waiter;
use crate::limits::REQUESTS_MAX;
use crate::loading::{ArrivedGroup, ArrivedPage, PageWaiter};
use crate::map::Missing;
use crate::metadata_cache::MetadataCache;
use crate::operation::Work;
use crate::operation_key::OperationKey;
use crate::reaper::Reaper;
use crate::requests::Requests;
use crate::scrub::{Heads, Scrubber};
use crate::sequential::SequentialDetector;
use crate::space::{AllocationGroupId, Preparation};
use crate::status::Health;

/// What a pool that serves lets its callers do.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Access {
    ReadWrite,
    /// Something could not be kept, for this reason.
    ReadOnly(String),
    /// Nothing; requests under way come to their end.
    None,
}

/// A pool that serves.
pub(crate) struct Serving {
    pub(crate) engine: Engine,
    pub(crate) requests: Requests,
    /// Blocks that hosts will look at soon.
    pub(crate) cache: MetadataCache,
    pub(crate) readers: SequentialDetector,
    pub(crate) scrubber: Scrubber,
    pub(crate) comparer: Comparer,
    pub(crate) evacuator: Evacuator,
    /// A device that has left, on which I/O may be under way yet.
    pub(crate) farewell: Option<Farewell>,
    reaper: Reaper,
    access: Access,
    closing: bool,
    /// Changes that are looked at again in the next turn: of members that wait for a membership list, and of
    /// a device on which something is under way.
    pub(crate) awaiting_lists: Vec<OperationKey>,
    /// Resilvers have something to do that waits for nothing.
    pub(crate) resilver_has_more: bool,
}

impl Serving {
    /// A pool that was opened.
    pub(crate) fn new(engine: Engine) -> Self {
        let (reap_rate, scrub_rate) =
            (engine.pool.options.reap_rate, engine.pool.options.scrub_rate);
        let evacuation_rate = engine.pool.options.evacuation_rate;
        Self {
            engine,
            requests: Requests::default(),
            cache: MetadataCache::default(),
            readers: SequentialDetector::default(),
            scrubber: Scrubber::new(scrub_rate),
            comparer: Comparer::default(),
            evacuator: Evacuator::new(evacuation_rate),
            farewell: None,
            reaper: Reaper::new(reap_rate),
            access: Access::ReadWrite,
            closing: false,
            awaiting_lists: Vec::new(),
            resilver_has_more: false,
        }
    }

    pub(crate) fn health(&self) -> Health {
        match &self.access {
            Access::ReadWrite => Health::Ready,
            Access::ReadOnly(reason) => Health::ReadOnly { reason: reason.clone() },
            Access::None => Health::Closed,
        }
    }

    /// Whether the pool may be changed.
    pub(crate) fn is_writable(&self) -> bool {
        matches!(self.access, Access::ReadWrite)
    }

    /// Whether the pool is being closed.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether it serves nothing any more.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.access, Access::None)
    }

    /// Whether it serves nothing any more, and nothing is under way.
    pub(crate) fn is_over(&self) -> bool {
        self.is_closed() && self.requests.table.is_empty() && self.engine.pool.io.is_idle()
    }

    /// Begins a request on a volume.
    pub(crate) fn submit(&mut self, tag: Tag, volume: VolumeId, request: Request) {
        match self.admit(volume, &request) {
            Ok(()) => self.begin(tag, volume, Work::Request(request)),
            Err(error) => self.engine.answer(tag, Err(error.into())),
        }
    }

    /// Begins a change of volumes or devices.
    pub(crate) fn change(&mut self, tag: Tag, change: Change) {
        let refusal = match self.access {
            _ if self.closing => Some(ChangeError::Closed),
            Access::ReadWrite => None,
            Access::ReadOnly(_) if matches!(change, Change::Close) => {
                self.access = Access::None;
                self.end_comparisons();
                return self.engine.answer(tag, Ok(Outcome::Changed));
            }
            Access::ReadOnly(_) => Some(ChangeError::ReadOnly),
            Access::None => Some(ChangeError::Closed),
        };
        if let Some(refusal) = refusal {
            return self.engine.answer(tag, Err(refusal.into()));
        }
        self.closing = matches!(change, Change::Close);
        if self.closing {
            self.end_comparisons();
        }
        self.begin(tag, CHANGES, Work::Change(change));
    }

    fn admit(&self, volume: VolumeId, request: &Request) -> Result<(), BlockError> {
        let reads =
            matches!(request, Request::Read { .. } | Request::MapStatus { .. } | Request::Flush);
        match self.access {
            _ if self.closing => return Err(BlockError::Closed),
            Access::None => return Err(BlockError::Closed),
            Access::ReadOnly(_) if !reads => return Err(BlockError::ReadOnly),
            Access::ReadOnly(_) | Access::ReadWrite => {}
        }
        let volume = self.engine.pool.volumes.get(volume).ok_or(BlockError::NoSuchVolume)?;
        if volume.spec.snapshot && !reads {
            return Err(BlockError::Snapshot);
        }
        if self.requests.table.len() >= REQUESTS_MAX {
            return Err(BlockError::Busy);
        }
        Ok(())
    }

    /// Takes the result of an I/O for whom it was made.
    pub(crate) fn completed(&mut self, waiter: Waiter, result: DeviceResult) {
        match waiter {
            Waiter::Operation { operation, extent } => self.extent_read(operation, extent, result),
            Waiter::Ahead { number, run } => {
                let content = result.ok().flatten();
                self.cache.arrived(number, run, content.as_deref());
            }
            Waiter::Page { missing, attempt } => self.page_read(missing, attempt, result),
            Waiter::GroupPage { group, page, attempt } => {
                let Engine { loader, pool, .. } = &mut self.engine;
                let arrived = loader.group_page_read(pool, group, (page, attempt), result);
                self.group_arrived(arrived);
            }
            Waiter::GroupSpace { group } => {
                let Engine { loader, pool, .. } = &mut self.engine;
                let arrived = loader.group_space_backed(pool, group, result.map(drop));
                self.group_arrived(arrived);
            }
            Waiter::Preallocation { group } => {
                let Engine { preallocation, pool, .. } = &mut self.engine;
                self.requests.ready.extend(preallocation.ended(pool, group, result.map(drop)));
            }
            Waiter::Label { operation } => self.label_written(operation, result.map(drop)),
            Waiter::Features { operation } => self.features_written(operation, result.map(drop)),
            Waiter::Commit { sequence } => match result {
                Ok(_) => self.engine.log.written(&mut self.engine.pool, sequence),
                Err(error) => self.fail_device("a write failed", &error),
            },
            Waiter::CommitFlush { sequence } => match result {
                Ok(_) => self.engine.log.flushed(sequence),
                Err(error) => self.fail_device("a flush failed", &error),
            },
            Waiter::Checkpoint => self.checkpoint_io_done(result.map(drop)),
            Waiter::Member { operation } => self.member_io_ended(operation, result),
            Waiter::Scrub { read } => self.scrubber.took(&mut self.engine.pool, read, result),
            Waiter::HealedLabel => {}
            Waiter::Repair => self.scrubber.repaired(),
            Waiter::Evacuation { read } => self.leaving_read(read, result),
            Waiter::Farewell { operation } => self.farewell_ended(operation),
            // Nothing of opening the pool is left.
            Waiter::Opening { .. } | Waiter::Tail { .. } | Waiter::Format => {}
        }
    }

    /// Tells the time that has passed.
    pub(crate) fn tick(&mut self, passed: Duration, is_checkpoint_time: bool) {
        self.reaper.pass(passed);
        self.scrubber.pass(passed);
        self.evacuator.pass(passed);
        if self.requests.count_until.is_some_and(|until| self.engine.pool.now >= until) {
            self.requests.wake_stalled();
        }
        if is_checkpoint_time && self.is_writable() {
            self.engine.checkpointer.want();
        }
    }

    /// Lets everything go on that can, without waiting.
    pub(crate) fn advance(&mut self) {
        self.requests.ready.extend(self.awaiting_lists.drain(..));
        self.run_ready();
        if matches!(self.access, Access::None) {
            return;
        }
        self.apply_durable();
        self.advance_comparisons();
        if self.is_writable() {
            self.advance_reaper();
            self.advance_scrub();
            self.advance_resilvers();
            self.advance_evacuation();
            self.advance_farewell();
        }
        self.start_checkpoint_if_due();
        self.run_ready();
        if self.count_has_more() {
            self.advance_scrub();
            self.run_ready();
        }
        self.close_commit_group();
    }

    /// Whether somebody waits for a count that can go on.
    pub(crate) fn count_has_more(&self) -> bool {
        let is_awaited = self.requests.count_until.is_some() && self.is_writable();
        is_awaited && self.scrubber.can_count(&self.engine.pool)
    }

    fn run_ready(&mut self) {
        while let Some(operation) = self.requests.ready.pop_front() {
            if self.requests.table.contains(operation) {
                self.run(operation);
            }
        }
    }

    /// Sends the next commit group on its way.
    pub(crate) fn close_commit_group(&mut self) {
        if self.is_writable() {
            self.engine.log.close_commit_group(&mut self.engine.pool, &mut self.requests.ready);
        }
    }

    /// Applies durable commits, as far as the pages they need are in memory and the turn lasts.
    fn apply_durable(&mut self) {
        while !self.engine.loader.applier_waits() {
            match self.engine.log.applier.next(&mut self.engine.pool) {
                Next::Nothing => return,
                Next::Commit(members) => {
                    members.into_iter().for_each(|operation| self.committed(operation));
                    // Turns may end within one commit after the other: a cut that is due comes
                    // here.
                    if self.engine.log.applier.has_turns() {
                        self.start_checkpoint_if_due();
                    }
                }
                Next::Page(missing) => self.load_page(missing, PageWaiter::Applier),
                Next::Record(record) => {
                    self.settle_first_estimates();
                    self.engine.log.applier.apply(&mut self.engine.pool, &record);
                }
            }
        }
    }

    /// The first record of a commit is about to be applied.
    fn settle_first_estimates(&mut self) {
        let is_first = self.engine.log.applier.is_between_commits();
        if !is_first || self.engine.pool.budget.estimated().returning == 0 {
            return;
        }
        for at in 0..self.engine.log.applier.members().len() {
            let member = self.engine.log.applier.members()[at];
            self.settle_estimate(member);
        }
    }

    fn advance_reaper(&mut self) {
        if self.engine.pool.map.reap.is_empty() {
            return;
        }
        let boosted = !self.requests.stalled.is_empty()
            || self.engine.pool.is_short_of_space()
            || self.closing;
        self.reaper.run(&mut self.engine.pool, &mut self.engine.loader, boosted);
    }

    fn advance_scrub(&mut self) {
        let Engine { pool, loader, checkpointer, .. } = &mut self.engine;
        if let Some(group) = self.scrubber.advance(pool, loader, checkpointer) {
            self.load_group(group, None, false);
        }
        if self.scrubber.take_counted() {
            self.requests.wake_stalled();
        }
    }

    /// Begins a scrub. On mirrors it compares more than data and map, and a checkpoint comes first: what
    /// of the journal is not needed then need not be compared.
    pub(crate) fn start_scrub(&mut self) {
        let Engine { pool, checkpointer, .. } = &mut self.engine;
        let has_mirrors = pool.space.devices().any(|device| pool.io.mirror(device).is_some());
        if has_mirrors && matches!(self.access, Access::ReadWrite) {
            checkpointer.want();
            pool.io.with_mirrors(|mirrors| mirrors.renew_own_blocks());
        }
        self.scrubber.start(pool, Heads::of(pool, checkpointer));
    }

    /// Loads a page of the map, for which somebody waits then.
    pub(crate) fn load_page(&mut self, missing: Missing, waiter: PageWaiter) {
        self.engine.loader.load_page(&mut self.engine.pool, missing, waiter);
    }

    fn page_read(&mut self, missing: Missing, attempt: u8, result: DeviceResult) {
        let (requests, scrubber, comparer) = (&self.requests, &self.scrubber, &self.comparer);
        let evacuator = &self.evacuator;
        let volume_of = |waiter| match waiter {
            PageWaiter::Operation(key) => requests.volume_of(key),
            PageWaiter::Scrub => scrubber.volume(),
            PageWaiter::Comparison => comparer.volume(),
            PageWaiter::Evacuation => evacuator.volume(),
            PageWaiter::Applier | PageWaiter::Reaper => None,
        };
        let Engine { loader, pool, .. } = &mut self.engine;
        if let Some(page) = loader.page_read(pool, (missing, attempt), result, volume_of) {
            self.page_arrived(page);
        }
    }

    fn page_arrived(&mut self, page: ArrivedPage) {
        let ArrivedPage { missing, found, waiting } = page;
        for waiter in waiting {
            match waiter {
                PageWaiter::Operation(operation) if found => {
                    self.requests.ready.push_back(operation);
                }
                PageWaiter::Operation(operation) => {
                    self.finish(operation, Err(BlockError::Medium { offset: 0 }.into()));
                }
                PageWaiter::Applier if found => {}
                PageWaiter::Applier => {
                    self.fail("a page of the map could not be read".to_owned());
                }
                PageWaiter::Reaper => self.reaper.took_page(),
                PageWaiter::Scrub => self.scrubber.took_page(missing, found),
                PageWaiter::Comparison => self.compared_page_arrived(missing, found),
                PageWaiter::Evacuation => self.evacuator.took_page(missing, found),
            }
        }
    }

    /// Brings the space maps of a group into memory, and if blocks are to be `allocated` from it,
    /// space for it into being; `operation` goes on then.
    pub(crate) fn load_group(
        &mut self,
        group: AllocationGroupId,
        operation: Option<OperationKey>,
        allocated: bool,
    ) {
        let arrived = self.engine.load_group(group, operation, allocated);
        self.group_arrived(arrived);
    }

    fn group_arrived(&mut self, arrived: Option<ArrivedGroup>) {
        let Some(ArrivedGroup { group, waiting, writes }) = arrived else { return };
        self.requests.ready.extend(waiting);
        self.scrubber.took_group(group);
        self.engine.checkpointer.took_group(&mut self.engine.pool, writes);
        if !self.engine.checkpointer.is_writing() && self.is_writable() {
            self.engine.pool.space.group_arrived();
        }
    }

    /// Sets a group's space aside on its device; `operation` goes on then, or when that is refused.
    pub(crate) fn preallocate(&mut self, group: AllocationGroupId, operation: OperationKey) {
        let Engine { preallocation, pool, .. } = &mut self.engine;
        if !preallocation.begin(pool, group, Some(operation)) {
            self.requests.ready.push_back(operation);
        }
    }

    /// Begins a checkpoint if one is wanted or needed, and possible now.
    fn start_checkpoint_if_due(&mut self) {
        let Engine { checkpointer, pool, log, .. } = &self.engine;
        if self.is_writable()
            && !self.scrubber.is_repairing()
            && checkpointer.is_due(pool, log)
            && self.is_prepared_for_checkpoint()
        {
            for group in self.engine.start_checkpoint() {
                self.scrubber.took_group(group);
            }
        }
    }

    /// Whether all pages that the cut will place have room; if not, it is being made.
    fn is_prepared_for_checkpoint(&mut self) -> bool {
        match self.engine.checkpointer.prepare(&mut self.engine.pool) {
            Preparation::Ready => return true,
            Preparation::Load(group) => self.load_group(group, None, true),
            Preparation::NoRoom => self.refuse_stalled(),
        }
        false
    }

    /// No checkpoint will make room for those who wait for one.
    fn refuse_stalled(&mut self) {
        let error = self.engine.pool.budget.refusal();
        for operation in std::mem::take(&mut self.requests.stalled) {
            self.finish(operation, Err(error.into()));
        }
    }

    fn checkpoint_io_done(&mut self, result: Result<(), DeviceError>) {
        let Engine { checkpointer, pool, .. } = &mut self.engine;
        match checkpointer.io_done(pool, result) {
            Progress::UnderWay => {}
            Progress::Durable => self.checkpoint_durable(),
            Progress::Failed(error) => self.fail_device("a checkpoint failed", &error),
        }
    }

    fn checkpoint_durable(&mut self) {
        self.engine.end_checkpoint();
        self.requests.wake_stalled();
        for operation in self.engine.checkpointer.reached() {
            self.checkpoint_reached(operation);
        }
    }

    fn checkpoint_reached(&mut self, key: OperationKey) {
        let Some(operation) = self.requests.table.get_mut(key) else { return };
        if let Some(device) = operation.leaving_device() {
            return self.begin_farewell(key, device);
        }
        if operation.is_change(&Change::Close) {
            self.access = Access::None;
        }
        self.finish(key, Ok(Outcome::Changed));
    }

    /// The device failed to keep something: nothing more is changed.
    fn fail_device(&mut self, what: &str, error: &DeviceError) {
        self.fail(format!("{what}: {error}"));
    }

    /// Nothing more is changed, for a reason.
    pub(crate) fn fail(&mut self, reason: String) {
        if !self.is_writable() {
            return;
        }
        self.access = Access::ReadOnly(reason);
        self.engine.log.discard();
        self.engine.checkpointer.abort();
        self.engine.checkpointer.forget_waiters();
        self.requests.stalled.clear();
        for operation in self.requests.all(|operation| operation.changes()) {
            self.finish(operation, Err(BlockError::ReadOnly.into()));
        }
    }

    /// Gives up a pool that another owner took: nothing more is asked of its devices, and nothing was
    /// changed that is not answered yet.
    pub(crate) fn withdraw(&mut self) {
        if matches!(self.access, Access::None) {
            return;
        }
        self.access = Access::ReadOnly("another owner took it".to_owned());
        self.engine.log.discard();
        self.engine.checkpointer.abort();
        self.engine.checkpointer.forget_waiters();
        self.requests.stalled.clear();
        self.abandon();
    }

    /// Gives up a pool that takes no writes any more.
    pub(crate) fn abandon(&mut self) {
        if !matches!(self.access, Access::ReadOnly(_)) {
            return;
        }
        self.access = Access::None;
        self.scrubber.abandon();
        self.end_comparisons();
        self.engine.pool.io.cancel_pending();
        for operation in self.requests.all(|_| true) {
            self.finish(operation, Err(BlockError::Closed.into()));
        }
        self.requests.ready.clear();
    }
}
