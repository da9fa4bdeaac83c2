//! Blocks of which hosts changed or read a part a moment ago: locks, heartbeats and other metadata
//! of their file systems, which they look at again and again, a sector at a time.
//!
//! They are kept by the place where they lie. A place holds other data only after that was written
//! there, and is forgotten then; so what is kept is what a read would find. It is shown only to
//! whom the map leads to that place, with that checksum.

use std::collections::{BTreeMap, VecDeque};

use block::{BLOCK, ByteRange, Request};
use bytes::Bytes;

use crate::limits::{RECENT_BLOCKS_MAX, RECENT_BYTES_MAX};

/// The blocks that are kept; the oldest one makes room.
#[derive(Default)]
pub(crate) struct Recent {
    blocks: BTreeMap<u64, Kept>,
    /// The numbers and places of blocks in the order in which they came, also of those that are
    /// forgotten.
    order: VecDeque<(u64, u64)>,
    last_number: u64,
}

struct Kept {
    number: u64,
    crc: u32,
    content: Bytes,
}

impl Recent {
    /// The block at a place, if it is kept and has this checksum; or `whatever` it has, which is a
    /// mistake.
    pub(crate) fn get(&self, place: u64, crc: u32, whatever: bool) -> Option<Bytes> {
        let kept = self.blocks.get(&place).filter(|kept| kept.crc == crc || whatever);
        kept.map(|kept| kept.content.clone())
    }

    /// Keeps adjacent blocks as they are at a place, or are about to be.
    pub(crate) fn keep(&mut self, place: u64, crcs: &[u32], content: &[u8]) {
        for ((place, &crc), content) in (place..).zip(crcs).zip(content.chunks(BLOCK as usize)) {
            self.last_number += 1;
            let number = self.last_number;
            // A copy, so that no larger buffer is held.
            let content = Bytes::copy_from_slice(content);
            self.blocks.insert(place, Kept { number, crc, content });
            self.order.push_back((number, place));
        }
        while self.order.len() > RECENT_BLOCKS_MAX {
            let Some((number, place)) = self.order.pop_front() else { break };
            if self.blocks.get(&place).is_some_and(|kept| kept.number == number) {
                self.blocks.remove(&place);
            }
        }
    }

    /// Something else is written to these places.
    pub(crate) fn forget(&mut self, place: u64, blocks: u64) {
        if self.blocks.is_empty() {
            return;
        }
        while let Some((&place, _)) = self.blocks.range(place..place + blocks).next() {
            self.blocks.remove(&place);
        }
    }
}

/// Whether a request is for parts of few blocks, which will be looked at again soon.
pub(crate) fn is_for_parts(request: &Request) -> bool {
    let is_part = |range: &ByteRange| range.length <= RECENT_BYTES_MAX && !range.is_aligned(BLOCK);
    match request {
        Request::Read { range } | Request::Write { range, .. } => is_part(range),
        Request::CompareAndWrite { range, .. } => range.length <= BLOCK,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
