//! Where a request came from.

use std::net::SocketAddr;

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::net::{TcpListener, UnixListener};

use super::tls::TlsListener;

/// Where a request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The daemon's socket, whose file mode says who may open it.
    Socket,
    /// This address, not encrypted: it is this machine's.
    Plain(SocketAddr),
    /// This address, encrypted.
    Tls(SocketAddr),
}

impl Peer {
    /// How it came, in one word.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Plain(_) => "plain",
            Self::Tls(_) => "tls",
        }
    }

    /// For the audit log and for counting wrong passwords; without the port, which changes.
    pub(crate) fn source(self) -> String {
        match self {
            Self::Socket => String::new(),
            Self::Plain(address) | Self::Tls(address) => address.ip().to_canonical().to_string(),
        }
    }

    /// Whether the request came from another machine.
    pub(crate) fn is_far(self) -> bool {
        match self {
            Self::Socket | Self::Plain(_) => false,
            Self::Tls(address) => !address.ip().to_canonical().is_loopback(),
        }
    }
}

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(_: IncomingStream<'_, UnixListener>) -> Self {
        Self::Socket
    }
}

impl Connected<IncomingStream<'_, TcpListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        Self::Plain(*stream.remote_addr())
    }
}

impl Connected<IncomingStream<'_, TlsListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TlsListener>) -> Self {
        Self::Tls(*stream.remote_addr())
    }
}
