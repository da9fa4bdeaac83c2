//! Writes what is moved from a device that leaves: one ordinary commit, of which only the evacuation hears.

use block::{BLOCK, ByteRange, Request, VolumeId};
use bytes::Bytes;
use smallvec::SmallVec;

use super::{Operation, Piece, Stage, Work};
use crate::address::VolumeBlock;
use crate::change::Tag;
use crate::serving::Serving;

/// The tag of what nobody asked for.
const NOBODY: Tag = Tag(u64::MAX);

impl Serving {
    /// Writes blocks as they are, also if they are zeros: whoever refers to them refers to data.
    pub(crate) fn write_moved(&mut self, volume: VolumeId, first: VolumeBlock, data: Bytes) {
        let range = ByteRange::new(first.number() * BLOCK, data.len() as u64);
        let work = Work::Request(Request::Write { range, data: data.clone() });
        let mut operation = Operation::new(NOBODY, volume, work, SmallVec::new());
        operation.stage = Stage::Composed;
        operation.pieces = vec![Piece::Data { first, data }];
        let key = self.requests.table.insert(operation);
        self.run(key);
    }
}
