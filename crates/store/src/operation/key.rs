//! Generational slab: requests and changes under way, by keys that are never given twice.
//!
//! So a page, a group or a lock that an operation waited for does not wake another one that took
//! the place of one that has ended.

use block::VolumeId;
use slab::Slab;

use super::Operation;

/// Bits of a key that name the place in the table; those above count operations.
const SLOT_BITS: u32 = 20;

/// Names an operation for as long as the pool is open. It says nothing else: keys are made by
/// [`Operations`] alone, and only compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub(crate) struct OperationKey(usize);

impl OperationKey {
    /// A key as it may come out of the table, for tests of what only compares them.
    #[cfg(test)]
    pub(crate) const fn of(number: usize) -> Self {
        Self(number)
    }

    /// The place in the table.
    const fn slot(self) -> usize {
        self.0 & ((1 << SLOT_BITS) - 1)
    }
}

/// All operations under way.
#[derive(Default)]
pub(crate) struct Operations {
    slots: Slab<(OperationKey, Operation)>,
    last_serial: usize,
}

impl Operations {
    pub(super) fn insert(&mut self, operation: Operation) -> OperationKey {
        self.last_serial += 1;
        let entry = self.slots.vacant_entry();
        let key = OperationKey(self.last_serial << SLOT_BITS | entry.key());
        entry.insert((key, operation));
        key
    }

    pub(crate) fn get_mut(&mut self, key: OperationKey) -> Option<&mut Operation> {
        let slot = self.slots.get_mut(key.slot());
        slot.filter(|slot| slot.0 == key).map(|slot| &mut slot.1)
    }

    /// The volume that an operation is about, while it is under way.
    pub(crate) fn volume_of(&self, key: OperationKey) -> Option<VolumeId> {
        self.contains(key).then(|| self[key].volume)
    }

    pub(crate) fn contains(&self, key: OperationKey) -> bool {
        self.slots.get(key.slot()).is_some_and(|slot| slot.0 == key)
    }

    pub(super) fn try_remove(&mut self, key: OperationKey) -> Option<Operation> {
        self.contains(key).then(|| self.slots.remove(key.slot()).1)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (OperationKey, &Operation)> {
        self.slots.iter().map(|(_, (key, operation))| (*key, operation))
    }
}

impl std::ops::Index<OperationKey> for Operations {
    type Output = Operation;

    fn index(&self, key: OperationKey) -> &Operation {
        debug_assert!(self.contains(key));
        &self.slots[key.slot()].1
    }
}

impl std::ops::IndexMut<OperationKey> for Operations {
    fn index_mut(&mut self, key: OperationKey) -> &mut Operation {
        debug_assert!(self.contains(key));
        &mut self.slots[key.slot()].1
    }
}
