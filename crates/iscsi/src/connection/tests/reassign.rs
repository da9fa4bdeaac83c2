//! Error recovery level 2: commands outlive their connection and go on with another.

use block::Rope;
use bytes::Bytes;

use super::initiator::{Initiator, NORMAL, Pdu, UNSOLICITED, additional_sense, status};
use crate::event::{
    Completion, Event, LoginTerms, LogoutScope, TaskManagementResponse, TaskReassign,
};
use crate::orphan::Orphan;
use crate::{ConnectionConfig, Limits, SessionHandle};

const KEYS: &str = "ErrorRecoveryLevel=2\0MaxBurstLength=512\0InitialR2T=No\0";

fn config() -> ConnectionConfig {
    let limits = Limits { error_recovery_level: 2, ..Limits::default() };
    ConnectionConfig { limits, ..ConnectionConfig::default() }
}

fn first() -> Initiator {
    let initiator = Initiator::logged_in_with(config(), KEYS);
    let parameters = initiator.target.parameters();
    assert_eq!((parameters.error_recovery_level, parameters.default_time2retain), (2, 20));
    initiator
}

/// A connection in place of one that has ended.
fn second(session: SessionHandle, keys: &str) -> Initiator {
    let mut initiator = Initiator::new(config());
    let mut login = Pdu::login(0x87, &format!("{NORMAL}{keys}"));
    login.bhs.0[14..16].copy_from_slice(&7_u16.to_be_bytes());
    initiator.send(&login);
    assert!(matches!(initiator.event(), Some(Event::Login(_))));
    initiator.target.login_admit(LoginTerms { session: Some(session), ..LoginTerms::open(1) });
    assert!(matches!(initiator.event(), Some(Event::Authenticated(_))));
    initiator.target.login_accept(7);
    assert!(matches!(initiator.event(), Some(Event::LoggedIn(_))));
    initiator.answers();
    initiator
}

fn lose(mut initiator: Initiator) -> (SessionHandle, Vec<(u32, Orphan)>) {
    let session = initiator.target.session();
    initiator.target.close();
    (session, initiator.target.take_orphans())
}

/// The only one, and which it is.
fn only(mut orphans: Vec<(u32, Orphan)>) -> (u32, Orphan) {
    assert_eq!(orphans.len(), 1, "{orphans:?}");
    orphans.remove(0)
}

fn reassignment(tag: u32, exp_data_sn: u32) -> Pdu {
    Pdu::new(0x42, 0x88, 77).word(20, tag).word(36, exp_data_sn)
}

/// Takes a command over; returns what is sent after the response to the function.
fn take_over(initiator: &mut Initiator, tag: u32, exp_data_sn: u32, orphan: Orphan) -> Vec<Pdu> {
    initiator.send(&reassignment(tag, exp_data_sn));
    let Some(Event::TaskReassign(request)) = initiator.event() else { panic!("no event") };
    let expected = TaskReassign { initiator_task_tag: 77, referenced_task: tag, exp_data_sn };
    assert_eq!(request, expected);
    initiator.target.reassign(request, Ok(orphan));
    let mut answers = initiator.answers();
    assert_eq!((answers[0].opcode(), answers[0].bhs.0[2]), (0x22, 0), "{answers:?}");
    answers.remove(0);
    answers
}

fn refusal(initiator: &mut Initiator, tag: u32) -> u8 {
    initiator.send(&reassignment(tag, 0));
    if let Some(Event::TaskReassign(request)) = initiator.event() {
        initiator.target.reassign(request, Err(TaskManagementResponse::TaskDoesNotExist));
    }
    let answer = initiator.answer();
    assert_eq!(answer.opcode(), 0x22);
    answer.bhs.0[2]
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|byte| (byte % 251) as u8).collect()
}

fn read_of(length: usize) -> Completion {
    Completion { data_in: Rope::from(Bytes::from(pattern(length))), ..Completion::default() }
}

/// The data of the PDUs, which must follow each other from an offset and a number on.
fn data_of(pdus: &[Pdu], mut offset: u32, mut data_sn: u32) -> Vec<u8> {
    let mut all = Vec::new();
    for pdu in pdus {
        assert_eq!((pdu.opcode(), pdu.bhs.u32(36), pdu.bhs.u32(40)), (0x25, data_sn, offset));
        assert_eq!(pdu.bhs.0[1] & 1, 0, "status comes apart");
        all.extend(&pdu.data);
        offset += pdu.data.len() as u32;
        data_sn += 1;
    }
    all
}

fn begin_read(initiator: &mut Initiator, tag: u32, number: u32, length: u32) {
    initiator.send(&Pdu::command(0xc0, tag, number, length));
    assert!(matches!(initiator.event(), Some(Event::Command(_))));
}

