//! Damage to what is on the devices: read from copies, fenced, or refused; never misread.

use super::*;
use crate::{Cause, Incident, Place};

fn groups_start() -> usize {
    crate::layout::Layout::new(SIZE, 0).groups_start().number() as usize
}

fn damage(pool: &mut Pool, block: usize) {
    pool.devices[0][block * 4096 + 77] ^= 4;
}

#[test]
fn each_superblock_and_label_has_a_copy() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 8192));
    pool.settle();
    for block in [1, 16, 17] {
        damage(&mut pool, block);
    }
    let mut pool = pool.reopen_damaged().unwrap();
    assert_eq!(pool.read(A, 0, 8192), pattern(1, 8192));
}

#[test]
fn pages_above_leaves_and_of_the_volume_table_have_copies() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 4 << 20));
    pool.settle();
    // Every block that is there twice, but not the zeros, is a page with a copy.
    let mut content = std::collections::HashMap::<Vec<u8>, Vec<usize>>::new();
    for (place, block) in pool.devices[0].chunks(4096).enumerate().skip(groups_start()) {
        if block.iter().any(|&byte| byte != 0) {
            content.entry(block.to_vec()).or_default().push(place);
        }
    }
    let pairs: Vec<_> = content.values().filter(|places| places.len() == 2).collect();
    assert!(pairs.len() >= 4, "{}", pairs.len());
    for pair in &pairs {
        damage(&mut pool, pair[0]);
    }
    assert!(pool.faults().iter().any(|fault| fault.contains("one of two copies")));
    let mut pool = pool.reopen_damaged().unwrap();
    assert!(pool.read(A, 0, 4 << 20) == pattern(1, 4 << 20));
    assert!(pool.store.statistics().pages_from_copies > 0);
    let incidents: Vec<_> = std::iter::from_fn(|| pool.store.next_incident()).collect();
    assert!(!incidents.is_empty() && incidents.iter().all(|incident| !incident.is_lost));
}

#[test]
fn a_damaged_leaf_is_a_medium_error_for_its_mebibyte_alone() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 4 << 20));
    pool.settle();
    // A leaf's first entry points to the block with the first data; its checksum is in it.
    let crc = crc32c::crc32c(&pattern(1, 4 << 20)[1 << 20..][..4096]).to_le_bytes();
    let leaf = pool.devices[0]
        .chunks(4096)
        .enumerate()
        .skip(groups_start())
        .find(|(_, block)| block[8..12] == crc)
        .map(|(place, _)| place)
        .unwrap();
    damage(&mut pool, leaf);
    let mut pool = pool.reopen_damaged().unwrap();
    assert!(pool.read(A, 0, 1 << 20) == pattern(1, 4 << 20)[..1 << 20]);
    let range = ByteRange::new(1 << 20, 4096);
    let failed = pool.ask(A, Request::Read { range }).unwrap_err();
    assert!(matches!(failed, Failure::Block(BlockError::Medium { .. })), "{failed}");
    assert!(pool.read(A, 2 << 20, 2 << 20) == pattern(1, 4 << 20)[2 << 20..]);
    let incidents: Vec<_> = std::iter::from_fn(|| pool.store.next_incident()).collect();
    let (offset, place) = (leaf as u64 * 4096, Place::MapPage { volume: Some(A) });
    let first = Incident { device: Some(0), offset, cause: Cause::Checksum, place, is_lost: false };
    assert_eq!(incidents, [first.clone(), Incident { is_lost: true, ..first }]);
    assert_eq!(pool.store.statistics().checksum_errors, 2);
}

#[test]
fn a_block_that_is_not_what_was_written_is_an_incident_at_its_place() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 64 << 10));
    pool.settle();
    let wanted = &pattern(1, 64 << 10)[8192..12288];
    let block = pool.devices[0].chunks(4096).position(|block| block == wanted).unwrap();
    damage(&mut pool, block);
    let mut pool = pool.reopen_damaged().unwrap();
    let range = ByteRange::new(0, 64 << 10);
    let failed = pool.ask(A, Request::Read { range }).unwrap_err();
    assert!(matches!(failed, Failure::Block(BlockError::Medium { offset: 8192 })), "{failed}");
    let place = Place::Data { volume: A, range: ByteRange::new(8192, 4096) };
    let offset = block as u64 * 4096;
    let bad = Incident { device: Some(0), offset, cause: Cause::Checksum, place, is_lost: true };
    assert_eq!(pool.store.next_incident(), Some(bad));
    assert_eq!(pool.store.next_incident(), None);
}

/// One read error while a group's maps came into memory gave up the group's 128 MiB for good.
#[test]
fn a_group_whose_maps_cannot_be_read_at_first_is_not_fenced() {
    let mut pool = Pool::with(&[SIZE, SIZE], Options::default());
    pool.write(A, 0, &pattern(1, 8 << 20));
    pool.settle();
    pool.store = Store::open(&pool.slots(), OpenContext::default(), Options::default(), Tag(9));
    let bitmap = groups_start() as u64 * BLOCK..(groups_start() as u64 + 2) * BLOCK;
    let mut failed = 0;
    while let Some(io) = pool.store.next_io() {
        let result = match io.operation {
            DeviceOperation::Read { offset, .. } if bitmap.contains(&offset) && failed < 2 => {
                failed += 1;
                Err(DeviceError::Os(5))
            }
            operation => pool.serve(usize::from(io.device), operation),
        };
        pool.store.completed(io.id, result);
    }
    assert_eq!(failed, 2);
    assert_eq!(pool.store.statistics().groups_fenced, 0);
    assert_eq!(pool.faults(), Vec::<String>::new());
}

