//! Admission control of iSCSI connections: quotas by address, by initiator and by what a connection
//! has become, so that nobody fills the table of connections alone.
//!
//! Of all connections that there may be, half are for anybody, a quarter is kept for initiators of
//! configured hosts, and an eighth each may be logins under way and discovery sessions. If a
//! newcomer finds no room among the last two, the oldest connection of the address that has most of
//! them is closed. A login takes milliseconds, so this hits connections that only hold places.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use hashbrown::HashMap;

use super::refusals::Reason;
use crate::limits::{DISCOVERY_PER_INITIATOR_MAX, DISCOVERY_SESSIONS_MAX, LOGINS_UNDER_WAY_MAX};
use crate::source_address::source;

#[cfg(test)]
mod tests;

/// How many connections there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quotas {
    /// All together.
    total: usize,
    /// Those that have not finished login.
    logins: usize,
    /// Discovery sessions.
    discovery: usize,
    /// Connections of sessions whose initiator belongs to no configured host.
    strangers: usize,
    /// Of one address, whatever they are.
    per_address: usize,
    /// Connections of sessions of one initiator.
    per_initiator: usize,
}

impl Quotas {
    /// The shares of so many connections; none is less than one.
    pub(crate) fn new(total: usize, per_address: usize, per_initiator: usize) -> Self {
        let eighth = total / 8;
        Self {
            total,
            logins: eighth.clamp(1, LOGINS_UNDER_WAY_MAX),
            discovery: eighth.clamp(1, DISCOVERY_SESSIONS_MAX),
            strangers: (total - total / 4 - 2 * eighth).max(1),
            per_address: per_address.min(total),
            per_initiator,
        }
    }

    /// Connections of all sessions.
    const fn sessions(&self) -> usize {
        self.strangers + self.total / 4
    }
}

/// Whether there is room for another session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) connections_max: usize,
    /// Of an initiator that belongs to a configured host.
    pub(crate) known_hosts: bool,
    /// Of another initiator.
    pub(crate) strangers: bool,
}

/// Class of a connection, by how far its login has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    LoggingIn,
    Discovery,
    /// Of a normal session; whether its initiator belongs to a configured host.
    Session {
        is_known: bool,
    },
}

/// A connection.
#[derive(Debug)]
struct Entry {
    source: IpAddr,
    class: Class,
    /// Set when it has logged in.
    initiator: String,
    /// The order in which connections became what they are.
    order: u64,
    /// When a discovery session asked for something last.
    asked: Duration,
}

/// Connections of one address.
#[derive(Clone, Copy, Debug, Default)]
struct OfSource {
    all: usize,
    logging_in: usize,
    discovery: usize,
}

/// Connections of one initiator.
#[derive(Clone, Copy, Debug, Default)]
struct OfInitiator {
    discovery: usize,
    sessions: usize,
}

/// Every connection, counted.
#[derive(Debug)]
pub(crate) struct Admission {
    quotas: Quotas,
    entries: HashMap<usize, Entry>,
    sources: HashMap<IpAddr, OfSource>,
    initiators: HashMap<String, OfInitiator>,
    /// Slots of logins under way, the oldest first.
    logging_in: BTreeMap<u64, usize>,
    /// Slots of discovery sessions, the oldest first.
    discovery: BTreeMap<u64, usize>,
    strangers: usize,
    last_order: u64,
}

impl Admission {
    pub(crate) fn new(quotas: Quotas) -> Self {
        Self {
            quotas,
            entries: HashMap::new(),
            sources: HashMap::new(),
            initiators: HashMap::new(),
            logging_in: BTreeMap::new(),
            discovery: BTreeMap::new(),
            strangers: 0,
            last_order: 0,
        }
    }

    /// Whether one more connection of an address may come, and which one is to be closed first.
    ///
    /// # Errors
    /// Which quota is used up.
    pub(crate) fn room_for(&self, address: IpAddr) -> Result<Option<usize>, Reason> {
        let source = source(address);
        let of_source = self.sources.get(&source).copied().unwrap_or_default();
        if of_source.all >= self.quotas.per_address {
            let own = |entry: &Entry| entry.source == source;
            let evicted = self.oldest(&self.logging_in, own);
            let evicted = evicted.or_else(|| self.oldest(&self.discovery, own));
            return evicted.map(Some).ok_or(Reason::AddressQuota);
        }
        if self.logging_in.len() >= self.quotas.logins {
            return Ok(self.oldest_login());
        }
        if self.entries.len() >= self.quotas.total {
            let evicted = self.oldest_login().or_else(|| self.oldest_discovery());
            return evicted.map(Some).ok_or(Reason::ConnectionsMax);
        }
        Ok(None)
    }

    /// A connection came.
    pub(crate) fn came(&mut self, slot: usize, address: IpAddr) {
        let (source, order) = (source(address), self.next_order());
        let entry = Entry {
            source,
            class: Class::LoggingIn,
            initiator: String::new(),
            order,
            asked: Duration::ZERO,
        };
        self.entries.insert(slot, entry);
        self.logging_in.insert(order, slot);
        let counts = self.sources.entry(source).or_default();
        counts.all += 1;
        counts.logging_in += 1;
    }

    /// A connection becomes a discovery session; returns the one that is to be closed for it.
    pub(crate) fn discovers(
        &mut self,
        slot: usize,
        initiator: &str,
        now: Duration,
    ) -> Option<usize> {
        let of_initiator = self.initiators.get(initiator).copied().unwrap_or_default();
        let evicted = if of_initiator.discovery >= self.discovery_per_initiator() {
            self.oldest(&self.discovery, |entry| entry.initiator == initiator)
        } else if self.discovery.len() >= self.quotas.discovery {
            self.oldest_discovery()
        } else {
            None
        };
        self.becomes(slot, Class::Discovery, initiator);
        self.asks(slot, now);
        evicted
    }

