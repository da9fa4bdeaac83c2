//! Requests for pools and devices, each with every outcome of every step, and what is refused.

use super::*;

type Request = fn(&Server) -> Result<Stage, Problem>;

const REQUESTS: [(&str, Request); 6] = [
    ("create", |server| create(&wanted("new", &["/n0", "/n1"]), server)),
    ("create elsewhere", |server| create(&wanted("other", &["/n1"]), server)),
    ("delete", |server| delete("p", Unopened::Refused, NOW, server)),
    ("add", |server| devices::add("p", &joining(&[]), server)),
    ("add a mirror", |server| devices::add("p", &joining(&["/p2"]), server)),
    ("extend", |server| {
        devices::extend("p", &ResizePool { device: None, size_bytes: 2 * GIB }, server)
    }),
];

#[test]
fn whatever_fails_and_whenever_the_daemon_restarts_no_pool_lacks_a_device() {
    let all = [
        Outcome::Works,
        Outcome::Fails,
        Outcome::FailsAfter,
        Outcome::FailsBefore,
        Outcome::Vanishes,
    ];
    for (name, request) in REQUESTS {
        let mut server = Server::new();
        let stage = request(&server);
        assert!(stage.is_ok(), "{name}: {stage:?}");
        server.begin(stage);
        assert!(explore(&server, &all, 1) >= 4, "{name}");
    }
}

#[test]
fn two_requests_at_a_time_exclude_each_other_or_do_what_they_would_alone() {
    let mut ends = 0;
    for (_, first) in REQUESTS {
        for (_, second) in REQUESTS {
            let mut server = Server::new();
            server.begin(first(&server));
            let mut begun = vec![server.clone()];
            while !server.waits.is_empty() {
                server.step(0, Outcome::Works);
                begun.push(server.clone());
            }
            for mut server in begun {
                let stage = second(&server);
                server.begin(stage);
                ends += explore(&server, &[Outcome::Works, Outcome::Fails], 2);
            }
        }
    }
    assert!(ends > 300, "{ends}");
}

#[test]
fn a_pool_that_is_made_is_shown_and_one_that_is_deleted_is_not_configured() {
    let mut server = Server::new();
    server.begin(REQUESTS[0].1(&server));
    server.finish();
    assert_eq!(server.answers, [Ok(Answer::Pool("new".to_owned()))]);
    assert_eq!(server.array.pools["new"].devices.len(), 2);
    server.begin(delete("new", Unopened::Refused, NOW, &server));
    server.finish();
    assert_eq!(server.answers[1], Ok(Answer::Done));
    assert!(!server.array.pools.contains_key("new") && server.pool("new").is_none());
}

#[test]
fn names_and_devices_that_are_none_or_taken_are_refused_before_a_file_is_made() {
    let cases: [(&str, &[&str]); 6] = [
        ("q", &[]),
        ("", &["/q"]),
        ("q/r", &["/q"]),
        ("p", &["/q"]),
        ("q", &["/q", "/q"]),
        ("q", &["/p0"]),
    ];
    for (name, devices) in cases {
        let server = Server::new();
        assert!(create(&wanted(name, devices), &server).is_err(), "{name} {devices:?}");
    }
}

#[test]
fn a_pool_without_identifiers_leaves_no_file() {
    for left in 0..3 {
        let mut server = Server::new();
        server.begin(REQUESTS[0].1(&server));
        server.uuids_left.set(left);
        server.finish();
        assert!(server.answers[0].is_err());
        server.check_rest(1);
    }
}

#[test]
fn a_pool_that_holds_something_or_works_on_something_is_not_deleted() {
    let mut server = Server::new();
    let id = server.pool("p").unwrap().id;
    server.pools.get_mut(&id).unwrap().volumes = 2;
    let refusal = delete("p", Unopened::Refused, NOW, &server).unwrap_err();
    assert!(refusal.is(ProblemKind::PoolNotEmpty));
    server.pools.get_mut(&id).unwrap().volumes = 0;
    server.begin(Ok(Stage::change(id, store::Change::Close, AfterChange::ClosePool("p".into()))));
    assert!(delete("p", Unopened::Refused, NOW, &server).unwrap_err().is(ProblemKind::Conflict));
    let gone = delete("none", Unopened::Refused, NOW, &server).unwrap_err();
    assert!(gone.is(ProblemKind::NotFound));
}

#[test]
fn a_pool_that_cannot_be_opened_is_forgotten_unless_a_lock_says_otherwise() {
    let mut server = Server::new();
    server.pools.clear();
    server.next.lock_snapshot("p", VolumeId(1), NOW + 60, NOW).unwrap();
    let forced = |server: &Server, now| delete("p", Unopened::Forgotten, now, server);
    assert!(forced(&server, NOW).unwrap_err().is(ProblemKind::SnapshotLocked));
    server.begin(forced(&server, NOW + 60));
    server.finish();
    assert!(!server.array.pools.contains_key("p"));
    assert!(server.files.contains(&p0()), "its device is not touched");
}

#[test]
fn a_pool_that_closes_as_the_daemon_stops_stays_configured() {
    let mut server = Server::new();
    let id = server.pool("p").unwrap().id;
    server.is_stopping = true;
    server.begin(Ok(close(id, "p".to_owned())));
    server.finish();
    assert_eq!(server.answers, [Ok(Answer::Done)]);
    assert!(server.pools.is_empty() && server.array.pools.contains_key("p"));
}

#[test]
fn whoever_deletes_a_pool_that_is_not_open_is_told_what_is_forgotten_with_it() {
    let mut server = Server::new();
    server.pools.clear();
    let rest = array::Rest { now: NOW, seconds: 0, held: &[], free: array::FreeLuns::Known };
    for id in [HELD, VolumeId(1), VolumeId(2)] {
        let wish = (None, array::Access::ReadWrite);
        server.next.map_volume(id, array::ANY_HOST, wish, &rest).unwrap();
    }
    server.next.lock_snapshot("p", VolumeId(9), NOW - 1, NOW - 2).unwrap();
    let refusal = delete("p", Unopened::Refused, NOW, &server).unwrap_err();
    assert!(refusal.is(ProblemKind::PoolNotOpen), "{refusal:?}");
    for text in ["2 LUN(s) of 2 volume(s)", "1 scheduled or locked", "0 schedule(s)"] {
        assert!(refusal.detail.contains(text), "'{text}' is not in {}", refusal.detail);
    }
    server.begin(delete("p", Unopened::Forgotten, NOW, &server));
    server.finish();
    assert!(!server.array.pools.contains_key("p"));
}

#[test]
fn a_pool_that_is_still_being_opened_is_deleted_only_if_that_is_said() {
    let mut server = Server::new();
    server.opening.insert("p".to_owned());
    let refusal = delete("p", Unopened::Refused, NOW, &server).unwrap_err();
    assert!(refusal.is(ProblemKind::PoolNotOpen));
    server.begin(delete("p", Unopened::Forgotten, NOW, &server));
    server.finish();
    assert!(server.pools.is_empty() && !server.array.pools.contains_key("p"));
}
