//! MODE SENSE and MODE SELECT.

use super::*;

const PF: u8 = 0x10;
const SP: u8 = 0x01;
const CONTROL: u8 = 0x0a;
const WRITE: [u8; 10] = [0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0];

fn sense_6(flags: u8, page: u8, subpage: u8) -> [u8; 6] {
    [0x1a, flags, page, subpage, 255, 0]
}

/// A page without header and block descriptor.
fn page(world: &mut World, control: u8, code: u8, subpage: u8) -> Vec<u8> {
    world.good(0, &sense_6(8, control << 6 | code, subpage), &[])[4..].to_vec()
}

fn select_6(flags: u8, length: usize) -> [u8; 6] {
    [0x15, flags, 0, 0, length as u8, 0]
}

fn select_10(flags: u8, length: usize) -> [u8; 10] {
    let [high, low] = (length as u16).to_be_bytes();
    [0x55, flags, 0, 0, 0, 0, 0, high, low, 0]
}

fn select(world: &mut World, flags: u8, page: &[u8]) {
    let list = [&[0; 4], page].concat();
    world.good(0, &select_6(PF | flags, list.len()), &list);
}

fn refusal(world: &mut World, page: &[u8]) -> Sense {
    let list = [&[0; 4], page].concat();
    world.run(ALICE, 0, &select_6(PF, list.len()), &list).sense.unwrap()
}

#[test]
fn mode_sense_has_a_right_block_descriptor_unless_it_is_not_wanted() {
    let mut world = World::new();
    let data = world.good(0, &sense_6(0, 0x3f, 0), &[]);
    assert_eq!(data.len(), 4 + 8 + 12 + 20 + 12 + 12);
    assert_eq!(data[..4], [data.len() as u8 - 1, 0, 0x10, 8]);
    assert_eq!(data[4..12], [(BLOCKS as u32).to_be_bytes(), 512u32.to_be_bytes()].concat());
    assert_eq!(world.good(0, &sense_6(0, 0x3f, 0xff), &[]).len(), data.len() + 32);
    let data = world.good(0, &sense_6(8, CONTROL, 0), &[]);
    assert_eq!(data[..6], [15, 0, 0x10, 0, 0x8a, 0x0a]);
    let mode_sense_10 = |flags, page| [0x5a, flags, page, 0, 0, 0, 0, 0, 255, 0];
    let data = world.good(0, &mode_sense_10(0, 0x08), &[]);
    assert_eq!(data[..8], [0, 34, 0, 0x10, 0, 0, 0, 8]);
    let data = world.good(0, &mode_sense_10(0x10, 0x1c), &[]);
    assert_eq!(data[..8], [0, 34, 0, 0x10, 1, 0, 0, 16]);
    assert_eq!(data[8..16], BLOCKS.to_be_bytes());
    for (code, subpage, byte) in [(0x02, 0, 2), (0x08, 1, 3), (0x0a, 1, 3), (0x3f, 1, 3)] {
        let sense = world.run(ALICE, 0, &sense_6(0, code, subpage), &[]).sense.unwrap();
        assert_eq!(sense.field, Some(FieldPointer { in_cdb: true, byte, bit: None }));
    }
}

#[test]
fn write_cache_enable_is_clear_and_stays_so() {
    let mut world = World::new();
    let caching = page(&mut world, 0, 0x08, 0);
    assert_eq!((caching.len(), caching[2]), (20, 0));
    assert_eq!(page(&mut world, 1, 0x08, 0)[2..], [0; 18]);
    let mut wce = caching;
    wce[2] = 0x04;
    let field = FieldPointer { in_cdb: false, byte: 6, bit: Some(2) };
    assert_eq!(refusal(&mut world, &wce).field, Some(field));
}

#[test]
fn every_bit_of_the_mask_can_be_changed_and_no_other() {
    let mut world = World::new();
    for (code, subpage) in [(1, 0), (8, 0), (0x0a, 0), (0x1c, 0), (0x1c, 2)] {
        let current = page(&mut world, 0, code, subpage);
        let mask = page(&mut world, 1, code, subpage);
        let header = if subpage == 0 { 2 } else { 4 };
        for byte in header..current.len() {
            for bit in 0..8u8 {
                let mut changed = current.clone();
                changed[byte] ^= 1 << bit;
                let at = format!("page {code:#x} byte {byte} bit {bit}");
                if mask[byte] & 1 << bit != 0 {
                    select(&mut world, 0, &changed);
                    assert_eq!(page(&mut world, 0, code, subpage), changed, "{at}");
                    select(&mut world, 0, &current);
                } else {
                    let sense = refusal(&mut world, &changed);
                    let byte = 4 + byte as u16;
                    let field = FieldPointer { in_cdb: false, byte, bit: Some(bit) };
                    assert_eq!((sense.code.asc, sense.field), (0x26, Some(field)), "{at}");
                }
            }
        }
        assert_eq!(page(&mut world, 0, code, subpage), current);
        assert_eq!(page(&mut world, 2, code, subpage), current);
    }
}

