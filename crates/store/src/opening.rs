//! Pool creation and crash recovery: reads labels, superblock, space maps and volume table, then
//! replays the journal.
//!
//! Everything is read and checked before anything is written; the first write is the checkpoint
//! that ends recovery, with the next epoch. Until it is durable the old one stays intact, so
//! recovery may be interrupted and repeated at any point.

mod journal;
mod load;
mod loss;

use std::collections::VecDeque;

use block::{BLOCK, Buffer, DeviceError, DeviceResult, Rope};

use crate::address::{Address, DeviceNumber, Run};
use crate::change::Tag;
use crate::checkpoint::Progress;
use crate::engine::Engine;
use crate::error::OpenError;
use crate::io::{Waiter, Wanted};
use crate::journal::{JournalStart, Position, Unit};
use crate::journal_loss::JournalLoss;
use crate::layout::{JOURNAL_START, LABELS, Layout, SUPERBLOCK_COPIES, SUPERBLOCKS};
use crate::limits::{DEVICE_BYTES_MAX, DEVICE_BYTES_MIN, DEVICES_MAX, VERIFY_READS_MAX};
use crate::loading::{PageWaiter, READ_ATTEMPTS};
use crate::log::Log;
use crate::map::Map;
use crate::options::{OpenMode, Options, PoolSpec};
use crate::preallocation::ENOSPC;
use crate::space::{Preparation, Space};
use crate::superblock::{FEATURES_KNOWN, FORMAT_VERSION, Features, Label, LabelError, Superblock};

/// Tokens of reads of superblocks; those of labels are lower.
const SUPERBLOCK_INDEX: u64 = 1 << 16;

/// Bytes of a device that labels and superblocks need.
const HEADS_BYTES: u64 = SUPERBLOCK_COPIES[1].offset() + BLOCK;

/// Whether blocks that were read are good, or are read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Whole,
    /// They are not what they should be. The device may only have stumbled; if not, the last
    /// attempt's bytes count.
    Again,
}

/// A device's two labels, as far as they were read.
type Labels = [Option<Result<Label, LabelError>>; 2];

/// Steps of recovery, each with what it waits for.
enum Step {
    /// Labels and superblocks.
    Heads { superblocks: Vec<Superblock> },
    /// Space maps and volume table.
    Loading(load::Loading),
    /// Units of the journal.
    Journal(journal::Scan),
    /// Records are applied to the map.
    Replaying { units: VecDeque<Unit>, record: usize },
    /// Space for what lies before the groups is set aside; in a new pool these are written then.
    SettingAside { first_writes: Vec<(Address, Rope)> },
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
    sizes: Vec<u64>,
    labels: Vec<Labels>,
    expected_pool_uuid: Option<[u8; 16]>,
    superblock: Option<Superblock>,
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

    /// Asks for labels and superblocks.
    fn want_heads(&mut self) {
        for (device, size) in self.sizes.clone().into_iter().enumerate().take(DEVICES_MAX) {
            self.labels.push([None, None]);
            for (copy, block) in LABELS.into_iter().enumerate() {
                if size >= HEADS_BYTES {
                    let block = block.on(DeviceNumber::at(device));
                    self.want((2 * device + copy) as u64, Run::of(block));
                }
            }
        }
        for (place, block) in SUPERBLOCKS.into_iter().chain(SUPERBLOCK_COPIES).enumerate() {
            self.want(SUPERBLOCK_INDEX + place as u64, Run::of(block.on(DeviceNumber::FIRST)));
        }
    }

    fn want(&mut self, index: u64, run: Run) {
        self.wanted.push_back(Wanted { index, run, attempt: 0 });
    }

    /// Takes a label or superblock.
    fn take_head(&mut self, index: u64, bytes: &[u8]) -> Taken {
        if index < SUPERBLOCK_INDEX {
            let label = Label::parse(bytes);
            let is_whole = label.is_ok();
            self.labels[index as usize / 2][index as usize % 2] = Some(label);
            return if is_whole { Taken::Whole } else { Taken::Again };
        }
        let superblock = Superblock::parse(bytes);
        let is_whole = superblock.is_some();
        if let Step::Heads { superblocks } = &mut self.step {
            superblocks.extend(superblock);
        }
        if is_whole { Taken::Whole } else { Taken::Again }
    }

    /// The label of a device that the pool needs.
    fn label(&self, device: DeviceNumber) -> Result<Label, OpenError> {
        let index = device.index();
        choose_label(self.labels.get(index).ok_or(OpenError::Missing { index })?)
    }

