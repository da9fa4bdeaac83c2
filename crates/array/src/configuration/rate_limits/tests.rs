use super::*;
use crate::Host;

fn limits(iops: u32) -> RateLimits {
    RateLimits { iops: Some(iops), ..RateLimits::default() }
}

#[test]
fn numbers_out_of_their_range_are_refused_and_change_nothing() {
    let mut array = Configuration::new("iqn.2026-01.example:a".to_owned());
    array.create_host("a", Host::default()).unwrap();
    let wrong = [
        limits(0),
        limits(IOPS_MIN - 1),
        limits(IOPS_MAX + 1),
        RateLimits { bytes_per_second: Some(0), ..RateLimits::default() },
        RateLimits { bytes_per_second: Some(BYTES_PER_SECOND_MIN - 1), ..RateLimits::default() },
        RateLimits { bytes_per_second: Some(BYTES_PER_SECOND_MAX + 1), ..RateLimits::default() },
        RateLimits { burst_ms: BURST_MS_MIN - 1, ..limits(1000) },
        RateLimits { burst_ms: BURST_MS_MAX + 1, ..limits(1000) },
    ];
    let before = array.clone();
    for limits in wrong {
        let refused = array.set_limits_of_volume(VolumeId(1), limits).unwrap_err();
        assert!(matches!(refused, ArrayError::InvalidLimit { .. }), "{limits:?}");
        assert_eq!(array.set_limits_of_host("a", (limits, Share::default())), Err(refused));
    }
    let good = (RateLimits::default(), Share::default());
    assert!(array.set_limits_of_host("b", good).is_err(), "there is no such host");
    assert_eq!(array, before);
    assert!([0, SHARE_MAX + 1].map(Share::new).iter().all(Result::is_err));
    for iops in [IOPS_MIN, IOPS_MAX] {
        array.set_limits_of_volume(VolumeId(1), limits(iops)).unwrap();
    }
}

#[test]
fn what_changed_is_found_and_nothing_else() {
    let mut array = Configuration::new("iqn.2026-01.example:a".to_owned());
    for name in ["a", "b"] {
        array.create_host(name, Host::default()).unwrap();
    }
    array.set_limits_of_volume(VolumeId(1), limits(10)).unwrap();
    let before = array.clone();
    assert_eq!(array.all_limits(), [Limited::Volume(VolumeId(1), limits(10))]);
    let share = Share::new(3).unwrap();
    array.set_limits_of_host("a", (limits(20), share)).unwrap();
    array.set_limits_of_volume(VolumeId(1), RateLimits::default()).unwrap();
    let hidden = Presentation { reservations_hidden: true, ..Presentation::default() };
    array.set_presentation(VolumeId(2), hidden);
    let changed = [
        Limited::Volume(VolumeId(1), RateLimits::default()),
        Limited::Host("a".to_owned(), limits(20), share),
    ];
    assert_eq!(array.limits_changed_since(&before), changed);
    // A host that goes takes its limits along.
    let before = array.clone();
    array.delete_host("a", 0).unwrap();
    let gone = Limited::Host("a".to_owned(), RateLimits::default(), Share::default());
    assert_eq!(array.limits_changed_since(&before), [gone]);
}

#[test]
fn a_file_from_before_limits_has_none_and_one_with_them_keeps_them() {
    let mut array = Configuration::new("iqn.2026-01.example:a".to_owned());
    array.create_host("a", Host::default()).unwrap();
    let text = serde_json::to_string(&array).unwrap();
    assert!(!text.contains("limits") && !text.contains("share"), "{text}");
    let full = RateLimits { bytes_per_second: Some(1 << 30), burst_ms: 5000, ..limits(500) };
    array.set_limits_of_host("a", (full, Share::new(7).unwrap())).unwrap();
    array.set_limits_of_volume(VolumeId(9), full).unwrap();
    let text = serde_json::to_string(&array).unwrap();
    assert_eq!(serde_json::from_str::<Configuration>(&text).unwrap(), array);
}