#[test]
fn software_write_protection_refuses_writes_and_is_told() {
    let mut world = World::new();
    let mut control = page(&mut world, 0, CONTROL, 0);
    control[4] |= 0x08;
    select(&mut world, 0, &control);
    assert_eq!(world.fails(0, &WRITE, &pattern(1, 1)), (7, 0x27, 2));
    assert_eq!(world.sense(BOB, 0, &[0; 6], &[]), (6, 0x2a, 1));
    assert_eq!(world.sense(BOB, 0, &WRITE, &pattern(1, 1)), (7, 0x27, 2));
    assert_eq!(world.good(0, &sense_6(0, CONTROL, 0), &[])[2], 0x90);
    world.good(0, &cdb10(0x28, 0, 0, 1), &[]);
    control[4] &= !0x08;
    select(&mut world, 0, &control);
    world.good(0, &WRITE, &pattern(1, 1));
    select(&mut world, 0, &control);
    assert_eq!(world.sense(BOB, 0, &[0; 6], &[]), (6, 0x2a, 1));
    assert_eq!(world.run(BOB, 0, &[0; 6], &[]).status, Status::Good);
}

#[test]
fn descriptor_format_is_given_to_whom_it_is_set_for() {
    let mut world = World::new();
    let mut control = page(&mut world, 0, CONTROL, 0);
    control[2] |= 0x04;
    select(&mut world, 0, &control);
    for cdb in [&[0xff; 6][..], &[0x1a, 8, 0x3e, 0, 255, 0]] {
        let sense = world.run(ALICE, 0, cdb, &[]).sense.unwrap().emit();
        assert_eq!(sense[0], 0x72);
        assert_eq!(world.run(ALICE, 1, cdb, &[]).sense.unwrap().emit()[0], 0x70);
    }
    assert_eq!(world.good(0, &[3, 0, 0, 0, 252, 0], &[])[0], 0x70);
}

#[test]
fn saved_parameters_outlast_a_loss_of_power() {
    let mut world = World::new();
    let mut control = page(&mut world, 0, CONTROL, 0);
    control[5] &= !0x40;
    select(&mut world, SP, &control);
    assert_eq!(page(&mut world, 3, CONTROL, 0), control);
    control[2] |= 0x04;
    select(&mut world, 0, &control);
    assert_eq!(page(&mut world, 3, CONTROL, 0)[2], 0);
    let stored = world.stored.remove(&ONE).unwrap();
    let mut world = World::new();
    world.target.restore_unit(ONE, stored);
    let after = page(&mut world, 0, CONTROL, 0);
    assert_eq!((after[2], after[5] & 0x40), (0, 0));
    assert_eq!(page(&mut world, 2, CONTROL, 0)[5] & 0x40, 0x40);
}

#[test]
fn a_list_is_taken_whole_or_not_at_all() {
    let mut world = World::new();
    let mut control = page(&mut world, 0, CONTROL, 0);
    control[4] |= 0x08;
    let mut caching = page(&mut world, 0, 0x08, 0);
    caching[12] = 1;
    assert_eq!(refusal(&mut world, &[control.clone(), caching].concat()).code.asc, 0x26);
    assert_eq!(page(&mut world, 0, CONTROL, 0)[4], 0);
    let list = [&[0; 4], &control[..]].concat();
    for length in 1..list.len() {
        if length == 4 {
            continue;
        }
        let code = world.fails(0, &select_6(PF, length), &list[..length]);
        assert!(code == LIST_LENGTH || code == INVALID_LIST, "{length}: {code:x?}");
    }
    assert_eq!(world.fails(0, &select_6(PF, list.len()), &list[..8]), LIST_LENGTH);
    assert_eq!(world.fails(0, &select_6(0, list.len()), &list), INVALID_CDB);
    world.good(0, &select_6(PF, 0), &[]);
    world.good(0, &select_10(PF, 0), &[]);
    for (at, byte) in [(0, 0x0b), (1, 9), (1, 11)] {
        let mut bad = control.clone();
        bad[at] = byte;
        assert_eq!(refusal(&mut world, &bad).code.asc, 0x26);
    }
    assert_eq!(page(&mut world, 0, CONTROL, 0)[4], 0);
}

#[test]
fn a_block_descriptor_must_say_what_is_so() {
    let mut world = World::new();
    let control = page(&mut world, 0, CONTROL, 0);
    let short = |count: u32, length: u32| {
        [&[0, 0, 0, 8][..], &count.to_be_bytes(), &length.to_be_bytes(), &control].concat()
    };
    for count in [0, u32::MAX, BLOCKS as u32] {
        let list = short(count, 512);
        world.good(0, &select_6(PF, list.len()), &list);
    }
    for (count, length) in [(1, 512), (0, 4096), (0, 0)] {
        let list = short(count, length);
        assert_eq!(world.fails(0, &select_6(PF, list.len()), &list), INVALID_LIST);
    }
    let mut wrong_length = short(0, 512);
    wrong_length[3] = 16;
    let cdb = select_6(PF, wrong_length.len());
    assert_eq!(world.fails(0, &cdb, &wrong_length), INVALID_LIST);
    let mut long = vec![0, 0, 0, 0, 1, 0, 0, 16];
    long.extend(BLOCKS.to_be_bytes());
    long.extend([0, 0, 0, 0, 0, 0, 2, 0]);
    long.extend(&control);
    world.good(0, &select_10(PF, long.len()), &long);
    long[8..16].copy_from_slice(&7u64.to_be_bytes());
    assert_eq!(world.fails(0, &select_10(PF, long.len()), &long), INVALID_LIST);
}
