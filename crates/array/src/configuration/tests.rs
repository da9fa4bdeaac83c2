use super::*;

const ESX_A: &str = "iqn.1998-01.com.vmware:a";

fn array() -> Configuration {
    let mut array = Configuration::new("iqn.2026-11.org.example:array".to_owned());
    array.create_host("esx-a", BTreeSet::from([ESX_A.to_owned()])).unwrap();
    array
}

#[test]
fn a_lun_number_is_kept_for_life_and_never_reused() {
    let mut array = array();
    let (first, second) = (VolumeId(1), VolumeId(2));
    assert_eq!(array.map_volume(first, ANY_HOST, None), Ok(0));
    array.unmap_volume(first, None).unwrap();
    assert_eq!(array.map_volume(second, ANY_HOST, None), Ok(1));
    assert_eq!(array.map_volume(VolumeId(3), ANY_HOST, Some(0)), Err(ArrayError::LunTaken(0)));
    assert_eq!(array.map_volume(first, "esx-a", None), Ok(0));
    let fixed = Err(ArrayError::LunFixed { current: 0 });
    assert_eq!(array.map_volume(first, "esx-a", Some(7)), fixed);
}

#[test]
fn an_initiator_sees_what_its_host_or_any_host_is_given() {
    let mut array = array();
    array.map_volume(VolumeId(1), ANY_HOST, Some(5)).unwrap();
    array.map_volume(VolumeId(2), "esx-a", Some(300)).unwrap();
    assert_eq!(array.visible_luns(ESX_A), BTreeMap::from([(5, VolumeId(1)), (300, VolumeId(2))]));
    assert_eq!(array.visible_luns("iqn.stranger"), BTreeMap::from([(5, VolumeId(1))]));
    array.unmap_volume(VolumeId(1), Some(ANY_HOST)).unwrap();
    assert!(array.visible_luns("iqn.stranger").is_empty());
}

#[test]
fn what_is_in_use_cannot_be_removed() {
    let mut array = array();
    array.map_volume(VolumeId(2), "esx-a", None).unwrap();
    assert_eq!(array.delete_host("esx-a"), Err(ArrayError::HostInUse("esx-a".to_owned())));
    assert!(array.check_unmapped(VolumeId(2)).is_err());
    array.unmap_volume(VolumeId(2), Some("esx-a")).unwrap();
    assert_eq!(array.check_unmapped(VolumeId(2)), Ok(()));
    assert_eq!(array.delete_host("esx-a"), Ok(()));
}

#[test]
fn wrong_hosts_and_luns_are_refused() {
    let mut array = array();
    let mut refused = |name: &str, initiator: &str| {
        array.create_host(name, BTreeSet::from([initiator.to_owned()])).is_err()
    };
    assert!(refused("esx-a", "iqn.b"));
    assert!(refused("any", "iqn.b"));
    assert!(refused("b", ESX_A));
    assert!(refused("b", "b"));
    assert!(refused("b", "iqn.b c"));
    assert!(array.map_volume(VolumeId(1), "nobody", None).is_err());
    assert!(array.map_volume(VolumeId(1), ANY_HOST, Some(16_384)).is_err());
    assert!(array.unmap_volume(VolumeId(1), None).is_err());
}

#[test]
fn two_pools_cannot_share_a_name_or_a_device() {
    let mut array = array();
    let device: DeviceName = "file:/tmp/a".parse().unwrap();
    array.check_new_pool("a", &device).unwrap();
    let pool = Pool { uuid: [0; 16], device: device.clone(), size_bytes: 1 << 30 };
    array.pools.insert("a".to_owned(), pool);
    assert!(array.check_new_pool("a", &DeviceName::Memory).is_err());
    assert!(array.check_new_pool("b", &device).is_err());
}

#[test]
fn a_saved_configuration_reads_back_equal() {
    let mut array = array();
    array.map_volume(VolumeId(u64::MAX), ANY_HOST, None).unwrap();
    let text = serde_json::to_string(&array).unwrap();
    assert_eq!(serde_json::from_str::<Configuration>(&text).unwrap(), array);
}
