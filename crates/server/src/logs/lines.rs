//! Partial writes of log lines to a descriptor that may accept nothing, a part of a line, or only
//! after a while.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::thread;
use std::time::Duration;

use rustix::process::getpgrp;
use rustix::termios::{LocalModes, tcgetattr, tcgetpgrp};
use serde_json::json;
use tracing::Level;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use super::structured::Record;
use crate::options::LogFormat;

/// How long a descriptor that does not block (O_NONBLOCK) rests before it is tried again.
const PAUSE: Duration = Duration::from_millis(10);

/// Writes lines, and tells how many were lost as soon as one could be written again.
pub(super) struct Lines<W> {
    output: W,
    format: LogFormat,
    /// Lost lines that the log has told of.
    told: u64,
    /// The last line was written in part.
    is_torn: bool,
}

impl<W: Write> Lines<W> {
    pub(super) fn new(output: W, format: LogFormat) -> Self {
        Self { output, format, told: 0, is_torn: false }
    }

    /// Writes a line; false if it is lost. `lost` is how many were lost before.
    pub(super) fn write(&mut self, line: &[u8], lost: u64) -> bool {
        if !self.write_whole(line) {
            return false;
        }
        if lost > self.told {
            let count = lost - self.told;
            let message = format!("lines of the log were lost lost={count} lost_in_all={lost}");
            if self.write_whole(&formatted(self.format, Level::WARN, &message)) {
                self.told = lost;
            }
        }
        true
    }

    fn write_whole(&mut self, line: &[u8]) -> bool {
        if self.is_torn && self.output.write_all(b"\n").is_err() {
            return false;
        }
        self.is_torn = false;
        let mut rest = line;
        while !rest.is_empty() {
            match self.output.write(rest) {
                Ok(length @ 1..) => rest = &rest[length..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => {
                    self.is_torn = rest.len() < line.len();
                    return false;
                }
            }
        }
        true
    }
}

/// A line as `tracing` would write it.
pub(super) fn formatted(format: LogFormat, level: Level, message: &str) -> Vec<u8> {
    let target = "server::logs";
    if format.is_datagrams() {
        let message = message.to_owned();
        return Record { level, target, message, fields: Vec::new() }.datagram(format);
    }
    let mut time = String::new();
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    let mut line = String::new();
    let _ = match format {
        LogFormat::Json => {
            let level = level.as_str();
            let line_of =
                json!({"timestamp": time, "level": level, "message": message, "target": target});
            writeln!(line, "{line_of}")
        }
        _ => writeln!(line, "{time} {level:>5} {target}: {message}"),
    };
    line.into_bytes()
}

/// A descriptor that we were given.
#[derive(Debug)]
pub(super) struct Output(pub(super) File);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if would_stop_us(&self.0) {
            return Err(ErrorKind::ResourceBusy.into());
        }
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(PAUSE),
                result => return result,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether this is a terminal that stops (SIGTTOU) programs in the background that write to it, and
/// we are one.
fn would_stop_us(output: &File) -> bool {
    let Ok(attributes) = tcgetattr(output) else { return false };
    attributes.local_modes.contains(LocalModes::TOSTOP)
        && tcgetpgrp(output).is_ok_and(|foreground| foreground != getpgrp())
}
