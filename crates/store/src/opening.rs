//! Pool creation and crash recovery: reads labels, superblock, space maps and volume table, then
//! replays the journal.
//!
//! Everything is read and checked before anything is written; the first write is the checkpoint
//! that ends recovery, with the next epoch. Until it is durable the old one stays intact, so
//! recovery may be interrupted and repeated at any point.

mod heads;
mod journal;
mod load;
mod loss;
mod mending;
mod witness;

use std::collections::VecDeque;

use block::{BLOCK, Buffer, DeviceError, DeviceResult, Rope};
use smallvec::{SmallVec, smallvec};

use crate::address::{Address, DeviceNumber, Run};
use crate::change::Tag;
use crate::checkpoint::Progress;
use crate::engine::Engine;
use crate::error::OpenError;
use crate::io::{Waiter, Wanted};
use crate::journal::{JournalStart, Position, Unit};
use crate::journal_loss::JournalLoss;
use crate::layout::{JOURNAL_START, LABELS, Layout, SUPERBLOCK_COPIES, SUPERBLOCKS};
use crate::limits::{DEVICE_BYTES_MAX, DEVICE_BYTES_MIN, DEVICES_MAX, SLOTS_MAX, VERIFY_READS_MAX};
use crate::loading::{PageWaiter, READ_ATTEMPTS};
use crate::log::Log;
use crate::map::Map;
use crate::mirror::{Expected, MemberNumber, member_blocks};
use crate::options::{DeviceSpec, OpenContext, OpenMode, Options, PoolSpec, SlotSpec};
use crate::preallocation::ENOSPC;
use crate::space::{Preparation, Space};
use crate::superblock::{FORMAT_VERSION, Features, Label, Superblock};

/// Whether blocks that were read are good, or are read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Whole,
    /// They are not what they should be. The device may only have stumbled; if not, the last
    /// attempt's bytes count.
    Again,
}

/// Steps of recovery, each with what it waits for.
enum Step {
    /// Labels and superblocks.
    Heads(heads::Heads),
    /// Space maps and volume table.
    Loading(load::Loading),
    /// Units of the journal.
    Journal(journal::Scan),
    /// Records are applied to the map.
    Replaying { units: VecDeque<Unit>, record: usize },
    /// Mirrors without all of their current members say so on the others.
    Listing,
    /// What only some members of a mirror may have is written to all.
    Mending(mending::Mending),
    /// Space for what lies before the groups is set aside; in a new pool these are written then.
    SettingAside { first_writes: Vec<FirstWrite> },
    /// Preallocation of the guaranteed space on the devices.
    Preallocating,
    /// Room for the checkpoint's pages.
    Preparing,
    /// The checkpoint that ends it all.
    Checkpoint,
}

/// A pool that is being made or opened.
struct OpeningState {
    tag: Tag,
    /// What was found on the devices.
    slots: Vec<heads::Slot>,
    context: OpenContext,
    superblock: Option<Superblock>,
    /// Data of units that may have been cut short, with its checksums.
    tail: Vec<(Run, Vec<u32>)>,
    /// How many of them, from the first one on, are of units that happened.
    tail_happened: usize,
    step: Step,
    /// Reads that were not begun, and the number of those that were.
    wanted: VecDeque<Wanted>,
    outstanding: usize,
    /// The pool is only to be looked at.
    check_only: bool,
}

impl OpeningState {
    /// Whether the pool is being made.
    fn is_new(&self) -> bool {
        self.superblock.is_none()
    }

    /// Whether reads or first writes are under way, or wanted.
    fn is_reading(&self) -> bool {
        self.outstanding > 0 || !self.wanted.is_empty()
    }

    fn want(&mut self, index: u64, run: Run) {
        self.wanted.push_back(Wanted { index, run, attempt: 0, copy: 0 });
    }

