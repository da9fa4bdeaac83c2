//! A steady load on a LUN: sessions, each with several commands outstanding, for some seconds.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::initiator::cdb;
use crate::initiator::histogram::Histogram;
use crate::initiator::lean::{LOCK_BYTE, prepare_locks};
use crate::initiator::session::{BLOCK_BYTES, Data, Finished, HeaderDigest, Session};
use crate::initiator::times::times;

/// Bytes of the LUN that locks are on, unless the load says how many.
const LOCKS_SPAN: u64 = 64 << 20;

/// What each command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// READ at random.
    RandomRead,
    /// WRITE at random.
    RandomWrite,
    /// EXTENDED COPY from the first LUN to the second.
    ExtendedCopy,
    /// WRITE SAME of zeros.
    WriteSame,
    /// UNMAP.
    Unmap,
    /// COMPARE AND WRITE of a block with itself; the blocks are written first.
    CompareAndWrite,
}

/// A load.
#[derive(Clone, Debug)]
pub struct Load {
    /// The LUN; for a copy, the source.
    pub url: String,
    /// The destination of a copy.
    pub url2: Option<String>,
    /// What each command is.
    pub kind: Kind,
    /// Bytes of each command.
    pub bytes: u64,
    /// Sessions.
    pub sessions: usize,
    /// Commands outstanding, over all sessions.
    pub queue_depth: usize,
    /// How long.
    pub duration: Duration,
    /// Bytes of the LUN, from its start, that are used.
    pub span: Option<u64>,
    /// Commands per second at most, all together; each waits for its turn.
    pub rate: Option<u32>,
}

/// Holds commands back to a rate.
struct Pace {
    next: Instant,
    interval: Duration,
}

impl Pace {
    fn new(rate: Option<u32>) -> Self {
        let interval = rate.map_or(Duration::ZERO, |rate| Duration::from_secs(1) / rate.max(1));
        Self { next: Instant::now(), interval }
    }