    /// Checks that a device is the one that the pool means, and large enough.
    fn check_device(
        &self,
        device: DeviceNumber,
        uuid: [u8; 16],
        blocks: u64,
    ) -> Result<(), OpenError> {
        let index = device.index();
        let pool_uuid = self.superblock.as_ref().map(|superblock| superblock.pool_uuid);
        let actual = *self.sizes.get(index).ok_or(OpenError::Missing { index })?;
        let expected = blocks * BLOCK;
        if actual < expected {
            return Err(OpenError::Short { actual, expected });
        }
        let ours = |label: &Label| {
            label.device_uuid == uuid
                && label.index as usize == index
                && pool_uuid.is_none_or(|pool| pool == label.pool_uuid)
        };
        match self.label(device) {
            Ok(label) if ours(&label) => Ok(()),
            Err(OpenError::Damaged(what)) => Err(OpenError::Damaged(what)),
            _ => Err(OpenError::WrongDevice { index }),
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
        let sizes = spec.devices.iter().map(|device| device.size_bytes).collect();
        let first_writes = first_writes(spec, journal.journal_blocks);
        let step = Step::SettingAside { first_writes };
        let mut opening = Self::new(engine, OpeningState::new(tag, sizes, None, step));
        if !can_be_made(spec, &layouts) {
            return (opening, Opened::Failed(OpenError::Size));
        }
        opening.lay_out(spec, &layouts);
        opening.state.outstanding = opening.engine.pool.set_heads_aside();
        (opening, Opened::NotYet)
    }

    fn lay_out(&mut self, spec: &PoolSpec, layouts: &[Layout]) {
        let pool = &mut self.engine.pool;
        pool.space = Space::new(layouts, pool.options.groups());
        pool.members.device_uuids = spec.devices.iter().map(|device| device.uuid).collect();
        let previous_crc = seed(&spec.pool_uuid, &spec.devices[0].uuid);
        let next = Position { previous_crc, ..self.engine.log.applier.applied() };
        let start = JournalStart { epoch: 1, next };
        self.engine.log = Log::new(layouts[0].journal_blocks, start);
    }

    /// Begins to read a pool.
    pub(crate) fn open(
        sizes: &[u64],
        expected_pool_uuid: Option<[u8; 16]>,
        options: Options,
        tag: Tag,
    ) -> (Self, Opened) {
        let step = Step::Heads { superblocks: Vec::new() };
        let state = OpeningState::new(tag, sizes.to_vec(), expected_pool_uuid, step);
        let mut opening = Self::new(Engine::new(options, 0, [0; 16]), state);
        let first = sizes.first().copied().unwrap_or(0);
        if first < HEADS_BYTES {
            let expected = DEVICE_BYTES_MIN;
            return (opening, Opened::Failed(OpenError::Short { actual: first, expected }));
        }
        opening.state.want_heads();
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
            Waiter::Format => return self.first_write_done(result.map(drop)),
            // What belongs to a pool that serves.
            Waiter::Operation { .. }
            | Waiter::Ahead { .. }
            | Waiter::Commit { .. }
            | Waiter::CommitFlush { .. }
            | Waiter::Label { .. }
            | Waiter::Scrub { .. }
            | Waiter::Repair => {}
        }
        Opened::NotYet
    }

