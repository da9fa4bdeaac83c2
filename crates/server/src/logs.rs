//! Non-blocking log on standard error, or to a log daemon: a bounded queue of lines, and one thread
//! that writes them.
//!
//! Nobody waits for the log. A line that finds the queue full, or that cannot be written (no space,
//! a closed pipe or terminal, an I/O error), is lost and counted; as soon as a line can be written
//! again, the log says how many were lost. Messages of panics go the same way.

mod destination;
mod lines;
mod structured;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGXFSZ};
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::limits::{LOG_BYTES_MAX, LOG_LINE_BYTES_MAX, LOG_LINES_MAX, OUTPUT_PATIENCE};
use crate::options::LogFormat;
use destination::Destination;
use lines::{Lines, Output};
use structured::{Datagrams, severity};

pub use destination::LogAddress;

/// The queue of the one log that a process has.
static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Lines that were lost since the daemon started.
static LOST: AtomicU64 = AtomicU64::new(0);

/// The log. When this value goes, what waits is written, if that takes less than a second.
#[derive(Debug)]
pub struct Log(());

/// Orders to the log thread.
#[derive(Debug)]
enum Order {
    Write(Vec<u8>),
    /// Everything before this is written, or lost: say so.
    Tell(SyncSender<()>),
}

#[derive(Debug)]
struct Queue {
    orders: SyncSender<Order>,
    /// Bytes of lines that wait.
    bytes: AtomicUsize,
    format: LogFormat,
}

/// Begins to write the log, and the messages of panics. What is written is chosen by GANTRY_LOG.
///
/// From here on a terminal that hangs up (SIGHUP) and a file that reaches the limit of its size
/// (SIGXFSZ) end the daemon as little as a closed pipe does: Rust ignores SIGPIPE.
pub fn start(format: LogFormat, address: Option<&LogAddress>) -> Log {
    for signal in [SIGHUP, SIGXFSZ] {
        // Registering fails only for signals that cannot be caught.
        let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
    let (orders, received) = sync_channel(LOG_LINES_MAX);
    let queue = Queue { orders, bytes: AtomicUsize::new(0), format };
    // A second start goes on with the first queue.
    if QUEUE.set(queue).is_ok() {
        let output = Destination::open(format, address);
        let thread = thread::Builder::new().name("log".to_owned());
        // Without a thread, or a descriptor for it, every line is lost, and counted.
        let _ = output.and_then(|output| {
            thread.spawn(move || carry_out(&received, Lines::new(output, format)))
        });
        std::panic::set_hook(Box::new(|panic| say(Level::ERROR, &describe(panic))));
        subscribe(format);
    }
    Log(())
}

fn subscribe(format: LogFormat) {
    let filter = EnvFilter::try_from_env("GANTRY_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    if format.is_datagrams() {
        let datagrams = Datagrams { format, enter };
        return tracing_subscriber::registry().with(filter).with(datagrams).init();
    }
    let to_journal = format == LogFormat::Text && goes_to_journal();
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Entrance { to_journal, level: None })
        // The library would write its own errors to standard error directly.
        .log_internal_errors(false)
        .with_ansi(false);
    match format {
        LogFormat::Json => log.json().flatten_event(true).init(),
        _ => log.init(),
    }
}

/// Whether standard error is a stream of systemd's journal, which takes a priority before each line
/// (sd-daemon(3)): the service manager names the stream's device and inode.
fn goes_to_journal() -> bool {
    let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    let own = rustix::fs::fstat(io::stderr());
    own.is_ok_and(|own| named == format!("{}:{}", own.st_dev, own.st_ino))
}

