//! Opening: which members must be there, which are stale, and what is refused.

use super::*;
use crate::address::DeviceBlock;
use crate::mirror::LISTS;

fn refused(result: Result<Array, Failure>) -> OpenError {
    match result.map(drop).unwrap_err() {
        Failure::Open(error) => error,
        other => panic!("{other}"),
    }
}

fn allow_degraded() -> OpenContext {
    OpenContext { allow_degraded: true, ..OpenContext::default() }
}

#[test]
fn a_stale_member_is_never_read_alone_or_beside_the_other() {
    let mut array = Array::new(2);
    array.write(0, &pattern(1, 1 << 20));
    array.disks[1].fails = true;
    array.write(0, &pattern(2, 1 << 20));
    array.disks[1].fails = false;
    let written = array.disks[1].written;
    let error = refused(array.fork().open(&[1]));
    assert_eq!(error, OpenError::MembersMissing { index: 0, missing: vec![[100; 16]] });
    for slots in [[0, 1], [1, 0]] {
        let mut both = array.fork().open(&slots).unwrap();
        assert_eq!([both.state(0), both.state(1)], [MemberState::Current, MemberState::Absent]);
        for _ in 0..4 {
            assert!(both.read(0, 1 << 20) == pattern(2, 1 << 20));
        }
        both.write(0, &pattern(3, 4096));
        assert_eq!(both.disks[1].written, written);
    }
}

#[test]
fn without_a_witness_a_missing_current_member_is_asked_for() {
    let mut array = Array::new(2);
    array.write(0, &pattern(1, 1 << 20));
    let error = refused(array.fork().open_with(&[1], OpenContext::default()));
    assert_eq!(error, OpenError::MembersMissing { index: 0, missing: vec![[100; 16]] });
    assert!(!error.to_string().is_empty());
    let mut alone = array.fork().open_with(&[1], allow_degraded()).unwrap();
    assert!(alone.read(0, 1 << 20) == pattern(1, 1 << 20));
    // All that count are there: nothing needs to be known.
    let mut left = alone.open_with(&[1], OpenContext::default()).unwrap();
    assert!(left.read(0, 1 << 20) == pattern(1, 1 << 20));
    let mut both = array.fork().open_with(&[1, 0], OpenContext::default()).unwrap();
    assert!(both.read(0, 1 << 20) == pattern(1, 1 << 20));
}

/// What one controller was told says nothing once another one had the pool: that one may have gone on without
/// the member that is left.
#[test]
fn a_witness_that_others_do_not_keep_allows_no_opening_without_a_current_member() {
    let mut array = Array::new(2);
    array.write(0, &pattern(1, 1 << 20));
    let before = array.witnessed.clone();
    array.disks[1].fails = true;
    array.write(0, &pattern(2, 1 << 20));
    array.disks[1].fails = false;
    let shared =
        || OpenContext { witnessed: before.clone(), shared: true, ..OpenContext::default() };
    let error = refused(array.fork().open_with(&[1], shared()));
    assert_eq!(error, OpenError::MembersMissing { index: 0, missing: vec![[100; 16]] });
    let mut newer = array.fork().open_with(&[0], shared()).unwrap();
    assert!(newer.read(0, 1 << 20) == pattern(2, 1 << 20));
    let mut both = array.fork().open_with(&[1, 0], shared()).unwrap();
    assert!(both.read(0, 1 << 20) == pattern(2, 1 << 20));
}

/// A member whose newest list does not come in time is not taken for what its older list says.
#[test]
fn a_member_of_whose_lists_one_cannot_be_read_counts_as_missing() {
    let mut array = Array::new(2);
    array.write(0, &pattern(1, 1 << 20));
    array.disks[1].fails = true;
    array.write(0, &pattern(2, 1 << 20));
    array.disks[1].fails = false;
    for block in LISTS.map(DeviceBlock::number) {
        for hangs in [false, true] {
            let mut array = array.fork();
            array.disks[0].bad = Some((block, hangs));
            let context = OpenContext { shared: true, ..OpenContext::default() };
            let error = refused(array.open_with(&[0, 1], context));
            assert_eq!(error, OpenError::MembersMissing { index: 0, missing: vec![[100; 16]] });
        }
    }
}

