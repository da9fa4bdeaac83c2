use super::*;

const QUIET: Look = Look {
    used_percent: 89,
    hard_percent: 90,
    is_deleting: false,
    releasing: Releasing::Nothing,
    checkpoints: 7,
};

const FULL: Look = Look { used_percent: 90, ..QUIET };

fn deleted() -> Pressure {
    let mut pressure = Pressure::default();
    pressure.deleted(true);
    pressure
}

#[test]
fn a_pool_below_its_hard_threshold_deletes_nothing() {
    assert_eq!(Pressure::default().decide(&QUIET), Decision::Rest);
    assert_eq!(deleted().decide(&QUIET), Decision::Rest);
}

#[test]
fn a_pool_at_its_hard_threshold_deletes_unless_space_is_coming_already() {
    assert_eq!(Pressure::default().decide(&FULL), Decision::Delete);
    for look in
        [Look { is_deleting: true, ..FULL }, Look { releasing: Releasing::Subtrees, ..FULL }]
    {
        assert_eq!(Pressure::default().decide(&look), Decision::Wait, "{look:?}");
    }
    let references = Look { releasing: Releasing::References, ..FULL };
    assert_eq!(Pressure::default().decide(&references), Decision::Delete);
}

#[test]
fn the_next_one_waits_until_the_space_of_the_last_one_is_counted() {
    let mut pressure = deleted();
    let subtrees = Look { releasing: Releasing::Subtrees, ..FULL };
    let references = |checkpoints| Look { releasing: Releasing::References, checkpoints, ..FULL };
    assert_eq!(pressure.decide(&subtrees), Decision::Wait);
    assert_eq!(pressure.decide(&references(8)), Decision::Wait);
    assert_eq!(pressure.decide(&references(9)), Decision::Wait);
    assert_eq!(pressure.decide(&references(10)), Decision::Delete);
    assert_eq!(deleted().decide(&FULL), Decision::Delete);
}

#[test]
fn an_attempt_that_failed_is_not_made_again_at_once() {
    let mut pressure = Pressure::default();
    pressure.deleted(false);
    for _ in 0..DELETION_RETRY_LOOKS {
        assert_eq!(pressure.decide(&FULL), Decision::Wait);
    }
    assert_eq!(pressure.decide(&FULL), Decision::Delete);
}

#[test]
fn a_deletion_that_ended_with_its_pool_stands_in_nobodys_way() {
    let deleting = Some(Deleting { id: VolumeId(7), name: "s".to_owned(), look: FULL });
    let mut pressure = Pressure { deleting, ..Pressure::default() };
    let deletes = Look { is_deleting: true, ..FULL };
    assert_eq!(pressure.decide(&deletes), Decision::Wait);
    assert!(pressure.deleting.is_some());
    assert_eq!(pressure.decide(&FULL), Decision::Wait);
    assert!(pressure.deleting.is_none());
    assert_eq!(pressure.looks_to_pass, DELETION_RETRY_LOOKS - 1);
}

#[test]
fn that_nothing_is_left_is_told_again_after_there_was_space() {
    let mut pressure = Pressure { is_exhausted: true, ..Pressure::default() };
    assert_eq!(pressure.decide(&FULL), Decision::Delete);
    assert!(pressure.is_exhausted);
    assert_eq!(pressure.decide(&QUIET), Decision::Rest);
    assert!(!pressure.is_exhausted);
}

#[test]
fn the_oldest_deletable_snapshot_goes_and_its_end_is_told_once() {
    let mut array = Configuration::new("iqn.2026-11.io.gantry:test".to_owned());
    let schedule = array::Schedule {
        pool: "p".to_owned(),
        volumes: ["a".to_owned()].into(),
        every_seconds: 60,
        offset_seconds: 0,
        keep: 9,
        lock_seconds: None,
        enabled: true,
    };
    array.set_schedule("s", schedule, 0).unwrap();
    for run in 1..=3 {
        array.begin_run("s", run * 60, &[VolumeId(run)]).unwrap();
    }
    let find = |id: VolumeId| Some(Snapshot { name: "n", is_deletable: id != VolumeId(1) });
    let mut relief = Relief::default();
    let deletion = Deletion { pool: "p".to_owned(), id: VolumeId(2) };
    assert_eq!(relief.look("p", FULL, &array, find), Some(Effect::Delete(deletion)));
    // Another one that an administrator deletes is no affair of the array's.
    assert_eq!(relief.deleted("p", VolumeId(1), Ok(())), []);
    let told = relief.deleted("p", VolumeId(2), Ok(()));
    assert!(matches!(&told[..], [Effect::Audit { status: 200, .. }, Effect::Note(_)]), "{told:?}");
    assert_eq!(relief.deleted("p", VolumeId(2), Ok(())), []);
    assert_eq!(relief.deleted_of("p"), 1);
    let exhausted = |relief: &mut Relief| {
        relief.look("p", FULL, &array, |_| Some(Snapshot { name: "n", is_deletable: false }))
    };
    assert!(matches!(exhausted(&mut relief), Some(Effect::Note(_))));
    assert_eq!(exhausted(&mut relief), None);
}
