//! Mirrors with a witness, as several controllers share them: who may open one without some of its members, and what
//! is answered meanwhile.

use super::*;
use crate::mirror::{LISTS, List};

const WITNESS: u8 = 2;

/// A mirror of two members with a witness in slot 2.
fn array() -> Array {
    let mut array = Array::new(2);
    array.disks.push(Disk::default());
    array.change(Change::AttachWitness { device: 0, member: member(WITNESS) }).unwrap();
    array.there.push(WITNESS);
    array.write(0, &pattern(1, 1 << 20));
    array
}

fn shared(array: &Array) -> OpenContext {
    let witnessed = array.witnessed.clone();
    OpenContext { witnessed, shared: true, ..OpenContext::default() }
}

/// What another controller finds on the disks in these slots, that has not heard of anything.
fn opened_elsewhere(array: &Array, slots: &[u8]) -> Result<Array, Failure> {
    let mut other = array.fork();
    other.witnessed.clear();
    let context = shared(&other);
    other.open_with(slots, context)
}

fn is_missing(opened: Result<Array, Failure>) -> bool {
    matches!(opened, Err(Failure::Open(OpenError::MembersMissing { .. })))
}

/// Begins to write, and looks whether that is answered.
fn is_answered(array: &mut Array, value: u64) -> bool {
    array.next_tag += 1;
    let range = ByteRange::new(0, 4096);
    let data = Bytes::from(pattern(value, 4096));
    array.store.submit(Tag(array.next_tag), A, Request::Write { range, data });
    for second in 1..120 {
        array.pump();
        if let Some(done) = array.store.next_done() {
            return done.result.is_ok();
        }
        array.store.tick(Duration::from_secs(second));
    }
    false
}

#[test]
fn with_its_witness_each_member_opens_alone_and_without_it_none_does() {
    let array = array();
    for copy in [0, 1] {
        assert!(is_missing(opened_elsewhere(&array, &[copy])), "{copy}");
        let mut other = opened_elsewhere(&array, &[copy, WITNESS]).unwrap();
        assert_eq!(other.state(1 - copy), MemberState::Absent);
        assert_eq!(other.state(WITNESS), MemberState::Witness);
        assert!(other.read(0, 1 << 20) == pattern(1, 1 << 20));
        other.write(0, &pattern(2, 8192));
        // The other one is stale from then on, whoever asks.
        assert!(is_missing(opened_elsewhere(&other, &[1 - copy])));
        assert!(is_missing(opened_elsewhere(&other, &[1 - copy, WITNESS])));
        let mut again = opened_elsewhere(&other, &[0, 1, WITNESS]).unwrap();
        assert_eq!(again.state(1 - copy), MemberState::Absent);
        assert!(again.read(0, 8192) == pattern(2, 8192));
        let member = MemberSpec { slot: 1 - copy, ..member(1 - copy) };
        again.change(Change::ReturnMember { member }).unwrap();
    }
    let mut both = opened_elsewhere(&array, &[1, 0]).unwrap();
    assert_eq!(both.state(WITNESS), MemberState::WitnessAbsent);
    assert!(both.read(0, 1 << 20) == pattern(1, 1 << 20));
    // It goes on without its witness, so that this says nothing any more.
    both.disks[1].fails = true;
    both.write(0, &pattern(3, 4096));
    both.disks[1].fails = false;
    assert!(is_missing(opened_elsewhere(&both, &[1, WITNESS])));
    assert!(opened_elsewhere(&both, &[0]).unwrap().read(0, 4096) == pattern(3, 4096));
}

#[test]
fn a_member_that_fails_is_left_out_with_the_witness_and_opens_no_more() {
    let mut array = array();
    array.disks[1].fails = true;
    array.write(0, &pattern(2, 4096));
    array.disks[1].fails = false;
    for slots in [&[1, WITNESS][..], &[1], &[0]] {
        assert!(is_missing(opened_elsewhere(&array, slots)), "{slots:?}");
    }
    assert!(
        is_missing(opened_elsewhere(&array, &[0, 1])),
        "whether that took effect only the witness knows"
    );
    for slots in [&[0, WITNESS][..], &[1, WITNESS, 0]] {
        let mut other = opened_elsewhere(&array, slots).unwrap();
        assert!(other.read(0, 4096) == pattern(2, 4096), "{slots:?}");
    }
}

