//! Mirrors that are refused, that join, and that are forgotten after a restart.

use super::*;
use crate::devices;
use crate::pools::tests::{Server, joining as wanted};
use crate::procedures::tests::Outcome;

fn configured(server: &Server) -> (usize, usize) {
    let [array, _] = server.versions();
    let pool = &array.pools["p"];
    (pool.devices.len(), pool.mirroring.joining.len())
}

#[test]
fn a_mirror_joins_with_all_its_members_and_is_told_once() {
    let mut server = Server::new();
    let four = devices::add("p", &wanted(&["/p2", "/p3", "/p4"]), &server).unwrap_err();
    assert!(four.detail.contains("2 or 3 devices"), "{}", four.detail);
    assert!(devices::add("p", &wanted(&["/p1"]), &server).is_err(), "one device is named twice");
    assert!(devices::add("p", &wanted(&["/p0"]), &server).is_err(), "it is in the pool");
    server.begin(devices::add("p", &wanted(&["/p2"]), &server));
    let other = devices::add("p", &wanted(&["/p3"]), &server).unwrap_err();
    assert_eq!(other.status, 409);
    server.finish();
    assert_eq!(server.answers, [Ok(Answer::Pool("p".to_owned()))]);
    assert_eq!(configured(&server), (3, 2));
    // They are looked at, and are members.
    let [array, _] = server.versions();
    let mut array = array.clone();
    let members = array.pools["p"].mirroring.joining.clone();
    Change::KnowMembers("p".to_owned(), members.clone()).apply(&mut array);
    assert!(array.pools["p"].mirroring.joining.is_empty());
    assert_eq!(array.pools["p"].mirroring.members, members);
}

#[test]
fn members_stay_configured_while_nobody_knows_whether_they_have_joined() {
    for (outcome, counts) in [
        (Outcome::Fails, (1, 0)),
        (Outcome::FailsAfter, (3, 2)),
        (Outcome::FailsBefore, (3, 2)),
        (Outcome::Vanishes, (3, 2)),
    ] {
        let mut server = Server::new();
        server.begin(devices::add("p", &wanted(&["/p2"]), &server));
        server.step(0, Outcome::Works);
        server.step(0, Outcome::Works);
        server.step(0, outcome);
        server.finish();
        assert!(server.answers[0].is_err());
        assert_eq!(configured(&server), counts, "{outcome:?}");
    }
}

#[test]
fn a_pool_with_an_absent_member_is_not_extended_and_says_which_it_is() {
    let mut server = Server::new();
    server.begin(devices::add("p", &wanted(&["/p2"]), &server));
    server.finish();
    let request = api::ResizePool { device: Some(1), size_bytes: 2 << 30 };
    assert!(devices::extend("p", &request, &server).is_ok());
    server.state = store::MemberState::Resilvering;
    assert!(devices::extend("p", &request, &server).is_ok());
    server.state = store::MemberState::Absent;
    let refused = devices::extend("p", &request, &server).unwrap_err();
    assert_eq!(refused.status, 409);
    assert!(refused.detail.contains("is absent"), "{}", refused.detail);
}
