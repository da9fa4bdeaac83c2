//! Devices that leave the pool: what is on them moves, and what is shared stays shared.

use std::time::Duration;

use super::*;
use crate::EvacuationChange;

const GONE: Change = Change::RemoveDevice { device: 1 };
const LEAVE: Change = Change::EvacuateDevice { device: 1 };

impl Pool {
    /// Lets time pass until nothing is left on the device that leaves; returns the bytes that were
    /// copied.
    fn evacuate(&mut self) -> u64 {
        for second in 1..600 {
            self.pump_all();
            let status = self.store.evacuation().unwrap();
            if status.is_empty {
                return status.copied_bytes;
            }
            self.store.tick(Duration::from_secs(second));
        }
        panic!("{:?}", self.store.evacuation());
    }

    fn pump_all(&mut self) {
        self.pump();
        while self.store.has_more() {
            self.pump();
        }
        assert!(self.store.next_done().is_none(), "nobody asked for anything");
    }

    /// Two devices, on both of which is data, with a snapshot and copies that share it.
    fn shared() -> Self {
        let options = Options { evacuation_rate: 4 << 20, ..Options::default() };
        let mut pool = Self::with(&[SIZE, SIZE], options);
        for part in 0..24 {
            pool.write(A, part << 20, &pattern(part, 1 << 20));
        }
        let spec = VolumeSpec { snapshot: true, ..volume(VolumeId(3), "s", 0) };
        pool.change(Change::CloneVolumes(vec![(A, spec)])).unwrap();
        for part in 0..24 {
            pool.write(A, (part << 20) + 4096, &pattern(100 + part, 4096));
        }
        pool.copy(A, 0, B, 8192, 5 << 20);
        pool.copy(A, 8 << 20, B, 8 << 20, 4 << 20);
        pool
    }

    fn contents(&mut self) -> Vec<Vec<u8>> {
        [A, B, VolumeId(3)].map(|id| self.read(id, 0, 24 << 20)).to_vec()
    }
}

#[test]
fn everything_moves_and_what_is_shared_is_moved_once() {
    let mut pool = Pool::shared();
    let (used, contents) = (pool.used(), pool.contents());
    let total = pool.store.space().total;
    pool.change(LEAVE).unwrap();
    let status = pool.store.evacuation().unwrap();
    let on_it = status.left_bytes + status.copied_bytes;
    assert!(on_it > 8 << 20, "{on_it}");
    assert_eq!(pool.change(GONE).unwrap_err(), ChangeError::NotEmpty.into());
    let written = pool.written;
    let copied = pool.evacuate();
    assert!(copied <= on_it, "{copied} bytes of {on_it} were copied");
    let written = pool.written - written;
    assert!(written < on_it * 3 / 2, "{written} bytes were written for {on_it}");
    pool.change(GONE).unwrap();
    assert!(pool.used() <= used, "nothing is there twice");
    assert!(pool.store.space().total < total);
    assert!(pool.contents() == contents);
    let labels = &pool.devices[1][4096..3 * 4096];
    assert!(labels.iter().all(|&byte| byte == 0), "nobody takes it for a device of a pool");
    pool.devices.truncate(1);
    let mut pool = pool.reopen();
    assert!(pool.contents() == contents);
    assert_eq!(pool.store.devices().count(), 1);
}

#[test]
fn it_goes_on_after_a_restart_and_rests_until_it_is_told_to_go_on() {
    let mut pool = Pool::shared();
    let contents = pool.contents();
    pool.change(LEAVE).unwrap();
    pool.change(Change::Evacuation(EvacuationChange::Pause)).unwrap();
    let mut pool = pool.reopen();
    pool.store.tick(Duration::from_secs(100));
    pool.pump_all();
    let status = pool.store.evacuation().unwrap();
    assert!(status.paused && status.copied_bytes == 0);
    pool.write(A, 30 << 20, &pattern(7, 1 << 20));
    assert_eq!(pool.store.evacuation().unwrap().left_bytes, status.left_bytes, "nothing new");
    pool.change(Change::Evacuation(EvacuationChange::Resume)).unwrap();
    pool.store.tick(Duration::from_secs(200));
    pool.pump();
    let mut pool = pool.reopen();
    assert!(!pool.store.evacuation().unwrap().paused);
    pool.evacuate();
    pool.change(GONE).unwrap();
    assert!(pool.contents() == contents);
}

