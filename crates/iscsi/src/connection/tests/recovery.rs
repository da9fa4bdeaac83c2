//! Error recovery level 1: what was damaged or lost is sent again, in both directions.

use block::Rope;
use bytes::Bytes;

use super::initiator::{Initiator, Pdu, UNSOLICITED, additional_sense, status};
use crate::event::{ClosedReason, Completion, Event};
use crate::pdu::NO_TAG;
use crate::{ConnectionConfig, Limits};

const KEYS: &str = "ErrorRecoveryLevel=1\0DataDigest=CRC32C\0InitialR2T=No\0";

fn config() -> ConnectionConfig {
    let limits = Limits { error_recovery_level: 1, ..Limits::default() };
    ConnectionConfig { limits, ..ConnectionConfig::default() }
}

fn recovering() -> Initiator {
    let initiator = Initiator::logged_in_with(config(), KEYS);
    assert_eq!(initiator.target.parameters().error_recovery_level, 1);
    initiator
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|byte| (byte % 251) as u8).collect()
}

/// Sends a PDU of which one byte of the data is wrong.
fn send_damaged(initiator: &mut Initiator, pdu: &Pdu) {
    let mut bytes = pdu.bytes(false, true);
    bytes[50] ^= 1;
    initiator.send_bytes(&bytes);
}

fn expect_command(initiator: &mut Initiator) -> u32 {
    match initiator.event() {
        Some(Event::Command(command)) => command.task,
        other => panic!("{other:?}"),
    }
}

fn expect_data(initiator: &mut Initiator) -> Vec<u8> {
    match initiator.event() {
        Some(Event::DataOut { data, .. }) => data.to_vec(),
        other => panic!("{other:?}"),
    }
}

fn read_of(length: usize) -> Completion {
    Completion { data_in: Rope::from(Bytes::from(pattern(length))), ..Completion::default() }
}

fn snack(kind: u8, tag: u32, begin: u32, length: u32) -> Pdu {
    let pdu = Pdu::new(0x10, 0x80 | kind, tag).word(20, NO_TAG).word(28, 501);
    pdu.word(40, begin).word(44, length)
}

/// Without ExpCmdSN and MaxCmdSN, which are those of the moment.
fn without_window(pdus: &[Pdu]) -> Vec<Pdu> {
    pdus.iter().map(|pdu| pdu.clone().word(28, 0).word(32, 0)).collect()
}

/// The reject of a digest error, then an R2T for the range.
fn expect_recovery(initiator: &mut Initiator, offset: u32, length: u32) -> u32 {
    assert!(initiator.event().is_none());
    let answers = initiator.answers();
    let r2t = answers.last().expect("an R2T");
    assert_eq!((r2t.opcode(), r2t.bhs.u32(40), r2t.bhs.u32(44)), (0x31, offset, length));
    assert!(answers[..answers.len() - 1].iter().all(|a| (a.opcode(), a.bhs.0[2]) == (0x3f, 2)));
    r2t.bhs.u32(20)
}

#[test]
fn level_1_is_negotiated_only_where_it_is_allowed() {
    let initiator = Initiator::logged_in(KEYS);
    assert_eq!(initiator.target.parameters().error_recovery_level, 0);
    let initiator = Initiator::logged_in_with(config(), "ErrorRecoveryLevel=2\0");
    assert_eq!(initiator.target.parameters().error_recovery_level, 1);
}

#[test]
fn damaged_immediate_data_is_asked_for_again() {
    let mut initiator = recovering();
    let all = pattern(1000);
    send_damaged(&mut initiator, &Pdu::command(0xa0, 1, 100, 1000).data(all.clone()));
    assert_eq!(expect_command(&mut initiator), 1);
    initiator.target.accept_data(1, 1000);
    let tag = expect_recovery(&mut initiator, 0, 1000);
    initiator.send(&Pdu::data_out(0x80, 1, tag, 0, 0).data(all.clone()));
    assert_eq!(expect_data(&mut initiator), all);
    initiator.good(1);
    assert_eq!(status(&initiator.answer()), (0, 0, 0));
}

