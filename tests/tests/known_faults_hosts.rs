//! Known faults of other arrays when hosts look for LUNs, share them, and give up commands.
//! The names begin with the case's name in docs/testing.md, where those that are tested elsewhere
//! are listed too.

use std::thread;

use anyhow::{Context, Result, ensure};
use harness::Array;
use harness::pdu::{HEADER_BYTES, Pdu};
use harness::wire::{Wire, cdb16, function};

const BLOCK: usize = 512;
const NAME: &str = "iqn.2026-01.org.example:hosts";

fn array_with_luns(luns: usize) -> Result<Array> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    for lun in 0..luns {
        array.create_lun(&format!("p/v{lun}"), "64M")?;
    }
    Ok(array)
}

fn log_in(array: &Array, name: &str) -> Result<Wire> {
    let mut session = Wire::log_in(array.portal(), name, &array.target_name()?)?;
    for lun in 0..2 {
        // What waits to be told.
        session.run(lun, &[0; 6], &[], 0)?;
    }
    Ok(session)
}

#[test]
fn d3_test_unit_ready_of_an_initiator_that_is_ready_for_data() -> Result<()> {
    let array = array_with_luns(1)?;
    let mut session = log_in(&array, NAME)?;
    for length in [1, 512, 65_536] {
        let pdu = session.command(0, &[0; 6], &[], length);
        let ended = session.finish(&pdu)?;
        assert_eq!((ended.answer.status, ended.residual), (0, i64::from(length)));
        assert!(ended.answer.data.is_empty());
    }
    Ok(())
}

/// What a host asks of every LUN that it finds.
fn rescan(session: &mut Wire) -> Result<()> {
    let luns = session.run(0, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[], 256)?.good()?;
    ensure!(u32::from_be_bytes(luns[..4].try_into()?) as usize + 8 == luns.len());
    for lun in 0..(luns.len() / 8 - 1) as u16 {
        for page in [0x00, 0x80, 0x83, 0x86, 0x88, 0x8f, 0xb0, 0xb1, 0xb2] {
            session.run(lun, &[0x12, 1, page, 4, 0, 0], &[], 1024)?.good()?;
        }
        let asks: [(&[u8], u32); 6] = [
            (&[0x12, 0, 0, 0, 96, 0], 96),
            (&[0; 6], 0),
            (&[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], 8),
            (&cdb16(0x9e, 0x10, 0, 32), 32),
            (&[0x1a, 0, 0x3f, 0, 255, 0], 255),
            (&[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], 256),
        ];
        for (cdb, length) in asks {
            session.run(lun, cdb, &[], length)?.good().with_context(|| format!("{cdb:02x?}"))?;
        }
        // As the first READ of a path that has just been found.
        session.run(lun, &cdb16(0x88, 0, 0, 1), &[], 512)?.good()?;
    }
    Ok(())
}

fn compare_and_write(session: &mut Wire, lba: u64, values: [u8; 2]) -> Result<u8> {
    let mut cdb = cdb16(0x89, 0, lba, 0);
    cdb[13] = 1;
    let data = values.map(|value| [value; BLOCK]).concat();
    Ok(session.run(0, &cdb, &data, 0)?.status)
}

#[test]
fn d7_many_rescans_beside_offloads() -> Result<()> {
    const HOSTS: usize = 8;
    const RESCANS: usize = 100;
    let array = array_with_luns(2)?;
    let sessions = (0..HOSTS)
        .map(|host| log_in(&array, &format!("{NAME}-{host}")))
        .collect::<Result<Vec<_>>>()?;
    let rescans: Vec<_> = sessions
        .into_iter()
        .map(|mut session| {
            thread::spawn(move || (0..RESCANS).try_for_each(|_| rescan(&mut session)))
        })
        .collect();
    let mut session = log_in(&array, NAME)?;
    for round in 0..250_u8 {
        ensure!(compare_and_write(&mut session, 9, [round, round + 1])? == 0, "round {round}");
        session.run(1, &cdb16(0x93, 0x08, 0, 2048), &[0; BLOCK], 0)?.good()?;
        session.run(1, &cdb16(0x93, 0, 4096, 2048), &[round; BLOCK], 0)?.good()?;
    }
    for rescan in rescans {
        rescan.join().expect("a host did not panic")?;
    }
    Ok(())
}

fn receive_ready(session: &mut Wire) -> Result<Pdu> {
    let ready = session.connection.receive()?.context("the target closed the connection")?;
    ensure!(ready.header[0] & 0x3f == 0x31, "an R2T: {:02x?}", ready.header);
    Ok(ready)
}

/// Sends what an R2T asks for, all of it one byte's value.
fn send_data(session: &mut Wire, ready: &Pdu, byte: u8) -> Result<()> {
    let length = u32::from_be_bytes(ready.header[44..48].try_into()?) as usize;
    let mut header = [0; HEADER_BYTES];
    header[..2].copy_from_slice(&[0x05, 0x80]);
    header[8..24].copy_from_slice(&ready.header[8..24]);
    header[40..44].copy_from_slice(&ready.header[40..44]);
    let data = vec![byte; length];
    session.connection.send(&Pdu { header, additional: Vec::new(), data }.bytes())
}

