//! Garbage collection of configuration entries: what is known of volumes that no pool holds.
//!
//! How a volume looks is saved before it is made, and forgotten after it is gone
//! ([`crate::procedures`]). A daemon that stops in between leaves an entry without a volume, and the
//! lock of a snapshot that never was would keep its pool from being forgotten. Such entries are
//! looked for, some at a time, when all pools have been opened.

use array::Configuration;
use block::VolumeId;

use crate::limits::KNOWN_VOLUMES_PER_LOOK;
use crate::volume_lifecycle::Change;

/// How far the search is.
#[derive(Debug, Default)]
pub struct Leftovers {
    search: Search,
}

#[derive(Debug, Default)]
enum Search {
    /// Nothing is searched.
    #[default]
    Over,
    /// It goes on after this volume.
    After(Option<VolumeId>),
}

impl Leftovers {
    /// A pool was opened: everything is looked at anew.
    pub fn begin(&mut self) {
        self.search = Search::After(None);
    }

    /// Whether there is something to look at still.
    pub const fn is_looking(&self) -> bool {
        matches!(self.search, Search::After(_))
    }

    /// Looks at some entries, and says what is to be forgotten. To be asked only while every
    /// configured pool serves, for otherwise nobody knows what exists, and while no volume is just
    /// being made. `exists` says whether a pool holds a volume or snapshot.
    pub fn look(
        &mut self,
        array: &Configuration,
        exists: impl Fn(VolumeId) -> bool,
    ) -> Option<Change> {
        let Search::After(last) = self.search else { return None };
        let known = array.known_volumes_after(last, KNOWN_VOLUMES_PER_LOOK);
        self.search = match known.last() {
            Some(&last) if known.len() == KNOWN_VOLUMES_PER_LOOK => Search::After(Some(last)),
            Some(_) | None => Search::Over,
        };
        let left: Vec<VolumeId> = known.into_iter().filter(|&id| !exists(id)).collect();
        if left.is_empty() { None } else { Some(Change::Forget(left)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_pool_holds_is_forgotten_some_at_a_time_and_once() {
        let mut array = Configuration::new("iqn.2026-11.io.gantry:test".to_owned());
        let count = 2 * KNOWN_VOLUMES_PER_LOOK as u64 + 1;
        for id in 0..count {
            array.lock_snapshot("p", VolumeId(id), 20, 10).unwrap();
        }
        let mut leftovers = Leftovers::default();
        let exists = |id: VolumeId| id.0.is_multiple_of(2);
        assert_eq!(leftovers.look(&array, exists), None, "no pool was opened yet");
        leftovers.begin();
        let mut looks = 0;
        while leftovers.is_looking() {
            let change = leftovers.look(&array, exists);
            change.into_iter().for_each(|change| change.apply(&mut array).unwrap());
            looks += 1;
        }
        assert_eq!(looks, 3);
        let left = array.known_volumes_after(None, usize::MAX);
        assert_eq!(left.len() as u64, count.div_ceil(2));
        assert!(left.into_iter().all(exists));
    }
}
