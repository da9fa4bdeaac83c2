//! One host must not stop the others: what a host asks for costs the array what it takes, its work has
//! its share of each pool and of each turn of the reactor's loop, and what all hosts hold in memory
//! has one bound.
//!
//! The stories: a hundred READs of 32 MiB of which nothing was expected kept another host's read
//! waiting for twelve seconds and took gigabytes; fifty sessions that did not read held 32 MiB each.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::pdu::{Pdu, RawConnection, RawSession};
use harness::wire::{Wire, cdb16};
use harness::{Array, number};

const GREEDY: &str = "iqn.2026-01.org.example:greedy";
const MODEST: &str = "iqn.2026-01.org.example:modest";

const MIB: u32 = 1 << 20;

/// What one command may ask for at most, in blocks of 512 bytes.
const MOST: u32 = 32 * MIB / 512;

/// How long anything may take on a machine that is busy with other work.
const PATIENCE: Duration = Duration::from_secs(120);

const READ: u8 = 0x88;
const VERIFY: u8 = 0x8f;
const WRITE_SAME: u8 = 0x93;

/// A daemon with a pool and a volume of 64 MiB, all of it written.
fn array(words: &[&str]) -> Result<Array> {
    let mut array = Array::prepare()?.with_words(&[], words);
    array.restart()?;
    array.create_pool("p", "2G")?;
    array.create_lun("p/v", "64M")?;
    let mut session = RawSession::log_in(array.portal(), MODEST, &array.target_name()?)?;
    for part in 0..4 {
        let lba = u64::from(part * MOST / 2);
        session.write(0, &cdb16(WRITE_SAME, 0, lba, MOST / 2), &[0x5a; 512])?.good()?;
    }
    // Whoever is logged in is told that the volume is full; those that log in afterwards are not.
    let began = Instant::now();
    while !array.gantry(&["events"])?.contains("volume p/v") {
        ensure!(began.elapsed() < PATIENCE, "a full volume is not told of");
        thread::sleep(Duration::from_millis(50));
    }
    Ok(array)
}

fn resident_mib(array: &Array) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", array.process_id()?))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()).context("VmRSS")?;
    Ok(number.parse::<u64>()? / 1024)
}

/// Logs in with an ISID of its own, and takes the unit attention.
fn log_in(array: &Array, initiator: &str, number: u32) -> Result<RawConnection> {
    let mut connection = RawConnection::open(array.portal())?;
    let mut login = Pdu::login(initiator, &array.target_name()?);
    login.header[10..14].copy_from_slice(&number.to_be_bytes());
    connection.send(&login.bytes())?;
    let answer = connection.receive()?.context("an answer")?;
    ensure!(answer.header[36..38] == [0, 0], "refused: {:02x?}", answer.header);
    connection.send(&Pdu::command(0, 0, &[0; 6], 0, 0).numbered(0).bytes())?;
    connection.receive()?.context("an answer")?;
    Ok(connection)
}

/// As many READs, VERIFYs and so on of 32 MiB, numbered from 1.
fn commands(count: u32, opcode: u8, flags: u8, expected: u32) -> Vec<u8> {
    let cdb = cdb16(opcode, 0, 0, MOST);
    let pdu = |number| Pdu::command(number, 0, &cdb, flags, expected).numbered(number).bytes();
    (1..=count).flat_map(pdu).collect()
}

/// Answers with status, until so many came; those that were GOOD.
fn statuses(connection: &mut RawConnection, count: u32) -> Result<u32> {
    let (mut ended, mut good) = (0, 0);
    while ended < count {
        let pdu = connection.receive()?.context("an answer")?;
        let kind = pdu.header[0] & 0x3f;
        if kind == 0x21 || kind == 0x25 && pdu.header[1] & 1 == 1 {
            ended += 1;
            good += u32::from(pdu.header[3] == 0);
        }
    }
    Ok(good)
}

fn read_a_block(session: &mut RawSession) -> Result<()> {
    let data = session.read(0, &cdb16(READ, 0, 8, 8), 4096)?.good()?;
    ensure!(data == [0x5a; 4096], "other data");
    Ok(())
}

/// What the pool's devices read since the daemon started, in bytes.
fn device_reads(array: &Array) -> Result<u64> {
    number(&array.gantry_json(&["pool", "show", "p"])?, "/counters/device_bytes_read")
}

