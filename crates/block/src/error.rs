//! Block errors: why a request failed, without the words of any protocol.

use thiserror::Error;

/// The reason a [`crate::Request`] was not carried out. Unless said otherwise nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BlockError {
    /// The range reaches beyond the end of the volume.
    #[error("the range reaches beyond the end of the volume")]
    OutOfRange,
    /// The medium differs from what COMPARE AND WRITE expected.
    #[error("the medium differs at byte {offset} of the comparison")]
    Miscompare {
        /// Byte offset of the first difference, from the start of the compared data.
        offset: u64,
    },
    /// The pool has no space for what the request would newly occupy.
    #[error("the pool is out of space")]
    OutOfSpace,
    /// The pool has no space now, but is being extended; the same request may succeed later.
    #[error("the pool is out of space until its extension is complete")]
    SpaceComing,
    /// Data was lost: its checksum is wrong or the device cannot read it. Never answered with
    /// other data.
    #[error("unrecoverable medium error at byte {offset} of the volume")]
    Medium {
        /// First byte of the volume that could not be read.
        offset: u64,
    },
    /// The pool accepts no more changes, because a device failed.
    #[error("the pool is read-only after a device failure")]
    ReadOnly,
    /// The volume is a snapshot, whose content never changes.
    #[error("the volume is a snapshot, which never changes")]
    Snapshot,
    /// No such volume in this pool.
    #[error("there is no such volume in the pool")]
    NoSuchVolume,
    /// Source and destination of a copy are in different pools.
    #[error("source and destination are in different pools")]
    DifferentPool,
    /// Too much is under way; the same request may succeed later.
    #[error("the pool is busy")]
    Busy,
    /// The request did not take part in anything: the pool is shutting down or was closed.
    #[error("the pool is closed")]
    Closed,
}
