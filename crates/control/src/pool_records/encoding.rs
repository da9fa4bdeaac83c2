//! Records as blocks of 4 KiB: each block says to which record it belongs and has a checksum, so a
//! reader that looks at every block finds the whole ones (docs/format.md, 'Records of the array').

use array::{Record, RecordKey};
use block::BLOCK;
use serde::{Deserialize, Serialize};
use store::crc32c;

use crate::limits::RECORD_BLOCKS_MAX;

const MAGIC: [u8; 4] = *b"GREC";

/// The form of blocks; another one is not understood.
const FORM: u8 = 1;

/// Set in a record that says that there is no such object any more.
const DELETED: u8 = 1;

const BLOCK_BYTES: usize = BLOCK as usize;
const PAYLOAD_AT: usize = 32;
const CRC_AT: usize = BLOCK_BYTES - 4;
const PAYLOAD_BYTES: usize = CRC_AT - PAYLOAD_AT;

/// What a record says, as it is written.
#[derive(Serialize, Deserialize)]
struct Body {
    key: RecordKey,
    record: Option<Record>,
}

/// A record as text.
pub(super) fn text_of(key: &RecordKey, record: Option<Record>) -> String {
    let body = Body { key: key.clone(), record };
    serde_json::to_string(&body).expect("a record has text and numbers for keys")
}

/// Reads the text of a record.
pub(super) fn parse_text(text: &[u8]) -> Option<(RecordKey, Option<Record>)> {
    let Body { key, record } = serde_json::from_slice(text).ok()?;
    Some((key, record))
}

/// Blocks that a text takes.
pub(super) const fn blocks_of(text: &str) -> usize {
    let blocks = text.len().div_ceil(PAYLOAD_BYTES);
    if blocks == 0 { 1 } else { blocks }
}

/// A record as blocks, one after the other.
pub(super) fn emit(text: &str, version: u64, is_deleted: bool) -> Vec<u8> {
    let count = blocks_of(text);
    let whole = crc32c(text.as_bytes());
    let mut bytes = vec![0; count * BLOCK_BYTES];
    let mut parts = text.as_bytes().chunks(PAYLOAD_BYTES);
    for (index, block) in bytes.chunks_exact_mut(BLOCK_BYTES).enumerate() {
        let part = parts.next().unwrap_or_default();
        block[..4].copy_from_slice(&MAGIC);
        block[4] = FORM;
        block[5] = if is_deleted { DELETED } else { 0 };
        block[6..8].copy_from_slice(&(index as u16).to_le_bytes());
        block[8..10].copy_from_slice(&(count as u16).to_le_bytes());
        block[10..12].copy_from_slice(&(part.len() as u16).to_le_bytes());
        block[16..24].copy_from_slice(&version.to_le_bytes());
        block[24..28].copy_from_slice(&whole.to_le_bytes());
        block[PAYLOAD_AT..PAYLOAD_AT + part.len()].copy_from_slice(part);
        let crc = crc32c(&block[..CRC_AT]);
        block[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}

/// One block of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    pub(super) version: u64,
    pub(super) is_deleted: bool,
    index: u16,
    pub(super) count: u16,
    whole: u32,
    payload: &'a [u8],
}

impl<'a> Part<'a> {
    /// Reads a block; `None` if it is none of a record, or damaged.
    pub(super) fn parse(block: &'a [u8]) -> Option<Self> {
        let word = |at: usize| {
            u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
        };
        let half = |at: usize| u16::from_le_bytes([block[at], block[at + 1]]);
        if block.len() != BLOCK_BYTES || block[..4] != MAGIC || block[4] != FORM {
            return None;
        }
        if word(CRC_AT) != crc32c(&block[..CRC_AT]) {
            return None;
        }
        let (index, count, length) = (half(6), half(8), usize::from(half(10)));
        let fits = index < count && usize::from(count) <= RECORD_BLOCKS_MAX;
        (fits && length <= PAYLOAD_BYTES).then(|| Self {
            version: u64::from(word(16)) | u64::from(word(20)) << 32,
            is_deleted: block[5] & DELETED != 0,
            index,
            count,
            whole: word(24),
            payload: &block[PAYLOAD_AT..PAYLOAD_AT + length],
        })
    }

    /// Whether a record begins here.
    pub(super) const fn is_first(&self) -> bool {
        self.index == 0
    }
}

/// The text of a record whose blocks follow each other; `None` unless it is whole.
pub(super) fn join(parts: &[Part<'_>]) -> Option<Vec<u8>> {
    let first = parts.first()?;
    let belongs = |(index, part): (usize, &Part<'_>)| {
        usize::from(part.index) == index
            && (part.count, part.version, part.whole) == (first.count, first.version, first.whole)
    };
    if parts.len() != usize::from(first.count) || !parts.iter().enumerate().all(belongs) {
        return None;
    }
    let text: Vec<u8> = parts.iter().flat_map(|part| part.payload).copied().collect();
    (crc32c(&text) == first.whole).then_some(text)
}
