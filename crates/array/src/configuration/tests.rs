use super::*;
use crate::FreeLuns;
use crate::{ANY_HOST, ArrayError, Rest};

const RW: Access = Access::ReadWrite;
const REST: Rest<'static> = Rest { now: 0, seconds: 600, held: &[], free: FreeLuns::Known };
const ESX_A: &str = "iqn.1998-01.com.vmware:a";

fn host(initiator: &str) -> Host {
    Host { initiators: BTreeSet::from([initiator.to_owned()]), ..Host::default() }
}

fn array() -> Configuration {
    let mut array = Configuration::new("iqn.2026-11.org.example:array".to_owned());
    array.create_host("esx-a", host(ESX_A)).unwrap();
    array
}

#[test]
fn an_initiator_sees_what_its_host_or_any_host_is_given() {
    let mut array = array();
    array.map_volume(VolumeId(1), ANY_HOST, (Some(5), RW), &REST).unwrap();
    array.map_volume(VolumeId(2), "esx-a", (Some(300), RW), &REST).unwrap();
    let lun = |volume| VisibleLun { volume: VolumeId(volume), access: RW };
    assert_eq!(array.visible_luns(ESX_A), BTreeMap::from([(5, lun(1)), (300, lun(2))]));
    assert_eq!(array.visible_luns("iqn.stranger"), BTreeMap::from([(5, lun(1))]));
    array.unmap_volume(VolumeId(1), Some(ANY_HOST), 0).unwrap();
    assert!(array.visible_luns("iqn.stranger").is_empty());
}

#[test]
fn what_is_in_use_cannot_be_removed() {
    let mut array = array();
    array.map_volume(VolumeId(2), "esx-a", (None, RW), &REST).unwrap();
    assert_eq!(array.delete_host("esx-a", 0), Err(ArrayError::HostInUse("esx-a".to_owned())));
    assert!(array.check_unmapped(VolumeId(2)).is_err());
    array.unmap_volume(VolumeId(2), Some("esx-a"), 0).unwrap();
    assert_eq!(array.check_unmapped(VolumeId(2)), Ok(()));
    assert_eq!(array.delete_host("esx-a", 0), Ok(()));
}

#[test]
fn wrong_hosts_and_luns_are_refused() {
    let mut array = array();
    let mut refused =
        |name: &str, initiator: &str| array.create_host(name, host(initiator)).is_err();
    assert!(refused("esx-a", "iqn.b"));
    assert!(refused("any", "iqn.b"));
    assert!(refused("b", ESX_A));
    assert!(refused("b", "b"));
    assert!(refused("b", "iqn.b c"));
    assert!(array.map_volume(VolumeId(1), "nobody", (None, RW), &REST).is_err());
    assert!(array.map_volume(VolumeId(1), ANY_HOST, (Some(16_384), RW), &REST).is_err());
    assert!(array.unmap_volume(VolumeId(1), None, 0).is_err());
}

#[test]
fn a_saved_configuration_reads_back_equal() {
    let mut array = array();
    array.map_volume(VolumeId(u64::MAX), ANY_HOST, (None, RW), &REST).unwrap();
    let text = serde_json::to_string(&array).unwrap();
    assert_eq!(serde_json::from_str::<Configuration>(&text).unwrap(), array);
}

#[test]
fn a_group_gives_its_hosts_what_is_mapped_to_it() {
    let mut array = array();
    array.create_host("esx-b", host("iqn.b")).unwrap();
    let members = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    array.set_host_group("cluster", members(&["esx-a"]), &REST).unwrap();
    array.map_volume(VolumeId(1), "cluster", (None, RW), &REST).unwrap();
    assert_eq!(array.visible_luns(ESX_A).len(), 1);
    assert!(array.visible_luns("iqn.b").is_empty());
    array.set_host_group("cluster", members(&["esx-a", "esx-b"]), &REST).unwrap();
    assert_eq!(array.visible_luns("iqn.b").len(), 1);
    let in_group = ArrayError::HostInGroup { host: "esx-a".into(), group: "cluster".into() };
    assert_eq!(array.delete_host("esx-a", 0), Err(in_group));
    assert_eq!(array.delete_host_group("cluster", 0), Err(ArrayError::HostInUse("cluster".into())));
    array.unmap_volume(VolumeId(1), Some("cluster"), 0).unwrap();
    array.delete_host_group("cluster", 0).unwrap();
    assert!(array.set_host_group("cluster", members(&["nobody"]), &REST).is_err());
    assert!(array.set_host_group("esx-a", members(&[]), &REST).is_err(), "a host has the name");
}

#[test]
fn who_may_only_read_may_write_through_another_map() {
    let mut array = array();
    let access = |array: &Configuration, name: &str| array.visible_luns(name)[&0].access;
    array.map_volume(VolumeId(1), ANY_HOST, (None, Access::ReadOnly), &REST).unwrap();
    assert_eq!(access(&array, ESX_A), Access::ReadOnly);
    array.map_volume(VolumeId(1), "esx-a", (None, RW), &REST).unwrap();
    assert_eq!(access(&array, ESX_A), RW);
    assert_eq!(access(&array, "iqn.stranger"), Access::ReadOnly);
    assert_eq!(array.read_only_hosts_of(VolumeId(1)).collect::<Vec<_>>(), [ANY_HOST]);
    array.unmap_volume(VolumeId(1), Some(ANY_HOST), 0).unwrap();
    array.map_volume(VolumeId(1), ANY_HOST, (None, RW), &REST).unwrap();
    assert_eq!(access(&array, "iqn.stranger"), RW, "what was unmapped left nothing behind");
}

#[test]
fn a_changed_host_keeps_its_maps() {
    let mut array = array();
    array.map_volume(VolumeId(1), "esx-a", (None, RW), &REST).unwrap();
    array.change_host("esx-a", host("iqn.new")).unwrap();
    assert!(array.visible_luns(ESX_A).is_empty());
    assert_eq!(array.visible_luns("iqn.new").len(), 1);
    assert!(array.change_host("nobody", host("iqn.other")).is_err());
}

#[test]
fn portals_that_cannot_be_are_refused() {
    let mut array = array();
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    let portal = |group, redirect| Portal { group, redirect };
    let here = address("[::1]:3260");
    assert_eq!(array.create_portal(here, portal(2, Some(address("192.0.2.1:3260")))), Ok(()));
    assert!(array.create_portal(here, portal(2, None)).is_err());
    assert!(array.create_portal(address("[::1]:3261"), portal(0, None)).is_err());
    assert!(array.create_portal(address("127.0.0.1:0"), portal(1, None)).is_err());
    let itself = address("127.0.0.1:3260");
    assert!(array.create_portal(itself, portal(1, Some(itself))).is_err());
    assert_eq!(array.delete_portal(here), Ok(()));
    assert!(array.delete_portal(here).is_err());
}

// A file of an array that knew neither groups nor portals.
#[test]
fn a_configuration_without_the_newer_fields_is_read() {
    let text = r#"{"version":1,"target_name":"iqn.a","pools":{},
        "hosts":{"h":{"initiators":["iqn.h"]}},"luns":{"0":{"volume":1,"hosts":["any"]}}}"#;
    let array: Configuration = serde_json::from_str(text).unwrap();
    assert!(array.version_is_known());
    assert_eq!(array.upgraded().visible_luns("iqn.h")[&0].access, RW);
}