    /// Blocks cannot be read. Of a label or superblock it depends on the others what that means.
    fn refuse(&mut self, wanted: Wanted, error: DeviceError) -> Result<Taken, OpenError> {
        match self.step {
            Step::Heads(_) => {
                self.head_failed(wanted.index, error);
                Ok(Taken::Whole)
            }
            _ => Err(OpenError::Device(error)),
        }
    }
}

/// How opening a pool has ended.
pub(crate) enum Opened {
    /// It goes on.
    NotYet,
    /// The pool serves; reads alone if there is a reason.
    Serves { read_only: Option<String> },
    /// The pool was only to be looked at, and is sound so far.
    Checked,
    /// The pool cannot be used.
    Failed(OpenError),
}

/// What a step of recovery leads to.
enum Stepped {
    /// The next step, or reads that it wants.
    On,
    /// Nothing before an I/O has ended.
    Waits,
    /// The end.
    Over(Opened),
}

/// A pool that is being made or opened, and the parts of its engine.
pub(crate) struct Opening {
    pub(crate) engine: Engine,
    state: OpeningState,
    /// Commits that damage to the journal had lost.
    loss: Option<JournalLoss>,
    /// Features of the pool that forbid this program to change it.
    read_only_features: u64,
}

impl Opening {
    fn new(engine: Engine, state: OpeningState) -> Self {
        Self { engine, state, loss: None, read_only_features: 0 }
    }

    /// Begins to write an empty pool.
    pub(crate) fn format(spec: &PoolSpec, options: Options, tag: Tag) -> (Self, Opened) {
        let first = spec.devices.first().map_or(0, |device| device.size_bytes);
        let journal = Layout::new(first, options.journal_bytes);
        let others = spec.devices.iter().skip(1);
        let others = others.map(|device| Layout::without_journal(device.size_bytes));
        let layouts: Vec<_> = std::iter::once(journal).chain(others).collect();
        let engine = Engine::new(options, journal.journal_blocks, spec.pool_uuid);
        let step = Step::SettingAside { first_writes: Vec::new() };
        let state = OpeningState::new(tag, &[], OpenContext::default(), step);
        let mut opening = Self::new(engine, state);
        if !can_be_made(spec, &layouts) {
            return (opening, Opened::Failed(OpenError::Size));
        }
        let first_writes = first_writes(spec, journal.journal_blocks);
        opening.state.step = Step::SettingAside { first_writes };
        opening.lay_out(spec, &layouts);
        opening.state.outstanding = opening.engine.pool.set_heads_aside();
        (opening, Opened::NotYet)
    }

    fn lay_out(&mut self, spec: &PoolSpec, layouts: &[Layout]) {
        let pool = &mut self.engine.pool;
        pool.space = Space::new(layouts, pool.options.groups());
        pool.members.device_uuids = spec.devices.iter().map(|device| device.uuid).collect();
        pool.members.features = Features::incompatible(spec.features());
        pool.members.labelled = pool.members.features;
        spec.devices.iter().for_each(|device| pool.add_new_device(device));
        pool.io.with_mirrors(|mirrors| mirrors.begin_writing());
        let previous_crc = seed(&spec.pool_uuid, &spec.devices[0].uuid);
        let next = Position { previous_crc, ..self.engine.log.applier.applied() };
        let start = JournalStart { epoch: 1, next };
        self.engine.log = Log::new(layouts[0].journal_blocks, start);
    }

    /// Begins to read a pool.
    pub(crate) fn open(
        slots: &[SlotSpec],
        context: OpenContext,
        options: Options,
        tag: Tag,
    ) -> (Self, Opened) {
        let step = Step::Heads(heads::Heads::default());
        let state = OpeningState::new(tag, slots, context, step);
        let mut opening = Self::new(Engine::new(options, 0, [0; 16]), state);
        if let Err(error) = opening.begin_heads() {
            return (opening, Opened::Failed(error));
        }
        opening.read_wanted();
        (opening, Opened::NotYet)
    }

    /// The request that is answered then, the parts of the engine, and what the journal lost.
    pub(crate) fn into_parts(self) -> (Tag, Engine, Option<JournalLoss>) {
        (self.state.tag, self.engine, self.loss)
    }

