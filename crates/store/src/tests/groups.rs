//! Tests of commit groups: what one commit holds, and the turns of the two classes.

use super::*;
use crate::Io;
use crate::io::Waiter;

const C: VolumeId = VolumeId(3);
const BYTES: u64 = 64 << 20;

fn fill(store: &mut Store, tag: u64, volume: VolumeId, range: ByteRange) {
    let pattern = Pattern::Block(Bytes::from(vec![0x5a; 512]));
    store.submit(Tag(tag), volume, Request::WriteSame { range, pattern });
}

/// An UNMAP of every other block of 2 MiB.
fn unmap_every_other(store: &mut Store, tag: u64, volume: VolumeId, part: u64) {
    let block = |number: u64| ByteRange::new((part * 512 + 2 * number) * BLOCK, BLOCK);
    store.submit(Tag(tag), volume, Request::Unmap { ranges: (0..256).map(block).collect() });
}

/// More changes waited for a commit under way than a unit of the journal holds. They were answered,
/// and recovery did not find them.
#[test]
fn however_much_waits_for_a_commit_all_that_was_answered_is_found_again() {
    const PARTS: u64 = BYTES >> 21;
    let mut pool = Pool::new();
    pool.create(C, "c", BYTES);
    for (tag, volume) in [(1_000_001, A), (1_000_002, B), (1_000_003, C)] {
        fill(&mut pool.store, tag, volume, ByteRange::new(0, BYTES));
        pool.wait(tag).unwrap();
    }
    pool.settle();
    while pool.store.next_done().is_some() {}
    for (number, volume) in [A, B, C].into_iter().enumerate() {
        for part in 0..PARTS {
            let tag = 2_000_000 + number as u64 * PARTS + part;
            unmap_every_other(&mut pool.store, tag, volume, part);
        }
    }
    // The power fails with the last answer.
    let mut answered = 0;
    while answered < 3 * PARTS {
        while let Some(done) = pool.store.next_done() {
            assert!(done.result.is_ok(), "{:?}", done.result);
            answered += 1;
        }
        if let Some(io) = pool.store.next_io() {
            let result = pool.serve(usize::from(io.device), io.operation);
            pool.store.completed(io.id, result);
        }
    }
    let mut pool = pool.reopen();
    for volume in [A, B, C] {
        let data = pool.read(volume, 0, 4 * BLOCK);
        assert!(data.chunks(2 * BLOCK as usize).all(|pair| pair[..4096] == [0; 4096]));
        let data = pool.read(volume, BYTES - 4 * BLOCK, 4 * BLOCK);
        assert!(data.chunks(2 * BLOCK as usize).all(|pair| pair[..4096] == [0; 4096]));
    }
}

fn swap(store: &mut Store, tag: u64, block: u64, from: u8, to: u8) {
    let range = ByteRange::new(block * BLOCK, 512);
    let compare = Bytes::from(vec![from; 512]);
    let write = Bytes::from(vec![to; 512]);
    store.submit(Tag(tag), A, Request::CompareAndWrite { range, compare, write });
}

/// Serves all but what `is_held` picks; returns what came to its end.
fn serve_but(pool: &mut Pool, held: &mut Vec<Io>, is_held: impl Fn(&Waiter) -> bool) -> Vec<u64> {
    let mut done = Vec::new();
    loop {
        done.extend(std::iter::from_fn(|| pool.store.next_done()).map(|done| done.tag.0));
        let Some(io) = pool.store.next_io() else { return done };
        if is_held(pool.store.pool().io.waiter(io.id)) {
            held.push(io);
            continue;
        }
        let result = pool.serve(usize::from(io.device), io.operation);
        pool.store.completed(io.id, result);
    }
}

fn release(pool: &mut Pool, held: &mut Vec<Io>) {
    for io in std::mem::take(held) {
        let result = pool.serve(usize::from(io.device), io.operation);
        pool.store.completed(io.id, result);
    }
}