#[test]
fn what_is_given_up_leaves_the_device_as_it_was() {
    let mut pool = Pool::shared();
    let contents = pool.contents();
    let total = pool.store.space().total;
    let cancel = Change::Evacuation(EvacuationChange::Cancel);
    assert_eq!(pool.change(cancel.clone()).unwrap_err(), ChangeError::NothingLeaves.into());
    pool.change(LEAVE).unwrap();
    assert_eq!(pool.change(LEAVE).unwrap_err(), ChangeError::LeavingAlready.into());
    pool.store.tick(Duration::from_secs(1));
    for _ in 0..20 {
        let Some(io) = pool.store.next_io() else { break };
        let result = pool.serve(usize::from(io.device), io.operation);
        pool.store.completed(io.id, result);
    }
    pool.change(cancel).unwrap();
    assert_eq!(pool.store.evacuation(), None);
    let mut pool = pool.reopen();
    pool.settle();
    assert_eq!(pool.store.space().total, total);
    assert!(pool.contents() == contents);
    assert_eq!(pool.change(GONE).unwrap_err(), ChangeError::NothingLeaves.into());
}

#[test]
fn a_device_that_cannot_leave_is_refused() {
    let mut pool = Pool::with(&[SIZE, SIZE], Options::default());
    let mut refused = |device| pool.change(Change::EvacuateDevice { device }).unwrap_err();
    assert_eq!(refused(0), ChangeError::FirstDevice.into());
    assert_eq!(refused(2), ChangeError::NoSuchDevice.into());
    pool.create(VolumeId(9), "full", 1 << 30);
    for part in 0..300 {
        pool.write(VolumeId(9), part << 20, &pattern(part, 1 << 20));
    }
    let refused = pool.change(LEAVE).unwrap_err();
    assert!(
        matches!(refused, Failure::Change(ChangeError::NoSpaceToLeave { needed_bytes }) if needed_bytes > 0),
        "{refused}"
    );
    assert_eq!(pool.store.evacuation(), None);
    pool.change(Change::DeleteVolume(VolumeId(9))).unwrap();
    pool.store.tick(Duration::from_secs(10));
    pool.settle();
    pool.change(LEAVE).unwrap();
    let grown = Change::ExtendDevice { device: 1, size_bytes: 2 * SIZE };
    assert_eq!(pool.change(grown).unwrap_err(), ChangeError::DeviceLeaves.into());
}

#[test]
fn promises_to_thick_volumes_are_counted_as_well() {
    let mut pool = Pool::with(&[SIZE, SIZE], Options::default());
    let spec = VolumeSpec { thick: true, ..volume(VolumeId(9), "thick", SIZE) };
    pool.change(Change::CreateVolume(spec)).unwrap();
    let refused = pool.change(LEAVE).unwrap_err();
    assert!(matches!(refused, Failure::Change(ChangeError::NoSpaceToLeave { .. })), "{refused}");
}

#[test]
fn a_device_that_joins_later_gets_the_number_and_nothing_of_the_old_one() {
    let mut pool = Pool::with(&[SIZE, SIZE, SIZE], Options::default());
    for part in 0..24 {
        pool.write(A, part << 20, &pattern(part, 1 << 20));
    }
    pool.change(LEAVE).unwrap();
    pool.evacuate();
    pool.change(GONE).unwrap();
    let numbers = |pool: &Pool| pool.store.mirrors().map(|m| m.device).collect::<Vec<_>>();
    assert_eq!(numbers(&pool), [0, 2]);
    let mut pool = pool.reopen();
    assert_eq!(numbers(&pool), [0, 2]);
    pool.devices.push(vec![0; SIZE as usize]);
    let spec = DeviceSpec::plain(MemberSpec { uuid: [77; 16], size_bytes: SIZE, slot: 3 });
    pool.change(Change::AddDevice(spec)).unwrap();
    for part in 0..24 {
        pool.write(B, part << 20, &pattern(50 + part, 1 << 20));
    }
    // Once from the journal, and once from a checkpoint.
    for _ in 0..2 {
        assert_eq!(numbers(&pool), [0, 1, 2]);
        pool = pool.reopen();
        assert!(pool.read(B, 23 << 20, 1 << 20) == pattern(73, 1 << 20));
        assert!(pool.read(A, 23 << 20, 1 << 20) == pattern(23, 1 << 20));
        pool.settle();
    }
}

