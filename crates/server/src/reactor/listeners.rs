//! The sockets of the portals, which come and go while the array runs.

use std::io;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use mio::net::TcpListener;
use mio::{Interest, Token};

use super::{FIRST_LISTENER, Reactor};
use crate::limits::LOGOUT_PATIENCE;
use crate::management::PortalChange;

/// A portal's socket.
pub(super) struct Listener {
    address: SocketAddr,
    socket: TcpListener,
}

impl Reactor {
    /// Opens the portals of the command line, or fails, and those created later, as far as they can
    /// be opened: an address may have left the machine.
    pub(super) fn listen_at_start(&mut self, fixed: &[SocketAddr]) -> Result<()> {
        for &address in fixed {
            let socket = TcpListener::bind(address).with_context(|| {
                format!("cannot listen on --iscsi {address}: choose another one")
            })?;
            let address = socket.local_addr()?;
            self.management.portals.fixed.push(address);
            self.listen(address, socket)?;
        }
        let created: Vec<SocketAddr> =
            self.management.configuration.portals.keys().copied().collect();
        for address in created {
            let socket = TcpListener::bind(address).map_err(anyhow::Error::from);
            if let Err(error) = socket.and_then(|socket| self.listen(address, socket)) {
                tracing::error!(%address, %error, "a portal could not be opened");
            }
        }
        self.tell_ports();
        self.management.tell_path_states(&mut self.core.target);
        Ok(())
    }

    /// Tells the device server every target port, whether anybody came through it or not: hosts ask
    /// for all of them on each path (REPORT TARGET PORT GROUPS).
    fn tell_ports(&mut self) {
        let portals = self.management.portals().into_values();
        let open = portals.filter(|portal| portal.redirect.is_none());
        self.core.target.set_ports(open.map(|portal| (portal.group, portal.group)).collect());
    }

    fn listen(&mut self, address: SocketAddr, mut socket: TcpListener) -> Result<()> {
        let entry = self.listeners.vacant_entry();
        let token = Token(FIRST_LISTENER + entry.key());
        self.poll.registry().register(&mut socket, token, Interest::READABLE)?;
        entry.insert(Listener { address, socket });
        Ok(())
    }

    /// Opens and closes portals as the administrator wishes.
    pub(super) fn change_portals(&mut self) {
        let changes = self.management.take_portal_changes();
        if changes.is_empty() {
            return;
        }
        self.tell_ports();
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
        self.listeners.retain(|_, listener| listener.address != address);
        for (slot, connection) in &mut self.connections {
            if connection.portal == address {
                connection.iscsi.request_logout(LOGOUT_PATIENCE);
                self.ready.push(slot);
            }
        }
    }

    pub(super) fn accept(&mut self, listener: usize) {
        while let Some(Listener { address: portal, socket }) = self.listeners.get(listener) {
            let portal = *portal;
            match socket.accept() {
                Ok((socket, address)) => self.welcome(socket, address, portal),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    return;
                }
            }
        }
    }
}