    fn read_wanted(&mut self) {
        while self.state.outstanding < VERIFY_READS_MAX
            && let Some(wanted) = self.state.wanted.pop_front()
        {
            self.state.outstanding += 1;
            self.engine.pool.io.read(Waiter::Opening { wanted }, wanted.run);
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
            Err(error) if last => Err(OpenError::Device(error)),
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
            Step::Heads { .. } => Ok(self.state.take_head(wanted.index, &bytes)),
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
            Step::Heads { .. } => self.choose_superblock()?,
            Step::Loading(_) => self.load_next()?,
            Step::Journal(_) => self.scan_next()?,
            Step::Replaying { units, record } => {
                if !replay(&mut self.engine, units, record) {
                    return Ok(Stepped::Waits);
                }
                self.state.step = Step::SettingAside { first_writes: Vec::new() };
                return Ok(self.end_replay());
            }
            Step::SettingAside { first_writes } => {
                let first_writes = std::mem::take(first_writes);
                self.state.outstanding = first_writes.len();
                self.state.step = Step::Preallocating;
                for (block, data) in first_writes {
                    self.engine.pool.io.write(Waiter::Format, block, data);
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

    fn choose_superblock(&mut self) -> Result<(), OpenError> {
        let state = &mut self.state;
        let label = state.label(DeviceNumber::FIRST)?;
        let unknown = label.features.incompatible & !FEATURES_KNOWN.incompatible;
        if label.version != FORMAT_VERSION || unknown != 0 {
            return Err(OpenError::Unknown { version: label.version, features: unknown });
        }
        if state.expected_pool_uuid.is_some_and(|expected| expected != label.pool_uuid) {
            return Err(OpenError::OtherPool);
        }
        if label.index != 0 {
            return Err(OpenError::WrongDevice { index: 0 });
        }
        let Step::Heads { superblocks } = &mut state.step else { return Ok(()) };
        let superblock = std::mem::take(superblocks)
            .into_iter()
            .filter(|superblock| superblock.pool_uuid == label.pool_uuid)
            .max_by_key(|superblock| superblock.generation)
            .ok_or(OpenError::Damaged("no superblock is intact"))?;
        state.superblock = Some(superblock.clone());
        for (index, device) in superblock.devices.iter().enumerate() {
            state.check_device(
                DeviceNumber::at(index),
                device.uuid,
                device.layout.device_blocks,
            )?;
        }
        self.adopt(&superblock);
        self.state.step = Step::Loading(load::Loading::new());
        let unknown = label.features.read_only_compatible & !FEATURES_KNOWN.read_only_compatible;
        self.read_only_features = unknown;
        Ok(())
    }

    fn adopt(&mut self, superblock: &Superblock) {
        self.engine.pool.members.pool_uuid = superblock.pool_uuid;
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
        self.state.outstanding = self.engine.pool.set_heads_aside();
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
    fn new(tag: Tag, sizes: Vec<u64>, expected_pool_uuid: Option<[u8; 16]>, step: Step) -> Self {
        Self {
            tag,
            sizes,
            labels: Vec::new(),
            expected_pool_uuid,
            superblock: None,
            step,
            wanted: VecDeque::new(),
            outstanding: 0,
            check_only: false,
        }
    }
}

/// Blocks that are zeroed with one write; the length of a journal is a multiple of it.
const FIRST_WRITE_BLOCKS: usize = 256;

/// The labels of all devices, and zeros where an earlier pool may have left superblocks, and all
/// over the journal: a file system under the pool then has nothing of its own to make durable with
/// a commit. What an earlier pool left in the journal would be told apart without them, by the unit
/// checksums, which begin anew with the pool's identity.
fn first_writes(spec: &PoolSpec, journal_blocks: u64) -> Vec<(Address, Rope)> {
    let zeros = Buffer::zeroed(FIRST_WRITE_BLOCKS * BLOCK as usize).freeze();
    let superblocks = SUPERBLOCKS.into_iter().chain(SUPERBLOCK_COPIES);
    let mut writes: Vec<_> = superblocks
        .map(|block| (block.on(DeviceNumber::FIRST), Rope::from(zeros.slice(..BLOCK as usize))))
        .collect();
    let journal = Run { start: JOURNAL_START.on(DeviceNumber::FIRST), blocks: journal_blocks };
    let journal = journal.addresses().step_by(FIRST_WRITE_BLOCKS);
    writes.extend(journal.map(|address| (address, zeros.clone().into())));
    for (index, device) in spec.devices.iter().enumerate() {
        let label = Label {
            pool_uuid: spec.pool_uuid,
            device_uuid: device.uuid,
            features: Features::default(),
            version: FORMAT_VERSION,
            index: index as u32,
        };
        let label = || Rope::from(label.emit().freeze());
        writes.extend(LABELS.into_iter().map(|block| (block.on(DeviceNumber::at(index)), label())));
    }
    writes
}

/// The intact label; two that are both intact but differ are damage.
fn choose_label(labels: &Labels) -> Result<Label, OpenError> {
    match labels {
        [Some(Ok(first)), Some(Ok(second))] if first != second => {
            Err(OpenError::Damaged("the two labels differ"))
        }
        [Some(Ok(label)), _] | [_, Some(Ok(label))] => Ok(*label),
        [Some(Err(LabelError::Foreign)), Some(Err(LabelError::Foreign))] => Err(OpenError::Foreign),
        _ => Err(OpenError::Damaged("neither label is intact")),
    }
}

/// The first unit's predecessor: ties the journal to this pool.
fn seed(pool_uuid: &[u8; 16], device_uuid: &[u8; 16]) -> u32 {
    crate::checksum::crc32c(&[*pool_uuid, *device_uuid].concat())
}
