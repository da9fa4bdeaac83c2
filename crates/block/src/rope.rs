//! Scatter-gather data (rope): several pieces that read as one.

use bytes::Bytes;
use smallvec::SmallVec;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A sequence of immutable pieces. A read that touches several places on disk, or holes, is
/// answered without copying them together.
#[derive(Clone, Debug, Default)]
pub struct Rope {
    pieces: SmallVec<[Bytes; 1]>,
    length: usize,
}

impl Rope {
    /// A rope of no bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends a piece.
    pub fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.length += piece.len();
            self.pieces.push(piece);
        }
    }

    /// Appends `length` zero bytes.
    pub fn push_zeros(&mut self, mut length: usize) {
        while length > 0 {
            let part = length.min(ZEROS.len());
            self.push(Bytes::from_static(&ZEROS[..part]));
            length -= part;
        }
    }

    /// Appends all pieces of `other`.
    pub fn append(&mut self, other: Self) {
        self.length += other.length;
        self.pieces.extend(other.pieces);
    }

    /// The pieces in order; none is empty.
    pub fn pieces(&self) -> &[Bytes] {
        &self.pieces
    }

    /// The `length` bytes from `offset`, sharing memory with this rope.
    ///
    /// # Panics
    /// If the range reaches beyond the end.
    pub fn slice(&self, mut offset: usize, mut length: usize) -> Self {
        assert!(offset + length <= self.length, "slice of a rope beyond its end");
        let mut part = Self::new();
        for piece in &self.pieces {
            if length == 0 {
                break;
            }
            if offset >= piece.len() {
                offset -= piece.len();
                continue;
            }
            let take = length.min(piece.len() - offset);
            part.push(piece.slice(offset..offset + take));
            length -= take;
            offset = 0;
        }
        part
    }

    /// All bytes in one new vector.
    pub fn to_vec(&self) -> Vec<u8> {
        self.pieces.concat()
    }
}

impl From<Bytes> for Rope {
    fn from(piece: Bytes) -> Self {
        let mut rope = Self::new();
        rope.push(piece);
        rope
    }
}

impl FromIterator<Bytes> for Rope {
    fn from_iter<I: IntoIterator<Item = Bytes>>(pieces: I) -> Self {
        let mut rope = Self::new();
        pieces.into_iter().for_each(|piece| rope.push(piece));
        rope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_reads_the_same_bytes_as_the_whole() {
        let mut rope = Rope::from(Bytes::from_static(b"abc"));
        rope.push_zeros(70_000);
        rope.push(Bytes::from_static(b"def"));
        let whole = rope.to_vec();
        assert_eq!(whole.len(), rope.len());
        for (offset, length) in [(0, 0), (0, 3), (2, 5), (3, 70_000), (2, 70_002), (70_003, 3)] {
            assert_eq!(rope.slice(offset, length).to_vec(), whole[offset..offset + length]);
        }
    }
}