#[test]
fn a_damaged_unsolicited_pdu_costs_the_rest_of_its_sequence() {
    let mut initiator = recovering();
    let all = pattern(3000);
    initiator.send(&Pdu::command(0x20, 1, 100, 3000).data(&all[..1000]));
    expect_command(&mut initiator);
    initiator.target.accept_data(1, 3000);
    let second = Pdu::data_out(0, 1, UNSOLICITED, 0, 1000).data(&all[1000..2000]);
    send_damaged(&mut initiator, &second);
    initiator.send(&Pdu::data_out(0x80, 1, UNSOLICITED, 1, 2000).data(&all[2000..]));
    let tag = expect_recovery(&mut initiator, 1000, 2000);
    initiator.send(&Pdu::data_out(0x80, 1, tag, 0, 1000).data(&all[1000..]));
    assert_eq!(expect_data(&mut initiator), all);
}

// The second R2T's data comes in order and whole, but after the gap: it is asked for again, too.
#[test]
fn damage_with_several_r2ts_outstanding_is_repaired() {
    let keys = format!("{KEYS}MaxBurstLength=1024\0MaxOutstandingR2T=2\0ImmediateData=No\0");
    let mut initiator = Initiator::logged_in_with(config(), &keys);
    let all = pattern(2048);
    initiator.send(&Pdu::command(0xa0, 1, 100, 2048));
    expect_command(&mut initiator);
    initiator.target.accept_data(1, 2048);
    assert!(initiator.event().is_none());
    let tags: Vec<u32> = initiator.answers().iter().map(|r2t| r2t.bhs.u32(20)).collect();
    send_damaged(&mut initiator, &Pdu::data_out(0x80, 1, tags[0], 0, 0).data(&all[..1024]));
    initiator.send(&Pdu::data_out(0x80, 1, tags[1], 0, 1024).data(&all[1024..]));
    assert!(initiator.event().is_none());
    let answers = initiator.answers();
    let r2ts: Vec<_> = answers[1..].iter().map(|r2t| (r2t.bhs.u32(40), r2t.bhs.u32(44))).collect();
    assert_eq!(r2ts, [(0, 1024), (1024, 1024)]);
    for (r2t, part) in answers[1..].iter().zip(all.chunks(1024)) {
        let (tag, offset) = (r2t.bhs.u32(20), r2t.bhs.u32(40));
        initiator.send(&Pdu::data_out(0x80, 1, tag, 0, offset).data(part));
    }
    assert_eq!(expect_data(&mut initiator), all);
}

#[test]
fn a_data_pdu_that_is_missing_is_asked_for_again() {
    let mut initiator = recovering();
    let all = pattern(3000);
    initiator.send(&Pdu::command(0x20, 1, 100, 3000).data(&all[..1000]));
    expect_command(&mut initiator);
    initiator.target.accept_data(1, 3000);
    initiator.send(&Pdu::data_out(0x80, 1, UNSOLICITED, 1, 2000).data(&all[2000..]));
    let tag = expect_recovery(&mut initiator, 1000, 2000);
    initiator.send(&Pdu::data_out(0x80, 1, tag, 0, 1000).data(&all[1000..]));
    assert_eq!(expect_data(&mut initiator), all);
}

#[test]
fn data_that_is_damaged_for_ever_ends_the_command() {
    let mut initiator = recovering();
    let all = pattern(1000);
    send_damaged(&mut initiator, &Pdu::command(0xa0, 1, 100, 1000).data(all.clone()));
    expect_command(&mut initiator);
    initiator.target.accept_data(1, 1000);
    let mut attempts = 0;
    loop {
        match initiator.event() {
            Some(Event::Aborted { task: 1 }) => break,
            Some(event) => panic!("{event:?}"),
            None => {}
        }
        let r2t = initiator.answers().pop().expect("an R2T");
        let tag = r2t.bhs.u32(20);
        send_damaged(&mut initiator, &Pdu::data_out(0x80, 1, tag, 0, 0).data(all.clone()));
        attempts += 1;
        assert!(attempts < 100);
    }
    assert_eq!(additional_sense(&initiator.answers().pop().unwrap()), [0x47, 5]);
}

