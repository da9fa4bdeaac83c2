mod nvme;

use serde::{Deserialize, Serialize};

use super::*;

/// A registrant as iSCSI names it: the form in which registrations have always been stored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Registrant {
    initiator_name: String,
    isid: [u8; 6],
    relative_target_port: u16,
}

type State = Reservations<Registrant>;

const KINDS: [ReservationType; 6] = [
    ReservationType::WriteExclusive,
    ReservationType::ExclusiveAccess,
    ReservationType::WriteExclusiveRegistrantsOnly,
    ReservationType::ExclusiveAccessRegistrantsOnly,
    ReservationType::WriteExclusiveAllRegistrants,
    ReservationType::ExclusiveAccessAllRegistrants,
];

fn who(name: &str) -> Registrant {
    Registrant { initiator_name: name.to_owned(), isid: [0; 6], relative_target_port: 1 }
}

fn register(state: &State, name: &str, key: u64) -> State {
    let by = &who(name);
    let request = Registration {
        by,
        key: None,
        new_key: key,
        everyone: vec![by.clone()],
        names_others: false,
        persists: Some(true),
    };
    state.register(request).unwrap().state
}

/// Registered: a (key 1), b (key 2), c (key 2); a holds.
fn held_by_a(kind: ReservationType) -> State {
    let mut state = State::default();
    for (name, key) in [("a", 1), ("b", 2), ("c", 2)] {
        state = register(&state, name, key);
    }
    state.reserve(&who("a"), 1, kind).unwrap().state
}

fn told(transition: &Transition<Registrant>) -> Vec<(&str, Notice)> {
    transition.told.iter().map(|(who, notice)| (&who.initiator_name[..], *notice)).collect()
}

#[test]
fn each_type_keeps_out_whom_it_says() {
    use Access::{Read, Write};
    for kind in KINDS {
        let state = held_by_a(kind);
        let for_readers = kind.excludes_readers();
        let for_registrants = !kind.admits_registrants();
        assert!(!state.conflicts(&who("a"), Read) && !state.conflicts(&who("a"), Write));
        assert_eq!(state.conflicts(&who("b"), Write), for_registrants, "{kind:?}");
        assert_eq!(state.conflicts(&who("b"), Read), for_registrants && for_readers);
        assert!(state.conflicts(&who("x"), Write));
        assert_eq!(state.conflicts(&who("x"), Read), for_readers);
    }
}

#[test]
fn another_port_of_the_same_initiator_is_another_nexus() {
    let state = held_by_a(ReservationType::WriteExclusive);
    let other_session = Registrant { isid: [1; 6], ..who("a") };
    let other_port = Registrant { relative_target_port: 2, ..who("a") };
    assert!(state.conflicts(&other_session, Access::Write));
    assert!(state.conflicts(&other_port, Access::Write));
}

#[test]
fn a_release_tells_registrants_only_where_they_were_let_in() {
    for kind in KINDS {
        let state = held_by_a(kind);
        let released = state.release(&who("a"), 1, Some(kind)).unwrap();
        assert_eq!(released.state.reservation(), None);
        let notice = Notice::ReservationReleased;
        let expected =
            if kind.admits_registrants() { vec![("b", notice), ("c", notice)] } else { vec![] };
        assert_eq!(told(&released), expected, "{kind:?}");
        assert_eq!(released.state.generation(), 3);
        let wrong = KINDS[(KINDS.iter().position(|k| *k == kind).unwrap() + 1) % 6];
        for wrong in [Some(wrong), None] {
            let refused = state.release(&who("a"), 1, wrong).unwrap_err();
            assert_eq!(refused, Refusal::OtherType);
        }
    }
}

#[test]
fn a_release_by_who_does_not_hold_it_does_nothing() {
    let state = held_by_a(ReservationType::WriteExclusive);
    let same = state.release(&who("b"), 2, Some(ReservationType::ExclusiveAccess)).unwrap();
    assert_eq!(same.state, state);
}

#[test]
fn the_reservation_goes_with_its_holder_or_with_the_last_registrant() {
    for kind in KINDS {
        let state = register(&held_by_a(kind), "a", 0);
        assert_eq!(state.reservation().is_some(), kind.is_held_by_all());
        let state = register(&register(&state, "b", 0), "c", 0);
        assert_eq!(state.reservation(), None);
        assert!(state.keys().is_empty() && state.durable().is_none());
    }
}

#[test]
fn preempting_the_holder_takes_the_reservation_over() {
    for kind in KINDS.into_iter().filter(|kind| !kind.is_held_by_all()) {
        let state = held_by_a(kind);
        let taken = state.preempt(&who("b"), 2, 1, Some(KINDS[0])).unwrap();
        let mut expected = vec![("a", Notice::RegistrationPreempted)];
        if kind != KINDS[0] {
            expected.push(("c", Notice::ReservationReleased));
        }
        assert_eq!(told(&taken), expected);
        assert_eq!(taken.preempted, [who("a")]);
        assert!(taken.state.is_holder(&who("b")));
        assert_eq!(taken.state.key_of(&who("a")), None);
        assert_eq!(taken.state.generation(), 4);
        assert!(state.preempt(&who("b"), 2, 1, None).is_err());
    }
}

