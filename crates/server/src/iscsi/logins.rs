//! Session set-up and end: creates and removes the nexus, and gives it the LUNs of its host.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use array::{Access, VisibleLun};
use block::VolumeId;
use control::change::Touched;
use iscsi::{LoginRequest, LoginStatus, LoginTerms, SessionHandle, TargetRecord, TargetSelection};
use scsi::{NexusId, NexusSpec};

use super::sessions::{NexusPorts, Session};
use crate::limits::LUNS_TIME_PER_TURN;
use crate::reactor::Reactor;

/// RFC 7143 11.13.3: the handle in the answer to a discovery login; such a session is never joined.
const DISCOVERY_TSIH: u16 = u16::MAX;

impl Reactor {
    /// Tells an initiator what it must prove to be let in, or why it cannot.
    pub(super) fn admit_login(&mut self, slot: usize, request: &LoginRequest) {
        let portal = self.management.portal(self.iscsi.connections[slot].portal);
        let terms = self
            .check_target(request)
            .and_then(|()| Ok((self.requirement(request)?, self.session_to_join(slot, request)?)));
        let connection = &mut self.iscsi.connections[slot].iscsi;
        match (terms, portal.redirect) {
            (Err(status), _) => self.refuse(slot, status),
            (Ok(_), Some(elsewhere)) if !request.discovery => {
                connection.login_redirect(&elsewhere.to_string());
            }
            (Ok((authentication, session)), _) => connection.login_admit(LoginTerms {
                target_portal_group_tag: portal.group,
                authentication,
                session,
            }),
        }
    }

    /// Gives an initiator that has proved who it is its session.
    pub(super) fn accept_login(&mut self, slot: usize, request: &LoginRequest) {
        match self.make_session(slot, request) {
            Ok(tsih) => self.iscsi.connections[slot].iscsi.login_accept(tsih),
            Err(status) => self.refuse(slot, status),
        }
    }

    fn refuse(&mut self, slot: usize, status: LoginStatus) {
        self.iscsi.connections[slot].iscsi.login_reject(status);
    }

    fn check_target(&self, request: &LoginRequest) -> Result<(), LoginStatus> {
        let target = &self.management.configuration.target_name;
        if !request.discovery && request.target_name.as_ref() != Some(target) {
            return Err(LoginStatus::NotFound);
        }
        Ok(())
    }

    /// RFC 7143 6.3.1: with a TSIH the connection joins the session of its initiator port, in place
    /// of the connection with the same CID if there is one.
    fn session_to_join(
        &self,
        slot: usize,
        request: &LoginRequest,
    ) -> Result<Option<SessionHandle>, LoginStatus> {
        if request.discovery || request.tsih == 0 {
            return Ok(None);
        }
        let session = self.iscsi.sessions.of_handle(request.tsih, &self.ports(slot, request));
        let session = session.ok_or(LoginStatus::SessionDoesNotExist)?;
        let handle = self.session_handle(session).ok_or(LoginStatus::SessionDoesNotExist)?;
        let max = handle.parameters().max_connections as usize;
        if session.connections.len() >= max && self.with_cid(session, request.cid).is_none() {
            return Err(LoginStatus::TooManyConnections);
        }
        Ok(Some(handle))
    }

    fn session_handle(&self, session: &Session) -> Option<SessionHandle> {
        match session.connections.first() {
            Some(&slot) => Some(self.iscsi.connections[slot].iscsi.session()),
            None => session.lost.as_ref().map(|lost| lost.handle.clone()),
        }
    }

    pub(super) fn with_cid(&self, session: &Session, cid: u16) -> Option<usize> {
        let has_cid = |slot: &usize| self.iscsi.connections[*slot].iscsi.parameters().cid == cid;
        session.connections.iter().copied().find(has_cid)
    }

