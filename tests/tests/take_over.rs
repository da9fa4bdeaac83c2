//! Pools that move by themselves, and pools that stay, between controllers over files of one machine: a host
//! with two paths goes on when the owner is killed; an owner that stands still keeps its pool, which is said;
//! a link that is cut moves nothing; of three controllers one takes the pool. The heartbeat is read from the
//! device as docs/format.md has it.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::controllers::{Pair, hears, listed, pair_up, signal, standing, switch, told};
use harness::http::Request;
use harness::pdu::{Answer, RawSession, cdb10};
use harness::waiting::wait_until;
use harness::{Array, number, text};
use rustix::process::Signal;

const BLOCK: usize = 512;
const BLOCKS: u32 = 64;
const STANDBY: Option<(u8, u8, u8)> = Some((2, 4, 0x0b));

/// The default of --take-over-after, and for how long nothing may have moved when it should not.
const LIMIT: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_secs(9);

fn write(session: &mut RawSession, lun: u8, lba: u32, byte: u8) -> Result<Answer> {
    session.write(lun, &cdb10(0x2a, 0, lba, 1), &[byte; BLOCK])
}

fn read(session: &mut RawSession, lun: u8, lba: u32) -> Result<u8> {
    let data = session.read(lun, &cdb10(0x28, 0, lba, 1), BLOCK as u32)?.good()?;
    ensure!(data.iter().all(|&byte| byte == data[0]), "a mixture at {lba}");
    Ok(data[0])
}

/// A host with a path through each controller: a command goes to the path that took the last one, and
/// elsewhere when that is gone or says that it does not serve.
struct Host {
    portals: [SocketAddr; 2],
    target: String,
    lun: u8,
    paths: [Option<RawSession>; 2],
    current: usize,
}

impl Host {
    fn new(pair: &Pair) -> Result<Self> {
        let paths = [&pair.first, &pair.second].map(|array| pair.host(array, "two-paths"));
        let [first, second] = paths;
        Ok(Self {
            portals: [pair.first.portal(), pair.second.portal()],
            target: pair.target.clone(),
            lun: pair.lun,
            paths: [Some(first?), Some(second?)],
            current: 0,
        })
    }

    /// The path that took the last command. A session that was lost is made anew on either path, if the portal takes
    /// a login: a pool is not given back to a controller that no host reaches.
    fn path(&mut self) -> Option<&mut RawSession> {
        let name = "iqn.2026-01.org.example:two-paths";
        for (path, portal) in self.paths.iter_mut().zip(self.portals) {
            if path.is_none() {
                *path = RawSession::log_in(portal, name, &self.target).ok();
            }
        }
        self.paths[self.current].as_mut()
    }

    /// Writes a block, however long that takes.
    fn write(&mut self, lba: u32, byte: u8) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < 12 * LIMIT {
            let lun = self.lun;
            match self.path().map(|session| write(session, lun, lba, byte)) {
                Some(Ok(answer)) if answer.status == 0 => return Ok(()),
                Some(Ok(answer)) => {
                    let code = answer.code();
                    ensure!(matches!(code, Some((2, 4, _))), "{lba}: {:?} {code:?}", answer.status);
                }
                Some(Err(_)) | None => self.paths[self.current] = None,
            }
            self.current = 1 - self.current;
            thread::sleep(Duration::from_millis(20));
        }
        anyhow::bail!("block {lba} was not written")
    }
}

/// What a host wrote until it was told to stop, block by block, and its longest wait.
fn work(
    host: &mut Host,
    written: &AtomicUsize,
    is_over: &AtomicBool,
) -> Result<(Vec<u8>, Duration)> {
    let (mut content, mut longest) = (vec![0; BLOCKS as usize], Duration::ZERO);
    for (lba, byte) in (0..BLOCKS).cycle().zip((1..=251).cycle()) {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let begun = Instant::now();
        host.write(lba, byte)?;
        content[lba as usize] = byte;
        longest = longest.max(begun.elapsed());
        written.fetch_add(1, Ordering::Relaxed);
    }
    Ok((content, longest))
}

