//! Probes on copies of the disks as a power failure left them, damaged on purpose: the pool must
//! refuse, repair or report what this run itself will not meet.

use std::time::Duration;

use block::BLOCK;
use store::{Failure, Io, OpenContext, OpenError, OpenMode, Options, ScrubStatus, Store, Tag};

use super::presence::slots_of;
use super::{Answer, OWN_TAG, POOL_UUID, World};
use crate::audit::Audit;
use crate::disk::SimDisk;
use crate::oracle::{Violation, violation};
use crate::profile::Profile;
use crate::trace::Event;

/// Where the labels of a device lie.
const LABELS: [u64; 2] = [1, 2];

/// What no program knows: bytes of a label that say so.
const UNKNOWN: [(&str, usize); 2] = [("format version", 8), ("incompatible feature", 48)];

/// Steps of a tenth of a second in which a scrub of a small pool must come to its end.
const SCRUB_STEPS_MAX: u64 = 10_000;

/// A copy of the pool that was opened.
pub(super) struct Copy {
    pub(super) disks: Vec<SimDisk>,
    pub(super) store: Store,
    now: u64,
}

impl World {
    /// After a power failure, before recovery.
    pub(super) fn probe(&mut self) -> Result<(), Violation> {
        if self.audit.is_none() {
            return Ok(());
        }
        if self.profile.mirrors.is_some() {
            return self.probe_copies();
        }
        if !self.random.one_in(self.profile.probe_one_in) {
            return Ok(());
        }
        match self.random.below(22) {
            0..8 => self.lose_a_part_of_the_journal(),
            8..11 => self.open_an_unknown_format(),
            // Where devices leave, slots are not in the order of the devices.
            11..15 if self.profile.departures.is_some() => self.open_an_unknown_format(),
            11..15 => self.open_with_wrong_devices(),
            15..19 => self.damage_one_of_two_copies(),
            _ => self.damage_data(),
        }
    }

