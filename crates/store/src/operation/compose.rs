//! Read-modify-write: composes the whole blocks that are to be written from a request and the
//! blocks that were read.

use std::collections::BTreeMap;

use block::{BLOCK, BlockError, Buffer, ByteRange, Pattern, Request, VolumeId};
use bytes::Bytes;
use smallvec::SmallVec;

use super::{BlockRead, Operation, OperationKey, Piece, Stage, Work};
use crate::address::{BlockRange, VolumeBlock};
use crate::limits::COPY_SLICE_BYTES;
use crate::serving::Serving;

/// A range inside one block, from its start.
type Part = std::ops::Range<usize>;

/// How a copy is carried out.
enum CopyPlan {
    /// Source and destination lie alike within blocks: whole blocks by reference, the edges by
    /// reading.
    Reference { inner: BlockRange, distance: i128 },
    /// The next slice of a copy by reading and writing.
    Physical { from: ByteRange, to: ByteRange },
}

impl Serving {
    /// The blocks that must be read before a change can be composed.
    pub(super) fn composition_reads(&self, operation: &Operation) -> SmallVec<[BlockRead; 1]> {
        let Work::Request(request) = &operation.work else { return SmallVec::new() };
        let volume = operation.volume;
        let one = |volume: VolumeId, block| BlockRead::new(volume, BlockRange::of(block));
        match request {
            Request::Write { range, .. } => {
                edges(*range).into_keys().map(|block| one(volume, block)).collect()
            }
            Request::WriteSame { range, .. } => {
                edges(*range).into_keys().map(|block| one(volume, block)).collect()
            }
            Request::Unmap { ranges } => {
                let edges = all_edges(ranges);
                edges.into_keys().map(|block| one(volume, block)).collect()
            }
            Request::Copy { source, .. } => match plan_copy(request, operation.progress) {
                CopyPlan::Reference { distance, .. } => {
                    let to = edges(copy_destination(request)).into_keys();
                    let near = |block| moved(block, -distance);
                    to.flat_map(|block| [one(*source, near(block)), one(volume, block)]).collect()
                }
                CopyPlan::Physical { from, to } => {
                    let mut reads = SmallVec::new();
                    reads.push(BlockRead::new(*source, BlockRange::touched_by(from)));
                    reads.extend(edges(to).into_keys().map(|block| one(volume, block)));
                    reads
                }
            },
            _ => SmallVec::new(),
        }
    }

    /// Composes what the operation writes.
    pub(super) fn compose(&mut self, key: OperationKey) -> Result<(), BlockError> {
        self.sample_write(key);
        let operation = &mut self.requests.table[key];
        let reads = std::mem::take(&mut operation.reads);
        let Work::Request(request) = &operation.work else { return Ok(()) };
        let mut pieces = Vec::new();
        match request {
            Request::Write { range, data } => {
                let first = BlockRange::touched_by(*range).first;
                push_data(&mut pieces, first, merged(*range, data, &reads));
            }
            Request::CompareAndWrite { range, compare, write } => {
                if let Some(read) = reads.first() {
                    let old = read.rope().to_vec();
                    push_data(
                        &mut pieces,
                        read.range.first,
                        exchanged(*range, old, compare, write)?,
                    );
                }
            }
            Request::WriteSame { range, pattern } => {
                same_pieces(&mut pieces, *range, pattern, &reads);
            }
            Request::Unmap { ranges } => {
                for range in joined(ranges) {
                    push_zeros(&mut pieces, BlockRange::within(range));
                }
                overlay(&mut pieces, all_edges(ranges), &reads, None);
            }
            Request::Copy { source, .. } => match plan_copy(request, operation.progress) {
                CopyPlan::Reference { inner, distance } => {
                    let range = copy_destination(request);
                    // Blocks first: an edge may be part of the source that they come from.
                    if !inner.is_empty() {
                        pieces.push(Piece::Clone {
                            source: *source,
                            source_first: moved(inner.first, -distance),
                            range: inner,
                        });
                    }
                    copied_edges(&mut pieces, range, &reads);
                    operation.progress = range.length;
                    let referenced = inner.count * BLOCK;
                    operation.statistics.referenced_bytes += referenced;
                    operation.statistics.copied_bytes += range.length - referenced;
                }
                CopyPlan::Physical { from, to } => {
                    self.engine.pool.statistics.copied_bytes += to.length;
                    operation.statistics.copied_bytes += to.length;
                    let skip = (from.offset % BLOCK) as usize;
                    let data = reads[0].rope().slice(skip, to.length as usize).to_vec();
                    let merged = merged(to, &Bytes::from(data), &reads[1..]);
                    push_data(&mut pieces, BlockRange::touched_by(to).first, merged);
                    operation.progress += to.length;
                }
            },
            Request::Read { .. } | Request::MapStatus { .. } | Request::Flush => {}
        }
        operation.pieces = pieces;
        operation.stage = Stage::Composed;
        Ok(())
    }

