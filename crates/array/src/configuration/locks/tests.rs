use super::*;

const SNAPSHOT: VolumeId = VolumeId(7);
const NOW: u64 = 1_800_000_000;

fn array() -> Configuration {
    Configuration::new("iqn.2026-11.io.gantry:test".to_owned())
}

fn locked_until(until: u64) -> Configuration {
    let mut array = array();
    array.lock_snapshot("p", SNAPSHOT, until, NOW).unwrap();
    array
}

#[test]
fn a_locked_snapshot_may_not_go_before_its_moment_whatever_the_clock_did() {
    let array = locked_until(NOW + 10);
    for now in [0, 1, NOW - 1_000_000, NOW, NOW + 9] {
        let locked = Err(ArrayError::Locked { until: NOW + 10 });
        assert_eq!(array.check_unlocked(SNAPSHOT, now), locked, "{now}");
        assert_eq!(array.check_pool_unlocked("p", now), locked, "{now}");
    }
    for now in [NOW + 10, NOW + 11, u64::MAX] {
        assert_eq!(array.check_unlocked(SNAPSHOT, now), Ok(()), "{now}");
        assert_eq!(array.check_pool_unlocked("p", now), Ok(()), "{now}");
    }
}

#[test]
fn other_snapshots_and_pools_are_free() {
    let array = locked_until(NOW + 10);
    assert_eq!(array.check_unlocked(VolumeId(8), NOW), Ok(()));
    assert_eq!(array.check_pool_unlocked("q", NOW), Ok(()));
}

#[test]
fn a_lock_is_only_ever_made_longer() {
    let mut array = locked_until(NOW + 10);
    let shorter = array.lock_snapshot("p", SNAPSHOT, NOW + 9, NOW);
    assert_eq!(shorter, Err(ArrayError::LockShortened { until: NOW + 10 }));
    assert_eq!(array.lock_snapshot("p", SNAPSHOT, NOW + 10, NOW), Ok(()));
    assert_eq!(array.lock_snapshot("p", SNAPSHOT, NOW + 20, NOW), Ok(()));
    assert_eq!(array.locked_until(SNAPSHOT), Some(NOW + 20));
}

#[test]
fn a_lock_ends_in_the_future_and_within_a_century() {
    for until in [0, NOW - 1, NOW] {
        let refused = array().lock_snapshot("p", SNAPSHOT, until, NOW);
        assert_eq!(refused, Err(ArrayError::LockInThePast), "{until}");
    }
    for until in [NOW + LOCK_SECONDS_MAX + 1, NOW * 1000, u64::MAX] {
        let refused = array().lock_snapshot("p", SNAPSHOT, until, NOW);
        assert_eq!(refused, Err(ArrayError::LockTooLong), "{until}");
    }
    assert_eq!(array().lock_snapshot("p", SNAPSHOT, NOW + LOCK_SECONDS_MAX, NOW), Ok(()));
}

#[test]
fn a_lock_survives_being_saved() {
    let array = locked_until(NOW + 10);
    let text = serde_json::to_string(&array).unwrap();
    let read: Configuration = serde_json::from_str(&text).unwrap();
    assert_eq!(read, array);
    assert!(read.check_unlocked(SNAPSHOT, NOW).is_err());
}
