//! One turn changes a bounded part of the map, however much one request does.
//!
//! The story: a WRITE SAME of 32 MiB of a pattern changed 8,192 entries of the map in one turn of the
//! daemon's loop, and the commands of all other hosts waited for it.

use super::*;

const MIB: u64 = 1 << 20;
const FILLED: u64 = 32 * MIB;
const BLOCKS: u64 = 512;
const FILL: Tag = Tag(9001);
const READ: Tag = Tag(9002);

/// A pool whose volume A has data of its own where it will be filled.
fn pool() -> Pool {
    let mut pool = Pool::new();
    for at in 0..FILLED / MIB {
        pool.write(A, at * MIB, &pattern(at, MIB as usize));
    }
    pool.write(B, 0, &pattern(77, 4096));
    pool
}

/// Begins to fill the first 32 MiB of A, and to read them.
fn begin(pool: &mut Pool) {
    let range = ByteRange::new(0, FILLED);
    let pattern = Pattern::Block(Bytes::from(vec![0x6b; 512]));
    pool.store.begin_turn(BLOCKS);
    pool.store.submit(FILL, A, Request::WriteSame { range, pattern });
    pool.store.submit(READ, A, Request::Read { range: ByteRange::new(FILLED / 2, 4096) });
}

/// Plays turns until the filling has ended, `between` after each; returns how many there were.
fn play(pool: &mut Pool, mut between: impl FnMut(&mut Pool, u64)) -> u64 {
    let mut turns = 0;
    loop {
        turns += 1;
        pool.store.begin_turn(BLOCKS);
        pool.pump();
        while let Some(done) = pool.store.next_done() {
            if done.tag == FILL {
                done.result.unwrap();
                return turns;
            }
            assert_ne!(done.tag, READ, "it reads what is being filled");
        }
        assert!(pool.store.has_more(), "nobody would come back");
        between(pool, turns);
    }
}

#[test]
fn a_pattern_over_32_mib_takes_many_turns_in_which_others_are_served() {
    let mut pool = pool();
    begin(&mut pool);
    let turns = play(&mut pool, |pool, _| assert_eq!(pool.read(B, 0, 4096), pattern(77, 4096)));
    assert!(turns >= FILLED / BLOCK / BLOCKS, "{turns} turns");
    assert!(!pool.store.has_more());
    pool.wait(READ.0).unwrap();
    assert_eq!(pool.read(A, 0, FILLED), vec![0x6b; FILLED as usize]);
    let mut pool = pool.reopen();
    assert_eq!(pool.read(A, 0, FILLED), vec![0x6b; FILLED as usize]);
}

// A checkpoint that was cut within a record would have it replayed as a whole.
#[test]
fn no_checkpoint_is_cut_within_a_record_and_every_restart_finds_all_of_it() {
    for stop in [1, 2, 7, 15] {
        let mut pool = pool();
        begin(&mut pool);
        let mut copies = Vec::new();
        play(&mut pool, |pool, turn| {
            pool.store.tick(std::time::Duration::from_secs(60 * turn));
            if turn == stop {
                copies.push(pool.devices.clone());
            }
        });
        for devices in copies {
            let store = Store::open(
                &pool.slots(),
                OpenContext::expecting(Some([1; 16])),
                pool.options.clone(),
                Tag(0),
            );
            let mut found = Pool::on(store, devices, pool.options.clone());
            found.wait(0).unwrap();
            assert_eq!(found.faults(), Vec::<String>::new());
            let content = found.read(A, 0, FILLED);
            assert_eq!(content, vec![0x6b; FILLED as usize], "turn {stop}");
        }
    }
}

// Under a load that never leaves a turn with time to spare, checkpoints still come.
#[test]
fn checkpoints_come_while_every_turn_is_used_up() {
    let mut pool = Pool::new();
    let before = pool.store.statistics().checkpoints;
    for round in 0..200 {
        for at in 0..4 {
            let tag = Tag(10_000 + round * 4 + at);
            let data = Bytes::from(pattern(round, 256 << 10));
            let range = ByteRange::new(at * MIB, 256 << 10);
            pool.store.submit(tag, A, Request::Write { range, data });
        }
        pool.store.tick(std::time::Duration::from_secs(31 * round));
        pool.store.begin_turn(96);
        pool.pump();
        while pool.store.next_done().is_some() {}
    }
    let checkpoints = pool.store.statistics().checkpoints - before;
    assert!(checkpoints > 20, "{checkpoints} checkpoints");
}
