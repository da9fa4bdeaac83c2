//! Routes of snapshots and clones, and of reverting a volume.

use std::collections::HashMap;
use std::sync::Arc;

use api::{CloneVolume, CreateSnapshots, Problem, RevertVolume, Route, Snapshot};
use array::{ArrayError, Configuration, Tagged};
use block::VolumeId;
use control::snapshots;
use store::Volume;

use super::describe::hexadecimal;
use super::gathering::{EachVolume, Scene};
use super::problems::{gone, refused};
use super::{Management, Parameters, Progress};
use crate::data_plane::DataPlane;
use crate::described::Described;
use crate::events::now;
use crate::pool::Pool;
use crate::pools::PoolId;
use crate::yielding::sort_by;

impl Management {
    pub(super) fn create_snapshots(
        &mut self,
        plane: &mut DataPlane,
        request: &CreateSnapshots,
    ) -> Result<Progress, Problem> {
        self.begin_procedure(plane, |view| snapshots::create(request, now(), view))
    }

    pub(super) fn clone_volume(
        &mut self,
        plane: &mut DataPlane,
        parameters: &Parameters,
        request: &CloneVolume,
    ) -> Result<Progress, Problem> {
        let source = parameters.volume();
        self.begin_procedure(plane, |view| snapshots::clone_volume(source, request, now(), view))
    }

    pub(super) fn revert_volume(
        &mut self,
        plane: &mut DataPlane,
        parameters: &Parameters,
        request: &RevertVolume,
    ) -> Result<Progress, Problem> {
        self.begin_procedure(plane, |view| snapshots::revert(parameters.volume(), request, view))
    }

    pub(super) fn show_snapshots(
        &self,
        plane: &DataPlane,
        pool: PoolId,
        ids: &[VolumeId],
    ) -> Result<Progress, Problem> {
        let pool = plane.pools.get(pool).ok_or_else(gone)?;
        let made = ids.iter().filter_map(|&id| pool.store.volume(id));
        let made: Vec<Snapshot> = made.map(|volume| self.snapshot(pool, volume)).collect();
        Ok(Progress::answer(&made))
    }

    pub(super) fn describe_snapshot(
        &self,
        plane: &DataPlane,
        parameters: &Parameters,
    ) -> Result<Snapshot, Problem> {
        let (pool, name) = (parameters.get("pool"), parameters.get("snapshot"));
        let (slot, id) = self.find(plane, "snapshot", (pool, name))?;
        let pool = plane.pools.get(slot).ok_or_else(gone)?;
        let volume = pool.store.volume(id);
        let not_found =
            || refused(&ArrayError::NotFound { kind: "snapshot", name: name.to_owned() });
        Ok(self.snapshot(pool, volume.ok_or_else(not_found)?))
    }

    pub(super) fn snapshot(&self, pool: &Pool, volume: &Volume) -> Snapshot {
        let schedule = self.schedule_of(volume.spec.id);
        SnapshotFacts::new(pool, volume).describe(&self.configuration, schedule)
    }
}

/// Every snapshot.
pub(super) fn list_snapshots() -> Progress {
    let look = |_: &Management, scene: Scene<'_>, key: (PoolId, VolumeId)| {
        let (pool, volume) = scene.plane.volume(key)?;
        volume.spec.snapshot.then(|| SnapshotFacts::new(pool, volume))
    };
    let describe = |management: &Management, _: Scene<'_>, found: Vec<SnapshotFacts>| {
        let configuration = Arc::clone(&management.configuration);
        Described::list(move |list| {
            let schedules = makers(&configuration);
            let mut found = found;
            sort_by(&mut found, |a, b| a.key().cmp(&b.key()));
            for facts in found {
                let schedule = schedules.get(&facts.volume.spec.id).copied();
                list.push(&facts.describe(&configuration, schedule));
            }
        })
    };
    Progress::gather(Route::ListSnapshots, EachVolume::default(), look, describe)
}

/// The schedule that made each snapshot which one made.
fn makers(configuration: &Configuration) -> HashMap<VolumeId, &str> {
    let schedules = configuration.schedules.iter();
    let made = schedules.flat_map(|(name, record)| {
        let snapshots = record.runs().iter().flat_map(|run| run.snapshots());
        snapshots.map(move |snapshot| (snapshot, name.as_str()))
    });
    made.collect()
}

/// What the engine knows of a snapshot; the configuration knows the rest.
struct SnapshotFacts {
    pool: String,
    volume: Volume,
    origin: Option<String>,
}

impl SnapshotFacts {
    /// The order of the list.
    fn key(&self) -> impl Ord {
        (&self.pool, &self.origin, self.volume.spec.created, &self.volume.spec.name)
    }

    fn new(pool: &Pool, volume: &Volume) -> Self {
        let origin = volume.origin.and_then(|origin| pool.store.volume(origin));
        Self {
            pool: pool.name.clone(),
            volume: volume.clone(),
            origin: origin.map(|origin| origin.spec.name.clone()),
        }
    }

    fn describe(self, configuration: &Configuration, schedule: Option<&str>) -> Snapshot {
        let Self { pool, volume, origin } = self;
        Snapshot {
            pool,
            volume: origin,
            created: volume.spec.created,
            naa: format!("naa.{}", hexadecimal(&volume.spec.naa)),
            size_bytes: volume.spec.size_bytes,
            mapped_bytes: volume.mapped_bytes,
            shared_bytes: volume.shared_bytes(),
            lun: configuration.lun_of(volume.spec.id),
            hosts: configuration.hosts_of(volume.spec.id).map(str::to_owned).collect(),
            locked_until: configuration.locked_until(volume.spec.id),
            schedule: schedule.map(str::to_owned),
            tags: configuration.tags(Tagged::Volume(volume.spec.id)),
            name: volume.spec.name,
        }
    }
}
