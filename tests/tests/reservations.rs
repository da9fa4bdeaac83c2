//! Reservations across kill -9 of the daemon, and between hosts.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::Array;
use harness::controllers::signal;
use harness::pdu::{Answer, RawSession};
use harness::random::Random;
use rustix::process::Signal;

const CONFLICT: u8 = 0x18;
const KILLS: usize = 20;

/// Bounds of the time between two kills, in milliseconds.
const LOAD_MS: (u64, u64) = (1, 40);

const REGISTER: u8 = 0;
const RESERVE: u8 = 1;
const RELEASE: u8 = 2;
const REGISTER_AND_IGNORE: u8 = 6;
const WRITE_EXCLUSIVE: u8 = 1;
const APTPL: u8 = 1;

const RESERVE_6: [u8; 6] = [0x16, 0, 0, 0, 0, 0];
const RELEASE_6: [u8; 6] = [0x17, 0, 0, 0, 0, 0];
const READ_10: [u8; 10] = [0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0];
const WRITE_10: [u8; 10] = [0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0];
const BLOCK: [u8; 512] = [0x5a; 512];

struct Bench {
    array: Array,
    target: String,
    lun: u8,
}

impl Bench {
    fn start() -> Result<Self> {
        let array = Array::start()?;
        array.create_pool("p", "1G")?;
        let lun = u8::try_from(array.create_lun("p/v", "64M")?)?;
        let target = array.target_name()?;
        Ok(Self { array, target, lun })
    }

    fn host(&self, name: &str) -> Result<RawSession> {
        let name = format!("iqn.2026-01.org.example:{name}");
        RawSession::log_in(self.array.portal(), &name, &self.target)
    }

    fn kill_and_restart(&mut self) -> Result<()> {
        self.array.kill()?;
        self.array.restart()?;
        Ok(())
    }

    fn write(&self, host: &mut RawSession) -> Result<u8> {
        Ok(host.write(self.lun, &WRITE_10, &BLOCK)?.status)
    }

    fn reserve_out(
        &self,
        host: &mut RawSession,
        action: u8,
        kind: u8,
        keys: (u64, u64),
        flags: u8,
    ) -> Result<Answer> {
        host.reserve_out(self.lun, [action, kind, flags], keys)
    }

    fn keys(&self, host: &mut RawSession) -> Result<Vec<u64>> {
        let data = host.read(self.lun, &[0x5e, 0, 0, 0, 0, 0, 0, 1, 0, 0], 256)?.good()?;
        let (keys, _) = data[8..].as_chunks::<8>();
        Ok(keys.iter().map(|key| u64::from_be_bytes(*key)).collect())
    }

    /// Key and type of the persistent reservation.
    fn held(&self, host: &mut RawSession) -> Result<Option<(u64, u8)>> {
        let data = host.read(self.lun, &[0x5e, 1, 0, 0, 0, 0, 0, 1, 0, 0], 256)?.good()?;
        let key = data.get(8..).and_then(|rest| rest.first_chunk());
        Ok(key.map(|key| (u64::from_be_bytes(*key), data[21])))
    }
}

/// What the one host that changes its key knows of it.
struct Keyholder {
    acknowledged: u64,
    sent: u64,
}

/// Changes the key until the daemon goes.
fn change_keys(lun: u8, mut host: RawSession, mut known: Keyholder) -> Result<Keyholder> {
    loop {
        known.sent = known.acknowledged + 1;
        let keys = (known.acknowledged, known.sent);
        let Ok(answer) = host.reserve_out(lun, [REGISTER, 0, APTPL], keys) else {
            return Ok(known);
        };
        answer.good()?;
        known.acknowledged = known.sent;
    }
}

#[test]
fn what_was_answered_survives_twenty_kills() -> Result<()> {
    let mut bench = Bench::start()?;
    let mut host = bench.host("a")?;
    bench.reserve_out(&mut host, REGISTER, 0, (0, 1), APTPL)?.good()?;
    bench.reserve_out(&mut host, RESERVE, WRITE_EXCLUSIVE, (1, 0), 0)?.good()?;
    let mut known = Keyholder { acknowledged: 1, sent: 1 };
    let mut random = Random::new(4);
    for kill in 1..=KILLS {
        let ms = LOAD_MS.0 + random.below(LOAD_MS.1 - LOAD_MS.0);
        let lun = bench.lun;
        let changing = thread::spawn(move || change_keys(lun, host, known));
        thread::sleep(Duration::from_millis(ms));
        bench.kill_and_restart()?;
        known = changing.join().expect("the host returns its errors")?;
        host = bench.host("a")?;
        let (key, kind) = bench.held(&mut host)?.context("the reservation is gone")?;
        ensure!(
            key == known.acknowledged || key == known.sent,
            "after kill {kill} the key is {key}, acknowledged was {}",
            known.acknowledged
        );
        assert_eq!(kind, WRITE_EXCLUSIVE);
        assert_eq!(bench.keys(&mut host)?, [key]);
        assert_eq!(bench.write(&mut bench.host("b")?)?, CONFLICT);
        assert_eq!(bench.write(&mut host)?, 0);
        known = Keyholder { acknowledged: key, sent: key };
    }
    println!("{KILLS} kills, {} changes of the key", known.acknowledged);
    assert!(known.acknowledged > KILLS as u64, "too few changes to prove much");
    Ok(())
}