#[test]
fn a_host_with_two_paths_goes_on_when_its_controller_is_killed_and_nothing_is_lost() -> Result<()> {
    let pair = Pair::start()?;
    pair_up(&pair)?;
    let (written, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut host = Host::new(&pair)?;
    let (content, longest) = thread::scope(|scope| {
        let working = scope.spawn(|| work(&mut host, &written, &is_over));
        let moved = wait_until("it writes", || Ok(written.load(Ordering::Relaxed) > 200))
            .and_then(|()| signal(&pair.first, Signal::KILL))
            .and_then(|()| pair.wait_for(&pair.second, "active-optimized"));
        let before = written.load(Ordering::Relaxed);
        let goes_on = moved.and_then(|()| {
            wait_until("it goes on", || Ok(written.load(Ordering::Relaxed) > before + 200))
        });
        is_over.store(true, Ordering::Relaxed);
        let worked = working.join().map_err(|_| anyhow::anyhow!("the host panicked"))?;
        goes_on.and(worked)
    })?;
    println!("the host waited for {longest:.1?} at most");
    ensure!(longest < LIMIT, "it waited for {longest:?}");
    let mut path = pair.host(&pair.second, "two-paths")?;
    for (lba, &byte) in (0..).zip(&content) {
        ensure!(read(&mut path, pair.lun, lba)? == byte, "block {lba}");
    }
    Ok(())
}

/// The shortest time of --fail-back, and for how long nothing may have moved when it should not.
const FAIL_BACK: Duration = Duration::from_secs(10);
const STAYS: Duration = Duration::from_secs(13);

/// What giving the pool back waits for, as its owner says.
fn waits_for(owner: &Array) -> Result<Option<String>> {
    let pool = owner.gantry_json(&["pool", "show", "p"])?;
    Ok(text(&pool, "/fail_back_waits_for").ok().map(str::to_owned))
}

#[test]
fn a_pool_goes_back_to_its_preferred_controller_when_that_was_ready_and_the_host_goes_on()
-> Result<()> {
    let mut pair = Pair::start()?;
    pair_up(&pair)?;
    let set = ["pool", "set", "p", "--preferred-controller", "1", "--fail-back", "10"];
    // The other one hands it on to the one that has the pool.
    pair.second.gantry(&set)?;
    let (written, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut host = Host::new(&pair)?;
    let goes_on = |written: &AtomicUsize| {
        let before = written.load(Ordering::Relaxed);
        wait_until("it writes", || Ok(written.load(Ordering::Relaxed) > before + 200))
    };
    let ((content, longest), after) = thread::scope(|scope| {
        let working = scope.spawn(|| work(&mut host, &written, &is_over));
        let mut move_twice = || -> Result<Duration> {
            goes_on(&written)?;
            pair.first.kill()?;
            pair.wait_for(&pair.second, "active-optimized")?;
            goes_on(&written)?;
            let is_missed =
                || Ok(waits_for(&pair.second)?.is_some_and(|why| why.contains("not heard")));
            wait_until("it is missed", is_missed)?;
            let back = Instant::now();
            pair.first.restart()?;
            pair.wait_for(&pair.first, "active-optimized")?;
            let after = back.elapsed();
            pair.wait_for(&pair.second, "standby")?;
            goes_on(&written)?;
            Ok(after)
        };
        let moved = move_twice();
        is_over.store(true, Ordering::Relaxed);
        let worked = working.join().map_err(|_| anyhow::anyhow!("the host panicked"))?;
        let after = moved?;
        anyhow::Ok((worked?, after))
    })?;
    println!("given back after {after:.1?}; the host waited for {longest:.1?} at most");
    ensure!(after >= FAIL_BACK, "that was early: {after:?}");
    ensure!(longest < LIMIT, "it waited for {longest:?}");
    let mut path = pair.host(&pair.first, "two-paths")?;
    for (lba, &byte) in (0..).zip(&content) {
        ensure!(read(&mut path, pair.lun, lba)? == byte, "block {lba}");
    }
    let events = pair.second.gantry(&["events"])?;
    ensure!(events.matches("is given back to controller 1").count() == 1, "once: {events}");
    ensure!(metrics(&pair.second)?.contains("\ngantry_fail_backs_total 1\n"));
    ensure!(metrics(&pair.first)?.contains("\ngantry_fail_backs_total 0\n"));
    let table = pair.second.gantry(&["controller", "list"])?;
    ensure!(table.contains("active-optimized, preferred"), "{table}");
    let shown = pair.second.gantry(&["pool", "show", "p"])?;
    ensure!(shown.contains("1 preferred, given back after 10 s"), "it came with the pool: {shown}");
    Ok(())
}

#[test]
fn a_pool_stays_where_fail_back_is_off_held_by_hand_or_its_controller_is_in_maintenance()
-> Result<()> {
    let mut pair = Pair::start()?;
    pair_up(&pair)?;
    pair.first.gantry(&["pool", "set", "p", "--preferred-controller", "1"])?;
    pair.first.kill()?;
    pair.wait_for(&pair.second, "active-optimized")?;
    pair.first.restart()?;
    pair.wait_for(&pair.first, "standby")?;
    let stays = |pair: &Pair, why: Option<&str>| -> Result<()> {
        let told = || Ok(waits_for(&pair.second)?.is_some() == why.is_some());
        wait_until("it is said", told)?;
        thread::sleep(STAYS);
        ensure!(standing(&pair.second)?.as_deref() == Some("active-optimized"), "{why:?}");
        let told = waits_for(&pair.second)?;
        ensure!(why.is_none_or(|why| told.as_ref().is_some_and(|told| told.contains(why))));
        Ok(())
    };
    stays(&pair, None)?;
    // Whoever has the pool may say it.
    pair.second.gantry(&["pool", "set", "p", "--fail-back", "10"])?;
    pair.wait_for(&pair.first, "active-optimized")?;
    switch(&pair.first)?;
    pair.wait_for(&pair.second, "active-optimized")?;
    stays(&pair, Some("an administrator gave it away at controller 1"))?;
    pair.first.gantry(&["controller", "maintenance", "on"])?;
    stays(&pair, Some("controller 1 is in maintenance"))?;
    let table = pair.second.gantry(&["controller", "list"])?;
    ensure!(table.contains("1 (in maintenance)"), "{table}");
    let refused = pair.second.try_gantry(&["controller", "switch", "p"])?;
    ensure!(refused.stderr.contains("controller 1 is in maintenance"), "{refused:?}");
    // It was not lost: it is not waited for longer than before.
    pair.first.gantry(&["controller", "maintenance", "off"])?;
    pair.wait_for(&pair.first, "active-optimized")?;
    let events = pair.second.gantry(&["events"])?;
    ensure!(events.matches("is given back to controller 1").count() == 2, "twice: {events}");
    ensure!(!events.contains("came here again"), "{events}");
    let refused = pair.first.try_gantry(&[
        "pool",
        "set",
        "p",
        "--preferred-controller",
        "none",
        "--fail-back",
        "10",
    ])?;
    let refused = refused.failure()?;
    ensure!(refused.contains("say a controller before a time"), "{refused}");
    pair.first.gantry(&["pool", "set", "p", "--preferred-controller", "none"])?;
    let pool = pair.first.gantry_json(&["pool", "show", "p"])?;
    ensure!(pool["preferred_controller"].is_null() && pool["fail_back_seconds"].is_null());
    Ok(())
}

/// For how long no host must have been there before a pool goes after them, and a little more.
const HOSTS_AWAY: Duration = Duration::from_secs(5);
const HOSTS_STAY: Duration = Duration::from_secs(7);

#[test]
fn a_pool_goes_after_its_hosts_when_none_of_them_reaches_its_controller_and_comes_back_with_them()
-> Result<()> {
    let pair = Pair::start()?;
    pair_up(&pair)?;
    let stays_at = |array: &Array, why: &str| -> Result<()> {
        thread::sleep(HOSTS_STAY);
        ensure!(standing(array)?.as_deref() == Some("active-optimized"), "{why}");
        Ok(())
    };
    stays_at(&pair.first, "no host is anywhere")?;
    let elsewhere = pair.host(&pair.second, "a")?;
    let here = pair.host(&pair.first, "b")?;
    stays_at(&pair.first, "one is here")?;
    let gone = Instant::now();
    drop(here);
    pair.wait_for(&pair.second, "active-optimized")?;
    let after = gone.elapsed();
    println!("given to the controller that hosts reach after {after:.1?}");
    ensure!(after >= HOSTS_AWAY, "that was early: {after:?}");
    let events = pair.first.gantry(&["events"])?;
    ensure!(events.contains("none of its hosts is logged in here any more"), "{events}");
    ensure!(metrics(&pair.first)?.contains("\ngantry_pools_given_to_hosts_total 1\n"));

    pair.second.gantry(&[
        "pool",
        "set",
        "p",
        "--preferred-controller",
        "1",
        "--fail-back",
        "10",
    ])?;
    // Sessions that answer no pings end after 25 s.
    drop(elsewhere);
    let elsewhere = pair.host(&pair.second, "a")?;
    let is_unreached =
        || Ok(waits_for(&pair.second)?.is_some_and(|why| why.contains("would lose it")));
    wait_until("it is said that no host is there", is_unreached)?;
    thread::sleep(STAYS);
    ensure!(standing(&pair.second)?.as_deref() == Some("active-optimized"), "its hosts are here");
    let back = pair.host(&pair.first, "a")?;
    pair.wait_for(&pair.first, "active-optimized")?;
    drop((elsewhere, back));
    stays_at(&pair.first, "no host is anywhere again")
}

/// How long a host lacks a path before that is told.
const PATH_MISSED: Duration = Duration::from_secs(60);

#[test]
fn a_host_that_reaches_one_controller_only_is_named_and_not_cut_off_unasked() -> Result<()> {
    let pair = Pair::start()?;
    pair_up(&pair)?;
    let mut here = pair.host(&pair.first, "lonely")?;
    let begun = Instant::now();
    while !metrics(&pair.first)?.contains("\ngantry_hosts_without_path{controller=\"2\"} 1\n") {
        ensure!(begun.elapsed() < 2 * PATH_MISSED, "it is not told");
        // A session without commands ends, since this host answers no pings.
        read(&mut here, pair.lun, 0)?;
        thread::sleep(Duration::from_secs(1));
    }
    let after = begun.elapsed();
    ensure!(after >= PATH_MISSED - Duration::from_secs(2), "that was early: {after:?}");
    let events = pair.first.gantry(&["events"])?;
    let told = "lonely is logged in at controller 1 and not there";
    ensure!(events.contains(told), "{events}");
    let refused = pair.first.try_gantry(&["controller", "switch", "p"])?;
    ensure!(!refused.status.success() && refused.stderr.contains("--force"), "{refused:?}");
    ensure!(standing(&pair.first)?.as_deref() == Some("active-optimized"), "nothing was changed");
    pair.first.gantry(&["controller", "switch", "p", "--force"])?;
    pair.wait_for(&pair.second, "active-optimized")?;
    let _there = pair.host(&pair.second, "lonely")?;
    let is_complete =
        || Ok(pair.first.gantry(&["events"])?.contains("lonely is logged in there, too"));
    wait_until("that its path has come is told", is_complete)
}

/// A heartbeat as docs/format.md has it.
#[derive(Debug, PartialEq, Eq)]
struct Beat {
    controller: u16,
    lease_ms: u32,
    life: u64,
    count: u64,
    holder: String,
}

fn beat_in(file: &File) -> Result<Beat> {
    let mut block = [0; 4096];
    file.read_exact_at(&mut block, 12 * 4096)?;
    ensure!(block[..12] == *b"GANTRYHB\x01\0\0\0", "{:02x?}", &block[..16]);
    ensure!(block[4092..] == crc32c::crc32c(&block[..4092]).to_le_bytes(), "its checksum");
    let u64_at = |at: usize| block[at..at + 8].try_into().map(u64::from_le_bytes);
    let holder = block[64..192].split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(Beat {
        controller: u16::from_le_bytes([block[32], block[33]]),
        lease_ms: u32::from_le_bytes(block[36..40].try_into()?),
        life: u64_at(40)?,
        count: u64_at(48)?,
        holder: String::from_utf8(holder.to_vec())?,
    })
}

fn device_of(array: &Array) -> Result<PathBuf> {
    let pool = array.gantry_json(&["pool", "show", "p"])?;
    Ok(text(&pool, "/devices/0/device")?.trim_start_matches("file:").into())
}

/// Why the pool is not open, as its description has it.
fn reason(array: &Array) -> Result<String> {
    let pool = array.gantry_json(&["pool", "show", "p"])?;
    Ok(text(&pool, "/reason")?.to_owned())
}

fn metrics(array: &Array) -> Result<String> {
    Ok(Request::new("GET", "/metrics").send_to_socket(&array.data().join("gantry.sock"))?.body)
}

#[test]
fn an_owner_that_stands_still_on_files_keeps_its_pool_and_that_is_said_with_what_to_do()
-> Result<()> {
    let mut pair = Pair::start()?;
    pair_up(&pair)?;
    ensure!(number(&listed(&pair.first, true)?, "/take_over_after")? == LIMIT.as_secs());
    let table = pair.first.gantry(&["controller", "list"])?;
    ensure!(table.contains("takes over after 5 s"), "{table}");
    let lun = pair.lun;
    let mut active = pair.host(&pair.first, "a")?;
    write(&mut active, lun, 0, 7)?.good()?;
    let file = File::open(device_of(&pair.first)?)?;
    let leased = || Ok(beat_in(&file)?.lease_ms == 4000);
    wait_until("the pair is known", leased)?;
    let before = beat_in(&file)?;
    ensure!((before.controller, before.holder.as_str()) == (1, ""), "{before:?}");
    wait_until("its heart beats", || Ok(beat_in(&file)?.count > before.count + 20))?;
    ensure!(beat_in(&file)?.life == before.life);

    signal(&pair.first, Signal::STOP)?;
    let stopped = Instant::now();
    let still = beat_in(&file);
    let said = wait_until("it is said", || Ok(reason(&pair.second)?.contains("no heartbeat")));
    let after = stopped.elapsed();
    thread::sleep(LONG.saturating_sub(after));
    let (state, reason_then, still_then) =
        (standing(&pair.second), reason(&pair.second), beat_in(&file));
    let events = pair.second.gantry(&["events"]);
    signal(&pair.first, Signal::CONT)?;
    said?;
    ensure!(after + Duration::from_secs(1) > LIMIT, "that was early: {after:?}");
    ensure!(still? == still_then?, "nobody writes a heartbeat");
    ensure!(state?.as_deref() == Some("standby"), "nothing moved");
    let reason_then = reason_then?;
    ensure!(reason_then.contains("end its process"), "{reason_then}");
    let events = events?;
    ensure!(events.matches("stays where it is").count() == 1, "once: {events}");
    write(&mut active, lun, 1, 9)?.good()?;
    ensure!((read(&mut active, lun, 0)?, read(&mut active, lun, 1)?) == (7, 9), "it goes on");
    wait_until("its heart beats", || Ok(!reason(&pair.second)?.contains("no heartbeat")))?;
    ensure!(metrics(&pair.second)?.contains("\ngantry_take_overs_total 0\n"));

    // What an administrator was told to do.
    signal(&pair.first, Signal::STOP)?;
    pair.first.kill()?;
    pair.wait_for(&pair.second, "active-optimized")?;
    let mut host = pair.host(&pair.second, "a")?;
    ensure!((read(&mut host, lun, 0)?, read(&mut host, lun, 1)?) == (7, 9));
    wait_until("the other heart beats", || Ok(beat_in(&file)?.controller == 2))
}

#[test]
fn a_link_that_is_cut_moves_nothing_while_the_owner_lives() -> Result<()> {
    let mut pair = Pair::start()?;
    pair_up(&pair)?;
    pair.cut_link()?;
    let lun = pair.lun;
    let (mut active, mut standby) = (pair.host(&pair.first, "a")?, pair.host(&pair.second, "a")?);
    let begun = Instant::now();
    let mut byte = 0;
    while begun.elapsed() < LONG {
        byte = byte % 250 + 1;
        write(&mut active, lun, 0, byte)?.good()?;
        ensure!(write(&mut standby, lun, 0, 251)?.code() == STANDBY, "it does not serve");
        thread::sleep(Duration::from_millis(100));
    }
    ensure!(listed(&pair.second, false)?["reachable"] == false, "the link is cut");
    let reason = reason(&pair.second)?;
    ensure!(!reason.contains("no heartbeat"), "it is seen to live: {reason}");
    ensure!(!pair.second.gantry(&["events"])?.contains("stays where it is"));
    ensure!(read(&mut active, lun, 0)? == byte);
    // A file's lock ends with its process, with a link or without.
    pair.first.kill()?;
    pair.wait_for(&pair.second, "active-optimized")?;
    ensure!(read(&mut pair.host(&pair.second, "a")?, lun, 0)? == byte);
    Ok(())
}

#[test]
fn of_two_that_may_take_the_pool_of_a_third_one_does() -> Result<()> {
    let mut pair = Pair::start()?;
    pair_up(&pair)?;
    let mut third = pair.add_third()?;
    let lun = pair.lun;
    write(&mut pair.host(&pair.first, "a")?, lun, 3, 42)?.good()?;
    for round in 0..3_u8 {
        pair.first.kill()?;
        wait_until("one of them serves", || {
            let states = [standing(&pair.second)?, standing(&third)?];
            let serves = |state: &&Option<String>| state.as_deref() == Some("active-optimized");
            ensure!(states.iter().filter(serves).count() < 2, "two owners: {states:?}");
            Ok(states.iter().filter(serves).count() == 1)
        })?;
        let serves = standing(&pair.second)?.as_deref() == Some("active-optimized");
        let (owner, other) = if serves { (&pair.second, &third) } else { (&third, &pair.second) };
        let mut host = pair.host(owner, "a")?;
        ensure!(read(&mut host, lun, 3)? == 42 + round);
        write(&mut host, lun, 3, 43 + round)?.good()?;
        let refused = write(&mut pair.host(other, "a")?, lun, 3, 99)?;
        ensure!(refused.code() == STANDBY, "{:?}", refused.code());
        // The first one has it again: the others let go.
        pair.first.restart()?;
        pair.wait_for(&pair.first, "standby")?;
        let back = || -> Result<bool> {
            for array in [&pair.second, &third] {
                if standing(array)?.as_deref() == Some("active-optimized") {
                    // One that is just changing refuses.
                    array.try_gantry(&["controller", "switch", "p"])?;
                }
            }
            Ok(standing(&pair.first)?.as_deref() == Some("active-optimized"))
        };
        wait_until("the first one serves", back)?;
    }
    ensure!(hears(&third, 1)? && hears(&third, 2)?);
    third.kill().context("it lives")
}

#[test]
fn a_controller_in_maintenance_gives_its_pool_away_and_takes_none_until_that_is_over() -> Result<()>
{
    let mut pair = Pair::start()?;
    let refused = pair.first.try_gantry(&["controller", "maintenance", "on"])?.failure()?;
    ensure!(refused.contains("no other controller is heard"), "{refused}");
    pair_up(&pair)?;
    let lun = pair.lun;
    wait_until("the standby is known", || Ok(told(&pair.first)?.as_deref() == Some("standby")))?;
    write(&mut pair.host(&pair.first, "a")?, lun, 0, 7)?.good()?;
    let said = pair.first.gantry(&["controller", "maintenance", "on"])?;
    ensure!(said.contains("go to other controllers"), "{said}");
    pair.wait_for(&pair.second, "active-optimized")?;
    pair.wait_for(&pair.first, "standby")?;
    ensure!(read(&mut pair.host(&pair.second, "a")?, lun, 0)? == 7);
    let table = pair.first.gantry(&["controller", "list"])?;
    ensure!(table.contains("in maintenance"), "{table}");
    ensure!(listed(&pair.second, true)?["maintenance"] == false);
    // It looks once whether the pool was taken, and does not take it when that one is gone.
    thread::sleep(Duration::from_secs(11));
    pair.second.kill()?;
    thread::sleep(Duration::from_secs(3));
    ensure!(standing(&pair.first)?.as_deref() == Some("standby"), "it takes none");
    pair.first.gantry(&["controller", "maintenance", "off"])?;
    pair.wait_for(&pair.first, "active-optimized")?;
    ensure!(read(&mut pair.host(&pair.first, "a")?, lun, 0)? == 7);
    Ok(())
}
