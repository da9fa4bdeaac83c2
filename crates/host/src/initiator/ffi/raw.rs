//! Direct system calls: polling sockets, and a file written in place without an engine, as a
//! yardstick.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use io_uring::{IoUring, opcode, types};
use serde::Serialize;

const BLOCK: usize = 4096;

/// The largest process id there is: PID_MAX_LIMIT of Linux.
const PROCESS_ID_MAX: libc::pid_t = 1 << 22;

/// Sockets on which something happened in so long at most, of those given with the events they
/// wait for.
pub(crate) fn poll(sockets: &[(i32, i16)], wait: Duration) -> Vec<(usize, i16)> {
    let mut polled: Vec<_> =
        sockets.iter().map(|&(fd, events)| libc::pollfd { fd, events, revents: 0 }).collect();
    // SAFETY: pointer and length belong to one vector.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds(wait)) };
    let events = polled.iter().map(|socket| socket.revents).enumerate();
    events.filter(|(_, events)| *events != 0).collect()
}

/// Processor time that a process took so far, its user's and the system's, of all its threads; of
/// this process without an id. None when there is no such process.
pub fn processor_time(process: Option<u32>) -> Option<Duration> {
    let mut clock = libc::CLOCK_PROCESS_CPUTIME_ID;
    if let Some(id) = process {
        // A larger number would be taken for another clock.
        let id = libc::pid_t::try_from(id).ok().filter(|id| (1..=PROCESS_ID_MAX).contains(id))?;
        // SAFETY: the clock's place is valid.
        if unsafe { libc::clock_getcpuclockid(id, &raw mut clock) } != 0 {
            return None;
        }
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is valid.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

/// As poll(2) wants it: at least one.
pub(crate) fn milliseconds(wait: Duration) -> i32 {
    i32::try_from(wait.as_millis()).unwrap_or(i32::MAX).max(1)
}

/// What came of it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BlockFigures {
    /// Blocks read or written.
    pub operations: u64,
    /// Seconds.
    pub seconds: f64,
    /// Blocks per second.
    pub per_second: f64,
}

/// Whether blocks are read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Read.
    Read,
    /// Written in place; each batch is followed by one fdatasync before it counts.
    DurableWrite,
}

/// Makes a file of `length` bytes, with every block written.
pub fn prepare(path: &Path, length: u64) -> Result<()> {
    use std::io::Write;
    let mut file = std::fs::File::create(path)?;
    let chunk = vec![0x5a_u8; 1 << 20];
    for _ in 0..length / chunk.len() as u64 {
        file.write_all(&chunk)?;
    }
    Ok(file.sync_all()?)
}

/// Reads or writes random blocks of a file, `depth` at once.
pub fn run(
    path: &Path,
    direction: Direction,
    depth: u32,
    duration: Duration,
) -> Result<BlockFigures> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_DIRECT);
    let file = options.open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let blocks = file.metadata()?.len() / BLOCK as u64;
    if blocks == 0 {
        bail!("{} is empty: prepare it with --length", path.display());
    }
    let mut ring = IoUring::new(depth)?;
    let mut memory = vec![0x33_u8; (depth as usize + 1) * BLOCK];
    let start = memory.as_mut_ptr().align_offset(BLOCK);
    let fd = types::Fd(file.as_raw_fd());
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let started = Instant::now();
    let mut operations = 0;
    while started.elapsed() < duration {
        for slot in 0..depth as usize {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let offset = state % blocks * BLOCK as u64;
            let address = memory[start + slot * BLOCK..].as_mut_ptr();
            let entry = match direction {
                Direction::Read => {
                    opcode::Read::new(fd, address, BLOCK as u32).offset(offset).build()
                }
                Direction::DurableWrite => {
                    opcode::Write::new(fd, address, BLOCK as u32).offset(offset).build()
                }
            };
            // SAFETY: the memory outlives the ring's use of it, which ends with the wait below.
            unsafe { ring.submission().push(&entry) }.context("the ring has room for its depth")?;
        }
        ring.submit_and_wait(depth as usize)?;
        for completion in ring.completion() {
            if completion.result() != BLOCK as i32 {
                bail!("an operation ended with {}", completion.result());
            }
        }
        if direction == Direction::DurableWrite {
            file.sync_data()?;
        }
        operations += u64::from(depth);
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(BlockFigures { operations, seconds, per_second: operations as f64 / seconds })
}
