//! Error recovery levels 1 and 2 on a bad network: sessions recover as negotiated, no data is wrong,
//! and nothing stays behind.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::pdu::{Pdu, RawConnection};
use harness::proxy::{Direction, Fault, PduFault, Proxy};
use harness::random::Random;
use harness::recoverer::{Counts, Recoverer};
use harness::{Array, number};

const INITIATOR: &str = "iqn.2026-01.org.example:recoverer";

/// How the daemon is started.
const WORDS: [&str; 6] =
    ["--error-recovery-level", "2", "--time2retain", "5", "--max-connections", "2"];

/// Bytes that one round writes and reads.
const ROUND_BYTES: usize = 96 << 10;

struct Bench {
    array: Array,
    proxy: Proxy,
    target: String,
    random: Random,
}

impl Bench {
    fn start() -> Result<Self> {
        let mut array = Array::start()?;
        array.kill()?;
        array = array.with_words(&[], &WORDS);
        array.restart()?;
        array.create_pool("p", "2G")?;
        array.create_lun("p/v", "1G")?;
        let proxy = Proxy::start(array.portal())?;
        let target = array.target_name()?;
        Ok(Self { array, proxy, target, random: Random::new(11) })
    }

    /// Writes, reads back and says everything else while one connection meets the fault.
    fn endure(
        &mut self,
        level: u32,
        way: Direction,
        fault: Fault,
        digests: bool,
    ) -> Result<Counts> {
        self.proxy.plan(way, fault);
        let names = (INITIATOR, self.target.as_str());
        let mut initiator = Recoverer::new(self.proxy.address(), names, level, digests);
        let data = self.random.bytes(ROUND_BYTES);
        let lba = self.random.below(1000) as u32 * 256;
        let story = || format!("level {level}: {way:?} {fault:?}");
        initiator.write(lba, &data).with_context(story)?;
        let read = initiator.read(lba, data.len()).with_context(story)?;
        ensure!(read == data, "{}: other data is read than was written", story());
        initiator.say_everything_else().with_context(story)?;
        Ok(initiator.counts())
    }

    /// Sessions and open files of the daemon go back to what they were, and no command is left.
    fn expect_nothing_left(&self, files: usize) -> Result<()> {
        let deadline = std::time::Instant::now() + Duration::from_secs(40);
        loop {
            let sessions = self.array.gantry_json(&["session", "list"])?;
            let sessions = sessions.as_array().map_or(0, Vec::len);
            let open = self.files()?;
            if sessions == 0 && open <= files + 2 {
                return Ok(());
            }
            ensure!(std::time::Instant::now() < deadline, "{sessions} sessions, {open} files");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn files(&self) -> Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.array.process_id()?))?.count())
    }
}

/// Logs a connection in, with these keys besides; returns it and the session's handle.
fn join(bench: &Bench, (tsih, cid): ([u8; 2], u8), keys: &str) -> Result<(RawConnection, [u8; 2])> {
    let mut connection = RawConnection::open(bench.array.portal())?;
    let mut login = Pdu::login(INITIATOR, &bench.target);
    login.header[14..16].copy_from_slice(&tsih);
    login.header[21] = cid;
    login.data = format!(
        "InitiatorName={INITIATOR}\0TargetName={}\0SessionType=Normal\0{keys}",
        bench.target
    )
    .into_bytes();
    connection.send(&login.bytes())?;
    let answer = connection.receive()?.context("an answer")?;
    ensure!(answer.header[36..38] == [0, 0], "refused: {:02x?}", &answer.header[36..38]);
    Ok((connection, [answer.header[14], answer.header[15]]))
}

fn test_unit_ready(connection: &mut RawConnection, number: u32) -> Result<()> {
    connection.send(&Pdu::command(number, 0, &[0; 6], 0, 0).numbered(number).bytes())
}

fn expect_answer_to(connection: &mut RawConnection, task: u32) -> Result<()> {
    let answer = connection.receive()?.context("an answer")?;
    ensure!(answer.header[0] == 0x21, "{:02x?}", answer.header);
    ensure!(answer.header[16..20] == task.to_be_bytes(), "{:02x?}", answer.header);
    Ok(())
}

fn connections(bench: &Bench) -> Result<u64> {
    number(&bench.array.gantry_json(&["session", "list"])?, "/0/connections")
}

#[test]
fn two_connections_share_one_session_and_the_order_of_its_commands() -> Result<()> {
    let bench = Bench::start()?;
    let keys = "MaxConnections=2\0ErrorRecoveryLevel=0\0";
    let (mut first, tsih) = join(&bench, ([0, 0], 0), keys)?;
    let (mut second, same) = join(&bench, (tsih, 1), "")?;
    assert_eq!((same, connections(&bench)?), (tsih, 2));
    assert!(join(&bench, (tsih, 2), "").is_err(), "a third one is too many");
    // The second of two commands comes first, and waits.
    test_unit_ready(&mut second, 1)?;
    std::thread::sleep(Duration::from_millis(50));
    test_unit_ready(&mut first, 0)?;
    expect_answer_to(&mut first, 0)?;
    expect_answer_to(&mut second, 1)?;
    // One of them logs the other out.
    let mut logout = Pdu::command(9, 0, &[], 0, 0).numbered(2);
    logout.header[..2].copy_from_slice(&[0x46, 0x81]);
    logout.header[20..24].copy_from_slice(&[0, 1, 0, 0]);
    first.send(&logout.bytes())?;
    let answer = first.receive()?.context("an answer")?;
    assert_eq!((answer.header[0], answer.header[2]), (0x26, 0));
    assert!(second.receive()?.is_none(), "it was closed");
    test_unit_ready(&mut first, 2)?;
    expect_answer_to(&mut first, 2)?;
    assert_eq!(connections(&bench)?, 1);
    Ok(())
}

