//! Destination of the log: standard error, or the socket of a log daemon, a datagram for each event.

use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::str::FromStr;

use super::lines::Output;
use crate::limits::OUTPUT_PATIENCE;
use crate::options::LogFormat;

/// Where journald takes its native protocol.
const JOURNALD: &str = "/run/systemd/journal/socket";

/// Where a syslog daemon of this machine takes messages.
const SYSLOG: &str = "/dev/log";

/// The address of a log daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogAddress {
    /// A socket of this machine.
    Unix(PathBuf),
    /// A machine that takes syslog over UDP (RFC 5426).
    Udp(SocketAddr),
}

impl FromStr for LogAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("unix", path)) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            Some(("udp", address)) => address.parse().map(Self::Udp).map_err(|_| {
                format!("'{address}' is not an IP address and a port, like 192.0.2.1:514")
            }),
            _ => Err("it begins with unix:/PATH or udp:IP:PORT".to_owned()),
        }
    }
}

/// An open way to where the log goes.
#[derive(Debug)]
pub(super) enum Destination {
    StandardError(Output),
    Unix(UnixDatagram, PathBuf),
    Udp(UdpSocket, SocketAddr),
}

impl Destination {
    /// Opens it. Nobody has to listen there yet.
    pub(super) fn open(format: LogFormat, address: Option<&LogAddress>) -> io::Result<Self> {
        let path = match (format, address) {
            (LogFormat::Text | LogFormat::Json, _) => {
                let output = io::stderr().as_fd().try_clone_to_owned()?;
                return Ok(Self::StandardError(Output(File::from(output))));
            }
            (_, Some(&LogAddress::Udp(address))) => {
                let any = match address {
                    SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
                    SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
                };
                return Ok(Self::Udp(UdpSocket::bind(any)?, address));
            }
            (_, Some(LogAddress::Unix(path))) => path.clone(),
            (LogFormat::Journald, None) => JOURNALD.into(),
            (LogFormat::Syslog, None) => SYSLOG.into(),
        };
        let socket = UnixDatagram::unbound()?;
        // A daemon that does not read holds the log up for no longer than that; the queue takes what
        // comes meanwhile.
        socket.set_write_timeout(Some(OUTPUT_PATIENCE))?;
        Ok(Self::Unix(socket, path))
    }
}

impl Write for Destination {
    /// Sends a whole datagram, without the end of a line. Addressed each time: a log daemon that is
    /// started anew has another socket.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = match self {
            Self::StandardError(output) => return output.write(bytes),
            Self::Unix(socket, path) => socket.send_to(bytes, path),
            Self::Udp(socket, address) => socket.send_to(bytes, *address),
        };
        // A datagram goes whole or not at all.
        sent.map(|_| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        assert_eq!("unix:/dev/log".parse(), Ok(LogAddress::Unix("/dev/log".into())));
        let far = "192.0.2.1:514".parse().map(LogAddress::Udp).map_err(|_| String::new());
        assert_eq!("udp:192.0.2.1:514".parse::<LogAddress>(), far);
        assert!("udp:[2001:db8::1]:514".parse::<LogAddress>().is_ok());
        for wrong in
            ["", "/dev/log", "unix:", "unix:log", "udp:", "udp:host:514", "tcp:192.0.2.1:1"]
        {
            assert!(wrong.parse::<LogAddress>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_daemon_that_comes_later_or_anew_is_reached() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let address = LogAddress::Unix(path.clone());
        let mut destination = Destination::open(LogFormat::Syslog, Some(&address)).unwrap();
        assert!(destination.write(b"lost").is_err());
        for _ in 0..2 {
            let socket = UnixDatagram::bind(&path).unwrap();
            destination.write_all(b"said").unwrap();
            let mut taken = [0; 16];
            assert_eq!(socket.recv(&mut taken).unwrap(), 4);
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_daemon_that_does_not_read_holds_nothing_up_for_long() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let _silent = UnixDatagram::bind(&path).unwrap();
        let mut destination =
            Destination::open(LogFormat::Journald, Some(&LogAddress::Unix(path))).unwrap();
        let refused = (0..10_000).find_map(|_| destination.write(&[b'x'; 4096]).err());
        assert!(refused.is_some());
    }
}
