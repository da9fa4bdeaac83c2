//! Decisions about lost members by the array itself, tried with a clock of their own.

use array::{Mirroring, Thresholds};

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const OLD: [u8; 16] = [1; 16];
const KEPT: [u8; 16] = [2; 16];
const NEW: [u8; 16] = [3; 16];

fn member(uuid: [u8; 16], state: MemberState) -> MemberStatus {
    let (slot, size_bytes, errors, healed_blocks, since) = (None, 1 << 30, 0, 0, 1);
    let (is_unreliable, is_returning) = (false, false);
    MemberStatus {
        uuid,
        slot,
        is_returning,
        size_bytes,
        state,
        errors,
        is_unreliable,
        healed_blocks,
        since,
    }
}

fn mirror(members: &[([u8; 16], MemberState)]) -> [MirrorStatus; 1] {
    let members = members.iter().map(|&(uuid, state)| member(uuid, state)).collect();
    let (device, uuid, size_bytes, is_mirror, generation) = (0, [9; 16], 1 << 30, true, 1);
    let (rivals, resilver) = (Some(Vec::new()), None);
    [MirrorStatus { device, uuid, size_bytes, is_mirror, generation, members, rivals, resilver }]
}

fn device(path: &str, size_bytes: u64) -> PoolDevice {
    PoolDevice { device: format!("file:/{path}").parse().unwrap(), size_bytes }
}

fn pool(replacing: Option<[u8; 16]>, spares: Vec<PoolDevice>) -> array::Pool {
    let known = |uuid, path, replaces| KnownMember {
        uuid,
        device: device(path, 1).device,
        replaces,
        is_witness: false,
    };
    let members =
        vec![known(OLD, "old", None), known(KEPT, "kept", None), known(NEW, "new", replacing)];
    array::Pool {
        uuid: [7; 16],
        devices: vec![device("old", 1 << 30), device("kept", 1 << 30)],
        thresholds: Thresholds::default(),
        delete_scheduled_snapshots: false,
        read_only: false,
        mirroring: Mirroring { members, spares, joining: Vec::new() },
        departure: None,
        fail_back: array::FailBack::default(),
    }
}

use MemberState::{Absent, Current, Resilvering};

#[test]
fn a_lost_member_is_looked_for_every_few_seconds_one_try_at_a_time() {
    let (mut lost, pool) = (Lost::default(), pool(None, Vec::new()));
    let degraded = mirror(&[(OLD, Absent), (KEPT, Current)]);
    let mut tries = 0;
    for second in 0..60 {
        let now = SECOND * second;
        let deeds = lost.deeds(&degraded, &pool, |_| false, now);
        tries += deeds.len();
        deeds.iter().for_each(|deed| assert_eq!(*deed, Deed::Return(OLD)));
        if second % 10 == 0 {
            assert!(lost.deeds(&degraded, &pool, |_| false, now).is_empty(), "one at a time");
        }
        if !deeds.is_empty() {
            lost.ended(OLD, now);
        }
    }
    assert!((25..=30).contains(&tries), "{tries}");
    // Not while what was asked of the device before has not ended.
    assert!(lost.deeds(&degraded, &pool, |_| true, SECOND * 999).is_empty());
}

#[test]
fn one_that_fails_again_and_again_is_tried_less_and_less() {
    let (mut lost, pool) = (Lost::default(), pool(None, Vec::new()));
    let degraded = mirror(&[(OLD, Absent), (KEPT, Current)]);
    let whole = mirror(&[(OLD, Current), (KEPT, Current)]);
    let mut returns = Vec::new();
    for second in 0..3600 {
        let now = SECOND * second;
        if lost.deeds(&degraded, &pool, |_| false, now) == [Deed::Return(OLD)] {
            returns.push(second);
            // It comes back, and fails at once.
            lost.ended(OLD, now);
            assert!(lost.deeds(&whole, &pool, |_| false, now).is_empty());
        }
    }
    assert!(returns.len() < 15, "{returns:?}");
    // After some time without a fault that is forgotten.
    let much_later = SECOND * 100_000;
    lost.deeds(&whole, &pool, |_| false, much_later);
    lost.deeds(&whole, &pool, |_| false, much_later + STEADY_AFTER);
    lost.deeds(&degraded, &pool, |_| false, much_later + STEADY_AFTER);
    let soon = much_later + STEADY_AFTER + RETURN_PAUSE;
    assert_eq!(lost.deeds(&degraded, &pool, |_| false, soon), [Deed::Return(OLD)]);
}