/// What cannot be read is told and holds the device; when nothing refers to it any more it leaves.
#[test]
fn a_block_that_cannot_be_read_stays_until_it_is_overwritten() {
    let mut pool = Pool::with(&[SIZE, SIZE], Options::default());
    for part in 0..8 {
        pool.write(A, part << 20, &pattern(part, 1 << 20));
    }
    let on_it = |pool: &Pool, part| {
        let block = &pattern(part, 1 << 20)[8192..12288];
        pool.devices[1].chunks(4096).position(|at| at == block)
    };
    let (part, at) = (0..8).find_map(|part| Some((part, on_it(&pool, part)?))).unwrap();
    pool.devices[1][at * 4096] ^= 1;
    pool.change(LEAVE).unwrap();
    for second in 1..20 {
        pool.pump_all();
        pool.store.tick(Duration::from_secs(second));
    }
    let status = pool.store.evacuation().unwrap();
    assert_eq!((status.unreadable_blocks, status.is_empty), (1, false));
    assert_eq!(status.left_bytes, 4096);
    pool.write(A, (part << 20) + 8192, &pattern(99, 4096));
    pool.store.tick(Duration::from_secs(30));
    pool.evacuate();
    pool.change(GONE).unwrap();
    assert_eq!(pool.read(A, (part << 20) + 8192, 4096), pattern(99, 4096));
}

/// References too many to be counted are never taken back: that nothing refers to the block is found out
/// by looking at everything.
#[test]
fn a_block_with_references_too_many_to_count_leaves_too() {
    let mut pool = Pool::with(&[SIZE, SIZE], Options::default());
    pool.create(VolumeId(9), "same", 1 << 30);
    for at in [0, 300 << 20, 600 << 20] {
        let range = ByteRange::new(at, 256 << 20);
        let pattern = Pattern::Block(Bytes::from(vec![7; 512]));
        pool.ask(VolumeId(9), Request::WriteSame { range, pattern }).unwrap();
    }
    pool.copy(VolumeId(9), 0, VolumeId(9), 560 << 20, 16 << 20);
    pool.copy(VolumeId(9), 300 << 20, VolumeId(9), 580 << 20, 16 << 20);
    pool.change(LEAVE).unwrap();
    pool.evacuate();
    pool.change(GONE).unwrap();
    for at in [0, 300 << 20, 570 << 20, 590 << 20] {
        assert_eq!(pool.read(VolumeId(9), at, 4096), vec![7; 4096]);
    }
}

/// A leaf that was rewritten for a volume, and that a host changed then, is not taken for the snapshot's.
#[test]
fn what_was_rewritten_and_changed_is_not_shared_with_a_snapshot() {
    let options = Options { evacuation_rate: 1 << 20, ..Options::default() };
    let mut pool = Pool::with(&[SIZE, SIZE], options);
    let data = pattern(1, 8 << 20);
    for part in 0..8 {
        pool.write(A, part << 20, &data[(part as usize) << 20..][..1 << 20]);
    }
    let snapshot = VolumeId(3);
    let spec = VolumeSpec { snapshot: true, ..volume(snapshot, "s", 0) };
    pool.change(Change::CloneVolumes(vec![(A, spec)])).unwrap();
    pool.write(A, 32 << 20, &pattern(2, 4096));
    pool.change(LEAVE).unwrap();
    assert!(pool.store.evacuation().unwrap().copied_bytes > 0, "some of it was rewritten");
    for part in 0..8 {
        pool.write(A, (part << 20) + 8192, &pattern(20 + part, 4096));
    }
    pool.evacuate();
    pool.change(GONE).unwrap();
    assert!(pool.read(snapshot, 0, 8 << 20) == data);
    assert_eq!(pool.read(A, (7 << 20) + 8192, 4096), pattern(27, 4096));
}

