//! Who is logged in: the I_T nexuses and their connections.

use hashbrown::HashMap;
use scsi::NexusId;

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
    /// Slot of the connection.
    pub(crate) connection: usize,
}

/// All sessions, by target session identifying handle (TSIH).
#[derive(Default)]
pub(crate) struct Sessions {
    by_tsih: HashMap<u16, Session>,
    last_tsih: u16,
    last_nexus: u64,
}

impl Sessions {
    /// Registers a session and returns its TSIH; `None` when all 65,535 handles are in use.
    pub(crate) fn open(
        &mut self,
        port: InitiatorPort,
        connection: usize,
    ) -> Option<(u16, NexusId)> {
        let tsih = self.unused_tsih()?;
        self.last_tsih = tsih;
        self.last_nexus += 1;
        let nexus = NexusId(self.last_nexus);
        self.by_tsih.insert(tsih, Session { port, nexus, connection });
        Some((tsih, nexus))
    }

    /// The session that an initiator port has. RFC 7143 6.3.5: a new login with TSIH 0 replaces it.
    pub(crate) fn of_port(&self, port: &InitiatorPort) -> Option<&Session> {
        self.by_tsih.values().find(|session| session.port == *port)
    }

    /// Forgets the session on a connection.
    pub(crate) fn close(&mut self, connection: usize) -> Option<Session> {
        let tsih = self.by_tsih.iter().find(|(_, session)| session.connection == connection);
        let tsih = *tsih?.0;
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
        let handles: Vec<u16> =
            (0..3).map(|slot| sessions.open(port(&slot.to_string()), slot).unwrap().0).collect();
        assert_eq!(handles, [u16::MAX, 1, 2]);
        assert_eq!(sessions.of_port(&port("1")).map(|session| session.connection), Some(1));
        assert!(sessions.close(1).is_some());
        assert!(sessions.of_port(&port("1")).is_none());
        assert!(sessions.close(1).is_none());
    }
}
