//! The hidden volume of the array's records, and the upgrade of the labels that it needs, interrupted
//! at every write.

use std::collections::HashSet;

use super::golden;
use super::*;
use crate::superblock::{Features, INCOMPATIBLE_RECORDS, Label};
use crate::{Io, RECORDS};

const CREATE: Change = Change::CreateRecords { size_bytes: 1 << 30 };

/// Features of both copies of the labels of all devices.
fn features(pool: &Pool) -> HashSet<u64> {
    let label = |device: &Vec<u8>, block: usize| Label::parse(&device[block * 4096..][..4096]);
    let copies = pool.devices.iter().flat_map(|device| [label(device, 1), label(device, 2)]);
    copies.map(|label| label.unwrap().features.incompatible).collect()
}

#[test]
fn nobody_sees_the_volume_of_records_and_no_change_concerns_it() {
    let mut pool = Pool::new();
    let (before, provisioned) = (pool.store.volume_count(), pool.store.provisioned_bytes());
    assert_eq!(pool.ask(RECORDS, Request::Flush).unwrap_err(), BlockError::NoSuchVolume.into());
    pool.change(CREATE).unwrap();
    pool.change(CREATE).unwrap();
    pool.write(RECORDS, 8192, &pattern(1, 8192));
    for _ in 0..2 {
        assert_eq!(pool.store.records().unwrap().mapped_bytes, 8192);
        assert_eq!(pool.store.volume_count(), before);
        assert_eq!(pool.store.volumes().count(), before);
        assert_eq!(pool.store.volumes_after(Some(A)).count(), before - 1);
        assert_eq!(pool.store.volumes_named_from("").count(), before);
        assert_eq!(pool.store.provisioned_bytes(), provisioned);
        assert!(pool.store.volume(RECORDS).is_none() && pool.store.volume_named("").is_none());
        let clone = vec![(RECORDS, volume(VolumeId(9), "c", 0))];
        let name = "c".to_owned();
        for change in [
            Change::DeleteVolume(RECORDS),
            Change::ResizeVolume { id: RECORDS, size_bytes: 4096 },
            Change::RenameVolume { id: RECORDS, name },
            Change::CloneVolumes(clone),
            Change::RevertVolume { volume: RECORDS, source: A },
            Change::RevertVolume { volume: A, source: RECORDS },
        ] {
            assert_eq!(pool.change(change).unwrap_err(), ChangeError::NoSuchVolume.into());
        }
        let taken = pool.change(Change::CreateVolume(volume(RECORDS, "x", 4096))).unwrap_err();
        assert_eq!(taken, ChangeError::NameTaken("x".to_owned()).into());
        pool = pool.reopen();
        assert_eq!(pool.read(RECORDS, 8192, 8192), pattern(1, 8192));
        pool.settle();
        pool = pool.reopen();
    }
}

/// A scrub finds damage to a record as it does to any data.
#[test]
fn records_are_scrubbed() {
    let mut pool = Pool::new();
    pool.change(CREATE).unwrap();
    pool.write(RECORDS, 0, &pattern(1, 4096));
    pool.settle();
    let place = pool.devices[0].chunks(4096).position(|block| block == pattern(1, 4096)).unwrap();
    pool.devices[0][place * 4096] ^= 1;
    pool.store.start_scrub();
    for second in 1..60 {
        pool.store.tick(std::time::Duration::from_secs(second));
        pool.pump();
    }
    let bad = pool.store.scrub_status().bad;
    assert_eq!(bad.iter().map(|range| range.volume).collect::<Vec<_>>(), [RECORDS]);
}

/// What is kept of records must be changed although hosts left no space.
#[test]
fn records_are_written_to_a_full_pool() {
    let mut pool = Pool::new();
    pool.change(CREATE).unwrap();
    pool.change(Change::ResizeVolume { id: A, size_bytes: 1 << 30 }).unwrap();
    let range = |part: u64| ByteRange::new(part << 20, 1 << 20);
    let fill = (0..1024).find(|&part| {
        let data = Bytes::from(pattern(part, 1 << 20));
        pool.ask(A, Request::Write { range: range(part), data }).is_err()
    });
    assert!(fill.is_some(), "the pool is full");
    for slot in 0..64 {
        pool.write(RECORDS, slot * 8192, &pattern(slot, 8192));
    }
    for slot in 0..64 {
        pool.write(RECORDS, slot * 8192, &pattern(slot + 1, 8192));
    }
    let mut pool = pool.reopen();
    assert_eq!(pool.read(RECORDS, 63 * 8192, 8192), pattern(64, 8192));
}

