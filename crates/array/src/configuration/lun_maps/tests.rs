use super::*;
use crate::Host;

const RW: Access = Access::ReadWrite;
const REST: Rest<'static> = Rest { now: 0, seconds: 600, held: &[], free: FreeLuns::Known };

fn at(now: u64) -> Rest<'static> {
    Rest { now, ..REST }
}

/// Hosts a, b and c with the initiators iqn.a, iqn.b, iqn.c.
fn array() -> Configuration {
    let mut array = Configuration::new("iqn.2026-11.org.example:array".to_owned());
    for name in ["a", "b", "c"] {
        let initiators = BTreeSet::from([format!("iqn.{name}")]);
        array.create_host(name, Host { initiators, ..Host::default() }).unwrap();
    }
    array
}

fn members(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

impl Configuration {
    fn map(&mut self, volume: u64, host: &str, lun: Option<u16>) -> Result<u16, ArrayError> {
        self.map_at(volume, host, lun, 0)
    }

    fn map_at(
        &mut self,
        volume: u64,
        host: &str,
        lun: Option<u16>,
        now: u64,
    ) -> Result<u16, ArrayError> {
        self.map_volume(VolumeId(volume), host, (lun, RW), &at(now))
    }

    fn seen(&self, initiator: &str) -> Vec<(u16, u64)> {
        let luns = self.visible_luns(initiator);
        luns.into_iter().map(|(lun, seen)| (lun, seen.volume.0)).collect()
    }
}

fn taken(lun: u16, host: &str) -> Result<u16, ArrayError> {
    Err(ArrayError::LunTaken { lun, host: host.to_owned() })
}

#[test]
fn each_host_has_numbers_of_its_own() {
    let mut array = array();
    assert_eq!(array.map(1, "a", None), Ok(0));
    assert_eq!(array.map(2, "b", None), Ok(0));
    assert_eq!(array.map(3, "a", None), Ok(1));
    assert_eq!(array.map(4, "a", Some(1)), taken(1, "a"));
    assert_eq!(array.map(4, "b", Some(1)), Ok(1));
    assert_eq!(array.seen("iqn.a"), [(0, 1), (1, 3)]);
    assert_eq!(array.seen("iqn.b"), [(0, 2), (1, 4)]);
}

#[test]
fn a_volume_has_one_number_on_all_hosts_where_that_is_free() {
    let mut array = array();
    array.set_host_group("cluster", members(&["a", "b"]), &REST).unwrap();
    assert_eq!(array.map(9, "b", None), Ok(0));
    assert_eq!(array.map(1, "cluster", None), Ok(1), "0 is taken for b");
    assert_eq!(array.map(1, "c", None), Ok(1), "the same for another host");
    assert_eq!(array.map(9, "c", None), Ok(0));
    assert_eq!(array.map(2, "a", None), Ok(0));
    assert_eq!(array.map(2, "c", None), Ok(2), "0 and 1 are taken for c");
    assert_eq!(
        array.maps_of(VolumeId(2)).map(|map| (map.host, map.lun)).collect::<Vec<_>>(),
        [("a", 0), ("c", 2)]
    );
    assert_eq!(array.map(1, "a", None), Ok(1), "what a host sees through its group, too");
    let current = ArrayError::LunFixed { current: 1, host: "a".to_owned() };
    assert_eq!(array.map(1, "a", Some(5)), Err(current));
}

#[test]
fn any_host_means_every_view() {
    let mut array = array();
    array.map(1, "a", None).unwrap();
    array.map(2, "b", Some(1)).unwrap();
    assert_eq!(array.map(3, ANY_HOST, None), Ok(2));
    assert_eq!(array.map(4, ANY_HOST, Some(1)), taken(1, "b"));
    assert_eq!(array.map(5, "c", Some(2)), taken(2, ANY_HOST));
    assert_eq!(array.map(5, "c", None), Ok(0));
    assert_eq!(array.seen("iqn.stranger"), [(2, 3)]);
    assert_eq!(array.map(1, ANY_HOST, None), taken(0, "c"));
}

#[test]
fn a_number_that_was_taken_from_a_volume_rests() {
    let mut array = array();
    array.map(1, "a", None).unwrap();
    array.unmap_volume(VolumeId(1), Some("a"), 1000).unwrap();
    assert_eq!(array.map_at(2, "a", None, 1000), Ok(1));
    let resting = ArrayError::LunResting { lun: 0, host: "a".to_owned(), seconds: 1 };
    assert_eq!(array.map_at(3, "a", Some(0), 1599), Err(resting.clone()));
    assert_eq!(array.map_at(3, ANY_HOST, Some(0), 1599), Err(resting));
    assert_eq!(array.map_at(3, "b", Some(0), 1599), Ok(0), "another host never saw it");
    assert_eq!(array.map_at(4, "a", None, 1600), Ok(0));
    assert_eq!(array.map_at(1, "a", None, 1600), Ok(2), "its number is another volume's now");
}

#[test]
fn a_volume_that_comes_back_has_its_number_again() {
    let mut array = array();
    array.map(8, "a", None).unwrap();
    array.map(1, "a", None).unwrap();
    array.unmap_volume(VolumeId(8), None, 5).unwrap();
    array.unmap_volume(VolumeId(1), None, 5).unwrap();
    assert_eq!(array.map_at(1, "a", None, 5), Ok(1));
    assert_eq!(array.map_at(8, "a", None, 100_000), Ok(0));
}

#[test]
fn a_number_is_not_given_while_a_session_holds_it() {
    let mut array = array();
    array.map(1, "a", None).unwrap();
    array.unmap_volume(VolumeId(1), None, 0).unwrap();
    let held = [HeldLun { initiator: "iqn.a".to_owned(), lun: 0, volume: VolumeId(1) }];
    let rest = Rest { now: 9000, held: &held, ..REST };
    let wanted = (Some(0), RW);
    let refusal = ArrayError::LunHeld { lun: 0, initiator: "iqn.a".to_owned() };
    assert_eq!(array.map_volume(VolumeId(2), "a", wanted, &rest), Err(refusal.clone()));
    assert_eq!(array.map_volume(VolumeId(2), ANY_HOST, wanted, &rest), Err(refusal));
    assert_eq!(array.map_volume(VolumeId(2), "b", wanted, &rest), Ok(0));
    assert_eq!(array.map_volume(VolumeId(1), "a", wanted, &rest), Ok(0), "its own");
}

#[test]
fn who_joins_a_group_must_be_able_to_see_it_by_the_same_numbers() {
    let mut array = array();
    array.set_host_group("g", members(&["a"]), &REST).unwrap();
    array.map(1, "g", None).unwrap();
    array.map(2, "b", None).unwrap();
    let clash = ArrayError::LunTaken { lun: 0, host: "b".to_owned() };
    assert_eq!(array.set_host_group("g", members(&["a", "b"]), &REST), Err(clash));
    array.unmap_volume(VolumeId(2), Some("b"), 0).unwrap();
    assert!(array.set_host_group("g", members(&["a", "b"]), &at(599)).is_err(), "it rests");
    array.set_host_group("g", members(&["a", "b"]), &at(600)).unwrap();
    assert_eq!(array.seen("iqn.b"), [(0, 1)]);
    array.map(3, "c", Some(0)).unwrap();
    assert_eq!(array.map(1, "c", None), Ok(1));
    let fixed = ArrayError::LunFixed { current: 1, host: "c".to_owned() };
    assert_eq!(array.set_host_group("g", members(&["a", "b", "c"]), &at(600)), Err(fixed));
}

#[test]
fn what_a_host_knows_from_a_group_or_a_former_name_rests_too() {
    let mut array = array();
    array.set_host_group("g", members(&["a", "b"]), &REST).unwrap();
    array.map(1, "g", None).unwrap();
    array.set_host_group("g", members(&["b"]), &at(100)).unwrap();
    assert!(array.map_at(2, "a", Some(0), 699).is_err());
    assert_eq!(array.map_at(2, "a", Some(0), 700), Ok(0));
    array.unmap_volume(VolumeId(2), None, 1000).unwrap();
    array.delete_host("a", 1000).unwrap();
    let initiators = BTreeSet::from(["iqn.a".to_owned()]);
    array.create_host("again", Host { initiators, ..Host::default() }).unwrap();
    assert!(array.map_at(3, "again", Some(0), 1599).is_err());
    assert_eq!(array.map_at(3, "again", Some(0), 1600), Ok(0));
}

/// Version 1 gave a number to one volume of the array, for ever.
#[test]
fn numbers_of_version_1_stay_through_the_upgrade() {
    let text = r#"{"version":1,"target_name":"iqn.t","pools":{},
        "hosts":{"a":{"initiators":["iqn.a"]},"b":{"initiators":["iqn.b"]}},
        "host_groups":{"g":["a","b"]},
        "luns":{"0":{"volume":10,"hosts":["a","g"],"read_only":["g"]},
                "3":{"volume":11,"hosts":[]},
                "7":{"volume":12,"hosts":["any"],"read_only":["any"]},
                "300":{"volume":13,"hosts":["b"]}}}"#;
    let mut array = serde_json::from_str::<Configuration>(text).unwrap().upgraded();
    assert_eq!(array.seen("iqn.a"), [(0, 10), (7, 12)]);
    assert_eq!(array.seen("iqn.b"), [(0, 10), (7, 12), (300, 13)]);
    assert_eq!(array.visible_luns("iqn.a")[&0].access, RW);
    assert_eq!(array.visible_luns("iqn.b")[&0].access, Access::ReadOnly);
    assert!(array.map(20, "a", Some(3)).is_err(), "the number of 11 rests");
    assert_eq!(array.map(11, "a", None), Ok(3), "and is its own when it comes back");
    assert_eq!(array.map_at(20, "a", None, 600), Ok(1));
    let saved = serde_json::to_string(&array).unwrap();
    assert!(saved.contains(r#""version":2"#) && !saved.contains(r#""luns""#), "{saved}");
    assert_eq!(serde_json::from_str::<Configuration>(&saved).unwrap(), array);
}

#[test]
fn after_a_restart_every_number_rests_anew() {
    let mut array = array();
    array.map(1, "a", None).unwrap();
    array.unmap_volume(VolumeId(1), None, 77).unwrap();
    let saved = serde_json::to_string(&array).unwrap();
    let mut array = serde_json::from_str::<Configuration>(&saved).unwrap().upgraded();
    assert_eq!(array.retired_luns("iqn.a"), BTreeMap::from([(0, VolumeId(1))]));
    assert!(array.map_at(2, "a", Some(0), 599).is_err());
    assert_eq!(array.map_at(2, "a", Some(0), 600), Ok(0));
    assert!(array.retired_luns("iqn.a").is_empty());
}

/// Each night a backup maps 100 new clones to the host that runs it, and unmaps them an hour later.
#[test]
fn a_year_of_nightly_backups_uses_two_hundred_numbers() {
    let mut array = array();
    array.map(1, "a", None).unwrap();
    array.map(2, "any", None).unwrap();
    let mut largest = 0;
    for night in 0..365_u64 {
        let begin = night * 86_400;
        // An impatient repetition uses other numbers, and only those.
        for (now, first) in [(begin, 1_000), (begin + 3600 + 599, 2_000)] {
            let clones = (0..100).map(|clone| (night + 1) * 10_000 + first + clone);
            for clone in clones.clone() {
                largest = largest.max(array.map_at(clone, "a", None, now).unwrap());
            }
            for clone in clones {
                array.unmap_volume(VolumeId(clone), None, now + 3600).unwrap();
            }
        }
    }
    assert!(largest < 202, "{largest}");
    assert!(serde_json::to_string(&array).unwrap().len() < 20_000);
}

#[test]
fn more_volumes_than_numbers_are_refused() {
    let mut array = array();
    for volume in 0..u64::from(LUN_NUMBERS) {
        array.lun_maps.insert("a", u16::try_from(volume).unwrap(), Map::new(VolumeId(volume), RW));
    }
    assert_eq!(array.map(99_999, "a", None), Err(ArrayError::LunsExhausted));
    assert_eq!(array.map(99_999, "b", None), Ok(0));
    assert_eq!(
        array.map(99_998, "b", Some(LUN_NUMBERS)),
        Err(ArrayError::LunTooLarge(LUN_NUMBERS))
    );
}

// Numbers may have been given out in the generation that is lost, to hosts that still mean those
// volumes.
#[test]
fn numbers_of_a_lost_generation_rest_and_what_is_mapped_stays() {
    let mut configuration = Configuration::new("iqn.2026-11.io.gantry:0".to_owned());
    let write = |lun| (lun, Access::ReadWrite);
    configuration.map_volume(VolumeId(1), ANY_HOST, write(None), &REST).unwrap();
    let unknown = |now| Rest { free: FreeLuns::Unknown { since: 0 }, now, ..REST };
    for lun in [None, Some(5)] {
        let refused = configuration.map_volume(VolumeId(2), ANY_HOST, write(lun), &unknown(100));
        assert_eq!(refused, Err(ArrayError::LunsUnknown { seconds: 500 }));
    }
    let same = configuration.map_volume(VolumeId(1), ANY_HOST, write(None), &unknown(100));
    assert_eq!(same, Ok(0));
    let rested = configuration.map_volume(VolumeId(2), ANY_HOST, write(None), &unknown(600));
    assert_eq!(rested, Ok(1));
}
