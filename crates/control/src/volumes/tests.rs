use std::collections::BTreeMap;

use super::*;
use crate::change::tests::{NOW, World, empty, make, refusal, snapshot, volume};

fn tags() -> SetTags {
    SetTags { tags: BTreeMap::from([("env".to_owned(), "prod".to_owned())]) }
}

fn kind(problem: &Problem) -> ProblemKind {
    *ProblemKind::ALL.iter().find(|kind| kind.urn() == problem.kind).unwrap()
}

#[test]
fn what_is_asked_of_the_wrong_kind_or_of_what_goes_is_refused_before_anything_changes() {
    let going = |found: Found| Found { is_going: true, ..found };
    let until = LockSnapshot { until: NOW + 1 };
    for (refused, expected) in [
        (tag_volume(tags(), snapshot()), ProblemKind::IsSnapshot),
        (tag_volume(tags(), going(snapshot())), ProblemKind::IsSnapshot),
        (tag_volume(tags(), going(volume())), ProblemKind::Conflict),
        (tag_snapshot(tags(), volume()), ProblemKind::IsVolume),
        (tag_snapshot(tags(), going(snapshot())), ProblemKind::Conflict),
        (lock(until, volume()), ProblemKind::Conflict),
        (lock(until, going(snapshot())), ProblemKind::Conflict),
    ] {
        assert_eq!(kind(&refused.unwrap_err()), expected);
    }
}

#[test]
fn tags_are_answered_as_the_kind_of_object_that_was_asked_for() {
    let (mut draft, world) = (empty(), World::new());
    let applied = make(&mut draft, &world, &tag_volume(tags(), volume()).unwrap()).unwrap();
    assert_eq!(applied.answer, Answer::Volume(volume().place()));
    let applied = make(&mut draft, &world, &tag_snapshot(tags(), snapshot()).unwrap()).unwrap();
    assert_eq!(applied.answer, Answer::Snapshot(snapshot().place()));
    assert_eq!((applied.touched, applied.effects), (Touched::Nobody, Vec::new()));
    assert_eq!(draft.array.tags(Tagged::Volume(VolumeId(3))), tags().tags);
}

#[test]
fn a_volume_with_other_thresholds_is_told_of_again() {
    let (mut draft, world) = (empty(), World::new());
    let percent = |soft_percent, hard_percent| api::Thresholds { soft_percent, hard_percent };
    let change = set_thresholds(percent(40, 50), &volume());
    let applied = make(&mut draft, &world, &change).unwrap();
    assert_eq!(applied.effects, [Effect::Forget(Forgotten::VolumeFill(volume().id))]);
    let wrong = set_thresholds(percent(50, 40), &volume());
    assert_eq!(refusal(&mut draft, &world, &wrong), ProblemKind::InvalidRequest);
    let defaults = thresholds::describe(Thresholds::default());
    make(&mut draft, &world, &set_thresholds(defaults, &volume())).unwrap();
    assert_eq!(draft, empty());
}

/// Two settings of one volume in one save: the second one is made on what the first one left.
#[test]
fn hidden_reservations_are_told_to_hosts_and_keep_what_else_is_shown() {
    let (mut draft, world) = (empty(), World::new());
    let own = api::Identification { vendor: "ACME".to_owned(), product: "DISK".to_owned() };
    make(&mut draft, &world, &set_identification(&own, &volume()).unwrap()).unwrap();
    let hide = set_reservations(SetReservations { hidden: true }, &volume());
    let applied = make(&mut draft, &world, &hide).unwrap();
    let told = ExportEvent::ReservationsHidden(volume().id, true);
    assert_eq!(applied.effects, [Effect::Tell(told)]);
    assert_eq!(applied.answer, Answer::Volume(volume().place()));
    make(&mut draft, &world, &delete_identification(&volume())).unwrap();
    let presentation = draft.array.presentation(volume().id);
    assert!(presentation.reservations_hidden && presentation.identification.is_none());
}

#[test]
fn a_lock_is_counted_from_the_moment_of_the_change_and_never_shortened() {
    let (mut draft, world) = (empty(), World::new());
    let locked = |until| lock(LockSnapshot { until }, snapshot()).unwrap();
    for until in [0, NOW - 1, NOW, u64::MAX] {
        assert_eq!(refusal(&mut draft, &world, &locked(until)), ProblemKind::InvalidRequest);
    }
    let applied = make(&mut draft, &world, &locked(NOW + 100)).unwrap();
    assert_eq!(applied.answer, Answer::Snapshot(snapshot().place()));
    assert_eq!(refusal(&mut draft, &world, &locked(NOW + 99)), ProblemKind::SnapshotLocked);
    make(&mut draft, &world, &locked(NOW + 200)).unwrap();
    assert_eq!(draft.array.locked_until(snapshot().id), Some(NOW + 200));
}
