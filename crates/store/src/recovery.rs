//! Pool creation and crash recovery: reads labels, superblock, space maps and volume table, then
//! replays the journal.
//!
//! Everything is read and checked before anything is written; the first write is the checkpoint
//! that ends recovery, with the next epoch. Until it is durable the old one stays intact, so
//! recovery may be interrupted and repeated at any point.

mod journal;
mod load;
mod loss;

pub use loss::JournalLoss;

use std::collections::VecDeque;

use block::{BLOCK, Buffer, DeviceError, DeviceResult, Rope};

use crate::address::{Address, Run};
use crate::bugs::planted;
use crate::error::{Failure, OpenError};
use crate::io::Waiter;
use crate::journal::{Journal, Position, Unit};
use crate::layout::{JOURNAL_START, LABELS, Layout, SUPERBLOCK_COPIES, SUPERBLOCKS};
use crate::limits::{DEVICE_BYTES_MAX, DEVICE_BYTES_MIN, DEVICES_MAX, VERIFY_READS_MAX};
use crate::loading::READ_ATTEMPTS;
use crate::map::Map;
use crate::options::OpenMode;
use crate::space::{Preparation, Space};
use crate::status::Health;
use crate::store::{Outcome, Store, Tag};
use crate::superblock::{FEATURES_KNOWN, FORMAT_VERSION, Features, Label, LabelError, Superblock};

/// Tokens of reads of superblocks; those of labels are lower.
const SUPERBLOCK_TOKEN: u64 = 1 << 16;

/// errno: no space left on the device.
pub(crate) const ENOSPC: i32 = 28;

/// Bytes of a device that labels and superblocks need.
const HEADS_BYTES: u64 = SUPERBLOCK_COPIES[1].offset() + BLOCK;

/// Blocks that are to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    token: u64,
    run: Run,
    /// How often they were read already.
    attempt: u8,
}

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
    Housing,
    /// Room for the checkpoint's pages.
    Preparing,
    /// The checkpoint that ends it all.
    Checkpoint,
}

/// A pool that is being made or opened.
pub(crate) struct Recovery {
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

impl Recovery {
    pub(crate) fn tag(&self) -> Tag {
        self.tag
    }

    fn want(&mut self, token: u64, run: Run) {
        self.wanted.push_back(Wanted { token, run, attempt: 0 });
    }

