//! Table of sessions: the I_T nexuses and their connections.

use std::collections::BTreeMap;
use std::time::Duration;

use hashbrown::HashMap;
use iscsi::{Budget, SessionHandle, Share};
use scsi::{NexusId, TaskId};

use crate::scheduler::HostNumber;

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
    /// The host that the initiator belonged to at login, or its own name.
    host_name: String,
    /// The same for all sessions of the host.
    pub(crate) host: HostNumber,
    /// Memory share of the sessions of its host.
    pub(crate) share: Share,
    /// Slots of its connections, the oldest first; empty only while it may be taken up again.
    pub(crate) connections: Vec<usize>,
    /// Set while it has no connection.
    pub(crate) lost: Option<Lost>,
    /// Commands whose connection has failed, by initiator task tag.
    pub(crate) orphans: BTreeMap<u32, Orphan>,
}

impl Session {
    /// Memory that its orphans hold, in bytes.
    pub(crate) fn orphan_bytes(&self) -> usize {
        self.orphans.values().map(|orphan| orphan.iscsi.bytes()).sum()
    }
}

/// State of the last connection of a session that may be continued.
pub(crate) struct Lost {
    pub(crate) handle: SessionHandle,
    /// The session ends then.
    pub(crate) until: Duration,
}

/// A command that may be taken over by another connection.
pub(crate) struct Orphan {
    pub(crate) iscsi: iscsi::Orphan,
    /// The command, if its data has not come yet.
    pub(crate) collecting: Option<scsi::Command>,
    /// Identifier of the connection that it had.
    pub(crate) cid: u16,
    /// Time at which the command is aborted.
    pub(crate) until: Duration,
}

impl Orphan {
    /// Stores the answer until another connection takes the command over.
    pub(crate) fn answered(self, completion: iscsi::Completion) -> Self {
        Self { iscsi: self.iscsi.answered(completion), collecting: None, ..self }
    }
}

/// All sessions, by target session identifying handle (TSIH).
#[derive(Default)]
pub(crate) struct Sessions {
    budget: Budget,
    by_tsih: HashMap<u16, Session>,
    /// The handle of each nexus.
    by_nexus: HashMap<NexusId, u16>,
    /// The handle of the session between two ports.
    by_port: HashMap<NexusPorts, u16>,
    /// The handle of the session that has a connection.
    by_connection: HashMap<usize, u16>,
    /// Hosts that have sessions.
    hosts: HashMap<String, KnownHost>,
    last_tsih: u16,
    last_nexus: u32,
    last_host: u64,
}

/// State shared by the sessions of one host.
struct KnownHost {
    number: HostNumber,
    share: Share,
    /// How many there are.
    sessions: usize,
}

impl Sessions {
    /// None yet; all of them together may hold a budget of memory.
    pub(crate) fn new(budget: Budget) -> Self {
        Self { budget, ..Self::default() }
    }

