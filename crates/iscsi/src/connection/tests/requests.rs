use std::time::Duration;

use super::initiator::{Initiator, Pdu};
use crate::ConnectionConfig;
use crate::event::{
    ClosedReason, Event, LoginTerms, TargetRecord, TargetSelection, TaskManagementFunction,
    TaskManagementResponse,
};

const NO_TAG: u32 = 0xffff_ffff;

fn expect_command(initiator: &mut Initiator) {
    assert!(matches!(initiator.event(), Some(Event::Command(_))));
}

fn management(function: u8, tag: u32, referenced: u32) -> Pdu {
    Pdu::new(0x42, 0x80 | function, tag).word(20, referenced).word(24, 100)
}

fn text(flags: u8, tag: u32, cmd_sn: u32, transfer_tag: u32, text: &str) -> Pdu {
    Pdu::new(0x04, flags, tag).word(20, transfer_tag).word(24, cmd_sn).data(text)
}

fn discovery() -> Initiator {
    let mut initiator = Initiator::new(ConnectionConfig::default());
    let keys = "InitiatorName=iqn.2026-01.example:a\0SessionType=Discovery\0MaxRecvDataSegmentLength=512\0";
    initiator.send(&Pdu::login(0x87, keys));
    initiator.event();
    initiator.target.login_admit(LoginTerms::open(1));
    initiator.event();
    initiator.target.login_accept(0);
    assert!(matches!(initiator.event(), Some(Event::LoggedIn(_))));
    initiator.answers();
    initiator
}

#[test]
fn a_ping_from_the_initiator_is_echoed() {
    let mut initiator = Initiator::logged_in("MaxRecvDataSegmentLength=512\0");
    initiator.send(&Pdu::new(0x40, 0x80, 3).word(20, NO_TAG).word(24, 100).data("hello"));
    assert!(initiator.event().is_none());
    let answer = initiator.answer();
    // NOP-In must not carry the immediate bit: 20h, not 60h.
    assert_eq!((answer.opcode(), answer.text()), (0x20, "hello".to_owned()));
    assert_eq!((answer.bhs.u32(16), answer.bhs.u32(20)), (3, NO_TAG));
    initiator.send(&Pdu::new(0x40, 0x80, 3).word(20, NO_TAG).word(24, 100).data(vec![1; 5000]));
    initiator.event();
    assert_eq!(initiator.answer().data.len(), 512, "cut to what the initiator takes");
}

#[test]
fn a_numbered_ping_uses_up_its_number() {
    let mut initiator = Initiator::logged_in("");
    initiator.send(&Pdu::new(0x00, 0x80, 3).word(20, NO_TAG).word(24, 100));
    initiator.send(&Pdu::command(0x80, 1, 101, 0));
    expect_command(&mut initiator);
    assert_eq!(initiator.answer().bhs.u32(28), 101);
}

#[test]
fn a_silent_initiator_is_pinged_and_then_given_up() {
    let mut initiator = Initiator::logged_in("");
    let second = Duration::from_secs(1);
    initiator.target.tick(second * 10);
    initiator.target.tick(second * 24);
    assert!(initiator.answers().is_empty());
    initiator.target.tick(second * 25);
    let ping = initiator.answer();
    assert_eq!((ping.opcode(), ping.bhs.u32(16)), (0x20, NO_TAG));
    assert_ne!(ping.bhs.u32(20), NO_TAG);
    let pong = Pdu::new(0x40, 0x80, NO_TAG).word(20, ping.bhs.u32(20)).word(24, 100);
    initiator.send(&pong);
    assert!(initiator.event().is_none());
    assert!(initiator.answers().is_empty());
    for seconds in 26..60 {
        initiator.target.tick(second * seconds);
    }
    assert!(matches!(initiator.event(), Some(Event::Closed(ClosedReason::PeerDead))));
}

