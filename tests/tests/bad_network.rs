//! Faulty network: no wrong data, and nothing stays behind in the daemon, whatever happens to the
//! bytes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::proxy::{Direction, Fault, Proxy};
use harness::random::Random;
use harness::survivor::Survivor;
use harness::{Array, number};

const INITIATOR: &str = "iqn.2026-01.org.example:survivor";
const BOTH: [Direction; 2] = [Direction::ToTarget, Direction::ToInitiator];

/// Blocks that one round writes and reads.
const ROUND_BYTES: usize = 96 << 10;

struct Bench {
    array: Array,
    proxy: Proxy,
    target: String,
    random: Random,
}

impl Bench {
    fn start() -> Result<Self> {
        let array = Array::start()?;
        array.create_pool("p", "2G")?;
        array.create_lun("p/v", "1G")?;
        let proxy = Proxy::start(array.portal())?;
        let target = array.target_name()?;
        Ok(Self { array, proxy, target, random: Random::new(7) })
    }

    /// Writes, reads back and says everything else while one connection meets the fault; returns
    /// how many logins that took.
    fn endure(&mut self, direction: Direction, fault: Fault, digests: bool) -> Result<usize> {
        self.proxy.plan(direction, fault);
        let mut survivor = Survivor::new(self.proxy.address(), INITIATOR, &self.target, digests);
        if matches!(fault, Fault::Split(_) | Fault::Delay(_)) {
            // Nothing is lost; a busy machine is not to be taken for a bad network.
            survivor = survivor.with_patience(Duration::from_secs(30));
        }
        let data = self.random.bytes(ROUND_BYTES);
        let lba = self.random.below(1000) as u32 * 256;
        let story = || format!("{direction:?} {fault:?}");
        survivor.write(lba, &data).with_context(story)?;
        let read = survivor.read(lba, data.len()).with_context(story)?;
        ensure!(read == data, "{direction:?} {fault:?}: other data is read than was written");
        survivor.say_everything_else().with_context(story)?;
        Ok(survivor.logins())
    }

    /// Sessions, open files and memory of the daemon go back to what they were.
    fn expect_nothing_left(&self, base: &Footprint) -> Result<()> {
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        loop {
            let now = self.footprint()?;
            let is_back = now.sessions == 0 && now.files <= base.files + 2;
            if is_back && now.resident_kib <= base.resident_kib + (24 << 10) {
                return Ok(());
            }
            ensure!(std::time::Instant::now() < deadline, "{now:?} instead of {base:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn footprint(&self) -> Result<Footprint> {
        let process = self.array.process_id()?;
        let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|text| text.split_whitespace().next());
        let sessions = self.array.gantry_json(&["session", "list"])?;
        Ok(Footprint {
            sessions: sessions.as_array().map_or(0, Vec::len),
            files: std::fs::read_dir(format!("/proc/{process}/fd"))?.count(),
            resident_kib: resident.context("resident memory")?.parse()?,
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Footprint {
    sessions: usize,
    files: usize,
    resident_kib: u64,
}

#[test]
fn pieces_and_delays_harm_nobody() -> Result<()> {
    let mut bench = Bench::start()?;
    for direction in BOTH {
        for fault in [Fault::Split(1), Fault::Split(47), Fault::Delay(Duration::from_millis(3))] {
            assert_eq!(bench.endure(direction, fault, true)?, 1, "{fault:?} costs no session");
        }
    }
    Ok(())
}

#[test]
fn lost_repeated_and_wrong_bytes_cost_a_session_and_no_data() -> Result<()> {
    let mut bench = Bench::start()?;
    bench.endure(Direction::ToTarget, Fault::None, true)?;
    let base = bench.footprint()?;
    for round in 0..12 {
        for direction in BOTH {
            // Behind the login, which has no digests.
            let at = 1000 + bench.random.below(90_000);
            let count = 1 + bench.random.below(3000) as usize;
            let faults = [Fault::Drop(at, count), Fault::Duplicate(at, count), Fault::Corrupt(at)];
            bench.endure(direction, faults[round % faults.len()], true)?;
        }
    }
    bench.expect_nothing_left(&base)
}

#[test]
fn a_cut_in_any_pdu_of_any_kind_costs_a_session_and_no_data() -> Result<()> {
    let mut bench = Bench::start()?;
    bench.endure(Direction::ToTarget, Fault::None, false)?;
    let base = bench.footprint()?;
    let requests = [0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06];
    let responses = [0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x31];
    let to_target = requests.map(|opcode| (Direction::ToTarget, opcode));
    let to_initiator = responses.map(|opcode| (Direction::ToInitiator, opcode));
    for (direction, opcode) in to_target.into_iter().chain(to_initiator) {
        for after in [0, 20, 48] {
            let logins = bench.endure(direction, Fault::CutInPdu(opcode, after), false)?;
            // Cut off in the middle of login it has not logged in yet; a response that has no data
            // is whole after its header.
            assert!((1..=2).contains(&logins), "{opcode:#04x} {after}: {logins}");
        }
    }
    bench.expect_nothing_left(&base)?;
    number(&bench.array.gantry_json(&["target", "show"])?, "/commands")?;
    Ok(())
}

#[test]
fn a_cut_anywhere_costs_no_data() -> Result<()> {
    let mut bench = Bench::start()?;
    bench.endure(Direction::ToTarget, Fault::None, true)?;
    let base = bench.footprint()?;
    for _ in 0..15 {
        for direction in BOTH {
            let at = bench.random.below(95_000);
            bench.endure(direction, Fault::Cut(at), true)?;
        }
    }
    bench.expect_nothing_left(&base)
}