    /// Takes a label or superblock.
    fn take_head(&mut self, token: u64, bytes: &[u8]) -> Taken {
        if token < SUPERBLOCK_TOKEN {
            let label = Label::parse(bytes);
            let is_whole = label.is_ok();
            self.labels[token as usize / 2][token as usize % 2] = Some(label);
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
    fn label(&self, device: usize) -> Result<Label, OpenError> {
        choose_label(self.labels.get(device).ok_or(OpenError::Missing { index: device })?)
    }

    /// Checks that a device is the one that the pool means, and large enough.
    fn check_device(&self, index: usize, uuid: [u8; 16], blocks: u64) -> Result<(), OpenError> {
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
        match self.label(index) {
            Ok(label) if ours(&label) => Ok(()),
            Err(OpenError::Damaged(what)) => Err(OpenError::Damaged(what)),
            _ => Err(OpenError::WrongDevice { index }),
        }
    }
}

impl Store {
    /// Begins to write an empty pool.
    pub(crate) fn begin_format(&mut self, spec: &crate::PoolSpec, layouts: &[Layout], tag: Tag) {
        let pages: usize = layouts.iter().map(Layout::first_level_pages).sum();
        let sizes = spec.devices.iter().map(|device| device.size_bytes);
        let fits = !spec.devices.is_empty()
            && spec.devices.len() <= DEVICES_MAX
            && sizes.clone().all(|size| (DEVICE_BYTES_MIN..=DEVICE_BYTES_MAX).contains(&size))
            && layouts.iter().enumerate().all(|(index, layout)| layout.is_sound(index == 0))
            && pages <= crate::layout::FIRST_LEVEL_MAX;
        if !fits {
            self.health = Health::Closed;
            return self.answer(tag, Err(Failure::Open(OpenError::Size)));
        }
        self.pool.space = Space::new(layouts, self.pool.options.groups());
        self.pool.members.device_uuids = spec.devices.iter().map(|device| device.uuid).collect();
        let first = spec.devices[0].uuid;
        let start = Position { previous_crc: seed(&spec.pool_uuid, &first), ..self.applied };
        self.journal = Journal::new(layouts[0].journal_blocks, 1, start);
        self.applied = start;
        let first_writes = first_writes(spec, layouts[0].journal_blocks);
        let step = Step::SettingAside { first_writes };
        let mut recovery = Recovery::new(tag, sizes.collect(), None, step);
        recovery.outstanding = self.set_heads_aside();
        self.recovery = Some(Box::new(recovery));
    }

    /// Begins to read a pool.
    pub(crate) fn begin_open(
        &mut self,
        sizes: &[u64],
        expected_pool_uuid: Option<[u8; 16]>,
        tag: Tag,
    ) {
        let step = Step::Heads { superblocks: Vec::new() };
        let mut recovery = Recovery::new(tag, sizes.to_vec(), expected_pool_uuid, step);
        let first = sizes.first().copied().unwrap_or(0);
        if first < HEADS_BYTES {
            self.recovery = Some(Box::new(recovery));
            let expected = DEVICE_BYTES_MIN;
            return self.recovery_failed(OpenError::Short { actual: first, expected });
        }
        for (device, &size) in sizes.iter().enumerate().take(DEVICES_MAX) {
            recovery.labels.push([None, None]);
            for (copy, block) in LABELS.into_iter().enumerate() {
                if size >= HEADS_BYTES {
                    recovery.want((2 * device + copy) as u64, Run::of(block.on(device)));
                }
            }
        }
        for (place, block) in SUPERBLOCKS.into_iter().chain(SUPERBLOCK_COPIES).enumerate() {
            recovery.want(SUPERBLOCK_TOKEN + place as u64, Run::of(block.on(0)));
        }
        self.recovery = Some(Box::new(recovery));
        self.read_wanted();
    }

    fn read_wanted(&mut self) {
        let Some(recovery) = &mut self.recovery else { return };
        let mut wanted = Vec::new();
        while recovery.outstanding < VERIFY_READS_MAX
            && let Some(read) = recovery.wanted.pop_front()
        {
            recovery.outstanding += 1;
            wanted.push(read);
        }
        for wanted in wanted {
            self.pool.io.read(Waiter::Recovery { wanted }, wanted.run);
        }
    }

    /// A block of a new pool is written, or space is set aside. A pool that is there serves
    /// without.
    pub(crate) fn first_write_done(&mut self, result: Result<(), DeviceError>) {
        let Some(recovery) = &mut self.recovery else { return };
        recovery.outstanding -= 1;
        let is_new = recovery.superblock.is_none();
        if let Err(error) = result
            && is_new
        {
            self.recovery_failed(match error {
                DeviceError::Os(ENOSPC) => OpenError::NoSpace,
                error => OpenError::Device(error),
            });
        }
    }

    pub(crate) fn recovery_read(&mut self, wanted: Wanted, result: DeviceResult) {
        let Some(recovery) = &mut self.recovery else { return };
        recovery.outstanding -= 1;
        let last = wanted.attempt + 1 == READ_ATTEMPTS;
        let outcome = match result {
            Err(error) if last => Err(OpenError::Device(error)),
            Err(_) => Ok(Taken::Again),
            Ok(buffer) => self.recovery_took(wanted, buffer.unwrap_or_else(|| Buffer::zeroed(0))),
        };
        match outcome {
            Err(error) => return self.recovery_failed(error),
            Ok(Taken::Again) if !last => self.want_again(wanted),
            Ok(_) => {}
        }
        self.read_wanted();
    }

    fn want_again(&mut self, wanted: Wanted) {
        let Some(recovery) = &mut self.recovery else { return };
        let attempt = wanted.attempt + 1;
        let run = match &recovery.step {
            Step::Loading(_) if planted!(self.pool.bugs, CopyNeverRead) => wanted.run,
            Step::Loading(loading) => Run::of(loading.address(wanted.token, attempt)),
            _ => wanted.run,
        };
        recovery.wanted.push_back(Wanted { run, attempt, ..wanted });
    }

    fn recovery_took(&mut self, wanted: Wanted, bytes: Buffer) -> Result<Taken, OpenError> {
        let Some(mut recovery) = self.recovery.take() else { return Ok(Taken::Whole) };
        let outcome = match &mut recovery.step {
            Step::Heads { .. } => Ok(recovery.take_head(wanted.token, &bytes)),
            Step::Loading(_) => self.take_page(&mut recovery, wanted, &bytes),
            Step::Journal(scan) => Ok(scan.take(wanted, bytes)),
            _ => Ok(Taken::Whole),
        };
        self.recovery = Some(recovery);
        outcome
    }

    /// Goes to the next step when a step has all it waited for.
    pub(crate) fn advance_recovery(&mut self) {
        while let Some(recovery) = &self.recovery {
            let reading = recovery.outstanding > 0 || !recovery.wanted.is_empty();
            let loading = !self.groups_loading.is_empty() || !self.housing.is_empty();
            if reading || self.applier_waits || loading {
                return;
            }
            match self.next_step() {
                Ok(true) => self.read_wanted(),
                Ok(false) => return,
                Err(error) => return self.recovery_failed(error),
            }
        }
    }

    /// Takes one step; `false` if it waits for an I/O that is under way.
    fn next_step(&mut self) -> Result<bool, OpenError> {
        let Some(mut recovery) = self.recovery.take() else { return Ok(false) };
        let outcome = match &mut recovery.step {
            Step::Heads { .. } => self.choose_superblock(&mut recovery).map(|()| true),
            Step::Loading(_) => self.load_next(&mut recovery).map(|()| true),
            Step::Journal(_) => self.scan_next(&mut recovery).map(|()| true),
            Step::Replaying { units, record } => Ok(self.replay(units, record)),
            Step::SettingAside { first_writes } => {
                let first_writes = std::mem::take(first_writes);
                recovery.outstanding = first_writes.len();
                recovery.step = Step::Housing;
                for (block, data) in first_writes {
                    self.pool.io.write(Waiter::Format, block, data);
                }
                Ok(true)
            }
            Step::Housing => return self.house_in_recovery(recovery),
            Step::Preparing => return self.prepare_checkpoint(recovery),
            Step::Checkpoint => Ok(false),
        };
        if let Step::Replaying { units, .. } = &recovery.step
            && units.is_empty()
            && outcome.is_ok()
        {
            recovery.step = Step::SettingAside { first_writes: Vec::new() };
            self.recovery = Some(recovery);
            self.end_replay();
            return Ok(self.recovery.is_some());
        }
        self.recovery = Some(recovery);
        outcome
    }

    /// Sets aside what is guaranteed. A pool that is there serves with what it gets.
    fn house_in_recovery(&mut self, recovery: Box<Recovery>) -> Result<bool, OpenError> {
        let is_new = recovery.superblock.is_none();
        self.recovery = Some(recovery);
        if self.house_guaranteed() {
            return Ok(false);
        }
        if is_new {
            self.check_housed()?;
        }
        if let Some(recovery) = &mut self.recovery {
            recovery.step = Step::Preparing;
        }
        Ok(true)
    }

    /// The checkpoint that ends recovery begins when its pages have room. A pool that has none can
    /// still be read.
    fn prepare_checkpoint(&mut self, mut recovery: Box<Recovery>) -> Result<bool, OpenError> {
        recovery.step = Step::Checkpoint;
        let preparation = self.preparation();
        if let Preparation::Load(_) = preparation {
            recovery.step = Step::Preparing;
        }
        self.recovery = Some(recovery);
        match preparation {
            Preparation::Ready => self.start_checkpoint(),
            Preparation::Load(group) => {
                self.load_group(group, None, true);
                return Ok(self.groups_loading.is_empty());
            }
            Preparation::NoRoom => {
                self.recovered();
                self.fail("there is no room for a checkpoint".to_owned());
            }
        }
        Ok(false)
    }

    fn choose_superblock(&mut self, recovery: &mut Recovery) -> Result<(), OpenError> {
        let label = recovery.label(0)?;
        let unknown = label.features.incompatible & !FEATURES_KNOWN.incompatible;
        if label.version != FORMAT_VERSION || unknown != 0 {
            return Err(OpenError::Unknown { version: label.version, features: unknown });
        }
        if recovery.expected_pool_uuid.is_some_and(|expected| expected != label.pool_uuid) {
            return Err(OpenError::OtherPool);
        }
        if label.index != 0 {
            return Err(OpenError::WrongDevice { index: 0 });
        }
        let Step::Heads { superblocks } = &mut recovery.step else { return Ok(()) };
        let superblock = std::mem::take(superblocks)
            .into_iter()
            .filter(|superblock| superblock.pool_uuid == label.pool_uuid)
            .max_by_key(|superblock| superblock.generation)
            .ok_or(OpenError::Damaged("no superblock is intact"))?;
        recovery.superblock = Some(superblock.clone());
        for (index, device) in superblock.devices.iter().enumerate() {
            recovery.check_device(index, device.uuid, device.layout.device_blocks)?;
        }
        self.adopt(&superblock);
        recovery.step = Step::Loading(load::Loading::new());
        let unknown = label.features.read_only_compatible & !FEATURES_KNOWN.read_only_compatible;
        self.read_only_features = unknown;
        Ok(())
    }

    fn adopt(&mut self, superblock: &Superblock) {
        self.pool.members.pool_uuid = superblock.pool_uuid;
        self.generation = superblock.generation;
        let layouts: Vec<_> = superblock.devices.iter().map(|device| device.layout).collect();
        self.pool.space = Space::new(&layouts, self.pool.options.groups());
        self.pool.space.pages = superblock.pages;
        self.pool.members.device_uuids =
            superblock.devices.iter().map(|device| device.uuid).collect();
        self.pool.map = Map::new(self.pool.options.clean_pages());
        let head = Position {
            block: superblock.journal_position,
            sequence: superblock.journal_sequence,
            previous_crc: superblock.journal_crc,
        };
        self.journal = Journal::new(layouts[0].journal_blocks, superblock.epoch, head);
        self.applied = head;
    }

    /// Applies units to the map; `false` if it waits for a page.
    fn replay(&mut self, units: &mut VecDeque<Unit>, record: &mut usize) -> bool {
        while let Some(unit) = units.front() {
            let Some(next) = unit.records.get(*record) else {
                self.pool.statistics.replayed_units += 1;
                units.pop_front();
                *record = 0;
                continue;
            };
            let next = next.clone();
            if let Some(missing) = self.pool.missing_for_record(&next) {
                self.applier_waits = true;
                self.load_page(missing, crate::loading::PageWaiter::Applier);
                return false;
            }
            self.pool.apply(&next);
            *record += 1;
        }
        true
    }

    /// Ends recovery before anything is written: the pool can be audited, and nothing else.
    pub(crate) fn check_only(&mut self) {
        if let Some(recovery) = &mut self.recovery {
            recovery.check_only = true;
        }
    }

    fn end_replay(&mut self) {
        if self.recovery.as_ref().is_some_and(|recovery| recovery.check_only) {
            self.recovered();
            self.health = Health::Closed;
            return;
        }
        if self.pool.options.mode == OpenMode::ReadOnly {
            self.recovered();
            return self.fail(match &self.journal_loss {
                Some(loss) => format!("it was opened read-only, as it was before a loss: {loss}"),
                None => "it was opened read-only".to_owned(),
            });
        }
        if self.read_only_features != 0 {
            let features = self.read_only_features;
            self.recovered();
            return self
                .fail(format!("it has features {features:#x}, which a newer program knows"));
        }
        if !self.keeps_epoch() {
            self.journal.epoch += 1;
        }
        let heads = self.set_heads_aside();
        if let Some(recovery) = &mut self.recovery {
            recovery.outstanding = heads;
        }
    }

    /// Whether recovery goes on in the same epoch, which is a mistake.
    fn keeps_epoch(&self) -> bool {
        let keeps_if_rewound = planted!(self.pool.bugs, RewindKeepsEpoch);
        match &self.journal_loss {
            Some(_) if keeps_if_rewound => true,
            Some(_) | None => planted!(self.pool.bugs, NoEpochBump),
        }
    }

    /// The pool serves.
    pub(crate) fn recovered(&mut self) {
        let Some(recovery) = self.recovery.take() else { return };
        self.health = Health::Ready;
        // Changes that the journal replayed were counted before the restart.
        self.pool.volumes.clear_reclaimed();
        self.answer(recovery.tag, Ok(Outcome::Changed));
    }

    pub(crate) fn recovery_failed(&mut self, error: OpenError) {
        let Some(recovery) = self.recovery.take() else { return };
        self.checkpoint = None;
        self.health = Health::Closed;
        self.pool.io.clear();
        self.answer(recovery.tag, Err(Failure::Open(error)));
    }
}

impl Recovery {
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
fn first_writes(spec: &crate::PoolSpec, journal_blocks: u64) -> Vec<(Address, Rope)> {
    let zeros = Buffer::zeroed(FIRST_WRITE_BLOCKS * BLOCK as usize).freeze();
    let superblocks = SUPERBLOCKS.into_iter().chain(SUPERBLOCK_COPIES);
    let mut writes: Vec<_> =
        superblocks.map(|block| (block.on(0), Rope::from(zeros.slice(..BLOCK as usize)))).collect();
    let journal = Run { start: JOURNAL_START.on(0), blocks: journal_blocks };
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
        writes.extend(LABELS.into_iter().map(|block| (block.on(index), label())));
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
