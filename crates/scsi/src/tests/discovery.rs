use super::*;

fn inquiry(page: Option<u8>, length: u16) -> [u8; 6] {
    let [high, low] = length.to_be_bytes();
    [0x12, u8::from(page.is_some()), page.unwrap_or(0), high, low, 0]
}

fn vpd(world: &mut World, lun: u16, page: u8) -> Vec<u8> {
    let data = world.good(lun, &inquiry(Some(page), 1024), &[]);
    assert_eq!(data[..2], [0, page]);
    assert_eq!(usize::from(u16::from_be_bytes([data[2], data[3]])), data.len() - 4);
    data
}

#[test]
fn standard_inquiry_says_the_same_on_every_unit() {
    let mut world = World::new();
    let data = world.good(0, &inquiry(None, 260), &[]);
    assert_eq!(data.len(), 96);
    assert_eq!(data[..8], [0, 0, 6, 0x12, 91, 0x18, 0, 2]);
    assert_eq!(&data[8..32], b"GANTRY  VIRTUAL DISK    ");
    assert_eq!(world.good(1, &inquiry(None, 260), &[]), data);
    assert_eq!(world.good(300, &inquiry(None, 260), &[]), data);
    for length in [0, 4, 5, 36, 95, 96] {
        assert_eq!(world.good(0, &inquiry(None, length), &[]), data[..usize::from(length)]);
    }
    assert_eq!(world.fails(0, &[0x12, 0, 0x83, 0, 96, 0], &[]), INVALID_CDB);
}

#[test]
fn multip_says_whether_there_are_several_ports() {
    let mut world = World::new();
    for (ports, told) in [(&[(1, 1)][..], 0), (&[(1, 1), (2, 7)], 0x10), (&[(2, 7)], 0)] {
        world.target.set_ports(ports.iter().copied().collect(), &BTreeMap::new());
        world.run(ALICE, 0, &[0; 6], &[]);
        assert_eq!(world.good(0, &inquiry(None, 96), &[])[6], told, "{ports:?}");
    }
}

#[test]
fn inquiry_ignores_the_reserved_bits_where_scsi_2_had_the_lun() {
    let mut world = World::new();
    assert_eq!(world.good(0, &[0x12, 0xe0, 0, 0, 96, 0], &[]).len(), 96);
}

#[test]
fn page_00_lists_exactly_the_pages_that_exist() {
    let mut world = World::new();
    let pages = vpd(&mut world, 0, 0)[4..].to_vec();
    assert_eq!(pages, [0x00, 0x80, 0x83, 0x86, 0x87, 0x88, 0x8f, 0xb0, 0xb1, 0xb2]);
    for page in 0..=255 {
        let completion = world.run(ALICE, 0, &inquiry(Some(page), 255), &[]);
        assert_eq!(completion.status == Status::Good, pages.contains(&page), "{page:#x}");
    }
}

#[test]
fn page_83_names_the_unit_by_naa_first_and_the_port_after() {
    let mut world = World::new();
    let page = vpd(&mut world, 1, 0x83);
    assert_eq!(page[4..8], [0x01, 0x03, 0, 16]);
    assert_eq!(page[8..24], naa(TWO));
    let mut kinds = Vec::new();
    let mut at = 4;
    while at < page.len() {
        kinds.push(page[at + 1]);
        at += 4 + usize::from(page[at + 3]);
    }
    assert_eq!(at, page.len());
    assert_eq!(kinds, [0x03, 0x01, 0x94, 0x95, 0x98, 0xa8]);
}

#[test]
fn pages_87_and_88_say_who_shares_mode_pages_and_what_ports_there_are() {
    let mut world = World::new();
    assert_eq!(vpd(&mut world, 0, 0x87)[4..], [0x3f, 0xff, 0, 0]);
    world.target.set_ports(BTreeMap::from([(1, 1), (7, 2)]), &BTreeMap::new());
    assert_eq!(world.fails(0, &[0; 6], &[]), (6, 0x3f, 3));
    world.good(0, &[0; 6], &[]);
    let page = vpd(&mut world, 0, 0x88);
    let length = u16::from_be_bytes([page[14], page[15]]);
    let (first, second) = page[4..].split_at(12 + usize::from(length));
    for (descriptor, port, name) in [(first, 1, ",t,0x0001"), (second, 7, ",t,0x0002")] {
        assert_eq!(descriptor[..10], [0, 0, 0, port, 0, 0, 0, 0, 0, 0]);
        assert_eq!(descriptor[12..14], [0x53, 0x98]);
        assert!(String::from_utf8_lossy(&descriptor[16..]).contains(name));
    }
    // The same ports again are nothing new.
    world.target.set_ports(BTreeMap::from([(1, 1), (7, 2)]), &BTreeMap::new());
    world.good(0, &[0; 6], &[]);
}

