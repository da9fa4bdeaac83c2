//! Routes of portals: those given at the start, and those that are added and removed while the
//! array runs.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use api::{CreatePortal, Problem, ProblemKind, SetPathState};
use array::{AccessState, ArrayError, Configuration, Portal};
use mio::net::TcpListener;

use super::problems::{bad_request, conflict, problem, refused};
use super::{Management, Progress};
use crate::TARGET_PORTAL_GROUP_TAG;
use crate::data_plane::DataPlane;
use crate::exports::ExportEvent;

/// A portal that is to be opened or closed; the reactor, which owns the sockets, does it.
#[derive(Debug)]
pub(crate) enum PortalChange {
    Open(SocketAddr, TcpListener),
    Close(SocketAddr),
}

/// Where the array listens.
#[derive(Debug, Default)]
pub(crate) struct Portals {
    /// Given to the daemon at its start.
    pub(crate) fixed: Vec<SocketAddr>,
    /// What the reactor has not done yet.
    changes: Vec<PortalChange>,
}

impl Portals {
    /// Leaves a portal to the reactor.
    pub(super) fn change(&mut self, change: PortalChange) {
        self.changes.push(change);
    }
}

impl Management {
    /// What the reactor has to open and close.
    pub(crate) fn take_portal_changes(&mut self) -> Vec<PortalChange> {
        std::mem::take(&mut self.portals.changes)
    }

    /// Every portal, by address and port.
    pub(crate) fn portals(&self) -> BTreeMap<SocketAddr, Portal> {
        let fixed = self.portals.fixed.iter();
        let portal =
            |&address| (address, Portal { group: TARGET_PORTAL_GROUP_TAG, redirect: None });
        let mut portals: BTreeMap<_, _> = fixed.map(portal).collect();
        portals.extend(self.configuration.portals.clone());
        portals
    }

    /// The portal that listens at an address; one that was just deleted is as the first ones were.
    pub(crate) fn portal(&self, address: SocketAddr) -> Portal {
        let configured = self.configuration.portals.get(&address);
        configured.cloned().unwrap_or(Portal { group: TARGET_PORTAL_GROUP_TAG, redirect: None })
    }

    pub(super) fn describe_portals(&self) -> Vec<api::Portal> {
        let describe = |(address, portal): (SocketAddr, Portal)| api::Portal {
            address: address.to_string(),
            target_portal_group_tag: portal.group,
            state: describe_state(self.configuration.path_state(portal.group)),
            redirect: portal.redirect.map(|address| address.to_string()),
            fixed: self.portals.fixed.contains(&address),
        };
        self.portals().into_iter().map(describe).collect()
    }

    pub(super) fn show_portal(&self, address: &str) -> Result<api::Portal, Problem> {
        let address = parse(address)?.to_string();
        let found = self.describe_portals().into_iter().find(|portal| portal.address == address);
        found.ok_or_else(|| refused(&ArrayError::NotFound { kind: "portal", name: address }))
    }

    /// Opens the address first: a portal that cannot be opened is not saved.
    pub(super) fn create_portal(&mut self, request: &CreatePortal) -> Result<Progress, Problem> {
        let address = parse(&request.address)?;
        let redirect = request.redirect.as_deref().map(parse).transpose()?;
        let portal = Portal { group: request.target_portal_group_tag, redirect };
        if self.portals.fixed.contains(&address) {
            let taken = ArrayError::NameTaken { kind: "portal", name: address.to_string() };
            return Err(refused(&taken));
        }
        let listener = TcpListener::bind(address).map_err(|error| {
            conflict(&format!("cannot listen on {address}: {error}: choose another address"))
        })?;
        self.change(
            |configuration| configuration.create_portal(address, portal),
            move |management, _, ()| {
                management.portals.changes.push(PortalChange::Open(address, listener));
                let mut portals = management.describe_portals().into_iter();
                let created = portals.find(|portal| portal.address == address.to_string());
                Ok(Progress::answer(&created))
            },
        )
    }

    /// Hosts are told at once; sessions stay.
    pub(super) fn set_path_state(
        &mut self,
        group: &str,
        request: SetPathState,
    ) -> Result<Progress, Problem> {
        let group = group.parse().ok().filter(|&group: &u16| group > 0).ok_or_else(|| {
            bad_request(&"a target portal group is a number from 1 to 65535: write one of them")
        })?;
        let state = parse_state(request.state);
        let change = |configuration: &mut Configuration| {
            configuration.set_path_state(group, state);
            Ok(())
        };
        self.change(change, move |_, plane, ()| {
            plane.exports.tell(&ExportEvent::PathState { group, state });
            Ok(Progress::answer(&request))
        })
    }

    /// Tells front ends how well each target port group serves.
    pub(crate) fn tell_path_states(&self, plane: &mut DataPlane) {
        for (group, state) in self.configuration.path_states() {
            plane.exports.tell(&ExportEvent::PathState { group, state });
        }
    }

    pub(super) fn delete_portal(&mut self, address: &str) -> Result<Progress, Problem> {
        let address = parse(address)?;
        if self.portals.fixed.contains(&address) {
            return Err(problem(
                ProblemKind::PortalFixed,
                &"this portal was given at the daemon's start: start it without it",
            ));
        }
        self.change(
            |configuration| configuration.delete_portal(address),
            move |management, _, ()| {
                management.portals.changes.push(PortalChange::Close(address));
                Ok(Progress::done())
            },
        )
    }
}

pub(super) fn parse_state(state: api::PathState) -> AccessState {
    match state {
        api::PathState::ActiveOptimized => AccessState::ActiveOptimized,
        api::PathState::ActiveNonOptimized => AccessState::ActiveNonOptimized,
        api::PathState::Standby => AccessState::Standby,
        api::PathState::Unavailable => AccessState::Unavailable,
        api::PathState::Transitioning => AccessState::Transitioning,
    }
}

pub(super) fn describe_state(state: AccessState) -> api::PathState {
    match state {
        AccessState::ActiveOptimized => api::PathState::ActiveOptimized,
        AccessState::ActiveNonOptimized => api::PathState::ActiveNonOptimized,
        AccessState::Standby => api::PathState::Standby,
        AccessState::Unavailable => api::PathState::Unavailable,
        AccessState::Transitioning => api::PathState::Transitioning,
    }
}

pub(super) fn parse(address: &str) -> Result<SocketAddr, Problem> {
    address.parse().map_err(|_| {
        bad_request(&format!(
            "'{address}' is not an address: write IP:PORT, an IPv6 address in brackets"
        ))
    })
}
