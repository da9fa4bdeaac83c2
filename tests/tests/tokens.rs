//! Offloaded data transfer: a token is its source at a point in time, costs no data I/O, gives its
//! space back, and does not outlive the daemon.

use anyhow::{Result, ensure};
use harness::pdu::{Answer, RawSession, cdb16};
use harness::{Array, number};

const BLOCK: usize = 512;
const NAME: &str = "iqn.2026-01.org.example:tokens";

fn token_cdb(action: u8, length: usize) -> [u8; 16] {
    let mut cdb = cdb16(0x83, action, 0, length as u32);
    cdb[9] = 7;
    cdb
}

fn range(list: &mut Vec<u8>, lba: u64, count: u32) {
    list.extend(16_u16.to_be_bytes());
    list.extend(lba.to_be_bytes());
    list.extend(count.to_be_bytes());
    list.extend([0; 4]);
    let length = list.len() as u16 - 2;
    list[..2].copy_from_slice(&length.to_be_bytes());
}

fn populate(session: &mut RawSession, lun: u8, lba: u64, count: u32) -> Result<Vec<u8>> {
    let mut list = vec![0; 14];
    range(&mut list, lba, count);
    session.write(lun, &token_cdb(0x10, list.len()), &list)?.good()?;
    let mut cdb = cdb16(0x84, 7, 0, 1024);
    cdb[5] = 7;
    let told = session.read(lun, &cdb, 1024)?.good()?;
    ensure!(told.len() == 550 && told[5] == 1, "{told:02x?}");
    Ok(told[38..].to_vec())
}

fn write_using(
    session: &mut RawSession,
    lun: u8,
    token: &[u8],
    lba: u64,
    count: u32,
) -> Result<Answer> {
    let mut list = vec![0; 534];
    list[16..528].copy_from_slice(token);
    range(&mut list, lba, count);
    session.write(lun, &token_cdb(0x11, list.len()), &list)
}

fn blocks(session: &mut RawSession, lun: u8, lba: u64, count: u32) -> Result<Vec<u8>> {
    session.read(lun, &cdb16(0x88, 0, lba, count), count * BLOCK as u32)?.good()
}

fn pool_number(array: &Array, pool: &str, pointer: &str) -> Result<u64> {
    number(&array.gantry_json(&["pool", "show", pool])?, pointer)
}

#[test]
fn a_token_copies_within_a_pool_without_data_io_and_to_another_pool_with_it() -> Result<()> {
    let array = Array::start()?;
    for pool in ["p", "q"] {
        array.create_pool(pool, "1G")?;
    }
    let luns = ["p/a", "p/b", "q/c"].map(|path| array.create_lun(path, "64M"));
    let [a, b, c] = luns.map(|lun| u8::try_from(lun.expect("a LUN")).expect("a small number"));
    let mut session = RawSession::log_in(array.portal(), NAME, &array.target_name()?)?;
    let count = 16 << 11;
    let data: Vec<u8> = (0..count as usize * BLOCK).map(|at| (at / 509) as u8 | 1).collect();
    session.write(a, &cdb16(0x8a, 0, 2048, count), &data)?.good()?;
    let written = pool_number(&array, "p", "/counters/data_bytes_written")?;
    let token = populate(&mut session, a, 2048, count)?;
    session.write(a, &cdb16(0x93, 0, 2048, count), &[9; BLOCK])?.good()?;
    let between = pool_number(&array, "p", "/counters/data_bytes_written")?;
    write_using(&mut session, b, &token, 4096, count)?.good()?;
    assert_eq!(pool_number(&array, "p", "/counters/data_bytes_written")?, between);
    assert!(between - written < 1 << 20, "a repeated block is written once or a few times");
    assert!(blocks(&mut session, b, 4096, count)? == data);
    write_using(&mut session, c, &token, 1, count)?.good()?;
    assert!(blocks(&mut session, c, 1, count)? == data);
    // Nobody is shown where the data rests.
    let volumes = array.gantry_json(&["volume", "list"])?;
    assert_eq!(volumes.as_array().map(Vec::len), Some(3));
    assert_eq!(pool_number(&array, "p", "/volumes")?, 2);
    Ok(())
}

#[test]
fn a_restart_ends_tokens_and_gives_their_space_back() -> Result<()> {
    let mut array = Array::start()?;
    array.create_pool("p", "1G")?;
    let lun = u8::try_from(array.create_lun("p/a", "64M")?)?;
    let mut session = RawSession::log_in(array.portal(), NAME, &array.target_name()?)?;
    let count = 16 << 11;
    session.write(lun, &cdb16(0x8a, 0, 0, count), &vec![3; count as usize * BLOCK])?.good()?;
    let token = populate(&mut session, lun, 0, count)?;
    array.kill()?;
    array.restart()?;
    let mut session = RawSession::log_in(array.portal(), NAME, &array.target_name()?)?;
    assert_eq!(write_using(&mut session, lun, &token, 0, 8)?.code(), Some((5, 0x23, 5)));
    // The token was all that held the data.
    session.read(lun, &[0x48, 2, 0, 0, 0, 0, 0, 0, 0, 0], 0)?.good()?;
    let used = pool_number(&array, "p", "/space/used_bytes")?;
    assert!(used < 8 << 20, "{used} bytes are still used");
    // A pool whose only volume is the hidden one is empty.
    array.gantry(&["volume", "unmap", "p/a", "--host", "any"])?;
    array.gantry(&["volume", "delete", "p/a"])?;
    array.gantry(&["pool", "delete", "p"])?;
    Ok(())
}

#[test]
fn one_host_takes_its_quota_of_tokens_and_sees_its_own_only() -> Result<()> {
    const QUOTA: usize = 64;
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    let lun = u8::try_from(array.create_lun("p/a", "16M")?)?;
    let target = array.target_name()?;
    let log_in = |name: &str| {
        RawSession::log_in(array.portal(), &format!("iqn.2026-01.org.example:{name}"), &target)
    };
    let mut greedy = log_in("greedy")?;
    for _ in 0..QUOTA {
        populate(&mut greedy, lun, 0, 8)?;
    }
    let mut list = vec![0; 14];
    range(&mut list, 0, 8);
    let refused = greedy.write(lun, &token_cdb(0x10, list.len()), &list)?;
    assert_eq!(refused.code(), Some((0x0b, 0x55, 0x0c)));
    let mut other = log_in("other")?;
    let reported = |session: &mut RawSession| -> Result<usize> {
        let told = session.read(lun, &cdb16(0x84, 8, 0, 16_384), 16_384)?.good()?;
        Ok((told.len() - 8) / 96)
    };
    assert_eq!(reported(&mut other)?, 0, "nobody is told what others copy");
    let token = populate(&mut other, lun, 0, 8)?;
    write_using(&mut other, lun, &token, 16, 8)?.good()?;
    assert_eq!((reported(&mut other)?, reported(&mut greedy)?), (1, QUOTA));
    Ok(())
}