#[test]
fn labels_that_differ_in_features_alone_are_no_damage() {
    let mut pool = Pool::with(&[SIZE, SIZE], Options::default());
    pool.write(A, 0, &pattern(1, 4096));
    let mut label = Label::parse(&pool.devices[0][4096..8192]).unwrap();
    label.features = Features::incompatible(INCOMPATIBLE_RECORDS);
    pool.devices[0][4096..8192].copy_from_slice(&label.emit());
    let mut pool = pool.reopen();
    assert_eq!(features(&pool).len(), 2);
    // A device that joins gets the features that the pool has, and the next upgrade completes them.
    pool.devices.push(vec![0; SIZE as usize]);
    pool.change(Change::AddDevice(DeviceSpec::plain(MemberSpec {
        uuid: [77; 16],
        size_bytes: SIZE,
        slot: 2,
    })))
    .unwrap();
    pool.change(CREATE).unwrap();
    assert_eq!(features(&pool), HashSet::from([INCOMPATIBLE_RECORDS]));
    let mut pool = pool.reopen();
    assert_eq!(pool.read(A, 0, 4096), pattern(1, 4096));
    label.device_uuid = [9; 16];
    pool.devices[0][4096..8192].copy_from_slice(&label.emit());
    let failure = pool.reopen_damaged().err().unwrap();
    assert_eq!(failure, OpenError::Damaged("the two labels differ").into());
}

/// One copy at a time, since the other one is what the device is known by.
#[test]
fn damaged_copies_of_labels_are_written_again_when_the_pool_is_opened() {
    let mut pool = Pool::with(&[SIZE, SIZE], Options::default());
    let before = pool.devices.iter().map(|device| device[4096..12288].to_vec()).collect::<Vec<_>>();
    let damaged = |pool: &Pool| {
        let devices = pool.devices.iter().zip(&before);
        let differs = devices.map(|(device, before)| {
            [0, 4096].map(|at| device[4096 + at..][..4096] != before[at..][..4096])
        });
        differs.collect::<Vec<_>>()
    };
    for (first, second, left) in [
        ((0, 0), (1, 0), [[false, false], [false, false]]),
        ((0, 1), (1, 1), [[false, false], [false, false]]),
        ((0, 0), (1, 1), [[false, false], [false, true]]),
    ] {
        for (device, copy) in [first, second] {
            pool.devices[device][4096 + copy * 4096 + 20] ^= 1;
        }
        pool = pool.reopen_damaged().unwrap();
        pool.settle();
        assert_eq!(damaged(&pool), left);
        pool = pool.reopen_damaged().unwrap();
        pool.settle();
        assert_eq!(damaged(&pool), [[false, false], [false, false]]);
    }
}

/// Whoever looks for pools knows a device by its first blocks alone.
#[test]
fn a_device_says_which_one_of_which_pool_it_is() {
    let mut pool = Pool::with(&[SIZE, SIZE], Options::default());
    for index in 0..2 {
        for damage in [None, Some(4096), Some(8192)] {
            if let Some(at) = damage {
                pool.devices[index][at + 20] ^= 1;
            }
            let found = crate::identify(&pool.devices[index][..crate::IDENTITY_BYTES]);
            let device_uuid = [2 + index as u8; 16];
            let identity = crate::DeviceIdentity {
                pool_uuid: [1; 16],
                device_uuid,
                index: index as u32,
                member: None,
            };
            let neither = OpenError::Damaged("neither label is intact");
            assert_eq!(found, if damage == Some(8192) { Err(neither) } else { Ok(identity) });
        }
    }
    assert_eq!(crate::identify(&[0; crate::IDENTITY_BYTES]), Err(OpenError::Foreign));
    assert_eq!(crate::identify(&[]), Err(OpenError::Foreign));
}

