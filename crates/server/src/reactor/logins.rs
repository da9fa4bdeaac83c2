//! Who comes in, who leaves, and what each may see.

use std::net::{IpAddr, SocketAddr};

use iscsi::{ConnectionConfig, LoginRequest, LoginStatus, TargetRecord, TargetSelection};
use scsi::NexusSpec;

use super::Reactor;
use crate::TARGET_PORTAL_GROUP_TAG;
use crate::sessions::InitiatorPort;

/// RFC 7143 11.13.3: the handle in the answer to a discovery login; such a session is never joined.
const DISCOVERY_TSIH: u16 = u16::MAX;

/// What every connection starts with.
pub(super) fn connection_config() -> ConnectionConfig {
    ConnectionConfig::default()
}

impl Reactor {
    /// Lets an initiator in, or tells it why not.
    pub(super) fn admit(&mut self, slot: usize, request: &LoginRequest) {
        let verdict = self.judge(slot, request);
        let connection = &mut self.connections[slot];
        match verdict {
            Ok(tsih) => connection.iscsi.login_accept(tsih, TARGET_PORTAL_GROUP_TAG),
            Err(status) => {
                let initiator = &request.initiator_name;
                tracing::info!(initiator, address = %connection.address, ?status, "login refused");
                connection.iscsi.login_reject(status);
            }
        }
    }

    fn judge(&mut self, slot: usize, request: &LoginRequest) -> Result<u16, LoginStatus> {
        if request.discovery {
            return Ok(DISCOVERY_TSIH);
        }
        let target = &self.management.configuration.target_name;
        if request.target_name.as_ref() != Some(target) {
            return Err(LoginStatus::NotFound);
        }
        if request.tsih != 0 {
            // Sessions have one connection each, so none can be joined.
            return Err(LoginStatus::SessionDoesNotExist);
        }
        let port = InitiatorPort { name: request.initiator_name.clone(), isid: request.isid };
        self.reinstate(&port);
        let address = self.connections[slot].address;
        let opened = self.sessions.open(port, slot, address);
        let (tsih, nexus) = opened.ok_or(LoginStatus::OutOfResources)?;
        self.open_nexus(nexus, request);
        self.connections[slot].nexus = Some(nexus);
        Ok(tsih)
    }

    /// RFC 7143 6.3.5: a login of an initiator port that has a session replaces that session.
    fn reinstate(&mut self, port: &InitiatorPort) {
        if let Some(old) = self.sessions.of_port(port).map(|session| session.connection) {
            self.close(old, "replaced by a new session of the same initiator port");
        }
    }

    fn open_nexus(&mut self, nexus: scsi::NexusId, request: &LoginRequest) {
        let luns = self.management.configuration.visible_luns(&request.initiator_name);
        let spec = NexusSpec {
            initiator_name: request.initiator_name.clone(),
            isid: request.isid,
            relative_target_port: 1,
            target_portal_group: TARGET_PORTAL_GROUP_TAG,
            luns,
        };
        self.core.target.open_nexus(nexus, spec);
    }

    /// Answers SendTargets: the one target, at the address the initiator used and the others.
    pub(super) fn send_targets(&mut self, slot: usize, selection: &TargetSelection) {
        let name = &self.management.configuration.target_name;
        let wanted = match selection {
            TargetSelection::All | TargetSelection::Current => true,
            TargetSelection::Named(wanted) => wanted == name,
        };
        let local = self.connections[slot].socket.local_addr().ok();
        let portals = self.management.portals.iter();
        let addresses = portals.map(|portal| reachable(*portal, local).to_string());
        let record = TargetRecord {
            name: name.clone(),
            addresses: addresses.map(|address| (address, TARGET_PORTAL_GROUP_TAG)).collect(),
        };
        let records = if wanted { vec![record] } else { Vec::new() };
        self.connections[slot].iscsi.send_targets_response(&records);
    }

    /// Every session sees its LUN map as it is now; the device server raises unit attentions where
    /// something changed.
    pub(super) fn tell_sessions_their_luns(&mut self) {
        for session in self.sessions.iter() {
            let luns = self.management.configuration.visible_luns(&session.port.name);
            self.core.target.set_luns(session.nexus, luns);
        }
    }

    pub(super) fn describe_sessions(&self) -> Vec<api::Session> {
        let describe = |session: &crate::sessions::Session| {
            let connection = &self.connections[session.connection];
            let luns = self.management.configuration.visible_luns(&session.port.name);
            api::Session {
                initiator: session.port.name.clone(),
                address: session.address.to_string(),
                luns: luns.into_keys().collect(),
                bytes_received: connection.received,
                bytes_sent: connection.sent,
            }
        };
        self.sessions.iter().map(describe).collect()
    }
}

/// A portal on all addresses is told as the one that the initiator reached.
fn reachable(portal: SocketAddr, local: Option<SocketAddr>) -> SocketAddr {
    let unspecified = match portal.ip() {
        IpAddr::V4(ip) => ip.is_unspecified(),
        IpAddr::V6(ip) => ip.is_unspecified(),
    };
    match local {
        Some(local) if unspecified => SocketAddr::new(local.ip(), portal.port()),
        _ => portal,
    }
}