    /// Ends recovery before anything is written: the pool can be audited, and nothing else.
    pub(crate) fn check_only(&mut self) {
        self.state.check_only = true;
    }

    /// Takes the result of an I/O for whom it was made.
    pub(crate) fn completed(&mut self, waiter: Waiter, result: DeviceResult) -> Opened {
        let Engine { loader, checkpointer, preallocation, pool, .. } = &mut self.engine;
        match waiter {
            Waiter::Page { missing, attempt } => {
                let page = loader.page_read(pool, (missing, attempt), result, |_| None);
                if page.is_some_and(|page| !page.found) {
                    return Opened::Failed(OpenError::Damaged(
                        "a page of the map could not be read",
                    ));
                }
            }
            Waiter::GroupPage { group, page, attempt } => {
                let arrived = loader.group_page_read(pool, group, (page, attempt), result);
                self.engine.group_arrived(arrived);
            }
            Waiter::GroupSpace { group } => {
                let arrived = loader.group_space_backed(pool, group, result.map(drop));
                self.engine.group_arrived(arrived);
            }
            Waiter::Preallocation { group } => {
                preallocation.ended(pool, group, result.map(drop));
            }
            Waiter::Checkpoint => match checkpointer.io_done(pool, result.map(drop)) {
                Progress::UnderWay => {}
                Progress::Failed(error) => return Opened::Failed(error.into()),
                Progress::Durable => {
                    self.engine.end_checkpoint();
                    return self.serves(None);
                }
            },
            Waiter::Opening { wanted } => return self.recovery_read(wanted, result),
            Waiter::Tail { piece } => return self.tail_mended(piece, result),
            Waiter::Format => return self.first_write_done(result.map(drop)),
            // What belongs to a pool that serves.
            Waiter::Operation { .. }
            | Waiter::Ahead { .. }
            | Waiter::Commit { .. }
            | Waiter::CommitFlush { .. }
            | Waiter::Label { .. }
            | Waiter::Member { .. }
            | Waiter::Features { .. }
            | Waiter::Scrub { .. }
            | Waiter::Evacuation { .. }
            | Waiter::Farewell { .. }
            | Waiter::HealedLabel
            | Waiter::Repair => {}
        }
        Opened::NotYet
    }

    fn read_wanted(&mut self) {
        while self.state.outstanding < VERIFY_READS_MAX
            && let Some(wanted) = self.state.wanted.pop_front()
        {
            self.state.outstanding += 1;
            let waiter = Waiter::Opening { wanted };
            match self.state.step.crcs(wanted) {
                crcs if crcs.is_empty() => {
                    self.engine.pool.io.read_copy(waiter, wanted.run, wanted.copy.into());
                }
                crcs => self.engine.pool.io.read(waiter, wanted.run, Expected::Blocks(&crcs)),
            }
        }
    }

    /// A block of a new pool is written, or space is set aside. A pool that is there serves
    /// without.
    fn first_write_done(&mut self, result: Result<(), DeviceError>) -> Opened {
        self.state.outstanding -= 1;
        match result {
            Err(error) if self.state.is_new() => Opened::Failed(match error {
                DeviceError::Os(ENOSPC) => OpenError::NoSpace,
                error => OpenError::Device(error),
            }),
            Err(_) | Ok(()) => Opened::NotYet,
        }
    }

    fn recovery_read(&mut self, wanted: Wanted, result: DeviceResult) -> Opened {
        self.state.outstanding -= 1;
        let last = wanted.attempt + 1 == READ_ATTEMPTS;
        let taken = match result {
            Err(error) if last => self.state.refuse(wanted, error),
            Err(_) => Ok(Taken::Again),
            Ok(buffer) => self.take(wanted, buffer.unwrap_or_else(|| Buffer::zeroed(0))),
        };
        match taken {
            Err(error) => return Opened::Failed(error),
            Ok(Taken::Again) if !last => self.want_again(wanted),
            Ok(_) => {}
        }
        self.read_wanted();
        Opened::NotYet
    }

