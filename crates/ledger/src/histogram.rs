//! Latency histogram of commands.

use std::time::Duration;

use crate::limits::COMMAND_NAMES_MAX;

/// Upper bounds of the buckets, microseconds, ascending; one more bucket has none.
pub const UPPER_BOUNDS_US: [u64; 16] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 5_000_000, 30_000_000,
];

/// Durations, counted by size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; UPPER_BOUNDS_US.len() + 1],
    sum_us: u64,
}

impl Histogram {
    /// Counts one.
    pub fn add(&mut self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.buckets[UPPER_BOUNDS_US.partition_point(|&bound| bound < us)] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// How many took no longer than each of [`UPPER_BOUNDS_US`], and then all of them.
    pub fn cumulative(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        })
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Microseconds that all of them took together.
    pub const fn sum_us(&self) -> u64 {
        self.sum_us
    }
}

/// How long commands of one name took, and how they ended.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// The command's name in T10's words.
    pub name: &'static str,
    /// Those that ended with a status.
    pub histogram: Histogram,
    /// Those of them whose status was not GOOD.
    pub failed: u64,
}

/// Latencies by command, in the order in which the commands were first seen.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<Latency>);

impl Latencies {
    pub(crate) fn add(&mut self, name: &'static str, took: Duration, good: bool) {
        let known = self.0.iter().position(|latency| latency.name == name);
        let at = match known {
            Some(at) => at,
            None if self.0.len() < COMMAND_NAMES_MAX => {
                self.0.push(Latency { name, histogram: Histogram::default(), failed: 0 });
                self.0.len() - 1
            }
            None => return,
        };
        self.0[at].histogram.add(took);
        self.0[at].failed += u64::from(!good);
        // Common commands come to the front.
        if at > 0 && self.0[at].histogram.count() > self.0[at - 1].histogram.count() {
            self.0.swap(at, at - 1);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Latency> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_at_a_bound_is_below_it() {
        let mut histogram = Histogram::default();
        for us in [0, 50, 51, 30_000_000, 30_000_001, u64::MAX / 2] {
            histogram.add(Duration::from_micros(us));
        }
        let sums: Vec<u64> = histogram.cumulative().collect();
        assert_eq!((sums[0], sums[1], sums[15], sums[16]), (2, 3, 4, 6));
        assert_eq!(histogram.count(), 6);
        histogram.add(Duration::MAX);
        assert_eq!(histogram.sum_us(), u64::MAX);
    }

    #[test]
    fn commands_are_told_apart_and_their_number_is_bounded() {
        let mut latencies = Latencies::default();
        for _ in 0..3 {
            latencies.add("READ (10)", Duration::ZERO, true);
        }
        latencies.add("UNMAP", Duration::from_millis(1), false);
        let unmap = latencies.iter().find(|latency| latency.name == "UNMAP").copied();
        assert_eq!(unmap.map(|l| (l.histogram.sum_us(), l.failed)), Some((1000, 1)));
        for number in 0..200 {
            latencies.add(Box::leak(format!("C{number}").into()), Duration::ZERO, true);
        }
        assert_eq!(latencies.iter().count(), COMMAND_NAMES_MAX);
    }
}
