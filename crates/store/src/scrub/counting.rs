//! Counts of what thick volumes share: when one begins, what makes way for it, and who waits for it.
//!
//! A volume's number of shared blocks is an upper bound. It is too high after others have let go of
//! what they shared with it, after blocks in groups whose maps are not in memory were replaced, and
//! after parts of it became holes. What is promised to the volume is then too much, and data,
//! locks and metadata find less space than there is. A count sets that right.

use std::time::Duration;

use super::{Purpose, Scrub, Scrubber};
use crate::pool::Pool;

/// No count begins before so many times as long as the last one took have passed.
const REST: u32 = 8;

/// The times of counts, and whether one has ended that nobody was told of.
#[derive(Default)]
pub(super) struct Counts {
    begun: Duration,
    rest_until: Duration,
    has_ended: bool,
}

impl Scrubber {
    /// Whether a count is under way.
    pub(super) fn is_counting(&self) -> bool {
        self.current.as_ref().is_some_and(|scrub| scrub.purpose == Purpose::Count)
    }

    /// Where a scrub goes that is not a count.
    pub(super) fn place(&mut self) -> &mut Option<Box<Scrub>> {
        if self.is_counting() { &mut self.held } else { &mut self.current }
    }

    /// Whether less may be promised to thick volumes soon: a count is under way or due.
    pub(crate) fn may_lower_owed(&self, pool: &mut Pool) -> bool {
        self.is_counting() || pool.volumes.want_count()
    }

    /// Whether a count can begin, or go on, and waits for nothing.
    pub(crate) fn can_count(&self, pool: &Pool) -> bool {
        if self.current.as_ref().is_some_and(|scrub| scrub.is_waiting()) {
            return false;
        }
        let is_due = pool.volumes.is_count_wanted() && pool.now >= self.counts.rest_until;
        self.is_counting() || is_due && pool.map.reap.is_empty()
    }

    /// Begins a count if one is due. A scrub makes way where it waits for nothing.
    pub(super) fn begin_count_if_due(&mut self, pool: &mut Pool) {
        if self.is_counting() || !self.can_count(pool) {
            return;
        }
        pool.volumes.begin_counts();
        let thick = pool.volumes.iter().filter(|volume| volume.spec.thick);
        let volumes = thick.map(|volume| volume.spec.id).collect();
        self.held = self.current.take();
        self.current = Some(Box::new(Scrub::new(Purpose::Count, volumes, 0)));
        self.counts.begun = pool.now;
    }

    /// A count is over: what made way goes on.
    pub(super) fn end_count(&mut self, now: Duration) {
        let took = now.saturating_sub(self.counts.begun);
        self.counts.rest_until = now + took.saturating_mul(REST);
        self.counts.has_ended = true;
        self.current = self.held.take();
    }

    /// Whether a count has ended since this was asked last.
    pub(crate) fn take_counted(&mut self) -> bool {
        std::mem::take(&mut self.counts.has_ended)
    }
}