#[test]
fn the_limits_that_are_told_are_those_that_are_kept() {
    let mut world = World::new();
    let page = vpd(&mut world, 0, 0xb0);
    let word = |at: usize| u32::from_be_bytes(page[at..at + 4].try_into().unwrap());
    assert_eq!(page.len(), 64);
    assert_eq!(page[4..8], [1, 255, 0, 8]);
    assert_eq!((word(8), word(12), word(16)), (65_536, 2_048, 65_536));
    assert_eq!((word(20), word(24), word(28), word(32)), (0x10000, 256, 8, 0x8000_0000));
    assert_eq!((word(36), word(40)), (0, 65_535));
    assert_eq!(vpd(&mut world, 0, 0xb2)[4..], [3, 0xe4, 2, 0]);
    world.reserve(TWO);
    assert_eq!(vpd(&mut world, 1, 0xb2)[4..], [3, 0xe6, 1, 0]);
    assert_eq!(vpd(&mut world, 0, 0xb1)[4..6], [0, 1]);
    assert_eq!(vpd(&mut world, 0, 0x80)[4..].len(), 32);
}

#[test]
fn capacity_is_told_in_both_forms() {
    let mut world = World::new();
    let capacity_10 = cdb10(0x25, 0, 0, 0);
    let data = world.good(0, &capacity_10, &[]);
    assert_eq!(data, [(BLOCKS as u32 - 1).to_be_bytes(), 512u32.to_be_bytes()].concat());
    let data = world.good(0, &cdb16(0x9e, 0x10, 0, 32), &[]);
    assert_eq!(data[..8], (BLOCKS - 1).to_be_bytes());
    assert_eq!(data[8..16], [0, 0, 2, 0, 0, 0, 0xc0, 0]);
    for length in [0, 1, 12, 31, 32] {
        let data = world.good(0, &cdb16(0x9e, 0x10, 0, length), &[]);
        assert_eq!(data.len(), length as usize);
    }
    world.target.resize_unit(ONE, 1 << 42);
    assert_eq!(world.fails(0, &capacity_10, &[]), (6, 0x2a, 9));
    assert_eq!(world.good(0, &capacity_10, &[])[..4], [0xff; 4]);
    assert_eq!(world.good(0, &[0x1a, 0, 0x3f, 0, 255, 0], &[])[4..8], [0xff; 4]);
    assert_eq!(world.fails(0, &cdb10(0x25, 0, 1, 0), &[]), INVALID_CDB);
}

#[test]
fn report_luns_lists_the_inventory_and_its_length_without_header() {
    let mut world = World::new();
    let report = |select, length: u8| [0xa0, 0, select, 0, 0, 0, 0, 0, 1, length, 0, 0];
    for select in [0, 2, 0x11] {
        let data = world.good(0, &report(select, 0), &[]);
        assert_eq!(data[..8], [0, 0, 0, 24, 0, 0, 0, 0]);
        assert_eq!(data[8..16], [0; 8]);
        assert_eq!(data[16..24], [0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(data[24..], [0x41, 0x2c, 0, 0, 0, 0, 0, 0]);
    }
    for select in [1, 0x10, 0x12] {
        assert_eq!(world.good(0, &report(select, 0), &[]), [0; 8]);
    }
    assert_eq!(world.fails(0, &report(3, 0), &[]), INVALID_CDB);
    let short = [0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 15, 0, 0];
    assert_eq!(world.fails(0, &short, &[]), INVALID_CDB);
    let mut short = short;
    short[9] = 16;
    assert_eq!(world.good(0, &short, &[]).len(), 16);
}

#[test]
fn a_number_without_a_unit_answers_discovery_only() {
    let mut world = World::new();
    world.target.set_luns(ALICE, BTreeMap::from([(1, TWO)]));
    assert_eq!(world.good(0, &inquiry(None, 96), &[])[0], 0x3f);
    assert_eq!(world.good(7, &inquiry(None, 96), &[])[0], 0x7f);
    let report = [0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    assert_eq!(world.good(0, &report, &[])[3], 8);
    let sense = world.good(7, &[0x03, 0, 0, 0, 18, 0], &[]);
    assert_eq!((sense[2], sense[12], sense[13]), NO_LUN);
    for cdb in [&[0; 6][..], &cdb10(0x28, 0, 0, 1), &inquiry(Some(0), 255), &[0xff; 16]] {
        assert_eq!(world.fails(0, cdb, &[]), NO_LUN);
    }
    world.target.remove_unit(TWO);
    assert_eq!(world.fails(1, &[0; 6], &[]), NO_LUN);
}

#[test]
fn defect_lists_are_empty_in_the_format_that_was_asked_for() {
    let mut world = World::new();
    let defects = [0x37, 0, 0x1d, 0, 0, 0, 0, 0, 255, 0];
    assert_eq!(world.good(0, &defects, &[]), [0, 0x1d, 0, 0]);
    let defects = [0xb7, 0x08, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0];
    assert_eq!(world.good(0, &defects, &[]), [0, 0x08, 0, 0, 0, 0, 0, 0]);
}
