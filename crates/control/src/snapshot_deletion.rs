//! Automatic snapshot deletion: a pool at its hard threshold makes space by itself, if the
//! administrator wants that, by deleting the oldest unlocked snapshots of schedules, one at a time.
//!
//! Space comes back some time after a deletion is answered, as the maps are taken apart in the
//! background. Until what was given up is counted, nothing further is decided; otherwise all
//! snapshots would be gone before the space of the first one is seen.

use api::{Problem, Severity};
use array::{Configuration, OldestSearch, Searched, Standing};
use block::VolumeId;
use hashbrown::HashMap;
use store::Releasing;

use crate::limits::{DELETION_RETRY_LOOKS, SNAPSHOTS_SEARCHED_PER_LOOK};
use crate::{Deletion, Effect};

/// Pools that make space by themselves, by name.
#[derive(Debug, Default)]
pub struct Relief {
    pools: HashMap<String, Pressure>,
    /// Snapshots that configured pools deleted since the daemon started.
    deleted: HashMap<String, u64>,
}

/// How far a pool is with that.
#[derive(Debug, Default)]
struct Pressure {
    search: OldestSearch,
    /// The snapshot that is being deleted.
    deleting: Option<Deleting>,
    /// The space of the last one is not counted yet.
    settling: Option<Settling>,
    /// Looks to pass before the next attempt, after one that failed.
    looks_to_pass: u32,
    /// It was told that nothing is left that may be deleted.
    is_exhausted: bool,
}

/// A snapshot that is being deleted, and why.
#[derive(Debug)]
struct Deleting {
    id: VolumeId,
    name: String,
    look: Look,
}

/// Waits until the space of a snapshot is counted.
#[derive(Debug, Default)]
struct Settling {
    /// Checkpoints up to when only single references were left.
    since: Option<u64>,
}

/// A pool as it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// How full it is, 0 to 100.
    pub used_percent: u8,
    /// Its hard threshold, 1 to 100.
    pub hard_percent: u8,
    /// Whether somebody deletes a volume or snapshot of it.
    pub is_deleting: bool,
    /// Space that is about to come back.
    pub releasing: Releasing,
    /// Checkpoints since it was opened.
    pub checkpoints: u64,
}

/// A snapshot as it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot<'a> {
    /// Its name in its pool.
    pub name: &'a str,
    /// Whether neither a lock nor a LUN map keeps it.
    pub is_deletable: bool,
}

/// What follows from a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    /// There is enough space.
    Rest,
    /// Space is about to come back, or the last attempt failed a moment ago.
    Wait,
    /// A snapshot is to be found and deleted.
    Delete,
}

impl Settling {
    /// Subtrees are taken apart; after that, the second checkpoint has begun later and has brought
    /// in all references.
    fn is_over(&mut self, look: &Look) -> bool {
        match look.releasing {
            Releasing::Subtrees => false,
            Releasing::Nothing => true,
            Releasing::References => {
                look.checkpoints >= self.since.get_or_insert(look.checkpoints).saturating_add(2)
            }
        }
    }
}

impl Pressure {
    fn decide(&mut self, look: &Look) -> Decision {
        if look.is_deleting || look.releasing == Releasing::Subtrees {
            return Decision::Wait;
        }
        if self.deleting.take().is_some() {
            // Its pool was closed meanwhile, and nobody was told how it ended.
            self.deleted(false);
        }
        if self.settling.as_mut().is_some_and(|settling| !settling.is_over(look)) {
            return Decision::Wait;
        }
        self.settling = None;
        if look.used_percent < look.hard_percent {
            *self = Self::default();
            return Decision::Rest;
        }
        match self.looks_to_pass.checked_sub(1) {
            Some(left) => {
                self.looks_to_pass = left;
                Decision::Wait
            }
            None => Decision::Delete,
        }
    }

    /// The deletion came to its end.
    fn deleted(&mut self, succeeded: bool) {
        if succeeded {
            self.settling = Some(Settling::default())
        } else {
            self.looks_to_pass = DELETION_RETRY_LOOKS
        }
    }
}

