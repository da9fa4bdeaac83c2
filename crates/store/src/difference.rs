//! Interface types of changed-block tracking: what is asked of two snapshots, and the answer.

use block::{MapExtent, VolumeId};

/// A question for what differs between two snapshots of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The older one; `None` asks for all that the other one holds.
    pub base: Option<VolumeId>,
    /// The snapshot whose blocks are told.
    pub target: VolumeId,
    /// The byte of it where the answer begins: a multiple of 4,096, at most its size.
    pub from: u64,
    /// At most so many extents; at least one, and at most
    /// [`crate::limits::COMPARISON_EXTENTS_MAX`].
    pub extents_max: usize,
}

/// What differs, from the byte on where the question began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// In order, without overlap: what may differ. Mapped ones hold data, the others read as zeros
    /// in the target. Blocks that were written again with the same content are among them; what
    /// is not told is equal.
    pub extents: Vec<MapExtent>,
    /// The byte where the next question begins; `None` if this was all. Until there everything is
    /// told, also if that is nothing: an answer is short where much had to be looked at, and where a
    /// page of the map could not be read.
    pub next: Option<u64>,
    /// Pages of the two maps that were looked at.
    pub pages: u64,
}
