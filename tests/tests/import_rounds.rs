//! Import rounds: the data directory is deleted under kill -9 while hosts take locks beside a
//! persistent reservation; a new daemon imports the pool, and the hosts go on.
//!
//! `cargo xtask soak --imports N` runs it for long, and shows how long hosts waited.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use harness::pdu::{Answer, RawSession, cdb10, cdb16};
use harness::waiting::wait_until;
use harness::{Array, setting};

const LUN: u8 = 7;
const HOSTS: usize = 3;
const BLOCK_BYTES: usize = 512;
const CONFLICT: u8 = 0x18;

/// Where all hosts count, and the first of their own blocks.
const SHARED: u64 = 0;
const OWN: u64 = 16;

fn name(host: usize) -> String {
    format!("iqn.2026-01.org.example:locks-{host}")
}

/// A block of eight-byte numbers, one for each host.
fn block(counts: [u64; HOSTS]) -> Vec<u8> {
    let mut bytes: Vec<u8> = counts.iter().flat_map(|count| count.to_be_bytes()).collect();
    bytes.resize(BLOCK_BYTES, 0);
    bytes
}

fn counts(block: &[u8]) -> Result<[u64; HOSTS]> {
    let (words, _) = block.as_chunks::<8>();
    let counts = words.first_chunk::<HOSTS>().context("a block")?;
    ensure!(block.len() == BLOCK_BYTES, "{} bytes", block.len());
    Ok(counts.map(u64::from_be_bytes))
}

/// What a host and the test say to each other.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// Locks that were taken.
    taken: AtomicU64,
    /// When the last command was answered, nanoseconds of the test's clock.
    answered: AtomicU64,
}

/// A host that takes locks by COMPARE AND WRITE of a block of its own and of one that all count in.
struct Host {
    number: usize,
    portal: SocketAddr,
    target: String,
    start: Instant,
    shared: Arc<Shared>,
    session: Option<RawSession>,
    /// By block: how often this host's compare and write was acknowledged.
    acknowledged: [u64; 2],
}

impl Host {
    fn work(mut self) -> Result<[u64; 2]> {
        while !self.shared.stop.load(Ordering::Relaxed) {
            for which in 0..2 {
                self.lock(which)?;
            }
        }
        Ok(self.acknowledged)
    }

    /// The session; while there is no target of that name the host tries again, as hosts do.
    fn session(&mut self) -> Option<&mut RawSession> {
        if self.session.is_none() {
            let session = RawSession::log_in(self.portal, &name(self.number), &self.target);
            self.session = session.ok();
            if self.session.is_none() {
                thread::sleep(Duration::from_millis(10));
            }
        }
        self.session.as_mut()
    }

