//! Readiness probe by iSCSI login: logs in over loopback, up to the first answer of the target.
//!
//! It goes through the same listener, limits and checks as every host's, and asks for a discovery
//! session, with CHAP offered: an answer that asks for CHAP is one. The connection is closed before a
//! session comes to be, so that it leaves no session, line of the log or event behind. A redirection
//! counts as an answer. It takes no place of anybody: the reactor knows the socket that it comes from
//! ([`OwnLogin`]), and says itself for whom there is room.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Mutex;

use crate::heartbeat::{Heartbeat, OwnLogin};
use crate::limits::{PROBE_INTERVAL, PROBE_TIMEOUT, PROBED_PORTALS_MAX};

/// The name under which it logs in.
const INITIATOR: &str = "iqn.2026-11.io.gantry:readiness";

/// Bytes of a basic header segment (RFC 7143 11.2.1).
const HEADER_BYTES: usize = 48;

/// The latest answer, for a short time.
#[derive(Debug)]
pub(super) struct Probe {
    latest: Mutex<Option<(Instant, Result<(), String>)>>,
    heartbeat: Arc<Heartbeat>,
}

impl Probe {
    pub(super) fn new(heartbeat: Arc<Heartbeat>) -> Self {
        Self { latest: Mutex::default(), heartbeat }
    }

    /// Whether a login at one of these portals is answered; if not, why.
    pub(super) async fn check(&self, portals: &[SocketAddr]) -> Result<(), String> {
        let mut last = self.latest.lock().await;
        if let Some((at, result)) = &*last
            && at.elapsed() < PROBE_INTERVAL
        {
            return result.clone();
        }
        let own = self.heartbeat.own_login();
        let result = log_in_anywhere(portals, own).await;
        own.end();
        *last = Some((Instant::now(), result.clone()));
        result
    }
}

async fn log_in_anywhere(portals: &[SocketAddr], own: &OwnLogin) -> Result<(), String> {
    let mut reason = "there is no portal".to_owned();
    for &portal in portals.iter().take(PROBED_PORTALS_MAX) {
        let login = tokio::time::timeout(PROBE_TIMEOUT, log_in(reached_by(portal), own)).await;
        let late = || Err(format!("no answer within {} s", PROBE_TIMEOUT.as_secs()));
        match login.unwrap_or_else(|_| late()) {
            Ok(()) => return Ok(()),
            Err(why) => reason = format!("no login at the portal {portal}: {why}"),
        }
    }
    Err(reason)
}

/// A portal on all addresses is on loopback, too.
fn reached_by(portal: SocketAddr) -> SocketAddr {
    let ip = match portal.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, portal.port())
}

async fn log_in(portal: SocketAddr, own: &OwnLogin) -> Result<(), String> {
    let explain = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset => {
            "the connection was closed without an answer".to_owned()
        }
        _ => error.to_string(),
    };
    let exchange = async {
        let mut socket = connect(portal, own).await?;
        socket.write_all(&login_request()).await?;
        let mut answer = [0; HEADER_BYTES];
        socket.read_exact(&mut answer).await?;
        Ok(answer)
    };
    judge(&exchange.await.map_err(explain)?)
}

/// Connects from the address of the portal itself, and says before from where.
async fn connect(portal: SocketAddr, own: &OwnLogin) -> std::io::Result<TcpStream> {
    let socket = match portal {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    socket.bind(SocketAddr::new(portal.ip(), 0))?;
    own.begin(socket.local_addr()?);
    socket.connect(portal).await
}

/// RFC 7143 11.13: the Login Response.
fn judge(answer: &[u8; HEADER_BYTES]) -> Result<(), String> {
    let (opcode, class, detail) = (answer[0] & 0x3f, answer[36], answer[37]);
    match (opcode, class) {
        (0x23, 0 | 1) => Ok(()),
        (0x23, _) => Err(format!("refused with status {class:02x}{detail:02x}h")),
        _ => Err(format!("answered with PDU {opcode:02x}h")),
    }
}

/// RFC 7143 11.12: a Login Request in the stage of security negotiation, which it does not leave.
fn login_request() -> Vec<u8> {
    let keys =
        [("InitiatorName", INITIATOR), ("SessionType", "Discovery"), ("AuthMethod", "CHAP,None")];
    let text: String = keys.iter().map(|(key, value)| format!("{key}={value}\0")).collect();
    let mut request = vec![0; HEADER_BYTES];
    request[0] = 0x43;
    request[5..8].copy_from_slice(&(text.len() as u32).to_be_bytes()[1..]);
    // An ISID of the random format (10b).
    request[8] = 0x80;
    request.extend_from_slice(text.as_bytes());
    request.resize(request.len().next_multiple_of(4), 0);
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_of_a_target_that_does_not_refuse_counts() {
        let mut answer = [0; HEADER_BYTES];
        assert!(judge(&answer).is_err());
        answer[0] = 0x23;
        assert_eq!(judge(&answer), Ok(()));
        answer[36..38].copy_from_slice(&[1, 1]);
        assert_eq!(judge(&answer), Ok(()));
        answer[36..38].copy_from_slice(&[3, 2]);
        assert_eq!(judge(&answer), Err("refused with status 0302h".to_owned()));
    }

    #[test]
    fn a_portal_on_all_addresses_is_reached_by_loopback() {
        for (portal, expected) in [
            ("0.0.0.0:3260", "127.0.0.1:3260"),
            ("[::]:3260", "[::1]:3260"),
            ("192.0.2.7:860", "192.0.2.7:860"),
        ] {
            let reached = reached_by(portal.parse().expect("an address"));
            assert_eq!(reached.to_string(), expected);
        }
    }
}
