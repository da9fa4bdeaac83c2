use serde_json::json;

use super::*;
use crate::change::tests::{World, make, volume, with_pool, written};

fn fold(name: &str) -> Result<String, String> {
    if name.contains(' ') {
        Err(format!("'{name}' is no iSCSI name"))
    } else {
        Ok(name.to_lowercase())
    }
}

fn import(value: serde_json::Value) -> Import {
    let mut file: api::Configuration = serde_json::from_value(value).unwrap();
    file.version = VERSION;
    Import::new(file, false, fold).unwrap()
}

/// A file that says something of everything.
fn whole() -> serde_json::Value {
    json!({
        "version": 1,
        "identification": { "vendor": "ACME", "product": "DISK" },
        "hosts": [{
            "name": "h", "initiators": ["IQN.X:h"],
            "chap": { "user": "u", "secret": "a secret of 14" },
            "tags": { "env": "prod" },
        }],
        "groups": [{ "name": "g", "hosts": ["h"] }],
        "discovery": { "user": "d", "secret": "another secret" },
        "portals": [{ "address": "198.51.100.7:3260", "target_portal_group_tag": 2 }],
        "path_states": [{ "group": 2, "state": "standby" }],
        "pools": [{
            "name": "p", "devices": [], "delete_scheduled_snapshots": true,
            "thresholds": { "soft_percent": 40, "hard_percent": 50 },
        }],
        "volumes": [{
            "volume": "p/a",
            "maps": [{ "host": "g", "lun": 7, "read_only": false }],
            "reservations_hidden": true,
            "identification": { "vendor": "OWN", "product": "DISK" },
        }],
        "schedules": [{
            "name": "s", "schedule": { "volumes": ["p/a"], "every_seconds": 3600, "keep": 3 },
        }],
        "alerts": { "webhooks": [{ "name": "w", "url": "https://x.org/", "severity": "error" }] },
    })
}

#[test]
fn a_file_is_applied_as_one_change_that_says_what_it_changed() {
    let (mut draft, world) = (with_pool(), World::new());
    let applied = make(&mut draft, &world, &import(whole())).unwrap();
    let expected = json!([
        "identification is changed",
        "host h is created",
        "group g is created",
        "discovery wants another proof",
        "portal 198.51.100.7:3260 is created",
        "portal group 2 has another state",
        "pool p has other thresholds",
        "volume p/a is changed",
        "schedule s is created",
        "alerts go to other receivers",
    ]);
    assert_eq!(*written(&applied), json!({ "dry_run": false, "changes": expected }));
    assert_eq!(draft.array.visible_luns("iqn.x:h")[&7].volume, volume().id);
    assert_eq!(draft.secrets.hosts["h"].initiator.secret.expose(), "a secret of 14");
    assert_eq!(applied.touched, Touched::All);
    assert_eq!(*world.asked_for_held.borrow(), 1, "once for a whole file");
}

#[test]
fn everybody_who_acts_on_the_configuration_hears_of_what_changed_and_nothing_else() {
    let (mut draft, world) = (with_pool(), World::new());
    let applied = make(&mut draft, &world, &import(whole())).unwrap();
    let id = volume().id;
    let address = "198.51.100.7:3260".parse().unwrap();
    let own = Identification::new("OWN", "DISK").unwrap();
    let told: Vec<&Effect> =
        applied.effects.iter().filter(|effect| !matches!(effect, Effect::Note(_))).collect();
    let expected = [
        Effect::Tell(ExportEvent::Identification(Identification::new("ACME", "DISK").unwrap())),
        Effect::OpenPortal(address),
        Effect::Tell(ExportEvent::PathState { group: 2, state: array::AccessState::Standby }),
        Effect::Tell(ExportEvent::ReservationsHidden(id, true)),
        Effect::Tell(ExportEvent::OwnIdentification(id, Some(own))),
        Effect::Forget(Forgotten::Fills),
        Effect::ConfigureReceivers,
    ];
    assert_eq!(told, expected.iter().collect::<Vec<_>>());
    assert_eq!(applied.unsaved, [Effect::CloseUnsaved(address)]);
    let notes: Vec<&str> = applied.effects.iter().filter_map(note).collect();
    assert_eq!(notes.len(), 2);
    assert!(notes[0].starts_with("tells hosts another vendor"), "{notes:?}");
    assert_eq!(notes[1], "10 change(s) were imported");
}

