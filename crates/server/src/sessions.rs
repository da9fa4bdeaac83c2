//! Who is logged in: the I_T nexuses and their connections.

use hashbrown::HashMap;
use scsi::NexusId;

/// What makes an I_T nexus unique (RFC 7143 4.4.1): the initiator port, which is iSCSI name and ISID,
/// and the target portal group. Hosts use the same ISID through several groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NexusPorts {
    pub(crate) name: String,
    pub(crate) isid: [u8; 6],
    pub(crate) target_portal_group: u16,
}

/// A normal session in full-feature phase.
pub(crate) struct Session {
    pub(crate) port: NexusPorts,
    pub(crate) nexus: NexusId,
    /// Slots of its connections, the oldest first; never empty.
    pub(crate) connections: Vec<usize>,
}

/// All sessions, by target session identifying handle (TSIH).
#[derive(Default)]
pub(crate) struct Sessions {
    by_tsih: HashMap<u16, Session>,
    last_tsih: u16,
    last_nexus: u64,
}

impl Sessions {
    /// Registers a session with one connection and returns its TSIH; `None` when all 65,535 handles
    /// are in use.
    pub(crate) fn open(&mut self, port: NexusPorts, connection: usize) -> Option<(u16, NexusId)> {
        let tsih = self.unused_tsih()?;
        self.last_tsih = tsih;
        self.last_nexus += 1;
        let nexus = NexusId(self.last_nexus);
        self.by_tsih.insert(tsih, Session { port, nexus, connections: vec![connection] });
        Some((tsih, nexus))
    }

    /// The session with a handle, if it is between those ports.
    pub(crate) fn of_handle(&self, tsih: u16, port: &NexusPorts) -> Option<&Session> {
        self.by_tsih.get(&tsih).filter(|session| session.port == *port)
    }

    /// Adds a connection to a session that is there.
    pub(crate) fn join(&mut self, tsih: u16, connection: usize) {
        if let Some(session) = self.by_tsih.get_mut(&tsih) {
            session.connections.push(connection);
        }
    }

    /// The session between two ports. RFC 7143 6.3.5: a new login with TSIH 0 replaces it.
    pub(crate) fn of_port(&self, port: &NexusPorts) -> Option<&Session> {
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
        match session.connections.is_empty() {
            true => self.by_tsih.remove(&tsih),
            false => None,
        }
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

    fn port(name: &str) -> NexusPorts {
        NexusPorts { name: name.to_owned(), isid: [0; 6], target_portal_group: 1 }
    }

    #[test]
    fn a_handle_is_never_zero_and_not_given_twice_at_once() {
        let mut sessions = Sessions { last_tsih: u16::MAX - 1, ..Sessions::default() };
        let handles: Vec<u16> =
            (0..3).map(|slot| sessions.open(port(&slot.to_string()), slot).unwrap().0).collect();
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
        let (tsih, _) = sessions.open(port("a"), 4).unwrap();
        assert!(sessions.of_handle(tsih, &port("b")).is_none());
        sessions.join(tsih, 5);
        assert!(sessions.leave(4).is_none());
        assert!(sessions.of_connection(5).is_some());
        assert!(sessions.leave(5).is_some_and(|session| session.port == port("a")));
    }
}