#[test]
fn preempting_registrants_leaves_the_reservation() {
    for kind in KINDS {
        let state = held_by_a(kind);
        let without = state.preempt(&who("a"), 1, 2, None).unwrap();
        assert_eq!(without.preempted, [who("b"), who("c")]);
        assert_eq!(without.state.reservation(), state.reservation());
        let unknown = state.preempt(&who("a"), 1, 9, None).unwrap_err();
        assert_eq!(unknown, Refusal::UnknownKey);
    }
}

#[test]
fn zero_preempts_all_registrants_and_nothing_else() {
    let state = held_by_a(ReservationType::WriteExclusiveAllRegistrants);
    let taken = state.preempt(&who("b"), 2, 0, Some(KINDS[1])).unwrap();
    assert_eq!(taken.state.keys().len(), 1);
    assert_eq!(taken.preempted, [who("a"), who("c")]);
    assert!(taken.state.is_holder(&who("b")));
    let state = held_by_a(ReservationType::WriteExclusive);
    let refused = state.preempt(&who("b"), 2, 0, Some(KINDS[1])).unwrap_err();
    assert_eq!(refused, Refusal::ZeroKey);
}

#[test]
fn who_preempts_its_own_key_stays_registered_only_as_the_holder() {
    let state = held_by_a(ReservationType::WriteExclusive);
    let own = state.preempt(&who("a"), 1, 1, Some(KINDS[1])).unwrap();
    assert!(own.state.is_holder(&who("a")) && own.preempted.is_empty());
    let own = state.preempt(&who("b"), 2, 2, None).unwrap();
    assert_eq!(own.state.keys().len(), 1);
    assert_eq!(told(&own), [("c", Notice::RegistrationPreempted)]);
}

#[test]
fn a_moved_reservation_has_its_new_holder_registered() {
    let state = held_by_a(ReservationType::ExclusiveAccess);
    let holder = who("a");
    let request = |unregister| Move {
        by: &holder,
        key: 1,
        new_key: 7,
        to: who("x"),
        unregister,
        persists: false,
    };
    for unregister in [false, true] {
        let moved = state.register_and_move(request(unregister)).unwrap();
        assert!(moved.state.is_holder(&who("x")));
        assert_eq!(moved.state.key_of(&who("x")), Some(7));
        assert_eq!(moved.state.key_of(&who("a")).is_some(), !unregister);
        assert!(moved.told.is_empty());
    }
    let all = held_by_a(ReservationType::ExclusiveAccessAllRegistrants);
    assert!(all.register_and_move(request(false)).is_err());
    let to_itself = Move { to: who("a"), ..request(false) };
    assert!(state.register_and_move(to_itself).is_err());
}

#[test]
fn what_is_durable_comes_back_without_its_generation() {
    let state = held_by_a(ReservationType::WriteExclusiveRegistrantsOnly);
    let back = State::restore(state.durable().unwrap());
    assert_eq!((back.keys(), back.reservation()), (state.keys(), state.reservation()));
    assert_eq!((back.generation(), back.persists()), (0, true));
    let orphan = DurableReservations { keys: vec![], ..state.durable().unwrap() };
    assert_eq!(State::restore(orphan).reservation(), None);
}

#[test]
fn a_registration_that_says_nothing_of_power_leaves_that_as_it_was() {
    let state = held_by_a(ReservationType::WriteExclusive);
    let by = &who("b");
    let again = |persists| Registration {
        by,
        key: Some(2),
        new_key: 3,
        everyone: vec![by.clone()],
        names_others: false,
        persists,
    };
    assert!(state.register(again(None)).unwrap().state.persists());
    let off = state.register(again(Some(false))).unwrap().state;
    assert!(!off.persists() && off.durable().is_none());
}

// The file of a volume as the daemon has written it since APTPL is supported.
#[test]
fn what_was_stored_before_reads_and_is_written_byte_for_byte() {
    const STORED: &str = r#"{"keys":[[{"initiator_name":"a","isid":[0,0,0,0,0,0],"relative_target_port":1},1],[{"initiator_name":"b","isid":[0,0,0,0,0,0],"relative_target_port":1},2],[{"initiator_name":"c","isid":[0,0,0,0,0,0],"relative_target_port":1},2]],"reservation":{"kind":"ExclusiveAccessRegistrantsOnly","holder":{"initiator_name":"a","isid":[0,0,0,0,0,0],"relative_target_port":1}}}"#;
    let durable = held_by_a(ReservationType::ExclusiveAccessRegistrantsOnly).durable().unwrap();
    assert_eq!(serde_json::to_string(&durable).unwrap(), STORED);
    let read: DurableReservations<Registrant> = serde_json::from_str(STORED).unwrap();
    assert_eq!(State::restore(read).durable(), Some(durable));
    for kind in KINDS {
        assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind:?}\""));
    }
}
