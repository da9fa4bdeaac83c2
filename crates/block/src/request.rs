//! Block requests and responses: what a front end may ask of a volume.

use bytes::Bytes;

use crate::{ByteRange, Rope, VolumeId};

/// Bytes of a volume whose place in the map is changed at the cost of one byte that is read or
/// written.
pub const MAPPED_BYTES_PER_BYTE: u64 = 64;

/// The content of a block that is to be repeated.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Zeros: completed by metadata alone.
    Zero,
    /// One logical block of data, 512 or 4,096 bytes.
    Block(Bytes),
}

/// A command on one volume. Ranges are multiples of [`crate::SECTOR`].
///
/// Every request is atomic against every other one that touches the same bytes, except that a
/// `Copy` is atomic only per mebibyte of its destination. A request that changes the volume is
/// answered only when the change is on stable storage.
#[derive(Clone, Debug)]
pub enum Request {
    /// Answered with [`Response::Data`].
    Read {
        /// The bytes to read.
        range: ByteRange,
    },
    /// Answered with [`Response::Done`].
    Write {
        /// The bytes to replace.
        range: ByteRange,
        /// Their new content, as long as the range.
        data: Bytes,
    },
    /// ATS: writes `write` if the medium equals `compare`, as one step. Answered with
    /// [`Response::Done`] or [`crate::BlockError::Miscompare`].
    CompareAndWrite {
        /// The bytes to compare and replace.
        range: ByteRange,
        /// Expected data, as long as the range.
        compare: Bytes,
        /// New data, as long as the range.
        write: Bytes,
    },
    /// Zero: repeats a pattern over the range. Answered with [`Response::Done`].
    WriteSame {
        /// The bytes to fill.
        range: ByteRange,
        /// Pattern to fill the range with.
        pattern: Pattern,
    },
    /// Delete: the ranges read as zeros and their space returns to the pool. Answered with
    /// [`Response::Done`].
    Unmap {
        /// The bytes to deallocate; may overlap, be empty, and come in any order.
        ranges: Vec<ByteRange>,
    },
    /// XCOPY: makes `length` bytes of this volume from `destination` equal to those of `source`
    /// from `source_offset`. Answered with [`Response::Done`]. The two ranges may overlap: the
    /// result is as if the source were read completely first.
    Copy {
        /// The volume to copy from, in the same pool.
        source: VolumeId,
        /// First byte to copy from.
        source_offset: u64,
        /// First byte to copy to.
        destination: u64,
        /// Number of bytes.
        length: u64,
    },
    /// Makes everything answered so far stable. Answered with [`Response::Done`].
    Flush,
    /// Which parts hold data of their own. Answered with [`Response::Map`].
    MapStatus {
        /// The bytes asked about.
        range: ByteRange,
        /// At most so many extents; the answer may cover less than the range.
        extents_max: usize,
    },
}

/// The answer to a [`Request`] that succeeded.
#[derive(Clone, Debug)]
pub enum Response {
    /// The request is done, and its effect is on stable storage.
    Done,
    /// The bytes that were read.
    Data(Rope),
    /// Adjacent extents from the start of the range, in order, at least one.
    Map(Vec<MapExtent>),
}

/// A run of bytes in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapExtent {
    /// The bytes.
    pub range: ByteRange,
    /// Their state.
    pub state: MapState,
}

/// Whether bytes of a volume occupy space, in the words of SBC-4 GET LBA STATUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapState {
    /// They have space of their own or share it.
    Mapped,
    /// They read as zeros and occupy nothing.
    Deallocated,
    /// They read as zeros and space is promised to them.
    Anchored,
}
