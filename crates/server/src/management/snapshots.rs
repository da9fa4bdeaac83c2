//! Snapshots, clones, and volumes that take back what a snapshot kept.

use api::{CloneVolume, CreateSnapshots, Problem, RevertVolume, Snapshot};
use array::{ArrayError, Configuration, check_name, naa_identifier};
use block::VolumeId;
use store::{Change, Failure, Outcome, Volume, VolumeSpec};

use super::describe::hexadecimal;
use super::problems::{conflict, failed, gone, internal, refused};
use super::volumes::{presentation_of_copy, size_of};
use super::{Management, Parameters, Progress, Step, find, find_volume};
use crate::core::Core;
use crate::data_directory::random_u64;
use crate::events::now;
use crate::pool::Pool;
use crate::pools::PoolId;

impl Management {
    /// All snapshots of the request are of one moment, or none is made.
    pub(super) fn create_snapshots(
        &mut self,
        core: &mut Core,
        request: &CreateSnapshots,
    ) -> Result<Progress, Problem> {
        let pool = self.ready_pool(core, &request.pool)?;
        let members = request.snapshots.iter().map(|new| {
            let (_, source) = find(core, "volume", &request.pool, &new.volume)?;
            Ok((source, copy_spec(&new.name, true, false)?))
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
        self.change_unseen(change, move |_, core, members| {
            let step = Step::CreateSnapshots { pool, ids };
            Self::wait_for(core, pool, Change::CloneVolumes(members), step)
        })
    }

    pub(super) fn snapshots_created(
        &mut self,
        core: &mut Core,
        pool: PoolId,
        ids: &[VolumeId],
        result: Result<Outcome, Failure>,
    ) -> Result<Progress, Problem> {
        if let Err(failure) = result {
            return self.forget_presentations(ids.to_vec(), failed(&failure));
        }
        ids.iter().for_each(|&id| self.serve_volume(core, pool, id));
        let pool = core.pools.get(pool).ok_or_else(gone)?;
        let made = ids.iter().filter_map(|&id| pool.store.volume(id));
        let made: Vec<Snapshot> = made.map(|volume| self.snapshot(pool, volume)).collect();
        Ok(Progress::answer(&made))
    }

    pub(super) fn clone_volume(
        &mut self,
        core: &mut Core,
        parameters: &Parameters,
        request: &CloneVolume,
    ) -> Result<Progress, Problem> {
        let (_, source) = find_volume(core, parameters)?;
        let pool = self.ready_pool(core, parameters.get("pool"))?;
        let spec = copy_spec(&request.name, false, request.reserved)?;
        let id = spec.id;
        let change = |array: &mut Configuration| {
            array.set_presentation(id, presentation_of_copy(array, source));
            Ok(())
        };
        self.change_unseen(change, move |_, core, ()| {
            let change = Change::CloneVolumes(vec![(source, spec)]);
            Self::wait_for(core, pool, change, Step::CreateVolume { pool, id })
        })
    }

    /// Hosts keep in memory what they read and what they are going to write, so a volume changes
    /// under them only if the administrator says so.
    pub(super) fn revert_volume(
        &mut self,
        core: &mut Core,
        parameters: &Parameters,
        request: &RevertVolume,
    ) -> Result<Progress, Problem> {
        let (_, id) = find_volume(core, parameters)?;
        let pool = self.ready_pool(core, parameters.get("pool"))?;
        let (_, source) = find(core, "snapshot", parameters.get("pool"), &request.snapshot)?;
        self.check_stays(id)?;
        let served = core.pools.get(pool).ok_or_else(gone)?;
        let snapshot = served.store.volume(source).cloned();
        let Some(snapshot) = snapshot.filter(|snapshot| is_snapshot_of(snapshot, id)) else {
            return Err(conflict(&format!(
                "'{}' is not a snapshot of this volume: 'gantry snapshot list' shows them; \
                 'gantry volume clone' makes a volume of any of them",
                request.snapshot
            )));
        };
        let versions = [&*self.configuration, self.saving.accepted()];
        let is_mapped = versions.iter().any(|array| array.check_unmapped(id).is_err());
        if !request.force && is_mapped {
            return Err(conflict(
                &"hosts may be using the volume, and it would change under them: \
                  unmap it first, or add --force if none of them has it open",
            ));
        }
        if snapshot.size_bytes < size_of(core, pool, id) {
            // Hosts must not see a size that the volume has no more.
            core.device_server().resize_unit(id, snapshot.size_bytes);
        }
        let change = Change::RevertVolume { volume: id, source };
        Self::wait_for(core, pool, change, Step::RevertVolume { pool, id })
    }

    pub(super) fn volume_reverted(
        &mut self,
        core: &mut Core,
        pool: PoolId,
        id: VolumeId,
        result: Result<Outcome, Failure>,
    ) -> Result<Progress, Problem> {
        if result.is_ok() {
            core.device_server().announce_medium_change(id);
        }
        self.volume_resized(core, pool, id, result)
    }

    pub(super) fn describe_snapshots(&self, core: &Core) -> Vec<Snapshot> {
        let mut snapshots = Vec::new();
        for (_, pool) in core.pools.iter() {
            let found = pool.store.volumes().filter(|volume| volume.snapshot);
            snapshots.extend(found.map(|volume| self.snapshot(pool, volume)));
        }
        snapshots.sort_by(|a, b| {
            (&a.pool, &a.volume, a.created, &a.name).cmp(&(&b.pool, &b.volume, b.created, &b.name))
        });
        snapshots
    }

    pub(super) fn describe_snapshot(
        &self,
        core: &Core,
        parameters: &Parameters,
    ) -> Result<Snapshot, Problem> {
        let (pool, name) = (parameters.get("pool"), parameters.get("snapshot"));
        let (slot, id) = find(core, "snapshot", pool, name)?;
        let pool = core.pools.get(slot).ok_or_else(gone)?;
        let volume = pool.store.volume(id);
        let not_found =
            || refused(&ArrayError::NotFound { kind: "snapshot", name: name.to_owned() });
        Ok(self.snapshot(pool, volume.ok_or_else(not_found)?))
    }

    pub(super) fn snapshot(&self, pool: &Pool, volume: &Volume) -> Snapshot {
        let origin = volume.origin.and_then(|origin| pool.store.volume(origin));
        Snapshot {
            pool: pool.name.clone(),
            name: volume.name.clone(),
            volume: origin.map(|origin| origin.name.clone()),
            created: volume.created,
            naa: format!("naa.{}", hexadecimal(&volume.naa)),
            size_bytes: volume.size_bytes,
            mapped_bytes: volume.mapped_bytes,
            shared_bytes: volume.shared_bytes(),
            lun: self.configuration.lun_of(volume.id),
            hosts: self.configuration.hosts_of(volume.id).map(str::to_owned).collect(),
            locked_until: self.configuration.locked_until(volume.id),
            schedule: self.schedule_of(volume.id).map(str::to_owned),
        }
    }
}

fn is_snapshot_of(snapshot: &Volume, volume: VolumeId) -> bool {
    snapshot.snapshot && snapshot.origin == Some(volume)
}

/// What is said of a new snapshot or clone; its size is its source's.
pub(super) fn copy_spec(name: &str, snapshot: bool, reserved: bool) -> Result<VolumeSpec, Problem> {
    check_name(name).map_err(|error| refused(&error))?;
    let id = VolumeId(random_u64().map_err(|error| internal(&error))?);
    Ok(VolumeSpec {
        id,
        name: name.to_owned(),
        size_bytes: 0,
        reserved,
        naa: naa_identifier(id),
        snapshot,
        created: now(),
    })
}
