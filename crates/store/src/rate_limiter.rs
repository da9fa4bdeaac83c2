//! Token bucket (rate limiter) for background work: elapsed time earns tokens, and work spends
//! them.

use std::time::Duration;

/// Depth of the bucket, in nanoseconds of time.
const SAVED_MAX: i64 = 1_000_000_000;

/// Work of a kind that is done at a limited rate. Time is saved up, one second at most, and spent
/// on work; what costs more than is there is owed, so that small steps of time count for as much
/// as large ones.
pub(crate) struct RateLimiter {
    /// Pieces of work per second; 0 for none.
    rate: u64,
    saved_nanoseconds: i64,
}

impl RateLimiter {
    /// A second's worth of work at that rate.
    pub(crate) fn new(rate: u64) -> Self {
        Self { rate, saved_nanoseconds: SAVED_MAX }
    }

    /// Pieces of work per second.
    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    /// Adds elapsed time to the bucket.
    pub(crate) fn pass(&mut self, time: Duration) {
        let nanoseconds = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        self.saved_nanoseconds = self.saved_nanoseconds.saturating_add(nanoseconds).min(SAVED_MAX);
    }

    /// Whether the bucket is empty, so that work must wait.
    pub(crate) fn is_used_up(&self) -> bool {
        self.rate == 0 || self.saved_nanoseconds <= 0
    }

    /// Takes the cost of work that was done out of the bucket, which may go below zero.
    pub(crate) fn spend(&mut self, pieces: u64) {
        let nanoseconds = u128::from(pieces) * 1_000_000_000 / u128::from(self.rate.max(1));
        let nanoseconds = i64::try_from(nanoseconds).unwrap_or(i64::MAX);
        self.saved_nanoseconds = self.saved_nanoseconds.saturating_sub(nanoseconds);
    }
}

#[cfg(test)]
mod tests;
