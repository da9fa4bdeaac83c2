//! Token buckets of one limited volume or host: elapsed time earns work, and work spends it. What costs
//! more than there is is owed, so a command goes as soon as nothing is owed, and those after it wait.

use std::time::Duration;

use array::RateLimits;

use crate::limits::OPERATION_BYTES;

/// What a command or request costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Bytes of work.
    pub(crate) bytes: u64,
    /// I/Os, each of them [`OPERATION_BYTES`] here, so that a large one is no fraction.
    pub(crate) operation_bytes: u64,
}

impl Cost {
    /// A command: one I/O, or as many as it has [`OPERATION_BYTES`].
    pub(crate) fn of_command(bytes: u64) -> Self {
        Self { bytes, operation_bytes: bytes.max(OPERATION_BYTES) }
    }

    /// A part of a command, which was counted as one when it began.
    pub(crate) const fn of_part(bytes: u64) -> Self {
        Self { bytes, operation_bytes: bytes }
    }
}

/// A bucket that holds time: what is done at a rate takes some out, and it fills as time passes.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Bytes per second.
    rate: u64,
    depth_nanoseconds: i64,
    /// Negative while something is owed.
    saved_nanoseconds: i64,
}

impl Bucket {
    /// A full one.
    fn new(rate: u64, depth: Duration) -> Self {
        let depth = nanoseconds(depth);
        Self { rate: rate.max(1), depth_nanoseconds: depth, saved_nanoseconds: depth }
    }

    fn pass(&mut self, time: Duration) {
        let saved = self.saved_nanoseconds.saturating_add(nanoseconds(time));
        self.saved_nanoseconds = saved.min(self.depth_nanoseconds);
    }

    fn spend(&mut self, bytes: u64) {
        // Rounded up: never faster than the limit.
        let time = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.rate));
        let time = i64::try_from(time).unwrap_or(i64::MAX);
        self.saved_nanoseconds = self.saved_nanoseconds.saturating_sub(time);
    }

    /// Time until something is saved again; zero if it is.
    fn opens_in(&self) -> Duration {
        let missing = 1_i64.saturating_sub(self.saved_nanoseconds);
        Duration::from_nanos(u64::try_from(missing).unwrap_or(0))
    }

    /// Another rate and depth: what is owed in bytes, or saved, stays.
    fn change(&mut self, rate: u64, depth: Duration) {
        let saved = i128::from(self.saved_nanoseconds) * i128::from(self.rate);
        self.rate = rate.max(1);
        self.depth_nanoseconds = nanoseconds(depth);
        let saved = saved / i128::from(self.rate);
        let saved = i64::try_from(saved).unwrap_or(if saved < 0 { i64::MIN } else { i64::MAX });
        self.saved_nanoseconds = saved.min(self.depth_nanoseconds);
    }
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// A bucket for I/Os and one for bytes, as far as they are limited.
#[derive(Clone, Copy, Debug, Default)]
struct Buckets {
    operations: Option<Bucket>,
    bytes: Option<Bucket>,
}

impl Buckets {
    fn both(&self) -> impl Iterator<Item = &Bucket> {
        self.operations.iter().chain(&self.bytes)
    }

    fn pass(&mut self, time: Duration) {
        self.operations.iter_mut().chain(&mut self.bytes).for_each(|bucket| bucket.pass(time));
    }

    fn spend(&mut self, cost: Cost) {
        if let Some(bucket) = &mut self.operations {
            bucket.spend(cost.operation_bytes);
        }
        if let Some(bucket) = &mut self.bytes {
            bucket.spend(cost.bytes);
        }
    }

    fn opens_in(&self) -> Duration {
        self.both().map(Bucket::opens_in).max().unwrap_or_default()
    }

    fn change(&mut self, limits: RateLimits) {
        let depth = Duration::from_millis(limits.burst_ms.into());
        let operations = limits.iops.map(|iops| u64::from(iops) * OPERATION_BYTES);
        change(&mut self.operations, operations, depth);
        change(&mut self.bytes, limits.bytes_per_second, depth);
    }
}

fn change(bucket: &mut Option<Bucket>, rate: Option<u64>, depth: Duration) {
    match (bucket.as_mut(), rate) {
        (Some(bucket), Some(rate)) => bucket.change(rate, depth),
        (None, Some(rate)) => *bucket = Some(Bucket::new(rate, depth)),
        (_, None) => *bucket = None,
    }
}

/// The limits of a volume or host, and what is left of them now.
///
/// Locks have buckets of their own besides, with the same limits: they go at once while locks alone
/// stay within the limits, whatever else was done. Everything else waits for them afterwards.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    limits: RateLimits,
    all: Buckets,
    locks: Buckets,
    /// Up to when time has passed.
    now: Duration,
}

impl Limiter {
    pub(super) fn new(limits: RateLimits, now: Duration) -> Self {
        let mut limiter = Self { now, ..Self::default() };
        limiter.change(limits, now);
        limiter
    }

    pub(super) fn is_unlimited(&self) -> bool {
        self.limits.is_unlimited()
    }

    /// Other limits from now on.
    pub(super) fn change(&mut self, limits: RateLimits, now: Duration) {
        self.pass(now);
        self.limits = limits;
        self.all.change(limits);
        self.locks.change(limits);
    }

    fn pass(&mut self, now: Duration) {
        let time = now.saturating_sub(self.now);
        self.now = self.now.max(now);
        self.all.pass(time);
        self.locks.pass(time);
    }

    /// Time until a command may go; zero if it may now.
    pub(super) fn opens_in(&mut self, now: Duration) -> Duration {
        self.pass(now);
        self.all.opens_in()
    }

    /// Time until a lock may go; zero if it may now.
    pub(super) fn opens_for_locks_in(&mut self, now: Duration) -> Duration {
        self.pass(now);
        self.locks.opens_in()
    }

    /// A command or a part of one goes.
    pub(super) fn spend(&mut self, cost: Cost) {
        self.all.spend(cost);
    }

    /// A lock goes out of turn.
    pub(super) fn spend_on_lock(&mut self, cost: Cost) {
        self.all.spend(cost);
        self.locks.spend(cost);
    }
}
