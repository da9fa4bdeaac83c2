//! Admission control carried out: accepts, refuses and evicts connections by the quotas of
//! `admission`, and reports refusals.

use std::net::SocketAddr;
use std::time::Duration;

use iscsi::{ClosedReason, LoginRequest};

use super::connection::Ending;
use super::refusals::Reason;
use crate::limits::LOGOUT_PATIENCE;
use crate::management::SessionEnd;
use crate::reactor::Reactor;

impl Reactor {
    /// Whether one more connection may come; the one that makes room for it is closed. The daemon's
    /// own look at whether it answers takes nobody's place, and none is closed for it.
    pub(super) fn make_room(&mut self, address: SocketAddr) -> bool {
        if self.heartbeat.own_login().is(address) {
            return true;
        }
        match self.iscsi.admission.room_for(address.ip()) {
            Ok(evicted) => {
                if let Some(slot) = evicted {
                    self.evict(slot, Reason::LoginRoom);
                }
                true
            }
            Err(reason) => {
                self.note_refusal(reason, address, "");
                false
            }
        }
    }

    /// A login becomes a discovery session, for which the oldest one may have to go.
    pub(super) fn begin_discovery(&mut self, slot: usize, request: &LoginRequest) {
        let evicted = self.iscsi.admission.discovers(slot, &request.initiator_name, self.now);
        if let Some(evicted) = evicted {
            self.evict(evicted, Reason::DiscoveryRoom);
        }
    }

    fn evict(&mut self, slot: usize, reason: Reason) {
        let Some(connection) = self.iscsi.connections.get(slot) else { return };
        let address = connection.address;
        let initiator = connection.iscsi.parameters().initiator_name.clone();
        self.note_refusal(reason, address, &initiator);
        self.close_connection(slot, reason.label());
    }

    /// Counts a refusal, and tells it no more often than anybody wants to read it.
    pub(super) fn note_refusal(&mut self, reason: Reason, address: SocketAddr, initiator: &str) {
        let told = self.plane.refusals.note(reason, address.ip(), initiator, self.now);
        if let Some(told) = told {
            let severity = api::Severity::Warning;
            self.management.events.note(severity, told.object, told.message);
        }
    }

    /// A connection says that it has ended.
    pub(super) fn note_end(&mut self, slot: usize, reason: ClosedReason) {
        let connection = &self.iscsi.connections[slot];
        let address = connection.address;
        let initiator = connection.iscsi.parameters().initiator_name.clone();
        let has_session = connection.nexus.is_some();
        let refusal = connection.refusal.or_else(|| Reason::of_end(reason));
        match refusal.filter(|_| !has_session) {
            Some(refusal) => self.note_refusal(refusal, address, &initiator),
            None => {
                if self.iscsi.chatter.may_tell(self.now) {
                    tracing::info!(%address, initiator, %reason, "connection fails");
                }
            }
        }
    }

    /// Closes discovery sessions that ask for nothing, and sums up what was left out of the log.
    pub(super) fn look_after_admission(&mut self, now: Duration) {
        let patience = Duration::from_secs(self.iscsi.options.discovery_timeout);
        for slot in self.iscsi.admission.idle_discovery(now, patience) {
            self.evict(slot, Reason::DiscoveryIdle);
        }
        self.plane.refusals.tick(now);
        self.iscsi.chatter.tick(now);
    }

    /// Ends sessions as the administrator wishes: their initiators are asked to log out (RFC 7143
    /// 11.9), and their connections close when they did or their time is up.
    pub(crate) fn end_unwanted_sessions(&mut self) -> bool {
        let ends = self.management.take_session_ends();
        for end in &ends {
            match end {
                SessionEnd::Handle(tsih) => self.end_sessions_where(|handle, _| handle == *tsih),
                SessionEnd::Initiators(names) => {
                    self.end_sessions_where(|_, name| names.contains(name));
                }
                SessionEnd::Discovery => {
                    for slot in self.iscsi.admission.discovery_sessions() {
                        self.close_connection(slot, "discovery wants another proof");
                    }
                }
            }
        }
        !ends.is_empty()
    }

    fn end_sessions_where(&mut self, is_meant: impl Fn(u16, &str) -> bool) {
        let mut slots = Vec::new();
        let mut lost = Vec::new();
        for (tsih, session) in self.iscsi.sessions.iter() {
            if is_meant(tsih, &session.port.name) {
                slots.extend(&session.connections);
                lost.extend(session.lost.is_some().then(|| session.port.clone()));
            }
        }
        for slot in slots {
            let connection = &mut self.iscsi.connections[slot];
            connection.ending = Ending::Session;
            connection.iscsi.request_logout(LOGOUT_PATIENCE);
            self.iscsi.ready.push(slot);
        }
        for ports in lost {
            if let Some(session) = self.iscsi.sessions.take_lost_of_port(&ports) {
                self.end_session(&session, "closed by the administrator");
            }
        }
    }
}
