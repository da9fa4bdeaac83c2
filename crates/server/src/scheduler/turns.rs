//! Deficit round robin over hosts with commands that wait, and round robin over the sessions of each.
//! A host that has a larger share than others spends so many times as much in its turn.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::HostNumber;
use crate::limits::SHARE_BYTES;
use crate::work::{CommandId, SessionId};

/// Shares of hosts: so many times what a host gets that is not named here, 1 at least.
#[derive(Default)]
pub(crate) struct Shares(HashMap<HostNumber, u8>);

impl Shares {
    pub(crate) fn set(&mut self, host: HostNumber, share: u8) {
        if share > 1 {
            self.0.insert(host, share);
        } else {
            self.0.remove(&host);
        }
    }

    pub(super) fn of(&self, host: HostNumber) -> i64 {
        self.0.get(&host).copied().map_or(1, i64::from)
    }
}

/// A command and what its turn costs.
pub(crate) struct Entry<C> {
    pub(crate) id: CommandId,
    pub(crate) cost: i64,
    pub(crate) command: C,
}

/// A command that has its turn.
pub(crate) type Taken<C> = (HostNumber, SessionId, Entry<C>);

/// Hosts in the order of their turns, each with a command that waits.
pub(crate) struct Turns<C> {
    hosts: VecDeque<Host<C>>,
}

impl<C> Default for Turns<C> {
    fn default() -> Self {
        Self { hosts: VecDeque::new() }
    }
}

/// A host with commands that wait.
pub(super) struct Host<C> {
    pub(super) number: HostNumber,
    /// Deficit counter: bytes it may still spend in this round; negative if its last command cost
    /// more.
    credit: i64,
    /// Its sessions in the order of their turns.
    sessions: VecDeque<SessionQueue<C>>,
}

/// A session with commands that wait.
struct SessionQueue<C> {
    session: SessionId,
    commands: VecDeque<Entry<C>>,
}

impl<C> Turns<C> {
    pub(crate) fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    pub(super) fn any(&self, may_start: impl Fn(&Host<C>) -> bool) -> bool {
        self.hosts.iter().any(may_start)
    }

    /// A command waits behind all others of its session.
    pub(crate) fn push(&mut self, host: HostNumber, session: SessionId, entry: Entry<C>) {
        self.session(host, session).push_back(entry);
    }

    /// A command waits before all others of its session.
    pub(crate) fn push_first(&mut self, host: HostNumber, session: SessionId, entry: Entry<C>) {
        self.session(host, session).push_front(entry);
    }

    fn session(&mut self, number: HostNumber, session: SessionId) -> &mut VecDeque<Entry<C>> {
        let at = self.hosts.iter().position(|host| host.number == number).unwrap_or_else(|| {
            self.hosts.push_back(Host { number, credit: 0, sessions: VecDeque::new() });
            self.hosts.len() - 1
        });
        let sessions = &mut self.hosts[at].sessions;
        let at = sessions.iter().position(|queue| queue.session == session).unwrap_or_else(|| {
            sessions.push_back(SessionQueue { session, commands: VecDeque::new() });
            sessions.len() - 1
        });
        &mut sessions[at].commands
    }

    /// The command whose turn it is, of a host that may start one: a host has its turn until its share
    /// of the round is spent. There is such a host, or none has a command that waits.
    pub(super) fn take_next(
        &mut self,
        shares: &Shares,
        may_start: impl Fn(&Host<C>) -> bool,
    ) -> Option<Taken<C>> {
        let mut host = self.hosts.pop_front()?;
        while !may_start(&host) || !host.begins_turn(shares) {
            self.hosts.push_back(host);
            host = self.hosts.pop_front()?;
        }
        let number = host.number;
        let taken = host.take_next();
        if let Some((_, entry)) = &taken {
            host.credit -= entry.cost;
        }
        match host.sessions.is_empty() {
            true => {}
            false if host.credit > 0 => self.hosts.push_front(host),
            false => self.hosts.push_back(host),
        }
        taken.map(|(session, entry)| (number, session, entry))
    }

    /// The command whose turn it is.
    pub(crate) fn take(&mut self, shares: &Shares) -> Option<Taken<C>> {
        self.take_next(shares, |_| true)
    }

    /// Whether a command of a session waits that is meant.
    pub(crate) fn has(&self, session: SessionId, is_meant: impl Fn(&C) -> bool) -> bool {
        let sessions = self.hosts.iter().flat_map(|host| &host.sessions);
        let mut queues = sessions.filter(|queue| queue.session == session);
        queues.any(|queue| queue.commands.iter().any(|entry| is_meant(&entry.command)))
    }

    /// Takes out the commands of a session, or of all, that are unwanted; they had no turn.
    pub(crate) fn withdraw(
        &mut self,
        only: Option<SessionId>,
        mut is_unwanted: impl FnMut(&C) -> bool,
    ) -> Vec<Taken<C>> {
        let mut withdrawn = Vec::new();
        for host in &mut self.hosts {
            for queue in &mut host.sessions {
                if only.is_some_and(|only| queue.session != only) {
                    continue;
                }
                let (number, session) = (host.number, queue.session);
                for entry in std::mem::take(&mut queue.commands) {
                    if is_unwanted(&entry.command) {
                        withdrawn.push((number, session, entry));
                    } else {
                        queue.commands.push_back(entry);
                    }
                }
            }
        }
        self.forget_empty();
        withdrawn
    }

    /// Removes sessions and hosts without waiting commands from the round.
    fn forget_empty(&mut self) {
        for host in &mut self.hosts {
            host.sessions.retain(|session| !session.commands.is_empty());
        }
        self.hosts.retain(|host| !host.sessions.is_empty());
    }
}

impl<C> Host<C> {
    /// Whether it has its turn, with what is left of its share or with the share of a new round. A
    /// command that cost more than a share is paid for in rounds to come.
    fn begins_turn(&mut self, shares: &Shares) -> bool {
        if self.credit <= 0 {
            self.credit += SHARE_BYTES * shares.of(self.number);
        }
        self.credit > 0
    }

    /// Cost of its next command.
    pub(super) fn next_cost(&self) -> i64 {
        let next = self.sessions.front().and_then(|session| session.commands.front());
        next.map_or(0, |entry| entry.cost)
    }

    fn take_next(&mut self) -> Option<(SessionId, Entry<C>)> {
        let mut queue = self.sessions.pop_front()?;
        let entry = queue.commands.pop_front()?;
        let session = queue.session;
        if !queue.commands.is_empty() {
            self.sessions.push_back(queue);
        }
        Some((session, entry))
    }
}
