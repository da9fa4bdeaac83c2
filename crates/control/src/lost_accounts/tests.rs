use std::collections::BTreeSet;

use array::{ArrayRecord, Chap, Credential, Host, HostRecord, Secret};

use super::*;

fn chap(secret: &str) -> Chap {
    let secret = Secret::new(secret.to_owned()).unwrap();
    Chap { initiator: Credential { name: "esx".to_owned(), secret }, target: None }
}

/// An array whose host and whose discovery prove who they are.
fn array() -> Configuration {
    let mut array = Configuration::new("iqn.2026-11.io.gantry:a".to_owned());
    let initiators = BTreeSet::from(["iqn.2026-01.org.example:1".to_owned()]);
    let chap_name = Some("esx".to_owned());
    array.create_host("esx", Host { initiators, chap_name, ..Host::default() }).unwrap();
    array.discovery_chap_name = Some("esx".to_owned());
    array
}

fn host_key() -> RecordKey {
    RecordKey::Host("esx".to_owned())
}

/// Records of the same array that hold both accounts.
fn records(array: &Configuration, version: u64) -> BTreeMap<RecordKey, Found> {
    let Some(Record::Host(host)) = array.record(&host_key()) else { panic!("a host") };
    let Some(Record::Array(own)) = array.record(&RecordKey::Array) else { panic!("an array") };
    let host = Record::Host(HostRecord { chap: Some("sealed host".to_owned()), ..host });
    let own = Record::Array(ArrayRecord { discovery_chap: Some("sealed own".to_owned()), ..own });
    let found = |record| Found { version, record: Some(record) };
    BTreeMap::from([(host_key(), found(host)), (RecordKey::Array, found(own))])
}

#[test]
fn accounts_that_only_a_pool_has_are_taken_back() {
    let array = array();
    let secrets = Secrets::default();
    let found = lost(&records(&array, 5), (&array, &secrets), &BTreeMap::new());
    assert_eq!(found.len(), 2);
    let mut draft = Draft { array, secrets };
    let open = |_: &RecordKey, sealed: &str| Account::Known(chap(&format!("{sealed} 12345")));
    let restored = restore(&found, &mut draft, &open);
    assert_eq!(restored.taken.iter().collect::<BTreeSet<_>>().len(), 2);
    assert_eq!(restored.sealed, []);
    assert_eq!(draft.secrets.hosts["esx"], chap("sealed host 12345"));
    assert_eq!(draft.secrets.discovery, Some(chap("sealed own 12345")));
}

#[test]
fn what_cannot_be_read_stays_sealed_and_is_lost_no_more() {
    let array = array();
    let secrets = Secrets::default();
    let found = lost(&records(&array, 5), (&array, &secrets), &BTreeMap::new());
    let mut draft = Draft { array, secrets };
    let restored = restore(&found, &mut draft, &|_, _| Account::Unknown("another key"));
    assert_eq!(restored.taken, Vec::<String>::new());
    assert_eq!(restored.sealed.len(), 2);
    assert_eq!(draft.secrets.sealed["esx"], "sealed host");
    assert_eq!(draft.secrets.sealed_discovery.as_deref(), Some("sealed own"));
    assert!(draft.secrets.hosts.is_empty() && draft.secrets.discovery.is_none());
    let records = records(&draft.array, 5);
    assert_eq!(lost(&records, (&draft.array, &draft.secrets), &BTreeMap::new()), []);
}

#[test]
fn what_the_array_has_changed_or_never_wanted_is_not_lost() {
    let array = array();
    let records = records(&array, 5);
    let none = BTreeMap::new();
    let mut secrets = Secrets::default();
    secrets.hosts.insert("esx".to_owned(), chap("another secret"));
    secrets.discovery = Some(chap("another secret"));
    assert_eq!(lost(&records, (&array, &secrets), &none), [], "it has both");
    let secrets = Secrets::default();
    let mut other = array.clone();
    other.discovery_chap_name = None;
    let host = Host { chap_name: None, ..other.hosts["esx"].clone() };
    other.change_host("esx", host).unwrap();
    assert_eq!(lost(&records, (&other, &secrets), &none), [], "nothing is to be proved");
    other.discovery_chap_name = Some("other".to_owned());
    assert_eq!(lost(&records, (&other, &secrets), &none), [], "by another name");
    let sealed = |record: Record| match record {
        Record::Host(host) => Record::Host(HostRecord { chap: None, ..host }),
        record => record,
    };
    let bare = records
        .into_iter()
        .map(|(key, found)| (key, Found { record: found.record.map(sealed), ..found }));
    let bare: BTreeMap<RecordKey, Found> = bare.collect();
    assert_eq!(lost(&bare, (&array, &secrets), &none).len(), 1, "the pool has none of the host's");
}

/// Two pools know different accounts of a host: that of the later version counts, in whichever order
/// they open.
#[test]
fn the_account_of_the_latest_record_counts() {
    let array = array();
    let mut secrets = Secrets::default();
    secrets.hosts.insert("esx".to_owned(), chap("taken from a pool"));
    secrets.discovery = Some(chap("taken from a pool"));
    let restored = BTreeMap::from([(host_key(), 5), (RecordKey::Array, 5)]);
    assert_eq!(lost(&records(&array, 5), (&array, &secrets), &restored), []);
    assert_eq!(lost(&records(&array, 4), (&array, &secrets), &restored), []);
    let newer = lost(&records(&array, 6), (&array, &secrets), &restored);
    assert_eq!(newer.len(), 2);
    let mut draft = Draft { array, secrets };
    restore(&newer, &mut draft, &|_, _| Account::Known(chap("the later secret")));
    assert_eq!(draft.secrets.hosts["esx"], chap("the later secret"));
}
