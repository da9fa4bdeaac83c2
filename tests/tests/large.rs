//! Large numbers, for which SCSI first had no room: addresses beyond 2 TiB, LUN numbers
//! beyond 255.

use anyhow::Result;
use harness::Array;
use harness::wire::{Wire, cdb16};

const BLOCK: usize = 512;
const NAME: &str = "iqn.2026-01.org.example:large";

fn read(session: &mut Wire, lun: u16, lba: u64, count: u32) -> Result<Vec<u8>> {
    session.run(lun, &cdb16(0x88, 0, lba, count), &[], count * BLOCK as u32)?.good()
}

fn pattern(seed: u8) -> Vec<u8> {
    (0..8 * BLOCK).map(|at| seed ^ (at % 251) as u8 ^ (at / BLOCK) as u8).collect()
}

/// EXTENDED COPY of 8 blocks within the LUN that it is sent to.
fn copy_list(from: u64, to: u64) -> Vec<u8> {
    let mut list = vec![0; 16];
    (list[1], list[11]) = (0x18, 28);
    let mut segment = [0; 28];
    segment[..8].copy_from_slice(&[0x02, 0, 0, 0x18, 0xff, 0xff, 0xff, 0xff]);
    segment[11] = 8;
    segment[12..20].copy_from_slice(&from.to_be_bytes());
    segment[20..28].copy_from_slice(&to.to_be_bytes());
    list.extend(segment);
    list
}

#[test]
fn a_volume_of_three_tebibytes_works_at_both_ends() -> Result<()> {
    const BLOCKS: u64 = 3 << 31;
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    let lun = array.create_lun("p/v", "3T")?;
    let mut session = Wire::log_in(array.portal(), NAME, &array.target_name()?)?;
    let short = session.run(lun, &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[], 8)?.good()?;
    assert_eq!(short[..4], [0xff; 4], "READ CAPACITY (10) points to the other one");
    let long = session.run(lun, &cdb16(0x9e, 0x10, 0, 32), &[], 32)?.good()?;
    assert_eq!(long[..8], (BLOCKS - 1).to_be_bytes());
    // The same place but for the bits beyond 32 must not be meant.
    let places = [0, 100, (1 << 32) - 8, 1 << 32, (1 << 32) + 100, BLOCKS - 8];
    for (seed, &lba) in places.iter().enumerate() {
        session.run(lun, &cdb16(0x8a, 0, lba, 8), &pattern(seed as u8), 0)?.good()?;
    }
    for (seed, &lba) in places.iter().enumerate() {
        assert!(read(&mut session, lun, lba, 8)? == pattern(seed as u8), "block {lba}");
    }
    let last = pattern(5);
    let mut swap = cdb16(0x89, 0, BLOCKS - 8, 0);
    swap[13] = 1;
    let data = [&last[..BLOCK], &pattern(9)[..BLOCK]].concat();
    session.run(lun, &swap, &data, 0)?.good()?;
    assert_eq!(read(&mut session, lun, BLOCKS - 8, 1)?, pattern(9)[..BLOCK]);
    let list = copy_list(BLOCKS - 8, 5000);
    let cdb = cdb16(0x83, 0, 0, u32::try_from(list.len())?);
    session.run(lun, &cdb, &list, 0)?.good()?;
    assert_eq!(read(&mut session, lun, 5000, 8)?, read(&mut session, lun, BLOCKS - 8, 8)?);
    session.run(lun, &cdb16(0x93, 0x08, 1 << 32, 8), &[0; BLOCK], 0)?.good()?;
    assert!(read(&mut session, lun, 1 << 32, 8)?.iter().all(|&byte| byte == 0));
    assert!(read(&mut session, lun, 0, 8)? == pattern(0));
    for lba in [BLOCKS - 7, BLOCKS, 1 << 63, u64::MAX - 7] {
        let answer = session.run(lun, &cdb16(0x8a, 0, lba, 8), &pattern(0), 0)?;
        assert_eq!(answer.code(), Some((5, 0x21, 0)), "block {lba}");
    }
    Ok(())
}

#[test]
fn lun_numbers_beyond_255_are_addressed_in_flat_space() -> Result<()> {
    const FLAT: u16 = 0x4000;
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    for (name, lun) in [("p/a", "1"), ("p/b", "257"), ("p/c", "16383")] {
        array.gantry(&["volume", "create", name, "--size", "16M"])?;
        array.gantry(&["volume", "map", name, "--host", "any", "--lun", lun])?;
    }
    let mut session = Wire::log_in(array.portal(), NAME, &array.target_name()?)?;
    let list = session.run(0, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[], 256)?.good()?;
    let fields: Vec<_> = list[8..].chunks(8).map(|field| &field[..2]).collect();
    assert_eq!(fields, [[0, 1], [0x41, 1], [0x7f, 0xff]]);
    let luns = [1, FLAT | 257, FLAT | 16_383];
    for (seed, lun) in luns.into_iter().enumerate() {
        session.run(lun, &cdb16(0x8a, 0, 3, 8), &pattern(seed as u8), 0)?.good()?;
    }
    for (seed, lun) in luns.into_iter().enumerate() {
        assert!(read(&mut session, lun, 3, 8)? == pattern(seed as u8), "LUN {lun:#x}");
    }
    // 1 may be said in both ways; nothing else is there.
    assert!(read(&mut session, FLAT | 1, 3, 8)? == pattern(0));
    for nobody in [257, FLAT | 258, 0x8001, 0xc101] {
        let answer = session.run(nobody, &cdb16(0x88, 0, 3, 8), &[], 4096)?;
        assert_eq!(answer.code(), Some((5, 0x25, 0)), "LUN {nobody:#x}");
    }
    Ok(())
}
