//! What sectors hold: each is made from a tag, so that a sector at the wrong place or of the wrong
//! time is recognised by a look at it.

use block::{Buffer, SECTOR};
use bytes::Bytes;

/// What a sector holds: 0 for zeros, otherwise `command << 20 | place + 1`.
pub(crate) type Tag = u64;

/// A sector of which the model only knows that it holds something that was once written.
pub(crate) const ANY: Tag = u64::MAX;

const SECTOR_BYTES: usize = SECTOR as usize;
const WORDS: usize = SECTOR_BYTES / 8;

/// The tag of a sector that a command wrote.
pub(crate) fn tag(command: u64, place: u64) -> Tag {
    command << 20 | (place + 1)
}

/// In words.
pub(crate) fn describe(tag: Tag) -> String {
    match tag {
        0 => "zeros".to_owned(),
        ANY => "anything".to_owned(),
        _ => format!("sector {} of #{}", (tag & 0xf_ffff) - 1, tag >> 20),
    }
}

fn word(tag: Tag, index: usize) -> u64 {
    match index {
        0 => tag,
        _ => (tag ^ (index as u64) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}

/// Writes a sector's content.
pub(crate) fn emit(tag: Tag, sector: &mut [u8]) {
    if tag == 0 {
        return sector.fill(0);
    }
    for (index, bytes) in sector.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *bytes = word(tag, index).to_le_bytes();
    }
}

/// The tag of a sector; `None` if no command wrote such a sector.
pub(crate) fn parse(sector: &[u8]) -> Option<Tag> {
    let words = sector.as_chunks::<8>().0;
    let tag = u64::from_le_bytes(words[0]);
    let differs = |index: usize| u64::from_le_bytes(words[index]) ^ expected(tag, index);
    let difference = (1..WORDS).fold(0, |all, index| all | differs(index));
    (difference == 0 && tag != ANY).then_some(tag)
}

fn expected(tag: Tag, index: usize) -> u64 {
    if tag == 0 { 0 } else { word(tag, index) }
}

/// The bytes of many sectors, aligned in memory.
pub(crate) fn bytes_of(tags: &[Tag]) -> Bytes {
    let mut buffer = Buffer::for_overwrite(tags.len() * SECTOR_BYTES);
    for (tag, sector) in tags.iter().zip(buffer.chunks_exact_mut(SECTOR_BYTES)) {
        emit(*tag, sector);
    }
    buffer.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_tells_its_tag_and_a_damaged_one_tells_nothing() {
        for tag in [0, tag(1, 0), tag(1 << 40, 9999)] {
            let bytes = bytes_of(&[tag]);
            assert_eq!(parse(&bytes), Some(tag));
            for at in [0, 7, 8, 300, 511] {
                let mut broken = bytes.to_vec();
                broken[at] ^= 16;
                assert_eq!(parse(&broken), None, "{tag:#x} byte {at}");
            }
        }
    }

    #[test]
    fn sectors_of_one_command_differ() {
        assert_ne!(bytes_of(&[tag(5, 1)]), bytes_of(&[tag(5, 2)]));
        assert_eq!(describe(tag(5, 2)), "sector 2 of #5");
    }
}
