//! Benchmark client: an iSCSI initiator that costs next to nothing itself, so that the array is
//! what is measured. It tells how busy it was, so that nobody takes its own limit for the array's.
//! One thread; a single session is read by blocking, as a host's thread sleeps, several by epoll.

mod session;
mod work;

use std::fs;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use serde::Serialize;

use crate::initiator::histogram::Histogram;
use crate::initiator::times::times;
use session::{Ended, Place, Received, Session};
pub(crate) use work::LOCK_BYTE;
use work::{Designators, Maker, Order};

/// The largest command, bytes.
pub const BLOCK_MAX: usize = 1 << 22;

/// Sessions at most.
pub const SESSIONS_MAX: usize = 4096;

/// Unit attentions that a session may have to hear before one of its commands is done.
const NEWS_MAX: usize = 8;

/// Why a run ends when there are more of them.
const NEWS_ONLY: &str = "the array answers with unit attentions only";

/// Why a run ends when nothing comes for as long as a command may take.
const SILENT: &str = "the array does not answer";

/// Bytes of one WRITE of what locks are measured on.
const LOCKS_WRITE: u64 = 64 << 10;

/// By then that is written.
const PREPARATION_MAX: Duration = Duration::from_secs(300);

/// Bytes of one read from a socket.
const RECEIVE_BYTES: usize = 256 << 10;

/// What each command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// READ (16) at random.
    RandomRead,
    /// WRITE (16) at random.
    RandomWrite,
    /// Seven READ and three WRITE of ten, at random.
    Mixed,
    /// READ (16), one block after the other.
    Read,
    /// WRITE (16), one block after the other.
    Write,
    /// COMPARE AND WRITE of blocks with themselves; they are written first ([`prepare_locks`]).
    CompareAndWrite,
    /// WRITE (16) of what COMPARE AND WRITE expects, one block after the other.
    WriteLocks,
    /// WRITE SAME (16) of zeros.
    WriteSame,
    /// UNMAP.
    Unmap,
    /// EXTENDED COPY from the first LUN to the second.
    ExtendedCopy,
}

/// How commands that may go at the same time are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sends {
    /// Each with a system call of its own, as the kernel's initiator does.
    Each,
    /// Together.
    Together,
}

/// A load.
#[derive(Clone, Debug)]
pub struct Load {
    /// The LUN; for a copy, the source.
    pub url: String,
    /// The destination of a copy.
    pub url2: Option<String>,
    /// What each command is.
    pub work: Work,
    /// Bytes of each command, 512 to [`BLOCK_MAX`].
    pub bytes: u64,
    /// 1 to [`SESSIONS_MAX`].
    pub sessions: usize,
    /// Commands outstanding in each session.
    pub depth: usize,
    /// Bytes of the LUN, from its start, that are used.
    pub span: u64,
    /// How long.
    pub duration: Duration,
    /// Whether it ends, before that time, when every part of the span had its command.
    pub once: bool,
    /// How commands are sent.
    pub sends: Sends,
    /// Whether headers and data carry CRC32C.
    pub digests: bool,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
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
    /// Share of the time in which this client used its processor, 0 to 1. Near 1 it may itself be
    /// what limits the figures.
    pub client_busy: f64,
}

/// A load that runs.
struct Run<'a> {
    load: &'a Load,
    sessions: Vec<Session>,
    maker: Maker,
    histogram: Histogram,
    deadline: Instant,
    /// Commands until the end, beside those that are owed to a unit attention.
    left: u64,
}

/// Runs a load in this thread.
///
/// # Errors
/// When the array cannot be reached, ends a connection, or ends a command with another status than
/// GOOD or a unit attention.
pub fn run(load: &Load) -> Result<Figures> {
    let sessions_fit = (1..=SESSIONS_MAX).contains(&load.sessions);
    ensure!(sessions_fit && load.depth > 0, "1 to {SESSIONS_MAX} sessions, each with a command");
    ensure!(load.bytes <= BLOCK_MAX as u64 || !moves_data(load.work), "at most {BLOCK_MAX} bytes");
    let target = load.url2.as_ref().unwrap_or(&load.url);
    if load.work == Work::CompareAndWrite {
        prepare_locks(target, load.span)?;
    }
    let place = Place::parse(target).context("write iscsi://HOST:PORT/TARGET-NAME/LUN")?;
    let maker = Maker::new(load.work, load.bytes, load.span, designators(load)?)?;
    let mut sessions = Vec::new();
    for number in 0..load.sessions {
        let mut session = Session::connect(&place, number as u16, load.digests)?;
        hear_news(&mut session)?;
        sessions.push(session);
    }
    let (started, busy_before) = (Instant::now(), processor_seconds()?);
    let deadline = started + load.duration;
    let left = if load.once { load.span / load.bytes } else { u64::MAX };
    let mut run = Run { load, sessions, maker, histogram: Histogram::default(), deadline, left };
    for number in 0..run.sessions.len() {
        run.sessions[number].owed = load.depth;
        run.submit(number, load.depth)?;
    }
    match load.sessions {
        1 => run.one_session()?,
        _ => run.all_sessions()?,
    }
    let seconds = started.elapsed().as_secs_f64();
    let busy = (processor_seconds()? - busy_before) / seconds;
    Ok(run.figures(seconds, busy))
}

/// Writes the blocks that COMPARE AND WRITE is measured on. They are no zeros: zeros in place of zeros
/// need nothing of an array.
///
/// # Errors
/// As [`run`], and when the span is no multiple of 64 KiB.
pub fn prepare_locks(url: &str, span: u64) -> Result<()> {
    ensure!(span.is_multiple_of(LOCKS_WRITE), "the span of locks is a multiple of 64 KiB");
    let load = Load {
        url: url.to_owned(),
        url2: None,
        work: Work::WriteLocks,
        bytes: LOCKS_WRITE,
        sessions: 1,
        depth: 8,
        span,
        duration: PREPARATION_MAX,
        once: true,
        sends: Sends::Each,
        digests: false,
    };
    let written = run(&load)?.operations;
    ensure!(written == span / LOCKS_WRITE, "the blocks for locks were not written in time");
    Ok(())
}

