//! Pulse of a pool's owner at one device: when the next heartbeat is written, and whether the last one is
//! fresh enough to serve hosts.

use std::time::Duration;

use crate::limits::OWNER_BEAT;

/// The heartbeat of one device: one is under way at a time, so that a device that does not answer lets it
/// stand still. Times are the caller's, from an arbitrary start on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pulse {
    /// When the last one was handed to the device.
    begun: Option<Duration>,
    /// The lease that it tells.
    lease: Duration,
    /// The device has not answered it.
    is_under_way: bool,
    /// When the last one was handed to it that it has written.
    written: Option<Duration>,
}

impl Pulse {
    /// Whether a heartbeat is to be written now: every [`OWNER_BEAT`], four times in the lease that it tells, and at once
    /// if that is another one: until then nobody takes the pool.
    pub fn is_due(&self, lease: Duration, now: Duration) -> bool {
        let period = if lease.is_zero() { OWNER_BEAT } else { OWNER_BEAT.min(lease / 4) };
        let is_time = |begun| now.saturating_sub(begun) >= period;
        !self.is_under_way && (self.lease != lease || self.begun.is_none_or(is_time))
    }

    /// One is handed to the device that tells such a lease.
    pub fn begin(&mut self, lease: Duration, now: Duration) {
        (self.begun, self.lease, self.is_under_way) = (Some(now), lease, true);
    }

    /// Whether the device has one that it has not answered.
    pub const fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// The device has answered it, well or not.
    pub fn end(&mut self, is_written: bool) {
        self.is_under_way = false;
        if is_written {
            self.written = self.begun;
        }
    }

    /// When the last one was handed to the device that it has written. The answer may have come much later:
    /// it does not count, since others may see the heartbeat stand still from its writing on.
    pub const fn written(&self) -> Option<Duration> {
        self.written
    }
}

/// Whether another controller may have taken the pool: of none of the proofs that it has not all heartbeats are newer
/// than the lease.
pub fn is_in_doubt(proofs: &[Vec<Pulse>], lease: Duration, now: Duration) -> bool {
    let oldest = |proof: &Vec<Pulse>| proof.iter().map(|pulse| pulse.written).min().flatten();
    let last = proofs.iter().filter_map(oldest).max();
    last.is_none_or(|at| now.saturating_sub(at) > lease)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_beat_is_under_way_at_a_time_and_counts_from_when_it_was_begun() {
        let (mut pulse, start) = (Pulse::default(), 3 * OWNER_BEAT);
        let lease = 9 * OWNER_BEAT;
        assert!(pulse.is_due(lease, start), "the first one is not waited for");
        pulse.begin(lease, start);
        assert!(!pulse.is_due(lease, start + 60 * OWNER_BEAT), "the device has not answered");
        pulse.end(true);
        assert_eq!(pulse.written(), Some(start));
        for lease in [lease, Duration::ZERO, OWNER_BEAT] {
            pulse.begin(lease, start);
            pulse.end(true);
            let period = if lease == OWNER_BEAT { OWNER_BEAT / 4 } else { OWNER_BEAT };
            assert!(!pulse.is_due(lease, start + period * 4 / 5));
            assert!(pulse.is_due(lease, start + period), "four in a short lease");
        }
    }

    #[test]
    fn another_lease_is_told_at_once() {
        let (mut pulse, start) = (Pulse::default(), 3 * OWNER_BEAT);
        pulse.begin(Duration::ZERO, start);
        assert!(!pulse.is_due(OWNER_BEAT, start), "one is under way");
        pulse.end(true);
        assert!(pulse.is_due(OWNER_BEAT, start) && !pulse.is_due(Duration::ZERO, start));
    }

    #[test]
    fn only_a_beat_that_was_written_counts_and_one_device_is_enough() {
        let (mut pulse, start) = (Pulse::default(), 3 * OWNER_BEAT);
        let lease = 4 * OWNER_BEAT;
        let doubts =
            |pulse: Pulse, now| is_in_doubt(&[vec![Pulse::default()], vec![pulse]], lease, now);
        pulse.begin(lease, start);
        pulse.end(false);
        assert!(pulse.written().is_none() && doubts(pulse, start), "nothing was written");
        pulse.begin(lease, start);
        pulse.end(true);
        assert!(!doubts(pulse, start + lease) && doubts(pulse, start + lease + OWNER_BEAT / 10));
        let together = [vec![Pulse::default(), pulse]];
        assert!(is_in_doubt(&together, lease, start), "both must have one");
    }
}
