//! iSCSI front end of the daemon: portals, connections, logins and sessions, and the way of their
//! commands to the device server and back. The protocol itself is the room `iscsi`, without sockets.
//!
//! What the array exports reaches hosts through here. Of the reactor it uses the poll, the clock, the
//! scheduler and the pools; the reactor calls the functions in this file and in `sockets`.

mod admission;
mod authentication;
mod commands;
mod connection;
mod evictions;
mod listeners;
mod logins;
mod options;
mod recovery;
mod refusals;
mod sessions;
mod sockets;
mod throttling;

use std::collections::BTreeSet;

use hashbrown::HashMap;
use iscsi::Share;
use scsi::NexusId;
use slab::Slab;

use crate::data_plane::DataPlane;
use crate::reactor::Ready;
use admission::Admission;
use listeners::Listener;
use refusals::Chatter;

pub(crate) use admission::Places;
pub(crate) use commands::ReadyCommand;
pub(crate) use connection::Connection;
pub(crate) use options::SessionOptions;
pub(crate) use refusals::{Reason, Refusals};
pub(crate) use sessions::{Session, Sessions};
pub(crate) use throttling::HeldCommand;

/// Portals, connections and sessions of initiators.
pub(crate) struct FrontEnd {
    listeners: Slab<Listener>,
    connections: Slab<Connection>,
    /// The slot of each connection's serial number.
    slots: HashMap<u32, usize>,
    last_serial: u32,
    /// Connections with something to say or to send.
    ready: Ready,
    /// Connections with something to read.
    readable: Ready,
    sessions: Sessions,
    /// Memory share of connections whose initiator has not logged in.
    newcomers: Share,
    options: SessionOptions,
    admission: Admission,
    /// Log lines about sessions.
    chatter: Chatter,
    /// Sessions whose LUN maps may have changed since they were told.
    untold: BTreeSet<NexusId>,
}

impl FrontEnd {
    /// No portal and no connection yet; of these there may be as many as open files allow.
    pub(crate) fn new(options: SessionOptions, connections_max: usize) -> Self {
        let budget = options.memory_budget();
        Self {
            listeners: Slab::new(),
            connections: Slab::new(),
            slots: HashMap::new(),
            last_serial: 0,
            ready: Ready::default(),
            readable: Ready::default(),
            sessions: Sessions::new(budget.clone()),
            newcomers: budget.share(),
            admission: Admission::new(options.quotas(connections_max)),
            options,
            chatter: Chatter::default(),
            untold: BTreeSet::new(),
        }
    }

    /// Whether the next turn of the loop has something to do here.
    pub(crate) fn has_more(&self) -> bool {
        !self.ready.is_empty()
            || !self.readable.is_empty()
            || !self.untold.is_empty()
            || self.listeners.iter().any(|(_, listener)| listener.has_more())
    }

    /// All sessions.
    pub(crate) const fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// All connections, by slot.
    pub(crate) const fn connections(&self) -> &Slab<Connection> {
        &self.connections
    }

    /// Counts connections, for administrators.
    pub(crate) fn count(&self, plane: &mut DataPlane) {
        plane.connections = self.admission.counts();
        plane.places = self.admission.places();
    }
}
