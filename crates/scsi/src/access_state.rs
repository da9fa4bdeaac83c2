//! Asymmetric logical unit access (SPC-4 5.15): states of target port groups, which change by
//! themselves (implicit), as the owner says; and of each logical unit at this controller and at others.

use std::collections::{BTreeMap, BTreeSet};

use sam::AccessState;

use crate::command::{Ordering, Reservation, Row, Scope};
use crate::sense::{self, SenseCode};

/// Which states are reported as supported: T_SUP, U_SUP, S_SUP, AN_SUP, AO_SUP.
const SUPPORTED: u8 = 0x8f;

/// STATUS CODE: none, or changed by implicit behaviour.
const NOT_CHANGED: u8 = 0;
const CHANGED_IMPLICITLY: u8 = 2;

const fn code(state: AccessState) -> u8 {
    match state {
        AccessState::ActiveOptimized => 0x0,
        AccessState::ActiveNonOptimized => 0x1,
        AccessState::Standby => 0x2,
        AccessState::Unavailable => 0x3,
        AccessState::Transitioning => 0xf,
    }
}

/// Ends a command that does not work in this state.
///
/// # Errors
/// 02h/04h/0Ah, 0Bh or 0Ch.
pub(crate) fn check(state: AccessState, row: &Row) -> Result<(), SenseCode> {
    let tells = row.scope == Scope::AnyLun || row.reservation == Reservation::Allowed;
    // Without the medium: also TEST UNIT READY, RESERVE and RELEASE, as ESXi needs it.
    let needs_no_medium = matches!(row.ordering, Ordering::Immediate | Ordering::Reserve);
    match state {
        AccessState::ActiveOptimized | AccessState::ActiveNonOptimized => Ok(()),
        AccessState::Standby if !needs_no_medium => Err(sense::TARGET_PORT_IN_STANDBY_STATE),
        AccessState::Unavailable if !needs_no_medium => {
            Err(sense::TARGET_PORT_IN_UNAVAILABLE_STATE)
        }
        AccessState::Transitioning if !tells => Err(sense::ASYMMETRIC_ACCESS_STATE_TRANSITION),
        AccessState::Standby | AccessState::Unavailable | AccessState::Transitioning => Ok(()),
    }
}

/// How one logical unit is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnitAccess {
    /// By this controller: active/optimized where its pool is open here.
    pub(crate) state: AccessState,
    /// Whether it was ever another one.
    pub(crate) was_changed: bool,
    /// By other controllers, in their groups, as they said themselves.
    told: BTreeMap<u16, AccessState>,
}

impl UnitAccess {
    /// Changes the state; returns whether it was another one.
    pub(crate) fn set(&mut self, state: AccessState) -> bool {
        let is_new = self.state != state;
        self.was_changed |= is_new;
        self.state = state;
        is_new
    }

    /// Takes what other controllers say of themselves, by group, in place of what they said before;
    /// returns whether it is something else.
    pub(crate) fn tell(&mut self, told: &BTreeMap<u16, AccessState>) -> bool {
        let is_new = self.told != *told;
        if is_new {
            self.was_changed = true;
            self.told.clone_from(told);
        }
        is_new
    }
}

/// The state at another controller that says nothing of itself, by the state here.
const fn of_silent(here: AccessState) -> AccessState {
    match here {
        AccessState::ActiveOptimized
        | AccessState::ActiveNonOptimized
        | AccessState::Transitioning => AccessState::Standby,
        AccessState::Standby | AccessState::Unavailable => AccessState::ActiveOptimized,
    }
}

/// Every target port group and what is known of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortGroups {
    /// TARGET PORT GROUP of each RELATIVE TARGET PORT IDENTIFIER.
    ports: BTreeMap<u16, u16>,
    /// Groups of other controllers: no nexus comes through them here.
    others: BTreeSet<u16>,
    /// States that were ever told, by group.
    states: BTreeMap<u16, AccessState>,
}

impl PortGroups {
    /// Adds a port, or moves it to another group.
    pub(crate) fn add(&mut self, port: u16, group: u16) {
        self.ports.insert(port, group);
    }

    /// Replaces all ports, by port with its group: this controller's, and those of others; returns
    /// whether any is another.
    pub(crate) fn set(&mut self, own: BTreeMap<u16, u16>, others: &BTreeMap<u16, u16>) -> bool {
        self.others = others.values().copied().collect();
        let mut ports = own;
        ports.extend(others);
        let is_new = self.ports != ports;
        self.ports = ports;
        is_new
    }

    /// All relative target port identifiers.
    pub(crate) fn ports(&self) -> impl Iterator<Item = u16> {
        self.ports.keys().copied()
    }

    /// The same, each with its target port group.
    pub(crate) fn ports_and_groups(&self) -> impl Iterator<Item = (u16, u16)> {
        self.ports.iter().map(|(port, group)| (*port, *group))
    }

    pub(crate) fn has_port(&self, port: u16) -> bool {
        self.ports.contains_key(&port)
    }

    fn state(&self, group: u16) -> AccessState {
        self.states.get(&group).copied().unwrap_or_default()
    }

    /// The state of a logical unit in a group. In this controller's groups it is what an
    /// administrator chose, unless the unit is not served here. Another controller's is what that one
    /// said. Of one that says nothing, standby is told while this one has the pool or opens it, and else
    /// that it is the one to be asked: this one cannot see how it serves. One that says it has what is
    /// served here spoke of before.
    pub(crate) fn state_of(&self, group: u16, access: &UnitAccess) -> AccessState {
        let is_served = access.state == AccessState::ActiveOptimized;
        let told = access.told.get(&group).copied().filter(|told| {
            !is_served
                || !matches!(told, AccessState::ActiveOptimized | AccessState::ActiveNonOptimized)
        });
        match (self.others.contains(&group), access.state) {
            (true, own) => told.unwrap_or(of_silent(own)),
            (false, AccessState::ActiveOptimized) => self.state(group),
            (false, state) => state,
        }
    }

    /// Changes a state; returns whether it was another one.
    pub(crate) fn set_state(&mut self, group: u16, state: AccessState) -> bool {
        let is_new = self.state(group) != state;
        if is_new {
            self.states.insert(group, state);
        }
        is_new
    }

    /// SPC-4 6.37: a target port group descriptor for each group, as one logical unit tells it.
    pub(crate) fn descriptors(&self, access: &UnitAccess) -> Vec<u8> {
        let mut groups = BTreeMap::<u16, Vec<u16>>::new();
        for (&port, &group) in &self.ports {
            groups.entry(group).or_default().push(port);
        }
        let mut data = Vec::new();
        for (group, ports) in groups {
            let was_changed = access.was_changed || self.states.contains_key(&group);
            let status = if was_changed { CHANGED_IMPLICITLY } else { NOT_CHANGED };
            data.extend([code(self.state_of(group, access)), SUPPORTED]);
            data.extend(group.to_be_bytes());
            data.extend([0, status, 0, ports.len() as u8]);
            data.extend(ports.iter().flat_map(|port| u32::from(*port).to_be_bytes()));
        }
        data
    }
}