#[test]
fn without_witness_and_member_at_once_nothing_is_answered_until_the_witness_is_back() {
    let mut array = array();
    array.disks[1].fails = true;
    array.disks[usize::from(WITNESS)].fails = true;
    assert!(!is_answered(&mut array, 2));
    let refused = array.store.mirrors().next().unwrap();
    assert!(refused.relies_on_witness());
    // Another controller, which reaches both, goes on with what was answered.
    let mut isolated = array.fork();
    isolated.disks[1].fails = false;
    isolated.disks[usize::from(WITNESS)].fails = false;
    assert!(is_missing(opened_elsewhere(&isolated, &[0])));
    let mut other = opened_elsewhere(&isolated, &[1, WITNESS]).unwrap();
    assert!(other.read(0, 1 << 20) == pattern(1, 1 << 20));
    other.write(0, &pattern(3, 4096));
    let mut again = opened_elsewhere(&other, &[0, 1, WITNESS]).unwrap();
    assert_eq!(again.state(0), MemberState::Absent);
    assert!(again.read(0, 4096) == pattern(3, 4096));
    again.change(Change::ReturnMember { member: member(0) }).unwrap();
    assert!(
        is_missing(opened_elsewhere(&other, &[0, 1])),
        "only the witness knows whose list took effect"
    );
    assert!(is_missing(opened_elsewhere(&other, &[0])));
    // Nobody took it, and the witness is back.
    array.disks[usize::from(WITNESS)].fails = false;
    array.store.change(Tag(899), Change::ReturnMember { member: member(1) });
    array.pump();
    array.store.change(Tag(900), Change::ReturnWitness { member: member(WITNESS) });
    array.wait(900).unwrap();
    assert_eq!(array.state(WITNESS), MemberState::Witness);
    assert_eq!(array.state(1), MemberState::Absent);
    array.write(8192, &pattern(4, 4096));
    assert!(is_missing(opened_elsewhere(&array, &[1, WITNESS])));
    assert!(opened_elsewhere(&array, &[0, WITNESS]).unwrap().read(8192, 4096) == pattern(4, 4096));
}

#[test]
fn a_witness_that_somebody_used_meanwhile_is_not_taken_back() {
    let mut array = array();
    array.disks[1].fails = true;
    array.disks[usize::from(WITNESS)].fails = true;
    assert!(!is_answered(&mut array, 2));
    let mut other = array.fork();
    other.disks.iter_mut().for_each(|disk| disk.fails = false);
    let other = opened_elsewhere(&other, &[1, WITNESS]).unwrap();
    array.disks[usize::from(WITNESS)] = other.disks[usize::from(WITNESS)].clone();
    array.next_tag = 900;
    array.store.change(Tag(901), Change::ReturnWitness { member: member(WITNESS) });
    assert!(matches!(array.wait(901), Err(Failure::Change(ChangeError::NotThatMember))));
}

/// The newest list on a disk.
fn own_list(array: &Array, slot: u8) -> List {
    let disk = &array.disks[usize::from(slot)];
    let lists = LISTS.iter().filter_map(|at| List::parse(disk.now.get(&at.number())?));
    lists.max_by_key(|list| list.generation).unwrap()
}

#[test]
fn what_an_isolated_owner_proposed_never_counts_however_new_it_is() {
    let mut array = array();
    array.disks[1].fails = true;
    array.disks[usize::from(WITNESS)].fails = true;
    assert!(!is_answered(&mut array, 2));
    array.disks.iter_mut().for_each(|disk| disk.fails = false);
    let proposed = own_list(&array, 0);
    assert!(proposed.generation > own_list(&array, 1).generation);
    // As if it had proposed many.
    let later = List { generation: proposed.generation + 10, ..proposed };
    let place = List::place(later.generation).number();
    array.disks[0].now.insert(place, Bytes::copy_from_slice(&later.emit()));
    let mut other = opened_elsewhere(&array, &[1, WITNESS]).unwrap();
    other.write(0, &pattern(3, 4096));
    assert!(own_list(&other, 1).generation < later.generation);
    for slots in [&[0, 1, WITNESS][..], &[WITNESS, 1]] {
        let mut again = opened_elsewhere(&other, slots).unwrap();
        assert!(again.read(0, 4096) == pattern(3, 4096), "{slots:?}");
        if slots.len() == 3 {
            assert_eq!(again.state(0), MemberState::Absent);
            again.change(Change::ReturnMember { member: member(0) }).unwrap();
            assert!(own_list(&again, 0).generation > later.generation);
        }
    }
    // Without the witness nobody knows which of the two took effect.
    assert!(is_missing(opened_elsewhere(&other, &[0, 1])));
}

