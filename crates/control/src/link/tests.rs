//! The link's protocol: messages of every wrong kind, codes and their attempts, peers that fall silent,
//! come back, and send what they said before.

use super::*;
use crate::limits::{LINK_HOSTS_MAX, PAIRING_ATTEMPTS_MAX, PAIRING_LIFE};

const SECOND: Duration = Duration::from_secs(1);

fn page() -> RecordPage {
    RecordPage {
        opening: u64::MAX,
        after: 2,
        to: 5,
        is_last: true,
        version: 9,
        versions: Vec::new(),
        records: vec![r#"{"key":{"host":"a"},"record":null}"#.to_owned()],
        sizes: vec![(7, 1 << 30)],
    }
}

fn report(life: u64, sequence: u64) -> Report {
    Report {
        protocol: PROTOCOL,
        array: "0123".to_owned(),
        number: 2,
        version: "0.1.0".to_owned(),
        life,
        sequence,
        portals: BTreeMap::from([("192.0.2.2:3260".parse().unwrap(), 2)]),
        pools: BTreeMap::from([("ab".to_owned(), PathState::Standby)]),
        configured: BTreeMap::from([("p".to_owned(), serde_json::json!({"a field": [1]}))]),
        gone: BTreeSet::from(["b".repeat(32)]),
        readiness: Some(Readiness { reaches: ["ab".to_owned()].into(), ..Readiness::default() }),
        records: BTreeMap::from([("ab".to_owned(), page())]),
        heard: Some(BTreeMap::from([("ab".to_owned(), Mark { opening: 7, to: 3 })])),
        takes_calls: true,
        turns: None,
        users: Some("0f".to_owned()),
    }
}

fn code() -> PairingCode {
    PairingCode {
        number: 1,
        address: "[2001:db8::1]:3262".to_owned(),
        fingerprint: Fingerprint([0xa5; 32]),
        secret: Secret([7; 16]),
    }
}

#[test]
fn messages_are_read_as_they_are_written_and_unknown_fields_are_left_to_later_versions() {
    let join = Join { secret: Secret([1; 16]), array: "a".to_owned(), number: 2, address: None };
    let messages = [
        Message::Report(Box::new(report(1, 2))),
        Message::Join(join),
        Message::Joined { number: 256 },
        Message::Refused { reason: "no".to_owned() },
    ];
    for message in messages {
        let line = emit(&message);
        assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
        assert_eq!(parse(&line), Ok(message));
    }
    let later = br#"{"message":"joined","number":3,"colour":"blue"}"#;
    assert_eq!(parse(later), Ok(Message::Joined { number: 3 }));
}

#[test]
fn what_is_no_message_or_says_too_much_is_refused() {
    for wrong in [&b""[..], b"{}", b"[]", b"\xff\xfe", b"{\"message\":\"report\"}", b"null"] {
        assert!(parse(wrong).is_err(), "{wrong:?}");
    }
    let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
    assert!(parse(&deep).is_err());
    type Change = fn(&mut Report);
    let changes: [Change; 10] = [
        |report| report.number = 0,
        |report| report.number = 257,
        |report| report.version = "v".repeat(65),
        |report| report.version = "1\n2".to_owned(),
        |report| report.array = "a".repeat(300),
        |report| _ = report.portals.insert("0.0.0.0:3260".parse().unwrap(), 2),
        |report| _ = report.portals.insert("192.0.2.2:3260".parse().unwrap(), 0),
        |report| {
            let ports = 1..=1 + LINK_PORTALS_MAX as u16;
            report.portals = ports.map(|port| (([10, 0, 0, 1], port).into(), 2)).collect();
        },
        |report| {
            let names = 0..=array::limits::POOLS_MAX;
            report.pools = names.map(|at| (at.to_string(), PathState::Standby)).collect();
        },
        |report| {
            let hosts = Some((0..=LINK_HOSTS_MAX as u32).collect());
            report.readiness = Some(Readiness { hosts, ..Readiness::default() });
        },
    ];
    for change in changes {
        let mut wrong = report(1, 1);
        change(&mut wrong);
        assert!(parse(&emit(&Message::Report(Box::new(wrong.clone())))).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_code_is_read_as_it_is_written_and_nothing_else_is_one() {
    let text = code().to_string();
    assert_eq!(format!(" {text}\n").parse(), Ok(code()));
    for at in 0..text.len() {
        assert!(text[..at].parse::<PairingCode>().is_err(), "{}", &text[..at]);
    }
    for wrong in [
        text.replacen('1', "0", 1),
        text.replacen('1', "257", 1),
        format!("{text}/"),
        text.replace("3262", "0"),
        text.replace("a5", "g5"),
        text.replace("[2001", "[20 01"),
    ] {
        assert!(wrong.parse::<PairingCode>().is_err(), "{wrong}");
    }
    assert!(!format!("{:?}", code()).contains("0707"), "a secret is not in logs");
}

#[test]
fn a_code_works_once_in_its_time() {
    let (right, wrong) = (Secret([7; 16]), Secret([8; 16]));
    let mut pairing = Pairing::default();
    assert_eq!(pairing.attempt(right, SECOND), Attempt::Closed);
    pairing.begin(right, SECOND);
    assert!(pairing.is_open(SECOND) && !pairing.is_open(SECOND + PAIRING_LIFE));
    assert_eq!(pairing.attempt(wrong, SECOND), Attempt::Wrong);
    assert_eq!(pairing.attempt(right, SECOND), Attempt::Accepted);
    assert_eq!(pairing.attempt(right, SECOND), Attempt::Closed);
    pairing.begin(right, SECOND);
    assert_eq!(pairing.attempt(right, SECOND + PAIRING_LIFE), Attempt::Closed);
    pairing.begin(right, SECOND);
    pairing.begin(wrong, SECOND);
    assert_eq!(pairing.attempt(right, SECOND), Attempt::Wrong, "only the last code counts");
}

#[test]
fn a_code_allows_so_many_attempts_and_no_more() {
    let mut pairing = Pairing::default();
    pairing.begin(Secret([7; 16]), SECOND);
    for _ in 1..PAIRING_ATTEMPTS_MAX {
        assert_eq!(pairing.attempt(Secret([8; 16]), SECOND), Attempt::Wrong);
    }
    assert_eq!(pairing.attempt(Secret([8; 16]), SECOND), Attempt::Exhausted);
    assert_eq!(pairing.attempt(Secret([7; 16]), SECOND), Attempt::Closed);
}

#[test]
fn a_peer_is_there_as_long_as_it_is_heard() {
    let mut peers = Peers::default();
    assert_eq!(peers.report(2, SECOND), None);
    assert!(peers.hear(report(1, 1), SECOND));
    assert_eq!(peers.report(2, SECOND), Some(&report(1, 1)));
    assert_eq!(peers.report(2, SECOND + LINK_SILENCE), None);
    assert_eq!(peers.last(2), Some((SECOND, &report(1, 1))));
    assert!(!peers.hear(report(1, 1), 9 * SECOND), "it says nothing new, and lives");
    assert!(peers.report(2, 9 * SECOND).is_some());
    peers.forget(2);
    assert_eq!(peers.last(2), None);
}

#[test]
fn what_a_peer_said_before_is_not_taken_for_news() {
    let mut peers = Peers::default();
    peers.hear(report(1, 5), SECOND);
    assert!(!peers.hear(report(1, 4), SECOND));
    assert_eq!(peers.report(2, SECOND), Some(&report(1, 5)));
    assert!(peers.hear(report(2, 1), SECOND), "it was started anew");
    assert_eq!(peers.report(2, SECOND), Some(&report(2, 1)));
}
