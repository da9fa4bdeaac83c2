//! Table of open pools, each under a number that is never reused: a stale number finds nothing,
//! never another pool.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::{Bound, Deref, DerefMut};

use block::VolumeId;

use crate::pool::Pool;

pub(crate) use control::procedures::PoolId;

/// All pools that are served.
#[derive(Default)]
pub(crate) struct Pools {
    by_id: BTreeMap<PoolId, Pool>,
    last: usize,
}

impl Pools {
    /// Serves a pool from now on.
    pub(crate) fn insert(&mut self, pool: Pool) -> PoolId {
        self.last += 1;
        let id = PoolId(self.last);
        self.by_id.insert(id, pool);
        id
    }

    /// The pool of that number, if it is still served.
    pub(crate) fn get(&self, id: PoolId) -> Option<&Pool> {
        self.by_id.get(&id)
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, id: PoolId) -> Option<Changing<'_>> {
        self.by_id.get_mut(&id).map(Changing)
    }

    /// Serves a pool no more.
    pub(crate) fn remove(&mut self, id: PoolId) -> Option<Pool> {
        self.by_id.remove(&id)
    }

    /// All of them, the one that was opened first before the others.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PoolId, &Pool)> {
        self.by_id.iter().map(|(&id, pool)| (id, pool))
    }

    /// All of them, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (PoolId, &mut Pool)> {
        self.by_id.iter_mut().map(|(&id, pool)| (id, pool))
    }

    /// Volumes and snapshots after one, pool by pool, or the first ones; so many at most.
    pub(crate) fn volumes_after(
        &self,
        last: Option<(PoolId, VolumeId)>,
        count: usize,
    ) -> Vec<(PoolId, VolumeId)> {
        let from = last.map_or(Bound::Unbounded, |(pool, _)| Bound::Included(pool));
        let pools = self.by_id.range((from, Bound::Unbounded));
        let volumes = pools.flat_map(|(&id, pool)| {
            let after = last.filter(|&(last, _)| last == id).map(|(_, volume)| volume);
            pool.store.volumes_after(after).map(move |volume| (id, volume.spec.id))
        });
        volumes.take(count).collect()
    }

    /// Their numbers.
    pub(crate) fn ids(&self) -> Vec<PoolId> {
        self.by_id.keys().copied().collect()
    }
}

/// A pool that is being changed. A panic while it is may leave the engine half changed, and such an
/// engine must not go on: the process ends, although the caller may catch panics, and the next
/// start replays the journal (docs/decisions/0076).
pub(crate) struct Changing<'a>(&'a mut Pool);

impl Deref for Changing<'_> {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        self.0
    }
}

impl DerefMut for Changing<'_> {
    fn deref_mut(&mut self) -> &mut Pool {
        self.0
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            crate::guard::end_process(&self.0.name);
        }
    }
}

/// Goes round all volumes of all pools, some at a time.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// The pool and the volume that were last.
    last: Option<(PoolId, Option<VolumeId>)>,
}

impl Round {
    /// The next volumes, each once, as many as there are at most.
    pub(crate) fn next(&mut self, pools: &Pools, count: usize) -> Vec<(PoolId, VolumeId)> {
        let total: usize = pools.iter().map(|(_, pool)| pool.store.volume_count()).sum();
        let mut found = Vec::with_capacity(count.min(total));
        // Each pool is entered once, and the one where the round was left off once more.
        for _ in 0..=pools.by_id.len() {
            let wanted = count.min(total) - found.len();
            let Some((pool, after)) = self.place(pools) else { return found };
            let Some(served) = pools.get(pool) else { return found };
            let part = served.store.volumes_after(after).take(wanted).map(|volume| volume.spec.id);
            let before = found.len();
            found.extend(part.map(|id| (pool, id)));
            let is_whole = found.len() - before < wanted;
            let last = found[before..].last().map(|&(_, id)| id).or(after);
            self.last = Some((pool, last));
            if !is_whole {
                return found;
            }
            self.last = pools.after(pool).map(|next| (next, None));
        }
        found
    }

    /// Where the round goes on: after a pool that is gone with the next one.
    fn place(&self, pools: &Pools) -> Option<(PoolId, Option<VolumeId>)> {
        let first = || pools.by_id.keys().next().map(|&first| (first, None));
        match self.last {
            Some((pool, after)) if pools.get(pool).is_some() => Some((pool, after)),
            Some((pool, _)) => pools.after(pool).map(|next| (next, None)).or_else(first),
            None => first(),
        }
    }
}

impl Pools {
    fn after(&self, pool: PoolId) -> Option<PoolId> {
        let from = (Bound::Excluded(pool), Bound::Unbounded);
        self.by_id.range(from).next().map(|(&next, _)| next)
    }
}
