//! Public interface of the pool engine, and its main loop, which passes work between its parts.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use block::{Account, BlockError, DeviceError, DeviceResult, Request, Response, VolumeId};
use hashbrown::HashMap;

use crate::address::Address;
use crate::allowance::Allowance;
use crate::apply::Applying;
use crate::checkpoint::Checkpoint;
use crate::commit::{Commit, Groups};
use crate::error::{ChangeError, Failure, OpenError};
use crate::housing::Housing;
use crate::incident::Incident;
use crate::io::{Io, IoId, Waiter};
use crate::journal::{Journal, Position};
use crate::layout::Layout;
use crate::limits::{FREED_DELAY, FREED_SHARE, REQUESTS_MAX, UNAVAILABLE_RETRY};
use crate::loading::{GroupLoad, PageWaiter};
use crate::locks::Locks;
use crate::operation::{OperationKey, Operations, Work};
use crate::options::{DeviceSpec, Options, PoolSpec};
use crate::pool::Pool;
use crate::recent::Recent;
use crate::reclaim::Reclaim;
use crate::recovery::{JournalLoss, Recovery};
use crate::scrub::{Scrub, ScrubStatus};
use crate::space::{GroupId, Space};
use crate::status::{Health, Releasing, Space as SpaceStatus, Statistics};
use crate::streams::Streams;
use crate::table::Table;
use crate::volume::{Volume, VolumeSpec};

/// The caller's name for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag(pub u64);

/// A change of volumes or devices; durable when it is done.
#[derive(Clone, Debug)]
pub enum Change {
    /// A new, empty volume.
    CreateVolume(VolumeSpec),
    /// New volumes, each with the content that another one has, all at one moment: a consistency
    /// group of snapshots, or of clones. At most 256.
    CloneVolumes(Vec<(VolumeId, VolumeSpec)>),
    /// A volume takes the content and the size of another one, which stays.
    RevertVolume {
        /// The volume that changes.
        volume: VolumeId,
        /// The one with the content, usually a snapshot of the first.
        source: VolumeId,
    },
    /// The end of a volume. Its space returns in the background.
    DeleteVolume(VolumeId),
    /// Another size; what lies beyond a smaller one is gone.
    ResizeVolume {
        /// The volume.
        id: VolumeId,
        /// Bytes, a multiple of 4,096.
        size_bytes: u64,
    },
    /// Another name for a volume or snapshot. It is in the volume table of the next checkpoint, with
    /// which the change is done.
    RenameVolume {
        /// The volume.
        id: VolumeId,
        /// 1 to 63 bytes.
        name: String,
    },
    /// A device has grown.
    ExtendDevice {
        /// Which one, counted from 0.
        device: u8,
        /// Its new size, bytes.
        size_bytes: u64,
    },
    /// A device joins the pool, as its last one. I/O goes to it before the change is done.
    AddDevice(DeviceSpec),
    /// Everything so far reaches a checkpoint, and freed space becomes free.
    Checkpoint,
    /// A checkpoint, and nothing after it.
    Close,
}

/// Result of a request that succeeded.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The answer to a [`Request`].
    Response(Response),
    /// A [`Change`] was made, or the pool was opened.
    Changed,
}

/// The end of a request.
#[derive(Clone, Debug)]
pub struct Done {
    /// The name it was given.
    pub tag: Tag,
    /// Result of the request.
    pub result: Result<Outcome, Failure>,
    /// Statistics of the request: bytes copied, zeroed, read.
    pub account: Account,
}

