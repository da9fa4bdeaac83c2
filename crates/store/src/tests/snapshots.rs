//! Snapshots, clones, reverting, and what is promised to thick volumes.

use super::*;

fn snapshot(id: u64, name: &str) -> VolumeSpec {
    VolumeSpec { snapshot: true, created: 1_800_000_000, ..volume(VolumeId(id), name, 0) }
}

#[test]
fn a_snapshot_stays_as_it_was_and_cannot_be_changed() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 2 << 20));
    pool.change(Change::CloneVolumes(vec![(A, snapshot(3, "s"))])).unwrap();
    pool.write(A, 4096, &pattern(2, 1 << 20));
    let mut pool = pool.reopen();
    assert!(pool.read(VolumeId(3), 0, 2 << 20) == pattern(1, 2 << 20));
    let volume = pool.store.volume(VolumeId(3)).unwrap();
    assert_eq!(
        (volume.spec.snapshot, volume.origin, volume.spec.created),
        (true, Some(A), 1_800_000_000)
    );
    let range = ByteRange::new(0, 4096);
    let data = Bytes::from(vec![1; 4096]);
    let refused = pool.ask(VolumeId(3), Request::Write { range, data }).unwrap_err();
    assert_eq!(refused, BlockError::Snapshot.into());
    let resize = Change::ResizeVolume { id: VolumeId(3), size_bytes: 4096 };
    assert_eq!(pool.change(resize).unwrap_err(), ChangeError::Snapshot.into());
    let revert = Change::RevertVolume { volume: VolumeId(3), source: A };
    assert_eq!(pool.change(revert).unwrap_err(), ChangeError::Snapshot.into());
}

#[test]
fn a_volume_takes_back_what_a_snapshot_kept() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 2 << 20));
    pool.change(Change::CloneVolumes(vec![(A, snapshot(3, "s"))])).unwrap();
    pool.write(A, 0, &pattern(2, 4 << 20));
    pool.change(Change::ResizeVolume { id: A, size_bytes: 1 << 40 }).unwrap();
    pool.change(Change::RevertVolume { volume: A, source: VolumeId(3) }).unwrap();
    assert_eq!(pool.store.volume(A).unwrap().spec.size_bytes, 64 << 20);
    for _ in 0..2 {
        assert!(pool.read(A, 0, 2 << 20) == pattern(1, 2 << 20));
        assert!(pool.read(A, 2 << 20, 2 << 20).iter().all(|&byte| byte == 0));
        pool = pool.reopen();
    }
    pool.write(A, 0, &pattern(3, 4096));
    assert_eq!(pool.read(VolumeId(3), 0, 4096), pattern(1, 4096));
    for id in [A, B, VolumeId(3)] {
        pool.change(Change::DeleteVolume(id)).unwrap();
    }
    assert_eq!(pool.used(), 0);
}

/// What was freed does not wait for the next regular checkpoint when nothing else happens.
#[test]
fn freed_space_is_usable_again_within_seconds() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 4 << 20));
    pool.settle();
    pool.change(Change::DeleteVolume(A)).unwrap();
    pool.pump();
    assert!(pool.store.space().pending >= 4 << 20, "the data, and its map");
    for tenth in 1..30 {
        pool.store.tick(std::time::Duration::from_millis(100 * tenth));
        pool.pump();
    }
    let space = pool.store.space();
    assert_eq!((space.pending, space.used), (0, space.metadata));
    let checkpoints = pool.store.statistics().checkpoints;
    for second in 3..25 {
        pool.store.tick(std::time::Duration::from_secs(second));
        pool.pump();
    }
    assert_eq!(pool.store.statistics().checkpoints, checkpoints, "and then there is peace");
}

