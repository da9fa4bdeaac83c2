use super::initiator::{Initiator, NORMAL, Pdu};
use crate::event::{ClosedReason, Event, LoginStatus};
use crate::{ConnectionConfig, Limits};

fn fresh() -> Initiator {
    Initiator::new(ConnectionConfig::default())
}

/// Sends one login request, lets it in if asked, and returns the answer.
fn exchange(initiator: &mut Initiator, flags: u8, text: &str) -> Pdu {
    initiator.send(&Pdu::login(flags, text));
    if let Some(Event::Login(_)) = initiator.event() {
        initiator.target.login_accept(7, 1);
    }
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
    let table: [(u8, &str, [u8; 2]); 12] = [
        (0x87, "SessionType=Normal\0", [2, 7]),
        (0x87, "InitiatorName=iqn.a\0", [2, 7]),
        (0x87, "InitiatorName=\0TargetName=iqn.b\0", [2, 0]),
        (0x87, "InitiatorName=iqn.a\0SessionType=Other\0", [2, 9]),
        (0x87, "no equals sign\0", [2, 0]),
        (0x87, "=value\0", [2, 0]),
        (0x87, &format!("{NORMAL}{}=1\0", "K".repeat(64)), [2, 0]),
        (0x87, &format!("{NORMAL}{many_keys}"), [2, 0]),
        (0x81, &format!("{NORMAL}AuthMethod=CHAP\0"), [2, 1]),
        (0x87, &format!("{NORMAL}AuthMethod=None\0"), [2, 0]),
        (0x85, NORMAL, [2, 0]),
        (0x8f, NORMAL, [2, 0]),
    ];
    for (flags, text, status) in table {
        assert_eq!(status_of(flags, text), status, "{flags:#x} {text}");
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
        "InitiatorName=iqn.a\0SessionType=Discovery\0InitialR2T=No\0HeaderDigest=None\0",
    );
    assert_eq!(
        answer.text(),
        "InitialR2T=Irrelevant HeaderDigest=None MaxRecvDataSegmentLength=262144 "
    );
    assert_ne!(answer.bhs.u16(14), 0);
}

#[test]
fn the_command_window_is_the_task_limit() {
    let limits = Limits { tasks_max: 3, ..Limits::default() };
    let config = ConnectionConfig { limits, ..ConnectionConfig::default() };
    let mut initiator = Initiator::new(config);
    assert_eq!(exchange(&mut initiator, 0x87, NORMAL).bhs.u32(32), 102);
}
