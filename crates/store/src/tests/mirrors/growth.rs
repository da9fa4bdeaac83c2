//! Mirrors that join a pool in use: their members fail, hang and are tried again; the pool is as it was.

use super::*;

/// A pool on one mirror, in slots 0 and 1, with free slots up to 5.
fn array_with_room() -> Array {
    let mut array = Array::new(2);
    array.write(0, &pattern(1, 1 << 20));
    array.settle();
    array.disks.resize(6, Disk::default());
    array
}

fn second(slots: [u8; 2]) -> DeviceSpec {
    DeviceSpec::mirror([70 + slots[0]; 16], slots.map(member).to_vec())
}

#[test]
fn a_member_that_fails_while_its_mirror_joins_leaves_the_pool_as_it_was_or_without_that_member() {
    let array = array_with_room();
    let (mut at, mut refused, mut joined) = (1, 0, 0);
    loop {
        let mut one = array.fork().open(&[0, 1]).unwrap();
        (one.carried_out, one.fails_at) = (0, Some((at, 3)));
        let result = one.change(Change::AddDevice(second([2, 3])));
        if one.carried_out < at {
            break;
        }
        one.fails_at = None;
        one.disks[3].fails = false;
        if result.is_err() {
            refused += 1;
            assert_eq!(one.store.devices().count(), 1);
            // The same slots are free to be tried again.
            let again = DeviceSpec { uuid: [90; 16], ..second([2, 3]) };
            one.change(Change::AddDevice(again)).unwrap();
            assert_eq!([one.state(2), one.state(3)], [MemberState::Current; 2]);
        } else {
            joined += 1;
        }
        one.write(1 << 20, &pattern(2, 40 << 20));
        for disk in &mut one.disks {
            disk.now = disk.stable.clone();
        }
        for slots in [&[0, 1, 2, 3][..], &[1, 2]] {
            let mut left = one.fork().open(slots).unwrap();
            assert_eq!(left.store.devices().count(), 2);
            assert!(left.read(1 << 20, 40 << 20) == pattern(2, 40 << 20), "at {at}");
        }
        at += 1;
    }
    assert!(refused > 3 && joined > 0, "{refused} refused, {joined} joined");
}

#[test]
fn what_a_mirror_that_did_not_join_still_had_under_way_is_no_matter_to_the_next_one() {
    let mut array = array_with_room();
    array.disks[3].hangs = true;
    array.change(Change::AddDevice(second([2, 3]))).unwrap_err();
    assert_eq!(array.store.devices().count(), 1);
    assert!(array.store.slot_is_idle(2) && !array.store.slot_is_idle(3));
    let busy = array.change(Change::AddDevice(second([3, 4]))).unwrap_err();
    assert_eq!(busy, ChangeError::MemberBusy.into());
    array.change(Change::AddDevice(second([4, 5]))).unwrap();
    let late = std::mem::take(&mut array.held);
    assert!(!late.is_empty());
    for (number, Io { id, .. }) in late.into_iter().enumerate() {
        let result = if number % 2 == 0 { Ok(None) } else { Err(DeviceError::Os(5)) };
        array.store.completed(id, result);
    }
    array.pump();
    assert!(array.store.slot_is_idle(3));
    assert_eq!([array.state(4), array.state(5)], [MemberState::Current; 2]);
    array.write(1 << 20, &pattern(2, 40 << 20));
    let mut again = array.open(&[0, 1, 4, 5]).unwrap();
    assert!(again.read(1 << 20, 40 << 20) == pattern(2, 40 << 20));
}

#[test]
fn slots_and_names_that_are_taken_are_refused() {
    let mut array = array_with_room();
    let mut refuse = |spec: DeviceSpec| {
        let refused = array.change(Change::AddDevice(spec)).unwrap_err();
        assert_eq!(refused, ChangeError::MemberTaken.into());
    };
    refuse(second([1, 2]));
    refuse(second([2, 2]));
    refuse(DeviceSpec::mirror([70; 16], vec![member(2), MemberSpec { slot: 3, ..member(0) }]));
    refuse(DeviceSpec::mirror([70; 16], vec![member(2), MemberSpec { slot: 3, ..member(2) }]));
    refuse(DeviceSpec::plain(MemberSpec { uuid: [70; 16], ..member(0) }));
    assert_eq!(array.store.devices().count(), 1);
}