    fn want_again(&mut self, wanted: Wanted) {
        let attempt = wanted.attempt + 1;
        let run = match &self.state.step {
            Step::Loading(loading) => Run::of(loading.address(wanted.index, attempt)),
            _ => wanted.run,
        };
        self.state.wanted.push_back(Wanted { run, attempt, ..wanted });
    }

    fn take(&mut self, wanted: Wanted, bytes: Buffer) -> Result<Taken, OpenError> {
        match &mut self.state.step {
            Step::Heads(_) => Ok(self.state.take_head(wanted.index, &bytes)),
            Step::Loading(_) => self.take_page(wanted, &bytes),
            Step::Journal(scan) => Ok(scan.take(wanted, bytes)),
            _ => Ok(Taken::Whole),
        }
    }

    /// Goes to the next step when a step has all it waited for.
    pub(crate) fn advance(&mut self) -> Opened {
        loop {
            let Engine { loader, preallocation, .. } = &self.engine;
            let loading = !loader.has_all_groups() || !preallocation.is_idle();
            if self.state.is_reading() || loader.applier_waits() || loading {
                return Opened::NotYet;
            }
            match self.next_step() {
                Ok(Stepped::On) => self.read_wanted(),
                Ok(Stepped::Waits) => return Opened::NotYet,
                Ok(Stepped::Over(opened)) => return opened,
                Err(error) => return Opened::Failed(error),
            }
        }
    }

    fn next_step(&mut self) -> Result<Stepped, OpenError> {
        match &mut self.state.step {
            Step::Heads(_) => self.heads_next()?,
            Step::Loading(_) => self.load_next()?,
            Step::Journal(_) => self.scan_next()?,
            Step::Replaying { units, record } => {
                if !replay(&mut self.engine, units, record) {
                    return Ok(Stepped::Waits);
                }
                return Ok(self.end_replay());
            }
            Step::Listing => return Ok(self.listing_next()),
            Step::Mending(_) => return Ok(self.mending_next()),
            Step::SettingAside { first_writes } => {
                let first_writes = std::mem::take(first_writes);
                self.state.outstanding = first_writes.len();
                self.state.step = Step::Preallocating;
                for FirstWrite { address, member, data } in first_writes {
                    let io = &mut self.engine.pool.io;
                    match member {
                        None => io.write(Waiter::Format, address, data),
                        Some(member) => io.write_first_block(Waiter::Format, address, member, data),
                    }
                }
            }
            Step::Preallocating => return self.preallocate(),
            Step::Preparing => return Ok(self.prepare_checkpoint()),
            Step::Checkpoint => return Ok(Stepped::Waits),
        }
        Ok(Stepped::On)
    }

    /// Sets aside what is guaranteed. A pool that is there serves with what it gets.
    fn preallocate(&mut self) -> Result<Stepped, OpenError> {
        let Engine { preallocation, pool, .. } = &mut self.engine;
        if preallocation.back_guaranteed(pool) {
            return Ok(Stepped::Waits);
        }
        if self.state.is_new() {
            self.engine.pool.check_backed()?;
        }
        self.state.step = Step::Preparing;
        Ok(Stepped::On)
    }

    /// The checkpoint that ends recovery begins when its pages have room. A pool that has none can
    /// still be read.
    fn prepare_checkpoint(&mut self) -> Stepped {
        match self.engine.checkpointer.prepare(&mut self.engine.pool) {
            Preparation::Ready => {
                self.state.step = Step::Checkpoint;
                self.engine.start_checkpoint();
                Stepped::Waits
            }
            Preparation::Load(group) => {
                self.engine.bring_group(group, true);
                if self.engine.loader.has_all_groups() { Stepped::On } else { Stepped::Waits }
            }
            Preparation::NoRoom => {
                Stepped::Over(self.serves(Some("there is no room for a checkpoint".to_owned())))
            }
        }
    }

