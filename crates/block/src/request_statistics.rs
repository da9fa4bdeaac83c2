//! Statistics of one request (bytes referred to, copied, zeroed), delivered beside its completion.

use smallvec::SmallVec;

/// What became of the bytes that a [`crate::Request`] named. All are 0 for a request that failed
/// before it did anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestStatistics {
    /// Bytes of a copy that took a reference to the source's data.
    pub referenced_bytes: u64,
    /// Bytes of a copy that were read and written.
    pub copied_bytes: u64,
    /// Bytes that became holes, whole blocks only: by UNMAP, by WRITE SAME, or since all data
    /// written to them was zeros.
    pub zeroed_bytes: u64,
    /// Bytes of a read that lie in holes, of reads of whole blocks only. Counted with samples.
    pub hole_bytes: u64,
    /// Some of the data read or written; see [`Sample`].
    pub samples: SmallVec<[Sample; 2]>,
}

/// The checksum of 4 KiB of data that were read or written, counted from the start of the request.
/// Which ones are sampled depends on the checksum alone, so that the same data is sampled or not
/// wherever it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// First byte in the volume.
    pub offset: u64,
    /// CRC32C of the 4 KiB.
    pub crc: u32,
}

impl Sample {
    /// One checksum in so many is sampled; a power of two.
    pub const INTERVAL: u64 = 64;

    /// Whether data with that checksum is sampled.
    pub const fn includes(crc: u32) -> bool {
        crc.is_multiple_of(Self::INTERVAL as u32)
    }
}