/// One pool.
pub struct Store {
    pub(crate) pool: Pool,
    pub(crate) health: Health,
    pub(crate) journal: Journal,
    /// Where the journal goes on after the last unit that was applied to the map.
    pub(crate) applied: Position,
    /// Blocks that hosts will look at soon.
    pub(crate) recent: Recent,
    pub(crate) streams: Streams,
    pub(crate) operations: Operations,
    pub(crate) locks: Locks,
    /// Operations that may go on.
    pub(crate) ready: VecDeque<OperationKey>,
    /// Operations that wait for a checkpoint: for space, or for room in the journal.
    pub(crate) stalled: VecDeque<OperationKey>,
    pub(crate) groups: Groups,
    pub(crate) in_flight: VecDeque<Commit>,
    /// Durable commits whose records are being applied, and how far the first one is.
    pub(crate) durable: VecDeque<Commit>,
    pub(crate) applying: Applying,
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) checkpoint_wanted: bool,
    /// Since when there was no commit, as far as it was looked at, and how many there were.
    quiet_since: Duration,
    commits_seen: u64,
    /// Operations that wait for the checkpoint of that generation.
    pub(crate) checkpoint_waiters: Vec<(u64, OperationKey)>,
    /// Newest durable checkpoint.
    pub(crate) generation: u64,
    /// The volume table of the newest checkpoint.
    pub(crate) table: Table,
    pub(crate) recovery: Option<Box<Recovery>>,
    /// Commits that damage to the journal had lost when the pool was opened all the same.
    pub(crate) journal_loss: Option<JournalLoss>,
    pub(crate) pages_loading: HashMap<Address, Vec<PageWaiter>>,
    pub(crate) groups_loading: BTreeMap<GroupId, GroupLoad>,
    pub(crate) housing: BTreeMap<GroupId, Housing>,
    /// The applier waits for a page.
    pub(crate) applier_waits: bool,
    /// Pages that the reaper waits for.
    pub(crate) reaper_waits: usize,
    /// Subtrees that the reaper may take apart.
    pub(crate) reap_allowance: Allowance,
    pub(crate) scrub: Option<Box<Scrub>>,
    /// Repairs under way. A checkpoint waits for them, so that no block is given away meanwhile.
    pub(crate) repairs: usize,
    pub(crate) last_scrub: ScrubStatus,
    /// Reads that scrubs began.
    pub(crate) scrub_reads: u64,
    /// Bytes that the scrub may read.
    pub(crate) scrub_allowance: Allowance,
    /// Features of the pool that forbid this program to change it.
    pub(crate) read_only_features: u64,
    /// There is no room for the pages of a checkpoint.
    pub(crate) starved: bool,
    pub(crate) closing: bool,
    pub(crate) done: VecDeque<Done>,
    pub(crate) last_checkpoint: Duration,
    /// When groups without space on the device were tried again.
    last_retry: Duration,
}

impl Store {
    /// Makes an empty pool; `tag` is done when it is durable and open.
    pub fn format(spec: &PoolSpec, options: Options, tag: Tag) -> Self {
        let first = spec.devices.first().map_or(0, |device| device.size_bytes);
        let journal = Layout::new(first, options.journal_bytes);
        let others = spec.devices.iter().skip(1);
        let others = others.map(|device| Layout::without_journal(device.size_bytes));
        let layouts: Vec<_> = std::iter::once(journal).chain(others).collect();
        let mut store = Self::new(options, journal.journal_blocks, spec.pool_uuid);
        store.begin_format(spec, &layouts, tag);
        store
    }

    /// Opens a pool on devices of the given sizes, and replays its journal; `tag` is done when it
    /// serves or is found unusable, in which case nothing was written. The devices are in the order
    /// in which they joined; more of them than the pool has are not looked at.
    pub fn open(
        sizes: &[u64],
        expected_pool_uuid: Option<[u8; 16]>,
        options: Options,
        tag: Tag,
    ) -> Self {
        let mut store = Self::new(options, 0, [0; 16]);
        store.begin_open(sizes, expected_pool_uuid, tag);
        store
    }

    fn new(options: Options, journal_blocks: u64, pool_uuid: [u8; 16]) -> Self {
        let start = Position { block: 0, sequence: 1, previous_crc: 0 };
        Self {
            health: Health::Opening,
            journal: Journal::new(journal_blocks, 1, start),
            applied: start,
            recent: Recent::default(),
            streams: Streams::default(),
            operations: Operations::default(),
            locks: Locks::default(),
            ready: VecDeque::new(),
            stalled: VecDeque::new(),
            groups: Groups::default(),
            in_flight: VecDeque::new(),
            durable: VecDeque::new(),
            applying: Applying::default(),
            checkpoint: None,
            checkpoint_wanted: false,
            quiet_since: Duration::ZERO,
            commits_seen: 0,
            checkpoint_waiters: Vec::new(),
            generation: 0,
            table: Table::default(),
            recovery: None,
            journal_loss: None,
            pages_loading: HashMap::new(),
            groups_loading: BTreeMap::new(),
            housing: BTreeMap::new(),
            applier_waits: false,
            reaper_waits: 0,
            reap_allowance: Allowance::new(options.reap_rate),
            scrub: None,
            repairs: 0,
            last_scrub: ScrubStatus::default(),
            scrub_reads: 0,
            scrub_allowance: Allowance::new(options.scrub_rate),
            read_only_features: 0,
            starved: false,
            closing: false,
            done: VecDeque::new(),
            last_checkpoint: Duration::ZERO,
            last_retry: Duration::ZERO,
            pool: Pool::new(options, pool_uuid),
        }
    }

