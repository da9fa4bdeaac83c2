use super::*;

#[test]
fn the_used_count_is_found_among_the_parameters_of_the_log_page() {
    let mut page = vec![0x0c, 0, 0, 24];
    page.extend([0, 1, 3, 8, 0, 0, 0, 9, 0, 0, 0, 0]);
    page.extend([0, 2, 3, 8, 0, 0, 0, 5, 0, 0, 0, 0]);
    assert_eq!(decode_used(&page, 11), Some(5 << 11));
    for cut in 0..24 {
        assert_eq!(decode_used(&page[..cut], 11), None, "{cut}");
    }
    page[0] = 0x0d;
    assert_eq!(decode_used(&page, 11), None);
}

fn map(ranges: &[(u64, u32, u8)]) -> Vec<u8> {
    let mut answer = (4 + ranges.len() as u32 * 16).to_be_bytes().to_vec();
    answer.extend([0; 4]);
    for (lba, blocks, status) in ranges {
        answer.extend(lba.to_be_bytes());
        answer.extend(blocks.to_be_bytes());
        answer.extend([*status, 0, 0, 0]);
    }
    answer
}

#[test]
fn only_mapped_ranges_count_and_only_as_far_as_asked() {
    let answer = map(&[(0, 8, 0), (8, 8, 1), (16, 8, 0), (24, 8, 2)]);
    assert_eq!(clip(&answer, 0, 32), Some((16, 32)));
    assert_eq!(clip(&answer, 4, 20), Some((8, 32)));
    assert_eq!(clip(&map(&[]), 0, 32), None);
    assert_eq!(clip(&map(&[(0, 8, 0)]), 8, 32), None, "no progress");
    assert_eq!(clip(&answer[..6], 0, 32), None);
}
