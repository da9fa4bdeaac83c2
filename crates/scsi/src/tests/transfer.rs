use std::collections::BTreeSet;

use super::*;

#[test]
fn what_is_written_is_read_by_every_form_of_read() {
    let mut world = World::new();
    let data = pattern(7, 3);
    let write6 = [0x0a, 0, 0, 100, 3, 0];
    let write12 = [0xaa, 0x18, 0, 0, 0, 100, 0, 0, 0, 3, 0, 0];
    let writes: [&[u8]; 4] =
        [&write6, &cdb10(0x2a, 0x18, 100, 3), &write12, &cdb16(0x8a, 0x18, 100, 3)];
    let read12 = [0xa8, 0x18, 0, 0, 0, 100, 0, 0, 0, 3, 0, 0];
    let reads: [&[u8]; 4] =
        [&[0x08, 0, 0, 100, 3, 0], &cdb10(0x28, 0x18, 100, 3), &read12, &cdb16(0x88, 0, 100, 3)];
    for write in writes {
        world.volumes.get_mut(&ONE).unwrap().fill(0);
        world.good(0, write, &data);
        assert_eq!(world.bytes(ONE, 100, 3), data);
    }
    for read in reads {
        assert_eq!(world.good(0, read, &[]), data);
    }
}

#[test]
fn a_six_byte_read_of_length_zero_reads_256_blocks() {
    let mut world = World::new();
    assert_eq!(world.good(0, &[0x08, 0, 0, 0, 0, 0], &[]).len(), 256 * BLOCK);
}

#[test]
fn no_blocks_are_no_error_unless_the_address_is_beyond_the_end() {
    let mut world = World::new();
    for opcode in [0x88, 0x8a, 0x8b, 0x8e, 0x8f, 0x90, 0x91] {
        world.good(0, &cdb16(opcode, 0, 0, 0), &[]);
        world.good(0, &cdb16(opcode, 0, BLOCKS, 0), &[]);
        for lba in [BLOCKS + 1, 1 << 63, u64::MAX] {
            assert_eq!(world.fails(0, &cdb16(opcode, 0, lba, 0), &[]), OUT_OF_RANGE);
        }
    }
    assert!(world.requests.iter().all(|(_, request)| request == "Flush"));
}

#[test]
fn a_range_beyond_the_end_is_refused_and_changes_nothing() {
    let mut world = World::new();
    let data = pattern(1, 2);
    for opcode in [0x88, 0x8a, 0x8b, 0x8e, 0x8f, 0x90, 0x91, 0x93] {
        for lba in [BLOCKS - 1, BLOCKS, u64::MAX, u64::MAX - 1] {
            assert_eq!(world.fails(0, &cdb16(opcode, 0, lba, 2), &data), OUT_OF_RANGE);
        }
    }
    assert_eq!(world.requests, []);
}

#[test]
fn protection_information_is_refused() {
    let mut world = World::new();
    let data = pattern(1, 1);
    for protect in 1..8u8 {
        for opcode in [0x88, 0x8a, 0x8b, 0x8e, 0x8f, 0x93] {
            let cdb = cdb16(opcode, protect << 5, 0, 1);
            assert_eq!(world.fails(0, &cdb, &data), INVALID_CDB);
        }
        for opcode in [0x28, 0x2a, 0x2e, 0x2f, 0x41] {
            let cdb = cdb10(opcode, protect << 5, 0, 1);
            assert_eq!(world.fails(0, &cdb, &data), INVALID_CDB);
        }
    }
    assert_eq!(world.requests, []);
}

#[test]
fn the_longest_transfer_works_and_one_block_more_is_refused() {
    let mut world = World::new();
    let count = (limits::TRANSFER_BYTES_MAX / BLOCK as u64) as u32;
    let data = pattern(9, count as usize + 1);
    world.good(0, &cdb16(0x8a, 0, 5, count), &data[..data.len() - BLOCK]);
    assert!(world.bytes(ONE, 5, u64::from(count)) == &data[..data.len() - BLOCK]);
    assert!(world.good(0, &cdb16(0x88, 0, 5, count), &[]) == data[..data.len() - BLOCK]);
    // Slices are aligned: a transfer that starts within one takes one more.
    assert_eq!(world.requests.len(), 2 * 33);
    world.requests.clear();
    for opcode in [0x88, 0x8a, 0x8f, 0x90] {
        assert_eq!(world.fails(0, &cdb16(opcode, 0, 5, count + 1), &data), INVALID_CDB);
    }
    assert_eq!(world.target.decode(ALICE, 0, &cdb16(0x8a, 0, 5, count + 1)).data_out_length(), 0);
    assert_eq!(world.requests, []);
}

