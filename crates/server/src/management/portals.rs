//! The sockets of portals, which the reactor owns, and what listeners ask of portals; `control`
//! decides which there are.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use array::Portal;
use control::portals;
use mio::net::TcpListener;

use super::Management;
use crate::TARGET_PORTAL_GROUP_TAG;
use crate::data_plane::DataPlane;
use crate::exports::ExportEvent;

/// A portal that is to be opened or closed; the reactor does it.
#[derive(Debug)]
pub(crate) enum PortalChange {
    Open(SocketAddr, TcpListener),
    Close(SocketAddr),
}

/// Where the array listens.
#[derive(Debug, Default)]
pub(crate) struct Portals {
    /// Given to the daemon at its start.
    fixed: portals::Portals,
    /// Opened for a change of the configuration that is not saved yet.
    unsaved: BTreeMap<SocketAddr, TcpListener>,
    /// What the reactor has not done yet.
    changes: Vec<PortalChange>,
}

impl Portals {
    /// Notes an address that was given to the daemon at its start.
    pub(crate) fn add_fixed(&mut self, address: SocketAddr) {
        self.fixed.insert(address, fixed());
    }

    pub(super) fn fixed(&self) -> portals::Portals {
        self.fixed.clone()
    }

    /// Keeps what was opened for a change until that is saved, or cannot be.
    pub(super) fn keep(&mut self, opened: BTreeMap<SocketAddr, TcpListener>) {
        self.unsaved.extend(opened);
    }

    /// Leaves a portal to the reactor whose change is saved.
    pub(super) fn open(&mut self, address: SocketAddr) {
        let listener = self.unsaved.remove(&address);
        self.changes.extend(listener.map(|listener| PortalChange::Open(address, listener)));
    }

    /// Has the reactor close a portal.
    pub(super) fn close(&mut self, address: SocketAddr) {
        self.changes.push(PortalChange::Close(address));
    }

    /// Closes what was opened for a change that could not be saved.
    pub(super) fn close_unsaved(&mut self, address: SocketAddr) {
        self.unsaved.remove(&address);
    }
}

impl Management {
    /// What the reactor has to open and close.
    pub(crate) fn take_portal_changes(&mut self) -> Vec<PortalChange> {
        std::mem::take(&mut self.portals.changes)
    }

    /// Every portal, by address and port.
    pub(crate) fn portals(&self) -> portals::Portals {
        portals::all(&self.configuration, &self.portals.fixed)
    }

    /// The portal that listens at an address; one that was just deleted is as the first ones were.
    pub(crate) fn portal(&self, address: SocketAddr) -> Portal {
        self.configuration.portals.get(&address).cloned().unwrap_or_else(fixed)
    }

    pub(super) fn describe_portals(&self) -> Vec<api::Portal> {
        portals::describe_all(&self.configuration, &self.portals.fixed)
    }

    pub(super) fn show_portal(&self, address: &str) -> Result<api::Portal, api::Problem> {
        portals::show(&self.configuration, &self.portals.fixed, address)
    }

    /// Tells front ends how well each target port group serves.
    pub(crate) fn tell_path_states(&self, plane: &mut DataPlane) {
        for (group, state) in self.configuration.path_states() {
            plane.exports.tell(&ExportEvent::PathState { group, state });
        }
    }
}

const fn fixed() -> Portal {
    Portal { group: TARGET_PORTAL_GROUP_TAG, redirect: None }
}