// What is lost on the way to the initiator is what its own digest check would throw away.
// RFC 7143 6.3.4, 6.3.5: with TSIH 0 a session is reinstated, with its TSIH and CID a connection.
#[test]
fn who_logs_in_again_at_level_2_is_let_in_in_place_of_what_was_there() -> Result<()> {
    let bench = Bench::start()?;
    let keys = "ErrorRecoveryLevel=2\0MaxConnections=1\0InitialR2T=Yes\0";
    let (mut first, tsih) = join(&bench, ([0, 0], 0), keys)?;
    test_unit_ready(&mut first, 0)?;
    expect_answer_to(&mut first, 0)?;
    let (mut second, other) = join(&bench, ([0, 0], 0), keys)?;
    ensure!(other != tsih && connections(&bench)? == 1, "another session");
    ensure!(!matches!(first.receive(), Ok(Some(_))), "the first one is closed");
    test_unit_ready(&mut second, 0)?;
    expect_answer_to(&mut second, 0)?;
    let (mut third, same) = join(&bench, (other, 0), keys)?;
    ensure!(same == other && connections(&bench)? == 1, "the same session");
    ensure!(!matches!(second.receive(), Ok(Some(_))), "the second one is closed");
    test_unit_ready(&mut third, 1)?;
    expect_answer_to(&mut third, 1)?;
    ensure!(join(&bench, (tsih, 0), keys).is_err(), "the first session is no more");
    Ok(())
}

#[test]
fn lost_and_damaged_pdus_cost_no_session_at_level_1() -> Result<()> {
    let mut bench = Bench::start()?;
    let files = bench.files()?;
    let to_target = [0x01, 0x05].map(|opcode| (Direction::ToTarget, opcode, PduFault::Damaged));
    let to_initiator = [
        (0x25, PduFault::Damaged),
        (0x25, PduFault::Lost),
        (0x21, PduFault::Lost),
        (0x31, PduFault::Lost),
        (0x20, PduFault::Lost),
        (0x21, PduFault::Repeated),
        (0x25, PduFault::Repeated),
        (0x31, PduFault::Repeated),
    ];
    let to_initiator = to_initiator.map(|(opcode, fault)| (Direction::ToInitiator, opcode, fault));
    for level in [1, 2] {
        for (way, opcode, fault) in to_target.into_iter().chain(to_initiator) {
            let counts = bench.endure(level, way, Fault::InPdu(opcode, fault), true)?;
            assert_eq!(
                (counts.sessions, counts.continuations),
                (1, 0),
                "level {level}: {opcode:#04x} {fault:?} {counts:?}"
            );
            let is_missed =
                way == Direction::ToInitiator && opcode != 0x20 && fault != PduFault::Repeated;
            assert!(counts.snacks > 0 || !is_missed, "{opcode:#04x} {fault:?} {counts:?}");
        }
    }
    bench.expect_nothing_left(files)
}

#[test]
fn a_cut_in_any_pdu_of_any_kind_costs_no_session_at_level_2() -> Result<()> {
    let mut bench = Bench::start()?;
    bench.endure(2, Direction::ToTarget, Fault::None, false)?;
    let files = bench.files()?;
    let requests = [0x00, 0x01, 0x02, 0x04, 0x05];
    let responses = [0x20, 0x21, 0x22, 0x24, 0x25, 0x31];
    let to_target = requests.map(|opcode| (Direction::ToTarget, opcode));
    let to_initiator = responses.map(|opcode| (Direction::ToInitiator, opcode));
    let mut reassignments = 0;
    for (way, opcode) in to_target.into_iter().chain(to_initiator) {
        for after in [0, 20, 48] {
            let counts = bench.endure(2, way, Fault::CutInPdu(opcode, after), false)?;
            let context = format!("{way:?} {opcode:#04x} {after}: {counts:?}");
            assert!(counts.sessions == 1 && counts.continuations >= 1, "{context}");
            reassignments += counts.reassignments;
        }
    }
    assert!(reassignments >= 8, "{reassignments} commands were taken over");
    bench.expect_nothing_left(files)?;
    number(&bench.array.gantry_json(&["target", "show"])?, "/commands")?;
    Ok(())
}

#[test]
fn a_cut_in_login_or_logout_costs_no_data_at_level_2() -> Result<()> {
    let mut bench = Bench::start()?;
    let files = bench.files()?;
    for (way, opcode) in [(Direction::ToTarget, 0x03), (Direction::ToInitiator, 0x23)] {
        for after in [0, 20, 48] {
            bench.endure(2, way, Fault::CutInPdu(opcode, after), false)?;
        }
    }
    for (way, opcode) in [(Direction::ToTarget, 0x06), (Direction::ToInitiator, 0x26)] {
        for after in [0, 20, 48] {
            bench.endure(2, way, Fault::CutInPdu(opcode, after), false)?;
        }
    }
    bench.expect_nothing_left(files)
}

#[test]
fn wrong_bytes_anywhere_cost_no_data_at_any_level() -> Result<()> {
    let mut bench = Bench::start()?;
    let files = bench.files()?;
    for round in 0..8 {
        for way in [Direction::ToTarget, Direction::ToInitiator] {
            // Behind the login, which has no digests.
            let at = 1000 + bench.random.below(90_000);
            let count = 1 + bench.random.below(3000) as usize;
            let faults = [
                Fault::Corrupt(at),
                Fault::Cut(at),
                Fault::Drop(at, count),
                Fault::Duplicate(at, count),
            ];
            for level in [1, 2] {
                bench.endure(level, way, faults[round % faults.len()], true)?;
            }
        }
    }
    bench.expect_nothing_left(files)
}