/// A WRITE (10) whose first 8 KiB come with the command, of an initiator that is ready to send
/// `offered` bytes.
fn write(session: &mut Wire, blocks: u16, offered: u32) -> Result<(u8, i64)> {
    let mut cdb = [0x2a, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    cdb[7..9].copy_from_slice(&blocks.to_be_bytes());
    let mut pdu = Pdu::command(session.next, 0, &cdb, 0x20, offered).numbered(session.next);
    pdu.data = vec![0x17; 8192];
    session.send(&pdu)?;
    let ready = receive_ready(session)?;
    send_data(session, &ready, 0x17)?;
    let ended = session.receive_end()?;
    Ok((ended.answer.status, ended.residual))
}

#[test]
fn i4_a_write_of_17_kib_with_8_kib_immediate_has_exact_residuals() -> Result<()> {
    let array = array_with_luns(1)?;
    let mut session = log_in(&array, NAME)?;
    assert_eq!(write(&mut session, 34, 17 << 10)?, (0, 0));
    assert_eq!(write(&mut session, 32, 17 << 10)?, (0, 1024), "the command takes 16 KiB");
    assert_eq!(write(&mut session, 36, 17 << 10)?, (0, -1024), "the command takes 18 KiB");
    let read = session.run(0, &cdb16(0x88, 0, 0, 34), &[], 17 << 10)?.good()?;
    assert!(read.iter().all(|&byte| byte == 0x17));
    Ok(())
}

#[test]
fn i5_aborts_of_tasks_that_run_have_finished_or_never_were() -> Result<()> {
    let array = array_with_luns(1)?;
    let mut session = log_in(&array, NAME)?;
    let finished = session.next;
    session.run(0, &cdb16(0x88, 0, 0, 1), &[], 512)?.good()?;
    for referenced in [finished, 0x7777_7777] {
        for _ in 0..4 {
            assert_eq!(session.manage(function::ABORT_TASK, 0, referenced)?, 0);
        }
    }
    // One that waits for its data, four times in a row.
    let waiting = session.next;
    let pdu = Pdu::command(waiting, 0, &cdb16(0x8a, 0, 0, 64), 0x20, 64 * 512).numbered(waiting);
    session.send(&pdu)?;
    for _ in 0..4 {
        assert_eq!(session.manage(function::ABORT_TASK, 0, waiting)?, 0);
    }
    session.run(0, &cdb16(0x88, 0, 0, 1), &[], 512)?.good()?;
    Ok(())
}

/// Sends a WRITE of 16 KiB and waits until the target asks for its data.
fn begin_write(session: &mut Wire, lun: u16) -> Result<Pdu> {
    let mut pdu = Pdu::command(session.next, 0, &cdb16(0x8a, 0, 0, 32), 0x20, 16 << 10);
    pdu.header[8..10].copy_from_slice(&lun.to_be_bytes());
    let pdu = pdu.numbered(session.next);
    session.send(&pdu)?;
    receive_ready(session)
}

/// A command that waited for its data when another host cleared the task set was forgotten, and its
/// host waited for an answer until it gave up; and a reset of LUNs that one host sees ended commands
/// of others on LUNs that it does not see.
#[test]
fn a_command_that_waits_for_data_is_answered_when_another_host_ends_it() -> Result<()> {
    const TASK_ABORTED: u8 = 0x40;
    let array = array_with_luns(2)?;
    let name = "iqn.2026-01.org.example:alone";
    array.gantry(&["host", "create", "alone", "--initiator", name])?;
    array.gantry(&["volume", "create", "p/own", "--size", "16M"])?;
    array.gantry(&["volume", "map", "p/own", "--host", "alone", "--lun", "5"])?;
    let (mut one, mut alone) = (log_in(&array, NAME)?, log_in(&array, name)?);
    alone.run(5, &[0; 6], &[], 0)?;
    for (code, lun, status) in [
        (function::CLEAR_TASK_SET, 0, TASK_ABORTED),
        (function::LOGICAL_UNIT_RESET, 0, TASK_ABORTED),
        (function::TARGET_WARM_RESET, 1, TASK_ABORTED),
        (function::CLEAR_TASK_SET, 1, 0),
        (function::ABORT_TASK_SET, 0, 0),
        (function::TARGET_WARM_RESET, 5, 0),
    ] {
        let ready = begin_write(&mut alone, lun)?;
        assert_eq!(one.manage(code, 0, u32::MAX)?, 0);
        // RFC 7143 4.2.3.2: the target waits for the data that it has asked for.
        send_data(&mut alone, &ready, 0x33)?;
        let ended = alone.receive_end()?.answer;
        let told = ended.code().map(|(key, asc, _)| (key, asc));
        assert!(ended.status == status || told == Some((6, 0x29)), "function {code}: {ended:?}");
        for lun in [0, 1, 5] {
            alone.run(lun, &[0; 6], &[], 0)?.good()?;
        }
        one.run(0, &[0; 6], &[], 0)?.good()?;
    }
    Ok(())
}
