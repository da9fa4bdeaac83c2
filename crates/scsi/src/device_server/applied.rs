//! Table of completed COMPARE AND WRITE commands, by which a retry after a lost answer is told from
//! another host that wrote the same bytes.
//!
//! ESXi takes a miscompare of its own retry for the loss of a lock. A retry is named only where it
//! is known that the same initiator wrote the same bytes there, nobody since, and that its command
//! was aborted, or its session ended, before it can have made use of the answer. What a host does
//! whose session goes on, on another path perhaps, is not named: two threads of it look the same.

use std::collections::VecDeque;
use std::time::Duration;

use block::VolumeId;

use super::{DeviceServer, NexusId, TaskId};
use crate::limits::{APPLIED_MAX, APPLIED_TIME_MAX, GONE_MAX, LOST_ANSWER_TIME_MAX};

/// The commands, oldest first.
#[derive(Debug, Default)]
pub(super) struct Applied {
    latest: VecDeque<Entry>,
    /// Names of initiators whose nexuses are gone, oldest first.
    gone: VecDeque<(NexusId, String)>,
}

/// What a COMPARE AND WRITE wrote where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) volume: VolumeId,
    pub(crate) lba: u64,
    pub(crate) blocks: u8,
    /// A hash of the bytes.
    pub(crate) hash: u64,
}

#[derive(Debug)]
struct Entry {
    written: Written,
    nexus: NexusId,
    task: TaskId,
    since: Duration,
    lost: Option<LostAnswer>,
}

/// Why an initiator may not know that its command was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostAnswer {
    /// It aborted the command.
    Aborted,
    /// Its session ended before the answer, or a short time after it.
    SessionEnded,
}

/// A hash of what is written (FNV-1a over words of 8 bytes).
pub(crate) fn hash_of(bytes: &[u8]) -> u64 {
    let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    words.fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ word).wrapping_mul(0x0100_0000_01b3))
}

impl DeviceServer {
    /// A command was done.
    pub(super) fn note_applied(&mut self, written: Written, nexus: NexusId, task: TaskId) {
        let applied = &mut self.applied.latest;
        if applied.len() == APPLIED_MAX {
            applied.pop_front();
        }
        let lost = (!self.nexuses.contains_key(&nexus)).then_some(LostAnswer::SessionEnded);
        applied.push_back(Entry { written, nexus, task, since: self.now, lost });
    }

    /// An initiator has aborted a command, which may have been done before.
    pub(super) fn note_aborted(&mut self, nexus: NexusId, task: TaskId) {
        let is_meant = |entry: &&mut Entry| entry.nexus == nexus && entry.task == task;
        if let Some(entry) = self.applied.latest.iter_mut().rev().find(is_meant) {
            entry.lost.get_or_insert(LostAnswer::Aborted);
        }
    }

    /// A nexus goes: it may not know of its last answers.
    pub(super) fn note_gone(&mut self, nexus: NexusId) {
        let Some(name) = self.nexuses.get(&nexus).map(|n| n.spec.initiator_name.clone()) else {
            return;
        };
        let since = self.now.saturating_sub(LOST_ANSWER_TIME_MAX);
        for entry in self.applied.latest.iter_mut().rev().take_while(|entry| entry.since >= since) {
            if entry.nexus == nexus {
                entry.lost.get_or_insert(LostAnswer::SessionEnded);
            }
        }
        if self.applied.gone.len() == GONE_MAX {
            self.applied.gone.pop_front();
        }
        self.applied.gone.push_back((nexus, name));
    }

    /// Whether an initiator's command that found what it would have written is a retry of one whose
    /// answer it may not know.
    pub(super) fn lost_answer(&self, nexus: NexusId, written: Written) -> Option<LostAnswer> {
        let touches = |entry: &&Entry| {
            let (one, other) = (entry.written, written);
            one.volume == other.volume
                && one.lba < other.lba + u64::from(other.blocks)
                && other.lba < one.lba + u64::from(one.blocks)
        };
        let entry = self.applied.latest.iter().rev().find(touches)?;
        let is_recent = self.now.saturating_sub(entry.since) <= APPLIED_TIME_MAX;
        let is_own = entry.written == written && self.name_of(entry.nexus) == self.name_of(nexus);
        entry.lost.filter(|_| is_recent && is_own)
    }

    fn name_of(&self, nexus: NexusId) -> Option<&str> {
        let gone = || self.applied.gone.iter().rev().find(|(id, _)| *id == nexus);
        match self.nexuses.get(&nexus) {
            Some(known) => Some(&known.spec.initiator_name),
            None => gone().map(|(_, name)| name.as_str()),
        }
    }
}
