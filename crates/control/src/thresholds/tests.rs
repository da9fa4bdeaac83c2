use super::*;
use crate::Note;

const VOLUME: VolumeId = VolumeId(7);
const THRESHOLDS: Thresholds = Thresholds { soft_percent: 75, hard_percent: 90 };

fn volume(mapped_bytes: u64) -> VolumeFill<'static> {
    VolumeFill { pool: "p", name: "v", mapped_bytes, size_bytes: 100, thresholds: THRESHOLDS }
}

fn space(used: u64) -> Space {
    Space { used, total: 100, ..Space::default() }
}

fn severities(effects: &[Effect]) -> Vec<Severity> {
    let severity = |effect: &Effect| match effect {
        Effect::Note(note) => Some(note.severity),
        _ => None,
    };
    effects.iter().filter_map(severity).collect()
}

#[test]
fn a_volume_that_reaches_a_threshold_is_told_once_to_administrators_and_hosts() {
    let mut told = LastNotified::default();
    assert_eq!(told.look_at_volume(VOLUME, volume(74)), []);
    let note = Note {
        severity: Severity::Warning,
        object: "volume p/v".to_owned(),
        message: "is 75 % full, the soft threshold is 75 %".to_owned(),
    };
    let expected = [Effect::Note(note), warn_hosts(VOLUME)];
    assert_eq!(told.look_at_volume(VOLUME, volume(75)), expected);
    assert_eq!(told.look_at_volume(VOLUME, volume(75)), []);
    assert_eq!(told.volume(VOLUME), Fill::Soft);
}

/// Whoever writes and unmaps around a threshold fills no log.
#[test]
fn a_fill_that_oscillates_around_a_threshold_is_told_once() {
    let (mut told, mut of_volume, mut of_pool) = (LastNotified::default(), Vec::new(), Vec::new());
    for round in 0..1000 {
        let used = 89 + round % 2;
        of_volume.extend(told.look_at_volume(VOLUME, volume(used)));
        of_pool.extend(told.look_at_pool("p", &space(used), THRESHOLDS, [].into_iter()));
    }
    // The soft threshold at once, the hard one with the next look.
    assert_eq!(severities(&of_volume), [Severity::Warning, Severity::Error]);
    assert_eq!(severities(&of_pool), [Severity::Warning, Severity::Error]);
    assert_eq!((of_volume.len(), of_pool.len()), (4, 2));
}

#[test]
fn both_thresholds_at_once_are_one_alarm_and_the_way_down_is_told_step_by_step() {
    let mut told = LastNotified::default();
    assert_eq!(severities(&told.look_at_volume(VOLUME, volume(100))), [Severity::Error]);
    let mut seen = Vec::new();
    for mapped in (0..100).rev() {
        let effects = told.look_at_volume(VOLUME, volume(mapped));
        assert!(!effects.contains(&warn_hosts(VOLUME)), "hosts are not told of space");
        seen.extend(severities(&effects));
    }
    assert_eq!(seen, [Severity::Information; 2]);
    assert_eq!(told.volume(VOLUME), Fill::Normal);
}

#[test]
fn hosts_hear_of_a_pool_only_at_its_hard_threshold() {
    let (mut told, thin) = (LastNotified::default(), [VolumeId(1), VolumeId(2)]);
    let mut look = |used| told.look_at_pool("p", &space(used), THRESHOLDS, thin.into_iter());
    assert_eq!(look(80).len(), 1);
    assert_eq!(look(95)[1..], [warn_hosts(VolumeId(1)), warn_hosts(VolumeId(2))]);
    assert_eq!(look(95), []);
    assert_eq!(severities(&look(10)), [Severity::Information]);
}

#[test]
fn other_thresholds_are_told_anew() {
    let mut told = LastNotified::default();
    assert_eq!(told.look_at_volume(VOLUME, volume(80)).len(), 2);
    told.forget_volume(VOLUME);
    assert_eq!(told.look_at_volume(VOLUME, volume(80)).len(), 2);
    told.retain(|_| true, |_| false);
    assert_eq!(told.volume(VOLUME), Fill::Normal);
}

#[test]
fn a_metadata_reserve_between_half_and_whole_tells_nothing() {
    let mut told = LastNotified::default();
    let steps = [
        (100, None),
        (50, None),
        (49, Some(Severity::Error)),
        (0, None),
        (99, None),
        (49, None),
        (100, Some(Severity::Information)),
        (100, None),
        (1, Some(Severity::Error)),
    ];
    for (metadata_left, expected) in steps {
        let space = Space { metadata_left, metadata_reserve: 100, ..Space::default() };
        let effects: Vec<Effect> = told.look_at_metadata_reserve("p", &space).into_iter().collect();
        assert_eq!(severities(&effects), Vec::from_iter(expected), "{metadata_left}");
    }
}

#[test]
fn an_empty_pool_or_volume_is_not_full() {
    assert_eq!(used_percent(&Space::default()), 0);
    assert_eq!(percent_of(0, 0), 0);
    assert_eq!(percent_of(u64::MAX, 1), 100);
    assert_eq!(percent_of(u64::MAX, u64::MAX), 100);
}
