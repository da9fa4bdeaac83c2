//! Device clock (SPC-4 5.2): milliseconds, from the time that the owner hands in.

use std::time::Duration;

/// TIMESTAMP ORIGIN and how far a device clock is ahead of the owner's monotonic time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    origin: Origin,
    ahead_ms: i128,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Origin {
    /// Zero at power on.
    #[default]
    PowerOn = 0,
    /// SET TIMESTAMP.
    SetTimestamp = 2,
    /// Something outside this standard.
    Outside = 3,
}

/// TIMESTAMP has 48 bits.
const TIMESTAMP_MASK: u64 = (1 << 48) - 1;

impl Clock {
    /// A clock that shows the time since 1970 that it is now.
    pub(crate) fn outside(since_1970: Duration, now: Duration) -> Self {
        Self { origin: Origin::Outside, ahead_ms: milliseconds(since_1970) - milliseconds(now) }
    }

    /// A clock that shows this timestamp now.
    pub(crate) fn set(timestamp: u64, now: Duration) -> Self {
        let ahead_ms = i128::from(timestamp) - milliseconds(now);
        Self { origin: Origin::SetTimestamp, ahead_ms }
    }

    /// TIMESTAMP ORIGIN.
    pub(crate) const fn origin(self) -> u8 {
        self.origin as u8
    }

    /// TIMESTAMP, 48 bits.
    pub(crate) fn timestamp(self, now: Duration) -> u64 {
        (milliseconds(now) + self.ahead_ms).rem_euclid(1 << 64) as u64 & TIMESTAMP_MASK
    }
}

fn milliseconds(time: Duration) -> i128 {
    time.as_millis() as i128
}