    fn wait(&mut self) {
        std::thread::sleep(self.next.saturating_duration_since(Instant::now()));
        self.next += self.interval;
    }
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct LoadFigures {
    /// Commands that ended with GOOD.
    pub operations: u64,
    /// Seconds.
    pub seconds: f64,
    /// Commands per second.
    pub per_second: f64,
    /// Bytes of the LUN per second.
    pub bytes_per_second: f64,
    /// Half of all commands took at most so long, in microseconds.
    pub p50_us: u64,
    /// 99 of 100.
    pub p99_us: u64,
    /// 9,999 of 10,000.
    pub p9999_us: u64,
    /// The slowest.
    pub max_us: u64,
    /// Bytes sent to and received from the array.
    pub wire_bytes: u64,
}

/// A small, fast source of numbers that need not be unpredictable.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}

/// Makes commands.
struct Maker {
    kind: Kind,
    bytes: u64,
    places: u64,
    random: Random,
    next: u64,
    naa: Option<([u8; 16], [u8; 16])>,
}

impl Maker {
    fn submit(&mut self, session: &mut Session, spare: Option<Data>) -> Result<()> {
        let place = match self.kind {
            Kind::RandomRead | Kind::RandomWrite => self.random.below(self.places),
            _ => {
                self.next += 1;
                self.next % self.places.max(1)
            }
        };
        let (lba, blocks) = (place * self.bytes / BLOCK_BYTES, self.bytes / BLOCK_BYTES);
        let zeros = |length: usize| Data::Out(vec![0; length]);
        let (cdb, data) = match self.kind {
            Kind::RandomRead => {
                let data = spare.unwrap_or_else(|| Data::In(vec![0; self.bytes as usize]));
                (cdb::read(lba, blocks as u32), data)
            }
            Kind::RandomWrite => {
                let fresh = || Data::Out(vec![self.next as u8 | 1; self.bytes as usize]);
                (cdb::write(lba, blocks as u32), spare.unwrap_or_else(fresh))
            }
            Kind::WriteSame => (cdb::write_same(lba, blocks as u32), zeros(512)),
            Kind::CompareAndWrite => (
                cdb::compare_and_write(lba, 1),
                Data::Out(vec![LOCK_BYTE; 2 * BLOCK_BYTES as usize]),
            ),
            Kind::Unmap => {
                let list = cdb::unmap_list(lba, blocks as u32);
                (cdb::unmap(list.len() as u16), Data::Out(list))
            }
            Kind::ExtendedCopy => {
                let (from, to) = self.naa.context("a copy needs two LUNs with NAA identifiers")?;
                let list = cdb::extended_copy_list(&from, lba, &to, lba, blocks as u16);
                (cdb::extended_copy(list.len() as u32), Data::Out(list))
            }
        };
        Ok(session.submit(0, cdb, data)?)
    }
}

/// Runs a load in this thread.
pub fn run(load: &Load) -> Result<LoadFigures> {
    ensure!(load.sessions > 0 && load.queue_depth >= load.sessions, "each session needs a command");
    let target = load.url2.as_ref().unwrap_or(&load.url);
    let mut sessions = Vec::new();
    for number in 0..load.sessions {
        let initiator = format!("iqn.2026-11.io.gantry.host:load-{}-{number}", std::process::id());
        sessions.push(Session::connect(target, &initiator, HeaderDigest::None)?);
    }
    let mut maker = maker(load, &sessions[0])?;
    let before: u64 = sessions.iter().map(wire).sum();
    let started = Instant::now();
    let deadline = started + load.duration;
    let mut pace = Pace::new(load.rate);
    for number in 0..load.queue_depth {
        let session = number % load.sessions;
        pace.wait();
        maker.submit(&mut sessions[session], None)?;
    }
    let mut histogram = Histogram::default();
    let mut operations = 0;
    while sessions.iter().any(|session| session.in_flight() > 0) {
        for (number, events) in ready(&sessions) {
            let finished = match events {
                Some(events) => sessions[number].service(events)?,
                None => sessions[number].tick(Instant::now())?,
            };
            for finished in finished {
                operations += u64::from(!finished.is_news());
                let data = note(finished, &mut histogram)?;
                if Instant::now() < deadline {
                    pace.wait();
                    maker.submit(&mut sessions[number], data)?;
                }
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let wire_bytes = sessions.iter().map(wire).sum::<u64>() - before;
    Ok(LoadFigures {
        operations,
        seconds,
        per_second: operations as f64 / seconds,
        bytes_per_second: operations as f64 * load.bytes as f64 / seconds,
        p50_us: histogram.quantile(0.5),
        p99_us: histogram.quantile(0.99),
        p9999_us: histogram.quantile(0.9999),
        max_us: histogram.max(),
        wire_bytes,
    })
}

fn maker(load: &Load, target: &Session) -> Result<Maker> {
    let naa = match load.kind {
        Kind::ExtendedCopy => {
            let initiator = "iqn.2026-11.io.gantry.host:load-source";
            let source = Session::connect(&load.url, initiator, HeaderDigest::None)?;
            source.naa.zip(target.naa)
        }
        _ => None,
    };
    // All that locks are on is written first: not a whole LUN unless somebody says so.
    let is_locks = load.kind == Kind::CompareAndWrite;
    let usual = if is_locks { LOCKS_SPAN } else { target.size_bytes };
    let span = load.span.unwrap_or(usual).min(target.size_bytes);
    ensure!(span >= load.bytes, "the LUN is smaller than one command");
    if is_locks {
        prepare_locks(load.url2.as_ref().unwrap_or(&load.url), span)?;
    }
    let random = Random(0x2545_f491_4f6c_dd1d);
    let places = span / load.bytes;
    Ok(Maker { kind: load.kind, bytes: load.bytes, places, random, next: 0, naa })
}

fn note(finished: Finished, histogram: &mut Histogram) -> Result<Option<Data>> {
    if !finished.is_news() {
        finished.result?;
        histogram.record(finished.submitted.elapsed().as_micros() as u64);
    }
    Ok(match finished.data {
        Data::In(bytes) => Some(Data::In(bytes)),
        Data::Out(bytes) if bytes.len() >= 4096 => Some(Data::Out(bytes)),
        _ => None,
    })
}

fn wire(session: &Session) -> u64 {
    let (sent, received) = session.wire_bytes();
    sent + received
}

/// The sessions on whose sockets something happened; all of them, without events, if nothing did
/// for a moment: one that is not answered must end.
fn ready(sessions: &[Session]) -> Vec<(usize, Option<i16>)> {
    let sockets: Vec<(i32, i16)> = sessions.iter().map(Session::poll).collect();
    let found = crate::initiator::raw::poll(&sockets, times().tick());
    if found.is_empty() {
        return (0..sessions.len()).map(|number| (number, None)).collect();
    }
    found.into_iter().map(|(number, events)| (number, Some(events))).collect()
}