#[test]
fn a_read_brings_what_the_initiator_takes_and_tells_the_rest() -> Result<()> {
    let array = array(&[])?;
    let mut wire = Wire::log_in(array.portal(), GREEDY, &array.target_name()?)?;
    wire.run(0, &[0; 6], &[], 0)?.good()?;
    for (blocks, takes) in
        [(MOST, 0), (MOST, 1), (MOST, 512), (MOST, 700), (8, 4096), (8, 5000), (8, 0), (0, 512)]
    {
        let cdb = cdb16(READ, 0, 0, blocks);
        let pdu = Pdu::command(wire.next, 0, &cdb, 0x40, takes).numbered(wire.next);
        let ended = wire.finish(&pdu)?;
        let all = blocks * 512;
        assert_eq!(ended.answer.status, 0, "{blocks} blocks, {takes} bytes");
        assert_eq!(ended.answer.data, vec![0x5a; takes.min(all) as usize]);
        assert_eq!(ended.residual, i64::from(takes) - i64::from(all));
    }
    // The range is checked as the CDB says it.
    let ended = wire.finish(
        &Pdu::command(wire.next, 0, &cdb16(READ, 0, 131_071, 2), 0x40, 512).numbered(wire.next),
    )?;
    assert_eq!(ended.answer.code(), Some((5, 0x21, 0)));
    Ok(())
}

#[test]
fn reads_of_which_nothing_is_taken_read_nothing() -> Result<()> {
    let array = array(&[])?;
    let (base, before) = (resident_mib(&array)?, device_reads(&array)?);
    let mut greedy = log_in(&array, GREEDY, 1)?;
    greedy.send(&commands(100, READ, 0x40, 0))?;
    assert_eq!(statuses(&mut greedy, 100)?, 100);
    greedy.send(&commands(200, READ, 0x40, 512)[100 * 48..])?;
    assert_eq!(statuses(&mut greedy, 100)?, 100);
    let read = device_reads(&array)? - before;
    assert!(read < 64 << 20, "{read} bytes were read");
    let grown = resident_mib(&array)?.saturating_sub(base);
    assert!(grown < 64, "{grown} MiB");
    Ok(())
}

// Gigabytes of which the initiator expects no byte, and gigabytes that it takes. In one turn of the
// loop it was all begun, and a read of another host came after it, also one for another pool.
#[test]
fn a_host_that_asks_for_gigabytes_holds_up_no_read_of_another() -> Result<()> {
    const COMMANDS: u32 = 60;
    let array = array(&["--ping-interval", "3600"])?;
    let mut modest = RawSession::log_in(array.portal(), MODEST, &array.target_name()?)?;
    read_a_block(&mut modest)?;
    for (name, opcode, flags) in [("VERIFY", VERIFY, 0), ("READ", READ, 0x40)] {
        let mut greedy = log_in(&array, GREEDY, 1)?;
        let before = number(&array.gantry_json(&["target", "show"])?, "/commands")?;
        greedy.send(&commands(COMMANDS, opcode, flags, 0))?;
        let mut took = Vec::new();
        for _ in 0..10 {
            let began = Instant::now();
            read_a_block(&mut modest)?;
            took.push(began.elapsed());
        }
        took.sort();
        println!(
            "reads beside {COMMANDS} {name}s of 32 MiB: p50 {:?}, slowest {:?}",
            took[5], took[9]
        );
        // What was answered meanwhile; all of it comes in the end.
        let ended = number(&array.gantry_json(&["target", "show"])?, "/commands")? - before;
        let all = u64::from(COMMANDS) + 10;
        assert!(opcode == READ || ended < all, "{ended} commands ended before 10 reads");
        assert_eq!(statuses(&mut greedy, COMMANDS)?, COMMANDS);
    }
    Ok(())
}

// They were carried out all the same, and the function was answered after them.
#[test]
fn what_was_aborted_while_it_waited_for_its_turn_is_not_carried_out() -> Result<()> {
    const COMMANDS: u32 = 100;
    let array = array(&["--ping-interval", "3600"])?;
    let before = device_reads(&array)?;
    let mut greedy = log_in(&array, GREEDY, 1)?;
    let mut bytes = commands(COMMANDS, VERIFY, 0, 0);
    // ABORT TASK SET (RFC 7143 11.5), immediate.
    let mut abort = Pdu::command(COMMANDS + 1, 0, &[], 0, 0).numbered(COMMANDS + 1);
    abort.header[0] = 0x42;
    abort.header[1] = 0x82;
    abort.header[20..24].fill(0xff);
    bytes.extend(abort.bytes());
    greedy.send(&bytes)?;
    let mut answered = 0;
    loop {
        let pdu = greedy.receive()?.context("an answer")?;
        match pdu.header[0] & 0x3f {
            0x22 => break assert_eq!(pdu.header[2], 0, "function complete"),
            _ => answered += 1,
        }
    }
    let read = (device_reads(&array)? - before) / u64::from(MIB);
    println!("{answered} commands were answered, {read} MiB read");
    // What a pool has under way at once, and what was answered before.
    assert!(read <= 64 + 32 * (answered + 1), "{read} MiB were read");
    Ok(())
}