    /// Prepares the next slice of a physical copy; `false` if the operation is complete.
    pub(super) fn begin_next_slice(&mut self, key: OperationKey) -> bool {
        let operation = &mut self.requests.table[key];
        let Work::Request(Request::Copy { length, .. }) = &operation.work else { return false };
        if operation.progress >= *length {
            return false;
        }
        operation.stage = Stage::Begun;
        operation.space_waits = 0;
        true
    }
}

/// Whether all bytes are zero.
pub(super) fn is_zero(data: &[u8]) -> bool {
    data.chunks(256).all(|chunk| chunk.iter().fold(0, |or, &byte| or | byte) == 0)
}

fn moved(block: VolumeBlock, distance: i128) -> VolumeBlock {
    VolumeBlock::new((i128::from(block.number()) + distance) as u64)
}

/// The blocks that a range covers in part, and which part.
fn edges(range: ByteRange) -> BTreeMap<VolumeBlock, Vec<Part>> {
    all_edges(&[range])
}

/// The same for several ranges.
fn all_edges(ranges: &[ByteRange]) -> BTreeMap<VolumeBlock, Vec<Part>> {
    let mut edges: BTreeMap<VolumeBlock, Vec<Part>> = BTreeMap::new();
    for range in joined(ranges) {
        let blocks = BlockRange::touched_by(range);
        for block in [blocks.first, blocks.first + (blocks.count - 1)] {
            let start = range.offset.max(block.offset()) - block.offset();
            let stop = range.end().min((block + 1).offset()) - block.offset();
            let part = start as usize..stop as usize;
            let parts = edges.entry(block).or_default();
            if part.len() < BLOCK as usize && parts.last() != Some(&part) {
                parts.push(part);
            }
        }
    }
    edges.retain(|_, parts| !parts.is_empty());
    edges
}

/// Ranges in order, those that touch or overlap made one, without empty ones.
fn joined(ranges: &[ByteRange]) -> Vec<ByteRange> {
    let mut sorted: Vec<_> = ranges.iter().copied().filter(|range| !range.is_empty()).collect();
    sorted.sort_unstable_by_key(|range| range.offset);
    let mut joined: Vec<ByteRange> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match joined.last_mut() {
            Some(last) if range.offset <= last.end() => {
                last.length = last.end().max(range.end()) - last.offset;
            }
            _ => joined.push(range),
        }
    }
    joined
}

/// `data` for a range, made up to whole blocks with what was read of the blocks at its edges.
fn merged(range: ByteRange, data: &Bytes, edges: &[BlockRead]) -> Bytes {
    let aligned_in_memory = data.as_ptr().addr().is_multiple_of(BLOCK as usize);
    if range.is_aligned(BLOCK) && aligned_in_memory {
        return data.clone();
    }
    let BlockRange { first, count } = BlockRange::touched_by(range);
    let mut buffer = Buffer::for_overwrite((count * BLOCK) as usize);
    for edge in edges {
        let at = ((edge.range.first - first) * BLOCK) as usize;
        buffer[at..at + BLOCK as usize].copy_from_slice(&edge.rope().to_vec());
    }
    let at = (range.offset % BLOCK) as usize;
    buffer[at..at + data.len()].copy_from_slice(data);
    buffer.freeze()
}

/// COMPARE AND WRITE: the new content of whole blocks, if the old one is as expected.
fn exchanged(
    range: ByteRange,
    old: Vec<u8>,
    compare: &[u8],
    write: &[u8],
) -> Result<Bytes, BlockError> {
    let at = (range.offset % BLOCK) as usize;
    let mut buffer = Buffer::copy_of(&old);
    let part = &mut buffer[at..at + range.length as usize];
    if let Some(offset) = part.iter().zip(compare).position(|(is, should)| is != should) {
        return Err(BlockError::Miscompare { offset: offset as u64 });
    }
    part.copy_from_slice(write);
    Ok(buffer.freeze())
}

/// Adds data, with blocks of zeros as holes.
fn push_data(pieces: &mut Vec<Piece>, first: VolumeBlock, mut data: Bytes) {
    let mut first = first;
    while !data.is_empty() {
        let zero = is_zero(&data[..BLOCK as usize]);
        let alike = data.chunks(BLOCK as usize).take_while(|block| is_zero(block) == zero);
        let count = alike.count() as u64;
        let part = data.split_to((count * BLOCK) as usize);
        if zero {
            pieces.push(Piece::Zero { range: BlockRange { first, count } });
        } else {
            pieces.push(Piece::Data { first, data: part });
        }
        first += count;
    }
}