/// While a writer keeps both volumes equal, block by block, the group must find them equal up to
/// the one block that is under way.
#[test]
fn a_group_is_of_one_moment() {
    let mut pool = Pool::new();
    for round in 0..20_u64 {
        let data = Bytes::from(pattern(round, 4096));
        let range = ByteRange::new(0, 4096);
        let write = |data: &Bytes| Request::Write { range, data: data.clone() };
        pool.store.submit(Tag(10_000 + round), A, write(&data));
        let members = vec![
            (A, snapshot(100 + 2 * round, &format!("a{round}"))),
            (B, snapshot(101 + 2 * round, &format!("b{round}"))),
        ];
        pool.store.change(Tag(20_000 + round), Change::CloneVolumes(members));
        pool.store.submit(Tag(30_000 + round), B, write(&data));
        pool.wait(30_000 + round).unwrap();
        let [first, second] = [100, 101].map(|id| pool.read(VolumeId(id + 2 * round), 0, 4096));
        assert!(first == data[..], "the write before the group is in it");
        assert!(second != data[..], "the write after the group is not");
    }
    let names = |first: &str, second: &str| {
        Change::CloneVolumes(vec![(A, snapshot(900, first)), (B, snapshot(901, second))])
    };
    let taken = ChangeError::NameTaken("x".to_owned());
    assert_eq!(pool.change(names("x", "x")).unwrap_err(), taken.into());
    let taken = ChangeError::NameTaken("b3".to_owned());
    assert_eq!(pool.change(names("x", "b3")).unwrap_err(), taken.into());
    assert!(pool.store.volume(VolumeId(900)).is_none(), "all or none");
    let empty = pool.change(Change::CloneVolumes(Vec::new())).unwrap_err();
    assert_eq!(empty, ChangeError::GroupSize.into());
}

#[test]
fn ten_thousand_snapshots_cost_what_was_changed() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 1 << 20));
    pool.settle();
    let mut written = 0;
    for number in 0..10_000_u64 {
        let spec = snapshot(1000 + number, &number.to_string());
        pool.store.change(Tag(100_000 + number), Change::CloneVolumes(vec![(A, spec)]));
        if number % 100 == 99 {
            pool.wait(100_000 + number).unwrap();
            while pool.store.next_done().is_some() {}
        }
        if number % 1000 == 999 {
            pool.write(A, (number / 1000) << 12, &pattern(number, 4096));
            pool.settle();
            written = pool.written;
        }
    }
    pool.write(A, 0, &pattern(7, 4096));
    pool.settle();
    assert!(pool.written - written < 300 << 10, "{}", pool.written - written);
    let mut pool = pool.reopen();
    assert_eq!(pool.store.volumes().count(), 10_002);
    assert!(pool.read(VolumeId(1000), 0, 1 << 20) == pattern(1, 1 << 20));
    let ids: Vec<_> = pool.store.volumes().map(|volume| volume.spec.id).collect();
    for id in ids {
        pool.change(Change::DeleteVolume(id)).unwrap();
    }
    assert_eq!(pool.used(), 0);
}

#[test]
fn the_numbers_add_up_and_tell_what_is_shared() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 8 << 20));
    pool.change(Change::CloneVolumes(vec![(A, snapshot(3, "s"))])).unwrap();
    pool.copy(A, 0, B, 0, 4 << 20);
    pool.write(B, 0, &pattern(2, 1 << 20));
    pool.settle();
    let space = pool.store.space();
    assert_eq!(space.used + space.pending + space.reserve + space.free, space.total);
    assert_eq!(space.shared, (8 + 3) << 20);
    let mapped: u64 = pool.store.volumes().map(|volume| volume.mapped_bytes).sum();
    assert_eq!(space.used - space.metadata, mapped - space.shared);
}

/// A snapshot of a thick volume doubles what it may need; that is asked for when it is made.
#[test]
fn a_reserved_volume_keeps_its_promise_with_snapshots() {
    let mut pool = Pool::new();
    let id = VolumeId(9);
    let thick = VolumeSpec { thick: true, ..volume(id, "r", 96 << 20) };
    pool.change(Change::CreateVolume(thick)).unwrap();
    for at in 0..96 {
        pool.write(id, at << 20, &pattern(at, 1 << 20));
    }
    pool.change(Change::CloneVolumes(vec![(id, snapshot(10, "one"))])).unwrap();
    pool.create(VolumeId(3), "c", 1 << 30);
    let fill = |at: u64| Request::Write {
        range: ByteRange::new(at << 20, 1 << 20),
        data: Bytes::from(pattern(at, 1 << 20)),
    };
    assert!((0..600).any(|at| pool.ask(VolumeId(3), fill(at)).is_err()));
    for round in 0..3 {
        for at in 0..96 {
            pool.write(id, at << 20, &pattern(1000 * round + at, 1 << 20));
        }
    }
    let refused = pool.change(Change::CloneVolumes(vec![(id, snapshot(11, "two"))])).unwrap_err();
    assert_eq!(refused, ChangeError::NoSpace.into());
    pool.change(Change::DeleteVolume(VolumeId(3))).unwrap();
    pool.settle();
    pool.change(Change::DeleteVolume(VolumeId(10))).unwrap();
    pool.settle();
    pool.change(Change::CloneVolumes(vec![(id, snapshot(11, "two"))])).unwrap();
    let mut pool = pool.reopen();
    assert!(pool.read(id, 95 << 20, 1 << 20) == pattern(2095, 1 << 20));
}

