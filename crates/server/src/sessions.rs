//! Who is logged in: the I_T nexuses and their connections.

use hashbrown::HashMap;
use scsi::NexusId;

use crate::scheduler::HostNumber;

/// What makes an initiator port unique (RFC 7143 3.4.1): iSCSI name and ISID.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InitiatorPort {
    pub(crate) name: String,
    pub(crate) isid: [u8; 6],
}

/// A normal session in full-feature phase.
pub(crate) struct Session {
    pub(crate) port: InitiatorPort,
    pub(crate) nexus: NexusId,
    /// The host that the initiator belonged to at login, or its own name.
    host_name: String,
    /// The same for all sessions of the host.
    pub(crate) host: HostNumber,
    /// Slots of its connections, the oldest first; never empty.
    pub(crate) connections: Vec<usize>,
}

/// All sessions, by target session identifying handle (TSIH).
#[derive(Default)]
pub(crate) struct Sessions {
    by_tsih: HashMap<u16, Session>,
    /// The handle of each nexus.
    by_nexus: HashMap<NexusId, u16>,
    last_tsih: u16,
    last_nexus: u32,
    last_host: u64,
}

impl Sessions {
    /// Registers a session with one connection and returns its TSIH; `None` when all 65,535 handles
    /// are in use.
    pub(crate) fn open(
        &mut self,
        port: InitiatorPort,
        host_name: &str,
        connection: usize,
    ) -> Option<(u16, &Session)> {
        let tsih = self.unused_tsih()?;
        self.last_tsih = tsih;
        let nexus = self.unused_nexus();
        let host = self.host_number(host_name);
        let host_name = host_name.to_owned();
        let connections = vec![connection];
        self.by_nexus.insert(nexus, tsih);
        self.by_tsih.insert(tsih, Session { port, nexus, host_name, host, connections });
        Some((tsih, &self.by_tsih[&tsih]))
    }

    /// Numbers of 32 bits, so that a nexus and a task tag together name a command; they come round
    /// after four thousand million sessions.
    fn unused_nexus(&mut self) -> NexusId {
        loop {
            self.last_nexus = self.last_nexus.wrapping_add(1);
            let nexus = NexusId(self.last_nexus.into());
            if !self.by_nexus.contains_key(&nexus) {
                return nexus;
            }
        }
    }

    fn host_number(&mut self, name: &str) -> HostNumber {
        let known = self.by_tsih.values().find(|session| session.host_name == name);
        known.map(|session| session.host).unwrap_or_else(|| {
            self.last_host += 1;
            HostNumber(self.last_host)
        })
    }

    /// The session of a nexus.
    pub(crate) fn of_nexus(&self, nexus: NexusId) -> Option<&Session> {
        self.by_tsih.get(self.by_nexus.get(&nexus)?)
    }

    /// The session with a handle, if it belongs to that initiator port.
    pub(crate) fn of_handle(&self, tsih: u16, port: &InitiatorPort) -> Option<&Session> {
        self.by_tsih.get(&tsih).filter(|session| session.port == *port)
    }

    /// Adds a connection to a session that is there.
    pub(crate) fn join(&mut self, tsih: u16, connection: usize) {
        if let Some(session) = self.by_tsih.get_mut(&tsih) {
            session.connections.push(connection);
        }
    }

    /// The session that an initiator port has. RFC 7143 6.3.5: a new login with TSIH 0 replaces it.
    pub(crate) fn of_port(&self, port: &InitiatorPort) -> Option<&Session> {
        self.by_tsih.values().find(|session| session.port == *port)
    }

    /// The session that a connection belongs to.
    pub(crate) fn of_connection(&self, connection: usize) -> Option<&Session> {
        self.by_tsih.values().find(|session| session.connections.contains(&connection))
    }

    /// Takes a connection out of its session; returns the session if that was its last one and it
    /// is gone.
    pub(crate) fn leave(&mut self, connection: usize) -> Option<Session> {
        let mut sessions = self.by_tsih.iter_mut();
        let (&tsih, session) =
            sessions.find(|(_, session)| session.connections.contains(&connection))?;
        session.connections.retain(|&other| other != connection);
        if !session.connections.is_empty() {
            return None;
        }
        self.by_nexus.remove(&session.nexus);
        self.by_tsih.remove(&tsih)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_tsih.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &Session)> {
        self.by_tsih.iter().map(|(&tsih, session)| (tsih, session))
    }

    fn unused_tsih(&self) -> Option<u16> {
        let candidates = (1..=u16::MAX).map(|step| self.last_tsih.wrapping_add(step));
        candidates.filter(|&tsih| tsih != 0).find(|tsih| !self.by_tsih.contains_key(tsih))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str) -> InitiatorPort {
        InitiatorPort { name: name.to_owned(), isid: [0; 6] }
    }

    #[test]
    fn a_handle_is_never_zero_and_not_given_twice_at_once() {
        let mut sessions = Sessions { last_tsih: u16::MAX - 1, ..Sessions::default() };
        let handles: Vec<u16> = (0..3)
            .map(|slot| sessions.open(port(&slot.to_string()), "h", slot).unwrap().0)
            .collect();
        assert_eq!(handles, [u16::MAX, 1, 2]);
        let of_port = sessions.of_port(&port("1")).map(|session| session.connections.clone());
        assert_eq!(of_port, Some(vec![1]));
        assert!(sessions.leave(1).is_some());
        assert!(sessions.of_port(&port("1")).is_none());
        assert!(sessions.leave(1).is_none());
    }

    #[test]
    fn a_session_ends_with_its_last_connection() {
        let mut sessions = Sessions::default();
        let tsih = sessions.open(port("a"), "h", 4).unwrap().0;
        assert!(sessions.of_handle(tsih, &port("b")).is_none());
        sessions.join(tsih, 5);
        assert!(sessions.leave(4).is_none());
        assert!(sessions.of_connection(5).is_some());
        assert!(sessions.leave(5).is_some_and(|session| session.port == port("a")));
    }

    #[test]
    fn sessions_of_one_host_have_its_number() {
        let mut sessions = Sessions::default();
        let mut number =
            |name: &str, host: &str, slot| sessions.open(port(name), host, slot).unwrap().1.host;
        let numbers = [number("a", "h", 0), number("b", "g", 1), number("c", "h", 2)];
        assert!(numbers[0] == numbers[2] && numbers[0] != numbers[1]);
    }

    #[test]
    fn a_nexus_is_named_once() {
        let mut sessions = Sessions { last_nexus: u32::MAX - 1, ..Sessions::default() };
        let nexuses: Vec<u64> = (0..3)
            .map(|slot| sessions.open(port(&slot.to_string()), "h", slot).unwrap().1.nexus.0)
            .collect();
        assert_eq!(nexuses, [u64::from(u32::MAX), 0, 1]);
        assert!(sessions.of_nexus(NexusId(0)).is_some_and(|session| session.connections == [1]));
        sessions.leave(1);
        assert!(sessions.of_nexus(NexusId(0)).is_none());
    }
}
