//! Command descriptor blocks and parameter lists (SPC-4, SBC-4), as a host makes them.

/// A CDB of 16 bytes; shorter commands leave the rest zero.
pub type Cdb = [u8; 16];

fn extent16(opcode: u8, flags: u8, lba: u64, blocks: u32) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[1] = flags;
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

/// READ(16).
pub fn read(lba: u64, blocks: u32) -> Cdb {
    extent16(0x88, 0, lba, blocks)
}

/// WRITE(16).
pub fn write(lba: u64, blocks: u32) -> Cdb {
    extent16(0x8a, 0, lba, blocks)
}

/// WRITE SAME(16) of one block.
pub fn write_same(lba: u64, blocks: u32) -> Cdb {
    extent16(0x93, 0, lba, blocks)
}

/// COMPARE AND WRITE of `blocks` blocks.
pub fn compare_and_write(lba: u64, blocks: u8) -> Cdb {
    let mut cdb = extent16(0x89, 0, lba, 0);
    cdb[13] = blocks;
    cdb
}

/// READ CAPACITY(16), SERVICE ACTION IN(16) 10h.
pub fn read_capacity() -> Cdb {
    extent16(0x9e, 0x10, 0, 32)
}

/// REPORT LUNS with an answer of at most so many bytes.
pub fn report_luns(length: u32) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = 0xa0;
    cdb[6..10].copy_from_slice(&length.to_be_bytes());
    cdb
}

/// REPORT TARGET PORT GROUPS, MAINTENANCE IN 0Ah.
pub fn report_target_port_groups(length: u32) -> Cdb {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (0xa3, 0x0a);
    cdb[6..10].copy_from_slice(&length.to_be_bytes());
    cdb
}

/// INQUIRY for standard data.
pub fn inquiry(length: u8) -> Cdb {
    let mut cdb = [0; 16];
    (cdb[0], cdb[4]) = (0x12, length);
    cdb
}

/// INQUIRY for vital product data page 83h.
pub fn inquiry_device_identification() -> Cdb {
    let mut cdb = [0; 16];
    cdb[..6].copy_from_slice(&[0x12, 1, 0x83, 0, 255, 0]);
    cdb
}

/// UNMAP with a parameter list of `length` bytes.
pub fn unmap(length: u16) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = 0x42;
    cdb[7..9].copy_from_slice(&length.to_be_bytes());
    cdb
}

/// The parameter list of UNMAP for one extent.
pub fn unmap_list(lba: u64, blocks: u32) -> Vec<u8> {
    let mut list = vec![0; 24];
    list[1] = 22;
    list[3] = 16;
    list[8..16].copy_from_slice(&lba.to_be_bytes());
    list[16..20].copy_from_slice(&blocks.to_be_bytes());
    list
}

/// EXTENDED COPY(LID1) with a parameter list of `length` bytes.
pub fn extended_copy(length: u32) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[10..14].copy_from_slice(&length.to_be_bytes());
    cdb
}

/// The parameter list that ESXi sends: two E4h descriptors and one segment 02h, list identifier 0
/// without held data (LIST ID USAGE 11b).
pub fn extended_copy_list(
    source: &[u8; 16],
    source_lba: u64,
    destination: &[u8; 16],
    destination_lba: u64,
    blocks: u16,
) -> Vec<u8> {
    let mut list = vec![0; 108];
    list[1] = 0x18;
    list[3] = 64;
    list[11] = 28;
    for (at, naa) in [(16, source), (48, destination)] {
        list[at] = 0xe4;
        list[at + 4] = 1;
        list[at + 5] = 3;
        list[at + 7] = 16;
        list[at + 8..at + 24].copy_from_slice(naa);
        list[at + 30] = 2;
    }
    let segment = &mut list[80..];
    segment[0] = 2;
    segment[3] = 0x18;
    segment[7] = 1;
    segment[10..12].copy_from_slice(&blocks.to_be_bytes());
    segment[12..20].copy_from_slice(&source_lba.to_be_bytes());
    segment[20..28].copy_from_slice(&destination_lba.to_be_bytes());
    list
}

/// A piece of an EXTENDED COPY: source LBA, destination LBA, blocks.
pub type Segment = (u64, u64, u16);

/// The parameter list of EXTENDED COPY with several segments, as [`extended_copy_list`] makes it
/// with one.
pub fn extended_copy_segments(
    source: &[u8; 16],
    destination: &[u8; 16],
    segments: &[Segment],
) -> Vec<u8> {
    let mut list = extended_copy_list(source, 0, destination, 0, 0);
    list.truncate(80);
    list[8..12].copy_from_slice(&(segments.len() as u32 * 28).to_be_bytes());
    for &(from, to, blocks) in segments {
        let whole = extended_copy_list(source, from, destination, to, blocks);
        list.extend_from_slice(&whole[80..]);
    }
    list
}

/// The NAA designator of the logical unit in a device identification page.
pub fn find_naa(page: &[u8]) -> Option<[u8; 16]> {
    let length = usize::from(u16::from_be_bytes([*page.get(2)?, *page.get(3)?]));
    let mut rest = page.get(4..(4 + length).min(page.len()))?;
    while let [code_set, kind, _, length, after @ ..] = rest {
        let (designator, next) = after.split_at_checked(usize::from(*length))?;
        if code_set & 0xf == 1 && kind & 0x3f == 3 && designator.len() == 16 {
            return designator.try_into().ok();
        }
        rest = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extended_copy_list_has_the_length_and_places_of_the_standard() {
        let list = extended_copy_list(&[6; 16], 1, &[7; 16], 2, 8192);
        assert_eq!(list.len(), 108);
        assert_eq!(list[48 + 8..48 + 24], [7; 16]);
        assert_eq!(list[90..92], [0x20, 0]);
        assert_eq!((list[99], list[107]), (1, 2));
    }

    #[test]
    fn the_naa_designator_is_found_among_others() {
        let mut page = vec![0, 0x83, 0, 28, 2, 1, 0, 4, b'a', b'b', b'c', b'd', 1, 3, 0, 16];
        page.extend([6; 16]);
        assert_eq!(find_naa(&page), Some([6; 16]));
        for cut in 0..page.len() {
            assert_eq!(find_naa(&page[..cut]), None, "{cut}");
        }
    }
}