#[test]
fn aborting_a_command_that_collects_data_ends_it_here() {
    let mut initiator = Initiator::logged_in("ImmediateData=No\0");
    initiator.send(&Pdu::command(0xa0, 1, 100, 512));
    expect_command(&mut initiator);
    initiator.target.accept_data(1, 512);
    initiator.send(&management(1, 2, 1));
    assert!(matches!(initiator.event(), Some(Event::Aborted { task: 1 })));
    let answers = initiator.answers();
    assert_eq!((answers[1].opcode(), answers[1].bhs.0[2]), (0x22, 0));
    initiator.send(&Pdu::data_out(0x80, 1, answers[0].bhs.u32(20), 0, 0).data(vec![0; 512]));
    assert!(initiator.event().is_none());
    assert_eq!(initiator.target.tasks(), 0);
}

// ESXi takes "task does not exist" for a target gone mad, and closes the connection after four
// rejected aborts.
#[test]
fn aborting_finished_and_unknown_commands_is_complete() {
    let mut initiator = Initiator::logged_in("");
    initiator.send(&Pdu::command(0x80, 1, 100, 0));
    expect_command(&mut initiator);
    initiator.good(1);
    initiator.answer();
    for (tag, referenced) in [(2, 1), (3, 1), (4, 77), (5, NO_TAG)] {
        initiator.send(&management(1, tag, referenced));
        assert!(initiator.event().is_none());
        let answer = initiator.answer();
        assert_eq!((answer.opcode(), answer.bhs.0[2], answer.bhs.u32(16)), (0x22, 0, tag));
    }
}

#[test]
fn aborting_a_running_command_is_the_owners_work() {
    let mut initiator = Initiator::logged_in("");
    initiator.send(&Pdu::command(0xc0, 1, 100, 512));
    expect_command(&mut initiator);
    initiator.send(&management(1, 2, 1));
    let Some(Event::TaskManagement(request)) = initiator.event() else { panic!() };
    assert_eq!(request.function, TaskManagementFunction::AbortTask(1));
    assert_eq!(request.initiator_task_tag, 2);
    assert!(initiator.answers().is_empty());
    initiator.target.respond_task_management(2, TaskManagementResponse::FunctionComplete);
    assert_eq!(initiator.answer().bhs.0[2], 0);
    assert_eq!(initiator.target.tasks(), 0);
    initiator.good(1);
    assert!(initiator.answers().is_empty(), "an aborted command is not answered");
    initiator.target.respond_task_management(2, TaskManagementResponse::FunctionComplete);
    assert!(initiator.answers().is_empty(), "a function is answered once");
}

#[test]
fn a_reset_covers_earlier_commands_of_its_logical_unit_only() {
    let mut initiator = Initiator::logged_in("ImmediateData=No\0");
    initiator.send(&Pdu::command(0xa0, 1, 100, 512).lun(1 << 48));
    expect_command(&mut initiator);
    initiator.target.accept_data(1, 512);
    initiator.send(&Pdu::command(0xc0, 2, 101, 512).lun(1 << 48));
    initiator.send(&Pdu::command(0xc0, 3, 102, 512).lun(2 << 48));
    initiator.send(&management(5, 4, NO_TAG).lun(1 << 48));
    initiator.send(&Pdu::command(0xc0, 5, 103, 512).lun(1 << 48));
    expect_command(&mut initiator);
    expect_command(&mut initiator);
    assert!(matches!(initiator.event(), Some(Event::Aborted { task: 1 })));
    assert!(matches!(initiator.event(), Some(Event::TaskManagement(_))));
    expect_command(&mut initiator);
    initiator.answers();
    initiator.target.respond_task_management(4, TaskManagementResponse::FunctionComplete);
    initiator.good(2);
    initiator.good(3);
    initiator.good(5);
    let tags: Vec<u32> = initiator.answers().iter().map(|pdu| pdu.bhs.u32(16)).collect();
    assert_eq!(tags, [4, 3, 5]);
}

#[test]
fn unsupported_task_management_is_answered_here() {
    let mut initiator = Initiator::logged_in("");
    for (function, response) in [(0, 5), (8, 4), (9, 5), (0x7f, 5)] {
        initiator.send(&management(function, 2, 1));
        assert!(initiator.event().is_none());
        assert_eq!(initiator.answer().bhs.0[2], response);
    }
}

