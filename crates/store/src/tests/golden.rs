//! A pool as an earlier build of this program left it: two devices, shared blocks and pages, a
//! snapshot, patterns, a volume that is being taken apart, and commits that are only in the journal.
//! Every later program must read it, or refuse it.
//!
//! `GANTRY_GOLDEN=path cargo test -p store golden` writes such a pool anew; that is done once
//! per format version, and the file is kept for good.

use super::*;

const IMAGE: &[u8] = include_bytes!("golden/format-2.bin");
const SIZES: [u64; 2] = [128 << 20, 64 << 20];

/// Parts of a block that are kept only if they are not zero.
const PART: usize = 64;

/// A block of data that packs well.
fn block(seed: u8) -> Vec<u8> {
    let mut block = vec![0; 4096];
    block[..PART].fill(seed);
    block[4095] = seed;
    block
}

fn blocks(seeds: std::ops::Range<u8>) -> Vec<u8> {
    seeds.flat_map(block).collect()
}

/// How it is run.
pub(super) fn options() -> Options {
    Options { journal_bytes: 4 << 20, reap_rate: 0, ..Options::default() }
}

fn make() -> Pool {
    let options = options();
    let mut pool = Pool::with(&SIZES, options);
    pool.change(Change::ResizeVolume { id: A, size_bytes: 1 << 40 }).unwrap();
    pool.write(A, 0, &blocks(1..20));
    pool.write(A, (1 << 40) - 8192, &blocks(20..22));
    let snapshot =
        VolumeSpec { snapshot: true, created: 1_795_000_000, ..volume(VolumeId(3), "s", 0) };
    pool.change(Change::CloneVolumes(vec![(A, snapshot)])).unwrap();
    pool.copy(A, 0, B, 4096, 8192);
    let pattern = Pattern::Block(Bytes::from(vec![7; 512]));
    let range = ByteRange::new(1 << 20, 64 << 10);
    pool.ask(B, Request::WriteSame { range, pattern }).unwrap();
    pool.create(VolumeId(4), "gone", 8 << 20);
    pool.write(VolumeId(4), 0, &blocks(30..33));
    pool.change(Change::Checkpoint).unwrap();
    pool.write(A, 4096, &blocks(40..42));
    pool.ask(B, Request::Unmap { ranges: vec![ByteRange::new(1 << 20, 4096)] }).unwrap();
    pool.change(Change::DeleteVolume(VolumeId(4))).unwrap();
    pool
}

pub(super) fn check(pool: &mut Pool) {
    let mut first = blocks(1..20);
    assert!(pool.read(VolumeId(3), 0, first.len() as u64) == first);
    assert!(pool.read(B, 4096, 8192) == first[..8192]);
    first[4096..12288].copy_from_slice(&blocks(40..42));
    assert!(pool.read(A, 0, first.len() as u64) == first);
    assert!(pool.read(A, (1 << 40) - 8192, 8192) == blocks(20..22));
    assert!(pool.read(B, 1 << 20, 4096).iter().all(|&byte| byte == 0));
    assert!(pool.read(B, (1 << 20) + 4096, 60 << 10).iter().all(|&byte| byte == 7));
    let snapshot = pool.store.volume(VolumeId(3)).unwrap();
    assert_eq!((snapshot.spec.snapshot, snapshot.origin), (true, Some(A)));
    assert_eq!(pool.store.volumes().count(), 3);
}

/// Device, block number and, after a bit for each part, the parts that are not zero.
fn pack(devices: &[Vec<u8>]) -> Vec<u8> {
    let mut packed = Vec::new();
    for (device, bytes) in devices.iter().enumerate() {
        for (number, block) in bytes.chunks(4096).enumerate() {
            let parts = block.chunks(PART).enumerate();
            let kept: Vec<_> =
                parts.filter(|(_, part)| part.iter().any(|&byte| byte != 0)).collect();
            if kept.is_empty() {
                continue;
            }
            packed.push(device as u8);
            packed.extend_from_slice(&(number as u64).to_le_bytes());
            let bits = kept.iter().fold(0_u64, |bits, (part, _)| bits | 1 << part);
            packed.extend_from_slice(&bits.to_le_bytes());
            kept.iter().for_each(|(_, part)| packed.extend_from_slice(part));
        }
    }
    packed
}

/// The devices of the pool that is kept.
pub(super) fn image() -> Vec<Vec<u8>> {
    unpack(IMAGE)
}

fn unpack(mut packed: &[u8]) -> Vec<Vec<u8>> {
    let mut devices: Vec<Vec<u8>> = SIZES.iter().map(|&size| vec![0; size as usize]).collect();
    while let Some((head, rest)) = packed.split_first_chunk::<17>() {
        packed = rest;
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap());
        let block = &mut devices[usize::from(head[0])][word(1) as usize * 4096..][..4096];
        for part in (0..64).filter(|part| word(9) & 1 << part != 0) {
            let (bytes, rest) = packed.split_at(PART);
            block[part * PART..][..PART].copy_from_slice(bytes);
            packed = rest;
        }
    }
    devices
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a developer asks for a new golden file by the environment"
)]
fn a_pool_of_format_2_is_read() {
    if let Ok(path) = std::env::var("GANTRY_GOLDEN") {
        std::fs::write(path, pack(&make().devices)).unwrap();
    }
    let mut pool = make();
    pool.devices = unpack(IMAGE);
    let mut pool = pool.reopen();
    check(&mut pool);
    pool.settle();
    let mut pool = pool.reopen();
    check(&mut pool);
}

#[test]
fn what_is_made_today_is_what_the_golden_pool_holds() {
    check(&mut make().reopen());
}

/// Another version, or a feature that this program does not know, is refused with both named; a
/// feature that only forbids changes leaves a pool that can be read.
#[test]
fn other_versions_and_unknown_features_are_refused() {
    let with_label = |at: usize, value: u64| {
        let mut pool = make();
        pool.devices = unpack(IMAGE);
        for label in [1, 2] {
            let bytes = &mut pool.devices[0][label * 4096..][..4096];
            bytes[at] = value as u8;
            let crc = crc32c::crc32c(&bytes[..4092]);
            bytes[4092..].copy_from_slice(&crc.to_le_bytes());
        }
        pool.reopen_damaged()
    };
    let refused = |result: Result<Pool, Failure>| match result {
        Err(Failure::Open(error)) => error,
        _ => panic!("it was opened"),
    };
    for version in [0, 1, 3] {
        let expected = OpenError::Unknown { version, features: 0 };
        assert_eq!(refused(with_label(8, u64::from(version))), expected);
    }
    assert_eq!(refused(with_label(48, 16)), OpenError::Unknown { version: 2, features: 16 });
    let mut pool = with_label(56, 4).unwrap();
    assert!(matches!(pool.store.health(), Health::ReadOnly { .. }));
    check(&mut pool);
    let range = ByteRange::new(0, 4096);
    let write = Request::Write { range, data: Bytes::from(vec![1; 4096]) };
    assert_eq!(pool.ask(A, write).unwrap_err(), BlockError::ReadOnly.into());
    check(&mut with_label(64, 4).unwrap());
}