fn push_zeros(pieces: &mut Vec<Piece>, range: BlockRange) {
    if !range.is_empty() {
        pieces.push(Piece::Zero { range });
    }
}

fn same_pieces(pieces: &mut Vec<Piece>, range: ByteRange, pattern: &Pattern, reads: &[BlockRead]) {
    let content = pattern_block(pattern);
    let blocks = BlockRange::within(range);
    match &content {
        Some(content) if !blocks.is_empty() => {
            pieces.push(Piece::Fill { range: blocks, content: Buffer::copy_of(content).freeze() })
        }
        _ => push_zeros(pieces, blocks),
    }
    overlay(pieces, edges(range), reads, content.as_deref());
}

/// Replaces parts of blocks by parts of `content`, or by zeros.
fn overlay(
    pieces: &mut Vec<Piece>,
    edges: BTreeMap<VolumeBlock, Vec<Part>>,
    reads: &[BlockRead],
    content: Option<&[u8]>,
) {
    for ((block, parts), read) in edges.into_iter().zip(reads) {
        debug_assert_eq!(block, read.range.first);
        let mut buffer = Buffer::copy_of(&read.rope().to_vec());
        for part in parts {
            match content {
                Some(content) => buffer[part.clone()].copy_from_slice(&content[part]),
                None => buffer[part].fill(0),
            }
        }
        push_data(pieces, block, buffer.freeze());
    }
}

/// The blocks at the edges of a copy by reference: `reads` holds source and destination of each.
fn copied_edges(pieces: &mut Vec<Piece>, range: ByteRange, reads: &[BlockRead]) {
    for ((block, parts), pair) in edges(range).into_iter().zip(reads.as_chunks::<2>().0) {
        let source = pair[0].rope().to_vec();
        let mut buffer = Buffer::copy_of(&pair[1].rope().to_vec());
        for part in parts {
            buffer[part.clone()].copy_from_slice(&source[part]);
        }
        push_data(pieces, block, buffer.freeze());
    }
}

fn copy_destination(request: &Request) -> ByteRange {
    match request {
        Request::Copy { destination, length, .. } => ByteRange::new(*destination, *length),
        _ => ByteRange::new(0, 0),
    }
}

fn plan_copy(request: &Request, progress: u64) -> CopyPlan {
    let Request::Copy { source_offset, destination, length, .. } = request else {
        return CopyPlan::Reference { inner: BlockRange::default(), distance: 0 };
    };
    if source_offset % BLOCK == destination % BLOCK {
        let distance = i128::from(destination / BLOCK) - i128::from(source_offset / BLOCK);
        let inner = BlockRange::within(copy_destination(request));
        return CopyPlan::Reference { inner, distance };
    }
    // Where the ranges may overlap, the far end goes first, so that nothing is read after it was
    // overwritten.
    let slice = COPY_SLICE_BYTES.min(length - progress);
    let at = if destination > source_offset { length - progress - slice } else { progress };
    CopyPlan::Physical {
        from: ByteRange::new(source_offset + at, slice),
        to: ByteRange::new(destination + at, slice),
    }
}

/// The block that a pattern makes; `None` for zeros.
fn pattern_block(pattern: &Pattern) -> Option<Vec<u8>> {
    match pattern {
        Pattern::Zero => None,
        Pattern::Block(bytes) if bytes.is_empty() || is_zero(bytes) => None,
        Pattern::Block(bytes) => Some(bytes.repeat((BLOCK as usize).div_ceil(bytes.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_become_one() {
        let range = ByteRange::new;
        let ranges =
            [range(1024, 512), range(0, 512), range(512, 512), range(9000, 0), range(4096, 512)];
        assert_eq!(joined(&ranges), [range(0, 1536), range(4096, 512)]);
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "parts of a block are ranges")]
    fn edges_are_the_blocks_that_are_covered_in_part() {
        let block = VolumeBlock::new;
        let edges = |offset, length| edges(ByteRange::new(offset, length));
        assert!(edges(4096, 8192).is_empty());
        assert_eq!(edges(512, 512), BTreeMap::from([(block(0), vec![512..1024])]));
        let both = BTreeMap::from([(block(0), vec![3584..4096]), (block(2), vec![0..512])]);
        assert_eq!(edges(3584, 512 + 4096 + 512), both);
        let two = all_edges(&[ByteRange::new(0, 512), ByteRange::new(1024, 512)]);
        assert_eq!(two, BTreeMap::from([(block(0), vec![0..512, 1024..1536])]));
    }
}
