//! One conformance test for every kind of device, and what only files can get wrong.

use std::path::Path;

use block::{Buffer, DeviceError, DeviceKind, DeviceName, DeviceOperation, DeviceResult, Rope};

use crate::{Device, Method, OpenError, file};

pub(crate) const SIZE: u64 = 16 << 20;

fn wait(device: &mut Device, wanted: usize) -> Vec<(u64, DeviceResult)> {
    let mut completions = Vec::new();
    device.kick();
    for _ in 0..10_000 {
        device.reap(&mut completions);
        if completions.len() >= wanted {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    completions.sort_by_key(|(id, _)| *id);
    assert_eq!(completions.len(), wanted);
    completions
}

fn bytes(seed: u64, length: usize) -> Buffer {
    let mut buffer = Buffer::zeroed(length);
    for (at, byte) in buffer.iter_mut().enumerate() {
        *byte = (at as u64 * 31 / 7 + seed) as u8;
    }
    buffer
}

fn read(device: &mut Device, offset: u64, length: usize) -> DeviceResult {
    let buffer = Buffer::for_overwrite(length);
    device.submit(9, DeviceOperation::Read { offset, buffer });
    wait(device, 1).remove(0).1
}

/// What every device does.
pub(crate) fn conforms(device: &mut Device) {
    assert_eq!(device.size_bytes(), SIZE);
    for id in 0..600 {
        let mut data = Rope::from(bytes(id, 4096).freeze());
        data.push(bytes(id + 1, 8192).freeze());
        device.submit(id, DeviceOperation::Write { offset: id * 16384, data });
    }
    device.submit(600, DeviceOperation::Flush);
    for (number, (id, result)) in wait(device, 601).into_iter().enumerate() {
        assert_eq!(id, number as u64);
        assert_eq!(result.map(|buffer| buffer.is_some()), Ok(false));
    }
    for id in [0, 1, 299, 599] {
        let found = read(device, id * 16384, 16384).unwrap().unwrap();
        assert_eq!(found[..4096], bytes(id, 4096)[..]);
        assert_eq!(found[4096..12288], bytes(id + 1, 8192)[..]);
        assert_eq!(found[12288..], [0; 4096]);
    }
    let beyond = Err(DeviceError::BeyondEnd { end: SIZE + 4096 });
    assert_eq!(read(device, SIZE, 4096).map(|_| ()), beyond);
    let grown = device.growth().unwrap().to(2 * SIZE).unwrap();
    device.take_growth(grown);
    assert_eq!(read(device, SIZE, 4096).unwrap().unwrap()[..], [0; 4096]);
    assert_eq!(device.counters().writes, 600);
    assert_eq!(device.counters().bytes_written, 600 * 12288);
}

/// A new device of that kind. What a block device does is done on a file: it is served by the same
/// code, and making one takes privileges.
fn new_device(kind: DeviceKind, folder: &Path, method: Method) -> Device {
    let path = folder.join(format!("{kind:?}-{method:?}"));
    if kind == DeviceKind::Block {
        let open = file::create(&path, SIZE).unwrap();
        return Device::with(file::serve(&path, open, method).unwrap());
    }
    Device::create(&DeviceName::new(kind, path), SIZE, method).unwrap()
}

/// Kinds that need nothing but this machine. A Ceph cluster has tests of its own.
fn local_kinds() -> impl Iterator<Item = DeviceKind> {
    DeviceKind::ALL.iter().copied().filter(|&kind| kind != DeviceKind::Rbd)
}

#[test]
fn every_kind_conforms_with_io_uring_and_with_threads() {
    block::install_arena(1 << 20);
    let place = tempfile::tempdir().unwrap();
    for kind in local_kinds() {
        for method in [Method::IoUring, Method::Threads] {
            conforms(&mut new_device(kind, place.path(), method));
        }
    }
}

#[test]
fn what_was_created_is_taken_back_and_what_was_there_is_left() {
    let place = tempfile::tempdir().unwrap();
    for kind in local_kinds() {
        let name = DeviceName::new(kind, place.path().join("new"));
        let made = Device::create(&name, SIZE, Method::Auto);
        assert_eq!(made.is_err(), kind == DeviceKind::Block, "{name}");
        Device::remove(&name).unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "{name}");
    }
    let there = place.path().join("there");
    std::fs::write(&there, "precious").unwrap();
    Device::remove(&DeviceName::new(DeviceKind::Block, &there)).unwrap();
    assert_eq!(std::fs::read(&there).unwrap(), b"precious");
}

/// Whoever is refused a file reads what its owner wrote last, also when nothing was flushed.
#[test]
fn the_heartbeat_of_whoever_has_a_file_is_seen_without_having_it() {
    let place = tempfile::tempdir().unwrap();
    let name = DeviceName::new(DeviceKind::File, place.path().join("pool"));
    let mut device = Device::create(&name, SIZE, Method::Auto).unwrap();
    for seed in [7, 8] {
        let data = Rope::from(bytes(seed, 4096).freeze());
        let offset = crate::OWNER_BEAT_OFFSET;
        device.submit(seed, DeviceOperation::Write { offset, data });
        wait(&mut device, 1).remove(0).1.unwrap();
        match Device::open(&name, SIZE, Method::Auto).err() {
            Some(OpenError::InUse { owner_beat: Some(seen), .. }) => {
                assert_eq!(seen[..], bytes(seed, 4096)[..]);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(device.identity(), None, "nobody can be told to break a file's lock");
}

#[test]
fn a_file_is_not_overwritten_and_not_opened_twice() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("pool");
    let name = DeviceName::new(DeviceKind::File, &path);
    let open = |name: &DeviceName| Device::open(name, SIZE, Method::Auto);
    assert!(matches!(open(&name), Err(OpenError::Missing(_))));
    let device = Device::create(&name, SIZE, Method::Auto).unwrap();
    assert!(matches!(Device::create(&name, SIZE, Method::Auto), Err(OpenError::Exists(_))));
    assert!(matches!(open(&name), Err(OpenError::InUse { .. })));
    drop(device);
    assert_eq!(open(&name).unwrap().size_bytes(), SIZE);
    let block = DeviceName::new(DeviceKind::Block, path);
    assert!(matches!(open(&block), Err(OpenError::WrongKind { .. })));
    assert!(matches!(Device::size_before_creation(&block), Err(OpenError::WrongKind { .. })));
    assert_eq!(Device::size_before_creation(&name).unwrap(), None);
    let directory = DeviceName::new(DeviceKind::File, place.path());
    assert!(matches!(open(&directory), Err(OpenError::WrongKind { .. })));
}