impl Relief {
    /// Forgets pools that may not delete by themselves any more, and those that are gone.
    pub fn retain(&mut self, may_delete: impl Fn(&str) -> bool, exists: impl Fn(&str) -> bool) {
        self.pools.retain(|name, _| may_delete(name));
        self.deleted.retain(|name, _| exists(name));
    }

    /// Snapshots that a pool deleted by itself since the daemon started.
    pub fn deleted_of(&self, pool: &str) -> u64 {
        self.deleted.get(pool).copied().unwrap_or_default()
    }

    /// Deletes the next snapshot if a pool is at its hard threshold. `find` gives a snapshot, if the
    /// pool holds it.
    pub fn look<'a>(
        &mut self,
        name: &str,
        look: Look,
        array: &Configuration,
        find: impl Fn(VolumeId) -> Option<Snapshot<'a>>,
    ) -> Option<Effect> {
        let mut pressure = self.pools.remove(name).unwrap_or_default();
        let effect = match pressure.decide(&look) {
            Decision::Rest => return None,
            Decision::Wait => None,
            Decision::Delete => pressure.oldest(name, look, array, find),
        };
        self.pools.insert(name.to_owned(), pressure);
        effect
    }

    /// A deletion in a pool came to its end. If it was one of these, events and audit log say so.
    pub fn deleted(
        &mut self,
        pool: &str,
        id: VolumeId,
        result: Result<(), Problem>,
    ) -> Vec<Effect> {
        let Some(pressure) = self.pools.get_mut(pool) else { return Vec::new() };
        let Some(Deleting { name, look, .. }) = pressure.deleting.take_if(|one| one.id == id)
        else {
            return Vec::new();
        };
        pressure.deleted(result.is_ok());
        let Look { used_percent, hard_percent, .. } = look;
        let (status, severity, message) = match result {
            Ok(()) => {
                *self.deleted.entry(pool.to_owned()).or_default() += 1;
                let message = format!(
                    "was deleted by the array, as the oldest scheduled one that could be: pool \
                     {pool} is {used_percent} % full, the hard threshold is {hard_percent} %"
                );
                (200, Severity::Warning, message)
            }
            Err(problem) => {
                let message = format!("could not be deleted to make space: {}", problem.detail);
                (problem.status, Severity::Error, message)
            }
        };
        vec![
            Effect::Audit { path: format!("/v1/snapshots/{pool}/{name}"), status },
            Effect::note(severity, format!("snapshot {pool}/{name}"), message),
        ]
    }
}

impl Pressure {
    /// Goes on with the search for the oldest snapshot, and says which one is to be deleted.
    fn oldest<'a>(
        &mut self,
        pool: &str,
        look: Look,
        array: &Configuration,
        find: impl Fn(VolumeId) -> Option<Snapshot<'a>>,
    ) -> Option<Effect> {
        let standing = |snapshot: VolumeId| match find(snapshot) {
            None => Standing::Gone,
            Some(Snapshot { is_deletable: false, .. }) => Standing::Kept,
            Some(Snapshot { is_deletable: true, .. }) => Standing::Deletable,
        };
        match self.search.step(array, pool, SNAPSHOTS_SEARCHED_PER_LOOK, standing) {
            Searched::Part => None,
            Searched::All(None) => {
                let told = std::mem::replace(&mut self.is_exhausted, true);
                let Look { used_percent, hard_percent, .. } = look;
                let message = format!(
                    "is {used_percent} % full, the hard threshold is {hard_percent} %, and no \
                     scheduled snapshot is left that may be deleted: others are locked, mapped, \
                     made by hand or the newest of their schedule"
                );
                (!told).then(|| Effect::note(Severity::Error, format!("pool {pool}"), message))
            }
            Searched::All(Some(id)) => {
                let name = find(id)?.name.to_owned();
                self.is_exhausted = false;
                self.deleting = Some(Deleting { id, name, look });
                Some(Effect::Delete(Deletion { pool: pool.to_owned(), id }))
            }
        }
    }
}

#[cfg(test)]
mod tests;
