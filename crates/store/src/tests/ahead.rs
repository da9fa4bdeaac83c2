//! Tests of prefetch for sequential readers.

use super::*;

const MIB: u64 = 1 << 20;

/// Reads blocks one after the other; returns how many wishes to the device that took.
fn scan(pool: &mut Pool, volume: VolumeId, start: u64, expected: &[u8]) -> u64 {
    let mut wishes = 0;
    for (at, block) in (start..).step_by(BLOCK as usize).zip(expected.chunks(BLOCK as usize)) {
        let before = pool.reads;
        assert!(pool.read(volume, at, BLOCK) == block, "at {at}");
        wishes += pool.reads - before;
    }
    wishes
}

#[test]
fn a_host_that_reads_on_needs_few_reads_of_the_device() {
    let mut pool = Pool::new();
    let data = pattern(1, MIB as usize);
    pool.write(A, 0, &data);
    assert!(scan(&mut pool, A, 0, &data) < 16);
    let statistics = pool.store.statistics();
    assert_eq!(statistics.data_bytes_read, MIB, "nothing is read twice, nothing beyond the data");
    assert_eq!(statistics.recent_bytes_read, MIB - 3 * BLOCK);
}

#[test]
fn who_reads_here_and_there_is_not_read_ahead_of() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, MIB as usize));
    for at in (0..MIB).step_by(3 * BLOCK as usize) {
        pool.read(A, at, BLOCK);
    }
    assert_eq!(pool.store.statistics().ahead_bytes_read, 0);
}

#[test]
fn what_is_written_after_it_was_read_ahead_is_what_is_read() {
    let mut pool = Pool::new();
    let mut data = pattern(1, MIB as usize);
    pool.write(A, 0, &data);
    scan(&mut pool, A, 0, &data[..8 * BLOCK as usize]);
    assert!(pool.store.statistics().ahead_bytes_read > 0);
    let new = pattern(2, 4 * BLOCK as usize);
    data[8 * BLOCK as usize..12 * BLOCK as usize].copy_from_slice(&new);
    pool.write(A, 8 * BLOCK, &new);
    pool.settle();
    // The places of the old data are given to others.
    pool.write(B, 0, &pattern(3, 32 << 20));
    scan(&mut pool, A, 8 * BLOCK, &data[8 * BLOCK as usize..]);
}

#[test]
fn a_block_that_decayed_is_a_medium_error_when_it_is_asked_for_and_not_before() {
    let mut pool = Pool::new();
    let data = pattern(1, MIB as usize);
    pool.write(A, 0, &data);
    let block = 20 * BLOCK as usize;
    let decayed = data[block..block + 64].to_vec();
    let device = &mut pool.devices[0];
    let place = device.windows(64).position(|bytes| bytes == decayed).unwrap();
    device[place] ^= 1;
    scan(&mut pool, A, 0, &data[..block]);
    let range = ByteRange::new(block as u64, BLOCK);
    let failure = pool.ask(A, Request::Read { range }).unwrap_err();
    assert_eq!(failure, Failure::Block(BlockError::Medium { offset: block as u64 }));
    scan(&mut pool, A, (block as u64) + BLOCK, &data[block + BLOCK as usize..]);
}
