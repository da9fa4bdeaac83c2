//! Sockets of the connections: reads and sends in fair turns, and closes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Token};

use super::connection::{Connection, Ending, Pause, bound_sending};
use crate::limits::{LOGOUT_PATIENCE, TURN_TIME};
use crate::reactor::{FIRST_CONNECTION, FIRST_LISTENER, Reactor};
use crate::scheduler::HostNumber;

impl Reactor {
    /// A socket of a portal or a connection is ready.
    pub(crate) fn apply_to_iscsi(&mut self, event: &Event) {
        let Token(token) = event.token();
        let Some(slot) = token.checked_sub(FIRST_CONNECTION) else {
            return self.accept(token - FIRST_LISTENER);
        };
        let Some(connection) = self.iscsi.connections.get_mut(slot) else { return };
        if event.is_writable() {
            connection.became_writable();
            self.iscsi.ready.push(slot);
        }
        if event.is_readable() {
            connection.became_readable(event.is_read_closed());
            self.iscsi.readable.push(slot);
        }
    }

    /// What happens by the clock.
    pub(crate) fn tick_iscsi(&mut self, now: Duration) {
        self.end_old_orphans(now);
        self.accept_again(now);
        self.look_after_admission(now);
        for (slot, connection) in &mut self.iscsi.connections {
            connection.iscsi.tick(now);
            connection.measure(now);
            self.iscsi.ready.push(slot);
        }
    }

    /// No more connections are taken, and all initiators are asked to log out.
    pub(crate) fn ask_for_logouts(&mut self) {
        self.iscsi.listeners.clear();
        for (slot, connection) in &mut self.iscsi.connections {
            connection.iscsi.request_logout(LOGOUT_PATIENCE);
            self.iscsi.ready.push(slot);
        }
    }

    /// Closes every connection.
    pub(crate) fn close_connections(&mut self, reason: &str) {
        let slots: Vec<usize> = self.iscsi.connections.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.close(slot, reason);
        }
    }

    /// Takes a new connection up, if its address may have one more.
    pub(super) fn admit_connection(
        &mut self,
        mut socket: TcpStream,
        address: SocketAddr,
        portal: SocketAddr,
    ) {
        if self.is_stopping() || !self.make_room(address) {
            return;
        }
        let entry = self.iscsi.connections.vacant_entry();
        let slot = entry.key();
        let token = Token(FIRST_CONNECTION + slot);
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = socket
            .set_nodelay(true)
            .and_then(|()| {
                bound_sending(&socket, Duration::from_secs(self.iscsi.options.send_timeout))
            })
            .and_then(|()| self.poll.registry().register(&mut socket, token, interest));
        if let Err(error) = registered {
            tracing::warn!(%address, %error, "a connection could not be set up");
            return;
        }
        self.iscsi.last_serial = self.iscsi.last_serial.wrapping_add(1);
        let iscsi = iscsi::Connection::new(
            self.iscsi.options.connection_config(self.iscsi.newcomers.clone()),
        );
        entry.insert(Connection::new(socket, address, portal, self.iscsi.last_serial, iscsi));
        self.iscsi.slots.insert(self.iscsi.last_serial, slot);
        self.iscsi.admission.came(slot, address.ip());
        self.belongs(slot, HostNumber(0));
        self.iscsi.readable.push(slot);
    }

    /// Says in whose turns a connection is read and sent.
    pub(super) fn belongs(&mut self, slot: usize, host: HostNumber) {
        self.iscsi.ready.belongs(slot, host);
        self.iscsi.readable.belongs(slot, host);
    }

    /// Reads from connections that may hold something, and acts on what they say, as long as the turn
    /// lasts.
    pub(crate) fn serve_ready_connections(&mut self) {
        let began = Instant::now();
        while let Some(slot) = self.iscsi.readable.pop() {
            self.serve(slot);
            if began.elapsed() >= TURN_TIME {
                return;
            }
        }
    }

    fn serve(&mut self, slot: usize) {
        let mut read_this_turn = 0;
        while let Some(connection) = self.iscsi.connections.get_mut(slot) {
            if !connection.may_receive(read_this_turn) {
                if connection.may_receive(0) {
                    self.iscsi.readable.push(slot);
                }
                break;
            }
            match connection.receive() {
                Ok(received) => read_this_turn += received,
                Err(Pause::WouldBlock) => break,
                Err(Pause::Closed(error)) => {
                    self.fail(slot, &error.to_string());
                    return;
                }
            }
            self.handle_events(slot);
        }
        self.iscsi.ready.push(slot);
        self.wake_siblings(slot);
    }

    /// Wakes other connections of a session: data on one may be what a request on another waits
    /// for.
    fn wake_siblings(&mut self, slot: usize) {
        if !self.iscsi.connections.get(slot).is_some_and(|connection| connection.shares_session) {
            return;
        }
        if let Some(session) = self.iscsi.sessions.of_connection(slot) {
            let siblings = session.connections.iter().copied();
            self.iscsi.ready.extend(siblings.filter(|&other| other != slot));
        }
    }

    /// Sends what waits on connections, as long as the turn lasts.
    pub(crate) fn send_ready_connections(&mut self) {
        let began = Instant::now();
        while let Some(slot) = self.iscsi.ready.pop() {
            self.send(slot);
            if began.elapsed() >= TURN_TIME {
                return;
            }
        }
    }

    /// Sends a part of what waits.
    fn send(&mut self, slot: usize) {
        self.handle_events(slot);
        let Some(connection) = self.iscsi.connections.get_mut(slot) else { return };
        if let Err(Pause::Closed(error)) = connection.send() {
            return self.fail(slot, &error.to_string());
        }
        if connection.iscsi.is_closed() && !connection.iscsi.wants_to_send() {
            return match connection.ending {
                Ending::Connection => self.close_connection(slot, "logged out"),
                Ending::Session => self.close(slot, "logged out"),
                Ending::Failure => self.fail(slot, "failed"),
            };
        }
        if connection.may_send() {
            self.iscsi.ready.push(slot);
        }
        if connection.may_receive(0) {
            self.iscsi.readable.push(slot);
        }
    }

    /// Closes a connection, and with it all others of its session.
    pub(super) fn close(&mut self, slot: usize, reason: &str) {
        let session = self.iscsi.sessions.of_connection(slot);
        let slots = session.map_or_else(|| vec![slot], |session| session.connections.clone());
        for slot in slots {
            self.close_connection(slot, reason);
        }
    }

    /// Closes one connection; its session goes on with the others.
    pub(super) fn close_connection(&mut self, slot: usize, reason: &str) {
        let Some(mut connection) = self.detach(slot, reason) else { return };
        if let Some(session) = self.iscsi.sessions.leave(slot) {
            self.end_session(&session, reason);
        } else {
            connection.iscsi.close();
            self.abort_tasks_of(&mut connection);
        }
    }

    /// Takes a connection off the poll.
    pub(super) fn detach(&mut self, slot: usize, reason: &str) -> Option<Connection> {
        let mut connection = self.iscsi.connections.try_remove(slot)?;
        self.iscsi.admission.left(slot);
        tracing::debug!(address = %connection.address, reason, "connection closed");
        let _ = self.poll.registry().deregister(&mut connection.socket);
        self.iscsi.slots.remove(&connection.serial);
        self.plane.traffic.received += connection.received;
        self.plane.traffic.sent += connection.sent;
        Some(connection)
    }
}