#[test]
fn a_witness_that_takes_no_list_is_left_out_again_and_nothing_is_lost() {
    let mut array = array();
    array.disks[1].fails = true;
    array.disks[usize::from(WITNESS)].fails = true;
    assert!(!is_answered(&mut array, 2));
    // It answers reads and no writes.
    array.disks[usize::from(WITNESS)].fails = false;
    array.disks[usize::from(WITNESS)].refuses_writes = true;
    for round in 0..3 {
        array.store.change(Tag(1000 + round), Change::ReturnWitness { member: member(WITNESS) });
        assert!(array.wait(1000 + round).is_err(), "round {round}");
        assert_eq!(array.state(WITNESS), MemberState::WitnessAbsent);
    }
    array.disks[usize::from(WITNESS)].refuses_writes = false;
    array.store.change(Tag(1100), Change::ReturnWitness { member: member(WITNESS) });
    array.wait(1100).unwrap();
    assert!(is_missing(opened_elsewhere(&array, &[1, WITNESS])));
    assert!(opened_elsewhere(&array, &[0, WITNESS]).unwrap().read(0, 4096) == pattern(2, 4096));
}

/// A mirror whose second member was away and comes back; the list that says so is still on its way to the witness, which
/// hangs, and is left out for it.
fn with_a_list_on_its_way() -> Array {
    let mut array = array();
    array.disks[1].fails = true;
    array.write(0, &pattern(2, 4096));
    array.disks[1].fails = false;
    array.disks[usize::from(WITNESS)].hangs = true;
    array.change(Change::ReturnMember { member: member(1) }).unwrap();
    array.settle();
    let states = [0, 1, WITNESS].map(|slot| array.state(slot));
    assert_eq!(
        states,
        [MemberState::Current, MemberState::Current, MemberState::WitnessAbsent],
        "it goes on without"
    );
    array
}

/// What hung is carried out at last; `told` if the store hears of it.
fn let_go(array: &mut Array, told: bool) {
    array.disks[usize::from(WITNESS)].hangs = false;
    for Io { id, operation, .. } in std::mem::take(&mut array.held) {
        let result = array.disks[usize::from(WITNESS)].serve(operation);
        if told {
            array.store.completed(id, result);
        }
    }
}

#[test]
fn a_list_that_comes_to_the_witness_late_does_not_overrule_those_that_follow_it() {
    let mut array = with_a_list_on_its_way();
    array.disks[0].fails = true;
    array.write(0, &pattern(3, 4096));
    // Its owner is dead, another one opens it without the witness and goes on, and then it comes.
    let mut again = opened_elsewhere(&array, &[1]).unwrap();
    again.write(4096, &pattern(4, 4096));
    let_go(&mut array, false);
    again.disks[usize::from(WITNESS)] = array.disks[usize::from(WITNESS)].clone();
    for mut one in [array, again] {
        one.disks[0].fails = false;
        let late = own_list(&one, WITNESS);
        assert_eq!(late.entry([101; 16]).unwrap().state, MemberState::Resilvering);
        assert!(own_list(&one, 1).basis < late.generation);
        let left = one.fork().open_with(&[1], shared(&one)).unwrap().read(0, 8192);
        assert!(left[..4096] == pattern(3, 4096));
        for slots in [&[0, 1, WITNESS][..], &[1, WITNESS], &[1]] {
            let mut other = opened_elsewhere(&one, slots).unwrap();
            assert_eq!(other.state(0), MemberState::Absent, "{slots:?}");
            assert!(other.read(0, 8192) == left, "{slots:?}");
        }
        assert!(is_missing(opened_elsewhere(&one, &[0, WITNESS])));
        assert!(is_missing(opened_elsewhere(&one, &[0])));
        // Whoever opened it without the witness takes it back.
        let mut other = opened_elsewhere(&one, &[1]).unwrap();
        other.change(Change::ReturnWitness { member: member(WITNESS) }).unwrap();
        assert_eq!(other.state(WITNESS), MemberState::Witness);
        assert!(is_missing(opened_elsewhere(&other, &[0, WITNESS])));
    }
}

#[test]
fn a_witness_that_comes_back_with_a_list_on_its_way_and_fails_at_the_next_overrules_nothing() {
    let mut array = with_a_list_on_its_way();
    let_go(&mut array, true);
    array.disks[usize::from(WITNESS)].refuses_writes = true;
    assert!(array.change(Change::ReturnWitness { member: member(WITNESS) }).is_err());
    array.settle();
    assert!(!array.store.mirrors().next().unwrap().relies_on_witness());
    array.disks[0].fails = true;
    array.write(0, &pattern(3, 4096));
    array.disks[0].fails = false;
    for slots in [&[0, 1, WITNESS][..], &[1, WITNESS], &[1]] {
        let mut other = opened_elsewhere(&array, slots).unwrap();
        assert!(other.read(0, 4096) == pattern(3, 4096), "{slots:?}");
    }
    assert!(is_missing(opened_elsewhere(&array, &[0, WITNESS])));
}

