//! Space thresholds: shows pools and volumes to `control`, which decides who is told; and tells of pools that are read-only, or whose file system is short of space.

use std::sync::Arc;

use api::{Event, Severity};
use block::VolumeId;
use control::Forgotten;
use control::thresholds::{self, VolumeFill, describe_fill};
use hashbrown::{HashMap, HashSet};
use store::Health;

use super::{Management, Progress};
use crate::backing::BackingState;
use crate::data_plane::DataPlane;
use crate::pool::Pool;
use crate::pools::PoolId;
use crate::rod_token_spaces::is_hidden;

/// What was told last.
#[derive(Debug, Default)]
pub(crate) struct LastNotified {
    /// How full pools and volumes are.
    fills: thresholds::LastNotified,
    /// Pools that were found read-only.
    read_only: Vec<String>,
    /// Pools whose free space is not all backed.
    backing: HashMap<String, BackingState>,
    /// Pools whose scrub has not ended yet.
    pub(super) scrubbing: HashSet<String>,
    /// Block devices that know no reservations.
    pub(super) unfenced: HashSet<String>,
}

impl Management {
    /// Compares every pool and volume with its thresholds, and tells hosts and administrators
    /// where one was reached since the last call.
    pub(super) fn check_fill(&mut self, plane: &mut DataPlane) {
        for slot in plane.pools.ids() {
            self.check_fence(plane, slot);
            self.check_health(plane, slot);
            self.check_backing(plane, slot);
            self.check_files(plane, slot);
            self.check_pool_fill(plane, slot);
            self.check_scrub(plane, slot);
        }
        let exists = |id: VolumeId| plane.pools.iter().any(|(_, p)| p.store.volume(id).is_some());
        let pools = &self.configuration.pools;
        self.told.fills.retain(|name| pools.contains_key(name), exists);
        self.owed_scrubs.retain(|name| pools.contains_key(name));
        self.told.backing.retain(|name, _| self.configuration.pools.contains_key(name));
    }

    pub(super) fn check_health(&mut self, plane: &DataPlane, slot: PoolId) {
        let Some(pool) = plane.pools.get(slot) else { return };
        if let Health::ReadOnly { reason } = pool.health()
            && !self.told.read_only.contains(&pool.name)
        {
            self.told.read_only.push(pool.name.clone());
            self.alarm(&pool.name, format!("is read-only: {reason}"));
        }
    }

    /// Tells when the file system under a pool has less than the pool counts on, when new data is
    /// refused for that, and when it is over.
    fn check_backing(&mut self, plane: &mut DataPlane, slot: PoolId) {
        let Some(mut pool) = plane.pools.get_mut(slot) else { return };
        pool.look_at_backing();
        let (name, state) = (pool.name.clone(), pool.backing.state);
        let before = self.told.backing.insert(name.clone(), state).unwrap_or_default();
        let message = pool.backing.message(&pool.space()).unwrap_or_default();
        match (before, state) {
            (BackingState::Enough, BackingState::Enough)
            | (BackingState::Short, BackingState::Short)
            | (BackingState::Full, BackingState::Full) => {}
            (_, BackingState::Full) => self.alarm(&name, message),
            (BackingState::Enough, BackingState::Short) => self.warn(&name, message),
            (BackingState::Full, BackingState::Short) => {
                self.inform(&name, format!("new data is taken again: {message}"));
            }
            (BackingState::Full, BackingState::Enough) => {
                let end = "new data is taken again: the file systems under it have space for all";
                self.inform(&name, end.to_owned());
            }
            (BackingState::Short, BackingState::Enough) => {
                self.inform(&name, "the file systems under it have space for all again".to_owned());
            }
        }
    }

    fn check_pool_fill(&mut self, plane: &mut DataPlane, slot: PoolId) {
        let Some(mut pool) = plane.pools.get_mut(slot) else { return };
        let Some(configuration) = self.configuration.pools.get(&pool.name) else { return };
        let thresholds = configuration.thresholds;
        pool.soft_percent = thresholds.soft_percent;
        drop(pool);
        let Some(pool) = plane.pools.get(slot) else { return };
        let (fills, space) = (&mut self.told.fills, pool.space());
        let thin = thin(pool).map(|volume| volume.spec.id);
        let mut effects = fills.look_at_pool(&pool.name, &space, thresholds, thin);
        effects.extend(fills.look_at_metadata_reserve(&pool.name, &pool.store.space()));
        self.perform(plane, effects);
    }

    pub(super) fn check_volume_fill(&mut self, plane: &mut DataPlane, pool: PoolId, id: VolumeId) {
        let Some(pool) = plane.pools.get(pool) else { return };
        let Some(volume) = pool.store.volume(id).filter(can_run_out) else { return };
        let found = VolumeFill {
            pool: &pool.name,
            name: &volume.spec.name,
            mapped_bytes: volume.mapped_bytes,
            size_bytes: volume.spec.size_bytes,
            thresholds: self.configuration.volume_thresholds(id),
        };
        let effects = self.told.fills.look_at_volume(id, found);
        self.perform(plane, effects);
    }

    /// Thresholds may be others now: whoever was told is told again.
    pub(super) fn forget(&mut self, forgotten: Forgotten) {
        let fills = &mut self.told.fills;
        match forgotten {
            Forgotten::PoolFill(name) => fills.forget_pool(&name),
            Forgotten::VolumeFill(id) => fills.forget_volume(id),
            Forgotten::Fills => fills.forget_fills(),
            Forgotten::ScheduleProblem(name) => self.forget_schedule_problem(&name),
        }
    }

    pub(super) fn pool_fill(&self, name: &str) -> api::Fill {
        describe_fill(self.told.fills.pool(name))
    }

    pub(super) fn volume_fill(&self, id: VolumeId) -> api::Fill {
        describe_fill(self.told.fills.volume(id))
    }

    /// The latest events, oldest first.
    pub(super) fn list_events(&self) -> Progress {
        let events: Vec<Arc<Event>> = self.events.latest().cloned().collect();
        Progress::later(move || {
            events.into_iter().map(Arc::unwrap_or_clone).collect::<Vec<Event>>()
        })
    }

    /// A pool takes writes again: when it stops doing so, that is told again.
    pub(super) fn forget_read_only(&mut self, pool: &str) {
        self.told.read_only.retain(|name| name != pool);
        self.told.scrubbing.remove(pool);
    }

    /// Notes something about a pool that is good to know.
    pub(super) fn inform(&mut self, pool: &str, message: String) {
        self.events.note(Severity::Information, format!("pool {pool}"), message);
    }

    /// Notes something about a pool that an administrator should look into.
    pub(super) fn warn(&mut self, pool: &str, message: String) {
        self.events.note(Severity::Warning, format!("pool {pool}"), message);
    }

    /// Notes that a pool does not serve as it should.
    pub(super) fn alarm(&mut self, pool: &str, message: String) {
        self.events.note(Severity::Error, format!("pool {pool}"), message);
    }
}

/// Volumes that may run out of space while a host writes to them.
fn thin(pool: &Pool) -> impl Iterator<Item = &store::Volume> {
    pool.store.volumes().filter(can_run_out)
}

fn can_run_out(volume: &&store::Volume) -> bool {
    !volume.spec.thick && !volume.spec.snapshot && !is_hidden(volume)
}
