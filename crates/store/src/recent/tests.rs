use super::*;

const FULL: usize = BLOCK as usize;

fn content(byte: u8) -> Vec<u8> {
    vec![byte; FULL]
}

#[test]
fn a_block_is_shown_to_whom_the_map_leads_there_until_another_is_written_there() {
    let mut recent = Recent::default();
    recent.keep(7, &[70, 80], &[content(7), content(8)].concat());
    assert_eq!(recent.get(7, 70, false).as_deref(), Some(&content(7)[..]));
    assert_eq!(recent.get(8, 80, false).as_deref(), Some(&content(8)[..]));
    assert!(recent.get(8, 70, false).is_none(), "another checksum is another block");
    recent.forget(0, 8);
    assert!(recent.get(7, 70, false).is_none());
    assert!(recent.get(8, 80, false).is_some());
    recent.keep(8, &[81], &content(9));
    assert!(recent.get(8, 80, false).is_none());
    assert_eq!(recent.get(8, 81, false).as_deref(), Some(&content(9)[..]));
}

#[test]
fn the_oldest_blocks_make_room_and_memory_stays_bounded() {
    let mut recent = Recent::default();
    let max = RECENT_BLOCKS_MAX as u64;
    for place in 0..3 * max {
        // One place is written again and again, as a heartbeat is.
        recent.forget(5, 1);
        recent.keep(5, &[place as u32], &content(1));
        recent.keep(100 + place, &[0], &content(2));
        assert!(recent.blocks.len() <= RECENT_BLOCKS_MAX);
        assert!(recent.order.len() <= RECENT_BLOCKS_MAX);
    }
    assert!(recent.get(5, 3 * max as u32 - 1, false).is_some());
    assert!(recent.get(100, 0, false).is_none());
    assert!(recent.get(100 + 3 * max - 1, 0, false).is_some());
}

#[test]
fn only_requests_for_parts_of_few_blocks_count() {
    let read = |offset, length| Request::Read { range: ByteRange::new(offset, length) };
    assert!(is_for_parts(&read(512, 512)));
    assert!(is_for_parts(&read(3584, 1024)));
    assert!(!is_for_parts(&read(0, BLOCK)));
    assert!(!is_for_parts(&read(512, RECENT_BYTES_MAX + 512)));
    let range = ByteRange::new(BLOCK, BLOCK);
    let (compare, write) = (Bytes::new(), Bytes::new());
    assert!(is_for_parts(&Request::CompareAndWrite { range, compare, write }));
}