    fn adopt(&mut self, superblock: &Superblock) {
        self.engine.pool.members.pool_uuid = superblock.pool_uuid;
        let (labels, devices) = (&self.state, &superblock.devices[..]);
        self.engine.pool.members.labelled = labels.labelled(devices);
        self.engine.pool.members.unsound_labels = labels.unsound_labels(devices);
        self.engine.checkpointer.adopt_generation(superblock.generation);
        let layouts: Vec<_> = superblock.devices.iter().map(|device| device.layout).collect();
        self.engine.pool.space = Space::new(&layouts, self.engine.pool.options.groups());
        self.engine.pool.space.pages = superblock.pages;
        self.engine.pool.members.device_uuids =
            superblock.devices.iter().map(|device| device.uuid).collect();
        self.engine.pool.map = Map::new(self.engine.pool.options.clean_pages());
        let next = Position {
            block: superblock.journal_position,
            sequence: superblock.journal_sequence,
            previous_crc: superblock.journal_crc,
        };
        let start = JournalStart { epoch: superblock.epoch, next };
        self.engine.log = Log::new(layouts[0].journal_blocks, start);
    }

    fn end_replay(&mut self) -> Stepped {
        if self.state.check_only {
            return Stepped::Over(Opened::Checked);
        }
        if self.engine.pool.options.mode == OpenMode::ReadOnly {
            let reason = match &self.loss {
                Some(loss) => format!("it was opened read-only, as it was before a loss: {loss}"),
                None => "it was opened read-only".to_owned(),
            };
            return Stepped::Over(self.serves(Some(reason)));
        }
        if self.read_only_features != 0 {
            let features = self.read_only_features;
            let reason = format!("it has features {features:#x}, which a newer program knows");
            return Stepped::Over(self.serves(Some(reason)));
        }
        self.engine.log.journal.epoch += 1;
        self.state.step = Step::Listing;
        self.engine.pool.io.with_mirrors(|mirrors| mirrors.begin_writing());
        Stepped::On
    }

    fn serves(&mut self, read_only: Option<String>) -> Opened {
        self.engine.pool.space.end_probing();
        // Changes that the journal replayed were counted before the restart.
        self.engine.pool.volumes.clear_reclaimed();
        Opened::Serves { read_only }
    }
}

/// Whether a pool can be made on devices of these sizes.
fn can_be_made(spec: &PoolSpec, layouts: &[Layout]) -> bool {
    let pages: usize = layouts.iter().map(Layout::first_level_pages).sum();
    let mut sizes = spec.devices.iter().map(|device| device.size_bytes);
    !spec.devices.is_empty()
        && spec.devices.len() <= DEVICES_MAX
        && sizes.all(|size| (DEVICE_BYTES_MIN..=DEVICE_BYTES_MAX).contains(&size))
        && layouts.iter().enumerate().all(|(index, layout)| layout.is_sound(index == 0))
        && pages <= crate::layout::FIRST_LEVEL_MAX
        && spec.devices.iter().all(DeviceSpec::is_sound)
        && slots_differ(spec)
}

/// Whether no slot and no member's name is used twice.
fn slots_differ(spec: &PoolSpec) -> bool {
    let (mut slots, mut names) = (Vec::new(), Vec::new());
    for device in &spec.devices {
        slots.extend(device.members.is_empty().then_some(device.slot));
        slots.extend(device.members.iter().map(|member| member.slot));
        names.extend(device.members.iter().map(|member| member.uuid));
    }
    let counts = [slots.len(), names.len()];
    slots.sort_unstable();
    slots.dedup();
    names.sort_unstable();
    names.dedup();
    counts == [slots.len(), names.len()] && slots.iter().all(|&slot| usize::from(slot) < SLOTS_MAX)
}