#[test]
fn sessions_that_do_not_read_hold_the_budget_together_and_give_it_back() -> Result<()> {
    const SESSIONS: u32 = 50;
    const BUDGET: u64 = 128;
    let array = array(&["--sessions-memory", "128"])?;
    let base = resident_mib(&array)?;
    let mut silent = Vec::new();
    for number in 0..SESSIONS {
        let mut connection = log_in(&array, GREEDY, number)?;
        connection.send(&commands(1, READ, 0x40, 32 * MIB))?;
        silent.push(connection);
    }
    // All of them at once, and another host, which still has room.
    let mut modest = RawSession::log_in(array.portal(), MODEST, &array.target_name()?)?;
    for _ in 0..50 {
        read_a_block(&mut modest)?;
    }
    let grown = resident_mib(&array)?.saturating_sub(base);
    println!("{SESSIONS} silent readers: {base} MiB and {grown} more");
    assert!(grown < BUDGET + 64, "{grown} MiB");
    drop(silent);
    let began = Instant::now();
    while resident_mib(&array)? > base + 64 && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(50));
    }
    let kept = resident_mib(&array)?.saturating_sub(base);
    println!("afterwards: {kept} MiB more than before");
    assert!(kept <= 64, "{kept} MiB stay");
    Ok(())
}

#[test]
fn announced_writes_hold_the_budget_together() -> Result<()> {
    const SESSIONS: u32 = 40;
    const WRITES: u32 = 60;
    let array = array(&["--sessions-memory", "256"])?;
    let base = resident_mib(&array)?;
    let mut announcing = Vec::new();
    for number in 0..SESSIONS {
        let mut connection = log_in(&array, GREEDY, number)?;
        let cdb = cdb16(0x8a, 0, 0, MIB / 512);
        let writes = (1..=WRITES)
            .flat_map(|number| Pdu::command(number, 0, &cdb, 0x20, MIB).numbered(number).bytes());
        connection.send(&writes.collect::<Vec<u8>>())?;
        announcing.push(connection);
    }
    let mut admitted = 0;
    for connection in &mut announcing {
        for _ in 0..WRITES {
            let pdu = connection.receive()?.context("an answer")?;
            admitted += u32::from(pdu.header[0] & 0x3f == 0x31);
        }
    }
    // One host has half of the budget; 2,400 MiB were announced.
    assert!((100..=128).contains(&admitted), "{admitted} MiB were admitted");
    let grown = resident_mib(&array)?.saturating_sub(base);
    assert!(grown < 128 + 64, "{grown} MiB");
    let mut modest = RawSession::log_in(array.portal(), MODEST, &array.target_name()?)?;
    modest.write(0, &cdb16(0x8a, 0, 8, 16), &[0x5a; 8192])?.good()?;
    Ok(())
}

/// The number of sessions of the greedy initiator.
fn greedy_sessions(array: &Array) -> Result<usize> {
    let sessions = array.gantry_json(&["session", "list"])?;
    let sessions = sessions.as_array().context("a list")?;
    Ok(sessions.iter().filter(|session| session["initiator"] == GREEDY).count())
}

// They were there after 110 s, with 4 MB in the kernel's queue.
#[test]
fn who_takes_nothing_or_next_to_nothing_is_dropped() -> Result<()> {
    let array = array(&["--send-timeout", "3", "--ping-interval", "3600"])?;
    let mut silent = log_in(&array, GREEDY, 1)?;
    silent.send(&commands(1, READ, 0x40, 32 * MIB))?;
    // This one leaves nothing in the daemon's queue, all of it in the kernel's.
    let mut short = log_in(&array, GREEDY, 2)?;
    let cdb = cdb16(READ, 0, 0, 3 * MIB / 512);
    short.send(&Pdu::command(1, 0, &cdb, 0x40, 3 * MIB).numbered(1).bytes())?;
    let mut slow = log_in(&array, GREEDY, 3)?;
    slow.send(&commands(1, READ, 0x40, 32 * MIB))?;
    assert!(greedy_sessions(&array)? > 0);
    let began = Instant::now();
    while greedy_sessions(&array)? > 0 && began.elapsed() < PATIENCE {
        // Two kilobytes a second.
        let _ = slow.take(1024);
        thread::sleep(Duration::from_millis(500));
    }
    println!("gone after {:?}", began.elapsed());
    assert_eq!(greedy_sessions(&array)?, 0, "{}", array.gantry(&["session", "list", "--json"])?);
    Ok(())
}