#[test]
fn without_aptpl_a_loss_of_power_ends_everything() -> Result<()> {
    let mut bench = Bench::start()?;
    let mut host = bench.host("a")?;
    bench.reserve_out(&mut host, REGISTER, 0, (0, 7), APTPL)?.good()?;
    bench.reserve_out(&mut host, REGISTER_AND_IGNORE, 0, (0, 8), 0)?.good()?;
    bench.reserve_out(&mut host, RESERVE, WRITE_EXCLUSIVE, (8, 0), 0)?.good()?;
    assert_eq!(bench.write(&mut bench.host("b")?)?, CONFLICT);
    bench.kill_and_restart()?;
    let mut host = bench.host("a")?;
    assert!(bench.keys(&mut host)?.is_empty());
    assert_eq!(bench.held(&mut host)?, None);
    assert_eq!(bench.write(&mut bench.host("b")?)?, 0);
    Ok(())
}

#[test]
fn a_release_survives_a_kill_too() -> Result<()> {
    let mut bench = Bench::start()?;
    let mut host = bench.host("a")?;
    bench.reserve_out(&mut host, REGISTER, 0, (0, 7), APTPL)?.good()?;
    bench.reserve_out(&mut host, RESERVE, WRITE_EXCLUSIVE, (7, 0), 0)?.good()?;
    bench.reserve_out(&mut host, RELEASE, WRITE_EXCLUSIVE, (7, 0), 0)?.good()?;
    bench.kill_and_restart()?;
    let mut host = bench.host("a")?;
    assert_eq!((bench.keys(&mut host)?, bench.held(&mut host)?), (vec![7], None));
    bench.reserve_out(&mut host, REGISTER, 0, (7, 0), 0)?.good()?;
    bench.kill_and_restart()?;
    assert!(bench.keys(&mut bench.host("a")?)?.is_empty());
    Ok(())
}

#[test]
fn a_scsi_2_reservation_ends_with_its_session_and_not_by_another_release() -> Result<()> {
    let bench = Bench::start()?;
    let (mut a, mut b) = (bench.host("a")?, bench.host("b")?);
    a.read(bench.lun, &RESERVE_6, 0)?.good()?;
    assert_eq!(b.read(bench.lun, &RELEASE_6, 0)?.status, 0);
    assert_eq!(b.read(bench.lun, &READ_10, 512)?.status, CONFLICT);
    assert_eq!(bench.write(&mut a)?, 0);
    drop(a);
    await_free(&bench, &mut b)
}

/// The daemon stands still meanwhile, so that one event tells it of the bytes and of their end.
#[test]
fn a_host_that_is_killed_with_bytes_on_the_way_leaves_no_reservation() -> Result<()> {
    let bench = Bench::start()?;
    let (mut a, mut b) = (bench.host("a")?, bench.host("b")?);
    for _ in 0..20 {
        a.read(bench.lun, &RESERVE_6, 0)?.good()?;
        signal(&bench.array, Signal::STOP)?;
        let gone = a.vanish(bench.lun);
        signal(&bench.array, Signal::CONT)?;
        gone?;
        await_free(&bench, &mut b)?;
        a = bench.host("a")?;
    }
    Ok(())
}

/// Waits a little for the end of another session's reservation.
fn await_free(bench: &Bench, host: &mut RawSession) -> Result<()> {
    let mut patience = 100;
    while host.read(bench.lun, &READ_10, 512)?.status == CONFLICT {
        patience -= 1;
        ensure!(patience > 0, "the reservation outlives its session");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Sixteen hosts that lock as VMFS does without ATS: reserve, read, write, release, and again when
/// they meet a conflict.
#[test]
fn sixteen_hosts_that_reserve_all_get_their_turns() -> Result<()> {
    const HOSTS: usize = 16;
    const TURNS: usize = 25;
    const ATTEMPTS_MAX: usize = 20_000;
    let bench = Bench::start()?;
    let turns = |host: usize| -> Result<usize> {
        let mut session = bench.host(&format!("h{host}"))?;
        let mut conflicts = 0;
        for _ in 0..TURNS {
            while session.read(bench.lun, &RESERVE_6, 0)?.status == CONFLICT {
                conflicts += 1;
                ensure!(conflicts < ATTEMPTS_MAX, "host {host} starves");
                thread::sleep(Duration::from_millis(1));
            }
            let mut counter = session.read(bench.lun, &READ_10, 512)?.good()?;
            let count = u32::from_be_bytes([counter[0], counter[1], counter[2], counter[3]]);
            counter[..4].copy_from_slice(&(count + 1).to_be_bytes());
            session.write(bench.lun, &WRITE_10, &counter)?.good()?;
            session.read(bench.lun, &RELEASE_6, 0)?.good()?;
        }
        Ok(conflicts)
    };
    let conflicts: usize = thread::scope(|scope| {
        let hosts: Vec<_> = (0..HOSTS).map(|host| scope.spawn(move || turns(host))).collect();
        hosts
            .into_iter()
            .map(|host| host.join().expect("a host returns its errors"))
            .sum::<Result<_>>()
    })?;
    let counter = bench.host("last")?.read(bench.lun, &READ_10, 512)?.good()?;
    assert_eq!(counter[..4], ((HOSTS * TURNS) as u32).to_be_bytes());
    println!("{} turns of {HOSTS} hosts, {conflicts} conflicts", HOSTS * TURNS);
    Ok(())
}
