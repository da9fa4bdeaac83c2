use block::Rope;
use bytes::Bytes;
use sam::TaskAttribute;

use super::initiator::{Initiator, Pdu, UNSOLICITED, additional_sense, status};
use crate::event::{Completion, Event};
use crate::{ConnectionConfig, Limits};

const OVERFLOW: u8 = 0x04;
const UNDERFLOW: u8 = 0x02;

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|byte| (byte % 251) as u8).collect()
}

fn read_of(length: usize) -> Completion {
    Completion { data_in: Rope::from(Bytes::from(pattern(length))), ..Completion::default() }
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

/// A write of `length` bytes with `immediate` data, of which the CDB wants `wanted`.
fn begin_write(initiator: &mut Initiator, pdu: &Pdu, wanted: u32) -> u32 {
    initiator.send(pdu);
    let task = expect_command(initiator);
    initiator.target.accept_data(task, wanted);
    task
}

#[test]
fn a_command_says_all_that_the_header_says() {
    let mut initiator = Initiator::logged_in("");
    initiator.send(&Pdu::command(0xc2, 0x1234, 100, 8192).lun(0x0005_0000_0000_0000));
    let Some(Event::Command(command)) = initiator.event() else { panic!() };
    assert_eq!((command.task, command.lun), (0x1234, 5 << 48));
    assert!(command.read && !command.write && !command.immediate);
    assert_eq!(command.expected_data_transfer_length, 8192);
    assert_eq!(command.attribute, TaskAttribute::HeadOfQueue);
    assert_eq!((command.cdb.len(), command.cdb[0]), (16, 0x2a));
    assert_eq!(initiator.target.tasks(), 1);
}

#[test]
fn an_extended_cdb_is_appended() {
    let mut initiator = Initiator::logged_in("");
    let mut pdu = Pdu::command(0x80, 1, 100, 0);
    // AHSLength 17: a reserved byte and 16 bytes of CDB.
    pdu.ahs = [&[0, 17, 1, 0][..], &[7; 16]].concat();
    initiator.send(&pdu);
    let Some(Event::Command(command)) = initiator.event() else { panic!() };
    assert_eq!(
        (command.cdb.len(), command.cdb[0], command.cdb[16..].to_vec()),
        (32, 0x2a, vec![7; 16])
    );
}

#[test]
fn malformed_additional_headers_are_rejected() {
    for ahs in [&[0, 0, 1, 0][..], &[0, 200, 1, 0], &[0, 5, 9, 0, 0, 0, 0, 0], &[0xff; 8], &[0; 4]]
    {
        let mut initiator = Initiator::logged_in("");
        let mut pdu = Pdu::command(0x80, 1, 100, 0);
        pdu.ahs = ahs.to_vec();
        initiator.send(&pdu);
        assert!(initiator.event().is_none(), "{ahs:?}");
        let reject = initiator.answer();
        assert_eq!((reject.opcode(), reject.bhs.0[2]), (0x3f, 0x09), "{ahs:?}");
    }
}

#[test]
fn good_status_travels_with_the_last_data() {
    let mut initiator =
        Initiator::logged_in("MaxRecvDataSegmentLength=4096\0MaxBurstLength=8192\0");
    initiator.send(&Pdu::command(0xc0, 1, 100, 10_000));
    let task = expect_command(&mut initiator);
    initiator.target.respond(task, read_of(10_000));
    let answers = initiator.answers();
    let shape: Vec<_> = answers
        .iter()
        .map(|pdu| (pdu.opcode(), pdu.bhs.0[1], pdu.bhs.u32(36), pdu.bhs.u32(40), pdu.data.len()))
        .collect();
    assert_eq!(
        shape,
        [(0x25, 0x00, 0, 0, 4096), (0x25, 0x80, 1, 4096, 4096), (0x25, 0x81, 2, 8192, 1808)]
    );
    let data: Vec<u8> = answers.iter().flat_map(|pdu| pdu.data.clone()).collect();
    assert_eq!(data, pattern(10_000));
    assert_eq!(initiator.target.tasks(), 0);
}

#[test]
fn status_numbers_count_only_pdus_with_status() {
    let mut initiator = Initiator::logged_in("MaxRecvDataSegmentLength=512\0");
    for tag in 0..2 {
        initiator.send(&Pdu::command(0xc0, tag, 100 + tag, 1024));
        let task = expect_command(&mut initiator);
        initiator.target.respond(task, read_of(1024));
        let answers = initiator.answers();
        assert_eq!(answers[0].bhs.u32(24), 0);
        assert_eq!(answers[1].bhs.u32(24), 501 + tag);
        assert_eq!(answers[1].bhs.u32(28), 101 + tag, "ExpCmdSN");
    }
}

#[test]
fn residuals_of_reads_are_exact() {
    // Expected, yielded, data that arrives, flag, count.
    let table = [
        (512, 512, 512, 0, 0),
        (0, 512, 0, OVERFLOW, 512),
        (10_000, 512, 512, UNDERFLOW, 9488),
        (200, 512, 200, OVERFLOW, 312),
        (512, 1024, 512, OVERFLOW, 512),
        (96, 0, 0, UNDERFLOW, 96),
    ];
    for (expected, yielded, arrives, flag, count) in table {
        let mut initiator = Initiator::logged_in("");
        initiator.send(&Pdu::command(0xc0, 1, 100, expected));
        let task = expect_command(&mut initiator);
        initiator.target.respond(task, read_of(yielded));
        let answer = initiator.answer();
        assert_eq!(status(&answer), (0, flag, count));
        assert_eq!(answer.data.len(), arrives);
    }
}

#[test]
fn residuals_of_writes_are_exact() {
    // Expected, wanted by the CDB, data that the owner gets, flag, count.
    let table = [
        (512, 512, 512, 0, 0),
        (0, 512, 0, OVERFLOW, 512),
        (10_000, 512, 512, UNDERFLOW, 9488),
        (200, 512, 200, OVERFLOW, 312),
        (512, 1024, 512, OVERFLOW, 512),
        (1024, 0, 0, UNDERFLOW, 1024),
        (17_408, 17_408, 17_408, 0, 0),
        (17_408, 4096, 4096, UNDERFLOW, 13_312),
        (3_000_000, 3_000_000, 3_000_000, 0, 0),
    ];
    for keys in ["InitialR2T=No\0", "InitialR2T=Yes\0ImmediateData=No\0", "InitialR2T=Yes\0"] {
        for (expected, wanted, arrives, flag, count) in table {
            let mut initiator = Initiator::logged_in(keys);
            let data = write(&mut initiator, 1, 100, expected, wanted);
            assert_eq!(data, pattern(expected as usize)[..arrives], "{keys} {expected} {wanted}");
            initiator.good(1);
            assert!(initiator.event().is_none());
            assert_eq!(status(&initiator.answer()), (0, flag, count), "{keys} {expected} {wanted}");
            assert_eq!(initiator.target.tasks(), 0);
        }
    }
}

/// A write as a real initiator does it: immediate and unsolicited data as negotiated, then what the
/// R2Ts ask for. Returns what the owner gets.
fn write(initiator: &mut Initiator, tag: u32, cmd_sn: u32, expected: u32, wanted: u32) -> Vec<u8> {
    let parameters = initiator.target.parameters().clone();
    let all = pattern(expected as usize);
    let first_burst = expected.min(parameters.first_burst_length) as usize;
    let immediate = if parameters.immediate_data { first_burst.min(8192) } else { 0 };
    let unsolicited = if parameters.initial_r2t { immediate } else { first_burst };
    let is_final = if unsolicited > immediate { 0 } else { 0x80 };
    let command = Pdu::command(0x20 | is_final, tag, cmd_sn, expected).data(&all[..immediate]);
    begin_write(initiator, &command, wanted);
    send_sequence(initiator, tag, UNSOLICITED, &all, immediate, unsolicited);
    loop {
        match initiator.event() {
            Some(Event::DataOut { task, data }) => {
                assert_eq!(task, tag);
                assert!(initiator.answers().is_empty());
                return data.to_vec();
            }
            Some(event) => panic!("{event:?}"),
            None => {
                for r2t in initiator.answers() {
                    assert_eq!(r2t.opcode(), 0x31);
                    let offset = r2t.bhs.u32(40) as usize;
                    let end = offset + r2t.bhs.u32(44) as usize;
                    send_sequence(initiator, tag, r2t.bhs.u32(20), &all, offset, end);
                }
            }
        }
    }
}

fn send_sequence(
    initiator: &mut Initiator,
    tag: u32,
    transfer_tag: u32,
    all: &[u8],
    start: usize,
    end: usize,
) {
    let mut offset = start;
    let mut data_sn = 0;
    while offset < end {
        let next = end.min(offset + 100_000);
        let flags = if next == end { 0x80 } else { 0 };
        let pdu = Pdu::data_out(flags, tag, transfer_tag, data_sn, offset as u32);
        initiator.send(&pdu.data(&all[offset..next]));
        offset = next;
        data_sn += 1;
    }
}

// spdk issue 405: ESXi sends 17 KiB as 8 KiB immediate and 9,216 bytes of Data-Out, and drops the
// connection on a false underflow.
#[test]
fn a_write_in_immediate_and_unsolicited_parts_has_no_residual() {
    let mut initiator = Initiator::logged_in("InitialR2T=No\0ImmediateData=Yes\0");
    let all = pattern(17_408);
    begin_write(&mut initiator, &Pdu::command(0x20, 1, 100, 17_408).data(&all[..8192]), 17_408);
    initiator.send(&Pdu::data_out(0x80, 1, UNSOLICITED, 0, 8192).data(&all[8192..]));
    assert_eq!(expect_data(&mut initiator), all);
    initiator.good(1);
    assert_eq!(status(&initiator.answer()), (0, 0, 0));
}

#[test]
fn solicited_data_keeps_to_max_outstanding_r2t_and_max_burst() {
    let mut initiator =
        Initiator::logged_in("MaxOutstandingR2T=2\0MaxBurstLength=1024\0ImmediateData=No\0");
    begin_write(&mut initiator, &Pdu::command(0xa0, 1, 100, 2500), 2500);
    assert!(initiator.event().is_none());
    let r2ts = initiator.answers();
    let shape: Vec<_> =
        r2ts.iter().map(|r2t| (r2t.bhs.u32(36), r2t.bhs.u32(40), r2t.bhs.u32(44))).collect();
    assert_eq!(shape, [(0, 0, 1024), (1, 1024, 1024)]);
    assert_eq!(r2ts[0].bhs.u32(24), 501, "R2T does not use up a status number");
    initiator.send(&Pdu::data_out(0x80, 1, r2ts[0].bhs.u32(20), 0, 0).data(vec![1; 1024]));
    assert!(initiator.event().is_none());
    let third = initiator.answer();
    assert_eq!((third.bhs.u32(36), third.bhs.u32(40), third.bhs.u32(44)), (2, 2048, 452));
    initiator.send(&Pdu::data_out(0x80, 1, r2ts[1].bhs.u32(20), 0, 1024).data(vec![2; 1024]));
    initiator.send(&Pdu::data_out(0x80, 1, third.bhs.u32(20), 0, 2048).data(vec![3; 452]));
    assert_eq!(expect_data(&mut initiator), [vec![1; 1024], vec![2; 1024], vec![3; 452]].concat());
    initiator.good(1);
    assert_eq!(initiator.answer().bhs.u32(36), 3, "ExpDataSN counts R2Ts");
}

// RFC 7143 11.4.2: the response waits for the final bit of the last expected sequence.
#[test]
fn an_early_answer_waits_for_the_unsolicited_data() {
    let mut initiator = Initiator::logged_in("InitialR2T=No\0");
    initiator.send(&Pdu::command(0x20, 1, 100, 8192).data(vec![0; 1000]));
    expect_command(&mut initiator);
    let sense = vec![0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x25, 0, 0, 0, 0, 0];
    initiator.target.respond(1, Completion { status: 2, sense, ..Completion::default() });
    assert!(initiator.event().is_none());
    assert!(initiator.answers().is_empty());
    initiator.send(&Pdu::data_out(0x00, 1, UNSOLICITED, 0, 1000).data(vec![0; 1000]));
    assert!(initiator.event().is_none());
    assert!(initiator.answers().is_empty());
    initiator.send(&Pdu::data_out(0x80, 1, UNSOLICITED, 1, 2000).data(vec![0; 6192]));
    assert!(initiator.event().is_none());
    let answer = initiator.answer();
    assert_eq!(status(&answer), (2, UNDERFLOW, 8192));
    assert_eq!(additional_sense(&answer), [0x25, 0]);
    initiator.send(&Pdu::command(0x80, 2, 101, 0));
    expect_command(&mut initiator);
}

#[test]
fn an_early_answer_swallows_immediate_data() {
    let mut initiator = Initiator::logged_in("");
    initiator.send(&Pdu::command(0xa0, 1, 100, 5001).data(vec![0; 5001]));
    expect_command(&mut initiator);
    initiator.target.respond(1, Completion { status: 8, ..Completion::default() });
    assert_eq!(status(&initiator.answer()), (8, UNDERFLOW, 5001));
    initiator.send(&Pdu::command(0x80, 1, 101, 0));
    expect_command(&mut initiator);
}

#[test]
fn wrong_data_sequence_numbers_fail_the_command_only() {
    for sequence in [&[0, 0][..], &[27, 1], &[u32::MAX, 1], &[1, 0], &[0, 2]] {
        let mut initiator = Initiator::logged_in("InitialR2T=Yes\0ImmediateData=No\0");
        begin_write(&mut initiator, &Pdu::command(0xa0, 1, 100, 1024), 1024);
        initiator.event();
        let r2t = initiator.answer().bhs.u32(20);
        for (index, &data_sn) in sequence.iter().enumerate() {
            let flags = if index == 1 { 0x80 } else { 0 };
            let pdu = Pdu::data_out(flags, 1, r2t, data_sn, index as u32 * 512);
            initiator.send(&pdu.data(vec![0; 512]));
        }
        assert!(matches!(initiator.event(), Some(Event::Aborted { task: 1 })), "{sequence:?}");
        assert!(initiator.event().is_none());
        let answer = initiator.answer();
        assert_eq!(status(&answer).0, 2);
        assert_eq!(additional_sense(&answer), [0x47, 0x05]);
        initiator.send(&Pdu::command(0x80, 2, 101, 0));
        expect_command(&mut initiator);
    }
}

#[test]
fn too_much_too_little_and_misplaced_data_fail_the_command() {
    // Flags, offset, length.
    for (flags, offset, length) in
        [(0x80, 0, 600), (0x80, 0, 100), (0, 4, 508), (0x80, u32::MAX, 4)]
    {
        let mut initiator = Initiator::logged_in("ImmediateData=No\0");
        begin_write(&mut initiator, &Pdu::command(0xa0, 1, 100, 512), 512);
        initiator.event();
        let r2t = initiator.answer().bhs.u32(20);
        initiator.send(&Pdu::data_out(flags, 1, r2t, 0, offset).data(vec![0; length]));
        assert!(matches!(initiator.event(), Some(Event::Aborted { task: 1 })));
        initiator.send(&Pdu::data_out(0x80, 1, r2t, 1, 0));
        assert!(initiator.event().is_none());
        assert_eq!(additional_sense(&initiator.answer()), [0x0c, 0x0d]);
    }
}

#[test]
fn data_that_nobody_asked_for_fails_the_command() {
    for transfer_tag in [UNSOLICITED, 0xdead] {
        let mut initiator = Initiator::logged_in("InitialR2T=Yes\0ImmediateData=No\0");
        begin_write(&mut initiator, &Pdu::command(0xa0, 1, 100, 512), 512);
        initiator.event();
        let r2t = initiator.answer().bhs.u32(20);
        initiator.send(&Pdu::data_out(0x80, 1, transfer_tag, 0, 0).data(vec![0; 512]));
        assert!(matches!(initiator.event(), Some(Event::Aborted { task: 1 })));
        assert!(initiator.answers().is_empty(), "the R2T is still open");
        initiator.send(&Pdu::data_out(0x80, 1, r2t, 0, 0).data(vec![0; 512]));
        initiator.event();
        assert_eq!(additional_sense(&initiator.answer()), [0x0c, 0x0c]);
    }
}

#[test]
fn data_for_unknown_and_for_read_commands_is_dropped() {
    let mut initiator = Initiator::logged_in("");
    initiator.send(&Pdu::data_out(0x80, 77, UNSOLICITED, 0, 0).data(vec![0; 4096]));
    assert!(initiator.event().is_none());
    assert!(initiator.answers().is_empty());
    initiator.send(&Pdu::command(0xc0, 1, 100, 512));
    expect_command(&mut initiator);
    initiator.send(&Pdu::data_out(0x80, 1, UNSOLICITED, 0, 0).data(vec![0; 512]));
    assert!(initiator.event().is_none());
    assert_eq!(initiator.answer().opcode(), 0x3f);
    initiator.target.respond(1, read_of(512));
    assert_eq!(initiator.answer().data, pattern(512));
}

#[test]
fn immediate_data_against_the_agreement_is_rejected() {
    let table = [
        ("ImmediateData=No\0", 0xa0, 512, 512),
        ("", 0x80, 512, 512),
        ("", 0xa0, 100, 104),
        ("FirstBurstLength=512\0", 0xa0, 4096, 1024),
    ];
    for (keys, flags, expected, immediate) in table {
        let mut initiator = Initiator::logged_in(keys);
        initiator.send(&Pdu::command(flags, 1, 100, expected).data(vec![0; immediate]));
        assert!(initiator.event().is_none());
        let reject = initiator.answer();
        assert_eq!((reject.opcode(), reject.bhs.0[2]), (0x3f, 4));
        assert_eq!(reject.data.len(), 48);
    }
}

// The immediate data of a rejected duplicate must not touch the command that has the tag.
#[test]
fn a_tag_in_use_is_rejected_and_its_owner_undisturbed() {
    let mut initiator = Initiator::logged_in("InitialR2T=No\0");
    let all = pattern(1024);
    begin_write(&mut initiator, &Pdu::command(0x20, 1, 100, 1024).data(&all[..512]), 1024);
    initiator.send(&Pdu::command(0xa0, 1, 101, 1024).data(vec![9; 1024]));
    assert!(initiator.event().is_none());
    let reject = initiator.answer();
    assert_eq!((reject.opcode(), reject.bhs.0[2]), (0x3f, 7));
    initiator.send(&Pdu::data_out(0x80, 1, UNSOLICITED, 0, 512).data(&all[512..]));
    assert_eq!(expect_data(&mut initiator), all);
}

#[test]
fn commands_outside_the_window_are_ignored() {
    let mut initiator = Initiator::logged_in("");
    for cmd_sn in [99, 356, 0x8000_0000] {
        initiator.send(&Pdu::command(0xa0, 1, cmd_sn, 512).data(vec![0; 512]));
        assert!(initiator.event().is_none());
        assert!(initiator.answers().is_empty());
    }
    initiator.send(&Pdu::command(0x80, 1, 100, 0));
    expect_command(&mut initiator);
}

#[test]
fn a_gap_in_command_numbers_ends_the_connection() {
    let mut initiator = Initiator::logged_in("");
    initiator.send(&Pdu::command(0x80, 1, 102, 0));
    assert!(matches!(initiator.event(), Some(Event::Closed(_))));
}

#[test]
fn the_window_closes_and_opens_with_the_tasks() {
    let limits = Limits { tasks_max: 2, ..Limits::default() };
    let config = ConnectionConfig { limits, ..ConnectionConfig::default() };
    let mut initiator = Initiator::logged_in_with(config, "");
    for tag in 0..3 {
        initiator.send(&Pdu::command(0x80, tag, 100 + tag, 0));
    }
    expect_command(&mut initiator);
    expect_command(&mut initiator);
    assert!(initiator.event().is_none(), "the third is beyond MaxCmdSN");
    initiator.good(0);
    let answer = initiator.answer();
    assert_eq!((answer.bhs.u32(28), answer.bhs.u32(32)), (102, 102));
    initiator.send(&Pdu::command(0x80, 2, 102, 0));
    expect_command(&mut initiator);
}

#[test]
fn too_many_immediate_commands_are_rejected() {
    let limits = Limits { tasks_max: 1, ..Limits::default() };
    let config = ConnectionConfig { limits, ..ConnectionConfig::default() };
    let mut initiator = Initiator::logged_in_with(config, "");
    for tag in 0..18 {
        let mut pdu = Pdu::command(0x80, tag, 100, 0);
        pdu.bhs.0[0] |= 0x40;
        initiator.send(&pdu);
    }
    for _ in 0..17 {
        expect_command(&mut initiator);
    }
    assert!(initiator.event().is_none());
    assert_eq!(initiator.answer().bhs.0[2], 6);
}

#[test]
fn memory_for_data_is_bounded() {
    let limits = Limits { memory_max: 10_000, data_out_length_max: 8192, ..Limits::default() };
    let config = ConnectionConfig { limits, ..ConnectionConfig::default() };
    let mut initiator = Initiator::logged_in_with(config, "ImmediateData=No\0");
    begin_write(&mut initiator, &Pdu::command(0xa0, 1, 100, 8192), 8192);
    begin_write(&mut initiator, &Pdu::command(0xa0, 2, 101, 4096), 4096);
    assert!(matches!(initiator.event(), Some(Event::Aborted { task: 2 })));
    begin_write(&mut initiator, &Pdu::command(0xa0, 3, 102, 8193), 8193);
    assert!(matches!(initiator.event(), Some(Event::Aborted { task: 3 })));
    let answers = initiator.answers();
    assert_eq!(answers[1].bhs.0[3], 0x28, "TASK SET FULL");
    assert_eq!(additional_sense(&answers[2]), [0x24, 0]);
    initiator.target.abort_collecting(None);
    assert!(matches!(initiator.event(), Some(Event::Aborted { task: 1 })));
    begin_write(&mut initiator, &Pdu::command(0xa0, 4, 103, 8192), 8192);
    assert!(initiator.event().is_none());
    assert_eq!(initiator.answer().opcode(), 0x31);
}

#[test]
fn memory_for_reads_is_bounded_until_the_data_is_sent() {
    let limits = Limits { memory_max: 10_000, ..Limits::default() };
    let config = ConnectionConfig { limits, ..ConnectionConfig::default() };
    let mut initiator = Initiator::logged_in_with(config, "");
    initiator.send(&Pdu::command(0xc0, 1, 100, 8192));
    expect_command(&mut initiator);
    assert!(initiator.target.expect_data_in(1, 8192));
    initiator.send(&Pdu::command(0xc0, 2, 101, 4096));
    expect_command(&mut initiator);
    assert!(!initiator.target.expect_data_in(2, 4096));
    assert_eq!(status(&initiator.answer()), (0x28, UNDERFLOW, 4096), "TASK SET FULL");
    initiator.target.respond(1, read_of(8192));
    assert!(initiator.target.memory() > 8192, "it waits to be sent");
    initiator.send(&Pdu::command(0xc0, 3, 102, 4096));
    expect_command(&mut initiator);
    assert!(!initiator.target.expect_data_in(3, 4096));
    initiator.answers();
    assert_eq!(initiator.target.memory(), 0);
    initiator.send(&Pdu::command(0xc0, 4, 103, 1 << 20));
    expect_command(&mut initiator);
    assert!(initiator.target.expect_data_in(4, 1 << 20), "one that is alone always may");
    initiator.target.forget(4);
    assert_eq!(initiator.target.memory(), 0);
}

#[test]
fn digests_are_made_and_checked() {
    let mut initiator =
        Initiator::logged_in("HeaderDigest=CRC32C\0DataDigest=CRC32C\0InitialR2T=No\0");
    assert!(initiator.header_digest && initiator.data_digest);
    for (tag, length) in [(0, 5), (1, 4096), (2, 300_001)] {
        assert_eq!(write(&mut initiator, tag, 100 + tag, length, length), pattern(length as usize));
        initiator.good(tag);
        initiator.answer();
    }
    initiator.send(&Pdu::command(0xc0, 9, 103, 4095));
    expect_command(&mut initiator);
    initiator.target.respond(9, read_of(4095));
    assert_eq!(initiator.answer().data, pattern(4095));
}

#[test]
fn a_wrong_header_digest_ends_the_connection() {
    let mut initiator = Initiator::logged_in("HeaderDigest=CRC32C\0");
    let mut bytes = Pdu::command(0x80, 1, 100, 0).bytes(true, false);
    bytes[20] ^= 1;
    initiator.send_bytes(&bytes);
    assert!(matches!(initiator.event(), Some(Event::Closed(_))));
    assert!(initiator.answers().is_empty());
}

// RFC 7143 7.7, without recovery: Reject, and the command ends when all its data has come.
#[test]
fn a_wrong_data_digest_fails_the_command_only() {
    for immediate in [0, 4096] {
        let mut initiator = Initiator::logged_in("DataDigest=CRC32C\0InitialR2T=No\0");
        let mut bytes =
            Pdu::command(0x20, 1, 100, 8192).data(vec![1; immediate]).bytes(false, true);
        if immediate > 0 {
            bytes[60] ^= 1;
        }
        initiator.send_bytes(&bytes);
        let task = expect_command(&mut initiator);
        initiator.target.accept_data(task, 8192);
        let rest = vec![1; 8192 - immediate];
        let mut bytes =
            Pdu::data_out(0x80, 1, UNSOLICITED, 0, immediate as u32).data(rest).bytes(false, true);
        if immediate == 0 {
            bytes[60] ^= 1;
        }
        initiator.send_bytes(&bytes);
        assert!(matches!(initiator.event(), Some(Event::Aborted { task: 1 })));
        assert!(initiator.event().is_none());
        let answers = initiator.answers();
        assert_eq!((answers[0].opcode(), answers[0].bhs.0[2]), (0x3f, 2));
        assert_eq!(additional_sense(&answers[1]), [0x47, 5]);
        assert_eq!(answers.len(), 2);
    }
}

#[test]
fn a_segment_longer_than_declared_ends_the_connection() {
    let mut initiator = Initiator::logged_in("");
    let mut pdu = Pdu::command(0xa0, 1, 100, 1 << 20);
    pdu.bhs.set_data_segment_length(262_145);
    let bytes = pdu.bhs.0;
    initiator.send_bytes(&bytes);
    assert!(matches!(initiator.event(), Some(Event::Closed(_))));
}

#[test]
fn a_large_segment_is_received_in_place() {
    let mut initiator = Initiator::logged_in("FirstBurstLength=262144\0");
    let all = pattern(200_000);
    let bytes = Pdu::command(0xa0, 1, 100, 200_000).data(&all[..]).bytes(false, false);
    initiator.send_bytes(&bytes[..100]);
    expect_command(&mut initiator);
    initiator.target.accept_data(1, 200_000);
    assert!(initiator.event().is_none());
    assert_eq!(initiator.target.receive_target().len(), 200_000 - 52);
    initiator.send_bytes(&bytes[100..]);
    assert_eq!(expect_data(&mut initiator), all);
}

#[test]
fn a_bidirectional_command_has_two_residuals() {
    let mut initiator = Initiator::logged_in("");
    let mut pdu = Pdu::command(0xe0, 1, 100, 512).data(vec![5; 512]);
    pdu.ahs = vec![0, 5, 2, 0, 0, 0, 4, 0];
    begin_write(&mut initiator, &pdu, 512);
    assert_eq!(expect_data(&mut initiator), [5; 512]);
    initiator.target.respond(1, read_of(600));
    let answers = initiator.answers();
    assert_eq!(answers[0].data.len(), 600);
    assert_eq!(answers[1].bhs.0[1], 0x80 | UNDERFLOW << 2);
    assert_eq!((answers[1].bhs.u32(40), answers[1].bhs.u32(44)), (424, 0));
}
