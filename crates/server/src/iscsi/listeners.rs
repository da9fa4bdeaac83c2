//! Listening sockets of the portals, which are opened and closed while the array runs.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use mio::net::TcpListener;
use mio::{Interest, Token};

use super::refusals::Reason;
use crate::limits::{ACCEPT_PAUSE, ACCEPTS_PER_TURN, LOGOUT_PATIENCE};
use crate::management::PortalChange;
use crate::reactor::{FIRST_LISTENER, Reactor};

/// A portal's socket.
pub(super) struct Listener {
    address: SocketAddr,
    socket: TcpListener,
    /// More connections may wait than were taken in this turn: the poll, which tells of each only
    /// once, will not say so again.
    has_more: bool,
    /// Set after the system could not give a connection: nothing is tried until then.
    rests_until: Option<Duration>,
}

impl Listener {
    /// Whether more connections may wait than were taken.
    pub(super) const fn has_more(&self) -> bool {
        self.has_more
    }
}

impl Reactor {
    /// Opens the portals of the command line, or fails, and those created later, as far as they can
    /// be opened: an address may have left the machine.
    pub(crate) fn listen_at_start(&mut self, fixed: &[SocketAddr]) -> Result<()> {
        for &address in fixed {
            let socket = TcpListener::bind(address).with_context(|| {
                format!("cannot listen on --iscsi {address}: choose another one")
            })?;
            let address = socket.local_addr()?;
            self.management.portals.add_fixed(address);
            self.listen(address, socket)?;
        }
        let created: Vec<SocketAddr> =
            self.management.configuration.portals.keys().copied().collect();
        let own = self.management.portals();
        for address in created.into_iter().filter(|address| own.contains_key(address)) {
            let socket = TcpListener::bind(address).map_err(anyhow::Error::from);
            if let Err(error) = socket.and_then(|socket| self.listen(address, socket)) {
                tracing::error!(%address, %error, "a portal could not be opened");
            }
        }
        self.management.tell_ports(&mut self.plane);
        self.management.tell_path_states(&mut self.plane);
        Ok(())
    }

    fn listen(&mut self, address: SocketAddr, mut socket: TcpListener) -> Result<()> {
        let entry = self.iscsi.listeners.vacant_entry();
        let token = Token(FIRST_LISTENER + entry.key());
        self.poll.registry().register(&mut socket, token, Interest::READABLE)?;
        // No event tells of connections that came before the socket was registered.
        entry.insert(Listener { address, socket, has_more: true, rests_until: None });
        Ok(())
    }

    /// Opens and closes portals as the administrator wishes.
    pub(crate) fn change_portals(&mut self) {
        let changes = self.management.take_portal_changes();
        if changes.is_empty() {
            return;
        }
        self.management.tell_ports(&mut self.plane);
        for change in changes {
            match change {
                PortalChange::Open(address, socket) => match self.listen(address, socket) {
                    Ok(()) => tracing::info!(%address, "portal opened"),
                    Err(error) => tracing::error!(%address, %error, "a portal could not be opened"),
                },
                PortalChange::Close(address) => self.close_portal(address),
            }
        }
    }

    /// RFC 7143 11.9: who came through the portal is asked to log out.
    fn close_portal(&mut self, address: SocketAddr) {
        tracing::info!(%address, "portal closed");
        self.iscsi.listeners.retain(|_, listener| listener.address != address);
        for (slot, connection) in &mut self.iscsi.connections {
            if connection.portal == address {
                connection.iscsi.request_logout(LOGOUT_PATIENCE);
                self.iscsi.ready.push(slot);
            }
        }
    }

    /// Takes connections that wait at a portal, as many as a turn may.
    pub(super) fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(Listener { address: portal, socket, has_more, rests_until }) =
                self.iscsi.listeners.get_mut(listener)
            else {
                return;
            };
            let portal = *portal;
            *has_more = false;
            if rests_until.is_some() {
                return;
            }
            match socket.accept() {
                Ok((socket, address)) => self.admit_connection(socket, address, portal),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_of_one_connection(&error) => {}
                // accept(2): open files, memory. What waits is still there afterwards.
                Err(error) => {
                    *rests_until = Some(self.now + ACCEPT_PAUSE);
                    tracing::debug!(%portal, %error, "a connection could not be accepted");
                    return self.note_refusal(Reason::Accept, portal, "");
                }
            }
        }
        if let Some(listener) = self.iscsi.listeners.get_mut(listener) {
            listener.has_more = true;
        }
    }

    /// Takes connections that came before the loop looked.
    pub(crate) fn accept_all(&mut self) {
        let listeners: Vec<usize> = self.iscsi.listeners.iter().map(|(key, _)| key).collect();
        listeners.into_iter().for_each(|listener| self.accept(listener));
    }

    /// Goes on where a turn was too short for all connections that wait.
    pub(crate) fn accept_more(&mut self) {
        let waiting = self.iscsi.listeners.iter().filter(|(_, listener)| listener.has_more);
        let waiting: Vec<usize> = waiting.map(|(key, _)| key).collect();
        waiting.into_iter().for_each(|listener| self.accept(listener));
    }

    /// Tries again at portals that have rested.
    pub(super) fn accept_again(&mut self, now: Duration) {
        for (_, listener) in &mut self.iscsi.listeners {
            if listener.rests_until.is_some_and(|until| until <= now) {
                listener.rests_until = None;
                listener.has_more = true;
            }
        }
        self.accept_more();
    }
}

/// accept(2): errors that were waiting on the new connection, or a signal.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionReset, HostUnreachable, Interrupted, NetworkDown,
        NetworkUnreachable,
    };
    matches!(
        error.kind(),
        ConnectionAborted
            | ConnectionReset
            | HostUnreachable
            | Interrupted
            | NetworkDown
            | NetworkUnreachable
    )
}
