//! Self-describing sector contents: each is made from a tag, so that a sector at the wrong place or
//! of the wrong time is recognised by a look at it.

use block::{Buffer, Rope, SECTOR};
use bytes::Bytes;

use crate::random::mix;

/// What a sector holds: 0 for zeros, otherwise `command << 20 | place + 1`.
pub(crate) type Tag = u64;

/// A sector of which the model only knows that it holds something that was once written.
pub(crate) const ANY: Tag = u64::MAX;

/// What a sector that no command wrote is read as.
pub(crate) const NOBODY: Tag = u64::MAX - 1;

const SECTOR_BYTES: usize = SECTOR as usize;

/// The tag of a sector that a command wrote.
pub(crate) fn tag(command: u64, place: u64) -> Tag {
    command << 20 | (place + 1)
}

/// The tags of a block that a command wrote; zeros for command 0.
pub(crate) fn block_tags(command: u64) -> [Tag; 8] {
    let tag_at = |place| if command == 0 { 0 } else { tag(command, place) };
    std::array::from_fn(|place| tag_at(place as u64))
}

/// In words.
pub(crate) fn describe(tag: Tag) -> String {
    match tag {
        0 => "zeros".to_owned(),
        ANY => "anything".to_owned(),
        NOBODY => "nobody's bytes".to_owned(),
        _ => format!("sector {} of #{}", (tag & 0xf_ffff) - 1, tag >> 20),
    }
}

/// The words of a sector after the first: `start + index * step`.
fn progression(tag: Tag) -> (u64, u64) {
    if tag == 0 { (0, 0) } else { (mix(tag), 0x9e37_79b9_7f4a_7c15) }
}

/// Writes a sector's content.
pub(crate) fn emit(tag: Tag, sector: &mut [u8]) {
    let (mut word, step) = progression(tag);
    let words = sector.as_chunks_mut::<8>().0;
    for bytes in words.iter_mut() {
        *bytes = word.to_le_bytes();
        word = word.wrapping_add(step);
    }
    words[0] = tag.to_le_bytes();
}

/// The tag of a sector; `NOBODY` if no command wrote such a sector.
pub(crate) fn parse(sector: &[u8; SECTOR_BYTES]) -> Tag {
    let words = sector.as_chunks::<8>().0;
    let tag = u64::from_le_bytes(words[0]);
    let (start, step) = progression(tag);
    let mut difference = 0;
    let mut word = start;
    for bytes in &words[1..] {
        word = word.wrapping_add(step);
        difference |= u64::from_le_bytes(*bytes) ^ word;
    }
    if difference == 0 && tag != ANY { tag } else { NOBODY }
}

/// The tags of what was read.
pub(crate) fn tags_of(data: &Rope) -> Vec<Tag> {
    let whole = data.pieces().iter().all(|piece| piece.len().is_multiple_of(SECTOR_BYTES));
    if !whole {
        return data.to_vec().as_chunks().0.iter().map(parse).collect();
    }
    data.pieces().iter().flat_map(|piece| piece.as_chunks().0).map(parse).collect()
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
            assert_eq!(tags_of(&Rope::from(bytes.clone())), [tag]);
            for at in [0, 7, 8, 300, 511] {
                let mut broken = bytes.to_vec();
                broken[at] ^= 16;
                let broken = Rope::from(Bytes::from(broken));
                assert_eq!(tags_of(&broken), [NOBODY], "{tag:#x} byte {at}");
            }
        }
    }

    #[test]
    fn sectors_of_one_command_differ() {
        assert_ne!(bytes_of(&[tag(5, 1)]), bytes_of(&[tag(5, 2)]));
        assert_eq!(describe(tag(5, 2)), "sector 2 of #5");
    }
}
