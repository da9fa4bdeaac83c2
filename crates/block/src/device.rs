//! Device operations: what the pool engine asks of a device.

use thiserror::Error;

use crate::{Buffer, Rope};

/// One I/O operation of a device. Offsets and lengths are multiples of [`crate::BLOCK`].
#[derive(Debug)]
pub enum DeviceOperation {
    /// Fill the whole buffer from `offset`.
    Read {
        /// First byte on the device.
        offset: u64,
        /// Where the data goes; handed back with the result.
        buffer: Buffer,
    },
    /// Write `data` from `offset`. When it completes the data may still be in a volatile cache.
    Write {
        /// First byte on the device.
        offset: u64,
        /// The data; every piece is 4 KiB aligned in memory and a multiple of 4 KiB long.
        data: Rope,
    },
    /// Make every write that completed before this was submitted stable.
    Flush,
    /// Preallocate the range, so that later writes to it cannot fail for want of space: a sparse
    /// file has its blocks allocated. Changes no content.
    Reserve {
        /// First byte on the device.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
}

/// The outcome of a [`DeviceOperation`]: the filled buffer of a read, `None` for the others.
pub type DeviceResult = Result<Option<Buffer>, DeviceError>;

/// Why a device did not do as asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// The operating system refused; the number is its errno.
    #[error("the device failed: {}", std::io::Error::from_raw_os_error(*.0))]
    Os(i32),
    /// The device ends before the range does.
    #[error("the device is shorter than {end} bytes")]
    BeyondEnd {
        /// The first byte after the range that was asked for.
        end: u64,
    },
    /// Another owner took the device and keeps this one from writing: a reservation that was preempted,
    /// a client of a cluster that was blocklisted. What it was asked to do was not done, and no later
    /// write will be.
    #[error("the device was taken over by another owner, and takes nothing more from this one")]
    Fenced,
}
