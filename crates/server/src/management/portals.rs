//! The sockets of portals, which the reactor owns, and what listeners ask of portals; `control`
//! decides which there are.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use api::{CreatePortal, Problem};
use array::Portal;
use control::portals;
use mio::net::TcpListener;

use super::problems::conflict;
use super::{Management, Progress};
use crate::controller::Controller;
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
    /// Which controller of the array listens, and where others do.
    controller: Controller,
    /// Given to the daemon at its start.
    fixed: portals::Portals,
    /// Opened for a change of the configuration that is not saved yet.
    unsaved: BTreeMap<SocketAddr, TcpListener>,
    /// What the reactor has not done yet.
    changes: Vec<PortalChange>,
}

impl Portals {
    /// Those of a controller.
    pub(super) fn of(controller: Controller) -> Self {
        Self { controller, ..Self::default() }
    }

    /// Which controller listens.
    pub(crate) const fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Takes what other controllers told of their portals; returns whether that is new.
    pub(super) fn learn(&mut self, told: BTreeMap<u16, BTreeMap<SocketAddr, u16>>) -> bool {
        self.controller.learn(told)
    }

    const fn first(&self) -> Portal {
        Portal { group: self.controller.group(), redirect: None }
    }

    /// Notes an address that was given to the daemon at its start.
    pub(crate) fn add_fixed(&mut self, address: SocketAddr) {
        self.fixed.insert(address, self.first());
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

    /// Every portal of this controller, by address and port. One that a copied data directory brought,
    /// of a group that is another's, is not opened.
    pub(crate) fn portals(&self) -> portals::Portals {
        let mut portals = portals::all(&self.configuration, &self.portals.fixed);
        portals.retain(|_, portal| !self.portals.controller.is_of_another(portal.group));
        portals
    }

    /// Every portal of all controllers.
    pub(crate) fn portals_of_all(&self) -> portals::Portals {
        let mut portals = self.portals.controller.others();
        portals.extend(self.portals());
        portals
    }

    /// The portal that listens at an address; one that was just deleted is as the first ones were.
    pub(crate) fn portal(&self, address: SocketAddr) -> Portal {
        let created = self.configuration.portals.get(&address).cloned();
        created.unwrap_or_else(|| self.portals.first())
    }

    pub(super) fn create_portal(
        &mut self,
        plane: &DataPlane,
        request: &CreatePortal,
    ) -> Result<Progress, Problem> {
        self.check_group(request)?;
        self.make(plane, &portals::create(request)?)
    }

    /// # Errors
    /// When the target portal group is another controller's: hosts would take its state for this one's.
    pub(super) fn check_group(&self, portal: &CreatePortal) -> Result<(), Problem> {
        let group = portal.target_portal_group_tag;
        if !self.portals.controller.is_of_another(group) {
            return Ok(());
        }
        Err(conflict(&format!(
            "target portal group {group} is that of another controller: give the portal at {} the tag {}, \
             or one that no controller has",
            portal.address,
            self.portals.controller.group()
        )))
    }

    pub(super) fn describe_portals(&self) -> Vec<api::Portal> {
        portals::describe_all(&self.configuration, &self.portals.fixed)
    }

    pub(super) fn show_portal(&self, address: &str) -> Result<api::Portal, Problem> {
        portals::show(&self.configuration, &self.portals.fixed, address)
    }

    /// Tells front ends how well each target port group serves.
    pub(crate) fn tell_path_states(&self, plane: &mut DataPlane) {
        for (group, state) in self.configuration.path_states() {
            plane.exports.tell(&ExportEvent::PathState { group, state });
        }
    }
}
