use serde_json::json;

use super::*;
use crate::change::tests::{World, empty, make, refusal, written};

const ADDRESS: &str = "198.51.100.7:3260";
const FIXED: &str = "192.0.2.1:3260";

fn request(address: &str, group: u16, redirect: Option<&str>) -> CreatePortal {
    let (address, redirect) = (address.to_owned(), redirect.map(str::to_owned));
    CreatePortal { address, target_portal_group_tag: group, redirect }
}

fn created(address: &str, group: u16) -> Change {
    create(&request(address, group, None)).unwrap()
}

#[test]
fn a_portal_is_opened_before_it_is_saved_and_served_after() {
    let (mut draft, world) = (empty(), World::new());
    let applied = make(&mut draft, &world, &created(ADDRESS, 2)).unwrap();
    let address: SocketAddr = ADDRESS.parse().unwrap();
    assert_eq!(*world.opened.borrow(), [address]);
    assert_eq!(applied.effects, [Effect::OpenPortal(address)]);
    assert_eq!(applied.unsaved, [Effect::CloseUnsaved(address)]);
    let expected = json!({
        "address": ADDRESS, "target_portal_group_tag": 2, "state": "active-optimized",
        "redirect": null, "fixed": false,
    });
    assert_eq!(*written(&applied), expected);
    let applied = make(&mut draft, &world, &delete(ADDRESS).unwrap()).unwrap();
    assert_eq!(applied.effects, [Effect::ClosePortal(address)]);
    assert_eq!(draft, empty());
}

#[test]
fn what_is_no_portal_is_refused() {
    let (mut draft, mut world) = (empty(), World::new());
    for text in ["198.51.100.7", "::1:3260", "host:3260", ""] {
        assert_eq!(create(&request(text, 1, None)).unwrap_err().status, 400, "{text}");
        assert_eq!(create(&request(ADDRESS, 1, Some(text))).unwrap_err().status, 400, "{text}");
        assert_eq!(delete(text).unwrap_err().status, 400, "{text}");
    }
    let itself = create(&request(ADDRESS, 1, Some(ADDRESS))).unwrap();
    world.occupied.push("198.51.100.8:3260".parse().unwrap());
    for (change, kind) in [
        (created(ADDRESS, 0), ProblemKind::InvalidRequest),
        (itself, ProblemKind::InvalidRequest),
        (created(FIXED, 1), ProblemKind::NameTaken),
        (created("198.51.100.8:3260", 1), ProblemKind::Conflict),
        (delete(FIXED).unwrap(), ProblemKind::PortalFixed),
        (delete(ADDRESS).unwrap(), ProblemKind::NotFound),
    ] {
        assert_eq!(refusal(&mut draft, &world, &change), kind, "{change:?}");
    }
}

#[test]
fn a_group_has_a_state_that_hosts_are_told_whether_it_has_portals_or_not() {
    let (mut draft, world) = (empty(), World::new());
    let standby = SetPathState { state: api::PathState::Standby };
    for text in ["0", "65536", "-1", "one", ""] {
        assert_eq!(set_state(text, standby).unwrap_err().status, 400, "{text}");
    }
    let change = set_state("7", standby).unwrap();
    let applied = make(&mut draft, &world, &change).unwrap();
    let told = ExportEvent::PathState { group: 7, state: AccessState::Standby };
    assert_eq!(applied.effects, [Effect::Tell(told)]);
    assert_eq!(applied.touched, Touched::Nobody, "LUNs are the same on every path");
    assert_eq!(*written(&applied), json!({ "state": "standby" }));
    make(&mut draft, &world, &created(ADDRESS, 7)).unwrap();
    let portals = describe_all(&draft.array, &world.fixed_portals());
    let states = portals.iter().map(|portal| (portal.address.as_str(), portal.state));
    let active = api::PathState::ActiveOptimized;
    assert!(states.eq([(FIXED, active), (ADDRESS, api::PathState::Standby)]));
    assert!(show(&draft.array, &world.fixed_portals(), FIXED).unwrap().fixed);
    assert_eq!(show(&draft.array, &world.fixed_portals(), "[::1]:1").unwrap_err().status, 404);
}
