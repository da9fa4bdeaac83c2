//! Zeros where nothing is mapped need no commit.

use block::{BLOCK, ByteRange, Pattern, Request};

use super::{A, Pool, pattern};

const MEBIBYTE: u64 = 1 << 20;

fn unmap(offset: u64, length: u64) -> Request {
    Request::Unmap { ranges: vec![ByteRange::new(offset, length)] }
}

fn zeros(offset: u64, length: u64) -> Request {
    Request::WriteSame { range: ByteRange::new(offset, length), pattern: Pattern::Zero }
}

/// How many commits a request takes.
fn commits(pool: &mut Pool, request: Request) -> u64 {
    let before = pool.store.statistics().commits;
    pool.ask(A, request).unwrap();
    pool.store.statistics().commits - before
}

#[test]
fn zeros_of_holes_are_answered_without_a_commit_and_are_counted() {
    let mut pool = Pool::new();
    pool.write(A, 8 * MEBIBYTE, &pattern(1, MEBIBYTE as usize));
    let before = pool.store.statistics().zeroed_bytes;
    let asked = pool.store.reclaimed(A).asked_bytes;
    assert_eq!(commits(&mut pool, unmap(0, 8 * MEBIBYTE)), 0);
    assert_eq!(commits(&mut pool, zeros(BLOCK, 3 * MEBIBYTE)), 0);
    assert_eq!(commits(&mut pool, zeros(9 * MEBIBYTE, 2 * MEBIBYTE)), 0);
    let written = pool.store.statistics().commits;
    pool.write(A, 3 * BLOCK, &[0; 5 * BLOCK as usize]);
    assert_eq!(pool.store.statistics().commits, written);
    let all = 13 * MEBIBYTE + 5 * BLOCK;
    assert_eq!(pool.store.statistics().zeroed_bytes - before, all);
    assert_eq!(pool.store.reclaimed(A).asked_bytes - asked, all);
}

#[test]
fn a_range_with_a_single_mapped_block_is_committed_as_a_whole() {
    for at in [0, BLOCK, MEBIBYTE - BLOCK, MEBIBYTE, 2 * MEBIBYTE - BLOCK, 3 * MEBIBYTE] {
        let mut pool = Pool::new();
        pool.write(A, at, &pattern(3, BLOCK as usize));
        assert_eq!(commits(&mut pool, unmap(0, 3 * MEBIBYTE + BLOCK)), 1, "{at}");
        assert_eq!(commits(&mut pool, unmap(0, 3 * MEBIBYTE + BLOCK)), 0, "{at}");
        pool = pool.reopen();
        assert!(pool.read(A, at, BLOCK).iter().all(|&byte| byte == 0));
    }
}

/// Unaligned ends are blocks that are read and changed: they become holes only if the rest is zero.
#[test]
fn halves_of_blocks_are_not_taken_for_holes() {
    let mut pool = Pool::new();
    let mut model = pattern(7, 4 * BLOCK as usize);
    pool.write(A, 0, &model);
    assert_eq!(commits(&mut pool, unmap(BLOCK / 2, 2 * BLOCK)), 1);
    model[(BLOCK / 2) as usize..(5 * BLOCK / 2) as usize].fill(0);
    assert!(pool.read(A, 0, 4 * BLOCK) == model);
    pool = pool.reopen();
    assert!(pool.read(A, 0, 4 * BLOCK) == model);
}

/// Of several ranges only those with data are committed.
#[test]
fn ranges_of_one_unmap_are_judged_one_by_one() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(9, MEBIBYTE as usize));
    let ranges = [0, 5, 9].map(|at| ByteRange::new(at * MEBIBYTE, MEBIBYTE)).to_vec();
    let bytes = pool.store.statistics().journal_bytes;
    assert_eq!(commits(&mut pool, Request::Unmap { ranges }), 1);
    assert_eq!(pool.store.statistics().journal_bytes - bytes, BLOCK);
    assert!(pool.read(A, 0, MEBIBYTE).iter().all(|&byte| byte == 0));
}
