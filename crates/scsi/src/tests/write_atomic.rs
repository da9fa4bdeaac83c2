use super::*;

fn write_atomic(lba: u64, count: u16) -> [u8; 16] {
    let mut cdb = cdb16(0x9c, 0, lba, 0);
    cdb[12..14].copy_from_slice(&count.to_be_bytes());
    cdb
}

#[test]
fn the_longest_atomic_write_is_one_request_and_one_block_more_is_refused() {
    let mut world = World::new();
    let page = world.good(0, &[0x12, 1, 0xb0, 0, 255, 0], &[]);
    let longest = u32::from_be_bytes(page[44..48].try_into().unwrap());
    assert_eq!(u64::from(longest) * BLOCK as u64, limits::ATOMIC_BYTES_MAX);
    assert!(page[48..64].iter().all(|&byte| byte == 0), "no alignment, no boundary");
    let longest = longest as u16;
    let data = pattern(9, usize::from(longest) + 1);
    world.good(0, &write_atomic(3, longest), &data[..data.len() - BLOCK]);
    assert_eq!(world.requests, [(ONE, "Write".to_owned())]);
    assert!(world.bytes(ONE, 3, u64::from(longest)) == &data[..data.len() - BLOCK]);
    world.requests.clear();
    assert_eq!(world.fails(0, &write_atomic(3, longest + 1), &data), INVALID_CDB);
    assert_eq!(world.fails(0, &write_atomic(0, 2), &data[..BLOCK]), INVALID_CDB);
    assert_eq!(world.fails(0, &write_atomic(0, 1), &data[..2 * BLOCK]), INVALID_CDB);
    assert_eq!(world.fails(0, &write_atomic(BLOCKS, 1), &data[..BLOCK]), OUT_OF_RANGE);
    world.good(0, &write_atomic(BLOCKS, 0), &[]);
    let mut boundary = write_atomic(0, 1);
    boundary[11] = 8;
    assert_eq!(world.fails(0, &boundary, &data[..BLOCK]), INVALID_CDB);
    assert_eq!(world.requests, []);
}

#[test]
fn get_lba_status_of_32_bytes_looks_no_further_than_it_is_asked_to() {
    let mut world = World::new();
    world.number(ONE, 8, 8);
    let cdb = |lba: u64, scan: u32, length: u32| {
        let mut cdb = [0; 32];
        (cdb[0], cdb[7], cdb[9]) = (0x7f, 24, 0x12);
        cdb[12..20].copy_from_slice(&lba.to_be_bytes());
        cdb[20..24].copy_from_slice(&scan.to_be_bytes());
        cdb[28..32].copy_from_slice(&length.to_be_bytes());
        cdb
    };
    let same = world.good(
        0,
        &{
            let mut cdb = cdb16(0x9e, 0x12, 0, 4096);
            cdb[13] = 0;
            cdb
        },
        &[],
    );
    assert_eq!(world.good(0, &cdb(0, 0, 4096), &[]), same);
    let told = world.good(0, &cdb(4, 6, 4096), &[]);
    assert_eq!(told.len(), 8 + 2 * 16);
    assert_eq!((told[8 + 7], told[8 + 11], told[8 + 12]), (4, 4, 1));
    assert_eq!((told[24 + 7], told[24 + 11], told[24 + 12]), (8, 2, 0));
    assert_eq!(world.fails(0, &cdb(BLOCKS, 0, 4096), &[]), OUT_OF_RANGE);
}