#[test]
fn queries_and_nexus_resets_need_protocol_level_2() {
    let mut initiator = Initiator::logged_in("iSCSIProtocolLevel=2\0ImmediateData=No\0");
    for function in 9..=12 {
        initiator.send(&management(function, 2, 1));
        assert!(matches!(initiator.event(), Some(Event::TaskManagement(_))));
        initiator.target.respond_task_management(2, TaskManagementResponse::FunctionSucceeded);
        assert_eq!(initiator.answer().bhs.0[2], 7);
    }
    initiator.send(&Pdu::command(0xa0, 1, 100, 512));
    expect_command(&mut initiator);
    initiator.target.accept_data(1, 512);
    initiator.answers();
    initiator.send(&management(9, 2, 1));
    assert!(initiator.event().is_none());
    assert_eq!(initiator.answer().bhs.0[2], 7);
    initiator.send(&management(11, 2, NO_TAG));
    assert!(matches!(initiator.event(), Some(Event::Aborted { task: 1 })));
}

#[test]
fn send_targets_lists_what_the_owner_shows() {
    let mut initiator = discovery();
    initiator.send(&text(0x80, 1, 100, NO_TAG, "SendTargets=All\0"));
    let Some(Event::SendTargets(TargetSelection::All)) = initiator.event() else { panic!() };
    let addresses = vec![("127.0.0.1:3260".to_owned(), 1), ("[::1]:3260".to_owned(), 2)];
    initiator.target.send_targets_response(&[TargetRecord { name: "iqn.t".to_owned(), addresses }]);
    let answer = initiator.answer();
    assert_eq!((answer.opcode(), answer.bhs.0[1]), (0x24, 0x80));
    assert_eq!(
        answer.text(),
        "TargetName=iqn.t TargetAddress=127.0.0.1:3260,1 TargetAddress=[::1]:3260,2 "
    );
}

#[test]
fn a_long_list_of_targets_comes_in_parts() {
    let mut initiator = discovery();
    initiator.send(&text(0x80, 1, 100, NO_TAG, "SendTargets=All\0"));
    initiator.event();
    let records: Vec<TargetRecord> = (0..100)
        .map(|index| TargetRecord { name: format!("iqn.t{index}"), addresses: Vec::new() })
        .collect();
    initiator.target.send_targets_response(&records);
    let mut answer = initiator.answer();
    let mut listed = String::new();
    let mut cmd_sn = 101;
    while answer.bhs.0[1] & 0x80 == 0 {
        assert_eq!((answer.bhs.0[1], answer.data.len()), (0x40, 512));
        listed += &answer.text();
        initiator.send(&text(0x80, 1, cmd_sn, answer.bhs.u32(20), ""));
        assert!(initiator.event().is_none());
        answer = initiator.answer();
        cmd_sn += 1;
    }
    listed += &answer.text();
    assert_eq!(listed.matches("TargetName=").count(), 100);
    assert_eq!(answer.bhs.u32(20), NO_TAG);
}

#[test]
fn a_normal_session_may_ask_for_its_own_target_and_not_for_all() {
    let mut initiator = Initiator::logged_in("");
    initiator.send(&text(0x80, 1, 100, NO_TAG, "SendTargets=\0"));
    assert!(matches!(initiator.event(), Some(Event::SendTargets(TargetSelection::Current))));
    initiator.target.send_targets_response(&[]);
    assert_eq!(initiator.answer().text(), "");
    initiator.send(&text(0x80, 1, 101, NO_TAG, "SendTargets=All\0MaxBurstLength=512\0X-a=b\0"));
    assert!(initiator.event().is_none());
    assert_eq!(
        initiator.answer().text(),
        "MaxBurstLength=Reject X-a=NotUnderstood SendTargets=Reject "
    );
}

#[test]
fn malformed_text_is_rejected_and_text_may_come_in_parts() {
    let mut initiator = Initiator::logged_in("");
    initiator.send(&text(0x80, 1, 100, NO_TAG, "nonsense"));
    initiator.send(&text(0xc0, 1, 101, NO_TAG, "a=b"));
    initiator.send(&text(0x80, 1, 102, 55, "a=b"));
    assert!(initiator.event().is_none());
    assert!(initiator.answers().iter().all(|pdu| pdu.opcode() == 0x3f));
    initiator.send(&text(0x40, 1, 103, NO_TAG, "SendTargets=iq"));
    assert!(initiator.event().is_none());
    let answer = initiator.answer();
    assert_eq!((answer.bhs.0[1], answer.data.len()), (0, 0));
    initiator.send(&text(0x80, 1, 104, answer.bhs.u32(20), "n.x\0"));
    let Some(Event::SendTargets(TargetSelection::Named(name))) = initiator.event() else {
        panic!()
    };
    assert_eq!(name, "iqn.x");
}