    /// Begins a request on a volume.
    pub fn submit(&mut self, tag: Tag, volume: VolumeId, request: Request) {
        match self.admit(volume, &request) {
            Ok(()) => self.begin(tag, volume, Work::Request(request)),
            Err(error) => self.answer(tag, Err(error.into())),
        }
    }

    /// Begins a change of volumes or devices.
    pub fn change(&mut self, tag: Tag, change: Change) {
        let refusal = match self.health {
            _ if self.closing => Some(ChangeError::Closed),
            Health::Ready => None,
            Health::ReadOnly { .. } if matches!(change, Change::Close) => {
                self.health = Health::Closed;
                return self.answer(tag, Ok(Outcome::Changed));
            }
            Health::ReadOnly { .. } => Some(ChangeError::ReadOnly),
            Health::Opening | Health::Closed => Some(ChangeError::Closed),
        };
        if let Some(refusal) = refusal {
            return self.answer(tag, Err(refusal.into()));
        }
        self.closing = matches!(change, Change::Close);
        self.begin(tag, CHANGES, Work::Change(change));
    }

    fn admit(&self, volume: VolumeId, request: &Request) -> Result<(), BlockError> {
        let reads =
            matches!(request, Request::Read { .. } | Request::MapStatus { .. } | Request::Flush);
        match self.health {
            _ if self.closing => return Err(BlockError::Closed),
            Health::Opening | Health::Closed => return Err(BlockError::Closed),
            Health::ReadOnly { .. } if !reads => return Err(BlockError::ReadOnly),
            _ => {}
        }
        let volume = self.pool.volumes.get(volume).ok_or(BlockError::NoSuchVolume)?;
        if volume.snapshot && !reads {
            return Err(BlockError::Snapshot);
        }
        if self.operations.len() >= REQUESTS_MAX {
            return Err(BlockError::Busy);
        }
        Ok(())
    }

    /// The next incident, oldest first.
    pub fn next_incident(&mut self) -> Option<Incident> {
        self.pool.incidents.next()
    }

    /// Reclaim counters of a volume.
    pub fn reclaimed(&self, volume: VolumeId) -> Reclaim {
        self.pool.volumes.reclaimed(volume)
    }

    /// Takes the result of an I/O.
    pub fn completed(&mut self, id: IoId, result: DeviceResult) {
        let Some(waiter) = self.pool.io.completed(id) else { return };
        match waiter {
            Waiter::Operation { operation, read, extent } => {
                self.extent_read(operation, read, extent, result);
            }
            Waiter::Ahead { number, run } => {
                let content = result.ok().flatten();
                self.recent.arrived(number, run, content.as_deref());
            }
            Waiter::Page { missing, attempt } => self.page_read(missing, attempt, result),
            Waiter::GroupPage { group, page, attempt } => {
                self.group_page_read(group, page, attempt, result);
            }
            Waiter::GroupSpace { group } => self.group_space_reserved(group, result.map(drop)),
            Waiter::Housing { group } => self.group_housed(group, result.map(drop)),
            Waiter::Label { operation } => self.label_written(operation, result.map(drop)),
            Waiter::Commit { sequence } => self.commit_written(sequence, result.map(drop)),
            Waiter::CommitFlush { sequence } => self.commit_flushed(sequence, result.map(drop)),
            Waiter::Checkpoint => self.checkpoint_io_done(result.map(drop)),
            Waiter::Scrub { read } => self.scrub_took(read, result),
            // If it did not help, the next scrub repairs it again.
            Waiter::Repair => self.repairs -= 1,
            Waiter::Recovery { wanted } => self.recovery_read(wanted, result),
            Waiter::Format => self.first_write_done(result.map(drop)),
        }
    }

    /// The next wish to a device.
    pub fn next_io(&mut self) -> Option<Io> {
        if self.pool.io.is_empty() {
            self.advance();
        }
        self.pool.io.next()
    }

