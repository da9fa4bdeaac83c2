//! Memory budget for all connections (dynamic thresholds), with a share for each host inside it.
//!
//! What a connection holds for its initiator is charged to the share of its host: data that came
//! or was asked for, data that a command will yield, answers that wait to be sent or to be
//! acknowledged. A new command needs room in the share. A host may hold as much as is free: one
//! host that asks for all it can get holds half of the budget, two hold a third each, and a
//! newcomer still finds something.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::{CONNECTION_BYTES, HOST_BYTES_MIN, SMALL_BYTES};

/// Memory that all connections together may hold.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Total>);

#[derive(Debug)]
struct Total {
    bytes_max: usize,
    held: AtomicUsize,
    connections: AtomicUsize,
}

impl Default for Budget {
    /// Without a limit.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        let (held, connections) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self(Arc::new(Total { bytes_max, held, connections }))
    }

    /// The share of a new host.
    pub fn share(&self) -> Share {
        Share(Arc::new(Holder { total: Arc::clone(&self.0), held: AtomicUsize::new(0) }))
    }

    /// Bytes held by all shares.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// How much it is, in bytes.
    pub fn bytes_max(&self) -> usize {
        self.0.bytes_max
    }
}

impl Total {
    /// Bytes that are free. Connections themselves take their part first, a quarter at most.
    fn free(&self) -> usize {
        let connections = self.connections.load(Ordering::Relaxed) * CONNECTION_BYTES;
        let data_max = self.bytes_max - connections.min(self.bytes_max / 4);
        data_max.saturating_sub(self.held.load(Ordering::Relaxed))
    }
}

/// One host's share of a [`Budget`]: what it holds.
#[derive(Clone, Debug)]
pub struct Share(Arc<Holder>);

#[derive(Debug)]
struct Holder {
    total: Arc<Total>,
    held: AtomicUsize,
}

impl Default for Share {
    /// Of a budget of its own without a limit.
    fn default() -> Self {
        Budget::default().share()
    }
}

impl Share {
    /// Bytes held by this share.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// Whether the host may hold so many bytes more: they are free, and afterwards it holds no more
    /// than is free now, or little. A large command leaves an eighth of the budget to others.
    pub fn has_room(&self, bytes: usize) -> bool {
        let (free, held) = (self.0.total.free(), self.held());
        if bytes <= SMALL_BYTES {
            return bytes <= free && held + bytes <= free.max(HOST_BYTES_MIN);
        }
        let kept_free = self.0.total.bytes_max / 8;
        bytes <= free.saturating_sub(kept_free) && (held == 0 || held + bytes <= free)
    }

    /// Whether it holds more than would be admitted today.
    pub fn is_full(&self) -> bool {
        !self.has_room(1)
    }

    /// Bytes that are free in the budget.
    pub(crate) fn free(&self) -> usize {
        self.0.total.free()
    }
}

/// Charge of one connection or command to its host's share; dropping it returns the bytes.
#[derive(Debug, Default)]
pub(crate) struct Charge {
    share: Share,
    bytes: usize,
}

impl Charge {
    pub(crate) fn new(share: Share) -> Self {
        Self { share, bytes: 0 }
    }

    pub(crate) fn share(&self) -> &Share {
        &self.share
    }

    /// Sets the number of bytes held.
    pub(crate) fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes == before {
            return;
        }
        let Holder { total, held } = &*self.share.0;
        for counter in [&total.held, held] {
            // Wraps back to the right sum.
            counter.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
        }
    }

    /// Another share pays from now on.
    pub(crate) fn pass_to(&mut self, share: Share) {
        let bytes = self.bytes;
        self.set(0);
        self.share = share;
        self.set(bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// A connection's part of the budget, whatever it holds.
#[derive(Debug)]
pub(crate) struct Seat(Arc<Total>);

impl Seat {
    pub(crate) fn new(share: &Share) -> Self {
        let total = Arc::clone(&share.0.total);
        total.connections.fetch_add(1, Ordering::Relaxed);
        Self(total)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// Charges pieces to a share until there is no room.
    fn fill(share: &Share, piece: usize) -> Vec<Charge> {
        let mut charges = Vec::new();
        while share.has_room(piece) {
            let mut charge = Charge::new(share.clone());
            charge.set(piece);
            charges.push(charge);
        }
        charges
    }

    #[test]
    fn a_host_that_holds_much_leaves_room_for_those_that_hold_nothing() {
        let budget = Budget::new(1024 * MIB);
        let greedy = budget.share();
        let held = fill(&greedy, 4 * MIB);
        assert_eq!(greedy.held(), 512 * MIB);
        let second = budget.share();
        let _second = fill(&second, 4 * MIB);
        assert_eq!(second.held(), 256 * MIB);
        // Bytes that were admitted before count, so the first host gets nothing more.
        assert!(greedy.is_full());
        for _ in 0..3 {
            let third = budget.share();
            assert!(!fill(&third, 64 << 10).is_empty());
        }
        drop(held);
        assert_eq!(greedy.held(), 0);
        assert!(greedy.has_room(32 * MIB));
    }

    #[test]
    fn many_hosts_together_hold_no_more_than_the_budget() {
        let budget = Budget::new(256 * MIB);
        let mut charges = Vec::new();
        for host in 0..200 {
            charges.push(fill(&budget.share(), if host % 2 == 0 { 32 * MIB } else { 64 << 10 }));
            assert!(budget.held() <= 256 * MIB);
        }
        drop(charges);
        assert_eq!(budget.held(), 0);
    }

    // The largest command, alone, goes with the smallest budget that can be set.
    #[test]
    fn a_host_that_is_alone_may_have_one_command_of_any_length() {
        let budget = Budget::new(64 * MIB);
        let seats: Vec<Seat> = (0..4096).map(|_| Seat::new(&budget.share())).collect();
        assert!(budget.share().has_room(32 * MIB));
        drop(seats);
    }

    #[test]
    fn what_changes_hands_is_paid_once() {
        let budget = Budget::new(64 * MIB);
        let (first, second) = (budget.share(), budget.share());
        let mut charge = Charge::new(first.clone());
        charge.set(100);
        charge.pass_to(second.clone());
        assert_eq!((first.held(), second.held(), budget.held()), (0, 100, 100));
        drop(charge);
        assert_eq!((second.held(), budget.held()), (0, 0));
    }
}
