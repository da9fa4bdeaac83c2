//! Connection limits of the management interface, in all and for each address. A newcomer that
//! finds no place takes that of the connection that has been idle longest, so that connections
//! which ask for nothing never keep an administrator out.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::source_address::source;

#[cfg(test)]
mod tests;

/// Why a connection was refused or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Its address has as many as it may, and all are busy.
    AddressQuota,
    /// There are as many as may be, and all are busy.
    ConnectionsMax,
    /// The connection was idle, and made room for another.
    Idle,
    /// Its TLS handshake, the head of its request or its silence took too long.
    Timeout,
    /// The system could not give it.
    Accept,
}

impl Closed {
    /// Every reason.
    pub(crate) const ALL: [Self; 5] =
        [Self::AddressQuota, Self::ConnectionsMax, Self::Idle, Self::Timeout, Self::Accept];

    /// The label of the metric.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::AddressQuota => "address_quota",
            Self::ConnectionsMax => "connections_max",
            Self::Idle => "made_room",
            Self::Timeout => "timeout",
            Self::Accept => "accept_error",
        }
    }
}

/// All connections.
#[derive(Debug)]
pub(crate) struct Doors {
    connections_max: usize,
    per_address_max: usize,
    state: Mutex<State>,
    closed: [AtomicU64; Closed::ALL.len()],
}

#[derive(Debug, Default)]
struct State {
    /// The order in which connections came, or became idle.
    last_order: u64,
    last_number: u64,
    entries: BTreeMap<u64, Entry>,
    /// Connections of each address.
    sources: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct Entry {
    source: IpAddr,
    /// Requests and answers under way.
    busy: usize,
    idle_since: u64,
    close: Arc<Notify>,
}

impl Doors {
    pub(crate) fn new(connections_max: usize, per_address_max: usize) -> Self {
        Self {
            connections_max,
            per_address_max,
            state: Mutex::default(),
            closed: Default::default(),
        }
    }

    /// As many connections there may be.
    pub(crate) fn connections_max(&self) -> usize {
        self.connections_max
    }

    /// A place for a connection, unless every one that it could take is busy.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let source = source(address);
        let mut state = self.state();
        if state.sources.get(&source).copied().unwrap_or_default() >= self.per_address_max {
            if !state.evict(|entry| entry.source == source) {
                self.count(Closed::AddressQuota);
                return None;
            }
            self.count(Closed::Idle);
        } else if state.entries.len() >= self.connections_max {
            let greediest = state.sources.iter().max_by_key(|(_, count)| **count);
            let greediest = greediest.map(|(source, _)| *source);
            if !state.evict(|entry| Some(entry.source) == greediest) && !state.evict(|_| true) {
                self.count(Closed::ConnectionsMax);
                return None;
            }
            self.count(Closed::Idle);
        }
        let close = Arc::new(Notify::new());
        let number = state.add(source, Arc::clone(&close));
        Some(Place { doors: Arc::clone(self), number, close })
    }

    /// Counts a connection that was refused or closed.
    pub(crate) fn count(&self, why: Closed) {
        self.closed[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Connections that were refused or closed so.
    pub(crate) fn closed(&self, why: Closed) -> u64 {
        self.closed[why as usize].load(Ordering::Relaxed)
    }

    /// Connections that there are.
    pub(crate) fn len(&self) -> usize {
        self.state().entries.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, source: IpAddr, close: Arc<Notify>) -> u64 {
        self.last_number += 1;
        self.last_order += 1;
        *self.sources.entry(source).or_default() += 1;
        let entry = Entry { source, busy: 0, idle_since: self.last_order, close };
        self.entries.insert(self.last_number, entry);
        self.last_number
    }

    /// Closes the connection that has been idle longest of those that are meant.
    fn evict(&mut self, is_meant: impl Fn(&Entry) -> bool) -> bool {
        let idle = self.entries.iter().filter(|(_, entry)| entry.busy == 0 && is_meant(entry));
        let oldest = idle.min_by_key(|(_, entry)| entry.idle_since).map(|(number, _)| *number);
        oldest.is_some_and(|number| self.remove(number))
    }

    fn remove(&mut self, number: u64) -> bool {
        let Some(entry) = self.entries.remove(&number) else { return false };
        entry.close.notify_one();
        if let Some(count) = self.sources.get_mut(&entry.source) {
            *count -= 1;
            if *count == 0 {
                self.sources.remove(&entry.source);
            }
        }
        true
    }
}

/// A connection's place; it is free again when this goes.
#[derive(Debug)]
pub(crate) struct Place {
    doors: Arc<Doors>,
    number: u64,
    close: Arc<Notify>,
}

impl Place {
    /// Waits until the connection is to be closed for another.
    pub(crate) async fn lost(&self) {
        self.close.notified().await;
    }

    /// A request is under way until what is returned goes.
    pub(crate) fn work(&self) -> Work {
        let (doors, number) = (Arc::clone(&self.doors), self.number);
        if let Some(entry) = doors.state().entries.get_mut(&number) {
            entry.busy += 1;
        }
        Work { doors, number }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.doors.state().remove(self.number);
    }
}

/// A request or its answer under way: its connection is not idle.
#[derive(Debug)]
pub(crate) struct Work {
    doors: Arc<Doors>,
    number: u64,
}

impl Drop for Work {
    fn drop(&mut self) {
        let mut state = self.doors.state();
        state.last_order += 1;
        let order = state.last_order;
        if let Some(entry) = state.entries.get_mut(&self.number) {
            entry.busy -= 1;
            entry.idle_since = order;
        }
    }
}
