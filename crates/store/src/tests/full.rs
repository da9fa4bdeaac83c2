//! A full pool: what hosts need to find their way out of it is not refused.

use super::*;

const FILLER: VolumeId = VolumeId(9);
const FULL: Failure = Failure::Block(BlockError::OutOfSpace);

fn snapshot(id: u64) -> VolumeSpec {
    VolumeSpec { snapshot: true, ..volume(VolumeId(id), &format!("s{id}"), 0) }
}

/// Writes new data until not one block is taken.
fn fill(pool: &mut Pool) {
    if pool.store.volume(FILLER).is_none() {
        pool.create(FILLER, "filler", 1 << 30);
    }
    for length in [1 << 20, 4096] {
        let mut at = if length == 4096 { 900 << 20 } else { 0 };
        while pool.ask(FILLER, write(at, length, at)).is_ok() {
            at += length;
        }
    }
    let space = pool.store.space();
    assert!(space.free - space.promised < 64 << 10, "{space:?}");
}

fn write(at: u64, length: u64, seed: u64) -> Request {
    let data = Bytes::from(pattern(seed | 1 << 40, length as usize));
    Request::Write { range: ByteRange::new(at, length), data }
}

/// COMPARE AND WRITE of one sector.
fn swap(pool: &mut Pool, id: VolumeId, at: u64) -> Result<(), Failure> {
    let range = ByteRange::new(at, 512);
    let compare = Bytes::from(pool.read(id, at, 512));
    let write = Bytes::from(pattern(at + 77, 512));
    pool.ask(id, Request::CompareAndWrite { range, compare, write }).map(drop)
}

/// What a shared file system does: 400 locks in 40 MiB, each with metadata behind it, some of which
/// covers whole blocks, and journal records.
fn change_metadata(pool: &mut Pool, id: VolumeId) {
    for lock in 0..400 {
        let at = lock * 100 * 1024;
        swap(pool, id, at).unwrap();
        pool.ask(id, write(at + 512, 1536, lock)).unwrap();
        pool.ask(id, write((at + 8192) / 4096 * 4096, 4096, lock)).unwrap();
        pool.ask(id, write((45 << 20) + lock % 16 * 65_536, 3072, lock)).unwrap();
    }
}

fn adds_up(pool: &Pool) {
    let space = pool.store.space();
    assert_eq!(
        space.used + space.pending + space.reserve + space.free + space.unbacked,
        space.total,
        "{space:?}"
    );
}

/// Metadata that was zeroed when the file system was made, or that a snapshot shares, needs new
/// blocks. It gets them in a full pool, before and after a restart, and the reserve is filled first
/// when space comes back.
#[test]
fn locks_and_metadata_go_on_in_a_full_pool_with_snapshots_too() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 24 << 20));
    pool.change(Change::CloneVolumes(vec![(A, snapshot(3))])).unwrap();
    fill(&mut pool);
    for _ in 0..2 {
        let refused = pool.change(Change::CloneVolumes(vec![(A, snapshot(4))])).unwrap_err();
        assert!(matches!(refused, Failure::Change(ChangeError::NoSpaceToShare { .. })));
        change_metadata(&mut pool, A);
        assert_eq!(pool.ask(FILLER, write(1000 << 20, 4096, 1)).unwrap_err(), FULL);
        adds_up(&pool);
        pool = pool.reopen();
    }
    let space = pool.store.space();
    assert!(space.metadata_left < space.metadata_reserve, "{space:?}");
    let part = ByteRange::new(0, 2 << 20);
    pool.ask(FILLER, Request::Unmap { ranges: vec![part] }).unwrap();
    pool.settle();
    let after = pool.store.space();
    assert_eq!(after.free, 0, "the reserve is filled first: {after:?}");
    assert!(after.metadata_left >= space.metadata_left + (2 << 20), "{after:?}");
    pool.ask(FILLER, Request::Unmap { ranges: vec![ByteRange::new(0, 64 << 20)] }).unwrap();
    pool.settle();
    pool.change(Change::CloneVolumes(vec![(A, snapshot(4))])).unwrap();
    change_metadata(&mut pool, A);
}

