//! Making and opening a pool: labels, superblock, space maps, volume table, journal.
//!
//! Everything is read and checked before anything is written; the first write is the checkpoint
//! that ends recovery, with the next epoch. Until it is durable the old one stays intact, so
//! recovery may be interrupted and repeated at any point.

mod journal;
mod load;

use std::collections::VecDeque;

use block::{BLOCK, DeviceResult, Rope};

use crate::bugs::planted;
use crate::error::{Failure, OpenError};
use crate::io::Waiter;
use crate::journal::{Journal, Position, Unit};
use crate::layout::{LABELS, SUPERBLOCKS};
use crate::limits::{DEVICE_BYTES_MAX, DEVICE_BYTES_MIN, VERIFY_READS_MAX};
use crate::map::Map;
use crate::space::Space;
use crate::status::Health;
use crate::store::{Outcome, Store, Tag};
use crate::superblock::{FORMAT_VERSION, Label, LabelError, Superblock};

/// A block that is to be read, and its checksum.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    token: u64,
    block: u64,
    blocks: u64,
}

/// What recovery waits for.
enum Step {
    /// Labels and superblocks.
    Heads { labels: [Option<Result<Label, LabelError>>; 2], superblocks: [Option<Superblock>; 2] },
    /// Space maps and volume table.
    Loading(load::Loading),
    /// Units of the journal.
    Journal(journal::Scan),
    /// Records are applied to the map.
    Replaying { units: VecDeque<Unit>, record: usize },
    /// The first blocks of a new pool are written.
    Formatting,
    /// The checkpoint that ends it all.
    Checkpoint,
}

/// A pool that is being made or opened.
pub(crate) struct Recovery {
    tag: Tag,
    size_bytes: u64,
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

    fn want(&mut self, token: u64, block: u64, blocks: u64) {
        self.wanted.push_back(Wanted { token, block, blocks });
    }
}

impl Store {
    /// Begins to write an empty pool.
    pub(crate) fn begin_format(&mut self, spec: &crate::PoolSpec, tag: Tag) {
        if !(DEVICE_BYTES_MIN..=DEVICE_BYTES_MAX).contains(&spec.size_bytes)
            || !self.space.layout.is_sound()
        {
            self.health = Health::Closed;
            return self.answer(tag, Err(Failure::Open(OpenError::Size)));
        }
        let label = Label {
            pool_uuid: spec.pool_uuid,
            device_uuid: spec.device_uuid,
            incompatible_features: 0,
            version: FORMAT_VERSION,
        };
        let mut recovery = Recovery::new(tag, spec.size_bytes, None, Step::Formatting);
        // What an earlier pool left must not be taken for this one's. Its journal is told apart by
        // the unit checksums, which begin anew with the pool's identity.
        let zeros = || Rope::from(block::Buffer::zeroed(BLOCK as usize).freeze());
        let writes = [
            (SUPERBLOCKS[0], zeros()),
            (SUPERBLOCKS[1], zeros()),
            (LABELS[0], Rope::from(label.emit().freeze())),
            (LABELS[1], Rope::from(label.emit().freeze())),
        ];
        recovery.outstanding = writes.len();
        self.recovery = Some(Box::new(recovery));
        let start =
            Position { previous_crc: seed(&spec.pool_uuid, &spec.device_uuid), ..self.applied };
        self.journal = Journal::new(self.space.layout.journal_blocks, 1, start);
        self.applied = start;
        for (block, data) in writes {
            self.submit_write(Waiter::Recovery { token: 0 }, block, data);
        }
    }