fn note(effect: &Effect) -> Option<&str> {
    match effect {
        Effect::Note(note) => Some(&note.message),
        _ => None,
    }
}

#[test]
fn what_is_so_already_changes_nothing_and_is_not_told() {
    let (mut draft, world) = (with_pool(), World::new());
    make(&mut draft, &world, &import(whole())).unwrap();
    let before = draft.clone();
    let applied = make(&mut draft, &world, &import(whole())).unwrap();
    assert_eq!(written(&applied)["changes"], json!([]));
    assert_eq!(draft, before);
    assert_eq!(applied.effects.iter().filter_map(note).count(), 0);
    assert_eq!(applied.unsaved, []);
}

/// Secrets that the file does not hold are those that are known for the same names.
#[test]
fn a_file_without_secrets_keeps_those_that_are_known() {
    let (mut draft, world) = (with_pool(), World::new());
    make(&mut draft, &world, &import(whole())).unwrap();
    let before = draft.clone();
    let mut file = whole();
    file["hosts"][0]["chap"] = json!({ "user": "u" });
    file["discovery"] = json!({ "user": "d" });
    make(&mut draft, &world, &import(file.clone())).unwrap();
    assert_eq!(draft, before);
    file["hosts"][0]["chap"] = json!({ "user": "somebody else" });
    let problem = make(&mut draft, &world, &import(file)).unwrap_err();
    assert!(problem.detail.contains("neither in the file nor known"), "{}", problem.detail);
}

#[test]
fn everything_that_is_wrong_is_said_at_once_and_nothing_is_changed() {
    let (mut draft, mut world) = (with_pool(), World::new());
    world.occupied.push("198.51.100.7:3260".parse().unwrap());
    let before = draft.clone();
    let mut file = whole();
    file["hosts"][0]["initiators"] = json!(["no name"]);
    file["path_states"][0]["group"] = json!(0);
    file["pools"][0]["name"] = json!("q");
    file["volumes"][0]["volume"] = json!("p/c");
    file["schedules"][0]["schedule"]["volumes"] = json!(["p/a", "q/b"]);
    let problem = make(&mut draft, &world, &import(file)).unwrap_err();
    assert_eq!(problem.status, 409);
    for said in [
        "nothing was changed: host h: 'no name' is no iSCSI name; group g: ",
        "portal 198.51.100.7:3260: cannot listen: Address already in use",
        "portal group 0: a target portal group",
        "pool q: ",
        "volume p/c: there is no volume 'p/c'",
        "schedule s: a schedule takes snapshots of volumes of one pool",
    ] {
        assert!(problem.detail.contains(said), "{said}: {}", problem.detail);
    }
    assert_eq!(draft, before);
}

#[test]
fn of_too_many_reasons_the_number_is_said() {
    let (mut draft, world) = (with_pool(), World::new());
    let host = |number: usize| json!({ "name": format!("h {number}"), "initiators": [] });
    let hosts: Vec<_> = (0..IMPORT_PROBLEMS_MAX + 3).map(host).collect();
    let file = json!({ "version": 1, "hosts": hosts });
    let problem = make(&mut draft, &world, &import(file)).unwrap_err();
    assert!(problem.detail.ends_with("; and 3 more"), "{}", problem.detail);
}

#[test]
fn a_file_of_another_form_is_refused_before_it_is_looked_at() {
    let file: api::Configuration = serde_json::from_value(json!({ "version": 2 })).unwrap();
    let problem = Import::new(file, false, fold).unwrap_err();
    assert_eq!(problem.status, 400);
    assert!(problem.detail.contains("version 2"), "{}", problem.detail);
}