#[test]
fn a_write_whose_initiator_has_less_writes_the_whole_blocks_that_came() {
    let mut world = World::new();
    let data = pattern(3, 2);
    world.good(0, &cdb10(0x2a, 0, 8, 2), &data[..BLOCK]);
    assert_eq!(world.bytes(ONE, 8, 1), &data[..BLOCK]);
    assert!(world.bytes(ONE, 9, 1).iter().all(|&byte| byte == 0));
    world.good(0, &cdb10(0x2a, 0, 20, 1), &[]);
    assert_eq!(world.fails(0, &cdb10(0x2a, 0, 20, 1), &data[..200]), (5, 0x0e, 3));
    world.good(0, &cdb10(0x2a, 0, 30, 1), &data);
    assert!(world.bytes(ONE, 20, 1).iter().all(|&byte| byte == 0));
    assert!(world.bytes(ONE, 31, 1).iter().all(|&byte| byte == 0));
}

#[test]
fn verify_compares_bytes_blocks_or_nothing() {
    let mut world = World::new();
    let data = pattern(5, 4);
    world.good(0, &cdb10(0x2a, 0, 0, 4), &data);
    world.good(0, &cdb10(0x2f, 0x02, 0, 4), &data);
    world.good(0, &cdb10(0x2f, 0x00, 0, 4), &[]);
    assert_eq!(world.target.decode(ALICE, 0, &cdb10(0x2f, 0, 0, 4)).data_out_length(), 0);
    let mut other = data.clone();
    other[3 * BLOCK + 17] ^= 1;
    let completion = world.run(ALICE, 0, &cdb10(0x2f, 0x02, 0, 4), &other);
    let sense = completion.sense.unwrap();
    assert_eq!((sense.code.key, sense.code.asc), (SenseKey::Miscompare, 0x1d));
    assert_eq!(sense.information, Some(3 * BLOCK as u64 + 17));
    world.good(0, &cdb10(0x41, 0, 50, 9), &data[..BLOCK]);
    world.good(0, &cdb10(0x2f, 0x06, 50, 9), &data[..BLOCK]);
    assert_eq!(world.fails(0, &cdb10(0x2f, 0x06, 49, 9), &data[..BLOCK]), (14, 0x1d, 0));
    assert_eq!(world.fails(0, &cdb10(0x2f, 0x04, 0, 1), &data), INVALID_CDB);
    assert_eq!(world.fails(0, &cdb10(0x2f, 0x02, 0, 4), &data[..BLOCK]), INVALID_CDB);
}

#[test]
fn write_and_verify_writes_and_reads_back() {
    let mut world = World::new();
    let data = pattern(6, 2);
    let write_and_verify_12 = [0xae, 0x02, 0, 0, 0, 40, 0, 0, 0, 2, 0, 0];
    world.good(0, &cdb10(0x2e, 0x00, 40, 2), &data);
    world.good(0, &write_and_verify_12, &data);
    world.good(0, &cdb16(0x8e, 0x12, 40, 2), &data);
    assert_eq!(world.bytes(ONE, 40, 2), data);
    let kinds: Vec<_> = world.requests.iter().map(|(_, request)| request.as_str()).collect();
    assert_eq!(kinds, ["Write", "Read", "Write", "Read", "Write", "Read"]);
    assert_eq!(world.fails(0, &cdb10(0x2e, 0x06, 40, 2), &data), INVALID_CDB);
}

#[test]
fn orwrite_sets_bits_even_when_others_write_in_between() {
    let mut world = World::new();
    world.volumes.get_mut(&ONE).unwrap()[..BLOCK].fill(0x0f);
    let id = world.begin(ALICE, 0, &cdb16(0x8b, 0, 0, 1), &[0x30; BLOCK]);
    world.step();
    world.volumes.get_mut(&ONE).unwrap()[..BLOCK].fill(0x80);
    while world.step() {}
    let (done, completion) = world.target.next_done().unwrap();
    assert_eq!((done, completion.status), (id, Status::Good));
    assert_eq!(world.bytes(ONE, 0, 1), [0xb0; BLOCK]);
}

