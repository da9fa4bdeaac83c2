//! A pool that was filled to the last block by a build that kept no metadata reserve, was given a
//! snapshot then, and lost power. Its format is the same, so every later program opens it.
//!
//! Volume A has 64 blocks, all shared with snapshot 3. The filler has 51 MiB, each of bytes of its
//! own; the first 16 blocks were overwritten with 201, which is in the journal alone.

use super::*;
use crate::RECORDS;

const IMAGE: &[u8] = include_bytes!("golden/full-before-metadata-reserve.bin");
const SIZE: usize = 64 << 20;
const FILLER: VolumeId = VolumeId(9);
const SNAPSHOT: VolumeId = VolumeId(3);
const FILLED_MEBIBYTES: u64 = 51;

/// Pieces of an entry of the map, which follow each other in an image.
const PIECE: usize = 16;

/// Runs of pieces: a byte that says of what, and how many (32 bits): 0 zeroes, 1 the piece before
/// again, 2 that plus one, as a number, each time, 3 as they follow.
fn unpack(mut packed: &[u8]) -> Vec<u8> {
    let mut image = Vec::with_capacity(SIZE);
    let mut last = [0; PIECE];
    while let Some((&[kind, count @ ..], rest)) = packed.split_first_chunk::<5>() {
        packed = rest;
        for _ in 0..u32::from_le_bytes(count) {
            last = match kind {
                0 => [0; PIECE],
                1 => last,
                2 => (u128::from_le_bytes(last) + 1).to_le_bytes(),
                _ => {
                    let (piece, rest) = packed.split_first_chunk().unwrap();
                    packed = rest;
                    *piece
                }
            };
            image.extend_from_slice(&last);
        }
    }
    assert_eq!(image.len(), SIZE);
    image
}

fn open() -> Pool {
    let options = Options { journal_bytes: 4 << 20, ..Options::default() };
    let mut pool = Pool::with(&[SIZE as u64], options);
    pool.devices = vec![unpack(IMAGE)];
    pool.reopen()
}

fn check(pool: &mut Pool, first_mebibyte: u64) {
    for id in [A, SNAPSHOT] {
        for block in 1..64 {
            assert!(pool.read(id, block * 4096, 4096) == [block as u8 | 1; 4096], "{id:?} {block}");
        }
    }
    assert!(pool.read(SNAPSHOT, 0, 4096) == [1; 4096]);
    for number in first_mebibyte..FILLED_MEBIBYTES {
        let mut expected = vec![number as u8 + 1; 1 << 20];
        if number == 0 {
            expected[..16 * 4096].fill(201);
        }
        assert!(pool.read(FILLER, number << 20, 1 << 20) == expected, "mebibyte {number}");
    }
    let space = pool.store.space();
    let sum = space.used + space.pending + space.reserve + space.free + space.unbacked;
    assert_eq!(sum, space.total, "{space:?}");
}

fn new_data(pool: &mut Pool) -> Result<(), Failure> {
    let range = ByteRange::new(100 << 20, 1 << 20);
    pool.ask(FILLER, Request::Write { range, data: Bytes::from(vec![9; 1 << 20]) }).map(drop)
}

/// COMPARE AND WRITE of the first sector of A, which the snapshot shares.
fn lock(pool: &mut Pool, from: u8, to: u8) -> Result<(), Failure> {
    let range = ByteRange::new(0, 512);
    let (compare, write) = (Bytes::from(vec![from; 512]), Bytes::from(vec![to; 512]));
    pool.ask(A, Request::CompareAndWrite { range, compare, write }).map(drop)
}

fn unmap(pool: &mut Pool, mebibytes: core::ops::Range<u64>) {
    let range = ByteRange::new(mebibytes.start << 20, (mebibytes.end - mebibytes.start) << 20);
    pool.ask(FILLER, Request::Unmap { ranges: vec![range] }).unwrap();
    pool.settle();
}

const FULL: Failure = Failure::Block(BlockError::OutOfSpace);

/// It opens with everything in it, and without a reserve. What becomes free fills that first, and
/// locks go on from the first block; then data, and snapshots.
#[test]
fn a_pool_that_was_full_before_there_was_a_metadata_reserve_opens_and_fills_it_first() {
    let mut pool = open();
    check(&mut pool, 0);
    let space = pool.store.space();
    assert_eq!((space.free, space.metadata_left), (0, 0), "{space:?}");
    assert!(space.metadata_reserve > 7 << 20, "{space:?}");
    assert!(space.reserve < 2 * space.metadata_reserve, "{space:?}");
    assert_eq!(new_data(&mut pool).unwrap_err(), FULL);
    let again = VolumeSpec { snapshot: true, ..volume(VolumeId(4), "again", 0) };
    let refused = pool.change(Change::CloneVolumes(vec![(A, again.clone())])).unwrap_err();
    assert!(matches!(refused, Failure::Change(ChangeError::NoSpaceToShare { .. })), "{refused:?}");
    // What is the volume's own is overwritten, as before.
    let range = ByteRange::new(0, 4096);
    pool.ask(FILLER, Request::Write { range, data: Bytes::from(vec![201; 4096]) }).unwrap();
    let mut pool = pool.reopen();
    check(&mut pool, 0);
    unmap(&mut pool, 0..2);
    let space = pool.store.space();
    assert_eq!(space.free, 0, "{space:?}");
    assert!(space.metadata_left > 1 << 20, "{space:?}");
    assert_eq!(new_data(&mut pool).unwrap_err(), FULL);
    lock(&mut pool, 1, 77).unwrap();
    lock(&mut pool, 77, 1).unwrap();
    let mut pool = pool.reopen();
    check(&mut pool, 2);
    unmap(&mut pool, 2..30);
    let space = pool.store.space();
    assert_eq!(space.metadata_left, space.metadata_reserve, "{space:?}");
    let free = space.free;
    assert!(free > 16 << 20, "{space:?}");
    new_data(&mut pool).unwrap();
    pool.change(Change::CloneVolumes(vec![(A, again)])).unwrap();
    pool.settle();
    let mut pool = pool.reopen();
    check(&mut pool, 30);
    let space = pool.store.space();
    assert!(space.free < free && space.free + (2 << 20) > free, "{space:?}");
}

/// The volume of records is made although nothing is free; what it is to hold is written as soon as
/// something is.
#[test]
fn a_pool_that_is_full_is_upgraded_all_the_same() {
    let mut pool = open();
    pool.change(Change::CreateRecords { size_bytes: 1 << 30 }).unwrap();
    let mut pool = pool.reopen();
    check(&mut pool, 0);
    assert_eq!(pool.store.records().map(|records| records.mapped_bytes), Some(0));
    let range = ByteRange::new(0, 4096);
    let record = Request::Write { range, data: Bytes::from(vec![7; 4096]) };
    assert_eq!(pool.ask(RECORDS, record.clone()).unwrap_err(), FULL);
    unmap(&mut pool, 0..30);
    pool.ask(RECORDS, record).unwrap();
    let mut pool = pool.reopen();
    check(&mut pool, 30);
    assert_eq!(pool.read(RECORDS, 0, 4096), [7; 4096]);
}