/// A machine's writes cannot be told from a file system's by their content. What they take of the
/// reserve ends where locks begin.
#[test]
fn machines_do_not_take_the_space_of_locks() {
    let mut pool = Pool::new();
    pool.write(B, 0, &pattern(1, 64 << 20));
    pool.change(Change::CloneVolumes(vec![(B, snapshot(3))])).unwrap();
    fill(&mut pool);
    let whole = pool.store.space().metadata_reserve;
    let blocks = |seed: u64| (0..16_384).map(move |block| (block * 7919 + seed) % 16_384 * 4096);
    let mut taken = 0;
    for at in blocks(0) {
        taken += u64::from(pool.ask(B, write(at, 4096, at)).is_ok());
        pool.ask(B, write(at + 512, 512, at)).map(drop).unwrap_or_default();
    }
    assert!(taken > 100, "a few short overwrites of what a snapshot keeps are taken");
    pool.settle();
    let left = pool.store.space().metadata_left;
    assert!(left >= whole / 2 - (64 << 10), "{left} of {whole}");
    // A host locks near its journal when it mounts.
    swap(&mut pool, A, 44 << 20).unwrap();
    change_metadata(&mut pool, A);
}

/// A host that locks everywhere takes no more than what is common, and its share.
#[test]
fn one_volume_does_not_take_the_shares_of_others() {
    let mut pool = Pool::new();
    pool.create(VolumeId(7), "greedy", 1 << 30);
    swap(&mut pool, A, 0).unwrap();
    swap(&mut pool, B, 0).unwrap();
    fill(&mut pool);
    let greedy = (0..8192).take_while(|at| swap(&mut pool, VolumeId(7), at * 4096).is_ok());
    assert!(greedy.count() > 1000);
    for id in [A, B] {
        (1..200).for_each(|at| swap(&mut pool, id, at * 4096).unwrap());
    }
    pool.change(Change::DeleteVolume(FILLER)).unwrap();
    pool.settle();
    let space = pool.store.space();
    assert_eq!(space.metadata_left, space.metadata_reserve);
}

/// What machines overwrite is lent, and does not lower what is left for metadata.
#[test]
fn overwrites_do_not_lower_the_metadata_reserve() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 32 << 20));
    fill(&mut pool);
    let before = pool.store.space().metadata_left;
    for round in 0..4 {
        for at in 0..32 {
            pool.ask(A, write(at << 20, 1 << 20, round)).unwrap();
            let left = pool.store.space().metadata_left;
            assert!(left + (256 << 10) >= before, "{left} of {before}");
        }
    }
    adds_up(&pool);
}

/// Blocks that a thick volume shared and were replaced without a look are promised to it twice until
/// somebody counts. Locks and metadata of others wait for that instead of being refused.
#[test]
fn what_is_promised_to_a_thick_volume_twice_takes_nothing_from_locks() {
    const THICK: VolumeId = VolumeId(7);
    let mut pool = Pool::new();
    let spec = VolumeSpec { thick: true, ..volume(THICK, "thick", 32 << 20) };
    pool.change(Change::CreateVolume(spec)).unwrap();
    pool.write(A, 0, &pattern(1, 48 << 20));
    pool.write(THICK, 16 << 20, &pattern(2, 16 << 20));
    pool.copy(A, 0, THICK, 0, 16 << 20);
    // Now the leaves are its own, and all but one block of each are shared.
    (0..16).for_each(|at| pool.write(THICK, at << 20, &pattern(at, 4096)));
    fill(&mut pool);
    let whole = pool.store.space().metadata_left;
    pool.copy(A, 0, THICK, 0, 16 << 20);
    let space = pool.store.space();
    assert!(space.metadata_left < whole / 8, "{space:?}");
    pool.store.start_scrub();
    change_metadata(&mut pool, A);
    assert!(pool.store.space().metadata_left > whole / 2);
    // The scrub made way, and went on.
    let status = pool.store.scrub_status();
    assert!(status.running || status.complete && status.bad.is_empty(), "{status:?}");
    adds_up(&pool);
}

/// What a new thick volume is promised, nothing else takes between its check and its record; and what is
/// noted as shared in the table of a pool that was opened is counted before metadata is refused.
#[test]
fn what_a_change_promises_is_kept_while_the_change_is_on_its_way() {
    const THICK: VolumeId = VolumeId(7);
    let mut pool = Pool::new();
    pool.create(FILLER, "filler", 1 << 30);
    let free = pool.store.space().free;
    let size_bytes = (free - (8 << 20)) / 4096 * 4096;
    let spec = VolumeSpec { thick: true, ..volume(THICK, "thick", size_bytes) };
    pool.store.change(Tag(1 << 32), Change::CreateVolume(spec));
    for at in 0..64 {
        pool.store.submit(Tag(2 << 32 | at), FILLER, write(at << 20, 1 << 20, at));
    }
    pool.wait(1 << 32).unwrap();
    pool.settle();
    let space = pool.store.space();
    assert_eq!(space.metadata_left, space.metadata_reserve, "{space:?}");
    adds_up(&pool);
}
