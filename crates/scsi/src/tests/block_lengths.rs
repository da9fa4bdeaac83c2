//! Volumes with 512-byte blocks on 4 KiB ones (512e) and with 4 KiB blocks (4Kn).

use super::*;

const LARGE: usize = 4096;

fn with(block_length: LogicalBlockLength, physical_block_exponent: u8) -> World {
    let mut world = World::new();
    let spec = LogicalUnitSpec { block_length, physical_block_exponent, ..spec(ONE) };
    world.target.add_unit(ONE, spec);
    world
}

fn word(data: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(data[at..at + 4].try_into().unwrap())
}

fn vpd(world: &mut World, page: u8) -> Vec<u8> {
    world.good(0, &[0x12, 1, page, 4, 0, 0], &[])
}

#[test]
fn each_form_tells_its_lengths_and_keeps_its_identity() {
    let forms = [
        (LogicalBlockLength::B512, 0, 512, BLOCKS),
        (LogicalBlockLength::B512, 3, 512, BLOCKS),
        (LogicalBlockLength::B4096, 0, 4096, BLOCKS / 8),
    ];
    for (block_length, exponent, bytes, blocks) in forms {
        let mut world = with(block_length, exponent);
        let capacity = world.good(0, &cdb16(0x9e, 0x10, 0, 32), &[]);
        assert_eq!(capacity[..8], (blocks - 1).to_be_bytes());
        assert_eq!((word(&capacity, 8), capacity[13]), (bytes, exponent));
        let capacity = world.good(0, &cdb10(0x25, 0, 0, 0), &[]);
        assert_eq!((word(&capacity, 0), word(&capacity, 4)), (blocks as u32 - 1, bytes));
        let mode = world.good(0, &[0x1a, 0, 0x3f, 0, 255, 0], &[]);
        assert_eq!((word(&mode, 4), word(&mode, 8)), (blocks as u32, bytes));
        let limits = vpd(&mut world, 0xb0);
        assert_eq!(word(&limits, 8) * bytes, limits::TRANSFER_BYTES_MAX as u32);
        assert_eq!(word(&limits, 28) * bytes, 4096, "OPTIMAL UNMAP GRANULARITY");
        assert_eq!(vpd(&mut world, 0x83)[8..24], naa(ONE));
    }
}

#[test]
fn blocks_of_4_kib_are_written_compared_and_zeroed_whole() {
    let mut world = with(LogicalBlockLength::B4096, 0);
    let data: Vec<u8> = (0..2 * LARGE).map(|at| (at / LARGE + 1) as u8).collect();
    world.good(0, &cdb10(0x2a, 0, 7, 2), &data);
    assert_eq!(world.good(0, &cdb10(0x28, 0, 7, 2), &[]), data);
    assert_eq!(world.bytes(ONE, 56, 16), data);
    let last = (BLOCKS / 8) as u32;
    assert_eq!(world.fails(0, &cdb10(0x28, 0, last, 1), &[]), OUT_OF_RANGE);
    let swap = [&data[..LARGE], &[9; LARGE]].concat();
    world.good(0, &compare_and_write_cdb(7, 1), &swap);
    let completion = world.run(ALICE, 0, &compare_and_write_cdb(7, 1), &swap);
    assert_eq!(completion.sense.unwrap().information, Some(0));
    assert_eq!(world.fails(0, &compare_and_write_cdb(7, 1), &swap[..1024]), INVALID_CDB);
    world.good(0, &cdb10(0x41, 0, 8, 1), &[0; LARGE]);
    assert!(world.bytes(ONE, 64, 8).iter().all(|&byte| byte == 0));
    let mut unmap = vec![0, 22, 0, 16, 0, 0, 0, 0];
    unmap.extend(7u64.to_be_bytes());
    unmap.extend([0, 0, 0, 1, 0, 0, 0, 0]);
    world.good(0, &[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0], &unmap);
    assert!(world.bytes(ONE, 56, 8).iter().all(|&byte| byte == 0));
}

#[test]
fn a_part_of_a_block_of_4_kib_is_not_written() {
    let mut world = with(LogicalBlockLength::B4096, 0);
    let completion = world.run(ALICE, 0, &cdb10(0x2a, 0, 0, 1), &[1; 512]);
    assert_eq!(completion.sense.unwrap().code.asc, 0x0e);
    assert_eq!(world.requests, []);
}

#[test]
fn provisioning_counts_are_in_sets_that_the_page_tells() {
    for (block_length, exponent, sets) in
        [(LogicalBlockLength::B512, 3, 6), (LogicalBlockLength::B4096, 1, 3)]
    {
        let mut world = with(block_length, 0);
        assert_eq!(vpd(&mut world, 0xb2)[4], exponent);
        let space = UnitSpace { available_bytes: 0, used_bytes: 6 << 12 };
        world.target.set_space(ONE, space);
        let page = world.good(0, &[0x4d, 0, 0x4c, 0, 0, 0, 2, 0, 255, 0], &[]);
        assert_eq!(word(&page, 8), sets);
    }
}
