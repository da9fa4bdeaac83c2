//! Device latency histograms, error counts and stall detection: how much of a command's time is the
//! disk's.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use block::{DeviceError, DeviceOperation};
use ledger::Histogram;
use store::{Io, IoId};

use crate::limits::{DEVICE_FAILURES_MAX, DEVICE_STALL_MIN};

/// Device operations, as metrics name them.
pub(crate) const OPERATIONS: [&str; 4] = ["read", "write", "flush", "reserve"];

/// The place of an operation among [`OPERATIONS`].
fn kind_of(operation: &DeviceOperation) -> usize {
    match operation {
        DeviceOperation::Read { .. } => 0,
        DeviceOperation::Write { .. } => 1,
        DeviceOperation::Flush => 2,
        DeviceOperation::Reserve { .. } => 3,
    }
}

/// An operation that is under way.
#[derive(Clone, Copy)]
struct UnderWay {
    since: Instant,
    device: usize,
    kind: usize,
}

/// Something that a device did not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceFailure {
    /// Which device of the pool.
    pub(crate) device: usize,
    /// One of [`OPERATIONS`].
    pub(crate) operation: &'static str,
    pub(crate) error: DeviceError,
}

/// A device that does not answer, or does again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    /// Which device of the pool.
    pub(crate) device: usize,
    /// The operation that is not answered, one of [`OPERATIONS`]; `None` when the stall is over.
    pub(crate) operation: Option<&'static str>,
    /// How long it has taken.
    pub(crate) time: Duration,
}

/// Counters and operations under way of one device.
#[derive(Clone, Copy)]
struct Known {
    durations: [Histogram; OPERATIONS.len()],
    failures: [u64; OPERATIONS.len()],
    /// Since when it stalls, if that was told.
    stalls_since: Option<Instant>,
}

/// Durations of the operations of each device.
#[derive(Default)]
pub(crate) struct DeviceTimes {
    /// By the engine's name for the I/O: a small number.
    under_way: Vec<Option<UnderWay>>,
    devices: Vec<Known>,
    /// Failures that were not told yet; what finds it full is only counted.
    failures: VecDeque<DeviceFailure>,
}

impl DeviceTimes {
    /// An operation goes to its device.
    pub(crate) fn submitted(&mut self, io: &Io, now: Instant) {
        let (name, device) = (io.id.0 as usize, usize::from(io.device));
        if self.under_way.len() <= name {
            self.under_way.resize(name + 1, None);
        }
        if self.devices.len() <= device {
            let durations = [Histogram::default(); OPERATIONS.len()];
            let failures = [0; OPERATIONS.len()];
            self.devices.resize(device + 1, Known { durations, failures, stalls_since: None });
        }
        let kind = kind_of(&io.operation);
        self.under_way[name] = Some(UnderWay { since: now, device, kind });
    }

    /// An operation ended, well or not.
    pub(crate) fn completed(&mut self, id: IoId, now: Instant, error: Option<&DeviceError>) {
        let ended = self.under_way.get_mut(id.0 as usize).and_then(Option::take);
        let Some(UnderWay { since, device, kind }) = ended else { return };
        let known = &mut self.devices[device];
        known.durations[kind].add(now.duration_since(since));
        let Some(error) = error else { return };
        known.failures[kind] += 1;
        if self.failures.len() < DEVICE_FAILURES_MAX {
            let (operation, error) = (OPERATIONS[kind], error.clone());
            self.failures.push_back(DeviceFailure { device, operation, error });
        }
    }

    /// Durations of a device, in the order of [`OPERATIONS`]; none if nothing was asked of it.
    pub(crate) fn of(&self, device: usize) -> Option<&[Histogram; OPERATIONS.len()]> {
        self.devices.get(device).map(|known| &known.durations)
    }

    /// How often a device failed, in the order of [`OPERATIONS`].
    pub(crate) fn failures_of(&self, device: usize) -> [u64; OPERATIONS.len()] {
        self.devices.get(device).map_or([0; OPERATIONS.len()], |known| known.failures)
    }

    /// The next failure that was not told yet.
    pub(crate) fn next_failure(&mut self) -> Option<DeviceFailure> {
        self.failures.pop_front()
    }