    /// The next request that came to its end.
    pub fn next_done(&mut self) -> Option<Done> {
        if self.done.is_empty() {
            self.advance();
        }
        self.done.pop_front()
    }

    /// Tells the time since an arbitrary start.
    pub fn tick(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.pool.now);
        self.reap_allowance.pass(passed);
        self.scrub_allowance.pass(passed);
        self.pool.now = now;
        if now.saturating_sub(self.last_retry) >= UNAVAILABLE_RETRY {
            self.last_retry = now;
            self.pool.space.retry_unavailable();
            self.pool.map.retry_unreadable();
        }
        let since = now.saturating_sub(self.last_checkpoint);
        let due = since >= self.pool.options.checkpoint_interval
            || since >= FREED_DELAY && self.freed_space_is_due(now);
        if due && self.health == Health::Ready && self.has_changed() {
            self.checkpoint_wanted = true;
        }
    }

    /// Whether what was freed is not to wait for the next regular checkpoint.
    fn freed_space_is_due(&mut self, now: Duration) -> bool {
        if self.commits_seen != self.pool.statistics.commits {
            self.commits_seen = self.pool.statistics.commits;
            self.quiet_since = now;
        }
        let freed = self.pool.space.quarantined();
        let is_quiet = now.saturating_sub(self.quiet_since) >= FREED_DELAY;
        let is_much = freed * FREED_SHARE > self.pool.space.total();
        freed > 0 && self.pool.map.reap.is_empty() && (is_quiet || is_much)
    }

    /// All volumes, by identifier.
    pub fn volumes(&self) -> impl Iterator<Item = &Volume> {
        self.pool.volumes.iter()
    }

    /// Volumes whose identifiers are above one, or all, by identifier: so that a caller can go
    /// through many in parts.
    pub fn volumes_after(&self, last: Option<VolumeId>) -> impl Iterator<Item = &Volume> {
        self.pool.volumes.after(last)
    }

    /// The volume or snapshot of a name.
    pub fn volume_named(&self, name: &str) -> Option<&Volume> {
        self.pool.volumes.get(self.pool.volumes.directory().named(name)?)
    }

    /// Volumes and snapshots whose names begin with something.
    pub fn volumes_named_from<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Volume> {
        self.pool.volumes.directory().beginning(prefix).filter_map(|id| self.pool.volumes.get(id))
    }

    /// Bytes that hosts see of all volumes that are no snapshots.
    pub fn provisioned_bytes(&self) -> u64 {
        self.pool.volumes.directory().provisioned_bytes()
    }

    /// How many volumes and snapshots there are.
    pub fn volume_count(&self) -> usize {
        self.pool.volumes.len()
    }

    /// How many of them are snapshots.
    pub fn snapshot_count(&self) -> usize {
        self.pool.volumes.directory().snapshots()
    }

    /// How many snapshots of a volume there are.
    pub fn snapshots_of(&self, volume: VolumeId) -> usize {
        self.pool.volumes.directory().snapshots_of(volume)
    }

    /// One volume.
    pub fn volume(&self, id: VolumeId) -> Option<&Volume> {
        self.pool.volumes.get(id)
    }

    /// Where the space went; nothing is known of it while the pool is being opened.
    pub fn space(&self) -> SpaceStatus {
        if self.health == Health::Opening {
            return SpaceStatus::default();
        }
        self.pool.space_status()
    }

    /// Sizes of the devices, bytes, in the order in which they joined.
    pub fn devices(&self) -> impl Iterator<Item = DeviceSpec> {
        let sizes = self.pool.space.layouts().map(|layout| Space::bytes(layout.device_blocks));
        let uuids = self.pool.members.device_uuids.iter().copied();
        uuids.zip(sizes).map(|(uuid, size_bytes)| DeviceSpec { uuid, size_bytes })
    }

    /// Says whether the pool is being extended: a request that finds no space then fails with
    /// [`BlockError::SpaceComing`] instead of [`BlockError::OutOfSpace`].
    pub fn set_extending(&mut self, extending: bool) {
        self.pool.budget.extending = extending;
    }

    /// Whether the pool serves.
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Counters since the pool was opened.
    pub fn statistics(&self) -> Statistics {
        let (groups_fenced, groups_unavailable) = self.pool.space.unusable();
        Statistics {
            pages_clean: self.pool.map.clean_pages() as u64,
            pages_dirty: self.pool.map.dirty.len() as u64,
            groups_loaded: self.pool.space.groups_loaded() as u64,
            groups_fenced,
            groups_unavailable,
            reap_queue: self.pool.map.dead_count() as u64,
            ..self.pool.statistics
        }
    }

    /// Work left before space that was given up counts as free.
    pub fn releasing(&self) -> Releasing {
        match self.pool.map.reap.is_empty() {
            false => Releasing::Subtrees,
            true if self.pool.space.groups_with_deltas() > 0 => Releasing::References,
            true => Releasing::Nothing,
        }
    }

    /// Bytes of data that wait for the reaper, at most: some of them others share.
    pub fn reap_bytes(&self) -> u64 {
        self.pool.map.reap.iter().map(|dead| u64::from(dead.entry.mapped) * block::BLOCK).sum()
    }

    /// Commits that damage to the journal had lost when the pool was opened, read-only or rewound.
    pub fn journal_loss(&self) -> Option<&JournalLoss> {
        self.journal_loss.as_ref()
    }

    /// Gives up a pool that takes no writes any more: everything under way is answered with
    /// [`BlockError::Closed`], and so is what comes. What was acknowledged is in its journal. I/O
    /// under way comes to its end; [`Store::has_io`] says when.
    pub fn abandon(&mut self) {
        if !matches!(self.health, Health::ReadOnly { .. }) {
            return;
        }
        self.health = Health::Closed;
        self.scrub = None;
        self.pool.io.cancel_pending();
        let operations: Vec<OperationKey> = self.operations.iter().map(|(key, _)| key).collect();
        for operation in operations {
            self.finish(operation, Err(BlockError::Closed.into()));
        }
        self.ready.clear();
    }

    /// Whether an I/O is under way on the devices, or wished for.
    pub fn has_io(&self) -> bool {
        !self.pool.io.is_idle()
    }

    /// Whether anything is under way or waits to be done.
    pub fn is_idle(&self) -> bool {
        self.operations.is_empty()
            && self.pool.io.is_idle()
            && self.checkpoint.is_none()
            && self.pool.map.reap.is_empty()
    }

    /// Lets everything go on that can, without waiting.
    fn advance(&mut self) {
        self.run_ready();
        if self.recovery.is_some() || matches!(self.health, Health::Closed) {
            self.advance_recovery();
            return;
        }
        self.apply_durable();
        self.reap();
        self.advance_scrub();
        self.start_checkpoint_if_due();
        self.run_ready();
        self.close_group();
    }

    pub(crate) fn run_ready(&mut self) {
        while let Some(operation) = self.ready.pop_front() {
            if self.operations.contains(operation) {
                self.run(operation);
            }
        }
    }

    fn has_changed(&self) -> bool {
        !self.journal.is_empty()
            || self.pool.space.quarantined() > 0
            || self.pool.space.groups_with_deltas() > 0
    }

    pub(crate) fn answer(&mut self, tag: Tag, result: Result<Outcome, Failure>) {
        self.done.push_back(Done { tag, result, account: Account::default() });
    }

    /// The device failed to keep something: nothing more is changed.
    pub(crate) fn fail_device(&mut self, what: &str, error: &DeviceError) {
        self.fail(format!("{what}: {error}"));
    }

    pub(crate) fn fail(&mut self, reason: String) {
        if let Some(recovery) = self.recovery.take() {
            self.health = Health::Closed;
            let error = OpenError::Damaged("a page of the map could not be read");
            return self.answer(recovery.tag(), Err(Failure::Open(error)));
        }
        if self.health != Health::Ready {
            return;
        }
        self.health = Health::ReadOnly { reason };
        self.in_flight.clear();
        self.durable.clear();
        self.groups = Groups::default();
        self.checkpoint = None;
        self.stalled.clear();
        self.checkpoint_waiters.clear();
        let changing: Vec<OperationKey> = self
            .operations
            .iter()
            .filter(|(_, operation)| operation.changes())
            .map(|(key, _)| key)
            .collect();
        for operation in changing {
            self.finish(operation, Err(BlockError::ReadOnly.into()));
        }
    }
}

/// All changes of volumes and devices claim this, so that one follows the other.
pub(crate) const CHANGES: VolumeId = VolumeId(u64::MAX);