#[test]
fn data_in_is_sent_again_by_number() {
    let mut initiator =
        Initiator::logged_in_with(config(), "ErrorRecoveryLevel=1\0MaxRecvDataSegmentLength=512\0");
    initiator.send(&Pdu::command(0xc0, 1, 100, 2048).word(28, 501));
    expect_command(&mut initiator);
    initiator.target.respond(1, read_of(2048));
    let sent = initiator.answers();
    assert_eq!(sent.len(), 4);
    for (begin, length, expected) in [(1, 2, 1..3), (2, 0, 2..4), (3, 1, 3..4), (0, 0, 0..4)] {
        initiator.send(&snack(0, 1, begin, length));
        assert!(initiator.event().is_none());
        assert_eq!(initiator.answers(), sent[expected], "{begin} {length}");
    }
    // A number that was never sent; then a response that was acknowledged.
    initiator.send(&snack(0, 1, 4, 1));
    assert!(initiator.event().is_none());
    assert_eq!((initiator.answer().bhs.0[2], initiator.target.history_bytes() > 0), (3, true));
    initiator.send(&snack(0, 1, 0, 0).word(28, 502));
    assert!(initiator.event().is_none());
    assert_eq!(initiator.answer().bhs.0[2], 3);
}

#[test]
fn responses_are_sent_again_by_status_number() {
    let mut initiator = recovering();
    for tag in 1..=3 {
        initiator.send(&Pdu::command(0x80, tag, 99 + tag, 0).word(28, 501));
        expect_command(&mut initiator);
        initiator.good(tag);
    }
    let sent = initiator.answers();
    initiator.send(&snack(1, NO_TAG, 502, 2));
    assert!(initiator.event().is_none());
    assert_eq!(without_window(&initiator.answers()), without_window(&sent[1..]));
    initiator.send(&snack(1, NO_TAG, 501, 0));
    assert!(initiator.event().is_none());
    assert_eq!(without_window(&initiator.answers()), without_window(&sent));
    initiator.send(&snack(1, NO_TAG, 900, 1));
    assert!(initiator.event().is_none());
    assert_eq!(initiator.answer().bhs.0[2], 3);
}

#[test]
fn an_r2t_is_sent_again() {
    let keys = format!("{KEYS}ImmediateData=No\0");
    let mut initiator = Initiator::logged_in_with(config(), &keys);
    initiator.send(&Pdu::command(0xa0, 1, 100, 1000).word(28, 501));
    expect_command(&mut initiator);
    initiator.target.accept_data(1, 1000);
    assert!(initiator.event().is_none());
    let r2t = initiator.answer();
    initiator.send(&snack(0, 1, 0, 1));
    assert!(initiator.event().is_none());
    assert_eq!(initiator.answer(), r2t);
}

#[test]
fn what_is_acknowledged_is_forgotten() {
    let mut initiator = recovering();
    for number in 0..50 {
        let command = Pdu::command(0xc0, number % 2, 100 + number, 4096).word(28, 501 + number);
        initiator.send(&command);
        let task = expect_command(&mut initiator);
        initiator.target.respond(task, read_of(4096));
        initiator.answers();
        assert!(initiator.target.history_bytes() <= 4096);
    }
    initiator.send(&Pdu::new(0x40, 0x80, NO_TAG).word(20, NO_TAG).word(24, 150).word(28, 551));
    assert!(initiator.event().is_none());
    assert_eq!(initiator.target.history_bytes(), 0);
}

// An initiator that never acknowledges costs no more than the limit.
#[test]
fn what_is_held_is_bounded() {
    let limits = Limits { error_recovery_level: 1, memory_max: 100_000, ..Limits::default() };
    let config = ConnectionConfig { limits, ..ConnectionConfig::default() };
    let mut initiator = Initiator::logged_in_with(config, KEYS);
    for number in 0..100 {
        initiator.send(&Pdu::command(0xc0, number, 100 + number, 4096).word(28, 501));
        let task = expect_command(&mut initiator);
        initiator.target.respond(task, read_of(4096));
        initiator.answers();
        assert!(initiator.target.history_bytes() <= 100_000);
    }
    initiator.send(&snack(0, 0, 0, 0));
    assert!(initiator.event().is_none());
    assert_eq!(initiator.answer().bhs.0[2], 3, "the oldest is gone");
}