    /// One try to count; what the answer to an earlier one would have been is seen by reading.
    fn lock(&mut self, which: usize) -> Result<()> {
        let lba = [SHARED, OWN + self.number as u64][which];
        let Some(found) = self.read(lba)? else { return Ok(()) };
        let (found, number) = (counts(&found)?, self.number);
        let known = self.acknowledged[which];
        let may_be = found[number] == known || found[number] == known + 1;
        ensure!(may_be, "host {number}, block {lba}: {known} acknowledged, {found:?} found");
        self.acknowledged[which] = found[number];
        let mut next = found;
        next[number] += 1;
        let mut cdb = cdb16(0x89, 0, lba, 0);
        cdb[13] = 1;
        let data = [block(found), block(next)].concat();
        let Some(session) = self.session() else { return Ok(()) };
        let Ok(answer) = session.write(LUN, &cdb, &data) else {
            self.session = None;
            return Ok(());
        };
        if !self.note_answer(&answer) {
            return Ok(());
        }
        match (answer.status, answer.code()) {
            (0, _) => {
                self.acknowledged[which] += 1;
                self.shared.taken.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            // Another host was quicker.
            (_, Some((0xe, 0x1d, 0))) if which == 0 => Ok(()),
            _ => bail!("host {number}, block {lba}: {answer:02x?}"),
        }
    }

    fn read(&mut self, lba: u64) -> Result<Option<Vec<u8>>> {
        let cdb = cdb16(0x88, 0, lba, 1);
        let Some(session) = self.session() else { return Ok(None) };
        let Ok(answer) = session.read(LUN, &cdb, BLOCK_BYTES as u32) else {
            self.session = None;
            return Ok(None);
        };
        if !self.note_answer(&answer) {
            return Ok(None);
        }
        answer.good().map(Some)
    }

    /// False if the logical unit is becoming ready: hosts try again.
    fn note_answer(&self, answer: &Answer) -> bool {
        if answer.code() == Some((2, 4, 1)) {
            thread::sleep(Duration::from_millis(10));
            return false;
        }
        let now = self.start.elapsed().as_nanos() as u64;
        self.shared.answered.store(now, Ordering::Relaxed);
        true
    }
}

/// Each host registers, and all of them hold a reservation that keeps writes of others out.
fn reserve(array: &Array) -> Result<()> {
    for host in 0..HOSTS {
        let name = name(host);
        let mut session = RawSession::log_in(array.portal(), &name, &array.target_name()?)?;
        let key = host as u64 + 1;
        let keep = if host == 0 { 2 } else { 1 };
        // REGISTER with APTPL; Write Exclusive, All Registrants.
        for (action, kind, keys) in [(0, 0, (0, key)), (1, 7, (key, 0))].into_iter().take(keep) {
            let cdb = [0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0];
            let mut list = [u64::to_be_bytes(keys.0), u64::to_be_bytes(keys.1), [0; 8]].concat();
            list[20] = u8::from(action == 0);
            session.write(LUN, &cdb, &list)?.good()?;
        }
    }
    Ok(())
}

/// Somebody who did not register reads and must not write.
fn a_stranger_is_kept_out(array: &Array) -> Result<()> {
    let stranger = "iqn.2026-01.org.example:stranger";
    let mut session = RawSession::log_in(array.portal(), stranger, &array.target_name()?)?;
    session.read(LUN, &cdb10(0x28, 0, 0, 1), 512)?.good()?;
    let status = session.write(LUN, &cdb10(0x2a, 0, 99, 1), &[1; 512])?.status;
    ensure!(status == CONFLICT, "a stranger's write ended with {status:#04x}");
    Ok(())
}

/// How long hosts and the administrator waited.
struct Times {
    start: Duration,
    import: Duration,
    since_import: Duration,
    since_kill: Duration,
}

struct Bench {
    array: Array,
    file: String,
    start: Instant,
    shared: [Arc<Shared>; HOSTS],
    hosts: Vec<JoinHandle<Result<[u64; 2]>>>,
}

impl Bench {
    fn start() -> Result<Self> {
        let array = Array::start()?;
        let file = array.create_pool("p", "1G")?;
        array.gantry(&["volume", "create", "p/v", "--size", "64M"])?;
        array.gantry(&["volume", "map", "p/v", "--host", "any", "--lun", &LUN.to_string()])?;
        reserve(&array)?;
        let (start, target) = (Instant::now(), array.target_name()?);
        let shared: [Arc<Shared>; HOSTS] = std::array::from_fn(|_| Arc::default());
        let host = |number: usize| Host {
            number,
            portal: array.portal(),
            target: target.clone(),
            start,
            shared: Arc::clone(&shared[number]),
            session: None,
            acknowledged: [0; 2],
        };
        let hosts: Vec<Host> = (0..HOSTS).map(host).collect();
        let hosts = hosts.into_iter().map(|host| thread::spawn(move || host.work())).collect();
        let file = file.to_str().context("a printable path")?.to_owned();
        Ok(Self { array, file, start, shared, hosts })
    }

    /// Waits until every host has taken locks after a moment.
    fn wait_for_locks(&self) -> Result<()> {
        let taken = |host: &Arc<Shared>| host.taken.load(Ordering::Relaxed);
        let before: Vec<u64> = self.shared.iter().map(taken).collect();
        wait_until("every host takes locks", || {
            ensure!(!self.hosts.iter().any(JoinHandle::is_finished), "a host gave up");
            Ok(self.shared.iter().zip(&before).all(|(host, &before)| taken(host) > before + 20))
        })
    }