impl Log {
    /// Writes a line as it is, without time and level; as an error where events are datagrams.
    pub fn plain(&self, line: &str) {
        match QUEUE.get() {
            Some(queue) if queue.format.is_datagrams() => say(Level::ERROR, line),
            _ => enter(format!("{line}\n").into_bytes()),
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        flush();
    }
}

/// Waits until the lines so far are written, a second at most; to be called before the process
/// ends.
pub(crate) fn flush() {
    let Some(queue) = QUEUE.get() else { return };
    let deadline = Instant::now() + OUTPUT_PATIENCE;
    let (told, written) = sync_channel(1);
    let mut order = Order::Tell(told);
    while let Err(TrySendError::Full(back)) = queue.orders.try_send(order) {
        if Instant::now() > deadline {
            return;
        }
        order = back;
        thread::sleep(Duration::from_millis(5));
    }
    let _ = written.recv_timeout(deadline.saturating_duration_since(Instant::now()));
}

/// Lines of the log that were lost since the daemon started.
pub(crate) fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Puts a line into the queue, or counts it as lost. Never waits.
fn enter(mut line: Vec<u8>) {
    let Some(queue) = QUEUE.get() else { return };
    if line.len() > LOG_LINE_BYTES_MAX {
        line.truncate(LOG_LINE_BYTES_MAX - 1);
        line.push(b'\n');
    }
    let length = line.len();
    let waiting = queue.bytes.fetch_add(length, Ordering::Relaxed);
    let fits = waiting + length <= LOG_BYTES_MAX;
    if !fits || queue.orders.try_send(Order::Write(line)).is_err() {
        queue.bytes.fetch_sub(length, Ordering::Relaxed);
        LOST.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes a line without `tracing`, which may be what panics.
fn say(level: Level, message: &str) {
    if let Some(queue) = QUEUE.get() {
        enter(lines::formatted(queue.format, level, message));
    }
}

/// Text of a panic, with a backtrace if RUST_BACKTRACE is set.
fn describe(panic: &PanicHookInfo<'_>) -> String {
    let thread = thread::current();
    let name = thread.name().unwrap_or("without a name");
    let reason = panic.payload_as_str().unwrap_or("no reason given");
    let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
    let backtrace = Backtrace::capture();
    let trace = match backtrace.status() {
        BacktraceStatus::Captured => format!("\n{backtrace}"),
        _ => String::new(),
    };
    format!("the thread '{name}' panicked{place}: {reason}{trace}")
}

/// The thread: writes lines until the process ends.
fn carry_out<W: Write>(received: &Receiver<Order>, mut lines: Lines<W>) {
    for order in received {
        match order {
            Order::Write(line) => {
                if !lines.write(&line, LOST.load(Ordering::Relaxed)) {
                    LOST.fetch_add(1, Ordering::Relaxed);
                }
                if let Some(queue) = QUEUE.get() {
                    queue.bytes.fetch_sub(line.len(), Ordering::Relaxed);
                }
            }
            Order::Tell(told) => drop(told.try_send(())),
        }
    }
}

/// Where `tracing` puts its lines: each with one call.
#[derive(Clone, Copy)]
struct Entrance {
    /// Whether lines begin with their priority.
    to_journal: bool,
    level: Option<Level>,
}

impl MakeWriter<'_> for Entrance {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        *self
    }

    fn make_writer_for(&self, event: &Metadata<'_>) -> Self {
        Self { level: Some(*event.level()), ..*self }
    }
}

impl Write for Entrance {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self.level {
            Some(level) if self.to_journal => {
                enter([format!("<{}>", severity(level)).as_bytes(), line].concat());
            }
            _ => enter(line.to_vec()),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a text to standard output, in a thread of its own; a reader that stalls holds nothing up
/// for longer than a second.
///
/// # Errors
/// When it could not be written.
pub(crate) fn show(text: String) -> io::Result<()> {
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let (told, written) = sync_channel(1);
    thread::Builder::new().name("output".to_owned()).spawn(move || {
        let _ = told.send(Output(output).write_all(text.as_bytes()));
    })?;
    written.recv_timeout(OUTPUT_PATIENCE).unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

#[cfg(test)]
mod tests;