/// Data of a unit of the journal that nobody was told of may be on one member alone. If that is lost when the
/// journal was read, and before the data are on the other one, what the unit replaces is still there, and is
/// what the next opening finds.
#[test]
fn a_member_that_is_lost_in_the_middle_of_an_opening_takes_nothing_along_that_was_answered() {
    let (mut refused, mut degraded) = (0, 0);
    for seed in 0..400 {
        let mut random = Random(seed);
        let mut array = Array::new(2);
        array.write(0, &pattern(9, 262_144));
        array.settle();
        for number in 0..4_u64 {
            let range = ByteRange::new(number * 65_536, 16_384);
            let data = Bytes::from(pattern(100 + number, 16_384));
            array.store.submit(Tag(1000 + number), A, Request::Write { range, data });
        }
        while random.below(24) > 0
            && let Some(io) = array.store.next_io()
        {
            let result = array.disks[usize::from(io.device)].serve(io.operation);
            array.store.completed(io.id, result);
        }
        array.disks.iter_mut().for_each(|disk| disk.lose_power(&mut random));
        let lost = random.below(2) as u8;
        array.fails_at = Some((random.below(400), lost));
        array = match array.open_again() {
            (array, Ok(_)) => array,
            (mut array, Err(_)) => {
                refused += 1;
                array.fails_at = None;
                let (array, opened) = array.open_again();
                opened.unwrap();
                array
            }
        };
        degraded += u64::from(array.state(lost) == MemberState::Absent);
        for number in 0..4_u64 {
            let found = array.read(number * 65_536, 16_384);
            let before = pattern(9, 262_144)[number as usize * 65_536..][..16_384].to_vec();
            assert!(found == before || found == pattern(100 + number, 16_384), "seed {seed}");
        }
    }
    assert!(refused > 0 && degraded > refused, "{refused} refused, {degraded} degraded");
}

#[test]
fn members_that_were_changed_apart_from_each_other_are_told_from_stale_ones() {
    let mut array = Array::new(2);
    array.write(0, &pattern(1, 1 << 20));
    let mut first = array.fork().open(&[0]).unwrap();
    first.write(0, &pattern(2, 4096));
    let mut second = array.fork().open(&[1]).unwrap();
    second.write(0, &pattern(3, 4096));
    // The same generation, and different lists.
    let mut both = array.fork();
    both.disks = vec![first.disks[0].clone(), second.disks[1].clone()];
    assert!(matches!(refused(both.open_with(&[0, 1], allow_degraded())), OpenError::Damaged(_)));
    // One of them went on, and still the other has what it has not.
    first.disks[1].fails = true;
    let mut first = first.open(&[0]).unwrap();
    first.write(4096, &pattern(4, 4096));
    let mut both = array.fork();
    both.disks = vec![first.disks[0].clone(), second.disks[1].clone()];
    both.witnessed.clear();
    assert!(matches!(refused(both.open_with(&[0, 1], allow_degraded())), OpenError::Damaged(_)));
}

#[test]
fn a_pool_of_mirrors_and_plain_devices_is_found_in_any_order_of_slots() {
    let devices = vec![
        DeviceSpec::plain(MemberSpec { uuid: [60; 16], size_bytes: SMALL, slot: 3 }),
        DeviceSpec::mirror([61; 16], vec![member(0), member(4)]),
        DeviceSpec::mirror([62; 16], vec![member(1), member(2)]),
    ];
    let mut array = Array::of(devices.clone());
    array.change(Change::CreateVolume(volume(B, "b", 64 << 20))).unwrap();
    array.write(0, &pattern(1, 16 << 20));
    assert_eq!(array.store.devices().collect::<Vec<_>>(), devices);
    array.settle();
    for slots in [&[4, 2, 0, 3, 1][..], &[3, 2, 4], &[1, 3, 0]] {
        let mut again = array.fork().open(slots).unwrap();
        assert!(again.read(0, 16 << 20) == pattern(1, 16 << 20));
        again.write(0, &pattern(2, 4096));
        assert!(again.read(0, 4096) == pattern(2, 4096));
    }
    assert_eq!(refused(array.fork().open(&[4, 2, 0])), OpenError::Missing { index: 0 });
    assert_eq!(refused(array.fork().open(&[4, 3, 0])), OpenError::Missing { index: 2 });
}

