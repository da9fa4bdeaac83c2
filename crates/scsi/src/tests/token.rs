use std::time::Duration;

use super::*;

const UNKNOWN: Code = (5, 0x23, 4);
const CORRUPT: Code = (5, 0x23, 5);

fn cdb(action: u8, list_id: u32, length: usize) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (0x83, action);
    cdb[6..10].copy_from_slice(&list_id.to_be_bytes());
    cdb[10..14].copy_from_slice(&(length as u32).to_be_bytes());
    cdb
}

fn with_ranges(mut header: Vec<u8>, ranges: &[(u64, u32)]) -> Vec<u8> {
    header.extend((16 * ranges.len() as u16).to_be_bytes());
    for (lba, count) in ranges {
        header.extend(lba.to_be_bytes());
        header.extend(count.to_be_bytes());
        header.extend([0; 4]);
    }
    let length = header.len() as u16 - 2;
    header[..2].copy_from_slice(&length.to_be_bytes());
    header
}

fn populate_list(ranges: &[(u64, u32)]) -> Vec<u8> {
    with_ranges(vec![0; 14], ranges)
}

fn write_list(offset: u64, token: &[u8], ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut header = vec![0; 534];
    header[8..16].copy_from_slice(&offset.to_be_bytes());
    header[16..528].copy_from_slice(token);
    with_ranges(header, ranges)
}

fn information(world: &mut World, list_id: u32) -> Vec<u8> {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[12]) = (0x84, 7, 4);
    cdb[2..6].copy_from_slice(&list_id.to_be_bytes());
    world.good(0, &cdb, &[])
}

fn populate(world: &mut World, lun: u16, ranges: &[(u64, u32)]) -> Vec<u8> {
    let list = populate_list(ranges);
    world.good(lun, &cdb(0x10, 77, list.len()), &list);
    let told = information(world, 77);
    assert_eq!(told.len(), 32 + 4 + 2 + 512);
    assert_eq!((told[4], told[5], told[15]), (0x10, 1, 0xf1));
    let blocks: u64 = ranges.iter().map(|(_, count)| u64::from(*count)).sum();
    assert_eq!(told[16..24], blocks.to_be_bytes());
    assert_eq!(told[32..38], [0, 0, 2, 2, 0, 0]);
    told[38..].to_vec()
}

fn write(world: &mut World, lun: u16, list: &[u8]) -> Option<Code> {
    let sense = world.run(ALICE, lun, &cdb(0x11, 78, list.len()), list).sense?.code;
    Some((sense.key as u8, sense.asc, sense.ascq))
}

fn resting_is_empty(world: &World) -> bool {
    world.volumes[&RESTING].iter().all(|&byte| byte == 0)
}

fn tick(world: &mut World, seconds: u64) {
    world.now += Duration::from_secs(seconds);
    world.target.tick(world.now);
    while world.step() {}
}

#[test]
fn a_token_is_its_source_at_a_point_in_time() {
    let mut world = World::new();
    world.number(ONE, 0, 30_000);
    let before = world.volumes[&ONE].clone();
    let token = populate(&mut world, 0, &[(100, 9000), (3, 5), (20_000, 77)]);
    assert_eq!(token[..8], [0, 0x80, 0, 0, 0, 0, 1, 0xf8]);
    assert_eq!(token[48..64], (9082_u128 * 512).to_be_bytes());
    // SPC-4: the target device by its SCSI name string; ddptctl looks for it.
    assert_eq!(token[128..132], [0x53, 0xa8, 0, 28]);
    assert!(token[132..].starts_with(b"iqn."));
    world.volumes.get_mut(&ONE).unwrap().fill(0xee);
    for lun in [1, 300] {
        let volume = if lun == 1 { TWO } else { FAR };
        let list = write_list(0, &token, &[(7, 9082)]);
        assert_eq!(write(&mut world, lun, &list), None);
        let wanted = [(100, 9000), (3, 5), (20_000, 77)]
            .map(|(lba, count): (usize, usize)| &before[lba * BLOCK..(lba + count) * BLOCK]);
        assert!(world.bytes(volume, 7, 9082) == wanted.concat());
        let told = information(&mut world, 78);
        assert_eq!((told[4], told[5]), (0x11, 1));
        assert_eq!(told[16..24], 9082_u64.to_be_bytes());
        assert_eq!(told[32..], [0; 4]);
    }
}

