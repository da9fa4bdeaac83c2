//! Damage to what is on the devices: read from copies, fenced, or refused; never misread.

use super::*;

fn groups_start() -> usize {
    crate::layout::Layout::new(SIZE, 0).groups_start() as usize
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
