//! Automatic snapshot deletion: shows pools to `control`, which decides.

use api::Problem;
use block::VolumeId;
use control::snapshot_deletion::{Look, Snapshot};
use control::thresholds::used_percent;

use super::Management;
use crate::data_plane::DataPlane;
use crate::pool::Pool;
use crate::pools::PoolId;

impl Management {
    /// Deletes the next snapshot where a pool is at its hard threshold and may do so.
    pub(super) fn relieve_pools(&mut self, plane: &mut DataPlane) {
        let pools = &self.configuration.pools;
        let deletes = |name: &str| pools.get(name).is_some_and(|p| p.delete_scheduled_snapshots);
        self.relief.retain(deletes, |name| pools.contains_key(name));
        let relieved = plane.pools.iter().filter(|(_, pool)| deletes(&pool.name));
        let relieved: Vec<(PoolId, String)> =
            relieved.map(|(id, pool)| (id, pool.name.clone())).collect();
        for (id, name) in relieved {
            // Whoever closes, opens or resumes it goes first.
            if !self.closing && self.ready_pool(plane, &name).is_ok() {
                self.relieve_pool(plane, id, &name);
            }
        }
    }

    fn relieve_pool(&mut self, plane: &mut DataPlane, id: PoolId, name: &str) {
        let Some(pool) = plane.pools.get(id) else { return };
        let Some(look) = self.look(id, pool) else { return };
        let mut relief = std::mem::take(&mut self.relief);
        let find = |snapshot: VolumeId| {
            let name = &pool.store.volume(snapshot)?.spec.name;
            Some(Snapshot { name, is_deletable: self.check_deletable(snapshot).is_ok() })
        };
        let effect = relief.look(name, look, &self.configuration, find);
        self.relief = relief;
        self.perform(plane, effect);
    }

    fn look(&self, id: PoolId, pool: &Pool) -> Option<Look> {
        let thresholds = self.configuration.pools.get(&pool.name)?.thresholds;
        Some(Look {
            used_percent: used_percent(&pool.space()),
            hard_percent: thresholds.hard_percent,
            is_deleting: self.deletes_in(id),
            releasing: pool.store.releasing(),
            checkpoints: pool.store.statistics().checkpoints,
        })
    }

    /// A deletion came to its end.
    pub(super) fn relief_came(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        id: VolumeId,
        result: Result<(), Problem>,
    ) {
        let Some(pool) = plane.pools.get(pool) else { return };
        let effects = self.relief.deleted(&pool.name, id, result);
        self.perform(plane, effects);
    }

    /// Snapshots that a pool deleted by itself since the daemon started.
    pub(super) fn snapshots_deleted(&self, pool: &str) -> u64 {
        self.relief.deleted_of(pool)
    }
}