// 29 KB of requests for the same data put 320 MB into the queue.
#[test]
fn what_is_sent_again_is_bounded_however_often_it_is_asked_for() {
    const LENGTH: u32 = 512 << 10;
    let mut initiator = recovering();
    let mut sent = Vec::new();
    for number in 0..40 {
        initiator.send(&Pdu::command(0xc0, number, 100 + number, LENGTH).word(28, 501));
        let task = expect_command(&mut initiator);
        initiator.target.respond(task, read_of(LENGTH as usize));
        sent.push(initiator.take_output().len());
    }
    for _ in 0..600 {
        initiator.send(&snack(0, 7, 0, 0));
        assert!(initiator.event().is_none());
    }
    let once = sent[7] + 1024;
    assert!(initiator.target.send_queue_bytes() <= once, "it goes once at a time");
    for number in 0..40 {
        for begin in 0..20 {
            initiator.send(&snack(0, number, begin, 0));
            assert!(initiator.event().is_none());
        }
    }
    let (queued, bound) = (initiator.target.send_queue_bytes(), (8 << 20) + 256 * 1000);
    assert!(queued <= bound, "{queued} bytes");
    // What came is forgotten, and the same may be asked for again.
    initiator.take_output();
    initiator.send(&snack(0, 7, 0, 0));
    assert!(initiator.event().is_none());
    assert!(initiator.target.send_queue_bytes() > LENGTH as usize);
}

// A ping with damaged data is rejected and sent again; commands behind it wait for it.
#[test]
fn requests_behind_a_damaged_one_wait_for_it() {
    let mut initiator = recovering();
    let ping = Pdu::new(0x00, 0x80, 7).word(20, NO_TAG).word(24, 100).data("hello");
    send_damaged(&mut initiator, &ping);
    let write = Pdu::command(0xa0, 1, 101, 4).data("abcd");
    initiator.send(&write);
    initiator.send(&Pdu::command(0x80, 2, 102, 0));
    assert!(initiator.event().is_none());
    assert_eq!(initiator.answer().bhs.0[2], 2);
    initiator.send(&ping);
    assert_eq!(expect_command(&mut initiator), 1);
    initiator.target.accept_data(1, 4);
    assert_eq!(expect_data(&mut initiator), b"abcd");
    assert_eq!(expect_command(&mut initiator), 2);
    assert_eq!(initiator.answer().data, b"hello");
    assert_eq!(initiator.target.memory(), 4);
}

#[test]
fn at_level_0_a_missing_request_ends_the_connection() {
    let mut initiator = Initiator::logged_in("");
    initiator.send(&Pdu::command(0x80, 1, 101, 0));
    assert!(matches!(initiator.event(), Some(Event::Closed(ClosedReason::Protocol(_)))));
}

/// A host that takes 512 bytes a PDU made the target write 65,536 headers in one go for a READ of
/// 32 MiB: they are made as they are sent.
#[test]
fn pdus_of_a_long_read_are_made_as_they_are_sent() {
    const LENGTH: usize = 4 << 20;
    let keys = "ErrorRecoveryLevel=1\0MaxRecvDataSegmentLength=512\0";
    let mut initiator = Initiator::logged_in_with(config(), keys);
    initiator.send(&Pdu::command(0xc0, 7, 100, LENGTH as u32).word(28, 501));
    let task = expect_command(&mut initiator);
    initiator.target.respond(task, read_of(LENGTH));
    let made = initiator.target.history_bytes();
    assert!((1..1 << 20).contains(&made), "{made} bytes of PDUs are made");
    // What is not made yet is on its way: nothing is rejected, nothing sent twice.
    initiator.send(&snack(0, 7, 8000, 1));
    assert!(initiator.event().is_none());
    let answers = initiator.answers();
    assert_eq!(answers.len(), LENGTH / 512);
    assert!(answers.iter().all(|pdu| pdu.opcode() == 0x25));
    let data: Vec<u8> = answers.iter().flat_map(|pdu| pdu.data.clone()).collect();
    assert!(data == pattern(LENGTH));
    initiator.send(&snack(0, 7, 8000, 2));
    assert!(initiator.event().is_none());
    let again = initiator.answers();
    assert_eq!(without_window(&again), without_window(&answers[8000..8002]));
}