    /// Begins to read a pool.
    pub(crate) fn begin_open(
        &mut self,
        size_bytes: u64,
        expected_pool_uuid: Option<[u8; 16]>,
        tag: Tag,
    ) {
        let step = Step::Heads { labels: [None, None], superblocks: [None, None] };
        let mut recovery = Recovery::new(tag, size_bytes, expected_pool_uuid, step);
        if size_bytes < (SUPERBLOCKS[1] + 1) * BLOCK {
            let expected = DEVICE_BYTES_MIN;
            self.recovery = Some(Box::new(recovery));
            return self.recovery_failed(OpenError::Short { actual: size_bytes, expected });
        }
        for (token, block) in LABELS.into_iter().chain(SUPERBLOCKS).enumerate() {
            recovery.want(token as u64, block, 1);
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
        for Wanted { token, block, blocks } in wanted {
            self.submit_read(Waiter::Recovery { token }, block, blocks);
        }
    }

    pub(crate) fn recovery_io_done(&mut self, token: u64, result: DeviceResult) {
        let Some(recovery) = &mut self.recovery else { return };
        recovery.outstanding -= 1;
        let outcome = match result {
            Err(error) => Err(OpenError::Device(error)),
            Ok(buffer) => self.recovery_took(token, buffer.as_deref().unwrap_or_default()),
        };
        match outcome {
            Err(error) => self.recovery_failed(error),
            Ok(()) => self.read_wanted(),
        }
    }

    fn recovery_took(&mut self, token: u64, bytes: &[u8]) -> Result<(), OpenError> {
        let Some(mut recovery) = self.recovery.take() else { return Ok(()) };
        let outcome = match &mut recovery.step {
            Step::Heads { labels, superblocks } => {
                match token {
                    0 | 1 => labels[token as usize] = Some(Label::parse(bytes)),
                    _ => superblocks[token as usize - 2] = Superblock::parse(bytes),
                }
                Ok(())
            }
            Step::Loading(_) => self.take_page(&mut recovery, token, bytes),
            Step::Journal(scan) => scan.take(token, bytes),
            Step::Replaying { .. } | Step::Formatting | Step::Checkpoint => Ok(()),
        };
        self.recovery = Some(recovery);
        outcome
    }

    /// Goes to the next step when a step has all it waited for.
    pub(crate) fn advance_recovery(&mut self) {
        while let Some(recovery) = &self.recovery {
            if recovery.outstanding > 0 || !recovery.wanted.is_empty() || self.applier_waits {
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
            Step::Formatting => {
                recovery.step = Step::Checkpoint;
                self.recovery = Some(recovery);
                self.start_checkpoint();
                return Ok(false);
            }
            Step::Checkpoint => Ok(false),
        };
        if let Step::Replaying { units, .. } = &recovery.step
            && units.is_empty()
            && outcome.is_ok()
        {
            recovery.step = Step::Checkpoint;
            self.recovery = Some(recovery);
            self.end_replay();
            return Ok(false);
        }
        self.recovery = Some(recovery);
        outcome
    }

    fn choose_superblock(&mut self, recovery: &mut Recovery) -> Result<(), OpenError> {
        let Step::Heads { labels, superblocks } = &recovery.step else { return Ok(()) };
        let label = choose_label(labels)?;
        if label.version != FORMAT_VERSION || label.incompatible_features != 0 {
            let (version, features) = (label.version, label.incompatible_features);
            return Err(OpenError::Unknown { version, features });
        }
        if recovery.expected_pool_uuid.is_some_and(|expected| expected != label.pool_uuid) {
            return Err(OpenError::OtherPool);
        }
        let ours = |superblock: &&Superblock| superblock.pool_uuid == label.pool_uuid;
        let superblock = superblocks
            .iter()
            .flatten()
            .filter(ours)
            .max_by_key(|superblock| superblock.generation)
            .ok_or(OpenError::Damaged("neither superblock is intact"))?
            .clone();
        let expected = superblock.layout.device_blocks * BLOCK;
        if recovery.size_bytes < expected {
            return Err(OpenError::Short { actual: recovery.size_bytes, expected });
        }
        self.adopt(&superblock);
        recovery.step = Step::Loading(load::Loading::new(&superblock));
        recovery.superblock = Some(superblock);
        Ok(())
    }

    fn adopt(&mut self, superblock: &Superblock) {
        self.pool_uuid = superblock.pool_uuid;
        self.generation = superblock.generation;
        self.space = Space::new(superblock.layout);
        self.map = Map::new((self.options.memory_bytes / BLOCK) as usize);
        let head = Position {
            block: superblock.journal_position,
            sequence: superblock.journal_sequence,
            previous_crc: superblock.journal_crc,
        };
        self.journal = Journal::new(superblock.layout.journal_blocks, superblock.epoch, head);
        self.applied = head;
    }

    /// Applies units to the map; `false` if it waits for a page.
    fn replay(&mut self, units: &mut VecDeque<Unit>, record: &mut usize) -> bool {
        while let Some(unit) = units.front() {
            let Some(next) = unit.records.get(*record) else {
                self.statistics.replayed_units += 1;
                units.pop_front();
                *record = 0;
                continue;
            };
            let next = next.clone();
            if let Some(missing) = self.missing_for_record(&next) {
                self.applier_waits = true;
                self.load_page(missing, crate::store::PageWaiter::Applier);
                return false;
            }
            self.apply(&next);
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
        if !planted!(self.bugs, NoEpochBump) {
            self.journal.epoch += 1;
        }
        self.start_checkpoint();
    }

    /// The pool serves.
    pub(crate) fn recovered(&mut self) {
        let Some(recovery) = self.recovery.take() else { return };
        self.health = Health::Ready;
        self.answer(recovery.tag, Ok(Outcome::Changed));
    }

    pub(crate) fn recovery_failed(&mut self, error: OpenError) {
        let Some(recovery) = self.recovery.take() else { return };
        self.checkpoint = None;
        self.health = Health::Closed;
        self.wishes.clear();
        self.waiters.clear();
        self.answer(recovery.tag, Err(Failure::Open(error)));
    }
}

impl Recovery {
    fn new(tag: Tag, size_bytes: u64, expected_pool_uuid: Option<[u8; 16]>, step: Step) -> Self {
        Self {
            tag,
            size_bytes,
            expected_pool_uuid,
            superblock: None,
            step,
            wanted: VecDeque::new(),
            outstanding: 0,
            check_only: false,
        }
    }
}

/// The intact label; two that are both intact but differ are damage.
fn choose_label(labels: &[Option<Result<Label, LabelError>>; 2]) -> Result<Label, OpenError> {
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
