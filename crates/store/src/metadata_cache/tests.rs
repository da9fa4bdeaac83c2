use super::*;

const FULL: usize = BLOCK as usize;

fn at(place: u64) -> Address {
    Address::from_bits(place)
}

fn run(start: u64, blocks: u64) -> Run {
    Run { start: at(start), blocks }
}

fn content(byte: u8) -> Vec<u8> {
    vec![byte; FULL]
}

#[test]
fn a_block_is_shown_to_whom_the_map_leads_there_until_another_is_written_there() {
    let mut recent = MetadataCache::default();
    recent.keep(at(7), &[70, 80], &[content(7), content(8)].concat());
    assert_eq!(recent.get(at(7), 70).as_deref(), Some(&content(7)[..]));
    assert_eq!(recent.get(at(8), 80).as_deref(), Some(&content(8)[..]));
    assert!(recent.get(at(8), 70).is_none(), "another checksum is another block");
    recent.forget(run(0, 8));
    assert!(recent.get(at(7), 70).is_none());
    assert!(recent.get(at(8), 80).is_some());
    recent.keep(at(8), &[81], &content(9));
    assert!(recent.get(at(8), 80).is_none());
    assert_eq!(recent.get(at(8), 81).as_deref(), Some(&content(9)[..]));
}

#[test]
fn the_oldest_blocks_make_room_and_memory_stays_bounded() {
    let mut recent = MetadataCache::default();
    let max = RECENT_BLOCKS_MAX as u64;
    for place in 0..3 * max {
        // One place is written again and again, as a heartbeat is.
        recent.forget(run(5, 1));
        recent.keep(at(5), &[place as u32], &content(1));
        recent.keep(at(100 + place), &[0], &content(2));
        assert!(recent.blocks.len() <= RECENT_BLOCKS_MAX);
        assert!(recent.parts.order.len() <= RECENT_BLOCKS_MAX);
    }
    assert!(recent.get(at(5), 3 * max as u32 - 1).is_some());
    assert!(recent.get(at(100), 0).is_none());
    assert!(recent.get(at(100 + 3 * max - 1), 0).is_some());
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

#[test]
fn what_is_read_ahead_is_shown_when_it_came_and_only_if_it_is_still_there() {
    let mut recent = MetadataCache::default();
    let blocks: Vec<Vec<u8>> = (1..=4).map(content).collect();
    let crcs: Vec<u32> = blocks.iter().map(|block| crc32c(block)).collect();
    let number = recent.expect(at(10), &crcs);
    assert!(recent.get(at(10), crcs[0]).is_none(), "it is not there yet");
    // The second is written to meanwhile, the third too and kept; the fourth decayed.
    recent.forget(run(11, 2));
    recent.keep(at(12), &[99], &content(9));
    let came = [&blocks[0][..], &blocks[1], &blocks[2], &content(7)].concat();
    recent.arrived(number, run(10, 4), Some(&came));
    assert_eq!(recent.get(at(10), crcs[0]).as_deref(), Some(&blocks[0][..]));
    assert!(recent.get(at(11), crcs[1]).is_none());
    assert_eq!(recent.get(at(12), 99).as_deref(), Some(&content(9)[..]));
    assert!(recent.get(at(13), crcs[3]).is_none());
    assert_eq!(recent.blocks.len(), 2);
}

#[test]
fn a_read_ahead_that_failed_leaves_nothing_behind() {
    let mut recent = MetadataCache::default();
    let number = recent.expect(at(10), &[1, 2]);
    recent.arrived(number, run(10, 2), None);
    assert!(recent.blocks.is_empty());
}

#[test]
fn blocks_that_were_read_ahead_do_not_drive_others_out() {
    let mut recent = MetadataCache::default();
    recent.keep(at(5), &[50], &content(5));
    for place in (100..).take(2 * AHEAD_KEPT_BLOCKS_MAX) {
        recent.expect(at(place), &[1]);
    }
    assert!(recent.get(at(5), 50).is_some());
    assert_eq!(recent.blocks.len(), 1 + AHEAD_KEPT_BLOCKS_MAX);
}
