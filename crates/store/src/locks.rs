//! Range locks on volumes: shared by readers, exclusive to writers, granted in order of arrival.
//!
//! An operation waits only for earlier ones, so there is no deadlock; and every later one that
//! conflicts waits for it, so there is no starvation.

use block::VolumeId;
use hashbrown::HashMap;

use crate::address::BlockRange;
use crate::operation_key::OperationKey;

/// A range of blocks that an operation reads or changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) volume: VolumeId,
    pub(crate) range: BlockRange,
    pub(crate) exclusive: bool,
}

struct Held {
    claim: Claim,
    operation: OperationKey,
    order: u64,
    granted: bool,
}

/// All claims, in order of arrival per volume.
#[derive(Default)]
pub(crate) struct Locks {
    held: HashMap<VolumeId, Vec<Held>>,
    /// Claims that each waiting operation has not been granted yet.
    waiting: HashMap<OperationKey, usize>,
    next_order: u64,
}

impl Claim {
    fn conflicts(&self, other: &Self) -> bool {
        (self.exclusive || other.exclusive) && self.range.overlaps(other.range)
    }
}

impl Locks {
    /// Enters the claims of an operation; returns whether all are granted at once.
    pub(crate) fn claim(&mut self, operation: OperationKey, claims: &[Claim]) -> bool {
        self.next_order += 1;
        let order = self.next_order;
        let mut not_granted = 0;
        for claim in claims {
            let list = self.held.entry(claim.volume).or_default();
            let granted =
                list.iter().all(|held| held.operation == operation || !held.claim.conflicts(claim));
            not_granted += usize::from(!granted);
            list.push(Held { claim: *claim, operation, order, granted });
        }
        if not_granted > 0 {
            self.waiting.insert(operation, not_granted);
        }
        not_granted == 0
    }

    /// Drops the claims of an operation; returns the operations that may go on now.
    pub(crate) fn release(
        &mut self,
        operation: OperationKey,
        claims: &[Claim],
    ) -> Vec<OperationKey> {
        let mut ready = Vec::new();
        for claim in claims {
            let Some(list) = self.held.get_mut(&claim.volume) else { continue };
            list.retain(|held| held.operation != operation);
            if !self.waiting.is_empty() {
                grant(list, &mut self.waiting, &mut ready);
            }
            if list.is_empty() && self.held.len() > 64 {
                self.held.remove(&claim.volume);
            }
        }
        ready
    }
}

fn grant(
    list: &mut [Held],
    waiting: &mut HashMap<OperationKey, usize>,
    ready: &mut Vec<OperationKey>,
) {
    for index in 0..list.len() {
        if list[index].granted {
            continue;
        }
        let (earlier, rest) = list.split_at_mut(index);
        let held = &mut rest[0];
        let blocked = earlier
            .iter()
            .any(|before| before.order < held.order && before.claim.conflicts(&held.claim));
        if blocked {
            continue;
        }
        held.granted = true;
        let operation = held.operation;
        let left = waiting.get_mut(&operation).expect("an ungranted claim is counted");
        *left -= 1;
        if *left == 0 {
            waiting.remove(&operation);
            ready.push(operation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::VolumeBlock;

    fn key(number: usize) -> OperationKey {
        OperationKey::of(number)
    }

    fn claim(volume: u64, first: u64, end: u64, exclusive: bool) -> Claim {
        let range = BlockRange::between(VolumeBlock::new(first), VolumeBlock::new(end));
        Claim { volume: VolumeId(volume), range, exclusive }
    }

    #[test]
    fn readers_share_and_a_waiting_writer_holds_later_readers_back() {
        let mut locks = Locks::default();
        let read = [claim(1, 0, 10, false)];
        let write = [claim(1, 5, 6, true)];
        assert!(locks.claim(key(1), &read) && locks.claim(key(2), &read));
        assert!(!locks.claim(key(3), &write));
        assert!(!locks.claim(key(4), &read));
        assert!(
            locks.claim(key(5), &[claim(1, 6, 9, false)])
                && locks.claim(key(6), &[claim(2, 5, 6, true)])
        );
        assert!(locks.release(key(1), &read).is_empty());
        assert_eq!(locks.release(key(2), &read), [key(3)]);
        assert_eq!(locks.release(key(3), &write), [key(4)]);
    }

    #[test]
    fn an_operation_with_two_claims_waits_for_both() {
        let mut locks = Locks::default();
        let (a, b) = ([claim(1, 0, 1, true)], [claim(2, 0, 1, true)]);
        assert!(locks.claim(key(1), &a) && locks.claim(key(2), &b));
        assert!(!locks.claim(key(3), &[a[0], b[0]]));
        assert!(locks.release(key(1), &a).is_empty());
        assert_eq!(locks.release(key(2), &b), [key(3)]);
    }

    #[test]
    fn the_two_claims_of_one_operation_do_not_block_each_other() {
        let mut locks = Locks::default();
        assert!(locks.claim(key(1), &[claim(1, 0, 9, false), claim(1, 5, 12, true)]));
        assert!(!locks.claim(key(2), &[claim(1, 11, 12, false)]));
    }
}