    /// Adds a connection to its session, which may have changed since the login began.
    fn join_session(&mut self, slot: usize, request: &LoginRequest) -> Result<u16, LoginStatus> {
        self.session_to_join(slot, request)?;
        let session = self.iscsi.sessions.of_handle(request.tsih, &self.ports(slot, request));
        let session = session.ok_or(LoginStatus::SessionDoesNotExist)?;
        let (nexus, host, share) = (session.nexus, session.host, session.share.clone());
        let replaced = self.with_cid(session, request.cid);
        for &other in session.connections.iter().chain(&[slot]) {
            self.iscsi.connections[other].shares_session = true;
        }
        self.iscsi.sessions.join(request.tsih, slot);
        self.iscsi.connections[slot].nexus = Some(nexus);
        self.iscsi.connections[slot].host = host;
        self.iscsi.connections[slot].iscsi.set_share(share);
        self.belongs(slot, host);
        if let Some(replaced) = replaced {
            self.replace(replaced);
        }
        Ok(request.tsih)
    }

    /// RFC 7143 6.3.4: at error recovery level 2 the commands of a connection that is reinstated may
    /// be taken over.
    fn replace(&mut self, slot: usize) {
        let reason = "replaced by a new connection of the same CID";
        match self.iscsi.connections[slot].iscsi.parameters().error_recovery_level {
            2.. => self.lose(slot, reason),
            _ => self.close_connection(slot, reason),
        }
    }

    fn make_session(&mut self, slot: usize, request: &LoginRequest) -> Result<u16, LoginStatus> {
        if request.discovery {
            self.begin_discovery(slot, request);
            return Ok(DISCOVERY_TSIH);
        }
        if request.tsih != 0 {
            self.session_to_join(slot, request)?;
            self.take_place(slot, request)?;
            return self.join_session(slot, request);
        }
        let ports = self.ports(slot, request);
        self.reinstate(&ports);
        self.take_place(slot, request)?;
        let host = self.management.configuration.host_of(&ports.name);
        let host = host.map_or_else(|| ports.name.clone(), str::to_owned);
        let opened = self.iscsi.sessions.open(ports, &host, slot);
        let (tsih, session) = opened.ok_or(LoginStatus::OutOfResources)?;
        let (nexus, number, share) = (session.nexus, session.host, session.share.clone());
        self.open_nexus(nexus, slot, request);
        self.plane.open_session(nexus.into(), number, &host);
        self.take_share(number, &host);
        let host = number;
        self.iscsi.connections[slot].nexus = Some(nexus);
        self.iscsi.connections[slot].host = host;
        self.iscsi.connections[slot].iscsi.set_share(share);
        self.belongs(slot, host);
        Ok(tsih)
    }

    /// Counts a connection of a normal session among those that its initiator may have.
    fn take_place(&mut self, slot: usize, request: &LoginRequest) -> Result<(), LoginStatus> {
        let name = &request.initiator_name;
        let is_known = self.management.configuration.host_of(name).is_some();
        self.iscsi.admission.begins_session(slot, name, is_known).map_err(|reason| {
            self.iscsi.connections[slot].refusal = Some(reason);
            LoginStatus::OutOfResources
        })
    }

    /// RFC 7143 6.3.5: a login of an initiator port that has a session with the target portal group
    /// replaces that session.
    fn reinstate(&mut self, ports: &NexusPorts) {
        let reason = "replaced by a new session of the same initiator port";
        if let Some(session) = self.iscsi.sessions.take_lost_of_port(ports) {
            self.end_session(&session, reason);
        }
        let old =
            self.iscsi.sessions.of_port(ports).and_then(|session| session.connections.first());
        if let Some(&old) = old {
            self.close(old, reason);
        }
    }

    /// Both ends of the session that a login asks for.
    fn ports(&self, slot: usize, request: &LoginRequest) -> NexusPorts {
        NexusPorts {
            name: request.initiator_name.clone(),
            isid: request.isid,
            target_portal_group: self.management.portal(self.iscsi.connections[slot].portal).group,
        }
    }

    /// RFC 7143 4.4.2: the SCSI target port is the iSCSI target in one target portal group, so the
    /// group's tag is a port identifier, too.
    fn open_nexus(&mut self, nexus: NexusId, slot: usize, request: &LoginRequest) {
        let group = self.management.portal(self.iscsi.connections[slot].portal).group;
        let luns = self.management.configuration.visible_luns(&request.initiator_name);
        let spec = NexusSpec {
            initiator_name: request.initiator_name.clone(),
            isid: request.isid,
            relative_target_port: group,
            target_portal_group: group,
            luns: volumes(&luns),
            switches_off: self
                .management
                .configuration
                .switches_off_of_initiator(&request.initiator_name),
        };
        let host = self.management.configuration.host_of(&request.initiator_name);
        self.plane.feed.open_session(nexus.into(), host.unwrap_or(&request.initiator_name));
        self.plane.exports.scsi.open_nexus(nexus, spec);
        self.plane.exports.scsi.set_host(nexus, host.unwrap_or(&request.initiator_name));
        let retired = self.management.configuration.retired_luns(&request.initiator_name);
        self.plane.exports.scsi.set_former_luns(nexus, retired);
        self.plane.exports.scsi.set_read_only(nexus, &read_only(&luns));
    }

