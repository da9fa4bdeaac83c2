use super::initiator::{Initiator, NORMAL, Pdu};
use crate::event::{ClosedReason, Event, LoginStatus, LoginTerms};
use crate::{
    AuthenticationMethod, ChapAccount, ChapAlgorithm, ChapCredential, ChapSecret, ChapTerms,
    ConnectionConfig, Limits, Requirement,
};

fn fresh() -> Initiator {
    Initiator::new(ConnectionConfig::default())
}

/// Answers the questions of a login; the next event stays.
fn admit(initiator: &mut Initiator) {
    while let Some(event) = initiator.event() {
        match event {
            Event::Login(_) => initiator.target.login_admit(LoginTerms::open(1)),
            Event::Authenticated(_) => initiator.target.login_accept(7),
            event => return initiator.put_back(event),
        }
    }
}

/// Sends one login request, lets it in if asked, and returns the answer.
fn exchange(initiator: &mut Initiator, flags: u8, text: &str) -> Pdu {
    initiator.send(&Pdu::login(flags, text));
    admit(initiator);
    initiator.answer()
}

/// Status class and detail of the answer to a first request.
fn status_of(flags: u8, text: &str) -> [u8; 2] {
    let answer = exchange(&mut fresh(), flags, text);
    [answer.bhs.0[36], answer.bhs.0[37]]
}

fn keys_after(keys: &str) -> String {
    exchange(&mut fresh(), 0x87, &format!("{NORMAL}{keys}")).text()
}

#[test]
fn security_and_operational_stage_lead_to_full_feature_phase() {
    let mut initiator = fresh();
    let answer = exchange(&mut initiator, 0x81, &format!("{NORMAL}AuthMethod=CHAP,None\0"));
    assert_eq!(answer.bhs.0[1], 0x81);
    assert_eq!(answer.text(), "AuthMethod=None TargetPortalGroupTag=1 ");
    assert_eq!(answer.bhs.u16(14), 0, "no session yet");
    initiator.send(&Pdu::login(0x87, "HeaderDigest=None\0MaxConnections=8\0"));
    admit(&mut initiator);
    let Some(Event::LoggedIn(parameters)) = initiator.event() else { panic!() };
    let answer = initiator.answer();
    assert_eq!(answer.bhs.0[1], 0x87);
    assert_eq!(
        answer.text(),
        "HeaderDigest=None MaxConnections=1 MaxRecvDataSegmentLength=262144 "
    );
    assert_eq!(answer.bhs.u16(14), 7);
    assert_eq!((answer.bhs.u32(24), answer.bhs.u32(28)), (501, 100));
    assert_eq!(answer.bhs.u32(32), 100 + 255);
    assert_eq!(parameters.tsih, 7);
    assert!(!parameters.discovery);
}

// Sending MaxRecvDataSegmentLength in the security stage broke the login of ESX.
#[test]
fn declarative_keys_go_out_once_and_in_the_operational_stage_only() {
    let mut initiator = fresh();
    let security = exchange(&mut initiator, 0x00, NORMAL).text();
    assert!(!security.contains("MaxRecv"), "{security}");
    let security = exchange(&mut initiator, 0x81, "AuthMethod=None\0").text();
    assert_eq!(security, "AuthMethod=None ");
    assert_eq!(exchange(&mut initiator, 0x04, "").text(), "MaxRecvDataSegmentLength=262144 ");
    assert_eq!(exchange(&mut initiator, 0x87, "").text(), "");
}

// An initiator that forgets the null byte after the last key was turned away by another target.
#[test]
fn the_last_key_need_not_end_in_a_null_byte() {
    let text = keys_after("ErrorRecoveryLevel=2");
    assert!(text.contains("ErrorRecoveryLevel=0 "), "{text}");
}

#[test]
fn unknown_keys_are_not_understood() {
    let text = keys_after("X-com.vmware.protect=yes\0Foo=\0");
    assert!(text.starts_with("X-com.vmware.protect=NotUnderstood Foo=NotUnderstood "), "{text}");
}