/// What was moved for one leaf, and which another leaf still referred to when that went with its volume, is
/// not kept until the device has left.
#[test]
fn what_was_moved_for_a_volume_that_is_deleted_is_forgotten() {
    let options = Options { evacuation_rate: 1 << 20, ..Options::default() };
    let mut pool = Pool::with(&[SIZE, SIZE], options);
    for part in 0..20 {
        pool.write(A, part << 20, &pattern(part, 1 << 20));
    }
    // Blocks of A, by leaves of B that have no leaf in common with A's.
    pool.copy(A, 0, B, 8192, 5 << 20);
    pool.change(LEAVE).unwrap();
    let moved = |pool: &Pool| pool.store.pool().volumes.moved().unwrap().1.mapped_bytes;
    for second in 1..3 {
        pool.store.tick(Duration::from_secs(second));
        pool.pump_all();
    }
    let needed = moved(&pool);
    assert!(needed > 3 << 19, "B needs it yet: {needed}");
    pool.change(Change::Evacuation(EvacuationChange::Pause)).unwrap();
    pool.change(Change::DeleteVolume(B)).unwrap();
    pool.store.tick(Duration::from_secs(10));
    pool.settle();
    pool.change(Change::Evacuation(EvacuationChange::Resume)).unwrap();
    pool.store.tick(Duration::from_secs(11));
    pool.pump_all();
    assert!(!pool.store.evacuation().unwrap().is_empty);
    assert!(moved(&pool) <= 1 << 20, "of {needed} that nobody needs {} are left", moved(&pool));
    for second in 12..600 {
        pool.store.tick(Duration::from_secs(second));
        pool.pump_all();
        if pool.store.evacuation().unwrap().is_empty {
            break;
        }
    }
    pool.change(GONE).unwrap();
    for part in 0..20 {
        assert!(pool.read(A, part << 20, 1 << 20) == pattern(part, 1 << 20));
    }
}

/// Blocks that were moved are handed out again when the device stays: not before those have been answered
/// who read them.
#[test]
fn it_stays_only_when_nobody_reads_what_was_moved() {
    let mut pool = Pool::with(&[SIZE, SIZE], Options::default());
    for part in 0..4 {
        pool.write(A, part << 20, &pattern(part, 1 << 20));
    }
    let range = ByteRange::new(0, 4 << 20);
    pool.store.submit(Tag(9000), A, Request::Read { range });
    let mut held = Vec::new();
    while let Some(io) = pool.store.next_io() {
        if io.device == 1 {
            held.push(io);
            continue;
        }
        let result = pool.serve(0, io.operation);
        pool.store.completed(io.id, result);
    }
    assert!(!held.is_empty(), "some of it is there");
    pool.change(LEAVE).unwrap();
    pool.evacuate();
    pool.store.change(Tag(9001), Change::Evacuation(EvacuationChange::Cancel));
    pool.pump_all();
    assert!(pool.store.evacuation().is_some(), "a read is under way");
    for io in held {
        let result = pool.serve(1, io.operation);
        pool.store.completed(io.id, result);
    }
    pool.pump();
    let done = [pool.store.next_done().unwrap(), pool.store.next_done().unwrap()];
    assert!(done.iter().all(|done| done.result.is_ok()), "{done:?}");
    assert_eq!(pool.store.evacuation(), None);
    assert!(pool.read(A, 0, 1 << 20) == pattern(0, 1 << 20));
}

/// A pool that refuses to let a device go is not given a feature for that.
#[test]
fn a_refusal_changes_no_label() {
    let mut pool = Pool::with(&[SIZE, SIZE], Options::default());
    let spec = VolumeSpec { thick: true, ..volume(VolumeId(9), "thick", SIZE) };
    pool.change(Change::CreateVolume(spec)).unwrap();
    let labels =
        |pool: &Pool| pool.devices.iter().map(|d| d[4096..12288].to_vec()).collect::<Vec<_>>();
    let before = labels(&pool);
    assert!(pool.change(LEAVE).is_err());
    assert!(pool.change(Change::EvacuateDevice { device: 0 }).is_err());
    assert!(labels(&pool) == before);
    pool.change(Change::DeleteVolume(VolumeId(9))).unwrap();
    pool.change(LEAVE).unwrap();
    assert!(labels(&pool) != before);
}
