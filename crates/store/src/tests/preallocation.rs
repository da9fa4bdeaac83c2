//! Pools on file systems that run full.

use super::*;
use crate::address::DeviceNumber;

const C: VolumeId = VolumeId(3);
const RESERVED: VolumeId = VolumeId(4);

fn write(at: u64) -> Request {
    let data = Bytes::from(pattern(at, 1 << 20));
    Request::Write { range: ByteRange::new(at << 20, 1 << 20), data }
}

fn thick(id: VolumeId, size_bytes: u64) -> Change {
    Change::CreateVolume(VolumeSpec { thick: true, ..volume(id, "thick", size_bytes) })
}

/// Two devices on a file system that gave no more than what was asked for so far, and a volume that
/// is larger than both.
fn pool_on_a_full_file_system() -> Pool {
    let mut pool = Pool::with(&[SIZE, SIZE], Options::default());
    pool.create(C, "c", 1 << 30);
    pool.write(A, 0, &pattern(1, 1 << 20));
    pool.change(thick(RESERVED, 40 << 20)).unwrap();
    pool.refuse_space = true;
    pool
}

fn fill(pool: &mut Pool) {
    let failed = (0..600).find_map(|at| pool.ask(C, write(at)).err()).unwrap();
    assert_eq!(failed, BlockError::OutOfSpace.into());
    assert_eq!(pool.store.health(), Health::Ready);
}

#[test]
fn on_a_full_file_system_only_new_data_is_refused() {
    let mut pool = pool_on_a_full_file_system();
    for round in 1..4 {
        fill(&mut pool);
        assert!(pool.store.statistics().groups_unavailable > 0);
        // The file system is asked again now and then, and refuses.
        pool.store.tick(std::time::Duration::from_secs(60 * round));
        fill(&mut pool);
        for at in 0..40 {
            pool.ask(RESERVED, write(at)).unwrap();
        }
        pool.write(A, 0, &pattern(round, 1 << 20));
        let part = ByteRange::new(round << 20, 8 << 20);
        pool.ask(C, Request::Unmap { ranges: vec![part] }).unwrap();
        pool.clone_volume(B, VolumeId(10 + round), &format!("clone {round}"));
        pool.settle();
    }
    pool.change(Change::DeleteVolume(C)).unwrap();
    let mut pool = pool.reopen();
    pool.settle();
    pool.refuse_space = false;
    pool.store.tick(std::time::Duration::from_secs(600));
    pool.create(C, "c", 1 << 30);
    (0..200).for_each(|at| drop(pool.ask(C, write(at)).unwrap()));
    assert_eq!(pool.read(A, 0, 1 << 20), pattern(3, 1 << 20));
    assert_eq!(pool.read(RESERVED, 39 << 20, 1 << 20), pattern(39, 1 << 20));
}

#[test]
fn a_restart_on_a_full_file_system_keeps_all_promises() {
    let mut pool = pool_on_a_full_file_system();
    fill(&mut pool);
    let mut pool = pool.reopen();
    assert_eq!(pool.store.health(), Health::Ready);
    (0..40).for_each(|at| drop(pool.ask(RESERVED, write(at)).unwrap()));
    pool.write(A, 0, &pattern(9, 1 << 20));
    pool.change(Change::DeleteVolume(C)).unwrap();
    pool.settle();
    pool.reopen();
}

#[test]
fn a_pool_is_not_made_where_its_reserve_has_no_space() {
    let spec = PoolSpec {
        pool_uuid: [1; 16],
        devices: vec![DeviceSpec::plain(MemberSpec { uuid: [2; 16], size_bytes: SIZE, slot: 0 })],
    };
    let store = Store::format(&spec, Options::default(), Tag(0));
    let mut pool = Pool::on(store, vec![vec![0; SIZE as usize]], Options::default());
    pool.refuse_space = true;
    assert_eq!(pool.wait(0).unwrap_err(), OpenError::NoSpace.into());
}

