use api::ProblemKind;
use array::{Access, Credential, HeldLun, Secret};
use block::VolumeId;
use serde_json::json;

use super::*;
use crate::change::tests::{World, empty, make, names, refusal, written};

fn fold(name: &str) -> Result<String, String> {
    let is_name = name.to_lowercase().starts_with("iqn.");
    if is_name { Ok(name.to_lowercase()) } else { Err(format!("'{name}' is no iSCSI name")) }
}

fn created(name: &str, initiators: &[&str]) -> Change {
    let initiators = initiators.iter().map(|&name| name.to_owned()).collect();
    Change::CreateHost { name: name.to_owned(), initiators, chap: None }
}

fn group(name: &str, hosts: &[&str]) -> Change {
    let hosts = hosts.iter().map(|&name| name.to_owned()).collect();
    Change::SetGroup { name: name.to_owned(), hosts }
}

fn account() -> Chap {
    let secret = Secret::new("a secret of 14".to_owned()).unwrap();
    Chap { initiator: Credential { name: "user".to_owned(), secret }, target: None }
}

/// Hosts 'h1' and 'h2', and group 'g' of the first.
fn array(world: &World) -> Draft {
    let mut draft = empty();
    for change in [created("h1", &["iqn.x:1"]), created("h2", &["iqn.x:2"]), group("g", &["h1"])] {
        make(&mut draft, world, &change).unwrap();
    }
    draft
}

#[test]
fn a_host_is_made_with_folded_names_and_answered_as_it_is_then() {
    let (mut draft, world) = (empty(), World::new());
    draft.secrets.hosts.insert("h".to_owned(), account());
    let request = CreateHost {
        name: "h".to_owned(),
        initiators: vec!["IQN.2026-01.org:A".to_owned()],
        chap: None,
    };
    let applied = make(&mut draft, &world, &create(request, fold).unwrap()).unwrap();
    let all_on = json!({
        "compare_and_write": true, "extended_copy": true, "write_same": true, "unmap": true,
    });
    let unlimited = json!({ "iops": null, "bytes_per_second": null, "burst_ms": 100 });
    assert_eq!(
        *written(&applied),
        json!({
            "name": "h", "initiators": ["iqn.2026-01.org:a"], "chap_user": null,
            "mutual_chap": false, "tags": {}, "primitives": all_on,
            "limits": unlimited, "share": 1,
        })
    );
    assert_eq!((applied.touched, applied.effects), (Touched::All, Vec::new()));
    assert!(draft.secrets.hosts.is_empty(), "a secret that was left over is not the new host's");
}

#[test]
fn what_is_wrong_about_a_request_is_said_before_anything_is_looked_up() {
    let named = |initiator: &str| ChangeHost {
        initiators: Some(vec![initiator.to_owned()]),
        ..ChangeHost::default()
    };
    let problem = change("nobody", named("nothing"), fold).unwrap_err();
    assert_eq!((problem.status, problem.detail.as_str()), (400, "'nothing' is no iSCSI name"));
    let chap = api::Chap {
        user: "user".to_owned(),
        secret: api::Secret("a secret of 14".to_owned()),
        mutual_user: None,
        mutual_secret: None,
    };
    let both = ChangeHost { chap: Some(chap), no_chap: true, ..ChangeHost::default() };
    assert!(change("h1", both, fold).unwrap_err().detail.contains("choose one of the two"));
}

#[test]
fn an_account_comes_stays_and_goes_with_its_secret() {
    let world = World::new();
    let mut draft = array(&world);
    let changed =
        |account: Account| Change::ChangeHost { name: "h1".to_owned(), initiators: None, account };
    let applied = make(&mut draft, &world, &changed(Account::Set(account()))).unwrap();
    assert_eq!(written(&applied)["chap_user"], "user");
    assert_eq!(written(&applied)["initiators"], json!(["iqn.x:1"]));
    let renamed = change(
        "h1",
        ChangeHost { initiators: Some(vec!["iqn.x:3".to_owned()]), ..ChangeHost::default() },
        fold,
    );
    make(&mut draft, &world, &renamed.unwrap()).unwrap();
    assert_eq!(draft.secrets.hosts["h1"], account());
    let applied = make(&mut draft, &world, &changed(Account::Deleted)).unwrap();
    assert_eq!(written(&applied)["chap_user"], json!(null));
    assert!(draft.secrets.hosts.is_empty());
}

#[test]
fn a_refused_change_leaves_host_and_secret_as_they_were() {
    let world = World::new();
    let mut draft = array(&world);
    let stolen = Change::ChangeHost {
        name: "h1".to_owned(),
        initiators: Some(BTreeSet::from(["iqn.x:2".to_owned()])),
        account: Account::Set(account()),
    };
    for (change, kind) in [
        (stolen, ProblemKind::InitiatorTaken),
        (created("h1", &[]), ProblemKind::NameTaken),
        (created("g", &[]), ProblemKind::NameTaken),
        (created("h 3", &[]), ProblemKind::InvalidRequest),
        (Change::DeleteHost("h3".to_owned()), ProblemKind::NotFound),
        (Change::DeleteHost("h1".to_owned()), ProblemKind::HostInGroup),
        (Change::DeleteGroup("h1".to_owned()), ProblemKind::NotFound),
        (group("g", &["h1", "h3"]), ProblemKind::NotFound),
    ] {
        assert_eq!(refusal(&mut draft, &world, &change), kind, "{change:?}");
    }
}

#[test]
fn a_host_goes_with_its_tags_and_its_secret() {
    let world = World::new();
    let mut draft = array(&world);
    let before = draft.clone();
    make(&mut draft, &world, &created("h3", &[])).unwrap();
    draft.secrets.hosts.insert("h3".to_owned(), account());
    let tags = [("env".to_owned(), "prod".to_owned())].into();
    draft.array.set_tags(Tagged::Host("h3"), tags).unwrap();
    let applied = make(&mut draft, &world, &Change::DeleteHost("h3".to_owned())).unwrap();
    assert_eq!(applied.answer, Answer::DONE);
    assert_eq!(draft, before);
}

#[test]
fn a_group_touches_who_was_in_it_and_who_comes() {
    let world = World::new();
    let mut draft = array(&world);
    let applied = make(&mut draft, &world, &group("g", &["h2"])).unwrap();
    assert_eq!(applied.touched, names(&["h1", "h2"]));
    assert_eq!(*written(&applied), json!({ "name": "g", "hosts": ["h2"], "tags": {} }));
    let applied = make(&mut draft, &world, &Change::DeleteGroup("g".to_owned())).unwrap();
    assert_eq!(applied.touched, names(&["h2"]));
    assert_eq!(draft.array.host_groups.len(), 0);
}

/// Who joins a group sees by its numbers, so they must not stand for something else there.
#[test]
fn a_number_that_a_session_holds_keeps_its_host_out_of_a_group() {
    let mut world = World::new();
    let mut draft = array(&world);
    let wanted = (Some(5), Access::ReadWrite);
    draft.array.map_volume(VolumeId(1), "g", wanted, &world.rest()).unwrap();
    world.held.push(HeldLun { initiator: "iqn.x:2".to_owned(), lun: 5, volume: VolumeId(2) });
    let joined = group("g", &["h1", "h2"]);
    assert_eq!(refusal(&mut draft, &world, &joined), ProblemKind::LunHeld);
    world.held.clear();
    make(&mut draft, &world, &joined).unwrap();
    assert_eq!(draft.array.lun_seen_by("h2", VolumeId(1)), Some(5));
    assert_eq!(*world.asked_for_held.borrow(), 3, "only groups ask what sessions hold");
}
