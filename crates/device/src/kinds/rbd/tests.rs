//! Tests of images, against a real cluster that `cargo xtask test --ceph` starts.

use std::process::Command;

use block::{DeviceError, DeviceKind, DeviceName, DeviceOperation, DeviceResult, Rope};

use crate::tests::{SIZE, conforms};
use crate::{Breaking, Device, Method, OpenError, Presence};

/// The cluster's configuration file.
const CONF: &str = "GANTRY_TEST_CEPH_CONF";

fn conf() -> String {
    std::env::var(CONF).expect("'cargo xtask test --ceph' names the cluster")
}

/// Runs the cluster's own program.
fn rbd(arguments: &[&str]) {
    let done = Command::new("rbd").args(["-c", &conf()]).args(arguments).status();
    assert!(done.expect("the package ceph-common is installed").success(), "rbd {arguments:?}");
}

/// A new image with a name of its own.
fn image(name: &str, options: &[&str]) -> DeviceName {
    rbd(&[&["create", "--size", "16M"], options, &[&format!("rbd/{name}")]].concat());
    DeviceName::new(DeviceKind::Rbd, format!("rbd/{name}?conf={}", conf()))
}

fn open(name: &DeviceName) -> Result<Device, OpenError> {
    Device::open(name, 0, Method::Auto)
}

/// Who holds the image, as an opening is told.
fn holder_of(name: &DeviceName) -> Vec<String> {
    match open(name).err() {
        Some(OpenError::Held { holders, .. }) => {
            holders.into_iter().map(|holder| holder.identity).collect()
        }
        other => panic!("the lock is held: {other:?}"),
    }
}

fn run(device: &mut Device, operation: DeviceOperation) -> DeviceResult {
    let mut completions = Vec::new();
    device.submit(1, operation);
    device.kick();
    while completions.is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(1));
        device.reap(&mut completions);
    }
    completions.remove(0).1
}

fn write(device: &mut Device, byte: u8) -> DeviceResult {
    let mut data = block::Buffer::zeroed(4096);
    data.fill(byte);
    run(device, DeviceOperation::Write { offset: 0, data: data.freeze().into() })
}

/// Both are clients of this process: the first one is as alive as can be, and loses all the same.
#[test]
#[ignore = "needs a Ceph cluster: 'cargo xtask test --ceph'"]
fn a_client_whose_lock_is_broken_is_fenced_for_good() {
    let name = image("fenced", &[]);
    let mut first = open(&name).unwrap();
    write(&mut first, 1).unwrap();
    let holders = holder_of(&name);
    assert_eq!(first.identity().as_ref(), holders.first(), "it knows what others call it");
    let mut data = block::Buffer::zeroed(4096);
    data.fill(9);
    let data = data.freeze().into();
    let write_beat = DeviceOperation::Write { offset: crate::OWNER_BEAT_OFFSET, data };
    run(&mut first, write_beat).unwrap();
    match open(&name).err() {
        Some(OpenError::Held { owner_beat: Some(seen), .. }) => {
            assert!(seen.len() == 4096 && seen.iter().all(|&byte| byte == 9));
        }
        other => panic!("the heartbeat is seen: {other:?}"),
    }
    let stranger = Breaking { holders: vec!["127.0.0.1:0/1".to_owned()] };
    let refused = Device::open_breaking(&name, 0, Method::Auto, &stranger).err();
    assert!(matches!(refused, Some(OpenError::Held { .. })), "{refused:?}");
    write(&mut first, 2).unwrap();

    let mut second = Device::open_breaking(&name, 0, Method::Auto, &Breaking { holders }).unwrap();
    write(&mut second, 3).unwrap();
    assert_eq!(write(&mut first, 4).map(drop), Err(DeviceError::Fenced));
    let buffer = block::Buffer::for_overwrite(4096);
    let read = run(&mut first, DeviceOperation::Read { offset: 0, buffer });
    assert_eq!(read.map(drop), Err(DeviceError::Fenced));
    for _ in 0..500 {
        first.look_at_backing();
        std::thread::sleep(std::time::Duration::from_millis(10));
        if first.presence() == Presence::Fenced {
            break;
        }
    }
    assert_eq!(first.presence(), Presence::Fenced);
    assert_eq!(second.presence(), Presence::There);
    let buffer = block::Buffer::for_overwrite(4096);
    let found = run(&mut second, DeviceOperation::Read { offset: 0, buffer }).unwrap().unwrap();
    assert_eq!(found[..], [3; 4096]);
    drop(first);
    assert_eq!(holder_of(&name).len(), 1, "the end of the first changes nothing");
}

