use api::NewSnapshot;
use array::{Tagged, Tags};

use super::*;
use crate::procedures::tests::{NOW, Outcome, Server};

fn wanted(names: &[(&str, &str)], locked_until: Option<u64>) -> CreateSnapshots {
    let new = |(volume, name): &(&str, &str)| NewSnapshot {
        volume: (*volume).to_owned(),
        name: (*name).to_owned(),
        tags: Tags::from([("made".to_owned(), (*volume).to_owned())]),
    };
    let snapshots = names.iter().map(new).collect();
    CreateSnapshots { pool: "p".to_owned(), snapshots, locked_until }
}

#[test]
fn of_a_group_with_one_bad_member_none_is_made() {
    let cases = [
        &[("a", "s1"), ("none", "s2")][..],
        &[("a", "s1"), ("b", "")],
        &[("a", "s1"), ("b", "x/y")],
    ];
    for names in cases {
        assert!(create(&wanted(names, None), NOW, &Server::new()).is_err(), "{names:?}");
    }
}

#[test]
fn a_lock_that_is_over_or_too_long_is_refused_with_all_its_snapshots() {
    for until in [0, NOW, u64::MAX] {
        let mut server = Server::new();
        let before = server.next.clone();
        server.begin(create(&wanted(&[("a", "s1")], Some(until)), NOW, &server));
        assert!(server.answers[0].is_err(), "{until}");
        assert_eq!(server.waits.len(), 0);
        assert_eq!(server.array, before);
    }
}

#[test]
fn a_copy_looks_like_its_source_but_shows_its_reservations() {
    let mut server = Server::new();
    let source = server.id("b");
    let hidden = Presentation { reservations_hidden: true, ..server.array.presentation(source) };
    server.array.set_presentation(source, hidden);
    server.next = server.array.clone();
    let tags = Tags::from([("env".to_owned(), "test".to_owned())]);
    let request = CloneVolume { name: "c".to_owned(), thick: true, tags: tags.clone() };
    server.begin(clone_volume(("p", "b"), &request, NOW, &server));
    server.step(0, Outcome::Works);
    server.step(0, Outcome::Works);
    let id = server.id("c");
    let expected = Presentation { reservations_hidden: false, ..hidden };
    assert_eq!(server.array.presentation(id), expected);
    assert_eq!(server.array.tags(Tagged::Volume(id)), tags);
    assert!(server.volumes[&id].spec.thick);
}

#[test]
fn a_volume_is_reverted_to_its_own_snapshots_and_not_under_hosts_unless_forced() {
    let request = |snapshot: &str, force| RevertVolume { snapshot: snapshot.to_owned(), force };
    let is = |refusal: Result<Stage, Problem>, kind| refusal.is_err_and(|it| it.is(kind));
    let mut server = Server::new();
    let other = revert(("p", "b"), &request("a.old", false), &server);
    assert!(is(other, ProblemKind::NotItsSnapshot));
    let volume = revert(("p", "a"), &request("b", false), &server);
    assert!(is(volume, ProblemKind::NotItsSnapshot));
    let id = server.id("a");
    let rest = array::Rest { now: 0, seconds: 0, held: &[], free: array::FreeLuns::Known };
    let wanted = (None, array::Access::ReadWrite);
    server.next.map_volume(id, array::ANY_HOST, wanted, &rest).unwrap();
    let mapped = revert(("p", "a"), &request("a.old", false), &server);
    assert!(is(mapped, ProblemKind::StillMapped));
    assert!(revert(("p", "a"), &request("a.old", true), &server).is_ok());
}