#[test]
fn parts_of_a_token_are_written_from_any_offset_to_any_ranges() {
    let mut world = World::new();
    world.number(ONE, 0, 100);
    let token = populate(&mut world, 0, &[(10, 10), (50, 10)]);
    let list = write_list(8, &token, &[(0, 1), (5, 4), (20, 0), (30, 3)]);
    assert_eq!(write(&mut world, 1, &list), None);
    for (to, from) in [(0, 18), (5, 19), (6, 50), (7, 51), (8, 52), (30, 53), (32, 55)] {
        assert_eq!(world.bytes(TWO, to, 1), world.bytes(ONE, from, 1), "{to}");
    }
    // What is behind its end is not written, and not counted.
    let list = write_list(15, &token, &[(60, 9)]);
    assert_eq!(write(&mut world, 1, &list), None);
    assert_eq!(world.bytes(TWO, 60, 5), world.bytes(ONE, 55, 5));
    assert!(world.bytes(TWO, 65, 4).iter().all(|&byte| byte == 0));
    assert_eq!(information(&mut world, 78)[16..24], 5_u64.to_be_bytes());
    for offset in [20, 1 << 60, u64::MAX] {
        let list = write_list(offset, &token, &[(0, 1)]);
        assert_eq!(write(&mut world, 1, &list), Some(INVALID_LIST));
    }
}

#[test]
fn nothing_but_a_token_of_ours_is_one() {
    let mut world = World::new();
    world.number(ONE, 0, 8);
    let token = populate(&mut world, 0, &[(0, 8)]);
    world.requests.clear();
    for at in [8, 15, 30, 63, 200, 479, 480, 511] {
        let mut forged = token.clone();
        forged[at] ^= 0x40;
        let list = write_list(0, &forged, &[(0, 8)]);
        assert_eq!(write(&mut world, 1, &list), Some(CORRUPT), "{at}");
    }
    let mut other = token.clone();
    other[1] = 1;
    assert_eq!(write(&mut world, 1, &write_list(0, &other, &[(0, 8)])), Some((5, 0x23, 1)));
    let mut other = token.clone();
    other[7] = 0xf0;
    assert_eq!(write(&mut world, 1, &write_list(0, &other, &[(0, 8)])), Some((5, 0x23, 0x0a)));
    assert_eq!(world.requests, []);
    // A bearer may be another nexus.
    let list = write_list(0, &token, &[(0, 8)]);
    assert_eq!(world.run(BOB, 1, &cdb(0x11, 1, list.len()), &list).status, Status::Good);
    assert_eq!(world.bytes(TWO, 0, 8), world.bytes(ONE, 0, 8));
}

#[test]
fn a_token_ends_when_nobody_uses_it_and_its_space_comes_back() {
    let mut world = World::new();
    world.number(ONE, 0, 50_000);
    let token = populate(&mut world, 0, &[(0, 50_000)]);
    let list = write_list(0, &token, &[(0, 8)]);
    assert!(!resting_is_empty(&world));
    for _ in 0..3 {
        tick(&mut world, 50);
        assert_eq!(write(&mut world, 1, &list), None, "a use prolongs it");
    }
    tick(&mut world, 61);
    assert_eq!(write(&mut world, 1, &list), Some(UNKNOWN));
    assert!(resting_is_empty(&world));
    let all = [0x84, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0];
    assert_eq!(world.good(0, &all, &[]), [0, 0, 0, 4, 0, 0, 0, 0]);
}

#[test]
fn a_token_ends_when_it_is_to_be_deleted_or_its_unit_is_erased_or_removed() {
    for way in 0..3 {
        let mut world = World::new();
        world.number(ONE, 0, 8);
        let token = populate(&mut world, 0, &[(0, 8)]);
        let mut list = write_list(0, &token, &[(0, 8)]);
        match way {
            0 => {
                list[2] = 0x02;
                assert_eq!(write(&mut world, 1, &list), None);
                assert_eq!(world.bytes(TWO, 0, 8), world.bytes(ONE, 0, 8));
            }
            1 => drop(world.good(0, &[0x48, 2, 0, 0, 0, 0, 0, 0, 0, 0], &[])),
            _ => world.target.remove_unit(ONE),
        }
        assert_eq!(write(&mut world, 1, &list), Some(UNKNOWN));
        tick(&mut world, 1);
        assert!(resting_is_empty(&world), "{way}");
    }
}

#[test]
fn every_token_is_reported() {
    let mut world = World::new();
    world.number(ONE, 0, 64);
    let tokens: Vec<_> = (0..3).map(|at| populate(&mut world, 0, &[(at * 8, 8)])).collect();
    let all = [0x84, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0];
    let told = world.good(1, &all, &[]);
    assert_eq!(told[..8], [0, 0, 1, 0x24, 0, 0, 0, 0]);
    for (token, part) in tokens.iter().zip(told[8..].chunks(96)) {
        assert_eq!(&token[..96], part);
    }
}