/// A thin volume in a full pool: what is its own can be overwritten for ever, what it shares with
/// a snapshot, and what it does not hold, cannot.
#[test]
fn a_full_pool_still_takes_overwrites_of_a_volumes_own_blocks() {
    let mut pool = Pool::new();
    for at in 0..8 {
        pool.write(A, at << 20, &pattern(at, 1 << 20));
    }
    pool.write(B, 0, &pattern(77, 1 << 20));
    pool.change(Change::CloneVolumes(vec![(B, snapshot(3, "s"))])).unwrap();
    pool.create(VolumeId(4), "c", 1 << 30);
    let write = |at: u64, seed| Request::Write {
        range: ByteRange::new(at << 20, 1 << 20),
        data: Bytes::from(pattern(seed, 1 << 20)),
    };
    assert!((0..600).any(|at| pool.ask(VolumeId(4), write(at, at)).is_err()));
    for round in 0..20 {
        for at in 0..8 {
            pool.ask(A, write(at, 100 * round + at)).unwrap();
        }
    }
    let range = ByteRange::new(512, 512);
    let compare = Bytes::copy_from_slice(&pattern(1900, 1 << 20)[512..1024]);
    let exchange = Request::CompareAndWrite { range, compare, write: Bytes::from(vec![1; 512]) };
    pool.ask(A, exchange).unwrap();
    let full = Failure::from(BlockError::OutOfSpace);
    assert_eq!(pool.ask(A, write(9, 9)).unwrap_err(), full);
    assert_eq!(pool.ask(B, write(0, 9)).unwrap_err(), full);
    pool.ask(B, Request::Unmap { ranges: vec![ByteRange::new(0, 4096)] }).unwrap();
    let share = Change::CloneVolumes(vec![(A, snapshot(5, "t"))]);
    let refused = pool.change(share.clone()).unwrap_err();
    assert!(matches!(refused, Failure::Change(ChangeError::NoSpaceToShare { .. })));
    pool.change(Change::DeleteVolume(VolumeId(4))).unwrap();
    pool.settle();
    pool.change(share).unwrap();
    let mut pool = pool.reopen();
    assert!(pool.read(A, 7 << 20, 1 << 20) == pattern(1907, 1 << 20));
    assert!(pool.read(VolumeId(3), 0, 1 << 20) == pattern(77, 1 << 20));
}

#[test]
fn a_name_changes_with_a_checkpoint_and_is_never_there_twice() {
    let mut pool = Pool::new();
    let rename = |id, name: &str| Change::RenameVolume { id, name: name.to_owned() };
    pool.write(A, 0, &[7; 4096]);
    pool.change(rename(A, "new")).unwrap();
    let taken = ChangeError::NameTaken("new".into());
    assert_eq!(pool.change(rename(B, "new")).unwrap_err(), taken.clone().into());
    assert_eq!(
        pool.change(Change::CreateVolume(volume(VolumeId(9), "new", 4096))).unwrap_err(),
        taken.into()
    );
    for name in ["", &"x".repeat(64)] {
        assert_eq!(pool.change(rename(A, name)).unwrap_err(), ChangeError::VolumeName.into());
    }
    let nobody = pool.change(rename(VolumeId(99), "x")).unwrap_err();
    assert_eq!(nobody, ChangeError::NoSuchVolume.into());
    pool.change(rename(A, "new")).unwrap();
    // The old one is free at once.
    pool.create(VolumeId(9), "a", 4096);
    let mut pool = pool.reopen();
    assert_eq!(pool.store.volume(A).unwrap().spec.name, "new");
    assert_eq!(pool.store.volume(VolumeId(9)).unwrap().spec.name, "a");
    assert_eq!(pool.read(A, 0, 4096), [7; 4096]);
}