#[test]
fn each_key_is_settled_by_its_rule() {
    let table = [
        ("HeaderDigest=CRC32C,None", "HeaderDigest=CRC32C"),
        ("DataDigest=None,CRC32C", "DataDigest=None"),
        ("DataDigest=MD5", "DataDigest=Reject"),
        ("InitialR2T=No", "InitialR2T=No"),
        ("InitialR2T=Yes", "InitialR2T=Yes"),
        ("ImmediateData=No", "ImmediateData=No"),
        ("ImmediateData=maybe", "ImmediateData=Reject"),
        ("MaxBurstLength=0x4000", "MaxBurstLength=16384"),
        ("MaxBurstLength=16776192", "MaxBurstLength=1048576"),
        ("MaxBurstLength=511", "MaxBurstLength=Reject"),
        ("MaxBurstLength=+600", "MaxBurstLength=Reject"),
        ("MaxBurstLength=99999999999", "MaxBurstLength=Reject"),
        ("MaxRecvDataSegmentLength=100", "MaxRecvDataSegmentLength=Reject"),
        ("DefaultTime2Wait=0", "DefaultTime2Wait=2"),
        ("DefaultTime2Retain=20", "DefaultTime2Retain=0"),
        ("MaxOutstandingR2T=65535", "MaxOutstandingR2T=4"),
        ("MaxOutstandingR2T=0", "MaxOutstandingR2T=Reject"),
        ("DataPDUInOrder=No", "DataPDUInOrder=Yes"),
        ("DataSequenceInOrder=No", "DataSequenceInOrder=Yes"),
        ("OFMarker=Yes", "OFMarker=No"),
        ("IFMarkInt=2048~8192", "IFMarkInt=Irrelevant"),
        ("iSCSIProtocolLevel=3", "iSCSIProtocolLevel=2"),
        ("TaskReporting=FastAbort,RFC3720", "TaskReporting=RFC3720"),
    ];
    for (offer, answer) in table {
        let text = keys_after(&format!("{offer}\0"));
        assert!(text.starts_with(&format!("{answer} ")), "{offer} was answered {text}");
    }
}

#[test]
fn parameters_say_what_was_settled() {
    let initiator = Initiator::logged_in(
        "InitialR2T=No\0FirstBurstLength=65536\0MaxBurstLength=16384\0ImmediateData=No\0\
         MaxRecvDataSegmentLength=131072\0InitiatorAlias=host\0",
    );
    let parameters = initiator.target.parameters();
    assert!(!parameters.initial_r2t && !parameters.immediate_data);
    assert_eq!(parameters.first_burst_length, 16384, "never more than MaxBurstLength");
    assert_eq!(parameters.initiator_max_recv_data_segment_length, 131_072);
    assert_eq!(parameters.target_max_recv_data_segment_length, 262_144);
    assert_eq!(parameters.initiator_alias.as_deref(), Some("host"));
}

// RFC 7143 6.3. libiscsi says who it is in both stages, which is no harm.
#[test]
fn a_repeated_key_ends_the_login_unless_it_names_the_initiator() {
    let mut initiator = fresh();
    exchange(&mut initiator, 0x81, &format!("{NORMAL}AuthMethod=None\0"));
    assert_eq!(exchange(&mut initiator, 0x87, NORMAL).bhs.0[36], 0);
    let twice = format!("{NORMAL}InitialR2T=No\0InitialR2T=No\0");
    assert_eq!(status_of(0x87, &twice), [2, 0]);
    assert_eq!(status_of(0x87, &format!("{NORMAL}TargetName=iqn.other\0")), [2, 0]);
}

#[test]
fn wrong_first_requests_are_refused_with_the_right_status() {
    let many_keys: String = (0..200).map(|key| format!("K{key}=1\0")).collect();
    let table: [(u8, &str, [u8; 2]); 16] = [
        (0x87, "SessionType=Normal\0", [2, 7]),
        (0x87, "InitiatorName=iqn.2026-01.example:a\0", [2, 7]),
        (0x87, "InitiatorName=\0TargetName=iqn.2026-01.example:b\0", [2, 0]),
        (0x87, "InitiatorName=iqn.2026-01.example:a\0SessionType=Other\0", [2, 9]),
        (0x87, "InitiatorName=iqn.2026-01.example:\x1b[2J\0SessionType=Discovery\0", [2, 0]),
        (0x87, "InitiatorName=iqn.a\0SessionType=Discovery\0", [2, 0]),
        (0x87, "InitiatorName=iqn.2026-01.example:a\0TargetName=a b\0", [2, 3]),
        (0x87, "no equals sign\0", [2, 0]),
        (0x87, "=value\0", [2, 0]),
        (0x87, &format!("{NORMAL}{}=1\0", "K".repeat(64)), [2, 0]),
        (0x87, &format!("{NORMAL}{many_keys}"), [2, 0]),
        (0x81, &format!("{NORMAL}AuthMethod=CHAP\0"), [2, 1]),
        (0x87, &format!("{NORMAL}AuthMethod=CHAP\0"), [2, 0]),
        (0x87, &format!("{NORMAL}AuthMethod=None\0CHAP_N=a\0"), [2, 0]),
        (0x85, NORMAL, [2, 0]),
        (0x8f, NORMAL, [2, 0]),
    ];
    for (flags, text, status) in table {
        assert_eq!(status_of(flags, text), status, "{flags:#x} {text}");
    }
}