impl Run<'_> {
    /// Submits commands, as many as the window takes; those that must wait go with the next answer.
    fn submit(&mut self, number: usize, count: usize) -> Result<()> {
        let session = &mut self.sessions[number];
        for _ in 0..count {
            if !session.has_window() || (self.left == 0 && session.owed == 0) {
                break;
            }
            session.submit(self.maker.order()?);
            session.owed = session.owed.saturating_sub(1);
            self.left = self.left.saturating_sub(1);
            if self.load.sends == Sends::Each {
                session.send()?;
            }
        }
        session.send()
    }

    /// Reads what has arrived for a session, and keeps its queue full until the time is over. What
    /// a unit attention kept from being done, and what waits for the window, is sent after it, too.
    fn serve(
        &mut self,
        number: usize,
        buffer: &mut [u8],
        ended: &mut Vec<Ended>,
    ) -> Result<Received> {
        let received = self.sessions[number].receive(buffer, ended)?;
        let session = &mut self.sessions[number];
        for end in ended.drain(..) {
            match end {
                Ended::Good(microseconds) => {
                    self.histogram.record(microseconds);
                    session.news = 0;
                }
                Ended::UnitAttention => {
                    session.news += 1;
                    ensure!(session.news <= NEWS_MAX, NEWS_ONLY);
                    session.owed += 1;
                }
            }
        }
        let free = self.load.depth - session.in_flight();
        let over = Instant::now() >= self.deadline;
        let count = if over { free.min(session.owed) } else { free };
        self.submit(number, count)?;
        self.sessions[number].send()?;
        Ok(received)
    }

    fn one_session(&mut self) -> Result<()> {
        let (mut buffer, mut ended) = (vec![0; RECEIVE_BYTES], Vec::new());
        while self.sessions[0].in_flight() > 0 {
            let received = self.serve(0, &mut buffer, &mut ended)?;
            ensure!(received != Received::Nothing, SILENT);
        }
        Ok(())
    }

    fn all_sessions(&mut self) -> Result<()> {
        let mut poll = Poll::new()?;
        for (number, session) in self.sessions.iter().enumerate() {
            session.socket.set_nonblocking(true)?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            let socket = session.socket.as_raw_fd();
            poll.registry().register(&mut SourceFd(&socket), Token(number), interest)?;
        }
        let mut events = Events::with_capacity(self.sessions.len());
        let (mut buffer, mut ended) = (vec![0; RECEIVE_BYTES], Vec::new());
        let mut busy = self.sessions.len();
        while busy > 0 {
            poll.poll(&mut events, Some(times().command))?;
            ensure!(!events.is_empty(), SILENT);
            for event in &events {
                let number = event.token().0;
                let before = self.sessions[number].in_flight();
                while self.serve(number, &mut buffer, &mut ended)? == Received::FullBuffer {}
                busy -= usize::from(before > 0 && self.sessions[number].in_flight() == 0);
            }
        }
        Ok(())
    }

    fn figures(&self, seconds: f64, client_busy: f64) -> Figures {
        let operations = self.histogram.count();
        Figures {
            operations,
            seconds,
            per_second: operations as f64 / seconds,
            bytes_per_second: operations as f64 * self.load.bytes as f64 / seconds,
            p50_us: self.histogram.quantile(0.5),
            p99_us: self.histogram.quantile(0.99),
            p9999_us: self.histogram.quantile(0.9999),
            max_us: self.histogram.max(),
            client_busy,
        }
    }
}

/// Whether the bytes of a command go over the wire.
fn moves_data(work: Work) -> bool {
    match work {
        Work::RandomRead | Work::RandomWrite | Work::Mixed | Work::Read | Work::Write => true,
        Work::CompareAndWrite | Work::WriteLocks => true,
        Work::WriteSame | Work::Unmap | Work::ExtendedCopy => false,
    }
}

/// Repeats TEST UNIT READY until the array has told its news to a new session.
fn hear_news(session: &mut Session) -> Result<()> {
    let (mut buffer, mut ended) = (vec![0; 64 << 10], Vec::new());
    for _ in 0..NEWS_MAX {
        session.submit(Order::test_unit_ready());
        session.send()?;
        while session.in_flight() > 0 {
            let received = session.receive(&mut buffer, &mut ended)?;
            ensure!(received != Received::Nothing, SILENT);
        }
        if let Some(Ended::Good(_)) = ended.pop() {
            return Ok(());
        }
    }
    anyhow::bail!(NEWS_ONLY)
}

/// What a copy calls its source and its destination.
fn designators(load: &Load) -> Result<Option<Designators>> {
    use crate::initiator::session::{HeaderDigest, Session};
    if load.work != Work::ExtendedCopy {
        return Ok(None);
    }
    let target = load.url2.as_ref().context("a copy needs a second LUN")?;
    let naa = |url: &str| -> Result<Option<[u8; 16]>> {
        let name = "iqn.2026-11.io.gantry.host:lean-names";
        Ok(Session::connect(url, name, HeaderDigest::None)?.naa)
    };
    Ok(naa(&load.url)?.zip(naa(target)?))
}

/// Time that this thread has used its processor (proc(5), schedstat: nanoseconds).
fn processor_seconds() -> Result<f64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = text.split(' ').next().and_then(|number| number.parse::<f64>().ok());
    Ok(nanoseconds.context("schedstat begins with a number")? / 1e9)
}
