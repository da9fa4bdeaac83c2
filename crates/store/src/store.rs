//! Public interface of the pool engine, and its main loop, which passes work between its parts.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use block::{Account, BlockError, DeviceError, DeviceResult, Request, Response, VolumeId};
use hashbrown::HashMap;
use slab::Slab;

use crate::address::Address;
use crate::allowance::Allowance;
use crate::apply::Applying;
use crate::bugs::Bugs;
use crate::checkpoint::Checkpoint;
use crate::commit::{Commit, Groups};
use crate::directory::Directory;
use crate::error::{ChangeError, Failure, OpenError};
use crate::housing::Housing;
use crate::incident::Incident;
use crate::io::{Io, IoId, Waiter};
use crate::journal::{Journal, Position};
use crate::layout::Layout;
use crate::limits::{FREED_DELAY, FREED_SHARE, REQUESTS_MAX, UNAVAILABLE_RETRY};
use crate::loading::{GroupLoad, PageWaiter};
use crate::locks::Locks;
use crate::map::Map;
use crate::metadata::Metadata;
use crate::operation::{Estimate, OperationKey, Operations, Work};
use crate::options::{DeviceSpec, Options, PoolSpec};
use crate::recent::Recent;
use crate::reclaim::Reclaimed;
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
    pub(crate) options: Options,
    pub(crate) bugs: Bugs,
    pub(crate) health: Health,
    pub(crate) pool_uuid: [u8; 16],
    pub(crate) space: Space,
    pub(crate) map: Map,
    pub(crate) volumes: BTreeMap<VolumeId, Volume>,
    pub(crate) directory: Directory,
    /// Blocks that are promised to reserved volumes and not yet theirs.
    owed: u64,
    /// Blocks that operations under way will add to those.
    pub(crate) promising: u64,
    pub(crate) journal: Journal,
    /// Where the journal goes on after the last unit that was applied to the map.
    pub(crate) applied: Position,
    /// Blocks that hosts will look at soon.
    pub(crate) recent: Recent,
    /// Where hosts keep the metadata of their file systems.
    pub(crate) metadata: Metadata,
    /// Estimated effect of all operations under way on the space.
    pub(crate) estimated: Estimate,
    pub(crate) streams: Streams,
    pub(crate) operations: Operations,
    pub(crate) locks: Locks,
    /// Operations that may go on.
    pub(crate) ready: VecDeque<OperationKey>,
    /// Operations that wait for a checkpoint: for space, or for room in the journal.
    pub(crate) stalled: VecDeque<OperationKey>,
    /// Blocks handed out to operations whose records are not applied yet.
    pub(crate) handed_out: u64,
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
    /// Names of the devices.
    pub(crate) device_uuids: Vec<[u8; 16]>,
    /// The volume table of the newest checkpoint.
    pub(crate) table: Table,
    pub(crate) recovery: Option<Box<Recovery>>,
    /// Commits that damage to the journal had lost when the pool was opened all the same.
    pub(crate) journal_loss: Option<JournalLoss>,
    pub(crate) pages_loading: HashMap<Address, Vec<PageWaiter>>,
    pub(crate) groups_loading: BTreeMap<GroupId, GroupLoad>,
    pub(crate) housing: BTreeMap<GroupId, Housing>,
    /// Groups that are housed when the change under way of the devices is made.
    pub(crate) set_aside: Vec<GroupId>,
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
    /// Whether a count of what reserved volumes share is due.
    pub(crate) count_wanted: bool,
    /// Features of the pool that forbid this program to change it.
    pub(crate) read_only_features: u64,
    /// There is no room for the pages of a checkpoint.
    pub(crate) starved: bool,
    /// Whether the pool is being extended: writes that find no space are then refused as 'try
    /// again'.
    extending: bool,
    pub(crate) closing: bool,
    pub(crate) waiters: Slab<Waiter>,
    pub(crate) wishes: VecDeque<Io>,
    pub(crate) done: VecDeque<Done>,
    pub(crate) incidents: VecDeque<Incident>,
    pub(crate) now: Duration,
    pub(crate) last_checkpoint: Duration,
    /// When groups without space on the device were tried again.
    last_retry: Duration,
    pub(crate) statistics: Statistics,
    /// Reclaim counters by volume.
    pub(crate) reclaimed: BTreeMap<VolumeId, Reclaimed>,
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
            bugs: options.bugs(),
            health: Health::Opening,
            pool_uuid,
            space: Space::new(&[], options.groups()),
            map: Map::new(options.clean_pages()),
            volumes: BTreeMap::new(),
            directory: Directory::default(),
            owed: 0,
            promising: 0,
            journal: Journal::new(journal_blocks, 1, start),
            applied: start,
            recent: Recent::default(),
            metadata: Metadata::default(),
            estimated: Estimate::default(),
            streams: Streams::default(),
            operations: Operations::default(),
            locks: Locks::default(),
            ready: VecDeque::new(),
            stalled: VecDeque::new(),
            handed_out: 0,
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
            device_uuids: Vec::new(),
            table: Table::default(),
            recovery: None,
            journal_loss: None,
            pages_loading: HashMap::new(),
            groups_loading: BTreeMap::new(),
            housing: BTreeMap::new(),
            set_aside: Vec::new(),
            applier_waits: false,
            reaper_waits: 0,
            reap_allowance: Allowance::new(options.reap_rate),
            scrub: None,
            repairs: 0,
            last_scrub: ScrubStatus::default(),
            scrub_reads: 0,
            scrub_allowance: Allowance::new(options.scrub_rate),
            count_wanted: false,
            read_only_features: 0,
            starved: false,
            extending: false,
            closing: false,
            waiters: Slab::new(),
            wishes: VecDeque::new(),
            done: VecDeque::new(),
            incidents: VecDeque::new(),
            now: Duration::ZERO,
            last_checkpoint: Duration::ZERO,
            last_retry: Duration::ZERO,
            statistics: Statistics::default(),
            reclaimed: BTreeMap::new(),
            options,
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
        let volume = self.volumes.get(&volume).ok_or(BlockError::NoSuchVolume)?;
        if volume.snapshot && !reads {
            return Err(BlockError::Snapshot);
        }
        if self.operations.len() >= REQUESTS_MAX {
            return Err(BlockError::Busy);
        }
        Ok(())
    }

    /// Takes the result of an I/O.
    pub fn completed(&mut self, id: IoId, result: DeviceResult) {
        let Some(waiter) = self.waiters.try_remove(id.0 as usize) else { return };
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
        if self.wishes.is_empty() {
            self.advance();
        }
        self.wishes.pop_front()
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
        let passed = now.saturating_sub(self.now);
        self.reap_allowance.pass(passed);
        self.scrub_allowance.pass(passed);
        self.now = now;
        if now.saturating_sub(self.last_retry) >= UNAVAILABLE_RETRY {
            self.last_retry = now;
            self.space.retry_unavailable();
            self.map.retry_unreadable();
        }
        let since = now.saturating_sub(self.last_checkpoint);
        let due = since >= self.options.checkpoint_interval
            || since >= FREED_DELAY && self.freed_space_is_due(now);
        if due && self.health == Health::Ready && self.has_changed() {
            self.checkpoint_wanted = true;
        }
    }

    /// Whether what was freed is not to wait for the next regular checkpoint.
    fn freed_space_is_due(&mut self, now: Duration) -> bool {
        if self.commits_seen != self.statistics.commits {
            self.commits_seen = self.statistics.commits;
            self.quiet_since = now;
        }
        let freed = self.space.quarantined();
        let is_quiet = now.saturating_sub(self.quiet_since) >= FREED_DELAY;
        let is_much = freed * FREED_SHARE > self.space.total();
        freed > 0 && self.map.reap.is_empty() && (is_quiet || is_much)
    }

    /// All volumes, by identifier.
    pub fn volumes(&self) -> impl Iterator<Item = &Volume> {
        self.volumes.values()
    }

    /// Volumes whose identifiers are above one, or all, by identifier: so that a caller can go
    /// through many in parts.
    pub fn volumes_after(&self, last: Option<VolumeId>) -> impl Iterator<Item = &Volume> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        self.volumes.range((from, Bound::Unbounded)).map(|(_, volume)| volume)
    }

    /// The volume or snapshot of a name.
    pub fn volume_named(&self, name: &str) -> Option<&Volume> {
        self.volumes.get(&self.directory.named(name)?)
    }

    /// Volumes and snapshots whose names begin with something.
    pub fn volumes_named_from<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Volume> {
        self.directory.beginning(prefix).filter_map(|id| self.volumes.get(&id))
    }

    /// Bytes that hosts see of all volumes that are no snapshots.
    pub fn provisioned_bytes(&self) -> u64 {
        self.directory.provisioned_bytes()
    }

    /// How many volumes and snapshots there are.
    pub fn volume_count(&self) -> usize {
        self.volumes.len()
    }

    /// How many of them are snapshots.
    pub fn snapshot_count(&self) -> usize {
        self.directory.snapshots()
    }

    /// How many snapshots of a volume there are.
    pub fn snapshots_of(&self, volume: VolumeId) -> usize {
        self.directory.snapshots_of(volume)
    }

    /// One volume.
    pub fn volume(&self, id: VolumeId) -> Option<&Volume> {
        self.volumes.get(&id)
    }

    /// Where the space went; nothing is known of it while the pool is being opened.
    pub fn space(&self) -> SpaceStatus {
        if self.health == Health::Opening {
            return SpaceStatus::default();
        }
        let bytes = Space::bytes;
        let reserve = self.kept_in_reserve();
        let total = self.space.total();
        let free = self.space.free() - reserve;
        let used = self.space.used();
        let (pending, unbacked) = self.pending_and_unbacked(total - used - reserve - free);
        SpaceStatus {
            total: bytes(total),
            used: bytes(used),
            pending: bytes(pending),
            reserve: bytes(reserve),
            free: bytes(free),
            unbacked: bytes(unbacked),
            promised: bytes(self.owed_blocks().min(free)),
            metadata_reserve: bytes(self.metadata_blocks()),
            metadata_left: bytes(self.metadata_left()),
            metadata: bytes(self.space.pages),
            shared: self.shared_bytes(),
        }
    }

    /// Divides what is neither used nor free: what comes back with the next checkpoint or was handed
    /// out, and the free blocks of groups for which the file system under the pool has no space.
    fn pending_and_unbacked(&self, blocks: u64) -> (u64, u64) {
        let (_, unavailable) = self.space.unusable();
        if unavailable == 0 {
            return (blocks, 0);
        }
        let pending = blocks.min(self.space.quarantined() + self.handed_out);
        (pending, blocks - pending)
    }

    /// Free blocks that count as reserve. What is promised to reserved volumes is not among them, also
    /// in a pool that was full before there was a metadata reserve.
    fn kept_in_reserve(&self) -> u64 {
        let (way_out, free) = (self.reserve_blocks(), self.space.free());
        let whole = way_out + self.metadata_blocks();
        whole.min(free.saturating_sub(self.owed_blocks()).max(way_out)).min(free)
    }

    /// Bytes saved by sharing: what volumes map, less the data that there is.
    fn shared_bytes(&self) -> u64 {
        let mapped = self.directory.mapped_bytes();
        mapped.saturating_sub(Space::bytes(self.space.used() - self.space.pages))
    }

    /// Sizes of the devices, bytes, in the order in which they joined.
    pub fn devices(&self) -> impl Iterator<Item = DeviceSpec> {
        let sizes = self.space.layouts().map(|layout| Space::bytes(layout.device_blocks));
        let uuids = self.device_uuids.iter().copied();
        uuids.zip(sizes).map(|(uuid, size_bytes)| DeviceSpec { uuid, size_bytes })
    }

    /// Says whether the pool is being extended: a request that finds no space then fails with
    /// [`BlockError::SpaceComing`] instead of [`BlockError::OutOfSpace`].
    pub fn set_extending(&mut self, extending: bool) {
        self.extending = extending;
    }

    /// Why a request that finds no space fails.
    pub(crate) fn out_of_space(&self) -> BlockError {
        if self.extending { BlockError::SpaceComing } else { BlockError::OutOfSpace }
    }

    /// Whether the pool serves.
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Counters since the pool was opened.
    pub fn statistics(&self) -> Statistics {
        let (groups_fenced, groups_unavailable) = self.space.unusable();
        Statistics {
            pages_clean: self.map.clean_pages() as u64,
            pages_dirty: self.map.dirty.len() as u64,
            groups_loaded: self.space.groups_loaded() as u64,
            groups_fenced,
            groups_unavailable,
            reap_queue: self.map.dead_count() as u64,
            ..self.statistics
        }
    }

    /// Work left before space that was given up counts as free.
    pub fn releasing(&self) -> Releasing {
        match self.map.reap.is_empty() {
            false => Releasing::Subtrees,
            true if self.space.groups_with_deltas() > 0 => Releasing::References,
            true => Releasing::Nothing,
        }
    }

    /// Bytes of data that wait for the reaper, at most: some of them others share.
    pub fn reap_bytes(&self) -> u64 {
        self.map.reap.iter().map(|dead| u64::from(dead.entry.mapped) * block::BLOCK).sum()
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
        for io in std::mem::take(&mut self.wishes) {
            self.waiters.try_remove(io.id.0 as usize);
        }
        let operations: Vec<OperationKey> = self.operations.iter().map(|(key, _)| key).collect();
        for operation in operations {
            self.finish(operation, Err(BlockError::Closed.into()));
        }
        self.ready.clear();
    }

    /// Whether an I/O is under way on the devices, or wished for.
    pub fn has_io(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Whether anything is under way or waits to be done.
    pub fn is_idle(&self) -> bool {
        self.operations.is_empty()
            && self.waiters.is_empty()
            && self.checkpoint.is_none()
            && self.map.reap.is_empty()
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
            || self.space.quarantined() > 0
            || self.space.groups_with_deltas() > 0
    }

    pub(crate) fn answer(&mut self, tag: Tag, result: Result<Outcome, Failure>) {
        self.done.push_back(Done { tag, result, account: Account::default() });
    }

    /// Blocks that only the way out of a full pool may use, besides those for metadata.
    pub(crate) fn reserve_blocks(&self) -> u64 {
        reserve_of(self.space.total())
    }

    /// Dirty pages at which requests wait for a checkpoint.
    pub(crate) fn dirty_max(&self) -> usize {
        (self.reserve_blocks() / 4).min(65_536).min(self.options.dirty_pages() as u64).max(64)
            as usize
    }

    /// Blocks that are promised to reserved volumes.
    pub(crate) fn owed_blocks(&self) -> u64 {
        self.owed
    }

    /// Changes a volume, and keeps the sums over all volumes.
    pub(crate) fn update<R>(
        &mut self,
        id: VolumeId,
        change: impl FnOnce(&mut Volume, &mut Map, &mut Space) -> R,
    ) -> R {
        let volume = self.volumes.get_mut(&id).expect("records name volumes that exist");
        self.owed -= volume.owed_blocks();
        let (size, mapped) = (volume.size_bytes, volume.mapped_bytes);
        let result = change(volume, &mut self.map, &mut self.space);
        self.owed += volume.owed_blocks();
        if !volume.snapshot && volume.size_bytes != size {
            self.directory.resized(size, volume.size_bytes);
        }
        self.directory.remapped(mapped, volume.mapped_bytes);
        result
    }

    /// Adds a volume, and keeps the sums over all volumes.
    pub(crate) fn insert_volume(&mut self, volume: Volume) -> Option<Volume> {
        self.owed += volume.owed_blocks();
        self.directory.insert(&volume);
        self.volumes.insert(volume.id, volume)
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

/// Blocks of the reserve of a pool that has so many in all: one in a hundred, at least 16 MiB, at
/// most an eighth.
pub(crate) fn reserve_of(total: u64) -> u64 {
    (total / 100).max(4096).min(total / 8)
}

/// All changes of volumes and devices claim this, so that one follows the other.
pub(crate) const CHANGES: VolumeId = VolumeId(u64::MAX);
