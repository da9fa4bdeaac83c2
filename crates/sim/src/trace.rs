//! Trace of the latest events, which tells the story of a failure, and a checksum over all that
//! happened.

use std::collections::VecDeque;
use std::fmt;

use store::Failure;

use crate::action::Action;
use crate::random::mix;

/// Something that happened.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Submitted { tag: u64, action: Action },
    Ended { tag: u64, result: Result<(), Failure> },
    Device { token: u64, device: u8, operation: DeviceEvent },
    DeviceDone { token: u64, failed: bool },
    Crashed { how: crate::disk::Crash, lost: u64 },
    Opening { attempt: u64 },
    Copy { slot: usize, words: &'static str },
    Note(&'static str),
}

/// A device operation without its data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeviceEvent {
    Read { offset: u64, length: u64 },
    Write { offset: u64, length: u64 },
    Flush,
    Reserve { offset: u64, length: u64 },
}

/// The last events, and the sum.
pub(crate) struct Trace {
    events: VecDeque<(u64, Event)>,
    kept: usize,
    sum: u64,
    count: u64,
}

impl Trace {
    /// A trace that keeps so many events, at least one.
    pub(crate) fn new(kept: usize) -> Self {
        Self { events: VecDeque::new(), kept: kept.max(1), sum: 0, count: 0 }
    }

    pub(crate) fn add(&mut self, time: u64, event: Event) {
        self.count += 1;
        self.sum = mix(self.sum ^ mix(time ^ event.sum()));
        if self.events.len() == self.kept {
            self.events.pop_front();
        }
        self.events.push_back((time, event));
    }

    /// A number that two runs share only if everything happened alike.
    pub(crate) fn sum(&self) -> u64 {
        mix(self.sum ^ self.count)
    }

    /// The last events in words, one line each.
    pub(crate) fn story(&self) -> String {
        let line = |(time, event): &(u64, Event)| format!("{:>12} us  {event}\n", time / 1000);
        self.events.iter().map(line).collect()
    }
}

impl Event {
    fn sum(&self) -> u64 {
        match self {
            Self::Submitted { tag, .. } => tag << 4 | 1,
            Self::Ended { tag, result } => sum_of_result(result) ^ (tag << 4 | 2),
            Self::Device { token, device, operation } => {
                operation.sum() ^ token << 12 ^ u64::from(*device) << 4
            }
            Self::DeviceDone { token, failed } => token << 5 | u64::from(*failed) << 4 | 6,
            Self::Crashed { lost, .. } => lost << 4 | 7,
            Self::Opening { attempt } => attempt << 4 | 8,
            Self::Copy { slot, words } => (*slot as u64) << 12 | (words.len() as u64) << 4 | 10,
            Self::Note(words) => words.len() as u64,
        }
    }
}

impl DeviceEvent {
    fn sum(self) -> u64 {
        match self {
            Self::Read { offset, length } => mix(offset ^ length << 40 ^ 3),
            Self::Write { offset, length } => mix(offset ^ length << 40 ^ 4),
            Self::Flush => 5,
            Self::Reserve { offset, length } => mix(offset ^ length << 40 ^ 9),
        }
    }
}

fn sum_of_result(result: &Result<(), Failure>) -> u64 {
    let Err(error) = result else { return 0 };
    let words = error.to_string();
    mix(words.bytes().fold(1, |sum, byte| u64::wrapping_mul(sum, 31) ^ u64::from(byte)))
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Submitted { tag, action } => write!(f, "command {tag}: {action}"),
            Self::Ended { tag, result: Ok(()) } => write!(f, "command {tag} ended well"),
            Self::Ended { tag, result: Err(error) } => write!(f, "command {tag} failed: {error}"),
            Self::Device { token, device, operation } => {
                write!(f, "  io {token}: device {device}, {operation}")
            }
            Self::DeviceDone { token, failed: false } => write!(f, "  io {token} done"),
            Self::DeviceDone { token, failed: true } => write!(f, "  io {token} FAILED"),
            Self::Crashed { how, lost } => write!(f, "POWER FAILURE ({how:?}), {lost} under way"),
            Self::Opening { attempt } => write!(f, "opening the pool, attempt {attempt}"),
            Self::Copy { slot, words } => write!(f, "slot {slot}: {words}"),
            Self::Note(words) => f.write_str(words),
        }
    }
}

impl fmt::Display for DeviceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { offset, length } => {
                write!(f, "read block {}+{}", offset / 4096, length / 4096)
            }
            Self::Write { offset, length } => {
                write!(f, "write block {}+{}", offset / 4096, length / 4096)
            }
            Self::Flush => f.write_str("flush"),
            Self::Reserve { offset, length } => {
                write!(f, "reserve block {}+{}", offset / 4096, length / 4096)
            }
        }
    }
}
