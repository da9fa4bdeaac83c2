use super::*;

#[test]
fn a_spare_that_is_gone_too_small_or_something_else_is_missing() {
    let folder = std::env::temp_dir().join(format!("gantry-spares-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("s.img");
    let spare =
        |kind, size_bytes| PoolDevice { device: DeviceName::new(kind, file.clone()), size_bytes };
    assert!(lacks(&spare(DeviceKind::File, 1)).unwrap().starts_with("is not there"));
    std::fs::write(&file, [0; 64]).unwrap();
    assert_eq!(lacks(&spare(DeviceKind::File, 64)), None);
    assert_eq!(lacks(&spare(DeviceKind::File, 65)).as_deref(), Some("has 64 bytes instead of 65"));
    assert_eq!(lacks(&spare(DeviceKind::Block, 1)).as_deref(), Some("is no block device"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn one_look_is_under_way_at_a_time_however_long_it_takes() {
    let mut spares = Spares::default();
    let found = spares.begin().unwrap();
    spares.last = None;
    assert!(spares.take_found().is_none());
    assert!(spares.begin().is_none(), "one hangs");
    assert!(spares.take_found().is_none());
    *found.lock().unwrap() = Some(Missing::new());
    assert!(spares.take_found().is_some());
    spares.last = None;
    assert!(spares.begin().is_some());
}

#[test]
fn a_look_that_could_not_begin_is_made_up_for() {
    let mut spares = Spares::default();
    drop(spares.begin());
    assert!(spares.take_found().is_none());
    spares.last = None;
    assert!(spares.begin().is_some());
}
