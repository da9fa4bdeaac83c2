//! Whose a pool is, as its records say: this array's, or another one's, which is not served.

use array::OwnerRecord;
use block::VolumeId;
use control::change::Touched;
use control::reopening::Trouble;

use super::Management;
use crate::data_plane::DataPlane;
use crate::exports::ExportEvent;
use crate::management::pools::{UnavailablePool, pool_unavailable};
use crate::pools::PoolId;

impl Management {
    /// Whether the array that used a pool last was this one, or the one that it was imported from.
    pub(super) fn is_ours(&self, plane: &DataPlane, pool: PoolId, owner: &OwnerRecord) -> bool {
        let name = plane.pools.get(pool).map_or("", |pool| &pool.name);
        let before = self.configuration.imported_from.get(name);
        owner.array == self.configuration.uuid || before == Some(&owner.array)
    }

    /// A pool says that it is this array's: whose it was does not count any more.
    pub(super) fn owner_written(&mut self, plane: &DataPlane, pool: PoolId) {
        let Some(name) = plane.pools.get(pool).map(|pool| &pool.name) else { return };
        if self.configuration.imported_from.contains_key(name) {
            let mut draft = self.saving.draft();
            draft.array.imported_from.remove(name);
            self.accept(draft, Touched::Nobody);
        }
    }

    /// Another array has used the pool since: its volumes may be others, and hosts may see them there.
    pub(super) fn refuse_foreign(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        owner: &OwnerRecord,
    ) {
        let waiting = self.records.owner_awaited.remove(&pool);
        let waiting = waiting.and_then(|ticket| self.under_way.remove(&ticket));
        let volumes: Vec<VolumeId> = plane.volumes_of(pool).collect();
        let Some(closed) = self.stop_serving(plane, pool) else { return };
        for volume in volumes {
            plane.exports.tell(&ExportEvent::Removed(volume));
        }
        self.announce_absent_volumes(plane);
        self.luns_changed = Touched::All;
        let reason = format!(
            "array {} has used it since: forget it here ('gantry pool delete --force') and take it \
             back by 'gantry pool import'",
            owner.target_name
        );
        let problem = pool_unavailable(&closed.name, &reason);
        let unavailable = UnavailablePool::because(reason);
        self.set_unavailable(&closed.name, unavailable, Trouble::Undecided);
        if let Some(work) = waiting {
            self.answer(work.caller, Err(problem));
        }
        self.in_background(move || drop(closed));
    }

    /// What a pool says of whose it is.
    pub(super) fn owner_record(&self, exported: bool) -> OwnerRecord {
        OwnerRecord {
            array: self.configuration.uuid.clone(),
            target_name: self.configuration.target_name.clone(),
            machine: self.records.machine.clone(),
            exported,
            controller: self.controller().number(),
        }
    }
}