/// A device that refuses its label ends the upgrade; nothing is made, and it can be tried again.
#[test]
fn an_upgrade_that_a_device_refuses_is_tried_again() {
    for failing in 0..8 {
        let mut pool = Pool::with(&[SIZE, SIZE], Options::default());
        pool.store.change(Tag(900), CREATE);
        let mut number = 0;
        while let Some(io) = pool.store.next_io() {
            let refuses = number == failing;
            number += 1;
            let result = if refuses {
                Err(DeviceError::Os(5))
            } else {
                pool.serve(usize::from(io.device), io.operation)
            };
            pool.store.completed(io.id, result);
        }
        let failure = pool.wait(900).unwrap_err();
        assert_eq!(failure, ChangeError::Device(DeviceError::Os(5)).into(), "{failing}");
        assert!(pool.store.records().is_none());
        pool.change(CREATE).unwrap();
        pool.write(A, 0, &pattern(1, 4096));
        assert_eq!(features(&pool), HashSet::from([INCOMPATIBLE_RECORDS]));
        assert_eq!(pool.reopen().read(A, 0, 4096), pattern(1, 4096));
    }
}

/// What a power cut leaves of a write.
#[derive(Clone, Copy)]
enum Kept {
    Nothing,
    Sectors(usize),
    All,
}

fn apply(devices: &mut [Vec<u8>], (device, offset, data): &(usize, u64, Vec<u8>), kept: Kept) {
    let length = match kept {
        Kept::Nothing => 0,
        Kept::Sectors(sectors) => (sectors * 512).min(data.len()),
        Kept::All => data.len(),
    };
    devices[*device][*offset as usize..][..length].copy_from_slice(&data[..length]);
}

/// A pool that an earlier program made is upgraded, and the power fails before each I/O, with each of
/// the writes that were not flushed lost, torn or kept while the others are kept or lost: it
/// opens, with all its data, and the upgrade is made again.
#[test]
fn an_upgrade_of_an_earlier_pool_may_be_cut_short_at_every_write() {
    let mut pool = Pool::with(&[128 << 20, 64 << 20], golden::options());
    pool.devices = golden::image();
    let mut pool = pool.reopen();
    pool.store.change(Tag(900), CREATE);
    let mut flushed = pool.devices.clone();
    let mut loose: Vec<(usize, u64, Vec<u8>)> = Vec::new();
    let mut cuts = 0;
    while let Some(Io { id, device, operation }) = pool.store.next_io() {
        let device = usize::from(device);
        match &operation {
            DeviceOperation::Write { offset, data } => {
                loose.push((device, *offset, data.to_vec()));
            }
            DeviceOperation::Flush => {
                cuts += cut(&flushed, &loose);
                let (kept, left) = loose.into_iter().partition(|write| write.0 == device);
                let _: &Vec<_> = &kept;
                kept.iter().for_each(|write| apply(&mut flushed, write, Kept::All));
                loose = left;
            }
            DeviceOperation::Read { .. } | DeviceOperation::Reserve { .. } => {}
        }
        let result = pool.serve(device, operation);
        pool.store.completed(id, result);
    }
    pool.wait(900).unwrap();
    assert!(cuts > 20, "{cuts}");
    assert_eq!(features(&pool), HashSet::from([INCOMPATIBLE_RECORDS]));
}

/// Cuts the power with writes that were not flushed; returns how often.
fn cut(flushed: &[Vec<u8>], loose: &[(usize, u64, Vec<u8>)]) -> usize {
    let mut cuts = 0;
    for one in 0..loose.len() {
        let kinds = [Kept::Nothing, Kept::Sectors(1), Kept::Sectors(7), Kept::All];
        for (own, others) in
            kinds.into_iter().flat_map(|own| [Kept::Nothing, Kept::All].map(|others| (own, others)))
        {
            let mut devices = flushed.to_vec();
            for (number, write) in loose.iter().enumerate() {
                apply(&mut devices, write, if number == one { own } else { others });
            }
            check_cut(devices);
            cuts += 1;
        }
    }
    cuts
}

fn check_cut(devices: Vec<Vec<u8>>) {
    let sizes: Vec<_> = devices.iter().map(|device| device.len() as u64).collect();
    let store =
        Store::open(&SlotSpec::numbered(&sizes), OpenContext::default(), golden::options(), Tag(0));
    let mut pool = Pool::on(store, devices, golden::options());
    pool.wait(0).unwrap();
    golden::check(&mut pool);
    pool.change(CREATE).unwrap();
    pool.write(RECORDS, 0, &pattern(1, 4096));
    assert_eq!(features(&pool), HashSet::from([INCOMPATIBLE_RECORDS]));
    let store =
        Store::open(&SlotSpec::numbered(&sizes), OpenContext::default(), golden::options(), Tag(0));
    let mut pool = Pool { store, ..pool };
    pool.wait(0).unwrap();
    golden::check(&mut pool);
    assert_eq!(pool.read(RECORDS, 0, 4096), pattern(1, 4096));
}
