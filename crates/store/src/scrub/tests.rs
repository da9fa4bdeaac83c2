use std::time::Duration;

use super::*;
use crate::tests::{A, B, Pool, SIZE, pattern, volume};
use crate::{Change, Options, VolumeSpec};

fn scrub(pool: &mut Pool) -> ScrubStatus {
    pool.store.start_scrub();
    for second in 1..1000 {
        pool.pump();
        if !pool.store.scrub_status().running {
            return pool.store.scrub_status();
        }
        pool.store.tick(Duration::from_secs(second));
    }
    panic!("the scrub does not come to its end: {:?}", pool.store.scrub_status());
}

fn damage(pool: &mut Pool, content: &[u8]) {
    let place = pool.devices[0].chunks(4096).position(|block| block == content).unwrap();
    pool.devices[0][place * 4096 + 99] ^= 1;
}

#[test]
fn a_sound_pool_is_read_once_however_often_it_is_shared() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 4 << 20));
    for id in 3..20 {
        pool.clone_volume(A, VolumeId(id), &id.to_string());
    }
    pool.settle();
    let status = scrub(&mut pool);
    assert!(status.complete && status.bad.is_empty());
    assert!((4 << 20..5 << 20).contains(&status.scanned_bytes), "{status:?}");
}

#[test]
fn every_place_of_every_bad_block_is_reported() {
    let mut pool = Pool::new();
    let data = pattern(1, 4 << 20);
    pool.write(A, 0, &data);
    pool.clone_volume(A, VolumeId(3), "c");
    pool.copy(A, 4096, B, 0, 8192);
    pool.write(A, 1 << 20, &pattern(2, 4096));
    damage(&mut pool, &data[8192..12288]);
    damage(&mut pool, &data[12288..16384]);
    damage(&mut pool, &data[1 << 20..][..4096]);
    let status = scrub(&mut pool);
    assert_eq!((status.bad_blocks, status.bad_pages), (3, 0));
    let range = |volume, offset, length| BadRange { volume, range: ByteRange::new(offset, length) };
    let expected = [
        range(A, 8192, 8192),
        range(B, 4096, 4096),
        range(VolumeId(3), 8192, 8192),
        range(VolumeId(3), 1 << 20, 4096),
    ];
    assert_eq!(status.bad, expected);
    pool.write(A, 8192, &data[..4096]);
    assert_eq!(pool.read(A, 8192, 4096), data[..4096], "a bad block is cured by writing it");
}

#[test]
fn a_bad_copy_of_a_page_is_written_again() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 4 << 20));
    pool.settle();
    let root = pool.store.pool().volumes[&A].root.entry;
    for copy in [root.address(), root.twin().unwrap()] {
        pool.devices[0][copy.block().offset() as usize] ^= 1;
        assert_eq!(scrub(&mut pool).repaired_pages, 1);
        assert_eq!(scrub(&mut pool).repaired_pages, 0);
    }
    assert_eq!(pool.faults(), Vec::<String>::new());
}

#[test]
fn a_scrub_reads_no_more_per_second_than_it_is_allowed_to() {
    let options = Options { scrub_rate: 1 << 20, ..Options::default() };
    let mut pool = Pool::with(&[SIZE], options);
    pool.write(A, 0, &pattern(1, 16 << 20));
    pool.store.start_scrub();
    let mut before = 0;
    for second in 1..8 {
        pool.pump();
        let scanned = pool.store.scrub_status().scanned_bytes;
        assert!(scanned - before <= 3 << 20, "{scanned}");
        assert!(pool.store.scrub_status().running);
        before = scanned;
        pool.store.tick(Duration::from_secs(second));
    }
    pool.store.stop_scrub();
    let status = pool.store.scrub_status();
    assert!(!status.running && !status.complete);
}

#[test]
fn changes_during_a_scrub_are_no_damage() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 8 << 20));
    for round in 0..20 {
        pool.store.start_scrub();
        for at in 0..8 {
            pool.write(A, at << 20, &pattern(round * 10 + at, 1 << 20));
        }
        pool.change(Change::Checkpoint).unwrap();
        let status = scrub(&mut pool);
        assert_eq!(status.bad_blocks, 0);
    }
}

#[test]
fn what_a_reserved_volume_shares_is_counted_again_when_a_snapshot_is_gone() {
    let mut pool = Pool::new();
    let id = VolumeId(9);
    let spec = VolumeSpec { thick: true, ..volume(id, "r", 64 << 20) };
    pool.change(Change::CreateVolume(spec)).unwrap();
    pool.write(id, 0, &pattern(1, 32 << 20));
    pool.clone_volume(id, VolumeId(10), "c");
    pool.write(id, 0, &pattern(2, 4 << 20));
    assert_eq!(pool.store.volume(id).unwrap().shared_bytes(), 28 << 20);
    pool.change(Change::DeleteVolume(VolumeId(10))).unwrap();
    pool.settle();
    pool.pump();
    assert_eq!(pool.store.volume(id).unwrap().shared_bytes(), 0);
    let mut pool = pool.reopen();
    assert!(pool.read(id, 4 << 20, 28 << 20) == pattern(1, 32 << 20)[4 << 20..]);
}

/// A read of an abandoned scrub had the key of a longer one of the next scrub, and was compared
/// with what that one had to bring.
#[test]
fn what_an_abandoned_scrub_began_to_read_is_not_the_next_ones() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 8 << 10));
    pool.settle();
    let wishes = |pool: &mut Pool| std::iter::from_fn(|| pool.store.next_io()).collect::<Vec<_>>();
    pool.store.start_scrub();
    let abandoned = wishes(&mut pool);
    pool.store.start_scrub();
    let under_way = wishes(&mut pool);
    assert!(!abandoned.is_empty() && !under_way.is_empty());
    for io in abandoned {
        pool.store.completed(io.id, Err(block::DeviceError::Os(5)));
    }
    assert!(pool.store.next_io().is_none(), "nothing of the new scrub is read again");
    for io in under_way {
        let result = pool.serve(usize::from(io.device), io.operation);
        pool.store.completed(io.id, result);
    }
    let status = scrub(&mut pool);
    assert!(status.complete && status.bad_blocks == 0 && status.bad_pages == 0, "{status:?}");
}