/// Applies units to the map; `false` if it waits for a page.
fn replay(engine: &mut Engine, units: &mut VecDeque<Unit>, record: &mut usize) -> bool {
    while let Some(unit) = units.front() {
        let Some(next) = unit.records.get(*record) else {
            engine.pool.statistics.replayed_units += 1;
            units.pop_front();
            *record = 0;
            continue;
        };
        let next = next.clone();
        if let Some(missing) = engine.pool.missing_for_record(&next) {
            engine.loader.load_page(&mut engine.pool, missing, PageWaiter::Applier);
            return false;
        }
        engine.pool.apply(&next);
        *record += 1;
    }
    true
}

impl OpeningState {
    fn new(tag: Tag, slots: &[SlotSpec], context: OpenContext, step: Step) -> Self {
        Self {
            tag,
            slots: slots.iter().take(SLOTS_MAX).map(|&spec| heads::Slot::new(spec)).collect(),
            context,
            superblock: None,
            tail: Vec::new(),
            tail_happened: 0,
            step,
            wanted: VecDeque::new(),
            outstanding: 0,
            check_only: false,
        }
    }
}

impl Step {
    /// The checksums that a read must bring; none if they are not known.
    fn crcs(&self, wanted: Wanted) -> SmallVec<[u32; 4]> {
        match self {
            Self::Loading(loading) => smallvec![loading.crc(wanted.index)],
            Self::Journal(scan) => SmallVec::from_slice(scan.crcs(wanted.index)),
            _ => SmallVec::new(),
        }
    }
}

/// A write of making a pool: to one member of a mirror alone if one is named.
struct FirstWrite {
    address: Address,
    member: Option<MemberNumber>,
    data: Rope,
}

impl FirstWrite {
    fn new(address: Address, data: Rope) -> Self {
        Self { address, member: None, data }
    }
}

/// Blocks that are zeroed with one write; the length of a journal is a multiple of it.
const FIRST_WRITE_BLOCKS: usize = 256;

/// The labels of all devices, and zeros where an earlier pool may have left superblocks, and all
/// over the journal: a file system under the pool then has nothing of its own to make durable with
/// a commit. What an earlier pool left in the journal would be told apart without them, by the unit
/// checksums, which begin anew with the pool's identity.
fn first_writes(spec: &PoolSpec, journal_blocks: u64) -> Vec<FirstWrite> {
    let zeros = Buffer::zeroed(FIRST_WRITE_BLOCKS * BLOCK as usize).freeze();
    let superblocks = SUPERBLOCKS.into_iter().chain(SUPERBLOCK_COPIES);
    let zero = || Rope::from(zeros.slice(..BLOCK as usize));
    let mut writes: Vec<_> =
        superblocks.map(|block| FirstWrite::new(block.on(DeviceNumber::FIRST), zero())).collect();
    let journal = Run { start: JOURNAL_START.on(DeviceNumber::FIRST), blocks: journal_blocks };
    let journal = journal.addresses().step_by(FIRST_WRITE_BLOCKS);
    writes.extend(journal.map(|address| FirstWrite::new(address, zeros.clone().into())));
    for (index, device) in spec.devices.iter().enumerate() {
        let number = DeviceNumber::at(index);
        let label = Label {
            pool_uuid: spec.pool_uuid,
            device_uuid: device.uuid,
            features: Features::incompatible(spec.features()),
            version: FORMAT_VERSION,
            index: index as u32,
            is_mirror: !device.members.is_empty(),
        };
        let label = || Rope::from(label.emit().freeze());
        writes.extend(LABELS.map(|block| FirstWrite::new(block.on(number), label())));
        for (member, block, data) in member_blocks(spec.pool_uuid, device) {
            let (address, member) = (block.on(number), Some(member));
            writes.push(FirstWrite { address, member, data });
        }
    }
    writes
}

/// The first unit's predecessor: ties the journal to this pool.
fn seed(pool_uuid: &[u8; 16], device_uuid: &[u8; 16]) -> u32 {
    crate::checksum::crc32c(&[*pool_uuid, *device_uuid].concat())
}
