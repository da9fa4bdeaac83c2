//! Simulated sequential reader: block after block, each request when the one before was answered,
//! so that the engine prefetches for it.

use block::{BLOCK, SECTOR, VolumeId};

use crate::action::{Action, Span};
use crate::oracle::Oracle;
use crate::random::Random;

const SECTORS_PER_BLOCK: u64 = BLOCK / SECTOR;

/// Requests of one pass at most.
const REQUESTS_MAX: u64 = 200;

/// Blocks of one request at most.
const BLOCKS_MAX: u64 = 3;

/// The host.
pub(crate) struct Scan {
    random: Random,
    volume: VolumeId,
    /// The sector after the last request.
    next: u64,
    requests_left: u64,
    /// The last request.
    pub(crate) tag: u64,
}

impl Scan {
    pub(crate) fn new(random: Random) -> Self {
        Self { random, volume: VolumeId(0), next: 0, requests_left: 0, tag: 0 }
    }

    /// The next request, if there is anything to read.
    pub(crate) fn next(&mut self, oracle: &Oracle) -> Option<Action> {
        let sectors = |id| oracle.volumes.get(&id).map_or(0, |model| model.sectors());
        if self.requests_left == 0 || self.next >= sectors(self.volume) {
            let index = self.random.below(oracle.volumes.len().max(1) as u64) as usize;
            self.volume = *oracle.volumes.keys().nth(index)?;
            let blocks = sectors(self.volume) / SECTORS_PER_BLOCK;
            self.next = self.random.below(blocks.max(1)) * SECTORS_PER_BLOCK;
            self.requests_left = self.random.between(1, REQUESTS_MAX);
        }
        let count = self.random.between(1, BLOCKS_MAX) * SECTORS_PER_BLOCK;
        let first = self.next;
        let count = count.min(sectors(self.volume) - first);
        self.next += count;
        self.requests_left -= 1;
        Some(Action::Read { volume: self.volume, span: Span { first, count } })
    }
}
