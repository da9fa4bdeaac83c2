//! Portals and the states of their groups: which addresses the array listens at, where they send
//! initiators, and how well each target portal group serves.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use api::{CreatePortal, Problem, ProblemKind, SetPathState};
use array::{AccessState, ArrayError, Configuration, Portal};

use crate::Effect;
use crate::change::{Answer, Applied, ConfigurationChange, Draft, Touched, View};
use crate::exports::ExportEvent;
use crate::problems::{bad_request, conflict, problem, refused};

/// Portals by address and port.
pub type Portals = BTreeMap<SocketAddr, Portal>;

/// A change of portals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The array listens at one more address.
    Create(SocketAddr, Portal),
    /// It listens there no more.
    Delete(SocketAddr),
    /// A target portal group serves otherwise. Hosts are told at once; sessions stay.
    State {
        /// The number of the group, not 0.
        group: u16,
        /// Its state.
        state: api::PathState,
    },
}

/// Reads the request for a portal.
///
/// # Errors
/// When one of its addresses is none.
pub fn create(request: &CreatePortal) -> Result<Change, Problem> {
    let (address, portal) = parse_portal(request)?;
    Ok(Change::Create(address, portal))
}

pub(crate) fn parse_portal(request: &CreatePortal) -> Result<(SocketAddr, Portal), Problem> {
    let address = parse(&request.address)?;
    let redirect = request.redirect.as_deref().map(parse).transpose()?;
    Ok((address, Portal { group: request.target_portal_group_tag, redirect }))
}

/// Reads the request for the end of a portal.
///
/// # Errors
/// When its address is none.
pub fn delete(address: &str) -> Result<Change, Problem> {
    parse(address).map(Change::Delete)
}

/// Reads the request for another state of a group, which is written as a decimal number.
///
/// # Errors
/// When it is not one from 1 to 65,535.
pub fn set_state(group: &str, request: SetPathState) -> Result<Change, Problem> {
    let group = group.parse().ok().filter(|&group: &u16| group > 0).ok_or_else(|| {
        bad_request(&"a target portal group is a number from 1 to 65535: write one of them")
    })?;
    Ok(Change::State { group, state: request.state })
}

/// Reads an address and port.
///
/// # Errors
/// When it is none.
pub fn parse(address: &str) -> Result<SocketAddr, Problem> {
    address.parse().map_err(|_| {
        bad_request(&format!(
            "'{address}' is not an address: write IP:PORT, an IPv6 address in brackets"
        ))
    })
}

impl ConfigurationChange for Change {
    fn apply(&self, draft: &mut Draft, _: u64, view: &dyn View) -> Result<Applied, Problem> {
        let array = &mut draft.array;
        match self {
            Self::Create(address, portal) => open(array, *address, portal, view),
            Self::Delete(address) => close(array, *address, view),
            Self::State { group, state } => {
                let answer = Answer::of(&SetPathState { state: *state })?;
                let effect = set_path_state(array, *group, parse_state(*state));
                Ok(Applied::new(Touched::Nobody, answer).with(vec![effect]))
            }
        }
    }
}

fn open(
    array: &mut Configuration,
    address: SocketAddr,
    portal: &Portal,
    view: &dyn View,
) -> Result<Applied, Problem> {
    let fixed = view.fixed_portals();
    if fixed.contains_key(&address) {
        let taken = ArrayError::NameTaken { kind: "portal", name: address.to_string() };
        return Err(refused(&taken));
    }
    view.listen(address).map_err(|error| {
        conflict(&format!("cannot listen on {address}: {error}: choose another address"))
    })?;
    array.create_portal(address, portal.clone()).map_err(|error| refused(&error))?;
    let answer = Answer::of(&describe(array, &fixed, address, portal))?;
    Ok(Applied {
        touched: Touched::Nobody,
        effects: vec![Effect::OpenPortal(address)],
        unsaved: vec![Effect::CloseUnsaved(address)],
        answer,
    })
}

fn close(
    array: &mut Configuration,
    address: SocketAddr,
    view: &dyn View,
) -> Result<Applied, Problem> {
    if view.fixed_portals().contains_key(&address) {
        return Err(problem(
            ProblemKind::PortalFixed,
            &"this portal was given at the daemon's start: start it without it",
        ));
    }
    array.delete_portal(address).map_err(|error| refused(&error))?;
    let closed = vec![Effect::ClosePortal(address)];
    Ok(Applied::new(Touched::Nobody, Answer::DONE).with(closed))
}

/// Sets the state of a group, and has front ends tell it.
pub(crate) fn set_path_state(array: &mut Configuration, group: u16, state: AccessState) -> Effect {
    array.set_path_state(group, state);
    Effect::Tell(ExportEvent::PathState { group, state })
}

/// Every portal: those that were given to the daemon at its start, and those of the configuration.
pub fn all(array: &Configuration, fixed: &Portals) -> Portals {
    let mut portals = fixed.clone();
    portals.extend(array.portals.clone());
    portals
}

/// Every portal as administrators see it, by address and port.
pub fn describe_all(array: &Configuration, fixed: &Portals) -> Vec<api::Portal> {
    let portals = all(array, fixed);
    portals.iter().map(|(address, portal)| describe(array, fixed, *address, portal)).collect()
}

/// The portal at an address, as administrators see it.
///
/// # Errors
/// When that is no address, or there is no portal.
pub fn show(array: &Configuration, fixed: &Portals, address: &str) -> Result<api::Portal, Problem> {
    let address = parse(address)?;
    let not_found = || {
        let name = address.to_string();
        refused(&ArrayError::NotFound { kind: "portal", name })
    };
    let portals = all(array, fixed);
    let portal = portals.get(&address).ok_or_else(not_found)?;
    Ok(describe(array, fixed, address, portal))
}

fn describe(
    array: &Configuration,
    fixed: &Portals,
    address: SocketAddr,
    portal: &Portal,
) -> api::Portal {
    api::Portal {
        address: address.to_string(),
        target_portal_group_tag: portal.group,
        state: describe_state(array.path_state(portal.group)),
        redirect: portal.redirect.map(|address| address.to_string()),
        fixed: fixed.contains_key(&address),
    }
}

/// The state of a group as administrators set it.
pub fn parse_state(state: api::PathState) -> AccessState {
    match state {
        api::PathState::ActiveOptimized => AccessState::ActiveOptimized,
        api::PathState::ActiveNonOptimized => AccessState::ActiveNonOptimized,
        api::PathState::Standby => AccessState::Standby,
        api::PathState::Unavailable => AccessState::Unavailable,
        api::PathState::Transitioning => AccessState::Transitioning,
    }
}

/// The state of a group as administrators see it.
pub fn describe_state(state: AccessState) -> api::PathState {
    match state {
        AccessState::ActiveOptimized => api::PathState::ActiveOptimized,
        AccessState::ActiveNonOptimized => api::PathState::ActiveNonOptimized,
        AccessState::Standby => api::PathState::Standby,
        AccessState::Unavailable => api::PathState::Unavailable,
        AccessState::Transitioning => api::PathState::Transitioning,
    }
}

#[cfg(test)]
mod tests;