#[test]
fn a_member_comes_back_when_the_list_that_left_it_out_is_in_effect_and_not_before() {
    let mut array = array();
    array.disks[1].fails = true;
    array.disks[usize::from(WITNESS)].fails = true;
    assert!(!is_answered(&mut array, 2));
    array.disks[1].fails = false;
    array.store.change(Tag(901), Change::ReturnMember { member: member(1) });
    array.pump();
    // A list without the witness that calls it resilvering would open the first member alone, and it may lack that list.
    assert_eq!(array.state(1), MemberState::Absent);
    assert!(is_missing(opened_elsewhere(&array, &[0])));
    array.disks[usize::from(WITNESS)].fails = false;
    array.change(Change::ReturnWitness { member: member(WITNESS) }).unwrap();
    array.settle();
    assert_eq!(array.state(1), MemberState::Current);
}

#[test]
fn a_witness_that_left_says_nothing_and_another_one_takes_its_place() {
    let mut array = array();
    let second = array.change(Change::AttachWitness { device: 0, member: member(3) });
    assert!(matches!(second, Err(Failure::Change(ChangeError::WitnessRefused))));
    array.change(Change::DetachMember { member: [100 + WITNESS; 16] }).unwrap();
    assert!(!array.store.mirrors().next().unwrap().relies_on_witness());
    for slots in [&[0, WITNESS][..], &[1, WITNESS], &[0]] {
        assert!(is_missing(opened_elsewhere(&array, slots)), "{slots:?}");
    }
    array.disks.push(Disk::default());
    array.change(Change::AttachWitness { device: 0, member: member(3) }).unwrap();
    assert!(is_missing(opened_elsewhere(&array, &[0, WITNESS])));
    assert!(opened_elsewhere(&array, &[0, 3]).is_ok());
    // An administrator opens without it, and it counts for nothing then.
    let context = OpenContext { allow_degraded: true, shared: true, ..OpenContext::default() };
    let mut forced = array.fork().open_with(&[0], context).unwrap();
    forced.write(0, &pattern(5, 4096));
    assert_eq!(forced.state(3), MemberState::WitnessAbsent);
    assert!(opened_elsewhere(&forced, &[0]).unwrap().read(0, 4096) == pattern(5, 4096));
}

#[test]
fn a_plain_device_has_no_witness() {
    let mut array = Array::of(vec![DeviceSpec::plain(member(0))]);
    array.disks.push(Disk::default());
    let refused = array.change(Change::AttachWitness { device: 0, member: member(1) });
    assert!(matches!(refused, Err(Failure::Change(ChangeError::WitnessRefused))));
}

#[test]
fn after_a_restart_nobody_waits_for_whom_no_list_needs_any_more() {
    // The witness was left out, and then a member fails.
    let mut without = array();
    without.change(Change::DetachMember { member: [100 + WITNESS; 16] }).unwrap();
    let mut again = opened_elsewhere(&without, &[0, 1]).unwrap();
    again.disks[1].fails = true;
    again.write(0, &pattern(2, 4096));
    let mut lost = array();
    lost.disks[usize::from(WITNESS)].fails = true;
    lost.store.lose(WITNESS);
    lost.write(0, &pattern(2, 4096));
    lost.settle();
    let mut again = opened_elsewhere(&lost, &[0, 1]).unwrap();
    again.disks[1].fails = true;
    again.write(0, &pattern(3, 4096));
    // A member was left out, and then the witness fails.
    let mut degraded = array();
    degraded.disks[1].fails = true;
    degraded.write(0, &pattern(2, 4096));
    let mut again = opened_elsewhere(&degraded, &[0, WITNESS]).unwrap();
    again.disks[usize::from(WITNESS)].fails = true;
    again.store.lose(WITNESS);
    again.write(0, &pattern(3, 4096));
    again.settle();
    assert!(opened_elsewhere(&again, &[0]).unwrap().read(0, 4096) == pattern(3, 4096));
    // An administrator opened one of two, and the other one is detached.
    let context = OpenContext { allow_degraded: true, shared: true, ..OpenContext::default() };
    let forced = array().open_with(&[0], context).unwrap();
    let mut again = opened_elsewhere(&forced, &[0]).unwrap();
    again.change(Change::DetachMember { member: [101; 16] }).unwrap();
    again.change(Change::DetachMember { member: [100 + WITNESS; 16] }).unwrap();
    again.write(0, &pattern(4, 4096));
}
