use api::ProblemKind;
use array::Schedule;

use super::*;
use crate::procedures::tests::{MIB, NOW, Server};

fn is(refusal: Result<Stage, Problem>, kind: ProblemKind) -> bool {
    refusal.is_err_and(|problem| problem.is(kind))
}

#[test]
fn a_volume_without_a_name_or_size_is_refused_before_anything_is_saved() {
    let request = |name: &str, size_bytes| CreateVolume {
        pool: "p".to_owned(),
        name: name.to_owned(),
        size_bytes,
        thick: false,
        block_size: BlockSize::B512,
        tags: Tags::new(),
    };
    let cases = [
        ("", MIB),
        ("a/b", MIB),
        ("-", MIB),
        ("ok", 0),
        ("ok", 4095),
        ("ok", VOLUME_BYTES_MAX + BLOCK),
        ("ok", u64::MAX),
    ];
    for (name, size_bytes) in cases {
        let refusal = create(&request(name, size_bytes), NOW, &Server::new());
        assert!(is(refusal, ProblemKind::InvalidRequest), "{name} {size_bytes}");
    }
    let elsewhere = CreateVolume { pool: "q".to_owned(), ..request("ok", MIB) };
    assert!(create(&elsewhere, NOW, &Server::new()).is_err());
}

#[test]
fn a_shrink_is_confirmed_and_says_the_size_it_would_take_from() {
    let request = |size_bytes, shrink| ResizeVolume { size_bytes, shrink };
    let refusal = resize(("p", "a"), &request(MIB, false), &Server::new());
    assert!(is(refusal, ProblemKind::ShrinkNotConfirmed));
    assert!(resize(("p", "a"), &request(8 * MIB, false), &Server::new()).is_ok());
    assert!(resize(("p", "a"), &request(MIB, true), &Server::new()).is_ok());
    let nothing = resize(("p", "none"), &request(MIB, true), &Server::new());
    assert!(is(nothing, ProblemKind::NotFound));
}

#[test]
fn volumes_and_snapshots_are_asked_for_as_what_they_are() {
    let server = Server::new();
    let delete = |named, kind| is(delete(named, NOW, &server), kind);
    assert!(delete(Named::Volume("p", "a.old"), ProblemKind::IsSnapshot));
    assert!(delete(Named::Snapshot("p", "a"), ProblemKind::IsVolume));
    assert!(delete(Named::Snapshot("q", "a"), ProblemKind::NotFound));
    let to = Rename { name: "c".to_owned() };
    let refusal = rename(Named::Volume("p", "a.old"), &to, &server);
    assert!(is(refusal, ProblemKind::IsSnapshot));
}

#[test]
fn a_lock_keeps_a_snapshot_from_the_moment_that_it_is_asked_for_until_it_ends() {
    let mut server = Server::new();
    let id = server.id("a.old");
    let named = Named::Snapshot("p", "a.old");
    server.next.lock_snapshot("p", id, NOW + 60, NOW).unwrap();
    assert!(is(delete(named, NOW, &server), ProblemKind::SnapshotLocked));
    assert!(delete(named, NOW + 60, &server).is_ok());
    server.next = server.array.clone();
    assert!(delete(named, NOW, &server).is_ok(), "the lock was not saved");
}

#[test]
fn a_volume_that_a_schedule_names_keeps_its_name() {
    let mut server = Server::new();
    let schedule = Schedule {
        pool: "p".to_owned(),
        volumes: ["a".to_owned()].into(),
        every_seconds: 60,
        offset_seconds: 0,
        keep: 1,
        lock_seconds: None,
        enabled: true,
    };
    server.next.set_schedule("s", schedule, NOW).unwrap();
    let to = Rename { name: "c".to_owned() };
    let refusal = rename(Named::Volume("p", "a"), &to, &server);
    assert!(is(refusal, ProblemKind::InSchedule));
    assert!(rename(Named::Volume("p", "b"), &to, &server).is_ok());
    let none = Rename { name: "a b".to_owned() };
    assert!(is(rename(Named::Volume("p", "b"), &none, &server), ProblemKind::InvalidRequest));
}