#[test]
fn a_spare_that_is_large_enough_steps_in_once_for_a_member_that_does_not_come_back() {
    let spares = vec![device("small", 1 << 20), device("spare", 1 << 30)];
    let (mut lost, pool_with_spares) = (Lost::default(), pool(None, spares));
    let degraded = mirror(&[(OLD, Absent), (KEPT, Current)]);
    let steps_in = |deeds: &[Deed]| deeds.iter().any(|deed| matches!(deed, Deed::Spare(..)));
    assert!(!steps_in(&lost.deeds(&degraded, &pool_with_spares, |_| false, Duration::ZERO)));
    let deeds = lost.deeds(&degraded, &pool_with_spares, |_| false, SPARE_PATIENCE);
    assert!(deeds.contains(&Deed::Spare(0, device("spare", 1 << 30), OLD)), "{deeds:?}");
    // It has stepped in: no other does, and the lost one leaves when it is current.
    let filled = pool(Some(OLD), vec![device("other", 1 << 30)]);
    let filling = mirror(&[(OLD, Absent), (KEPT, Current), (NEW, Resilvering)]);
    let now = SPARE_PATIENCE * 2;
    assert!(!steps_in(&lost.deeds(&filling, &filled, |_| true, now)));
    let done = mirror(&[(OLD, Absent), (KEPT, Current), (NEW, Current)]);
    assert_eq!(lost.deeds(&done, &filled, |_| true, now), [Deed::Leave(OLD)]);
    let left = mirror(&[(KEPT, Current), (NEW, Current)]);
    assert_eq!(lost.deeds(&left, &filled, |_| true, now), []);
}

#[test]
fn for_a_member_with_many_read_errors_a_spare_steps_in_at_once_and_it_is_tried_after_an_hour() {
    let mut degraded = mirror(&[(OLD, Absent), (KEPT, Current)]);
    degraded[0].members[0].is_unreliable = true;
    let mut lost = Lost::default();
    let pool_with_spare = pool(None, vec![device("spare", 1 << 30)]);
    let deeds = lost.deeds(&degraded, &pool_with_spare, |_| false, SECOND);
    assert_eq!(deeds, [Deed::Spare(0, device("spare", 1 << 30), OLD)]);
    let (mut lost, pool) = (Lost::default(), pool(None, Vec::new()));
    for minute in 0..60 {
        assert_eq!(lost.deeds(&degraded, &pool, |_| false, SECOND * 60 * minute), []);
    }
    let deeds = lost.deeds(&degraded, &pool, |_| false, UNRELIABLE_PAUSE);
    assert_eq!(deeds, [Deed::Return(OLD)]);
}

#[test]
fn a_replaced_member_stays_until_the_new_one_is_current() {
    let (mut lost, replacing) = (Lost::default(), pool(Some(OLD), Vec::new()));
    let filling = mirror(&[(OLD, Current), (KEPT, Current), (NEW, Resilvering)]);
    assert_eq!(lost.deeds(&filling, &replacing, |_| true, Duration::ZERO), []);
    let done = mirror(&[(OLD, Current), (KEPT, Current), (NEW, Current)]);
    assert_eq!(lost.deeds(&done, &replacing, |_| true, Duration::ZERO), [Deed::Leave(OLD)]);
}

/// A device joined a plain pool, which makes its first device a member, and another one is to take that
/// one's place: what is found of the first two must not make the third one forgotten.
#[test]
fn who_is_just_joining_stays_known_while_others_become_known() {
    let mut configured = pool(Some(OLD), Vec::new());
    configured.mirroring.members.retain(|known| known.uuid != OLD);
    let [mirror] = mirror(&[(OLD, Current), (KEPT, Current)]);
    let device_of =
        |member: &MemberStatus| (member.uuid == OLD).then(|| device("old", 1 << 30).device);
    let known = |is_changing| {
        let members = mirror.members.iter().cloned();
        let known = to_know(members, &configured, device_of, is_changing).unwrap();
        known.into_iter().map(|known| (known.uuid, known.replaces)).collect::<Vec<_>>()
    };
    assert_eq!(known(true), [(OLD, None), (KEPT, None), (NEW, Some(OLD))]);
    assert_eq!(known(false), [(OLD, None), (KEPT, None)], "it has not joined, nor will it");
}

#[test]
fn nothing_is_configured_anew_when_all_members_are_known() {
    let [mirror] = mirror(&[(OLD, Current), (KEPT, Current)]);
    for is_changing in [false, true] {
        let members = mirror.members.iter().cloned();
        assert_eq!(to_know(members, &pool(None, Vec::new()), |_| None, is_changing), None);
    }
}
