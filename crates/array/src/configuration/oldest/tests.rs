use std::collections::BTreeSet;

use super::*;
use crate::Schedule;

const NOON: u64 = 1_800_014_400;

fn schedule(pool: &str) -> Schedule {
    Schedule {
        pool: pool.to_owned(),
        volumes: BTreeSet::from(["a".to_owned()]),
        every_seconds: 3600,
        offset_seconds: 0,
        keep: 100,
        lock_seconds: None,
        enabled: true,
    }
}

/// When a run was, and the snapshots that it made.
type Made<'a> = (u64, &'a [u64]);

/// Schedules of pools, each with its runs.
fn array(schedules: &[(&str, &str, &[Made<'_>])]) -> Configuration {
    let mut array = Configuration::new("iqn.2026-11.io.gantry:test".to_owned());
    for (name, pool, runs) in schedules {
        array.set_schedule(name, schedule(pool), NOON).unwrap();
        for (time, snapshots) in *runs {
            let snapshots: Vec<VolumeId> = snapshots.iter().copied().map(VolumeId).collect();
            array.begin_run(name, NOON + time, &snapshots).unwrap();
        }
    }
    array
}

/// What one search finds, and in how many steps.
fn found(
    array: &Configuration,
    snapshots_max: usize,
    standing: impl Fn(u64) -> Standing,
) -> (Option<u64>, usize) {
    let mut search = OldestSearch::default();
    for steps in 1..1000 {
        match search.step(array, "p", snapshots_max, |id| standing(id.0)) {
            Searched::Part => {}
            Searched::All(found) => return (found.map(|id| id.0), steps),
        }
    }
    panic!("the search does not end");
}

const fn all(_: u64) -> Standing {
    Standing::Deletable
}

#[test]
fn the_oldest_snapshot_of_all_schedules_of_the_pool_is_found() {
    let array = array(&[
        ("daily", "p", &[(20, &[1]), (50, &[2])]),
        ("hourly", "p", &[(10, &[3, 4]), (30, &[5])]),
        ("other", "q", &[(1, &[6]), (2, &[7])]),
    ]);
    assert_eq!(found(&array, 1000, all).0, Some(3));
    assert_eq!(found(&array, 1, all).0, Some(3));
    let without = |gone: &'static [u64]| {
        move |id| if gone.contains(&id) { Standing::Gone } else { Standing::Deletable }
    };
    assert_eq!(found(&array, 1000, without(&[3])).0, Some(4));
    assert_eq!(found(&array, 1000, without(&[3, 4])).0, Some(1));
    assert_eq!(found(&array, 1000, without(&[1, 3, 4])).0, None);
}

#[test]
fn what_is_locked_or_mapped_is_passed_over() {
    let array = array(&[("hourly", "p", &[(10, &[1]), (20, &[2]), (30, &[3]), (40, &[4])])]);
    let kept = |id| if id <= 2 { Standing::Kept } else { Standing::Deletable };
    assert_eq!(found(&array, 1000, kept).0, Some(3));
    assert_eq!(found(&array, 1000, |_| Standing::Kept).0, None);
}

#[test]
fn the_newest_run_that_is_there_stays() {
    let array = array(&[("hourly", "p", &[(10, &[1]), (20, &[2]), (30, &[3])])]);
    // The third run is just being made, or failed.
    let begun = |id| if id == 3 { Standing::Gone } else { Standing::Deletable };
    assert_eq!(found(&array, 1000, begun).0, Some(1));
    let last = |id| if id == 2 { Standing::Deletable } else { Standing::Gone };
    assert_eq!(found(&array, 1000, last).0, None);
    assert_eq!(found(&array, 1000, |_| Standing::Gone).0, None);
}

#[test]
fn a_search_through_many_locked_snapshots_goes_in_bounded_steps() {
    let runs: Vec<(u64, Vec<u64>)> =
        (0..500).map(|run| (run, (run * 10..run * 10 + 10).collect())).collect();
    let runs: Vec<Made<'_>> = runs.iter().map(|(time, all)| (*time, &all[..])).collect();
    let array = array(&[("a", "p", &runs), ("b", "p", &runs)]);
    let locked = |id| if id < 4000 { Standing::Kept } else { Standing::Deletable };
    let (oldest, steps) = found(&array, 100, locked);
    assert_eq!(oldest, Some(4000));
    // 401 runs of ten are looked at in each, ten runs in a step.
    assert!((80..=82).contains(&steps), "{steps}");
    assert_eq!(found(&array, 100, |_| Standing::Kept).0, None);
}

#[test]
fn what_is_gone_costs_steps_too_and_ends_the_search() {
    let runs: Vec<(u64, Vec<u64>)> =
        (0..100).map(|run| (run, (run * 200..run * 200 + 200).collect())).collect();
    let runs: Vec<Made<'_>> = runs.iter().map(|(time, all)| (*time, &all[..])).collect();
    let names: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    let all: Vec<(&str, &str, &[Made<'_>])> =
        names.iter().map(|name| (&name[..], "p", &runs[..])).collect();
    let array = array(&all);
    let mut search = OldestSearch::default();
    for schedule in 1..=20 {
        let looked_at = core::cell::Cell::new(0);
        let searched = search.step(&array, "p", 10, |_| {
            looked_at.set(looked_at.get() + 1);
            Standing::Gone
        });
        // Sixteen runs of one schedule.
        assert_eq!(looked_at.get(), 16 * 200);
        let expected = if schedule == 20 { Searched::All(None) } else { Searched::Part };
        assert_eq!(searched, expected, "schedule {schedule}");
    }
}

#[test]
fn a_search_goes_on_although_its_place_was_forgotten() {
    let mut array = array(&[("a", "p", &[(1, &[1]), (2, &[2]), (3, &[3]), (4, &[4])])]);
    let mut search = OldestSearch::default();
    let kept = |id: VolumeId| if id.0 < 3 { Standing::Kept } else { Standing::Deletable };
    assert_eq!(search.step(&array, "p", 1, kept), Searched::Part);
    array.prune_runs("a", |id| id.0 > 2);
    assert_eq!(search.step(&array, "p", 1, kept), Searched::All(Some(VolumeId(3))));
    array.delete_schedule("a").unwrap();
    assert_eq!(search.step(&array, "p", 1, kept), Searched::All(None));
}
