//! Access states by standing.

use super::*;

const TROUBLES: [Trouble; 8] = [
    Trouble::Absent,
    Trouble::Held,
    Trouble::Changing,
    Trouble::Unfit,
    Trouble::Unchanged,
    Trouble::Silent,
    Trouble::Undecided,
    Trouble::Fenced,
];

#[test]
fn only_a_pool_that_is_open_here_with_all_its_records_is_active() {
    assert_eq!(Standing::Served.access_state(), AccessState::ActiveOptimized);
    let closed = TROUBLES.map(|trouble| Standing::Closed(Some(trouble)));
    for standing in closed.into_iter().chain([Standing::Changing, Standing::Closed(None)]) {
        assert_ne!(standing.access_state(), AccessState::ActiveOptimized, "{standing:?}");
    }
}

#[test]
fn a_pool_that_another_has_or_took_is_standby_and_a_missing_one_is_unavailable() {
    for trouble in [Trouble::Held, Trouble::Fenced, Trouble::Changing] {
        let state = Standing::Closed(Some(trouble)).access_state();
        assert_eq!(state, AccessState::Standby, "{trouble:?}");
    }
    for trouble in [Trouble::Absent, Trouble::Unfit, Trouble::Silent, Trouble::Undecided] {
        let state = Standing::Closed(Some(trouble)).access_state();
        assert_eq!(state, AccessState::Unavailable, "{trouble:?}");
    }
}

#[test]
fn a_volume_whose_pool_nobody_knows_is_standby_while_any_pool_is() {
    let (held, absent) =
        (Standing::Closed(Some(Trouble::Held)), Standing::Closed(Some(Trouble::Absent)));
    for (pools, state) in [
        (vec![Standing::Served, absent, held], AccessState::Standby),
        (vec![absent, Standing::Changing], AccessState::Transitioning),
        (vec![Standing::Served, absent], AccessState::Unavailable),
        (vec![Standing::Served], AccessState::Unavailable),
    ] {
        assert_eq!(state_of_unknown(pools.iter().copied()), state, "{pools:?}");
    }
}

#[test]
fn a_controller_that_lacks_a_pool_to_another_changes_nothing() {
    let held = Standing::Closed(Some(Trouble::Held));
    assert!(may_change([].into_iter()));
    assert!(may_change([Standing::Served, Standing::Closed(Some(Trouble::Absent))].into_iter()));
    assert!(!may_change([Standing::Served, held].into_iter()));
    assert!(!may_change([Standing::Closed(None)].into_iter()));
}
