//! Slow start for commands that carry data: how many may be outstanding, by how long they take.

use std::time::Duration;

use crate::initiator::times::Times;

/// Begins with one command, and takes one more with each that ends quickly, as TCP does with its window. On a
/// slow wire the answer to the last of many commands would come so late that the path is taken for
/// silent: 32 writes of 1 MiB take 27 s at 10 Mbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// At least 1.
    outstanding: u64,
}

/// More than any setting allows.
const MOST: u64 = 1024;

impl Pace {
    pub(super) const START: Self = Self { outstanding: 1 };

    /// Commands with data that may be outstanding.
    pub(super) fn outstanding(self) -> u64 {
        self.outstanding
    }

    /// A command with data ended. Half a second is quick, two seconds are slow, far below the 15 s after which
    /// a path without an answer is asked whether it is there.
    pub(super) fn note(&mut self, took: Duration, times: &Times) {
        if took < times.noop_interval / 30 {
            self.outstanding = (self.outstanding + 1).min(MOST);
        } else if took > times.noop_interval / 7 {
            self.outstanding = (self.outstanding - 1).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands of `bytes` each over a wire, which they share: how many are outstanding in the end, and the
    /// longest one.
    fn over(bits_per_second: f64, bytes: f64, most: u64) -> (u64, f64) {
        let (mut pace, mut longest) = (Pace::START, 0_f64);
        for _ in 0..200 {
            let outstanding = pace.outstanding().min(most);
            let took = outstanding as f64 * bytes * 8.0 / bits_per_second;
            pace.note(Duration::from_secs_f64(took), &Times::HOST);
            longest = longest.max(took);
        }
        (pace.outstanding().min(most), longest)
    }

    #[test]
    fn a_quick_wire_has_all_and_a_slow_one_few() {
        let mib = f64::from(1 << 20);
        assert_eq!(over(10e9, mib, 32).0, 32);
        assert_eq!(over(1e9, mib, 32).0, 32);
        for (speed, most) in [(100e6, 8), (10e6, 2), (1e6, 1)] {
            let (outstanding, longest) = over(speed, mib, 32);
            assert!(outstanding <= most && longest < 10.0, "{speed}: {outstanding}, {longest} s");
        }
    }

    #[test]
    fn one_command_may_always_be_sent() {
        let mut pace = Pace::START;
        (0..5).for_each(|_| pace.note(Duration::from_secs(100), &Times::HOST));
        assert_eq!(pace, Pace::START);
        (0..5000).for_each(|_| pace.note(Duration::ZERO, &Times::HOST));
        assert_eq!(pace.outstanding(), MOST);
    }
}