#[test]
#[ignore = "needs a Ceph cluster: 'cargo xtask test --ceph'"]
fn an_image_conforms_and_its_lock_is_free_when_it_is_closed() {
    let name = image("conforms", &[]);
    assert_eq!(Device::size_before_creation(&name).unwrap(), Some(SIZE));
    let mut device = Device::create(&name, SIZE, Method::Auto).unwrap();
    conforms(&mut device);
    assert_eq!(holder_of(&name).len(), 1);
    drop(device);
    assert_eq!(open(&name).unwrap().size_bytes(), 2 * SIZE);
    let (actual, wanted) = (2 * SIZE, 3 * SIZE);
    let small = Device::create(&name, wanted, Method::Auto).err();
    assert!(
        matches!(&small, Some(OpenError::TooSmall { actual: a, wanted: w, .. }) if (*a, *w) == (actual, wanted)),
        "{small:?}"
    );
    Device::remove(&name).unwrap();
    drop(open(&name).unwrap());
}

#[test]
#[ignore = "needs a Ceph cluster: 'cargo xtask test --ceph'"]
fn what_is_not_there_or_not_fit_is_named() {
    let absent = DeviceName::new(DeviceKind::Rbd, format!("rbd/absent?conf={}", conf()));
    assert!(matches!(open(&absent), Err(OpenError::Missing(_))));
    let told = |name: &DeviceName| open(name).err().expect("it is not opened").to_string();
    let pool = DeviceName::new(DeviceKind::Rbd, format!("nowhere/i?conf={}", conf()));
    assert!(told(&pool).contains("cannot open the pool"), "{}", told(&pool));
    let file = DeviceName::new(DeviceKind::Rbd, "rbd/i?conf=/nowhere/ceph.conf");
    assert!(told(&file).contains("cannot connect"), "{}", told(&file));
    let unlocked = image("unlocked", &["--image-feature", "layering"]);
    assert!(told(&unlocked).contains("rbd feature enable"), "{}", told(&unlocked));
}

/// Many pieces, and a cut image: a write across its end would be answered as done.
#[test]
#[ignore = "needs a Ceph cluster: 'cargo xtask test --ceph'"]
fn writes_of_many_pieces_arrive_and_a_cut_image_is_seen() {
    let name = image("pieces", &[]);
    let mut device = open(&name).unwrap();
    let mut data = Rope::new();
    for number in 0..2000_u32 {
        let mut piece = block::Buffer::zeroed(4096);
        piece[..4].copy_from_slice(&number.to_le_bytes());
        data.push(piece.freeze());
    }
    let mut completions = Vec::new();
    let mut run = |device: &mut Device, operation| {
        device.submit(1, operation);
        device.kick();
        while completions.is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(1));
            device.reap(&mut completions);
        }
        completions.remove(0).1
    };
    run(&mut device, DeviceOperation::Write { offset: 4096, data }).unwrap();
    let buffer = block::Buffer::for_overwrite(4096);
    let read = DeviceOperation::Read { offset: 2000 * 4096, buffer };
    let found = run(&mut device, read).unwrap().unwrap();
    assert_eq!(found[..4], 1999_u32.to_le_bytes());
    rbd(&["resize", "--allow-shrink", "--no-progress", "--size", "8M", "rbd/pieces"]);
    for _ in 0..500 {
        device.look_at_backing();
        std::thread::sleep(std::time::Duration::from_millis(10));
        if device.presence() == Presence::CutShort {
            return;
        }
    }
    panic!("a cut image is seen");
}
