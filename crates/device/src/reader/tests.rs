use super::*;
use crate::{Device, Method};
use block::{DeviceKind, DeviceName};

#[test]
fn a_reader_and_a_device_keep_each_other_out() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a");
    let name = DeviceName::new(DeviceKind::File, &path);
    let device = Device::create(&name, 1 << 20, Method::Threads).unwrap();
    assert!(matches!(Reader::open(&path), Err(OpenError::InUse { .. })));
    drop(device);
    let reader = Reader::open(&path).unwrap();
    assert!(matches!(Device::open(&name, 1 << 20, Method::Threads), Err(OpenError::InUse { .. })));
    assert!(matches!(Reader::open(&path), Err(OpenError::InUse { .. })));
    drop(reader);
    Device::open(&name, 1 << 20, Method::Threads).unwrap();
}

#[test]
fn what_is_there_is_read_and_nothing_beyond() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a");
    std::fs::write(&path, [7; 8192]).unwrap();
    let reader = Reader::open(&path).unwrap();
    let mut buffer = [0; 4096];
    assert_eq!((reader.size_bytes(), reader.read(4096, &mut buffer)), (8192, Ok(())));
    assert_eq!(buffer, [7; 4096]);
    let beyond = reader.read(8192, &mut buffer).unwrap_err();
    assert_eq!(beyond, DeviceError::BeyondEnd { end: 12_288 });
    assert!(reader.read(u64::MAX, &mut buffer).is_err());
    assert!(matches!(Reader::open(&place.path().join("none")), Err(OpenError::Missing(_))));
    assert!(matches!(Reader::open(place.path()), Err(OpenError::WrongKind { .. })));
}