    /// I19: a unit is gone that was acknowledged, and that a later one says was. The pool must not
    /// be opened as if it had never been.
    fn lose_a_part_of_the_journal(&mut self) -> Result<(), Violation> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let units = audit.witnessed_units(&self.slots.view(&self.disks));
        if units.is_empty() {
            return Ok(());
        }
        let unit = units[self.random.below(units.len() as u64) as usize];
        let mut copy = self.copy_of_disks();
        let lost = unit.block + self.random.below(unit.blocks);
        let content = match self.random.below(3) {
            0 => vec![0; BLOCK as usize],
            1 => vec![0xa5; BLOCK as usize],
            _ => {
                let mut bytes = copy[0].stable_block(lost).to_vec();
                bytes[self.random.below(48) as usize] ^= 4;
                bytes
            }
        };
        copy[0].damage(lost, content);
        self.figures.probes += 1;
        self.trace.add(self.now, Event::Note("a copy of the pool loses a part of its journal"));
        match open_copy(&mut copy, &self.profile) {
            Some(Err(Failure::Open(OpenError::JournalLost(loss))))
                if loss.first_commit == unit.sequence =>
            {
                self.open_without_what_is_lost(&mut copy, &loss)
            }
            other => {
                let (sequence, result) = (unit.sequence, other.map(|answer| answer.map(drop)));
                violation(format!(
                    "unit {sequence} of the journal was acknowledged and is lost, but opening was \
                     answered {result:?}"
                ))
            }
        }
    }

    /// I18: a pool of another format is refused as such.
    fn open_an_unknown_format(&mut self) -> Result<(), Violation> {
        let (what, byte) = self.random.pick(&UNKNOWN);
        let mut copy = self.copy_of_disks();
        for disk in &mut copy {
            for label in LABELS {
                let mut bytes = disk.stable_block(label).to_vec();
                bytes[byte] ^= 0x40;
                let end = BLOCK as usize - 4;
                let crc = crc32c::crc32c(&bytes[..end]);
                bytes[end..].copy_from_slice(&crc.to_le_bytes());
                disk.damage(label, bytes);
            }
        }
        self.figures.probes += 1;
        match open_copy(&mut copy, &self.profile) {
            Some(Err(Failure::Open(OpenError::Unknown { .. }))) => Ok(()),
            other => {
                let result = other.map(|answer| answer.map(drop));
                violation(format!("a pool with an unknown {what} was answered {result:?}"))
            }
        }
    }

    /// Devices are found by their labels, whatever their order is.
    fn open_in_another_order(&mut self, copy: &mut [SimDisk]) -> Result<(), Violation> {
        self.figures.probes += 1;
        match open_copy(copy, &self.profile) {
            Some(Ok(_)) => Ok(()),
            other => {
                let result = other.map(|answer| answer.map(drop));
                violation(format!("a pool with devices in another order was answered {result:?}"))
            }
        }
    }

    /// A device that is missing or too short is told; nothing is opened.
    fn open_with_wrong_devices(&mut self) -> Result<(), Violation> {
        let mut copy = self.copy_of_disks();
        let Some(audit) = &self.audit else { return Ok(()) };
        let sizes = audit.device_sizes();
        let devices = sizes.len() as u64;
        let is_labelled = |disk: &SimDisk| {
            LABELS.iter().any(|&label| disk.stable_block(label).iter().any(|&byte| byte != 0))
        };
        // A device that was joining when the power failed may be one of the pool, or not.
        if copy.split_off(sizes.len()).iter().any(is_labelled) {
            return Ok(());
        }
        let (one, other) = (self.random.below(devices), self.random.below(devices));
        let refused: fn(&OpenError) -> bool = match self.random.below(3) {
            0 if devices > 1 => {
                copy.pop();
                |error| matches!(error, OpenError::Missing { .. })
            }
            1 if one != other => {
                copy.swap(one as usize, other as usize);
                return self.open_in_another_order(&mut copy);
            }
            _ => {
                let shorter = sizes[one as usize] - self.random.between(1, 1000) * BLOCK;
                copy[one as usize].shrink(shorter);
                |error| matches!(error, OpenError::Short { .. })
            }
        };
        self.figures.probes += 1;
        let writes =
            |copy: &[SimDisk]| copy.iter().map(|disk| disk.statistics().writes).sum::<u64>();
        match open_copy(&mut copy, &self.profile) {
            Some(Err(Failure::Open(error))) if refused(&error) && writes(&copy) == 0 => Ok(()),
            other => {
                let result = other.map(|answer| answer.map(drop));
                violation(format!("a pool with wrong devices was answered {result:?}"))
            }
        }
    }

    /// One of two copies of a page is damaged: the other one serves, and the scrub finds nothing
    /// that is lost.
    fn damage_one_of_two_copies(&mut self) -> Result<(), Violation> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let (what, device, block) = audit.pick_of_two_copies(&mut self.random);
        let mut disks = self.copy_of_disks();
        disks[self.slots.reference(device)].damage(block, vec![0x5a; BLOCK as usize]);
        self.figures.probes += 1;
        let told = |result: String| {
            violation(format!(
                "one of two copies of {what} is damaged, in block {block} of device {device}: {result}"
            ))
        };
        let mut copy = match Copy::open(disks, &self.profile) {
            Ok(copy) => copy,
            Err(error) => return told(error),
        };
        match copy.scrub() {
            Some(status) if status.bad_blocks == 0 && status.bad_pages == 0 => Ok(()),
            other => told(format!("{other:?}")),
        }
    }

    /// A block of data is damaged: the scrub finds it, and says whose it is.
    fn damage_data(&mut self) -> Result<(), Violation> {
        let mut copy = match Copy::open(self.copy_of_disks(), &self.profile) {
            Ok(copy) => copy,
            Err(error) => {
                return violation(format!("a copy of the pool cannot be opened: {error}"));
            }
        };
        let audit = Audit::of(&self.slots.view(&copy.disks))?;
        let Some((device, block)) = audit.and_then(|audit| audit.pick_data(&mut self.random))
        else {
            return Ok(());
        };
        copy.disks[self.slots.reference(device)].damage(block, vec![0x5a; BLOCK as usize]);
        self.figures.probes += 1;
        match copy.scrub() {
            // What was moved from a device may be referred to by nobody else.
            Some(status)
                if status.bad_blocks == 1
                    && (!status.bad.is_empty() || self.profile.departures.is_some()) =>
            {
                Ok(())
            }
            other => violation(format!(
                "data in block {block} of device {device} is damaged, the scrub finds {other:?}"
            )),
        }
    }

    pub(super) fn copy_of_disks(&mut self) -> Vec<SimDisk> {
        let random = self.random.fork();
        self.disks.iter().map(|disk| disk.copy_of_stable(random.clone())).collect()
    }
}