#[test]
fn a_compare_and_write_is_not_behind_the_data_of_others() {
    let is_commit = |waiter: &Waiter| matches!(waiter, Waiter::Commit { .. });
    let mut pool = Pool::new();
    pool.write(A, 0, &[1; 512]);
    let mut held = Vec::new();
    fill(&mut pool.store, 1_000_001, B, ByteRange::new(0, BLOCK));
    assert_eq!(serve_but(&mut pool, &mut held, is_commit), []);
    for part in 0..12 {
        let range = ByteRange::new((8 + part) << 20, 1 << 20);
        let data = Bytes::from(pattern(part, 1 << 20));
        pool.store.submit(Tag(2_000_000 + part), A, Request::Write { range, data });
    }
    swap(&mut pool.store, 3_000_000, 0, 1, 2);
    assert_eq!(serve_but(&mut pool, &mut held, is_commit), []);
    release(&mut pool, &mut held);
    assert_eq!(serve_but(&mut pool, &mut held, is_commit), [1_000_001]);
    let before = pool.written;
    release(&mut pool, &mut held);
    assert_eq!(serve_but(&mut pool, &mut held, is_commit), [3_000_000]);
    assert!(pool.written - before <= 2 * BLOCK, "{} bytes were written", pool.written - before);
    // Then it is the turn of the others, whatever comes in the fast class.
    swap(&mut pool.store, 3_000_001, 0, 2, 3);
    assert_eq!(serve_but(&mut pool, &mut held, is_commit), []);
    release(&mut pool, &mut held);
    assert_eq!(serve_but(&mut pool, &mut held, is_commit).len(), 12);
    release(&mut pool, &mut held);
    pool.wait(3_000_001).unwrap();
    assert_eq!(pool.read(A, 19 << 20, 1 << 20), pattern(11, 1 << 20));
}

#[test]
fn while_others_wait_for_a_checkpoint_a_compare_and_write_does_not() {
    let mut pool = Pool::with(&[SIZE], Options { journal_bytes: 4 << 20, ..Options::default() });
    pool.write(A, 0, &[1; 512]);
    let is_checkpoint = |waiter: &Waiter| matches!(waiter, Waiter::Checkpoint);
    let mut held = Vec::new();
    let mut tag = 1_000_000;
    loop {
        tag += 1;
        fill(&mut pool.store, tag, B, ByteRange::new(tag % 16_000 * BLOCK, BLOCK));
        if !serve_but(&mut pool, &mut held, is_checkpoint).contains(&tag) {
            break;
        }
        assert!(tag < 1_100_000, "the journal is never full");
    }
    for round in 1..50 {
        swap(&mut pool.store, 2_000_000 + u64::from(round), 0, round, round + 1);
        let done = serve_but(&mut pool, &mut held, is_checkpoint);
        assert_eq!(done, [2_000_000 + u64::from(round)]);
    }
    while !held.is_empty() {
        release(&mut pool, &mut held);
        if serve_but(&mut pool, &mut held, is_checkpoint).contains(&tag) {
            let mut pool = pool.reopen();
            assert_eq!(pool.read(A, 0, 512), [50; 512]);
            return;
        }
    }
    panic!("the checkpoint ended, and who waited for it did not");
}

#[test]
fn the_journal_of_a_new_pool_is_written_from_end_to_end() {
    let options = Options { journal_bytes: 4 << 20, ..Options::default() };
    let devices = vec![DeviceSpec::plain(MemberSpec { uuid: [2; 16], size_bytes: SIZE, slot: 0 })];
    let store = Store::format(&PoolSpec { pool_uuid: [1; 16], devices }, options.clone(), Tag(0));
    let mut pool = Pool::on(store, vec![vec![0xff; SIZE as usize]], options);
    pool.wait(0).unwrap();
    let ring = &pool.devices[0][crate::layout::JOURNAL_START.offset() as usize..][..4 << 20];
    assert!(ring.iter().all(|&byte| byte == 0));
}
