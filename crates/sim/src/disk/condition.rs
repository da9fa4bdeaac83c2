//! Condition of a whole disk: sound, lost, hung, or answering well without doing what it was asked.

/// How a disk behaves as a whole, besides the faults of single operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// As a disk should.
    #[default]
    Sound,
    /// Every operation fails, also those under way.
    Lost,
    /// No operation ends before this virtual time, in nanoseconds; [`u64::MAX`] for never.
    Hung {
        /// When operations begin to end again.
        until: u64,
    },
    /// Writes are answered well and not done.
    DropsWrites,
    /// Flushes are answered well and not done.
    DropsFlushes,
}

impl Condition {
    /// When an operation ends that would end at `time`; `None` for never.
    pub(super) fn end_of(self, time: u64) -> Option<u64> {
        match self {
            Self::Hung { until: u64::MAX } => None,
            Self::Hung { until } => Some(time.max(until)),
            Self::Sound | Self::Lost | Self::DropsWrites | Self::DropsFlushes => Some(time),
        }
    }
}

/// How a block of the medium is spoilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rot {
    /// One bit is another.
    Bit,
    /// A sector of 512 bytes is zeros.
    Sector,
    /// The whole block is zeros.
    Zeros,
    /// The whole block is garbage.
    Garbage,
}

impl Rot {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Bit, Self::Sector, Self::Zeros, Self::Garbage];
}
