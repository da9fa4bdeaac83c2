//! Round robin over hosts for connections that are ready: a host with a thousand connections gets
//! no more of a turn of the loop than one with one. Connections that are not logged in count as one
//! host together.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::scheduler::HostNumber;

/// A fair queue of connections, each of which is in it once.
#[derive(Default)]
pub(crate) struct Ready {
    /// Hosts in the order of their turns.
    turns: VecDeque<HostNumber>,
    /// The connections of each host in `turns`, none of them without any.
    waiting: HashMap<HostNumber, VecDeque<usize>>,
    /// The host of each slot, and whether it waits.
    slots: Vec<(HostNumber, bool)>,
    /// Empty queues, to be used again.
    spare: Vec<VecDeque<usize>>,
}

/// Empty queues that are kept; more are freed.
const SPARE_MAX: usize = 64;

impl Ready {
    /// Says whose connection is in a slot.
    pub(crate) fn belongs(&mut self, slot: usize, host: HostNumber) {
        self.slot(slot).0 = host;
    }

    fn slot(&mut self, slot: usize) -> &mut (HostNumber, bool) {
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, (HostNumber(0), false));
        }
        &mut self.slots[slot]
    }

    /// A connection waits behind the others of its host; does nothing if it waits already.
    pub(crate) fn push(&mut self, slot: usize) {
        let (host, waits) = self.slot(slot);
        if std::mem::replace(waits, true) {
            return;
        }
        let host = *host;
        let spare = &mut self.spare;
        let of_host = self.waiting.entry(host).or_insert_with(|| spare.pop().unwrap_or_default());
        if of_host.is_empty() {
            self.turns.push_back(host);
        }
        of_host.push_back(slot);
    }

    /// The connection whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<usize> {
        let host = self.turns.pop_front()?;
        let of_host = self.waiting.get_mut(&host)?;
        let slot = of_host.pop_front()?;
        if of_host.is_empty() {
            let empty = self.waiting.remove(&host).filter(|_| self.spare.len() < SPARE_MAX);
            self.spare.extend(empty);
        } else {
            self.turns.push_back(host);
        }
        self.slot(slot).1 = false;
        Some(slot)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

impl Extend<usize> for Ready {
    fn extend<T: IntoIterator<Item = usize>>(&mut self, slots: T) {
        slots.into_iter().for_each(|slot| self.push(slot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(ready: &mut Ready) -> Vec<usize> {
        std::iter::from_fn(|| ready.pop()).collect()
    }

    #[test]
    fn hosts_take_turns_however_many_connections_each_has() {
        let mut ready = Ready::default();
        for slot in 0..4 {
            ready.belongs(slot, HostNumber(1));
        }
        ready.belongs(4, HostNumber(2));
        ready.extend([0, 1, 2, 3, 4, 4]);
        assert_eq!(drain(&mut ready), [0, 4, 1, 2, 3]);
        assert!(ready.is_empty());
    }

    #[test]
    fn a_connection_that_changes_hands_while_it_waits_has_its_turn_once() {
        let mut ready = Ready::default();
        ready.push(7);
        ready.belongs(7, HostNumber(3));
        ready.push(7);
        assert_eq!(drain(&mut ready), [7]);
        ready.push(7);
        assert_eq!(drain(&mut ready), [7]);
    }
}
