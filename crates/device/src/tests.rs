//! One conformance test for every backend, and what only files can get wrong.

use block::{Buffer, DeviceError, DeviceOperation, DeviceResult, Rope};

use crate::{Device, DeviceSpec, Method, OpenError};

const SIZE: u64 = 16 << 20;

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
    completions.sort_by_key(|(token, _)| *token);
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
fn conforms(device: &mut Device) {
    assert_eq!(device.size_bytes(), SIZE);
    for token in 0..600 {
        let mut data = Rope::from(bytes(token, 4096).freeze());
        data.push(bytes(token + 1, 8192).freeze());
        device.submit(token, DeviceOperation::Write { offset: token * 16384, data });
    }
    device.submit(600, DeviceOperation::Flush);
    for (number, (token, result)) in wait(device, 601).into_iter().enumerate() {
        assert_eq!(token, number as u64);
        assert_eq!(result.map(|buffer| buffer.is_some()), Ok(false));
    }
    for token in [0, 1, 299, 599] {
        let found = read(device, token * 16384, 16384).unwrap().unwrap();
        assert_eq!(found[..4096], bytes(token, 4096)[..]);
        assert_eq!(found[4096..12288], bytes(token + 1, 8192)[..]);
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

#[test]
fn memory_conforms() {
    let spec = DeviceSpec::Memory { bytes: SIZE };
    conforms(&mut Device::create(&spec, SIZE, Method::Auto).unwrap());
}

#[test]
fn files_conform_with_io_uring_and_with_threads() {
    block::install_arena(1 << 20);
    let place = tempfile::tempdir().unwrap();
    for method in [Method::IoUring, Method::Threads] {
        let spec = DeviceSpec::File { path: place.path().join(format!("{method:?}")) };
        conforms(&mut Device::create(&spec, SIZE, method).unwrap());
    }
}

#[test]
fn a_file_is_not_overwritten_and_not_opened_twice() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("pool");
    let spec = DeviceSpec::File { path: path.clone() };
    assert!(matches!(Device::open(&spec, Method::Auto), Err(OpenError::Missing(_))));
    let device = Device::create(&spec, SIZE, Method::Auto).unwrap();
    assert!(matches!(Device::create(&spec, SIZE, Method::Auto), Err(OpenError::Exists(_))));
    assert!(matches!(Device::open(&spec, Method::Auto), Err(OpenError::InUse(_))));
    drop(device);
    assert_eq!(Device::open(&spec, Method::Auto).unwrap().size_bytes(), SIZE);
    let block = DeviceSpec::Block { path };
    assert!(matches!(Device::open(&block, Method::Auto), Err(OpenError::WrongKind { .. })));
    let directory = DeviceSpec::File { path: place.path().to_owned() };
    assert!(matches!(Device::open(&directory, Method::Auto), Err(OpenError::WrongKind { .. })));
}
