use super::*;
use crate::{ANY_HOST, FreeLuns};

const REST: Rest<'static> = Rest { now: 0, seconds: 0, held: &[], free: FreeLuns::Known };

fn array() -> Configuration {
    let mut array = Configuration::new("iqn.2026-11.io.gantry:a".to_owned());
    for (number, name) in ["one", "two"].into_iter().enumerate() {
        let initiators = BTreeSet::from([format!("iqn.2026-01.org.example:{number}")]);
        array.create_host(name, Host { initiators, ..Host::default() }).unwrap();
    }
    let hosts = BTreeSet::from(["one".to_owned(), "two".to_owned()]);
    array.set_host_group("both", hosts, &REST).unwrap();
    array.map_volume(VolumeId(7), "both", (Some(3), Access::ReadWrite), &REST).unwrap();
    array.map_volume(VolumeId(8), ANY_HOST, (Some(4), Access::ReadOnly), &REST).unwrap();
    let schedule = Schedule {
        pool: "p".to_owned(),
        volumes: BTreeSet::from(["v".to_owned()]),
        every_seconds: 60,
        offset_seconds: 0,
        keep: 3,
        lock_seconds: Some(1000),
        enabled: true,
    };
    array.set_schedule("s", schedule, 600).unwrap();
    array.begin_run("s", 660, &[VolumeId(9)]).unwrap();
    array
}

fn changed(before: &Configuration, change: impl FnOnce(&mut Configuration)) -> Vec<RecordKey> {
    let mut after = before.clone();
    change(&mut after);
    after.changed_since(before).into_iter().collect()
}

#[test]
fn a_change_touches_the_records_of_what_it_changes_and_no_other() {
    let before = array();
    assert_eq!(changed(&before, |_| {}), []);
    assert_eq!(changed(&before, |array| array.target_name.push('x')), [RecordKey::Array]);
    assert_eq!(
        changed(&before, |array| {
            array.map_volume(VolumeId(8), ANY_HOST, (None, Access::ReadWrite), &REST).unwrap();
        }),
        [RecordKey::Volume(8)],
        "another access alone"
    );
    assert_eq!(
        changed(&before, |array| array.unmap_volume(VolumeId(7), None, 0).unwrap()),
        [RecordKey::Volume(7)]
    );
    let tags = Tags::from([("a".to_owned(), "b".to_owned())]);
    assert_eq!(
        changed(&before, |array| {
            array.set_tags(Tagged::Host("one"), tags.clone()).unwrap();
            array.set_tags(Tagged::Group("both"), tags.clone()).unwrap();
            array.set_tags(Tagged::Volume(VolumeId(1)), tags.clone()).unwrap();
        }),
        [
            RecordKey::Host("one".to_owned()),
            RecordKey::Group("both".to_owned()),
            RecordKey::Volume(1)
        ]
    );
    assert_eq!(
        changed(&before, |array| array.begin_run("s", 720, &[VolumeId(10)]).unwrap()),
        [RecordKey::Volume(10), RecordKey::Run("s".to_owned(), 720)],
        "a lock, and the run"
    );
    assert_eq!(
        changed(&before, |array| array.schedule_reached("s", 720)),
        [RecordKey::Schedule("s".to_owned())]
    );
    assert_eq!(
        changed(&before, |array| array.delete_schedule("s").unwrap()),
        [RecordKey::Schedule("s".to_owned()), RecordKey::Run("s".to_owned(), 660)]
    );
}

/// All records of one array make the same objects in another one.
#[test]
fn what_records_say_is_what_they_were_made_of() {
    let before = array();
    let mut after = Configuration::new(before.target_name.clone());
    let keys = before.record_keys("p", |id| id != VolumeId(8));
    assert!(!keys.contains(&RecordKey::Volume(8)), "it is in another pool");
    let all = before.record_keys("p", |_| true);
    let mut runs = Vec::new();
    let mut plan = None;
    // Hosts come before groups, and both before volumes.
    for record in all.iter().filter_map(|key| Some((key, before.record(key)?))) {
        match record {
            (RecordKey::Host(name), Record::Host(record)) => {
                after.create_host(name, record.host).unwrap();
            }
            (RecordKey::Group(name), Record::Group(record)) => {
                after.set_host_group(name, record.hosts, &REST).unwrap();
            }
            (RecordKey::Volume(id), Record::Volume(record)) => {
                after.take_volume_record(("p", VolumeId(*id)), &record, &REST).unwrap();
            }
            (RecordKey::Schedule(_), Record::Schedule(record)) => plan = Some(record),
            (_, Record::Run(run)) => runs.push(run),
            _ => {}
        }
    }
    after.take_schedule_record("s", plan.unwrap(), runs).unwrap();
    assert_eq!(after, before);
    // A record replaces what is said, it does not add to it.
    let none = VolumeRecord::default();
    for id in [7, 8, 9] {
        after.take_volume_record(("p", VolumeId(id)), &none, &REST).unwrap();
        assert_eq!(after.record(&RecordKey::Volume(id)), None);
    }
}

#[test]
fn records_are_written_and_read_as_json() {
    let before = array();
    for key in before.record_keys("p", |_| true) {
        let text = serde_json::to_string(&(&key, before.record(&key))).unwrap();
        let read: (RecordKey, Option<Record>) = serde_json::from_str(&text).unwrap();
        assert_eq!(read, (key.clone(), before.record(&key)), "{text}");
    }
}
