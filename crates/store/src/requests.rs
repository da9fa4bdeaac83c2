//! Table of requests and changes under way, their range locks, and who may go on.

use std::collections::VecDeque;
use std::time::Duration;

use block::VolumeId;

use crate::change::CHANGES;
use crate::locks::Locks;
use crate::operation::Operation;
use crate::operation_key::{KeyedSlab, OperationKey};

/// Everything that callers wait for.
#[derive(Default)]
pub(crate) struct Requests {
    pub(crate) table: KeyedSlab<Operation>,
    pub(crate) locks: Locks,
    /// Operations that may go on.
    pub(crate) ready: VecDeque<OperationKey>,
    /// Operations that wait for a checkpoint, for space or for room in the journal; and those that
    /// wait for a count of what is promised to thick volumes.
    pub(crate) stalled: VecDeque<OperationKey>,
    /// When the first of the latter has waited for long enough.
    pub(crate) count_until: Option<Duration>,
}

impl Requests {
    /// The volume that a request is about, while it is under way.
    pub(crate) fn volume_of(&self, key: OperationKey) -> Option<VolumeId> {
        let is_there = self.table.contains(key);
        is_there.then(|| self.table[key].volume).filter(|volume| *volume != CHANGES)
    }

    /// A checkpoint is durable, or a count over: who waits for space or room may go on.
    pub(crate) fn wake_stalled(&mut self) {
        self.ready.extend(self.stalled.drain(..));
        self.count_until = None;
    }

    /// Operations under way that meet a condition.
    pub(crate) fn all(&self, condition: impl Fn(&Operation) -> bool) -> Vec<OperationKey> {
        let found = self.table.iter().filter(|(_, operation)| condition(operation));
        found.map(|(key, _)| key).collect()
    }
}
