//! Generational slab: requests and changes under way, by keys that are never given twice.
//!
//! So a page, a group or a lock that an operation waited for does not wake another one that took
//! the place of one that has ended.

use slab::Slab;

/// Bits of a key that name the place in the table; those above count operations.
const SLOT_BITS: u32 = 20;

/// Names an operation for as long as the pool is open. It says nothing else: keys are made by
/// [`KeyedSlab`] alone, and only compared.
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

/// What is under way, by key.
pub(crate) struct KeyedSlab<T> {
    slots: Slab<(OperationKey, T)>,
    last_serial: usize,
}

impl<T> Default for KeyedSlab<T> {
    fn default() -> Self {
        Self { slots: Slab::new(), last_serial: 0 }
    }
}

impl<T> KeyedSlab<T> {
    pub(crate) fn insert(&mut self, operation: T) -> OperationKey {
        self.last_serial += 1;
        let entry = self.slots.vacant_entry();
        let key = OperationKey(self.last_serial << SLOT_BITS | entry.key());
        entry.insert((key, operation));
        key
    }

    pub(crate) fn get_mut(&mut self, key: OperationKey) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.slot());
        slot.filter(|slot| slot.0 == key).map(|slot| &mut slot.1)
    }

    pub(crate) fn contains(&self, key: OperationKey) -> bool {
        self.slots.get(key.slot()).is_some_and(|slot| slot.0 == key)
    }

    pub(crate) fn try_remove(&mut self, key: OperationKey) -> Option<T> {
        self.contains(key).then(|| self.slots.remove(key.slot()).1)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (OperationKey, &T)> {
        self.slots.iter().map(|(_, (key, operation))| (*key, operation))
    }
}

impl<T> std::ops::Index<OperationKey> for KeyedSlab<T> {
    type Output = T;

    fn index(&self, key: OperationKey) -> &T {
        debug_assert!(self.contains(key));
        &self.slots[key.slot()].1
    }
}

impl<T> std::ops::IndexMut<OperationKey> for KeyedSlab<T> {
    fn index_mut(&mut self, key: OperationKey) -> &mut T {
        debug_assert!(self.contains(key));
        &mut self.slots[key.slot()].1
    }
}