#[test]
fn logout_is_answered_and_ends_the_connection() {
    let mut initiator = Initiator::logged_in("");
    initiator.send(&Pdu::new(0x06, 0x80 | 2, 1).word(24, 100));
    assert!(initiator.event().is_none());
    assert_eq!(initiator.answer().bhs.0[2], 2, "no recovery");
    initiator.send(&Pdu::new(0x46, 0x80, 1).word(24, 101));
    assert!(matches!(initiator.event(), Some(Event::LoggedOut(_))));
    let answer = initiator.answer();
    assert_eq!((answer.opcode(), answer.bhs.0[2]), (0x26, 0));
    assert!(initiator.target.is_closed());
    assert!(initiator.event().is_none());
}

#[test]
fn what_does_not_belong_is_rejected() {
    let mut initiator = Initiator::logged_in("");
    for (pdu, reason) in [
        (Pdu::new(0x10, 0x80, 1), 3),
        (Pdu::new(0x5c, 0x80, 1), 5),
        (Pdu::command(0x80, NO_TAG, 100, 0), 9),
    ] {
        initiator.send(&pdu.clone().data("xyz"));
        assert!(initiator.event().is_none());
        let answer = initiator.answer();
        assert_eq!(answer.opcode(), 0x3f, "{pdu:?}");
        assert_eq!(answer.bhs.0[2], reason, "{pdu:?}");
        assert_eq!(answer.data[..5], pdu.bhs.0[..5]);
    }
}

#[test]
fn a_command_in_a_discovery_session_is_rejected() {
    let mut initiator = discovery();
    initiator.send(&Pdu::command(0x80, 1, 100, 0));
    assert!(initiator.event().is_none());
    assert_eq!(initiator.answer().bhs.0[2], 4);
}

#[test]
fn a_login_request_in_full_feature_phase_ends_the_connection() {
    let mut initiator = Initiator::logged_in("");
    initiator.send(&Pdu::login(0x87, ""));
    assert!(matches!(initiator.event(), Some(Event::Closed(_))));
}

#[test]
fn after_the_end_nothing_does_anything() {
    let mut initiator = Initiator::logged_in("");
    initiator.send(&Pdu::command(0xc0, 1, 100, 512));
    expect_command(&mut initiator);
    initiator.target.close();
    assert!(matches!(initiator.event(), Some(Event::Closed(ClosedReason::ByTarget))));
    initiator.good(1);
    initiator.target.accept_data(1, 5);
    initiator.target.forget(1);
    initiator.target.login_accept(1);
    initiator.target.send_targets_response(&[]);
    initiator.target.close();
    assert!(initiator.event().is_none());
    assert!(initiator.answers().is_empty());
}

#[test]
fn an_initiator_is_asked_to_log_out_and_then_cut_off() {
    let mut initiator = Initiator::logged_in("");
    initiator.target.request_logout(Duration::from_secs(3));
    initiator.target.request_logout(Duration::from_secs(3));
    let message = initiator.answer();
    assert_eq!((message.opcode(), message.bhs.0[36], message.bhs.u16(42)), (0x32, 1, 3));
    assert_eq!((message.bhs.u32(16), message.bhs.u32(24)), (NO_TAG, 501));
    for second in [10, 11, 12] {
        initiator.target.tick(Duration::from_secs(second));
        assert!(initiator.event().is_none());
    }
    initiator.target.tick(Duration::from_secs(13));
    assert!(matches!(initiator.event(), Some(Event::Closed(ClosedReason::ByTarget))));
}

#[test]
fn an_initiator_that_logs_out_when_asked_to_does_so_in_order() {
    let mut initiator = Initiator::logged_in("");
    initiator.target.request_logout(Duration::from_secs(3));
    initiator.answer();
    initiator.send(&Pdu::new(0x46, 0x80, 4).word(24, 100));
    assert!(matches!(initiator.event(), Some(Event::LoggedOut(_))));
    assert_eq!(initiator.answer().bhs.u32(24), 502);
}

