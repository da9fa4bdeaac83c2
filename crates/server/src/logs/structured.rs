//! Events of the log for systemd-journald (its native protocol) and for syslog (RFC 5424): a datagram
//! each, with level, module and fields apart from the sentence.

use std::fmt::{Debug, Write as _};
use std::process;

use rustix::system::uname;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::{Context, Layer};

use crate::limits::{LOG_LINE_BYTES_MAX, SYSLOG_BYTES_MAX};
use crate::options::LogFormat;

/// The program's name in both.
const NAME: &str = "gantryd";

/// The facility of daemons (RFC 5424 6.2.1).
const FACILITY: u8 = 3;

/// The longest name of a journal's field.
const FIELD_BYTES_MAX: usize = 64;

/// Severity of a level (RFC 5424 6.2.1), which systemd calls priority.
pub(super) fn severity(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// One event of the log.
#[derive(Debug)]
pub(super) struct Record<'a> {
    pub(super) level: Level,
    /// The module that speaks.
    pub(super) target: &'a str,
    pub(super) message: String,
    /// Names and values.
    pub(super) fields: Vec<(&'static str, String)>,
}

impl Record<'_> {
    /// The datagram of the format.
    pub(super) fn datagram(&self, format: LogFormat) -> Vec<u8> {
        match format {
            LogFormat::Journald => self.for_journald(),
            LogFormat::Syslog | LogFormat::Text | LogFormat::Json => self.for_syslog(),
        }
    }

    /// The sentence, and the fields behind it.
    fn text(&self) -> String {
        let mut text = self.message.clone();
        for (name, value) in &self.fields {
            let _ = write!(text, " {name}={value}");
        }
        text
    }

    /// The native protocol: NAME=VALUE lines, or a length before a value that has lines of its own.
    fn for_journald(&self) -> Vec<u8> {
        let mut datagram = Vec::new();
        let text = self.text();
        put(&mut datagram, "MESSAGE", &text[..text.floor_char_boundary(LOG_LINE_BYTES_MAX / 2)]);
        put(&mut datagram, "PRIORITY", &severity(self.level).to_string());
        put(&mut datagram, "SYSLOG_IDENTIFIER", NAME);
        put(&mut datagram, "TARGET", self.target);
        for (name, value) in &self.fields {
            let whole = datagram.len();
            put(&mut datagram, &field_name(name), value);
            // A datagram that is cut off anywhere else is none.
            if datagram.len() > LOG_LINE_BYTES_MAX {
                datagram.truncate(whole);
            }
        }
        datagram
    }

    /// A line; what would end it is escaped.
    fn for_syslog(&self) -> Vec<u8> {
        let mut time = String::new();
        let _ = SystemTime.format_time(&mut Writer::new(&mut time));
        let priority = FACILITY * 8 + severity(self.level);
        let system = uname();
        let machine = words(&system.nodename().to_string_lossy(), 255);
        let module = words(self.target, 32);
        let mut line =
            format!("<{priority}>1 {time} {machine} {NAME} {} {module} - ", process::id());
        for character in self.text().chars() {
            match character {
                _ if character.is_control() => line.extend(character.escape_default()),
                _ => line.push(character),
            }
        }
        line.truncate(line.floor_char_boundary(SYSLOG_BYTES_MAX));
        line.into_bytes()
    }
}

/// A part of the header: printable ASCII without spaces, or '-' (RFC 5424 6).
fn words(text: &str, bytes_max: usize) -> String {
    let printable = text.chars().filter(char::is_ascii_graphic).take(bytes_max);
    let part: String = printable.collect();
    if part.is_empty() { "-".to_owned() } else { part }
}

fn put(datagram: &mut Vec<u8>, name: &str, value: &str) {
    datagram.extend(name.as_bytes());
    if value.contains('\n') {
        datagram.push(b'\n');
        datagram.extend((value.len() as u64).to_le_bytes());
    } else {
        datagram.push(b'=');
    }
    datagram.extend(value.as_bytes());
    datagram.push(b'\n');
}

/// A field of ours under a name that journald takes: capitals, digits and '_', a letter first.
fn field_name(name: &str) -> String {
    let letter = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' => letter.to_ascii_uppercase(),
        _ => '_',
    };
    let name = name.chars().map(letter);
    "GANTRY_".chars().chain(name).take(FIELD_BYTES_MAX).collect()
}

/// Gives each event of `tracing` to the log as a datagram.
pub(super) struct Datagrams {
    pub(super) format: LogFormat,
    pub(super) enter: fn(Vec<u8>),
}

impl<S: Subscriber> Layer<S> for Datagrams {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut parts = Parts::default();
        event.record(&mut parts);
        let metadata = event.metadata();
        let record = Record {
            level: *metadata.level(),
            target: metadata.target(),
            message: parts.message,
            fields: parts.fields,
        };
        (self.enter)(record.datagram(self.format));
    }
}

/// Message and fields of an event.
#[derive(Default)]
struct Parts {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Visit for Parts {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("{value:?}"));
    }
}

impl Parts {
    fn put(&mut self, field: &Field, value: String) {
        if field.name() == "message" {
            self.message = value;
        } else {
            self.fields.push((field.name(), value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(message: &str) -> Record<'static> {
        Record {
            level: Level::WARN,
            target: "server::iscsi",
            message: message.to_owned(),
            fields: vec![
                ("initiator", "iqn.x".to_owned()),
                ("lost.bytes", "two\nlines".to_owned()),
            ],
        }
    }

    #[test]
    fn a_record_for_journald_has_fields_of_its_own() {
        let datagram = record("a session ended").datagram(LogFormat::Journald);
        let mut expected = b"MESSAGE\n".to_vec();
        let text = "a session ended initiator=iqn.x lost.bytes=two\nlines";
        expected.extend((text.len() as u64).to_le_bytes());
        expected.extend(format!("{text}\nPRIORITY=4\nSYSLOG_IDENTIFIER=gantryd\n").bytes());
        expected.extend(b"TARGET=server::iscsi\nGANTRY_INITIATOR=iqn.x\nGANTRY_LOST_BYTES\n");
        expected.extend(9_u64.to_le_bytes());
        expected.extend(b"two\nlines\n");
        assert_eq!(datagram, expected);
        let mut long = record(&"ü".repeat(LOG_LINE_BYTES_MAX));
        long.fields.push(("more", "x".repeat(LOG_LINE_BYTES_MAX)));
        let datagram = long.datagram(LogFormat::Journald);
        assert!(datagram.len() <= LOG_LINE_BYTES_MAX && datagram.ends_with(b"two\nlines\n"));
    }

    #[test]
    fn a_record_for_syslog_is_one_line_of_bounded_length() {
        let line =
            String::from_utf8(record("a session\r\nended").datagram(LogFormat::Syslog)).unwrap();
        let parts: Vec<&str> = line.splitn(8, ' ').collect();
        assert_eq!(
            (parts[0], parts[3], parts[5], parts[6]),
            ("<28>1", "gantryd", "server::iscsi", "-")
        );
        assert!(parts[1].ends_with('Z') && parts[4] == process::id().to_string(), "{line}");
        assert_eq!(parts[7], "a session\\r\\nended initiator=iqn.x lost.bytes=two\\nlines");
        let long = record(&"ü".repeat(SYSLOG_BYTES_MAX)).datagram(LogFormat::Syslog);
        assert!(long.len() <= SYSLOG_BYTES_MAX && String::from_utf8(long).is_ok());
    }

    #[test]
    fn levels_are_severities() {
        let levels = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
        assert_eq!(levels.map(severity), [3, 4, 6, 7, 7]);
    }
}