    /// How long the oldest operation of a device has taken.
    pub(crate) fn oldest(&self, device: usize, now: Instant) -> Duration {
        let oldest = self.oldest_of(device);
        oldest.map_or(Duration::ZERO, |oldest| now.duration_since(oldest.since))
    }

    fn oldest_of(&self, device: usize) -> Option<UnderWay> {
        let of_device = self.under_way.iter().flatten().filter(|other| other.device == device);
        of_device.min_by_key(|other| other.since).copied()
    }

    /// Devices of which something has become known since the last call: an operation is older than
    /// [`DEVICE_STALL_MIN`], or none is any more.
    pub(crate) fn look_for_stalls(&mut self, now: Instant) -> Vec<Stall> {
        let mut stalls = Vec::new();
        for device in 0..self.devices.len() {
            let oldest = self.oldest_of(device);
            let stuck = oldest.filter(|o| now.duration_since(o.since) >= DEVICE_STALL_MIN);
            let before = self.devices[device].stalls_since;
            let (operation, since) = match (before, stuck) {
                (None, Some(stuck)) => (Some(OPERATIONS[stuck.kind]), stuck.since),
                (Some(since), None) => (None, since),
                (None, None) | (Some(_), Some(_)) => continue,
            };
            self.devices[device].stalls_since = stuck.map(|stuck| stuck.since);
            stalls.push(Stall { device, operation, time: now.duration_since(since) });
        }
        stalls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flush(id: u64, device: u8) -> Io {
        Io { id: IoId(id), device, operation: DeviceOperation::Flush }
    }

    #[test]
    fn each_device_and_operation_has_its_own_durations() {
        let (mut times, began) = (DeviceTimes::default(), Instant::now());
        times.submitted(&flush(7, 1), began);
        let operation = DeviceOperation::Reserve { offset: 0, length: 4096 };
        times.submitted(&Io { id: IoId(3), device: 0, operation }, began);
        times.completed(IoId(7), began + Duration::from_millis(2), None);
        times.completed(IoId(7), began + Duration::from_secs(9), None);
        times.completed(IoId(99), began, None);
        let counts = |device| times.of(device).map(|all| all.map(|one| one.count()));
        assert_eq!(counts(0), Some([0, 0, 0, 0]));
        assert_eq!(counts(1), Some([0, 0, 1, 0]));
        assert_eq!(times.of(1).map(|all| all[2].sum_us()), Some(2000));
        assert!(times.of(2).is_none());
    }

    #[test]
    fn a_device_that_does_not_answer_is_told_once_and_so_is_the_end() {
        let (mut times, began) = (DeviceTimes::default(), Instant::now());
        times.submitted(&flush(1, 0), began);
        times.submitted(&flush(2, 1), began + DEVICE_STALL_MIN / 2);
        assert_eq!(times.look_for_stalls(began + DEVICE_STALL_MIN / 2), []);
        let now = began + DEVICE_STALL_MIN;
        let stall = Stall { device: 0, operation: Some("flush"), time: DEVICE_STALL_MIN };
        assert_eq!(times.look_for_stalls(now), [stall]);
        assert_eq!(times.look_for_stalls(now), []);
        assert_eq!((times.oldest(0, now), times.oldest(1, now)), (now - began, (now - began) / 2));
        times.completed(IoId(1), now, None);
        let stall = Stall { operation: None, ..stall };
        assert_eq!(times.look_for_stalls(now), [stall]);
        assert_eq!(times.look_for_stalls(now), []);
    }

    #[test]
    fn failures_are_counted_and_told() {
        let (mut times, began) = (DeviceTimes::default(), Instant::now());
        times.submitted(&flush(1, 0), began);
        times.completed(IoId(1), began, Some(&DeviceError::Os(5)));
        let failure = DeviceFailure { device: 0, operation: "flush", error: DeviceError::Os(5) };
        assert_eq!(times.next_failure(), Some(failure));
        assert_eq!(times.next_failure(), None);
        assert_eq!(times.failures_of(0), [0, 0, 1, 0]);
        assert_eq!(times.failures_of(9), [0; 4]);
    }
}