// A header of which a byte comes now and then is no sign of life.
#[test]
fn a_peer_that_trickles_is_dropped() {
    let mut initiator = Initiator::logged_in("");
    let header = Pdu::new(0x40, 0x80, NO_TAG).word(20, NO_TAG).bytes(false, false);
    for (second, byte) in header[..47].iter().enumerate() {
        initiator.target.tick(Duration::from_secs(second as u64));
        initiator.send_bytes(&[*byte]);
        if let Some(event) = initiator.event() {
            assert!(matches!(event, Event::Closed(ClosedReason::PeerDead)));
            return;
        }
    }
    panic!("the peer was not dropped");
}

// A daemon that had run for longer than the time to send dropped initiators at their login, when a
// tick fell between its answer and the socket: the time counted from the daemon's start.
#[test]
fn an_initiator_that_comes_late_has_as_much_time_as_any_other() {
    let mut initiator = Initiator::logged_in("");
    initiator.send(&Pdu::new(0x40, 0x80, 3).word(20, NO_TAG).word(24, 100));
    initiator.target.tick(Duration::from_secs(1000));
    assert!(initiator.event().is_none());
    initiator.answer();
}

#[test]
fn a_peer_that_takes_nothing_is_dropped_though_it_speaks() {
    let mut initiator = Initiator::logged_in("");
    let timeout = ConnectionConfig::default().send_timeout.as_secs();
    initiator.target.tick(Duration::ZERO);
    for second in 0..=timeout {
        initiator.send(&Pdu::new(0x40, 0x80, 3).word(20, NO_TAG).word(24, 100));
        assert!(initiator.event().is_none());
        initiator.target.tick(Duration::from_secs(second));
    }
    assert!(matches!(initiator.event(), Some(Event::Closed(ClosedReason::PeerSlow))));
}

/// Sends pings with data, whose answers wait, and takes so many bytes of them each second.
fn drip(initiator: &mut Initiator, seconds: u64, bytes_per_second: usize) -> Option<Event> {
    for second in 0..seconds {
        while initiator.target.send_queue_bytes() < 4 << 20 {
            let ping = Pdu::new(0x40, 0x80, 3).word(20, NO_TAG).word(24, 100);
            initiator.send(&ping.data(vec![7; 8192]));
            assert!(initiator.event().is_none());
        }
        initiator.target.sent(bytes_per_second);
        initiator.target.tick(Duration::from_secs(second));
        if let Some(event) = initiator.event() {
            assert!(!initiator.target.wants_to_send(), "the connection is to be closed at once");
            return Some(event);
        }
    }
    None
}

// A reader of 8 KiB every 8 s kept its 32 MiB for ever.
#[test]
fn a_peer_that_takes_next_to_nothing_is_dropped_and_a_slow_one_is_not() {
    let mut initiator = Initiator::logged_in("");
    let dropped = drip(&mut initiator, 100, 1024);
    assert!(matches!(dropped, Some(Event::Closed(ClosedReason::PeerSlow))), "{dropped:?}");
    let mut initiator = Initiator::logged_in("");
    assert!(drip(&mut initiator, 1000, 17 << 10).is_none());
}

/// On a target that had run for longer than the timeout, a login was dropped when a tick came
/// between an answer and its sending.
#[test]
fn an_answer_that_waits_at_the_first_tick_has_the_whole_timeout_left() {
    let mut initiator = Initiator::logged_in("");
    let (start, timeout) = (Duration::from_secs(1000), ConnectionConfig::default().send_timeout);
    let ping = |initiator: &mut Initiator| {
        initiator.send(&Pdu::new(0x40, 0x80, 3).word(20, NO_TAG).word(24, 100));
    };
    ping(&mut initiator);
    initiator.target.tick(start);
    assert!(initiator.event().is_none());
    initiator.target.tick(start + timeout / 2);
    assert!(initiator.event().is_none());
    ping(&mut initiator);
    // It took its login answer before the first tick, and nothing since the second.
    initiator.target.tick(start + timeout / 2 + timeout);
    assert!(matches!(initiator.event(), Some(Event::Closed(ClosedReason::PeerSlow))));
}