#[test]
fn a_method_that_is_offered_again_in_the_operational_stage_is_answered() {
    let mut initiator = fresh();
    let answer = exchange(&mut initiator, 0x81, &format!("{NORMAL}AuthMethod=CHAP,None\0"));
    assert_eq!(answer.text(), "AuthMethod=None TargetPortalGroupTag=1 ");
    let answer = exchange(&mut initiator, 0x87, "AuthMethod=CHAP,None\0MaxConnections=1\0");
    assert_eq!(answer.text(), "AuthMethod=None MaxConnections=1 MaxRecvDataSegmentLength=262144 ");
    assert_ne!(answer.bhs.u16(14), 0);
}

// iscsi-client-rs took 'Irrelevant' for a malformed number and gave up its discovery.
#[test]
fn keys_that_change_nothing_in_a_discovery_session_are_answered_with_values() {
    let table = [
        ("MaxConnections=8", "MaxConnections=1"),
        ("MaxConnections=1", "MaxConnections=1"),
        ("MaxConnections=0", "MaxConnections=Reject"),
        ("InitialR2T=Yes", "InitialR2T=Yes"),
        ("ImmediateData=No", "ImmediateData=No"),
        ("MaxBurstLength=16776192", "MaxBurstLength=1048576"),
        ("FirstBurstLength=512", "FirstBurstLength=512"),
        ("MaxOutstandingR2T=1", "MaxOutstandingR2T=1"),
        ("DataPDUInOrder=Yes", "DataPDUInOrder=Yes"),
        ("DataSequenceInOrder=Yes", "DataSequenceInOrder=Yes"),
        ("TaskReporting=RFC3720", "TaskReporting=RFC3720"),
        ("iSCSIProtocolLevel=1", "iSCSIProtocolLevel=1"),
    ];
    let discovery = "InitiatorName=iqn.2026-01.example:a\0SessionType=Discovery\0";
    for (offer, answer) in table {
        let text = exchange(&mut fresh(), 0x87, &format!("{discovery}{offer}\0")).text();
        assert!(text.starts_with(&format!("{answer} ")), "{offer} was answered {text}");
    }
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let mut initiator = fresh();
    initiator.send(&Pdu::login(0x87, "").data(*b"InitiatorName=\xff\xfe\0"));
    assert!(matches!(initiator.event(), Some(Event::Closed(ClosedReason::LoginRefused([2, 0])))));
    assert!(initiator.target.is_closed());
}

#[test]
fn another_version_is_refused() {
    let mut initiator = fresh();
    let mut pdu = Pdu::login(0x87, NORMAL);
    pdu.bhs.0[3] = 1;
    initiator.send(&pdu);
    initiator.event();
    assert_eq!(initiator.answer().bhs.0[36..38], [2, 5]);
}

#[test]
fn text_may_come_in_parts() {
    let mut initiator = fresh();
    let (first, second) = NORMAL.split_at(20);
    let answer = exchange(&mut initiator, 0x44, first);
    assert_eq!((answer.bhs.0[1], answer.data.len()), (0x04, 0));
    let answer = exchange(&mut initiator, 0x87, second);
    assert_eq!((answer.bhs.0[1], answer.bhs.0[36]), (0x87, 0));
}

#[test]
fn text_without_end_is_refused() {
    let mut initiator = fresh();
    let part = "K=".to_owned() + &"x".repeat(8000);
    let answers: Vec<u8> = (0..4)
        .map(|_| exchange(&mut initiator, 0x44, &part))
        .map(|pdu| pdu.bhs.0[36])
        .take_while(|&class| class == 0)
        .collect();
    assert!(answers.len() < 4);
    assert!(initiator.target.is_closed());
}

#[test]
fn requests_without_end_are_refused() {
    let mut initiator = fresh();
    exchange(&mut initiator, 0x04, NORMAL);
    let refused = (0..100).find(|_| exchange(&mut initiator, 0x04, "").bhs.0[36] != 0);
    assert_eq!(refused, Some(63));
}

