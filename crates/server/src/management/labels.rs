//! Routes for renaming volumes and snapshots.

use api::{Problem, Rename};
use block::VolumeId;
use control::volume_lifecycle::{Named, rename};

use super::problems::gone;
use super::{Management, Parameters, Progress};
use crate::data_plane::DataPlane;
use crate::pools::PoolId;

impl Management {
    pub(super) fn rename_volume(
        &mut self,
        plane: &mut DataPlane,
        parameters: &Parameters,
        request: &Rename,
    ) -> Result<Progress, Problem> {
        let (pool, name) = parameters.volume();
        self.begin_procedure(plane, |view| rename(Named::Volume(pool, name), request, view))
    }

    pub(super) fn rename_snapshot(
        &mut self,
        plane: &mut DataPlane,
        parameters: &Parameters,
        request: &Rename,
    ) -> Result<Progress, Problem> {
        let (pool, name) = parameters.snapshot();
        self.begin_procedure(plane, |view| rename(Named::Snapshot(pool, name), request, view))
    }

    /// A volume or a snapshot, whichever it is.
    pub(super) fn show_either(
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