fn begin_write(initiator: &mut Initiator, pdu: &Pdu, length: u32) {
    initiator.send(pdu);
    let Some(Event::Command(command)) = initiator.event() else { panic!("no command") };
    initiator.target.accept_data(command.task, length);
}

fn expect_data(initiator: &mut Initiator) -> Vec<u8> {
    match initiator.event() {
        Some(Event::DataOut { data, .. }) => data.to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_command_under_way_is_answered_on_the_new_connection() {
    let mut initiator = first();
    begin_read(&mut initiator, 1, 100, 700);
    let (session, orphans) = lose(initiator);
    let (tag, orphan) = only(orphans);
    assert!(tag == 1 && orphan.is_under_way());
    let mut initiator = second(session, "");
    assert!(take_over(&mut initiator, 1, 0, orphan).is_empty());
    assert_eq!(initiator.target.tasks(), 1);
    initiator.target.respond(1, read_of(700));
    let answers = initiator.answers();
    assert_eq!(answers.iter().flat_map(|pdu| pdu.data.clone()).collect::<Vec<_>>(), pattern(700));
    assert_eq!(status(answers.last().unwrap()), (0, 0, 0));
    assert_eq!(initiator.target.memory(), 0);
}

#[test]
fn an_answer_that_found_no_connection_waits_for_one() {
    let mut initiator = first();
    begin_read(&mut initiator, 1, 100, 100);
    let (session, orphans) = lose(initiator);
    let orphan = only(orphans).1.answered(read_of(100));
    assert!(!orphan.is_under_way());
    assert!(orphan.bytes() >= 100);
    let mut initiator = second(session, "");
    let answers = take_over(&mut initiator, 1, 0, orphan);
    assert_eq!((answers.len(), &answers[0].data), (1, &pattern(100)));
    assert_eq!(status(&answers[0]), (0, 0, 0));
}

#[test]
fn an_answer_that_was_sent_is_sent_again_from_where_it_was_received() {
    // What the initiator says it has received; the first PDU it needs, and where that begins.
    for (exp_data_sn, data_sn) in [(0, 0), (1, 1), (2, 2), (3, 3), (4, 0), (u32::MAX, 0)] {
        let mut initiator = first();
        begin_read(&mut initiator, 1, 100, 1500);
        initiator.target.respond(1, read_of(1400));
        assert_eq!(initiator.answers().len(), 3);
        let (session, orphans) = lose(initiator);
        let mut initiator = second(session, "");
        let answers = take_over(&mut initiator, 1, exp_data_sn, only(orphans).1);
        let (response, data) = answers.split_last().unwrap();
        let offset = (data_sn * 512).min(1400);
        assert_eq!(data_of(data, offset, data_sn), pattern(1400)[offset as usize..]);
        assert_eq!(response.opcode(), 0x21);
        assert_eq!(status(response), (0, 0x02, 100));
        assert_eq!(response.bhs.u32(36), 3, "ExpDataSN");
    }
}

#[test]
fn an_answer_is_cut_to_what_the_new_connection_takes() {
    let mut initiator = first();
    begin_read(&mut initiator, 1, 100, 4096);
    initiator.target.respond(1, read_of(4096));
    assert_eq!(initiator.answers().len(), 8);
    let (session, orphans) = lose(initiator);
    let mut initiator = second(session, "MaxRecvDataSegmentLength=512\0");
    let answers = take_over(&mut initiator, 1, 2, only(orphans).1);
    let (response, data) = answers.split_last().unwrap();
    assert_eq!(data_of(data, 1024, 2), pattern(4096)[1024..]);
    assert_eq!(status(response), (0, 0, 0));
    // That answer may be lost as well; 0 says that nothing came of it.
    let (session, orphans) = lose(initiator);
    let mut initiator = second(session, "");
    let answers = take_over(&mut initiator, 1, 0, only_of(orphans, 1));
    assert_eq!(data_of(&answers[..6], 1024, 2), pattern(4096)[1024..]);
}

fn only_of(orphans: Vec<(u32, Orphan)>, tag: u32) -> Orphan {
    orphans.into_iter().find(|(other, _)| *other == tag).expect("it is there").1
}

#[test]
fn sense_data_is_sent_again() {
    let mut initiator = first();
    begin_read(&mut initiator, 1, 100, 0);
    let mut sense = vec![0; 18];
    (sense[0], sense[2], sense[12]) = (0x70, 5, 0x20);
    initiator.target.respond(1, Completion { status: 2, sense, ..Completion::default() });
    let before = initiator.answer();
    let (session, orphans) = lose(initiator);
    let mut initiator = second(session, "");
    let answers = take_over(&mut initiator, 1, 0, only(orphans).1);
    assert_eq!((answers[0].bhs.0[3], additional_sense(&answers[0])), (2, [0x20, 0]));
    assert_eq!(answers[0].data, before.data);
}

#[test]
fn what_the_initiator_has_received_is_not_kept() {
    let mut initiator = first();
    begin_read(&mut initiator, 1, 100, 100);
    initiator.target.respond(1, read_of(100));
    let stat_sn = initiator.answer().bhs.u32(24);
    initiator.send(&Pdu::new(0x40, 0x80, u32::MAX).word(20, u32::MAX).word(28, stat_sn + 1));
    assert!(initiator.event().is_none());
    assert!(lose(initiator).1.is_empty());
}

#[test]
fn an_answer_too_long_to_be_kept_cannot_be_taken_over() {
    let limits = Limits { memory_max: 1024, ..config().limits };
    let mut initiator = Initiator::logged_in_with(ConnectionConfig { limits, ..config() }, KEYS);
    begin_read(&mut initiator, 1, 100, 2048);
    initiator.target.respond(1, read_of(2048));
    assert_eq!(initiator.answers().len(), 4);
    assert!(lose(initiator).1.is_empty());
}

#[test]
fn data_that_did_not_come_is_asked_for_on_the_new_connection() {
    let all = pattern(1000);
    let mut initiator = first();
    begin_write(&mut initiator, &Pdu::command(0x20, 1, 100, 1000).data(&all[..300]), 1000);
    initiator.send(&Pdu::data_out(0, 1, UNSOLICITED, 0, 300).data(&all[300..400]));
    assert!(initiator.event().is_none());
    let (session, orphans) = lose(initiator);
    let mut initiator = second(session, "");
    let answers = take_over(&mut initiator, 1, 0, only(orphans).1);
    // MaxBurstLength holds for the session.
    let r2t = &answers[0].bhs;
    assert_eq!((r2t.0[0], r2t.u32(40), r2t.u32(44)), (0x31, 400, 512));
    let tag = r2t.u32(20);
    initiator.send(&Pdu::data_out(0x80, 1, tag, 0, 400).data(&all[400..912]));
    assert!(initiator.event().is_none());
    let tag = answers.get(1).map_or_else(|| initiator.answer().bhs.u32(20), |r2t| r2t.bhs.u32(20));
    initiator.send(&Pdu::data_out(0x80, 1, tag, 0, 912).data(&all[912..]));
    assert_eq!(expect_data(&mut initiator), all);
    initiator.good(1);
    assert_eq!(status(&initiator.answer()), (0, 0, 0));
    assert_eq!(initiator.target.memory(), 0);
}

// The buffer is with the parser when the connection ends in the middle of a segment.
#[test]
fn a_segment_that_was_cut_off_is_asked_for_with_all_before_it() {
    let all = pattern(400);
    let mut initiator = first();
    begin_write(&mut initiator, &Pdu::command(0x20, 1, 100, 400).data(&all[..100]), 400);
    let bytes = Pdu::data_out(0x80, 1, UNSOLICITED, 0, 100).data(&all[100..]).bytes(false, false);
    initiator.send_bytes(&bytes[..200]);
    assert!(initiator.event().is_none());
    let (session, orphans) = lose(initiator);
    let mut initiator = second(session, "");
    let r2t = take_over(&mut initiator, 1, 0, only(orphans).1).remove(0).bhs;
    assert_eq!((r2t.0[0], r2t.u32(40), r2t.u32(44)), (0x31, 0, 400));
    initiator.send(&Pdu::data_out(0x80, 1, r2t.u32(20), 0, 0).data(all.clone()));
    assert_eq!(expect_data(&mut initiator), all);
}

#[test]
fn a_write_that_is_carried_out_needs_its_answer_only() {
    let mut initiator = first();
    begin_write(&mut initiator, &Pdu::command(0xa0, 1, 100, 100).data(pattern(100)), 100);
    expect_data(&mut initiator);
    let (session, orphans) = lose(initiator);
    let mut initiator = second(session, "");
    assert!(take_over(&mut initiator, 1, 0, only(orphans).1).is_empty());
    initiator.good(1);
    assert_eq!(status(&initiator.answer()), (0, 0, 0));
}

#[test]
fn what_cannot_be_taken_over_is_refused_with_the_reason() {
    let mut initiator = Initiator::logged_in("");
    assert_eq!(refusal(&mut initiator, 1), 4, "not at this level");
    let mut initiator = first();
    assert_eq!(refusal(&mut initiator, 1), 1, "there is none");
    begin_read(&mut initiator, 1, 100, 0);
    assert_eq!(refusal(&mut initiator, 1), 3, "it has a connection");
}

#[test]
fn a_connection_is_given_up_for_recovery() {
    let logout = |cid: u8| {
        let mut logout = Pdu::new(0x46, 0x82, 5).word(24, 100);
        logout.bhs.0[21] = cid;
        logout
    };
    let mut initiator = first();
    initiator.send(&logout(3));
    let expected = (5, 3, LogoutScope::Recovery);
    let Some(Event::LogoutConnection { initiator_task_tag, cid, scope }) = initiator.event() else {
        panic!("no event")
    };
    assert_eq!((initiator_task_tag, cid, scope), expected);
    initiator.target.logout_response(5, true);
    let answer = initiator.answer();
    assert_eq!((answer.bhs.0[2], answer.bhs.u16(40), answer.bhs.u16(42)), (0, 2, 20));
    let mut initiator = first();
    initiator.send(&logout(0));
    assert!(matches!(initiator.event(), Some(Event::LoggedOut(LogoutScope::Recovery))));
    let mut initiator = Initiator::logged_in("");
    initiator.send(&logout(0));
    assert!(initiator.event().is_none());
    assert_eq!(initiator.answer().bhs.0[2], 2, "not at this level");
}

#[test]
fn a_command_lost_on_the_way_is_sent_again_with_its_number() {
    let initiator = first();
    let (session, orphans) = lose(initiator);
    assert!(orphans.is_empty());
    let mut initiator = second(session, "");
    begin_read(&mut initiator, 1, 100, 0);
    initiator.good(1);
    assert_eq!(status(&initiator.answer()), (0, 0, 0));
    // One that had arrived is not carried out twice.
    initiator.send(&Pdu::command(0x80, 1, 100, 0));
    assert!(initiator.event().is_none());
}

/// PDUs are made as they are sent: what a connection that ends has not made is taken over, too.
#[test]
fn an_answer_of_which_little_was_sent_is_taken_over_whole() {
    const LENGTH: usize = 2 << 20;
    let keys = "ErrorRecoveryLevel=2\0MaxRecvDataSegmentLength=512\0";
    for received in [0, 100, 4000] {
        let mut first = Initiator::logged_in_with(config(), keys);
        begin_read(&mut first, 1, 100, LENGTH as u32);
        first.target.respond(1, read_of(LENGTH));
        assert!(first.target.history_bytes() < LENGTH / 2);
        let (session, orphans) = lose(first);
        let (tag, orphan) = only(orphans);
        let mut second = second(session, keys);
        let answers = take_over(&mut second, tag, received, orphan);
        let (response, data) = answers.split_last().unwrap();
        let offset = received * 512;
        assert!(data_of(data, offset, received) == pattern(LENGTH)[offset as usize..]);
        assert_eq!((response.opcode(), response.bhs.u32(36)), (0x21, 4096));
    }
}

// uiscsi offers all keys again when it replaces a connection at level 2. 'Reject' for those that
// only the first connection settles made it give the session up.
#[test]
fn a_connection_in_place_of_another_may_offer_every_key_again() {
    let offers = "HeaderDigest=None\0DataDigest=None\0MaxConnections=1\0InitialR2T=Yes\0\
         ImmediateData=Yes\0MaxBurstLength=262144\0FirstBurstLength=65536\0DefaultTime2Wait=5\0\
         DefaultTime2Retain=0\0MaxOutstandingR2T=1\0ErrorRecoveryLevel=0\0DataPDUInOrder=Yes\0\
         DataSequenceInOrder=Yes\0TaskReporting=RFC3720\0iSCSIProtocolLevel=1\0";
    let (session, _) = lose(first());
    let mut again = Initiator::new(config());
    let mut login = Pdu::login(0x87, &format!("{NORMAL}{offers}"));
    login.bhs.0[14..16].copy_from_slice(&7_u16.to_be_bytes());
    again.send(&login);
    assert!(matches!(again.event(), Some(Event::Login(_))));
    again.target.login_admit(LoginTerms { session: Some(session), ..LoginTerms::open(1) });
    assert!(matches!(again.event(), Some(Event::Authenticated(_))));
    again.target.login_accept(7);
    let Some(Event::LoggedIn(parameters)) = again.event() else { panic!("not let in") };
    let answer = again.answer();
    assert_eq!((answer.bhs.0[1], answer.bhs.0[36]), (0x87, 0), "{}", answer.text());
    for kept in ["ErrorRecoveryLevel=2", "MaxBurstLength=512", "InitialR2T=No"] {
        assert!(answer.text().contains(kept), "{kept}: {}", answer.text());
    }
    assert!(!answer.text().contains("Reject"), "{}", answer.text());
    let of_session = (parameters.error_recovery_level, parameters.max_burst_length);
    assert_eq!((of_session, parameters.default_time2retain), ((2, 512), 20));
}