    /// Until each host has had an answer after this moment.
    fn all_answered_after(&self, moment: Duration) -> Result<Duration> {
        let moment = moment.as_nanos() as u64;
        loop {
            let answered = self.shared.iter().map(|host| host.answered.load(Ordering::Relaxed));
            if answered.min().is_some_and(|first| first > moment) {
                return Ok(self.start.elapsed());
            }
            ensure!(!self.hosts.iter().any(JoinHandle::is_finished), "a host gave up");
            ensure!(self.start.elapsed().as_nanos() as u64 - moment < 60_000_000_000, "no answer");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn round(&mut self) -> Result<Times> {
        self.wait_for_locks()?;
        let target = self.array.target_name()?;
        let killed = self.start.elapsed();
        self.array.kill()?;
        let gone = self.start.elapsed();
        fs::remove_dir_all(self.array.data())?;
        let start = self.array.restart()?;
        let begun = self.start.elapsed();
        self.array.gantry(&["pool", "import", &self.file, "--force"])?;
        let imported = self.start.elapsed();
        let answered = self.all_answered_after(gone)?;
        self.wait_for_locks()?;
        a_stranger_is_kept_out(&self.array)?;
        ensure!(self.array.target_name()? == target, "the target has another name");
        ensure!(Path::new(&self.file).exists(), "the pool's file is where it was");
        Ok(Times {
            start,
            import: imported - begun,
            since_import: answered.saturating_sub(begun),
            since_kill: answered - killed,
        })
    }

    /// Ends the hosts; what they acknowledged is what is there.
    fn stop(mut self) -> Result<u64> {
        self.shared.iter().for_each(|host| host.stop.store(true, Ordering::Relaxed));
        let mut own = [0; HOSTS];
        let mut all = [0; HOSTS];
        for (number, host) in self.hosts.drain(..).enumerate() {
            let acknowledged = host.join().map_err(|_| anyhow!("a host panicked"))??;
            [all[number], own[number]] = acknowledged;
        }
        let target = self.array.target_name()?;
        let mut session = RawSession::log_in(self.array.portal(), &name(0), &target)?;
        let mut found = |lba| counts(&session.read(LUN, &cdb16(0x88, 0, lba, 1), 512)?.good()?);
        assert_eq!(found(SHARED)?, all);
        for (host, acknowledged) in own.into_iter().enumerate() {
            assert_eq!(found(OWN + host as u64)?[host], acknowledged);
        }
        Ok(all.iter().chain(&own).sum())
    }
}

#[test]
fn hosts_with_locks_and_a_reservation_go_on_after_each_import() -> Result<()> {
    let mut bench = Bench::start()?;
    let mut waits = Vec::new();
    for round in 0..setting("GANTRY_IMPORT_ROUNDS", 3)? {
        let times = bench.round().with_context(|| format!("round {round}"));
        let times = match times {
            Ok(times) => times,
            Err(error) => {
                let ended = bench.hosts.drain(..).filter(JoinHandle::is_finished);
                let said: Vec<_> = ended.map(JoinHandle::join).collect();
                bail!("{error:#}: {said:?}\n{}", bench.array.log());
            }
        };
        println!(
            "round {round}: serves after {:.2?}, import took {:.2?}; every host had an answer {:.2?} after the import began, {:.2?} after the kill",
            times.start, times.import, times.since_import, times.since_kill
        );
        waits.push(times.since_import);
    }
    waits.sort();
    let locks = bench.stop()?;
    if let (Some(most), Some(half)) = (waits.last(), waits.get(waits.len() / 2)) {
        println!(
            "{} rounds, {locks} locks: from the import to the first answer of every host {half:.2?} (median), {most:.2?} at most",
            waits.len()
        );
    }
    Ok(())
}
