//! Tests of paging with little memory: pages of the map and space maps come and go.

use super::*;
use crate::address::DeviceNumber;

fn little_memory() -> Options {
    Options { memory_bytes: 1 << 20, ..Options::default() }
}

#[test]
fn everything_works_with_little_memory() {
    let mut pool = Pool::with(&[1 << 30, 512 << 20], little_memory());
    let size = 512_u64 << 20;
    pool.change(Change::ResizeVolume { id: A, size_bytes: size }).unwrap();
    for part in 0..size >> 20 {
        pool.write(A, part << 20, &pattern(part, 1 << 20));
    }
    pool.settle();
    let groups = pool.store.statistics().groups_loaded;
    // Blocks of all groups are freed while their space maps are not in memory.
    for part in (0..size >> 20).step_by(7) {
        pool.write(A, (part << 20) + 4096, &pattern(part + 1000, 4096));
    }
    pool.clone_volume(A, VolumeId(3), "c");
    for part in (0..size >> 20).step_by(5) {
        pool.write(A, (part << 20) + 8192, &pattern(part + 2000, 4096));
    }
    pool.settle();
    let statistics = pool.store.statistics();
    assert!(statistics.groups_loaded <= groups.max(12), "{statistics:?}");
    assert!(statistics.pages_clean < 300, "{statistics:?}");
    let mut pool = pool.reopen();
    for part in 0..size >> 20 {
        let mut model = pattern(part, 1 << 20);
        if part % 7 == 0 {
            model[4096..8192].copy_from_slice(&pattern(part + 1000, 4096));
        }
        assert!(pool.read(VolumeId(3), part << 20, 1 << 20) == model, "clone, part {part}");
        if part % 5 == 0 {
            model[8192..12288].copy_from_slice(&pattern(part + 2000, 4096));
        }
        assert!(pool.read(A, part << 20, 1 << 20) == model, "part {part}");
    }
    for id in [A, B, VolumeId(3)] {
        pool.change(Change::DeleteVolume(id)).unwrap();
    }
    assert_eq!(pool.used(), 0);
}

#[test]
fn space_that_is_freed_in_groups_out_of_memory_is_used_again() {
    let mut pool = Pool::with(&[256 << 20, 256 << 20], little_memory());
    pool.change(Change::ResizeVolume { id: A, size_bytes: 1 << 30 }).unwrap();
    for round in 0..4 {
        let mut written = 0;
        for part in 0..400 {
            let range = ByteRange::new(part << 20, 1 << 20);
            let data = Bytes::from(pattern(part + round, 1 << 20));
            if pool.ask(A, Request::Write { range, data }).is_err() {
                break;
            }
            written += 1;
        }
        assert!(written > 350, "{written} MiB in round {round}");
        pool.ask(A, Request::Unmap { ranges: vec![ByteRange::new(0, 1 << 30)] }).unwrap();
        pool = pool.reopen();
    }
}

#[test]
fn reading_alone_keeps_to_the_budget_of_memory() {
    let mut pool = Pool::with(&[512 << 20], little_memory());
    pool.change(Change::ResizeVolume { id: A, size_bytes: 1 << 30 }).unwrap();
    for part in 0..1024 {
        pool.write(A, part << 20, &pattern(part, 4096));
    }
    let mut pool = pool.reopen();
    for part in 0..1024 {
        assert!(pool.read(A, part << 20, 4096) == pattern(part, 4096));
    }
    let statistics = pool.store.statistics();
    assert!(statistics.pages_clean < 300, "{statistics:?}");
}

/// Maps that left memory while space for their group was set aside were taken for damaged.
#[test]
fn maps_that_go_while_space_is_set_aside_are_read_again() {
    let options = Options { memory_bytes: 0, ..Options::default() };
    let mut pool = Pool::with(&[64 << 20; 4], options);
    for part in 0..8 {
        pool.write(A, part << 20, &pattern(part, 1 << 20));
    }
    pool.settle();
    let mut pool = pool.reopen();
    let groups = (0..4)
        .map(DeviceNumber::new)
        .map(|device| crate::space::AllocationGroupId { device, group: 0 });
    for allocated in [false, true] {
        groups.clone().for_each(|group| pool.store.serving().load_group(group, None, allocated));
        if allocated {
            pool.store.serving().engine.pool.space.checkpoint_durable();
            assert!(!groups.clone().all(|group| pool.store.pool().space.is_loaded(group)));
        }
        pool.pump();
    }
    assert_eq!(pool.store.statistics().groups_fenced, 0);
    assert!(groups.clone().all(|group| pool.store.pool().space.is_loaded(group)));
}