/// Opens a pool, one device operation after the other; `None` if that does not come to an end.
fn open_copy(disks: &mut [SimDisk], profile: &Profile) -> Option<Answer> {
    run(&mut open(disks, profile), disks)
}

/// Does what the engine wishes, until it wishes no more.
pub(super) fn run(store: &mut Store, disks: &mut [SimDisk]) -> Option<Answer> {
    loop {
        while let Some(Io { id, device, operation }) = store.next_io() {
            let disk = &mut disks[usize::from(device)];
            disk.submit(0, id.0, operation);
            let completion = disk.complete_next()?;
            store.completed(id, completion.result);
        }
        let Some(membership) = store.next_membership() else { break };
        store.membership_witnessed(membership);
    }
    store.next_done().map(|done| done.result)
}

impl Copy {
    /// Opens a pool that must open; otherwise says what came of it.
    pub(super) fn open(disks: Vec<SimDisk>, profile: &Profile) -> Result<Self, String> {
        Self::open_as(disks, profile, OpenMode::ReadWrite)
    }

    /// The same in another mode.
    pub(super) fn open_as(
        mut disks: Vec<SimDisk>,
        profile: &Profile,
        mode: OpenMode,
    ) -> Result<Self, String> {
        let mut store = open_as(&disks, profile, mode);
        match run(&mut store, &mut disks) {
            Some(Ok(_)) => Ok(Self { disks, store, now: 0 }),
            other => Err(format!("{:?}", other.map(|answer| answer.map(drop)))),
        }
    }

    /// Opens a pool of which some slots are plugged in.
    pub(super) fn open_with(
        mut disks: Vec<SimDisk>,
        opened: &[bool],
        context: &OpenContext,
        profile: &Profile,
    ) -> Result<Self, String> {
        let slots = slots_of(&disks, opened);
        let mut store = Store::open(&slots, context.clone(), profile.options(), Tag(OWN_TAG));
        match run(&mut store, &mut disks) {
            Some(Ok(_)) => Ok(Self { disks, store, now: 0 }),
            other => Err(format!("{:?}", other.map(|answer| answer.map(drop)))),
        }
    }

    /// A copy that is just being opened.
    pub(super) fn with(disks: Vec<SimDisk>, store: Store) -> Self {
        Self { disks, store, now: 0 }
    }

    /// Scrubs everything; `None` if that does not come to an end.
    pub(super) fn scrub(&mut self) -> Option<ScrubStatus> {
        self.store.start_scrub();
        for _ in 0..SCRUB_STEPS_MAX {
            run(&mut self.store, &mut self.disks);
            if !self.store.scrub_status().running {
                return Some(self.store.scrub_status());
            }
            self.now += 100;
            self.store.tick(Duration::from_millis(self.now));
        }
        None
    }
}

/// Begins to open the pool on these disks.
pub(super) fn open(disks: &[SimDisk], profile: &Profile) -> Store {
    open_as(disks, profile, OpenMode::ReadWrite)
}

/// The same in another mode.
pub(super) fn open_as(disks: &[SimDisk], profile: &Profile, mode: OpenMode) -> Store {
    let slots = slots_of(disks, &vec![true; disks.len()]);
    let options = Options { mode, ..profile.options() };
    Store::open(&slots, OpenContext::expecting(Some(POOL_UUID)), options, Tag(OWN_TAG))
}