#[test]
fn a_long_answer_comes_in_parts() {
    let mut initiator = fresh();
    let keys: String = (0..115).map(|key| format!("{}{key:03}=1\0", "K".repeat(60))).collect();
    let (first, second) = keys.split_at(6000);
    exchange(&mut initiator, 0x44, &format!("{NORMAL}{first}"));
    let mut answer = exchange(&mut initiator, 0x87, second);
    assert_eq!(answer.bhs.0[1], 0x44, "continues, no transit");
    let mut text = answer.text();
    while answer.bhs.0[1] & 0x40 != 0 {
        answer = exchange(&mut initiator, 0x87, "");
        text += &answer.text();
    }
    assert_eq!(answer.bhs.0[1], 0x87);
    assert_eq!(text.matches("=NotUnderstood ").count(), 115);
}

#[test]
fn the_owner_may_refuse() {
    let mut initiator = fresh();
    initiator.send(&Pdu::login(0x87, NORMAL));
    let Some(Event::Login(request)) = initiator.event() else { panic!() };
    assert_eq!(request.target_name.as_deref(), Some("iqn.2026-01.test:array"));
    assert!(initiator.event().is_none(), "nothing is parsed before the verdict");
    initiator.target.login_reject(LoginStatus::NotFound);
    assert_eq!(initiator.answer().bhs.0[36..38], [2, 3]);
    assert!(matches!(initiator.event(), Some(Event::Closed(_))));
    assert!(initiator.event().is_none());
}

#[test]
fn anything_but_a_login_request_ends_the_connection() {
    let mut initiator = fresh();
    initiator.send(&Pdu::command(0x80, 1, 1, 0));
    assert!(matches!(initiator.event(), Some(Event::Closed(ClosedReason::Protocol(_)))));
    assert!(initiator.answers().is_empty());
}

#[test]
fn a_segment_beyond_8_kib_ends_the_login() {
    let mut initiator = fresh();
    initiator.send(&Pdu::login(0x87, &"x".repeat(8193)));
    assert!(matches!(initiator.event(), Some(Event::Closed(ClosedReason::Protocol(_)))));
}

#[test]
fn a_login_that_takes_too_long_is_ended() {
    let mut initiator = fresh();
    let timeout = ConnectionConfig::default().login_timeout;
    let start = std::time::Duration::from_secs(77);
    initiator.target.tick(start);
    initiator.target.tick(start + timeout / 2);
    assert!(initiator.event().is_none());
    initiator.target.tick(start + timeout);
    assert!(matches!(initiator.event(), Some(Event::Closed(ClosedReason::LoginTimeout))));
}

#[test]
fn a_discovery_session_needs_no_target_name() {
    let mut initiator = fresh();
    let answer = exchange(
        &mut initiator,
        0x87,
        "InitiatorName=iqn.2026-01.example:a\0SessionType=Discovery\0InitialR2T=No\0HeaderDigest=None\0",
    );
    assert_eq!(answer.text(), "InitialR2T=No HeaderDigest=None MaxRecvDataSegmentLength=262144 ");
    assert_ne!(answer.bhs.u16(14), 0);
}

#[test]
fn the_command_window_is_the_task_limit() {
    let limits = Limits { tasks_max: 3, ..Limits::default() };
    let config = ConnectionConfig { limits, ..ConnectionConfig::default() };
    let mut initiator = Initiator::new(config);
    assert_eq!(exchange(&mut initiator, 0x87, NORMAL).bhs.u32(32), 102);
}

const ARRAY_SECRET: &str = "a secret of the array";
const HOST_SECRET: &str = "a secret of the host";
const CHALLENGE: [u8; 16] = [7; 16];

fn chap_terms(none_allowed: bool) -> LoginTerms {
    let credential = |name: &str, secret: &str| ChapCredential {
        name: name.to_owned(),
        secret: ChapSecret::new(secret),
    };
    let account = ChapAccount {
        initiator: credential("host", HOST_SECRET),
        target: Some(credential("array", ARRAY_SECRET)),
    };
    let chap = ChapTerms {
        algorithms: ChapAlgorithm::ALL.to_vec(),
        identifier: 5,
        challenge: CHALLENGE.to_vec(),
        accounts: vec![account],
    };
    let authentication = Requirement { none_allowed, chap: Some(chap) };
    LoginTerms { target_portal_group_tag: 1, authentication, session: None }
}

/// An initiator that was told the terms after its first request.
fn under_terms(flags: u8, keys: &str, terms: LoginTerms) -> Initiator {
    let mut initiator = fresh();
    initiator.send(&Pdu::login(flags, &format!("{NORMAL}{keys}")));
    assert!(matches!(initiator.event(), Some(Event::Login(_))));
    initiator.target.login_admit(terms);
    initiator
}