#[test]
fn a_device_joins_and_grows_only_where_its_part_of_the_reserve_has_space() {
    let mut pool = Pool::with(&[SIZE], Options::default());
    let total = pool.store.space().total;
    let add = Change::AddDevice(DeviceSpec::plain(MemberSpec {
        uuid: [77; 16],
        size_bytes: 64 * SIZE,
        slot: 1,
    }));
    let extend = Change::ExtendDevice { device: 0, size_bytes: 65 * SIZE };
    pool.devices.push(vec![0; SIZE as usize]);
    pool.refuse_space = true;
    for change in [&add, &extend] {
        assert_eq!(pool.change(change.clone()).unwrap_err(), ChangeError::NoRoom.into());
        assert_eq!((pool.store.space().total, pool.store.devices().count()), (total, 1));
    }
    pool.refuse_space = false;
    // As much of it as is written.
    pool.devices[0].resize(2 * SIZE as usize, 0);
    pool.change(add).unwrap();
    pool.change(extend).unwrap();
    // What was set aside for them is known: from here on the file system is full.
    pool.refuse_space = true;
    let space = pool.store.space();
    assert!(space.total > 128 * SIZE && space.reserve > SIZE, "{space:?}");
    pool.write(A, 0, &pattern(1, 1 << 20));
    pool.change(Change::DeleteVolume(A)).unwrap();
    pool.settle();
}

#[test]
fn a_reserved_volume_is_not_made_where_it_has_no_space() {
    let mut pool = Pool::with(&[SIZE, SIZE], Options::default());
    pool.write(A, 0, &pattern(1, 32 << 20));
    pool.refuse_space = true;
    let refused = pool.change(thick(RESERVED, 400 << 20)).unwrap_err();
    assert_eq!(refused, ChangeError::NoSpace.into());
    pool.refuse_space = false;
    pool.store.tick(std::time::Duration::from_secs(60));
    pool.change(thick(RESERVED, 400 << 20)).unwrap();
    pool.refuse_space = true;
    for at in 0..400 {
        pool.ask(RESERVED, write(at)).unwrap();
    }
}

/// A copy shares blocks of its source, which is owed new ones then.
#[test]
fn a_copy_from_a_reserved_volume_never_costs_it_its_space() {
    let mut pool = Pool::new();
    pool.change(thick(RESERVED, 40 << 20)).unwrap();
    (0..40).for_each(|at| drop(pool.ask(RESERVED, write(at)).unwrap()));
    pool.create(C, "c", 1 << 30);
    fill(&mut pool);
    let copy = |length| Request::Copy {
        source: RESERVED,
        source_offset: 0,
        destination: 800 << 20,
        length,
    };
    assert_eq!(pool.ask(C, copy(40 << 20)).unwrap_err(), BlockError::OutOfSpace.into());
    (0..40).for_each(|at| drop(pool.ask(RESERVED, write(at)).unwrap()));
    let part = ByteRange::new(0, 100 << 20);
    pool.ask(C, Request::Unmap { ranges: vec![part] }).unwrap();
    pool.settle();
    pool.ask(C, copy(40 << 20)).unwrap();
    (0..40).for_each(|at| drop(pool.ask(RESERVED, write(at)).unwrap()));
}

/// The space that was on its way is that of the shorter group.
#[test]
fn a_group_that_grew_while_its_space_was_set_aside_is_not_taken_for_housed() {
    for for_data in [false, true] {
        let mut pool = Pool::with(&[SIZE], Options::default());
        let last = crate::layout::Layout::new(SIZE, 0).groups() - 1;
        let last =
            crate::space::AllocationGroupId { device: DeviceNumber::FIRST, group: last as u32 };
        assert!(!pool.store.pool().space.is_backed(last));
        let serving = pool.store.serving();
        if for_data {
            serving.load_group(last, None, true);
        } else {
            let engine = &mut serving.engine;
            engine.preallocation.begin(&mut engine.pool, last, None);
        }
        let asked: Vec<_> = std::iter::from_fn(|| pool.store.next_io()).collect();
        assert!(!asked.is_empty());
        pool.devices[0].resize(SIZE as usize + (64 << 20), 0);
        let extend = Change::ExtendDevice { device: 0, size_bytes: SIZE + (64 << 20) };
        pool.change(extend).unwrap();
        for io in asked {
            let result = pool.serve(0, io.operation);
            pool.store.completed(io.id, result);
        }
        assert!(!pool.store.pool().space.is_backed(last));
        pool.create(C, "c", 1 << 30);
        fill(&mut pool);
        assert!(pool.store.pool().space.is_backed(last));
    }
}
