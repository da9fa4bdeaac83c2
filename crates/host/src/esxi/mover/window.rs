//! Batch size of the data mover: how much it does between two looks at progress, cancellation and
//! heartbeats.

use std::time::{Duration, Instant};

use vmfs::limits::{FILE_BLOCK, TRANSACTION_BLOCKS_MAX};

/// Bytes of the first window.
const FIRST: u64 = 64 << 20;

/// Bytes of the longest one: of so many blocks one transaction of the file system says that they
/// hold data now.
const LONGEST: u64 = TRANSACTION_BLOCKS_MAX * FILE_BLOCK;

/// A window that was done faster than this is followed by one twice as long, or eight times if it
/// took less than an eighth of this; one that took four times as long, by one half as long. Far
/// below the lease of a heartbeat.
const QUICK: Duration = Duration::from_millis(250);

/// Windows over a disk, one after the other, as long as their speed allows.
pub(super) struct Windows {
    at: u64,
    size: u64,
    length: u64,
    begun: Option<Instant>,
}

impl Windows {
    /// Windows over so many bytes.
    pub(super) fn over(size: u64) -> Self {
        Self { at: 0, size, length: FIRST, begun: None }
    }

    fn adapt(&mut self, took: Duration) {
        if took < QUICK / 8 {
            self.length = (8 * self.length).min(LONGEST);
        } else if took < QUICK {
            self.length = (2 * self.length).min(LONGEST);
        } else if took > 4 * QUICK {
            self.length = (self.length / 2).max(FIRST);
        }
    }
}

impl Iterator for Windows {
    type Item = [u64; 2];

    /// Offset and length of the next window; it is asked for when the one before is done.
    fn next(&mut self) -> Option<[u64; 2]> {
        let now = Instant::now();
        if let Some(begun) = self.begun.replace(now) {
            self.adapt(now - begun);
        }
        let (offset, length) = (self.at, self.length.min(self.size - self.at));
        self.at += length;
        (length > 0).then_some([offset, length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_everything_once() {
        for size in [0, 1, FIRST, FIRST + 1, 5 * FIRST] {
            let mut end = 0;
            for [offset, length] in Windows::over(size) {
                assert_eq!(offset, end);
                end += length;
            }
            assert_eq!(end, size);
        }
    }

    #[test]
    fn quick_work_has_longer_windows_and_slow_work_shorter_ones() {
        let mut windows = Windows::over(1 << 40);
        let mut after = |milliseconds| {
            windows.adapt(Duration::from_millis(milliseconds));
            windows.length / FIRST
        };
        assert_eq!([40, 10, 500, 2000].map(&mut after), [2, 16, 16, 8]);
        assert_eq!([2000; 4].map(&mut after), [4, 2, 1, 1]);
        assert_eq!([1; 4].map(&mut after), [8, 64, 80, 80]);
    }
}
