//! Metadata cache and prefetched blocks: small parts of the pool that hosts will probably read
//! again soon. Those are locks, heartbeats and other file system metadata, of which a host read or
//! changed a part a moment ago, and the blocks that follow a sequential reader.
//!
//! Entries are kept by device address. An address holds other data only after something was written
//! there, and a write removes its entry; so an entry is what a read would find. It is served only
//! if the map still points to that address with that checksum.

use std::collections::{BTreeMap, VecDeque};

use block::{BLOCK, ByteRange, Request};
use bytes::Bytes;

use crate::address::{Address, Run};
use crate::checksum::crc32c;
use crate::limits::{AHEAD_KEPT_BLOCKS_MAX, RECENT_BLOCKS_MAX, RECENT_BYTES_MAX};

/// The blocks that are kept; the oldest one of its kind makes room.
pub(crate) struct MetadataCache {
    blocks: BTreeMap<Address, Kept>,
    parts: Order,
    ahead: Order,
    last_number: u64,
}

struct Kept {
    number: u64,
    crc: u32,
    /// None while it is being read.
    content: Option<Bytes>,
}

/// The numbers and places of blocks in the order in which they came, also of those that are
/// forgotten.
struct Order {
    order: VecDeque<(u64, Address)>,
    blocks_max: usize,
}

impl Order {
    fn new(blocks_max: usize) -> Self {
        Self { order: VecDeque::new(), blocks_max }
    }

    /// One more came; returns the one that makes room.
    fn push(&mut self, number: u64, place: Address) -> Option<(u64, Address)> {
        self.order.push_back((number, place));
        if self.order.len() > self.blocks_max { self.order.pop_front() } else { None }
    }
}

impl Default for MetadataCache {
    fn default() -> Self {
        Self {
            blocks: BTreeMap::new(),
            parts: Order::new(RECENT_BLOCKS_MAX),
            ahead: Order::new(AHEAD_KEPT_BLOCKS_MAX),
            last_number: 0,
        }
    }
}

impl MetadataCache {
    /// The block at a place, if it is kept and has this checksum.
    pub(crate) fn get(&self, place: Address, crc: u32) -> Option<Bytes> {
        let kept = self.blocks.get(&place).filter(|kept| kept.crc == crc);
        kept.and_then(|kept| kept.content.clone())
    }

    /// Keeps adjacent blocks as they are at a place, or are about to be.
    pub(crate) fn keep(&mut self, place: Address, crcs: &[u32], content: &[u8]) {
        for ((place, &crc), content) in
            place.onwards().zip(crcs).zip(content.chunks(BLOCK as usize))
        {
            self.last_number += 1;
            let number = self.last_number;
            // A copy, so that no larger buffer is held.
            let content = Some(Bytes::copy_from_slice(content));
            self.blocks.insert(place, Kept { number, crc, content });
            let oldest = self.parts.push(number, place);
            self.make_room(oldest);
        }
    }

    /// Adjacent blocks at a place are going to be read ahead. Returns the first one's number.
    pub(crate) fn expect(&mut self, place: Address, crcs: &[u32]) -> u64 {
        let first = self.last_number + 1;
        for (place, &crc) in place.onwards().zip(crcs) {
            self.last_number += 1;
            let number = self.last_number;
            if self.get(place, crc).is_none() {
                self.blocks.insert(place, Kept { number, crc, content: None });
                let oldest = self.ahead.push(number, place);
                self.make_room(oldest);
            }
        }
        first
    }

    /// What was read ahead, from the block with that number on. What was forgotten meanwhile stays
    /// so, and a block that fails its check is left to the read that asks for it.
    pub(crate) fn arrived(&mut self, number: u64, run: Run, content: Option<&[u8]>) {
        for (at, place) in (0..).zip(run.addresses()) {
            let Some(kept) = self.blocks.get_mut(&place) else { continue };
            if kept.number != number + at {
                continue;
            }
            let start = (at * BLOCK) as usize;
            let block = content.map(|content| &content[start..start + BLOCK as usize]);
            match block.filter(|block| crc32c(block) == kept.crc) {
                Some(block) => kept.content = Some(Bytes::copy_from_slice(block)),
                None => drop(self.blocks.remove(&place)),
            }
        }
    }

    fn make_room(&mut self, oldest: Option<(u64, Address)>) {
        if let Some((number, place)) = oldest
            && self.blocks.get(&place).is_some_and(|kept| kept.number == number)
        {
            self.blocks.remove(&place);
        }
    }

    /// Something else is written to these places.
    pub(crate) fn forget(&mut self, run: Run) {
        if self.blocks.is_empty() {
            return;
        }
        while let Some((&place, _)) = self.blocks.range(run.start..run.end()).next() {
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