#[test]
fn an_engine_error_ends_a_long_read_at_its_slice() {
    let mut world = World::new();
    let offset = (1 << 20) + 1024;
    let id = world.begin(ALICE, 0, &cdb16(0x88, 0, 0, 4096), &[]);
    world.step();
    world.fault = Some(BlockError::Medium { offset });
    world.step();
    assert!(!world.step());
    let (done, completion) = world.target.next_done().unwrap();
    assert_eq!(done, id);
    assert_eq!(completion.sense.unwrap().information, Some(offset / BLOCK as u64));
    assert!(completion.data_in.is_empty());
}

#[test]
fn out_of_space_is_told_for_the_write_that_needs_it() {
    let mut world = World::new();
    world.fault = Some(BlockError::OutOfSpace);
    assert_eq!(world.fails(0, &cdb10(0x2a, 0, 0, 1), &pattern(1, 1)), (7, 0x27, 7));
    world.good(0, &cdb10(0x28, 0, 0, 1), &[]);
}

#[test]
fn a_write_protected_unit_refuses_what_changes_it() {
    let mut world = World::new();
    world.target.set_write_protected(ONE, true);
    let data = pattern(1, 2);
    let changes: [&[u8]; 6] = [
        &cdb10(0x2a, 0, 0, 1),
        &cdb10(0x41, 0, 0, 1),
        &cdb16(0x93, 8, 0, 1),
        &cdb16(0x8b, 0, 0, 1),
        &compare_and_write_cdb(0, 1),
        &[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0],
    ];
    for cdb in changes {
        assert_eq!(world.fails(0, cdb, &data), (7, 0x27, 0));
    }
    world.good(0, &cdb10(0x28, 0, 0, 1), &[]);
    assert_eq!(world.good(0, &[0x1a, 0x08, 0x3f, 0, 255, 0], &[])[2], 0x90);
    assert!(world.requests.iter().all(|(_, request)| request == "Read"));
}

#[test]
fn a_nexus_that_may_only_read_leaves_the_others_alone() {
    let mut world = World::new();
    world.target.set_read_only(ALICE, &BTreeSet::from([0]));
    assert_eq!(world.sense(ALICE, 0, &[0; 6], &[]), (6, 0x2a, 1));
    let data = pattern(1, 2);
    let write = cdb10(0x2a, 0, 0, 1);
    assert_eq!(world.sense(ALICE, 0, &write, &data), (7, 0x27, 0));
    assert_eq!(world.good(0, &[0x1a, 0x08, 0x3f, 0, 255, 0], &[])[2], 0x90);
    world.good(0, &cdb10(0x28, 0, 0, 1), &[]);
    world.good(1, &write, &data);
    world.target.set_read_only(ALICE, &BTreeSet::new());
    assert_eq!(world.sense(ALICE, 0, &[0; 6], &[]), (6, 0x2a, 1));
    world.good(0, &write, &data);
}

#[test]
fn the_cache_is_flushed_when_asked() {
    let mut world = World::new();
    world.good(0, &cdb10(0x35, 0, 0, 0), &[]);
    world.good(0, &cdb16(0x91, 2, 0, 8), &[]);
    world.good(0, &[0x1b, 1, 0, 0, 0, 0], &[]);
    assert_eq!(world.requests, vec![(ONE, "Flush".to_owned()); 3]);
    world.good(0, &[0x1b, 0, 0, 0, 1, 0], &[]);
    assert_eq!(world.fails(0, &[0x1b, 0, 0, 0, 2, 0], &[]), INVALID_CDB);
    assert_eq!(world.fails(0, &[0x1b, 0, 0, 0, 0x10, 0], &[]), INVALID_CDB);
}

// A host asked for 32 MiB, said that it expected none of it, and had it all read: 100 times.
#[test]
fn a_read_fetches_no_more_than_its_initiator_takes() {
    for (takes, fetched) in [(0, 0), (1, 512), (512, 512), (1024, 1024), (4096, 4096), (9000, 4096)]
    {
        let mut world = World::new();
        let cdb = &[0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0];
        let expected = Expected { data_out: 0, data_in: takes };
        let command = Command { expected, ..world.command(ALICE, emit_lun(0), cdb, &[]) };
        world.target.execute(TaskId(9), command);
        while world.step() {}
        let (_, completion) = world.target.next_done().unwrap();
        assert_eq!(completion.status, Status::Good);
        assert_eq!(completion.data_in.len(), fetched, "takes {takes}");
        assert_eq!(completion.withheld, 4096 - fetched as u64);
    }
}
