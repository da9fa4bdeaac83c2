//! Asymmetric logical unit access (SPC-4 5.15): states of target port groups, which change by
//! themselves (implicit), as the owner says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::command::{Ordering, Reservation, Row, Scope};
use crate::sense::{self, SenseCode};

/// SPC-4 table 314: ASYMMETRIC ACCESS STATE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessState {
    /// 0h: everything works, as fast as it can.
    #[default]
    ActiveOptimized,
    /// 1h: everything works.
    ActiveNonOptimized,
    /// 2h: only what does not need the medium works (02h/04h/0Bh).
    Standby,
    /// 3h: the same (02h/04h/0Ch).
    Unavailable,
    /// Fh: the state changes; only what tells of the logical unit works (02h/04h/0Ah).
    Transitioning,
}

/// Which states are reported as supported: T_SUP, U_SUP, S_SUP, AN_SUP, AO_SUP.
const SUPPORTED: u8 = 0x8f;

/// STATUS CODE: none, or changed by implicit behaviour.
const NOT_CHANGED: u8 = 0;
const CHANGED_IMPLICITLY: u8 = 2;

impl AccessState {
    const fn code(self) -> u8 {
        match self {
            Self::ActiveOptimized => 0x0,
            Self::ActiveNonOptimized => 0x1,
            Self::Standby => 0x2,
            Self::Unavailable => 0x3,
            Self::Transitioning => 0xf,
        }
    }

    /// Ends a command that does not work in this state.
    ///
    /// # Errors
    /// 02h/04h/0Ah, 0Bh or 0Ch.
    pub(crate) fn check(self, row: &Row) -> Result<(), SenseCode> {
        let tells = row.scope == Scope::AnyLun || row.reservation == Reservation::Allowed;
        // Without the medium: also TEST UNIT READY, RESERVE and RELEASE, as ESXi needs it.
        let needs_no_medium = matches!(row.ordering, Ordering::Immediate | Ordering::Reserve);
        match self {
            Self::ActiveOptimized | Self::ActiveNonOptimized => Ok(()),
            Self::Standby if !needs_no_medium => Err(sense::TARGET_PORT_IN_STANDBY_STATE),
            Self::Unavailable if !needs_no_medium => Err(sense::TARGET_PORT_IN_UNAVAILABLE_STATE),
            Self::Transitioning if !tells => Err(sense::ASYMMETRIC_ACCESS_STATE_TRANSITION),
            Self::Standby | Self::Unavailable | Self::Transitioning => Ok(()),
        }
    }
}

/// Every target port group and what is known of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortGroups {
    /// TARGET PORT GROUP of each RELATIVE TARGET PORT IDENTIFIER.
    ports: BTreeMap<u16, u16>,
    /// States that were ever told, by group.
    states: BTreeMap<u16, AccessState>,
}

impl PortGroups {
    /// Adds a port, or moves it to another group.
    pub(crate) fn add(&mut self, port: u16, group: u16) {
        self.ports.insert(port, group);
    }

    /// Replaces all ports, by port with its group; returns whether any is another.
    pub(crate) fn set(&mut self, ports: BTreeMap<u16, u16>) -> bool {
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

    pub(crate) fn state(&self, group: u16) -> AccessState {
        self.states.get(&group).copied().unwrap_or_default()
    }

    /// Changes a state; returns whether it was another one.
    pub(crate) fn set_state(&mut self, group: u16, state: AccessState) -> bool {
        let is_new = self.state(group) != state;
        if is_new {
            self.states.insert(group, state);
        }
        is_new
    }

    /// SPC-4 6.37: a target port group descriptor for each group.
    pub(crate) fn descriptors(&self) -> Vec<u8> {
        let mut groups = BTreeMap::<u16, Vec<u16>>::new();
        for (&port, &group) in &self.ports {
            groups.entry(group).or_default().push(port);
        }
        let mut data = Vec::new();
        for (group, ports) in groups {
            let was_changed = self.states.contains_key(&group);
            let status = if was_changed { CHANGED_IMPLICITLY } else { NOT_CHANGED };
            data.extend([self.state(group).code(), SUPPORTED]);
            data.extend(group.to_be_bytes());
            data.extend([0, status, 0, ports.len() as u8]);
            data.extend(ports.iter().flat_map(|port| u32::from(*port).to_be_bytes()));
        }
        data
    }
}
