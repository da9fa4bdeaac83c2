//! Automatic snapshot deletion: a pool at its hard threshold makes space by itself, if the
//! administrator wants that, by deleting the oldest unlocked snapshots of schedules, one at a time.
//!
//! Space comes back some time after a deletion is answered, as the maps are taken apart in the
//! background. Until what was given up is counted, nothing further is decided; otherwise all
//! snapshots would be gone before the space of the first one is seen.

use std::collections::HashMap;

use api::{Problem, SetSnapshotDeletion, Severity};
use array::{Configuration, OldestSearch, Searched, Standing};
use block::VolumeId;
use store::{Failure, Outcome, Releasing};

use super::problems::failed;
use super::thresholds::used_percent;
use super::{Management, Progress, Step, Work};
use crate::core::Core;
use crate::limits::{DELETION_RETRY_LOOKS, SNAPSHOTS_SEARCHED_PER_LOOK};
use crate::pool::Pool;
use crate::pools::PoolId;

/// Pools that make space by themselves, by name.
#[derive(Debug, Default)]
pub(crate) struct Relief {
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
struct Look {
    used_percent: u8,
    hard_percent: u8,
    /// Whether somebody deletes a volume or snapshot of it.
    is_deleting: bool,
    releasing: Releasing,
    /// Checkpoints since it was opened.
    checkpoints: u64,
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
        match succeeded {
            true => self.settling = Some(Settling::default()),
            false => self.looks_to_pass = DELETION_RETRY_LOOKS,
        }
    }
}

impl Management {
    /// Deletes the next snapshot where a pool is at its hard threshold and may do so.
    pub(super) fn relieve_pools(&mut self, core: &mut Core) {
        let pools = &self.configuration.pools;
        let deletes = |name: &str| pools.get(name).is_some_and(|p| p.delete_scheduled_snapshots);
        self.relief.pools.retain(|name, _| deletes(name));
        self.relief.deleted.retain(|name, _| pools.contains_key(name));
        let relieved = core.pools.iter().filter(|(_, pool)| deletes(&pool.name));
        let relieved: Vec<(PoolId, String)> =
            relieved.map(|(id, pool)| (id, pool.name.clone())).collect();
        for (id, name) in relieved {
            // Whoever closes, opens or resumes it goes first.
            if !self.closing && self.ready_pool(core, &name).is_ok() {
                self.relieve_pool(core, id, name);
            }
        }
    }

    fn relieve_pool(&mut self, core: &mut Core, id: PoolId, name: String) {
        let Some(look) = core.pools.get(id).and_then(|pool| self.look(id, pool)) else { return };
        let mut pressure = self.relief.pools.remove(&name).unwrap_or_default();
        let begun = match pressure.decide(&look) {
            Decision::Rest => return,
            Decision::Wait => None,
            Decision::Delete => self.oldest(core, id, &mut pressure, look),
        };
        self.relief.pools.insert(name, pressure);
        if let Some(snapshot) = begun {
            let begun = self.begin_deletion(core, id, snapshot);
            self.begin(core, begun);
        }
    }

    fn look(&self, id: PoolId, pool: &Pool) -> Option<Look> {
        let thresholds = self.configuration.pools.get(&pool.name)?.thresholds;
        let deletes =
            |work: &Work| matches!(work.step, Step::DeleteVolume { pool, .. } if pool == id);
        Some(Look {
            used_percent: used_percent(&pool.space()),
            hard_percent: thresholds.hard_percent,
            is_deleting: self.under_way.values().any(deletes),
            releasing: pool.store.releasing(),
            checkpoints: pool.store.statistics().checkpoints,
        })
    }

    /// Goes on with the search for the oldest snapshot, and says which one is to be deleted.
    fn oldest(
        &mut self,
        core: &Core,
        id: PoolId,
        pressure: &mut Pressure,
        look: Look,
    ) -> Option<VolumeId> {
        let pool = core.pools.get(id)?;
        let standing = |snapshot: VolumeId| match pool.store.volume(snapshot) {
            None => Standing::Gone,
            Some(_) if self.check_deletable(snapshot).is_err() => Standing::Kept,
            Some(_) => Standing::Deletable,
        };
        let array = &self.configuration;
        let most = SNAPSHOTS_SEARCHED_PER_LOOK;
        match pressure.search.step(array, &pool.name, most, standing) {
            Searched::Part => None,
            Searched::All(None) => {
                let told = std::mem::replace(&mut pressure.is_exhausted, true);
                if !told {
                    let Look { used_percent, hard_percent, .. } = look;
                    let message = format!(
                        "is {used_percent} % full, the hard threshold is {hard_percent} %, and no \
                         scheduled snapshot is left that may be deleted: others are locked, \
                         mapped, made by hand or the newest of their schedule"
                    );
                    self.alarm(&pool.name, message);
                }
                None
            }
            Searched::All(Some(found)) => {
                let name = pool.store.volume(found)?.name.clone();
                pressure.is_exhausted = false;
                pressure.deleting = Some(Deleting { id: found, name, look });
                Some(found)
            }
        }
    }

    /// A deletion came to its end. If it was one of these, events and audit log say so.
    pub(super) fn relief_came(
        &mut self,
        core: &Core,
        pool: PoolId,
        id: VolumeId,
        result: &Result<Outcome, Failure>,
    ) {
        let Some(pool) = core.pools.get(pool).map(|pool| pool.name.clone()) else { return };
        let Some(pressure) = self.relief.pools.get_mut(&pool) else { return };
        let Some(Deleting { name, look, .. }) = pressure.deleting.take_if(|one| one.id == id)
        else {
            return;
        };
        pressure.deleted(result.is_ok());
        let Look { used_percent, hard_percent, .. } = look;
        let (status, severity, message) = match result {
            Ok(_) => {
                *self.relief.deleted.entry(pool.clone()).or_default() += 1;
                let message = format!(
                    "was deleted by the array, as the oldest scheduled one that could be: pool \
                     {pool} is {used_percent} % full, the hard threshold is {hard_percent} %"
                );
                (200, Severity::Warning, message)
            }
            Err(failure) => {
                let problem = failed(failure);
                let message = format!("could not be deleted to make space: {}", problem.detail);
                (problem.status, Severity::Error, message)
            }
        };
        self.audit.note_own("DELETE", format!("/v1/snapshots/{pool}/{name}"), status);
        self.events.note(severity, format!("snapshot {pool}/{name}"), message);
    }

    /// Snapshots that a pool deleted by itself since the daemon started.
    pub(super) fn snapshots_deleted(&self, pool: &str) -> u64 {
        self.relief.deleted.get(pool).copied().unwrap_or_default()
    }

    pub(super) fn set_snapshot_deletion(
        &mut self,
        name: &str,
        request: SetSnapshotDeletion,
    ) -> Result<Progress, Problem> {
        let SetSnapshotDeletion { delete_scheduled_snapshots } = request;
        let change = |array: &mut Configuration| {
            array.pool(name)?;
            let pool = array.pools.get_mut(name);
            pool.into_iter()
                .for_each(|pool| pool.delete_scheduled_snapshots = delete_scheduled_snapshots);
            Ok(name.to_owned())
        };
        self.change_unseen(change, |management, core, name| management.show_pool(core, &name))
    }
}

#[cfg(test)]
mod tests;
