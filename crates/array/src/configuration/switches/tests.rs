use std::collections::BTreeSet;

use block::SwitchLevel;

use super::*;
use crate::Host;

const VOLUME: VolumeId = VolumeId(7);

fn array() -> Configuration {
    let mut array = Configuration::new("iqn.2026-01.example:a".to_owned());
    let initiators = BTreeSet::from(["iqn.2026-01.example:esx".to_owned()]);
    array.create_host("esx", Host { initiators, ..Host::default() }).unwrap();
    array
}

#[test]
fn the_three_places_are_kept_and_told_apart() {
    let (mut array, unmap) = (array(), SwitchesOff::NONE.with(Switch::Unmap));
    let level = |array: &Configuration, host| {
        array.turned_off(host, VOLUME, Switch::Unmap).map(|off| off.level)
    };
    assert_eq!(level(&array, "esx"), None);
    array.switches_off = unmap;
    assert_eq!(level(&array, "nobody"), Some(SwitchLevel::Array));
    array.set_switches_off_of_host("esx", unmap).unwrap();
    assert_eq!(level(&array, "esx"), Some(SwitchLevel::Host));
    assert_eq!(array.switches_off_of_initiator("iqn.2026-01.example:esx"), unmap);
    assert!(array.switches_off_of_initiator("iqn.2026-01.example:else").is_empty());
    array.set_switches_off_of_volume(VOLUME, unmap);
    assert_eq!(level(&array, "esx"), Some(SwitchLevel::Volume));
    assert!(array.set_switches_off_of_host("nobody", unmap).is_err());
    let text = serde_json::to_string(&array).unwrap();
    assert_eq!(text.matches(r#""switches_off":["unmap"]"#).count(), 3);
    assert_eq!(serde_json::from_str::<Configuration>(&text).unwrap(), array);
    let wrong = text.replace(r#"["unmap"]"#, r#"["read"]"#);
    assert!(serde_json::from_str::<Configuration>(&wrong).is_err());
}

/// A daemon of before reads what this one writes, unless something is off.
#[test]
fn nothing_is_written_while_everything_is_on() {
    let mut array = array();
    array.set_switches_off_of_volume(VOLUME, SwitchesOff::NONE.with(Switch::WriteSame));
    array.set_switches_off_of_volume(VOLUME, SwitchesOff::NONE);
    assert!(!serde_json::to_string(&array).unwrap().contains("switches_off"));
}