    /// A connection becomes one of a normal session.
    ///
    /// # Errors
    /// Which quota is used up.
    pub(crate) fn begins_session(
        &mut self,
        slot: usize,
        initiator: &str,
        is_known: bool,
    ) -> Result<(), Reason> {
        let of_initiator = self.initiators.get(initiator).copied().unwrap_or_default();
        let sessions = self.entries.len() - self.logging_in.len() - self.discovery.len();
        if of_initiator.sessions >= self.quotas.per_initiator {
            return Err(Reason::InitiatorQuota);
        }
        if !is_known && self.strangers >= self.quotas.strangers {
            return Err(Reason::KnownHostsShare);
        }
        if sessions >= self.quotas.sessions() {
            return Err(Reason::ConnectionsMax);
        }
        self.becomes(slot, Class::Session { is_known }, initiator);
        Ok(())
    }

    /// A discovery session asks for something.
    pub(crate) fn asks(&mut self, slot: usize, now: Duration) {
        if let Some(entry) = self.entries.get_mut(&slot) {
            entry.asked = now;
        }
    }

    /// A connection is gone.
    pub(crate) fn left(&mut self, slot: usize) {
        let Some(entry) = self.entries.remove(&slot) else { return };
        self.uncount(&entry);
        if let Some(counts) = self.sources.get_mut(&entry.source) {
            counts.all -= 1;
            if counts.all == 0 {
                self.sources.remove(&entry.source);
            }
        }
    }

    /// Discovery sessions that asked for nothing for so long.
    pub(crate) fn idle_discovery(&self, now: Duration, patience: Duration) -> Vec<usize> {
        let slots = self.discovery.values().copied();
        let is_idle = |slot: &usize| now.saturating_sub(self.entries[slot].asked) >= patience;
        slots.filter(is_idle).collect()
    }

    /// Every discovery session.
    pub(crate) fn discovery_sessions(&self) -> Vec<usize> {
        self.discovery.values().copied().collect()
    }

    /// As many connections there may be, and for whom there is room.
    pub(crate) fn places(&self) -> Places {
        let [_, _, sessions] = self.counts();
        let has_room = sessions < self.quotas.sessions();
        Places {
            connections_max: self.quotas.total,
            known_hosts: has_room,
            strangers: has_room && self.strangers < self.quotas.strangers,
        }
    }

    /// Connections: logging in, of discovery sessions, of normal sessions.
    pub(crate) fn counts(&self) -> [usize; 3] {
        let (logins, discovery) = (self.logging_in.len(), self.discovery.len());
        [logins, discovery, self.entries.len() - logins - discovery]
    }

    fn discovery_per_initiator(&self) -> usize {
        DISCOVERY_PER_INITIATOR_MAX.min(self.quotas.discovery)
    }

    fn next_order(&mut self) -> u64 {
        self.last_order += 1;
        self.last_order
    }

    fn becomes(&mut self, slot: usize, class: Class, initiator: &str) {
        let order = self.next_order();
        let Some(mut entry) = self.entries.remove(&slot) else { return };
        self.uncount(&entry);
        entry.class = class;
        entry.order = order;
        initiator.clone_into(&mut entry.initiator);
        let of_initiator = self.initiators.entry(initiator.to_owned()).or_default();
        match class {
            Class::Discovery => {
                of_initiator.discovery += 1;
                self.discovery.insert(order, slot);
                self.sources.entry(entry.source).or_default().discovery += 1;
            }
            Class::Session { is_known } => {
                of_initiator.sessions += 1;
                self.strangers += usize::from(!is_known);
            }
            Class::LoggingIn => unreachable!("a connection begins as that and never returns to it"),
        }
        self.entries.insert(slot, entry);
    }

    /// Takes a connection out of the counts of what it is.
    fn uncount(&mut self, entry: &Entry) {
        let of_source = self.sources.entry(entry.source).or_default();
        let of_initiator = self.initiators.get_mut(&entry.initiator);
        match (entry.class, of_initiator) {
            (Class::LoggingIn, _) => {
                self.logging_in.remove(&entry.order);
                of_source.logging_in -= 1;
            }
            (Class::Discovery, of_initiator) => {
                self.discovery.remove(&entry.order);
                of_source.discovery -= 1;
                of_initiator.into_iter().for_each(|counts| counts.discovery -= 1);
            }
            (Class::Session { is_known }, of_initiator) => {
                self.strangers -= usize::from(!is_known);
                of_initiator.into_iter().for_each(|counts| counts.sessions -= 1);
            }
        }
        let is_over = |counts: &OfInitiator| counts.discovery + counts.sessions == 0;
        if self.initiators.get(&entry.initiator).is_some_and(is_over) {
            self.initiators.remove(&entry.initiator);
        }
    }

    fn oldest(
        &self,
        of: &BTreeMap<u64, usize>,
        is_meant: impl Fn(&Entry) -> bool,
    ) -> Option<usize> {
        of.values().copied().find(|slot| is_meant(&self.entries[slot]))
    }

    /// The oldest login of the address that has most of them under way.
    fn oldest_login(&self) -> Option<usize> {
        let (source, _) = self.sources.iter().max_by_key(|(_, counts)| counts.logging_in)?;
        self.oldest(&self.logging_in, |entry| entry.source == *source)
    }

    /// The oldest discovery session of the address that has most of them.
    fn oldest_discovery(&self) -> Option<usize> {
        let (source, _) = self.sources.iter().max_by_key(|(_, counts)| counts.discovery)?;
        self.oldest(&self.discovery, |entry| entry.source == *source)
    }
}
