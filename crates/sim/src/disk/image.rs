//! Block image of a disk: sparse, its blocks shared with the buffers that were written.

use block::{BLOCK, Rope};
use bytes::Bytes;

static ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];

/// The content of a disk; a block that was never written is zeros, and takes no memory.
#[derive(Clone)]
pub(super) struct Image {
    blocks: Vec<Bytes>,
}

impl Image {
    pub(super) fn new(bytes: u64) -> Self {
        let mut image = Self { blocks: Vec::new() };
        image.grow(bytes);
        image
    }

    pub(super) fn grow(&mut self, bytes: u64) {
        let blocks = bytes.div_ceil(BLOCK) as usize;
        if blocks > self.blocks.len() {
            self.blocks.resize(blocks, Bytes::from_static(&ZEROS));
        }
    }

    /// One block; zeros beyond the end.
    pub(super) fn block(&self, number: u64) -> &[u8] {
        self.blocks.get(number as usize).map_or(&ZEROS, |block| &block[..])
    }

    /// One block, sharing its memory.
    pub(super) fn share(&self, number: u64) -> Bytes {
        self.blocks[number as usize].clone()
    }

    pub(super) fn set(&mut self, number: u64, content: Bytes) {
        self.blocks[number as usize] = content;
    }

    /// Fills `into`, whole blocks, from an offset.
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) {
        for (number, part) in (offset / BLOCK..).zip(into.chunks_mut(BLOCK as usize)) {
            part.copy_from_slice(&self.block(number)[..part.len()]);
        }
    }

    pub(super) fn write(&mut self, offset: u64, data: &Rope) {
        for (number, block) in (offset / BLOCK..).zip(blocks_of(data)) {
            self.set(number, block);
        }
    }
}

/// The blocks of a write, whose pieces are whole blocks.
pub(super) fn blocks_of(data: &Rope) -> impl Iterator<Item = Bytes> {
    let block = BLOCK as usize;
    data.pieces().iter().flat_map(move |piece| {
        assert!(piece.len().is_multiple_of(block), "a piece of {} bytes", piece.len());
        (0..piece.len()).step_by(block).map(move |at| piece.slice(at..at + block))
    })
}
