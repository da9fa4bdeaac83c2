//! Portals that are created while the array runs, and the portal to which each redirects
//! initiators.

use core::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::Configuration;
use crate::ArrayError;
use crate::limits::PORTALS_MAX;

/// Settings of a portal beyond its address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Portal {
    /// The target portal group, 1 to 65,535 (RFC 7143 4.1.1).
    pub group: u16,
    /// Where initiators are sent instead of being let in ("target moved temporarily").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<SocketAddr>,
}

impl Configuration {
    /// Adds a portal. That the address is free is for the daemon to find out.
    pub fn create_portal(&mut self, address: SocketAddr, portal: Portal) -> Result<(), ArrayError> {
        if self.portals.contains_key(&address) {
            return Err(ArrayError::NameTaken { kind: "portal", name: address.to_string() });
        }
        if self.portals.len() >= PORTALS_MAX {
            return Err(ArrayError::TooMany { kind: "portals", max: PORTALS_MAX });
        }
        if portal.group == 0 || portal.redirect == Some(address) || address.port() == 0 {
            return Err(ArrayError::InvalidPortal);
        }
        self.portals.insert(address, portal);
        Ok(())
    }

    /// Removes a portal that was created.
    pub fn delete_portal(&mut self, address: SocketAddr) -> Result<(), ArrayError> {
        let not_found = || ArrayError::NotFound { kind: "portal", name: address.to_string() };
        self.portals.remove(&address).map(|_| ()).ok_or_else(not_found)
    }
}