#[test]
fn a_group_with_damaged_space_maps_is_fenced_and_the_rest_works() {
    let mut pool = Pool::with(&[SIZE, SIZE], Options::default());
    for part in 0..32 {
        pool.write(A, part << 20, &pattern(part, 1 << 20));
    }
    pool.settle();
    let group = groups_start();
    damage(&mut pool, group);
    damage(&mut pool, group + 1);
    let mut pool = pool.reopen_damaged().unwrap();
    assert_eq!(pool.store.statistics().groups_fenced, 1);
    for part in 0..32 {
        assert!(pool.read(A, part << 20, 1 << 20) == pattern(part, 1 << 20));
    }
    pool.write(A, 0, &pattern(99, 1 << 20));
    pool.change(Change::DeleteVolume(B)).unwrap();
    pool.settle();
    let mut pool = pool.reopen_damaged().unwrap();
    assert!(pool.read(A, 0, 1 << 20) == pattern(99, 1 << 20));
}

/// Opens the pool again, with the first reads that `hits` picks, so many of each block, gone wrong;
/// says how many there were.
fn reopen_stumbling(
    pool: &mut Pool,
    times: usize,
    wrong: impl Fn(&[u8]) -> DeviceResult,
    hits: impl Fn(u64) -> bool,
) -> usize {
    let mut seen = std::collections::HashMap::new();
    pool.store = Store::open(&pool.slots(), OpenContext::default(), Options::default(), Tag(0));
    while let Some(io) = pool.store.next_io() {
        let (offset, length) = match &io.operation {
            DeviceOperation::Read { offset, buffer } => (*offset, buffer.len()),
            _ => (0, 0),
        };
        let result = pool.serve(usize::from(io.device), io.operation);
        let count = seen.entry(offset).or_insert(0);
        let result = if length > 0 && hits(offset / BLOCK) && *count < times {
            *count += 1;
            wrong(&vec![0x3c; length])
        } else {
            result
        };
        pool.store.completed(io.id, result);
    }
    seen.into_values().sum()
}

fn misread(bytes: &[u8]) -> DeviceResult {
    Ok(Some(block::Buffer::copy_of(bytes)))
}

fn unread(_: &[u8]) -> DeviceResult {
    Err(DeviceError::Os(5))
}

/// One read of the journal, or of the data that its last units name, that brought something else
/// ended the journal there: what was acknowledged was gone without a word.
#[test]
fn a_journal_that_is_misread_at_first_loses_nothing() {
    let mut pool = Pool::new();
    pool.settle();
    for number in 0..20 {
        pool.write(A, number << 20, &pattern(number, 1 << 20));
    }
    let devices = pool.devices.clone();
    for wrong in [misread, unread] {
        pool.devices = devices.clone();
        let journal = |block: u64| block >= crate::layout::JOURNAL_START.number();
        assert!(reopen_stumbling(&mut pool, 1, wrong, journal) >= 3);
        pool.wait(0).unwrap();
        for number in 0..20 {
            assert!(pool.read(A, number << 20, 1 << 20) == pattern(number, 1 << 20));
        }
    }
}

/// A superblock that was misread made the older one look like the newest.
#[test]
fn labels_and_superblocks_that_are_misread_at_first_are_read_again() {
    let mut pool = Pool::new();
    for number in 0..3 {
        pool.write(A, 0, &pattern(number, 8192));
        pool.settle();
    }
    for wrong in [misread, unread] {
        let heads = |block: u64| block < crate::layout::JOURNAL_START.number();
        assert!(reopen_stumbling(&mut pool, 3, wrong, heads) >= 6);
        pool.wait(0).unwrap();
        assert_eq!(pool.read(A, 0, 8192), pattern(2, 8192));
    }
}

#[test]
fn a_device_that_cannot_be_read_is_told_and_nothing_is_written() {
    let mut pool = Pool::new();
    let before = pool.devices.clone();
    reopen_stumbling(&mut pool, usize::MAX, unread, |_| true);
    let error = pool.wait(0).unwrap_err();
    assert!(matches!(error, Failure::Open(OpenError::Device(DeviceError::Os(5)))), "{error:?}");
    assert!(pool.devices == before);
}

/// What was below a page that could not be read once was never freed.
#[test]
fn the_reaper_comes_back_to_pages_that_it_could_not_read() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 8 << 20));
    pool.settle();
    pool.change(Change::DeleteVolume(B)).unwrap();
    let mut pool = pool.reopen();
    pool.next_tag += 1;
    let tag = pool.next_tag;
    pool.store.change(Tag(tag), Change::DeleteVolume(A));
    while let Some(io) = pool.store.next_io() {
        let result = match io.operation {
            DeviceOperation::Read { .. } => Err(DeviceError::Os(5)),
            operation => pool.serve(usize::from(io.device), operation),
        };
        pool.store.completed(io.id, result);
    }
    pool.wait(tag).unwrap();
    assert!(pool.store.statistics().reap_queue > 0);
    pool.settle();
    assert!(pool.used() > 0);
    pool.store.tick(std::time::Duration::from_secs(6));
    pool.settle();
    assert_eq!(pool.store.statistics().reap_queue, 0);
    assert_eq!(pool.used(), 0);
    assert_eq!(pool.faults(), Vec::<String>::new());
}
