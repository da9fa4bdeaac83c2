//! How long the devices of a pool take: what of a command's time is the disk's and not the
//! array's.

use std::time::Instant;

use block::DeviceOperation;
use ledger::Histogram;
use store::{Io, IoId};

/// What is asked of devices, as metrics name it.
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

/// Durations of the operations of each device.
#[derive(Default)]
pub(crate) struct DeviceTimes {
    /// By the engine's name for the I/O: a small number.
    under_way: Vec<Option<UnderWay>>,
    devices: Vec<[Histogram; OPERATIONS.len()]>,
}

impl DeviceTimes {
    /// An operation goes to its device.
    pub(crate) fn submitted(&mut self, io: &Io, now: Instant) {
        let (name, device) = (io.id.0 as usize, usize::from(io.device));
        if self.under_way.len() <= name {
            self.under_way.resize(name + 1, None);
        }
        if self.devices.len() <= device {
            self.devices.resize(device + 1, [Histogram::default(); OPERATIONS.len()]);
        }
        let kind = kind_of(&io.operation);
        self.under_way[name] = Some(UnderWay { since: now, device, kind });
    }

    /// An operation ended, well or not.
    pub(crate) fn completed(&mut self, id: IoId, now: Instant) {
        let ended = self.under_way.get_mut(id.0 as usize).and_then(Option::take);
        if let Some(UnderWay { since, device, kind }) = ended {
            self.devices[device][kind].add(now.duration_since(since));
        }
    }

    /// Durations of a device, in the order of [`OPERATIONS`]; none if nothing was asked of it.
    pub(crate) fn of(&self, device: usize) -> Option<&[Histogram; OPERATIONS.len()]> {
        self.devices.get(device)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
        times.completed(IoId(7), began + Duration::from_millis(2));
        times.completed(IoId(7), began + Duration::from_secs(9));
        times.completed(IoId(99), began);
        let counts = |device| times.of(device).map(|all| all.map(|one| one.count()));
        assert_eq!(counts(0), Some([0, 0, 0, 0]));
        assert_eq!(counts(1), Some([0, 0, 1, 0]));
        assert_eq!(times.of(1).map(|all| all[2].sum_us()), Some(2000));
        assert!(times.of(2).is_none());
    }
}
