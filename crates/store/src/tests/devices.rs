//! Pools of several devices, and devices that grow.

use super::*;

#[test]
fn a_pool_grows_while_it_serves() {
    let mut pool = Pool::new();
    let before = pool.store.space().total;
    pool.devices[0].resize(2 * SIZE as usize, 0);
    pool.change(Change::ExtendDevice { device: 0, size_bytes: 2 * SIZE }).unwrap();
    assert!(pool.store.space().total > before + SIZE / 2);
    pool.write(A, 0, &pattern(1, 8192));
    let mut pool = pool.reopen();
    assert_eq!(pool.read(A, 0, 8192), pattern(1, 8192));
    let smaller = pool.change(Change::ExtendDevice { device: 0, size_bytes: SIZE }).unwrap_err();
    assert_eq!(smaller, ChangeError::DeviceSize.into());
    let none = pool.change(Change::ExtendDevice { device: 1, size_bytes: SIZE }).unwrap_err();
    assert_eq!(none, ChangeError::NoSuchDevice.into());
}

#[test]
fn data_is_spread_over_all_devices() {
    let mut pool = Pool::with(&[SIZE, 2 * SIZE, SIZE / 2], Options::default());
    let data = pattern(1, 32 << 20);
    for part in 0..32 {
        pool.write(A, part << 20, &data[(part as usize) << 20..][..1 << 20]);
    }
    for device in &pool.devices {
        let parts = data.chunks(1 << 20).map(|part| &part[..4096]);
        let found = parts.filter(|part| device.chunks(4096).any(|block| block == *part)).count();
        assert!(found >= 5, "{found}");
    }
    let mut pool = pool.reopen();
    assert!(pool.read(A, 0, 32 << 20) == data);
    pool.change(Change::DeleteVolume(A)).unwrap();
    pool.change(Change::DeleteVolume(B)).unwrap();
    assert_eq!(pool.used(), 0);
}

#[test]
fn a_device_joins_while_the_pool_serves_and_is_there_after_a_restart() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 1 << 20));
    let before = pool.store.space().total;
    pool.devices.push(vec![0; SIZE as usize]);
    let spec = DeviceSpec::plain(MemberSpec { uuid: [77; 16], size_bytes: SIZE, slot: 1 });
    pool.change(Change::AddDevice(spec.clone())).unwrap();
    assert!(pool.store.space().total > before + SIZE / 2);
    let again = pool.change(Change::AddDevice(spec)).unwrap_err();
    assert_eq!(again, ChangeError::TooManyDevices.into());
    for part in 0..8 {
        pool.write(B, part << 20, &pattern(part, 1 << 20));
    }
    // Once from the journal, and once from a checkpoint.
    for _ in 0..2 {
        pool = pool.reopen();
        assert_eq!(pool.store.devices().count(), 2);
        assert!(pool.read(B, 7 << 20, 1 << 20) == pattern(7, 1 << 20));
        pool.settle();
    }
}

#[test]
fn a_pool_without_one_of_its_devices_is_refused() {
    let pool = Pool::with(&[SIZE, SIZE], Options::default());
    let open = |pool: &Pool, sizes: &[u64], order: &[usize]| {
        let devices = order.iter().map(|&index| pool.devices[index].clone()).collect();
        let slots = SlotSpec::numbered(sizes);
        let store = Store::open(&slots, OpenContext::default(), Options::default(), Tag(0));
        let mut other = Pool::on(store, devices, Options::default());
        let result = other.wait(0).map(drop);
        assert_eq!(other.written, if result.is_ok() { other.written } else { 0 });
        result
    };
    let refused = |result: Result<(), Failure>| match result.unwrap_err() {
        Failure::Open(error) => error,
        other => panic!("{other}"),
    };
    assert_eq!(refused(open(&pool, &[SIZE], &[0])), OpenError::Missing { index: 1 });
    assert_eq!(refused(open(&pool, &[SIZE], &[1])), OpenError::WrongDevice { index: 0 });
    open(&pool, &[SIZE, SIZE], &[1, 0]).unwrap();
    assert_eq!(refused(open(&pool, &[SIZE, SIZE], &[0, 0])), OpenError::WrongDevice { index: 1 });
    assert!(matches!(refused(open(&pool, &[SIZE, SIZE / 2], &[0, 1])), OpenError::Short { .. }));
    let more = [SIZE, SIZE, SIZE];
    open(&pool, &more, &[0, 1, 1]).unwrap();
}

#[test]
fn a_file_system_that_runs_full_is_a_full_pool_and_not_a_failed_one() {
    let mut pool = Pool::with(&[SIZE, SIZE], Options::default());
    pool.write(A, 0, &pattern(1, 1 << 20));
    pool.refuse_space = true;
    pool.create(VolumeId(3), "c", 1 << 30);
    let write = |at: u64| Request::Write {
        range: ByteRange::new(at << 20, 1 << 20),
        data: Bytes::from(pattern(at, 1 << 20)),
    };
    let failed = (0..600).find_map(|at| pool.ask(VolumeId(3), write(at)).err()).unwrap();
    assert_eq!(failed, BlockError::OutOfSpace.into());
    assert_eq!(pool.store.health(), Health::Ready);
    assert!(pool.store.statistics().groups_unavailable > 0);
    pool.write(A, 0, &pattern(2, 4096));
    pool.refuse_space = false;
    pool.store.tick(std::time::Duration::from_secs(60));
    pool.ask(VolumeId(3), write(599)).unwrap();
    let mut pool = pool.reopen();
    assert_eq!(pool.read(A, 0, 4096), pattern(2, 4096));
}

#[test]
fn while_a_pool_is_extended_a_lack_of_space_is_temporary() {
    let mut pool = Pool::new();
    pool.create(VolumeId(3), "c", 1 << 30);
    let write = |at: u64| Request::Write {
        range: ByteRange::new(at << 20, 1 << 20),
        data: Bytes::from(pattern(at, 1 << 20)),
    };
    assert!((0..600).any(|at| pool.ask(VolumeId(3), write(at)).is_err()));
    pool.store.set_extending(true);
    let waiting = pool.ask(VolumeId(3), write(700)).unwrap_err();
    assert_eq!(waiting, BlockError::SpaceComing.into());
    pool.devices[0].resize(2 * SIZE as usize, 0);
    pool.change(Change::ExtendDevice { device: 0, size_bytes: 2 * SIZE }).unwrap();
    pool.store.set_extending(false);
    pool.ask(VolumeId(3), write(700)).unwrap();
}

#[test]
fn when_a_device_does_not_join_nothing_is_under_way_to_it_any_more() {
    let mut pool = Pool::new();
    pool.devices.push(vec![0; SIZE as usize]);
    let spec = DeviceSpec::plain(MemberSpec { uuid: [77; 16], size_bytes: SIZE, slot: 1 });
    pool.store.change(Tag(1000), Change::AddDevice(spec.clone()));
    let under_way: Vec<_> = std::iter::from_fn(|| pool.store.next_io()).collect();
    assert!(under_way.len() >= 3, "{}", under_way.len());
    for io in under_way {
        assert!(pool.store.next_done().is_none());
        let result = match io.operation {
            DeviceOperation::Reserve { .. } => Err(DeviceError::Os(28)),
            operation => pool.serve(usize::from(io.device), operation),
        };
        pool.store.completed(io.id, result);
    }
    assert_eq!(pool.wait(1000).unwrap_err(), ChangeError::NoRoom.into());
    pool.change(Change::AddDevice(DeviceSpec { uuid: [78; 16], ..spec })).unwrap();
    assert_eq!(pool.reopen().store.devices().count(), 2);
}
