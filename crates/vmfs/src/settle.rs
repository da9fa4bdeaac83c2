//! Rollback of a transaction that the disk refused in the middle (an array without space, say), and
//! cleaning up after one: sectors are written as they were, the journal record is cleared, locks
//! are given back. What the disk refuses of that, too, is kept and tried again before the volume
//! does anything else. If the host dies before, the next one finds its locks and its journal record
//! and makes the changes: then, too, all of them are made or none.

use crate::bytes::Sector;
use crate::journal::Changes;
use crate::transaction::Held;
use crate::volume::Volume;
use crate::{Disk, Error, Result};

/// What is still to be done after a transaction. While there is anything, its locks are held.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    /// Sectors to be written as they were.
    pub(crate) undo: Changes,
    /// Whether the journal record, which names no locks, is to be cleared.
    pub(crate) record: bool,
    /// Locks to be given back.
    pub(crate) held: Vec<Held>,
}

impl Unsettled {
    fn is_nothing(&self) -> bool {
        self.undo.is_empty() && !self.record && self.held.is_empty()
    }
}

/// Sectors, neighbours together.
pub(crate) fn runs<'a>(
    sectors: impl Iterator<Item = (&'a u64, &'a Box<Sector>)>,
) -> Vec<(u64, Vec<u8>)> {
    let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
    for (address, image) in sectors {
        match runs.last_mut() {
            Some((start, run)) if *start + run.len() as u64 == *address => {
                run.extend_from_slice(&image[..]);
            }
            _ => runs.push((*address, image.to_vec())),
        }
    }
    runs
}

impl<D: Disk> Volume<D> {
    /// Does what is still to be done after a transaction: nothing, almost always.
    ///
    /// # Errors
    /// When the disk refuses; the rest is done at the next call. [`Error::LostHeartbeat`] when
    /// another host took over: then all of it is that host's business.
    pub(crate) fn settle(&mut self) -> Result<()> {
        if self.unsettled.is_nothing() {
            return Ok(());
        }
        let settled = self.try_to_settle();
        if matches!(settled, Err(Error::LostHeartbeat)) {
            self.unsettled = Unsettled::default();
        }
        settled
    }

    fn try_to_settle(&mut self) -> Result<()> {
        if !self.unsettled.undo.is_empty() {
            // Nothing may be written by a host that was taken over.
            self.pulse()?;
            let undo = std::mem::take(&mut self.unsettled.undo);
            let undone = self.apply(&undo);
            if undone.is_err() {
                self.unsettled.undo = undo;
            }
            undone?;
        }
        if self.unsettled.record {
            self.clear_journal()?;
            self.unsettled.record = false;
        }
        let held = std::mem::take(&mut self.unsettled.held);
        let (left, unlocked) = self.unlock_each(held);
        self.unsettled.held = left;
        unlocked
    }

    /// Gives a file's lock back, now or when the disk allows it: the file is complete.
    pub(crate) fn give_back(&mut self, held: Held) -> Result<()> {
        self.unsettled.held.push(held);
        match self.settle() {
            Err(Error::LostHeartbeat) => Err(Error::LostHeartbeat),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}
