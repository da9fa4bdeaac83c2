use super::*;

#[test]
fn one_block_is_repeated_and_zeros_are_metadata() {
    let mut world = World::new();
    let block = pattern(4, 1);
    world.good(0, &cdb16(0x93, 0, 10, 5), &block);
    world.good(0, &cdb10(0x41, 0, 15, 5), &block);
    for lba in 10..20 {
        assert_eq!(world.bytes(ONE, lba, 1), block);
    }
    world.good(0, &cdb16(0x93, 0, 10, 10), &[0; BLOCK]);
    assert!(world.bytes(ONE, 10, 10).iter().all(|&byte| byte == 0));
}

#[test]
fn with_unmap_zeros_are_unmapped_and_other_data_is_written() {
    let mut world = World::new();
    let block = pattern(4, 1);
    world.good(0, &cdb16(0x93, 0x08, 3, 7), &block);
    world.good(0, &cdb16(0x93, 0x08, 3, 5), &[0; BLOCK]);
    world.good(0, &cdb10(0x41, 0x08, 8, 1), &[0; BLOCK]);
    let kinds: Vec<_> = world.requests.iter().map(|(_, request)| request.as_str()).collect();
    assert_eq!(kinds, ["WriteSame", "Unmap", "Unmap"]);
    assert!(world.bytes(ONE, 3, 6).iter().all(|&byte| byte == 0));
    assert_eq!(world.bytes(ONE, 9, 1), block);
}

#[test]
fn without_a_data_out_buffer_zeros_are_written() {
    let mut world = World::new();
    world.number(ONE, 0, 16);
    let cdb = cdb16(0x93, 0x01, 0, 8);
    assert_eq!(world.target.decode(ALICE, 0, &cdb).data_out_length(), 0);
    world.good(0, &cdb, &[]);
    world.good(0, &cdb16(0x93, 0x09, 8, 8), &[]);
    assert!(world.bytes(ONE, 0, 16).iter().all(|&byte| byte == 0));
    assert_eq!(world.fails(0, &cdb10(0x41, 0x01, 0, 8), &[]), INVALID_CDB);
}

#[test]
fn the_limits_hold_exactly_and_nothing_happens_beyond_them() {
    let mut world = World::new();
    let blocks = (limits::WRITE_SAME_BYTES_MAX / BLOCK as u64) as u32;
    world.number(ONE, 100, 1);
    world.good(0, &cdb16(0x93, 0, 100, blocks), &[0; BLOCK]);
    assert!(world.bytes(ONE, 100, 1).iter().all(|&byte| byte == 0));
    assert_eq!(world.requests.len(), 1, "wholly or not at all");
    world.requests.clear();
    for count in [0, blocks + 1, BLOCKS as u32] {
        assert_eq!(world.fails(0, &cdb16(0x93, 0, 0, count), &[0; BLOCK]), INVALID_CDB);
    }
    assert_eq!(world.fails(0, &cdb10(0x41, 0, 0, 0), &[0; BLOCK]), INVALID_CDB);
    assert_eq!(world.requests, []);
}

#[test]
fn a_typical_one_of_esxi_is_one_request() {
    let mut world = World::new();
    world.good(0, &cdb16(0x93, 0, 2048, 2048), &[0; BLOCK]);
    assert_eq!(world.requests.len(), 1);
}

#[test]
fn another_length_of_data_than_one_block_is_refused() {
    let mut world = World::new();
    for length in [0, 256, 511, 513, 1024] {
        for flags in [0, 8] {
            let told = world.fails(0, &cdb16(0x93, flags, 0, 1), &vec![0; length]);
            assert_eq!(told, INVALID_CDB);
            let told = world.fails(0, &cdb10(0x41, flags, 0, 1), &vec![0; length]);
            assert_eq!(told, INVALID_CDB);
        }
    }
    assert_eq!(world.requests, []);
}

#[test]
fn anchoring_is_refused_where_space_is_not_reserved_or_nothing_is_unmapped() {
    let mut world = World::new();
    assert_eq!(world.fails(0, &cdb16(0x93, 0x18, 0, 1), &[0; BLOCK]), INVALID_CDB);
    world.reserve(ONE);
    assert_eq!(world.fails(0, &cdb16(0x93, 0x10, 0, 1), &[0; BLOCK]), INVALID_CDB);
    assert_eq!(world.requests, []);
}

#[test]
fn where_space_is_reserved_what_is_unmapped_is_anchored() {
    let mut world = World::new();
    world.reserve(ONE);
    world.number(ONE, 0, 32);
    world.good(0, &cdb16(0x93, 0x18, 0, 8), &[0; BLOCK]);
    world.good(0, &cdb10(0x41, 0x18, 8, 8), &[0; BLOCK]);
    world.good(0, &cdb16(0x93, 0x19, 16, 8), &[]);
    assert!(world.bytes(ONE, 0, 24).iter().all(|&byte| byte == 0));
    let told = world.good(0, &cdb16(0x9e, 0x12, 0, 256), &[]);
    assert_eq!((told[20], told[36]), (2, 0), "anchored, then mapped: {told:?}");
    assert_eq!(told[16..20], 24_u32.to_be_bytes());
    // What is not all zeros is written, as it must read back.
    let block = pattern(4, 1);
    world.good(0, &cdb16(0x93, 0x18, 0, 8), &block);
    assert_eq!(world.bytes(ONE, 7, 1), block);
}

/// WRITE SAME (32).
fn cdb32(flags: u8, lba: u64, count: u32) -> [u8; 32] {
    let mut cdb = [0; 32];
    (cdb[0], cdb[7], cdb[9], cdb[10]) = (0x7f, 0x18, 0x0d, flags);
    cdb[12..20].copy_from_slice(&lba.to_be_bytes());
    // Tags as sg_write_x sends them.
    cdb[20..26].fill(0xff);
    cdb[28..].copy_from_slice(&count.to_be_bytes());
    cdb
}

#[test]
fn the_form_of_32_bytes_does_the_same() {
    let mut world = World::new();
    let block = pattern(4, 1);
    world.good(0, &cdb32(0, 5, 3), &block);
    assert_eq!(world.bytes(ONE, 7, 1), block);
    assert!(world.bytes(ONE, 8, 1).iter().all(|&byte| byte == 0));
    world.good(0, &cdb32(0x08, 5, 1), &[0; BLOCK]);
    world.good(0, &cdb32(0x01, 6, 1), &[]);
    world.good(0, &cdb32(0x09, 7, 1), &[]);
    assert!(world.bytes(ONE, 5, 3).iter().all(|&byte| byte == 0));
    let kinds: Vec<_> = world.requests.iter().map(|(_, request)| request.as_str()).collect();
    assert_eq!(kinds, ["WriteSame", "Unmap", "WriteSame", "Unmap"]);
    let blocks = (limits::WRITE_SAME_BYTES_MAX / BLOCK as u64) as u32;
    for count in [0, blocks + 1] {
        let sense = world.run(ALICE, 0, &cdb32(0, 0, count), &[0; BLOCK]).sense.unwrap();
        assert_eq!((sense.code.asc, sense.field.unwrap().byte), (0x24, 28));
    }
    for flags in [0x20, 0x04, 0x02, 0x18] {
        assert_eq!(world.fails(0, &cdb32(flags, 0, 1), &[0; BLOCK]), INVALID_CDB);
    }
    assert_eq!(world.fails(0, &cdb32(0, BLOCKS, 1), &[0; BLOCK]), OUT_OF_RANGE);
}
