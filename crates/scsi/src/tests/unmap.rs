use super::*;

fn list(descriptors: &[(u64, u32)]) -> Vec<u8> {
    let bytes = descriptors.len() as u16 * 16;
    let mut list = (bytes + 6).to_be_bytes().to_vec();
    list.extend(bytes.to_be_bytes());
    list.extend([0; 4]);
    for (lba, count) in descriptors {
        list.extend(lba.to_be_bytes());
        list.extend(count.to_be_bytes());
        list.extend([0; 4]);
    }
    list
}

fn cdb(length: usize) -> [u8; 10] {
    let [high, low] = (length as u16).to_be_bytes();
    [0x42, 0, 0, 0, 0, 0, 0, high, low, 0]
}

fn unmap(world: &mut World, list: &[u8]) -> Option<Code> {
    let sense = world.run(ALICE, 0, &cdb(list.len()), list).sense?;
    Some((sense.code.key as u8, sense.code.asc, sense.code.ascq))
}

#[test]
fn unmapped_blocks_read_as_zeros_and_their_neighbours_stay() {
    let mut world = World::new();
    world.number(ONE, 0, 100);
    let before = world.bytes(ONE, 0, 100).to_vec();
    assert_eq!(unmap(&mut world, &list(&[(10, 5), (50, 1), (12, 10)])), None);
    for block in 0..100 {
        let unmapped = (10..22).contains(&block) || block == 50;
        let is = world.bytes(ONE, block, 1);
        let at = block as usize * BLOCK;
        let wanted = if unmapped { &[0; BLOCK][..] } else { &before[at..at + BLOCK] };
        assert_eq!(is, wanted, "{block}");
    }
    assert_eq!(world.requests.len(), 1);
}

#[test]
fn every_null_form_changes_nothing_even_after_a_real_one() {
    let mut world = World::new();
    world.number(ONE, 0, 64);
    assert_eq!(unmap(&mut world, &list(&[(0, 8)])), None);
    world.requests.clear();
    let before = world.bytes(ONE, 0, 64).to_vec();
    let rest = [list(&[]), vec![0; 15]].concat();
    for form in [vec![], list(&[]), list(&[(8, 0)]), list(&[(8, 0), (16, 0)]), rest] {
        assert_eq!(unmap(&mut world, &form), None, "{form:x?}");
    }
    assert_eq!(world.requests, []);
    assert_eq!(world.bytes(ONE, 0, 64), before);
}

#[test]
fn the_limits_hold_exactly_and_nothing_happens_beyond_them() {
    let mut world = World::new();
    let blocks = (limits::UNMAP_BYTES_MAX / BLOCK as u64) as u32;
    let many = vec![(0, 1); limits::UNMAP_DESCRIPTORS_MAX];
    assert_eq!(unmap(&mut world, &list(&[(0, blocks)])), None);
    assert_eq!(unmap(&mut world, &list(&many)), None);
    world.requests.clear();
    assert_eq!(unmap(&mut world, &list(&[(0, blocks), (0, 1)])), Some(INVALID_LIST));
    assert_eq!(unmap(&mut world, &list(&[(0, blocks + 1)])), Some(INVALID_LIST));
    let too_many = vec![(0, 1); limits::UNMAP_DESCRIPTORS_MAX + 1];
    assert_eq!(unmap(&mut world, &list(&too_many)), Some(INVALID_LIST));
    for bad in [(BLOCKS, 1), (BLOCKS - 1, 2), (u64::MAX, 1), (0, u32::MAX)] {
        let told = unmap(&mut world, &list(&[(0, 1), bad]));
        assert!(matches!(told, Some(OUT_OF_RANGE | INVALID_LIST)), "{bad:?}");
    }
    assert_eq!(world.requests, []);
}

#[test]
fn a_parameter_list_that_is_cut_short_is_refused() {
    let mut world = World::new();
    let whole = list(&[(0, 1)]);
    for length in 1..8 {
        assert_eq!(unmap(&mut world, &whole[..length]), Some(LIST_LENGTH));
    }
    for length in 8..24 {
        assert_eq!(unmap(&mut world, &whole[..length]), Some(LIST_LENGTH));
    }
    assert_eq!(world.fails(0, &cdb(24), &whole[..20]), LIST_LENGTH);
    assert_eq!(world.requests, []);
}

#[test]
fn anchoring_is_refused_where_space_is_not_reserved() {
    let mut world = World::new();
    let mut cdb = cdb(24);
    cdb[1] = 1;
    assert_eq!(world.fails(0, &cdb, &list(&[(0, 1)])), INVALID_CDB);
    assert_eq!(world.requests, []);
    world.reserve(ONE);
    world.number(ONE, 0, 2);
    world.good(0, &cdb, &list(&[(0, 1)]));
    assert!(world.bytes(ONE, 0, 1).iter().all(|&byte| byte == 0));
    assert_eq!(world.good(0, &cdb16(0x9e, 0x12, 0, 24), &[])[20], 2, "anchored");
}

#[test]
fn get_lba_status_tells_what_is_mapped() {
    let mut world = World::new();
    world.number(ONE, 8, 8);
    let mut cdb = cdb16(0x9e, 0x12, 0, 8 + 3 * 16);
    let data = world.good(0, &cdb, &[]);
    assert_eq!(data.len(), 56);
    assert_eq!(data[..4], 52u32.to_be_bytes());
    let descriptor = |index: usize| {
        let bytes = &data[8 + index * 16..24 + index * 16];
        let lba = u64::from_be_bytes(bytes[..8].try_into().unwrap());
        (lba, u32::from_be_bytes(bytes[8..12].try_into().unwrap()), bytes[12])
    };
    assert_eq!((descriptor(0), descriptor(1)), ((0, 8, 1), (8, 8, 0)));
    assert_eq!(descriptor(2), (16, (BLOCKS - 16) as u32, 1));
    cdb[13] = 24;
    assert_eq!(world.good(0, &cdb, &[]).len(), 24);
    for lba in [BLOCKS, BLOCKS + 1, u64::MAX] {
        assert_eq!(world.fails(0, &cdb16(0x9e, 0x12, lba, 24), &[]), OUT_OF_RANGE);
    }
}