    /// Answers SendTargets: in a discovery session the one target at every portal, the one that the
    /// initiator used first; in a normal session at the portals of its own group (RFC 7143 appendix
    /// C).
    pub(super) fn send_targets(&mut self, slot: usize, selection: &TargetSelection) {
        self.iscsi.admission.asks(slot, self.now);
        let name = &self.management.configuration.target_name;
        let wanted = match selection {
            TargetSelection::All | TargetSelection::Current => true,
            TargetSelection::Named(wanted) => wanted == name,
        };
        let local = self.iscsi.connections[slot].socket.local_addr().ok();
        let own = self.iscsi.connections[slot].portal;
        let own_group = self.management.portal(own).group;
        let mut portals: Vec<_> = self.management.portals_of_all().into_iter().collect();
        portals.retain(|(_, portal)| {
            *selection != TargetSelection::Current || portal.group == own_group
        });
        portals.sort_by_key(|(address, _)| *address != own);
        let addresses = portals
            .into_iter()
            .map(|(address, portal)| (reachable(address, local).to_string(), portal.group));
        let record = TargetRecord { name: name.clone(), addresses: addresses.collect() };
        let records = if wanted { vec![record] } else { Vec::new() };
        self.iscsi.connections[slot].iscsi.send_targets_response(&records);
    }

    /// Sessions whose LUN maps may be others than before are told some at a time, and each before
    /// its next command.
    pub(crate) fn luns_changed(&mut self, touched: &Touched) {
        if *touched == Touched::Nobody {
            return;
        }
        let initiators = touched.initiators(&self.management.configuration);
        let is_touched =
            |name: &str| initiators.as_ref().is_none_or(|initiators| initiators.contains(name));
        let sessions = self.iscsi.sessions.iter().map(|(_, session)| session);
        let touched = sessions.filter(|session| is_touched(&session.port.name));
        let touched: Vec<NexusId> = touched.map(|session| session.nexus).collect();
        drop(initiators);
        self.iscsi.untold.extend(touched);
    }

    /// Tells sessions their LUN maps until the turn's time for that is over.
    pub(crate) fn tell_some_luns(&mut self) {
        let began = Instant::now();
        while let Some(nexus) = self.iscsi.untold.pop_first() {
            self.tell_luns_of(nexus);
            if began.elapsed() >= LUNS_TIME_PER_TURN {
                return;
            }
        }
    }

    /// A session sees the LUN map as it is when its command comes.
    pub(super) fn tell_luns_before(&mut self, nexus: NexusId) {
        if self.iscsi.untold.remove(&nexus) {
            self.tell_luns_of(nexus);
        }
    }

    /// A session sees its LUN map, and what its host may use, as it is now; the device server raises unit attentions where
    /// something changed.
    fn tell_luns_of(&mut self, nexus: NexusId) {
        let Some(session) = self.iscsi.sessions.of_nexus(nexus) else { return };
        let luns = self.management.configuration.visible_luns(&session.port.name);
        self.plane.exports.scsi.set_luns(nexus, volumes(&luns));
        self.plane.exports.scsi.set_read_only(nexus, &read_only(&luns));
        let off = self.management.configuration.switches_off_of_initiator(&session.port.name);
        self.plane.exports.scsi.set_switches_off_of_nexus(nexus, off);
    }
}

fn volumes(luns: &BTreeMap<u16, VisibleLun>) -> BTreeMap<u16, VolumeId> {
    luns.iter().map(|(&lun, visible)| (lun, visible.volume)).collect()
}

fn read_only(luns: &BTreeMap<u16, VisibleLun>) -> BTreeSet<u16> {
    let read_only = luns.iter().filter(|(_, visible)| visible.access == Access::ReadOnly);
    read_only.map(|(&lun, _)| lun).collect()
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
