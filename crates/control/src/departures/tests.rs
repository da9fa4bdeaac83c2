//! Devices that leave: every outcome of every step, with a restart before, in and after each.

use super::*;
use crate::devices;
use crate::pools::tests::{Server, explore, joining};
use crate::procedures::tests::Outcome;

const ALL: [Outcome; 5] =
    [Outcome::Works, Outcome::Fails, Outcome::FailsAfter, Outcome::FailsBefore, Outcome::Vanishes];

/// Pool 'p' on /p0 and /p1.
fn of_two() -> Server {
    let mut server = Server::new();
    server.begin(devices::add("p", &joining(&[]), &server));
    server.finish();
    server.forget_answers();
    server
}

/// The same, while device 1 leaves.
fn leaving() -> Server {
    let mut server = of_two();
    let request = RemoveDevice { rate_bytes: Some(DEPARTURE_RATE_MIN) };
    server.begin(remove("p", "1", &request, &server));
    server.finish();
    assert_eq!(server.answers, [Ok(Answer::Pool("p".to_owned()))]);
    server.forget_answers();
    server
}

fn told(action: DepartureAction, rate_bytes: Option<u64>) -> ControlDeparture {
    ControlDeparture { action, rate_bytes }
}

fn departure(server: &Server) -> Option<Departure> {
    let [array, _] = server.versions();
    array.pools["p"].departure.clone()
}

fn configured(server: &Server) -> usize {
    let [array, _] = server.versions();
    array.pools["p"].devices.len()
}

#[test]
fn a_device_leaves_and_is_configured_no_more() {
    let mut server = leaving();
    let known = departure(&server).unwrap();
    assert_eq!((known.devices.len(), known.rate_bytes), (1, Some(DEPARTURE_RATE_MIN)));
    server.begin(end("p", 1, &server));
    server.finish();
    assert_eq!(server.answers, [Ok(Answer::Pool("p".to_owned()))]);
    assert_eq!((departure(&server), configured(&server)), (None, 1));
    assert_eq!(server.pool("p").unwrap().open_devices, 1);
    server.begin(devices::add("p", &joining(&[]), &server));
    server.finish();
    assert!(server.answers[1].is_err(), "its file is the administrator's: it is there yet");
}

#[test]
fn whatever_fails_and_whenever_the_daemon_restarts_it_leaves_or_stays() {
    for (server, requests) in [(of_two(), 0), (leaving(), 1)] {
        let mut beginning = server;
        let stage = match requests {
            0 => remove("p", "1", &RemoveDevice::default(), &beginning),
            _ => end("p", 1, &beginning),
        };
        assert!(stage.is_ok(), "{stage:?}");
        beginning.begin(stage);
        assert!(explore(&beginning, &ALL, 1) >= 4);
    }
    for action in [DepartureAction::Pause, DepartureAction::Resume, DepartureAction::Cancel] {
        for rate_bytes in [None, Some(DEPARTURE_RATE_MIN)] {
            let mut server = leaving();
            server.begin(control("p", &told(action, rate_bytes), &server));
            assert!(explore(&server, &ALL, 1) >= 2, "{action:?}");
        }
    }
}

#[test]
fn one_that_is_given_up_stays_and_may_begin_again() {
    let mut server = leaving();
    server.begin(control("p", &told(DepartureAction::Cancel, None), &server));
    server.finish();
    assert_eq!((departure(&server), configured(&server)), (None, 2));
    assert!(remove("p", "1", &RemoveDevice::default(), &server).is_ok());
}

#[test]
fn another_limit_is_kept() {
    let mut server = leaving();
    server.begin(control("p", &told(DepartureAction::Resume, Some(7 << 20)), &server));
    server.finish();
    assert_eq!(departure(&server).unwrap().rate_bytes, Some(7 << 20));
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_saved() {
    let server = of_two();
    let request = RemoveDevice::default();
    for device in ["2", "x", "", "-1", "01x", "99999999999999999999"] {
        let refused = remove("p", device, &request, &server).unwrap_err();
        assert!(refused.is(ProblemKind::NotFound), "{device}: {refused:?}");
    }
    let refused = remove("p", "0", &request, &server).unwrap_err();
    assert!(refused.detail.contains("journal"), "{}", refused.detail);
    for rate_bytes in [0, 1, DEPARTURE_RATE_MIN - 1] {
        let slow = RemoveDevice { rate_bytes: Some(rate_bytes) };
        assert_eq!(remove("p", "1", &slow, &server).unwrap_err().status, 400);
    }
    let refused = control("p", &told(DepartureAction::Pause, None), &server).unwrap_err();
    assert!(refused.detail.contains("no device"), "{}", refused.detail);
    let server = leaving();
    let refused = remove("p", "1", &request, &server).unwrap_err();
    assert!(refused.detail.contains("leaving already"), "{}", refused.detail);
}
