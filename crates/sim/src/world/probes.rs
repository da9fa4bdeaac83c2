//! What the pool must do on disks that it will not meet in this run: copies of the disks as a
//! power failure left them, damaged on purpose.

use block::BLOCK;
use store::{Failure, Io, OpenError, Store, Tag};

use super::{Answer, OWN_TAG, POOL_UUID, World};
use crate::disk::SimDisk;
use crate::oracle::{Violation, violation};
use crate::profile::Profile;
use crate::trace::Event;

/// Where the labels of a device lie.
const LABELS: [u64; 2] = [1, 2];

/// What no program knows: bytes of a label that say so.
const UNKNOWN: [(&str, usize); 2] = [("format version", 8), ("incompatible feature", 48)];

impl World {
    /// After a power failure, before recovery.
    pub(super) fn probe(&mut self) -> Result<(), Violation> {
        if self.audit.is_none() {
            return Ok(());
        }
        if self.random.percent(2) {
            self.lose_a_part_of_the_journal()?;
        }
        if self.random.one_in(100) {
            self.open_an_unknown_format()?;
        }
        Ok(())
    }

    /// I19: a unit is gone that was acknowledged, and that a later one says was. The pool must not
    /// be opened as if it had never been.
    fn lose_a_part_of_the_journal(&mut self) -> Result<(), Violation> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let units = audit.witnessed_units(&self.disks[..]);
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
            Some(Err(Failure::Open(OpenError::Damaged(_)))) => Ok(()),
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

    fn copy_of_disks(&mut self) -> Vec<SimDisk> {
        let random = self.random.fork();
        self.disks.iter().map(|disk| disk.copy_of_stable(random.clone())).collect()
    }
}

/// Opens a pool, one device operation after the other; `None` if that does not come to an end.
fn open_copy(disks: &mut [SimDisk], profile: &Profile) -> Option<Answer> {
    let mut store = open(disks, profile);
    while let Some(Io { id, device, operation }) = store.next_io() {
        let disk = &mut disks[usize::from(device)];
        disk.submit(0, id.0, operation);
        let completion = disk.complete_next()?;
        store.completed(id, completion.result);
    }
    store.next_done().map(|done| done.result)
}

/// Begins to open the pool on these disks.
pub(super) fn open(disks: &[SimDisk], profile: &Profile) -> Store {
    let sizes: Vec<u64> = disks.iter().map(SimDisk::size).collect();
    Store::open(&sizes, Some(POOL_UUID), profile.options(), Tag(OWN_TAG))
}