    /// Registers a session with one connection and returns its TSIH; `None` when all 65,535 handles
    /// are in use.
    pub(crate) fn open(
        &mut self,
        port: NexusPorts,
        host_name: &str,
        connection: usize,
    ) -> Option<(u16, &Session)> {
        let tsih = self.unused_tsih()?;
        self.last_tsih = tsih;
        let nexus = self.unused_nexus();
        let (host, share) = self.host(host_name);
        let host_name = host_name.to_owned();
        let connections = vec![connection];
        self.by_nexus.insert(nexus, tsih);
        self.by_port.insert(port.clone(), tsih);
        self.by_connection.insert(connection, tsih);
        let (lost, orphans) = (None, BTreeMap::new());
        let session = Session { port, nexus, host_name, host, share, connections, lost, orphans };
        self.by_tsih.insert(tsih, session);
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

    /// Number and share of a host: those of its other sessions, if it has any.
    fn host(&mut self, name: &str) -> (HostNumber, Share) {
        let Self { hosts, last_host, budget, .. } = self;
        let known = hosts.entry_ref(name).or_insert_with(|| {
            *last_host += 1;
            KnownHost { number: HostNumber(*last_host), share: budget.share(), sessions: 0 }
        });
        known.sessions += 1;
        (known.number, known.share.clone())
    }

    /// The number of a host that has sessions.
    pub(crate) fn number_of(&self, host: &str) -> Option<HostNumber> {
        self.hosts.get(host).map(|known| known.number)
    }

    /// Whether the host of a session that has ended has others.
    pub(crate) fn has_others(&self, ended: &Session) -> bool {
        self.hosts.get(&ended.host_name).is_some_and(|known| known.number == ended.host)
    }

    /// Forgets where a session was found, which is gone.
    fn forget(&mut self, tsih: u16, session: &Session) {
        self.by_nexus.remove(&session.nexus);
        // Another session may be between the ports by now.
        if self.by_port.get(&session.port) == Some(&tsih) {
            self.by_port.remove(&session.port);
        }
        for connection in &session.connections {
            self.by_connection.remove(connection);
        }
        if let Some(host) = self.hosts.get_mut(&session.host_name) {
            host.sessions -= 1;
            if host.sessions == 0 {
                self.hosts.remove(&session.host_name);
            }
        }
    }

    /// The session of a nexus.
    pub(crate) fn of_nexus(&self, nexus: NexusId) -> Option<&Session> {
        self.by_tsih.get(self.by_nexus.get(&nexus)?)
    }

    /// The session of a command, whose name begins with its nexus.
    pub(crate) fn of_task(&self, task: TaskId) -> Option<&Session> {
        self.of_nexus(NexusId(task.0 >> 32))
    }

    /// The same.
    pub(crate) fn of_task_mut(&mut self, task: TaskId) -> Option<&mut Session> {
        self.by_tsih.get_mut(self.by_nexus.get(&NexusId(task.0 >> 32))?)
    }

    /// The session with a handle.
    pub(crate) fn get(&self, tsih: u16) -> Option<&Session> {
        self.by_tsih.get(&tsih)
    }

    /// The session with a handle, if it is between those ports.
    pub(crate) fn of_handle(&self, tsih: u16, port: &NexusPorts) -> Option<&Session> {
        self.by_tsih.get(&tsih).filter(|session| session.port == *port)
    }

    /// Adds a connection to a session that is there.
    pub(crate) fn join(&mut self, tsih: u16, connection: usize) {
        if let Some(session) = self.by_tsih.get_mut(&tsih) {
            session.connections.push(connection);
            session.lost = None;
            self.by_connection.insert(connection, tsih);
        }
    }

    /// The session between two ports. RFC 7143 6.3.5: a new login with TSIH 0 replaces it.
    pub(crate) fn of_port(&self, port: &NexusPorts) -> Option<&Session> {
        self.by_tsih.get(self.by_port.get(port)?)
    }

    /// The session that a connection belongs to.
    pub(crate) fn of_connection(&self, connection: usize) -> Option<&Session> {
        self.by_tsih.get(self.by_connection.get(&connection)?)
    }

    /// The same.
    pub(crate) fn of_connection_mut(&mut self, connection: usize) -> Option<&mut Session> {
        self.by_tsih.get_mut(self.by_connection.get(&connection)?)
    }

    /// Takes a connection out of its session, which goes on; if it was the last one, until its time
    /// is up.
    pub(crate) fn lose(&mut self, connection: usize, lost: Lost) -> Option<&mut Session> {
        let tsih = self.by_connection.remove(&connection)?;
        let session = self.by_tsih.get_mut(&tsih)?;
        session.connections.retain(|&other| other != connection);
        if session.connections.is_empty() {
            session.lost = Some(lost);
        }
        Some(session)
    }

    /// Orphans whose time is up.
    pub(crate) fn take_old_orphans(&mut self, now: Duration) -> Vec<(TaskId, Orphan)> {
        let mut old = Vec::new();
        for session in self.by_tsih.values_mut().filter(|session| !session.orphans.is_empty()) {
            let nexus = session.nexus;
            let taken = session.orphans.extract_if(.., |_, orphan| orphan.until <= now);
            let named = |(tag, orphan)| (TaskId(nexus.0 << 32 | u64::from(tag)), orphan);
            old.extend(taken.map(named));
        }
        old
    }

    /// Sessions that had no connection for too long; they are gone.
    pub(crate) fn take_lost(&mut self, now: Duration) -> Vec<Session> {
        let is_over =
            |session: &Session| session.lost.as_ref().is_some_and(|lost| lost.until <= now);
        self.take_where(is_over)
    }

    /// The session of an initiator port that has no connection; it is gone.
    pub(crate) fn take_lost_of_port(&mut self, port: &NexusPorts) -> Option<Session> {
        let tsih = *self.by_port.get(port)?;
        let is_lost = self.by_tsih.get(&tsih).is_some_and(|session| session.lost.is_some());
        if is_lost { self.take(tsih) } else { None }
    }

    fn take_where(&mut self, is_meant: impl Fn(&Session) -> bool) -> Vec<Session> {
        let meant = self.by_tsih.iter().filter(|(_, session)| is_meant(session));
        let meant: Vec<u16> = meant.map(|(&tsih, _)| tsih).collect();
        meant.into_iter().filter_map(|tsih| self.take(tsih)).collect()
    }

    /// A session, which is gone.
    fn take(&mut self, tsih: u16) -> Option<Session> {
        let session = self.by_tsih.remove(&tsih)?;
        self.forget(tsih, &session);
        Some(session)
    }

    /// Takes a connection out of its session; returns the session if that was its last one and it
    /// is gone.
    pub(crate) fn leave(&mut self, connection: usize) -> Option<Session> {
        let tsih = self.by_connection.remove(&connection)?;
        let session = self.by_tsih.get_mut(&tsih)?;
        session.connections.retain(|&other| other != connection);
        if session.connections.is_empty() { self.take(tsih) } else { None }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.by_tsih.values_mut()
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

    /// What finds a session finds it no more when it is gone, and the session that took its place.
    #[test]
    fn nothing_is_left_of_a_session_that_is_gone() {
        let mut sessions = Sessions::default();
        let first = sessions.open(port("a"), "h", 1).unwrap().0;
        sessions.join(first, 2);
        let second = sessions.open(port("a"), "h", 3).unwrap().0;
        assert!(sessions.leave(1).is_none());
        assert!(sessions.leave(2).is_some());
        assert!(sessions.of_connection(1).is_none() && sessions.of_connection(2).is_none());
        let port = port("a");
        assert!(sessions.of_port(&port).is_some_and(|session| session.connections == [3]));
        assert!(sessions.of_handle(second, &port).is_some());
        sessions.leave(3);
        let Sessions { by_tsih, by_nexus, by_port, by_connection, hosts, .. } = sessions;
        assert!(by_tsih.is_empty() && by_nexus.is_empty() && by_port.is_empty());
        assert!(by_connection.is_empty() && hosts.is_empty());
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
