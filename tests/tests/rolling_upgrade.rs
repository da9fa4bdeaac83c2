//! Each controller's program is replaced in turn, as docs/controllers.md has it: maintenance, stop, start,
//! the other one. A host with a path to each of them writes all the while: no command fails, nothing is lost.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use harness::Array;
use harness::controllers::{Pair, hears, listed, pair_up, standing, told};
use harness::pdu::{RawSession, cdb10};
use harness::waiting::wait_until;

const BLOCK: usize = 512;
const BLOCKS: u32 = 64;

/// A host gives a command up after so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A path to one controller, which is logged in when it is needed.
struct Path {
    portal: SocketAddr,
    session: Option<RawSession>,
}

/// A host that sends a command to the path that took the last one, and to the other one when that is gone or
/// says that it does not serve.
struct Host {
    target: String,
    lun: u8,
    paths: [Path; 2],
    current: usize,
}

impl Host {
    fn new(pair: &Pair) -> Self {
        let path = |array: &Array| Path { portal: array.portal(), session: None };
        let paths = [path(&pair.first), path(&pair.second)];
        Self { target: pair.target.clone(), lun: pair.lun, paths, current: 0 }
    }

    fn session(&mut self) -> Result<&mut RawSession> {
        let Path { portal, session } = &mut self.paths[self.current];
        if session.is_none() {
            let name = "iqn.2026-01.org.example:two-paths";
            *session = Some(RawSession::log_in(*portal, name, &self.target)?);
        }
        session.as_mut().context("it was logged in")
    }

    /// Sends a command until it is done.
    fn ask(&mut self, mut command: impl FnMut(&mut RawSession, u8) -> Result<Ended>) -> Result<u8> {
        let (begun, lun) = (Instant::now(), self.lun);
        while begun.elapsed() < PATIENCE {
            match self.session().and_then(|session| command(session, lun)) {
                Ok(Ended::Good(byte)) => return Ok(byte),
                Ok(Ended::NotHere) => {}
                Ok(Ended::Failed(what)) => bail!("{what}"),
                Err(_) => self.paths[self.current].session = None,
            }
            self.current = 1 - self.current;
            thread::sleep(Duration::from_millis(20));
        }
        bail!("a command was not done within {PATIENCE:?}")
    }

    fn write(&mut self, lba: u32, byte: u8) -> Result<()> {
        self.ask(|session, lun| {
            let answer = session.write(lun, &cdb10(0x2a, 0, lba, 1), &[byte; BLOCK])?;
            Ok(Ended::of(answer.status, answer.code(), byte))
        })?;
        Ok(())
    }

    fn read(&mut self, lba: u32) -> Result<u8> {
        self.ask(|session, lun| {
            let answer = session.read(lun, &cdb10(0x28, 0, lba, 1), BLOCK as u32)?;
            let ended = Ended::of(answer.status, answer.code(), 0);
            let Ended::Good(_) = ended else { return Ok(ended) };
            let data = answer.good()?;
            ensure!(data.iter().all(|&byte| byte == data[0]), "a mixture at {lba}");
            Ok(Ended::Good(data[0]))
        })
    }
}

/// How a command ended.
enum Ended {
    Good(u8),
    /// The controller does not serve the LUN, or tells of something that happened first.
    NotHere,
    Failed(String),
}

impl Ended {
    fn of(status: u8, code: Option<(u8, u8, u8)>, byte: u8) -> Self {
        match (status, code) {
            (0, _) => Self::Good(byte),
            // BUSY, NOT READY and unit attentions are for the host to repeat.
            (8, _) | (_, Some((2, 4, _) | (6, _, _))) => Self::NotHere,
            (status, code) => Self::Failed(format!("status {status:#x}, {code:02x?}")),
        }
    }
}

/// Writes and reads blocks until it is told to stop; what they hold then, and the longest wait.
fn work(
    mut host: Host,
    done: &AtomicUsize,
    is_over: &AtomicBool,
) -> Result<(Host, Vec<u8>, Duration)> {
    let (mut content, mut longest) = (vec![0; BLOCKS as usize], Duration::ZERO);
    for (lba, byte) in (0..BLOCKS).cycle().zip((1..=251).cycle()) {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let begun = Instant::now();
        host.write(lba, byte)?;
        content[lba as usize] = byte;
        let other = (lba * 7 + 3) % BLOCKS;
        let found = host.read(other)?;
        ensure!(found == content[other as usize], "{found} is in block {other}");
        longest = longest.max(begun.elapsed());
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok((host, content, longest))
}

/// The controllers, the one whose program is replaced first.
fn of(pair: &mut Pair, is_first: bool) -> (&mut Array, &mut Array) {
    let Pair { first, second, .. } = pair;
    if is_first { (first, second) } else { (second, first) }
}

/// As docs/controllers.md tells an administrator to do it.
fn replace(pair: &mut Pair, is_first: bool) -> Result<()> {
    let (here, there) = of(pair, is_first);
    here.gantry(&["controller", "maintenance", "on"])?;
    let serves = |array: &Array| Ok(standing(array)?.as_deref() == Some("active-optimized"));
    wait_until("the other one serves", || serves(there))?;
    ensure!(here.stop()?.success());
    here.restart()?;
    let number_there = if is_first { 2 } else { 1 };
    wait_until("it hears the other one", || hears(here, number_there))?;
    wait_until("it is heard", || Ok(told(there)?.as_deref() == Some("standby")))?;
    ensure!(listed(here, true)?["maintenance"] == false, "maintenance ends with the start");
    ensure!(serves(there)?, "the pool stays where it is");
    Ok(())
}

#[test]
fn a_host_goes_on_while_the_program_of_each_controller_is_replaced() -> Result<()> {
    let mut pair = Pair::start()?;
    pair_up(&pair)?;
    wait_until("the standby is known", || Ok(told(&pair.first)?.as_deref() == Some("standby")))?;
    let (done, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let host = Host::new(&pair);
    let (mut host, content, longest) = thread::scope(|scope| {
        let working = scope.spawn(|| work(host, &done, &is_over));
        let mut upgrade = || {
            for is_first in [true, false] {
                let before = done.load(Ordering::Relaxed);
                wait_until("the host works", || {
                    Ok(working.is_finished() || done.load(Ordering::Relaxed) > before + 100)
                })?;
                replace(&mut pair, is_first)?;
            }
            Ok(())
        };
        let upgraded: Result<()> = upgrade();
        is_over.store(true, Ordering::Relaxed);
        let worked = working.join().map_err(|_| anyhow::anyhow!("the host panicked"))?;
        upgraded.and(worked)
    })?;
    println!("the host waited for {longest:.1?} at most");
    for (lba, &byte) in (0..).zip(&content) {
        ensure!(host.read(lba)? == byte, "block {lba}");
    }
    ensure!(
        standing(&pair.first)?.as_deref() == Some("active-optimized"),
        "it ends where it began"
    );
    Ok(())
}
