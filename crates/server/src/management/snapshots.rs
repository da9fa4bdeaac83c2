//! Routes of snapshots and clones, and of reverting a volume.

use std::collections::HashMap;
use std::sync::Arc;

use api::{CloneVolume, CreateSnapshots, Problem, ProblemKind, RevertVolume, Route, Snapshot};
use array::{ArrayError, Configuration, Tagged};
use block::VolumeId;
use control::schedules::{Copy, copy_spec, presentation_of_copy};
use store::{Change, Failure, Outcome, Volume};

use super::describe::hexadecimal;
use super::gathering::{EachVolume, Scene};
use super::problems::{failed, gone, problem, refused};
use super::schedules::new_id;
use super::volumes::size_of;
use super::{Management, Parameters, PoolStep, Progress, find, find_volume};
use crate::data_plane::DataPlane;
use crate::described::Described;
use crate::events::now;
use crate::exports::ExportEvent;
use crate::pool::Pool;
use crate::pools::PoolId;
use crate::yielding::sort_by;

impl Management {
    /// All snapshots of the request are of one moment, or none is made.
    pub(super) fn create_snapshots(
        &mut self,
        plane: &mut DataPlane,
        request: &CreateSnapshots,
    ) -> Result<Progress, Problem> {
        let pool = self.ready_pool(plane, &request.pool)?;
        let members = request.snapshots.iter().map(|new| {
            let (_, source) = find(plane, "volume", &request.pool, &new.volume)?;
            Ok((source, copy_spec(&new.name, Copy::Snapshot, new_id()?, now())?))
        });
        let members = members.collect::<Result<Vec<_>, Problem>>()?;
        let ids: Vec<VolumeId> = members.iter().map(|(_, spec)| spec.id).collect();
        // The locks are there before the snapshots are.
        let change = |array: &mut Configuration| {
            for (source, spec) in &members {
                array.set_presentation(spec.id, presentation_of_copy(array, *source));
                if let Some(until) = request.locked_until {
                    array.lock_snapshot(&request.pool, spec.id, until, now())?;
                }
            }
            Ok(members)
        };
        self.change_unseen(change, move |_, plane, members| {
            let step = PoolStep::CreateSnapshots { pool, ids };
            Self::wait_for(plane, pool, Change::CloneVolumes(members), step)
        })
    }

    pub(super) fn snapshots_created(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        ids: &[VolumeId],
        result: Result<Outcome, Failure>,
    ) -> Result<Progress, Problem> {
        if let Err(failure) = result {
            return self.forget_presentations(ids.to_vec(), failed(&failure));
        }
        ids.iter().for_each(|&id| self.serve_volume(plane, pool, id));
        let pool = plane.pools.get(pool).ok_or_else(gone)?;
        let made = ids.iter().filter_map(|&id| pool.store.volume(id));
        let made: Vec<Snapshot> = made.map(|volume| self.snapshot(pool, volume)).collect();
        Ok(Progress::answer(&made))
    }

    pub(super) fn clone_volume(
        &mut self,
        plane: &mut DataPlane,
        parameters: &Parameters,
        request: &CloneVolume,
    ) -> Result<Progress, Problem> {
        let (_, source) = find_volume(plane, parameters)?;
        let pool = self.ready_pool(plane, parameters.get("pool"))?;
        let copy = if request.thick { Copy::Thick } else { Copy::Thin };
        let spec = copy_spec(&request.name, copy, new_id()?, now())?;
        let id = spec.id;
        let change = |array: &mut Configuration| {
            array.set_presentation(id, presentation_of_copy(array, source));
            Ok(())
        };
        self.change_unseen(change, move |_, plane, ()| {
            let change = Change::CloneVolumes(vec![(source, spec)]);
            Self::wait_for(plane, pool, change, PoolStep::CreateVolume { pool, id })
        })
    }

    /// Hosts keep in memory what they read and what they are going to write, so a volume changes
    /// under them only if the administrator says so.
    pub(super) fn revert_volume(
        &mut self,
        plane: &mut DataPlane,
        parameters: &Parameters,
        request: &RevertVolume,
    ) -> Result<Progress, Problem> {
        let (_, id) = find_volume(plane, parameters)?;
        let pool = self.ready_pool(plane, parameters.get("pool"))?;
        let (_, source) = find(plane, "snapshot", parameters.get("pool"), &request.snapshot)?;
        self.check_stays(id)?;
        let served = plane.pools.get(pool).ok_or_else(gone)?;
        let snapshot = served.store.volume(source).cloned();
        let Some(snapshot) = snapshot.filter(|snapshot| is_snapshot_of(snapshot, id)) else {
            let detail = format!(
                "'{}' is not a snapshot of this volume: name one of those, or make a volume of it, \
                 a clone",
                request.snapshot
            );
            let other = problem(ProblemKind::NotItsSnapshot, &detail);
            return Err(other.with("snapshot", request.snapshot.as_str()));
        };
        let versions = [&*self.configuration, self.saving.accepted()];
        let is_mapped = versions.iter().any(|array| array.check_unmapped(id).is_err());
        if !request.force && is_mapped {
            return Err(problem(
                ProblemKind::StillMapped,
                &"hosts may be using the volume, and it would change under them: \
                  unmap it first, or say 'force' if none of them has it open",
            ));
        }
        if snapshot.spec.size_bytes < size_of(plane, pool, id) {
            // Hosts must not see a size that the volume has no more.
            plane.exports.tell(&ExportEvent::Resized(id, snapshot.spec.size_bytes));
        }
        let change = Change::RevertVolume { volume: id, source };
        Self::wait_for(plane, pool, change, PoolStep::RevertVolume { pool, id })
    }

    pub(super) fn volume_reverted(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        id: VolumeId,
        result: Result<Outcome, Failure>,
    ) -> Result<Progress, Problem> {
        if result.is_ok() {
            plane.exports.tell(&ExportEvent::ContentReplaced(id));
        }
        self.volume_resized(plane, pool, id, result)
    }

    pub(super) fn describe_snapshot(
        &self,
        plane: &DataPlane,
        parameters: &Parameters,
    ) -> Result<Snapshot, Problem> {
        let (pool, name) = (parameters.get("pool"), parameters.get("snapshot"));
        let (slot, id) = find(plane, "snapshot", pool, name)?;
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

fn is_snapshot_of(snapshot: &Volume, volume: VolumeId) -> bool {
    snapshot.spec.snapshot && snapshot.origin == Some(volume)
}
