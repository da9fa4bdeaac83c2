use super::*;
use crate::pools::tests::Server;
use crate::procedures::tests::Outcome;

const GIB: u64 = 1 << 30;

fn wanted(device: &str) -> AddDevice {
    let device = format!("file:{device}");
    AddDevice { device, mirrored_by: Vec::new(), size_bytes: Some(GIB) }
}

fn sizes(server: &Server) -> Vec<u64> {
    let joined = server.pool("p").unwrap().joined;
    joined.into_iter().map(|device| device.size_bytes).collect()
}

#[test]
fn a_device_joins_and_the_next_one_waits_until_it_has() {
    let mut server = Server::new();
    server.begin(add("p", &wanted("/p1"), &server));
    let refusal = add("p", &wanted("/p2"), &server).unwrap_err();
    assert!(refusal.detail.contains("joined by another device"), "{}", refusal.detail);
    server.finish();
    assert_eq!(server.answers, [Ok(Answer::Pool("p".to_owned()))]);
    assert_eq!(sizes(&server), [GIB, GIB]);
    assert!(add("p", &wanted("/p1"), &server).is_err(), "it is there already");
    assert!(add("p", &wanted("/p2"), &server).is_ok());
}

#[test]
fn a_pool_grows_by_whole_blocks_and_only_the_device_that_is_meant() {
    let mut server = Server::new();
    let request = |device, size_bytes| ResizePool { device, size_bytes };
    for size_bytes in [0, 1, GIB, 2 * GIB + 1, u64::MAX] {
        assert!(extend("p", &request(None, size_bytes), &server).is_err(), "{size_bytes}");
    }
    assert!(extend("p", &request(Some(1), 2 * GIB), &server).is_err());
    server.begin(add("p", &wanted("/p1"), &server));
    server.finish();
    let ambiguous = extend("p", &request(None, 2 * GIB), &server).unwrap_err();
    assert!(ambiguous.is(ProblemKind::DeviceAmbiguous));
    server.begin(extend("p", &request(Some(1), 2 * GIB), &server));
    server.finish();
    assert_eq!(sizes(&server), [GIB, 2 * GIB]);
}

/// Whether the pool has recorded the device is known when it is opened again.
#[test]
fn a_device_stays_configured_while_nobody_knows_whether_it_has_joined() {
    for (outcome, is_configured) in [
        (Outcome::Fails, false),
        (Outcome::FailsAfter, true),
        (Outcome::FailsBefore, true),
        (Outcome::Vanishes, true),
    ] {
        let mut server = Server::new();
        server.begin(add("p", &wanted("/p1"), &server));
        server.step(0, Outcome::Works);
        server.step(0, Outcome::Works);
        server.step(0, outcome);
        server.finish();
        assert!(server.answers[0].is_err());
        let [array, _] = server.versions();
        assert_eq!(array.pools["p"].devices.len() == 2, is_configured, "{outcome:?}");
    }
}