#[test]
fn a_mirror_joins_a_pool_that_had_none_and_is_found_again() {
    let mut array =
        Array::of(vec![DeviceSpec::plain(MemberSpec { uuid: DEVICE, size_bytes: SMALL, slot: 0 })]);
    array.write(0, &pattern(1, 1 << 20));
    array.disks.resize(3, Disk::default());
    let mirror = DeviceSpec::mirror([61; 16], vec![member(1), member(2)]);
    array.change(Change::AddDevice(mirror.clone())).unwrap();
    assert!(array.store.mirrors().nth(1).unwrap().is_mirror);
    array.write(1 << 20, &pattern(2, 40 << 20));
    for settles in [false, true] {
        if settles {
            array.settle();
        }
        for slots in [[2, 1, 0].as_slice(), &[0, 1], &[2, 0]] {
            let mut again = array.fork().open(slots).unwrap();
            assert_eq!(again.store.devices().count(), 2);
            assert!(again.read(1 << 20, 40 << 20) == pattern(2, 40 << 20));
        }
    }
    // A program that knows no mirrors refuses all of its devices.
    for disk in &array.disks {
        let label = crate::superblock::Label::parse(&disk.now[&1]).unwrap();
        assert_eq!(label.features.incompatible & 1, 1);
    }
}

#[test]
fn a_mirror_that_cannot_be_is_refused() {
    let refuse = |members: Vec<MemberSpec>| {
        let device = DeviceSpec {
            members,
            ..DeviceSpec::plain(MemberSpec { uuid: DEVICE, size_bytes: SMALL, slot: 0 })
        };
        let spec = PoolSpec { pool_uuid: [1; 16], devices: vec![device] };
        let mut store = Store::format(&spec, options(), Tag(0));
        assert_eq!(store.next_done().unwrap().result.unwrap_err(), OpenError::Size.into());
    };
    refuse(vec![member(0)]);
    refuse((0..4).map(member).collect());
    refuse(vec![member(0), MemberSpec { slot: 1, ..member(0) }]);
    refuse(vec![member(0), MemberSpec { slot: 0, ..member(1) }]);
    refuse(vec![member(0), MemberSpec { size_bytes: SMALL - 4096, ..member(1) }]);
    refuse(vec![member(0), member(96)]);
}

#[test]
fn two_devices_with_the_same_member_label_are_refused() {
    let mut array = Array::new(2);
    array.disks.push(array.disks[0].clone());
    assert!(matches!(refused(array.open(&[0, 1, 2])), OpenError::Damaged(_)));
}

#[test]
fn a_member_that_was_cut_short_or_cannot_be_read_counts_as_missing() {
    let mut array = Array::new(2);
    array.write(0, &pattern(1, 1 << 20));
    let witnessed = array.witnessed.clone();
    let context = || OpenContext { witnessed: witnessed.clone(), ..OpenContext::default() };
    let mut short = array.fork();
    let specs =
        [SlotSpec { slot: 0, size_bytes: SMALL - 4096 }, SlotSpec { slot: 1, size_bytes: SMALL }];
    short.store = Store::open(&specs, context(), options(), Tag(0));
    short.wait(0).unwrap();
    assert_eq!(short.state(0), MemberState::Absent);
    assert!(short.read(0, 1 << 20) == pattern(1, 1 << 20));
    for slot in [0, 1] {
        let mut dead = array.fork();
        dead.disks[slot].fails = true;
        let mut dead = dead.open(&[0, 1]).unwrap();
        assert_eq!(dead.state(slot as u8), MemberState::Absent);
        assert!(dead.read(0, 1 << 20) == pattern(1, 1 << 20));
        // One that never answers keeps nobody waiting for longer than the limit.
        let mut silent = array.fork();
        silent.disks[slot].hangs = true;
        let mut silent = silent.open(&[0, 1]).unwrap();
        assert_eq!(silent.state(slot as u8), MemberState::Absent);
        assert!(silent.read(0, 1 << 20) == pattern(1, 1 << 20));
        silent.change(Change::Close).unwrap();
        silent.pump();
        assert!(!silent.store.has_io());
    }
}
