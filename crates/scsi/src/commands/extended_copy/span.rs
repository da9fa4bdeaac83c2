//! Ranges of a copy, and how they are divided.

use block::{ByteRange, SECTOR, VolumeId};

use crate::limits::{SLICE_BYTES, ZERO_SLICE_BYTES};
use crate::procedure::slices;

/// Bytes to copy from one volume to another, or within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) struct Span {
    pub(in crate::commands) source: VolumeId,
    pub(in crate::commands) source_offset: u64,
    pub(in crate::commands) destination: VolumeId,
    pub(in crate::commands) destination_offset: u64,
    pub(in crate::commands) length: u64,
}

/// A part of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Work {
    /// Copy bytes.
    Copy(Span),
    /// Fill with zeros, in whole sectors.
    Zeros { destination: VolumeId, range: ByteRange },
}

impl Work {
    /// The volume that is changed.
    pub(in crate::commands) fn destination(&self) -> VolumeId {
        match self {
            Self::Copy(span) => span.destination,
            Self::Zeros { destination, .. } => *destination,
        }
    }

    /// Bytes that are written.
    pub(in crate::commands) fn length(&self) -> u64 {
        match self {
            Self::Copy(span) => span.length,
            Self::Zeros { range, .. } => range.length,
        }
    }

    /// The work in slices, in an order in which they can be done one after the other as if the
    /// source had been read completely first.
    pub(super) fn slices(self, slice_bytes: u64) -> Vec<Self> {
        match self {
            Self::Copy(span) => span.slices(slice_bytes).into_iter().map(Self::Copy).collect(),
            Self::Zeros { destination, range } => slices(range, ZERO_SLICE_BYTES)
                .map(|range| Self::Zeros { destination, range })
                .collect(),
        }
    }

    /// Whether this must wait for an earlier piece: it would read what that writes, or write what
    /// that reads or writes.
    pub(super) fn must_follow(&self, earlier: &Self) -> bool {
        let (reads, writes) = (self.reads(), self.writes());
        let touch = |one: Option<(VolumeId, ByteRange)>, other: Option<(VolumeId, ByteRange)>| matches!((one, other), (Some((one, a)), Some((other, b))) if one == other && a.overlaps(b));
        touch(reads, earlier.writes())
            || touch(writes, earlier.writes())
            || touch(writes, earlier.reads())
    }

    fn reads(&self) -> Option<(VolumeId, ByteRange)> {
        match self {
            Self::Copy(span) => Some((span.source, span.source_sectors())),
            Self::Zeros { .. } => None,
        }
    }

    fn writes(&self) -> Option<(VolumeId, ByteRange)> {
        match self {
            Self::Copy(span) => Some((span.destination, span.destination_sectors())),
            Self::Zeros { destination, range } => Some((*destination, *range)),
        }
    }
}

impl Span {
    /// Whether both ends are whole sectors: what the engine can copy by itself.
    pub(super) fn is_whole(&self) -> bool {
        self.source_offset.is_multiple_of(SECTOR)
            && self.destination_offset.is_multiple_of(SECTOR)
            && self.length.is_multiple_of(SECTOR)
    }

    /// The sectors that hold the source.
    pub(super) fn source_sectors(&self) -> ByteRange {
        cover(self.source_offset, self.length)
    }

    /// The sectors that hold the destination.
    pub(super) fn destination_sectors(&self) -> ByteRange {
        cover(self.destination_offset, self.length)
    }

    fn slices(self, slice_bytes: u64) -> Vec<Self> {
        let mut slices = Vec::new();
        let mut done = 0;
        while done < self.length {
            let length = self.slice_length(done, slice_bytes);
            slices.push(Self {
                source_offset: self.source_offset + done,
                destination_offset: self.destination_offset + done,
                length,
                ..self
            });
            done += length;
        }
        if self.source == self.destination && self.destination_offset > self.source_offset {
            slices.reverse();
        }
        slices
    }

    /// Length of the slice that begins after `done` bytes. A slice of whole sectors on both ends
    /// is as long as may be; the sectors that are written in part are slices of their own.
    fn slice_length(&self, done: u64, slice_bytes: u64) -> u64 {
        let start = self.destination_offset + done;
        let left = self.length - done;
        let congruent = self.source_offset % SECTOR == self.destination_offset % SECTOR;
        if congruent && !start.is_multiple_of(SECTOR) {
            return (start.next_multiple_of(SECTOR) - start).min(left);
        }
        let longest = if congruent { slice_bytes } else { SLICE_BYTES };
        let length = (start / SLICE_BYTES * SLICE_BYTES + longest - start).min(left);
        let whole = length / SECTOR * SECTOR;
        if congruent && whole > 0 { whole } else { length }
    }
}

fn cover(offset: u64, length: u64) -> ByteRange {
    if length == 0 {
        return ByteRange::new(offset, 0);
    }
    let start = offset / SECTOR * SECTOR;
    ByteRange::new(start, (offset + length).next_multiple_of(SECTOR) - start)
}
