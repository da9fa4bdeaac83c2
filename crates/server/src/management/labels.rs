//! Routes for renaming volumes and snapshots.

use api::{Problem, ProblemKind, Rename};
use array::{Configuration, check_name};
use block::VolumeId;
use store::{Change, Failure, Outcome};

use super::problems::{failed, gone, problem, refused};
use super::volumes::{is_snapshot, is_snapshot_problem, is_volume_problem};
use super::{Management, Parameters, PoolStep, Progress, find, find_volume};
use crate::data_plane::DataPlane;
use crate::pools::PoolId;

impl Management {
    /// Gives a volume another name. Hosts notice nothing: they know it by its LUN and its NAA
    /// identifier. A schedule names its volumes, so one of those keeps its name.
    pub(super) fn rename_volume(
        &mut self,
        plane: &mut DataPlane,
        parameters: &Parameters,
        request: &Rename,
    ) -> Result<Progress, Problem> {
        let (pool, id) = find_volume(plane, parameters)?;
        if is_snapshot(plane, pool, id) {
            return Err(is_snapshot_problem());
        }
        let (of_pool, volume) = (parameters.get("pool"), parameters.get("volume"));
        self.check_unscheduled(of_pool, volume)?;
        self.rename(plane, of_pool, id, request)
    }

    /// Refuses what would leave a schedule without one of its volumes.
    fn check_unscheduled(&self, pool: &str, volume: &str) -> Result<(), Problem> {
        let schedules = |array: &Configuration| {
            let mut schedules = array.schedules.iter();
            let named = schedules.find(|(_, record)| {
                record.schedule.pool == pool && record.schedule.volumes.contains(volume)
            });
            named.map(|(name, _)| name.clone())
        };
        let versions = [&*self.configuration, self.saving.accepted()];
        let Some(name) = versions.into_iter().find_map(schedules) else { return Ok(()) };
        let detail =
            format!("schedule '{name}' names this volume: take it out of the schedule first");
        Err(problem(ProblemKind::InSchedule, &detail).with("schedule", name))
    }

    /// Gives a snapshot another name.
    pub(super) fn rename_snapshot(
        &mut self,
        plane: &mut DataPlane,
        parameters: &Parameters,
        request: &Rename,
    ) -> Result<Progress, Problem> {
        let (_, id) = find_snapshot(plane, parameters)?;
        self.rename(plane, parameters.get("pool"), id, request)
    }

    fn rename(
        &mut self,
        plane: &mut DataPlane,
        pool: &str,
        id: VolumeId,
        request: &Rename,
    ) -> Result<Progress, Problem> {
        check_name(&request.name).map_err(|error| refused(&error))?;
        let pool = self.ready_pool(plane, pool)?;
        self.check_stays(id)?;
        let change = Change::RenameVolume { id, name: request.name.clone() };
        Self::wait_for(plane, pool, change, PoolStep::RenameVolume { pool, id })
    }

    pub(super) fn volume_renamed(
        &self,
        plane: &DataPlane,
        pool: PoolId,
        id: VolumeId,
        result: Result<Outcome, Failure>,
    ) -> Result<Progress, Problem> {
        result.map_err(|failure| failed(&failure))?;
        self.show_either(plane, pool, id)
    }

    /// A volume or a snapshot, whichever it is.
    fn show_either(
        &self,
        plane: &DataPlane,
        pool: PoolId,
        id: VolumeId,
    ) -> Result<Progress, Problem> {
        let served = plane.pools.get(pool).ok_or_else(gone)?;
        match served.store.volume(id).filter(|volume| volume.spec.snapshot) {
            Some(snapshot) => Ok(Progress::answer(&self.snapshot(served, snapshot))),
            None => self.show_volume(plane, pool, id),
        }
    }
}

fn find_snapshot(
    plane: &DataPlane,
    parameters: &Parameters,
) -> Result<(PoolId, VolumeId), Problem> {
    let (pool, name) = (parameters.get("pool"), parameters.get("snapshot"));
    let (slot, id) = find(plane, "snapshot", pool, name)?;
    if is_snapshot(plane, slot, id) { Ok((slot, id)) } else { Err(is_volume_problem()) }
}