fn md5_response(identifier: u8, secret: &str, challenge: &[u8]) -> String {
    use md5::Digest;
    let digest = md5::Md5::digest([&[identifier], secret.as_bytes(), challenge].concat());
    digest.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

#[test]
fn mutual_chap_comes_before_the_session() {
    let mut initiator = under_terms(0x00, "AuthMethod=CHAP,None\0", chap_terms(false));
    assert_eq!(initiator.answer().text(), "AuthMethod=CHAP TargetPortalGroupTag=1 ");
    initiator.send(&Pdu::login(0x00, "CHAP_A=5\0"));
    assert!(initiator.event().is_none());
    let challenge = "07".repeat(16);
    assert_eq!(initiator.answer().text(), format!("CHAP_A=5 CHAP_I=5 CHAP_C=0x{challenge} "));
    let response = md5_response(5, HOST_SECRET, &CHALLENGE);
    let keys = format!("CHAP_N=host\0CHAP_R={response}\0CHAP_I=9\0CHAP_C=0xabcd\0");
    initiator.send(&Pdu::login(0x81, &keys));
    assert!(initiator.event().is_none(), "the session comes after the operational stage");
    let answer = initiator.answer();
    assert_eq!(answer.bhs.0[1], 0x81);
    let proof = md5_response(9, ARRAY_SECRET, &[0xab, 0xcd]);
    assert_eq!(answer.text(), format!("CHAP_N=array CHAP_R={proof} "));
    initiator.send(&Pdu::login(0x87, ""));
    assert!(matches!(initiator.event(), Some(Event::Authenticated(_))));
    initiator.target.login_accept(7);
    let Some(Event::LoggedIn(parameters)) = initiator.event() else { panic!() };
    assert_eq!(parameters.authentication, AuthenticationMethod::Chap);
}

/// Flags and keys of a login request.
type Step = (u8, &'static str);

#[test]
fn without_proof_there_is_no_session() {
    let wrong = "CHAP_N=host\0CHAP_R=0x00\0";
    let table: [(u8, &str, &[Step]); 7] = [
        (0x00, "AuthMethod=None\0", &[]),
        (0x87, "", &[]),
        (0x04, "HeaderDigest=None\0", &[]),
        (0x00, "AuthMethod=CHAP\0", &[(0x00, "CHAP_A=5\0"), (0x81, wrong)]),
        (0x00, "AuthMethod=CHAP\0", &[(0x81, wrong)]),
        (0x00, "AuthMethod=CHAP\0", &[(0x00, "AuthMethod=CHAP\0")]),
        (0x00, "CHAP_A=5\0", &[]),
    ];
    for (flags, keys, more) in table {
        let mut initiator = under_terms(flags, keys, chap_terms(false));
        for (flags, keys) in more {
            assert!(initiator.event().is_none());
            initiator.answers();
            initiator.send(&Pdu::login(*flags, keys));
        }
        let event = initiator.event();
        let refused = matches!(event, Some(Event::Closed(ClosedReason::LoginRefused([2, 1]))));
        assert!(refused, "{keys} {event:?}");
    }
}

// Asking for the next stage without a proof keeps the initiator where it is.
#[test]
fn the_security_stage_is_not_left_before_the_proof() {
    for keys in ["", "AuthMethod=CHAP\0"] {
        let mut initiator = under_terms(0x81, keys, chap_terms(false));
        assert!(initiator.event().is_none());
        assert_eq!(initiator.answer().bhs.0[1], 0x00, "{keys}");
        initiator.send(&Pdu::login(0x87, ""));
        assert!(matches!(initiator.event(), Some(Event::Closed(_))));
    }
}

#[test]
fn who_need_not_prove_anything_still_may() {
    let mut initiator = under_terms(0x00, "AuthMethod=CHAP,None\0", chap_terms(true));
    assert!(initiator.answer().text().starts_with("AuthMethod=CHAP "));
    let mut initiator = under_terms(0x87, "", chap_terms(true));
    assert!(matches!(initiator.event(), Some(Event::Authenticated(_))));
}

#[test]
fn the_owner_may_send_an_initiator_elsewhere() {
    let mut initiator = fresh();
    initiator.send(&Pdu::login(0x87, NORMAL));
    assert!(matches!(initiator.event(), Some(Event::Login(_))));
    initiator.target.login_redirect("192.0.2.7:3260,2");
    let answer = initiator.answer();
    assert_eq!(answer.bhs.0[36..38], [1, 1]);
    assert_eq!(answer.text(), "TargetAddress=192.0.2.7:3260,2 ");
    assert!(initiator.target.is_closed());
}