#[test]
fn a_host_is_told_of_its_own_tokens_and_of_volumes_that_it_sees_only() {
    let mut world = World::new();
    world.number(ONE, 0, 64);
    populate(&mut world, 0, &[(0, 8)]);
    let all = [0x84, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0];
    let count = |world: &mut World, nexus| {
        let told = world.run(nexus, 1, &all, &[]);
        (told.data_in.to_vec().len() - 8) / 96
    };
    assert_eq!((count(&mut world, ALICE), count(&mut world, BOB)), (1, 0));
    world.target.set_host(ALICE, "cluster");
    assert_eq!(count(&mut world, ALICE), 0, "it was made by another host");
    world.target.set_host(ALICE, "iqn.2026-01.example:alice");
    assert_eq!(count(&mut world, ALICE), 1);
    world.target.set_luns(ALICE, [(1, TWO)].into());
    world.run(ALICE, 1, &[0; 6], &[]);
    assert_eq!(count(&mut world, ALICE), 0, "its volume is not seen any more");
}

#[test]
fn the_zero_token_writes_zeros_as_often_as_wanted() {
    let mut world = World::new();
    world.number(ONE, 0, 100);
    let mut token = vec![0; 512];
    token[..8].copy_from_slice(&[0xff, 0xff, 0, 1, 0, 0, 1, 0xf8]);
    let list = write_list(0, &token, &[(10, 20), (50, 1)]);
    assert_eq!(write(&mut world, 0, &list), None);
    assert!(world.bytes(ONE, 10, 20).iter().all(|&byte| byte == 0));
    assert!(world.bytes(ONE, 50, 1).iter().all(|&byte| byte == 0));
    for kept in [9, 30, 49, 51] {
        assert!(world.bytes(ONE, kept, 1).iter().any(|&byte| byte != 0));
    }
    assert_eq!(information(&mut world, 78)[16..24], 21_u64.to_be_bytes());
    token[7] = 0;
    let list = write_list(0, &token, &[(0, 1)]);
    assert_eq!(write(&mut world, 0, &list), Some((5, 0x23, 1)));
}

#[test]
fn what_is_not_right_is_refused_and_makes_no_token() {
    let mut world = World::new();
    let right = populate_list(&[(0, 8), (8, 8)]);
    let mut told = |list: &[u8]| {
        let sense = world.run(ALICE, 0, &cdb(0x10, 1, list.len()), list).sense.unwrap().code;
        (sense.key as u8, sense.asc, sense.ascq)
    };
    for length in 1..16 {
        assert_eq!(told(&right[..length]), LIST_LENGTH);
    }
    for length in 16..right.len() {
        assert_eq!(told(&right[..length]), INVALID_LIST);
    }
    assert_eq!(told(&populate_list(&[])), INVALID_LIST);
    assert_eq!(told(&populate_list(&[(0, 8), (7, 8)])), INVALID_LIST);
    assert_eq!(told(&populate_list(&[(BLOCKS - 1, 2)])), OUT_OF_RANGE);
    let many: Vec<_> = (0..=limits::TOKEN_RANGES_MAX as u64).map(|at| (at * 8, 8)).collect();
    assert_eq!(told(&populate_list(&many)), (5, 0x26, 8));
    let mut late = right.clone();
    late[4..8].copy_from_slice(&601_u32.to_be_bytes());
    assert_eq!(told(&late), INVALID_LIST);
    let mut kind = right.clone();
    (kind[2], kind[8]) = (2, 1);
    assert_eq!(told(&kind), INVALID_LIST);
    assert_eq!(world.requests, []);
    let far = world.run(ALICE, 300, &cdb(0x10, 1, right.len()), &right);
    let code = far.sense.unwrap().code;
    assert_eq!((code.asc, code.ascq), (0x55, 0x0c), "no space was given for that pool");
    let exact = populate_list(&many[1..]);
    world.good(0, &cdb(0x10, 1, exact.len()), &exact);
    let mut longest = right;
    longest[4..8].copy_from_slice(&600_u32.to_be_bytes());
    (longest[2], longest[9]) = (2, 0x80);
    world.good(0, &cdb(0x10, 2, longest.len()), &longest);
    world.good(0, &cdb(0x10, 3, 0), &[]);
}

#[test]
fn a_token_whose_making_fails_or_is_aborted_leaves_nothing_behind() {
    for aborted in [false, true] {
        let mut world = World::new();
        world.number(ONE, 0, 60_000);
        let list = populate_list(&[(0, 60_000)]);
        let task = world.begin(ALICE, 0, &cdb(0x10, 5, list.len()), &list);
        world.step();
        if aborted {
            world.target.manage(TaskId(99), ALICE, 0, TaskManagement::AbortTask(task));
        } else {
            world.fault = Some(BlockError::OutOfSpace);
        }
        while world.step() {}
        while world.target.next_done().is_some() {}
        assert_eq!(information(&mut world, 5)[5], if aborted { 0x60 } else { 2 });
        tick(&mut world, 1);
        assert!(resting_is_empty(&world));
    }
}

#[test]
fn a_token_is_made_by_reference() {
    let mut world = World::new();
    populate(&mut world, 0, &[(1, 9000), (10_001, 6)]);
    assert!(
        world
            .requests
            .iter()
            .all(|(volume, request)| (*volume, request.as_str()) == (RESTING, "Copy"))
    );
}
