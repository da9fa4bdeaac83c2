use super::*;

fn array() -> Configuration {
    Configuration::new("iqn.2026-11.org.example:array".to_owned())
}

fn device(text: &str) -> DeviceName {
    text.parse().unwrap()
}

fn pool(devices: &[&str]) -> Pool {
    let devices = devices.iter().map(|text| PoolDevice { device: device(text), size_bytes: 7 });
    Pool {
        uuid: [3; 16],
        devices: devices.collect(),
        thresholds: Thresholds::default(),
        delete_scheduled_snapshots: false,
        read_only: false,
        mirroring: Mirroring::default(),
        departure: None,
        fail_back: FailBack::default(),
    }
}

#[test]
fn two_pools_cannot_share_a_name_or_a_device() {
    let mut array = array();
    array.check_new_pool("a", &[device("file:/a"), device("file:/b")]).unwrap();
    array.pools.insert("a".to_owned(), pool(&["file:/a", "file:/b"]));
    assert!(array.check_new_pool("a", &[device("memory:")]).is_err());
    assert!(array.check_new_pool("b", &[device("file:/c"), device("file:/b")]).is_err());
    assert_eq!(
        array.check_new_pool("b", &[device("file:/c"), device("file:/c")]),
        Err(ArrayError::DeviceTwice("file:/c".to_owned()))
    );
    assert!(array.check_new_pool("b", &[device("memory:"), device("memory:")]).is_ok());
    assert!(array.check_new_pool("b", &vec![device("memory:"); 33]).is_err());
    assert!(array.check_new_device("a", &device("file:/b")).is_err());
    assert!(array.check_new_device("none", &device("file:/c")).is_err());
    assert_eq!(array.check_new_device("a", &device("file:/c")), Ok(()));
}

#[test]
fn a_pool_of_the_first_form_reads_as_one_with_one_device() {
    let uuid = [3; 16];
    let old = serde_json::json!({ "uuid": uuid, "device": "file:/a", "size_bytes": 7 });
    assert_eq!(serde_json::from_value::<Pool>(old).unwrap(), pool(&["file:/a"]));
    let several = pool(&["file:/a", "block:/dev/b"]);
    let deletes = Pool { delete_scheduled_snapshots: true, ..several.clone() };
    let read_only = Pool { read_only: true, ..several.clone() };
    let fail_back = FailBack { preferred_controller: Some(2), after_seconds: Some(60) };
    let preferred = Pool { fail_back, ..several.clone() };
    for pool in [several, deletes, read_only, preferred] {
        let saved = serde_json::to_value(&pool).unwrap();
        let says = saved.get("delete_scheduled_snapshots").is_some();
        assert_eq!(says, pool.delete_scheduled_snapshots, "an older version reads it otherwise");
        assert_eq!(saved.get("read_only").is_some(), pool.read_only);
        assert_eq!(saved.get("fail_back").is_some(), pool.fail_back == fail_back);
        assert_eq!(serde_json::from_value::<Pool>(saved).unwrap(), pool);
    }
    for wrong in [
        serde_json::json!({ "uuid": uuid }),
        serde_json::json!({ "uuid": uuid, "devices": [] }),
        serde_json::json!({ "uuid": uuid, "device": "file:/a" }),
        serde_json::json!({ "uuid": uuid, "device": "file:/a", "size_bytes": 1, "devices": [] }),
        serde_json::json!({ "uuid": uuid, "device": "file:/a", "size_bytes": 1, "surprise": 2 }),
    ] {
        assert!(serde_json::from_value::<Pool>(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn a_pool_is_given_back_to_a_controller_after_a_time_in_bounds() {
    let said = |preferred_controller, after_seconds| {
        FailBack { preferred_controller, after_seconds }.check().is_ok()
    };
    assert!(said(None, None) && said(Some(1), None) && said(Some(256), Some(10)));
    assert!(said(Some(2), Some(86_400)));
    assert!(!said(Some(0), None) && !said(Some(257), None) && !said(None, Some(60)));
    assert!(!said(Some(2), Some(9)) && !said(Some(2), Some(86_401)) && !said(Some(2), Some(0)));
}

#[test]
fn thresholds_are_percentages_in_order() {
    let mut array = array();
    let volume = VolumeId(9);
    let thresholds = |soft_percent, hard_percent| Thresholds { soft_percent, hard_percent };
    assert_eq!(array.volume_thresholds(volume), thresholds(75, 90));
    array.set_volume_thresholds(volume, thresholds(50, 50)).unwrap();
    assert_eq!(array.volume_thresholds(volume), thresholds(50, 50));
    for (soft, hard) in [(0, 90), (91, 90), (75, 101)] {
        assert!(array.set_volume_thresholds(volume, thresholds(soft, hard)).is_err());
    }
    array.set_volume_thresholds(volume, thresholds(75, 90)).unwrap();
    assert!(array.volume_thresholds.is_empty());
}

#[test]
fn a_threshold_is_reached_once_and_again_only_after_the_fill_fell_well_below() {
    let thresholds = Thresholds::default();
    let mut fill = Fill::Normal;
    for (percent, expected) in [
        (74, Fill::Normal),
        (75, Fill::Soft),
        (74, Fill::Soft),
        (73, Fill::Soft),
        (72, Fill::Normal),
        (73, Fill::Normal),
        (95, Fill::Hard),
        (88, Fill::Hard),
        (87, Fill::Soft),
        (100, Fill::Hard),
        (0, Fill::Normal),
    ] {
        fill = thresholds.fill(percent, fill);
        assert_eq!(fill, expected, "{percent}");
    }
}
