//! Disk interface that the owner provides: reads, writes, locks, zeroing, and a clock.

use thiserror::Error;

/// Why a disk did not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DiskError {
    /// RESERVATION CONFLICT: another host has reserved the disk.
    #[error("the LUN is reserved by another host")]
    Reserved,
    /// The command is not supported.
    #[error("the LUN does not support the command")]
    Unsupported,
    /// The array has no space for the write (07h/27h/07h).
    #[error("the array is out of space")]
    OutOfSpace,
    /// The host does not see the disk: an extent of a datastore is missing.
    #[error("{0} is missing: map its LUN to this host and rescan")]
    Missing(String),
    /// No path to the disk for longer than commands wait; there may be one again.
    #[error("all paths are down (APD)")]
    Unreachable,
    /// The disk is lost, or an error of the medium.
    #[error("{0}")]
    Failed(String),
}

/// A sector that is replaced, if it is as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap {
    /// Where it lies.
    pub offset: u64,
    /// What it should hold.
    pub expected: [u8; 512],
    /// What it holds then.
    pub replacement: [u8; 512],
}

/// A sector that shows whether a host may still write: its heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The name of the disk on which it lies, if that is another one.
    pub disk: Option<String>,
    /// Where it lies.
    pub offset: u64,
    /// What it held when it was looked at last.
    pub image: [u8; 512],
    /// Bytes that the host itself changes.
    pub ignored: std::ops::Range<usize>,
}

impl Guard {
    /// Whether a sector is as it was, but for what the host itself changes.
    pub fn holds(&self, sector: &[u8]) -> bool {
        let same = |at: usize| self.ignored.contains(&at) || sector[at] == self.image[at];
        sector.len() == self.image.len() && (0..sector.len()).all(same)
    }
}

/// A disk of 512-byte blocks, seen by one host. All offsets and lengths are multiples of 512.
pub trait Disk {
    /// Bytes of the disk.
    fn size_bytes(&self) -> u64;

    /// By which hosts know the disk, as `naa.6001…`: up to 253 bytes, the same for all of them.
    fn name(&self) -> String;

    /// Connects another disk of the same host, by its name.
    ///
    /// # Errors
    /// [`DiskError::Missing`] when the host does not see it.
    fn another(&mut self, name: &str) -> Result<Self, DiskError>
    where
        Self: Sized;

    /// Fills the buffer.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError>;

    /// Writes durably.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DiskError>;

    /// Writes several pieces durably, in no order; a disk that can have several commands
    /// outstanding does so.
    fn write_each(&mut self, pieces: &[(u64, Vec<u8>)]) -> Result<(), DiskError> {
        pieces.iter().try_for_each(|(offset, bytes)| self.write(*offset, bytes))
    }

    /// COMPARE AND WRITE (ATS) of one sector. Returns whether the sector was as expected and so
    /// was replaced.
    fn compare_and_write(
        &mut self,
        offset: u64,
        expected: &[u8; 512],
        replacement: &[u8; 512],
    ) -> Result<bool, DiskError>;

    /// COMPARE AND WRITE of a heartbeat: a disk with time-outs has a shorter one for it.
    fn heartbeat(
        &mut self,
        offset: u64,
        expected: &[u8; 512],
        replacement: &[u8; 512],
    ) -> Result<bool, DiskError> {
        self.compare_and_write(offset, expected, replacement)
    }

    /// Names the sector that must be as it was before anything may be written after a time in which
    /// the disk could not be reached.
    fn guard(&mut self, _guard: Option<Guard>) {}

    /// COMPARE AND WRITE of several sectors, each for itself and in no order.
    fn compare_and_write_each(&mut self, swaps: &[Swap]) -> Vec<Result<bool, DiskError>> {
        let one =
            |swap: &Swap| self.compare_and_write(swap.offset, &swap.expected, &swap.replacement);
        swaps.iter().map(one).collect()
    }

    /// RESERVE(6).
    fn reserve(&mut self) -> Result<(), DiskError>;

    /// RELEASE(6).
    fn release(&mut self) -> Result<(), DiskError>;

    /// Makes a range read as zeros, in whatever way is best.
    fn zero(&mut self, offset: u64, length: u64) -> Result<(), DiskError>;

    /// Microseconds on a clock that never goes back.
    fn now_us(&mut self) -> u64;

    /// Seconds since 1970.
    fn wall_clock(&mut self) -> u32;

    /// Waits.
    fn pause_us(&mut self, duration: u64);
}
