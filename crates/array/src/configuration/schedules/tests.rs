use super::*;

const NOON: u64 = 1_800_014_400;

fn hourly() -> Schedule {
    Schedule {
        pool: "p".to_owned(),
        volumes: BTreeSet::from(["a".to_owned()]),
        every_seconds: 3600,
        offset_seconds: 0,
        keep: 2,
        lock_seconds: None,
        enabled: true,
    }
}

fn array_with(schedule: Schedule, now: u64) -> Configuration {
    let mut array = Configuration::new("iqn.2026-11.io.gantry:test".to_owned());
    array.set_schedule("hourly", schedule, now).unwrap();
    array
}

fn due(array: &Configuration, now: u64) -> Due {
    array.schedule("hourly").unwrap().due(now)
}

#[test]
fn a_schedule_waits_for_the_next_multiple_of_its_period() {
    let array = array_with(hourly(), NOON + 5);
    assert_eq!(array.schedule("hourly").unwrap().next(), Some(NOON + 3600));
    assert_eq!(due(&array, NOON + 5), Due::NotYet);
    assert_eq!(due(&array, NOON + 3599), Due::NotYet);
    for now in [NOON + 3600, NOON + 3601, NOON + 7199] {
        assert_eq!(due(&array, now), Due::Run { moment: NOON + 3600, missed: 0 });
    }
}

#[test]
fn an_offset_moves_the_multiples() {
    let array = array_with(Schedule { offset_seconds: 600, ..hourly() }, NOON);
    assert_eq!(array.schedule("hourly").unwrap().next(), Some(NOON + 600));
    assert_eq!(due(&array, NOON + 599), Due::NotYet);
    assert_eq!(due(&array, NOON + 600), Due::Run { moment: NOON + 600, missed: 0 });
}

#[test]
fn missed_runs_are_counted_and_made_up_for_by_one() {
    let mut array = array_with(hourly(), NOON);
    let last = Due::Run { moment: NOON + 5 * 3600, missed: 4 };
    assert_eq!(due(&array, NOON + 5 * 3600 + 30), last);
    array.schedule_reached("hourly", NOON + 5 * 3600);
    assert_eq!(due(&array, NOON + 5 * 3600 + 31), Due::NotYet);
}

#[test]
fn a_clock_that_goes_back_a_little_repeats_nothing_and_far_back_starts_anew() {
    let array = array_with(hourly(), NOON);
    assert_eq!(due(&array, NOON - 1), Due::NotYet);
    assert_eq!(due(&array, NOON - 3600), Due::NotYet);
    let back = Due::ClockWentBack { moment: NOON - 10 * 3600 };
    assert_eq!(due(&array, NOON - 10 * 3600 + 5), back);
    assert_eq!(due(&array, 0), Due::ClockWentBack { moment: 0 });
}

#[test]
fn a_schedule_that_is_off_is_never_due() {
    let array = array_with(Schedule { enabled: false, ..hourly() }, NOON);
    assert_eq!(due(&array, NOON + 100 * 3600), Due::NotYet);
    assert_eq!(array.schedule("hourly").unwrap().next(), None);
}

#[test]
fn only_what_the_schedule_made_is_surplus() {
    let mut array = array_with(hourly(), NOON);
    for run in 1..=4 {
        array.begin_run("hourly", NOON + run, &[VolumeId(run)]).unwrap();
    }
    let surplus =
        |array: &Configuration| array.schedule("hourly").unwrap().surplus().collect::<Vec<_>>();
    assert_eq!(surplus(&array), [VolumeId(1), VolumeId(2)]);
    // Somebody else deleted the first one and the last one.
    array.prune_runs("hourly", |id| id == VolumeId(2) || id == VolumeId(3));
    assert_eq!(surplus(&array), []);
    assert!(array.schedule("hourly").unwrap().made(VolumeId(2)));
    assert!(!array.schedule("hourly").unwrap().made(VolumeId(1)));
}

#[test]
fn what_a_run_makes_is_locked_before_it_is_made() {
    let mut array = array_with(Schedule { lock_seconds: Some(60), ..hourly() }, NOON);
    array.begin_run("hourly", NOON, &[VolumeId(1), VolumeId(2)]).unwrap();
    assert!(array.check_unlocked(VolumeId(2), NOON + 59).is_err());
    assert!(array.check_unlocked(VolumeId(2), NOON + 60).is_ok());
    // The run failed: neither exists.
    array.prune_runs("hourly", |_| false);
    assert_eq!(array.locked_until(VolumeId(1)), None);
    assert!(array.schedule("hourly").unwrap().runs().is_empty());
}

#[test]
fn a_change_keeps_the_runs_and_deleting_the_schedule_the_locks() {
    let mut array = array_with(Schedule { lock_seconds: Some(60), ..hourly() }, NOON);
    array.begin_run("hourly", NOON, &[VolumeId(1)]).unwrap();
    array.set_schedule("hourly", Schedule { keep: 7, ..hourly() }, NOON + 1).unwrap();
    assert!(array.schedule("hourly").unwrap().made(VolumeId(1)));
    array.delete_schedule("hourly").unwrap();
    assert!(array.check_unlocked(VolumeId(1), NOON + 59).is_err());
    assert!(array.delete_schedule("hourly").is_err());
}

#[test]
fn snapshots_in_another_pool_stay_and_stay_locked() {
    let mut array = array_with(Schedule { lock_seconds: Some(60), ..hourly() }, NOON);
    array.begin_run("hourly", NOON, &[VolumeId(1)]).unwrap();
    let elsewhere = Schedule { pool: "q".to_owned(), ..hourly() };
    array.set_schedule("hourly", elsewhere, NOON + 1).unwrap();
    array.prune_runs("hourly", |_| false);
    assert!(array.check_unlocked(VolumeId(1), NOON + 59).is_err());
}

#[test]
fn names_tell_the_volume_where_there_are_several() {
    let one = hourly();
    assert_eq!(one.snapshot_name("h", "a", "20261121T130000Z"), "h-20261121T130000Z");
    let two = Schedule { volumes: ["a", "b"].map(str::to_owned).into(), ..hourly() };
    assert_eq!(two.snapshot_name("h", "b", "20261121T130000Z"), "b.h-20261121T130000Z");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let long = "x".repeat(47);
    let many: BTreeSet<String> = (0..257).map(|number| number.to_string()).collect();
    for (name, schedule) in [
        ("", hourly()),
        ("a/b", hourly()),
        (&*long, hourly()),
        ("h", Schedule { pool: "..".to_owned(), ..hourly() }),
        ("h", Schedule { volumes: BTreeSet::new(), ..hourly() }),
        ("h", Schedule { volumes: many, ..hourly() }),
        ("h", Schedule { volumes: BTreeSet::from(["p/a".to_owned()]), ..hourly() }),
        ("h", Schedule { every_seconds: 0, ..hourly() }),
        ("h", Schedule { every_seconds: u64::MAX, ..hourly() }),
        ("h", Schedule { offset_seconds: 3600, ..hourly() }),
        ("h", Schedule { keep: 0, ..hourly() }),
        ("h", Schedule { keep: 1001, ..hourly() }),
        ("h", Schedule { lock_seconds: Some(0), ..hourly() }),
        ("h", Schedule { lock_seconds: Some(u64::MAX), ..hourly() }),
    ] {
        let mut array = array_with(hourly(), NOON);
        assert!(array.set_schedule(name, schedule.clone(), NOON).is_err(), "{name} {schedule:?}");
        assert_eq!(array.schedules.len(), 1);
    }
}
